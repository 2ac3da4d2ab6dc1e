//! `schema_of_variant`: the type of a variant, with what its elements have in common.

use std::collections::BTreeMap;
use std::fmt;

use millstream_core::variant::{Value, Variant};
use serde_json::json;

use crate::types::quote;

/// The type of a value.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::functions) enum Schema {
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

fn merge(one: Schema, other: Schema) -> Schema {
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

/// The names of the types that have no parts.
const ATOMS: [&str; 10] = ["BOOLEAN", "BIGINT", "DOUBLE", "FLOAT", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "BINARY", "STRING", "TIME"];

impl Schema {
    /// The type that values of both have in common.
    pub(in crate::functions) fn merged(self, other: Schema) -> Schema {
        merge(self, other)
    }

    /// The type as JSON, which checkpoints keep.
    pub(in crate::functions) fn to_json(&self) -> serde_json::Value {
        match self {
            Schema::Void => json!("void"),
            Schema::Variant => json!("variant"),
            Schema::Atom(name) => json!(name),
            Schema::Decimal(precision, scale) => json!([precision, scale]),
            Schema::Array(element) => json!([element.to_json()]),
            Schema::Object(fields) => fields.iter().map(|(name, schema)| (name.clone(), schema.to_json())).collect(),
        }
    }

    /// What [`Schema::to_json`] wrote.
    pub(in crate::functions) fn from_json(json: &serde_json::Value) -> Option<Schema> {
        use serde_json::Value;
        Some(match json {
            Value::String(name) => match name.as_str() {
                "void" => Schema::Void,
                "variant" => Schema::Variant,
                name => Schema::Atom(ATOMS.into_iter().find(|atom| *atom == name)?),
            },
            Value::Array(parts) => match parts.as_slice() {
                [element] => Schema::Array(Box::new(Schema::from_json(element)?)),
                [precision, scale] => Schema::Decimal(precision.as_i64()?, scale.as_i64()?),
                _ => return None,
            },
            Value::Object(fields) => {
                let fields = fields.iter().map(|(name, schema)| Some((name.clone(), Schema::from_json(schema)?)));
                Schema::Object(fields.collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }

    /// Bytes of memory, about.
    pub(in crate::functions) fn size(&self) -> usize {
        size_of::<Schema>()
            + match self {
                Schema::Array(element) => element.size(),
                Schema::Object(fields) => fields.iter().map(|(name, schema)| name.len() + schema.size()).sum(),
                _ => 0,
            }
    }
}

/// The type as Spark writes it: `OBJECT<a: ARRAY<BIGINT>>`.
impl fmt::Display for Schema {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schema::Void => out.write_str("VOID"),
            Schema::Atom(name) => out.write_str(name),
            Schema::Decimal(precision, scale) => write!(out, "DECIMAL({precision},{scale})"),
            Schema::Array(element) => write!(out, "ARRAY<{element}>"),
            Schema::Object(fields) => {
                out.write_str("OBJECT<")?;
                for (number, (name, schema)) in fields.iter().enumerate() {
                    let comma = if number > 0 { ", " } else { "" };
                    write!(out, "{comma}{}: {schema}", quote(name))?;
                }
                out.write_str(">")
            }
            Schema::Variant => out.write_str("VARIANT"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_survives_its_json() {
        let object = Schema::Object(BTreeMap::from([("a".to_owned(), Schema::Atom("BIGINT")), ("b c".to_owned(), Schema::Void)]));
        let schemas =
            [Schema::Variant, Schema::Decimal(5, 2), Schema::Array(Box::new(Schema::Decimal(3, 1))), Schema::Array(Box::new(object))];
        for schema in schemas {
            assert_eq!(Schema::from_json(&schema.to_json()), Some(schema.clone()), "{schema}");
        }
        for other in ["\"NOPE\"", "1", "[1, 2, 3]", "{\"a\": null}"] {
            assert_eq!(Schema::from_json(&serde_json::from_str(other).unwrap()), None, "{other}");
        }
    }
}
