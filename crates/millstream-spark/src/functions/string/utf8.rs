//! Whether text is UTF-8, and collations.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use millstream_core::{Error, Result};

use super::super::rows::Rows;
use super::super::{Arguments, Call, Functions, Kernel, Typed, cast, faults, scalar};
use super::text_or_bytes;

pub(super) fn register(functions: &mut Functions) {
    functions.add("is_valid_utf8", |call| {
        call.arity(1..=1)?;
        Ok(scalar("is_valid_utf8", Utf8::IsValid, vec![bytes(call)?], DataType::Boolean, true))
    });
    functions.add("make_valid_utf8", |call| {
        call.arity(1..=1)?;
        Ok(scalar("make_valid_utf8", Utf8::MakeValid, vec![bytes(call)?], DataType::Utf8, true))
    });
    functions.add("validate_utf8", |call| {
        call.arity(1..=1)?;
        Ok(scalar("validate_utf8", Utf8::Validate, vec![bytes(call)?], DataType::Utf8, true))
    });
    functions.add("try_validate_utf8", |call| {
        call.arity(1..=1)?;
        Ok(scalar("try_validate_utf8", Utf8::TryValidate, vec![bytes(call)?], DataType::Utf8, true))
    });
    functions.add("collate", collate);
    functions.add("collation", |call| {
        call.arity(1..=1)?;
        call.exactly(0, &[DataType::Utf8])?;
        Ok(Typed::text("SYSTEM.BUILTIN.UTF8_BINARY"))
    });
}

/// The argument before it became text: a cast of bytes to text does not keep what is no UTF-8.
fn bytes(call: &Call<'_>) -> Result<Typed> {
    let value = text_or_bytes(call, 0)?;
    Ok(cast::bytes_of_text(&value).unwrap_or(value))
}

/// Text is compared by its bytes; that is the only collation.
fn collate(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    let value = call.string(0)?;
    let Some(name) = call.constant_text(1)? else {
        return Err(faults::mismatch("UNEXPECTED_NULL", "the name of a collation must not be null"));
    };
    if name.eq_ignore_ascii_case("UTF8_BINARY") || name.eq_ignore_ascii_case("SYSTEM.BUILTIN.UTF8_BINARY") {
        return Ok(value);
    }
    let message = format!("there is no collation '{name}': use UTF8_BINARY");
    Err(Error::invalid("COLLATION_INVALID_NAME", message).with_sqlstate("42704"))
}

/// Text always is UTF-8 here, bytes may not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Utf8 {
    IsValid,
    /// With U+FFFD in place of what is invalid.
    MakeValid,
    Validate,
    TryValidate,
}

impl Kernel for Utf8 {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let rows = Rows::of(arguments)?;
        match self {
            Utf8::IsValid => rows.booleans(|row| Ok(Some(std::str::from_utf8(row.bytes(0)).is_ok()))),
            _ => rows.texts(|row, out| match (std::str::from_utf8(row.bytes(0)), self) {
                (Ok(text), _) => {
                    out.push_str(text);
                    Ok(true)
                }
                (Err(_), Utf8::MakeValid) => {
                    out.push_str(&String::from_utf8_lossy(row.bytes(0)));
                    Ok(true)
                }
                (Err(_), Utf8::TryValidate) => Ok(false),
                (Err(error), _) => {
                    let message = format!(
                        "byte {} of the value is not UTF-8: `make_valid_utf8` replaces such bytes, `try_validate_utf8` gives NULL",
                        error.valid_up_to()
                    );
                    Err(faults::row("INVALID_UTF8_STRING", "22029", message))
                }
            }),
        }
    }
}
