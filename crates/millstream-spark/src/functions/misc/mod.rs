//! What fits nowhere else: typeof, uuid, version, raise_error and their like.

use super::Functions;

pub(super) fn register(_functions: &mut Functions) {}
