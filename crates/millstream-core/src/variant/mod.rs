//! Variants: values that carry their type, in the binary encoding that Spark and Parquet share.
//!
//! A column of variants is a struct of the bytes of each value and of its metadata, the dictionary of names, marked in the field's metadata.

mod builder;
mod json;
mod value;

use arrow::datatypes::{DataType, Field, Fields};

pub use builder::{Builder, Fault, Member};
pub use json::{Parsed, from_json};
pub use value::{Array, Object, Value, Variant};

/// The metadata key that marks a struct as a column of variants.
pub const VARIANT: &str = "spark.variant";

/// The type of a column of variants, without the mark that a field of the type carries.
pub fn data_type() -> DataType {
    DataType::Struct(Fields::from(vec![Field::new("value", DataType::Binary, false), Field::new("metadata", DataType::Binary, false)]))
}

/// A nullable field of variants.
pub fn field(name: impl Into<String>) -> Field {
    Field::new(name, data_type(), true).with_metadata([(VARIANT.to_owned(), "true".to_owned())].into())
}

/// Whether a field holds variants.
pub fn is_variant(field: &Field) -> bool {
    field.metadata().contains_key(VARIANT) || *field.data_type() == data_type()
}
