//! Avro in columns: one message a value, without the header of a file and without a schema beside it.

mod decode;
mod encode;
mod resolve;
mod schema;
#[cfg(test)]
mod tests;
mod types;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, ErrorKind, Options, Result};

use super::formats::{self, Mode};
use super::message::{self, Value};
use super::rows::{Rows, internal};
use super::{Arguments, Call, Functions, Kernel, Typed, coercion, faults, scalar};
use crate::types::ddl_type;
use encode::Write;
use resolve::Read;
use schema::{Kind, Schema};
use types::MemberNames;

pub(super) fn register(functions: &mut Functions) {
    functions.add("from_avro", from_avro);
    functions.add("to_avro", to_avro);
    functions.add("schema_of_avro", schema_of_avro);
}

/// `from_avro(bytes, schema[, options])`
fn from_avro(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=3)?;
    let written = schema_argument(call, 1)?.ok_or_else(|| unreadable("the Avro schema of `from_avro` is null"))?;
    let options = options(call, 2)?;
    let mode = if options.get("mode").is_some() { Mode::of(&options) } else { Mode::FailFast };
    mode.check("from_avro")?;
    let written = parse(&written)?;
    let wanted = options.get("avroSchema").map_or_else(|| Ok(written.clone()), parse)?;
    let (data_type, _) = types::spark_type(&wanted, member_names(&options)?)?;
    let data_type = match mode {
        Mode::Permissive => formats::nullable(&Field::new("value", data_type, true)).data_type().clone(),
        _ => data_type,
    };
    let bytes = call.value(0)?.clone();
    if bytes.data_type != DataType::Binary {
        let message = format!("`from_avro` reads binary values, not \"{}\": cast them", ddl_type(&bytes.data_type));
        return Err(Error::new(ErrorKind::Invalid, "INTERNAL_ERROR", message).with_sqlstate("XX000"));
    }
    // Spark takes a message whose column is a struct for a record; it reads no other.
    let is_record = matches!(wanted.kind, Kind::Record { .. });
    let twins = if call.settings.case_sensitive { None } else { resolve::twins(&wanted) };
    let read = match (&data_type, twins) {
        (_, Some(name)) => Read::Never(format!("the schema has several fields that are called '{name}'")),
        (DataType::Struct(_), _) if !is_record => Read::Never("a union is only read inside of a record".to_owned()),
        _ => resolve::resolve(&written, &wanted),
    };
    Ok(scalar("from_avro", FromAvro { read, data_type: data_type.clone(), mode }, vec![bytes], data_type, true))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FromAvro {
    read: Read,
    data_type: DataType,
    mode: Mode,
}

impl Kernel for FromAvro {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let rows = Rows::of(arguments)?;
        let mut values = Vec::with_capacity(rows.len());
        for at in 0..rows.len() {
            let row = rows.row(at);
            values.push(if row.is_null(0) { Value::Null } else { self.message(row.bytes(0))? });
        }
        message::column(&self.data_type, &values.iter().collect::<Vec<_>>()).map_err(internal)
    }
}

impl FromAvro {
    fn message(&self, message: &[u8]) -> Result<Value> {
        match (decode::decode(&self.read, message), self.mode, &self.data_type) {
            (Ok(value), ..) => Ok(value),
            // A record stays one, with nothing in it.
            (Err(_), Mode::Permissive, DataType::Struct(fields)) => Ok(Value::Record(vec![Value::Null; fields.len()])),
            (Err(_), Mode::Permissive, _) => Ok(Value::Null),
            (Err(fault), ..) => {
                let message = format!(
                    "Malformed records are detected in record parsing: an Avro message of {} bytes cannot be read, {fault}. The mode is \
                     FAILFAST: with PERMISSIVE such messages become nulls. Messages of a schema registry begin with five bytes of their own, \
                     which must be cut off before.",
                    message.len()
                );
                Err(Error::new(ErrorKind::BadRecord, "SparkException", message))
            }
        }
    }
}

/// `to_avro(value[, schema])`
fn to_avro(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=2)?;
    let value = call.value(0)?.clone();
    let given = if call.len() > 1 { schema_argument(call, 1)? } else { None };
    let schema = match given {
        Some(json) => parse(&json)?,
        None => types::avro_type(&value.data_type, value.nullable)?,
    };
    let nullable = value.nullable;
    let write = match value.data_type {
        // Nulls are not written, whatever the schema.
        DataType::Null => Write::Null,
        _ => encode::compile(&value.data_type, &schema, call.settings.case_sensitive)?,
    };
    Ok(scalar("to_avro", ToAvro { write }, vec![value], DataType::Binary, nullable))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ToAvro {
    write: Write,
}

impl Kernel for ToAvro {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let array = arguments.array(0)?;
        Rows::of(arguments)?.every_bytes(|row, out| {
            if array.is_null(row.at()) || *array.data_type() == DataType::Null {
                return Ok(false);
            }
            encode::encode(&self.write, &array, row.at(), out)?;
            Ok(true)
        })
    }
}

/// `schema_of_avro(schema[, options])`: computed at analysis, since both are constants.
fn schema_of_avro(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=2)?;
    let json = schema_argument(call, 0)?.ok_or_else(|| unreadable("the Avro schema of `schema_of_avro` is null"))?;
    let (data_type, _) = types::spark_type(&parse(&json)?, member_names(&options(call, 1)?)?)?;
    Ok(Typed::text(ddl_type(&data_type)))
}

/// The constant text of an argument; none for a null.
fn schema_argument(call: &Call<'_>, index: usize) -> Result<Option<String>> {
    match coercion::constant_of(call.value(index)?) {
        Some(ScalarValue::Utf8(text)) => Ok(text),
        Some(ScalarValue::Null) => Ok(None),
        _ => Err(hint(call, index, "a constant string with an Avro schema in JSON")),
    }
}

fn options(call: &Call<'_>, index: usize) -> Result<Options> {
    if call.len() <= index || call.value(index)?.data_type == DataType::Null {
        return Ok(Options::new());
    }
    formats::options(call, index).map_err(|_| hint(call, index, "a constant map of strings with the options"))
}

fn hint(call: &Call<'_>, index: usize, expected: &str) -> Error {
    let message = format!("parameter {} of `{}` must be {expected}", index + 1, call.name);
    faults::mismatch("TYPE_CHECK_FAILURE_WITH_HINT", message)
}

fn member_names(options: &Options) -> Result<MemberNames> {
    let by_type = options.bool("enableStableIdentifiersForUnionType", false)?;
    Ok(if by_type { MemberNames::Types } else { MemberNames::Places })
}

fn parse(json: &str) -> Result<Schema> {
    schema::parse(json).map_err(unreadable)
}

fn unreadable(message: impl Into<String>) -> Error {
    Error::invalid("SchemaParseException", message)
}
