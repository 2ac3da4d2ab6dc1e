//! Variants as JSON, in the texts that Spark gives their values.

use std::fmt::Write;

use arrow::array::{AsArray, StructArray};
use millstream_core::variant::{Value, Variant};
use millstream_core::{Error, Result};

use super::datetime::DateTimeText;
use super::json::{base64, quote};
use super::scalar::{DecimalText, decimal, floating};

/// Appends the variant in a row of a column of variants.
///
/// # Errors
/// `MALFORMED_VARIANT`.
pub(super) fn write_row(variants: &StructArray, row: usize, times: &DateTimeText, ascii: bool, out: &mut String) -> Result<()> {
    let [value, metadata] = variants.columns() else { return Err(malformed()) };
    let (Some(value), Some(metadata)) = (value.as_binary_opt::<i32>(), metadata.as_binary_opt::<i32>()) else { return Err(malformed()) };
    write(Variant::new(value.value(row), metadata.value(row)), times, ascii, out)
}

fn write(variant: Variant<'_>, times: &DateTimeText, ascii: bool, out: &mut String) -> Result<()> {
    // Writing to a string does not fail.
    let mut text = String::new();
    match variant.value().ok_or_else(malformed)? {
        Value::Null => out.push_str("null"),
        Value::Boolean(value) => out.push_str(if value { "true" } else { "false" }),
        Value::Long(value) => drop(write!(out, "{value}")),
        Value::Decimal(unscaled, scale) => decimal(unscaled, i32::from(scale), DecimalText::Plain, out),
        Value::Double(value) if value.is_finite() => floating(value, &format!("{value:e}"), out),
        Value::Float(value) if value.is_finite() => floating(f64::from(value), &format!("{value:e}"), out),
        Value::Object(object) => {
            out.push('{');
            for (number, (name, value)) in object.members().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                quote(name, ascii, out);
                out.push(':');
                write(value, times, ascii, out)?;
            }
            out.push('}');
        }
        Value::Array(array) => {
            out.push('[');
            for (number, value) in array.elements().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                write(value, times, ascii, out)?;
            }
            out.push(']');
        }
        Value::Double(value) => floating(value, "", &mut text),
        Value::Float(value) => floating(f64::from(value), "", &mut text),
        Value::String(value) => text.push_str(value),
        Value::Binary(bytes) => base64(bytes, &mut text),
        Value::Date(days) => times.plain().date(days, &mut text)?,
        Value::TimestampNtz(micros) => times.plain().timestamp_ntz(micros, &mut text)?,
        Value::Timestamp(micros) => {
            times.plain().timestamp(micros, &mut text)?;
            times.offset(micros, &mut text);
        }
        Value::Uuid(bits) => drop(write!(text, "{}", uuid::Uuid::from_u128(bits))),
    }
    // An empty string is a value, too.
    if !text.is_empty() || matches!(variant.value(), Some(Value::String(_) | Value::Binary(_))) {
        quote(&text, ascii, out);
    }
    Ok(())
}

fn malformed() -> Error {
    Error::invalid("MALFORMED_VARIANT", "the bytes of a variant cannot be read: make variants with `parse_json` or a cast")
        .with_sqlstate("22023")
}
