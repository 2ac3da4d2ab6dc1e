//! The character encodings of `encode` and `decode`.

use millstream_core::{Error, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Charset {
    Ascii,
    Latin1,
    Utf8,
    Utf16Be,
    Utf16Le,
    /// With a byte order mark; big-endian without one.
    Utf16,
    Utf32,
}

impl Charset {
    /// # Errors
    /// `INVALID_PARAMETER_VALUE.CHARSET`.
    pub(super) fn named(name: &str, function: &str) -> Result<Charset> {
        match name.to_ascii_lowercase().as_str() {
            "us-ascii" => Ok(Charset::Ascii),
            "iso-8859-1" => Ok(Charset::Latin1),
            "utf-8" => Ok(Charset::Utf8),
            "utf-16be" => Ok(Charset::Utf16Be),
            "utf-16le" => Ok(Charset::Utf16Le),
            "utf-16" => Ok(Charset::Utf16),
            "utf-32" => Ok(Charset::Utf32),
            _ => {
                let message = format!(
                    "the character encoding of `{function}` is '{name}' but must be 'iso-8859-1', 'us-ascii', 'utf-16', 'utf-16be', \
                     'utf-16le', 'utf-32' or 'utf-8'"
                );
                Err(Error::invalid("INVALID_PARAMETER_VALUE.CHARSET", message).with_sqlstate("22023"))
            }
        }
    }

    /// Appends a text; `None` when it has characters that the encoding has not.
    pub(super) fn encode(self, text: &str, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Charset::Ascii if !text.is_ascii() => return None,
            Charset::Ascii | Charset::Utf8 => out.extend_from_slice(text.as_bytes()),
            Charset::Latin1 => {
                for character in text.chars() {
                    out.push(u8::try_from(u32::from(character)).ok()?);
                }
            }
            Charset::Utf16Be => out.extend(text.encode_utf16().flat_map(u16::to_be_bytes)),
            Charset::Utf16Le => out.extend(text.encode_utf16().flat_map(u16::to_le_bytes)),
            Charset::Utf16 if text.is_empty() => {}
            Charset::Utf16 => {
                out.extend([0xfe, 0xff]);
                out.extend(text.encode_utf16().flat_map(u16::to_be_bytes));
            }
            Charset::Utf32 => out.extend(text.chars().flat_map(|character| u32::from(character).to_be_bytes())),
        }
        Some(())
    }

    /// Appends the text of bytes; `None` when they are malformed.
    pub(super) fn decode(self, bytes: &[u8], out: &mut String) -> Option<()> {
        match self {
            Charset::Ascii if !bytes.is_ascii() => return None,
            Charset::Ascii | Charset::Utf8 => out.push_str(std::str::from_utf8(bytes).ok()?),
            Charset::Latin1 => out.extend(bytes.iter().map(|byte| char::from(*byte))),
            Charset::Utf16Be => utf16(bytes, u16::from_be_bytes, out)?,
            Charset::Utf16Le => utf16(bytes, u16::from_le_bytes, out)?,
            Charset::Utf16 => match bytes {
                [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes, out)?,
                [0xfe, 0xff, rest @ ..] | rest => utf16(rest, u16::from_be_bytes, out)?,
            },
            Charset::Utf32 => match bytes {
                [0xff, 0xfe, 0, 0, rest @ ..] => utf32(rest, u32::from_le_bytes, out)?,
                [0, 0, 0xfe, 0xff, rest @ ..] | rest => utf32(rest, u32::from_be_bytes, out)?,
            },
        }
        Some(())
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16, out: &mut String) -> Option<()> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    for character in char::decode_utf16(pairs.iter().map(|pair| unit(*pair))) {
        out.push(character.ok()?);
    }
    Some(())
}

fn utf32(bytes: &[u8], unit: fn([u8; 4]) -> u32, out: &mut String) -> Option<()> {
    let (quads, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    for quad in quads {
        out.push(char::from_u32(unit(*quad))?);
    }
    Some(())
}
