//! Records to rows: malformed records by the parse mode, their text into the corrupt-record column or the quarantine, and what does not fit
//! the schema into the rescued-data column.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use millstream_core::quarantine::{BadRecord, ParseMode, Quarantine};
use millstream_core::{Error, ErrorKind, Result};

use super::super::rescue::Rescue;
use super::column::{Column, type_name};
use super::dialect::{Text, Tokens, Unreadable};
use super::plan::{Plan, Projection, Source};

/// How much of a value is shown to people.
const SHOWN: usize = 120;

/// Turns records into batches.
pub(super) struct Decoder {
    plan: Arc<Plan>,
    projection: Projection,
    url: String,
    quarantine: Arc<dyn Quarantine>,
    tokens: Tokens,
    /// How many values of a record are needed at most.
    most: usize,
    empty_is_null: bool,
    /// The columns at the positions of the projection.
    columns: Vec<Column>,
    corrupt_record: Option<Column>,
    rescued_data: Option<(Column, Rescue)>,
    /// The names in the file's header.
    header: Vec<Vec<u8>>,
    rows: usize,
}

/// Why a record is malformed.
struct Malformed {
    reason: &'static str,
    detail: String,
}

impl Decoder {
    /// A decoder for the records of one file.
    pub(super) fn new(plan: Arc<Plan>, projection: Projection, url: String, quarantine: Arc<dyn Quarantine>) -> Self {
        let text_column = |source| projection.sources.contains(&source).then(|| Column::new(&DataType::Utf8));
        Decoder {
            tokens: Tokens::default(),
            most: if projection.judge_length { usize::MAX } else { projection.positions.last().map_or(0, |last| last + 1) },
            empty_is_null: plan.options.values.empty == plan.options.values.null,
            columns: projection.positions.iter().map(|position| Column::new(plan.data_column(*position).1)).collect(),
            corrupt_record: text_column(Source::CorruptRecord),
            rescued_data: text_column(Source::RescuedData).map(|column| (column, Rescue::default())),
            header: Vec::new(),
            rows: 0,
            plan,
            projection,
            url,
            quarantine,
        }
    }

    /// How many rows wait in the decoder.
    #[inline]
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Takes note of the file's header and, unless columns go by position whatever it says, checks it.
    ///
    /// # Errors
    /// `FAILED_READ_FILE.NO_HINT` ([`ErrorKind::SchemaMismatch`]) when it does not fit the schema.
    pub(super) fn header(&mut self, bytes: &[u8]) -> Result<()> {
        let record = String::from_utf8_lossy(bytes);
        let record = record.as_bytes();
        if self.plan.options.dialect.split(record, usize::MAX, &mut self.tokens).is_err() {
            return Err(self.bad_header("it cannot be split into names".to_owned()));
        }
        let name = |index| match self.tokens.text(index, record) {
            Text::Some(name) => name.to_vec(),
            Text::Null | Text::Empty => Vec::new(),
        };
        self.header = (0..self.tokens.len()).map(name).collect();
        if self.plan.options.enforce_schema {
            return Ok(());
        }
        let expected = self.plan.data_columns.len();
        if self.projection.judge_length && self.header.len() != expected {
            return Err(self.bad_header(format!("it has {} columns, the schema {expected}", self.header.len())));
        }
        for position in &self.projection.positions {
            let (wanted, _) = self.plan.data_column(*position);
            let found = String::from_utf8_lossy(self.header.get(*position).map_or(&[][..], Vec::as_slice));
            if found.to_lowercase() != wanted.to_lowercase() {
                return Err(self.bad_header(format!("its column {} is '{found}', but the schema has '{wanted}' there", position + 1)));
            }
        }
        Ok(())
    }

    fn bad_header(&self, why: String) -> Error {
        let message = format!("the header of {} does not fit the schema and the option enforceSchema is false: {why}", self.url);
        Error::new(ErrorKind::SchemaMismatch, "FAILED_READ_FILE.NO_HINT", message).with_sqlstate("KD001")
    }

    /// Adds the row of the record at `position`, which is known to be UTF-8 if `utf8`.
    ///
    /// # Errors
    /// `MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION` in the mode `FAILFAST`, `FAILED_READ_FILE.NO_HINT` for what `maxColumns`,
    /// `maxCharsPerColumn` and `unescapedQuoteHandling` refuse.
    #[inline]
    pub(super) fn record(&mut self, bytes: &[u8], position: u64, utf8: bool) -> Result<()> {
        if self.projection.count_only {
            self.rows += 1;
            return Ok(());
        }
        if utf8 {
            return self.text_record(bytes, position);
        }
        let text = String::from_utf8_lossy(bytes);
        if let Cow::Owned(text) = &text {
            let detail = "the record is not UTF-8: set the option encoding; the bytes were replaced in the row".to_owned();
            self.report(text.as_bytes(), position, Malformed { reason: "INVALID_UTF8", detail });
        }
        self.text_record(text.as_bytes(), position)
    }

    #[inline]
    fn text_record(&mut self, record: &[u8], position: u64) -> Result<()> {
        let options = &self.plan.options;
        if let Err(unreadable) = options.dialect.split(record, self.most, &mut self.tokens) {
            return Err(self.unreadable(position, unreadable));
        }
        let mut misfit = None;
        for (index, (column, at)) in self.columns.iter_mut().zip(&self.projection.positions).enumerate() {
            let text = match self.tokens.text(*at, record) {
                Text::Some(text) if options.values.null.is_empty() || text != options.values.null => text,
                Text::Empty if !self.empty_is_null => options.values.empty.as_slice(),
                _ => {
                    column.push_null();
                    continue;
                }
            };
            if !column.push(text, &options.values) {
                misfit.get_or_insert(index);
                if let Some((_, rescue)) = &mut self.rescued_data {
                    rescue.text(self.plan.data_column(*at).0.as_bytes(), text);
                }
            }
        }
        self.rows += 1;
        let (found, expected) = (self.tokens.len(), self.plan.data_columns.len());
        let mut wrong_length = self.projection.judge_length && found != expected;
        if self.rescued_data.is_some() {
            self.rescue_surplus(record);
            wrong_length &= found < expected;
        }
        if !wrong_length && misfit.is_none() {
            if let Some(column) = &mut self.corrupt_record {
                column.push_null();
            }
            return Ok(());
        }
        let malformed = if wrong_length {
            Malformed { reason: "MALFORMED_CSV", detail: format!("the record has {found} values, the schema {expected} columns") }
        } else {
            let at = misfit.and_then(|index| self.projection.positions.get(index)).copied().unwrap_or(0);
            let (name, kind) = self.plan.data_column(at);
            let value = if let Text::Some(text) = self.tokens.text(at, record) { String::from_utf8_lossy(text) } else { Cow::Borrowed("") };
            let detail = format!("'{}' in column '{name}' is no {}", clipped(&value, SHOWN), type_name(kind));
            Malformed { reason: "TYPE_MISMATCH", detail }
        };
        self.malformed(record, position, malformed, wrong_length)
    }

    /// Rescues the values behind the last column and ends the row's rescued data.
    fn rescue_surplus(&mut self, record: &[u8]) {
        let Some((column, rescue)) = &mut self.rescued_data else { return };
        for at in self.plan.data_columns.len()..self.tokens.len() {
            let text = match self.tokens.text(at, record) {
                Text::Some(text) => text,
                Text::Null | Text::Empty => b"",
            };
            match self.header.get(at).filter(|name| !name.is_empty()) {
                Some(name) => rescue.text(name, text),
                None => rescue.text(format!("_c{at}").as_bytes(), text),
            }
        }
        rescue.finish(&self.url, |json| match json {
            Some(json) => drop(column.push(json, &self.plan.options.values)),
            None => column.push_null(),
        });
    }

    /// The record's row has been added, but it is malformed: by its values only unless `whole`.
    #[cold]
    fn malformed(&mut self, record: &[u8], position: u64, malformed: Malformed, whole: bool) -> Result<()> {
        if self.plan.rescues() && !whole {
            // What does not fit is rescued, which leaves nothing malformed; unless nobody reads the rescued data.
            if let Some(column) = &mut self.corrupt_record {
                column.push_null();
            }
            if self.rescued_data.is_none() {
                self.report(record, position, malformed);
            }
            return Ok(());
        }
        match self.plan.options.mode {
            ParseMode::Permissive => {
                match &mut self.corrupt_record {
                    Some(column) => drop(column.push(record, &self.plan.options.values)),
                    None => self.report(record, position, malformed),
                }
                Ok(())
            }
            ParseMode::DropMalformed => {
                self.take_back();
                self.report(record, position, malformed);
                Ok(())
            }
            ParseMode::FailFast => {
                self.take_back();
                Err(self.fail(position, &malformed))
            }
        }
    }

    /// Takes back the last row, which has no text in the corrupt-record column yet.
    fn take_back(&mut self) {
        self.rows -= 1;
        for column in &mut self.columns {
            column.truncate(self.rows);
        }
        if let Some((column, _)) = &mut self.rescued_data {
            column.truncate(self.rows);
        }
    }

    /// The error for a record that cannot be split into values, which ends the reading in every mode, as in Spark.
    #[cold]
    fn unreadable(&self, position: u64, unreadable: Unreadable) -> Error {
        let dialect = &self.plan.options.dialect;
        let what = match unreadable {
            Unreadable::TooManyColumns => format!("has more values than the option maxColumns allows ({})", dialect.max_columns),
            Unreadable::ValueTooLong => {
                format!("has a value of more bytes than the option maxCharsPerColumn allows ({})", dialect.max_bytes.unwrap_or(usize::MAX))
            }
            Unreadable::UnescapedQuote => "has an unescaped quote and the option unescapedQuoteHandling is RAISE_ERROR".to_owned(),
        };
        let message = format!("the record at byte {position} of {} {what}", self.url);
        Error::new(ErrorKind::BadRecord, "FAILED_READ_FILE.NO_HINT", message).with_sqlstate("KD001")
    }

    fn report(&self, record: &[u8], position: u64, malformed: Malformed) {
        self.quarantine.put(BadRecord {
            raw: Some(clipped(&String::from_utf8_lossy(record), BadRecord::MAX_RAW_BYTES).to_owned()),
            origin: self.url.clone(),
            position: Some(position),
            length: Some(record.len() as u64),
            reason: malformed.reason.to_owned(),
            detail: malformed.detail,
        });
    }

    /// A record that is longer than allowed was skipped.
    ///
    /// # Errors
    /// `MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION` in the mode `FAILFAST`.
    pub(super) fn too_large(&self, position: u64, length: u64) -> Result<()> {
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
            "the record at byte {position} of {} is malformed ({}: {}) and the option mode is FAILFAST: PERMISSIVE keeps it with nulls",
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
        let positions = self.columns.iter_mut().zip(&self.projection.positions);
        let values =
            positions.map(|(column, position)| column.finish(self.plan.data_column(*position).1)).collect::<Result<Vec<_>, _>>()?;
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.projection.sources.len());
        for (source, field) in self.projection.sources.iter().zip(self.projection.schema.fields()) {
            arrays.push(match source {
                Source::Value(index) => {
                    let missing = || ArrowError::SchemaError(format!("column '{}' was not read", field.name()));
                    values.get(*index).ok_or_else(missing)?.clone()
                }
                Source::CorruptRecord => finish_text(self.corrupt_record.as_mut(), field.data_type())?,
                Source::RescuedData => finish_text(self.rescued_data.as_mut().map(|(column, _)| column), field.data_type())?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.rows)));
        RecordBatch::try_new_with_options(self.projection.schema.clone(), arrays, &options)
    }
}

fn finish_text(column: Option<&mut Column>, to: &DataType) -> Result<ArrayRef, ArrowError> {
    column.ok_or_else(|| ArrowError::SchemaError("a column of text was not kept".to_owned()))?.finish(to)
}

fn clipped(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}
