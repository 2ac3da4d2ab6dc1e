//! Intervals from numbers: `make_interval`, `make_dt_interval`, `make_ym_interval`.

use std::sync::Arc;

use arrow::array::{ArrayRef, PrimitiveBuilder};
use arrow::datatypes::{
    DataType, Decimal128Type, DurationMicrosecondType, Int32Type, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, TimeUnit,
};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};

use super::super::datetime::civil::{MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE};
use super::super::downcast;
use super::super::{Arguments, Call, Functions, Kernel, Typed, faults, scalar};
use super::Calendar;

/// The type that seconds are brought to: microseconds exactly.
const SECONDS: DataType = DataType::Decimal128(18, 6);

pub(super) fn register(functions: &mut Functions) {
    functions.add("make_interval", |call| make_interval(call, call.settings.ansi));
    functions.add("try_make_interval", |call| make_interval(call, false));
    functions.add("make_dt_interval", make_dt_interval);
    functions.add("make_ym_interval", make_ym_interval);
}

/// The arguments as integers, the last one as seconds if `seconds` says that it is; zero for those left out.
fn parts(call: &Call<'_>, count: usize, seconds: bool) -> Result<Vec<Typed>> {
    call.arity(0..=count)?;
    (0..count)
        .map(|index| match (seconds && index + 1 == count, index < call.len()) {
            (false, true) => call.int(index),
            (false, false) => Ok(Typed::literal(ScalarValue::Int32(Some(0)))),
            (true, true) => call.coerced(index, &SECONDS),
            (true, false) => Ok(Typed::literal(ScalarValue::Decimal128(Some(0), 18, 6))),
        })
        .collect()
}

/// The integers of a row, unless one is null.
fn integers<const N: usize>(arrays: &[ArrayRef], row: usize) -> Result<Option<[i32; N]>> {
    let mut values = [0; N];
    for (value, array) in values.iter_mut().zip(arrays) {
        match downcast::value(downcast::primitive::<Int32Type>(array)?, row) {
            Some(number) => *value = number,
            None => return Ok(None),
        }
    }
    Ok(Some(values))
}

/// The microseconds of a row of seconds.
fn micros(array: &ArrayRef, row: usize) -> Result<Option<i64>> {
    let seconds = downcast::value(downcast::primitive::<Decimal128Type>(array)?, row);
    Ok(seconds.and_then(|micros| i64::try_from(micros).ok()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct MakeInterval {
    fails: bool,
}

fn calendar([years, months, weeks, days, hours, minutes]: [i32; 6], micros: i64) -> Option<Calendar> {
    let time = i64::from(hours) * MICROS_PER_HOUR + i64::from(minutes) * MICROS_PER_MINUTE;
    Some(Calendar {
        months: years.checked_mul(12)?.checked_add(months)?,
        days: weeks.checked_mul(7)?.checked_add(days)?,
        micros: time.checked_add(micros)?,
    })
}

impl Kernel for MakeInterval {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let arrays = arguments.arrays()?;
        let seconds = arrays.last().ok_or_else(|| Error::internal("an interval has seven parts"))?;
        let mut result = PrimitiveBuilder::<IntervalMonthDayNanoType>::with_capacity(arguments.rows());
        for row in 0..arguments.rows() {
            let (Some(parts), Some(micros)) = (integers::<6>(&arrays, row)?, micros(seconds, row)?) else {
                result.append_null();
                continue;
            };
            match calendar(parts, micros).and_then(Calendar::to_arrow) {
                None if self.fails => {
                    return Err(faults::overflow("the parts are more than an interval holds"));
                }
                interval => result.append_option(interval),
            }
        }
        Ok(Arc::new(result.finish()))
    }
}

fn make_interval(call: &Call<'_>, fails: bool) -> Result<Typed> {
    let arguments = parts(call, 7, true)?;
    let nullable = !fails || arguments.iter().any(|argument| argument.nullable);
    Ok(scalar("make_interval", MakeInterval { fails }, arguments, DataType::Interval(IntervalUnit::MonthDayNano), nullable))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct MakeDayTime;

impl Kernel for MakeDayTime {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let arrays = arguments.arrays()?;
        let seconds = arrays.last().ok_or_else(|| Error::internal("a duration has four parts"))?;
        let mut result = PrimitiveBuilder::<DurationMicrosecondType>::with_capacity(arguments.rows());
        for row in 0..arguments.rows() {
            let (Some([days, hours, minutes]), Some(micros)) = (integers::<3>(&arrays, row)?, micros(seconds, row)?) else {
                result.append_null();
                continue;
            };
            let whole = i128::from(days) * i128::from(MICROS_PER_DAY)
                + i128::from(hours) * i128::from(MICROS_PER_HOUR)
                + i128::from(minutes) * i128::from(MICROS_PER_MINUTE);
            result.append_value(i64::try_from(whole + i128::from(micros)).map_err(|_| too_long())?);
        }
        Ok(Arc::new(result.finish()))
    }
}

fn make_dt_interval(call: &Call<'_>) -> Result<Typed> {
    let arguments = parts(call, 4, true)?;
    let nullable = arguments.iter().any(|argument| argument.nullable);
    Ok(scalar("make_dt_interval", MakeDayTime, arguments, DataType::Duration(TimeUnit::Microsecond), nullable))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct MakeYearMonth;

impl Kernel for MakeYearMonth {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (years, months) = (arguments.array(0)?, arguments.array(1)?);
        Ok(Arc::new(downcast::map2::<Int32Type, Int32Type, IntervalYearMonthType>(&years, &months, |years, months| {
            let total = years.checked_mul(12).and_then(|total| total.checked_add(months));
            total.map(Some).ok_or_else(too_long)
        })?))
    }
}

fn make_ym_interval(call: &Call<'_>) -> Result<Typed> {
    let arguments = parts(call, 2, false)?;
    let nullable = arguments.iter().any(|argument| argument.nullable);
    Ok(scalar("make_ym_interval", MakeYearMonth, arguments, DataType::Interval(IntervalUnit::YearMonth), nullable))
}

fn too_long() -> Error {
    faults::row("INTERVAL_ARITHMETIC_OVERFLOW.WITHOUT_SUGGESTION", "22015", "the parts are more than an interval holds: use smaller ones")
}
