//! Maps: building them, and their keys, values and entries.

mod build;
mod builder;
mod parts;
mod text;

use super::Functions;

pub(super) use build::check_key_type;
pub(super) use builder::{Duplicates, MapBuilder};

pub(super) fn register(functions: &mut Functions) {
    build::register(functions);
    parts::register(functions);
    text::register(functions);
}
