//! Single elements, and sizes: `element_at`, `get`, `size`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int32Builder, UInt64Builder};
use arrow::compute::take;
use arrow::datatypes::{DataType, Int32Type};
use millstream_core::{Error, Result};

use super::super::downcast::{self, arrow_error};
use super::super::{Arguments, Call, Functions, Kernel, Typed, cast, faults, keys, nested, scalar};
use super::{array, exact_int, index_of_zero};
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add("element_at", |call| element_at(call, call.settings.ansi));
    functions.add("try_element_at", |call| element_at(call, false));
    functions.add("get", get);
    functions.add("array_size", array_size);
    functions.add_all(&["size", "cardinality"], size);
}

/// Where an index counts from, and what happens when there is no such element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Indexing {
    /// From 1, or from the end with −1.
    FromOne { fails: bool },
    /// From 0.
    FromZero { fails: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ElementAt {
    indexing: Indexing,
}

impl ElementAt {
    /// The place of an element among `size`.
    fn place(self, index: i32, size: usize) -> Result<Option<usize>> {
        let index = i64::from(index);
        let place = match self.indexing {
            Indexing::FromOne { .. } if index == 0 => return Err(index_of_zero()),
            Indexing::FromOne { .. } if index < 0 => size as i64 + index,
            Indexing::FromOne { .. } => index - 1,
            Indexing::FromZero { .. } => index,
        };
        match (usize::try_from(place).ok().filter(|place| *place < size), self.indexing) {
            (Some(place), _) => Ok(Some(place)),
            (None, Indexing::FromOne { fails: true }) => Err(faults::row(
                "INVALID_ARRAY_INDEX_IN_ELEMENT_AT",
                "22003",
                format!("the index {index} is out of bounds of an array of {size} elements: use `try_element_at` to get NULL instead"),
            )),
            (None, Indexing::FromZero { fails: true }) => Err(faults::row(
                "INVALID_ARRAY_INDEX",
                "22003",
                format!("the index {index} is out of bounds of an array of {size} elements: use `get` to get NULL instead"),
            )),
            (None, _) => Ok(None),
        }
    }
}

impl Kernel for ElementAt {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (arrays, indices) = (arguments.array(0)?, arguments.array(1)?);
        let (lists, indices) = (downcast::lists(&arrays)?, downcast::primitive::<Int32Type>(&indices)?);
        let mut places = UInt64Builder::with_capacity(lists.len());
        for row in 0..lists.len() {
            let place = match (nested::range(lists, row), downcast::value(indices, row)) {
                (Some(range), Some(index)) => self.place(index, range.len())?.map(|place| (range.start + place) as u64),
                _ => None,
            };
            places.append_option(place);
        }
        take(lists.values(), &places.finish(), None).map_err(arrow_error)
    }
}

/// The element of an array at an index.
pub(super) fn element(name: &'static str, array: Typed, index: Typed, indexing: Indexing) -> Result<Typed> {
    let field = nested::element_field(&array.data_type)?.clone();
    let (Indexing::FromOne { fails } | Indexing::FromZero { fails }) = indexing;
    let nullable = !fails || array.nullable || index.nullable || field.is_nullable();
    let result = scalar(name, ElementAt { indexing }, vec![array, index], field.data_type().clone(), nullable);
    Ok(result.with_metadata(field.metadata().clone()))
}

fn element_at(call: &Call<'_>, fails: bool) -> Result<Typed> {
    call.arity(2..=2)?;
    match &call.value(0)?.data_type {
        DataType::List(_) => {
            let (array, _) = array(call, 0)?;
            element("element_at", array, exact_int(call, 1, false)?, Indexing::FromOne { fails })
        }
        DataType::Map(..) => {
            let (map, key) = map_and_key(call)?;
            map_value(map, key)
        }
        other => Err(faults::unexpected_type(call.name, 0, "(\"ARRAY\" or \"MAP\")", other)),
    }
}

/// A map and a key, brought to a common type of keys.
///
/// # Errors
/// `DATATYPE_MISMATCH.MAP_FUNCTION_DIFF_TYPES`, `DATATYPE_MISMATCH.NULL_TYPE`.
pub(in crate::functions) fn map_and_key(call: &Call<'_>) -> Result<(Typed, Typed)> {
    let (map, key) = (call.value(0)?.clone(), call.value(1)?.clone());
    if key.data_type == DataType::Null {
        return Err(faults::mismatch("NULL_TYPE", format!("`{}` does not take a null without a type", call.name)));
    }
    let common = match nested::entry_fields(&map.data_type) {
        Ok((known, value)) => super::common_element(known.data_type(), &key.data_type, super::Width::Tight, call.settings)
            .map(|common| (types::map(common.clone(), value.data_type().clone(), value.is_nullable()), common)),
        Err(_) => None,
    };
    let Some((map_type, key_type)) = common else {
        return Err(faults::mismatch(
            "MAP_FUNCTION_DIFF_TYPES",
            format!(
                "`{}` takes a map and a value of its keys' type, not \"{}\" and \"{}\"",
                call.name,
                types::ddl_type(&map.data_type),
                types::ddl_type(&key.data_type)
            ),
        ));
    };
    super::orderable(call.name, &key_type)?;
    Ok((cast::implicit(map, &map_type, call.settings)?, cast::implicit(key, &key_type, call.settings)?))
}

/// The value of a map for a key, null if there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct MapValue;

impl Kernel for MapValue {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (maps, wanted) = (arguments.array(0)?, arguments.array(1)?);
        let maps = downcast::maps(&maps)?;
        let compared = keys::of_columns(&[maps.keys(), &wanted])?;
        let [known, sought] = compared.as_slice() else { return Err(Error::internal("two columns have two sets of keys")) };
        let mut places = UInt64Builder::with_capacity(maps.len());
        for row in 0..maps.len() {
            let place = match nested::entries_range(maps, row) {
                Some(mut range) if wanted.is_valid(row) => range.find(|place| known.row(*place) == sought.row(row)),
                _ => None,
            };
            places.append_option(place.map(|place| place as u64));
        }
        take(maps.values(), &places.finish(), None).map_err(arrow_error)
    }
}

/// The value of a map for a key of its keys' type.
pub(super) fn map_value(map: Typed, key: Typed) -> Result<Typed> {
    let (_, field) = nested::entry_fields(&map.data_type)?;
    let (data_type, metadata) = (field.data_type().clone(), field.metadata().clone());
    Ok(scalar("map_value", MapValue, vec![map, key], data_type, true).with_metadata(metadata))
}

fn get(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    let (array, _) = array(call, 0)?;
    let index = match call.value(1)?.data_type {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Null => call.int(1)?,
        DataType::Utf8 => call.int(1)?,
        ref other => return Err(faults::unexpected_type(call.name, 1, "\"INTEGRAL\"", other)),
    };
    element("get", array, index, Indexing::FromZero { fails: false })
}

/// The number of elements of an array or entries of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Size {
    /// What the size of null is.
    of_null: Option<i32>,
}

impl Kernel for Size {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let values = arguments.array(0)?;
        let mut sizes = Int32Builder::with_capacity(values.len());
        for row in 0..values.len() {
            let range = match values.data_type() {
                DataType::List(_) => nested::range(downcast::lists(&values)?, row),
                DataType::Map(..) => nested::entries_range(downcast::maps(&values)?, row),
                _ => None,
            };
            sizes.append_option(match range {
                Some(range) => i32::try_from(range.len()).ok(),
                None => self.of_null,
            });
        }
        Ok(Arc::new(sizes.finish()))
    }
}

fn size(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=1)?;
    let value = call.value(0)?.clone();
    if !matches!(value.data_type, DataType::List(_) | DataType::Map(..) | DataType::Null) {
        return Err(faults::unexpected_type(call.name, 0, "(\"ARRAY\" or \"MAP\")", &value.data_type));
    }
    // Without ANSI rules, null has the size -1.
    let of_null = if call.settings.ansi { None } else { Some(-1) };
    let nullable = of_null.is_none() && value.nullable;
    Ok(scalar("size", Size { of_null }, vec![value], DataType::Int32, nullable))
}

fn array_size(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=1)?;
    let value = call.value(0)?.clone();
    if !matches!(value.data_type, DataType::List(_) | DataType::Null) {
        return Err(faults::unexpected_type(call.name, 0, "\"ARRAY\"", &value.data_type));
    }
    let nullable = value.nullable;
    Ok(scalar("array_size", Size { of_null: None }, vec![value], DataType::Int32, nullable))
}

/// Whether a value can be an index: a whole number or null.
pub(super) fn is_index(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Null)
}
