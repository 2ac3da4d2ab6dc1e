//! Protobuf in columns: one message a value, whose type is in a set of descriptors that the call brings.

mod decode;
mod encode;
#[cfg(test)]
mod tests;
mod types;

use std::hash::{Hash, Hasher};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, ErrorKind, Options, Result};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

use super::formats::{self, Mode};
use super::message::{self, Value};
use super::rows::{Rows, internal};
use super::{Arguments, Call, Functions, Kernel, Typed, coercion, faults, scalar};
use crate::types::ddl_type;
use types::Style;

pub(super) fn register(functions: &mut Functions) {
    functions.add("from_protobuf", from_protobuf);
    functions.add("to_protobuf", to_protobuf);
}

/// A type of messages, the same as another one if name and descriptors are.
#[derive(Clone, Debug)]
struct Type {
    descriptors: Vec<u8>,
    message: MessageDescriptor,
}

impl PartialEq for Type {
    fn eq(&self, other: &Self) -> bool {
        self.descriptors == other.descriptors && self.message.full_name() == other.message.full_name()
    }
}

impl Eq for Type {}

impl Hash for Type {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.descriptors.hash(state);
        self.message.full_name().hash(state);
    }
}

/// `from_protobuf(bytes, message, descriptors[, options])`
fn from_protobuf(call: &Call<'_>) -> Result<Typed> {
    let (message, options) = arguments(call)?;
    let mode = if options.get("mode").is_some() { Mode::of(&options) } else { Mode::FailFast };
    mode.check("from_protobuf")?;
    let style = Style::of(&options)?;
    let data_type = DataType::Struct(style.fields(&message.message)?.into());
    let data_type = match mode {
        Mode::Permissive => formats::nullable(&Field::new("value", data_type, true)).data_type().clone(),
        _ => data_type,
    };
    let bytes = call.exactly(0, &[DataType::Binary])?;
    Ok(scalar("from_protobuf", FromProtobuf { message, data_type: data_type.clone(), style, mode }, vec![bytes], data_type, true))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FromProtobuf {
    message: Type,
    data_type: DataType,
    style: Style,
    mode: Mode,
}

impl Kernel for FromProtobuf {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let DataType::Struct(fields) = &self.data_type else { return Err(Error::internal("a message without fields")) };
        let rows = Rows::of(arguments)?;
        let mut values = Vec::with_capacity(rows.len());
        for at in 0..rows.len() {
            let row = rows.row(at);
            if row.is_null(0) {
                values.push(Value::Null);
                continue;
            }
            let read = DynamicMessage::decode(self.message.message.clone(), row.bytes(0));
            values.push(match (read, self.mode) {
                (Ok(message), _) => decode::record(&message, fields, &self.style),
                (Err(_), Mode::Permissive) => Value::Record(vec![Value::Null; fields.len()]),
                (Err(error), _) => {
                    let text = "a message cannot be read, and the mode is FAILFAST: with PERMISSIVE such messages become nulls";
                    return Err(Error::new(ErrorKind::BadRecord, "MALFORMED_PROTOBUF_MESSAGE", text)
                        .with_sqlstate("XX000")
                        .caused_by(error));
                }
            });
        }
        message::column(&self.data_type, &values.iter().collect::<Vec<_>>()).map_err(internal)
    }
}

/// `to_protobuf(struct, message, descriptors[, options])`
fn to_protobuf(call: &Call<'_>) -> Result<Typed> {
    let (message, _) = arguments(call)?;
    let value = call.value(0)?.clone();
    encode::check(&value.data_type, &message.message)?;
    let nullable = value.nullable;
    Ok(scalar("to_protobuf", ToProtobuf { message }, vec![value], DataType::Binary, nullable))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ToProtobuf {
    message: Type,
}

impl Kernel for ToProtobuf {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let array = arguments.array(0)?;
        let structs = array.as_struct_opt().ok_or_else(|| Error::internal("the value of to_protobuf is no struct"))?;
        Rows::of(arguments)?.every_bytes(|row, out| {
            if structs.is_null(row.at()) {
                return Ok(false);
            }
            encode::message(structs, row.at(), &self.message.message)?.encode_raw(out);
            Ok(true)
        })
    }
}

/// The type of the messages, and the options.
fn arguments(call: &Call<'_>) -> Result<(Type, Options)> {
    call.arity(2..=4)?;
    let name = match coercion::constant_of(call.value(1)?) {
        Some(ScalarValue::Utf8(Some(name))) => name,
        _ => return Err(hint(call, 1, "a constant string with the name of a message")),
    };
    let (mut descriptors, mut options) = (None, Options::new());
    for index in 2..call.len() {
        match coercion::constant_of(call.value(index)?) {
            Some(ScalarValue::Binary(bytes)) => descriptors = bytes,
            Some(ScalarValue::Null) => {}
            Some(ScalarValue::Map(_)) => options = formats::options(call, index)?,
            Some(ScalarValue::Utf8(Some(path))) => {
                let message = format!("the descriptors are not read from '{path}' here: pass the content of the file, as PySpark does");
                return Err(Error::invalid("PROTOBUF_DESCRIPTOR_FILE_NOT_FOUND", message).with_sqlstate("42K0G"));
            }
            _ => return Err(hint(call, index, "constant bytes with descriptors, or a constant map of strings with the options")),
        }
    }
    let Some(descriptors) = descriptors else {
        let message =
            format!("'{name}' is no class here: pass the descriptors of its messages, which `protoc --descriptor_set_out` writes");
        return Err(Error::invalid("CANNOT_LOAD_PROTOBUF_CLASS", message).with_sqlstate("42K03"));
    };
    let pool = DescriptorPool::decode(descriptors.as_slice()).map_err(|error| {
        let message = "the descriptors do not parse: protoc writes them with --descriptor_set_out and --include_imports";
        Error::invalid("CANNOT_PARSE_PROTOBUF_DESCRIPTOR", message).with_sqlstate("22018").caused_by(error)
    })?;
    let found =
        pool.all_messages().find(|message| message.parent_message().is_none() && (message.name() == name || message.full_name() == name));
    let message = found.ok_or_else(|| {
        let message = format!("there is no message '{name}' in the descriptors");
        Error::invalid("PROTOBUF_MESSAGE_NOT_FOUND", message).with_sqlstate("42K0G")
    })?;
    Ok((Type { descriptors, message }, options))
}

fn hint(call: &Call<'_>, index: usize, expected: &str) -> Error {
    let given = call.value(index).map(|value| ddl_type(&value.data_type)).unwrap_or_default();
    let message = format!("parameter {} of `{}` is \"{given}\" but must be {expected}", index + 1, call.name);
    faults::mismatch("TYPE_CHECK_FAILURE_WITH_HINT", message)
}
