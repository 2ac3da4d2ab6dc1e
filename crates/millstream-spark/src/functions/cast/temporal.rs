//! From dates, timestamps and intervals.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Int64Array, new_null_array};
use arrow::datatypes::{
    DataType, Date32Type, DurationMicrosecondType, Field, Float32Type, Float64Type, Int64Type, IntervalUnit, IntervalYearMonthType,
    Time64NanosecondType, TimestampMicrosecondType,
};
use millstream_core::Result;

use super::interval::{Unit, Units};
use super::number::{Numbers, Target};
use super::{CastMode, Conversion};
use crate::functions::coercion::is_numeric;
use crate::functions::datetime::civil::{MICROS_PER_DAY, MICROS_PER_SECOND, days_of};
use crate::functions::datetime::time_of_day::{MAX_PRECISION, cut};
use crate::functions::faults;
use crate::types;

pub(super) fn convert(conversion: &Conversion, values: &ArrayRef, from: &Field, to: &Field) -> Result<Option<ArrayRef>> {
    match from.data_type() {
        DataType::Date32 => from_dates(conversion, values, to),
        DataType::Time64(_) => from_times(conversion, values, from, to),
        DataType::Timestamp(_, zone) => from_timestamps(conversion, values, zone.is_some(), from, to),
        DataType::Duration(_) | DataType::Interval(IntervalUnit::YearMonth) => from_intervals(conversion, values, from, to),
        _ => Ok(None),
    }
}

fn from_dates(conversion: &Conversion, values: &ArrayRef, to: &Field) -> Result<Option<ArrayRef>> {
    let Some(dates) = values.as_primitive_opt::<Date32Type>() else { return Ok(None) };
    match to.data_type() {
        DataType::Timestamp(_, zone) => {
            let instant = |day: i32| {
                let local = i64::from(day).checked_mul(MICROS_PER_DAY)?;
                Some(if zone.is_some() { conversion.time_zone.local_to_instant(local) } else { local })
            };
            let array = dates.try_unary::<_, TimestampMicrosecondType, _>(|day| {
                instant(day).ok_or_else(|| faults::overflow(format!("day {day} has no timestamp")))
            })?;
            Ok(Some(Arc::new(array.with_timezone_opt(zone.clone()))))
        }
        // Without ANSI rules these casts exist and give null.
        other if is_numeric(other) || *other == DataType::Boolean => Ok(Some(new_null_array(other, values.len()))),
        _ => Ok(None),
    }
}

fn from_times(conversion: &Conversion, values: &ArrayRef, from: &Field, to: &Field) -> Result<Option<ArrayRef>> {
    let Some(times) = values.as_primitive_opt::<Time64NanosecondType>() else { return Ok(None) };
    let target = Target { mode: conversion.mode, from: from.data_type(), to: to.data_type() };
    match to.data_type() {
        DataType::Time64(_) => {
            let digits = to.metadata().get(types::TIME).and_then(|digits| digits.parse().ok()).unwrap_or(MAX_PRECISION);
            Ok(Some(Arc::new(times.unary::<_, Time64NanosecondType>(|nanos| cut(nanos, digits)))))
        }
        DataType::Decimal128(..) => {
            let nanos: Decimal128Array = times.unary(i128::from);
            Numbers::Decimals(nanos, 9).convert(&target, Units::DAY_TO_SECOND)
        }
        _ => {
            let seconds: Int64Array = times.unary(|nanos| nanos / 1_000_000_000);
            Numbers::Integers(seconds).convert(&target, Units::DAY_TO_SECOND)
        }
    }
}

fn from_timestamps(conversion: &Conversion, values: &ArrayRef, is_instant: bool, from: &Field, to: &Field) -> Result<Option<ArrayRef>> {
    let Some(times) = values.as_primitive_opt::<TimestampMicrosecondType>() else { return Ok(None) };
    let zone = conversion.time_zone;
    let local = |time: i64| if is_instant { zone.instant_to_local(time) } else { time };
    let target = Target { mode: conversion.mode, from: from.data_type(), to: to.data_type() };
    let array: ArrayRef = match to.data_type() {
        DataType::Date32 => Arc::new(times.unary::<_, Date32Type>(|time| days_of(local(time)) as i32)),
        DataType::Timestamp(_, None) => Arc::new(times.unary::<_, TimestampMicrosecondType>(local)),
        DataType::Timestamp(_, to_zone) => {
            let array = times.unary::<_, TimestampMicrosecondType>(|time| zone.local_to_instant(time));
            Arc::new(array.with_timezone_opt(to_zone.clone()))
        }
        DataType::Boolean => Arc::new(BooleanArray::from_unary(times, |time| time != 0)),
        DataType::Float32 => Arc::new(times.unary::<_, Float32Type>(|time| (time as f64 / MICROS_PER_SECOND as f64) as f32)),
        DataType::Float64 => Arc::new(times.unary::<_, Float64Type>(|time| time as f64 / MICROS_PER_SECOND as f64)),
        DataType::Decimal128(..) => {
            let micros: Decimal128Array = times.unary(i128::from);
            return Numbers::Decimals(micros, 6).convert(&target, Units::DAY_TO_SECOND);
        }
        _ => {
            let seconds: Int64Array = times.unary(|time| time.div_euclid(MICROS_PER_SECOND));
            // Unlike numbers, timestamps do not wrap.
            let target = Target { mode: if target.mode == CastMode::Legacy { CastMode::Try } else { target.mode }, ..target };
            return Numbers::Integers(seconds).convert(&target, Units::DAY_TO_SECOND);
        }
    };
    Ok(Some(array))
}

fn from_intervals(conversion: &Conversion, values: &ArrayRef, from: &Field, to: &Field) -> Result<Option<ArrayRef>> {
    let (from_units, to_units) = (Units::of_field(from), Units::of_field(to));
    // Intervals do not wrap.
    let mode = if conversion.mode == CastMode::Try { CastMode::Try } else { CastMode::Ansi };
    let target = Target { mode, from: from.data_type(), to: to.data_type() };
    let counts: Int64Array = match from.data_type() {
        DataType::Duration(_) => match values.as_primitive_opt::<DurationMicrosecondType>() {
            Some(array) => array.reinterpret_cast::<Int64Type>(),
            None => return Ok(None),
        },
        _ => match values.as_primitive_opt::<IntervalYearMonthType>() {
            Some(array) => array.unary(i64::from),
            None => return Ok(None),
        },
    };
    // What is smaller than the last unit is cut off.
    let cut = |value: i64| if to_units.end == Unit::Second { value } else { value - value % to_units.end.size() };
    let array: ArrayRef = match to.data_type() {
        DataType::Duration(_) => Arc::new(counts.unary::<_, DurationMicrosecondType>(cut)),
        DataType::Interval(_) => Arc::new(counts.unary::<_, IntervalYearMonthType>(|months| cut(months) as i32)),
        DataType::Decimal128(..) if from_units.end == Unit::Second => {
            let micros: Decimal128Array = counts.unary(i128::from);
            return Numbers::Decimals(micros, 6).convert(&target, to_units);
        }
        _ => {
            let size = from_units.end.size();
            return Numbers::Integers(counts.unary(|value| value / size)).convert(&target, to_units);
        }
    };
    Ok(Some(array))
}
