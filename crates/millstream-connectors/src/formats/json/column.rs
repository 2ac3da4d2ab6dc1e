//! Columns under construction: values are appended one by one, can be taken back, and become an arrow array.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, BooleanBufferBuilder, ListArray, MapArray, NullArray, PrimitiveArray, StringArray, StructArray,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Field, FieldRef, Fields, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimestampMicrosecondType,
};
use arrow::error::ArrowError;
use millstream_core::variant;

use super::object::Members;

/// A column.
#[derive(Debug)]
pub struct Column {
    pub(super) values: Values,
    length: usize,
    /// Which values are no nulls, once there has been a null.
    valid: Option<BooleanBufferBuilder>,
}

/// The values of a column, by what they are read as.
#[derive(Debug)]
pub(super) enum Values {
    Null,
    Boolean(BooleanBufferBuilder),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Decimal {
        values: Vec<i128>,
        precision: u8,
        scale: i8,
    },
    Date(Vec<i32>),
    Timestamp(Vec<i64>),
    TimestampNtz(Vec<i64>),
    Text(Bytes),
    Binary(Bytes),
    List(Offsets, Box<Column>),
    Map(Offsets, Bytes, Box<Column>),
    Struct(Box<Members>),
    /// Values and their metadata.
    Variant(Bytes, Bytes),
}

/// Where the values of variable length end.
#[derive(Debug)]
pub(super) struct Offsets(Vec<i32>);

/// Values of bytes, one behind the other. The one being added is what is behind the last offset.
#[derive(Debug)]
pub(super) struct Bytes {
    offsets: Offsets,
    pub(super) bytes: Vec<u8>,
}

impl Offsets {
    fn new() -> Self {
        Offsets(vec![0])
    }

    /// Ends a value at `end`.
    #[inline(always)]
    pub(super) fn push(&mut self, end: usize) {
        // Records are far smaller than 2 GiB and a batch is closed long before.
        self.0.push(i32::try_from(end).unwrap_or(i32::MAX));
    }

    /// Where the last value ended.
    #[inline(always)]
    fn last(&self) -> usize {
        self.0.last().map_or(0, |end| *end as usize)
    }

    /// Takes values back to the first `length`; returns where these end.
    fn truncate(&mut self, length: usize) -> usize {
        self.0.truncate(length + 1);
        self.last()
    }

    fn take(&mut self) -> OffsetBuffer<i32> {
        OffsetBuffer::new(std::mem::replace(self, Offsets::new()).0.into())
    }
}

impl Bytes {
    pub(super) fn new() -> Self {
        Bytes { offsets: Offsets::new(), bytes: Vec::new() }
    }

    /// Makes a value of the bytes that were added since the last.
    #[inline(always)]
    pub(super) fn close(&mut self) {
        self.offsets.push(self.bytes.len());
    }

    /// Takes back the bytes of a value that was not closed.
    pub(super) fn discard(&mut self) {
        self.bytes.truncate(self.offsets.last());
    }

    fn truncate(&mut self, length: usize) {
        let end = self.offsets.truncate(length);
        self.bytes.truncate(end);
    }

    fn take_bytes(&mut self, nulls: Option<NullBuffer>) -> Result<BinaryArray, ArrowError> {
        BinaryArray::try_new(self.offsets.take(), Buffer::from_vec(std::mem::take(&mut self.bytes)), nulls)
    }

    fn take_strings(&mut self, nulls: Option<NullBuffer>) -> Result<StringArray, ArrowError> {
        StringArray::try_new(self.offsets.take(), Buffer::from_vec(std::mem::take(&mut self.bytes)), nulls)
    }
}

/// Whether a column of this type can be read from JSON.
pub fn is_supported(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null
        | DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Float32
        | DataType::Float64
        | DataType::Decimal128(..)
        | DataType::Date32
        | DataType::Timestamp(..) => true,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Binary | DataType::LargeBinary | DataType::BinaryView => true,
        DataType::List(element) | DataType::LargeList(element) => is_supported(element.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| is_supported(field.data_type())),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => match fields.as_ref() {
                [key, value] => is_text(key.data_type()) && is_supported(value.data_type()),
                _ => false,
            },
            _ => false,
        },
        _ => false,
    }
}

/// Whether this is one of arrow's types of strings.
pub fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

impl Column {
    /// An empty column for values of a supported type; of others it only takes nulls.
    pub fn new(data_type: &DataType) -> Self {
        let values = match data_type {
            DataType::Boolean => Values::Boolean(BooleanBufferBuilder::new(0)),
            DataType::Int8 => Values::Int8(Vec::new()),
            DataType::Int16 => Values::Int16(Vec::new()),
            DataType::Int32 => Values::Int32(Vec::new()),
            DataType::Int64 => Values::Int64(Vec::new()),
            DataType::Float32 => Values::Float(Vec::new()),
            DataType::Float64 => Values::Double(Vec::new()),
            DataType::Decimal128(precision, scale) => Values::Decimal { values: Vec::new(), precision: *precision, scale: *scale },
            DataType::Date32 => Values::Date(Vec::new()),
            DataType::Timestamp(_, Some(_)) => Values::Timestamp(Vec::new()),
            DataType::Timestamp(_, None) => Values::TimestampNtz(Vec::new()),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Values::Text(Bytes::new()),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Values::Binary(Bytes::new()),
            DataType::List(element) | DataType::LargeList(element) => {
                Values::List(Offsets::new(), Box::new(Column::new(element.data_type())))
            }
            DataType::Struct(_) if *data_type == variant::data_type() => Values::Variant(Bytes::new(), Bytes::new()),
            DataType::Struct(fields) => {
                Values::Struct(Box::new(Members::new(fields.iter().map(|field| (field.name(), field.data_type())))))
            }
            DataType::Map(entries, _) => match map_fields(entries) {
                Some((_, value)) => Values::Map(Offsets::new(), Bytes::new(), Box::new(Column::new(value.data_type()))),
                None => Values::Null,
            },
            _ => Values::Null,
        };
        Column { values, length: 0, valid: None }
    }

    /// How many values there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.length
    }

    /// The value that was just added to the values is no null.
    #[inline(always)]
    pub(super) fn added(&mut self) {
        self.length += 1;
        if let Some(valid) = &mut self.valid {
            valid.append(true);
        }
    }

    /// Adds a null.
    pub fn push_null(&mut self) {
        let length = self.length;
        let all_valid = || {
            let mut valid = BooleanBufferBuilder::new(length + 1);
            valid.append_n(length, true);
            valid
        };
        self.valid.get_or_insert_with(all_valid).append(false);
        self.length += 1;
        match &mut self.values {
            Values::Null => {}
            Values::Boolean(values) => values.append(false),
            Values::Int8(values) => values.push(0),
            Values::Int16(values) => values.push(0),
            Values::Int32(values) | Values::Date(values) => values.push(0),
            Values::Int64(values) | Values::Timestamp(values) | Values::TimestampNtz(values) => values.push(0),
            Values::Float(values) => values.push(0.0),
            Values::Double(values) => values.push(0.0),
            Values::Decimal { values, .. } => values.push(0),
            Values::Text(values) | Values::Binary(values) => values.close(),
            Values::Variant(values, metadata) => {
                values.close();
                metadata.close();
            }
            Values::List(offsets, element) => offsets.push(element.len()),
            Values::Map(offsets, _, value) => offsets.push(value.len()),
            Values::Struct(members) => members.columns.iter_mut().for_each(Column::push_null),
        }
    }

    /// Adds a string to a column of strings, whatever it is.
    pub fn push_text(&mut self, text: &[u8]) {
        if let Values::Text(values) = &mut self.values {
            values.bytes.extend_from_slice(text);
            values.close();
            self.added();
        } else {
            self.push_null();
        }
    }

    /// Takes values back to the first `length`.
    pub fn truncate(&mut self, length: usize) {
        if self.len() <= length {
            return;
        }
        self.length = length;
        if let Some(valid) = &mut self.valid {
            valid.truncate(length);
        }
        match &mut self.values {
            Values::Null => {}
            Values::Boolean(values) => values.truncate(length),
            Values::Int8(values) => values.truncate(length),
            Values::Int16(values) => values.truncate(length),
            Values::Int32(values) | Values::Date(values) => values.truncate(length),
            Values::Int64(values) | Values::Timestamp(values) | Values::TimestampNtz(values) => values.truncate(length),
            Values::Float(values) => values.truncate(length),
            Values::Double(values) => values.truncate(length),
            Values::Decimal { values, .. } => values.truncate(length),
            Values::Text(values) | Values::Binary(values) => values.truncate(length),
            Values::Variant(values, metadata) => {
                values.truncate(length);
                metadata.truncate(length);
            }
            Values::List(offsets, element) => element.truncate(offsets.truncate(length)),
            Values::Map(offsets, keys, value) => {
                let end = offsets.truncate(length);
                keys.truncate(end);
                value.truncate(end);
            }
            Values::Struct(members) => members.columns.iter_mut().for_each(|column| column.truncate(length)),
        }
    }

    /// Takes back what belongs to a value that was begun and not added.
    pub(super) fn discard(&mut self) {
        let length = self.len();
        match &mut self.values {
            Values::Text(values) | Values::Binary(values) => values.discard(),
            Values::Variant(values, metadata) => {
                values.discard();
                metadata.discard();
            }
            Values::List(offsets, element) => element.truncate(offsets.last()),
            Values::Map(offsets, keys, value) => {
                keys.truncate(offsets.last());
                keys.discard();
                value.truncate(offsets.last());
            }
            Values::Struct(members) => members.columns.iter_mut().for_each(|column| column.truncate(length)),
            _ => {}
        }
        // Parts may have been begun and not added, too.
        match &mut self.values {
            Values::List(_, part) | Values::Map(_, _, part) => part.discard(),
            Values::Struct(members) => members.columns.iter_mut().for_each(Column::discard),
            _ => {}
        }
    }

    /// The values as an array of the type that the column was made for; the column is empty afterwards.
    ///
    /// # Errors
    /// When a nested field that must not be null is null.
    pub fn finish(&mut self, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        let length = std::mem::take(&mut self.length);
        let nulls = self.valid.take().map(|mut valid| NullBuffer::new(valid.finish()));
        let array: ArrayRef = match &mut self.values {
            Values::Null => Arc::new(NullArray::new(length)),
            Values::Boolean(values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Values::Int8(values) => primitive::<Int8Type>(values, nulls)?,
            Values::Int16(values) => primitive::<Int16Type>(values, nulls)?,
            Values::Int32(values) => primitive::<Int32Type>(values, nulls)?,
            Values::Int64(values) => primitive::<Int64Type>(values, nulls)?,
            Values::Float(values) => primitive::<Float32Type>(values, nulls)?,
            Values::Double(values) => primitive::<Float64Type>(values, nulls)?,
            Values::Date(values) => primitive::<Date32Type>(values, nulls)?,
            Values::Decimal { values, .. } => {
                let values = PrimitiveArray::<Decimal128Type>::try_new(std::mem::take(values).into(), nulls)?;
                Arc::new(values.with_data_type(data_type.clone()))
            }
            Values::Timestamp(values) | Values::TimestampNtz(values) => {
                let values = PrimitiveArray::<TimestampMicrosecondType>::try_new(std::mem::take(values).into(), nulls)?;
                let zone = if let DataType::Timestamp(_, zone) = data_type { zone.clone() } else { None };
                Arc::new(values.with_timezone_opt(zone))
            }
            Values::Text(values) => Arc::new(values.take_strings(nulls)?),
            Values::Binary(values) => Arc::new(values.take_bytes(nulls)?),
            Values::Variant(values, metadata) => {
                let fields = if let DataType::Struct(fields) = data_type { fields.clone() } else { Fields::empty() };
                let parts: Vec<ArrayRef> = vec![Arc::new(values.take_bytes(None)?), Arc::new(metadata.take_bytes(None)?)];
                Arc::new(StructArray::try_new(fields, parts, nulls)?)
            }
            Values::List(offsets, element) => {
                let field = match data_type {
                    DataType::List(field) | DataType::LargeList(field) => field.clone(),
                    _ => Arc::new(Field::new("element", DataType::Null, true)),
                };
                let values = element.finish(field.data_type())?;
                Arc::new(ListArray::try_new(field, offsets.take(), values, nulls)?)
            }
            Values::Map(offsets, keys, value) => {
                let DataType::Map(entries, sorted) = data_type else {
                    return Err(ArrowError::SchemaError(format!("{data_type} is no map")));
                };
                let (key_field, value_field) =
                    map_fields(entries).ok_or_else(|| ArrowError::SchemaError("a map needs entries".to_owned()))?;
                let fields = Fields::from(vec![key_field.clone(), value_field.clone()]);
                let keys = cast(&keys.take_strings(None)?, key_field.data_type())?;
                let values = value.finish(value_field.data_type())?;
                let pairs = StructArray::try_new(fields, vec![keys, values], None)?;
                Arc::new(MapArray::try_new(entries.clone(), offsets.take(), pairs, nulls, *sorted)?)
            }
            Values::Struct(members) => {
                let fields = if let DataType::Struct(fields) = data_type { fields.clone() } else { Fields::empty() };
                let columns = members.columns.iter_mut().zip(&fields).map(|(column, field)| column.finish(field.data_type()));
                let columns = columns.collect::<Result<Vec<_>, _>>()?;
                Arc::new(StructArray::try_new_with_length(fields, columns, nulls, length)?)
            }
        };
        if array.data_type() == data_type { Ok(array) } else { cast(&array, data_type) }
    }
}

fn primitive<T: ArrowPrimitiveType>(values: &mut Vec<T::Native>, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
    let values: ScalarBuffer<T::Native> = std::mem::take(values).into();
    Ok(Arc::new(PrimitiveArray::<T>::try_new(values, nulls)?))
}

/// Key and value of a map's entries.
fn map_fields(entries: &FieldRef) -> Option<(&FieldRef, &FieldRef)> {
    match entries.data_type() {
        DataType::Struct(fields) => match fields.as_ref() {
            [key, value] => Some((key, value)),
            _ => None,
        },
        _ => None,
    }
}
