//! Dates and times: parts, arithmetic, parsing, formatting, time zones.

use super::Functions;

pub(super) fn register(_functions: &mut Functions) {}
