//! Structs: building them and changing their fields.

mod build;
mod update;

use super::Functions;

pub(super) fn register(functions: &mut Functions) {
    build::register(functions);
    update::register(functions);
}
