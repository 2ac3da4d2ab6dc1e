//! Text: slices, padding, search, regular expressions, encodings.

use super::Functions;

pub(super) fn register(_functions: &mut Functions) {}
