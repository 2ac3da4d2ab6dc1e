//! Lengths, and characters by number.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Int32Type};
use millstream_core::Result;

use super::super::rows::Rows;
use super::super::{Arguments, Call, Functions, Kernel, Typed};
use super::{strict, text_or_bytes, texts};

pub(super) fn register(functions: &mut Functions) {
    functions.add_all(&["length", "len", "char_length", "character_length"], |call| measure(call, "length", Measure::Characters));
    functions.add("octet_length", |call| measure(call, "octet_length", Measure::Bytes));
    functions.add("bit_length", |call| measure(call, "bit_length", Measure::Bits));
    functions.add("ascii", |call| {
        call.arity(1..=1)?;
        Ok(strict("ascii", Measure::FirstCharacter, texts(call, 1)?, DataType::Int32))
    });
    functions.add_all(&["char", "chr"], |call| {
        call.arity(1..=1)?;
        Ok(strict("char", Chr, vec![call.long(0)?], DataType::Utf8))
    });
}

fn measure(call: &Call<'_>, name: &'static str, measure: Measure) -> Result<Typed> {
    call.arity(1..=1)?;
    Ok(strict(name, measure, vec![text_or_bytes(call, 0)?], DataType::Int32))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Measure {
    /// Characters of text, bytes of binaries.
    Characters,
    Bytes,
    Bits,
    /// The code point of the first character, 0 if there is none.
    FirstCharacter,
}

impl Kernel for Measure {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Rows::of(arguments)?.numbers::<Int32Type>(|row| {
            let bytes = row.bytes(0);
            let number = match self {
                Measure::Characters if row.is_binary(0) => bytes.len(),
                Measure::Characters => row.characters(0),
                Measure::Bytes => bytes.len(),
                Measure::Bits => bytes.len().saturating_mul(8),
                Measure::FirstCharacter => row.text(0).chars().next().map_or(0, |c| c as usize),
            };
            Ok(i32::try_from(number).ok())
        })
    }
}

/// The character of a number's lowest eight bits; nothing for negative numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Chr;

impl Kernel for Chr {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Rows::of(arguments)?.texts(|row, out| {
            let number = row.long(0);
            if number >= 0 {
                out.push(char::from(number.to_le_bytes()[0]));
            }
            Ok(true)
        })
    }
}
