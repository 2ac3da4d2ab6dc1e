//! Schemas as clients write them.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use millstream_core::Result;

use crate::types::{parse_schema, schema_from_json};

/// A schema in Spark's DDL (`a INT, b STRING`) or JSON.
///
/// # Errors
/// Those of the two languages.
pub(super) fn parse(text: &str) -> Result<SchemaRef> {
    let schema: Schema = if text.trim_start().starts_with('{') { schema_from_json(text)? } else { parse_schema(text)? };
    Ok(Arc::new(schema))
}
