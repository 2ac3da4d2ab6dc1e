//! Time zones: their spellings, and the way between instants and wall clocks.
//!
//! Where a wall clock jumps over a time or shows it twice, the offset that was in force before the jump counts, as in `java.time`.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, LocalResult, NaiveDateTime, Offset, TimeZone as _};
use chrono_tz::{GapInfo, OffsetComponents, OffsetName, Tz, TzOffset};
use millstream_core::{Error, Result};

use super::TimeZone;
use super::datetime::civil::{self, MICROS_PER_SECOND};

/// The database lists transitions up to here; later years follow the rules of an earlier year that has the same calendar.
const LAST_LISTED_YEAR: i64 = 2099;

/// Abbreviations that stand for a zone.
const SHORT_IDS: &[(&str, &str)] = &[
    ("ACT", "Australia/Darwin"),
    ("AET", "Australia/Sydney"),
    ("AGT", "America/Argentina/Buenos_Aires"),
    ("ART", "Africa/Cairo"),
    ("AST", "America/Anchorage"),
    ("BET", "America/Sao_Paulo"),
    ("BST", "Asia/Dhaka"),
    ("CAT", "Africa/Harare"),
    ("CNT", "America/St_Johns"),
    ("CST", "America/Chicago"),
    ("CTT", "Asia/Shanghai"),
    ("EAT", "Africa/Addis_Ababa"),
    ("ECT", "Europe/Paris"),
    ("EST", "-05:00"),
    ("HST", "-10:00"),
    ("IET", "America/Indiana/Indianapolis"),
    ("IST", "Asia/Kolkata"),
    ("JST", "Asia/Tokyo"),
    ("MIT", "Pacific/Apia"),
    ("MST", "-07:00"),
    ("NET", "Asia/Yerevan"),
    ("NST", "Pacific/Auckland"),
    ("PLT", "Asia/Karachi"),
    ("PNT", "America/Phoenix"),
    ("PRT", "America/Puerto_Rico"),
    ("PST", "America/Los_Angeles"),
    ("SST", "Pacific/Guadalcanal"),
    ("VST", "Asia/Ho_Chi_Minh"),
];

impl TimeZone {
    /// Reads a zone: a region (`Europe/Paris`), an offset (`+05:30`, `+5`, `-0800`, `UTC+1`, `Z`), or an old abbreviation (`PST`).
    ///
    /// # Errors
    /// `INVALID_TIMEZONE`.
    pub fn parse(text: &str) -> Result<TimeZone> {
        Self::of_text(text).ok_or_else(|| {
            Error::invalid(
                "INVALID_TIMEZONE",
                format!("there is no time zone '{text}': write a region such as 'America/Los_Angeles' or an offset such as '+01:00'"),
            )
            .with_sqlstate("22009")
        })
    }

    fn of_text(text: &str) -> Option<TimeZone> {
        let name = SHORT_IDS.iter().find(|(short, _)| *short == text).map_or(text, |(_, name)| name);
        if name == "Z" {
            return Some(TimeZone::Offset(0));
        }
        if name.starts_with(['+', '-']) {
            return parse_offset(name).map(TimeZone::Offset);
        }
        for prefix in ["UTC", "GMT", "UT"] {
            match name.strip_prefix(prefix) {
                Some("") => return Some(TimeZone::Region(Tz::UTC)),
                Some(offset) if offset.starts_with(['+', '-']) => {
                    let seconds = parse_offset(offset)?;
                    return Some(if seconds == 0 { TimeZone::Region(Tz::UTC) } else { TimeZone::Offset(seconds) });
                }
                _ => {}
            }
        }
        Tz::from_str(name).ok().map(TimeZone::Region)
    }

    /// Seconds to add to UTC for the wall clock at an instant, microseconds since the epoch.
    pub fn offset_seconds_at(self, epoch_micros: i64) -> i32 {
        match self {
            TimeZone::Offset(seconds) => seconds,
            TimeZone::Region(Tz::UTC) => 0,
            TimeZone::Region(zone) => region_offset(zone, epoch_micros).fix().local_minus_utc(),
        }
    }

    /// The wall clock at an instant, both in microseconds since 1970-01-01 00:00:00 of their own clock.
    pub fn instant_to_local(self, epoch_micros: i64) -> i64 {
        epoch_micros.saturating_add(i64::from(self.offset_seconds_at(epoch_micros)) * MICROS_PER_SECOND)
    }

    /// The instant at which the wall clock shows this. A time that the clock jumps over is moved on by the length of the jump; of a time
    /// that it shows twice it is the first.
    pub fn local_to_instant(self, local_micros: i64) -> i64 {
        let seconds = match self {
            TimeZone::Offset(seconds) => seconds,
            TimeZone::Region(Tz::UTC) => 0,
            TimeZone::Region(zone) => local_offset(zone, local_micros),
        };
        local_micros.saturating_sub(i64::from(seconds) * MICROS_PER_SECOND)
    }

    /// The instant for a wall clock with a preferred offset: the offset counts where the wall clock is shown twice.
    pub(crate) fn local_to_instant_preferring(self, local_micros: i64, offset_seconds: i32) -> i64 {
        let preferred = local_micros.saturating_sub(i64::from(offset_seconds) * MICROS_PER_SECOND);
        if self.offset_seconds_at(preferred) == offset_seconds { preferred } else { self.local_to_instant(local_micros) }
    }

    /// The abbreviation in force at an instant (`PDT`), if the zone has one made of letters.
    pub(crate) fn abbreviation_at(self, epoch_micros: i64) -> Option<String> {
        match self {
            TimeZone::Region(Tz::UTC) => Some("UTC".to_owned()),
            TimeZone::Region(zone) => region_offset(zone, epoch_micros)
                .abbreviation()
                .filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
                .map(str::to_owned),
            TimeZone::Offset(_) => None,
        }
    }

    /// Whether daylight saving time is in force at an instant.
    pub(crate) fn is_daylight_saving_at(self, epoch_micros: i64) -> bool {
        match self {
            TimeZone::Region(Tz::UTC) | TimeZone::Offset(_) => false,
            TimeZone::Region(zone) => !region_offset(zone, epoch_micros).dst_offset().is_zero(),
        }
    }
}

impl fmt::Display for TimeZone {
    /// The zone's identifier: `Europe/Paris`, `+05:30`, `Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimeZone::Region(zone) => f.write_str(zone.name()),
            TimeZone::Offset(0) => f.write_str("Z"),
            TimeZone::Offset(seconds) => {
                let (sign, total) = (if *seconds < 0 { '-' } else { '+' }, seconds.unsigned_abs());
                write!(f, "{sign}{:02}:{:02}", total / 3600, total / 60 % 60)?;
                if total % 60 != 0 { write!(f, ":{:02}", total % 60) } else { Ok(()) }
            }
        }
    }
}

/// Reads `+h`, `+hh`, `+h:mm`, `+hh:m`, `+hh:mm`, `+hhmm`, `+hh:mm:ss`, `+hhmmss`; at most 18 hours either way.
fn parse_offset(text: &str) -> Option<i32> {
    let (sign, digits) = match text.as_bytes() {
        [b'+', ..] => (1, &text[1..]),
        [b'-', ..] => (-1, &text[1..]),
        _ => return None,
    };
    let parts: Vec<&str> = digits.split(':').collect();
    let (hours, minutes, seconds) = match parts.as_slice() {
        [all] if !all.bytes().all(|b| b.is_ascii_digit()) => return None,
        [hours] if (1..=2).contains(&hours.len()) => (*hours, "0", "0"),
        [all] if all.len() == 4 => (&all[..2], &all[2..], "0"),
        [all] if all.len() == 6 => (&all[..2], &all[2..4], &all[4..]),
        [hours, minutes] if (1..=2).contains(&hours.len()) && (1..=2).contains(&minutes.len()) => (*hours, *minutes, "0"),
        [hours, minutes, seconds] if (1..=2).contains(&hours.len()) && minutes.len() == 2 && seconds.len() == 2 => {
            (*hours, *minutes, *seconds)
        }
        _ => return None,
    };
    let number = |text: &str| if text.bytes().all(|b| b.is_ascii_digit()) { text.parse::<i32>().ok() } else { None };
    let (hours, minutes, seconds) = (number(hours)?, number(minutes)?, number(seconds)?);
    if minutes > 59 || seconds > 59 {
        return None;
    }
    let total = hours * 3600 + minutes * 60 + seconds;
    (total <= 18 * 3600).then_some(sign * total)
}

fn region_offset(zone: Tz, epoch_micros: i64) -> TzOffset {
    zone.offset_from_utc_datetime(&naive(within_listed_years(epoch_micros)))
}

/// The offset that counts for a wall clock: the one before the jump, if it is in a gap or an overlap.
fn local_offset(zone: Tz, local_micros: i64) -> i32 {
    let local = naive(within_listed_years(local_micros));
    let offset = match zone.offset_from_local_datetime(&local) {
        LocalResult::Single(offset) => offset,
        LocalResult::Ambiguous(one, other) => {
            // The earlier instant is the one with the larger offset.
            if one.fix().local_minus_utc() >= other.fix().local_minus_utc() { one } else { other }
        }
        LocalResult::None => match GapInfo::new(&local, &zone).and_then(|gap| gap.begin) {
            Some((_, before)) => before,
            None => zone.offset_from_utc_datetime(&local),
        },
    };
    offset.fix().local_minus_utc()
}

/// Moves a time after the listed years into one of them with the same weekdays and the same length.
fn within_listed_years(micros: i64) -> i64 {
    let days = civil::days_of(micros);
    let year = civil::year_of(days);
    if year <= LAST_LISTED_YEAR {
        return micros;
    }
    let first_day = |year: i64| civil::days_from_civil(year, 1, 1);
    let same = |candidate: &i64| {
        civil::is_leap(*candidate) == civil::is_leap(year) && (first_day(year) - first_day(*candidate)).rem_euclid(7) == 0
    };
    // Any 28 years without a century contain each of the fourteen calendars.
    match (LAST_LISTED_YEAR - 27..=LAST_LISTED_YEAR).rev().find(same) {
        Some(listed) => micros - (first_day(year) - first_day(listed)) * civil::MICROS_PER_DAY,
        None => micros,
    }
}

fn naive(micros: i64) -> NaiveDateTime {
    DateTime::from_timestamp_micros(micros)
        .map_or(if micros < 0 { NaiveDateTime::MIN } else { NaiveDateTime::MAX }, |time| time.naive_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(text: &str) -> i64 {
        NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").unwrap().and_utc().timestamp_micros()
    }

    #[test]
    fn spellings_of_zones() {
        let cases: &[(&str, Option<&str>)] = &[
            ("UTC", Some("UTC")),
            ("Z", Some("Z")),
            ("GMT", Some("UTC")),
            ("UTC+0", Some("UTC")),
            ("Europe/Paris", Some("Europe/Paris")),
            ("PST", Some("America/Los_Angeles")),
            ("EST", Some("-05:00")),
            ("+5", Some("+05:00")),
            ("+5:30", Some("+05:30")),
            ("-08:3", Some("-08:03")),
            ("-0800", Some("-08:00")),
            ("+01:02:03", Some("+01:02:03")),
            ("UTC-3", Some("-03:00")),
            ("GMT+08:00", Some("+08:00")),
            ("+18:00", Some("+18:00")),
            ("+18:01", None),
            ("+1:60", None),
            ("+é1", None),
            ("europe/paris", None),
            ("Mars/Olympus", None),
            ("", None),
            ("+", None),
        ];
        for (text, expected) in cases {
            let zone = TimeZone::parse(text).ok().map(|zone| zone.to_string());
            assert_eq!(zone.as_deref(), *expected, "{text}");
        }
    }

    #[test]
    fn gaps_move_on_and_overlaps_take_the_first() {
        let zone = TimeZone::parse("America/Los_Angeles").unwrap();
        let cases = [
            ("2024-03-10 01:59:59", "2024-03-10 09:59:59"),
            ("2024-03-10 02:30:00", "2024-03-10 10:30:00"),
            ("2024-03-10 03:00:00", "2024-03-10 10:00:00"),
            ("2024-11-03 01:30:00", "2024-11-03 08:30:00"),
            ("2024-11-03 02:00:00", "2024-11-03 10:00:00"),
            ("2150-07-01 00:00:00", "2150-07-01 07:00:00"),
            ("2150-12-01 00:00:00", "2150-12-01 08:00:00"),
        ];
        for (local, instant) in cases {
            assert_eq!(zone.local_to_instant(micros(local)), micros(instant), "{local}");
        }
        let samoa = TimeZone::parse("Pacific/Apia").unwrap();
        assert_eq!(samoa.local_to_instant(micros("2011-12-30 12:00:00")), micros("2011-12-30 22:00:00"));
    }

    #[test]
    fn offsets_follow_the_instant() {
        let zone = TimeZone::parse("Europe/Paris").unwrap();
        for (instant, offset) in [("2024-03-31 00:59:59", 3600), ("2024-03-31 01:00:00", 7200), ("2400-07-01 00:00:00", 7200)] {
            assert_eq!(zone.offset_seconds_at(micros(instant)), offset, "{instant}");
        }
        assert_eq!(zone.offset_seconds_at(i64::MIN), 561, "local mean time");
        assert_eq!(zone.offset_seconds_at(i64::MAX).rem_euclid(3600), 0);
    }
}
