//! Numbers: arithmetic, rounding, logarithms, trigonometry, number formats.

use super::Functions;

pub(super) fn register(_functions: &mut Functions) {}
