//! What was read from a text, and the date and time that it makes.

use super::super::datetime::{days_of, micros_of, micros_of_day};
use super::super::zone::Zone;

/// A field of a date or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The year, which may be negative.
    Year,
    /// The year of an era, from 1 on.
    YearOfEra,
    /// 0 before Christ, 1 after.
    Era,
    /// 1 to 12.
    Month,
    /// 1 to 31.
    Day,
    /// 1 to 366.
    DayOfYear,
    /// 0 to 23.
    Hour,
    /// 1 to 24.
    ClockHour,
    /// 0 to 11.
    HourOfHalf,
    /// 1 to 12.
    ClockHourOfHalf,
    /// 0 before noon, 1 after.
    HalfOfDay,
    /// 0 to 59.
    Minute,
    /// 0 to 59.
    Second,
    /// Billionths of a second.
    Nano,
    /// Seconds east of UTC.
    Offset,
}

const FIELDS: usize = Field::Offset as usize + 1;

/// The fields read so far.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    values: [Option<i64>; FIELDS],
    /// A zone by name.
    pub region: Option<Zone>,
}

impl Fields {
    /// Keeps a value. `None` when it is out of range or differs from an earlier one.
    pub fn set(&mut self, field: Field, value: i64) -> Option<()> {
        let range = match field {
            Field::Year => -999_999_999..=999_999_999,
            Field::YearOfEra => 1..=999_999_999,
            Field::Era | Field::HalfOfDay => 0..=1,
            Field::Month | Field::ClockHourOfHalf => 1..=12,
            Field::Day => 1..=31,
            Field::DayOfYear => 1..=366,
            Field::Hour => 0..=23,
            Field::ClockHour => 1..=24,
            Field::HourOfHalf => 0..=11,
            Field::Minute | Field::Second => 0..=59,
            Field::Nano => 0..=999_999_999,
            Field::Offset => -64_800..=64_800,
        };
        let slot = self.values.get_mut(field as usize)?;
        if !range.contains(&value) || slot.is_some_and(|before| before != value) {
            return None;
        }
        *slot = Some(value);
        Some(())
    }

    fn get(&self, field: Field) -> Option<i64> {
        self.values.get(field as usize).copied().flatten()
    }

    fn small(&self, field: Field, default: u32) -> Option<u32> {
        self.get(field).map_or(Some(default), |value| u32::try_from(value).ok())
    }

    /// The zone that the text names; a region wins over an offset.
    pub fn zone(&self) -> Option<Zone> {
        self.region.or_else(|| self.get(Field::Offset).and_then(|seconds| i32::try_from(seconds).ok()).map(Zone::Offset))
    }

    /// Days since 1970 of the date; fields that are absent are those of 1970-01-01.
    pub fn days(&self) -> Option<i64> {
        let year = match (self.get(Field::Year), self.get(Field::YearOfEra), self.get(Field::Era)) {
            (Some(year), _, _) => year,
            (None, Some(of_era), Some(0)) => 1 - of_era,
            (None, Some(of_era), Some(_)) => of_era,
            _ => 1970,
        };
        let (month, day) = (self.get(Field::Month), self.get(Field::Day));
        let Some(of_year) = self.get(Field::DayOfYear) else {
            return days_of(year, self.small(Field::Month, 1)?, self.small(Field::Day, 1)?);
        };
        let days = days_of(year, 1, 1)? + of_year - 1;
        let within = days < days_of(year + 1, 1, 1)?;
        // Month and day, where the text has them too, must name the same day.
        let agrees = match (month, day) {
            (None, None) => true,
            (Some(month), None) => {
                let month = u32::try_from(month).ok()?;
                days >= days_of(year, month, 1)? && (month == 12 || days < days_of(year, month + 1, 1)?)
            }
            (None, Some(day)) => (1..=12).any(|month| u32::try_from(day).ok().and_then(|day| days_of(year, month, day)) == Some(days)),
            (Some(month), Some(day)) => days_of(year, u32::try_from(month).ok()?, u32::try_from(day).ok()?) == Some(days),
        };
        (within && agrees).then_some(days)
    }

    fn hour(&self) -> Option<u32> {
        let half = self.small(Field::HalfOfDay, 0)?;
        let of_half = match (self.get(Field::HourOfHalf), self.get(Field::ClockHourOfHalf)) {
            (Some(hour), _) => Some(hour),
            (None, Some(clock)) => Some(clock % 12),
            (None, None) => None,
        };
        let of_day = self.get(Field::Hour).or_else(|| self.get(Field::ClockHour).map(|clock| clock % 24));
        match (of_day, of_half) {
            (Some(hour), _) => {
                let hour = u32::try_from(hour).ok()?;
                // A half of the day that contradicts the hour is malformed.
                (self.get(Field::HalfOfDay).is_none() || hour / 12 == half).then_some(hour)
            }
            (None, Some(hour)) => Some(half * 12 + u32::try_from(hour).ok()?),
            (None, None) => Some(half * 12),
        }
    }

    /// Microseconds since 1970 of the local time; digits behind the microseconds are cut off.
    pub fn local_micros(&self) -> Option<i64> {
        let of_day =
            micros_of_day(self.hour()?, self.small(Field::Minute, 0)?, self.small(Field::Second, 0)?, self.small(Field::Nano, 0)? / 1000)?;
        micros_of(self.days()?, of_day)
    }
}
