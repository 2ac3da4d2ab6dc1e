//! Dates and timestamps to text: Spark's default forms, and patterns of Java's `DateTimeFormatter` as far as Spark takes them.

use std::fmt::Write;

use chrono::offset::{Offset, TimeZone};
use chrono::{DateTime, Utc};
use millstream_core::{Error, Options, Result};

use super::pattern::Pattern;
use crate::formats::values::Zone;

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// A moment on the calendar and the clock, in the proleptic Gregorian calendar that Spark uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(super) year: i64,
    pub(super) month: u32,
    pub(super) day: u32,
    /// Days since 1970-01-01.
    pub(super) epoch_day: i64,
    /// `None` for a date.
    pub(super) time: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time {
    pub(super) second_of_day: u32,
    pub(super) micros: u32,
    /// Seconds east of UTC, `None` for a local time.
    pub(super) offset: Option<i32>,
}

impl Moment {
    pub(crate) fn of_day(epoch_day: i64) -> Self {
        let (year, month, day) = civil(epoch_day);
        Moment { year, month, day, epoch_day, time: None }
    }

    /// The moment of microseconds since 1970; `zone` turns an instant into local time, without it they are local already.
    pub(crate) fn of_micros(micros: i64, zone: Option<Zone>) -> Self {
        let offset = zone.map(|zone| offset_at(zone, micros));
        let local = i128::from(micros) + i128::from(offset.unwrap_or(0)) * i128::from(MICROS_PER_SECOND);
        let seconds = local.div_euclid(i128::from(MICROS_PER_SECOND));
        let fraction = local.rem_euclid(i128::from(MICROS_PER_SECOND));
        let day = seconds.div_euclid(i128::from(SECONDS_PER_DAY));
        let second_of_day = seconds.rem_euclid(i128::from(SECONDS_PER_DAY));
        let time = Time { second_of_day: u32::try_from(second_of_day).unwrap_or(0), micros: u32::try_from(fraction).unwrap_or(0), offset };
        Moment { time: Some(time), ..Moment::of_day(i64::try_from(day).unwrap_or(0)) }
    }
}

/// Year, month and day of a day counted from 1970-01-01.
fn civil(epoch_day: i64) -> (i64, u32, u32) {
    // Years that begin in March put the leap day last; 400 of them have 146 097 days.
    let shifted = epoch_day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, u32::try_from(month).unwrap_or(1), u32::try_from(day).unwrap_or(1))
}

/// Seconds east of UTC at an instant. Beyond chrono's calendar the offset of its edge applies.
fn offset_at(zone: Zone, micros: i64) -> i32 {
    match zone {
        Zone::Offset(seconds) => seconds,
        Zone::Region(region) => region.offset_from_utc_datetime(&utc(micros).naive_utc()).fix().local_minus_utc(),
    }
}

pub(super) fn utc(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(micros).unwrap_or(if micros < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC })
}

/// How a writer shows dates and timestamps: the options `dateFormat`, `timestampFormat`, `timestampNTZFormat` and `timeZone`.
#[derive(Clone, Debug)]
pub(crate) struct DateTimeText {
    zone: Zone,
    form: Form,
    date: Option<Pattern>,
    timestamp: Option<Pattern>,
    timestamp_ntz: Option<Pattern>,
}

/// What is shown where no pattern says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `2024-01-02T03:04:05.123Z`, what Spark's JSON and CSV writers give.
    Iso,
    /// `2024-01-02 03:04:05.123456` without trailing zeros, what `CAST … AS STRING` gives.
    Cast,
}

impl DateTimeText {
    /// What the options of a JSON or CSV writer ask for; UTC where they name no zone.
    ///
    /// # Errors
    /// `INVALID_TIMEZONE`; those of [`Pattern::compile`].
    pub(crate) fn from_options(options: &Options) -> Result<Self> {
        let pattern = |name: &str| options.get(name).map(Pattern::compile).transpose();
        Ok(DateTimeText {
            zone: zone_of(options)?,
            form: Form::Iso,
            date: pattern("dateFormat")?,
            timestamp: pattern("timestampFormat")?,
            timestamp_ntz: pattern("timestampNTZFormat")?,
        })
    }

    /// What `CAST … AS STRING` gives in the zone that the options name.
    ///
    /// # Errors
    /// `INVALID_TIMEZONE`.
    pub(crate) fn cast(options: &Options) -> Result<Self> {
        Ok(DateTimeText { zone: zone_of(options)?, form: Form::Cast, date: None, timestamp: None, timestamp_ntz: None })
    }

    /// What `CAST … AS STRING` gives in UTC.
    pub(crate) fn cast_in_utc() -> Self {
        DateTimeText { zone: Zone::UTC, form: Form::Cast, date: None, timestamp: None, timestamp_ntz: None }
    }

    /// What `CAST … AS STRING` gives in the same zone.
    pub(super) fn plain(&self) -> Self {
        DateTimeText { zone: self.zone, ..Self::cast_in_utc() }
    }

    /// Appends how far the zone's clock is from UTC at an instant, `+01:00`.
    pub(super) fn offset(&self, micros: i64, out: &mut String) {
        let minutes = offset_at(self.zone, micros) / 60;
        let sign = if minutes < 0 { '-' } else { '+' };
        let _ = write!(out, "{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60);
    }

    /// Appends the text of a date, days since 1970.
    ///
    /// # Errors
    /// `UNSUPPORTED_DATETIME_FIELD` when the pattern has a field that a date lacks.
    pub(crate) fn date(&self, days: i32, out: &mut String) -> Result<()> {
        let moment = Moment::of_day(i64::from(days));
        match &self.date {
            Some(pattern) => pattern.write(&moment, None, out),
            None => {
                date(&moment, out);
                Ok(())
            }
        }
    }

    /// Appends the text of an instant, microseconds since 1970.
    ///
    /// # Errors
    /// As [`DateTimeText::date`].
    pub(crate) fn timestamp(&self, micros: i64, out: &mut String) -> Result<()> {
        let moment = Moment::of_micros(micros, Some(self.zone));
        match &self.timestamp {
            Some(pattern) => pattern.write(&moment, Some((self.zone, micros)), out),
            None => {
                self.date_and_time(&moment, out);
                Ok(())
            }
        }
    }

    /// Appends the text of a local time, microseconds since 1970.
    ///
    /// # Errors
    /// As [`DateTimeText::date`].
    pub(crate) fn timestamp_ntz(&self, micros: i64, out: &mut String) -> Result<()> {
        let moment = Moment::of_micros(micros, None);
        match &self.timestamp_ntz {
            Some(pattern) => pattern.write(&moment, None, out),
            None => {
                self.date_and_time(&moment, out);
                Ok(())
            }
        }
    }

    fn date_and_time(&self, moment: &Moment, out: &mut String) {
        date(moment, out);
        let Some(time) = moment.time else { return };
        out.push(if self.form == Form::Iso { 'T' } else { ' ' });
        let second = time.second_of_day;
        // Writing to a string does not fail.
        let _ = write!(out, "{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
        match self.form {
            Form::Iso => {
                let _ = write!(out, ".{:03}", time.micros / 1000);
                if let Some(offset) = time.offset {
                    iso_offset(offset, out);
                }
            }
            Form::Cast if time.micros > 0 => {
                let fraction = format!(".{:06}", time.micros);
                out.push_str(fraction.trim_end_matches('0'));
            }
            Form::Cast => {}
        }
    }
}

fn zone_of(options: &Options) -> Result<Zone> {
    let Some(id) = options.get("timeZone") else { return Ok(Zone::UTC) };
    Zone::parse(id.trim()).ok_or_else(|| {
        Error::invalid("INVALID_TIMEZONE", format!("option 'timeZone' is '{id}': use a region such as Europe/Prague or an offset"))
            .with_sqlstate("22009")
    })
}

/// `2024-01-02`; years of more than four digits have a sign.
fn date(moment: &Moment, out: &mut String) {
    year(moment.year, 4, out);
    let _ = write!(out, "-{:02}-{:02}", moment.month, moment.day);
}

/// A year padded to `digits`, with a sign when it is negative or longer.
pub(super) fn year(year: i64, digits: usize, out: &mut String) {
    let text = format!("{:0digits$}", year.unsigned_abs());
    if year < 0 {
        out.push('-');
    } else if text.len() > digits && digits >= 4 {
        out.push('+');
    }
    out.push_str(&text);
}

/// `Z`, `+01:00`, or with seconds where an offset has them.
fn iso_offset(offset: i32, out: &mut String) {
    if offset == 0 {
        out.push('Z');
        return;
    }
    let seconds = offset.unsigned_abs();
    let sign = if offset < 0 { '-' } else { '+' };
    let _ = write!(out, "{sign}{:02}:{:02}", seconds / 3600, seconds / 60 % 60);
    if !seconds.is_multiple_of(60) {
        let _ = write!(out, ":{:02}", seconds % 60);
    }
}
