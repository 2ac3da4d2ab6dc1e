//! Filters whose conditions can fail.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Filter, LogicalPlan, Operator};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::logic::{connected, may_fail};

/// Lets the conditions of a filter that can fail be computed only for the rows that the others leave, as Spark's filters do: the engine
/// brings filters together that were written one after the other, and computes the parts for whole batches.
#[derive(Debug, Default)]
pub(super) struct FilterGuard;

impl OptimizerRule for FilterGuard {
    fn name(&self) -> &str {
        "filter_guard"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> DfResult<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = plan else { return Ok(Transformed::no(plan)) };
        let conditions = split_conjunction_owned(filter.predicate.clone());
        if conditions.len() < 2 || !conditions.iter().any(may_fail) {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        }
        let (failing, safe): (Vec<_>, Vec<_>) = conditions.into_iter().partition(may_fail);
        let parts = conjunction(safe).into_iter().chain(failing);
        match parts.reduce(|left, right| connected(Operator::And, left, right)) {
            Some(predicate) => Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?))),
            None => Ok(Transformed::no(LogicalPlan::Filter(filter))),
        }
    }
}
