//! Dates and timestamps: the forms that `CAST` takes, and the formats that reader options choose.

use millstream_core::{Error, Options, Result};

use super::pattern::DateTimePattern;
use super::zone::Zone;

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// How a reader turns text into dates and timestamps: the options `dateFormat`, `timestampFormat`, `timestampNTZFormat`, `timeZone` and
/// `enableDateTimeParsingFallback`.
#[derive(Clone, Debug)]
pub struct DateTimeFormats {
    /// The zone of texts that name none.
    pub zone: Zone,
    date: Option<DateTimePattern>,
    timestamp: Option<DateTimePattern>,
    timestamp_ntz: Option<DateTimePattern>,
    date_fallback: bool,
    timestamp_fallback: bool,
}

impl DateTimeFormats {
    /// The formats that the options ask for. Without a format the forms of `CAST` are read; without a zone it is UTC.
    ///
    /// # Errors
    /// `INVALID_TIMEZONE`, `INVALID_DATETIME_PATTERN` and its subclasses, `INVALID_OPTION_VALUE`.
    pub fn from_options(options: &Options) -> Result<Self> {
        let zone = match options.get("timeZone") {
            None => Zone::UTC,
            Some(id) => Zone::parse(id.trim()).ok_or_else(|| {
                Error::invalid("INVALID_TIMEZONE", format!("option 'timeZone' is '{id}': use a region such as Europe/Prague or an offset"))
                    .with_sqlstate("22009")
            })?,
        };
        let pattern = |name: &str| options.get(name).map(DateTimePattern::compile).transpose();
        let date = pattern("dateFormat")?;
        let timestamp = pattern("timestampFormat")?;
        let fallback =
            options.get("enableDateTimeParsingFallback").map(|_| options.bool("enableDateTimeParsingFallback", false)).transpose()?;
        Ok(DateTimeFormats {
            zone,
            date_fallback: fallback.unwrap_or(date.is_none()),
            timestamp_fallback: fallback.unwrap_or(timestamp.is_none()),
            date,
            timestamp,
            timestamp_ntz: pattern("timestampNTZFormat")?,
        })
    }

    /// A date as days since 1970.
    pub fn date(&self, text: &str) -> Option<i32> {
        let read = match &self.date {
            None => parse_date(text),
            Some(pattern) => pattern.date(text),
        };
        if read.is_none() && self.date_fallback { parse_date(&without_gmt(text)) } else { read }
    }

    /// Whether a date that the format refuses is tried in older forms.
    pub fn date_falls_back(&self) -> bool {
        self.date_fallback
    }

    /// A timestamp as microseconds since 1970 in UTC.
    pub fn timestamp(&self, text: &str) -> Option<i64> {
        let read = match &self.timestamp {
            None => parse_timestamp(text, self.zone),
            Some(pattern) => pattern.timestamp(text, self.zone),
        };
        if read.is_none() && self.timestamp_fallback { parse_timestamp(&without_gmt(text), self.zone) } else { read }
    }

    /// A timestamp without zone as microseconds since 1970; text that names a zone is malformed.
    pub fn timestamp_ntz(&self, text: &str) -> Option<i64> {
        match &self.timestamp_ntz {
            None => parse_timestamp_ntz(text, false),
            Some(pattern) => pattern.timestamp_ntz(text),
        }
    }
}

/// The form that Spark 2 wrote, `…GMT+01:00`, without the `GMT`.
fn without_gmt(text: &str) -> String {
    text.replace("GMT", "")
}

/// Days since 1970 of a day of the proleptic Gregorian calendar, or `None` when there is no such day.
pub fn days_of(year: i64, month: u32, day: u32) -> Option<i64> {
    if !(1..=12).contains(&month) || day == 0 || day > days_in_month(year, month) || year.unsigned_abs() > 999_999_999 {
        return None;
    }
    // Years begin in March here, so that the leap day is the last of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let month = i64::from(month);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + i64::from(day) - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Microseconds since 1970 of a day and a time of day.
pub(super) fn micros_of(days: i64, micros_of_day: i64) -> Option<i64> {
    days.checked_mul(MICROS_PER_DAY)?.checked_add(micros_of_day)
}

/// Microseconds since midnight, or `None` when the clock has no such time.
pub(super) fn micros_of_day(hour: u32, minute: u32, second: u32, micros: u32) -> Option<i64> {
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(i64::from(hour * 3600 + minute * 60 + second) * MICROS_PER_SECOND + i64::from(micros))
}

/// A date in the forms of `CAST(… AS DATE)`: `yyyy`, `yyyy-[m]m`, `yyyy-[m]m-[d]d`, the last also followed by a space or `T` and anything;
/// years of up to seven digits with an optional sign; surrounding blanks are ignored.
pub fn parse_date(text: &str) -> Option<i32> {
    let mut scan = Scan::new(text);
    let (year, month, day, whole) = scan.date(7)?;
    let days = days_of(year, month, day)?;
    let ended = scan.rest().is_empty() || whole && matches!(scan.rest().first(), Some(b' ' | b'T'));
    if ended { i32::try_from(days).ok() } else { None }
}

/// A timestamp in the forms of `CAST(… AS TIMESTAMP)`: a date, then optionally a space or `T`, hours, minutes, seconds with a fraction, and
/// a zone; `zone` applies to text without one. Digits behind the microseconds are cut off.
pub fn parse_timestamp(text: &str, zone: Zone) -> Option<i64> {
    if let Some((local, named)) = usual_form(text.as_bytes()) {
        return if named { Some(local) } else { zone.instant(local) };
    }
    let (local, named) = local_and_zone(text)?;
    named.unwrap_or(zone).instant(local)
}

/// A timestamp without zone in the forms of `CAST(… AS TIMESTAMP_NTZ)`. A zone in the text is ignored or, unless `allow_zone`, refused.
pub fn parse_timestamp_ntz(text: &str, allow_zone: bool) -> Option<i64> {
    let (local, named) = local_and_zone(text)?;
    (allow_zone || named.is_none()).then_some(local)
}

/// `yyyy-mm-ddThh:mm:ss` with `T` or a space, up to nine fraction digits and `Z`: nearly all timestamps, read without looking for others.
/// Returns whether there was a `Z`.
fn usual_form(text: &[u8]) -> Option<(i64, bool)> {
    let (head, mut rest) = text.split_first_chunk::<19>()?;
    if head[4] != b'-' || head[7] != b'-' || (head[10] != b'T' && head[10] != b' ') || head[13] != b':' || head[16] != b':' {
        return None;
    }
    let two = |at: usize| -> Option<u32> {
        let (tens, ones) = (head.get(at)?.wrapping_sub(b'0'), head.get(at + 1)?.wrapping_sub(b'0'));
        (tens < 10 && ones < 10).then(|| u32::from(tens) * 10 + u32::from(ones))
    };
    let year = two(0)? * 100 + two(2)?;
    let days = days_of(i64::from(year), two(5)?, two(8)?)?;
    let mut micros = 0_u32;
    if let Some((b'.', digits)) = rest.split_first() {
        let mut count = 0;
        while let Some(digit) = digits.get(count).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10) {
            if count < 6 {
                micros = micros * 10 + u32::from(digit);
            }
            count += 1;
        }
        for _ in count..6 {
            micros *= 10;
        }
        rest = digits.get(count..)?;
    }
    let zulu = match rest {
        [] => false,
        [b'Z'] => true,
        _ => return None,
    };
    Some((micros_of(days, micros_of_day(two(11)?, two(14)?, two(17)?, micros)?)?, zulu))
}

fn local_and_zone(text: &str) -> Option<(i64, Option<Zone>)> {
    let mut scan = Scan::new(text);
    let (year, month, day, whole) = scan.date(6)?;
    let days = days_of(year, month, day)?;
    if scan.rest().is_empty() {
        return Some((micros_of(days, 0)?, None));
    }
    if !whole || !(scan.take(b' ') || scan.take(b'T')) {
        return None;
    }
    let (mut minute, mut second, mut micros, mut zone) = (0, 0, 0, None);
    let hour = scan.number(1, 2)?;
    if scan.take(b':') {
        minute = scan.number(1, 2)?;
        if scan.take(b':') {
            second = scan.number(1, 2)?;
            if scan.take(b'.') {
                micros = scan.fraction();
            }
            // Only a time with seconds may name a zone.
            if !scan.rest().is_empty() {
                let id = std::str::from_utf8(scan.rest()).ok()?;
                zone = Some(Zone::parse(id.trim())?);
                scan.at = scan.bytes.len();
            }
        }
    }
    if !scan.rest().is_empty() {
        return None;
    }
    Some((micros_of(days, micros_of_day(hour, minute, second, micros)?)?, zone))
}

/// Walks over the text of a date or time.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    /// Over `text` without surrounding blanks and control characters.
    fn new(text: &'a str) -> Self {
        Scan { bytes: text.trim_matches(|c: char| c <= ' ' || c == '\u{7f}').as_bytes(), at: 0 }
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    /// A number of `min` to `max` digits. More digits than that are no number.
    fn number(&mut self, min: usize, max: usize) -> Option<u32> {
        let start = self.at;
        let mut value = 0_u32;
        while let Some(digit) = self.bytes.get(self.at).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10) {
            if self.at - start == max {
                return None;
            }
            value = value * 10 + u32::from(digit);
            self.at += 1;
        }
        (self.at - start >= min).then_some(value)
    }

    /// The digits of a fraction of a second, as microseconds.
    fn fraction(&mut self) -> u32 {
        let (mut micros, mut count) = (0_u32, 0);
        while let Some(digit) = self.bytes.get(self.at).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10) {
            if count < 6 {
                micros = micros * 10 + u32::from(digit);
                count += 1;
            }
            self.at += 1;
        }
        for _ in count..6 {
            micros *= 10;
        }
        micros
    }

    /// Year, month and day, absent ones being 1, and whether the day was there.
    fn date(&mut self, year_digits: usize) -> Option<(i64, u32, u32, bool)> {
        let negative = self.take(b'-');
        if !negative {
            self.take(b'+');
        }
        let year = i64::from(self.number(4, year_digits)?);
        let (mut month, mut day, mut whole) = (1, 1, false);
        if self.take(b'-') {
            month = self.number(1, 2)?;
            if self.take(b'-') {
                day = self.number(1, 2)?;
                whole = true;
            }
        }
        Some((if negative { -year } else { year }, month, day, whole))
    }
}
