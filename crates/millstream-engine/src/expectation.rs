//! Expectations: predicates that the rows of a table should satisfy, counted for every batch.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties, ReplaceChildrenOptions,
    SendableRecordBatchStream,
};
use futures::StreamExt;
use millstream_core::progress::ExpectationProgress;
use millstream_core::{Error, ErrorKind, Result};

use crate::{from_datafusion, to_datafusion};

/// What happens to rows that do not satisfy an expectation. A null result counts as not satisfied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnViolation {
    /// They are kept and counted.
    #[default]
    Keep,
    /// They are left out and counted.
    DropRow,
    /// The batch fails and nothing of it becomes visible.
    FailUpdate,
}

/// An expectation on the rows that reach the sink.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// Its name, unique per table.
    pub name: String,
    /// The predicate, over the columns of the result.
    pub predicate: Expr,
    /// What happens to rows that do not satisfy it.
    pub on_violation: OnViolation,
}

/// The counters of one expectation in the running batch.
#[derive(Debug, Default)]
struct Counter {
    passed: AtomicU64,
    failed: AtomicU64,
}

#[derive(Debug)]
struct Check {
    name: String,
    text: String,
    predicate: Arc<dyn PhysicalExpr>,
    on_violation: OnViolation,
    counter: Counter,
}

/// The expectations of one query, compiled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checks(Arc<Vec<Check>>);

impl Checks {
    /// Compiles expectations against the schema of the result.
    ///
    /// # Errors
    /// Those of planning the predicates: unknown columns, wrong types.
    pub(crate) fn compile(expectations: &[Expectation], schema: &DFSchema, state: &SessionState) -> Result<Self> {
        let compile = |expectation: &Expectation| {
            let predicate = state
                .create_physical_expr(expectation.predicate.clone(), schema)
                .map_err(|error| from_datafusion(error).within(format!("expectation '{}'", expectation.name)))?;
            Ok(Check {
                name: expectation.name.clone(),
                text: expectation.predicate.to_string(),
                predicate,
                on_violation: expectation.on_violation,
                counter: Counter::default(),
            })
        };
        Ok(Checks(Arc::new(expectations.iter().map(compile).collect::<Result<_>>()?)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Starts a batch.
    pub(crate) fn reset(&self) {
        for check in self.0.iter() {
            check.counter.passed.store(0, Ordering::Relaxed);
            check.counter.failed.store(0, Ordering::Relaxed);
        }
    }

    /// What the batch counted, by name.
    pub(crate) fn counts(&self) -> std::collections::BTreeMap<String, ExpectationProgress> {
        let count = |check: &Check| ExpectationProgress {
            passed: check.counter.passed.load(Ordering::Relaxed),
            failed: check.counter.failed.load(Ordering::Relaxed),
        };
        self.0.iter().map(|check| (check.name.clone(), count(check))).collect()
    }

    /// Counts every expectation on every row, then leaves out the rows that an expectation drops.
    fn apply(&self, batch: RecordBatch) -> DfResult<RecordBatch> {
        let mut keep: Option<BooleanArray> = None;
        for check in self.0.iter() {
            let result = check.predicate.evaluate(&batch)?.into_array(batch.num_rows())?;
            let result = result.as_boolean_opt().ok_or_else(|| {
                to_datafusion(Error::invalid(
                    "INVALID_EXPECTATION",
                    format!("expectation '{}' ({}) is not a boolean expression", check.name, check.text),
                ))
            })?;
            let satisfied = match result.nulls() {
                Some(nulls) => BooleanArray::new(result.values() & nulls.inner(), None),
                None => result.clone(),
            };
            let passed = satisfied.true_count() as u64;
            let failed = satisfied.len() as u64 - passed;
            check.counter.passed.fetch_add(passed, Ordering::Relaxed);
            check.counter.failed.fetch_add(failed, Ordering::Relaxed);
            match check.on_violation {
                OnViolation::FailUpdate if failed > 0 => return Err(to_datafusion(violated(check, failed))),
                OnViolation::DropRow if failed > 0 => {
                    keep = Some(match keep {
                        Some(keep) => arrow::compute::and(&keep, &satisfied).map_err(DataFusionError::from)?,
                        None => satisfied,
                    });
                }
                _ => {}
            }
        }
        match keep {
            Some(keep) => filter_record_batch(&batch, &keep).map_err(DataFusionError::from),
            None => Ok(batch),
        }
    }
}

fn violated(check: &Check, failed: u64) -> Error {
    Error::new(
        ErrorKind::BadRecord,
        "EXPECTATION_VIOLATED",
        format!(
            "{failed} row(s) violate expectation '{}' ({}), which is ON VIOLATION FAIL UPDATE. Nothing of this batch was written. \
             Fix the rows at their source, or change the expectation to drop or keep them.",
            check.name, check.text
        ),
    )
}

/// Applies expectations to the rows of its input.
#[derive(Debug)]
pub(crate) struct ExpectationExec {
    input: Arc<dyn ExecutionPlan>,
    checks: Checks,
}

impl ExpectationExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, checks: Checks) -> Self {
        ExpectationExec { input, checks }
    }
}

impl DisplayAs for ExpectationExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.checks.0.iter().map(|check| check.name.as_str()).collect();
        write!(f, "ExpectationExec: [{}]", names.join(", "))
    }
}

impl ExecutionPlan for ExpectationExec {
    fn name(&self) -> &'static str {
        "ExpectationExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        for check in self.checks.0.iter() {
            if visit(&check.predicate)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) if children.is_empty() => Ok(Arc::new(ExpectationExec { input, checks: self.checks.clone() })),
            _ => Err(DataFusionError::Internal("ExpectationExec has one child".to_owned())),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let checks = self.checks.clone();
        let rows = self.input.execute(partition, context)?.map(move |batch| batch.and_then(|batch| checks.apply(batch)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
