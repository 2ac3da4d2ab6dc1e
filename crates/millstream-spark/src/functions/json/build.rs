//! `from_json`, `to_json` and `schema_of_json`.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field};
use datafusion::scalar::ScalarValue;
use millstream_core::json::Fault;
use millstream_core::{Error, ErrorKind, Result};

use super::super::rows::Rows;
use super::super::{Arguments, Call, Functions, Kernel, Typed, coercion, faults, formats, scalar};
use super::decode::Decoder;
use super::infer::infer;
use super::options::JsonOptions;
use super::{JsonStyle, JsonWriter};
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add("from_json", from_json);
    functions.add("to_json", to_json);
    functions.add("schema_of_json", schema_of_json);
}

/// `from_json(text, schema[, options])`
fn from_json(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=3)?;
    let schema = formats::schema(call, 1)?;
    let options = JsonOptions::of(&formats::options(call, 2)?, call.settings)?;
    match schema.data_type() {
        DataType::Struct(_) | DataType::List(_) => {}
        DataType::Map(entries, _) => {
            if let DataType::Struct(pair) = entries.data_type()
                && pair.first().is_some_and(|key| *key.data_type() != DataType::Utf8)
            {
                return Err(faults::mismatch(
                    "INVALID_JSON_MAP_KEY_TYPE",
                    "the keys of the maps in the schema of `from_json` must be strings",
                ));
            }
        }
        other => {
            let message =
                format!("the schema of `from_json` is {} but must be a struct, an array, a map or a variant", types::ddl_type(other));
            return Err(faults::mismatch("INVALID_JSON_SCHEMA", message));
        }
    }
    check_corrupt_record(schema.data_type(), &options.corrupt_record)?;
    let field = formats::nullable(&schema).with_name("value");
    let (data_type, metadata) = (field.data_type().clone(), field.metadata().clone());
    Ok(scalar("from_json", FromJson { field, options }, vec![call.exactly(0, &[DataType::Utf8])?], data_type, true).with_metadata(metadata))
}

/// The field for malformed records must be a string.
///
/// # Errors
/// `INVALID_CORRUPT_RECORD_TYPE`.
pub(in super::super) fn check_corrupt_record(schema: &DataType, name: &str) -> Result<()> {
    let DataType::Struct(fields) = schema else { return Ok(()) };
    match fields.iter().find(|field| field.name() == name) {
        Some(field) if *field.data_type() != DataType::Utf8 || !field.is_nullable() => {
            let message = format!("the field `{name}` takes the text of malformed records and must be a nullable string");
            Err(Error::invalid("INVALID_CORRUPT_RECORD_TYPE", message).with_sqlstate("42804"))
        }
        _ => Ok(()),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FromJson {
    field: Field,
    options: JsonOptions,
}

impl Kernel for FromJson {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        self.options.mode.check("from_json")?;
        let rows = Rows::of(arguments)?;
        let mut decoder = Decoder::new(&self.field, &self.options)?;
        for at in 0..rows.len() {
            match rows.row(at).text_opt(0) {
                Some(text) => decoder.text(text)?,
                None => decoder.null(),
            }
        }
        decoder.finish()
    }
}

/// `to_json(value[, options])`
fn to_json(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=2)?;
    let style = JsonStyle::of(&formats::options(call, 1)?, call.settings)?;
    let value = call.value(0)?;
    if !matches!(value.data_type, DataType::Struct(_) | DataType::List(_) | DataType::Map(..)) {
        let message =
            format!("the value of `to_json` is {} but must be a struct, an array, a map or a variant", types::ddl_type(&value.data_type));
        return Err(faults::mismatch("INVALID_JSON_SCHEMA", message));
    }
    let kernel = ToJson { field: value.to_field("value"), style };
    Ok(scalar("to_json", kernel, vec![value.clone()], DataType::Utf8, true))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ToJson {
    field: Field,
    style: JsonStyle,
}

impl Kernel for ToJson {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let writer = JsonWriter::new(&arguments.array(0)?, &self.field, &self.style)?;
        Rows::of(arguments)?.every_text(|row, out| {
            if writer.is_null(row.at()) {
                return Ok(false);
            }
            writer.write(row.at(), out)?;
            Ok(true)
        })
    }
}

/// `schema_of_json(text[, options])`: computed at analysis, since both are constants.
fn schema_of_json(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=2)?;
    let options = JsonOptions::of(&formats::options(call, 1)?, call.settings)?;
    let text = match coercion::constant_of(&call.string(0)?) {
        Some(ScalarValue::Utf8(Some(text))) => text,
        Some(_) => return Err(faults::mismatch("UNEXPECTED_NULL", "the text of `schema_of_json` must not be null")),
        None => return Err(faults::not_foldable("schema_of_json", 0)),
    };
    let data_type = infer(&text, &options).map_err(|fault| {
        let what = match fault {
            Fault::Syntax { at, what } => format!("{what} at byte {at}"),
            Fault::TooDeep => "it is nested too deeply".to_owned(),
        };
        // The reader's own exception, which has no name in Spark.
        Error::new(ErrorKind::BadRecord, "RuntimeException", format!("'{text}' is no JSON: {what}"))
    })?;
    Ok(Typed::text(types::ddl_type(&data_type)))
}
