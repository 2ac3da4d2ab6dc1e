//! Parts of text between delimiters.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use millstream_core::Result;

use super::super::faults;
use super::super::rows::Rows;
use super::super::{Arguments, Functions, Kernel, scalar};
use super::strict;

pub(super) fn register(functions: &mut Functions) {
    functions.add("split_part", |call| {
        call.arity(3..=3)?;
        Ok(scalar("split_part", Part::SplitPart, vec![call.string(0)?, call.string(1)?, call.int(2)?], DataType::Utf8, true))
    });
    functions.add("substring_index", |call| {
        call.arity(3..=3)?;
        Ok(strict("substring_index", Part::SubstringIndex, vec![call.string(0)?, call.string(1)?, call.int(2)?], DataType::Utf8))
    });
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    /// The part at a place, counted from 1 or from the end; empty when there is none.
    SplitPart,
    /// Everything before the delimiter's occurrence at a place, or behind it when counted from the end; all when there is none.
    SubstringIndex,
}

impl Kernel for Part {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Rows::of(arguments)?.texts(|row, out| {
            let (text, delimiter, place) = (row.text(0), row.text(1), row.int(2));
            out.push_str(match self {
                Part::SplitPart => split_part(text, delimiter, place)?,
                Part::SubstringIndex => substring_index(text, delimiter, place),
            });
            Ok(true)
        })
    }
}

fn split_part<'a>(text: &'a str, delimiter: &str, place: i32) -> Result<&'a str> {
    let index = match usize::try_from(place.unsigned_abs()).unwrap_or(usize::MAX).checked_sub(1) {
        Some(index) => index,
        None => {
            let message = "the index 0 is invalid: parts count from 1, or from the end with negative numbers";
            return Err(faults::row("INVALID_INDEX_OF_ZERO", "22003", message));
        }
    };
    // An empty delimiter does not split.
    if delimiter.is_empty() {
        return Ok(if index == 0 { text } else { "" });
    }
    let part = if place > 0 { text.split(delimiter).nth(index) } else { text.rsplit(delimiter).nth(index) };
    Ok(part.unwrap_or(""))
}

fn substring_index<'a>(text: &'a str, delimiter: &str, count: i32) -> &'a str {
    if count == 0 || delimiter.is_empty() {
        return "";
    }
    let (bytes, sought) = (text.as_bytes(), delimiter.as_bytes());
    let occurs = |at: usize| bytes.get(at..).is_some_and(|rest| rest.starts_with(sought));
    let last = bytes.len().saturating_sub(sought.len());
    let nth = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) - 1;
    // Occurrences may overlap.
    if count > 0 {
        (0..=last).filter(|at| occurs(*at)).nth(nth).and_then(|at| text.get(..at)).unwrap_or(text)
    } else {
        (0..=last).rev().filter(|at| occurs(*at)).nth(nth).and_then(|at| text.get(at + sought.len()..)).unwrap_or(text)
    }
}
