//! JSON to variants.

use super::builder::{Builder, Fault};
use crate::json::{self, Cursor, unescape};

/// What became of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// It was appended.
    Good,
    /// It is JSON, but cannot be a variant.
    Bad(Fault),
}

/// Appends the variant of the JSON value at the cursor to the bytes of values and of their metadata, unless it cannot be one.
///
/// # Errors
/// When it is no JSON.
pub fn from_json(cursor: &mut Cursor<'_>, value: &mut Vec<u8>, metadata: &mut Vec<u8>) -> Result<Parsed, json::Fault> {
    let mut builder = Builder::default();
    let mut bad = None;
    read(cursor, &mut builder, &mut bad)?;
    if bad.is_none() {
        bad = builder.finish(value, metadata).err();
    }
    Ok(bad.map_or(Parsed::Good, Parsed::Bad))
}

/// Reads to the end of the value, noting the first fault.
fn read(cursor: &mut Cursor<'_>, builder: &mut Builder, bad: &mut Option<Fault>) -> Result<(), json::Fault> {
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
