//! Values as keys: what Spark takes for the same key becomes the same value.
//!
//! All NaNs are one, −0.0 is 0.0, and maps are equal whatever the order of their entries.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array, ListArray, MapArray, StructArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::row::{RowConverter, SortField};
use millstream_core::{Error, Result};

use crate::functions::{Arguments, Kernel, Typed, scalar};

/// The value as a key of a grouping, a join or a deduplication; `None` when it is fine as it is.
pub(super) fn normalized(value: &Typed) -> Option<Typed> {
    if !needs(&value.data_type) {
        return None;
    }
    let key = scalar("normalized", Normalize, vec![value.clone()], value.data_type.clone(), value.nullable);
    Some(key.with_metadata(value.metadata.clone()))
}

fn needs(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float32 | DataType::Float64 | DataType::Map(..) => true,
        DataType::List(element) => needs(element.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| needs(field.data_type())),
        _ => false,
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Normalize;

impl Kernel for Normalize {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        normalize(&arguments.array(0)?)
    }
}

fn normalize(array: &ArrayRef) -> Result<ArrayRef> {
    if !needs(array.data_type()) {
        return Ok(array.clone());
    }
    Ok(match array.data_type() {
        // Adding zero turns −0.0 into 0.0.
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>();
            let same: Float32Array = values.unary(|value| if value.is_nan() { f32::NAN } else { value + 0.0 });
            Arc::new(same)
        }
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>();
            let same: Float64Array = values.unary(|value| if value.is_nan() { f64::NAN } else { value + 0.0 });
            Arc::new(same)
        }
        DataType::List(element) => {
            let list = array.as_list::<i32>();
            let values = normalize(list.values())?;
            Arc::new(ListArray::try_new(element.clone(), list.offsets().clone(), values, list.nulls().cloned()).map_err(failed)?)
        }
        DataType::Struct(fields) => {
            let values = array.as_struct();
            let columns = values.columns().iter().map(normalize).collect::<Result<Vec<_>>>()?;
            Arc::new(StructArray::try_new(fields.clone(), columns, values.nulls().cloned()).map_err(failed)?)
        }
        DataType::Map(entries, ordered) => {
            let map = array.as_map();
            let order = sorted_entries(map)?;
            let keys = normalize(&take(map.keys(), &order, None).map_err(failed)?)?;
            let values = normalize(&take(map.values(), &order, None).map_err(failed)?)?;
            let DataType::Struct(fields) = entries.data_type() else { return Err(Error::internal("a map has no entries")) };
            let sorted = StructArray::try_new(fields.clone(), vec![keys, values], None).map_err(failed)?;
            let nulls = map.nulls().cloned();
            Arc::new(MapArray::try_new(entries.clone(), map.offsets().clone(), sorted, nulls, *ordered).map_err(failed)?)
        }
        other => return Err(Error::internal(format!("{other} is fine as a key"))),
    })
}

/// The places of the entries, sorted by key within each map.
fn sorted_entries(map: &MapArray) -> Result<UInt32Array> {
    let keys = normalize(map.keys())?;
    let converter = RowConverter::new(vec![SortField::new(keys.data_type().clone())]).map_err(failed)?;
    let rows = converter.convert_columns(&[keys]).map_err(failed)?;
    let mut order: Vec<u32> = (0..u32::try_from(rows.num_rows()).unwrap_or(u32::MAX)).collect();
    for bounds in map.offsets().windows(2) {
        let (Some(start), Some(end)) = (bounds.first(), bounds.last()) else { continue };
        let (start, end) = (usize::try_from(*start).unwrap_or(0), usize::try_from(*end).unwrap_or(0));
        if let Some(part) = order.get_mut(start..end) {
            part.sort_by(|one, other| rows.row(*one as usize).cmp(&rows.row(*other as usize)));
        }
    }
    Ok(order.into())
}

fn failed(error: arrow::error::ArrowError) -> Error {
    Error::internal("a key cannot be brought into its normal form").caused_by(error)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Builder, MapBuilder, StringBuilder};

    use super::*;

    #[test]
    fn zeros_and_nans_are_one_value_each() {
        let other_nan = f64::from_bits(f64::NAN.to_bits() | 1);
        let array: ArrayRef = Arc::new(Float64Array::from(vec![Some(-0.0), Some(0.0), Some(other_nan), Some(f64::NAN), None, Some(1.5)]));
        let keys = normalize(&array).unwrap();
        let bits: Vec<Option<u64>> = keys.as_primitive::<Float64Type>().iter().map(|value| value.map(f64::to_bits)).collect();
        let (zero, nan) = (Some(0.0_f64.to_bits()), Some(f64::NAN.to_bits()));
        assert_eq!(bits, [zero, zero, nan, nan, None, Some(1.5_f64.to_bits())]);
    }

    #[test]
    fn entries_of_maps_are_sorted_within_each_map() {
        let mut builder = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        for entries in [&[("b", 2), ("a", 1)][..], &[], &[("a", 1), ("b", 2)], &[("c", 3)]] {
            for (key, value) in entries {
                builder.keys().append_value(key);
                builder.values().append_value(*value);
            }
            builder.append(true).unwrap();
        }
        let array: ArrayRef = Arc::new(builder.finish());
        let keys = normalize(&array).unwrap();
        let maps = keys.as_map();
        assert_eq!(maps.value(0).to_data(), maps.value(2).to_data());
        assert_eq!(maps.value(1).len(), 0);
        assert_eq!(maps.value(3).len(), 1);
    }
}
