//! CSV text.

use super::Functions;

pub(super) fn register(_functions: &mut Functions) {}
