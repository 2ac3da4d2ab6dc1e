//! Functions that take functions: transform, filter, aggregate and their like.

use super::Functions;

pub(super) fn register(_functions: &mut Functions) {}
