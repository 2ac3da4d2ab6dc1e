//! Calls that Apache Spark 4.2 evaluated, and what it made of them.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, AsArray, MapArray, StringArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use datafusion::scalar::ScalarValue;
use millstream_core::Result;
use serde_json::{Value, json};

use super::testing::{call, evaluate};
use super::{Settings, Typed, cast, variant};
use crate::types::{self, parse_field_type, simple_name_of};

/// Checks the recorded calls of some functions.
fn check(names: &[&str]) {
    let text = match std::env::var("RECORDED_CALLS") {
        Ok(path) => std::fs::read_to_string(path).unwrap(),
        Err(_) => include_str!("testdata/spark-4.2-calls.json").to_owned(),
    };
    let calls: Vec<Value> = serde_json::from_str(&text).unwrap();
    let (mut checked, mut faults) = (0, Vec::new());
    for recorded in calls.iter().filter(|recorded| names.contains(&recorded["f"].as_str().unwrap())) {
        checked += 1;
        let outcome = std::panic::catch_unwind(|| compare(recorded));
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => faults.push(format!("{} {}: {fault}", recorded["f"], recorded["args"])),
            Err(_) => faults.push(format!("{} {}: panicked", recorded["f"], recorded["args"])),
        }
    }
    assert!(checked > 0);
    assert!(faults.is_empty(), "{} of {checked} differ:\n{}", faults.len(), faults.join("\n"));
}

fn compare(recorded: &Value) -> Result<(), String> {
    let outcome = run(recorded["f"].as_str().unwrap(), &recorded["args"]);
    let Some(expected) = recorded.get("out") else {
        return match (outcome, recorded["error"].as_str()) {
            (Ok((value, _)), _) => Err(format!("gave {} and not the error {}", value, recorded["error"])),
            (Err(error), Some(condition)) if error.code() != condition => Err(format!("failed with {error} and not {condition}")),
            (Err(error), Some(_)) if error.sqlstate() != recorded["state"].as_str() => {
                Err(format!("has the SQLSTATE {:?}", error.sqlstate()))
            }
            _ => Ok(()),
        };
    };
    let (value, typed) = outcome.map_err(|error| format!("failed with {error}"))?;
    if !same(&value, expected) {
        return Err(format!("gave {value} and not {expected}"));
    }
    let data_type = simple_name_of(&typed.to_field("x"));
    if data_type != recorded["type"].as_str().unwrap() {
        return Err(format!("is of the type {data_type} and not {}", recorded["type"]));
    }
    if typed.nullable != recorded["nullable"].as_bool().unwrap() {
        return Err(format!("nullable is {}", typed.nullable));
    }
    Ok(())
}

fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        // Recorded floats went through a double and a decimal text, which may move the last digit.
        (Value::Number(one), Value::Number(other)) => match (one.as_f64(), other.as_f64()) {
            (Some(one), Some(other)) => one == other || (one - other).abs() <= other.abs() * 4e-16,
            _ => one == other,
        },
        (Value::Array(one), Value::Array(other)) => one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other)),
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len() && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| same(value, other)))
        }
        _ => one == other,
    }
}

fn run(name: &str, arguments: &Value) -> Result<(Value, Typed)> {
    let arguments = arguments.as_array().unwrap().iter().map(argument).collect::<Result<Vec<_>>>()?;
    let typed = call(name, arguments, &Settings::default())?;
    let array = evaluate(&typed, &[])?;
    assert_eq!(array.data_type(), &typed.data_type);
    Ok((shown(&array, 0, &typed.to_field("x")), typed))
}

/// An argument: text, whole numbers, doubles, bytes, truth values, nulls of a type, JSON of a type, or a call.
fn argument(value: &Value) -> Result<Typed> {
    let (kind, inner) = value.as_object().unwrap().iter().next().unwrap();
    Ok(match kind.as_str() {
        "s" => Typed::text(inner.as_str().unwrap()),
        "b" => Typed::literal(inner.as_bool().unwrap().into()),
        "i" => Typed::literal(i32::try_from(inner.as_i64().unwrap()).unwrap().into()),
        "l" => Typed::literal(inner.as_i64().unwrap().into()),
        // Numbers that JSON does not have are texts.
        "d" => Typed::literal(inner.as_f64().unwrap_or_else(|| inner.as_str().unwrap().parse().unwrap()).into()),
        "x" => {
            let digits = inner.as_str().unwrap();
            let bytes = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect();
            Typed::literal(ScalarValue::Binary(Some(bytes)))
        }
        "n" => {
            let field = parse_field_type(inner.as_str().unwrap()).unwrap();
            Typed::null(field.data_type()).with_metadata(field.metadata().clone())
        }
        "f" => {
            let inner_arguments = inner[1].as_array().unwrap().iter().map(argument).collect::<Result<Vec<_>>>()?;
            call(inner[0].as_str().unwrap(), inner_arguments, &Settings::default())?
        }
        _ => typed(value["t"].as_str().unwrap(), &value["v"])?,
    })
}

/// A value of a type, from JSON.
fn typed(data_type: &str, value: &Value) -> Result<Typed> {
    if data_type == "map<string,string>" {
        let pairs: Vec<(&str, &str)> =
            value.as_object().unwrap().iter().map(|(key, value)| (key.as_str(), value.as_str().unwrap())).collect();
        return Ok(Typed::literal(map(&pairs)));
    }
    let field = parse_field_type(data_type).unwrap();
    if data_type.starts_with("map") && value.as_object().is_some_and(serde_json::Map::is_empty) {
        let DataType::Map(entries, _) = field.data_type() else { unreachable!() };
        let DataType::Struct(fields) = entries.data_type() else { unreachable!() };
        let empty = StructArray::new_null(fields.clone(), 0);
        let map = MapArray::new(entries.clone(), OffsetBuffer::from_lengths([0]), empty, None, false);
        let mut typed = Typed::literal(ScalarValue::try_from_array(&map, 0).unwrap());
        typed.nullable = false;
        return Ok(typed);
    }
    let text = Typed::text(json!({ "x": value }).to_string());
    let read = call("from_json", vec![text, Typed::text(format!("x {data_type}"))], &Settings::default())?;
    let array = evaluate(&read, &[])?;
    let column = array.as_struct().column(0).clone();
    let mut typed = Typed::literal(ScalarValue::try_from_array(&column, 0).unwrap()).with_metadata(field.metadata().clone());
    typed.nullable = true;
    Ok(typed)
}

fn map(pairs: &[(&str, &str)]) -> ScalarValue {
    let DataType::Map(entries, _) = types::map(DataType::Utf8, DataType::Utf8, false) else { unreachable!() };
    let DataType::Struct(fields) = entries.data_type() else { unreachable!() };
    let column = |texts: Vec<&str>| -> ArrayRef { std::sync::Arc::new(StringArray::from(texts)) };
    let (keys, values) = (column(pairs.iter().map(|pair| pair.0).collect()), column(pairs.iter().map(|pair| pair.1).collect()));
    let entries_array = StructArray::new(fields.clone(), vec![keys, values], None);
    let map = MapArray::new(entries.clone(), OffsetBuffer::from_lengths([pairs.len()]), entries_array, None, false);
    ScalarValue::try_from_array(&map, 0).unwrap()
}

/// A value as the recording shows it.
fn shown(array: &ArrayRef, row: usize, field: &Field) -> Value {
    if array.data_type() == &DataType::Null || array.is_null(row) {
        return Value::Null;
    }
    let double = |value: f64| if value.is_finite() { json!(value) } else { json!({ "double": value.to_string().to_lowercase() }) };
    match array.data_type() {
        DataType::Boolean => json!(array.as_boolean().value(row)),
        DataType::Int8 => json!(array.as_primitive::<Int8Type>().value(row)),
        DataType::Int16 => json!(array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => json!(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => json!(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => double(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => double(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => json!(array.as_string::<i32>().value(row)),
        DataType::Binary => json!({ "x": hex(array.as_binary::<i32>().value(row)) }),
        DataType::Decimal128(_, scale) => {
            let mut text = String::new();
            cast::push_decimal(&mut text, array.as_primitive::<Decimal128Type>().value(row), *scale, true);
            json!({ "dec": text })
        }
        DataType::Date32 => json!({ "date": super::datetime::format::format_date(array.as_primitive::<Date32Type>().value(row)) }),
        DataType::Timestamp(..) => {
            let micros = array.as_primitive::<TimestampMicrosecondType>().value(row);
            let text = super::datetime::format::format_timestamp_ntz(micros).replace(' ', "T");
            let text = match text.split_once('.') {
                Some((whole, fraction)) => format!("{whole}.{fraction:0<6}"),
                None => text,
            };
            json!({ "ts": text })
        }
        DataType::Struct(_) if variant::is_variant(field) => {
            let columns = array.as_struct();
            let bytes = |index: usize| hex(columns.column(index).as_binary::<i32>().value(row));
            json!({ "variant": [bytes(0), bytes(1)] })
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            json!({ "row": fields.iter().zip(columns).map(|(field, column)| json!([field.name(), shown(column, row, field)])).collect::<Vec<_>>() })
        }
        DataType::List(element) => {
            let values = array.as_list::<i32>().value(row);
            json!((0..values.len()).map(|at| shown(&values, at, element)).collect::<Vec<_>>())
        }
        DataType::Map(entries, _) => {
            let DataType::Struct(pair) = entries.data_type() else { unreachable!() };
            let values = array.as_map().value(row);
            let entry = |at: usize| (shown(values.column(0), at, &pair[0]), shown(values.column(1), at, &pair[1]));
            // Python keeps the last of equal keys.
            let entries: Vec<(Value, Value)> = (0..values.len()).map(entry).collect();
            let last: HashMap<String, usize> = entries.iter().enumerate().map(|(at, (key, _))| (key.to_string(), at)).collect();
            let kept = entries.iter().enumerate().filter(|(at, (key, _))| last[&key.to_string()] == *at);
            json!({ "map": kept.map(|(_, (key, value))| json!([key, value])).collect::<Vec<_>>() })
        }
        other => panic!("{other}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn text() {
    check(&[
        "ascii",
        "length",
        "char_length",
        "character_length",
        "len",
        "octet_length",
        "bit_length",
        "upper",
        "ucase",
        "lower",
        "lcase",
        "initcap",
        "trim",
        "ltrim",
        "rtrim",
        "btrim",
        "reverse",
        "soundex",
        "luhn_check",
        "quote",
        "mask",
        "char",
        "chr",
        "concat",
        "||",
        "concat_ws",
        "contains",
        "startswith",
        "endswith",
        "instr",
        "replace",
        "elt",
        "find_in_set",
        "like",
        "ilike",
        "locate",
        "position",
        "left",
        "right",
        "substring",
        "substr",
        "repeat",
        "lpad",
        "rpad",
        "space",
        "split_part",
        "substring_index",
        "levenshtein",
        "overlay",
        "translate",
        "sentences",
        "randstr",
    ]);
}

#[test]
fn encodings() {
    check(&[
        "base64",
        "unbase64",
        "encode",
        "decode",
        "to_binary",
        "try_to_binary",
        "to_char",
        "to_varchar",
        "collate",
        "collation",
        "is_valid_utf8",
        "make_valid_utf8",
        "validate_utf8",
        "try_validate_utf8",
    ]);
}

#[test]
fn formats() {
    check(&["format_string", "printf"]);
}

#[test]
fn regular_expressions() {
    check(&[
        "regexp_count",
        "regexp_extract",
        "regexp_extract_all",
        "regexp_instr",
        "regexp_like",
        "regexp_replace",
        "regexp_substr",
        "regexp",
        "rlike",
        "split",
    ]);
}

#[test]
fn urls() {
    check(&["parse_url", "try_parse_url", "url_encode", "url_decode", "try_url_decode"]);
}

#[test]
fn hashes() {
    check(&["md5", "sha", "sha1", "sha2", "crc32", "hash", "xxhash64"]);
}

#[test]
fn reading_json() {
    check(&["from_json"]);
}

#[test]
fn json() {
    check(&["to_json", "get_json_object", "json_array_length", "json_object_keys", "schema_of_json"]);
}

#[test]
fn csv() {
    check(&["from_csv", "to_csv", "schema_of_csv"]);
}

#[test]
fn variants() {
    check(&["parse_json", "try_parse_json", "variant_get", "try_variant_get", "schema_of_variant", "is_variant_null", "to_variant_object"]);
}

#[test]
fn others() {
    check(&["typeof", "raise_error", "current_catalog", "current_database", "current_schema", "input_file_name", "spark_partition_id"]);
}
