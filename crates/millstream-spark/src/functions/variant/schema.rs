//! `schema_of_variant`: the type of a variant, with what its elements have in common.

use millstream_core::variant::{Value, Variant};

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::types::quote;

/// The type of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Schema {
    Void,
    Atom(&'static str),
    Decimal(i64, i64),
    Array(Box<Schema>),
    Object(BTreeMap<String, Schema>),
    /// Nothing in common.
    Variant,
}

/// The type of a variant, `None` if it cannot be read.
pub(super) fn schema_of(variant: Variant<'_>) -> Option<Schema> {
    Some(match variant.value()? {
        Value::Null => Schema::Void,
        Value::Boolean(_) => Schema::Atom("BOOLEAN"),
        Value::Long(_) => Schema::Atom("BIGINT"),
        Value::Double(_) => Schema::Atom("DOUBLE"),
        Value::Float(_) => Schema::Atom("FLOAT"),
        Value::Decimal(unscaled, scale) => {
            let digits = i64::from(unscaled.unsigned_abs().checked_ilog10().unwrap_or(0)) + 1;
            Schema::Decimal(digits.max(scale.into()), scale.into())
        }
        Value::Date(_) => Schema::Atom("DATE"),
        Value::Timestamp(_) => Schema::Atom("TIMESTAMP"),
        Value::TimestampNtz(_) => Schema::Atom("TIMESTAMP_NTZ"),
        Value::Binary(_) => Schema::Atom("BINARY"),
        Value::String(_) | Value::Uuid(_) => Schema::Atom("STRING"),
        Value::Array(array) => {
            let mut common = Schema::Void;
            for element in array.elements() {
                common = merge(common, schema_of(element)?);
            }
            Schema::Array(Box::new(common))
        }
        Value::Object(object) => {
            let fields = object.members().map(|(name, value)| Some((name.to_owned(), schema_of(value)?)));
            Schema::Object(fields.collect::<Option<_>>()?)
        }
    })
}

/// The type that values of both have in common.
pub(super) fn merge(one: Schema, other: Schema) -> Schema {
    match (one, other) {
        (Schema::Void, schema) | (schema, Schema::Void) => schema,
        (one, other) if one == other => one,
        (Schema::Array(one), Schema::Array(other)) => Schema::Array(Box::new(merge(*one, *other))),
        (Schema::Object(mut fields), Schema::Object(others)) => {
            for (name, schema) in others {
                let schema = match fields.remove(&name) {
                    Some(before) => merge(before, schema),
                    None => schema,
                };
                fields.insert(name, schema);
            }
            Schema::Object(fields)
        }
        (Schema::Decimal(p, s), Schema::Decimal(q, t)) => wider((p, s), (q, t)),
        (Schema::Atom("BIGINT"), Schema::Decimal(p, s)) | (Schema::Decimal(p, s), Schema::Atom("BIGINT")) => wider((20, 0), (p, s)),
        (Schema::Atom("DOUBLE"), Schema::Atom("BIGINT" | "FLOAT") | Schema::Decimal(..))
        | (Schema::Atom("BIGINT" | "FLOAT") | Schema::Decimal(..), Schema::Atom("DOUBLE"))
        | (Schema::Atom("FLOAT"), Schema::Decimal(..))
        | (Schema::Decimal(..), Schema::Atom("FLOAT")) => Schema::Atom("DOUBLE"),
        (Schema::Atom("FLOAT"), Schema::Atom("BIGINT")) | (Schema::Atom("BIGINT"), Schema::Atom("FLOAT")) => Schema::Atom("FLOAT"),
        (Schema::Atom("DATE"), Schema::Atom("TIMESTAMP")) | (Schema::Atom("TIMESTAMP"), Schema::Atom("DATE")) => Schema::Atom("TIMESTAMP"),
        (Schema::Atom("DATE"), Schema::Atom("TIMESTAMP_NTZ")) | (Schema::Atom("TIMESTAMP_NTZ"), Schema::Atom("DATE")) => {
            Schema::Atom("TIMESTAMP_NTZ")
        }
        (Schema::Atom("TIMESTAMP"), Schema::Atom("TIMESTAMP_NTZ")) | (Schema::Atom("TIMESTAMP_NTZ"), Schema::Atom("TIMESTAMP")) => {
            Schema::Atom("TIMESTAMP")
        }
        _ => Schema::Variant,
    }
}

/// The decimal with the digits of both before and behind the point, or double where that is too many.
fn wider(one: (i64, i64), other: (i64, i64)) -> Schema {
    let scale = one.1.max(other.1);
    let whole = (one.0 - one.1).max(other.0 - other.1);
    if whole + scale > 38 { Schema::Atom("DOUBLE") } else { Schema::Decimal(whole + scale, scale) }
}

impl Schema {
    /// Appends the type as Spark writes it: `OBJECT<a: ARRAY<BIGINT>>`.
    pub(super) fn write(&self, out: &mut String) {
        match self {
            Schema::Void => out.push_str("VOID"),
            Schema::Atom(name) => out.push_str(name),
            Schema::Decimal(precision, scale) => {
                // Writing to a string does not fail.
                let _ = write!(out, "DECIMAL({precision},{scale})");
            }
            Schema::Array(element) => {
                out.push_str("ARRAY<");
                element.write(out);
                out.push('>');
            }
            Schema::Object(fields) => {
                out.push_str("OBJECT<");
                for (number, (name, schema)) in fields.iter().enumerate() {
                    if number > 0 {
                        out.push_str(", ");
                    }
                    out.push_str(&quote(name));
                    out.push_str(": ");
                    schema.write(out);
                }
                out.push('>');
            }
            Schema::Variant => out.push_str("VARIANT"),
        }
    }
}
