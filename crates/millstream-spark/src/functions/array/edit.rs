//! Arrays with elements added, taken away or put in another order.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, FieldRef, Int32Type};
use arrow::row::Rows;
use millstream_core::{Error, Result};

use super::super::downcast;
use super::super::nested::ListBuilder;
use super::super::{Arguments, Call, Functions, Kernel, Typed, faults, keys, nested, scalar};
use super::{Width, WithValue, array, array_or_null, exact_int, index_of_zero, orderable};
use crate::types;

/// The most elements of an array that is grown by inserting far behind its end.
const MAX_ELEMENTS: i64 = i32::MAX as i64 - 15;

pub(super) fn register(functions: &mut Functions) {
    functions.add("array_append", |call| add_at_end(call, End::Last));
    functions.add("array_prepend", |call| add_at_end(call, End::First));
    functions.add("array_insert", array_insert);
    functions.add("array_remove", array_remove);
    functions.add("array_compact", array_compact);
    functions.add("slice", slice);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum End {
    First,
    Last,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct AddAtEnd {
    end: End,
    element: FieldRef,
}

impl Kernel for AddAtEnd {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (arrays, values) = (arguments.array(0)?, arguments.array(1)?);
        let lists = downcast::lists(&arrays)?;
        let mut builder = ListBuilder::new(self.element.clone(), &[lists.values(), &values])?;
        for row in 0..lists.len() {
            let Some(range) = nested::range(lists, row) else {
                builder.end_null()?;
                continue;
            };
            if self.end == End::First {
                builder.push(1, row);
            }
            builder.extend(0, range);
            if self.end == End::Last {
                builder.push(1, row);
            }
            builder.end()?;
        }
        builder.finish()
    }
}

fn add_at_end(call: &Call<'_>, end: End) -> Result<Typed> {
    call.arity(2..=2)?;
    let WithValue { array, element, value } = WithValue::of(call, 0, 1, Width::Tight)?;
    let element: FieldRef = Arc::new(element.as_ref().clone().with_nullable(true));
    let nullable = array.nullable;
    let name = if end == End::First { "array_prepend" } else { "array_append" };
    Ok(scalar(name, AddAtEnd { end, element: element.clone() }, vec![array, value], DataType::List(element), nullable))
}

/// Inserts a value at an index that counts from 1 or, negative, from behind the end; gaps are filled with nulls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Insert {
    element: FieldRef,
    /// At -1 it goes before the last element instead of behind it.
    before_last: bool,
}

impl Kernel for Insert {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (arrays, indices, values) = (arguments.array(0)?, arguments.array(1)?, arguments.array(2)?);
        let (lists, indices) = (downcast::lists(&arrays)?, downcast::primitive::<Int32Type>(&indices)?);
        let mut builder = ListBuilder::new(self.element.clone(), &[lists.values(), &values])?;
        for row in 0..lists.len() {
            let (Some(range), Some(index)) = (nested::range(lists, row), downcast::value(indices, row)) else {
                builder.end_null()?;
                continue;
            };
            if index == 0 {
                return Err(index_of_zero());
            }
            let size = range.len() as i64;
            // How many elements stand before the value; negative when nulls go between the value and them.
            let before = if index > 0 { i64::from(index) - 1 } else { size + i64::from(index) + i64::from(!self.before_last) };
            let grown = if before < 0 { size - before + 1 } else { before.max(size) + 1 };
            if grown > MAX_ELEMENTS {
                return Err(faults::row(
                    "COLLECTION_SIZE_LIMIT_EXCEEDED.FUNCTION",
                    "54000",
                    format!("`array_insert` cannot make an array of {grown} elements: it holds at most {MAX_ELEMENTS}"),
                ));
            }
            if before < 0 {
                builder.push(1, row);
                (before..0).for_each(|_| builder.push_null());
                builder.extend(0, range);
            } else {
                let kept = usize::try_from(before.min(size)).unwrap_or(0);
                builder.extend(0, range.start..range.start + kept);
                (size..before).for_each(|_| builder.push_null());
                builder.push(1, row);
                builder.extend(0, range.start + kept..range.end);
            }
            builder.end()?;
        }
        builder.finish()
    }
}

fn array_insert(call: &Call<'_>) -> Result<Typed> {
    call.arity(3..=3)?;
    let index = exact_int(call, 1, false)?;
    let WithValue { array, element, value } = WithValue::of(call, 0, 2, Width::Tight).map_err(|error| no_array(call, 2, error))?;
    let element: FieldRef = Arc::new(Field::new("element", element.data_type().clone(), true).with_metadata(element.metadata().clone()));
    let nullable = array.nullable || index.nullable;
    let kernel = Insert { element: element.clone(), before_last: call.settings.insert_before_last };
    Ok(scalar("array_insert", kernel, vec![array, index, value], DataType::List(element), nullable))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Remove {
    element: FieldRef,
}

/// The elements for which a predicate holds, of the rows that are not null.
fn keep(arrays: &ArrayRef, element: &FieldRef, is_null: impl Fn(usize) -> bool, keeps: impl Fn(usize, usize) -> bool) -> Result<ArrayRef> {
    let lists = downcast::lists(arrays)?;
    let mut builder = ListBuilder::new(element.clone(), &[lists.values()])?;
    for row in 0..lists.len() {
        match nested::range(lists, row) {
            Some(range) if !is_null(row) => {
                range.filter(|index| keeps(row, *index)).for_each(|index| builder.push(0, index));
                builder.end()?;
            }
            _ => builder.end_null()?,
        }
    }
    builder.finish()
}

fn two(compared: &[Rows]) -> Result<(&Rows, &Rows)> {
    match compared {
        [left, right] => Ok((left, right)),
        _ => Err(Error::internal("two columns have two sets of keys")),
    }
}

impl Kernel for Remove {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (arrays, values) = (arguments.array(0)?, arguments.array(1)?);
        let compared = keys::of_columns(&[downcast::lists(&arrays)?.values(), &values])?;
        let (elements, removed) = two(&compared)?;
        keep(&arrays, &self.element, |row| values.is_null(row), |row, index| elements.row(index) != removed.row(row))
    }
}

/// What is no array does not go with the value either.
fn no_array(call: &Call<'_>, value: usize, error: Error) -> Error {
    match (call.value(0), call.value(value)) {
        (Ok(array), Ok(value)) if !matches!(array.data_type, DataType::List(_)) => {
            let (array, value) = (types::ddl_type(&array.data_type), types::ddl_type(&value.data_type));
            let message = format!("`{}` takes an array and a value of its elements' type, not \"{array}\" and \"{value}\"", call.name);
            faults::mismatch("ARRAY_FUNCTION_DIFF_TYPES", message)
        }
        _ => error,
    }
}

fn array_remove(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    let WithValue { array, element, value } = WithValue::of(call, 0, 1, Width::Wide).map_err(|error| no_array(call, 1, error))?;
    orderable(call.name, element.data_type())?;
    let (data_type, nullable) = (array.data_type.clone(), array.nullable || value.nullable);
    Ok(scalar("array_remove", Remove { element }, vec![array, value], data_type, nullable))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Compact {
    element: FieldRef,
}

impl Kernel for Compact {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let arrays = arguments.array(0)?;
        let elements = downcast::lists(&arrays)?.values().clone();
        keep(&arrays, &self.element, |_| false, |_, index| elements.is_valid(index))
    }
}

fn array_compact(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=1)?;
    if call.value(0)?.data_type == DataType::Null {
        return Ok(Typed::null(&types::array(DataType::Null, false)));
    }
    let (array, element) = array(call, 0)?;
    let element: FieldRef =
        Arc::new(element.as_ref().clone().with_nullable(element.is_nullable() && *element.data_type() == DataType::Null));
    let nullable = array.nullable;
    Ok(scalar("array_compact", Compact { element: element.clone() }, vec![array], DataType::List(element), nullable))
}

/// Some elements from a place on that counts from 1 or, negative, from the end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Slice {
    element: FieldRef,
}

impl Kernel for Slice {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (arrays, starts, lengths) = (arguments.array(0)?, arguments.array(1)?, arguments.array(2)?);
        let lists = downcast::lists(&arrays)?;
        let (starts, lengths) = (downcast::primitive::<Int32Type>(&starts)?, downcast::primitive::<Int32Type>(&lengths)?);
        let mut builder = ListBuilder::new(self.element.clone(), &[lists.values()])?;
        for row in 0..lists.len() {
            let bounds = (downcast::value(starts, row), downcast::value(lengths, row));
            let (Some(range), (Some(start), Some(length))) = (nested::range(lists, row), bounds) else {
                builder.end_null()?;
                continue;
            };
            let first = match start {
                0 => {
                    let message = "`slice` starts at 1 or, negative, from the end, and not at 0";
                    return Err(faults::row("INVALID_PARAMETER_VALUE.START", "22023", message));
                }
                1.. => i64::from(start) - 1,
                _ => range.len() as i64 + i64::from(start),
            };
            let Ok(length) = usize::try_from(length) else {
                let message = format!("the length of a `slice` is at least 0, and not {length}");
                return Err(faults::row("INVALID_PARAMETER_VALUE.LENGTH", "22023", message));
            };
            if let Ok(first) = usize::try_from(first)
                && first < range.len()
            {
                let from = range.start + first;
                builder.extend(0, from..range.end.min(from.saturating_add(length)));
            }
            builder.end()?;
        }
        builder.finish()
    }
}

fn slice(call: &Call<'_>) -> Result<Typed> {
    call.arity(3..=3)?;
    let (array, element) = array_or_null(call, 0)?;
    let (start, length) = (call.int(1)?, call.int(2)?);
    let (data_type, nullable) = (array.data_type.clone(), array.nullable || start.nullable || length.nullable);
    Ok(scalar("slice", Slice { element }, vec![array, start, length], data_type, nullable))
}
