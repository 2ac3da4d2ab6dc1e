//! The operators `+ - * / % div` and their named relatives: which kernel computes them for which types.

use arrow::datatypes::{DataType, IntervalUnit};
use millstream_core::Result;

use super::arithmetic::{Arithmetic, DecimalArithmetic, IntegralDivision, IntervalArithmetic, Operation, Overflow, result_decimal};
use crate::functions::cast::interval::Units;
use crate::functions::coercion::{self, decimal_for, is_integral, is_numeric};
use crate::functions::{Argument, Call, Functions, Settings, Typed, cast, faults, kernel};
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add("+", |call| binary(call, Operation::Add, overflow(call)));
    functions
        .add("-", |call| if call.len() == 1 { super::sign::negative(call) } else { binary(call, Operation::Subtract, overflow(call)) });
    functions.add("*", |call| binary(call, Operation::Multiply, overflow(call)));
    functions.add("/", |call| binary(call, Operation::Divide, overflow(call)));
    functions.add_all(&["%", "mod"], |call| binary(call, Operation::Remainder, overflow(call)));
    functions.add("pmod", |call| binary(call, Operation::PositiveRemainder, overflow(call)));
    functions.add("div", |call| integral_division(call, overflow(call)));
    functions.add("try_add", |call| binary(call, Operation::Add, Overflow::Null));
    functions.add("try_subtract", |call| binary(call, Operation::Subtract, Overflow::Null));
    functions.add("try_multiply", |call| binary(call, Operation::Multiply, Overflow::Null));
    functions.add("try_divide", |call| binary(call, Operation::Divide, Overflow::Null));
    functions.add("try_mod", |call| binary(call, Operation::Remainder, Overflow::Null));
}

pub(super) fn overflow(call: &Call<'_>) -> Overflow {
    if call.settings.ansi { Overflow::Fail } else { Overflow::Wrap }
}

fn binary(call: &Call<'_>, operation: Operation, overflow: Overflow) -> Result<Typed> {
    call.arity(2..=2)?;
    let (mut left, mut right) = (call.value(0)?.clone(), call.value(1)?.clone());
    if overflow == Overflow::Null {
        // A try covers the reading of texts, too.
        for (side, other) in [(&mut left, right.data_type.clone()), (&mut right, call.value(0)?.data_type.clone())] {
            if side.data_type == DataType::Utf8 && is_numeric(&other) {
                let to = if is_integral(&other) && call.settings.ansi { DataType::Int64 } else { DataType::Float64 };
                *side = cast::explicit(side.clone(), &to, cast::CastMode::Try, call.settings)?;
            }
        }
    }
    if let Some(result) = temporal(call, operation, overflow, &left, &right) {
        return result;
    }
    numeric(operation, overflow, left, right, call.settings)
}

/// Arithmetic of numbers, after bringing both sides to types that the operator takes.
pub(super) fn numeric(operation: Operation, overflow: Overflow, left: Typed, right: Typed, settings: &Settings) -> Result<Typed> {
    let symbol = operation.symbol();
    // Null divided by anything is a double.
    let left = if operation == Operation::Divide && left.data_type == DataType::Null { Typed::null(&DataType::Float64) } else { left };
    let (mut left, mut right) = operands(symbol, left, right, settings, is_numeric, "numbers or intervals")?;
    if operation == Operation::Divide
        && (is_integral(&left.data_type) && is_integral(&right.data_type) || left.data_type == DataType::Float32)
    {
        left = cast::implicit(left, &DataType::Float64, settings)?;
        right = cast::implicit(right, &DataType::Float64, settings)?;
    }
    let divides = matches!(operation, Operation::Divide | Operation::Remainder | Operation::PositiveRemainder);
    let nullable = left.nullable || right.nullable || divides || overflow == Overflow::Null;
    if let (DataType::Decimal128(p1, s1), DataType::Decimal128(p2, s2)) = (&left.data_type, &right.data_type) {
        let (precision, scale) = result_decimal(operation, (*p1, *s1), (*p2, *s2));
        let arithmetic = DecimalArithmetic { operation, overflow, precision, scale };
        let nullable = nullable || overflow != Overflow::Fail;
        return Ok(kernel::scalar(symbol, arithmetic, vec![left, right], DataType::Decimal128(precision, scale), nullable));
    }
    let data_type = left.data_type.clone();
    Ok(kernel::scalar(symbol, Arithmetic { operation, overflow }, vec![left, right], data_type, nullable))
}

fn integral_division(call: &Call<'_>, overflow: Overflow) -> Result<Typed> {
    call.arity(2..=2)?;
    let (left, right) = (call.value(0)?.clone(), call.value(1)?.clone());
    let division = IntegralDivision { overflow };
    let null = |value: &Typed| value.data_type == DataType::Null;
    if is_ansi_interval(&left.data_type) || is_ansi_interval(&right.data_type) {
        let data_type = if null(&left) { right.data_type.clone() } else { left.data_type.clone() };
        if !(null(&left) || null(&right) || left.data_type == right.data_type) {
            return Err(faults::operands_differ("div", &left.data_type, &right.data_type));
        }
        let arguments = [left, right].into_iter().map(|value| cast::implicit(value, &data_type, call.settings));
        return Ok(kernel::scalar("div", division, arguments.collect::<Result<_>>()?, DataType::Int64, true));
    }
    let exact = |data_type: &DataType| is_integral(data_type) || matches!(data_type, DataType::Decimal128(..));
    let (left, right) = if null(&left) && null(&right) {
        (Typed::null(&DataType::Int64), Typed::null(&DataType::Int64))
    } else {
        operands("div", left, right, call.settings, exact, "whole numbers, decimals or intervals")?
    };
    let widen =
        |value: Typed| if is_integral(&value.data_type) { cast::implicit(value, &DataType::Int64, call.settings) } else { Ok(value) };
    Ok(kernel::scalar("div", division, vec![widen(left)?, widen(right)?], DataType::Int64, true))
}

/// Both sides as the operator takes them: of one type, or decimals.
///
/// # Errors
/// `DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES`, `BINARY_OP_WRONG_TYPE`.
pub(in crate::functions) fn operands(
    symbol: &str,
    left: Typed,
    right: Typed,
    settings: &Settings,
    accepts: impl Fn(&DataType) -> bool,
    expected: &str,
) -> Result<(Typed, Typed)> {
    use DataType::{Decimal128, Float32, Float64, Null, Utf8};
    let (mut left, mut right) = (left, right);
    if !settings.ansi {
        for side in [&mut left, &mut right] {
            if side.data_type == Utf8 {
                *side = cast::implicit(side.clone(), &Float64, settings)?;
            }
        }
    }
    let common = match (&left.data_type, &right.data_type) {
        (Null, Null) => Some(if accepts(&Float64) { Float64 } else { DataType::Int32 }),
        (Decimal128(..), Decimal128(..)) if accepts(&left.data_type) => return Ok((left, right)),
        (Decimal128(..), other) if is_integral(other) && accepts(&left.data_type) => {
            let right = as_decimal(right, settings)?;
            return Ok((left, right));
        }
        (other, Decimal128(..)) if is_integral(other) && accepts(&right.data_type) => {
            let left = as_decimal(left, settings)?;
            return Ok((left, right));
        }
        (Decimal128(..), Float64) | (Float64, Decimal128(..)) => Some(Float64),
        (Decimal128(..), Float32) | (Float32, Decimal128(..)) if !accepts(&Float64) => None,
        (Null, other) | (other, Null) => {
            if accepts(other) || *other == Utf8 {
                Some(other.clone())
            } else {
                None
            }
        }
        (Utf8, other) | (other, Utf8) => coercion::common_type(&Utf8, other, settings),
        (left, right) => coercion::common_type(left, right, settings).filter(|common| left == right || accepts(common)),
    };
    let Some(common) = common else {
        return Err(faults::operands_differ(symbol, &left.data_type, &right.data_type));
    };
    if is_ansi_interval(&common) && left.metadata != right.metadata {
        return Err(faults::operands_differ(symbol, &left.data_type, &right.data_type));
    }
    if !accepts(&common) {
        return Err(faults::operands_wrong(symbol, expected, &common));
    }
    Ok((cast::implicit(left, &common, settings)?, cast::implicit(right, &common, settings)?))
}

/// A whole number as the decimal that Spark computes with: the shortest one for a constant, otherwise that of its type.
pub(in crate::functions) fn as_decimal(value: Typed, settings: &Settings) -> Result<Typed> {
    use datafusion::scalar::ScalarValue::{Int16, Int32, Int64};
    let digits = match value.as_literal() {
        Some(Int16(Some(number))) => Some(number.to_string()),
        Some(Int32(Some(number))) => Some(number.to_string()),
        Some(Int64(Some(number))) => Some(number.to_string()),
        _ => None,
    };
    let (precision, scale) = match digits {
        Some(digits) => (u8::try_from(digits.trim_start_matches('-').len()).unwrap_or(20), 0),
        None => decimal_for(&value.data_type).unwrap_or((20, 0)),
    };
    cast::implicit(value, &DataType::Decimal128(precision, scale), settings)
}

fn is_ansi_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Duration(_) | DataType::Interval(IntervalUnit::YearMonth))
}

/// The operators where one side is a date, a timestamp or an interval; `None` when neither is.
fn temporal(call: &Call<'_>, operation: Operation, overflow: Overflow, left: &Typed, right: &Typed) -> Option<Result<Typed>> {
    use DataType::{Date32, Duration, Interval, Null, Time64, Timestamp, Utf8};
    let build = |name: &'static str, arguments: Vec<Typed>| -> Result<Typed> {
        let arguments = arguments.into_iter().map(Argument::Value).collect();
        let name = match (overflow, name) {
            (Overflow::Null, "add_interval") => "try_add_interval",
            (Overflow::Null, "multiply_interval") => "try_multiply_interval",
            (Overflow::Null, "divide_interval") => "try_divide_interval",
            (_, name) => name,
        };
        let result = Functions::all().build(&Call { name, arguments, settings: call.settings })?;
        Ok(if overflow == Overflow::Null { Typed { nullable: true, ..result } } else { result })
    };
    let of_day = |data_type: &DataType| matches!(data_type, Time64(_));
    match (operation, of_day(&left.data_type), of_day(&right.data_type)) {
        (Operation::Add, true, false) if matches!(right.data_type, Duration(_)) => {
            return Some(build("add_to_time", vec![left.clone(), right.clone()]));
        }
        (Operation::Add, false, true) if matches!(left.data_type, Duration(_)) => {
            return Some(build("add_to_time", vec![right.clone(), left.clone()]));
        }
        (Operation::Subtract, true, false) if matches!(right.data_type, Duration(_)) => {
            return Some(build("subtract_from_time", vec![left.clone(), right.clone()]));
        }
        (Operation::Subtract, true, true) => return Some(build("subtract_times", vec![left.clone(), right.clone()])),
        _ => {}
    }
    let calendar = |data_type: &DataType| matches!(data_type, Interval(IntervalUnit::MonthDayNano));
    let interval = |data_type: &DataType| is_ansi_interval(data_type) || calendar(data_type);
    let time = |data_type: &DataType| matches!(data_type, Date32 | Timestamp(..));
    let (l, r) = (&left.data_type, &right.data_type);
    if !(interval(l) || interval(r) || time(l) || time(r)) {
        return None;
    }
    let plus = |value: &Typed, interval: Typed| -> Result<Typed> {
        // Text is taken for a timestamp, and gives text again where it is not refused.
        if value.data_type == Utf8 {
            let instant = cast::implicit(value.clone(), &types::timestamp(), call.settings)?;
            return cast::implicit(build("add_interval", vec![instant, interval])?, &Utf8, call.settings);
        }
        if value.data_type == Null {
            return build("add_interval", vec![Typed::null(&types::timestamp()), interval]);
        }
        build("add_interval", vec![value.clone(), interval])
    };
    let negated = |interval: &Typed| super::sign::negated(interval.clone(), overflow);
    let result = match operation {
        Operation::Add => match (l, r) {
            (l, r) if interval(l) && interval(r) => intervals(operation, overflow, left, right),
            (Null, r) if is_ansi_interval(r) => Ok(Typed::null(r).with_metadata(right.metadata.clone())),
            (l, Null) if is_ansi_interval(l) => Ok(Typed::null(l).with_metadata(left.metadata.clone())),
            (l, r) if calendar(r) && *l == Null || calendar(l) && *r == Null => {
                Err(faults::mismatch("CAST_WITHOUT_SUGGESTION", "a timestamp cannot be cast to the type void"))
            }
            (l, Interval(IntervalUnit::YearMonth)) if !time(l) => Err(faults::operands_differ("+", l, r)),
            (Interval(IntervalUnit::YearMonth), r) if !time(r) => Err(faults::operands_differ("+", l, r)),
            (_, r) if interval(r) => plus(left, right.clone()),
            (l, _) if interval(l) => plus(right, left.clone()),
            (Date32, Null) | (Null, Date32) => Ok(Typed::null(&types::timestamp())),
            (Timestamp(..), Null) => Ok(Typed::null(l)),
            (Null, Timestamp(..)) => Ok(Typed::null(r)),
            (Date32, _) => build("add_days", vec![left.clone(), right.clone()]),
            (_, Date32) => build("add_days", vec![right.clone(), left.clone()]),
            _ => return None,
        },
        Operation::Subtract => match (l, r) {
            (l, r) if interval(l) && interval(r) => intervals(operation, overflow, left, right),
            (Null, r) if is_ansi_interval(r) => Ok(Typed::null(r).with_metadata(right.metadata.clone())),
            (l, Null) if interval(l) => Ok(Typed::null(l).with_metadata(left.metadata.clone())),
            (Null, r) if calendar(r) => Err(faults::mismatch("CAST_WITHOUT_SUGGESTION", "a timestamp cannot be cast to the type void")),
            (l, Interval(IntervalUnit::YearMonth)) if !time(l) => Err(faults::operands_differ("-", l, r)),
            (_, r) if interval(r) => match negated(right) {
                Ok(negated) => plus(left, negated),
                Err(error) => Err(error),
            },
            (l, r) if interval(l) && !time(r) => Err(faults::operands_differ("-", l, r)),
            (Timestamp(..), _) | (_, Timestamp(..)) => build("subtract_timestamps", vec![left.clone(), right.clone()]),
            (_, Date32) | (Date32, Null | Utf8) => build("subtract_dates", vec![left.clone(), right.clone()]),
            (Date32, _) => build("date_sub", vec![left.clone(), right.clone()]),
            _ => return None,
        },
        Operation::Multiply if interval(l) || interval(r) => {
            let (interval_side, number) = if interval(l) { (left, right) } else { (right, left) };
            build("multiply_interval", vec![interval_side.clone(), number.clone()])
        }
        Operation::Divide if interval(l) => build("divide_interval", vec![left.clone(), right.clone()]),
        _ => return None,
    };
    Some(result)
}

/// Sums and differences of intervals.
fn intervals(operation: Operation, overflow: Overflow, left: &Typed, right: &Typed) -> Result<Typed> {
    let symbol = operation.symbol();
    if left.data_type != right.data_type {
        let months = right.data_type == DataType::Interval(IntervalUnit::YearMonth);
        return Err(if operation == Operation::Subtract && months {
            faults::operands_differ(symbol, &left.data_type, &right.data_type)
        } else {
            faults::unexpected_type(symbol, 0, "interval of the same kind", &left.data_type)
        });
    }
    let nullable = left.nullable || right.nullable || overflow == Overflow::Null;
    let arithmetic = IntervalArithmetic { operation, overflow };
    let result = kernel::scalar(symbol, arithmetic, vec![left.clone(), right.clone()], left.data_type.clone(), nullable);
    if !is_ansi_interval(&left.data_type) {
        return Ok(result);
    }
    let [left, right] = [left, right].map(|side| Units::of(&side.data_type, &side.metadata));
    Ok(result.with_metadata(left.union(right).metadata()))
}
