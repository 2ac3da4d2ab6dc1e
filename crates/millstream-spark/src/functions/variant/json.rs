//! Variants to JSON.

use std::fmt::Write;

use arrow::array::ArrayRef;
use millstream_core::Result;
use millstream_core::variant::{Value, Variant};

use super::super::TimeZone;
use super::super::cast::{push_decimal, push_double, push_float};
use super::super::datetime::{civil, format};
use super::super::json::quoted;
use super::super::string::base64;
use super::{Parts, malformed};

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
