//! Intervals in words, `1 hour 30 minutes`, as triggers, delays and casts to `interval` take them.

use millstream_core::{Error, ErrorKind, Result};

/// Microseconds of a second.
const SECOND: i64 = 1_000_000;

/// The longest unit first where one begins with another.
const UNITS: [(&str, Unit); 9] = [
    ("year", Unit::Months(12)),
    ("month", Unit::Months(1)),
    ("week", Unit::Days(7)),
    ("day", Unit::Days(1)),
    ("hour", Unit::Micros(3_600 * SECOND)),
    ("minute", Unit::Micros(60 * SECOND)),
    ("second", Unit::Micros(SECOND)),
    ("millisecond", Unit::Micros(1_000)),
    ("microsecond", Unit::Micros(1)),
];

/// What a unit counts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    Months(i32),
    Days(i32),
    Micros(i64),
}

/// An interval whose parts do not convert into each other: months and days have no fixed length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CalendarInterval {
    /// Whole months.
    pub months: i32,
    /// Whole days.
    pub days: i32,
    /// The rest, microseconds.
    pub microseconds: i64,
}

/// Reads an interval such as `interval 1 day -2 hours` or `1.5 seconds`, whatever its case.
///
/// # Errors
/// `INVALID_INTERVAL_FORMAT.*` with Spark's reason.
pub fn parse_interval(text: &str) -> Result<CalendarInterval> {
    let lower = text.trim().to_lowercase();
    let bad = |reason: &str, what: String| malformed(text, reason, &what);
    let mut words = lower.as_str();
    if let Some(rest) = words.strip_prefix("interval") {
        if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
            return Err(bad("INVALID_PREFIX", format!("it begins with {}", first_word(words))));
        }
        words = rest.trim_start();
    }
    if words.is_empty() {
        return Err(bad("INPUT_IS_EMPTY", "there is nothing in it".to_owned()));
    }
    let mut interval = CalendarInterval::default();
    while !words.is_empty() {
        let (negative, rest) = match words.strip_prefix('-') {
            Some(rest) => (true, rest.trim_start()),
            None => (false, words.strip_prefix('+').unwrap_or(words).trim_start()),
        };
        if rest.is_empty() {
            return Err(bad("MISSING_NUMBER", format!("a number is missing after '{words}'")));
        }
        let number = first_word(rest);
        let (whole, nanos) = parse_number(number).map_err(|reason| bad(reason, format!("'{number}' is no number")))?;
        let rest = rest.get(number.len()..).unwrap_or_default().trim_start();
        if rest.is_empty() {
            return Err(bad("MISSING_UNIT", format!("a unit is missing after {number}")));
        }
        let word = first_word(rest);
        let unit = UNITS.iter().find(|(name, _)| word == *name || word.strip_suffix('s') == Some(*name)).map(|(_, unit)| *unit);
        let unit = unit.ok_or_else(|| bad("INVALID_UNIT", format!("there is no unit '{word}'")))?;
        if nanos.is_some() && unit != Unit::Micros(SECOND) {
            return Err(bad("INVALID_FRACTION", format!("only seconds have a fraction, '{word}' does not")));
        }
        let sign = if negative { -1 } else { 1 };
        interval = add(interval, unit, sign, whole, nanos.unwrap_or(0))
            .ok_or_else(|| bad("ARITHMETIC_EXCEPTION", format!("{number} {word} is more than an interval can hold")))?;
        words = rest.get(word.len()..).unwrap_or_default().trim_start();
    }
    Ok(interval)
}

/// Reads an interval of a fixed length, in which a day has 24 hours: that of a trigger. Milliseconds, rounded down.
///
/// # Errors
/// Those of [`parse_interval`]; `_LEGACY_ERROR_TEMP_3262` for months and years.
pub fn parse_fixed_ms(text: &str) -> Result<i64> {
    let interval = parse_interval(text)?;
    if interval.months != 0 {
        return Err(Error::invalid("_LEGACY_ERROR_TEMP_3262", format!("Doesn't support month or year interval: {text}")));
    }
    let days = i64::from(interval.days) * 86_400 * SECOND;
    let micros = interval.microseconds.checked_add(days).ok_or_else(|| malformed(text, "ARITHMETIC_EXCEPTION", "it is too long"))?;
    Ok(micros.div_euclid(1_000))
}

fn first_word(text: &str) -> &str {
    text.split(char::is_whitespace).next().unwrap_or_default()
}

/// The whole part, and the nanoseconds of the part behind the point if there is a point.
fn parse_number(word: &str) -> Result<(i64, Option<i64>), &'static str> {
    if !word.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Err("UNRECOGNIZED_NUMBER");
    }
    let (whole, fraction) = word.split_once('.').map_or((word, None), |(whole, fraction)| (whole, Some(fraction)));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !fraction.is_none_or(digits) {
        return Err("INVALID_VALUE");
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| "ARITHMETIC_EXCEPTION")? };
    match fraction {
        Some(fraction) if fraction.len() > 9 => Err("INVALID_PRECISION"),
        Some(fraction) => Ok((whole, Some(format!("{fraction:0<9}").parse().map_err(|_| "INVALID_VALUE")?))),
        None => Ok((whole, None)),
    }
}

fn add(interval: CalendarInterval, unit: Unit, sign: i64, whole: i64, nanos: i64) -> Option<CalendarInterval> {
    let whole = whole.checked_mul(sign)?;
    let CalendarInterval { mut months, mut days, mut microseconds } = interval;
    match unit {
        Unit::Months(per) => months = months.checked_add(i32::try_from(whole).ok()?.checked_mul(per)?)?,
        Unit::Days(per) => days = days.checked_add(i32::try_from(whole).ok()?.checked_mul(per)?)?,
        Unit::Micros(per) => {
            microseconds = microseconds.checked_add(whole.checked_mul(per)?)?.checked_add(sign * nanos / 1_000)?;
        }
    }
    Some(CalendarInterval { months, days, microseconds })
}

fn malformed(text: &str, reason: &str, what: &str) -> Error {
    Error::new(
        ErrorKind::Invalid,
        format!("INVALID_INTERVAL_FORMAT.{reason}"),
        format!("'{text}' is not an interval: {what}. Write numbers and units, as in '1 hour 30 minutes'."),
    )
    .with_sqlstate("22006")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_intervals() {
        let cases = [
            ("1 second", (0, 0, SECOND)),
            ("interval 1 SECOND", (0, 0, SECOND)),
            ("1 minute 1 second", (0, 0, 61 * SECOND)),
            ("-1 seconds", (0, 0, -SECOND)),
            ("- 1 second", (0, 0, -SECOND)),
            ("+2 weeks", (0, 14, 0)),
            ("1.5 seconds", (0, 0, 1_500_000)),
            ("-1.5 seconds", (0, 0, -1_500_000)),
            (".25 second", (0, 0, 250_000)),
            ("1 year 2 months -3 days", (14, -3, 0)),
            ("7 milliseconds 3 microseconds", (0, 0, 7_003)),
            ("0 seconds", (0, 0, 0)),
        ];
        for (text, (months, days, microseconds)) in cases {
            assert_eq!(parse_interval(text).unwrap(), CalendarInterval { months, days, microseconds }, "{text}");
        }
    }

    /// The reasons were recorded from Spark 4.2.
    #[test]
    fn what_is_no_interval_is_told_apart() {
        let cases = [
            ("soon", "UNRECOGNIZED_NUMBER"),
            ("10", "MISSING_UNIT"),
            ("1 second 2", "MISSING_UNIT"),
            ("1 secondss", "INVALID_UNIT"),
            ("interval", "INPUT_IS_EMPTY"),
            (" ", "INPUT_IS_EMPTY"),
            ("1s", "INVALID_VALUE"),
            ("intervals 1 day", "INVALID_PREFIX"),
            ("1.5 minutes", "INVALID_FRACTION"),
            ("1.1234567890 seconds", "INVALID_PRECISION"),
            ("1 second -", "MISSING_NUMBER"),
            ("99999999999999999999 seconds", "ARITHMETIC_EXCEPTION"),
            ("9223372036854775807 hours", "ARITHMETIC_EXCEPTION"),
        ];
        for (text, reason) in cases {
            let error = parse_interval(text).unwrap_err();
            assert_eq!(error.code(), format!("INVALID_INTERVAL_FORMAT.{reason}"), "{text}");
            assert_eq!(error.sqlstate(), Some("22006"));
        }
    }

    #[test]
    fn fixed_lengths_have_no_months() {
        for (text, ms) in [("1 day", 86_400_000), ("1.5 seconds", 1_500), ("1 microsecond", 0), ("-1 second", -1_000)] {
            assert_eq!(parse_fixed_ms(text).unwrap(), ms, "{text}");
        }
        for text in ["1 month", "1 year 1 second"] {
            assert_eq!(parse_fixed_ms(text).unwrap_err().code(), "_LEGACY_ERROR_TEMP_3262", "{text}");
        }
    }
}
