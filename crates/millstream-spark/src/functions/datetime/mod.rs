//! Dates and times: parts, arithmetic, parsing, formatting, time zones.

pub(crate) mod civil;
pub(crate) mod format;
pub(crate) mod parse;

use super::Functions;

pub(super) fn register(_functions: &mut Functions) {}
