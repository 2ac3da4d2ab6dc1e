//! Instants and dates moved by months, days and microseconds, as a wall clock of a zone counts them.

use millstream_core::Result;

use super::super::{TimeZone, faults};
use super::civil::{self, MICROS_PER_DAY};

/// A date some months later; the last of the month where the month is too short.
///
/// # Errors
/// `ARITHMETIC_OVERFLOW` when it can be no `DATE`.
pub(crate) fn date_by_months(days: i32, months: i64) -> Result<i32> {
    i32::try_from(civil::add_months(i64::from(days), months)).map_err(|_| faults::overflow("the date is out of range"))
}

/// An instant moved by months, then by days of the wall clock, then by microseconds. `None` when it leaves the range.
pub(crate) fn instant(micros: i64, months: i64, days: i64, time: i64, zone: TimeZone) -> Option<i64> {
    let moved = if months == 0 && days == 0 {
        micros
    } else {
        let offset = zone.offset_seconds_at(micros);
        let local = zone.instant_to_local(micros);
        let date = civil::add_months(civil::days_of(local), months).checked_add(days)?;
        let local = date.checked_mul(MICROS_PER_DAY)?.checked_add(local.rem_euclid(MICROS_PER_DAY))?;
        zone.local_to_instant_preferring(local, offset)
    };
    moved.checked_add(time)
}

/// An instant moved by a duration: whole days are days of the wall clock.
pub(crate) fn instant_by_duration(micros: i64, duration: i64, zone: TimeZone) -> Option<i64> {
    instant(micros, 0, duration / MICROS_PER_DAY, duration % MICROS_PER_DAY, zone)
}
