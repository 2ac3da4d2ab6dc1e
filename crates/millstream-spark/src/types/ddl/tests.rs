use arrow::datatypes::DataType::*;
use arrow::datatypes::{DataType, Field, Fields, IntervalUnit, Schema, TimeUnit};

use super::super::{CHAR_VARCHAR, array, map, schema_from_json, schema_to_json, simple_name, timestamp, to_ddl};
use super::*;

#[test]
fn every_type_by_every_name() {
    let structure = Struct(Fields::from(vec![Field::new("x", Int32, true), Field::new("y", array(Utf8, true), false)]));
    let cases: Vec<(&str, DataType)> = vec![
        ("boolean", Boolean),
        ("TINYINT", Int8),
        ("byte", Int8),
        ("short", Int16),
        ("smallint", Int16),
        ("int", Int32),
        ("Integer", Int32),
        ("bigint", Int64),
        ("long", Int64),
        ("float", Float32),
        ("real", Float32),
        ("double", Float64),
        ("date", Date32),
        ("timestamp", timestamp()),
        ("timestamp_ltz", timestamp()),
        ("timestamp_ntz", Timestamp(TimeUnit::Microsecond, None)),
        ("string", Utf8),
        ("string COLLATE UTF8_BINARY", Utf8),
        ("char(5)", Utf8),
        ("varchar(7)", Utf8),
        ("binary", Binary),
        ("void", Null),
        ("decimal", Decimal128(10, 0)),
        ("dec(5)", Decimal128(5, 0)),
        ("numeric(10,2)", Decimal128(10, 2)),
        ("decimal(38, 38)", Decimal128(38, 38)),
        ("time(6)", Time64(TimeUnit::Nanosecond)),
        ("interval", Interval(IntervalUnit::MonthDayNano)),
        ("interval day to second", Duration(TimeUnit::Microsecond)),
        ("INTERVAL HOUR", Duration(TimeUnit::Microsecond)),
        ("interval year to month", Interval(IntervalUnit::YearMonth)),
        ("array<array<int>>", array(array(Int32, true), true)),
        ("array<array<array<int>>>", array(array(array(Int32, true), true), true)),
        ("map<string, map<int,date>>", map(Utf8, map(Int32, Date32, true), true)),
        ("struct<x: int, y array<string> NOT NULL>", structure.clone()),
        ("struct<>", Struct(Fields::empty())),
        ("struct<s:struct<x:int,y:array<string> not null>>", Struct(Fields::from(vec![Field::new("s", structure, true)]))),
    ];
    for (text, expected) in cases {
        assert_eq!(parse_data_type(text).unwrap(), expected, "{text}");
    }
}

#[test]
fn columns_keep_nullability_comments_and_lengths() {
    let schema = parse_schema("id BIGINT NOT NULL COMMENT 'the \\'key\\'', `odd name`: STRING, code VARCHAR(3), date DATE").unwrap();
    assert_eq!(schema.field(0), &Field::new("id", Int64, false).with_metadata([(COMMENT.into(), "the 'key'".into())].into()));
    assert_eq!(schema.field(1), &Field::new("odd name", Utf8, true));
    assert_eq!(schema.field(2), &Field::new("code", Utf8, true).with_metadata([(CHAR_VARCHAR.into(), "varchar(3)".into())].into()));
    assert_eq!(schema.field(3).name(), "date");
    assert_eq!(parse_schema("").unwrap(), Schema::empty());
    assert_eq!(parse_schema("struct<a: int>").unwrap(), parse_schema("a INT").unwrap());
    assert_eq!(parse_schema("struct STRUCT<a: INT>").unwrap().field(0).name(), "struct");
}

#[test]
fn schemas_survive_ddl_and_json() {
    let text = "id BIGINT NOT NULL COMMENT 'it\\'s \\\\',`a-b` DECIMAL(10,2),c CHAR(4),t TIMESTAMP,n TIMESTAMP_NTZ,\
                s STRUCT<x: INT NOT NULL, `y z`: ARRAY<VARCHAR(2)>>,m MAP<STRING, ARRAY<BINARY>>,\
                d INTERVAL DAY TO SECOND,y INTERVAL YEAR TO MONTH,v VOID,f FLOAT,b TINYINT";
    let schema = parse_schema(text).unwrap();
    assert_eq!(to_ddl(&schema), text);
    let json = schema_to_json(&schema);
    let back = schema_from_json(&json).unwrap();
    assert_eq!(schema_to_json(&back), json);
    assert_eq!(simple_name(back.field(5).data_type()), "struct<x:int,y z:array<string>>");
}

/// The form that Spark 4.2 prints for `StructType.json()`.
#[test]
fn json_is_sparks() {
    let text = concat!(
        r#"{"type":"struct","fields":[{"name":"k","type":"integer","nullable":false,"metadata":{"comment":"the key"}},"#,
        r#"{"name":"a","type":{"type":"array","elementType":"long","containsNull":false},"nullable":true,"metadata":{}},"#,
        r#"{"name":"m","type":{"type":"map","keyType":"string","valueType":"decimal(5,1)","valueContainsNull":true},"nullable":true,"metadata":{}},"#,
        r#"{"name":"s","type":{"type":"struct","fields":[{"name":"t","type":"timestamp","nullable":true,"metadata":{"n":1,"text":"1","list":[1,2]}}]},"#,
        r#""nullable":true,"metadata":{}}]}"#
    );
    let schema = schema_from_json(text).unwrap();
    assert_eq!(schema.field(0), &Field::new("k", Int32, false).with_metadata([(COMMENT.into(), "the key".into())].into()));
    assert_eq!(schema.field(1).data_type(), &array(Int64, false));
    let written: serde_json::Value = serde_json::from_str(&schema_to_json(&schema)).unwrap();
    let expected: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(written, expected);
}

#[test]
fn faults_name_their_place() {
    for (text, code, place) in [
        ("a INT, b", "PARSE_SYNTAX_ERROR", "schema:1:9: expected a type, found the end of the statement"),
        ("a INT b STRING", "PARSE_SYNTAX_ERROR", "schema:1:7: expected ',' or the end, found b"),
        ("a INT,\n b STRNG", "UNSUPPORTED_DATATYPE", "schema:2:4: there is no type STRNG (did you mean STRING?)"),
        ("a DATETIME", "UNSUPPORTED_DATATYPE", "schema:1:3: there is no type DATETIME (Spark's name is TIMESTAMP)"),
        ("a INT, A STRING", "COLUMN_ALREADY_EXISTS", "schema:1:8: column 'A' is there twice (names are compared without case)"),
        ("a DECIMAL(39, 2)", "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION", "schema:1:10: decimal precision 39 is more than 38"),
        ("a DECIMAL(2, 3)", "PARSE_SYNTAX_ERROR", "schema:1:10: DECIMAL(2, 3) has no digits before its scale ends"),
        ("a ARRAY<INT", "PARSE_SYNTAX_ERROR", "schema:1:12: expected '>', found the end of the statement"),
        ("a INTERVAL SECOND TO DAY", "PARSE_SYNTAX_ERROR", "schema:1:22: expected a smaller unit, found DAY"),
        ("a CHAR", "PARSE_SYNTAX_ERROR", "schema:1:7: expected '(', found the end of the statement"),
        ("a-b INT", "PARSE_SYNTAX_ERROR", "schema:1:2: expected a type, found '-'"),
    ] {
        let error = parse_schema(text).unwrap_err();
        assert_eq!(error.code(), code, "{text}");
        assert!(error.message().contains(place), "{text}: {error}");
    }
    let deep = format!("a {}INT{}", "ARRAY<".repeat(5000), ">".repeat(5000));
    assert_eq!(parse_schema(&deep).unwrap_err().code(), "PARSE_SYNTAX_ERROR");
    for text in ["", "[]", r#"{"type":"struct"}"#, r#"{"type":"struct","fields":[{"name":"a","type":"strin"}]}"#, r#""integer""#] {
        assert_eq!(schema_from_json(text).unwrap_err().code(), "INVALID_SCHEMA.PARSE_ERROR", "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "[a-z<>(),: `'0-9]{0,40}") {
        drop(parse_schema(&text));
        drop(schema_from_json(&text));
    }
}
