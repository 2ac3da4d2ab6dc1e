//! Variants: values that carry their type, in Spark's binary encoding.

mod build;
mod builder;
mod explode;
mod get;
mod json;
mod object;
mod path;
mod schema;
mod value;

use arrow::array::{ArrayRef, AsArray, BinaryArray};
use arrow::datatypes::Field;
use millstream_core::{Error, Result};

use super::{Functions, faults};
use crate::types;
use value::Variant;

pub(super) use build::fault;
pub(super) use builder::{Builder, Fault};

pub use explode::variant_explode_values;
pub(crate) use json::{from_json, write_json};

pub(super) fn register(functions: &mut Functions) {
    build::register(functions);
}

/// Whether a field holds variants.
pub(crate) fn is_variant(field: &Field) -> bool {
    field.metadata().contains_key(types::VARIANT) || *field.data_type() == types::variant()
}

/// The columns of bytes that variants are made of.
struct Parts<'a> {
    value: &'a BinaryArray,
    metadata: &'a BinaryArray,
}

impl<'a> Parts<'a> {
    /// # Errors
    /// `INTERNAL_ERROR` when the array has no variants.
    fn of(array: &'a ArrayRef) -> Result<Self> {
        let columns = array.as_struct_opt().map(|structs| structs.columns());
        let parts = match columns {
            Some([value, metadata]) => value.as_binary_opt().zip(metadata.as_binary_opt()),
            _ => None,
        };
        let (value, metadata) = parts.ok_or_else(|| Error::internal(format!("values of {} are no variants", array.data_type())))?;
        Ok(Parts { value, metadata })
    }

    /// The variant of a row, which must not be null.
    fn get(&self, row: usize) -> Variant<'a> {
        Variant::new(self.value.value(row), self.metadata.value(row))
    }
}

/// Bytes that are no variant.
fn malformed() -> Error {
    faults::row("MALFORMED_VARIANT", "22023", "the bytes of a variant cannot be read: make variants with `parse_json` or a cast")
}
