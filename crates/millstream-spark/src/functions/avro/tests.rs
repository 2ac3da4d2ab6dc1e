use arrow::array::{Array, AsArray};

use super::*;

fn schema(json: &str) -> Schema {
    schema::parse(json).unwrap()
}

#[track_caller]
fn reads(written: &str, wanted: &str, message: &[u8], value: Option<Value>) {
    let found = decode::decode(&resolve::resolve(&schema(written), &schema(wanted)), message);
    assert_eq!(found.as_ref().ok(), value.as_ref(), "{written} as {wanted}: {found:?}");
}

const RECORD: &str =
    r#"{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": ["null", "string"]}]}"#;

#[test]
fn a_message_is_read_as_its_schema_says_or_refused() {
    let text = |text: &str| Some(Value::Text(text.to_owned()));
    for (json, message, value) in [
        (r#""int""#, &[0x80, 0x89, 0x0f][..], Some(Value::Int(123_456))),
        (r#""int""#, &[0x80, 0x80, 0x80, 0x80, 0x10], Some(Value::Int(0))),
        (r#""int""#, &[0x80, 0x80, 0x80, 0x80, 0x80, 0x01], None),
        (r#""int""#, &[0x80], None),
        (r#""long""#, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], Some(Value::Long(i64::MIN))),
        (r#""boolean""#, &[5], Some(Value::Boolean(false))),
        (r#""string""#, &[4, 0xc3, 0xbc, 0xff], text("ü")),
        (r#""string""#, &[5], None),
        (r#"{"type": "enum", "name": "e", "symbols": ["A", "B"]}"#, &[2], text("B")),
        (r#"{"type": "enum", "name": "e", "symbols": ["A", "B"]}"#, &[4], None),
        (r#"{"type": "array", "items": "int"}"#, &[3, 4, 2, 4, 0], Some(Value::Array(vec![Value::Int(1), Value::Int(2)]))),
        (r#"{"type": "array", "items": "null"}"#, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0], None),
        (RECORD, &[4, 2, 2, b'x'], Some(Value::Record(vec![Value::Int(2), Value::Text("x".to_owned())]))),
        (RECORD, &[4, 4], None),
        (r#"{"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}"#, &[4, 0x04, 0xd2], Some(Value::Decimal(1234))),
        (r#"{"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 2}"#, &[4, 0x04, 0xd2], None),
        (r#"{"type": "fixed", "name": "f", "size": 18, "logicalType": "decimal", "precision": 4}"#, &[0xff; 18], Some(Value::Decimal(-1))),
        (r#"{"type": "long", "logicalType": "timestamp-millis"}"#, &[3], Some(Value::Long(-2000))),
    ] {
        reads(json, json, message, value);
    }
}

#[test]
fn a_schema_may_have_changed_since_a_message_was_written() {
    let record = |fields: &str| format!(r#"{{"type": "record", "name": "other", "fields": [{fields}]}}"#);
    let message = [4, 2, 2, b'x'];
    for (fields, value) in [
        (r#"{"name": "b", "type": ["null", "string"]}"#, Some(vec![Value::Text("x".to_owned())])),
        (r#"{"name": "a", "type": "double"}, {"name": "c", "type": "int", "default": 7}"#, Some(vec![Value::Double(2.0), Value::Int(7)])),
        (r#"{"name": "q", "aliases": ["a"], "type": "long"}"#, Some(vec![Value::Long(2)])),
        (r#"{"name": "a", "type": ["string", "int"]}"#, Some(vec![Value::Record(vec![Value::Null, Value::Int(2)])])),
        (r#"{"name": "a", "type": ["int", "long"]}"#, Some(vec![Value::Long(2)])),
        (r#"{"name": "c", "type": ["null", "int"], "default": null}"#, Some(vec![Value::Null])),
        (
            r#"{"name": "c", "type": {"type": "map", "values": "int"}, "default": {"k": 1}}"#,
            Some(vec![Value::Map(vec![(Value::Text("k".to_owned()), Value::Int(1))])]),
        ),
        (r#"{"name": "a", "type": "string"}"#, None),
        (r#"{"name": "c", "type": "int"}"#, None),
    ] {
        reads(RECORD, &record(fields), &message, value.map(Value::Record));
    }
}

#[test]
fn schemas_that_mean_nothing_are_refused() {
    for json in [
        "nope",
        r#"{"type": "record", "name": "r"}"#,
        r#"{"type": "array"}"#,
        r#"["int", "int"]"#,
        r#""other""#,
        r#"{"type": "record", "name": "n", "fields": [{"name": "next", "type": ["null", "n"]}]}"#,
        r#"{"type": "record", "name": "n", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]}"#,
        r#"{"type": "fixed", "name": "f", "size": -1}"#,
    ] {
        assert!(schema::parse(json).is_err(), "{json}");
    }
}

#[test]
fn what_is_written_reads_back() {
    let decimals =
        arrow::array::Decimal128Array::from(vec![0, 1, -1, 127, 128, -128, -129, 99_999]).with_precision_and_scale(5, 2).unwrap();
    let decimals: ArrayRef = std::sync::Arc::new(decimals);
    for kind in [r#"{"type": "bytes", "#, r#"{"type": "fixed", "name": "f", "size": 3, "#] {
        let schema = schema(&format!(r#"{kind}"logicalType": "decimal", "precision": 5, "scale": 2}}"#));
        let (write, read) = (encode::compile(decimals.data_type(), &schema, false).unwrap(), resolve::resolve(&schema, &schema));
        for at in 0..decimals.len() {
            let mut out = Vec::new();
            encode::encode(&write, &decimals, at, &mut out).unwrap();
            let expected = decimals.as_primitive::<arrow::datatypes::Decimal128Type>().value(at);
            assert_eq!(decode::decode(&read, &out), Ok(Value::Decimal(expected)), "{out:?}");
        }
    }
}
