use datafusion::logical_expr::{col, lit};

use super::*;
use crate::types::{parse_data_type, simple_name};

fn data_type(text: &str) -> DataType {
    parse_data_type(text).unwrap()
}

fn settings(ansi: bool) -> Settings {
    Settings { ansi, ..Settings::default() }
}

/// Recorded from `coalesce(left, right)` of Spark 4.2.
#[test]
fn common_types_as_recorded() {
    let cases = [
        ("tinyint", "int", "int", "int"),
        ("int", "float", "double", "float"),
        ("bigint", "double", "double", "double"),
        ("float", "double", "double", "double"),
        ("tinyint", "decimal(5,2)", "decimal(5,2)", "decimal(5,2)"),
        ("smallint", "decimal(5,2)", "decimal(7,2)", "decimal(7,2)"),
        ("bigint", "decimal(5,2)", "decimal(22,2)", "decimal(22,2)"),
        ("bigint", "decimal(38,18)", "decimal(38,18)", "decimal(38,18)"),
        ("decimal(38,30)", "decimal(38,2)", "decimal(38,2)", "decimal(38,2)"),
        ("float", "decimal(5,2)", "double", "double"),
        ("string", "int", "bigint", "string"),
        ("string", "float", "double", "string"),
        ("string", "decimal(5,2)", "double", "string"),
        ("string", "boolean", "boolean", "-"),
        ("string", "binary", "binary", "-"),
        ("string", "date", "date", "string"),
        ("string", "interval day to second", "-", "string"),
        ("string", "interval", "-", "-"),
        ("date", "timestamp", "timestamp", "timestamp"),
        ("date", "timestamp_ntz", "timestamp_ntz", "timestamp_ntz"),
        ("timestamp", "timestamp_ntz", "timestamp", "timestamp"),
        ("boolean", "int", "-", "-"),
        ("date", "int", "-", "-"),
        ("interval year to month", "interval day to second", "-", "-"),
        ("void", "array<int>", "array<int>", "array<int>"),
        ("array<int>", "array<bigint>", "array<bigint>", "array<bigint>"),
        ("array<int>", "int", "-", "-"),
        ("struct<a:int>", "struct<A:bigint>", "struct<a:bigint>", "struct<a:bigint>"),
        ("struct<a:int>", "struct<b:int>", "-", "-"),
        ("map<string,int>", "map<string,bigint>", "map<string,bigint>", "map<string,bigint>"),
    ];
    for (left, right, ansi, legacy) in cases {
        for (rules, expected) in [(true, ansi), (false, legacy)] {
            for (left, right) in [(left, right), (right, left)] {
                let common = common_type(&data_type(left), &data_type(right), &settings(rules));
                let name = common.map_or("-".to_owned(), |data_type| simple_name(&data_type).to_lowercase());
                assert_eq!(name, expected, "{left} {right} ansi={rules}");
            }
        }
    }
}

#[test]
fn comparisons_cast_text_to_the_other_side() {
    for (other, ansi, legacy) in [
        ("int", "bigint", "int"),
        ("decimal(5,2)", "double", "double"),
        ("timestamp", "timestamp", "timestamp"),
        ("interval month", "-", "-"),
    ] {
        for (rules, expected) in [(true, ansi), (false, legacy)] {
            let common = comparison_type(&DataType::Utf8, &data_type(other), &settings(rules));
            assert_eq!(common.map_or("-".to_owned(), |data_type| simple_name(&data_type)), expected, "{other} ansi={rules}");
        }
    }
    assert_eq!(comparison_type(&DataType::Boolean, &DataType::Int32, &settings(true)), None);
    assert_eq!(comparison_type(&DataType::Boolean, &DataType::Int32, &settings(false)), Some(DataType::Int32));
    let of = |name: &str| DataType::Struct(vec![Field::new(name, DataType::Int32, true)].into());
    assert_eq!(comparison_type(&of("a"), &of("b"), &settings(true)), Some(of("a")));
}

#[test]
fn arguments_are_cast_as_values_are_stored() {
    for (from, to, ansi, legacy) in [
        ("bigint", "int", true, true),
        ("double", "int", true, true),
        ("string", "date", true, true),
        ("string", "boolean", true, false),
        ("timestamp", "date", true, true),
        ("int", "string", true, true),
        ("boolean", "int", false, false),
        ("int", "boolean", false, false),
        ("int", "date", false, false),
        ("array<int>", "array<string>", true, true),
        ("array<int>", "string", false, false),
        ("void", "map<string,int>", true, true),
    ] {
        for (rules, expected) in [(true, ansi), (false, legacy)] {
            assert_eq!(implicitly_castable(&data_type(from), &data_type(to), &settings(rules)), expected, "{from} {to} {rules}");
        }
    }
}

#[test]
fn constants_are_computed_and_columns_are_not() {
    let sum = Typed::new(lit(1_i64) + lit(2_i64), DataType::Int64, false);
    assert_eq!(constant_of(&sum), Some(ScalarValue::Int64(Some(3))));
    let column = Typed::new(col("a") + lit(2_i64), DataType::Int64, false);
    assert_eq!(constant_of(&column), None);
    let cast = cast::explicit(Typed::text("12"), &DataType::Int32, cast::CastMode::Ansi, &Settings::default()).unwrap();
    assert_eq!(constant_of(&cast), Some(ScalarValue::Int32(Some(12))));
    let bad = cast::explicit(Typed::text("x"), &DataType::Int32, cast::CastMode::Ansi, &Settings::default()).unwrap();
    assert_eq!(constant_of(&bad), None);
}
