//! Values of messages, and columns of them: what formats have in common whose records say themselves how long they are.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DurationMicrosecondArray, Float32Array, Float64Array, Int32Array,
    Int64Array, ListArray, MapArray, NullArray, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

/// A value of a message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Boolean(bool),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Decimal(i128),
    Bytes(Vec<u8>),
    Text(String),
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Record(Vec<Value>),
}

/// A column of values.
///
/// # Errors
/// Where values and type do not belong together.
pub(crate) fn column(data_type: &DataType, values: &[&Value]) -> Result<ArrayRef, ArrowError> {
    macro_rules! primitive {
        ($array:ty, $variant:ident) => {
            values.iter().map(|value| if let Value::$variant(value) = value { Some(*value) } else { None }).collect::<$array>()
        };
    }
    Ok(match data_type {
        DataType::Null => Arc::new(NullArray::new(values.len())),
        DataType::Boolean => Arc::new(primitive!(BooleanArray, Boolean)),
        DataType::Int32 => Arc::new(primitive!(Int32Array, Int)),
        DataType::Date32 => Arc::new(primitive!(Date32Array, Int)),
        DataType::Int64 => Arc::new(primitive!(Int64Array, Long)),
        DataType::Duration(_) => Arc::new(primitive!(DurationMicrosecondArray, Long)),
        DataType::Timestamp(_, zone) => Arc::new(primitive!(TimestampMicrosecondArray, Long).with_timezone_opt(zone.clone())),
        DataType::Float32 => Arc::new(primitive!(Float32Array, Float)),
        DataType::Float64 => Arc::new(primitive!(Float64Array, Double)),
        DataType::Decimal128(precision, scale) => {
            Arc::new(primitive!(Decimal128Array, Decimal).with_precision_and_scale(*precision, *scale)?)
        }
        DataType::Binary => {
            let bytes = |value: &&Value| if let Value::Bytes(bytes) = value { Some(bytes.clone()) } else { None };
            Arc::new(values.iter().map(bytes).collect::<BinaryArray>())
        }
        DataType::Utf8 => {
            let text = |value: &&Value| if let Value::Text(text) = value { Some(text.clone()) } else { None };
            Arc::new(values.iter().map(text).collect::<StringArray>())
        }
        DataType::List(element) => {
            let items = |value: &&Value| if let Value::Array(items) = value { items.len() } else { 0 };
            let (nulls, offsets) = (nulls(values), OffsetBuffer::from_lengths(values.iter().map(items)));
            let inner: Vec<&Value> =
                values.iter().flat_map(|value| if let Value::Array(items) = value { items.as_slice() } else { &[] }).collect();
            Arc::new(ListArray::try_new(element.clone(), offsets, column(element.data_type(), &inner)?, nulls)?)
        }
        DataType::Map(entries, sorted) => {
            let DataType::Struct(pair) = entries.data_type() else { return Err(no_column(data_type)) };
            let [key_field, value_field] = pair.as_ref() else { return Err(no_column(data_type)) };
            let all = |value: &&Value| if let Value::Map(entries) = value { entries.len() } else { 0 };
            let (nulls, offsets) = (nulls(values), OffsetBuffer::from_lengths(values.iter().map(all)));
            let flat = values.iter().flat_map(|value| if let Value::Map(entries) = value { entries.as_slice() } else { &[] });
            let (keys, inner): (Vec<&Value>, Vec<&Value>) = flat.map(|(key, value)| (key, value)).unzip();
            let columns = vec![column(key_field.data_type(), &keys)?, column(value_field.data_type(), &inner)?];
            let pairs = StructArray::try_new_with_length(pair.clone(), columns, None, keys.len())?;
            Arc::new(MapArray::try_new(entries.clone(), offsets, pairs, nulls, *sorted)?)
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().enumerate().map(|(place, field)| {
                let inner: Vec<&Value> = values
                    .iter()
                    .map(|value| match value {
                        Value::Record(record) => record.get(place).unwrap_or(&Value::Null),
                        _ => &Value::Null,
                    })
                    .collect();
                column(field.data_type(), &inner)
            });
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls(values), values.len())?)
        }
        other => return Err(no_column(other)),
    })
}

fn nulls(values: &[&Value]) -> Option<NullBuffer> {
    Some(values.iter().map(|value| **value != Value::Null).collect::<NullBuffer>())
}

fn no_column(data_type: &DataType) -> ArrowError {
    ArrowError::SchemaError(format!("no message has values of the type {data_type}"))
}
