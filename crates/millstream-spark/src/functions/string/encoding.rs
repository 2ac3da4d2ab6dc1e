//! Text as bytes and bytes as text: base64, character encodings, binary formats.

mod base64;
mod charset;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use millstream_core::{Error, ErrorKind, Result};

use super::super::rows::Rows;
use super::super::{Arguments, Call, Functions, Kernel, Typed, faults, scalar};
use super::strict;
pub(in super::super) use base64::{base64, strict_base64};
use base64::{base64_lines, mime_base64};
use charset::Charset;

pub(super) fn register(functions: &mut Functions) {
    functions.add("base64", |call| {
        call.arity(1..=1)?;
        Ok(strict("base64", Encoding::ToBase64Lines, vec![call.binary(0)?], DataType::Utf8))
    });
    functions.add("unbase64", |call| {
        call.arity(1..=1)?;
        Ok(strict("unbase64", Encoding::FromBase64, vec![call.string(0)?], DataType::Binary))
    });
    functions.add("encode", |call| {
        call.arity(2..=2)?;
        Ok(scalar("encode", Encoding::Encode, vec![call.string(0)?, call.string(1)?], DataType::Binary, true))
    });
    functions.add("decode", |call| {
        if call.len() > 2 {
            return choose(call);
        }
        call.arity(2..=2)?;
        Ok(scalar("decode", Encoding::Decode, vec![call.binary(0)?, call.string(1)?], DataType::Utf8, true))
    });
    functions.add("to_binary", |call| to_binary(call, false));
    functions.add("try_to_binary", |call| to_binary(call, true));
    functions.add_all(&["to_char", "to_varchar"], to_char);
}

/// `decode(value, search, result, …, default)`: the result behind the first search that the value equals, null being equal to null.
fn choose(call: &Call<'_>) -> Result<Typed> {
    let build = |name: &str, arguments: Vec<Typed>| {
        let arguments = arguments.into_iter().map(super::super::Argument::Value).collect();
        Functions::all().build(&Call { name, arguments, settings: call.settings })
    };
    let default = if call.len().is_multiple_of(2) { call.value(call.len() - 1)?.clone() } else { Typed::null(&DataType::Null) };
    let pairs: Vec<usize> = (1..call.len() - 1).step_by(2).collect();
    pairs.into_iter().rev().try_fold(default, |otherwise, index| {
        let equal = build("equal_null", vec![call.value(0)?.clone(), call.value(index)?.clone()])?;
        build("if", vec![equal, call.value(index + 1)?.clone(), otherwise])
    })
}

/// A format of bytes as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Format {
    Hex,
    Utf8,
    Base64,
}

impl Format {
    fn parse(text: &str) -> Option<Format> {
        match text.to_ascii_lowercase().as_str() {
            "hex" => Some(Format::Hex),
            "utf-8" | "utf8" => Some(Format::Utf8),
            "base64" => Some(Format::Base64),
            _ => None,
        }
    }
}

fn to_binary(call: &Call<'_>, try_only: bool) -> Result<Typed> {
    call.arity(1..=2)?;
    let text = call.string(0)?;
    let format = match call.len() {
        1 => Some("hex".to_owned()),
        _ => call.constant_text(1)?,
    };
    let name = if try_only { "try_to_binary" } else { "to_binary" };
    let Some(format) = format else { return Ok(Typed::null(&DataType::Binary)) };
    let kernel = match Format::parse(&format) {
        Some(format) => Encoding::ToBinary { format, try_only },
        None if try_only => return Ok(Typed::null(&DataType::Binary)),
        None => {
            let message = format!("the format of `{name}` is '{format}' but must be 'hex', 'utf-8', 'utf8' or 'base64'");
            return Err(faults::mismatch("INVALID_ARG_VALUE", message));
        }
    };
    let nullable = text.nullable || !matches!(kernel, Encoding::ToBinary { format: Format::Base64, try_only: false });
    Ok(scalar(name, kernel, vec![text], DataType::Binary, nullable))
}

/// `to_char(value, format)`: dates and times by a pattern, bytes by the name of a format, numbers by a number format.
fn to_char(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    let value = call.value(0)?;
    let delegate = |name: &str| Functions::all().build(&Call { name, arguments: call.arguments.clone(), settings: call.settings });
    match value.data_type {
        DataType::Date32 | DataType::Timestamp(..) => delegate("date_format"),
        DataType::Binary => {
            let Some(format) = call.constant_text(1)? else { return Ok(Typed::null(&DataType::Utf8)) };
            let kernel = match Format::parse(&format) {
                Some(Format::Base64) => Encoding::ToBase64,
                Some(Format::Hex) => Encoding::ToHex,
                Some(Format::Utf8) => Encoding::DecodeUtf8,
                None => {
                    let message = format!("the format of `{}` is '{format}' but must be 'hex', 'utf-8' or 'base64' for bytes", call.name);
                    return Err(Error::invalid("INVALID_PARAMETER_VALUE.BINARY_FORMAT", message).with_sqlstate("22023"));
                }
            };
            let nullable = kernel == Encoding::DecodeUtf8 || value.nullable;
            Ok(scalar("to_char", kernel, vec![value.clone()], DataType::Utf8, nullable))
        }
        _ => super::super::math::number_to_char(call),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Encoding {
    /// On one line.
    ToBase64,
    ToBase64Lines,
    FromBase64,
    ToHex,
    /// Text to bytes by the name of a character encoding.
    Encode,
    /// Bytes to text by the name of a character encoding.
    Decode,
    DecodeUtf8,
    ToBinary {
        format: Format,
        try_only: bool,
    },
}

impl Kernel for Encoding {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let rows = Rows::of(arguments)?;
        match *self {
            Encoding::ToBase64 => rows.texts(|row, out| {
                base64(row.bytes(0), out);
                Ok(true)
            }),
            Encoding::ToBase64Lines => rows.texts(|row, out| {
                base64_lines(row.bytes(0), out);
                Ok(true)
            }),
            Encoding::ToHex => rows.texts(|row, out| {
                out.extend(row.bytes(0).iter().flat_map(|byte| [byte >> 4, byte & 15]).filter_map(|digit| HEX.get(usize::from(digit))));
                Ok(true)
            }),
            Encoding::FromBase64 => rows.bytes(|row, out| match mime_base64(row.bytes(0), out) {
                Some(()) => Ok(true),
                None => {
                    let message =
                        format!("'{}' is not base64: use `try_to_binary` with the format 'base64' to get NULL instead", row.text(0));
                    Err(Error::new(ErrorKind::BadRecord, "IllegalArgumentException", message))
                }
            }),
            Encoding::Encode => rows.bytes(|row, out| {
                let charset = Charset::named(row.text(1), "encode")?;
                match charset.encode(row.text(0), out) {
                    Some(()) => Ok(true),
                    None => Err(malformed(row.text(1), "encode")),
                }
            }),
            Encoding::Decode => rows.texts(|row, out| {
                let charset = Charset::named(row.text(1), "decode")?;
                match charset.decode(row.bytes(0), out) {
                    Some(()) => Ok(true),
                    None => Err(malformed(row.text(1), "decode")),
                }
            }),
            Encoding::DecodeUtf8 => rows.texts(|row, out| match Charset::Utf8.decode(row.bytes(0), out) {
                Some(()) => Ok(true),
                None => Err(malformed("UTF-8", "decode")),
            }),
            Encoding::ToBinary { format, try_only } => rows.bytes(|row, out| {
                let (text, start) = (row.text(0), out.len());
                let (read, name) = match format {
                    Format::Utf8 => {
                        out.extend_from_slice(text.as_bytes());
                        (Some(()), "utf-8")
                    }
                    Format::Hex => (unhex(text.as_bytes(), out), "hex"),
                    Format::Base64 => (strict_base64(text.as_bytes(), out), "base64"),
                };
                match read {
                    Some(()) => Ok(true),
                    None if try_only => {
                        out.truncate(start);
                        Ok(false)
                    }
                    None => Err(cannot_convert(text, name, "try_to_binary")),
                }
            }),
        }
    }
}

const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];

/// Hexadecimal digits to bytes; an odd digit at the beginning is a byte of its own.
fn unhex(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (odd, pairs) = text.split_at(text.len() % 2);
    if let Some(first) = odd.first() {
        out.push(digit(first)?);
    }
    for pair in pairs.chunks_exact(2) {
        if let [high, low] = pair {
            out.push(digit(high)? << 4 | digit(low)?);
        }
    }
    Some(())
}

fn cannot_convert(text: &str, format: &str, instead: &str) -> Error {
    let message =
        format!("'{text}' cannot be converted to \"BINARY\" because it is not {format}: use `{instead}` for text that may not be");
    faults::row("CONVERSION_INVALID_INPUT", "22018", message)
}

fn malformed(charset: &str, function: &str) -> Error {
    let message = format!("`{function}` met characters that {charset} does not have: check the value or use another encoding");
    faults::row("MALFORMED_CHARACTER_CODING", "22000", message)
}
