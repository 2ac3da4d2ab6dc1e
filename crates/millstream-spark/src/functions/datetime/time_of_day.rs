//! Functions of the type `TIME`, which `spark.sql.timeType.enabled` switches on. Values are nanoseconds since midnight, whole microseconds.

use std::sync::Arc;

use arrow::array::{ArrayRef, PrimitiveBuilder};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Int32Type, Int64Type, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};

use super::super::cast::interval::{Unit, Units};
use super::super::rows::{Memo, Rows};
use super::super::{Arguments, Call, Functions, Kernel, TimeZone, Typed, cast, coercion, downcast, faults, scalar};
use super::civil::{MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND};
use super::now::current_timestamp;
use super::parse::parse_time;
use super::pattern::{Pattern, Use};
use crate::types;

/// Nanoseconds of a microsecond.
const NANOS: i64 = 1_000;
/// The most digits behind the seconds.
pub(crate) const MAX_PRECISION: u8 = 6;
/// The type that seconds are brought to.
const SECONDS: DataType = DataType::Decimal128(16, 6);

type Builder = fn(&Call<'_>) -> Result<Typed>;

const FUNCTIONS: &[(&str, Builder)] = &[
    ("current_time", current_time),
    ("make_time", make_time),
    ("to_time", |call| to_time(call, true)),
    ("try_to_time", |call| to_time(call, false)),
    ("time_diff", time_diff),
    ("time_trunc", time_trunc),
    ("time_from_seconds", |call| from_number(call, MICROS_PER_SECOND)),
    ("time_from_millis", |call| from_number(call, 1_000)),
    ("time_from_micros", |call| from_number(call, 1)),
    ("time_to_seconds", to_seconds),
    ("time_to_millis", |call| to_number(call, 1_000)),
    ("time_to_micros", |call| to_number(call, 1)),
    ("add_to_time", |call| add(call, 1)),
    ("subtract_from_time", |call| add(call, -1)),
    ("subtract_times", subtract),
];

pub(super) fn register(functions: &mut Functions) {
    for (name, _) in FUNCTIONS {
        functions.add(name, |call| {
            if !call.settings.time_type {
                return Err(switched_off());
            }
            match FUNCTIONS.iter().find(|(name, _)| *name == call.name) {
                Some((_, build)) => build(call),
                None => Err(faults::unresolved_routine(call.name)),
            }
        });
    }
}

/// The type is there only where it is asked for.
pub(crate) fn switched_off() -> Error {
    Error::invalid("UNSUPPORTED_TIME_TYPE", "the data type TIME is not supported: set spark.sql.timeType.enabled to true to use it")
        .with_sqlstate("0A000")
}

/// The type of times of day.
pub(crate) fn time_type() -> DataType {
    DataType::Time64(TimeUnit::Nanosecond)
}

/// The digits behind the seconds that a value's type has.
fn precision_of(value: &Typed) -> u8 {
    value.metadata.get(types::TIME).and_then(|digits| digits.parse().ok()).unwrap_or(MAX_PRECISION)
}

fn with_precision(value: Typed, precision: u8) -> Typed {
    if precision == MAX_PRECISION { value } else { value.with_metadata([(types::TIME.to_owned(), precision.to_string())].into()) }
}

/// Nanoseconds cut to so many digits behind the seconds.
pub(crate) fn cut(nanos: i64, precision: u8) -> i64 {
    let unit = 10_i64.pow(u32::from(9_u8.saturating_sub(precision)));
    nanos - nanos.rem_euclid(unit)
}

/// An argument that is a time of day.
fn time(call: &Call<'_>, index: usize) -> Result<Typed> {
    let value = call.value(index)?;
    match value.data_type {
        DataType::Time64(_) => Ok(value.clone()),
        DataType::Null => cast::implicit(value.clone(), &time_type(), call.settings),
        _ => Err(faults::unexpected_type(call.name, index, "\"TIME\"", &value.data_type)),
    }
}

/// `current_time([precision])`
fn current_time(call: &Call<'_>) -> Result<Typed> {
    call.arity(0..=1)?;
    let precision = match call.len() {
        0 => i32::from(MAX_PRECISION),
        _ => match coercion::constant_of(&call.int(0)?) {
            Some(ScalarValue::Int32(Some(precision))) => precision,
            Some(_) => return Err(faults::mismatch("UNEXPECTED_NULL", "the precision of `current_time` must not be null")),
            None => return Err(faults::not_foldable("current_time", 0)),
        },
    };
    match u8::try_from(precision) {
        Ok(precision) if precision <= MAX_PRECISION => {
            let kernel = TimeOf { zone: call.settings.time_zone, precision };
            Ok(with_precision(scalar("current_time", kernel, vec![current_timestamp()], time_type(), false), precision))
        }
        _ => Err(faults::mismatch("VALUE_OUT_OF_RANGE", format!("the precision of `current_time` must be 0 to 6, not {precision}"))),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct TimeOf {
    zone: TimeZone,
    precision: u8,
}

impl Kernel for TimeOf {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let times = downcast::map::<TimestampMicrosecondType, Time64NanosecondType>(&arguments.array(0)?, |micros| {
            Ok(Some(cut(self.zone.instant_to_local(micros).rem_euclid(MICROS_PER_DAY) * NANOS, self.precision)))
        })?;
        Ok(Arc::new(times))
    }
}

/// `make_time(hour, minute, second)`
fn make_time(call: &Call<'_>) -> Result<Typed> {
    call.arity(3..=3)?;
    let arguments = vec![call.int(0)?, call.int(1)?, call.coerced(2, &SECONDS)?];
    let nullable = arguments.iter().any(|argument| argument.nullable);
    Ok(scalar("make_time", MakeTime, arguments, time_type(), nullable))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct MakeTime;

impl Kernel for MakeTime {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (hours, minutes, seconds) = (arguments.array(0)?, arguments.array(1)?, arguments.array(2)?);
        let (hours, minutes) = (downcast::primitive::<Int32Type>(&hours)?, downcast::primitive::<Int32Type>(&minutes)?);
        let seconds = downcast::primitive::<Decimal128Type>(&seconds)?;
        let mut times = PrimitiveBuilder::<Time64NanosecondType>::with_capacity(hours.len());
        for ((hour, minute), second) in hours.iter().zip(minutes).zip(seconds) {
            let (Some(hour), Some(minute), Some(second)) = (hour, minute, second) else {
                times.append_null();
                continue;
            };
            let micros = i64::try_from(second).ok().filter(|micros| (0..MICROS_PER_MINUTE).contains(micros));
            match micros {
                Some(micros) if (0..24).contains(&hour) && (0..60).contains(&minute) => {
                    let time = i64::from(hour) * MICROS_PER_HOUR + i64::from(minute) * MICROS_PER_MINUTE + micros;
                    times.append_value(time * NANOS);
                }
                _ => return Err(out_of_bounds(format!("{hour}:{minute}:{} is no time of day", second as f64 / 1e6))),
            }
        }
        Ok(Arc::new(times.finish()))
    }
}

fn out_of_bounds(message: String) -> Error {
    faults::row("DATETIME_FIELD_OUT_OF_BOUNDS.WITHOUT_SUGGESTION", "22023", message)
}

/// `to_time(text[, format])`
fn to_time(call: &Call<'_>, fails: bool) -> Result<Typed> {
    call.arity(1..=2)?;
    let mut arguments = vec![call.exactly(0, &[DataType::Utf8])?];
    if call.len() == 2 {
        arguments.push(call.exactly(1, &[DataType::Utf8])?);
    }
    Ok(scalar(if fails { "to_time" } else { "try_to_time" }, ToTime { fails }, arguments, time_type(), true))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ToTime {
    fails: bool,
}

impl Kernel for ToTime {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let mut patterns = Memo::new();
        Rows::of(arguments)?.numbers::<Time64NanosecondType>(|row| {
            let read = if row.len() > 1 {
                match patterns.get(row.text(1), |pattern| Pattern::compile(pattern, Use::ParsingAnew)) {
                    Ok(pattern) => pattern.parse_time(row.text(0)).map(|micros| micros * NANOS),
                    Err(_) if !self.fails => None,
                    Err(error) => return Err(error),
                }
            } else {
                parse_time(row.text(0))
            };
            if read.is_none() && self.fails {
                let message = format!("'{}' is no time of day in that format: use `try_to_time` to get NULL instead", row.text(0));
                return Err(faults::row("CANNOT_PARSE_TIME", "22010", message));
            }
            Ok(read)
        })
    }
}

/// Nanoseconds of a unit's name.
fn unit(function: &str, name: &str) -> Result<i64> {
    let micros = match name.to_ascii_uppercase().as_str() {
        "HOUR" => MICROS_PER_HOUR,
        "MINUTE" => MICROS_PER_MINUTE,
        "SECOND" => MICROS_PER_SECOND,
        "MILLISECOND" => 1_000,
        "MICROSECOND" => 1,
        _ => {
            let message = format!("'{name}' is no unit of `{function}`: use HOUR, MINUTE, SECOND, MILLISECOND or MICROSECOND");
            return Err(faults::row("INVALID_PARAMETER_VALUE.TIME_UNIT", "22023", message));
        }
    };
    Ok(micros * NANOS)
}

/// `time_diff(unit, start, end)`
fn time_diff(call: &Call<'_>) -> Result<Typed> {
    call.arity(3..=3)?;
    let arguments = vec![call.string(0)?, time(call, 1)?, time(call, 2)?];
    let nullable = arguments.iter().any(|argument| argument.nullable);
    Ok(scalar("time_diff", TimeDiff, arguments, DataType::Int64, nullable))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct TimeDiff;

impl Kernel for TimeDiff {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (starts, ends) = (arguments.array(1)?, arguments.array(2)?);
        let (starts, ends) = (downcast::primitive::<Time64NanosecondType>(&starts)?, downcast::primitive::<Time64NanosecondType>(&ends)?);
        Rows::of(arguments)?.numbers::<Int64Type>(|row| {
            let size = unit("time_diff", row.text(0))?;
            Ok(downcast::value(starts, row.at()).zip(downcast::value(ends, row.at())).map(|(start, end)| (end - start) / size))
        })
    }
}

/// `time_trunc(unit, time)`
fn time_trunc(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    let time = time(call, 1)?;
    let metadata = time.metadata.clone();
    let arguments = vec![call.string(0)?, time];
    let nullable = arguments.iter().any(|argument| argument.nullable);
    Ok(scalar("time_trunc", TimeTrunc, arguments, time_type(), nullable).with_metadata(metadata))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct TimeTrunc;

impl Kernel for TimeTrunc {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let times = arguments.array(1)?;
        let times = downcast::primitive::<Time64NanosecondType>(&times)?;
        Rows::of(arguments)?.numbers::<Time64NanosecondType>(|row| {
            let size = unit("time_trunc", row.text(0))?;
            Ok(downcast::value(times, row.at()).map(|time| time - time % size))
        })
    }
}

/// `time_from_seconds(number)` and its kin: a whole number of units since midnight, or seconds with a fraction.
fn from_number(call: &Call<'_>, micros: i64) -> Result<Typed> {
    call.arity(1..=1)?;
    let value = call.value(0)?;
    let seconds = micros == MICROS_PER_SECOND;
    let number = match &value.data_type {
        data_type if coercion::is_integral(data_type) || *data_type == DataType::Null => call.long(0)?,
        DataType::Float32 | DataType::Float64 if seconds => cast::implicit(value.clone(), &DataType::Float64, call.settings)?,
        DataType::Decimal128(..) if seconds => value.clone(),
        other => {
            let expected = if seconds { "\"NUMERIC\"" } else { "\"INTEGRAL\"" };
            return Err(faults::unexpected_type(call.name, 0, expected, other));
        }
    };
    Ok(scalar("time_from_number", FromNumber { micros }, vec![number], time_type(), true))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FromNumber {
    micros: i64,
}

impl FromNumber {
    fn time(self, micros: Option<i64>, shown: impl std::fmt::Display) -> Result<Option<i64>> {
        match micros {
            Some(micros) if (0..MICROS_PER_DAY).contains(&micros) => Ok(Some(micros * NANOS)),
            _ => Err(out_of_bounds(format!("{shown} is not within a day"))),
        }
    }
}

impl Kernel for FromNumber {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        use arrow::datatypes::Float64Type;
        let numbers = arguments.array(0)?;
        let times = match numbers.data_type() {
            DataType::Float64 => downcast::map::<Float64Type, Time64NanosecondType>(&numbers, |number| {
                let micros = (number * MICROS_PER_SECOND as f64).trunc();
                self.time((micros.abs() < i64::MAX as f64).then_some(micros as i64), number)
            })?,
            DataType::Decimal128(_, scale) => {
                let scale = *scale;
                downcast::map::<Decimal128Type, Time64NanosecondType>(&numbers, |number| {
                    let shift = i32::from(scale) - 6;
                    let power = 10_i128.checked_pow(shift.unsigned_abs());
                    let micros = power.and_then(|power| if shift > 0 { number.checked_div(power) } else { number.checked_mul(power) });
                    self.time(micros.and_then(|micros| i64::try_from(micros).ok()), number)
                })?
            }
            _ => downcast::map::<Int64Type, Time64NanosecondType>(&numbers, |number| self.time(number.checked_mul(self.micros), number))?,
        };
        Ok(Arc::new(times))
    }
}

/// `time_to_millis(time)` and its kin.
fn to_number(call: &Call<'_>, micros: i64) -> Result<Typed> {
    call.arity(1..=1)?;
    Ok(scalar("time_to_number", ToNumber { micros }, vec![time(call, 0)?], DataType::Int64, true))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ToNumber {
    micros: i64,
}

impl Kernel for ToNumber {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let numbers =
            downcast::map::<Time64NanosecondType, Int64Type>(&arguments.array(0)?, |nanos| Ok(Some(nanos / NANOS / self.micros)))?;
        Ok(Arc::new(numbers))
    }
}

/// `time_to_seconds(time)`: with the fraction.
fn to_seconds(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=1)?;
    Ok(scalar("time_to_seconds", ToSeconds, vec![time(call, 0)?], DataType::Decimal128(14, 6), true))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ToSeconds;

impl Kernel for ToSeconds {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let seconds =
            downcast::map::<Time64NanosecondType, Decimal128Type>(&arguments.array(0)?, |nanos| Ok(Some(i128::from(nanos / NANOS))))?;
        Ok(Arc::new(seconds.with_data_type(DataType::Decimal128(14, 6))))
    }
}

/// A time moved by an interval of a day and its parts.
fn add(call: &Call<'_>, sign: i64) -> Result<Typed> {
    call.arity(2..=2)?;
    let (time, interval) = (time(call, 0)?, call.value(1)?.clone());
    let units = Units::of(&interval.data_type, &interval.metadata);
    let added = if units.end == Unit::Second { MAX_PRECISION } else { 0 };
    let precision = precision_of(&time).max(added);
    let nullable = time.nullable || interval.nullable;
    Ok(with_precision(scalar("add_to_time", AddToTime { sign }, vec![time, interval], time_type(), nullable), precision))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct AddToTime {
    sign: i64,
}

impl Kernel for AddToTime {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let times = downcast::map2::<Time64NanosecondType, DurationMicrosecondType, Time64NanosecondType>(
            &arguments.array(0)?,
            &arguments.array(1)?,
            |time, micros| {
                let moved = micros.checked_mul(NANOS * self.sign).and_then(|nanos| time.checked_add(nanos));
                let within = moved.filter(|moved| (0..MICROS_PER_DAY * NANOS).contains(moved));
                within
                    .map(Some)
                    .ok_or_else(|| faults::row("DATETIME_OVERFLOW", "22008", "a time of day does not go past midnight: use a timestamp"))
            },
        )?;
        Ok(Arc::new(times))
    }
}

/// The interval between two times.
fn subtract(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    let (left, right) = (time(call, 0)?, time(call, 1)?);
    let nullable = left.nullable || right.nullable;
    let difference = scalar("subtract_times", SubtractTimes, vec![left, right], DataType::Duration(TimeUnit::Microsecond), nullable);
    Ok(difference.with_metadata(Units { start: Unit::Hour, end: Unit::Second }.metadata()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SubtractTimes;

impl Kernel for SubtractTimes {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let differences = downcast::map2::<Time64NanosecondType, Time64NanosecondType, DurationMicrosecondType>(
            &arguments.array(0)?,
            &arguments.array(1)?,
            |left, right| Ok(Some((left - right) / NANOS)),
        )?;
        Ok(Arc::new(differences))
    }
}

/// The timestamp of a date and a time of day, in a zone or as a wall clock.
pub(super) fn at(date: Typed, time: Typed, zone: Option<TimeZone>, data_type: DataType) -> Typed {
    let nullable = date.nullable || time.nullable;
    scalar("timestamp_of", At { zone }, vec![date, time], data_type, nullable)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct At {
    zone: Option<TimeZone>,
}

impl Kernel for At {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let times = downcast::map2::<Date32Type, Time64NanosecondType, TimestampMicrosecondType>(
            &arguments.array(0)?,
            &arguments.array(1)?,
            |date, nanos| {
                let local = i64::from(date).checked_mul(MICROS_PER_DAY).and_then(|midnight| midnight.checked_add(nanos / NANOS));
                let local = local.ok_or_else(|| faults::overflow("the timestamp is out of range"))?;
                Ok(Some(self.zone.map_or(local, |zone| zone.local_to_instant(local))))
            },
        )?;
        Ok(Arc::new(if self.zone.is_some() { times.with_timezone("UTC") } else { times }))
    }
}
