//! Intervals times and divided by numbers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, PrimitiveBuilder};
use arrow::datatypes::{
    DataType, Decimal128Type, DurationMicrosecondType, Float64Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit,
    IntervalYearMonthType,
};
use millstream_core::{Error, Result};

use super::super::datetime::civil::MICROS_PER_DAY;
use super::super::downcast;
use super::super::{Arguments, Call, Functions, Kernel, Typed, cast, faults, scalar};
use super::Calendar;

pub(super) fn register(functions: &mut Functions) {
    functions.add("multiply_interval", |call| scaled(call, Operation::Multiply, true));
    functions.add("divide_interval", |call| scaled(call, Operation::Divide, true));
    functions.add("try_multiply_interval", |call| scaled(call, Operation::Multiply, false));
    functions.add("try_divide_interval", |call| scaled(call, Operation::Divide, false));
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operation {
    Multiply,
    Divide,
}

/// A number to multiply with or to divide by.
#[derive(Clone, Copy, Debug)]
enum Number {
    Integer(i64),
    Decimal { unscaled: i128, power: i128 },
    Float(f64),
}

impl Number {
    fn is_zero(self) -> bool {
        match self {
            Number::Integer(value) => value == 0,
            Number::Decimal { unscaled, .. } => unscaled == 0,
            Number::Float(value) => value == 0.0,
        }
    }

    fn as_f64(self) -> f64 {
        match self {
            Number::Integer(value) => value as f64,
            Number::Decimal { unscaled, power } => unscaled as f64 / power as f64,
            Number::Float(value) => value,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Scale {
    operation: Operation,
    fails: bool,
}

impl Scale {
    /// An amount times or divided by a number, rounded to a whole half away from zero.
    fn amount(self, amount: i64, number: Number) -> Option<i64> {
        let amount = i128::from(amount);
        let scaled = match (self.operation, number) {
            (Operation::Multiply, Number::Integer(number)) => amount.checked_mul(i128::from(number))?,
            (Operation::Divide, Number::Integer(number)) => divided(amount, i128::from(number))?,
            (Operation::Multiply, Number::Decimal { unscaled, power }) => divided(amount.checked_mul(unscaled)?, power)?,
            (Operation::Divide, Number::Decimal { unscaled, power }) => divided(amount.checked_mul(power)?, unscaled)?,
            (operation, Number::Float(number)) => {
                let scaled = if operation == Operation::Multiply { amount as f64 * number } else { amount as f64 / number };
                if !scaled.is_finite() {
                    return None;
                }
                scaled.round() as i128
            }
        };
        i64::try_from(scaled).ok()
    }

    /// Fractions of months are dropped, those of days become a time of day.
    fn calendar(self, interval: Calendar, number: Number) -> Option<Calendar> {
        let number = number.as_f64();
        let by = |amount: f64| if self.operation == Operation::Multiply { amount * number } else { amount / number };
        let whole = |amount: f64| i32::try_from(amount as i64).ok();
        let days = by(f64::from(interval.days));
        let whole_days = whole(days)?;
        let micros = by(interval.micros as f64) + MICROS_PER_DAY as f64 * (days - f64::from(whole_days));
        Some(Calendar { months: whole(by(f64::from(interval.months)))?, days: whole_days, micros: (micros + 0.5).floor() as i64 })
    }

    fn outcome<T>(self, result: Option<T>, number: Number) -> Result<Option<T>> {
        if self.operation == Operation::Divide && number.is_zero() {
            return if self.fails {
                Err(faults::row(
                    "INTERVAL_DIVIDED_BY_ZERO",
                    "22012",
                    "an interval is divided by zero: use `try_divide` to get NULL instead",
                ))
            } else {
                Ok(None)
            };
        }
        match result {
            None if self.fails => Err(faults::overflow("the interval is out of range")),
            result => Ok(result),
        }
    }

    fn column<T: ArrowPrimitiveType>(
        self,
        intervals: &ArrayRef,
        numbers: &ArrayRef,
        scaled: impl Fn(T::Native, Number) -> Option<T::Native>,
    ) -> Result<PrimitiveArray<T>> {
        let intervals = downcast::primitive::<T>(intervals)?;
        let mut result = PrimitiveBuilder::<T>::with_capacity(intervals.len());
        for row in 0..intervals.len() {
            result.append_option(match (downcast::value(intervals, row), number(numbers, row)?) {
                (Some(interval), Some(number)) => self.outcome(scaled(interval, number), number)?,
                _ => None,
            });
        }
        Ok(result.finish())
    }
}

/// The quotient, rounded half away from zero.
fn divided(dividend: i128, divisor: i128) -> Option<i128> {
    let quotient = dividend.checked_div(divisor)?;
    let remainder = dividend.checked_rem(divisor)?;
    let round = remainder.unsigned_abs() >= divisor.unsigned_abs() - remainder.unsigned_abs();
    let away = if (dividend < 0) == (divisor < 0) { 1 } else { -1 };
    Some(if round && remainder != 0 { quotient + away } else { quotient })
}

fn number(numbers: &ArrayRef, row: usize) -> Result<Option<Number>> {
    if numbers.is_null(row) {
        return Ok(None);
    }
    Ok(Some(match numbers.data_type() {
        DataType::Int64 => Number::Integer(downcast::primitive::<Int64Type>(numbers)?.value(row)),
        DataType::Decimal128(_, scale) => {
            let power =
                10_i128.checked_pow(u32::from(scale.unsigned_abs())).ok_or_else(|| Error::internal("a decimal has at most 38 digits"))?;
            Number::Decimal { unscaled: downcast::primitive::<Decimal128Type>(numbers)?.value(row), power }
        }
        _ => Number::Float(downcast::primitive::<Float64Type>(numbers)?.value(row)),
    }))
}

impl Kernel for Scale {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (intervals, numbers) = (arguments.array(0)?, arguments.array(1)?);
        Ok(match intervals.data_type() {
            DataType::Duration(_) => {
                Arc::new(self.column::<DurationMicrosecondType>(&intervals, &numbers, |micros, number| self.amount(micros, number))?)
            }
            DataType::Interval(IntervalUnit::YearMonth) => {
                let scaled = |months: i32, number| i32::try_from(self.amount(i64::from(months), number)?).ok();
                Arc::new(self.column::<IntervalYearMonthType>(&intervals, &numbers, scaled)?)
            }
            _ => {
                let scaled = |interval, number| self.calendar(Calendar::of(interval), number)?.to_arrow();
                Arc::new(self.column::<IntervalMonthDayNanoType>(&intervals, &numbers, scaled)?)
            }
        })
    }
}

fn scaled(call: &Call<'_>, operation: Operation, fails: bool) -> Result<Typed> {
    call.arity(2..=2)?;
    let (interval, number) = (call.value(0)?.clone(), call.value(1)?.clone());
    let number_type = match number.data_type {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Null => DataType::Int64,
        DataType::Decimal128(..) => number.data_type.clone(),
        DataType::Float32 | DataType::Float64 | DataType::Utf8 => DataType::Float64,
        ref other => return Err(faults::unexpected_type(call.name, 1, "\"NUMERIC\"", other)),
    };
    let number = cast::implicit(number, &number_type, call.settings)?;
    let calendar = matches!(interval.data_type, DataType::Interval(IntervalUnit::MonthDayNano));
    let nullable = calendar || !fails || interval.nullable || number.nullable;
    let fails = fails && (!calendar || call.settings.ansi);
    let name = if operation == Operation::Multiply { "multiply_interval" } else { "divide_interval" };
    let data_type = interval.data_type.clone();
    // The result has the widest units, whatever those of the interval.
    Ok(scalar(name, Scale { operation, fails }, vec![interval, number], data_type, nullable))
}
