//! Conditions and nulls: if, coalesce, nullif and their like; comparisons and logic.

mod branches;
mod comparison;
mod extremes;
mod floats;
mod guard;
mod logic;
mod nulls;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use datafusion::optimizer::OptimizerRule;

use super::Functions;

pub(super) use comparison::require_orderable;
pub(crate) use floats::normalized;

pub(super) fn register(functions: &mut Functions) {
    comparison::register(functions);
    logic::register(functions);
    branches::register(functions);
    nulls::register(functions);
    extremes::register(functions);
}

/// The rule that keeps filters from failing on rows that other conditions leave out. It comes last.
pub(crate) fn filter_guard() -> Arc<dyn OptimizerRule + Send + Sync> {
    Arc::new(guard::FilterGuard)
}
