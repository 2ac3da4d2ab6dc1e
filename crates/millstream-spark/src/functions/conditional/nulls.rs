//! `coalesce`, `nullif` and their relatives; `assert_true`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, NullArray};
use arrow::datatypes::DataType;
use datafusion::logical_expr::{Expr, Operator, Volatility};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};

use super::comparison::compare;
use super::logic::case;
use crate::functions::coercion::{self, is_numeric};
use crate::functions::{Arguments, Call, Functions, Kernel, Typed, cast, faults, kernel};

pub(super) fn register(functions: &mut Functions) {
    functions.add("coalesce", |call| {
        call.arity(1..=usize::MAX)?;
        first_of(call, call.values_from(0)?)
    });
    functions.add_all(&["ifnull", "nvl"], |call| {
        call.arity(2..=2)?;
        first_of(call, call.values_from(0)?)
    });
    functions.add("nvl2", |call| {
        call.arity(3..=3)?;
        let (data_type, values) = call.common(1)?;
        let nullable = values.iter().any(|value| value.nullable);
        let given = Expr::IsNotNull(Box::new(call.value(0)?.expr.clone()));
        let mut values = values.into_iter().map(|value| value.expr);
        let branches = values.next().map(|value| (given, value)).into_iter().collect();
        Ok(Typed::new(case(branches, values.next(), data_type == DataType::Boolean), data_type, nullable))
    });
    functions.add("nullif", |call| {
        call.arity(2..=2)?;
        null_if(call, call.value(1)?.clone())
    });
    functions.add("nullifzero", |call| {
        call.arity(1..=1)?;
        null_if(call, Typed::literal(ScalarValue::Int32(Some(0))))
    });
    functions.add("zeroifnull", |call| {
        call.arity(1..=1)?;
        first_of(call, vec![call.value(0)?.clone(), Typed::literal(ScalarValue::Int32(Some(0)))])
    });
    functions.add("isnull", |call| {
        call.arity(1..=1)?;
        Ok(Typed::new(Expr::IsNull(Box::new(call.value(0)?.expr.clone())), DataType::Boolean, false))
    });
    functions.add("isnotnull", |call| {
        call.arity(1..=1)?;
        Ok(Typed::new(Expr::IsNotNull(Box::new(call.value(0)?.expr.clone())), DataType::Boolean, false))
    });
    functions.add("isnan", |call| {
        call.arity(1..=1)?;
        let value = call.value(0)?.clone();
        let value = if value.data_type == DataType::Float32 { value } else { call.double(0)? };
        Ok(kernel::scalar("isnan", IsNan, vec![value], DataType::Boolean, false))
    });
    functions.add("nanvl", |call| {
        call.arity(2..=2)?;
        let single = call.value(0)?.data_type == DataType::Float32 && call.value(1)?.data_type == DataType::Float32;
        let data_type = if single { DataType::Float32 } else { DataType::Float64 };
        let (value, other) = (call.coerced(0, &data_type)?, call.coerced(1, &data_type)?);
        let nullable = value.nullable || other.nullable;
        let is_nan = kernel::scalar("isnan", IsNan, vec![value.clone()], DataType::Boolean, false);
        Ok(Typed::new(case(vec![(is_nan.expr, other.expr)], Some(value.expr), false), data_type, nullable))
    });
    functions.add("assert_true", assert_true);
}

fn first_of(call: &Call<'_>, values: Vec<Typed>) -> Result<Typed> {
    let (data_type, values) = coercion::to_common_type(call.name, values, call.settings)?;
    let nullable = values.iter().all(|value| value.nullable);
    let metadata = values.first().map(|value| value.metadata.clone()).filter(|_| coercion::common_units(&data_type, &values).is_some());
    let metadata = metadata.unwrap_or_default();
    let mut expressions: Vec<Expr> = values.into_iter().map(|value| value.expr).collect();
    let last = expressions.pop();
    let branches: Vec<(Expr, Expr)> = expressions.into_iter().map(|expr| (Expr::IsNotNull(Box::new(expr.clone())), expr)).collect();
    let value = match last {
        Some(last) if branches.is_empty() => last,
        last => case(branches, last, data_type == DataType::Boolean),
    };
    Ok(Typed::new(value, data_type, nullable).with_metadata(metadata))
}

fn null_if(call: &Call<'_>, other: Typed) -> Result<Typed> {
    let value = call.value(0)?.clone();
    if call.name == "nullifzero" && !is_numeric(&value.data_type) && !matches!(value.data_type, DataType::Utf8 | DataType::Null) {
        return Err(faults::operands_differ("=", &value.data_type, &other.data_type));
    }
    let equal = compare(Operator::Eq, "=", value.clone(), other, call.settings)?;
    let null = Typed::null(&value.data_type);
    let expr = case(vec![(equal.expr, null.expr)], Some(value.expr), value.data_type == DataType::Boolean);
    Ok(Typed::new(expr, value.data_type, true).with_metadata(value.metadata))
}

fn assert_true(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=2)?;
    let condition = call.boolean(0)?;
    let message = if call.len() > 1 { call.string(1)? } else { Typed::text("the condition is not true") };
    let arguments = vec![condition, cast::implicit(message, &DataType::Utf8, call.settings)?];
    // Volatile, so that it is not left out although its result is known.
    Ok(kernel::call("assert_true", AssertTrue, arguments, DataType::Null, true, Volatility::Volatile))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct AssertTrue;

impl Kernel for AssertTrue {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (conditions, messages) = (arguments.array(0)?, arguments.array(1)?);
        let (Some(conditions), Some(messages)) = (conditions.as_boolean_opt(), messages.as_string_opt::<i32>()) else {
            return Err(Error::internal("assert_true takes a condition and a message"));
        };
        match (0..conditions.len()).find(|row| conditions.is_null(*row) || !conditions.value(*row)) {
            None => Ok(Arc::new(NullArray::new(conditions.len()))),
            Some(row) => {
                let message = if messages.is_null(row) { "null" } else { messages.value(row) };
                Err(faults::row("USER_RAISED_EXCEPTION", "P0001", message))
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct IsNan;

impl Kernel for IsNan {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        use arrow::array::BooleanArray;
        use arrow::datatypes::{Float32Type, Float64Type};
        let values = arguments.array(0)?;
        let array: BooleanArray = if let Some(array) = values.as_primitive_opt::<Float64Type>() {
            array.iter().map(|value| Some(value.is_some_and(f64::is_nan))).collect()
        } else if let Some(array) = values.as_primitive_opt::<Float32Type>() {
            array.iter().map(|value| Some(value.is_some_and(f32::is_nan))).collect()
        } else {
            return Err(Error::internal("isnan takes floating-point numbers"));
        };
        Ok(Arc::new(array))
    }
}
