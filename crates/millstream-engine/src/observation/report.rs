//! Plans observations, and reads what they saw.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DfResult;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::physical_expr::aggregate::LoweredAggregateBuilder;
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_plan::ExecutionPlan;
use millstream_core::Result;

use super::exec::{Aggregated, Observation, ObserveExec};
use super::node::Observe;
use crate::from_datafusion;

/// What an observation saw.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The name of the observation.
    pub name: String,
    /// One row: its metrics.
    pub metrics: RecordBatch,
}

/// What the observations in a plan saw since they were last asked, by name in plan order.
///
/// # Errors
/// Those of computing the metrics.
pub fn observed(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<Observed>> {
    let mut found: Vec<Observed> = Vec::new();
    plan.apply(|node| {
        if let Some(observe) = node.downcast_ref::<ObserveExec>() {
            found.push(metrics(&observe.observation)?);
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(from_datafusion)?;
    Ok(found)
}

fn metrics(observation: &Observation) -> DfResult<Observed> {
    let one = RecordBatchOptions::new().with_row_count(Some(1));
    let mut accumulators = observation.take()?;
    let values =
        accumulators.iter_mut().map(|accumulator| accumulator.evaluate()?.to_array()).collect::<DfResult<Vec<ArrayRef>>>()?;
    let aggregated = RecordBatch::try_new_with_options(observation.aggregated.clone(), values, &one)?;
    let mut fields: Vec<Field> = Vec::with_capacity(observation.metrics.len());
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(observation.metrics.len());
    for (name, metric) in &observation.metrics {
        let value = metric.evaluate(&aggregated)?.into_array(1)?;
        fields.push(Field::new(name, value.data_type().clone(), true));
        columns.push(value);
    }
    let metrics = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &one)?;
    Ok(Observed { name: observation.name.clone(), metrics })
}

impl ObserveExec {
    /// The physical node of a logical one.
    pub(crate) fn planned(
        node: &Observe,
        input: &Arc<dyn ExecutionPlan>,
        properties: &ExecutionProps,
        context: &PhysicalPlanningContext,
    ) -> DfResult<ObserveExec> {
        let physical = input.schema();
        let mut aggregates = Vec::with_capacity(node.aggregates.len());
        for aggregate in &node.aggregates {
            let lowered = LoweredAggregateBuilder::new(aggregate, node.input.schema(), &physical, properties, context).build()?;
            aggregates.push(Aggregated { function: lowered.aggregate, filter: lowered.filter });
        }
        let mut metrics = Vec::with_capacity(node.metrics.len());
        for metric in &node.metrics {
            let (_, name) = metric.qualified_name();
            metrics.push((name, create_physical_expr(&metric.clone().unalias(), &node.aggregated, properties, context)?));
        }
        let fields: Vec<Field> = aggregates.iter().map(|aggregate| aggregate.function.field().as_ref().clone().with_nullable(true)).collect();
        let observation = Observation::new(node.name.clone(), aggregates, metrics, Arc::new(Schema::new(fields)));
        Ok(ObserveExec::new(input.clone(), Arc::new(observation)))
    }
}
