//! Intervals: year-month, day-time and calendar.

use super::Functions;

pub(super) fn register(_functions: &mut Functions) {}
