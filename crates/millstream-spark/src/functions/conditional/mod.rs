//! Conditions and nulls: if, coalesce, nullif and their like; comparisons and logic.

use super::Functions;

pub(super) fn register(_functions: &mut Functions) {}
