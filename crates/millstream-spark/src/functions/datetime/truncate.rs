//! `date_trunc` and `trunc`: times and dates cut to a unit.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, PrimitiveBuilder, StringArray};
use arrow::datatypes::{DataType, Date32Type, TimestampMicrosecondType};
use millstream_core::Result;

use super::super::downcast;
use super::super::{Arguments, Call, Functions, Kernel, TimeZone, Typed, scalar};
use super::civil::{self, Civil, MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND};
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add("date_trunc", date_trunc);
    functions.add("trunc", trunc);
}

/// A unit to cut to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    /// So many microseconds, of the wall clock.
    Clock(i64),
    /// So many microseconds, at most a second.
    Time(i64),
}

impl Level {
    /// `None` for a text that names no unit.
    fn parse(text: &str) -> Option<Level> {
        Some(match text.to_ascii_uppercase().as_str() {
            "YEAR" | "YYYY" | "YY" => Level::Year,
            "QUARTER" => Level::Quarter,
            "MONTH" | "MON" | "MM" => Level::Month,
            "WEEK" => Level::Week,
            "DAY" | "DD" => Level::Day,
            "HOUR" => Level::Clock(MICROS_PER_HOUR),
            "MINUTE" => Level::Clock(MICROS_PER_MINUTE),
            "SECOND" => Level::Time(MICROS_PER_SECOND),
            "MILLISECOND" => Level::Time(1_000),
            "MICROSECOND" => Level::Time(1),
            _ => return None,
        })
    }

    /// The first day of a unit of at least a week.
    fn first_day(self, days: i64) -> Option<i64> {
        let date = Civil::from_days(days);
        Some(match self {
            Level::Year => civil::days_from_civil(date.year, 1, 1),
            Level::Quarter => civil::days_from_civil(date.year, date.quarter() * 3 - 2, 1),
            Level::Month => civil::days_from_civil(date.year, date.month, 1),
            Level::Week => days - (civil::day_of_week(days) - 1),
            Level::Day | Level::Clock(_) | Level::Time(_) => return None,
        })
    }

    fn cut(self, micros: i64, zone: TimeZone) -> i64 {
        if let Level::Time(unit) = self {
            return micros.saturating_sub(micros.rem_euclid(unit));
        }
        let local = zone.instant_to_local(micros);
        match self {
            Level::Clock(unit) => zone.local_to_instant_preferring(local - local.rem_euclid(unit), zone.offset_seconds_at(micros)),
            Level::Day => zone.local_to_instant_preferring(local - local.rem_euclid(MICROS_PER_DAY), zone.offset_seconds_at(micros)),
            _ => {
                let days = civil::days_of(local);
                zone.local_to_instant(self.first_day(days).unwrap_or(days).saturating_mul(MICROS_PER_DAY))
            }
        }
    }
}

/// Cuts each value of the second argument to the unit that the first names; null where it names none.
fn cut<T: arrow::array::ArrowPrimitiveType>(
    units: &StringArray,
    values: &arrow::array::PrimitiveArray<T>,
    cut: impl Fn(Level, T::Native) -> Option<T::Native>,
) -> arrow::array::PrimitiveArray<T> {
    let mut result = PrimitiveBuilder::<T>::with_capacity(values.len()).with_data_type(values.data_type().clone());
    let mut last: Option<(&str, Option<Level>)> = None;
    for (unit, value) in units.iter().zip(values) {
        let cut = match (unit, value) {
            (Some(unit), Some(value)) => {
                let level = match last {
                    Some((text, level)) if text == unit => level,
                    _ => Level::parse(unit),
                };
                last = Some((unit, level));
                level.and_then(|level| cut(level, value))
            }
            _ => None,
        };
        result.append_option(cut);
    }
    result.finish()
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct DateTrunc {
    zone: TimeZone,
}

impl Kernel for DateTrunc {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (units, times) = (arguments.array(0)?, arguments.array(1)?);
        let times = downcast::primitive::<TimestampMicrosecondType>(&times)?;
        Ok(Arc::new(cut(downcast::strings(&units)?, times, |level, micros| Some(level.cut(micros, self.zone)))))
    }
}

fn date_trunc(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    let arguments = vec![call.string(0)?, call.timestamp(1)?];
    Ok(scalar("date_trunc", DateTrunc { zone: call.settings.time_zone }, arguments, types::timestamp(), true))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Trunc;

impl Kernel for Trunc {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (dates, units) = (arguments.array(0)?, arguments.array(1)?);
        let dates = downcast::primitive::<Date32Type>(&dates)?;
        Ok(Arc::new(cut(downcast::strings(&units)?, dates, |level, days| {
            level.first_day(i64::from(days)).and_then(|days| i32::try_from(days).ok())
        })))
    }
}

fn trunc(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    Ok(scalar("trunc", Trunc, vec![call.date(0)?, call.string(1)?], DataType::Date32, true))
}
