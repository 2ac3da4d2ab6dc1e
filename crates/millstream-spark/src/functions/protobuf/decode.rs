//! Messages as values.

use arrow::datatypes::{DataType, Fields};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, ReflectMessage, Value as Read};

use super::super::message::Value;
use super::types::Style;

const MICROS: i64 = 1_000_000;

/// The columns of a message.
pub(super) fn record(message: &DynamicMessage, fields: &Fields, style: &Style) -> Value {
    let descriptor = message.descriptor();
    let value = |(name, data_type): (&str, &DataType)| {
        let Some(field) = descriptor.get_field_by_name(name) else { return Value::Null };
        // Lists are never null; a field that cannot tell whether it was set is null unless its default is asked for.
        let is_shown = field.is_list()
            || field.is_map()
            || message.has_field(&field)
            || field.field_descriptor_proto().default_value.is_some()
            || (!field.supports_presence() && style.emit_defaults);
        if is_shown { of_field(&message.get_field(&field), &field, data_type, style) } else { Value::Null }
    };
    Value::Record(fields.iter().map(|field| value((field.name(), field.data_type()))).collect())
}

fn of_field(read: &Read, field: &FieldDescriptor, data_type: &DataType, style: &Style) -> Value {
    match (read, data_type) {
        (Read::List(items), DataType::List(element)) => {
            Value::Array(items.iter().map(|item| one(item, &field.kind(), element.data_type(), style)).collect())
        }
        (Read::Map(entries), DataType::Map(pair, _)) => {
            let (Kind::Message(entry), DataType::Struct(pair)) = (field.kind(), pair.data_type()) else { return Value::Null };
            let [key_type, value_type] = pair.as_ref() else { return Value::Null };
            let mut entries: Vec<(&MapKey, &Read)> = entries.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let (keys, values) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
            let one_of = |(key, value): (&MapKey, &Read)| {
                (one(&Read::from(key.clone()), &keys, key_type.data_type(), style), one(value, &values, value_type.data_type(), style))
            };
            Value::Map(entries.into_iter().map(one_of).collect())
        }
        _ => one(read, &field.kind(), data_type, style),
    }
}

#[expect(clippy::cast_possible_wrap, reason = "unsigned numbers that are not widened keep their bits, as in Java")]
fn one(read: &Read, kind: &Kind, data_type: &DataType, style: &Style) -> Value {
    match (read, data_type) {
        (Read::Bool(value), _) => Value::Boolean(*value),
        (Read::I32(value), _) => Value::Int(*value),
        (Read::U32(value), DataType::Int64) => Value::Long(i64::from(*value)),
        (Read::U32(value), _) => Value::Int(*value as i32),
        (Read::I64(value), _) => Value::Long(*value),
        (Read::U64(value), DataType::Decimal128(..)) => Value::Decimal(i128::from(*value)),
        (Read::U64(value), _) => Value::Long(*value as i64),
        (Read::F32(value), _) => Value::Float(*value),
        (Read::F64(value), _) => Value::Double(*value),
        (Read::String(value), _) => Value::Text(value.clone()),
        (Read::Bytes(value), _) => Value::Bytes(value.to_vec()),
        (Read::EnumNumber(number), DataType::Int32) => Value::Int(*number),
        (Read::EnumNumber(number), _) => {
            let Kind::Enum(symbols) = kind else { return Value::Null };
            let unknown = || format!("UNKNOWN_ENUM_VALUE_{}_{number}", symbols.name());
            Value::Text(symbols.get_value(*number).map_or_else(unknown, |symbol| symbol.name().to_owned()))
        }
        (Read::Message(message), DataType::Struct(fields)) => record(message, fields, style),
        (Read::Message(message), DataType::Timestamp(..) | DataType::Duration(_)) => {
            let number = |place: u32| message.get_field_by_number(place).and_then(|value| value.as_i64().or(value.as_i32().map(i64::from)));
            let (seconds, nanos) = (number(1).unwrap_or(0), number(2).unwrap_or(0));
            Value::Long(seconds.saturating_mul(MICROS).saturating_add(nanos.div_euclid(1000)))
        }
        (Read::Message(message), data_type) => match message.descriptor().get_field(1) {
            Some(value) => one(&message.get_field(&value), &value.kind(), data_type, style),
            None => Value::Null,
        },
        _ => Value::Null,
    }
}
