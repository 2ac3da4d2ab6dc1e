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
