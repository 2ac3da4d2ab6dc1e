//! What `CAST` reads from text: `[+-]y…y[-[m]m[-[d]d]]`, for timestamps followed by `T` or a space and `[h]h:[m]m:[s]s[.fraction][zone]`.

use super::super::TimeZone;
use super::civil::{self, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND};

/// An instant from text, microseconds since the epoch: in `zone` where the text names none. `None` when it is malformed, or is a time
/// without a date.
pub(crate) fn parse_timestamp(text: &str, zone: TimeZone) -> Option<i64> {
    let wall_clock = WallClock::parse(text)?;
    let zone = match wall_clock.zone {
        Some(named) => TimeZone::parse(named).ok()?,
        None => zone,
    };
    let local = wall_clock.local_micros?;
    let instant = zone.local_to_instant(local);
    // An offset of less than a day is only lost to saturation at the ends of the range.
    (instant.abs_diff(local) < civil::MICROS_PER_DAY as u64 && instant != i64::MAX && instant != i64::MIN).then_some(instant)
}

/// A wall clock from text, microseconds since 1970-01-01 00:00:00; a zone in the text must be one, and is ignored.
pub(crate) fn parse_timestamp_ntz(text: &str) -> Option<i64> {
    let wall_clock = WallClock::parse(text)?;
    if let Some(zone) = wall_clock.zone {
        TimeZone::parse(zone).ok()?;
    }
    wall_clock.local_micros
}

/// Whether the text, read as a timestamp, names a zone.
pub(crate) fn names_zone(text: &str) -> bool {
    WallClock::parse(text).is_some_and(|wall_clock| wall_clock.zone.is_some())
}

/// A date from text, days since 1970-01-01. Whatever follows a full date after `T` or a space is ignored.
pub(crate) fn parse_date(text: &str) -> Option<i32> {
    let bytes = trim(text).as_bytes();
    let (negative, mut rest) = sign(bytes);
    if bytes.is_empty() {
        return None;
    }
    let mut segments = [1i64; 3];
    for (index, segment) in segments.iter_mut().enumerate() {
        let digits = leading_digits(rest);
        let widths = if index == 0 { 4..=7 } else { 1..=2 };
        if !widths.contains(&digits) {
            return None;
        }
        *segment = number(rest.get(..digits)?);
        rest = rest.get(digits..)?;
        match rest.first() {
            None => break,
            Some(b'-') if index < 2 => rest = rest.get(1..)?,
            Some(b' ' | b'T') if index == 2 => break,
            Some(_) => return None,
        }
    }
    let [year, month, day] = segments;
    civil::checked_days(if negative { -year } else { year }, month, day)
}

/// A time of day from text, nanoseconds since midnight: `[h]h:[m]m[:[s]s[.fraction]]`, perhaps with `AM` or `PM` behind.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    let text = trim(text);
    let half = [("AM", 0), ("PM", 12)].into_iter().find_map(|(half, hours)| {
        let cut = text.len().checked_sub(half.len())?;
        let (before, end) = text.split_at_checked(cut)?;
        end.eq_ignore_ascii_case(half).then_some((trim(before), hours))
    });
    let (clock, mut at) = (half.map_or(text, |(clock, _)| clock), 0);
    if !clock.contains(':') {
        return None;
    }
    let (mut micros, zone) = time_of_day(clock, &mut at)?;
    if zone.is_some() || at != clock.len() {
        return None;
    }
    if let Some((_, hours)) = half {
        let hour = micros / MICROS_PER_HOUR;
        if !(1..=12).contains(&hour) {
            return None;
        }
        micros += (hour % 12 + hours - hour) * MICROS_PER_HOUR;
    }
    Some(micros * 1_000)
}

/// What a text says before it is brought to a zone.
struct WallClock<'a> {
    /// Microseconds of its own clock; `None` for a time of day without a date or a time out of range.
    local_micros: Option<i64>,
    /// The text of its zone.
    zone: Option<&'a str>,
}

impl<'a> WallClock<'a> {
    fn parse(text: &'a str) -> Option<WallClock<'a>> {
        let text = trim(text);
        let bytes = text.as_bytes();
        let (negative, rest) = sign(bytes);
        let mut at = bytes.len() - rest.len();
        let year = field(bytes, &mut at, 4..=6)?;
        let year = if negative { -year } else { year };
        let (mut month, mut day, mut time, mut zone) = (1, 1, 0, None);
        if take(bytes, &mut at, b'-') {
            month = field(bytes, &mut at, 1..=2)?;
            if take(bytes, &mut at, b'-') {
                day = field(bytes, &mut at, 1..=2)?;
                if take(bytes, &mut at, b' ') || take(bytes, &mut at, b'T') {
                    (time, zone) = time_of_day(text, &mut at)?;
                }
            }
        }
        if at != bytes.len() {
            return None;
        }
        let days = i64::from(civil::checked_days(year, month, day)?);
        Some(WallClock { local_micros: days.checked_mul(civil::MICROS_PER_DAY).and_then(|micros| micros.checked_add(time)), zone })
    }
}

/// Reads from the hour on: microseconds of the day and the text of the zone, which takes the rest.
fn time_of_day<'a>(text: &'a str, at: &mut usize) -> Option<(i64, Option<&'a str>)> {
    let bytes = text.as_bytes();
    let hour = field(bytes, at, 1..=2)?;
    let (mut minute, mut second, mut micros, mut zone) = (0, 0, 0, None);
    if take(bytes, at, b':') {
        minute = field(bytes, at, 1..=2)?;
        if take(bytes, at, b':') {
            second = field(bytes, at, 1..=2)?;
            if take(bytes, at, b'.') {
                let rest = bytes.get(*at..)?;
                let digits = leading_digits(rest);
                micros = fraction(rest.get(..digits)?);
                *at += digits;
            }
            if *at < bytes.len() {
                zone = Some(trim(text.get(*at..)?));
                *at = bytes.len();
            }
        }
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some((hour * MICROS_PER_HOUR + minute * MICROS_PER_MINUTE + second * MICROS_PER_SECOND + micros, zone))
}

/// The first six digits of a fraction as microseconds.
fn fraction(digits: &[u8]) -> i64 {
    let six = digits.get(..6).unwrap_or(digits);
    (six.len()..6).fold(number(six), |micros, _| micros * 10)
}

fn field(bytes: &[u8], at: &mut usize, widths: std::ops::RangeInclusive<usize>) -> Option<i64> {
    let rest = bytes.get(*at..)?;
    let digits = leading_digits(rest);
    if !widths.contains(&digits) {
        return None;
    }
    *at += digits;
    Some(number(rest.get(..digits)?))
}

fn take(bytes: &[u8], at: &mut usize, byte: u8) -> bool {
    let found = bytes.get(*at) == Some(&byte);
    *at += usize::from(found);
    found
}

fn sign(bytes: &[u8]) -> (bool, &[u8]) {
    match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, bytes),
    }
}

fn leading_digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// The value of a few digits.
fn number(digits: &[u8]) -> i64 {
    digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'))
}

/// Without the white space and control characters around it.
fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c <= ' ' || c == '\u{7f}')
}

#[cfg(test)]
mod tests {
    use super::super::format::{format_date, format_timestamp};
    use super::*;

    const UTC: TimeZone = TimeZone::Region(chrono_tz::Tz::UTC);

    #[test]
    fn texts_that_are_timestamps_and_texts_that_are_not() {
        let cases: &[(&str, Option<&str>, Option<&str>)] = &[
            ("2024-01-02 03:04:05", Some("2024-01-02 03:04:05"), Some("2024-01-02 03:04:05")),
            ("2024-01-02T03:04:05Z", Some("2024-01-02 03:04:05"), Some("2024-01-02 03:04:05")),
            ("2024-01-02T03:04:05.123456789+05:30", Some("2024-01-01 21:34:05.123456"), Some("2024-01-02 03:04:05.123456")),
            ("2024-01-02 03:04:05 America/New_York", Some("2024-01-02 08:04:05"), Some("2024-01-02 03:04:05")),
            ("2024-01-02 03:04:05.5 UTC+1", Some("2024-01-02 02:04:05.5"), Some("2024-01-02 03:04:05.5")),
            ("2024-1-2 3:4:5", Some("2024-01-02 03:04:05"), Some("2024-01-02 03:04:05")),
            ("2024-1-2 3:4", Some("2024-01-02 03:04:00"), Some("2024-01-02 03:04:00")),
            ("2024-1-2 3", Some("2024-01-02 03:00:00"), Some("2024-01-02 03:00:00")),
            ("2024", Some("2024-01-01 00:00:00"), Some("2024-01-01 00:00:00")),
            (" 2024-01 \n", Some("2024-01-01 00:00:00"), Some("2024-01-01 00:00:00")),
            ("+10000-01-01", Some("+10000-01-01 00:00:00"), Some("+10000-01-01 00:00:00")),
            ("-0044-03-15", Some("-0044-03-15 00:00:00"), Some("-0044-03-15 00:00:00")),
            ("2024-01-02 03:04:05.", Some("2024-01-02 03:04:05"), Some("2024-01-02 03:04:05")),
            ("2024-01-02 03:04+01:00", None, None),
            ("2024-01-02 25:00:00", None, None),
            ("2024-02-30", None, None),
            ("2024-01-02 03:04:05 Nowhere", None, None),
            ("2024-01-02T", None, None),
            ("20240102", None, None),
            ("02/01/2024", None, None),
            ("03:04:05", None, None),
            ("", None, None),
            ("now", None, None),
        ];
        for (text, instant, wall_clock) in cases {
            assert_eq!(parse_timestamp(text, UTC).map(|micros| format_timestamp(micros, UTC)).as_deref(), *instant, "{text}");
            assert_eq!(parse_timestamp_ntz(text).map(|micros| format_timestamp(micros, UTC)).as_deref(), *wall_clock, "{text}");
        }
    }

    #[test]
    fn texts_that_are_dates_and_texts_that_are_not() {
        let cases: &[(&str, Option<&str>)] = &[
            ("2024-01-02", Some("2024-01-02")),
            ("2024-1-2 anything", Some("2024-01-02")),
            ("2024-01-02T", Some("2024-01-02")),
            (" 2024-01-02 ", Some("2024-01-02")),
            ("2024-01", Some("2024-01-01")),
            ("2024", Some("2024-01-01")),
            ("-2024-01-02", Some("-2024-01-02")),
            ("+1234567-01-02", Some("+1234567-01-02")),
            ("2024-01T", None),
            ("2024 ", Some("2024-01-01")),
            ("2024 x", None),
            ("2024-02-30", None),
            ("202-01-01", None),
            ("2024-01-02x", None),
            ("2024-", None),
            ("-", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_date(text).map(format_date).as_deref(), *expected, "{text}");
        }
    }
}
