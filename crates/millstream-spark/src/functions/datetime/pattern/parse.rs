//! Reading a text by a compiled pattern, before its fields are brought together.

use super::super::words;
use super::{Field, Item, Number, Parsed, Sign, offset, zone};

/// The fields of a text; `None` when it does not match the pattern to its end.
pub(super) fn read(items: &[Item], text: &str) -> Option<Parsed> {
    let mut parsed = Parsed::default();
    let rest = sequence(items, text, &mut parsed)?;
    rest.is_empty().then_some(parsed)
}

/// Reads items from the start of a text and returns what is left of it.
fn sequence<'t>(items: &[Item], text: &'t str, parsed: &mut Parsed) -> Option<&'t str> {
    items.iter().try_fold(text, |rest, item| one(item, rest, parsed))
}

fn one<'t>(item: &Item, text: &'t str, parsed: &mut Parsed) -> Option<&'t str> {
    match item {
        Item::Literal(expected) => {
            let mut rest = text.chars();
            let found = rest.next()?;
            same(found, *expected).then_some(rest.as_str())
        }
        Item::Number(item) => number(item, text, parsed),
        Item::Fraction { min, max } => fraction(*min, *max, text, parsed),
        Item::Text { field, short } => {
            let (value, length) = match field {
                Field::Month => words::month_named(text, *short)?,
                Field::Era => words::era_named(text, *short)?,
                Field::AmPm => words::half_of_day_named(text)?,
                _ => return None,
            };
            set(parsed, *field, value)?;
            text.get(length..)
        }
        Item::Offset(style) => {
            let (seconds, length) = style.read(text)?;
            set(parsed, Field::Offset, seconds)?;
            text.get(length..)
        }
        Item::LocalizedOffset { full } => {
            let (seconds, length) = offset::read_localized(text, *full)?;
            set(parsed, Field::Offset, seconds)?;
            text.get(length..)
        }
        Item::ZoneId => zoned(zone::read_id(text)?, text, parsed),
        Item::ZoneName { full, .. } => zoned(zone::read_name(text, *full)?, text, parsed),
        Item::Optional(items) => {
            let mut attempt = parsed.clone();
            match sequence(items, text, &mut attempt) {
                Some(rest) => {
                    *parsed = attempt;
                    Some(rest)
                }
                None => Some(text),
            }
        }
    }
}

fn zoned<'t>((zone, length): (super::TimeZone, usize), text: &'t str, parsed: &mut Parsed) -> Option<&'t str> {
    parsed.zone = Some(zone);
    text.get(length..)
}

/// Sets a field, which must not have another value already.
fn set(parsed: &mut Parsed, field: Field, value: i64) -> Option<()> {
    let earlier = parsed.fields.insert(field, value);
    earlier.is_none_or(|earlier| earlier == value).then_some(())
}

/// Whether two characters are the same but for their case.
fn same(left: char, right: char) -> bool {
    left == right || left.to_lowercase().eq(right.to_lowercase()) || left.to_uppercase().eq(right.to_uppercase())
}

fn number<'t>(item: &Number, text: &'t str, parsed: &mut Parsed) -> Option<&'t str> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' if item.sign == Sign::ExceedsPad => (Some('+'), text.get(1..)?),
        b'-' if item.sign != Sign::Never => (Some('-'), text.get(1..)?),
        b'+' | b'-' => return None,
        _ => (None, text),
    };
    let run = |limit: usize| digits.bytes().take(limit).take_while(u8::is_ascii_digit).count();
    let mut length = run(item.max + item.leaves);
    if length < item.min {
        return None;
    }
    if item.leaves > 0 {
        length = run(item.min.max(length.saturating_sub(item.leaves)));
    }
    let (number, rest) = digits.split_at_checked(length)?;
    let mut value: i64 = number.parse().ok()?;
    match sign {
        Some('-') if value == 0 => return None,
        Some('-') => value = -value,
        // A plus sign says that there are more digits than the least number, and they need one.
        Some(_) if length <= item.min => return None,
        None if item.sign == Sign::ExceedsPad && length > item.min => return None,
        _ => {}
    }
    if item.two_digits {
        value += 2_000;
    }
    set(parsed, item.field, value)?;
    Some(rest)
}

fn fraction<'t>(min: usize, max: usize, text: &'t str, parsed: &mut Parsed) -> Option<&'t str> {
    let length = text.bytes().take(max).take_while(u8::is_ascii_digit).count();
    if length < min {
        return None;
    }
    let (digits, rest) = text.split_at_checked(length)?;
    let nanos = (length..9).fold(digits.parse::<i64>().ok()?, |value, _| value * 10);
    set(parsed, Field::Nano, nanos)?;
    Some(rest)
}
