//! Conditions that a source decides before a row counts as read, as Spark hands them to its file formats.

use arrow::datatypes::{DataType, Schema};
use datafusion::logical_expr::expr::{Cast, InList, Like, ScalarFunction};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};
use datafusion::scalar::ScalarValue;
use millstream_core::source::FilterColumns;

/// Functions that compare a text with a constant one.
const TEXT_TESTS: [&str; 4] = ["startswith", "endswith", "contains", "like"];

/// The function around floating-point numbers that are compared.
const NORMALIZED: &str = "normalized";

/// Whether a source with such columns decides a condition.
pub(crate) fn is_decided(condition: &Expr, schema: &Schema, columns: &FilterColumns) -> bool {
    let mut indices = Vec::new();
    for column in condition.column_refs() {
        match schema.index_of(&column.name) {
            Ok(index) => indices.push(index),
            Err(_) => return false,
        }
    }
    if indices.is_empty() || condition.is_volatile() {
        return false;
    }
    if indices.iter().all(|index| columns.constant.contains(index)) {
        return true;
    }
    indices.iter().all(|index| columns.compared.contains(index)) && is_simple(condition)
}

/// Whether a condition only compares columns with constants.
fn is_simple(condition: &Expr) -> bool {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => is_simple(left) && is_simple(right),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            (is_operand(left) && is_constant(right)) || (is_constant(left) && is_operand(right))
        }
        Expr::Not(inner) => is_simple(inner),
        Expr::IsNull(inner) | Expr::IsNotNull(inner) => matches!(inner.as_ref(), Expr::Column(_)),
        Expr::InList(InList { expr, list, .. }) => is_operand(expr) && list.iter().all(is_constant),
        Expr::Between(Between { expr, low, high, .. }) => is_operand(expr) && is_constant(low) && is_constant(high),
        Expr::Like(Like { expr, pattern, escape_char, case_insensitive, .. }) => {
            !case_insensitive && escape_char.is_none() && is_operand(expr) && is_plain_pattern(pattern)
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if TEXT_TESTS.contains(&func.name()) => match args.as_slice() {
            [value, pattern] => is_operand(value) && if func.name() == "like" { is_plain_pattern(pattern) } else { is_constant(pattern) },
            _ => false,
        },
        _ => false,
    }
}

fn is_comparison(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// A column, or one that is only made wider to be compared.
fn is_operand(value: &Expr) -> bool {
    match value {
        Expr::Column(_) => true,
        Expr::Cast(Cast { expr, field }) => {
            matches!(field.data_type(), DataType::Int16 | DataType::Int32 | DataType::Int64) && is_operand(expr)
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) => func.name() == NORMALIZED && matches!(args.as_slice(), [Expr::Column(_)]),
        _ => false,
    }
}

fn is_constant(value: &Expr) -> bool {
    matches!(value, Expr::Literal(..))
}

/// A pattern that is a beginning, an end, a part, or a whole text.
fn is_plain_pattern(pattern: &Expr) -> bool {
    match pattern {
        Expr::Literal(ScalarValue::Utf8(Some(pattern)), _) => {
            let inner = pattern.strip_prefix('%').unwrap_or(pattern);
            let inner = inner.strip_suffix('%').unwrap_or(inner);
            !inner.contains(['%', '_', '\\'])
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;
    use datafusion::logical_expr::{col, lit};

    use super::*;

    #[test]
    fn comparisons_with_constants_are_decided_by_the_source() {
        let schema = Schema::new(vec![
            Field::new("k", DataType::Utf8, true),
            Field::new("v", DataType::Int64, true),
            Field::new("p", DataType::Int32, true),
            Field::new("_metadata", DataType::Utf8, true),
        ]);
        let columns = FilterColumns { constant: [2].into(), compared: [0, 1].into() };
        let cases = [
            (col("v").gt(lit(1_i64)), true),
            (col("v").not_eq(lit(1_i64)).and(col("k").is_not_null()), true),
            (col("k").like(lit("a%")), true),
            (col("k").like(lit("a_%")), false),
            ((col("v") % lit(2_i64)).eq(lit(0_i64)), false),
            ((col("p") % lit(2_i32)).eq(lit(0_i32)), true),
            (col("v").eq(col("p")), false),
            (col("_metadata").eq(lit("x")), false),
            (lit(true), false),
        ];
        for (condition, expected) in cases {
            assert_eq!(is_decided(&condition, &schema, &columns), expected, "{condition}");
        }
    }
}
