//! Dates and timestamps from their parts: `make_date`, `make_timestamp` and their kin.

use std::sync::Arc;

use arrow::array::{ArrayRef, PrimitiveBuilder};
use arrow::datatypes::{DataType, Date32Type, Decimal128Type, Int32Type, TimeUnit, TimestampMicrosecondType};
use millstream_core::{Error, Result};

use super::super::downcast;
use super::super::{Arguments, Call, Functions, Kernel, TimeZone, Typed, cast, faults, scalar};
use super::civil::{self, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND};
use super::time_of_day::{at, time_type};
use super::zones::Zones;
use crate::types;

/// The type that seconds are brought to: microseconds exactly.
const SECONDS: DataType = DataType::Decimal128(16, 6);

pub(super) fn register(functions: &mut Functions) {
    functions.add("make_date", make_date);
    functions.add("make_timestamp", |call| make_timestamp(call, call.settings.timestamp_ntz, false));
    functions.add("try_make_timestamp", |call| make_timestamp(call, call.settings.timestamp_ntz, true));
    functions.add("make_timestamp_ntz", |call| make_timestamp(call, true, false));
    functions.add("try_make_timestamp_ntz", |call| make_timestamp(call, true, true));
    functions.add("make_timestamp_ltz", |call| make_timestamp(call, false, false));
    functions.add("try_make_timestamp_ltz", |call| make_timestamp(call, false, true));
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct MakeDate {
    ansi: bool,
}

impl Kernel for MakeDate {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (years, months, days) = (arguments.array(0)?, arguments.array(1)?, arguments.array(2)?);
        let years = downcast::primitive::<Int32Type>(&years)?;
        let (months, days) = (downcast::primitive::<Int32Type>(&months)?, downcast::primitive::<Int32Type>(&days)?);
        let mut result = PrimitiveBuilder::<Date32Type>::with_capacity(years.len());
        for ((year, month), day) in years.iter().zip(months).zip(days) {
            let (Some(year), Some(month), Some(day)) = (year, month, day) else {
                result.append_null();
                continue;
            };
            match civil::checked_days(i64::from(year), i64::from(month), i64::from(day)) {
                None if self.ansi => return Err(no_such_time(format!("{year}-{month}-{day} is no date"))),
                date => result.append_option(date),
            }
        }
        Ok(Arc::new(result.finish()))
    }
}

fn make_date(call: &Call<'_>) -> Result<Typed> {
    call.arity(3..=3)?;
    let arguments = vec![call.int(0)?, call.int(1)?, call.int(2)?];
    let nullable = !call.settings.ansi || arguments.iter().any(|argument| argument.nullable);
    Ok(scalar("make_date", MakeDate { ansi: call.settings.ansi }, arguments, DataType::Date32, nullable))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct MakeTimestamp {
    /// The zone of the wall clock; `None` to keep the wall clock.
    zone: Option<TimeZone>,
    fails: bool,
    /// Even names that are no zones give null.
    forgiving: bool,
}

/// A wall clock of its parts, microseconds since 1970-01-01 00:00:00.
fn wall_clock(date: [i32; 3], hour: i32, minute: i32, seconds: i128) -> Result<i64> {
    let [year, month, day] = date.map(i64::from);
    let out_of_range = || no_such_time(format!("{year}-{month}-{day} {hour}:{minute}:{} is no timestamp", seconds as f64 / 1e6));
    let micros =
        i64::try_from(seconds).ok().filter(|micros| (0..=60 * MICROS_PER_SECOND + 999_999).contains(micros)).ok_or_else(out_of_range)?;
    if micros > 60 * MICROS_PER_SECOND {
        let message = "a second of 60 has no fraction: the seconds go from 0 to 59.999999, and 60 is the next minute";
        return Err(faults::row("INVALID_FRACTION_OF_SECOND", "22023", message));
    }
    let days = civil::checked_days(year, month, day).ok_or_else(out_of_range)?;
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) {
        return Err(out_of_range());
    }
    let time = i64::from(hour) * MICROS_PER_HOUR + i64::from(minute) * MICROS_PER_MINUTE + micros;
    i64::from(days).checked_mul(civil::MICROS_PER_DAY).and_then(|midnight| midnight.checked_add(time)).ok_or_else(out_of_range)
}

impl Kernel for MakeTimestamp {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let arrays = arguments.arrays()?;
        let [years, months, days, hours, minutes, seconds, zones @ ..] = arrays.as_slice() else {
            return Err(Error::internal("a timestamp has six parts"));
        };
        let years = downcast::primitive::<Int32Type>(years)?;
        let (months, days) = (downcast::primitive::<Int32Type>(months)?, downcast::primitive::<Int32Type>(days)?);
        let (hours, minutes) = (downcast::primitive::<Int32Type>(hours)?, downcast::primitive::<Int32Type>(minutes)?);
        let seconds = downcast::primitive::<Decimal128Type>(seconds)?;
        let names = zones.first().map(downcast::strings).transpose()?;
        let mut known = Zones::default();
        let mut result = PrimitiveBuilder::<TimestampMicrosecondType>::with_capacity(years.len());
        for row in 0..years.len() {
            let parts = [years, months, days, hours, minutes].map(|part| downcast::value(part, row));
            let zone = names.map(|names| downcast::text(names, row));
            let ([Some(year), Some(month), Some(day), Some(hour), Some(minute)], Some(seconds)) = (parts, downcast::value(seconds, row))
            else {
                result.append_null();
                continue;
            };
            if zone == Some(None) {
                result.append_null();
                continue;
            }
            let zone = match zone.flatten().map(|name| known.get(name)) {
                Some(named) => Some(named?),
                None => self.zone,
            };
            let local = wall_clock([year, month, day], hour, minute, seconds);
            let instant = local.map(|local| zone.map_or(local, |zone| zone.local_to_instant(local)));
            match instant {
                Ok(micros) => result.append_value(micros),
                Err(error) if self.fails => return Err(error),
                Err(_) => result.append_null(),
            }
        }
        let result = result.finish();
        Ok(Arc::new(if self.zone.is_some() { result.with_timezone("UTC") } else { result }))
    }
}

fn make_timestamp(call: &Call<'_>, wall_clock: bool, forgiving: bool) -> Result<Typed> {
    let data_type = if wall_clock { DataType::Timestamp(TimeUnit::Microsecond, None) } else { types::timestamp() };
    let fails = call.settings.ansi && !forgiving;
    if call.len() == 1 {
        let mut midnight = cast::implicit(call.date(0)?, &data_type, call.settings)?;
        midnight.nullable |= !fails;
        return Ok(midnight);
    }
    let of_day = |index: usize| call.value(index).is_ok_and(|value| matches!(value.data_type, DataType::Time64(_)));
    if call.len() == 2 || call.len() == 3 && !(wall_clock && call.name.ends_with("ntz")) {
        return of_date_and_time(call, data_type, forgiving, of_day(1));
    }
    match call.len() {
        6 => {}
        7 if !wall_clock || call.name.ends_with("timestamp") => {}
        actual => return Err(faults::wrong_number(call.name, if wall_clock { "[1, 6]" } else { "[1, 6, 7]" }, actual)),
    }
    let mut arguments = (0..5).map(|index| call.int(index)).collect::<Result<Vec<_>>>()?;
    arguments.push(call.coerced(5, &SECONDS)?);
    if call.len() == 7 {
        arguments.push(call.string(6)?);
    }
    let nullable = !fails || arguments.iter().any(|argument| argument.nullable);
    let kernel = MakeTimestamp { zone: (!wall_clock).then_some(call.settings.time_zone), fails, forgiving };
    Ok(scalar("make_timestamp", kernel, arguments, data_type, nullable))
}

/// A timestamp of a date, a time of day, and perhaps a zone.
fn of_date_and_time(call: &Call<'_>, data_type: DataType, forgiving: bool, is_time: bool) -> Result<Typed> {
    let date = call.date(0)?;
    let time = call.value(1)?.clone();
    if !is_time && time.data_type != DataType::Null {
        return Err(faults::unexpected_type(call.name, 1, "\"TIME\"", &time.data_type));
    }
    let time = cast::implicit(time, &time_type(), call.settings)?;
    let wall_clock = matches!(data_type, DataType::Timestamp(_, None));
    if call.len() == 2 {
        return Ok(at(date, time, (!wall_clock).then_some(call.settings.time_zone), data_type));
    }
    let local = at(date, time, None, DataType::Timestamp(TimeUnit::Microsecond, None));
    let arguments = vec![local, call.string(2)?];
    let nullable = forgiving || arguments.iter().any(|argument| argument.nullable);
    Ok(scalar("timestamp_in_zone", InZone { forgiving }, arguments, types::timestamp(), nullable))
}

/// Instants of wall clocks in zones that are named by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct InZone {
    forgiving: bool,
}

impl Kernel for InZone {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (times, names) = (arguments.array(0)?, arguments.array(1)?);
        let (times, names) = (downcast::primitive::<TimestampMicrosecondType>(&times)?, downcast::strings(&names)?);
        let mut known = Zones::default();
        let mut result = PrimitiveBuilder::<TimestampMicrosecondType>::with_capacity(times.len());
        for (local, name) in times.iter().zip(names) {
            let (Some(local), Some(name)) = (local, name) else {
                result.append_null();
                continue;
            };
            match known.get(name) {
                Ok(zone) => result.append_value(zone.local_to_instant(local)),
                Err(_) if self.forgiving => result.append_null(),
                Err(error) => return Err(error),
            }
        }
        Ok(Arc::new(result.finish().with_timezone("UTC")))
    }
}

/// There is no such date or time.
fn no_such_time(message: String) -> Error {
    faults::row("DATETIME_FIELD_OUT_OF_BOUNDS.WITH_SUGGESTION", "22023", format!("{message}: use the `try_` variant to get NULL instead"))
}
