//! Variants: values that carry their type, in Spark's binary encoding.

mod build;
mod builder;
mod get;
mod json;
mod object;
mod schema;
mod value;

use super::Functions;

pub(crate) use json::{from_json, write_json};

pub(super) fn register(functions: &mut Functions) {
    build::register(functions);
}
