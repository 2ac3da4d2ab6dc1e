//! Formatting a moment by a compiled pattern.

use std::fmt::Write;

use millstream_core::{Error, Result};

use super::super::super::{TimeZone, faults};
use super::super::{civil, words};
use super::{Field, Item, Moment, Number, Sign, offset, zone};

/// Days from 1858-11-17 to 1970-01-01.
const MODIFIED_JULIAN_DAY_OF_EPOCH: i64 = 40_587;

/// Appends a moment to `out`.
///
/// # Errors
/// A number with too many digits.
pub(super) fn write(items: &[Item], moment: &Moment, out: &mut String) -> Result<()> {
    for item in items {
        match item {
            Item::Literal(character) => out.push(*character),
            Item::Number(number) => write_number(number, moment, out)?,
            Item::Fraction { min, max } => write_fraction(*min, *max, moment, out),
            Item::Text { field, short } => out.push_str(text(*field, *short, moment)),
            Item::Offset(style) => style.write(offset_of(moment), out),
            Item::LocalizedOffset { full } => offset::write_localized(offset_of(moment), *full, out),
            Item::ZoneId => {
                let _ = write!(out, "{}", moment.zone);
            }
            Item::ZoneName { full, generic } => out.push_str(&zone::name(moment.zone, moment.instant, *full, *generic)),
            Item::Optional(items) => write(items, moment, out)?,
        }
    }
    Ok(())
}

fn offset_of(moment: &Moment) -> i32 {
    match moment.zone {
        TimeZone::Offset(seconds) => seconds,
        zone => zone.offset_seconds_at(moment.instant),
    }
}

fn value(field: Field, moment: &Moment) -> i64 {
    let civil = &moment.civil;
    match field {
        Field::Era => i64::from(civil.year > 0),
        Field::YearOfEra => {
            if civil.year > 0 {
                civil.year
            } else {
                1 - civil.year
            }
        }
        Field::Year => civil.year,
        Field::Quarter => i64::from(civil.quarter()),
        Field::Month => i64::from(civil.month),
        Field::DayOfMonth => i64::from(civil.day),
        Field::DayOfYear => civil.day_of_year(),
        Field::DayOfWeek => civil::day_of_week(civil.days),
        Field::AlignedDayOfWeek => i64::from((civil.day - 1) % 7 + 1),
        Field::AmPm => civil.hour() / 12,
        Field::HourOfDay => civil.hour(),
        Field::ClockHourOfDay => {
            if civil.hour() == 0 {
                24
            } else {
                civil.hour()
            }
        }
        Field::HourOfAmPm => civil.hour() % 12,
        Field::ClockHourOfAmPm => {
            if civil.hour() % 12 == 0 {
                12
            } else {
                civil.hour() % 12
            }
        }
        Field::Minute => civil.minute(),
        Field::Second => civil.second(),
        Field::Nano => civil.micros() * 1_000,
        Field::ModifiedJulianDay => civil.days + MODIFIED_JULIAN_DAY_OF_EPOCH,
        Field::Offset => i64::from(offset_of(moment)),
    }
}

fn write_number(number: &Number, moment: &Moment, out: &mut String) -> Result<()> {
    let value = value(number.field, moment);
    if number.two_digits {
        let _ = write!(out, "{:02}", value.unsigned_abs() % 100);
        return Ok(());
    }
    let digits = value.unsigned_abs().to_string();
    if digits.len() > number.max {
        return Err(too_long(value, number.max));
    }
    match number.sign {
        Sign::Normal | Sign::ExceedsPad if value < 0 => out.push('-'),
        Sign::ExceedsPad if digits.len() > number.min => out.push('+'),
        Sign::Never if value < 0 => return Err(too_long(value, number.max)),
        _ => {}
    }
    for _ in digits.len()..number.min {
        out.push('0');
    }
    out.push_str(&digits);
    Ok(())
}

fn too_long(value: i64, digits: usize) -> Error {
    let message = format!("{value} cannot be written in {digits} digits: use a longer pattern");
    faults::row("DATETIME_FIELD_OUT_OF_BOUNDS.WITHOUT_SUGGESTION", "22023", message)
}

fn write_fraction(min: usize, max: usize, moment: &Moment, out: &mut String) {
    let digits = format!("{:09}", moment.civil.micros() * 1_000);
    let needed = digits.trim_end_matches('0').len();
    out.push_str(digits.get(..needed.clamp(min, max)).unwrap_or(&digits));
}

fn text(field: Field, short: bool, moment: &Moment) -> &'static str {
    match (field, value(field, moment)) {
        (Field::Month, month) => words::month(u32::try_from(month).unwrap_or_default(), short),
        (Field::DayOfWeek, day) => words::day_of_week(day, short),
        (Field::Quarter, quarter) => words::quarter(quarter, short),
        (Field::Era, era) => words::era(era, short),
        (Field::AmPm, half) => words::half_of_day(half),
        _ => "",
    }
}
