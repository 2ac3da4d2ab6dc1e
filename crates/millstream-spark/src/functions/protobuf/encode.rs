//! Rows as messages.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, AsArray, StructArray};
use arrow::datatypes::{
    DataType, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use millstream_core::{Error, ErrorKind, Result, raw_text};
use prost_reflect::{Cardinality, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, Value};

use super::types::is_moment;
use crate::types::ddl_type;

const MICROS: i64 = 1_000_000;

/// Whether rows of these columns can be written as a message.
///
/// # Errors
/// `UNABLE_TO_CONVERT_TO_PROTOBUF_MESSAGE_TYPE` where names or types do not belong together.
pub(super) fn check(data_type: &DataType, message: &MessageDescriptor) -> Result<()> {
    let refused = |why: String| {
        let text = format!("rows of the type \"{}\" cannot be written as {}: {why}", ddl_type(data_type), message.full_name());
        Error::invalid("UNABLE_TO_CONVERT_TO_PROTOBUF_MESSAGE_TYPE", text).with_sqlstate("42K0G")
    };
    let DataType::Struct(fields) = data_type else { return Err(refused("they are no structs".to_owned())) };
    for field in fields {
        let wanted = message.get_field_by_name(field.name());
        let wanted = wanted.ok_or_else(|| refused(format!("the message has no field '{}'", field.name())))?;
        if !fits(field.data_type(), &wanted)? {
            return Err(refused(format!("the field '{}' has another type", field.name())));
        }
    }
    let missing =
        |field: &FieldDescriptor| field.cardinality() == Cardinality::Required && !fields.iter().any(|known| known.name() == field.name());
    match message.fields().find(missing) {
        Some(field) => Err(refused(format!("there is no value for the required field '{}'", field.name()))),
        None => Ok(()),
    }
}

fn fits(data_type: &DataType, field: &FieldDescriptor) -> Result<bool> {
    Ok(match (data_type, field.kind()) {
        (DataType::Map(pair, _), Kind::Message(entry)) if field.is_map() => match pair.data_type() {
            DataType::Struct(pair) => match pair.as_ref() {
                [key, value] => {
                    one_fits(key.data_type(), &entry.map_entry_key_field().kind())?
                        && one_fits(value.data_type(), &entry.map_entry_value_field().kind())?
                }
                _ => false,
            },
            _ => false,
        },
        (DataType::List(element), kind) if field.is_list() => one_fits(element.data_type(), &kind)?,
        (data_type, kind) => !field.is_list() && !field.is_map() && one_fits(data_type, &kind)?,
    })
}

fn one_fits(data_type: &DataType, kind: &Kind) -> Result<bool> {
    let is_int = matches!(kind, Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 | Kind::Uint32 | Kind::Fixed32);
    let is_long = matches!(kind, Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 | Kind::Uint64 | Kind::Fixed64);
    let is_unsigned = matches!(kind, Kind::Uint32 | Kind::Fixed32 | Kind::Uint64 | Kind::Fixed64);
    Ok(match (data_type, kind) {
        (DataType::Boolean, Kind::Bool)
        | (DataType::Float32, Kind::Float)
        | (DataType::Float64, Kind::Double)
        | (DataType::Utf8, Kind::String | Kind::Enum(_))
        | (DataType::Int32, Kind::Enum(_))
        | (DataType::Binary, Kind::Bytes) => true,
        (DataType::Int8 | DataType::Int16 | DataType::Int32, _) => is_int,
        (DataType::Int64, _) => is_long || is_int && is_unsigned,
        (DataType::Decimal128(20, 0), _) => is_long && is_unsigned,
        (DataType::Timestamp(_, Some(_)), Kind::Message(message)) => is_moment(message, "Timestamp"),
        (DataType::Duration(_), Kind::Message(message)) => is_moment(message, "Duration"),
        (DataType::Struct(_), Kind::Message(message)) => check(data_type, message).map(|()| true)?,
        _ => false,
    })
}

/// The message of a row. What is null is not set.
///
/// # Errors
/// `PROTOBUF_FIELD_MISSING_IN_SQL_SCHEMA` for a required field that is null, `CANNOT_CONVERT_SQL_VALUE_TO_PROTOBUF_ENUM_TYPE`.
pub(super) fn message(rows: &StructArray, at: usize, descriptor: &MessageDescriptor) -> Result<DynamicMessage> {
    let mut message = DynamicMessage::new(descriptor.clone());
    for (field, column) in rows.fields().iter().zip(rows.columns()) {
        let Some(wanted) = descriptor.get_field_by_name(field.name()) else { continue };
        if column.is_null(at) {
            if wanted.cardinality() == Cardinality::Required {
                let text = format!("the required field '{}' is null", wanted.full_name());
                return Err(Error::new(ErrorKind::BadRecord, "PROTOBUF_FIELD_MISSING_IN_SQL_SCHEMA", text).with_sqlstate("42K0G"));
            }
            continue;
        }
        let value = if wanted.is_map() {
            map(column, at, &wanted)?
        } else if wanted.is_list() {
            let items = column.as_list_opt::<i32>().ok_or_else(alien)?.value(at);
            Value::List((0..items.len()).map(|item| one(&items, item, &wanted.kind())).collect::<Result<_>>()?)
        } else {
            one(column, at, &wanted.kind())?
        };
        message.try_set_field(&wanted, value).map_err(|error| alien().caused_by(error))?;
    }
    Ok(message)
}

fn alien() -> Error {
    Error::internal("a column is not what its message was planned to be")
}

fn map(column: &ArrayRef, at: usize, field: &FieldDescriptor) -> Result<Value> {
    let Kind::Message(entry) = field.kind() else { return Err(alien()) };
    let entries = column.as_map_opt().ok_or_else(alien)?.value(at);
    let [keys, values] = entries.columns() else { return Err(alien()) };
    let (key, value) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
    let mut map = HashMap::new();
    for item in 0..entries.len() {
        let key = one(keys, item, &key)?.into_map_key().ok_or_else(alien)?;
        map.insert(key, one(values, item, &value)?);
    }
    Ok(Value::Map(map))
}

#[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "unsigned numbers are those bits, as in Java")]
fn one(column: &ArrayRef, at: usize, kind: &Kind) -> Result<Value> {
    if column.is_null(at) {
        let message = "an element of an array or a map is null, which a message cannot have: leave such elements out";
        return Err(Error::new(ErrorKind::BadRecord, "INTERNAL_ERROR", message).with_sqlstate("XX000"));
    }
    Ok(match kind {
        Kind::Bool => Value::Bool(column.as_boolean_opt().ok_or_else(alien)?.value(at)),
        Kind::Float => Value::F32(column.as_primitive_opt::<Float32Type>().ok_or_else(alien)?.value(at)),
        Kind::Double => Value::F64(column.as_primitive_opt::<Float64Type>().ok_or_else(alien)?.value(at)),
        Kind::String => Value::String(raw_text::shown(column.as_string_opt::<i32>().ok_or_else(alien)?.value(at)).into_owned()),
        Kind::Bytes => Value::Bytes(column.as_binary_opt::<i32>().ok_or_else(alien)?.value(at).to_vec().into()),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(whole(column, at)? as i32),
        Kind::Uint32 | Kind::Fixed32 => Value::U32(whole(column, at)? as u32),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(whole(column, at)?),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(whole(column, at)? as u64),
        Kind::Enum(symbols) => {
            let number = match column.as_string_opt::<i32>() {
                Some(texts) => symbols.get_value_by_name(texts.value(at)).map(|symbol| symbol.number()),
                None => Some(whole(column, at)? as i32).filter(|number| symbols.get_value(*number).is_some()),
            };
            Value::EnumNumber(number.ok_or_else(|| {
                let names: Vec<String> = symbols.values().map(|symbol| symbol.name().to_owned()).collect();
                let text = format!("a value is none of {} of the enum {}", names.join(", "), symbols.full_name());
                Error::new(ErrorKind::BadRecord, "CANNOT_CONVERT_SQL_VALUE_TO_PROTOBUF_ENUM_TYPE", text).with_sqlstate("42846")
            })?)
        }
        Kind::Message(descriptor) => match column.data_type() {
            DataType::Timestamp(..) => {
                moment(column.as_primitive_opt::<TimestampMicrosecondType>().ok_or_else(alien)?.value(at), descriptor, true)?
            }
            DataType::Duration(_) => {
                moment(column.as_primitive_opt::<DurationMicrosecondType>().ok_or_else(alien)?.value(at), descriptor, false)?
            }
            _ => Value::Message(message(column.as_struct_opt().ok_or_else(alien)?, at, descriptor)?),
        },
    })
}

/// Seconds and nanoseconds. Those of a length of time have the same sign.
fn moment(micros: i64, descriptor: &MessageDescriptor, is_instant: bool) -> Result<Value> {
    let (seconds, rest) =
        if is_instant { (micros.div_euclid(MICROS), micros.rem_euclid(MICROS)) } else { (micros / MICROS, micros % MICROS) };
    let mut message = DynamicMessage::new(descriptor.clone());
    let nanos = i32::try_from(rest * 1000).unwrap_or_default();
    let set = message.try_set_field_by_number(1, Value::I64(seconds)).and_then(|()| message.try_set_field_by_number(2, Value::I32(nanos)));
    set.map_err(|error| alien().caused_by(error))?;
    Ok(Value::Message(message))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap, reason = "the bits of an unsigned number")]
fn whole(column: &ArrayRef, at: usize) -> Result<i64> {
    Ok(match column.data_type() {
        DataType::Int8 => i64::from(column.as_primitive_opt::<Int8Type>().ok_or_else(alien)?.value(at)),
        DataType::Int16 => i64::from(column.as_primitive_opt::<Int16Type>().ok_or_else(alien)?.value(at)),
        DataType::Int32 => i64::from(column.as_primitive_opt::<Int32Type>().ok_or_else(alien)?.value(at)),
        DataType::Decimal128(..) => column.as_primitive_opt::<Decimal128Type>().ok_or_else(alien)?.value(at) as u64 as i64,
        _ => column.as_primitive_opt::<Int64Type>().ok_or_else(alien)?.value(at),
    })
}
