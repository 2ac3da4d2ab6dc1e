//! Aggregating by slice instead of by window.

use std::sync::Arc;

use datafusion::error::Result as DfResult;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::filter::FilterExecBuilder;
use datafusion::physical_plan::projection::ProjectionExec;
use millstream_core::Error;

use super::SlidingExec;
use crate::stateful::logical::Slide;
use crate::stateful::planner::as_node;
use crate::to_datafusion;

/// Functions of DataFusion that do not say of themselves that the order of their rows does not matter.
const UNORDERED: [&str; 5] = ["count", "avg", "bit_and", "bit_or", "bit_xor"];

/// How a partial aggregation over windows can be one over slices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slicing {
    /// The key that is the window.
    pub(crate) position: usize,
    pub(crate) slide: Slide,
    /// Whether the order of rows matters to a function, so that windows must not be put together from slices.
    pub(crate) ordered: bool,
}

/// How this partial aggregation can be one over slices; `None` where it has no window among its keys, or where something else looks at the
/// window.
pub(crate) fn slicing(partial: &Arc<dyn ExecutionPlan>) -> DfResult<Option<Slicing>> {
    let Some(aggregate) = as_node::<AggregateExec>(partial) else { return Ok(None) };
    let groups = aggregate.group_expr();
    if !groups.is_single() {
        return Ok(None);
    }
    let arguments = aggregate.aggr_expr().iter().flat_map(|function| function.all_expressions().args);
    let looked_at: Vec<PhysicalExprRef> = arguments.chain(aggregate.filter_expr().iter().flatten().cloned()).collect();
    for (position, (key, _)) in groups.expr().iter().enumerate() {
        let Some(column) = column_of(key) else { continue };
        let others = groups.expr().iter().enumerate().filter(|(other, _)| *other != position).map(|(_, (other, _))| other);
        if others.chain(&looked_at).any(|expr| uses(expr, column)) {
            continue;
        }
        if let Some((slide, _)) = sliced(aggregate.input(), column)? {
            let ordered = !aggregate.aggr_expr().iter().all(|function| commutes(function));
            return Ok(Some(Slicing { position, slide, ordered }));
        }
    }
    Ok(None)
}

impl Slicing {
    /// The same partial aggregation by slice: the begin of the slice is the key in place of the window.
    ///
    /// # Errors
    /// Those of DataFusion.
    pub(crate) fn by_slice(&self, partial: &Arc<dyn ExecutionPlan>) -> DfResult<Arc<dyn ExecutionPlan>> {
        let lost = || to_datafusion(Error::internal("an aggregation over windows has lost them"));
        let aggregate = as_node::<AggregateExec>(partial).ok_or_else(lost)?;
        let key = aggregate.group_expr().expr().get(self.position).and_then(|(key, _)| column_of(key)).ok_or_else(lost)?;
        let (_, input) = sliced(aggregate.input(), key)?.ok_or_else(lost)?;
        let schema = input.schema();
        Ok(Arc::new(AggregateExec::try_new(
            *aggregate.mode(),
            aggregate.group_expr().clone(),
            aggregate.aggr_expr().to_vec(),
            aggregate.filter_expr().to_vec(),
            input,
            schema,
        )?))
    }

    /// The partial aggregation by slice with the window put back in its place; for windows that do not overlap.
    ///
    /// # Errors
    /// As [`Slicing::by_slice`].
    pub(crate) fn by_slice_as_window(&self, partial: &Arc<dyn ExecutionPlan>) -> DfResult<Arc<dyn ExecutionPlan>> {
        let sliced = self.by_slice(partial)?;
        Ok(Arc::new(SlidingExec::of_slices(sliced, self.position, self.slide, partial.schema())))
    }
}

/// Whether the order in which a function sees rows does not change its result.
fn commutes(function: &AggregateFunctionExpr) -> bool {
    let unordered = function.fun().order_sensitivity() == AggregateOrderSensitivity::Insensitive;
    !function.is_distinct() && function.order_bys().is_empty() && (unordered || UNORDERED.contains(&function.fun().name()))
}

/// The plan with slices in place of the windows in `column`, if it passes windows through untouched.
fn sliced(plan: &Arc<dyn ExecutionPlan>, column: usize) -> DfResult<Option<(Slide, Arc<dyn ExecutionPlan>)>> {
    if let Some(sliding) = as_node::<SlidingExec>(plan) {
        if column + 1 != sliding.schema().fields().len() {
            return Ok(None);
        }
        return Ok(sliding.sliced()?.map(|sliced| (sliding.slide, Arc::new(sliced) as Arc<dyn ExecutionPlan>)));
    }
    let Some(input) = plan.children().first().map(|input| (*input).clone()) else { return Ok(None) };
    if let Some(projection) = as_node::<ProjectionExec>(plan) {
        let Some(source) = projection.expr().get(column).and_then(|expr| column_of(&expr.expr)) else { return Ok(None) };
        let mut others = projection.expr().iter().enumerate().filter(|(index, _)| *index != column);
        if others.any(|(_, expr)| uses(&expr.expr, source)) {
            return Ok(None);
        }
        let Some((slide, input)) = sliced(&input, source)? else { return Ok(None) };
        return Ok(Some((slide, Arc::new(ProjectionExec::try_new(projection.expr().to_vec(), input)?))));
    }
    if let Some(filter) = as_node::<FilterExec>(plan) {
        if filter.projection().is_some() || uses(filter.predicate(), column) {
            return Ok(None);
        }
        let Some((slide, input)) = sliced(&input, column)? else { return Ok(None) };
        return Ok(Some((slide, Arc::new(FilterExecBuilder::new(filter.predicate().clone(), input).build()?))));
    }
    Ok(None)
}

fn uses(expr: &PhysicalExprRef, column: usize) -> bool {
    collect_columns(expr).iter().any(|used| used.index() == column)
}

fn column_of(expr: &PhysicalExprRef) -> Option<usize> {
    (expr.as_ref() as &dyn std::any::Any).downcast_ref::<Column>().map(Column::index)
}
