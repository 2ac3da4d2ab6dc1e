//! Arrays, maps and structs, part by part.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, UInt64Array, make_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field};
use arrow::error::ArrowError;
use millstream_core::{Error, Result};

use super::Conversion;

pub(super) fn convert(conversion: &Conversion, values: &ArrayRef, from: &Field, to: &Field) -> Result<Option<ArrayRef>> {
    match (from.data_type(), to.data_type()) {
        (DataType::List(from), DataType::List(to)) => {
            let values = without_hidden_elements(values)?;
            let Some(list) = values.as_list_opt::<i32>() else { return Ok(None) };
            let (offsets, elements) = compact(list.offsets(), list.values());
            let elements = conversion.convert(&elements, from, to)?;
            let list = ListArray::try_new(to.clone(), offsets, elements, list.nulls().cloned()).map_err(broken)?;
            Ok(Some(Arc::new(list)))
        }
        (DataType::Map(from, _), DataType::Map(to, sorted)) => {
            let values = without_hidden_elements(values)?;
            let Some(map) = values.as_map_opt() else { return Ok(None) };
            let entries: ArrayRef = Arc::new(map.entries().clone());
            let (offsets, entries) = compact(map.offsets(), &entries);
            let entries = convert_struct(conversion, &entries, from, to)?;
            let Some(entries) = entries else { return Ok(None) };
            let map = MapArray::try_new(to.clone(), offsets, entries, map.nulls().cloned(), *sorted).map_err(broken)?;
            Ok(Some(Arc::new(map)))
        }
        (DataType::Struct(_), DataType::Struct(_)) => {
            Ok(convert_struct(conversion, values, from, to)?.map(|array| Arc::new(array) as ArrayRef))
        }
        _ => Ok(None),
    }
}

fn convert_struct(conversion: &Conversion, values: &ArrayRef, from: &Field, to: &Field) -> Result<Option<StructArray>> {
    let (Some(array), DataType::Struct(from), DataType::Struct(to)) = (values.as_struct_opt(), from.data_type(), to.data_type()) else {
        return Ok(None);
    };
    let columns = array.columns().iter().zip(from.iter().zip(to));
    let columns = columns.map(|(column, (from, to))| conversion.convert(&within(column, array.nulls())?, from, to));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let array = StructArray::try_new_with_length(to.clone(), columns, array.nulls().cloned(), array.len()).map_err(broken)?;
    Ok(Some(array))
}

/// The column with nulls where its struct is null, so that what lies there is not cast.
fn within(column: &ArrayRef, parent: Option<&NullBuffer>) -> Result<ArrayRef> {
    match parent {
        Some(parent) if parent.null_count() > 0 && *column.data_type() != DataType::Null => {
            let nulls = NullBuffer::union(Some(parent), column.nulls());
            let data = column.to_data().into_builder().nulls(nulls).build().map_err(broken)?;
            Ok(make_array(data))
        }
        _ => Ok(column.clone()),
    }
}

/// Lists or maps without elements below null.
fn without_hidden_elements(values: &ArrayRef) -> Result<ArrayRef> {
    let Some(nulls) = values.nulls().filter(|nulls| nulls.null_count() > 0) else { return Ok(values.clone()) };
    let indices: UInt64Array = nulls.iter().zip(0_u64..).map(|(valid, row)| valid.then_some(row)).collect();
    take(values, &indices, None).map_err(broken)
}

/// Only the elements that the offsets point to.
fn compact(offsets: &OffsetBuffer<i32>, elements: &ArrayRef) -> (OffsetBuffer<i32>, ArrayRef) {
    let (first, last) = (offsets.first().copied().unwrap_or(0), offsets.last().copied().unwrap_or(0));
    let (Ok(start), Ok(length)) = (usize::try_from(first), usize::try_from(last - first)) else {
        return (offsets.clone(), elements.clone());
    };
    if start == 0 && length == elements.len() {
        return (offsets.clone(), elements.clone());
    }
    let shifted: Vec<i32> = offsets.iter().map(|offset| offset - first).collect();
    (OffsetBuffer::new(shifted.into()), elements.slice(start, length))
}

fn broken(error: ArrowError) -> Error {
    Error::internal("a nested value cannot be put together").caused_by(error)
}
