//! Arrays: building, searching, editing, sorting, and taking values out of arrays, maps and structs.

mod access;
mod build;
mod edit;
mod extract;
mod join;
mod search;
mod sequence;
mod sets;
mod shuffle;
mod sort;

use arrow::datatypes::{DataType, FieldRef};
use millstream_core::{Error, Result};

use super::{Call, Functions, Settings, Typed, cast, coercion, faults, keys, nested};
use crate::types;

pub(super) use access::map_and_key;
pub(super) use extract::{field_of, find_field};
pub(super) use sort::natural_array_sort;

pub(super) fn register(functions: &mut Functions) {
    access::register(functions);
    build::register(functions);
    edit::register(functions);
    extract::register(functions);
    join::register(functions);
    search::register(functions);
    sequence::register(functions);
    sets::register(functions);
    shuffle::register(functions);
    sort::register(functions);
}

/// An argument that is an array, with the field of its elements. A null without a type is no array.
///
/// # Errors
/// `DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE`.
pub(super) fn array(call: &Call<'_>, index: usize) -> Result<(Typed, FieldRef)> {
    let value = call.value(index)?;
    match &value.data_type {
        DataType::List(element) => Ok((value.clone(), element.clone())),
        other => Err(faults::unexpected_type(call.name, index, "\"ARRAY\"", other)),
    }
}

/// As [`array`], but a null without a type is an array of nulls.
///
/// # Errors
/// As [`array`].
fn array_or_null(call: &Call<'_>, index: usize) -> Result<(Typed, FieldRef)> {
    if call.value(index)?.data_type == DataType::Null {
        let null = Typed::null(&types::array(DataType::Null, true));
        let element = nested::element_field(&null.data_type)?.clone();
        return Ok((null, element));
    }
    array(call, index)
}

/// The arguments of a function that takes an array and a value of its elements' type, both brought to their common type.
struct WithValue {
    array: Typed,
    element: FieldRef,
    value: Typed,
}

/// How different the types of elements may be that are brought together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// Numbers of other kinds, decimals included.
    Wide,
    /// Numbers of other sizes.
    Tight,
}

/// The type of which two elements are, if there is one. Text and something else have none.
pub(super) fn common_element(left: &DataType, right: &DataType, width: Width, settings: &Settings) -> Option<DataType> {
    let is_text = |data_type: &DataType| *data_type == DataType::Utf8;
    let is_decimal = |data_type: &DataType| matches!(data_type, DataType::Decimal128(..));
    if left != right && *left != DataType::Null && *right != DataType::Null {
        let decimals_differ = is_decimal(left) || is_decimal(right);
        if is_text(left) != is_text(right) || width == Width::Tight && decimals_differ {
            return None;
        }
    }
    coercion::common_type(left, right, settings)
}

impl WithValue {
    fn of(call: &Call<'_>, array_index: usize, value_index: usize, width: Width) -> Result<WithValue> {
        let (array, element) = array(call, array_index)?;
        let value = call.value(value_index)?.clone();
        let Some(common) = common_element(element.data_type(), &value.data_type, width, call.settings) else {
            return Err(faults::mismatch(
                "ARRAY_FUNCTION_DIFF_TYPES",
                format!(
                    "`{}` takes an array and a value of its elements' type, not \"{}\" and \"{}\"",
                    call.name,
                    types::ddl_type(&array.data_type),
                    types::ddl_type(&value.data_type)
                ),
            ));
        };
        let array = cast::implicit(array, &types::array(common.clone(), element.is_nullable()), call.settings)?;
        let value = cast::implicit(value, &common, call.settings)?;
        let element = nested::element_field(&array.data_type)?.clone();
        Ok(WithValue { array, element, value })
    }
}

/// Two arrays, brought to a common type of their elements.
fn pair(call: &Call<'_>) -> Result<(Typed, Typed)> {
    call.arity(2..=2)?;
    let (left, right) = (call.value(0)?, call.value(1)?);
    let different = || {
        let (left, right) = (types::ddl_type(&left.data_type), types::ddl_type(&right.data_type));
        let message = format!("`{}` takes two arrays with elements of the same type, not \"{left}\" and \"{right}\"", call.name);
        faults::mismatch("BINARY_ARRAY_DIFF_TYPES", message)
    };
    let (DataType::List(left_element), DataType::List(right_element)) = (&left.data_type, &right.data_type) else {
        return Err(different());
    };
    let common = common_element(left_element.data_type(), right_element.data_type(), Width::Tight, call.settings);
    let common = common.ok_or_else(different)?;
    orderable(call.name, &common)?;
    let (left_type, right_type) =
        (types::array(common.clone(), left_element.is_nullable()), types::array(common, right_element.is_nullable()));
    Ok((cast::implicit(left.clone(), &left_type, call.settings)?, cast::implicit(right.clone(), &right_type, call.settings)?))
}

/// Checks that values of a type can be compared.
///
/// # Errors
/// `DATATYPE_MISMATCH.INVALID_ORDERING_TYPE`.
pub(super) fn orderable(name: &str, data_type: &DataType) -> Result<()> {
    if keys::is_orderable(data_type) {
        return Ok(());
    }
    let message = format!("`{name}` does not support ordering on type \"{}\"", types::ddl_type(data_type));
    Err(faults::mismatch("INVALID_ORDERING_TYPE", message))
}

/// An argument that must be a 32-bit integer or smaller, as it is.
///
/// # Errors
/// `DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE`.
fn exact_int(call: &Call<'_>, index: usize, null_too: bool) -> Result<Typed> {
    match call.value(index)?.data_type {
        DataType::Int8 | DataType::Int16 | DataType::Int32 => call.int(index),
        DataType::Null if null_too => call.int(index),
        ref other => Err(faults::unexpected_type(call.name, index, "\"INT\"", other)),
    }
}

/// The index 0, where elements count from 1.
fn index_of_zero() -> Error {
    faults::row("INVALID_INDEX_OF_ZERO", "22003", "the index 0 is invalid: the first element has the index 1, the last has -1")
}
