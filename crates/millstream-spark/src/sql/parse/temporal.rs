//! Texts of dates, times and timestamps in typed literals, as Spark reads them.

use std::str::FromStr;

use chrono::{DateTime, Datelike, Days, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeZone};
use chrono_tz::Tz;

/// A point in time as written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Written {
    /// The wall clock.
    pub(super) local: NaiveDateTime,
    /// Microseconds since 1970 in UTC, if there is a zone.
    pub(super) instant: Option<i64>,
}

/// Days since 1970 of `2024`, `2024-1` or `2024-01-02`, with anything after `T` or a blank.
pub(super) fn days(text: &str) -> Option<i32> {
    let text = trim(text);
    let (date, _) = split_time(text).unwrap_or((text, ""));
    date_of(date).map(epoch_days)
}

/// Days between 1970-01-01 and a date.
pub(super) fn epoch_days(date: NaiveDate) -> i32 {
    date.num_days_from_ce() - NaiveDate::default().num_days_from_ce()
}

/// A timestamp: a date, alone or with a time, which may have a zone after it.
pub(super) fn timestamp(text: &str) -> Option<Written> {
    let text = trim(text);
    let Some((date, rest)) = split_time(text) else {
        return Some(Written { local: date_of(text)?.and_time(NaiveTime::MIN), instant: None });
    };
    let date = date_of(date)?;
    if rest.is_empty() {
        return Some(Written { local: date.and_time(NaiveTime::MIN), instant: None });
    }
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(rest.len());
    let (time, zone) = rest.split_at(end);
    let local = date.and_time(time_of(time)?);
    let instant = match zone.trim() {
        "" => None,
        zone => Some(in_zone(local, zone)?),
    };
    Some(Written { local, instant })
}

/// Microseconds since 1970 of a wall clock, taken as UTC.
pub(super) fn micros(local: NaiveDateTime) -> i64 {
    local.and_utc().timestamp_micros()
}

fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c <= ' ' || c.is_control())
}

/// The date and what follows `T` or a blank.
fn split_time(text: &str) -> Option<(&str, &str)> {
    let at = text.find(['T', ' '])?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

fn date_of(text: &str) -> Option<NaiveDate> {
    let (sign, digits) = match text.strip_prefix(['+', '-']) {
        Some(digits) => (if text.starts_with('-') { -1 } else { 1 }, digits),
        None => (1, text),
    };
    let mut parts = digits.split('-');
    let year = field(parts.next()?, 4..=7)?;
    let month = parts.next().map_or(Some(1), |part| field(part, 1..=2))?;
    let day = parts.next().map_or(Some(1), |part| field(part, 1..=2))?;
    if parts.next().is_some() {
        return None;
    }
    NaiveDate::from_ymd_opt(sign * i32::try_from(year).ok()?, month, day)
}

fn field(text: &str, length: std::ops::RangeInclusive<usize>) -> Option<u32> {
    (length.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

fn time_of(text: &str) -> Option<NaiveTime> {
    let mut parts = text.split(':');
    let hour = field(parts.next()?, 1..=2)?;
    let minute = field(parts.next()?, 1..=2)?;
    let (second, micro) = match parts.next() {
        None => (0, 0),
        Some(seconds) => {
            let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
            if fraction.bytes().any(|byte| !byte.is_ascii_digit()) {
                return None;
            }
            // Digits beyond microseconds are cut off.
            let micro = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
            (field(whole, 1..=2)?, micro)
        }
    };
    if parts.next().is_some() {
        return None;
    }
    NaiveTime::from_hms_micro_opt(hour, minute, second, micro)
}

fn in_zone(local: NaiveDateTime, zone: &str) -> Option<i64> {
    if let Some(offset) = offset_of(zone) {
        return Some(micros(local) - i64::from(offset) * 1_000_000);
    }
    let region = Tz::from_str(zone).ok()?;
    let resolved: Option<DateTime<Tz>> = region.from_local_datetime(&local).earliest();
    if let Some(instant) = resolved {
        return Some(instant.timestamp_micros());
    }
    // A wall clock that is skipped: the offset before the change holds.
    let before = local.checked_sub_days(Days::new(1))?;
    let offset = region.offset_from_utc_datetime(&before).fix().local_minus_utc();
    Some(micros(local) - i64::from(offset) * 1_000_000)
}

/// Seconds east of UTC of `Z`, `+1`, `-08:00`, `UTC+01:30`.
fn offset_of(zone: &str) -> Option<i32> {
    let rest = ["UTC", "GMT", "UT"].iter().find_map(|prefix| zone.strip_prefix(prefix)).unwrap_or(zone);
    if rest == "Z" || rest.is_empty() {
        return Some(0);
    }
    let sign = match rest.chars().next()? {
        '+' => 1,
        '-' => -1,
        _ => return None,
    };
    let digits = rest.get(1..)?;
    let parts: Vec<&str> = match digits.len() {
        // +hhmm and +hhmmss
        4 | 6 if !digits.contains(':') => {
            [digits.get(..2), digits.get(2..4), digits.get(4..)].into_iter().flatten().filter(|part| !part.is_empty()).collect()
        }
        _ => digits.split(':').collect(),
    };
    let mut seconds = 0;
    for (part, (unit, limit)) in parts.iter().zip([(3600, 18), (60, 59), (1, 59)]) {
        let value = field(part, 1..=2).filter(|value| *value <= limit)?;
        seconds += i32::try_from(value).ok()? * unit;
    }
    (parts.len() <= 3 && seconds <= 18 * 3600).then_some(sign * seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_spark_reads_them() {
        for (text, expected) in [
            ("1970-01-02", Some(1)),
            ("2024-1-2", Some(19724)),
            ("2024", Some(19723)),
            (" 2024-01 ", Some(19723)),
            ("2024-01-02T03:04", Some(19724)),
            ("0001-01-01", Some(-719162)),
            ("2024-13-01", None),
            ("2024-02-30", None),
            ("24-01-01", None),
            ("2024/01/01", None),
            ("", None),
        ] {
            assert_eq!(days(text), expected, "{text}");
        }
    }

    #[test]
    fn timestamps_keep_whether_a_zone_was_written() {
        let local = |text: &str| Some((text.parse::<NaiveDateTime>().unwrap(), None));
        let zoned = |text: &str, instant: &str| {
            Some((text.parse::<NaiveDateTime>().unwrap(), Some(DateTime::parse_from_rfc3339(instant).unwrap().timestamp_micros())))
        };
        for (text, expected) in [
            ("2024-01-02 12:03:04", local("2024-01-02T12:03:04")),
            ("2024-1-2T12:3:4.5", local("2024-01-02T12:03:04.5")),
            ("2024-01-02 12:03:04.123456789", local("2024-01-02T12:03:04.123456")),
            ("2024-01-02", local("2024-01-02T00:00:00")),
            ("2024-01-02T12:03:04Z", zoned("2024-01-02T12:03:04", "2024-01-02T12:03:04Z")),
            ("2024-01-02 12:03:04 +05:30", zoned("2024-01-02T12:03:04", "2024-01-02T12:03:04+05:30")),
            ("2024-01-02 12:03:04UTC-8", zoned("2024-01-02T12:03:04", "2024-01-02T12:03:04-08:00")),
            ("2024-01-02 12:03:04 America/New_York", zoned("2024-01-02T12:03:04", "2024-01-02T12:03:04-05:00")),
            ("2024-03-10 02:30:00 America/Los_Angeles", zoned("2024-03-10T02:30:00", "2024-03-10T10:30:00Z")),
            ("2024-11-03 01:30:00 America/Los_Angeles", zoned("2024-11-03T01:30:00", "2024-11-03T08:30:00Z")),
            ("2024-01-02 25:00:00", None),
            ("2024-01-02 12", None),
            ("2024-01-02 12:03:04 Nowhere", None),
            ("nope", None),
        ] {
            assert_eq!(timestamp(text).map(|written| (written.local, written.instant)), expected, "{text}");
        }
    }
}
