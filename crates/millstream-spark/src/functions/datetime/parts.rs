//! Parts of dates and times: `year`, `hour`, `dayname`, `extract`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, PrimitiveBuilder, StringBuilder};
use arrow::datatypes::{DataType, Date32Type, Decimal128Type, Int32Type, Time64NanosecondType, TimestampMicrosecondType};
use millstream_core::{Error, Result};

use super::super::downcast;
use super::super::{Arguments, Call, Functions, Kernel, TimeZone, Typed, coercion, faults, scalar};
use super::any_timestamp;
use super::civil::{self, Civil};
use super::parse;
use crate::types;

/// The type of `extract(SECOND FROM …)`.
const SECONDS: DataType = DataType::Decimal128(8, 6);

pub(super) fn register(functions: &mut Functions) {
    for part in DatePart::ALL {
        functions.add_all(part.names(), date_part);
    }
    functions.add_all(&["hour", "minute", "second"], time_part);
    functions.add("monthname", |call| name(call, Name::Month));
    functions.add("dayname", |call| name(call, Name::Day));
    functions.add_all(&["extract", "date_part", "datepart"], extract);
}

/// A part of a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum DatePart {
    Year,
    Quarter,
    Month,
    Day,
    /// Sunday = 1.
    DayOfWeek,
    /// Monday = 1.
    DayOfWeekIso,
    DayOfYear,
    /// Monday = 0.
    Weekday,
    WeekOfYear,
    /// The year that the ISO week belongs to.
    YearOfWeek,
}

impl DatePart {
    const ALL: [DatePart; 8] = [
        DatePart::Year,
        DatePart::Quarter,
        DatePart::Month,
        DatePart::Day,
        DatePart::DayOfWeek,
        DatePart::DayOfYear,
        DatePart::Weekday,
        DatePart::WeekOfYear,
    ];

    /// The functions that give it.
    fn names(self) -> &'static [&'static str] {
        match self {
            DatePart::Year => &["year"],
            DatePart::Quarter => &["quarter"],
            DatePart::Month => &["month"],
            DatePart::Day => &["day", "dayofmonth"],
            DatePart::DayOfWeek => &["dayofweek"],
            DatePart::DayOfYear => &["dayofyear"],
            DatePart::Weekday => &["weekday"],
            DatePart::WeekOfYear => &["weekofyear"],
            DatePart::DayOfWeekIso | DatePart::YearOfWeek => &[],
        }
    }

    fn of(self, days: i64) -> i64 {
        let date = Civil::from_days(days);
        match self {
            DatePart::Year => date.year,
            DatePart::Quarter => i64::from(date.quarter()),
            DatePart::Month => i64::from(date.month),
            DatePart::Day => i64::from(date.day),
            DatePart::DayOfWeek => civil::day_of_week(days) % 7 + 1,
            DatePart::DayOfWeekIso => civil::day_of_week(days),
            DatePart::DayOfYear => date.day_of_year(),
            DatePart::Weekday => civil::day_of_week(days) - 1,
            DatePart::WeekOfYear => civil::iso_week(days).0,
            DatePart::YearOfWeek => civil::iso_week(days).1,
        }
    }
}

impl Kernel for DatePart {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let parts = downcast::map::<Date32Type, Int32Type>(&arguments.array(0)?, |days| Ok(i32::try_from(self.of(i64::from(days))).ok()))?;
        Ok(Arc::new(parts))
    }
}

fn date_part(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=1)?;
    let date = call.date(0)?;
    let part = DatePart::ALL.into_iter().find(|part| part.names().contains(&call.name));
    Ok(of_date(part.unwrap_or(DatePart::Year), date))
}

fn of_date(part: DatePart, date: Typed) -> Typed {
    let nullable = date.nullable;
    let name = match part {
        DatePart::Year => "year",
        DatePart::Quarter => "quarter",
        DatePart::Month => "month",
        DatePart::Day => "dayofmonth",
        DatePart::DayOfWeek => "dayofweek",
        DatePart::DayOfWeekIso => "dayofweek_iso",
        DatePart::DayOfYear => "dayofyear",
        DatePart::Weekday => "weekday",
        DatePart::WeekOfYear => "weekofyear",
        DatePart::YearOfWeek => "yearofweek",
    };
    scalar(name, part, vec![date], DataType::Int32, nullable)
}

/// A part of a time of day, in the zone of an instant or as a wall clock shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TimePart {
    Hour,
    Minute,
    Second,
    SecondWithFraction,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PartOfTime {
    part: TimePart,
    zone: TimeZone,
}

impl Kernel for PartOfTime {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let times = match arguments.array(0)? {
            times if matches!(times.data_type(), DataType::Time64(_)) => {
                let micros = downcast::map::<Time64NanosecondType, TimestampMicrosecondType>(&times, |nanos| Ok(Some(nanos / 1_000)))?;
                Arc::new(micros) as ArrayRef
            }
            times => times,
        };
        let civil = |micros: i64| Civil::from_micros(self.zone.instant_to_local(micros));
        let part = |of: fn(&Civil) -> i64| {
            downcast::map::<TimestampMicrosecondType, Int32Type>(&times, |micros| Ok(i32::try_from(of(&civil(micros))).ok()))
        };
        Ok(match self.part {
            TimePart::Hour => Arc::new(part(Civil::hour)?),
            TimePart::Minute => Arc::new(part(Civil::minute)?),
            TimePart::Second => Arc::new(part(Civil::second)?),
            TimePart::SecondWithFraction => {
                let seconds = downcast::map::<TimestampMicrosecondType, Decimal128Type>(&times, |micros| {
                    Ok(Some(i128::from(civil(micros).micros_of_day % civil::MICROS_PER_MINUTE)))
                })?;
                Arc::new(seconds.with_data_type(SECONDS))
            }
        })
    }
}

fn time_part(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=1)?;
    let part = match call.name {
        "hour" => TimePart::Hour,
        "minute" => TimePart::Minute,
        _ => TimePart::Second,
    };
    Ok(of_time(part, any_time(call, 0)?, call.settings.time_zone))
}

/// An argument that is a time of day, an instant or a wall clock.
fn any_time(call: &Call<'_>, index: usize) -> Result<Typed> {
    let value = call.value(index)?;
    match value.data_type {
        DataType::Time64(_) => Ok(value.clone()),
        DataType::Utf8 => {
            let kernel = ClockOfText { zone: call.settings.time_zone, ansi: call.settings.ansi };
            Ok(scalar("clock_of_text", kernel, vec![value.clone()], types::timestamp(), true))
        }
        _ => any_timestamp(call, index),
    }
}

/// Texts of timestamps as instants, and of times alone on the first day of 1970, for functions that only look at the clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ClockOfText {
    zone: TimeZone,
    ansi: bool,
}

impl Kernel for ClockOfText {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let texts = arguments.array(0)?;
        let mut instants = PrimitiveBuilder::<TimestampMicrosecondType>::with_capacity(texts.len());
        for text in downcast::strings(&texts)? {
            let time_alone = |text: &str| parse::parse_time(text).map(|nanos| self.zone.local_to_instant(nanos / 1_000));
            match text.map(|text| (text, parse::parse_timestamp(text, self.zone).or_else(|| time_alone(text)))) {
                Some((text, None)) if self.ansi => return Err(faults::bad_cast(text, &DataType::Utf8, &types::timestamp())),
                read => instants.append_option(read.and_then(|(_, instant)| instant)),
            }
        }
        Ok(Arc::new(instants.finish().with_timezone("UTC")))
    }
}

fn of_time(part: TimePart, time: Typed, zone: TimeZone) -> Typed {
    let (name, data_type) = match part {
        TimePart::Hour => ("hour", DataType::Int32),
        TimePart::Minute => ("minute", DataType::Int32),
        TimePart::Second => ("second", DataType::Int32),
        TimePart::SecondWithFraction => ("second_with_fraction", SECONDS),
    };
    let zone = if time.data_type == types::timestamp() { zone } else { TimeZone::Offset(0) };
    let nullable = time.nullable || matches!(time.data_type, DataType::Time64(_));
    scalar(name, PartOfTime { part, zone }, vec![time], data_type, nullable)
}

/// A name of three letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Name {
    Month,
    Day,
}

impl Kernel for Name {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let dates = arguments.array(0)?;
        let dates = downcast::primitive::<Date32Type>(&dates)?;
        let mut names = StringBuilder::with_capacity(dates.len(), dates.len() * 3);
        for days in dates {
            names.append_option(days.map(|days| match self {
                Name::Month => super::words::month(Civil::from_days(i64::from(days)).month, true),
                Name::Day => super::words::day_of_week(civil::day_of_week(i64::from(days)), true),
            }));
        }
        Ok(Arc::new(names.finish()))
    }
}

fn name(call: &Call<'_>, name: Name) -> Result<Typed> {
    call.arity(1..=1)?;
    let date = call.date(0)?;
    let nullable = date.nullable;
    Ok(scalar(if name == Name::Month { "monthname" } else { "dayname" }, name, vec![date], DataType::Utf8, nullable))
}

/// `extract(field FROM source)`: the field is a constant text.
fn extract(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    if !call.value(0).is_ok_and(|field| coercion::constant_of(field).is_some()) {
        return Err(faults::not_foldable_argument(call.name, "field", "STRING"));
    }
    let Some(field) = call.constant_text(0)? else { return Ok(Typed::null(&DataType::Float64)) };
    let field = field.to_ascii_uppercase();
    let source = call.value(1)?;
    if let DataType::Duration(_) | DataType::Interval(_) = source.data_type {
        return super::super::interval::extract(&field, source.clone());
    }
    if let Some(part) = date_field(&field) {
        if matches!(source.data_type, DataType::Time64(_)) {
            return Err(no_such_field(&field, &source.data_type));
        }
        return Ok(of_date(part, call.date(1)?));
    }
    let part = match field.as_str() {
        "HOUR" | "H" | "HOURS" | "HR" | "HRS" => TimePart::Hour,
        "MINUTE" | "M" | "MIN" | "MINS" | "MINUTES" => TimePart::Minute,
        "SECOND" | "S" | "SEC" | "SECONDS" | "SECS" => TimePart::SecondWithFraction,
        _ => return Err(no_such_field(&field, &source.data_type)),
    };
    Ok(of_time(part, any_time(call, 1)?, call.settings.time_zone))
}

fn date_field(field: &str) -> Option<DatePart> {
    Some(match field {
        "YEAR" | "Y" | "YEARS" | "YR" | "YRS" => DatePart::Year,
        "YEAROFWEEK" => DatePart::YearOfWeek,
        "QUARTER" | "QTR" => DatePart::Quarter,
        "MONTH" | "MON" | "MONS" | "MONTHS" => DatePart::Month,
        "WEEK" | "W" | "WEEKS" => DatePart::WeekOfYear,
        "DAY" | "D" | "DAYS" => DatePart::Day,
        "DAYOFWEEK" | "DOW" => DatePart::DayOfWeek,
        "DAYOFWEEK_ISO" | "DOW_ISO" => DatePart::DayOfWeekIso,
        "DOY" => DatePart::DayOfYear,
        _ => return None,
    })
}

/// There is no such field to extract.
pub(crate) fn no_such_field(field: &str, source: &DataType) -> Error {
    Error::invalid("INVALID_EXTRACT_FIELD", format!("a value of type \"{}\" has no field `{field}`", types::ddl_type(source)))
        .with_sqlstate("42601")
}
