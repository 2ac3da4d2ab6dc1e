use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, ListArray, StringArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::Int32Type;

use super::*;
use crate::functions::testing::{column, constant, evaluate, texts};
use crate::types::parse_data_type;

const ANSI: CastMode = CastMode::Ansi;

/// Casts a constant; gives its text or the error condition.
fn cast_text(from: &str, to: &str, mode: CastMode, settings: &Settings) -> String {
    let to = parse_data_type(to).unwrap();
    let outcome = explicit(constant(from), &to, mode, settings).and_then(|typed| {
        let array = evaluate(&typed, &[])?;
        assert_eq!(array.data_type(), &typed.data_type);
        Ok(texts(&array, &typed.to_field("value")).remove(0))
    });
    outcome.unwrap_or_else(|error| error.code().to_owned())
}

#[test]
fn numbers_in_three_modes() {
    let cases = [
        ("3000000000", "int", "CAST_OVERFLOW", "-1294967296", "null"),
        ("300", "tinyint", "CAST_OVERFLOW", "44", "null"),
        ("2.9", "int", "2", "2", "2"),
        ("-2.9", "int", "-2", "-2", "-2"),
        ("double'1e20'", "bigint", "CAST_OVERFLOW", "9223372036854775807", "null"),
        ("double'NaN'", "int", "CAST_OVERFLOW", "0", "null"),
        ("double'300.5'", "tinyint", "CAST_OVERFLOW", "44", "null"),
        ("double'1e20'", "decimal(10,2)", "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", "null", "null"),
        ("double'NaN'", "decimal(10,2)", "null", "null", "null"),
        ("double'1.005'", "decimal(10,2)", "1.01", "1.01", "1.01"),
        ("decimal(5,2)'9.99'", "int", "9", "9", "9"),
        ("decimal(20,0)'5000000000'", "int", "CAST_OVERFLOW", "705032704", "null"),
        ("decimal(5,2)'9.99'", "decimal(2,0)", "10", "10", "10"),
        ("decimal(5,2)'99.99'", "decimal(2,0)", "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", "null", "null"),
        ("12345", "decimal(4,0)", "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", "null", "null"),
        ("0.5", "boolean", "true", "true", "true"),
        ("true", "decimal(3,1)", "1.0", "1.0", "1.0"),
        ("float'16777217'", "double", "1.6777216E7", "1.6777216E7", "1.6777216E7"),
        ("70", "timestamp", "1970-01-01 00:01:10", "1970-01-01 00:01:10", "1970-01-01 00:01:10"),
        ("double'1.5'", "timestamp", "1970-01-01 00:00:01.5", "1970-01-01 00:00:01.5", "1970-01-01 00:00:01.5"),
        ("double'NaN'", "timestamp", "CAST_INVALID_INPUT", "null", "null"),
    ];
    check(&cases);
}

#[test]
fn texts_in_three_modes() {
    let cases = [
        ("'1.9'", "int", "CAST_INVALID_INPUT", "1", "null"),
        ("' 12 '", "int", "12", "12", "12"),
        ("'128'", "tinyint", "CAST_INVALID_INPUT", "null", "null"),
        ("'abc'", "double", "CAST_INVALID_INPUT", "null", "null"),
        ("'inf'", "double", "Infinity", "Infinity", "Infinity"),
        ("'yes'", "boolean", "true", "true", "true"),
        ("'maybe'", "boolean", "CAST_INVALID_INPUT", "null", "null"),
        ("'1e2'", "decimal(5,1)", "100.0", "100.0", "100.0"),
        ("'99999'", "decimal(5,1)", "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", "null", "null"),
        ("'x'", "decimal(5,1)", "CAST_INVALID_INPUT", "null", "null"),
        ("'2024-1-2'", "date", "2024-01-02", "2024-01-02", "2024-01-02"),
        ("'2024-02-30'", "date", "CAST_INVALID_INPUT", "null", "null"),
        ("'2024-01-02 03:04:05.100+01:00'", "timestamp", "2024-01-02 02:04:05.1", "2024-01-02 02:04:05.1", "2024-01-02 02:04:05.1"),
        ("'2024'", "timestamp_ntz", "2024-01-01 00:00:00", "2024-01-01 00:00:00", "2024-01-01 00:00:00"),
        (
            "'1 02:03:04'",
            "interval day to second",
            "INTERVAL '1 02:03:04' DAY TO SECOND",
            "INTERVAL '1 02:03:04' DAY TO SECOND",
            "INTERVAL '1 02:03:04' DAY TO SECOND",
        ),
        (
            "'5'",
            "interval day to second",
            "INVALID_INTERVAL_FORMAT.UNMATCHED_FORMAT_STRING_WITH_NOTICE",
            "INVALID_INTERVAL_FORMAT.UNMATCHED_FORMAT_STRING_WITH_NOTICE",
            "null",
        ),
        ("'5'", "interval", "null", "null", "null"),
        ("'1 month 2 days'", "interval", "1 months 2 days", "1 months 2 days", "1 months 2 days"),
    ];
    check(&cases);
}

fn check(cases: &[(&str, &str, &str, &str, &str)]) {
    let settings = Settings::default();
    for (from, to, ansi, legacy, attempt) in cases {
        for (mode, expected) in [(ANSI, ansi), (CastMode::Legacy, legacy), (CastMode::Try, attempt)] {
            assert_eq!(&cast_text(from, to, mode, &settings), expected, "{from} to {to} {mode:?}");
        }
    }
}

#[test]
fn casts_that_there_are_not() {
    let without = "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION";
    let with_conf = "DATATYPE_MISMATCH.CAST_WITH_CONF_SUGGESTION";
    let with_function = "DATATYPE_MISMATCH.CAST_WITH_FUNC_SUGGESTION";
    for (from, to, ansi, legacy, attempt) in [
        ("date'2024-01-02'", "int", with_function, "null", with_function),
        ("1", "date", with_function, without, with_function),
        ("1", "binary", with_conf, "\0\0\0\u{1}", without),
        ("true", "timestamp", with_conf, "1970-01-01 00:00:00.000001", without),
        ("true", "date", without, without, without),
        ("date'2024-01-02'", "boolean", with_conf, "null", without),
        ("binary'a'", "int", without, without, without),
        ("timestamp_ntz'2024-01-02'", "bigint", without, without, without),
        ("1", "array<int>", without, without, without),
    ] {
        for (mode, expected) in [(ANSI, ansi), (CastMode::Legacy, legacy), (CastMode::Try, attempt)] {
            assert_eq!(cast_text(from, to, mode, &Settings::default()), expected, "{from} to {to} {mode:?}");
        }
    }
}

#[test]
fn the_session_zone_counts() {
    let settings = Settings { time_zone: TimeZone::parse("America/Los_Angeles").unwrap(), ..Settings::default() };
    for (from, to, expected) in [
        ("'2024-01-02'", "timestamp", "2024-01-02 08:00:00"),
        ("date'2024-07-02'", "timestamp", "2024-07-02 07:00:00"),
        ("timestamp'2024-01-02 03:00:00'", "date", "2024-01-01"),
        ("timestamp'2024-01-02 03:00:00'", "timestamp_ntz", "2024-01-01 19:00:00"),
        ("timestamp'2024-01-02 03:00:00'", "string", "2024-01-01 19:00:00"),
        ("timestamp_ntz'2024-01-02 03:00:00'", "timestamp", "2024-01-02 11:00:00"),
        ("timestamp'2024-01-02 03:04:05.5'", "double", "1.7041646455E9"),
        ("timestamp'1969-12-31 23:59:59.5'", "bigint", "-1"),
    ] {
        assert_eq!(cast_text(from, to, ANSI, &settings), expected, "{from} to {to}");
    }
}

#[test]
fn what_can_be_null() {
    for (from, to, mode, nullable) in [
        ("1", "decimal(10,2)", ANSI, true),
        ("1", "bigint", ANSI, false),
        ("1.5", "int", ANSI, true),
        ("'5'", "int", ANSI, true),
        ("'5'", "binary", ANSI, false),
        ("1", "string", ANSI, false),
        ("1", "tinyint", CastMode::Try, true),
        ("1", "bigint", CastMode::Try, false),
        ("true", "int", CastMode::Try, true),
    ] {
        let typed = explicit(constant(from), &parse_data_type(to).unwrap(), mode, &Settings::default()).unwrap();
        assert_eq!(typed.nullable, nullable, "{from} to {to} {mode:?}");
    }
}

#[test]
fn doubles_look_as_in_java() {
    for (value, expected) in [
        (1.0, "1.0"),
        (0.1, "0.1"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12_345_678.9, "1.23456789E7"),
        (1e-3, "0.001"),
        (9.999e-4, "9.999E-4"),
        (1e20, "1.0E20"),
        (5e-324, "4.9E-324"),
        (f64::MAX, "1.7976931348623157E308"),
        (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
        (1.0 / 3.0, "0.3333333333333333"),
        (2.0 / 3.0, "0.6666666666666666"),
        (0.1 + 0.2, "0.30000000000000004"),
        (100.0, "100.0"),
        (1_704_164_645.5, "1.7041646455E9"),
        (2_f64.powi(-45), "2.8421709430404007E-14"),
        (2e23, "1.9999999999999998E23"),
        (9_007_199_254_740_993.0, "9.007199254740992E15"),
        (1.234_567_890_123_456_7e19, "1.2345678901234567E19"),
        (-0.0, "-0.0"),
        (f64::NAN, "NaN"),
        (f64::NEG_INFINITY, "-Infinity"),
    ] {
        let mut text = String::new();
        push_double(&mut text, value);
        assert_eq!(text, expected);
    }
}

#[test]
fn floats_look_as_in_java() {
    for (value, expected) in [
        (1_704_164_608.0, "1.70416461E9"),
        (1.1, "1.1"),
        (f32::MAX, "3.4028235E38"),
        (f32::from_bits(1), "1.4E-45"),
        (16_777_216.0, "1.6777216E7"),
        (0.001, "0.001"),
        (3.3e-5, "3.3E-5"),
    ] {
        let mut text = String::new();
        push_float(&mut text, value);
        assert_eq!(text, expected);
    }
}

#[test]
fn decimals_without_ansi_rules_have_exponents() {
    for (text, mode, expected) in [
        ("decimal(10,8)'0'", ANSI, "0.00000000"),
        ("decimal(10,8)'0'", CastMode::Legacy, "0E-8"),
        ("decimal(10,8)'0.00000012'", CastMode::Legacy, "1.2E-7"),
        ("decimal(10,2)'-0.05'", CastMode::Legacy, "-0.05"),
        ("decimal(10,2)'-0.05'", ANSI, "-0.05"),
    ] {
        assert_eq!(cast_text(text, "string", mode, &Settings::default()), expected, "{text}");
    }
}

fn lists() -> ArrayRef {
    let lists = [Some(vec![Some(1), None]), None, Some(vec![])];
    Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))
}

#[test]
fn nested_values_are_cast_part_by_part() {
    let values = lists();
    let to = parse_data_type("array<string>").unwrap();
    let typed = explicit(column("a", &values), &to, ANSI, &Settings::default()).unwrap();
    let result = evaluate(&typed, &[("a", values.clone())]).unwrap();
    assert_eq!(texts(&result, &typed.to_field("a")), ["[1, null]", "null", "[]"]);
    let sliced = values.slice(1, 2);
    let result = evaluate(&typed, &[("a", sliced)]).unwrap();
    assert_eq!(texts(&result, &typed.to_field("a")), ["null", "[]"]);
}

#[test]
fn what_lies_below_null_is_not_cast() {
    let hidden: ArrayRef = Arc::new(StringArray::from(vec!["1", "not a number"]));
    let fields = vec![Field::new("x", DataType::Utf8, false)].into();
    let values: ArrayRef = Arc::new(StructArray::new(fields, vec![hidden], Some(NullBuffer::from(vec![true, false]))));
    let to = parse_data_type("struct<y:int>").unwrap();
    let typed = explicit(column("s", &values), &to, ANSI, &Settings::default()).unwrap();
    let result = evaluate(&typed, &[("s", values)]).unwrap();
    assert!(result.is_null(1));
    let expected: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
    assert_eq!(result.as_struct().column(0), &expected);
}

#[test]
fn binary_is_text_in_casts_and_hexadecimal_when_shown() {
    let bytes: ArrayRef = Arc::new(arrow::array::BinaryArray::from(vec![b"ab".as_slice()]));
    let field = Field::new("b", DataType::Binary, true);
    let shown = text_of(&bytes, &field, &TextStyle::show(TimeZone::Offset(0))).unwrap();
    let cast = text_of(&bytes, &field, &TextStyle::cast(TimeZone::Offset(0))).unwrap();
    assert_eq!((shown.value(0), cast.value(0)), ("[61 62]", "ab"));
}
