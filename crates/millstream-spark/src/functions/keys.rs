//! Values in a form whose bytes are equal and ordered as Spark's values are: NaN equals itself and is the greatest number, −0.0 equals 0.0,
//! null comes first.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, MapArray, StructArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type, IntervalUnit};
use arrow::row::{RowConverter, Rows, SortField};
use millstream_core::Result;

use super::downcast::{self, arrow_error};
use super::nested;

/// The keys of columns that are to be compared with each other; all are of the type of the first, up to nullability.
///
/// # Errors
/// `INTERNAL_ERROR` when they are not.
pub(super) fn of_columns(columns: &[&ArrayRef]) -> Result<Vec<Rows>> {
    let Some(first) = columns.first() else { return Ok(Vec::new()) };
    let data_type = nested::all_nullable(first.data_type());
    let converter = RowConverter::new(vec![SortField::new(data_type.clone())]).map_err(arrow_error)?;
    columns
        .iter()
        .map(|column| {
            let column = normalized(&nested::relabel(column, &data_type)?)?;
            converter.convert_columns(&[column]).map_err(arrow_error)
        })
        .collect()
}

/// The keys of one column.
///
/// # Errors
/// `INTERNAL_ERROR` when its type has none.
pub(super) fn of(column: &ArrayRef) -> Result<Rows> {
    of_columns(&[column])?.pop().ok_or_else(|| millstream_core::Error::internal("a column has keys"))
}

/// The same values with one NaN, and 0.0 for −0.0, however deep inside.
///
/// # Errors
/// `INTERNAL_ERROR` when the parts of the column do not fit together.
pub(super) fn normalized(column: &ArrayRef) -> Result<ArrayRef> {
    Ok(match column.data_type() {
        DataType::Float32 => {
            Arc::new(downcast::primitive::<Float32Type>(column)?.unary::<_, Float32Type>(|value| canonical(value, f32::NAN, 0.0)))
        }
        DataType::Float64 => {
            Arc::new(downcast::primitive::<Float64Type>(column)?.unary::<_, Float64Type>(|value| canonical(value, f64::NAN, 0.0)))
        }
        DataType::List(field) if has_floats(field.data_type()) => {
            let lists = downcast::lists(column)?;
            let values = normalized(lists.values())?;
            Arc::new(ListArray::try_new(field.clone(), lists.offsets().clone(), values, lists.nulls().cloned()).map_err(arrow_error)?)
        }
        DataType::Struct(fields) if fields.iter().any(|field| has_floats(field.data_type())) => {
            let structs = downcast::structs(column)?;
            let columns = structs.columns().iter().map(normalized).collect::<Result<Vec<_>>>()?;
            Arc::new(StructArray::try_new(fields.clone(), columns, structs.nulls().cloned()).map_err(arrow_error)?)
        }
        DataType::Map(field, sorted) if has_floats(field.data_type()) => {
            let maps = downcast::maps(column)?;
            let entries: ArrayRef = Arc::new(maps.entries().clone());
            let entries = normalized(&entries)?;
            let entries = downcast::structs(&entries)?.clone();
            Arc::new(
                MapArray::try_new(field.clone(), maps.offsets().clone(), entries, maps.nulls().cloned(), *sorted).map_err(arrow_error)?,
            )
        }
        _ => column.clone(),
    })
}

/// Whether a value can contain a floating-point number.
pub(super) fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float32 | DataType::Float64 => true,
        DataType::List(field) | DataType::Map(field, _) => has_floats(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        _ => false,
    }
}

/// Whether Spark orders values of a type: not maps and not mixed intervals.
pub(super) fn is_orderable(data_type: &DataType) -> bool {
    match data_type {
        DataType::Map(..) | DataType::Interval(IntervalUnit::MonthDayNano | IntervalUnit::DayTime) => false,
        DataType::List(field) => is_orderable(field.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| is_orderable(field.data_type())),
        _ => true,
    }
}

fn canonical<T: PartialOrd + Copy>(value: T, nan: T, zero: T) -> T {
    // Only a NaN cannot be compared with itself, and −0.0 equals 0.0.
    if value.partial_cmp(&value).is_none() {
        nan
    } else if value == zero {
        zero
    } else {
        value
    }
}
