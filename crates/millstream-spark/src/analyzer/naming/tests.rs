//! What Spark 4.2 calls columns (`names.txt`: an expression, a tab, its name), compared with what is derived here.

use arrow::datatypes::{Field, IntervalUnit, TimeUnit};

use super::*;
use crate::sql::parse::expression_with_subqueries;

/// The relation that the recorded names are from.
struct Recorded;

impl Names for Recorded {
    fn qualifiers(&self, parts: &[String]) -> usize {
        usize::from(parts.first().is_some_and(|first| first == "t"))
    }

    fn data_type(&self, expression: &Expression) -> Option<DataType> {
        let name = match &expression.expr_type {
            Some(ExprType::UnresolvedAttribute(attribute)) => attribute.unparsed_identifier.as_str(),
            Some(ExprType::UnresolvedFunction(function)) => function.function_name.as_str(),
            // The start of a window is the one extraction that is added to.
            Some(ExprType::UnresolvedExtractValue(extract)) => match &extract.child.as_ref()?.expr_type {
                Some(ExprType::UnresolvedFunction(function)) if function.function_name == "window" => "ts",
                _ => return None,
            },
            _ => return None,
        };
        Some(match name {
            "make_dt_interval" => DataType::Duration(TimeUnit::Microsecond),
            "make_ym_interval" => DataType::Interval(IntervalUnit::YearMonth),
            "a" | "b" => DataType::Int32,
            "d" => DataType::Date32,
            "ts" => types::timestamp(),
            "ntz" => DataType::Timestamp(TimeUnit::Microsecond, None),
            "iv" => DataType::Duration(TimeUnit::Microsecond),
            "ym" => DataType::Interval(IntervalUnit::YearMonth),
            "m" => types::map(DataType::Utf8, DataType::Int32, true),
            "mm" => types::map(DataType::Utf8, DataType::Struct(vec![Field::new("z", DataType::Int32, true)].into()), true),
            "s" | "k" => DataType::Utf8,
            "st" => DataType::Struct(vec![Field::new("f", DataType::Int32, true)].into()),
            _ => return None,
        })
    }
}

#[test]
fn columns_are_called_as_spark_calls_them() {
    let mut wrong = Vec::new();
    for line in include_str!("names.txt").lines() {
        let (text, expected) = line.split_once('\t').unwrap();
        let (expression, _) = expression_with_subqueries(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let found = name_in(&expression, &Recorded);
        if found != expected {
            wrong.push(format!("{text}\n    {expected}\n    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ (expression, Spark, here):\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn numbers_are_written_as_java_writes_them() {
    for (text, expected) in [
        ("1e0", "1.0"),
        ("1e7", "1.0E7"),
        ("123456.5D", "123456.5"),
        ("12345678.9D", "1.23456789E7"),
        ("0.001D", "0.001"),
        ("0.00012D", "1.2E-4"),
        ("-0.0D", "-0.0"),
        ("100.0F", "100.0"),
        ("1.5e10F", "1.5E10"),
        ("0.0000001BD", "1E-7"),
        ("1.50", "1.50"),
        ("interval '-1 02:03:04.5' day to second", "INTERVAL '-1 02:03:04.5' DAY TO SECOND"),
        ("interval '-1-2' year to month", "INTERVAL '-1-2' YEAR TO MONTH"),
        ("interval '100:30' hour to minute", "INTERVAL '100:30' HOUR TO MINUTE"),
        ("interval '36' hour", "INTERVAL '36' HOUR"),
        ("interval 0 seconds", "INTERVAL '00' SECOND"),
    ] {
        let (expression, _) = expression_with_subqueries(text).unwrap();
        assert_eq!(name_of(&expression), expected, "{text}");
    }
}

/// Names are written once, however deep: twice at every level would be 2^60 times here.
#[test]
fn deep_expressions_are_named_in_time() {
    for (before, after) in [("negative(", ")"), ("upper(", ")"), ("(a != ", ")"), ("nvl(", ", 1)"), ("(1 + ", ")"), ("(a * ", ")")] {
        let text = format!("{}a{}", before.repeat(60), after.repeat(60));
        let (expression, _) = expression_with_subqueries(&text).unwrap();
        assert!(name_in(&expression, &Recorded).len() > 120, "{before}");
    }
}
