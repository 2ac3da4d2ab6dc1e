//! Variants: values that carry their type, in Spark's binary encoding.

mod build;
mod explode;
mod get;
mod json;
mod object;
mod path;
mod schema;

use arrow::array::{ArrayRef, AsArray, BinaryArray};
use millstream_core::variant::Variant;
use millstream_core::{Error, Result};

use super::{Functions, faults};

pub(super) use build::fault;

pub(in crate::functions) use build::{schemas, variant};
pub use explode::variant_explode_values;
pub(crate) use json::write_json;
pub(crate) use millstream_core::variant::is_variant;
pub(in crate::functions) use schema::Schema;

pub(super) fn register(functions: &mut Functions) {
    build::register(functions);
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
