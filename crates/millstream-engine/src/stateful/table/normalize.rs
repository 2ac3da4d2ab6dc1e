//! Values that are equal as keys, made the same.
//!
//! In Spark `-0.0` and `0.0` are one key, all NaNs are one key, and maps with the same entries in another order are one key.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, UInt32Array, make_array};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::row::{RowConverter, SortField};
use datafusion::error::{DataFusionError, Result as DfResult};

/// The column with every value in the form in which it is compared as a key.
pub(crate) fn normalize(column: &ArrayRef) -> DfResult<ArrayRef> {
    if !needed(column.data_type()) {
        return Ok(column.clone());
    }
    Ok(match column.data_type() {
        DataType::Float32 => Arc::new(
            column.as_primitive::<Float32Type>().unary::<_, Float32Type>(|value| if value.is_nan() { f32::NAN } else { value + 0.0 }),
        ),
        DataType::Float64 => Arc::new(
            column.as_primitive::<Float64Type>().unary::<_, Float64Type>(|value| if value.is_nan() { f64::NAN } else { value + 0.0 }),
        ),
        DataType::Struct(fields) => {
            let parts = column.as_struct();
            let columns = parts.columns().iter().map(normalize).collect::<DfResult<Vec<_>>>()?;
            Arc::new(StructArray::try_new(fields.clone(), columns, parts.nulls().cloned())?)
        }
        DataType::List(field) => {
            let list = column.as_list::<i32>();
            let values = normalize(list.values())?;
            Arc::new(ListArray::try_new(field.clone(), list.offsets().clone(), values, list.nulls().cloned())?)
        }
        DataType::Map(field, ordered) => {
            let entries = sorted_entries(column.as_map())?;
            let (offsets, entries) = entries;
            let nulls = column.nulls().cloned();
            Arc::new(MapArray::try_new(field.clone(), offsets, entries, nulls, *ordered)?)
        }
        _ => make_array(column.to_data()),
    })
}

fn needed(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float32 | DataType::Float64 | DataType::Map(..) => true,
        DataType::Struct(fields) => fields.iter().any(|field| needed(field.data_type())),
        DataType::List(field) => needed(field.data_type()),
        _ => false,
    }
}

/// The entries of each map in the order of their keys.
fn sorted_entries(maps: &MapArray) -> DfResult<(OffsetBuffer<i32>, StructArray)> {
    let keys = normalize(maps.keys())?;
    let values = normalize(maps.values())?;
    let converter = RowConverter::new(vec![SortField::new(keys.data_type().clone())])?;
    let rows = converter.convert_columns(std::slice::from_ref(&keys))?;
    let mut order: Vec<u32> = Vec::with_capacity(keys.len());
    let mut offsets: Vec<i32> = vec![0];
    for map in 0..maps.len() {
        let (start, end) = match (maps.offsets().get(map), maps.offsets().get(map + 1)) {
            (Some(start), Some(end)) if maps.is_valid(map) => (*start as u32, *end as u32),
            _ => (0, 0),
        };
        let from = order.len();
        order.extend(start..end);
        if let Some(entries) = order.get_mut(from..) {
            entries.sort_by(|a, b| rows.row(*a as usize).cmp(&rows.row(*b as usize)));
        }
        offsets.push(i32::try_from(order.len()).map_err(|error| DataFusionError::External(Box::new(error)))?);
    }
    let order = UInt32Array::from(order);
    let columns = vec![take(&keys, &order, None)?, take(&values, &order, None)?];
    let entries = StructArray::try_new(maps.entries().fields().clone(), columns, None)?;
    Ok((OffsetBuffer::new(ScalarBuffer::from(offsets)), entries))
}
