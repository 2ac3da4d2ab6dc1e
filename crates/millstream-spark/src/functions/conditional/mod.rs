//! Conditions and nulls: if, coalesce, nullif and their like; comparisons and logic.

mod branches;
mod comparison;
mod extremes;
mod floats;
mod logic;
mod nulls;
#[cfg(test)]
mod tests;

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
