//! Spark's patterns of dates and times (`yyyy-MM-dd'T'HH:mm:ss[.SSS]XXX`), compiled once and used for formatting or for parsing.
//!
//! They are the patterns of `java.time` in the strict style and in English, less the letters that Spark refuses. For parsing, a run of
//! `S` takes one to as many digits, and text is compared without regard to case.

mod compile;
mod format;
mod offset;
mod parse;
mod resolve;
#[cfg(test)]
mod tests;
mod zone;
mod zone_names;

use std::collections::BTreeMap;

use millstream_core::Result;

use super::super::TimeZone;
use super::civil::{self, Civil};
use offset::OffsetStyle;

/// What a pattern is compiled for: Spark refuses more letters for parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Use {
    /// A time is written as text.
    Formatting,
    /// A text is read as a time.
    Parsing,
    /// A text is read as a type that no Spark before 3.0 had, so that there is no older behaviour to warn of.
    ParsingAnew,
}

/// A compiled pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pattern {
    items: Vec<Item>,
}

/// One step of formatting or parsing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Item {
    Literal(char),
    Number(Number),
    /// `min` to `max` digits of the fraction of a second.
    Fraction {
        min: usize,
        max: usize,
    },
    /// A name, or its first letters.
    Text {
        field: Field,
        short: bool,
    },
    Offset(OffsetStyle),
    /// `GMT+8`, in full `GMT+08:00`.
    LocalizedOffset {
        full: bool,
    },
    ZoneId,
    /// `PDT`, in full `Pacific Daylight Time`; `PT`, `Pacific Time` if generic.
    ZoneName {
        full: bool,
        generic: bool,
    },
    Optional(Vec<Item>),
}

/// A number of `min` to `max` digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Number {
    field: Field,
    min: usize,
    max: usize,
    sign: Sign,
    /// Digits that belong to the numbers which follow directly and have a fixed width.
    leaves: usize,
    /// The last two digits of a year, from 2000 to 2099 when parsed.
    two_digits: bool,
}

/// When a number has a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Sign {
    /// When it is negative.
    Normal,
    /// Never.
    Never,
    /// When it is negative, and `+` when it has more digits than the least number.
    ExceedsPad,
}

/// A field of a date, a time or a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Field {
    /// 0 is BC, 1 is AD.
    Era,
    YearOfEra,
    /// The astronomical year.
    Year,
    Quarter,
    Month,
    DayOfMonth,
    DayOfYear,
    /// Monday = 1.
    DayOfWeek,
    /// From 1 to 7 as the days of the month go.
    AlignedDayOfWeek,
    /// 0 is AM, 1 is PM.
    AmPm,
    /// From 0.
    HourOfDay,
    /// From 1.
    ClockHourOfDay,
    /// From 0.
    HourOfAmPm,
    /// From 1.
    ClockHourOfAmPm,
    Minute,
    Second,
    Nano,
    /// Days since 1858-11-17.
    ModifiedJulianDay,
    /// Seconds east of UTC.
    Offset,
}

/// A moment to be formatted.
#[derive(Clone, Copy, Debug)]
struct Moment {
    civil: Civil,
    zone: TimeZone,
    /// Microseconds since the epoch.
    instant: i64,
}

/// What a text says.
#[derive(Clone, Debug, Default)]
struct Parsed {
    fields: BTreeMap<Field, i64>,
    zone: Option<TimeZone>,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// `INVALID_DATETIME_PATTERN.*` and `INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_PATTERN_RECOGNITION` or
    /// `.DATETIME_WEEK_BASED_PATTERN`, as Spark has them.
    pub(crate) fn compile(pattern: &str, to_be_used_for: Use) -> Result<Pattern> {
        compile::compile(pattern, to_be_used_for).map(|items| Pattern { items })
    }

    /// Formats an instant, microseconds since the epoch, as the wall clock of a zone.
    ///
    /// # Errors
    /// `DATETIME_FIELD_OUT_OF_BOUNDS.WITHOUT_SUGGESTION` when a number has more digits than the pattern allows.
    pub(crate) fn format(&self, epoch_micros: i64, zone: TimeZone) -> Result<String> {
        let civil = Civil::from_micros(zone.instant_to_local(epoch_micros));
        let mut text = String::with_capacity(32);
        format::write(&self.items, &Moment { civil, zone, instant: epoch_micros }, &mut text)?;
        Ok(text)
    }

    /// Formats a wall clock, microseconds since 1970-01-01 00:00:00. Its zone is taken for UTC.
    ///
    /// # Errors
    /// As [`Pattern::format`].
    pub(crate) fn format_ntz(&self, local_micros: i64) -> Result<String> {
        self.format(local_micros, TimeZone::Offset(0))
    }

    /// Formats a date, days since 1970-01-01.
    ///
    /// # Errors
    /// As [`Pattern::format`].
    pub(crate) fn format_date(&self, days: i32) -> Result<String> {
        self.format_ntz(i64::from(days).saturating_mul(civil::MICROS_PER_DAY))
    }

    /// The instant that a text says, microseconds since the epoch; in `zone` if it says none. `None` when it does not match the pattern or
    /// there is no such time.
    pub(crate) fn parse(&self, text: &str, zone: TimeZone) -> Option<i64> {
        let time = resolve::resolve(parse::read(&self.items, text)?)?;
        let local = time.local_micros()?;
        Some(time.zone.unwrap_or(zone).local_to_instant(local))
    }

    /// The wall clock that a text says, microseconds since 1970-01-01 00:00:00. A zone in the text is ignored, or not allowed.
    pub(crate) fn parse_ntz(&self, text: &str, allow_zone: bool) -> Option<i64> {
        let time = resolve::resolve(parse::read(&self.items, text)?)?;
        if time.zone.is_some() && !allow_zone { None } else { time.local_micros() }
    }

    /// The time of day that a text says, microseconds since midnight.
    pub(crate) fn parse_time(&self, text: &str) -> Option<i64> {
        let time = resolve::resolve(parse::read(&self.items, text)?)?;
        Some(time.local_micros()?.rem_euclid(civil::MICROS_PER_DAY))
    }

    /// The date that a text says, days since 1970-01-01.
    pub(crate) fn parse_date(&self, text: &str) -> Option<i32> {
        let time = resolve::resolve(parse::read(&self.items, text)?)?;
        i32::try_from(time.days).ok()
    }
}
