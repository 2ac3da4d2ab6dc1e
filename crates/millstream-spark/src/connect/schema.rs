//! Schemas as clients write them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use millstream_core::{Error, Result};

use crate::types::{CHAR_VARCHAR, parse_schema, schema_from_json};

/// A schema in Spark's DDL (`a INT, b STRING`) or JSON.
///
/// # Errors
/// Those of the two languages.
pub(super) fn parse(text: &str) -> Result<SchemaRef> {
    let schema: Schema = if text.trim_start().starts_with('{') { schema_from_json(text)? } else { parse_schema(text)? };
    Ok(Arc::new(schema))
}

/// Refuses `CHAR` and `VARCHAR` where rows are read: their lengths would mean nothing.
///
/// # Errors
/// `UNSUPPORTED_CHAR_OR_VARCHAR_AS_STRING`.
pub(super) fn refuse_lengths(schema: &Schema) -> Result<()> {
    match schema.fields().iter().any(|field| has_length(field)) {
        false => Ok(()),
        true => Err(Error::invalid(
            "UNSUPPORTED_CHAR_OR_VARCHAR_AS_STRING",
            "The char/varchar type can't be used in the table schema. If you want Spark treat them as string type as same as Spark 3.0 and \
             earlier, please set \"spark.sql.legacy.charVarcharAsString\" to \"true\".",
        )
        .with_sqlstate("0A000")),
    }
}

fn has_length(field: &Field) -> bool {
    let below = match field.data_type() {
        DataType::List(element) | DataType::Map(element, _) => has_length(element),
        DataType::Struct(fields) => fields.iter().any(|field| has_length(field)),
        _ => false,
    };
    below || field.metadata().contains_key(CHAR_VARCHAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_refused_wherever_they_are() {
        let cases = [("a STRING, b INT", true), ("a CHAR(3)", false), ("a ARRAY<VARCHAR(3)>", false), ("s STRUCT<x: CHAR(1)>", false)];
        for (ddl, allowed) in cases {
            assert_eq!(refuse_lengths(&parse(ddl).unwrap()).is_ok(), allowed, "{ddl}");
        }
    }
}
