//! Strings without their escapes, and values written again as Jackson writes them.

use super::cursor::{Cursor, Fault, Quoted};

/// Appends a string's characters. A surrogate without its partner becomes `?`, as in Java's UTF-8.
pub fn unescape(text: Quoted<'_>, out: &mut Vec<u8>) {
    if !text.escaped {
        return out.extend_from_slice(text.raw);
    }
    let mut rest = text.raw;
    while let Some(found) = rest.iter().position(|byte| *byte == b'\\') {
        out.extend_from_slice(rest.get(..found).unwrap_or_default());
        let escape = rest.get(found + 1..).unwrap_or_default();
        let (character, length) = match escape.first() {
            Some(b'b') => ('\u{8}', 1),
            Some(b'f') => ('\u{c}', 1),
            Some(b'n') => ('\n', 1),
            Some(b'r') => ('\r', 1),
            Some(b't') => ('\t', 1),
            Some(b'u') => unicode(escape),
            // Quotes, slashes, and with the option any character: it stands for itself.
            _ => {
                rest = escape;
                let whole =
                    rest.first().map_or(0, |byte| if *byte < 0x80 { 1 } else { rest.len().min(usize::from(byte.leading_ones() as u8)) });
                out.extend_from_slice(rest.get(..whole).unwrap_or_default());
                rest = rest.get(whole..).unwrap_or_default();
                continue;
            }
        };
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        rest = escape.get(length..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

/// The character of `uXXXX`, or of two such escapes that are surrogates, and how many bytes they take.
fn unicode(escape: &[u8]) -> (char, usize) {
    let unit = |digits: Option<&[u8]>| {
        digits?.iter().try_fold(0_u32, |value, digit| char::from(*digit).to_digit(16).map(|digit| value * 16 + digit))
    };
    let first = unit(escape.get(1..5)).unwrap_or(0xfffd);
    if !(0xd800..0xe000).contains(&first) {
        return (char::from_u32(first).unwrap_or('?'), 5);
    }
    if first < 0xdc00
        && escape.get(5..7) == Some(b"\\u")
        && let Some(second) = unit(escape.get(7..11)).filter(|second| (0xdc00..0xe000).contains(second))
    {
        let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return (char::from_u32(code).unwrap_or('?'), 11);
    }
    ('?', 5)
}

/// Reads a value and appends it without white space and comments, in standard JSON.
pub fn append_compact(cursor: &mut Cursor<'_>, out: &mut Vec<u8>, scratch: &mut Vec<u8>) -> Result<(), Fault> {
    match cursor.token()? {
        mark @ (b'"' | b'\'') if mark == b'"' || cursor.syntax().single_quotes => {
            let text = cursor.string(mark)?;
            append_string(text, out, scratch);
        }
        b'{' => {
            cursor.enter()?;
            out.push(b'{');
            let mut first = true;
            while cursor.next_member(first)? {
                if !first {
                    out.push(b',');
                }
                first = false;
                let name = cursor.name()?;
                append_string(name, out, scratch);
                cursor.colon()?;
                out.push(b':');
                append_compact(cursor, out, scratch)?;
            }
            out.push(b'}');
        }
        b'[' => {
            cursor.enter()?;
            out.push(b'[');
            let mut first = true;
            while cursor.next_element(first)? {
                if !first {
                    out.push(b',');
                }
                first = false;
                append_compact(cursor, out, scratch)?;
            }
            out.push(b']');
        }
        b't' | b'f' | b'n' => {
            let start = cursor.at();
            cursor.skip()?;
            out.extend_from_slice(cursor.since(start));
        }
        _ => match cursor.non_number() {
            Some(value) => out.extend_from_slice(non_number_text(value).as_bytes()),
            None => match cursor.number() {
                Ok(number) => number.append_to(out),
                Err(_) => return Err(cursor.fault("a value was expected")),
            },
        },
    }
    Ok(())
}

/// How Jackson writes numbers that are none: as strings.
pub fn non_number_text(value: f64) -> &'static str {
    if value.is_nan() {
        "\"NaN\""
    } else if value > 0.0 {
        "\"Infinity\""
    } else {
        "\"-Infinity\""
    }
}

fn append_string(text: Quoted<'_>, out: &mut Vec<u8>, scratch: &mut Vec<u8>) {
    scratch.clear();
    unescape(text, scratch);
    quote(scratch, out);
}

/// Appends text as a JSON string in quotes, escaping what must be escaped as Jackson does. Bytes that are not ASCII are left as they are.
pub fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            0x00..=0x1f => {
                const HEX: &[u8; 16] = b"0123456789ABCDEF";
                out.extend_from_slice(b"\\u00");
                out.extend([byte >> 4, byte & 15].map(|half| HEX.get(usize::from(half)).copied().unwrap_or(b'0')));
            }
            other => out.push(*other),
        }
    }
    out.push(b'"');
}
