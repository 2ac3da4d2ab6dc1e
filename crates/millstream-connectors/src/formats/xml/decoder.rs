//! Records to rows: malformed records by the parse mode, their text into the corrupt-record column or the quarantine, and what does not fit
//! the schema into the rescued-data column.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{Fields, Schema};
use arrow::error::ArrowError;
use millstream_core::quarantine::{BadRecord, ParseMode, Quarantine};
use millstream_core::{Error, ErrorKind, Result};

use super::super::plan::{Projection, Source};
use super::super::rescue::Rescue;
use super::Plan;
use super::convert::{Converter, Misfit, Names, Object};
use super::element::{Element, Node};
use super::stream::{Content, Record};
use super::value::{Value, column};
use super::variants;

/// Turns records into batches.
pub(super) struct Decoder {
    plan: Arc<Plan>,
    projection: Projection,
    url: String,
    quarantine: Arc<dyn Quarantine>,
    /// The fields that are read.
    fields: Fields,
    names: Names,
    rows: Vec<Vec<Value>>,
    /// The text of each row's record, where it is malformed and asked for.
    corrupt: Option<Vec<Option<String>>>,
    rescued: Option<(Vec<Option<String>>, Rescue)>,
    /// The text of the file, once it was asked for.
    file_text: Option<Option<String>>,
}

/// How to go on after a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// With the next one.
    Going,
    /// With the same one again, when the text of the whole file is there.
    TextWanted,
    /// Not at all: the document is broken.
    Broken,
}

/// Why a record is malformed.
struct Malformed {
    reason: &'static str,
    detail: String,
}

impl Decoder {
    /// A decoder for the records of one file.
    pub(super) fn new(plan: Arc<Plan>, projection: Projection, url: String, quarantine: Arc<dyn Quarantine>) -> Self {
        let fields: Fields = projection.fields.iter().filter_map(|column| plan.schema.fields().get(*column)).cloned().collect();
        let names = Names::new(fields.iter().map(|field| field.name().as_str()));
        let wanted = |source| projection.sources.contains(&source);
        Decoder {
            corrupt: wanted(Source::CorruptRecord).then(Vec::new),
            rescued: wanted(Source::RescuedData).then(Default::default),
            file_text: None,
            plan,
            projection,
            url,
            quarantine,
            fields,
            names,
            rows: Vec::new(),
        }
    }

    /// How many rows wait in the decoder.
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The text of the whole file, which is what Spark keeps of a malformed record; `None` if it is too long.
    pub(super) fn file_text(&mut self, text: Option<String>) {
        self.file_text = Some(text);
    }

    /// Adds the row of a record.
    ///
    /// # Errors
    /// `MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION` in the mode `FAILFAST`.
    pub(super) fn record(&mut self, record: &Record) -> Result<Next> {
        let text = match &record.content {
            Content::TooLarge(length) => return self.too_large(record.position, *length).map(|()| Next::Going),
            Content::Broken(what) => return self.broken("", record.position, (*what).to_owned()),
            Content::Row(bytes) => String::from_utf8_lossy(bytes),
        };
        let element = match Element::parse(&text) {
            Ok(element) => element,
            Err(what) => return self.broken(&text, record.position, what),
        };
        let object = match self.row(&element) {
            Ok(object) => object,
            Err(detail) => {
                return self.malformed(&text, record.position, None, Malformed { reason: "TYPE_MISMATCH", detail });
            }
        };
        match object.misfit {
            // What does not fit is rescued, which leaves nothing malformed.
            Some(detail) if self.rescued.is_none() => {
                self.malformed(&text, record.position, Some(object.fields), Malformed { reason: "TYPE_MISMATCH", detail })
            }
            _ => {
                self.rescue(&element, &object);
                self.add(object.fields, None);
                Ok(Next::Going)
            }
        }
    }

    fn row(&self, element: &Element) -> Result<Object, Misfit> {
        let options = &self.plan.options;
        if options.single_variant.is_some() {
            let fields = match self.fields.is_empty() {
                true => Vec::new(),
                false => vec![variants::of_element(element, &options.values)?],
            };
            return Ok(Object { fields, misfit: None, strays: Vec::new() });
        }
        Converter { options: &options.values }.object(element, &self.fields, &self.names, true)
    }

    /// Keeps what has no column or does not fit it.
    fn rescue(&mut self, element: &Element, object: &Object) {
        let Some((_, rescue)) = &mut self.rescued else { return };
        for stray in &object.strays {
            if let Some(Node::Element(stray)) = element.children.get(*stray) {
                rescue.text(stray.name.as_bytes(), stray.inner_text().as_bytes());
            }
        }
        if object.misfit.is_none() {
            return;
        }
        let converter = Converter { options: &self.plan.options.values };
        for child in element.elements() {
            let alone = Element { children: vec![Node::Element(child.clone())], ..Element::default() };
            if converter.object(&alone, &self.fields, &self.names, false).is_ok_and(|object| object.misfit.is_some()) {
                rescue.text(child.name.as_bytes(), child.inner_text().as_bytes());
            }
        }
    }

    /// The document is no XML from here on.
    fn broken(&mut self, text: &str, position: u64, detail: String) -> Result<Next> {
        let next = self.malformed(text, position, None, Malformed { reason: "MALFORMED_XML", detail })?;
        Ok(if next == Next::Going { Next::Broken } else { next })
    }

    /// Adds a row, with the text of its record if that is malformed.
    fn add(&mut self, fields: Vec<Value>, text: Option<String>) {
        self.rows.push(fields);
        if let Some(texts) = &mut self.corrupt {
            texts.push(text);
        }
        if let Some((texts, rescue)) = &mut self.rescued {
            rescue.finish(&self.url, |json| texts.push(json.map(|json| String::from_utf8_lossy(json).into_owned())));
        }
    }

    /// A malformed record, with what could be read of it.
    fn malformed(&mut self, text: &str, position: u64, read: Option<Vec<Value>>, malformed: Malformed) -> Result<Next> {
        match self.plan.options.mode {
            ParseMode::Permissive => {
                let kept = match (&self.corrupt, &self.file_text) {
                    (None, _) => {
                        self.report(text, position, malformed);
                        None
                    }
                    (Some(_), None) => return Ok(Next::TextWanted),
                    (Some(_), Some(file)) => Some(file.as_deref().unwrap_or(text).to_owned()),
                };
                self.add(read.unwrap_or_default(), kept);
                Ok(Next::Going)
            }
            ParseMode::DropMalformed => {
                self.report(text, position, malformed);
                Ok(Next::Going)
            }
            ParseMode::FailFast => Err(self.fail(position, &malformed)),
        }
    }

    fn report(&self, text: &str, position: u64, malformed: Malformed) {
        self.quarantine.put(BadRecord {
            raw: Some(text.get(..text.floor_char_boundary(BadRecord::MAX_RAW_BYTES)).unwrap_or_default().to_owned()),
            origin: self.url.clone(),
            position: Some(position),
            length: Some(text.len() as u64),
            reason: malformed.reason.to_owned(),
            detail: malformed.detail,
        });
    }

    fn too_large(&self, position: u64, length: u64) -> Result<()> {
        let detail = format!("the record has {length} bytes, the option maxRecordBytes allows {}", self.plan.options.limit);
        let malformed = Malformed { reason: "RECORD_TOO_LARGE", detail };
        if self.plan.options.mode == ParseMode::FailFast {
            return Err(self.fail(position, &malformed));
        }
        self.quarantine.put(BadRecord {
            raw: None,
            origin: self.url.clone(),
            position: Some(position),
            length: Some(length),
            reason: malformed.reason.to_owned(),
            detail: malformed.detail,
        });
        Ok(())
    }

    fn fail(&self, position: u64, malformed: &Malformed) -> Error {
        let message = format!(
            "the record at byte {position} of {} is malformed ({}: {}) and the mode is FAILFAST: PERMISSIVE keeps it as nulls",
            self.url, malformed.reason, malformed.detail
        );
        Error::new(ErrorKind::BadRecord, "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION", message).with_sqlstate("22023")
    }

    /// The rows as a batch; the decoder is empty afterwards.
    ///
    /// # Errors
    /// `NOT_NULL_CONSTRAINT_VIOLATION` ([`ErrorKind::SchemaMismatch`]) when a field that must not be null is null.
    pub(super) fn finish(&mut self) -> Result<RecordBatch> {
        self.batch().map_err(|error| {
            let message = format!("the rows of {} do not fit their schema: declare fields that may be missing as nullable", self.url);
            Error::new(ErrorKind::SchemaMismatch, "NOT_NULL_CONSTRAINT_VIOLATION", message).with_sqlstate("42000").caused_by(error)
        })
    }

    fn batch(&mut self) -> Result<RecordBatch, ArrowError> {
        const NULL: &Value = &Value::Null;
        let rows = std::mem::take(&mut self.rows);
        let text = |texts: Option<&mut Vec<Option<String>>>| -> ArrayRef {
            Arc::new(texts.map(std::mem::take).unwrap_or_default().into_iter().collect::<StringArray>())
        };
        let mut columns = Vec::with_capacity(self.projection.sources.len());
        for (source, field) in self.projection.sources.iter().zip(self.projection.schema.fields()) {
            let array = match source {
                Source::Field(index) => {
                    let values: Vec<&Value> = rows.iter().map(|row| row.get(*index).unwrap_or(NULL)).collect();
                    column(&values, field.data_type())?
                }
                Source::CorruptRecord => text(self.corrupt.as_mut()),
                Source::RescuedData => text(self.rescued.as_mut().map(|(texts, _)| texts)),
            };
            columns.push(if array.data_type() == field.data_type() { array } else { cast(&array, field.data_type())? });
        }
        let schema: Arc<Schema> = self.projection.schema.clone();
        RecordBatch::try_new_with_options(schema, columns, &RecordBatchOptions::new().with_row_count(Some(rows.len())))
    }
}
