//! One form for floating-point numbers that are equal: Spark takes -0.0 for 0.0, and every NaN for the same one.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::error::ArrowError;
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};

use crate::functions::{Arguments, Kernel, Typed, kernel};

/// The name of the kernel in plans.
pub(super) const NAME: &str = "normalized";

/// The value with all its floating-point numbers in one form, so that equal ones are identical: for comparisons, keys of groups and of
/// joins. Other values stay as they are.
pub(crate) fn normalized(value: Typed) -> Typed {
    if !has_floats(&value.data_type) {
        return value;
    }
    let metadata = value.metadata.clone();
    match value.as_literal() {
        Some(ScalarValue::Float64(Some(number))) => Typed { metadata, ..Typed::literal(ScalarValue::Float64(Some(double(*number)))) },
        Some(ScalarValue::Float32(Some(number))) => Typed { metadata, ..Typed::literal(ScalarValue::Float32(Some(float(*number)))) },
        _ => {
            let (data_type, nullable) = (value.data_type.clone(), value.nullable);
            kernel::scalar(NAME, Normalized, vec![value], data_type, nullable).with_metadata(metadata)
        }
    }
}

/// Whether values of the type have floating-point numbers in them.
fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float32 | DataType::Float64 => true,
        DataType::List(part) | DataType::Map(part, _) => has_floats(part.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        _ => false,
    }
}

fn double(value: f64) -> f64 {
    if value.is_nan() {
        f64::NAN
    } else if value == 0.0 {
        0.0
    } else {
        value
    }
}

fn float(value: f32) -> f32 {
    if value.is_nan() {
        f32::NAN
    } else if value == 0.0 {
        0.0
    } else {
        value
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Normalized;

impl Kernel for Normalized {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        array(&arguments.array(0)?)
    }
}

/// The values in their one form.
///
/// # Errors
/// `INTERNAL_ERROR` for arrays that contradict their type.
pub(crate) fn array(values: &ArrayRef) -> Result<ArrayRef> {
    if !has_floats(values.data_type()) {
        return Ok(values.clone());
    }
    let normalized: Option<Result<ArrayRef, ArrowError>> = match values.data_type() {
        DataType::Float64 => values.as_primitive_opt::<Float64Type>().map(|array| Ok(Arc::new(array.unary::<_, Float64Type>(double)) as _)),
        DataType::Float32 => values.as_primitive_opt::<Float32Type>().map(|array| Ok(Arc::new(array.unary::<_, Float32Type>(float)) as _)),
        DataType::List(field) => match values.as_list_opt::<i32>() {
            Some(list) => {
                let elements = array(list.values())?;
                let list = ListArray::try_new(field.clone(), list.offsets().clone(), elements, list.nulls().cloned());
                Some(list.map(|list| Arc::new(list) as _))
            }
            None => None,
        },
        DataType::Map(field, sorted) => match values.as_map_opt() {
            Some(map) => {
                let entries: ArrayRef = Arc::new(map.entries().clone());
                let entries = array(&entries)?;
                entries.as_struct_opt().map(|entries| {
                    let map = MapArray::try_new(field.clone(), map.offsets().clone(), entries.clone(), map.nulls().cloned(), *sorted);
                    map.map(|map| Arc::new(map) as _)
                })
            }
            None => None,
        },
        DataType::Struct(fields) => match values.as_struct_opt() {
            Some(parts) => {
                let columns = parts.columns().iter().map(array).collect::<Result<Vec<_>>>()?;
                let parts = StructArray::try_new(fields.clone(), columns, parts.nulls().cloned());
                Some(parts.map(|parts| Arc::new(parts) as _))
            }
            None => None,
        },
        _ => None,
    };
    match normalized {
        Some(array) => array.map_err(|error| Error::internal("a nested value cannot be put together").caused_by(error)),
        None => Err(Error::internal(format!("an array contradicts its type {}", values.data_type()))),
    }
}
