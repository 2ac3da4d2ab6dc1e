//! Numbers since 1970 as dates and timestamps, and back.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType};
use millstream_core::{Error, ErrorKind, Result};

use super::super::downcast;
use super::super::{Arguments, Call, Functions, Kernel, Typed, faults, scalar};
use super::civil::MICROS_PER_SECOND;
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add("date_from_unix_date", date_from_unix_date);
    functions.add("unix_date", unix_date);
    functions.add("timestamp_micros", |call| from_integer(call, 1));
    functions.add("timestamp_millis", |call| from_integer(call, 1_000));
    functions.add("timestamp_seconds", timestamp_seconds);
    functions.add("unix_micros", |call| to_integer(call, 1));
    functions.add("unix_millis", |call| to_integer(call, 1_000));
    functions.add("unix_seconds", |call| to_integer(call, MICROS_PER_SECOND));
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct DateFromUnixDate;

impl Kernel for DateFromUnixDate {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Ok(Arc::new(downcast::map::<Int32Type, Date32Type>(&arguments.array(0)?, |days| Ok(Some(days)))?))
    }
}

fn date_from_unix_date(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=1)?;
    let days = call.int(0)?;
    let nullable = days.nullable;
    Ok(scalar("date_from_unix_date", DateFromUnixDate, vec![days], DataType::Date32, nullable))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct UnixDate;

impl Kernel for UnixDate {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Ok(Arc::new(downcast::map::<Date32Type, Int32Type>(&arguments.array(0)?, |days| Ok(Some(days)))?))
    }
}

fn unix_date(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=1)?;
    let date = exactly(call, &DataType::Date32)?;
    let nullable = date.nullable;
    Ok(scalar("unix_date", UnixDate, vec![date], DataType::Int32, nullable))
}

/// An argument that is not cast: only a value of the type, or null.
fn exactly(call: &Call<'_>, data_type: &DataType) -> Result<Typed> {
    let value = call.value(0)?;
    if value.data_type == *data_type || value.data_type == DataType::Null {
        call.coerced(0, data_type)
    } else {
        Err(faults::unexpected_type(call.name, 0, format!("\"{}\"", types::ddl_type(data_type)), &value.data_type))
    }
}

/// Instants from integers of so many microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FromInteger {
    unit: i64,
}

impl Kernel for FromInteger {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let instants = downcast::map::<Int64Type, TimestampMicrosecondType>(&arguments.array(0)?, |number| {
            number.checked_mul(self.unit).map(Some).ok_or_else(|| inexact(format!("{number} is out of the range of timestamps")))
        })?;
        Ok(Arc::new(instants.with_data_type(types::timestamp())))
    }
}

fn from_integer(call: &Call<'_>, unit: i64) -> Result<Typed> {
    call.arity(1..=1)?;
    match call.value(0)?.data_type {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Null => {}
        ref other => return Err(faults::unexpected_type(call.name, 0, "\"INTEGRAL\"", other)),
    }
    let number = call.long(0)?;
    let nullable = number.nullable;
    let name = match unit {
        1 => "timestamp_micros",
        1_000 => "timestamp_millis",
        _ => "timestamp_seconds",
    };
    Ok(scalar(name, FromInteger { unit }, vec![number], types::timestamp(), nullable))
}

/// Instants from seconds with a fraction; null where they are no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FromSeconds;

impl Kernel for FromSeconds {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let seconds = arguments.array(0)?;
        let from_float = |seconds: f64| Ok(seconds.is_finite().then_some((seconds * 1e6) as i64));
        let instants = match seconds.data_type() {
            DataType::Float32 => {
                downcast::map::<Float32Type, TimestampMicrosecondType>(&seconds, |seconds| from_float(f64::from(seconds)))?
            }
            DataType::Decimal128(_, scale) => {
                let scale = *scale;
                downcast::map::<Decimal128Type, TimestampMicrosecondType>(&seconds, |unscaled| decimal_micros(unscaled, scale).map(Some))?
            }
            _ => downcast::map::<Float64Type, TimestampMicrosecondType>(&seconds, from_float)?,
        };
        Ok(Arc::new(instants.with_data_type(types::timestamp())))
    }
}

/// A decimal number of seconds in microseconds, exactly.
fn decimal_micros(unscaled: i128, scale: i8) -> Result<i64> {
    let shift = 6 - i32::from(scale);
    let power = 10_i128.pow(shift.unsigned_abs().min(38));
    let micros = if shift >= 0 {
        unscaled.checked_mul(power)
    } else {
        let cut = unscaled / power;
        (cut * power == unscaled).then_some(cut)
    };
    micros
        .and_then(|micros| i64::try_from(micros).ok())
        .ok_or_else(|| inexact("the seconds are no timestamp of whole microseconds".to_owned()))
}

/// What Java's exact arithmetic throws.
fn inexact(message: String) -> Error {
    Error::new(ErrorKind::BadRecord, "ArithmeticException", message)
}

fn timestamp_seconds(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=1)?;
    let seconds = call.value(0)?.clone();
    let floating = matches!(seconds.data_type, DataType::Float32 | DataType::Float64);
    if !floating && !matches!(seconds.data_type, DataType::Decimal128(..)) {
        return from_integer(call, MICROS_PER_SECOND);
    }
    let nullable = floating || seconds.nullable;
    Ok(scalar("timestamp_seconds", FromSeconds, vec![seconds], types::timestamp(), nullable))
}

/// Integers of so many microseconds from instants, rounded towards the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ToInteger {
    unit: i64,
}

impl Kernel for ToInteger {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let instants = arguments.array(0)?;
        Ok(Arc::new(downcast::map::<TimestampMicrosecondType, Int64Type>(&instants, |micros| Ok(Some(micros.div_euclid(self.unit))))?))
    }
}

fn to_integer(call: &Call<'_>, unit: i64) -> Result<Typed> {
    call.arity(1..=1)?;
    let instant = exactly(call, &types::timestamp())?;
    let nullable = instant.nullable;
    let name = match unit {
        1 => "unix_micros",
        1_000 => "unix_millis",
        _ => "unix_seconds",
    };
    Ok(scalar(name, ToInteger { unit }, vec![instant], DataType::Int64, nullable))
}
