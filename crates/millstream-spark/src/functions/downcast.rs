//! Arrays of arguments as arrays of the type that a builder gave them.

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, ListArray, MapArray, PrimitiveArray, PrimitiveBuilder, StringArray,
    StructArray,
};
use millstream_core::{Error, Result};

/// A column of numbers, dates, times or intervals.
///
/// # Errors
/// `INTERNAL_ERROR` when the array is of another type; so do all functions here.
pub(super) fn primitive<T: ArrowPrimitiveType>(array: &ArrayRef) -> Result<&PrimitiveArray<T>> {
    array.as_primitive_opt::<T>().ok_or_else(|| wrong(array, &T::DATA_TYPE.to_string()))
}

/// A column of strings.
pub(super) fn strings(array: &ArrayRef) -> Result<&StringArray> {
    array.as_string_opt::<i32>().ok_or_else(|| wrong(array, "Utf8"))
}

/// A column of booleans.
pub(super) fn booleans(array: &ArrayRef) -> Result<&BooleanArray> {
    array.as_boolean_opt().ok_or_else(|| wrong(array, "Boolean"))
}

/// A column of arrays.
pub(super) fn lists(array: &ArrayRef) -> Result<&ListArray> {
    array.as_list_opt::<i32>().ok_or_else(|| wrong(array, "List"))
}

/// A column of maps.
pub(super) fn maps(array: &ArrayRef) -> Result<&MapArray> {
    array.as_map_opt().ok_or_else(|| wrong(array, "Map"))
}

/// A column of structs.
pub(super) fn structs(array: &ArrayRef) -> Result<&StructArray> {
    array.as_struct_opt().ok_or_else(|| wrong(array, "Struct"))
}

/// The value of a row that may be null.
pub(super) fn value<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, row: usize) -> Option<T::Native> {
    array.is_valid(row).then(|| array.value(row))
}

/// The text of a row that may be null.
pub(super) fn text(array: &StringArray, row: usize) -> Option<&str> {
    array.is_valid(row).then(|| array.value(row))
}

/// Computes a column from another, null where it is null or where the function gives none.
pub(super) fn map<I: ArrowPrimitiveType, O: ArrowPrimitiveType>(
    array: &ArrayRef,
    mut function: impl FnMut(I::Native) -> Result<Option<O::Native>>,
) -> Result<PrimitiveArray<O>> {
    let array = primitive::<I>(array)?;
    let mut result = PrimitiveBuilder::<O>::with_capacity(array.len());
    for value in array {
        result.append_option(match value {
            Some(value) => function(value)?,
            None => None,
        });
    }
    Ok(result.finish())
}

/// Computes a column from two, null where either is null or where the function gives none.
pub(super) fn map2<I: ArrowPrimitiveType, J: ArrowPrimitiveType, O: ArrowPrimitiveType>(
    left: &ArrayRef,
    right: &ArrayRef,
    mut function: impl FnMut(I::Native, J::Native) -> Result<Option<O::Native>>,
) -> Result<PrimitiveArray<O>> {
    let (left, right) = (primitive::<I>(left)?, primitive::<J>(right)?);
    let mut result = PrimitiveBuilder::<O>::with_capacity(left.len());
    for pair in left.iter().zip(right.iter()) {
        result.append_option(match pair {
            (Some(left), Some(right)) => function(left, right)?,
            _ => None,
        });
    }
    Ok(result.finish())
}

/// An error of Arrow's kernels, which cannot happen with arguments of the right types.
pub(super) fn arrow_error(error: arrow::error::ArrowError) -> Error {
    Error::internal("an array kernel failed").caused_by(error)
}

fn wrong(array: &ArrayRef, expected: &str) -> Error {
    Error::internal(format!("an argument is of type {} instead of {expected}", array.data_type()))
}
