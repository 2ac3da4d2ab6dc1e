//! Text: slices, padding, search, regular expressions, encodings.

mod case;
mod characters;
mod encoding;
mod format;
mod formatter;
mod join;
mod mask;
mod pad;
mod phonetic;
mod random;
mod regex;
mod regexp;
mod replace;
mod search;
mod sentences;
mod slice;
mod split;
mod trim;
mod utf8;
mod wildcard;

use arrow::datatypes::DataType;
use millstream_core::Result;

use super::{Call, Functions, Kernel, Typed, scalar};

pub(super) use encoding::{base64, strict_base64};

pub(super) fn register(functions: &mut Functions) {
    case::register(functions);
    characters::register(functions);
    encoding::register(functions);
    format::register(functions);
    join::register(functions);
    mask::register(functions);
    pad::register(functions);
    phonetic::register(functions);
    random::register(functions);
    regexp::register(functions);
    replace::register(functions);
    search::register(functions);
    sentences::register(functions);
    slice::register(functions);
    split::register(functions);
    trim::register(functions);
    utf8::register(functions);
    wildcard::register(functions);
}

/// A call that is null exactly where an argument is.
fn strict(name: &'static str, kernel: impl Kernel, arguments: Vec<Typed>, data_type: DataType) -> Typed {
    let nullable = arguments.iter().any(|argument| argument.nullable);
    scalar(name, kernel, arguments, data_type, nullable)
}

/// Arguments from the first on, as text.
fn texts(call: &Call<'_>, count: usize) -> Result<Vec<Typed>> {
    (0..count).map(|index| call.string(index)).collect()
}

/// An argument as bytes if it is of bytes, otherwise as text.
fn text_or_bytes(call: &Call<'_>, index: usize) -> Result<Typed> {
    let value = call.value(index)?;
    if value.data_type == DataType::Binary { Ok(value.clone()) } else { call.string(index) }
}

/// Two arguments as bytes if both are of bytes, otherwise as text.
fn same_text_or_bytes(call: &Call<'_>, one: usize, other: usize) -> Result<(Typed, Typed)> {
    let (first, second) = (call.value(one)?, call.value(other)?);
    if first.data_type == DataType::Binary && second.data_type == DataType::Binary {
        return Ok((first.clone(), second.clone()));
    }
    Ok((call.string(one)?, call.string(other)?))
}
