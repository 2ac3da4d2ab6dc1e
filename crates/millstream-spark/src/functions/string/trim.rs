//! Cutting characters off the ends.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use millstream_core::Result;

use super::super::rows::Rows;
use super::super::{Arguments, Call, Functions, Kernel, Typed};
use super::strict;

pub(super) fn register(functions: &mut Functions) {
    functions.add("trim", |call| build(call, "trim", Trim { start: true, end: true }));
    functions.add("ltrim", |call| build(call, "ltrim", Trim { start: true, end: false }));
    functions.add("rtrim", |call| build(call, "rtrim", Trim { start: false, end: true }));
    functions.add("btrim", |call| {
        call.arity(1..=2)?;
        let arguments = super::texts(call, call.len())?;
        Ok(strict("btrim", Trim { start: true, end: true }, arguments, DataType::Utf8))
    });
}

/// `trim([characters,] text)`.
fn build(call: &Call<'_>, name: &'static str, trim: Trim) -> Result<Typed> {
    call.arity(1..=2)?;
    let mut arguments = super::texts(call, call.len())?;
    arguments.reverse();
    Ok(strict(name, trim, arguments, DataType::Utf8))
}

/// Cuts off spaces, or the characters of the second argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Trim {
    start: bool,
    end: bool,
}

impl Kernel for Trim {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let any = arguments.len() > 1;
        Rows::of(arguments)?.texts(|row, out| {
            let (mut text, characters) = (row.text(0), row.text(1));
            let cut = |c: char| if any { characters.contains(c) } else { c == ' ' };
            if self.start {
                text = text.trim_start_matches(cut);
            }
            if self.end {
                text = text.trim_end_matches(cut);
            }
            out.push_str(text);
            Ok(true)
        })
    }
}
