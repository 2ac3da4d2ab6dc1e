//! Parts of text and bytes by position. Positions count characters from 1, or from the end when negative.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use millstream_core::Result;

use super::super::rows::{Row, Rows};
use super::super::{Arguments, Call, Functions, Kernel, Typed, faults, scalar};
use super::{strict, text_or_bytes};

pub(super) fn register(functions: &mut Functions) {
    functions.add_all(&["substring", "substr"], |call| {
        call.arity(2..=3)?;
        let mut arguments = vec![text_or_bytes(call, 0)?, call.int(1)?];
        if call.len() == 3 {
            arguments.push(call.int(2)?);
        }
        Ok(slice("substring", Slice::Substring, arguments))
    });
    functions.add("left", |call| {
        call.arity(2..=2)?;
        Ok(slice("left", Slice::Left, vec![text_or_bytes(call, 0)?, call.int(1)?]))
    });
    functions.add("right", |call| {
        call.arity(2..=2)?;
        Ok(scalar("right", Slice::Right, vec![call.string(0)?, call.int(1)?], DataType::Utf8, true))
    });
    functions.add("overlay", overlay);
}

/// The result is of the type of the first argument.
fn slice(name: &'static str, slice: Slice, arguments: Vec<Typed>) -> Typed {
    let data_type = arguments.first().map_or(DataType::Utf8, |first| first.data_type.clone());
    strict(name, slice, arguments, data_type)
}

fn overlay(call: &Call<'_>) -> Result<Typed> {
    call.arity(3..=4)?;
    let (first, second) = (&call.value(0)?.data_type, &call.value(1)?.data_type);
    if matches!((first, second), (DataType::Binary, DataType::Utf8) | (DataType::Utf8, DataType::Binary)) {
        return Err(faults::different_types(call.name, &[first, second]));
    }
    let (input, replacement) = super::same_text_or_bytes(call, 0, 1)?;
    let mut arguments = vec![input, replacement, call.int(2)?];
    if call.len() == 4 {
        arguments.push(call.int(3)?);
    }
    Ok(slice("overlay", Slice::Overlay, arguments))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Slice {
    /// From a position on, as many as the third argument says.
    Substring,
    /// As many from the beginning as the second argument says.
    Left,
    /// As many from the end as the second argument says.
    Right,
    /// The first argument with the second in place of what begins at a position.
    Overlay,
}

impl Kernel for Slice {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let rows = Rows::of(arguments)?;
        if rows.len() > 0 && rows.row(0).is_binary(0) {
            rows.bytes(|row, out| {
                self.parts(row, row.bytes(0).len(), row.bytes(1).len(), |from, start, end| {
                    out.extend_from_slice(row.bytes(from).get(start..end).unwrap_or_default());
                });
                Ok(true)
            })
        } else {
            rows.texts(|row, out| {
                let (length, other) = (characters(row.text(0)), characters(row.text(1)));
                self.parts(row, length, other, |from, start, end| {
                    let text = row.text(from);
                    out.push_str(text.get(byte_at(text, start)..byte_at(text, end)).unwrap_or_default());
                });
                Ok(true)
            })
        }
    }
}

impl Slice {
    /// Tells `take` the pieces of the result: which argument, from where, to where. `length` and `other` are the lengths of the first two
    /// arguments.
    fn parts(self, row: Row<'_>, length: usize, other: usize, mut take: impl FnMut(usize, usize, usize)) {
        let mut part = |from: usize, position: i64, count: i64| {
            let (start, end) = range(length, position, count);
            take(from, start, end);
        };
        let second = i64::from(row.int(1));
        match self {
            Slice::Substring => part(0, second, if row.len() > 2 { i64::from(row.int(2)) } else { i64::from(i32::MAX) }),
            Slice::Left => part(0, 1, second),
            Slice::Right if second <= 0 => {}
            Slice::Right => part(0, -second, i64::from(i32::MAX)),
            Slice::Overlay => {
                let position = i64::from(row.int(2));
                let replaced = match row.int(3) {
                    count if row.len() > 3 && count >= 0 => i64::from(count),
                    _ => i64::try_from(other).unwrap_or(i64::MAX),
                };
                part(0, 1, position - 1);
                take(1, 0, other);
                let (start, end) = range(length, position + replaced, i64::from(i32::MAX));
                take(0, start, end);
            }
        }
    }
}

/// From where to where `count` elements from a position on are, of `length`. Position 0 is the first element, too.
pub(super) fn range(length: usize, position: i64, count: i64) -> (usize, usize) {
    let whole = i64::try_from(length).unwrap_or(i64::MAX);
    let start = match position {
        1.. => position - 1,
        0 => 0,
        _ => whole.saturating_add(position),
    };
    let end = start.saturating_add(count).clamp(0, whole);
    let start = start.clamp(0, whole);
    let place = |at: i64| usize::try_from(at).unwrap_or(0);
    if end <= start { (0, 0) } else { (place(start), place(end)) }
}

/// How many characters a text has.
pub(super) fn characters(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// Where in its bytes a text's character at a place begins; its length if it has no such character.
pub(super) fn byte_at(text: &str, place: usize) -> usize {
    if text.is_ascii() {
        return place.min(text.len());
    }
    text.char_indices().nth(place).map_or(text.len(), |(at, _)| at)
}
