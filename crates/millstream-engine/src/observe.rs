//! Observed metrics: aggregates over the rows that pass a point of a plan (`Dataset.observe`).

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Field, Fields, Schema, SchemaRef};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::TaskContext;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Accumulator, Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::aggregate::{AggregateFunctionExpr, LoweredAggregateBuilder};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties, ReplaceChildrenOptions,
    SendableRecordBatchStream,
};
use datafusion::scalar::ScalarValue;
use futures::{StreamExt, stream};
use millstream_core::Result;
use parking_lot::Mutex;

use crate::from_datafusion;

/// Lets rows pass and computes metrics over them.
#[derive(Clone, Debug)]
pub struct Observe {
    input: LogicalPlan,
    name: String,
    /// Expressions whose only columns are inside aggregates.
    metrics: Vec<Expr>,
    /// The metrics as the user knows them.
    fields: Fields,
}

/// What a plan observed.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The name of the observation.
    pub name: String,
    /// The metrics.
    pub fields: Fields,
    /// Their values, in the same order.
    pub values: Vec<ScalarValue>,
}

impl Observe {
    /// An observation of `input` under a name. `fields` names the metrics and gives their types.
    pub fn new(input: LogicalPlan, name: impl Into<String>, metrics: Vec<Expr>, fields: Fields) -> Observe {
        Observe { input, name: name.into(), metrics, fields }
    }

    /// The node as a plan.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    /// The name and the metrics, for telling whether two observations are the same.
    pub fn identity(&self) -> (&str, &[Expr]) {
        (&self.name, &self.metrics)
    }
}

impl PartialEq for Observe {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.metrics, &self.input) == (&other.name, &other.metrics, &other.input)
    }
}

impl Eq for Observe {}

impl Hash for Observe {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.name, &self.metrics, &self.input).hash(state);
    }
}

impl PartialOrd for Observe {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.input.partial_cmp(&other.input) {
            Some(Ordering::Equal) => (&self.name, &self.metrics).partial_cmp(&(&other.name, &other.metrics)),
            order => order,
        }
    }
}

impl UserDefinedLogicalNodeCore for Observe {
    fn name(&self) -> &'static str {
        "Observe"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        self.metrics.clone()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let metrics = self.metrics.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        write!(f, "Observe: {}=[{metrics}]", self.name)
    }

    fn with_exprs_and_inputs(&self, metrics: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> DfResult<Self> {
        match inputs.pop() {
            Some(input) if inputs.is_empty() => Ok(Observe { input, metrics, ..self.clone() }),
            _ => Err(DataFusionError::Internal("an observation has one input".to_owned())),
        }
    }
}

/// Lowers the node over its planned input.
///
/// # Errors
/// Those of lowering the metrics.
pub(crate) fn plan(
    node: &Observe,
    input: &Arc<dyn ExecutionPlan>,
    properties: &ExecutionProps,
    context: &PhysicalPlanningContext,
) -> DfResult<Arc<dyn ExecutionPlan>> {
    let mut aggregates: Vec<Expr> = Vec::new();
    let mut results = Vec::with_capacity(node.metrics.len());
    for metric in &node.metrics {
        let over_results = metric.clone().transform_down(|expr| {
            if !matches!(expr, Expr::AggregateFunction(_)) {
                return Ok(Transformed::no(expr));
            }
            let place = aggregates.iter().position(|known| *known == expr).unwrap_or_else(|| {
                aggregates.push(expr);
                aggregates.len() - 1
            });
            Ok(Transformed::new(Expr::Column(Column::new_unqualified(place.to_string())), true, TreeNodeRecursion::Jump))
        })?;
        results.push(over_results.data);
    }
    let physical = input.schema();
    let mut functions = Vec::with_capacity(aggregates.len());
    for (place, aggregate) in aggregates.iter().enumerate() {
        let lowered = LoweredAggregateBuilder::new(aggregate, node.input.schema(), &physical, properties, context);
        let lowered = lowered.with_name(place.to_string()).build()?;
        functions.push(Function { aggregate: lowered.aggregate, filter: lowered.filter });
    }
    let totals = Schema::new(functions.iter().map(|function| function.aggregate.field()).collect::<Vec<_>>());
    let known = DFSchema::try_from(totals.clone())?;
    let results = results.iter().map(|result| create_physical_expr(result, &known, properties, context)).collect::<DfResult<Vec<_>>>()?;
    let metrics = Metrics { name: node.name.clone(), fields: node.fields.clone(), functions, totals: Arc::new(totals), results };
    let watched = Arc::new(Watched { merged: Mutex::new(metrics.accumulators()?), metrics });
    Ok(Arc::new(ObserveExec { input: input.clone(), watched }))
}

/// An aggregate of an observation.
#[derive(Debug)]
struct Function {
    aggregate: Arc<AggregateFunctionExpr>,
    filter: Option<Arc<dyn PhysicalExpr>>,
}

impl Function {
    fn update(&self, accumulator: &mut dyn Accumulator, rows: &RecordBatch) -> DfResult<()> {
        let filtered;
        let rows = match &self.filter {
            None => rows,
            Some(filter) => {
                let kept = filter.evaluate(rows)?.into_array(rows.num_rows())?;
                filtered = filter_record_batch(rows, as_boolean_array(&kept)?)?;
                &filtered
            }
        };
        let arguments = self.aggregate.expressions();
        let arguments = arguments.iter().map(|argument| argument.evaluate(rows)?.into_array(rows.num_rows()));
        accumulator.update_batch(&arguments.collect::<DfResult<Vec<_>>>()?)
    }
}

/// What an observation computes.
#[derive(Debug)]
struct Metrics {
    name: String,
    fields: Fields,
    functions: Vec<Function>,
    /// The results of the aggregates.
    totals: SchemaRef,
    /// The metrics, over those.
    results: Vec<Arc<dyn PhysicalExpr>>,
}

type Accumulators = Vec<Box<dyn Accumulator>>;

impl Metrics {
    fn accumulators(&self) -> DfResult<Accumulators> {
        self.functions.iter().map(|function| function.aggregate.create_accumulator()).collect()
    }

    fn update(&self, accumulators: &mut Accumulators, rows: &RecordBatch) -> DfResult<()> {
        self.functions.iter().zip(accumulators).try_for_each(|(function, accumulator)| function.update(accumulator.as_mut(), rows))
    }
}

/// An observation while rows pass, shared by the partitions of a plan and by whoever reads it.
#[derive(Debug)]
struct Watched {
    metrics: Metrics,
    /// Everything of the partitions that have ended.
    merged: Mutex<Accumulators>,
}

impl Watched {
    fn merge(&self, mut ended: Accumulators) -> DfResult<()> {
        let mut merged = self.merged.lock();
        for (total, part) in merged.iter_mut().zip(&mut ended) {
            let state = part.state()?.iter().map(ScalarValue::to_array).collect::<DfResult<Vec<ArrayRef>>>()?;
            total.merge_batch(&state)?;
        }
        Ok(())
    }

    fn reset(&self) -> DfResult<()> {
        *self.merged.lock() = self.metrics.accumulators()?;
        Ok(())
    }

    fn observed(&self) -> DfResult<Observed> {
        let metrics = &self.metrics;
        let totals = self.merged.lock().iter_mut().map(|total| total.evaluate()?.to_array()).collect::<DfResult<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let totals = RecordBatch::try_new_with_options(metrics.totals.clone(), totals, &options)?;
        let value = |result: &Arc<dyn PhysicalExpr>| ScalarValue::try_from_array(&result.evaluate(&totals)?.into_array(1)?, 0);
        let values = metrics.results.iter().map(value).collect::<DfResult<Vec<_>>>()?;
        Ok(Observed { name: metrics.name.clone(), fields: metrics.fields.clone(), values })
    }
}

/// Lets rows pass and computes metrics over them.
#[derive(Debug)]
struct ObserveExec {
    input: Arc<dyn ExecutionPlan>,
    watched: Arc<Watched>,
}

impl DisplayAs for ObserveExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.watched.metrics.fields.iter().map(|field: &Arc<Field>| field.name().as_str()).collect();
        write!(f, "ObserveExec: {}=[{}]", self.watched.metrics.name, names.join(", "))
    }
}

impl ExecutionPlan for ObserveExec {
    fn name(&self) -> &'static str {
        "ObserveExec"
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
        for function in &self.watched.metrics.functions {
            for argument in function.aggregate.expressions().iter().chain(&function.filter) {
                if visit(argument)? == TreeNodeRecursion::Stop {
                    return Ok(TreeNodeRecursion::Stop);
                }
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
            Some(input) if children.is_empty() => Ok(Arc::new(ObserveExec { input, watched: self.watched.clone() })),
            _ => Err(DataFusionError::Internal("ObserveExec has one child".to_owned())),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let watched = self.watched.clone();
        let accumulators = watched.metrics.accumulators()?;
        let input = self.input.execute(partition, context)?;
        let rows = stream::unfold(Some((input, accumulators)), move |state| {
            let watched = watched.clone();
            async move {
                let (mut input, mut accumulators) = state?;
                match input.next().await {
                    Some(Ok(batch)) => match watched.metrics.update(&mut accumulators, &batch) {
                        Ok(()) => Some((Ok(batch), Some((input, accumulators)))),
                        Err(error) => Some((Err(error), None)),
                    },
                    Some(Err(error)) => Some((Err(error), None)),
                    None => watched.merge(accumulators).err().map(|error| (Err(error), None)),
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// Forgets what the observations of a plan have seen, before it runs again.
///
/// # Errors
/// Those of DataFusion's accumulators.
pub(crate) fn reset(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    each(plan, &mut |watched| watched.reset()).map_err(from_datafusion)
}

/// What the observations of a plan that ran to its end have seen, from the top down; each name once.
///
/// # Errors
/// Those of evaluating the metrics.
pub fn observed(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<Observed>> {
    let mut all: Vec<Observed> = Vec::new();
    let collected = each(plan, &mut |watched| {
        if !all.iter().any(|known| known.name == watched.metrics.name) {
            all.push(watched.observed()?);
        }
        Ok(())
    });
    collected.map_err(from_datafusion)?;
    Ok(all)
}

fn each(plan: &Arc<dyn ExecutionPlan>, visit: &mut dyn FnMut(&Watched) -> DfResult<()>) -> DfResult<()> {
    if let Some(observe) = (plan.as_ref() as &dyn Any).downcast_ref::<ObserveExec>() {
        visit(&observe.watched)?;
    }
    plan.children().into_iter().try_for_each(|child| each(child, visit))
}
