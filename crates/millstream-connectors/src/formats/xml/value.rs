//! Values of records, and columns of them.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, BooleanArray, ListArray, MapArray, NullArray, PrimitiveArray, StringArray, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Fields, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow::error::ArrowError;
use millstream_core::variant;

/// A value of some type; whole numbers, dates and timestamps are numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Boolean(bool),
    Long(i64),
    Float(f32),
    Double(f64),
    Decimal(i128),
    Text(String),
    Binary(Vec<u8>),
    List(Vec<Value>),
    /// The fields of a struct in the order of its type.
    Struct(Vec<Value>),
    Map(Vec<(String, Value)>),
    /// The bytes of a value and of its metadata.
    Variant(Vec<u8>, Vec<u8>),
}

/// What a field without a value has.
const NULL: &Value = &Value::Null;

/// A column of values; those of another type are null.
///
/// # Errors
/// Those of arrow, for fields that must not be null.
pub(super) fn column(values: &[&Value], data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    let all = values.iter().copied();
    let array: ArrayRef = match data_type {
        DataType::Null => Arc::new(NullArray::new(values.len())),
        DataType::Boolean => {
            Arc::new(all.map(|value| if let Value::Boolean(value) = value { Some(*value) } else { None }).collect::<BooleanArray>())
        }
        DataType::Int8 => whole::<Int8Type>(values),
        DataType::Int16 => whole::<Int16Type>(values),
        DataType::Int32 => whole::<Int32Type>(values),
        DataType::Int64 => whole::<Int64Type>(values),
        DataType::Date32 => whole::<Date32Type>(values),
        DataType::Timestamp(_, zone) => {
            let micros: PrimitiveArray<TimestampMicrosecondType> = all.map(long::<i64>).collect();
            Arc::new(micros.with_timezone_opt(zone.clone()))
        }
        DataType::Float32 => {
            let numbers = all.map(|value| if let Value::Float(value) = value { Some(*value) } else { None });
            Arc::new(numbers.collect::<PrimitiveArray<Float32Type>>())
        }
        DataType::Float64 => {
            let numbers = all.map(|value| if let Value::Double(value) = value { Some(*value) } else { None });
            Arc::new(numbers.collect::<PrimitiveArray<Float64Type>>())
        }
        DataType::Decimal128(..) => {
            let numbers = all.map(|value| if let Value::Decimal(value) = value { Some(*value) } else { None });
            Arc::new(numbers.collect::<PrimitiveArray<Decimal128Type>>().with_data_type(data_type.clone()))
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            Arc::new(all.map(|value| if let Value::Text(value) = value { Some(value.as_str()) } else { None }).collect::<StringArray>())
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            Arc::new(all.map(|value| if let Value::Binary(value) = value { Some(value.as_slice()) } else { None }).collect::<BinaryArray>())
        }
        DataType::List(element) | DataType::LargeList(element) => {
            let lists: Vec<Option<&[Value]>> =
                all.map(|value| if let Value::List(list) = value { Some(list.as_slice()) } else { None }).collect();
            let elements: Vec<&Value> = lists.iter().flatten().copied().flatten().collect();
            let elements = column(&elements, element.data_type())?;
            Arc::new(ListArray::try_new(element.clone(), offsets(&lists), elements, Some(nulls(&lists)))?)
        }
        DataType::Struct(fields) if *data_type == variant::data_type() => variants(values, fields)?,
        DataType::Struct(fields) => {
            let structs: Vec<Option<&[Value]>> =
                all.map(|value| if let Value::Struct(parts) = value { Some(parts.as_slice()) } else { None }).collect();
            let parts = fields.iter().enumerate().map(|(at, field)| {
                let part: Vec<&Value> = structs.iter().map(|parts| parts.and_then(|parts| parts.get(at)).unwrap_or(NULL)).collect();
                column(&part, field.data_type())
            });
            let parts = parts.collect::<Result<_, _>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), parts, Some(nulls(&structs)), values.len())?)
        }
        DataType::Map(entries, sorted) => {
            let DataType::Struct(fields) = entries.data_type() else {
                return Err(ArrowError::SchemaError("a map needs entries".to_owned()));
            };
            let [key_field, value_field] = fields.as_ref() else {
                return Err(ArrowError::SchemaError("a map needs keys and values".to_owned()));
            };
            let maps: Vec<Option<&[(String, Value)]>> =
                all.map(|value| if let Value::Map(pairs) = value { Some(pairs.as_slice()) } else { None }).collect();
            let keys: StringArray = maps.iter().flatten().copied().flatten().map(|(key, _)| Some(key.as_str())).collect();
            let keys = cast(&keys, key_field.data_type())?;
            let parts: Vec<&Value> = maps.iter().flatten().copied().flatten().map(|(_, value)| value).collect();
            let pairs = StructArray::try_new(fields.clone(), vec![keys, column(&parts, value_field.data_type())?], None)?;
            Arc::new(MapArray::try_new(entries.clone(), offsets(&maps), pairs, Some(nulls(&maps)), *sorted)?)
        }
        other => return Err(ArrowError::SchemaError(format!("{other} is no type of XML"))),
    };
    if array.data_type() == data_type { Ok(array) } else { cast(&array, data_type) }
}

fn variants(values: &[&Value], fields: &Fields) -> Result<ArrayRef, ArrowError> {
    let variants: Vec<Option<(&[u8], &[u8])>> = values
        .iter()
        .map(|value| if let Value::Variant(value, names) = value { Some((value.as_slice(), names.as_slice())) } else { None })
        .collect();
    let bytes = BinaryArray::from_iter_values(variants.iter().map(|variant| variant.unwrap_or_default().0));
    let names = BinaryArray::from_iter_values(variants.iter().map(|variant| variant.unwrap_or_default().1));
    Ok(Arc::new(StructArray::try_new(fields.clone(), vec![Arc::new(bytes), Arc::new(names)], Some(nulls(&variants)))?))
}

fn nulls<T>(values: &[Option<T>]) -> NullBuffer {
    values.iter().map(Option::is_some).collect::<Vec<bool>>().into()
}

fn offsets<T>(lists: &[Option<&[T]>]) -> OffsetBuffer<i32> {
    OffsetBuffer::from_lengths(lists.iter().map(|list| list.map_or(0, <[T]>::len)))
}

fn long<T: TryFrom<i64>>(value: &Value) -> Option<T> {
    if let Value::Long(value) = value { T::try_from(*value).ok() } else { None }
}

fn whole<T>(values: &[&Value]) -> ArrayRef
where
    T: ArrowPrimitiveType,
    T::Native: TryFrom<i64>,
{
    Arc::new(values.iter().map(|value| long::<T::Native>(value)).collect::<PrimitiveArray<T>>())
}
