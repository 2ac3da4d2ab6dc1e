//! Spark's patterns of dates and times (`yyyy-MM-dd'T'HH:mm:ss[.SSS]XXX`), compiled once and used for formatting or for parsing.
//!
//! They are the patterns of `java.time` in the strict style and in English, less the letters that Spark refuses. For parsing, a run of
//! `S` takes one to as many digits, and text is compared without regard to case.

mod compile;
mod field;
mod format;
mod offset;
mod parse;
mod resolve;
mod words;
mod zone;

#[cfg(test)]
mod tests;

use std::fmt::Write;

use millstream_core::{Error, Result};

use super::super::TimeZone;
use super::civil::Civil;
use super::civil::{MICROS_PER_SECOND, days_of};
use field::{Field, Style};
use offset::OffsetStyle;

/// What a pattern is compiled for: Spark refuses more letters for parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Use {
    Formatting,
    Parsing,
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
    /// The last two digits of a year, from 2000 to 2099 when parsed.
    TwoDigitYear {
        field: Field,
        width: Width,
    },
    /// `min` to `max` digits of the fraction of a second.
    Fraction {
        min: usize,
        max: usize,
        width: Width,
    },
    Text {
        field: Field,
        style: Style,
    },
    Offset(OffsetStyle),
    /// `GMT+8`, in full `GMT+08:00`.
    LocalizedOffset {
        full: bool,
    },
    ZoneId,
    ZoneName {
        full: bool,
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
    width: Width,
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

/// How a number shares a run of digits with the numbers that follow it directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Width {
    /// It takes what it can, and leaves this many digits to those that follow.
    Leaves(usize),
    /// It takes its own width.
    Fixed,
}

/// A moment to be formatted.
#[derive(Clone, Copy, Debug)]
struct Moment {
    civil: Civil,
    /// `None` for a wall clock, which has no offset and no zone.
    zone: Option<(TimeZone, i64)>,
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
    /// A year that has more digits than the pattern allows.
    pub(crate) fn format(&self, epoch_micros: i64, zone: TimeZone) -> Result<String> {
        let civil = Civil::from_micros(zone.instant_to_local(epoch_micros));
        self.format_moment(&Moment { civil, zone: Some((zone, epoch_micros)) })
    }

    /// Formats a wall clock, microseconds since 1970-01-01 00:00:00.
    ///
    /// # Errors
    /// As [`Pattern::format`], and letters that need a zone.
    pub(crate) fn format_ntz(&self, local_micros: i64) -> Result<String> {
        self.format_moment(&Moment { civil: Civil::from_micros(local_micros), zone: None })
    }

    /// Formats a date, days since 1970-01-01.
    ///
    /// # Errors
    /// As [`Pattern::format`], and letters that need a zone.
    pub(crate) fn format_date(&self, days: i32) -> Result<String> {
        self.format_moment(&Moment { civil: Civil::from_days(i64::from(days)), zone: None })
    }

    fn format_moment(&self, moment: &Moment) -> Result<String> {
        let mut text = String::new();
        format::write(&self.items, moment, &mut text)?;
        Ok(text)
    }

    /// The instant that a text says, microseconds since the epoch; in `zone` if it says none. `None` when it does not match the pattern or
    /// there is no such time.
    pub(crate) fn parse(&self, text: &str, zone: TimeZone) -> Option<i64> {
        let parsed = parse::read(&self.items, text)?;
        let resolved = resolve::resolve(parsed)?;
        let local = resolved.local_micros()?;
        resolved.zone(zone)?.local_to_instant_checked(local)
    }

    /// The wall clock that a text says, microseconds since 1970-01-01 00:00:00. A text that says a zone does not match.
    pub(crate) fn parse_ntz(&self, text: &str, allow_zone: bool) -> Option<i64> {
        let resolved = resolve::resolve(parse::read(&self.items, text)?)?;
        if !allow_zone && resolved.has_zone() {
            return None;
        }
        resolved.local_micros()
    }

    /// The date that a text says, days since 1970-01-01.
    pub(crate) fn parse_date(&self, text: &str) -> Option<i32> {
        let resolved = resolve::resolve(parse::read(&self.items, text)?)?;
        i32::try_from(days_of(resolved.date_micros()?)).ok()
    }
}

/// The abbreviation of an offset as `GMT+8:30`, in full `GMT+08:30`.
fn localized_offset(seconds: i32, full: bool) -> String {
    let mut text = String::from("GMT");
    if seconds == 0 {
        return text;
    }
    let total = seconds.unsigned_abs();
    let (hours, minutes, rest) = (total / 3600, total / 60 % 60, total % 60);
    text.push(if seconds < 0 { '-' } else { '+' });
    let _ = if full { write!(text, "{hours:02}:{minutes:02}") } else { write!(text, "{hours}") };
    if !full && (minutes != 0 || rest != 0) {
        let _ = write!(text, ":{minutes:02}");
    }
    if rest != 0 {
        let _ = write!(text, ":{rest:02}");
    }
    text
}

fn unusable(message: impl Into<String>) -> Error {
    super::super::faults::row("DATETIME_FIELD_OUT_OF_BOUNDS.WITHOUT_SUGGESTION", "22023", message)
}

const _: i64 = MICROS_PER_SECOND;
