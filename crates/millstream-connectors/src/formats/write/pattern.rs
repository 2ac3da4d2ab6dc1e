//! Patterns of Java's `DateTimeFormatter`, for writing. Spark's restrictions apply: no week-based letters, no narrow forms.

use std::fmt::Write;

use chrono::offset::TimeZone;
use chrono_tz::OffsetName;
use millstream_core::{Error, ErrorKind, Result};

use super::datetime::{Moment, utc, year};
use crate::formats::values::Zone;

const MONTHS: [&str; 12] =
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const QUARTERS: [&str; 4] = ["1st quarter", "2nd quarter", "3rd quarter", "4th quarter"];

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    text: String,
    elements: Vec<Element>,
}

#[derive(Clone, Debug)]
enum Element {
    Literal(String),
    Field(char, usize),
    /// Left out as a whole when a field is missing.
    Optional(Vec<Element>),
}

/// A field that the value does not have, such as the hour of a date.
struct Missing(char);

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// `INVALID_DATETIME_PATTERN.ILLEGAL_CHARACTER` for a letter without a meaning,
    /// `INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_WEEK_BASED_PATTERN` and `.DATETIME_PATTERN_RECOGNITION` for what Spark 3 gave up,
    /// `INVALID_DATETIME_PATTERN.SECONDS_FRACTION` for more than nine digits of a second.
    pub(super) fn compile(text: &str) -> Result<Self> {
        let chars: Vec<char> = text.chars().collect();
        let mut at = 0;
        let elements = parse(text, &chars, &mut at, 0)?;
        Ok(Pattern { text: text.to_owned(), elements })
    }

    /// Appends the text of a moment. `instant` is the zone and the microseconds since 1970 where the value is an instant.
    ///
    /// # Errors
    /// `UNSUPPORTED_DATETIME_FIELD` when the value lacks a field.
    pub(super) fn write(&self, moment: &Moment, instant: Option<(Zone, i64)>, out: &mut String) -> Result<()> {
        write_all(&self.elements, moment, instant, out).map_err(|Missing(letter)| {
            Error::new(
                ErrorKind::SchemaMismatch,
                "UNSUPPORTED_DATETIME_FIELD",
                format!(
                    "the datetime pattern '{}' asks for '{letter}', which the column's type does not have: use another pattern",
                    self.text
                ),
            )
        })
    }
}

fn parse(text: &str, chars: &[char], at: &mut usize, depth: usize) -> Result<Vec<Element>> {
    let mut elements = Vec::new();
    while let Some(&c) = chars.get(*at) {
        *at += 1;
        match c {
            '[' => elements.push(Element::Optional(parse(text, chars, at, depth + 1)?)),
            ']' if depth > 0 => return Ok(elements),
            ']' | '{' | '}' | '#' => return Err(unrecognised(text)),
            '\'' => elements.push(Element::Literal(quoted(text, chars, at)?)),
            letter if letter.is_ascii_alphabetic() => {
                let start = *at;
                while chars.get(*at) == Some(&letter) {
                    *at += 1;
                }
                let count = *at - start + 1;
                check(text, letter, count)?;
                elements.push(Element::Field(letter, count));
            }
            other => elements.push(Element::Literal(other.to_string())),
        }
    }
    Ok(elements)
}

/// The text behind an opening quote; two quotes stand for one.
fn quoted(text: &str, chars: &[char], at: &mut usize) -> Result<String> {
    let mut literal = String::new();
    while let Some(&c) = chars.get(*at) {
        *at += 1;
        match c {
            '\'' if chars.get(*at) == Some(&'\'') && !literal.is_empty() => {
                *at += 1;
                literal.push('\'');
            }
            '\'' => return Ok(if literal.is_empty() { "'".to_owned() } else { literal }),
            c => literal.push(c),
        }
    }
    Err(unrecognised(text))
}

fn check(text: &str, letter: char, count: usize) -> Result<()> {
    let longest = match letter {
        'y' => 6,
        'M' | 'L' | 'E' | 'Q' | 'q' | 'G' | 'z' => 4,
        'd' | 'H' | 'h' | 'k' | 'K' | 'm' | 's' => 2,
        'D' => 3,
        'S' => 9,
        'a' | 'F' => 1,
        'V' => 2,
        'O' => 4,
        'X' | 'x' | 'Z' => 5,
        'c' | 'e' => {
            return Err(Error::invalid(
                "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_WEEK_BASED_PATTERN",
                format!("the datetime pattern '{text}' has the week-based letter '{letter}': use another pattern, or EXTRACT in the query"),
            )
            .with_sqlstate("42K0B"));
        }
        'A' | 'B' | 'n' | 'N' | 'p' => {
            return Err(Error::invalid(
                "INVALID_DATETIME_PATTERN.ILLEGAL_CHARACTER",
                format!("the datetime pattern '{text}' has the letter '{letter}', which has no meaning: quote it or leave it out"),
            )
            .with_sqlstate("22007"));
        }
        _ => 0,
    };
    let odd = (letter == 'V' && count != 2) || (letter == 'O' && count != 1 && count != 4);
    // Full names of zones differ from one Java to the next; only the short ones are written.
    if count > longest || odd || (letter == 'z' && count == 4) {
        return Err(unrecognised(text));
    }
    Ok(())
}

fn unrecognised(text: &str) -> Error {
    Error::invalid(
        "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_PATTERN_RECOGNITION",
        format!("the datetime pattern '{text}' is not recognised: use a pattern such as yyyy-MM-dd HH:mm:ss"),
    )
    .with_sqlstate("42K0B")
}

fn write_all(elements: &[Element], moment: &Moment, instant: Option<(Zone, i64)>, out: &mut String) -> Result<(), Missing> {
    for element in elements {
        match element {
            Element::Literal(text) => out.push_str(text),
            Element::Field(letter, count) => write_field(*letter, *count, moment, instant, out)?,
            Element::Optional(elements) => {
                let before = out.len();
                if write_all(elements, moment, instant, out).is_err() {
                    out.truncate(before);
                }
            }
        }
    }
    Ok(())
}

fn write_field(letter: char, count: usize, moment: &Moment, instant: Option<(Zone, i64)>, out: &mut String) -> Result<(), Missing> {
    let time = || moment.time.ok_or(Missing(letter));
    let padded = |value: u32, out: &mut String| {
        // Writing to a string does not fail.
        let _ = write!(out, "{value:0count$}");
    };
    match letter {
        'y' if count == 2 => padded(u32::try_from(moment.year.rem_euclid(100)).unwrap_or(0), out),
        'y' => year(moment.year, count, out),
        'G' => out.push_str(match (moment.year > 0, count) {
            (true, 4) => "Anno Domini",
            (false, 4) => "Before Christ",
            (true, _) => "AD",
            (false, _) => "BC",
        }),
        'M' | 'L' if count >= 3 => out.push_str(name(&MONTHS, moment.month as usize - 1, count)),
        'M' | 'L' => padded(moment.month, out),
        'Q' | 'q' => {
            let quarter = (moment.month - 1) / 3;
            match count {
                3 => {
                    let _ = write!(out, "Q{}", quarter + 1);
                }
                4 => out.push_str(name(&QUARTERS, quarter as usize, count)),
                _ => padded(quarter + 1, out),
            }
        }
        'd' => padded(moment.day, out),
        'D' => padded(day_of_year(moment), out),
        'F' => padded((moment.day - 1) % 7 + 1, out),
        'E' => {
            // 1970-01-01 was a Thursday.
            let weekday = usize::try_from((moment.epoch_day + 3).rem_euclid(7)).unwrap_or(0);
            out.push_str(name(&DAYS, weekday, count));
        }
        'H' => padded(time()?.second_of_day / 3600, out),
        'k' => padded(clock(time()?.second_of_day / 3600, 24), out),
        'K' => padded(time()?.second_of_day / 3600 % 12, out),
        'h' => padded(clock(time()?.second_of_day / 3600, 12), out),
        'a' => out.push_str(if time()?.second_of_day < 43_200 { "AM" } else { "PM" }),
        'm' => padded(time()?.second_of_day / 60 % 60, out),
        's' => padded(time()?.second_of_day % 60, out),
        'S' => {
            let nanos = format!("{:09}", u64::from(time()?.micros) * 1000);
            out.extend(nanos.chars().take(count));
        }
        'V' | 'z' => {
            let (zone, micros) = instant.ok_or(Missing(letter))?;
            zone_name(zone, micros, letter == 'V', out);
        }
        _ => {
            let offset = time()?.offset.ok_or(Missing(letter))?;
            write_offset(letter, count, offset, out);
        }
    }
    Ok(())
}

/// A name, cut to three letters unless asked for whole.
fn name(names: &[&'static str], at: usize, count: usize) -> &'static str {
    let whole = names.get(at).copied().unwrap_or_default();
    if count < 4 { whole.get(..3).unwrap_or(whole) } else { whole }
}

/// An hour on a clock that shows `full` in place of 0.
fn clock(hour: u32, full: u32) -> u32 {
    match hour % full {
        0 => full,
        hour => hour,
    }
}

fn day_of_year(moment: &Moment) -> u32 {
    let leap = moment.year.rem_euclid(4) == 0 && (moment.year.rem_euclid(100) != 0 || moment.year.rem_euclid(400) == 0);
    let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334].get(moment.month as usize - 1).copied().unwrap_or(0);
    before + moment.day + u32::from(leap && moment.month > 2)
}

fn zone_name(zone: Zone, micros: i64, id: bool, out: &mut String) {
    match zone {
        Zone::Offset(0) => out.push_str("UTC"),
        Zone::Offset(seconds) => write_offset('Z', 5, seconds, out),
        Zone::Region(region) if id => out.push_str(region.name()),
        Zone::Region(region) => {
            let offset = region.offset_from_utc_datetime(&utc(micros).naive_utc());
            out.push_str(offset.abbreviation().unwrap_or(region.name()));
        }
    }
}

fn write_offset(letter: char, count: usize, offset: i32, out: &mut String) {
    let magnitude = offset.unsigned_abs();
    let (hours, minutes, seconds) = (magnitude / 3600, magnitude / 60 % 60, magnitude % 60);
    let sign = if offset < 0 { '-' } else { '+' };
    match (letter, count) {
        ('O', _) | ('Z', 4) => {
            out.push_str("GMT");
            if offset != 0 {
                if letter == 'O' && count == 1 {
                    let _ = write!(out, "{sign}{hours}");
                    if minutes != 0 {
                        let _ = write!(out, ":{minutes:02}");
                    }
                } else {
                    let _ = write!(out, "{sign}{hours:02}:{minutes:02}");
                }
            }
        }
        ('X', _) | ('Z', 5) if offset == 0 => out.push('Z'),
        ('X' | 'x', 1) => {
            let _ = write!(out, "{sign}{hours:02}");
            if minutes != 0 {
                let _ = write!(out, "{minutes:02}");
            }
        }
        (_, count) => {
            let colon = if matches!((letter, count), ('X' | 'x', 3 | 5) | ('Z', 5)) { ":" } else { "" };
            let _ = write!(out, "{sign}{hours:02}{colon}{minutes:02}");
            if count >= 4 && seconds != 0 {
                let _ = write!(out, "{colon}{seconds:02}");
            }
        }
    }
}
