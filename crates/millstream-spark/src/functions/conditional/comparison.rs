//! `= <> < <= > >= <=>`.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::logical_expr::{Operator, binary_expr};
use millstream_core::{Error, Result};

use super::floats::normalized;
use crate::functions::coercion::{self, is_nested};
use crate::functions::{Arguments, Call, Functions, Kernel, Settings, Typed, cast, faults, kernel};
use crate::types::ddl_type;

pub(super) fn register(functions: &mut Functions) {
    functions.add_all(&["==", "="], |call| comparison(call, Operator::Eq));
    functions.add_all(&["!=", "<>"], |call| comparison(call, Operator::NotEq));
    functions.add("<", |call| comparison(call, Operator::Lt));
    functions.add("<=", |call| comparison(call, Operator::LtEq));
    functions.add(">", |call| comparison(call, Operator::Gt));
    functions.add(">=", |call| comparison(call, Operator::GtEq));
    functions.add_all(&["<=>", "equal_null"], |call| comparison(call, Operator::IsNotDistinctFrom));
}

fn comparison(call: &Call<'_>, operator: Operator) -> Result<Typed> {
    call.arity(2..=2)?;
    compare(operator, call.name, call.value(0)?.clone(), call.value(1)?.clone(), call.settings)
}

/// Compares two values of any types that Spark compares; `symbol` is the operator in messages.
///
/// # Errors
/// `DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES`, `INVALID_ORDERING_TYPE`.
pub(in crate::functions) fn compare(operator: Operator, symbol: &str, left: Typed, right: Typed, settings: &Settings) -> Result<Typed> {
    let Some(common) = coercion::comparison_type(&left.data_type, &right.data_type, settings) else {
        return Err(faults::operands_differ(symbol, &left.data_type, &right.data_type));
    };
    require_orderable(symbol, &common)?;
    let null_safe = operator == Operator::IsNotDistinctFrom;
    if common == DataType::Null {
        return Ok(if null_safe { Typed::literal(true.into()) } else { Typed::null(&DataType::Boolean) });
    }
    let left = normalized(cast::implicit(left, &common, settings)?);
    let right = normalized(cast::implicit(right, &common, settings)?);
    let nullable = !null_safe && (left.nullable || right.nullable);
    if is_nested(&common) {
        let name = kernel_name(operator);
        return Ok(kernel::scalar(name, Comparison { operator: name, null_safe }, vec![left, right], DataType::Boolean, nullable));
    }
    Ok(Typed::new(binary_expr(left.expr, operator, right.expr), DataType::Boolean, nullable))
}

/// Whether values of the type have an order. Maps and calendar intervals have none.
pub(in crate::functions) fn is_orderable(data_type: &DataType) -> bool {
    match data_type {
        DataType::Map(..) | DataType::Interval(IntervalUnit::MonthDayNano | IntervalUnit::DayTime) => false,
        DataType::List(element) => is_orderable(element.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| is_orderable(field.data_type())),
        _ => true,
    }
}

/// Refuses types without order.
///
/// # Errors
/// `DATATYPE_MISMATCH.INVALID_ORDERING_TYPE`.
pub(in crate::functions) fn require_orderable(symbol: &str, data_type: &DataType) -> Result<()> {
    if is_orderable(data_type) {
        return Ok(());
    }
    Err(faults::mismatch(
        "INVALID_ORDERING_TYPE",
        format!("`{symbol}` does not take the type \"{}\", which has no order", ddl_type(data_type)),
    ))
}

fn kernel_name(operator: Operator) -> &'static str {
    match operator {
        Operator::Eq => "=",
        Operator::NotEq => "<>",
        Operator::Lt => "<",
        Operator::LtEq => "<=",
        Operator::Gt => ">",
        Operator::GtEq => ">=",
        _ => "<=>",
    }
}

/// Compares arrays and structs, part by part; a null part is smaller than any other and equal to another null part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Comparison {
    operator: &'static str,
    null_safe: bool,
}

impl Kernel for Comparison {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (left, right) = (arguments.array(0)?, arguments.array(1)?);
        let order = make_comparator(&left, &right, SortOptions { descending: false, nulls_first: true })
            .map_err(|error| Error::internal("values cannot be compared").caused_by(error))?;
        let rows = (0..left.len()).map(|row| {
            if !self.null_safe && (left.is_null(row) || right.is_null(row)) {
                return None;
            }
            let order = order(row, row);
            Some(match self.operator {
                "<>" => order != Ordering::Equal,
                "<" => order == Ordering::Less,
                "<=" => order != Ordering::Greater,
                ">" => order == Ordering::Greater,
                ">=" => order != Ordering::Less,
                _ => order == Ordering::Equal,
            })
        });
        Ok(Arc::new(rows.collect::<BooleanArray>()))
    }
}
