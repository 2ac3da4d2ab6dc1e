//! `mask`: letters and digits hidden, their kinds kept.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use millstream_core::Result;

use super::super::faults;
use super::super::rows::Rows;
use super::super::{Arguments, Call, Functions, Kernel, Typed, scalar};

pub(super) fn register(functions: &mut Functions) {
    functions.add("mask", build);
}

/// `mask(text, upper, lower, digit, other)`: what stands for each kind of character; null leaves the kind as it is.
fn build(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=5)?;
    let by = |index: usize, default: Option<char>| -> Result<Option<char>> {
        if call.len() <= index {
            return Ok(default);
        }
        let Some(text) = call.constant_text(index)? else { return Ok(None) };
        let mut characters = text.chars();
        match (characters.next(), characters.next()) {
            (Some(by), None) => Ok(Some(by)),
            _ => {
                let message = format!("parameter {} of `mask` is '{text}' but must be one character", index + 1);
                Err(faults::mismatch("INPUT_SIZE_NOT_ONE", message))
            }
        }
    };
    let mask = Mask { upper: by(1, Some('X'))?, lower: by(2, Some('x'))?, digit: by(3, Some('n'))?, other: by(4, None)? };
    Ok(scalar("mask", mask, vec![call.exactly(0, &[DataType::Utf8])?], DataType::Utf8, true))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Mask {
    upper: Option<char>,
    lower: Option<char>,
    digit: Option<char>,
    other: Option<char>,
}

impl Kernel for Mask {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Rows::of(arguments)?.texts(|row, out| {
            for character in row.text(0).chars() {
                // Spark masks the two halves of a character beyond the basic plane one by one.
                if u32::from(character) > 0xffff {
                    match self.other {
                        Some(other) => out.extend([other, other]),
                        None => out.push(character),
                    }
                    continue;
                }
                let by = if character.is_uppercase() {
                    self.upper
                } else if character.is_lowercase() {
                    self.lower
                } else if is_digit(character) {
                    self.digit
                } else {
                    self.other
                };
                out.push(by.unwrap_or(character));
            }
            Ok(true)
        })
    }
}

/// Whether a character is a decimal digit of any script.
fn is_digit(character: char) -> bool {
    character.is_ascii_digit() || (character.is_numeric() && !character.is_alphabetic() && decimal_value(character).is_some())
}

/// The value of a decimal digit: scripts have theirs in blocks of ten.
fn decimal_value(character: char) -> Option<u32> {
    const ZEROS: [u32; 22] = [
        0x0660, 0x06f0, 0x07c0, 0x0966, 0x09e6, 0x0a66, 0x0ae6, 0x0b66, 0x0be6, 0x0c66, 0x0ce6, 0x0d66, 0x0e50, 0x0ed0, 0x0f20, 0x1040,
        0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0xff10,
    ];
    let code = u32::from(character);
    ZEROS.iter().find_map(|zero| code.checked_sub(*zero).filter(|value| *value < 10))
}
