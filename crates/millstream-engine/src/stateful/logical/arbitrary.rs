//! `transformWithState` and `applyInPandasWithState`: rows by key through a program that keeps state.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{Fields, Schema};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use millstream_core::sink::OutputMode;
use millstream_core::{Error, Result};

use super::super::arbitrary::{GroupFunction, GroupTimeout, ProcessorRuntime, TimeMode};
use super::watermark::{is_event_time, marked};
use super::{Watermark, event_time_delay};
use crate::batch_time::BatchTime;
use crate::{from_datafusion, to_datafusion};

/// Hands rows to a program, key by key. Everything of the input is needed, and nothing is moved through it.
#[derive(Clone, Debug)]
pub struct Arbitrary {
    /// The rows and, for a processor with an initial state, the rows of that.
    pub(crate) inputs: Vec<LogicalPlan>,
    /// For each input the columns of its grouping key.
    pub(crate) keys: Vec<Vec<usize>>,
    pub(crate) program: Program,
    /// How the program's rows relate to those that were given out before.
    pub(crate) output_mode: OutputMode,
    /// The time of the batch.
    pub(crate) time: BatchTime,
    schema: DFSchemaRef,
}

/// The program.
#[derive(Clone, Debug)]
pub(crate) enum Program {
    Processor(Arc<dyn ProcessorRuntime>, TimeMode),
    GroupState { function: Arc<dyn GroupFunction>, timeout: GroupTimeout, state: Fields },
}

impl Program {
    fn address(&self) -> usize {
        match self {
            Program::Processor(runtime, _) => Arc::as_ptr(runtime).cast::<()>() as usize,
            Program::GroupState { function, .. } => Arc::as_ptr(function).cast::<()>() as usize,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Program::Processor(runtime, _) => runtime.operator_name(),
            Program::GroupState { function, .. } => function.operator_name(),
        }
    }
}

impl Arbitrary {
    /// A stateful processor over `input`, grouped by the columns `keys`. Its rows have the columns of `output`.
    ///
    /// # Errors
    /// `UNRESOLVED_COLUMN` when a key is not a column of the input.
    pub fn processor(
        input: LogicalPlan,
        keys: impl IntoIterator<Item = Column>,
        runtime: Arc<dyn ProcessorRuntime>,
        (time_mode, output_mode): (TimeMode, OutputMode),
        output: Schema,
    ) -> Result<Arbitrary> {
        Self::over(input, keys, Program::Processor(runtime, time_mode), output_mode, output)
    }

    /// A function over `input`, grouped by the columns `keys`, that has one state with these fields for each group.
    ///
    /// # Errors
    /// `UNRESOLVED_COLUMN` when a key is not a column of the input.
    pub fn group_state(
        input: LogicalPlan,
        keys: impl IntoIterator<Item = Column>,
        function: Arc<dyn GroupFunction>,
        (timeout, output_mode): (GroupTimeout, OutputMode),
        (state, output): (Fields, Schema),
    ) -> Result<Arbitrary> {
        Self::over(input, keys, Program::GroupState { function, timeout, state }, output_mode, output)
    }

    fn over(
        input: LogicalPlan,
        keys: impl IntoIterator<Item = Column>,
        program: Program,
        output_mode: OutputMode,
        output: Schema,
    ) -> Result<Arbitrary> {
        let keys = vec![positions(&input, keys)?];
        let schema = Arc::new(DFSchema::try_from(output).map_err(from_datafusion)?);
        Ok(Arbitrary { inputs: vec![input], keys, program, output_mode, time: BatchTime::default(), schema })
    }

    /// The same processor with an initial state: the first batch hands it the rows of `initial`, grouped by the columns `keys`, first.
    ///
    /// # Errors
    /// `UNRESOLVED_COLUMN` when a key is not a column; `STATEFUL_PROCESSOR_INITIAL_STATE_KEY_MISMATCH` for keys of other types.
    pub fn with_initial_state(mut self, initial: LogicalPlan, keys: impl IntoIterator<Item = Column>) -> Result<Arbitrary> {
        let keys = positions(&initial, keys)?;
        let types = |plan: &LogicalPlan, keys: &[usize]| -> Vec<_> {
            keys.iter().filter_map(|key| plan.schema().fields().get(*key)).map(|field| field.data_type().clone()).collect()
        };
        let own = self.inputs.first().zip(self.keys.first()).map(|(input, keys)| types(input, keys)).unwrap_or_default();
        let given = types(&initial, &keys);
        if own != given {
            return Err(Error::invalid(
                "STATEFUL_PROCESSOR_INITIAL_STATE_KEY_MISMATCH",
                format!("the initial state is grouped by columns of the types {given:?} and the rows by {own:?}: group both by the same"),
            ));
        }
        self.inputs.truncate(1);
        self.keys.truncate(1);
        self.inputs.push(initial);
        self.keys.push(keys);
        Ok(self)
    }

    /// The same node whose output column `name` is event time, at the delay of the watermark below.
    ///
    /// # Errors
    /// `CANNOT_ASSIGN_EVENT_TIME_COLUMN_WITHOUT_WATERMARK` without one; `UNRESOLVED_COLUMN.WITH_SUGGESTION` when there is no such column, and
    /// `EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE` when it is no instant.
    pub fn with_event_time(mut self, name: &str) -> Result<Arbitrary> {
        let Some(delay_ms) = self.inputs.first().map(delay_below).transpose()?.flatten() else {
            return Err(Error::invalid(
                "CANNOT_ASSIGN_EVENT_TIME_COLUMN_WITHOUT_WATERMARK",
                format!("the column '{name}' cannot be event time, as the stream has no watermark: add withWatermark to it"),
            )
            .with_sqlstate("42611"));
        };
        let Some(index) = self.schema.fields().iter().position(|field| field.name() == name) else {
            return Err(Error::invalid("UNRESOLVED_COLUMN.WITH_SUGGESTION", format!("the output has no column '{name}' to be event time"))
                .with_sqlstate("42703"));
        };
        let data_type = self.schema.field(index).data_type();
        if !is_event_time(data_type) {
            return Err(Error::invalid(
                "EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE",
                format!("The event time {name} has the invalid type {data_type}, but expected \"TIMESTAMP\"."),
            )
            .with_sqlstate("42K09"));
        }
        let fields = self.schema.iter().enumerate().map(|(at, (qualifier, field))| {
            let delay = (at == index).then_some(delay_ms);
            (qualifier.cloned(), Arc::new(marked(field, delay)))
        });
        let schema = DFSchema::new_with_metadata(fields.collect(), self.schema.metadata().clone()).map_err(from_datafusion)?;
        self.schema = Arc::new(schema);
        Ok(self)
    }

    /// The node as a plan.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    /// The plan's node, if it is one of these.
    pub(crate) fn of(plan: &LogicalPlan) -> Option<&Arbitrary> {
        match plan {
            LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
            _ => None,
        }
    }

    /// The schema of its rows.
    pub fn output(&self) -> &DFSchemaRef {
        &self.schema
    }

    /// The same node, reading this time.
    pub(crate) fn at(&self, time: &BatchTime) -> Arbitrary {
        Arbitrary { time: time.clone(), ..self.clone() }
    }

    /// Whether the rows have event time.
    pub(crate) fn input_has_event_time(&self) -> bool {
        self.inputs.first().is_some_and(|input| input.schema().fields().iter().any(|field| event_time_delay(field).is_some()))
    }
}

fn positions(input: &LogicalPlan, keys: impl IntoIterator<Item = Column>) -> Result<Vec<usize>> {
    keys.into_iter().map(|key| input.schema().index_of_column(&key).map_err(from_datafusion)).collect()
}

/// The delay of the first watermark from the top.
fn delay_below(plan: &LogicalPlan) -> Result<Option<i64>> {
    let mut delay = None;
    let walk = plan.apply(|node| {
        if let LogicalPlan::Extension(extension) = node
            && let Some(watermark) = extension.node.as_any().downcast_ref::<Watermark>()
        {
            delay = Some(watermark.delay_ms);
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walk.map_err(from_datafusion)?;
    Ok(delay)
}

impl PartialEq for Arbitrary {
    fn eq(&self, other: &Self) -> bool {
        self.program.address() == other.program.address() && self.keys == other.keys && self.inputs == other.inputs
    }
}

impl Eq for Arbitrary {}

impl Hash for Arbitrary {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.program.address(), &self.keys, &self.inputs).hash(state);
    }
}

impl PartialOrd for Arbitrary {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.inputs.partial_cmp(&other.inputs) {
            Some(Ordering::Equal) => self.keys.partial_cmp(&other.keys),
            order => order,
        }
    }
}

impl UserDefinedLogicalNodeCore for Arbitrary {
    fn name(&self) -> &'static str {
        "Arbitrary"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        self.inputs.iter().collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {} mode, keys={:?}", self.program.name(), self.output_mode, self.keys)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> DfResult<Self> {
        if inputs.len() != self.inputs.len() {
            return Err(to_datafusion(Error::internal(format!("a node with {} inputs was given {}", self.inputs.len(), inputs.len()))));
        }
        Ok(Arbitrary { inputs, ..self.clone() })
    }
}
