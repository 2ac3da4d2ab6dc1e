//! Spark's JSON form of a schema, as in Delta logs, `schema.json()` and Spark Connect.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use millstream_core::{Error, Result};
use serde_json::{Map, Value, json};

use super::{Shape, VARIANT, belongs_to_type, map_of, parse_field_type, simple_name, simple_name_of};

/// Reads `{"type":"struct","fields":[…]}`.
///
/// # Errors
/// `INVALID_SCHEMA.PARSE_ERROR`, naming the field.
pub fn schema_from_json(text: &str) -> Result<Schema> {
    let value: Value = serde_json::from_str(text).map_err(|error| invalid("it is not JSON").caused_by(error))?;
    match data_type(&value, "the schema")?.0 {
        DataType::Struct(fields) => Ok(Schema::new(fields)),
        other => Err(invalid(format!("a schema is a struct, and not {}", simple_name(&other)))),
    }
}

/// Writes a schema as Spark does.
pub fn schema_to_json(schema: &Schema) -> String {
    struct_json(schema.fields().iter().map(AsRef::as_ref)).to_string()
}

fn invalid(what: impl std::fmt::Display) -> Error {
    Error::invalid("INVALID_SCHEMA.PARSE_ERROR", format!("cannot read the JSON of a schema: {what}")).with_sqlstate("42K07")
}

/// A type, and what the field that has it must remember.
fn data_type(value: &Value, at: &str) -> Result<(DataType, HashMap<String, String>)> {
    match value {
        Value::String(name) => named(name, at),
        Value::Object(object) => match object.get("type").and_then(Value::as_str) {
            Some("struct") => {
                let Some(fields) = object.get("fields").and_then(Value::as_array) else {
                    return Err(invalid(format!("{at} is a struct without 'fields'")));
                };
                let fields = fields.iter().map(|value| field(value, at)).collect::<Result<Vec<Field>>>()?;
                Ok((DataType::Struct(fields.into()), HashMap::new()))
            }
            Some("array") => {
                let element = member(object, "elementType", at)?;
                Ok((DataType::List(Arc::new(inner("element", element, flag(object, "containsNull"), at)?)), HashMap::new()))
            }
            Some("map") => {
                let key = inner("key", member(object, "keyType", at)?, false, at)?;
                let value = inner("value", member(object, "valueType", at)?, flag(object, "valueContainsNull"), at)?;
                Ok((map_of(key, value), HashMap::new()))
            }
            Some(other) => Err(invalid(format!("{at} has the unknown type '{other}'"))),
            None => Err(invalid(format!("{at} has no 'type'"))),
        },
        _ => Err(invalid(format!("the type of {at} is neither a word nor an object"))),
    }
}

fn named(name: &str, at: &str) -> Result<(DataType, HashMap<String, String>)> {
    // The words are those of DDL; what the type alone cannot say is kept beside it.
    let field = parse_field_type(name).map_err(|_| invalid(format!("{at} has the unknown type '{name}'")))?;
    Ok((field.data_type().clone(), field.metadata().clone()))
}

fn member<'a>(object: &'a Map<String, Value>, name: &str, at: &str) -> Result<&'a Value> {
    object.get(name).ok_or_else(|| invalid(format!("{at} has no '{name}'")))
}

fn flag(object: &Map<String, Value>, name: &str) -> bool {
    object.get(name).and_then(Value::as_bool).unwrap_or(true)
}

fn inner(name: &str, value: &Value, nullable: bool, at: &str) -> Result<Field> {
    let (data_type, metadata) = data_type(value, &format!("the {name} of {at}"))?;
    Ok(Field::new(name, data_type, nullable).with_metadata(metadata))
}

fn field(value: &Value, at: &str) -> Result<Field> {
    let Some((object, name)) = value.as_object().and_then(|object| Some((object, object.get("name")?.as_str()?))) else {
        return Err(invalid(format!("a field of {at} has no name")));
    };
    let place = format!("field '{name}'");
    let (data_type, mut metadata) = data_type(member(object, "type", &place)?, &place)?;
    if let Some(entries) = object.get("metadata").and_then(Value::as_object) {
        metadata.extend(entries.iter().map(|(key, value)| (key.clone(), metadata_text(value))));
    }
    Ok(Field::new(name, data_type, flag(object, "nullable")).with_metadata(metadata))
}

/// Arrow keeps metadata as text. A string stays as it is unless it could be taken for other JSON.
pub(crate) fn metadata_text(value: &Value) -> String {
    match value {
        Value::String(text) if serde_json::from_str::<Value>(text).is_err() => text.clone(),
        other => other.to_string(),
    }
}

fn metadata_value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// The metadata that the user sees: what we keep there for ourselves is left out.
pub(crate) fn user_metadata(field: &Field) -> Option<Map<String, Value>> {
    let mut entries: Vec<(&String, &String)> = field.metadata().iter().filter(|(key, _)| !belongs_to_type(key)).collect();
    entries.sort();
    let metadata: Map<String, Value> = entries.into_iter().map(|(key, text)| (key.clone(), metadata_value(text))).collect();
    (!metadata.is_empty()).then_some(metadata)
}

fn struct_json<'a>(fields: impl Iterator<Item = &'a Field>) -> Value {
    let fields: Vec<Value> = fields
        .map(|field| {
            let metadata = user_metadata(field).unwrap_or_default();
            json!({"name": field.name(), "type": type_json(field), "nullable": field.is_nullable(), "metadata": metadata})
        })
        .collect();
    json!({"type": "struct", "fields": fields})
}

fn type_json(field: &Field) -> Value {
    match field.data_type() {
        DataType::Int8 => "byte".into(),
        DataType::Int16 => "short".into(),
        DataType::Int32 => "integer".into(),
        DataType::Int64 => "long".into(),
        DataType::List(element) | DataType::LargeList(element) | DataType::ListView(element) | DataType::FixedSizeList(element, _) => {
            json!({"type": "array", "elementType": type_json(element), "containsNull": element.is_nullable()})
        }
        DataType::Struct(_) if field.metadata().contains_key(VARIANT) || Shape::of(field.metadata()).is_some() => {
            simple_name_of(field).into()
        }
        DataType::Struct(fields) => struct_json(fields.iter().map(AsRef::as_ref)),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) => {
                let of = |index: usize| pair.get(index).map_or(Value::Null, |field| type_json(field));
                let nullable = pair.get(1).is_some_and(|field| field.is_nullable());
                json!({"type": "map", "keyType": of(0), "valueType": of(1), "valueContainsNull": nullable})
            }
            other => simple_name(other).into(),
        },
        _ => simple_name_of(field).into(),
    }
}
