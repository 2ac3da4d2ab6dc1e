//! The proleptic Gregorian calendar over days and microseconds since 1970-01-01, for every value of their types.

/// Microseconds in a second.
pub(crate) const MICROS_PER_SECOND: i64 = 1_000_000;
/// Microseconds in a minute.
pub(crate) const MICROS_PER_MINUTE: i64 = 60 * MICROS_PER_SECOND;
/// Microseconds in an hour.
pub(crate) const MICROS_PER_HOUR: i64 = 60 * MICROS_PER_MINUTE;
/// Microseconds in a day of 24 hours.
pub(crate) const MICROS_PER_DAY: i64 = 24 * MICROS_PER_HOUR;

/// A date and a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    /// Days since 1970-01-01.
    pub days: i64,
    /// The astronomical year: 0 is 1 BC.
    pub year: i64,
    /// From 1.
    pub month: u32,
    /// Day of the month, from 1.
    pub day: u32,
    /// Microseconds since midnight.
    pub micros_of_day: i64,
}

impl Civil {
    /// What a wall clock shows, microseconds since 1970-01-01 00:00:00 of that clock.
    pub(crate) fn from_micros(local_micros: i64) -> Civil {
        let mut civil = Civil::from_days(days_of(local_micros));
        civil.micros_of_day = local_micros.rem_euclid(MICROS_PER_DAY);
        civil
    }

    /// Midnight of a day.
    pub(crate) fn from_days(days: i64) -> Civil {
        let (year, month, day) = civil_from_days(days);
        Civil { days, year, month, day, micros_of_day: 0 }
    }

    pub(crate) fn hour(&self) -> i64 {
        self.micros_of_day / MICROS_PER_HOUR
    }

    pub(crate) fn minute(&self) -> i64 {
        self.micros_of_day / MICROS_PER_MINUTE % 60
    }

    pub(crate) fn second(&self) -> i64 {
        self.micros_of_day / MICROS_PER_SECOND % 60
    }

    /// Microseconds of the second.
    pub(crate) fn micros(&self) -> i64 {
        self.micros_of_day % MICROS_PER_SECOND
    }

    pub(crate) fn day_of_year(&self) -> i64 {
        self.days - days_from_civil(self.year, 1, 1) + 1
    }

    pub(crate) fn quarter(&self) -> u32 {
        (self.month - 1) / 3 + 1
    }
}

/// The day that a wall clock shows.
pub(crate) fn days_of(local_micros: i64) -> i64 {
    local_micros.div_euclid(MICROS_PER_DAY)
}

/// The year that a day is in.
pub(crate) fn year_of(days: i64) -> i64 {
    civil_from_days(days).0
}

/// Whether a year has a 29th of February.
pub(crate) fn is_leap(year: i64) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

/// Days of a month, which counts from 1.
pub(crate) fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Whether there is such a date.
pub(crate) fn is_valid(year: i64, month: i64, day: i64) -> bool {
    match u32::try_from(month) {
        Ok(number @ 1..=12) => (1..=i64::from(days_in_month(year, number))).contains(&day),
        _ => false,
    }
}

/// Days since 1970-01-01 of a date that there is.
pub(crate) fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    // Years are counted from March, so that the leap day is the last of its year; 400 of them are an era of 146,097 days.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Days since 1970-01-01, if there is such a date and it can be a `DATE`.
pub(crate) fn checked_days(year: i64, month: i64, day: i64) -> Option<i32> {
    if !is_valid(year, month, day) {
        return None;
    }
    i32::try_from(days_from_civil(year, u32::try_from(month).ok()?, u32::try_from(day).ok()?)).ok()
}

/// The year, month and day of the month of a day.
pub(crate) fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month = ((month_from_march + 2) % 12 + 1) as u32;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

/// The day of the week, Monday = 1 to Sunday = 7.
pub(crate) fn day_of_week(days: i64) -> i64 {
    (days + 3).rem_euclid(7) + 1
}

/// The ISO 8601 week of a day and the year that the week belongs to.
pub(crate) fn iso_week(days: i64) -> (i64, i64) {
    // A week belongs to the year of its Thursday.
    let thursday = days - (day_of_week(days) - 1) + 3;
    let year = year_of(thursday);
    ((thursday - days_from_civil(year, 1, 1)) / 7 + 1, year)
}

/// The day some months later; the last of the month where the month is too short.
pub(crate) fn add_months(days: i64, months: i64) -> i64 {
    let (year, month, day) = civil_from_days(days);
    let total = year * 12 + i64::from(month - 1) + months;
    let (year, month) = (total.div_euclid(12), total.rem_euclid(12) as u32 + 1);
    days_from_civil(year, month, day.min(days_in_month(year, month)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_days_both_ways() {
        let cases = [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (11_016, (2000, 2, 29)),
            (-719_528, (0, 1, 1)),
            (-719_529, (-1, 12, 31)),
            (-141_428, (1582, 10, 14)),
            (i64::from(i32::MAX), (5_881_580, 7, 11)),
            (i64::from(i32::MIN), (-5_877_641, 6, 23)),
        ];
        for (days, (year, month, day)) in cases {
            assert_eq!(civil_from_days(days), (year, month, day));
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }

    #[test]
    fn weeks_belong_to_the_year_of_their_thursday() {
        for (date, expected) in
            [((2021, 1, 3), (53, 2020)), ((2021, 1, 4), (1, 2021)), ((2018, 12, 31), (1, 2019)), ((2016, 1, 1), (53, 2015))]
        {
            assert_eq!(iso_week(days_from_civil(date.0, date.1, date.2)), expected, "{date:?}");
        }
    }

    #[test]
    fn months_end_early_where_they_are_short() {
        for (date, months, expected) in
            [((2024, 1, 31), 1, (2024, 2, 29)), ((2024, 1, 31), -2, (2023, 11, 30)), ((2024, 2, 29), 12, (2025, 2, 28))]
        {
            assert_eq!(civil_from_days(add_months(days_from_civil(date.0, date.1, date.2), months)), expected);
        }
    }
}
