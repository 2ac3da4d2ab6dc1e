//! Bringing the fields of a text together to a date, a time and a zone, in the strict style of `java.time`: fields that contradict each
//! other or are out of range make no time. What is missing is 1970-01-01 and midnight.

use super::super::super::TimeZone;
use super::super::civil::{self, MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE, MICROS_PER_SECOND};
use super::{Field, Parsed};

/// What a text says when its fields are brought together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    /// Days since 1970-01-01.
    pub days: i64,
    /// Microseconds since midnight.
    pub micros: i64,
    /// The zone or offset that the text names.
    pub zone: Option<TimeZone>,
}

impl Time {
    /// Microseconds since 1970-01-01 00:00:00 of the wall clock.
    pub(super) fn local_micros(&self) -> Option<i64> {
        self.days.checked_mul(MICROS_PER_DAY)?.checked_add(self.micros)
    }
}

/// Hours, minutes, seconds and nanoseconds.
type Clock = [i64; 4];

/// Brings fields together; `None` when there is no such time.
pub(super) fn resolve(parsed: Parsed) -> Option<Time> {
    let mut fields = Fields(parsed);
    let date = fields.date()?;
    fields.hours()?;
    let clock = fields.clock()?;
    if let Some(days) = date {
        fields.agree_with_date(days)?;
    }
    if let Some(clock) = clock {
        fields.agree_with_clock(clock)?;
    }
    let days = match date {
        Some(days) => days,
        None => {
            let [year, month, day] =
                [(Field::Year, 1970), (Field::Month, 1), (Field::DayOfMonth, 1)].map(|(field, or)| fields.get(field).unwrap_or(or));
            i64::from(civil::checked_days(year, month, day)?)
        }
    };
    let [hour, minute, second, nano] = match clock {
        Some(clock) => clock,
        None => {
            let hour = match (fields.get(Field::HourOfDay).or(fields.get(Field::HourOfAmPm)), fields.get(Field::AmPm)) {
                (Some(hour), _) => hour,
                (None, Some(1)) => 12,
                (None, _) => 0,
            };
            let [minute, second, nano] = [Field::Minute, Field::Second, Field::Nano].map(|field| fields.get(field).unwrap_or(0));
            [hour, minute, second, nano]
        }
    };
    let micros = hour * MICROS_PER_HOUR + minute * MICROS_PER_MINUTE + second * MICROS_PER_SECOND + nano / 1_000;
    let offset = match fields.get(Field::Offset) {
        Some(seconds) if seconds.abs() > 18 * 3_600 => return None,
        Some(seconds) => Some(TimeZone::Offset(i32::try_from(seconds).ok()?)),
        None => None,
    };
    Some(Time { days, micros, zone: fields.0.zone.or(offset) })
}

struct Fields(Parsed);

impl Fields {
    fn get(&self, field: Field) -> Option<i64> {
        self.0.fields.get(&field).copied()
    }

    fn take(&mut self, field: Field) -> Option<i64> {
        self.0.fields.remove(&field)
    }

    /// Sets a field that follows from others; one that is there already must agree.
    fn derive(&mut self, field: Field, value: i64) -> Option<()> {
        let earlier = self.0.fields.insert(field, value);
        earlier.is_none_or(|earlier| earlier == value).then_some(())
    }

    /// The date, if the fields make one: `Some(None)` when they do not say enough.
    fn date(&mut self) -> Option<Option<i64>> {
        if let Some(day) = self.take(Field::ModifiedJulianDay) {
            return Some(Some(day - 40_587));
        }
        match (self.take(Field::YearOfEra), self.get(Field::Era)) {
            (Some(year), Some(era)) => {
                self.take(Field::Era);
                if !(1..=1_000_000_000).contains(&year) {
                    return None;
                }
                self.derive(Field::Year, if era == 1 { year } else { 1 - year })?;
            }
            (Some(year), None) => self.derive(Field::Year, year)?,
            _ => {}
        }
        if self.get(Field::DayOfYear).is_some() {
            self.0.fields.entry(Field::Year).or_insert(1970);
        }
        let Some(year) = self.get(Field::Year) else { return Some(None) };
        if let (Some(month), Some(day)) = (self.get(Field::Month), self.get(Field::DayOfMonth)) {
            for field in [Field::Year, Field::Month, Field::DayOfMonth] {
                self.take(field);
            }
            return civil::checked_days(year, month, day).map(|days| Some(i64::from(days)));
        }
        if let Some(day) = self.get(Field::DayOfYear) {
            self.take(Field::Year);
            self.take(Field::DayOfYear);
            let length = if civil::is_leap(year) { 366 } else { 365 };
            let first = i64::from(civil::checked_days(year, 1, 1)?);
            return (1..=length).contains(&day).then_some(Some(first + day - 1));
        }
        Some(None)
    }

    /// Hours of halves of a day and hours that count from one become hours of the day.
    fn hours(&mut self) -> Option<()> {
        if let Some(hour) = self.take(Field::ClockHourOfDay) {
            in_range(hour, 1, 24)?;
            self.derive(Field::HourOfDay, hour % 24)?;
        }
        if let Some(hour) = self.take(Field::ClockHourOfAmPm) {
            in_range(hour, 1, 12)?;
            self.derive(Field::HourOfAmPm, hour % 12)?;
        }
        if let (Some(half), Some(hour)) = (self.get(Field::AmPm), self.get(Field::HourOfAmPm)) {
            self.take(Field::AmPm);
            self.take(Field::HourOfAmPm);
            in_range(hour, 0, 11)?;
            self.derive(Field::HourOfDay, half * 12 + hour)?;
        }
        Some(())
    }

    /// The time of day, if there is an hour and no gap in what follows it: `Some(None)` when there is none.
    fn clock(&mut self) -> Option<Option<Clock>> {
        let parts = [Field::HourOfDay, Field::Minute, Field::Second, Field::Nano];
        let limits = [23, 59, 59, 999_999_999];
        let values = parts.map(|field| self.get(field));
        let complete = values.iter().skip_while(|value| value.is_some()).all(Option::is_none);
        for (value, limit) in values.iter().zip(limits) {
            if let Some(value) = value {
                in_range(*value, 0, limit)?;
            }
        }
        if values[0].is_none() || !complete {
            if let Some(hour) = self.get(Field::HourOfAmPm) {
                in_range(hour, 0, 11)?;
            }
            return Some(None);
        }
        for field in parts {
            self.take(field);
        }
        Some(Some(values.map(|value| value.unwrap_or(0))))
    }

    /// What remains must be what the date says.
    fn agree_with_date(&self, days: i64) -> Option<()> {
        let date = civil::Civil::from_days(days);
        let agrees = |field: &Field, value: i64| match field {
            Field::Era => value == i64::from(date.year > 0),
            Field::YearOfEra => value == if date.year > 0 { date.year } else { 1 - date.year },
            Field::Year => value == date.year,
            Field::Quarter => value == i64::from(date.quarter()),
            Field::Month => value == i64::from(date.month),
            Field::DayOfMonth => value == i64::from(date.day),
            Field::DayOfYear => value == date.day_of_year(),
            Field::DayOfWeek => value == civil::day_of_week(days),
            Field::AlignedDayOfWeek => value == i64::from((date.day - 1) % 7 + 1),
            _ => true,
        };
        self.0.fields.iter().all(|(field, value)| agrees(field, *value)).then_some(())
    }

    /// What remains must be what the time of day says.
    fn agree_with_clock(&self, clock: Clock) -> Option<()> {
        let hour = clock[0];
        let agrees = |field: &Field, value: i64| match field {
            Field::AmPm => value == hour / 12,
            Field::HourOfAmPm => value == hour % 12,
            _ => true,
        };
        self.0.fields.iter().all(|(field, value)| agrees(field, *value)).then_some(())
    }
}

fn in_range(value: i64, least: i64, most: i64) -> Option<()> {
    (least..=most).contains(&value).then_some(())
}
