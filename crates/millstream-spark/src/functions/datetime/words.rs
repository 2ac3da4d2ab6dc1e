//! English names of months, days, eras and quarters.

const MONTHS: [&str; 12] =
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// The name of a month, from 1; its first three letters if short.
pub(super) fn month(month: u32, short: bool) -> &'static str {
    named(&MONTHS, i64::from(month) - 1, short)
}

/// The name of a day of the week, Monday = 1; its first three letters if short.
pub(super) fn day_of_week(day: i64, short: bool) -> &'static str {
    named(&DAYS, day - 1, short)
}

/// The month of a name in any case, from 1.
pub(super) fn month_named(text: &str, short: bool) -> Option<(i64, usize)> {
    longest(&MONTHS, text, short)
}

fn named(names: &[&'static str], index: i64, short: bool) -> &'static str {
    let name = usize::try_from(index).ok().and_then(|index| names.get(index)).copied().unwrap_or_default();
    if short { name.get(..3).unwrap_or(name) } else { name }
}

/// Which of the names a text starts with, from 1, and the length of it; the longest one.
fn longest(names: &[&'static str], text: &str, short: bool) -> Option<(i64, usize)> {
    (1..)
        .zip(names)
        .filter_map(|(number, name)| {
            let name = if short { name.get(..3).unwrap_or(name) } else { name };
            let start = text.get(..name.len())?;
            start.eq_ignore_ascii_case(name).then_some((number, name.len()))
        })
        .max_by_key(|(_, length)| *length)
}

/// The name of a quarter: `Q1`, in full `1st quarter`.
pub(super) fn quarter(quarter: i64, short: bool) -> &'static str {
    match (quarter, short) {
        (1, true) => "Q1",
        (2, true) => "Q2",
        (3, true) => "Q3",
        (_, true) => "Q4",
        (1, false) => "1st quarter",
        (2, false) => "2nd quarter",
        (3, false) => "3rd quarter",
        (_, false) => "4th quarter",
    }
}

/// The name of an era: 0 is before Christ.
pub(super) fn era(era: i64, short: bool) -> &'static str {
    match (era, short) {
        (0, true) => "BC",
        (_, true) => "AD",
        (0, false) => "Before Christ",
        (_, false) => "Anno Domini",
    }
}

/// The era of a name in any case, and the name's length.
pub(super) fn era_named(text: &str, short: bool) -> Option<(i64, usize)> {
    [0, 1].into_iter().map(|value| (value, era(value, short))).find_map(|(value, name)| starts(text, name).then_some((value, name.len())))
}

/// The name of a half of the day: 0 is before noon.
pub(super) fn half_of_day(half: i64) -> &'static str {
    if half == 0 { "AM" } else { "PM" }
}

/// The half of the day of a name in any case, and the name's length.
pub(super) fn half_of_day_named(text: &str) -> Option<(i64, usize)> {
    [0, 1].into_iter().find(|half| starts(text, half_of_day(*half))).map(|half| (half, 2))
}

fn starts(text: &str, name: &str) -> bool {
    text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
}
