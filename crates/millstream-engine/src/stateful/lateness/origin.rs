//! Rows that say which split they are from.

use std::sync::Arc;

use datafusion::common::JoinSide;
use datafusion::error::Result as DfResult;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};

use crate::scan::{ORIGIN, SplitScanExec};
use crate::stateful::bind::reads_stream;
use crate::stateful::event_time::as_event_time;
use crate::stateful::planner::as_node;
use crate::stateful::sliding::SlidingExec;

/// The plan with the number of each row's split as its last column; `None` where something in it does not let a column through.
pub(crate) fn with_origin(plan: &Arc<dyn ExecutionPlan>) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
    if is_originating(plan) {
        return Ok(Some(plan.clone()));
    }
    if let Some(scan) = as_node::<SplitScanExec>(plan) {
        return Ok(scan.is_stream().then(|| Arc::new(scan.with_origin()) as _));
    }
    if let Some(join) = as_node::<HashJoinExec>(plan) {
        return through_join(join);
    }
    if as_node::<UnionExec>(plan).is_some() {
        let inputs = plan.children().into_iter().map(with_origin).collect::<DfResult<Option<Vec<_>>>>()?;
        return inputs.map(UnionExec::try_new).transpose();
    }
    let [input] = plan.children()[..] else { return Ok(None) };
    let passes = as_node::<ProjectionExec>(plan).is_some()
        || as_node::<FilterExec>(plan).is_some()
        || as_node::<SlidingExec>(plan).is_some()
        || as_node::<RepartitionExec>(plan).is_some()
        || as_event_time(plan).is_some();
    if !passes {
        return Ok(None);
    }
    let Some(input) = with_origin(input)? else { return Ok(None) };
    let last = input.schema().fields().len().saturating_sub(1);
    let origin = || Arc::new(Column::new(ORIGIN, last)) as PhysicalExprRef;
    if let Some(projection) = as_node::<ProjectionExec>(plan) {
        let more = ProjectionExpr { expr: origin(), alias: ORIGIN.to_owned() };
        let exprs = projection.expr().iter().cloned().chain([more]);
        return Ok(Some(Arc::new(ProjectionExec::try_new(exprs.collect::<Vec<_>>(), input)?)));
    }
    if let Some(filter) = as_node::<FilterExec>(plan) {
        let projection = filter.projection().as_ref().map(|columns| columns.iter().copied().chain([last]).collect());
        let filter = FilterExecBuilder::new(filter.predicate().clone(), input).apply_projection(projection)?.build()?;
        return Ok(Some(Arc::new(filter)));
    }
    if let Some(sliding) = as_node::<SlidingExec>(plan) {
        return sliding.through_origin(input).map(Some);
    }
    plan.clone().replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute)).map(Some)
}

/// Whether the last column of a plan is the number of a split.
pub(crate) fn is_originating(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.schema().fields().last().is_some_and(|field| field.name() == ORIGIN)
}

/// The plan as it is, or with the numbers of splits where that is possible.
pub(crate) fn originating(plan: &Arc<dyn ExecutionPlan>) -> DfResult<Arc<dyn ExecutionPlan>> {
    Ok(with_origin(plan)?.unwrap_or_else(|| plan.clone()))
}

/// A join of a stream with a table: the rows of the stream keep their numbers.
fn through_join(join: &HashJoinExec) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
    let side = match (reads_stream(join.left()), reads_stream(join.right())) {
        (true, false) => JoinSide::Left,
        (false, true) => JoinSide::Right,
        _ => return Ok(None),
    };
    let (left, right) = (join.left().schema().fields().len(), join.right().schema().fields().len());
    if join.join_schema().fields().len() != left + right {
        return Ok(None);
    }
    let stream = if side == JoinSide::Left { join.left() } else { join.right() };
    let Some(stream) = with_origin(stream)? else { return Ok(None) };
    let children = match side {
        JoinSide::Left => vec![stream, join.right().clone()],
        _ => vec![join.left().clone(), stream],
    };
    let origin = if side == JoinSide::Left { left } else { left + right };
    // The columns after the new one have moved on by one.
    let moved = |index: usize| if index >= origin { index + 1 } else { index };
    let shown: Vec<usize> = match &join.projection {
        Some(columns) => columns.to_vec(),
        None => (0..left + right).collect(),
    };
    let shown = shown.into_iter().map(moved).chain([origin]).collect();
    let joined = join.builder().with_projection(None).with_new_children(children)?.recompute_properties().build()?;
    Ok(Some(Arc::new(joined.with_projection(Some(shown))?)))
}
