//! From text.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, PrimitiveArray, StringArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Field, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, Time64NanosecondType, TimestampMicrosecondType,
};
use millstream_core::{Error, Result};

use super::interval::{self, Units};
use super::{CastMode, Conversion, parse};
use crate::functions::datetime::parse::{parse_date, parse_time, parse_timestamp, parse_timestamp_ntz};
use crate::functions::datetime::time_of_day::{MAX_PRECISION, cut};
use crate::functions::faults;
use crate::functions::rows::raw_bytes;
use crate::types;

pub(super) fn convert(conversion: &Conversion, strings: &StringArray, from: &Field, to: &Field) -> Result<Option<ArrayRef>> {
    let target = to.data_type();
    let mode = conversion.mode;
    let bad = |text: &str| faults::bad_cast(text, from.data_type(), target);
    let fraction = mode == CastMode::Legacy;
    let integer = |text: &str, range: RangeInclusive<i64>| parse::integer(text, range, fraction);
    let array: ArrayRef = match target {
        DataType::Boolean => Arc::new(booleans(strings, mode, bad)?),
        DataType::Int8 => {
            let range = || i64::from(i8::MIN)..=i64::from(i8::MAX);
            Arc::new(each::<Int8Type>(strings, mode, |text| i8::try_from(integer(text, range())?).ok(), bad)?)
        }
        DataType::Int16 => {
            let range = || i64::from(i16::MIN)..=i64::from(i16::MAX);
            Arc::new(each::<Int16Type>(strings, mode, |text| i16::try_from(integer(text, range())?).ok(), bad)?)
        }
        DataType::Int32 => {
            let range = || i64::from(i32::MIN)..=i64::from(i32::MAX);
            Arc::new(each::<Int32Type>(strings, mode, |text| i32::try_from(integer(text, range())?).ok(), bad)?)
        }
        DataType::Int64 => Arc::new(each::<Int64Type>(strings, mode, |text| integer(text, i64::MIN..=i64::MAX), bad)?),
        DataType::Float32 => Arc::new(each::<Float32Type>(strings, mode, parse::float, bad)?),
        DataType::Float64 => Arc::new(each::<Float64Type>(strings, mode, parse::double, bad)?),
        DataType::Decimal128(precision, scale) => {
            let read = |text: &str| parse::digits(text)?.to_decimal(*precision, *scale);
            let fault = |text: &str| match parse::digits(text) {
                None => bad(text),
                Some(digits) if digits.integral_digits() > 38 => faults::row(
                    "NUMERIC_OUT_OF_SUPPORTED_RANGE",
                    "22003",
                    format!("the number {text} has more than 38 digits before the point: use a double"),
                ),
                Some(_) => faults::out_of_range(text, *precision, *scale),
            };
            let array = each::<Decimal128Type>(strings, mode, read, fault)?;
            Arc::new(array.with_data_type(target.clone()))
        }
        DataType::Binary => Arc::new(raw_bytes(strings).unwrap_or_else(|| BinaryArray::from(strings.clone()))),
        DataType::Date32 => Arc::new(each::<Date32Type>(strings, mode, parse_date, bad)?),
        DataType::Timestamp(_, zone) => {
            let read = |text: &str| {
                if zone.is_some() { parse_timestamp(text, conversion.time_zone) } else { parse_timestamp_ntz(text) }
            };
            let array = each::<TimestampMicrosecondType>(strings, mode, read, bad)?;
            Arc::new(array.with_timezone_opt(zone.clone()))
        }
        DataType::Time64(_) => {
            let digits = to.metadata().get(types::TIME).and_then(|digits| digits.parse().ok()).unwrap_or(MAX_PRECISION);
            Arc::new(each::<Time64NanosecondType>(strings, mode, |text| parse_time(text).map(|nanos| cut(nanos, digits)), bad)?)
        }
        DataType::Duration(_) => {
            let units = Units::of_field(to);
            let read = |text: &str| interval::parse_day_time(text, units);
            let fault = |text: &str| bad_interval("UNMATCHED_FORMAT_STRING_WITH_NOTICE", text, units);
            Arc::new(each::<DurationMicrosecondType>(strings, failing(mode), read, fault)?)
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            let units = Units::of_field(to);
            let read = |text: &str| interval::parse_year_month(text, units);
            let fault = |text: &str| bad_interval("UNMATCHED_FORMAT_STRING", text, units);
            Arc::new(each::<IntervalYearMonthType>(strings, failing(mode), read, fault)?)
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            // A calendar interval that cannot be read is null in every mode.
            Arc::new(each::<IntervalMonthDayNanoType>(strings, CastMode::Try, interval::parse_calendar, bad)?)
        }
        _ => return Ok(None),
    };
    Ok(Some(array))
}

/// Intervals that cannot be read fail without ANSI rules, too.
fn failing(mode: CastMode) -> CastMode {
    if mode == CastMode::Try { mode } else { CastMode::Ansi }
}

fn bad_interval(condition: &str, text: &str, units: Units) -> Error {
    let name = units.name().to_ascii_uppercase();
    let message = format!("'{text}' is not an interval of the form {name}: write it like the text in INTERVAL '…' {name}");
    Error::new(millstream_core::ErrorKind::BadRecord, format!("INVALID_INTERVAL_FORMAT.{condition}"), message).with_sqlstate("22006")
}

fn each<T: ArrowPrimitiveType>(
    strings: &StringArray,
    mode: CastMode,
    read: impl Fn(&str) -> Option<T::Native>,
    fault: impl Fn(&str) -> Error,
) -> Result<PrimitiveArray<T>> {
    let mut builder = PrimitiveArray::<T>::builder(strings.len());
    for text in strings {
        match text.map(|text| (text, read(text))) {
            Some((_, Some(value))) => builder.append_value(value),
            Some((text, None)) if mode == CastMode::Ansi => return Err(fault(text)),
            _ => builder.append_null(),
        }
    }
    Ok(builder.finish())
}

fn booleans(strings: &StringArray, mode: CastMode, fault: impl Fn(&str) -> Error) -> Result<BooleanArray> {
    let each = |text: Option<&str>| match text.map(|text| (text, parse::boolean(text))) {
        Some((text, None)) if mode == CastMode::Ansi => Err(fault(text)),
        Some((_, value)) => Ok(value),
        None => Ok(None),
    };
    strings.iter().map(each).collect()
}
