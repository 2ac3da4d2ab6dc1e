//! URLs: their parts, and the encoding of forms.

mod uri;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use millstream_core::{Error, Result};

use super::rows::{Row, Rows};
use super::{Arguments, Call, Functions, Kernel, Typed, faults, scalar};
use uri::Uri;

pub(super) fn register(functions: &mut Functions) {
    functions.add("parse_url", |call| parse(call, "parse_url", call.settings.ansi));
    functions.add("try_parse_url", |call| parse(call, "try_parse_url", false));
    functions.add("url_encode", |call| code(call, "url_encode", Code::Encode));
    functions.add("url_decode", |call| code(call, "url_decode", Code::Decode));
    functions.add("try_url_decode", |call| code(call, "try_url_decode", Code::TryDecode));
}

fn parse(call: &Call<'_>, name: &'static str, fails: bool) -> Result<Typed> {
    call.arity(2..=3)?;
    let arguments = (0..call.len()).map(|index| call.exactly(index, &[DataType::Utf8])).collect::<Result<Vec<_>>>()?;
    Ok(scalar(name, ParseUrl { fails }, arguments, DataType::Utf8, true))
}

fn code(call: &Call<'_>, name: &'static str, code: Code) -> Result<Typed> {
    call.arity(1..=1)?;
    Ok(scalar(name, code, vec![call.string(0)?], DataType::Utf8, true))
}

/// A part of a URL, or the value of a key of its query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ParseUrl {
    fails: bool,
}

impl Kernel for ParseUrl {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Rows::of(arguments)?.texts(|row, out| {
            // Only a query has keys; nothing else is looked at then.
            if row.len() > 2 && row.text(1) != "QUERY" {
                return Ok(false);
            }
            let Some(uri) = Uri::parse(row.text(0)) else {
                return if self.fails { Err(invalid(row.text(0))) } else { Ok(false) };
            };
            Ok(part(&uri, row, out).is_some())
        })
    }
}

fn part(uri: &Uri<'_>, row: Row<'_>, out: &mut String) -> Option<()> {
    let name = row.text(1);
    if row.len() > 2 {
        let query = uri.query?;
        let value = query.split('&').find_map(|pair| pair.strip_prefix(row.text(2))?.strip_prefix('='))?;
        out.push_str(value);
        return Some(());
    }
    match name {
        "HOST" => out.push_str(uri.host?),
        "PATH" => out.push_str(uri.path?),
        "QUERY" => out.push_str(uri.query?),
        "REF" => out.push_str(uri.fragment?),
        "PROTOCOL" => out.push_str(uri.scheme?),
        "AUTHORITY" => out.push_str(uri.authority?),
        "USERINFO" => out.push_str(uri.user?),
        "FILE" => {
            out.push_str(uri.path?);
            if let Some(query) = uri.query {
                out.push('?');
                out.push_str(query);
            }
        }
        _ => return None,
    }
    Some(())
}

fn invalid(url: &str) -> Error {
    faults::row("INVALID_URL", "22P02", format!("the URL '{url}' is invalid: use `try_parse_url` to get NULL instead"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Code {
    Encode,
    Decode,
    TryDecode,
}

impl Kernel for Code {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Rows::of(arguments)?.texts(|row, out| {
            let text = row.text(0);
            if *self == Code::Encode {
                encode(text, out);
                return Ok(true);
            }
            match (decode(text), self) {
                (Some(decoded), _) => {
                    out.push_str(&decoded);
                    Ok(true)
                }
                (None, Code::TryDecode) => Ok(false),
                (None, _) => {
                    let message =
                        format!("'{text}' cannot be decoded: a '%' needs two hexadecimal digits; `try_url_decode` gives NULL instead");
                    Err(faults::row("CANNOT_DECODE_URL", "22546", message))
                }
            }
        })
    }
}

/// As forms are encoded: blanks as `+`, and everything but letters, digits and `.-*_` as bytes.
fn encode(text: &str, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'*' | b'_' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            _ => {
                out.push('%');
                let digits = [byte >> 4, byte & 15].into_iter().filter_map(|digit| DIGITS.get(usize::from(digit)));
                out.extend(digits.map(|digit| char::from(*digit)));
            }
        }
    }
}

fn decode(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let (digits, behind) = rest.split_at_checked(2)?;
                let value = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
                bytes.push(u8::from_str_radix(value, 16).ok()?);
                rest = behind;
            }
            other => bytes.push(*other),
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
