//! `to_variant_object`: typed values to variants.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use millstream_core::variant::{Builder, Fault};
use millstream_core::{Error, Result};

use super::{Parts, is_variant};

/// Whether values of a type can be variants.
pub(super) fn is_convertible(data_type: &DataType) -> bool {
    match data_type {
        DataType::Duration(_) | DataType::Interval(_) | DataType::Time64(_) => false,
        DataType::List(element) => is_convertible(element.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| is_convertible(field.data_type())),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) => match pair.as_ref() {
                [key, value] => *key.data_type() == DataType::Utf8 && is_convertible(value.data_type()),
                _ => false,
            },
            _ => false,
        },
        _ => true,
    }
}

/// Why a value is no variant.
pub(super) enum Failure {
    Fault(Fault),
    Error(Error),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Failure::Fault(fault)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Error(error)
    }
}

/// Appends the value at a place of an array.
pub(super) fn append(array: &ArrayRef, row: usize, field: &Field, builder: &mut Builder) -> Result<(), Failure> {
    let unknown = || Error::internal(format!("values of {} are no variants", array.data_type()));
    if array.is_null(row) || array.data_type() == &DataType::Null {
        builder.null();
        return Ok(());
    }
    match array.data_type() {
        DataType::Boolean => builder.boolean(array.as_boolean_opt().ok_or_else(unknown)?.value(row)),
        DataType::Int8 => builder.long(array.as_primitive_opt::<Int8Type>().ok_or_else(unknown)?.value(row).into()),
        DataType::Int16 => builder.long(array.as_primitive_opt::<Int16Type>().ok_or_else(unknown)?.value(row).into()),
        DataType::Int32 => builder.long(array.as_primitive_opt::<Int32Type>().ok_or_else(unknown)?.value(row).into()),
        DataType::Int64 => builder.long(array.as_primitive_opt::<Int64Type>().ok_or_else(unknown)?.value(row)),
        DataType::Float32 => builder.float(array.as_primitive_opt::<Float32Type>().ok_or_else(unknown)?.value(row)),
        DataType::Float64 => builder.double(array.as_primitive_opt::<Float64Type>().ok_or_else(unknown)?.value(row)),
        DataType::Decimal128(_, scale) => {
            let scale = u8::try_from(*scale).map_err(|_| unknown())?;
            builder.decimal(array.as_primitive_opt::<Decimal128Type>().ok_or_else(unknown)?.value(row), scale);
        }
        DataType::Date32 => builder.date(array.as_primitive_opt::<Date32Type>().ok_or_else(unknown)?.value(row)),
        DataType::Timestamp(_, zone) => {
            let micros = array.as_primitive_opt::<TimestampMicrosecondType>().ok_or_else(unknown)?.value(row);
            if zone.is_some() { builder.timestamp(micros) } else { builder.timestamp_ntz(micros) }
        }
        DataType::Utf8 => builder.string(array.as_string_opt::<i32>().ok_or_else(unknown)?.value(row))?,
        DataType::Binary => builder.binary(array.as_binary_opt::<i32>().ok_or_else(unknown)?.value(row))?,
        DataType::Struct(_) if is_variant(field) => builder.variant(Parts::of(array)?.get(row))?,
        DataType::Struct(fields) => {
            let structs = array.as_struct_opt().ok_or_else(unknown)?;
            let (start, mut members) = (builder.position(), Vec::new());
            for (field, column) in fields.iter().zip(structs.columns()) {
                members.push(builder.member(field.name(), start));
                append(column, row, field, builder)?;
            }
            builder.object(start, members)?;
        }
        DataType::List(element) => {
            let values = array.as_list_opt::<i32>().ok_or_else(unknown)?.value(row);
            let (start, mut offsets) = (builder.position(), Vec::new());
            for at in 0..values.len() {
                offsets.push(builder.position() - start);
                append(&values, at, element, builder)?;
            }
            builder.array(start, &offsets)?;
        }
        DataType::Map(entries, _) => {
            let pairs = array.as_map_opt().ok_or_else(unknown)?.value(row);
            let DataType::Struct(fields) = entries.data_type() else { return Err(unknown().into()) };
            let ([keys, values], [_, value]) = (pairs.columns(), fields.as_ref()) else { return Err(unknown().into()) };
            let keys = keys.as_string_opt::<i32>().ok_or_else(unknown)?;
            let (start, mut members) = (builder.position(), Vec::new());
            for at in 0..pairs.len() {
                members.push(builder.member(keys.value(at), start));
                append(values, at, value, builder)?;
            }
            builder.object(start, members)?;
        }
        _ => return Err(unknown().into()),
    }
    Ok(())
}
