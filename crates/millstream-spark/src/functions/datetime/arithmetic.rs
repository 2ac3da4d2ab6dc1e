//! Days and months added, and differences.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, PrimitiveBuilder};
use arrow::datatypes::{DataType, Date32Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType};
use millstream_core::{Error, Result};

use super::super::downcast;
use super::super::{Arguments, Call, Functions, Kernel, TimeZone, Typed, faults, scalar};
use super::any_timestamp;
use super::civil::{self, Civil, MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND};
use super::shift;
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add("add_months", add_months);
    functions.add_all(&["date_add", "dateadd"], |call| if call.len() == 3 { timestamp_add(call) } else { add_days(call, 1) });
    functions.add("date_sub", |call| add_days(call, -1));
    functions.add_all(&["date_diff", "datediff"], |call| if call.len() == 3 { timestamp_diff(call) } else { days_between(call) });
    functions.add("timestampadd", timestamp_add);
    functions.add("timestampdiff", timestamp_diff);
    functions.add("months_between", months_between);
    functions.add("next_day", next_day);
    functions.add("last_day", last_day);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct AddMonths;

impl Kernel for AddMonths {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (dates, months) = (arguments.array(0)?, arguments.array(1)?);
        Ok(Arc::new(downcast::map2::<Date32Type, Int32Type, Date32Type>(&dates, &months, |days, months| {
            shift::date_by_months(days, i64::from(months)).map(Some)
        })?))
    }
}

fn add_months(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    let (date, months) = (call.date(0)?, call.int(1)?);
    let nullable = date.nullable || months.nullable;
    Ok(scalar("add_months", AddMonths, vec![date, months], DataType::Date32, nullable))
}

/// Adds days once or takes them away, within the 32 bits of a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct AddDays {
    sign: i32,
}

impl Kernel for AddDays {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (dates, days) = (arguments.array(0)?, arguments.array(1)?);
        Ok(Arc::new(downcast::map2::<Date32Type, Int32Type, Date32Type>(&dates, &days, |date, days| {
            Ok(Some(date.wrapping_add(days.wrapping_mul(self.sign))))
        })?))
    }
}

fn add_days(call: &Call<'_>, sign: i32) -> Result<Typed> {
    call.arity(2..=2)?;
    let date = call.date(0)?;
    // Unlike elsewhere, a 64-bit number is not an integer here even if it is small.
    let days = match call.value(1)?.data_type {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Utf8 | DataType::Null => call.int(1)?,
        ref other => return Err(faults::unexpected_type(call.name, 1, "(\"INT\" or \"SMALLINT\" or \"TINYINT\")", other)),
    };
    Ok(days_added(date, days, sign))
}

/// A date some days later, or earlier when `sign` is −1.
pub(crate) fn days_added(date: Typed, days: Typed, sign: i32) -> Typed {
    let nullable = date.nullable || days.nullable;
    scalar(if sign < 0 { "date_sub" } else { "date_add" }, AddDays { sign }, vec![date, days], DataType::Date32, nullable)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct DaysBetween;

impl Kernel for DaysBetween {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (ends, starts) = (arguments.array(0)?, arguments.array(1)?);
        Ok(Arc::new(downcast::map2::<Date32Type, Date32Type, Int32Type>(&ends, &starts, |end, start| Ok(Some(end.wrapping_sub(start))))?))
    }
}

fn days_between(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    let (end, start) = (call.date(0)?, call.date(1)?);
    let nullable = end.nullable || start.nullable;
    Ok(scalar("datediff", DaysBetween, vec![end, start], DataType::Int32, nullable))
}

/// A unit of `timestampadd` and `timestampdiff`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Unit {
    /// A time of so many microseconds.
    Time(i64),
    /// A number of days.
    Days(i64),
    /// A number of months.
    Months(i64),
}

impl Unit {
    fn parse(call: &Call<'_>) -> Result<Unit> {
        let name = call.constant_text(0)?.unwrap_or_default();
        Ok(match name.to_ascii_uppercase().as_str() {
            "MICROSECOND" => Unit::Time(1),
            "MILLISECOND" => Unit::Time(1_000),
            "SECOND" => Unit::Time(MICROS_PER_SECOND),
            "MINUTE" => Unit::Time(MICROS_PER_MINUTE),
            "HOUR" => Unit::Time(MICROS_PER_HOUR),
            "DAY" | "DAYOFYEAR" => Unit::Days(1),
            "WEEK" => Unit::Days(7),
            "MONTH" => Unit::Months(1),
            "QUARTER" => Unit::Months(3),
            "YEAR" => Unit::Months(12),
            _ => {
                return Err(Error::invalid(
                    "INVALID_PARAMETER_VALUE.DATETIME_UNIT",
                    format!("`{}` takes a unit from MICROSECOND to YEAR, and '{name}' is none", call.name),
                )
                .with_sqlstate("22023"));
            }
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct TimestampAdd {
    unit: Unit,
    zone: TimeZone,
}

impl TimestampAdd {
    fn add(&self, micros: i64, quantity: i64) -> Option<i64> {
        match self.unit {
            Unit::Time(length) => shift::instant_by_duration(micros, quantity.checked_mul(length)?, self.zone),
            Unit::Days(days) => shift::instant_by_duration(micros, quantity.checked_mul(days)?.checked_mul(MICROS_PER_DAY)?, self.zone),
            Unit::Months(months) => {
                let months = i32::try_from(quantity.checked_mul(months)?).ok()?;
                shift::instant(micros, i64::from(months), 0, 0, self.zone)
            }
        }
    }
}

impl Kernel for TimestampAdd {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (quantities, times) = (arguments.array(0)?, arguments.array(1)?);
        let sums =
            downcast::map2::<TimestampMicrosecondType, Int64Type, TimestampMicrosecondType>(&times, &quantities, |micros, quantity| {
                let sum = self.add(micros, quantity);
                sum.map(Some)
                    .ok_or_else(|| faults::row("DATETIME_OVERFLOW", "22008", format!("{quantity} units after that time is no timestamp")))
            })?;
        Ok(Arc::new(sums.with_data_type(times.data_type().clone())))
    }
}

fn timestamp_add(call: &Call<'_>) -> Result<Typed> {
    call.arity(3..=3)?;
    let unit = Unit::parse(call)?;
    let (quantity, time) = (call.long(1)?, any_timestamp(call, 2)?);
    let kernel = TimestampAdd { unit, zone: zone_of(&time, call) };
    let (data_type, nullable) = (time.data_type.clone(), quantity.nullable || time.nullable);
    Ok(scalar("timestampadd", kernel, vec![quantity, time], data_type, nullable))
}

/// The zone that a time is calculated with: none but UTC for a wall clock.
fn zone_of(time: &Typed, call: &Call<'_>) -> TimeZone {
    if time.data_type == types::timestamp() { call.settings.time_zone } else { TimeZone::Offset(0) }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct TimestampDiff {
    unit: Unit,
    zone: TimeZone,
}

impl TimestampDiff {
    /// Whole units from one time to another, of their wall clocks.
    fn between(&self, start: i64, end: i64) -> i64 {
        let (start, end) = (self.zone.instant_to_local(start), self.zone.instant_to_local(end));
        match self.unit {
            Unit::Time(length) => ((i128::from(end) - i128::from(start)) / i128::from(length)) as i64,
            Unit::Days(days) => ((i128::from(end) - i128::from(start)) / i128::from(MICROS_PER_DAY)) as i64 / days,
            Unit::Months(months) => months_from(start, end) / months,
        }
    }
}

/// Whole months from one wall clock to another.
fn months_from(start: i64, end: i64) -> i64 {
    let (start, end) = (Civil::from_micros(start), Civil::from_micros(end));
    // A day that is not over does not count.
    let end_days = match end.days.cmp(&start.days) {
        std::cmp::Ordering::Greater if end.micros_of_day < start.micros_of_day => end.days - 1,
        std::cmp::Ordering::Less if end.micros_of_day > start.micros_of_day => end.days + 1,
        _ => end.days,
    };
    let end = Civil::from_days(end_days);
    let packed = |date: &Civil| (date.year * 12 + i64::from(date.month) - 1) * 32 + i64::from(date.day);
    (packed(&end) - packed(&start)) / 32
}

impl Kernel for TimestampDiff {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (starts, ends) = (arguments.array(0)?, arguments.array(1)?);
        Ok(Arc::new(downcast::map2::<TimestampMicrosecondType, TimestampMicrosecondType, Int64Type>(&starts, &ends, |start, end| {
            Ok(Some(self.between(start, end)))
        })?))
    }
}

fn timestamp_diff(call: &Call<'_>) -> Result<Typed> {
    call.arity(3..=3)?;
    let unit = Unit::parse(call)?;
    let (start, end) = (call.timestamp(1)?, call.timestamp(2)?);
    let nullable = start.nullable || end.nullable;
    let kernel = TimestampDiff { unit, zone: call.settings.time_zone };
    Ok(scalar("timestampdiff", kernel, vec![start, end], DataType::Int64, nullable))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct MonthsBetween {
    zone: TimeZone,
}

impl MonthsBetween {
    /// Months from `start` to `end`: whole ones where the days of the month agree or both are the last, otherwise with parts of 31 days.
    fn between(&self, end: i64, start: i64, round: bool) -> f64 {
        let side = |micros: i64| {
            let civil = Civil::from_micros(self.zone.instant_to_local(micros));
            let midnight = self.zone.local_to_instant(civil.days.saturating_mul(MICROS_PER_DAY));
            (civil, (micros - midnight) / MICROS_PER_SECOND)
        };
        let ((end, end_seconds), (start, start_seconds)) = (side(end), side(start));
        let months = (end.year - start.year) * 12 + i64::from(end.month) - i64::from(start.month);
        let is_last = |date: &Civil| date.day == civil::days_in_month(date.year, date.month);
        if end.day == start.day || is_last(&end) && is_last(&start) {
            return months as f64;
        }
        let seconds = (i64::from(end.day) - i64::from(start.day)) * 86_400 + end_seconds - start_seconds;
        let difference = months as f64 + seconds as f64 / (31.0 * 86_400.0);
        if round { (difference * 1e8 + 0.5).floor() / 1e8 } else { difference }
    }
}

impl Kernel for MonthsBetween {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (ends, starts, rounds) = (arguments.array(0)?, arguments.array(1)?, arguments.array(2)?);
        let (ends, starts) =
            (downcast::primitive::<TimestampMicrosecondType>(&ends)?, downcast::primitive::<TimestampMicrosecondType>(&starts)?);
        let rounds = downcast::booleans(&rounds)?;
        let mut result = PrimitiveBuilder::<Float64Type>::with_capacity(ends.len());
        for ((end, start), round) in ends.iter().zip(starts).zip(rounds) {
            result.append_option(match (end, start, round) {
                (Some(end), Some(start), Some(round)) => Some(self.between(end, start, round)),
                _ => None,
            });
        }
        Ok(Arc::new(result.finish()))
    }
}

fn months_between(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=3)?;
    let (end, start) = (call.timestamp(0)?, call.timestamp(1)?);
    let round = if call.len() == 3 { call.boolean(2)? } else { Typed::literal(datafusion::scalar::ScalarValue::Boolean(Some(true))) };
    let nullable = end.nullable || start.nullable || round.nullable;
    let kernel = MonthsBetween { zone: call.settings.time_zone };
    Ok(scalar("months_between", kernel, vec![end, start, round], DataType::Float64, nullable))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct NextDay {
    ansi: bool,
}

impl Kernel for NextDay {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (dates, names) = (arguments.array(0)?, arguments.array(1)?);
        let (dates, names) = (downcast::primitive::<Date32Type>(&dates)?, downcast::strings(&names)?);
        let mut result = PrimitiveBuilder::<Date32Type>::with_capacity(dates.len());
        for (days, name) in dates.iter().zip(names) {
            let (Some(days), Some(name)) = (days, name) else {
                result.append_null();
                continue;
            };
            match day_named(name) {
                Some(day) => {
                    let later = (day - civil::day_of_week(i64::from(days)) - 1).rem_euclid(7) + 1;
                    result.append_value(days.wrapping_add(later as i32));
                }
                None if self.ansi => {
                    let message = format!("'{name}' is no day of the week: write for example 'Monday', 'MON' or 'MO'");
                    return Err(faults::row("ILLEGAL_DAY_OF_WEEK", "22009", message));
                }
                None => result.append_null(),
            }
        }
        Ok(Arc::new(result.finish()))
    }
}

/// The day of the week of a name of two letters, three letters or all of them; Monday = 1.
fn day_named(name: &str) -> Option<i64> {
    (1..=7).find(|day| {
        let full = super::words::day_of_week(*day, false);
        [Some(full), full.get(..3), full.get(..2)].into_iter().flatten().any(|word| word.eq_ignore_ascii_case(name))
    })
}

fn next_day(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    let kernel = NextDay { ansi: call.settings.ansi };
    Ok(scalar("next_day", kernel, vec![call.date(0)?, call.string(1)?], DataType::Date32, true))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct LastDay;

impl Kernel for LastDay {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Ok(Arc::new(downcast::map::<Date32Type, Date32Type>(&arguments.array(0)?, |days| {
            let date = Civil::from_days(i64::from(days));
            Ok(i32::try_from(date.days + i64::from(civil::days_in_month(date.year, date.month) - date.day)).ok())
        })?))
    }
}

fn last_day(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=1)?;
    let date = call.date(0)?;
    let nullable = date.nullable;
    Ok(scalar("last_day", LastDay, vec![date], DataType::Date32, nullable))
}
