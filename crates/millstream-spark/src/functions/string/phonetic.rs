//! How alike texts are, and check digits.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Int32Type};
use millstream_core::Result;

use super::super::rows::Rows;
use super::super::{Arguments, Functions, Kernel, scalar};
use super::{strict, texts};

pub(super) fn register(functions: &mut Functions) {
    functions.add("soundex", |call| {
        call.arity(1..=1)?;
        Ok(strict("soundex", Soundex, vec![call.exactly(0, &[DataType::Utf8])?], DataType::Utf8))
    });
    functions.add("levenshtein", |call| {
        call.arity(2..=3)?;
        let mut arguments = texts(call, 2)?;
        if call.len() == 3 {
            arguments.push(call.int(2)?);
        }
        Ok(strict("levenshtein", Levenshtein, arguments, DataType::Int32))
    });
    functions.add("luhn_check", |call| {
        call.arity(1..=1)?;
        Ok(scalar("luhn_check", LuhnCheck, texts(call, 1)?, DataType::Boolean, true))
    });
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Soundex;

/// The code of each letter: 0 for vowels, 7 for letters that do not even separate.
const CODES: &[u8; 26] = b"01230127022455012623017202";

impl Kernel for Soundex {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Rows::of(arguments)?.texts(|row, out| {
            let text = row.text(0);
            let code_of = |letter: u8| CODES.get(usize::from(letter.to_ascii_uppercase().wrapping_sub(b'A'))).copied();
            let Some((first, mut last)) = text.bytes().next().and_then(|letter| Some((letter, code_of(letter)?))) else {
                out.push_str(text);
                return Ok(true);
            };
            let start = out.len();
            out.push(char::from(first.to_ascii_uppercase()));
            for letter in text.bytes().skip(1) {
                match code_of(letter) {
                    None => last = b'0',
                    Some(b'7') => {}
                    Some(code) => {
                        if code != b'0' && code != last {
                            out.push(char::from(code));
                        }
                        last = code;
                    }
                }
                if out.len() == start + 4 {
                    break;
                }
            }
            (out.len()..start + 4).for_each(|_| out.push('0'));
            Ok(true)
        })
    }
}

/// How many characters must be inserted, deleted or exchanged; -1 when it is more than the third argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Levenshtein;

impl Kernel for Levenshtein {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Rows::of(arguments)?.numbers::<Int32Type>(|row| {
            let distance = i32::try_from(distance(row.text(0), row.text(1))).unwrap_or(i32::MAX);
            Ok(Some(if row.len() > 2 && distance > row.int(2) { -1 } else { distance }))
        })
    }
}

fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    // The distances of the beginnings of `other` from the beginning of `one` seen so far.
    let mut distances: Vec<usize> = (0..=other.len()).collect();
    for (row, character) in one.chars().enumerate() {
        let mut diagonal = row;
        let mut left = row + 1;
        for (distance, expected) in distances.iter_mut().skip(1).zip(&other) {
            let best = (diagonal + usize::from(character != *expected)).min(left + 1).min(*distance + 1);
            diagonal = std::mem::replace(distance, best);
            left = best;
        }
        if let Some(first) = distances.first_mut() {
            *first = row + 1;
        }
    }
    distances.last().copied().unwrap_or(0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct LuhnCheck;

impl Kernel for LuhnCheck {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Rows::of(arguments)?.booleans(|row| Ok(Some(luhn(row.text(0)))))
    }
}

fn luhn(text: &str) -> bool {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let sum: u64 = text
        .bytes()
        .rev()
        .enumerate()
        .map(|(place, byte)| {
            let digit = u64::from(byte - b'0') * if place % 2 == 1 { 2 } else { 1 };
            digit / 10 + digit % 10
        })
        .sum();
    sum.is_multiple_of(10)
}
