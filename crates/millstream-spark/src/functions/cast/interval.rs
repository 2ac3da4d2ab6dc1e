//! Intervals as text and as numbers. What an interval counts (days, days to seconds, months) is kept in its field's metadata.

use std::collections::HashMap;
use std::fmt::Write;

use arrow::datatypes::{DataType, Field, IntervalMonthDayNano};

use super::parse::trim;
use crate::functions::datetime::civil::{MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND};
use crate::functions::datetime::format::push_fraction;

/// The metadata key of the units of an interval: `day`, `day to second`, `year to month`; absent for the widest.
pub(crate) const INTERVAL_UNITS: &str = "spark.interval";

/// A part of an interval, from the largest to the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Unit {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
}

impl Unit {
    const ALL: [(Unit, &str); 6] = [
        (Unit::Year, "year"),
        (Unit::Month, "month"),
        (Unit::Day, "day"),
        (Unit::Hour, "hour"),
        (Unit::Minute, "minute"),
        (Unit::Second, "second"),
    ];

    /// The unit of a name in lower case.
    pub(crate) fn parse(name: &str) -> Option<Unit> {
        Unit::ALL.iter().find(|(_, known)| *known == name).map(|(unit, _)| *unit)
    }

    /// The name in lower case.
    pub(crate) fn name(self) -> &'static str {
        Unit::ALL.iter().find(|(unit, _)| *unit == self).map_or("", |(_, name)| name)
    }

    /// Microseconds of one for the units of day-time intervals, months for the others.
    pub(crate) fn size(self) -> i64 {
        match self {
            Unit::Year => 12,
            Unit::Month => 1,
            Unit::Day => MICROS_PER_DAY,
            Unit::Hour => MICROS_PER_HOUR,
            Unit::Minute => MICROS_PER_MINUTE,
            Unit::Second => MICROS_PER_SECOND,
        }
    }
}

/// The first and the last unit of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Units {
    pub(crate) start: Unit,
    pub(crate) end: Unit,
}

impl Units {
    /// `YEAR TO MONTH`.
    pub(crate) const YEAR_TO_MONTH: Units = Units { start: Unit::Year, end: Unit::Month };
    /// `DAY TO SECOND`.
    pub(crate) const DAY_TO_SECOND: Units = Units { start: Unit::Day, end: Unit::Second };

    /// The units of a year-month or day-time interval; the widest where the metadata names none.
    pub(crate) fn of(data_type: &DataType, metadata: &HashMap<String, String>) -> Units {
        let widest = if matches!(data_type, DataType::Duration(_)) { Units::DAY_TO_SECOND } else { Units::YEAR_TO_MONTH };
        metadata.get(INTERVAL_UNITS).and_then(|text| Units::parse(text)).unwrap_or(widest)
    }

    /// The units of a field.
    pub(crate) fn of_field(field: &Field) -> Units {
        Units::of(field.data_type(), field.metadata())
    }

    fn parse(text: &str) -> Option<Units> {
        let (start, end) = text.split_once(" to ").unwrap_or((text, text));
        Some(Units { start: Unit::parse(start)?, end: Unit::parse(end)? })
    }

    /// The metadata that stands for these units.
    pub(crate) fn metadata(self) -> HashMap<String, String> {
        if self == Units::YEAR_TO_MONTH || self == Units::DAY_TO_SECOND {
            return HashMap::new();
        }
        HashMap::from([(INTERVAL_UNITS.to_owned(), self.name())])
    }

    /// Units that hold the values of both.
    pub(crate) fn union(self, other: Units) -> Units {
        Units { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// `day to second`.
    pub(crate) fn name(self) -> String {
        if self.start == self.end { self.start.name().to_owned() } else { format!("{} to {}", self.start.name(), self.end.name()) }
    }
}

/// `INTERVAL '1 02:03:04.5' DAY TO SECOND`, with the parts that `units` name.
pub(crate) fn push_day_time(out: &mut String, micros: i64, units: Units) {
    let total = i128::from(micros.unsigned_abs());
    out.push_str("INTERVAL '");
    if micros < 0 {
        out.push('-');
    }
    let mut rest = total;
    for (unit, _) in Unit::ALL.iter().filter(|(unit, _)| (units.start..=units.end).contains(unit)) {
        let size = i128::from(unit.size());
        let count = rest / size;
        rest %= size;
        // Writing to a string does not fail.
        let _ = match *unit {
            Unit::Day => write!(out, "{count}"),
            unit if unit == units.start => write!(out, "{count:02}"),
            Unit::Hour => write!(out, " {count:02}"),
            _ => write!(out, ":{count:02}"),
        };
        if *unit == Unit::Second {
            push_fraction(out, i64::try_from(rest).unwrap_or(0));
        }
    }
    let _ = write!(out, "' {}", units.name().to_ascii_uppercase());
}

/// `INTERVAL '1-2' YEAR TO MONTH`, with the parts that `units` name.
pub(crate) fn push_year_month(out: &mut String, months: i32, units: Units) {
    let sign = if months < 0 { "-" } else { "" };
    let total = months.unsigned_abs();
    let _ = match (units.start, units.end) {
        (Unit::Year, Unit::Year) => write!(out, "INTERVAL '{sign}{}' YEAR", total / 12),
        (Unit::Month, _) => write!(out, "INTERVAL '{sign}{total}' MONTH"),
        _ => write!(out, "INTERVAL '{sign}{}-{}' YEAR TO MONTH", total / 12, total % 12),
    };
}

/// `1 years 2 months 3 days 4 hours 5.5 seconds`.
pub(crate) fn push_calendar(out: &mut String, interval: IntervalMonthDayNano) {
    let start = out.len();
    let mut push = |count: i64, unit: &str| {
        if count != 0 {
            let _ = write!(out, "{count} {unit} ");
        }
    };
    push(i64::from(interval.months / 12), "years");
    push(i64::from(interval.months % 12), "months");
    push(i64::from(interval.days), "days");
    let micros = interval.nanoseconds / 1000;
    push(micros / MICROS_PER_HOUR, "hours");
    push(micros % MICROS_PER_HOUR / MICROS_PER_MINUTE, "minutes");
    let rest = micros % MICROS_PER_MINUTE;
    if rest != 0 {
        let _ = write!(out, "{}{}", if rest < 0 { "-" } else { "" }, rest.unsigned_abs() / 1_000_000);
        push_fraction(out, (rest % MICROS_PER_SECOND).abs());
        out.push_str(" seconds ");
    }
    if out.len() == start {
        out.push_str("0 seconds");
    } else {
        out.pop();
    }
}

/// Reads a year-month interval: `1-2`, `-3`, or the literal `INTERVAL '1-2' YEAR TO MONTH`; months.
pub(crate) fn parse_year_month(text: &str, units: Units) -> Option<i32> {
    let (negative, body) = body(text, units)?;
    let months = match (units.start, units.end) {
        (Unit::Year, Unit::Month) => {
            let (years, months) = body.split_once('-')?;
            let months = number(months, 0, 11)?;
            number(years, 0, i64::MAX)?.checked_mul(12)?.checked_add(months)?
        }
        (start, _) => number(body, 0, i64::MAX)?.checked_mul(start.size())?,
    };
    i32::try_from(if negative { -months } else { months }).ok()
}

/// Reads a day-time interval: `1 02:03:04.5`, or the literal `INTERVAL '1 02:03:04.5' DAY TO SECOND`; microseconds.
pub(crate) fn parse_day_time(text: &str, units: Units) -> Option<i64> {
    let (negative, mut rest) = body(text, units)?;
    let mut total = 0_i128;
    for (unit, _) in Unit::ALL.iter().filter(|(unit, _)| (units.start..=units.end).contains(unit)) {
        let (part, after) = if *unit == units.end { (rest, "") } else { rest.split_once(if *unit == Unit::Day { ' ' } else { ':' })? };
        rest = after;
        let (whole, fraction) = if *unit == Unit::Second { part.split_once('.').unwrap_or((part, "0")) } else { (part, "0") };
        let most = match unit {
            unit if *unit == units.start => i64::MAX,
            Unit::Hour => 23,
            _ => 59,
        };
        total += i128::from(number(whole, 0, most)?) * i128::from(unit.size());
        if fraction.len() > 9 {
            return None;
        }
        let nanos = number(&format!("{fraction:0<9}"), 0, i64::MAX)?;
        total += i128::from(nanos / 1000);
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// The sign and the parts of an interval's text, without the words of a literal.
fn body(text: &str, units: Units) -> Option<(bool, &str)> {
    let text = trim(text);
    let mut negative = false;
    let inner = match strip_word(text, "interval") {
        None => text,
        Some(rest) => {
            let rest = take_sign(rest.trim_start(), &mut negative);
            let (inner, suffix) = rest.strip_prefix('\'')?.split_once('\'')?;
            let words: Vec<String> = suffix.split_whitespace().map(str::to_ascii_lowercase).collect();
            if words.join(" ") != units.name() {
                return None;
            }
            inner
        }
    };
    let inner = take_sign(inner, &mut negative);
    Some((negative, inner))
}

fn take_sign<'a>(text: &'a str, negative: &mut bool) -> &'a str {
    match text.strip_prefix('-') {
        Some(rest) => {
            *negative = !*negative;
            rest
        }
        None => text.strip_prefix('+').unwrap_or(text),
    }
}

fn strip_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(word.len())?;
    head.eq_ignore_ascii_case(word).then_some(rest)
}

fn number(text: &str, least: i64, most: i64) -> Option<i64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|value| (least..=most).contains(value))
}

/// Reads a calendar interval: `[interval] 1 year -2 days 3.5 seconds`.
pub(crate) fn parse_calendar(text: &str) -> Option<IntervalMonthDayNano> {
    let lower = trim(text).to_ascii_lowercase();
    let mut rest = match lower.strip_prefix("interval") {
        Some(rest) if rest.starts_with(char::is_whitespace) => rest.trim_start(),
        Some(_) => return None,
        None => lower.as_str(),
    };
    if rest.is_empty() {
        return None;
    }
    let (mut months, mut days, mut micros) = (0_i64, 0_i64, 0_i64);
    while !rest.is_empty() {
        let mut negative = false;
        rest = take_sign(rest, &mut negative).trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (amount, after) = rest.split_at_checked(end)?;
        let (whole, fraction) = amount.split_once('.').map_or((amount, None), |(whole, fraction)| (whole, Some(fraction)));
        let value = if whole.is_empty() && fraction.is_some() { 0 } else { number(whole, 0, i64::MAX)? };
        let value = if negative { -value } else { value };
        if !after.starts_with(char::is_whitespace) {
            return None;
        }
        let after = after.trim_start();
        let end = after.find(char::is_whitespace).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(end)?;
        rest = after.trim_start();
        if fraction.is_some() && unit != "second" && unit != "seconds" {
            return None;
        }
        let unit = unit.strip_suffix('s').unwrap_or(unit);
        match unit {
            "year" => months = months.checked_add(value.checked_mul(12)?)?,
            "month" => months = months.checked_add(value)?,
            "week" => days = days.checked_add(value.checked_mul(7)?)?,
            "day" => days = days.checked_add(value)?,
            "hour" => micros = micros.checked_add(value.checked_mul(MICROS_PER_HOUR)?)?,
            "minute" => micros = micros.checked_add(value.checked_mul(MICROS_PER_MINUTE)?)?,
            "millisecond" => micros = micros.checked_add(value.checked_mul(1000)?)?,
            "microsecond" => micros = micros.checked_add(value)?,
            "second" => {
                let digits = fraction.unwrap_or("0");
                if digits.len() > 9 {
                    return None;
                }
                let part = number(&format!("{digits:0<9}"), 0, i64::MAX)? / 1000;
                let part = if negative { -part } else { part };
                micros = micros.checked_add(value.checked_mul(MICROS_PER_SECOND)?)?.checked_add(part)?;
            }
            _ => return None,
        }
    }
    Some(IntervalMonthDayNano::new(i32::try_from(months).ok()?, i32::try_from(days).ok()?, micros.checked_mul(1000)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(text: &str) -> Units {
        Units::parse(text).unwrap()
    }

    #[test]
    fn day_time_intervals_both_ways() {
        for (micros, name, text) in [
            (93_784_500_000, "day to second", "1 02:03:04.5"),
            (-1, "day to second", "-0 00:00:00.000001"),
            (183_600_000_000, "day to hour", "2 03"),
            (86_400_000_000, "day", "1"),
            (3_600_000_000, "hour", "01"),
            (97_384_000_000, "hour to second", "27:03:04"),
            (300_000_000, "minute", "05"),
            (3_500_000, "second", "03.5"),
            (93_784_000_000, "second", "93784"),
        ] {
            let mut out = String::new();
            push_day_time(&mut out, micros, units(name));
            assert_eq!(out, format!("INTERVAL '{text}' {}", name.to_uppercase()));
            assert_eq!(parse_day_time(text, units(name)), Some(micros), "{text}");
            assert_eq!(parse_day_time(&out, units(name)), Some(micros), "{out}");
        }
        for (text, name) in [("5", "day to second"), ("1 24", "day to hour"), ("", "day"), ("1 02:60", "day to minute"), ("x", "second")] {
            assert_eq!(parse_day_time(text, units(name)), None, "{text}");
        }
    }

    #[test]
    fn year_month_intervals_both_ways() {
        for (months, name, text) in
            [(14, "year to month", "1-2"), (-11, "year to month", "-0-11"), (13, "month", "13"), (-24, "year", "-2")]
        {
            let mut out = String::new();
            push_year_month(&mut out, months, units(name));
            assert_eq!(out, format!("INTERVAL '{text}' {}", name.to_uppercase()));
            assert_eq!(parse_year_month(text, units(name)), Some(months), "{text}");
        }
        assert_eq!(parse_year_month("1-12", units("year to month")), None);
        assert_eq!(parse_year_month("INTERVAL -'-3' MONTH", units("month")), Some(3));
    }

    #[test]
    fn calendar_intervals_both_ways() {
        let of = |months, days, micros: i64| IntervalMonthDayNano::new(months, days, micros * 1000);
        for (interval, text) in [
            (of(14, 3, 0), "1 years 2 months 3 days"),
            (of(1, -1, 0), "1 months -1 days"),
            (of(0, 2, 10_800_000_000), "2 days 3 hours"),
            (of(0, 0, -5_500_000), "-5.5 seconds"),
            (of(0, 0, 0), "0 seconds"),
        ] {
            let mut out = String::new();
            push_calendar(&mut out, interval);
            assert_eq!(out, text);
            assert_eq!(parse_calendar(&format!("INTERVAL {text}")), Some(interval), "{text}");
        }
        assert_eq!(parse_calendar("1 week 5 minutes"), Some(of(0, 7, 300_000_000)));
        for text in ["", "interval", "5", "1 fortnight", "1.5 days", "1day"] {
            assert_eq!(parse_calendar(text), None, "{text}");
        }
    }
}
