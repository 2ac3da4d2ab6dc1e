//! Values put together, and one chosen of several.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MutableArrayData, UInt64Array, make_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::take;
use arrow::datatypes::DataType;
use millstream_core::{Error, Result};

use super::super::faults;
use super::super::rows::{Ends, Row, Rows, check_room, internal};
use super::super::{Arguments, Call, Functions, Kernel, Typed, cast, scalar};
use super::strict;
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add_all(&["concat", "||"], concat);
    functions.add("concat_ws", concat_ws);
    functions.add("elt", elt);
}

/// Arrays, bytes if all are bytes, otherwise text.
fn concat(call: &Call<'_>) -> Result<Typed> {
    let values = call.values_from(0)?;
    if values.is_empty() {
        return Ok(Typed::text(""));
    }
    if values.iter().any(|value| matches!(value.data_type, DataType::List(_))) {
        for (index, value) in values.iter().enumerate() {
            match &value.data_type {
                DataType::List(_) | DataType::Binary | DataType::Utf8 => {}
                DataType::Null => {
                    let message = format!("the inputs of `{}` should all be of one type", call.name);
                    return Err(faults::mismatch("DATA_DIFF_TYPES", message));
                }
                other => return Err(faults::unexpected_type(call.name, index, "(\"STRING\" or \"BINARY\" or \"ARRAY\")", other)),
            }
        }
        let (data_type, values) = call.common(0)?;
        return Ok(strict("concat", ConcatArrays, values, data_type));
    }
    if values.iter().all(|value| value.data_type == DataType::Binary) {
        return Ok(strict("concat", Concat { binary: true }, values, DataType::Binary));
    }
    Ok(strict("concat", Concat { binary: false }, super::texts(call, call.len())?, DataType::Utf8))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Concat {
    binary: bool,
}

impl Kernel for Concat {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let rows = Rows::of(arguments)?;
        if self.binary {
            rows.bytes(|row, out| {
                check_room(out.len(), (0..row.len()).map(|index| row.bytes(index).len()).sum())?;
                (0..row.len()).for_each(|index| out.extend_from_slice(row.bytes(index)));
                Ok(true)
            })
        } else {
            rows.texts(|row, out| {
                check_room(out.len(), (0..row.len()).map(|index| row.text(index).len()).sum())?;
                (0..row.len()).for_each(|index| out.push_str(row.text(index)));
                Ok(true)
            })
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ConcatArrays;

impl Kernel for ConcatArrays {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let arrays = arguments.arrays()?;
        let lists: Vec<&ListArray> = arrays.iter().filter_map(|array| array.as_list_opt::<i32>()).collect();
        if lists.len() != arrays.len() {
            return Err(Error::internal("an argument of concat is no array"));
        }
        let parts: Vec<_> = lists.iter().map(|list| list.values().to_data()).collect();
        let mut values = MutableArrayData::new(parts.iter().collect(), false, 0);
        let mut ends = Ends::new(arguments.rows());
        let mut total = 0;
        for at in 0..arguments.rows() {
            let valid = lists.iter().all(|list| list.is_valid(at));
            if valid {
                for (number, list) in lists.iter().enumerate() {
                    let (start, length) = bounds(list.offsets(), at);
                    values.try_extend(number, start, start + length).map_err(internal)?;
                    total += length;
                }
            }
            ends.push(total, valid)?;
        }
        let (offsets, nulls) = ends.finish();
        let field = match lists.iter().find_map(|list| match list.data_type() {
            DataType::List(field) if field.is_nullable() => Some(field.clone()),
            _ => None,
        }) {
            Some(nullable) => nullable,
            None => match lists.first().map(|list| list.data_type().clone()) {
                Some(DataType::List(field)) => field,
                _ => return Err(Error::internal("concat of no arrays")),
            },
        };
        Ok(Arc::new(ListArray::try_new(field, offsets, make_array(values.freeze()), nulls).map_err(internal)?))
    }
}

/// Where the elements of a list are: the first, and how many.
fn bounds(offsets: &OffsetBuffer<i32>, at: usize) -> (usize, usize) {
    let offset = |at: usize| offsets.get(at).and_then(|offset| usize::try_from(*offset).ok()).unwrap_or(0);
    let (start, end) = (offset(at), offset(at + 1));
    (start, end.saturating_sub(start))
}

/// The elements of arrays from the last to the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ReverseArrays;

impl Kernel for ReverseArrays {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let array = arguments.array(0)?;
        let Some(lists) = array.as_list_opt::<i32>() else { return Err(Error::internal("the argument of reverse is no array")) };
        let (mut indexes, mut ends) = (Vec::new(), Ends::new(lists.len()));
        for at in 0..lists.len() {
            if lists.is_valid(at) {
                let (start, length) = bounds(lists.offsets(), at);
                indexes.extend((start..start + length).rev().map(|index| index as u64));
            }
            ends.push(indexes.len(), lists.is_valid(at))?;
        }
        let (offsets, nulls) = ends.finish();
        let values = take(lists.values(), &UInt64Array::from(indexes), None).map_err(internal)?;
        let DataType::List(field) = lists.data_type() else { return Err(Error::internal("the argument of reverse is no array")) };
        Ok(Arc::new(ListArray::try_new(field.clone(), offsets, values, nulls).map_err(internal)?))
    }
}

/// Texts and arrays of texts with a separator between them.
fn concat_ws(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=usize::MAX)?;
    let mut arguments = vec![call.string(0)?];
    for index in 1..call.len() {
        arguments.push(match call.value(index)?.data_type {
            DataType::List(_) => cast::implicit(call.value(index)?.clone(), &types::array(DataType::Utf8, true), call.settings)?,
            _ => call.string(index)?,
        });
    }
    let nullable = arguments.first().is_some_and(|separator| separator.nullable);
    Ok(scalar("concat_ws", ConcatWs, arguments, DataType::Utf8, nullable))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ConcatWs;

impl Kernel for ConcatWs {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Rows::of(arguments)?.every_text(|row, out| {
            let Some(separator) = row.text_opt(0) else { return Ok(false) };
            let (mut first, mut room) = (true, Ok(()));
            let start = out.len();
            let mut add = |text: &str| {
                room =
                    std::mem::replace(&mut room, Ok(())).and_then(|()| check_room(start, out.len() - start + separator.len() + text.len()));
                if room.is_err() {
                    return;
                }
                if !std::mem::take(&mut first) {
                    out.push_str(separator);
                }
                out.push_str(text);
            };
            for index in (1..row.len()).filter(|index| !row.is_null(*index)) {
                let list = row.array(index).and_then(|(array, at)| Some((array.as_list_opt::<i32>()?, at)));
                match list {
                    Some((lists, at)) => lists.value(at).as_string_opt::<i32>().into_iter().flatten().flatten().for_each(&mut add),
                    None => add(row.text(index)),
                }
            }
            room.map(|()| true)
        })
    }
}

fn elt(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=usize::MAX)?;
    let values = call.values_from(1)?;
    let binary = values.iter().all(|value| value.data_type == DataType::Binary);
    let mut arguments = vec![call.int(0)?];
    for index in 1..call.len() {
        arguments.push(if binary { call.binary(index)? } else { call.string(index)? });
    }
    let data_type = if binary { DataType::Binary } else { DataType::Utf8 };
    Ok(scalar("elt", Elt { ansi: call.settings.ansi, binary }, arguments, data_type, true))
}

/// The argument whose number the first argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Elt {
    ansi: bool,
    binary: bool,
}

impl Elt {
    fn chosen(self, row: Row<'_>) -> Result<Option<usize>> {
        if row.is_null(0) {
            return Ok(None);
        }
        match usize::try_from(row.int(0)) {
            Ok(place) if place >= 1 && place < row.len() => Ok((!row.is_null(place)).then_some(place)),
            _ if !self.ansi => Ok(None),
            _ => {
                let message = format!("the index {} is out of bounds: `elt` has {} values", row.int(0), row.len() - 1);
                Err(faults::row("INVALID_ARRAY_INDEX", "22003", message))
            }
        }
    }
}

impl Kernel for Elt {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let rows = Rows::of(arguments)?;
        if self.binary {
            return rows.every_bytes(|row, out| {
                let chosen = self.chosen(row)?;
                chosen.into_iter().for_each(|place| out.extend_from_slice(row.bytes(place)));
                Ok(chosen.is_some())
            });
        }
        rows.every_text(|row, out| {
            let chosen = self.chosen(row)?;
            chosen.into_iter().for_each(|place| out.push_str(row.text(place)));
            Ok(chosen.is_some())
        })
    }
}
