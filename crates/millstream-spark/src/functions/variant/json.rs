//! JSON to variants, and variants to JSON.

use std::fmt::Write;

use arrow::array::ArrayRef;
use millstream_core::Result;

use super::super::TimeZone;
use super::super::cast::{push_decimal, push_double, push_float};
use super::super::datetime::{civil, format};
use super::super::json::{JsonCursor, JsonFault, quoted, unescape};
use super::super::string::base64;
use super::builder::{Builder, Fault};
use super::value::{Value, Variant};
use super::{Parts, malformed};

/// What became of a text.
pub(super) enum Parsed {
    Good,
    /// It is JSON, but cannot be a variant.
    Bad(Fault),
}

/// Appends the variant of the JSON value at the cursor; `None` if it cannot be one.
///
/// # Errors
/// When it is no JSON.
pub(crate) fn from_json(cursor: &mut JsonCursor<'_>, value: &mut Vec<u8>, metadata: &mut Vec<u8>) -> Result<Option<()>, JsonFault> {
    Ok(match parse(cursor, value, metadata)? {
        Parsed::Good => Some(()),
        Parsed::Bad(_) => None,
    })
}

/// As [`from_json`], with the reason.
pub(super) fn parse(cursor: &mut JsonCursor<'_>, value: &mut Vec<u8>, metadata: &mut Vec<u8>) -> Result<Parsed, JsonFault> {
    let mut builder = Builder::default();
    let mut bad = None;
    read(cursor, &mut builder, &mut bad)?;
    if bad.is_none() {
        bad = builder.finish(value, metadata).err();
    }
    Ok(bad.map_or(Parsed::Good, Parsed::Bad))
}

/// Reads to the end of the value, noting the first fault.
fn read(cursor: &mut JsonCursor<'_>, builder: &mut Builder, bad: &mut Option<Fault>) -> Result<(), JsonFault> {
    let mut note = |outcome: Result<(), Fault>| {
        if let Err(fault) = outcome {
            bad.get_or_insert(fault);
        }
    };
    match cursor.token()? {
        mark @ (b'"' | b'\'') if mark == b'"' || cursor.syntax().single_quotes => {
            let mut text = Vec::new();
            unescape(cursor.string(mark)?, &mut text);
            note(builder.string(&String::from_utf8_lossy(&text)));
        }
        b'{' => {
            cursor.enter()?;
            let (start, mut members, mut first) = (builder.position(), Vec::new(), true);
            while cursor.next_member(first)? {
                first = false;
                let mut name = Vec::new();
                unescape(cursor.name()?, &mut name);
                cursor.colon()?;
                members.push(builder.member(&String::from_utf8_lossy(&name), start));
                read(cursor, builder, bad)?;
            }
            if let Err(fault) = builder.object(start, members) {
                bad.get_or_insert(fault);
            }
        }
        b'[' => {
            cursor.enter()?;
            let (start, mut offsets, mut first) = (builder.position(), Vec::new(), true);
            while cursor.next_element(first)? {
                first = false;
                offsets.push(builder.position() - start);
                read(cursor, builder, bad)?;
            }
            if let Err(fault) = builder.array(start, &offsets) {
                bad.get_or_insert(fault);
            }
        }
        b't' => {
            cursor.word(b"true")?;
            builder.boolean(true);
        }
        b'f' => {
            cursor.word(b"false")?;
            builder.boolean(false);
        }
        b'n' => {
            cursor.word(b"null")?;
            builder.null();
        }
        first => match cursor.non_number() {
            Some(number) => builder.double(number),
            None if first == b'-' || first.is_ascii_digit() => {
                let number = cursor.number()?;
                match number.long() {
                    Some(long) => builder.long(long),
                    None => match decimal(number.raw) {
                        Some((unscaled, scale)) => builder.decimal(unscaled, scale),
                        None => builder.double(number.double()),
                    },
                }
            }
            None => return Err(cursor.fault("a value was expected")),
        },
    }
    Ok(())
}

/// A number without exponent of at most 38 digits, as it is written.
fn decimal(text: &[u8]) -> Option<(i128, u8)> {
    let text = std::str::from_utf8(text).ok()?;
    if text.contains(['e', 'E']) {
        return None;
    }
    let scale = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let digits: String = text.chars().filter(|c| *c != '.').collect();
    let unscaled: i128 = digits.parse().ok()?;
    let precision = unscaled.unsigned_abs().checked_ilog10().unwrap_or(0) + 1;
    if precision > 38 || scale > 38 {
        return None;
    }
    Some((unscaled, u8::try_from(scale).ok()?))
}

/// Appends a variant of a column as JSON.
///
/// # Errors
/// `MALFORMED_VARIANT`.
pub(crate) fn write_json(variants: &ArrayRef, row: usize, zone: TimeZone, out: &mut String) -> Result<()> {
    write(Parts::of(variants)?.get(row), zone, out)
}

/// Appends a variant as JSON.
///
/// # Errors
/// `MALFORMED_VARIANT`.
pub(super) fn write(variant: Variant<'_>, zone: TimeZone, out: &mut String) -> Result<()> {
    match variant.value().ok_or_else(malformed)? {
        Value::Null => out.push_str("null"),
        Value::Boolean(value) => out.push_str(if value { "true" } else { "false" }),
        Value::Object(object) => {
            out.push('{');
            for (number, (name, value)) in object.members().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                quoted(name, false, out);
                out.push(':');
                write(value, zone, out)?;
            }
            out.push('}');
        }
        Value::Array(array) => {
            out.push('[');
            for (number, value) in array.elements().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                write(value, zone, out)?;
            }
            out.push(']');
        }
        Value::Long(_) | Value::Decimal(..) => text(variant, zone, out)?,
        Value::Double(value) if value.is_finite() => text(variant, zone, out)?,
        Value::Float(value) if value.is_finite() => text(variant, zone, out)?,
        _ => {
            let mut plain = String::new();
            text(variant, zone, &mut plain)?;
            quoted(&plain, false, out);
        }
    }
    Ok(())
}

/// Appends the text of a value without parts.
///
/// # Errors
/// `MALFORMED_VARIANT`.
pub(super) fn text(variant: Variant<'_>, zone: TimeZone, out: &mut String) -> Result<()> {
    match variant.value().ok_or_else(malformed)? {
        Value::Long(value) => {
            // Writing to a string does not fail.
            let _ = write!(out, "{value}");
        }
        Value::Decimal(unscaled, scale) => push_decimal(out, unscaled, scale, true),
        Value::Double(value) => push_double(out, value),
        Value::Float(value) => push_float(out, value),
        Value::String(value) => out.push_str(value),
        Value::Binary(bytes) => base64(bytes, out),
        Value::Date(days) => out.push_str(&format::format_date(days)),
        Value::TimestampNtz(micros) => out.push_str(&format::format_timestamp_ntz(micros)),
        Value::Timestamp(micros) => {
            let local = zone.instant_to_local(micros);
            out.push_str(&format::format_timestamp_ntz(local));
            let minutes = (local - micros) / civil::MICROS_PER_MINUTE;
            let _ = write!(out, "{}{:02}:{:02}", if minutes < 0 { '-' } else { '+' }, minutes.abs() / 60, minutes.abs() % 60);
        }
        Value::Uuid(bits) => {
            let _ = write!(out, "{}", uuid::Uuid::from_u128(bits));
        }
        Value::Null | Value::Boolean(_) | Value::Object(_) | Value::Array(_) => {}
    }
    Ok(())
}
