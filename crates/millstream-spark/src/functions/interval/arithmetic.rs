//! Intervals added to dates and times, and differences of dates and times.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, PrimitiveBuilder};
use arrow::datatypes::{
    DataType, Date32Type, DurationMicrosecondType, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, TimeUnit,
    TimestampMicrosecondType,
};
use millstream_core::{Error, Result};

use super::super::cast::interval::{INTERVAL_UNITS, Unit, Units};
use super::super::datetime::arithmetic::days_added;
use super::super::datetime::civil::{self, MICROS_PER_DAY};
use super::super::datetime::shift;
use super::super::downcast;
use super::super::{Arguments, Call, Functions, Kernel, TimeZone, Typed, cast, faults, scalar};
use super::Calendar;
use crate::types;

/// What the operators `+` and `-` are compiled to where dates and times take part. The `try_` variants give null instead of failing.
pub(super) fn register(functions: &mut Functions) {
    functions.add("add_interval", |call| add_interval(call, 1, true));
    functions.add("subtract_interval", |call| add_interval(call, -1, true));
    functions.add("try_add_interval", |call| add_interval(call, 1, false));
    functions.add("try_subtract_interval", |call| add_interval(call, -1, false));
    functions.add("subtract_timestamps", subtract_timestamps);
    functions.add("subtract_dates", subtract_dates);
    functions.add("add_days", |call| add_days(call, 1));
    functions.add("subtract_days", |call| add_days(call, -1));
}

/// Moves dates or times by an interval.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct AddInterval {
    sign: i32,
    zone: TimeZone,
    fails: bool,
    ansi: bool,
}

impl AddInterval {
    fn date(&self, days: i32, interval: Calendar) -> Result<Option<i32>> {
        if interval.micros != 0 && self.ansi {
            return Err(faults::row(
                "INVALID_INTERVAL_WITH_MICROSECONDS_ADDITION",
                "22006",
                "an interval with a time of day cannot be added to a date: cast the date to a timestamp",
            ));
        }
        let moved = civil::add_months(i64::from(days), i64::from(interval.months)) + i64::from(interval.days);
        let moved = if interval.micros == 0 {
            Some(moved)
        } else {
            let midnight = self.zone.local_to_instant(moved.saturating_mul(MICROS_PER_DAY));
            midnight.checked_add(interval.micros).map(|instant| civil::days_of(self.zone.instant_to_local(instant)))
        };
        match moved.and_then(|days| i32::try_from(days).ok()) {
            None if self.fails => Err(faults::overflow("the date is out of range")),
            date => Ok(date),
        }
    }

    fn time(&self, micros: i64, interval: Calendar) -> Result<Option<i64>> {
        let (months, days) = (i64::from(interval.months), i64::from(interval.days));
        match shift::instant(micros, months, days, interval.micros, self.zone) {
            None if self.fails => Err(faults::overflow("the timestamp is out of range")),
            time => Ok(time),
        }
    }

    fn interval(&self, intervals: &ArrayRef, row: usize) -> Result<Option<Calendar>> {
        if intervals.is_null(row) {
            return Ok(None);
        }
        let interval = match intervals.data_type() {
            DataType::Duration(_) => {
                let micros = downcast::primitive::<DurationMicrosecondType>(intervals)?.value(row);
                // Whole days are days of the wall clock.
                let days = i32::try_from(micros / MICROS_PER_DAY).map_err(|_| faults::overflow("the interval is out of range"))?;
                Calendar { months: 0, days, micros: micros % MICROS_PER_DAY }
            }
            DataType::Interval(IntervalUnit::YearMonth) => {
                Calendar { months: downcast::primitive::<IntervalYearMonthType>(intervals)?.value(row), ..Calendar::default() }
            }
            _ => Calendar::of(downcast::primitive::<IntervalMonthDayNanoType>(intervals)?.value(row)),
        };
        let Calendar { months, days, micros } = interval;
        Ok(Some(Calendar {
            months: months.wrapping_mul(self.sign),
            days: days.wrapping_mul(self.sign),
            micros: micros.wrapping_mul(i64::from(self.sign)),
        }))
    }
}

impl Kernel for AddInterval {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (values, intervals) = (arguments.array(0)?, arguments.array(1)?);
        if *values.data_type() == DataType::Date32 {
            let dates = downcast::primitive::<Date32Type>(&values)?;
            let mut result = PrimitiveBuilder::<Date32Type>::with_capacity(dates.len());
            for row in 0..dates.len() {
                result.append_option(match (downcast::value(dates, row), self.interval(&intervals, row)?) {
                    (Some(date), Some(interval)) => self.date(date, interval)?,
                    _ => None,
                });
            }
            return Ok(Arc::new(result.finish()));
        }
        let times = downcast::primitive::<TimestampMicrosecondType>(&values)?;
        let mut result =
            PrimitiveBuilder::<TimestampMicrosecondType>::with_capacity(times.len()).with_data_type(values.data_type().clone());
        for row in 0..times.len() {
            result.append_option(match (downcast::value(times, row), self.interval(&intervals, row)?) {
                (Some(time), Some(interval)) => self.time(time, interval)?,
                _ => None,
            });
        }
        Ok(Arc::new(result.finish()))
    }
}

fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Duration(_) | DataType::Interval(_))
}

/// A date, a timestamp or a text, and an interval, in either order.
fn add_interval(call: &Call<'_>, sign: i32, fails: bool) -> Result<Typed> {
    call.arity(2..=2)?;
    let (mut value, mut interval) = (call.value(0)?.clone(), call.value(1)?.clone());
    if !is_interval(&interval.data_type) && sign > 0 {
        std::mem::swap(&mut value, &mut interval);
    }
    if !is_interval(&interval.data_type) {
        return Err(faults::unexpected_type(call.name, 1, "\"INTERVAL\"", &interval.data_type));
    }
    let text = value.data_type == DataType::Utf8;
    value = match &value.data_type {
        DataType::Timestamp(TimeUnit::Microsecond, _) => value,
        // A date stays a date if the interval has no time of day.
        DataType::Date32 if is_of_days(&interval) => value,
        DataType::Date32 | DataType::Utf8 | DataType::Null => cast::implicit(value, &types::timestamp(), call.settings)?,
        other => return Err(faults::unexpected_type(call.name, 0, "(\"DATE\" or \"TIMESTAMP\")", other)),
    };
    let zone =
        if value.data_type == DataType::Timestamp(TimeUnit::Microsecond, None) { TimeZone::Offset(0) } else { call.settings.time_zone };
    let nullable = value.nullable || interval.nullable || !fails;
    let kernel = AddInterval { sign, zone, fails, ansi: call.settings.ansi && fails };
    let data_type = value.data_type.clone();
    let sum = scalar(if sign < 0 { "subtract_interval" } else { "add_interval" }, kernel, vec![value, interval], data_type, nullable);
    if text { cast::implicit(sum, &DataType::Utf8, call.settings) } else { Ok(sum) }
}

fn is_of_days(interval: &Typed) -> bool {
    match interval.data_type {
        DataType::Duration(_) => Units::of(&interval.data_type, &interval.metadata) == Units { start: Unit::Day, end: Unit::Day },
        _ => true,
    }
}

/// The time between wall clocks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SubtractTimestamps {
    zone: TimeZone,
}

impl Kernel for SubtractTimestamps {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (ends, starts) = (arguments.array(0)?, arguments.array(1)?);
        Ok(Arc::new(downcast::map2::<TimestampMicrosecondType, TimestampMicrosecondType, DurationMicrosecondType>(
            &ends,
            &starts,
            |end, start| {
                let duration = self.zone.instant_to_local(end).checked_sub(self.zone.instant_to_local(start));
                duration.map(Some).ok_or_else(|| faults::overflow("the time between the timestamps is out of range"))
            },
        )?))
    }
}

fn subtract_timestamps(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    let wall_clock = DataType::Timestamp(TimeUnit::Microsecond, None);
    let both_wall_clocks = (0..2).try_fold(true, |all, index| {
        let data_type = &call.value(index)?.data_type;
        Ok::<_, Error>(all && matches!(data_type, DataType::Timestamp(_, None)))
    })?;
    let (data_type, zone) =
        if both_wall_clocks { (wall_clock, TimeZone::Offset(0)) } else { (types::timestamp(), call.settings.time_zone) };
    let (end, start) = (call.coerced(0, &data_type)?, call.coerced(1, &data_type)?);
    let nullable = end.nullable || start.nullable;
    Ok(scalar("subtract_timestamps", SubtractTimestamps { zone }, vec![end, start], DataType::Duration(TimeUnit::Microsecond), nullable))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SubtractDates;

impl Kernel for SubtractDates {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (ends, starts) = (arguments.array(0)?, arguments.array(1)?);
        Ok(Arc::new(downcast::map2::<Date32Type, Date32Type, DurationMicrosecondType>(&ends, &starts, |end, start| {
            let duration = (i64::from(end) - i64::from(start)).checked_mul(MICROS_PER_DAY);
            duration.map(Some).ok_or_else(|| faults::overflow("the time between the dates is out of range"))
        })?))
    }
}

fn subtract_dates(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    let (end, start) = (call.date(0)?, call.date(1)?);
    let nullable = end.nullable || start.nullable;
    let days = scalar("subtract_dates", SubtractDates, vec![end, start], DataType::Duration(TimeUnit::Microsecond), nullable);
    Ok(days.with_metadata(HashMap::from([(INTERVAL_UNITS.to_owned(), Unit::Day.name().to_owned())])))
}

fn add_days(call: &Call<'_>, sign: i32) -> Result<Typed> {
    call.arity(2..=2)?;
    let date = call.date(0)?;
    let days = match call.value(1)?.data_type {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Null => call.int(1)?,
        ref other => return Err(faults::unexpected_type(call.name, 1, "(\"INT\" or \"SMALLINT\" or \"TINYINT\")", other)),
    };
    Ok(days_added(date, days, sign))
}
