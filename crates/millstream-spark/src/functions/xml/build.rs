//! `from_xml`, `to_xml` and `schema_of_xml`.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};

use super::super::downcast::arrow_error;
use super::super::formats::{self, Mode, malformed};
use super::super::json::check_corrupt_record;
use super::super::rows::Rows;
use super::super::variant::is_variant;
use super::super::{Arguments, Call, Functions, Kernel, Typed, coercion, faults, scalar};
use super::decode::Decoder;
use super::infer::{canonical, infer};
use super::options::{XmlOptions, XmlStyle};
use super::tree::Document;
use super::write::Writer;
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add("from_xml", from_xml);
    functions.add("to_xml", to_xml);
    functions.add("schema_of_xml", schema_of_xml);
}

/// `from_xml(text, schema[, options])`
fn from_xml(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=3)?;
    let schema = formats::schema(call, 1)?;
    if !matches!(schema.data_type(), DataType::Struct(_)) {
        let message = format!("the schema of `from_xml` is {} but must be a struct or a variant", types::ddl_type(schema.data_type()));
        return Err(Error::invalid("INVALID_SCHEMA.NON_STRUCT_TYPE", message).with_sqlstate("42K07"));
    }
    let options = XmlOptions::of(&formats::options(call, 2)?, call.settings)?;
    check_corrupt_record(schema.data_type(), &options.corrupt_record)?;
    let field = formats::nullable(&schema).with_name("value");
    let (data_type, metadata) = (field.data_type().clone(), field.metadata().clone());
    Ok(scalar("from_xml", FromXml { field, options }, vec![call.exactly(0, &[DataType::Utf8])?], data_type, true).with_metadata(metadata))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FromXml {
    field: Field,
    options: XmlOptions,
}

impl Kernel for FromXml {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        self.options.mode.check("from_xml")?;
        let rows = Rows::of(arguments)?;
        let texts: Vec<Option<&str>> = (0..rows.len()).map(|at| rows.row(at).text_opt(0)).collect();
        let read: Vec<_> = texts.iter().map(|text| text.map(Document::parse)).collect();
        let mut faults: Vec<Option<String>> = read.iter().map(|read| read.as_ref()?.as_ref().err().map(|fault| fault.0.clone())).collect();
        let documents: Vec<Option<Document>> = read.into_iter().map(|read| read?.ok()).collect();
        let mut decoder = Decoder::new(&self.options, rows.len());
        if is_variant(&self.field) {
            self.fail(&texts, &faults)?;
            return decoder.variants(self.field.data_type(), &documents);
        }
        let DataType::Struct(fields) = self.field.data_type() else { return Err(Error::internal("the schema is no struct")) };
        let corrupt = fields.iter().position(|field| *field.name() == self.options.corrupt_record);
        let data: Fields = fields.iter().enumerate().filter(|(index, _)| Some(*index) != corrupt).map(|(_, field)| field.clone()).collect();
        let mut columns = decoder.documents(&data, &documents)?;
        for (fault, found) in faults.iter_mut().zip(decoder.faults()) {
            *fault = fault.take().or(found);
        }
        self.fail(&texts, &faults)?;
        if let Some(index) = corrupt {
            let records = texts.iter().zip(&faults).map(|(text, fault)| text.filter(|_| fault.is_some()));
            columns.insert(index, Arc::new(records.collect::<StringArray>()));
        }
        let nulls = NullBuffer::from_iter(texts.iter().map(Option::is_some));
        let structs = StructArray::try_new_with_length(fields.clone(), columns, Some(nulls), rows.len()).map_err(arrow_error)?;
        Ok(Arc::new(structs))
    }
}

impl FromXml {
    /// The first malformed record is an error where records must not be.
    fn fail(&self, texts: &[Option<&str>], faults: &[Option<String>]) -> Result<()> {
        if self.options.mode != Mode::FailFast {
            return Ok(());
        }
        let bad = texts.iter().zip(faults).find_map(|(text, fault)| Some(((*text)?, fault.as_ref()?)));
        bad.map_or(Ok(()), |(text, fault)| Err(malformed(text, fault)))
    }
}

/// `to_xml(value[, options])`
fn to_xml(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=2)?;
    let style = XmlStyle::of(&formats::options(call, 1)?, call.settings)?;
    let value = call.value(0)?;
    if !matches!(value.data_type, DataType::Struct(_)) {
        return Err(faults::unexpected_type("to_xml", 0, "\"STRUCT\" or \"VARIANT\"", &value.data_type));
    }
    Ok(scalar("to_xml", ToXml { field: value.to_field("value"), style }, vec![value.clone()], DataType::Utf8, true))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ToXml {
    field: Field,
    style: XmlStyle,
}

impl Kernel for ToXml {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let writer = Writer::new(&arguments.array(0)?, &self.field, &self.style)?;
        Rows::of(arguments)?.every_text(|row, out| {
            if writer.is_null(row.at()) {
                return Ok(false);
            }
            let mut element = String::new();
            writer.write(row.at(), &mut element);
            out.push_str(&element);
            Ok(true)
        })
    }
}

/// `schema_of_xml(text[, options])`: computed at analysis, since both are constants.
fn schema_of_xml(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=2)?;
    let options = XmlOptions::of(&formats::options(call, 1)?, call.settings)?;
    let text = match coercion::constant_of(&call.string(0)?) {
        Some(ScalarValue::Utf8(Some(text))) => text,
        Some(_) => return Err(faults::mismatch("UNEXPECTED_NULL", "the text of `schema_of_xml` must not be null")),
        None => return Err(faults::not_foldable("schema_of_xml", 0)),
    };
    let document = Document::parse(&text).map_err(|fault| malformed(&text, &fault.0))?;
    Ok(Typed::text(types::ddl_type(&canonical(&infer(&document, &options)))))
}
