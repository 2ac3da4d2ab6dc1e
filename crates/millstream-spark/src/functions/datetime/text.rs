//! Texts as dates and timestamps, and back: `to_timestamp`, `to_date`, `unix_timestamp`, `date_format`, `from_unixtime`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, PrimitiveBuilder, StringBuilder};
use arrow::datatypes::{DataType, Date32Type, Int64Type, TimeUnit, TimestampMicrosecondType};
use millstream_core::{Error, Result};

use super::super::cast::CastMode;
use super::super::downcast;
use super::super::{Arguments, Call, Functions, Kernel, TimeZone, Typed, cast, coercion, faults, scalar};
use super::civil::{self, MICROS_PER_SECOND};
use super::now;
use super::pattern::{Pattern, Use};
use crate::types;

/// The pattern of `unix_timestamp` and `from_unixtime` where none is given.
const DEFAULT_PATTERN: &str = "yyyy-MM-dd HH:mm:ss";

pub(super) fn register(functions: &mut Functions) {
    functions.add("to_date", |call| to_date(call, call.settings.ansi));
    functions.add("try_to_date", |call| to_date(call, false));
    functions.add("to_timestamp", |call| to_timestamp(call, default_type(call), call.settings.ansi));
    functions.add("try_to_timestamp", |call| to_timestamp(call, default_type(call), false));
    functions.add("to_timestamp_ltz", |call| to_timestamp(call, types::timestamp(), call.settings.ansi));
    functions.add("to_timestamp_ntz", |call| to_timestamp(call, wall_clock(), call.settings.ansi));
    functions.add_all(&["unix_timestamp", "to_unix_timestamp"], unix_timestamp);
    functions.add("date_format", date_format);
    functions.add("from_unixtime", from_unixtime);
}

fn wall_clock() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

fn default_type(call: &Call<'_>) -> DataType {
    if call.settings.timestamp_ntz { wall_clock() } else { types::timestamp() }
}

/// Compiled patterns of a column: the last one is kept.
#[derive(Debug)]
struct Patterns {
    to_be_used_for: Use,
    last: Option<(String, Pattern)>,
}

impl Patterns {
    fn new(to_be_used_for: Use) -> Self {
        Patterns { to_be_used_for, last: None }
    }

    fn get(&mut self, text: &str) -> Result<&Pattern> {
        let (_, pattern) = match self.last.take() {
            Some(last) if last.0 == text => self.last.insert(last),
            _ => self.last.insert((text.to_owned(), Pattern::compile(text, self.to_be_used_for)?)),
        };
        Ok(pattern)
    }
}

/// What a text is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Target {
    /// Microseconds since the epoch.
    Instant,
    /// Microseconds of a wall clock.
    WallClock,
    /// Days since 1970-01-01.
    Date,
    /// Seconds since the epoch.
    Seconds,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Parse {
    target: Target,
    zone: TimeZone,
    fails: bool,
}

impl Parse {
    fn read(&self, text: &str, pattern: &Pattern) -> Option<i64> {
        match self.target {
            Target::WallClock => pattern.parse_ntz(text, true),
            Target::Instant => pattern.parse(text, self.zone),
            Target::Seconds => pattern.parse(text, self.zone).map(|micros| micros / MICROS_PER_SECOND),
            Target::Date => pattern.parse(text, self.zone).map(|micros| civil::days_of(self.zone.instant_to_local(micros))),
        }
    }

    fn column<T: arrow::array::ArrowPrimitiveType>(
        &self,
        arguments: &Arguments<'_>,
        convert: impl Fn(i64) -> Option<T::Native>,
    ) -> Result<PrimitiveBuilder<T>> {
        let (texts, patterns) = (arguments.array(0)?, arguments.array(1)?);
        let (texts, patterns) = (downcast::strings(&texts)?, downcast::strings(&patterns)?);
        let mut compiled = Patterns::new(if self.target == Target::WallClock { Use::ParsingAnew } else { Use::Parsing });
        let mut result = PrimitiveBuilder::<T>::with_capacity(texts.len());
        for (text, pattern) in texts.iter().zip(patterns) {
            let (Some(text), Some(pattern)) = (text, pattern) else {
                result.append_null();
                continue;
            };
            match self.read(text, compiled.get(pattern)?) {
                None if self.fails => return Err(unreadable(text, pattern)),
                value => result.append_option(value.and_then(&convert)),
            }
        }
        Ok(result)
    }
}

fn unreadable(text: &str, pattern: &str) -> Error {
    faults::row(
        "CANNOT_PARSE_TIMESTAMP",
        "22007",
        format!("the text '{text}' is not a time of the pattern '{pattern}': use `try_to_timestamp` to get NULL instead"),
    )
}

impl Kernel for Parse {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Ok(match self.target {
            Target::Instant => Arc::new(self.column::<TimestampMicrosecondType>(arguments, Some)?.finish().with_timezone("UTC")),
            Target::WallClock => Arc::new(self.column::<TimestampMicrosecondType>(arguments, Some)?.finish()),
            Target::Date => Arc::new(self.column::<Date32Type>(arguments, |days| i32::try_from(days).ok())?.finish()),
            Target::Seconds => Arc::new(self.column::<Int64Type>(arguments, Some)?.finish()),
        })
    }
}

fn parsed(name: &'static str, text: Typed, pattern: Typed, target: Target, zone: TimeZone, fails: bool) -> Typed {
    let data_type = match target {
        Target::Instant => types::timestamp(),
        Target::WallClock => wall_clock(),
        Target::Date => DataType::Date32,
        Target::Seconds => DataType::Int64,
    };
    let nullable = !fails || text.nullable || pattern.nullable;
    scalar(name, Parse { target, zone, fails }, vec![text, pattern], data_type, nullable)
}

/// Casts as these functions do where no pattern is given.
fn cast_to(value: Typed, data_type: &DataType, fails: bool, call: &Call<'_>) -> Result<Typed> {
    cast::explicit(value, data_type, if fails { CastMode::Ansi } else { CastMode::Try }, call.settings)
}

fn to_date(call: &Call<'_>, fails: bool) -> Result<Typed> {
    call.arity(1..=2)?;
    let value = temporal_or_text(call)?;
    if value.data_type == DataType::Utf8 && call.len() == 2 {
        return Ok(parsed("to_date", value, call.string(1)?, Target::Date, call.settings.time_zone, fails));
    }
    let nullable = value.nullable;
    let mut date = cast_to(value, &DataType::Date32, fails, call)?;
    date.nullable |= nullable || !call.settings.ansi;
    null_with(date, call)
}

fn to_timestamp(call: &Call<'_>, data_type: DataType, fails: bool) -> Result<Typed> {
    call.arity(1..=2)?;
    if call.len() == 1 {
        // Numbers are instants, but no wall clocks.
        let of_number = data_type == wall_clock() && coercion::is_numeric(&call.value(0)?.data_type);
        let value = if of_number { call.string(0)? } else { call.value(0)?.clone() };
        return cast_to(value, &data_type, fails, call);
    }
    let value = temporal_or_text(call)?;
    if value.data_type == DataType::Utf8 {
        let target = if data_type == wall_clock() { Target::WallClock } else { Target::Instant };
        return Ok(parsed("to_timestamp", value, call.string(1)?, target, call.settings.time_zone, fails));
    }
    null_with(cast_to(value, &data_type, fails, call)?, call)
}

/// The first argument: a date or a timestamp as it is, anything else as text.
fn temporal_or_text(call: &Call<'_>) -> Result<Typed> {
    let value = call.value(0)?;
    match value.data_type {
        DataType::Date32 | DataType::Timestamp(..) => Ok(value.clone()),
        _ => call.string(0),
    }
}

/// A value that needs no pattern is null all the same where the pattern is.
fn null_with(value: Typed, call: &Call<'_>) -> Result<Typed> {
    if call.len() < 2 || !call.value(1)?.nullable {
        return Ok(value);
    }
    let pattern = call.string(1)?;
    let data_type = value.data_type.clone();
    Ok(scalar("unless_null", UnlessNull, vec![value, pattern], data_type, true))
}

/// The first argument, null where the second is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct UnlessNull;

impl Kernel for UnlessNull {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (values, others) = (arguments.array(0)?, arguments.array(1)?);
        let missing = arrow::compute::is_null(&others).map_err(downcast::arrow_error)?;
        arrow::compute::nullif(&values, &missing).map_err(downcast::arrow_error)
    }
}

fn unix_timestamp(call: &Call<'_>) -> Result<Typed> {
    call.arity(if call.name == "unix_timestamp" { 0..=2 } else { 1..=2 })?;
    let zone = call.settings.time_zone;
    if call.is_empty() {
        return Ok(seconds(now::current_timestamp()));
    }
    let value = call.exactly(0, &[DataType::Utf8, DataType::Date32, types::timestamp(), wall_clock()])?;
    match value.data_type {
        DataType::Utf8 => {
            let pattern = if call.len() == 2 { call.string(1)? } else { Typed::text(DEFAULT_PATTERN) };
            Ok(parsed("unix_timestamp", value, pattern, Target::Seconds, zone, call.settings.ansi))
        }
        DataType::Date32 => null_with(seconds(cast::implicit(value, &types::timestamp(), call.settings)?), call),
        _ => null_with(seconds(value), call),
    }
}

/// Whole seconds of a timestamp, rounded towards 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Seconds;

impl Kernel for Seconds {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let times = arguments.array(0)?;
        Ok(Arc::new(downcast::map::<TimestampMicrosecondType, Int64Type>(&times, |micros| Ok(Some(micros / MICROS_PER_SECOND)))?))
    }
}

fn seconds(time: Typed) -> Typed {
    let nullable = time.nullable;
    scalar("unix_timestamp", Seconds, vec![time], DataType::Int64, nullable)
}

/// Formats instants by patterns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Format {
    zone: TimeZone,
    /// The instants are numbers of seconds.
    of_seconds: bool,
}

impl Kernel for Format {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (times, patterns) = (arguments.array(0)?, arguments.array(1)?);
        let times = if self.of_seconds {
            downcast::map::<Int64Type, TimestampMicrosecondType>(&times, |seconds| Ok(Some(seconds.saturating_mul(MICROS_PER_SECOND))))?
        } else {
            downcast::primitive::<TimestampMicrosecondType>(&times)?.clone()
        };
        let patterns = downcast::strings(&patterns)?;
        let mut compiled = Patterns::new(Use::Formatting);
        let mut result = StringBuilder::with_capacity(times.len(), times.len() * 20);
        for (micros, pattern) in times.iter().zip(patterns) {
            match (micros, pattern) {
                (Some(micros), Some(pattern)) => result.append_value(compiled.get(pattern)?.format(micros, self.zone)?),
                _ => result.append_null(),
            }
        }
        Ok(Arc::new(result.finish()))
    }
}

fn date_format(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    let (time, pattern) = (call.timestamp(0)?, call.string(1)?);
    let nullable = time.nullable || pattern.nullable;
    let kernel = Format { zone: call.settings.time_zone, of_seconds: false };
    Ok(scalar("date_format", kernel, vec![time, pattern], DataType::Utf8, nullable))
}

fn from_unixtime(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=2)?;
    let seconds = call.long(0)?;
    let pattern = if call.len() == 2 { call.string(1)? } else { Typed::text(DEFAULT_PATTERN) };
    let kernel = Format { zone: call.settings.time_zone, of_seconds: true };
    Ok(scalar("from_unixtime", kernel, vec![seconds, pattern], DataType::Utf8, true))
}
