//! How `CAST` writes dates and timestamps as text: `yyyy-MM-dd HH:mm:ss` with as many digits of a fraction as needed.

use std::fmt::Write;

use super::super::TimeZone;
use super::civil::Civil;

/// An instant, microseconds since the epoch, as the wall clock of a zone.
pub(crate) fn format_timestamp(epoch_micros: i64, zone: TimeZone) -> String {
    format_timestamp_ntz(zone.instant_to_local(epoch_micros))
}

/// A wall clock, microseconds since 1970-01-01 00:00:00.
pub(crate) fn format_timestamp_ntz(local_micros: i64) -> String {
    let civil = Civil::from_micros(local_micros);
    let mut text = String::with_capacity(26);
    push_date(&mut text, &civil);
    let _ = write!(text, " {:02}:{:02}:{:02}", civil.hour(), civil.minute(), civil.second());
    push_fraction(&mut text, civil.micros());
    text
}

/// A date, days since 1970-01-01.
pub(crate) fn format_date(days: i32) -> String {
    let mut text = String::with_capacity(10);
    push_date(&mut text, &Civil::from_days(i64::from(days)));
    text
}

/// A point and the digits of a fraction of a second without trailing zeros; nothing when it is zero.
pub(crate) fn push_fraction(text: &mut String, micros: i64) {
    if micros != 0 {
        let digits = format!("{micros:06}");
        text.push('.');
        text.push_str(digits.trim_end_matches('0'));
    }
}

fn push_date(text: &mut String, civil: &Civil) {
    push_year(text, civil.year);
    let _ = write!(text, "-{:02}-{:02}", civil.month, civil.day);
}

/// At least four digits, with a sign when they are more or the year is negative.
fn push_year(text: &mut String, year: i64) {
    let _ = match year {
        ..0 => write!(text, "-{:04}", year.unsigned_abs()),
        0..=9999 => write!(text, "{year:04}"),
        _ => write!(text, "+{year}"),
    };
}
