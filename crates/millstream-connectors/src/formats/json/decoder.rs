//! Records to rows: malformed records by the parse mode, their text into the corrupt-record column or the quarantine, and what does not fit
//! the schema into the rescued-data column.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use millstream_core::json::{Cursor, Fault, append_compact, unescape};
use millstream_core::quarantine::{BadRecord, ParseMode, Quarantine};
use millstream_core::{Error, ErrorKind, Result, raw_text};

use super::super::plan::{Projection, Source};
use super::super::rescue::Rescue;
use super::Plan;
use super::column::Column;
use super::convert::{Conversion, Outcome};
use super::object::Members;

/// How much of a value is shown to people.
const SHOWN: usize = 120;

/// Turns records into batches.
pub struct Decoder {
    plan: Arc<Plan>,
    projection: Projection,
    url: String,
    quarantine: Arc<dyn Quarantine>,
    fields: Members,
    conversion: Conversion,
    corrupt_record: Option<Column>,
    rescued_data: Option<(Column, Rescue)>,
    rows: usize,
}

/// Why a record is malformed.
struct Malformed {
    reason: &'static str,
    detail: String,
}

impl Decoder {
    /// A decoder for the records of one file. `verbatim` says that values in string columns keep their spelling.
    pub fn new(plan: Arc<Plan>, projection: Projection, url: String, quarantine: Arc<dyn Quarantine>, verbatim: bool) -> Self {
        let fields = projection.fields.iter().filter_map(|column| plan.schema.fields().get(*column));
        let fields = Members::new(fields.map(|field| (field.name(), field.data_type())));
        let text_column = |source| projection.sources.contains(&source).then(|| Column::new(&DataType::Utf8));
        Decoder {
            fields,
            conversion: Conversion { plan: plan.clone(), verbatim, problem: None, stray: false, scratch: Vec::new() },
            corrupt_record: text_column(Source::CorruptRecord),
            rescued_data: text_column(Source::RescuedData).map(|column| (column, Rescue::default())),
            rows: 0,
            plan,
            projection,
            url,
            quarantine,
        }
    }

    /// How many rows wait in the decoder.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds the rows of the record at `position`, which is known to be UTF-8 if `utf8`.
    ///
    /// # Errors
    /// `MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION` in the mode `FAILFAST`.
    #[inline]
    pub fn record(&mut self, bytes: &[u8], position: u64, utf8: bool) -> Result<()> {
        let before = self.rows;
        self.conversion.problem = None;
        let read = if utf8 || simdutf8::basic::from_utf8(bytes).is_ok() { self.rows_of(bytes) } else { Err(not_utf8(bytes)) };
        match read {
            Ok(()) if self.conversion.problem.is_none() => {
                if let Some(column) = &mut self.corrupt_record {
                    (before..self.rows).for_each(|_| column.push_null());
                }
                Ok(())
            }
            Ok(()) => self.misfit(bytes, position, before),
            Err(malformed) => self.malformed(bytes, position, before, malformed),
        }
    }

    /// Adds the rows of a record: one of an object, and one of each element of an array.
    fn rows_of(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let syntax = self.plan.options.syntax;
        let mut cursor = Cursor::new(bytes, &syntax);
        match cursor.next_token()? {
            None => Ok(()),
            Some(_) if self.plan.options.single_variant.is_some() => self.variant(&mut cursor),
            Some(b'{') => self.row(&mut cursor),
            Some(b'[') => {
                cursor.enter()?;
                let mut first = true;
                while cursor.next_element(first)? {
                    first = false;
                    if cursor.token()? != b'{' {
                        cursor.skip()?;
                        return Err(Malformed::json("an element of the record is no object"));
                    }
                    self.row(&mut cursor)?;
                }
                Ok(())
            }
            Some(_) => {
                cursor.skip()?;
                Err(Malformed::json("the record is no object"))
            }
        }
    }

    /// Adds a row that is the value at the cursor, whatever it is.
    fn variant(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Malformed> {
        match self.fields.columns.is_empty() {
            true => cursor.skip()?,
            false => drop(self.fields.read(0, self.rows, cursor, &mut self.conversion)?),
        }
        self.rows += 1;
        Ok(())
    }

    /// Adds the row of the object at the cursor.
    #[inline]
    fn row(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Malformed> {
        cursor.enter()?;
        let (mut place, mut first) = (0, true);
        while cursor.next_member(first)? {
            first = false;
            let name = self.fields.name(place, cursor)?;
            place += 1;
            if self.rescued_data.is_some() {
                self.conversion.stray = false;
                cursor.token()?;
                let start = cursor.clone();
                let fits = match name.index {
                    Some(index) => {
                        self.fields.read(index, self.rows, cursor, &mut self.conversion)? == Outcome::Good && !self.conversion.stray
                    }
                    None => {
                        cursor.skip()?;
                        false
                    }
                };
                if !fits {
                    self.rescue(name.raw, start)?;
                }
            } else {
                match name.index {
                    Some(index) => drop(self.fields.read(index, self.rows, cursor, &mut self.conversion)?),
                    None => cursor.skip()?,
                }
            }
        }
        self.fields.complete(self.rows);
        self.rows += 1;
        if let Some((column, rescue)) = &mut self.rescued_data {
            rescue.finish(&self.url, |json| match json {
                Some(json) => column.push_text(json),
                None => column.push_null(),
            });
        }
        Ok(())
    }

    /// Keeps a field, with its name as written and a cursor at its value, for the rescued-data column.
    fn rescue(&mut self, name: &[u8], mut value: Cursor<'_>) -> Result<(), Malformed> {
        let Some((_, rescue)) = &mut self.rescued_data else { return Ok(()) };
        let (mut plain_name, mut json) = (Vec::new(), Vec::new());
        match name.first() {
            Some(b'"' | b'\'') => unescape(Cursor::new(name, value.syntax()).name()?, &mut plain_name),
            _ => plain_name.extend_from_slice(name),
        }
        match value.token()? {
            mark @ (b'"' | b'\'') => {
                unescape(value.string(mark)?, &mut json);
                rescue.text(&plain_name, &json);
            }
            first => {
                append_compact(&mut value, &mut json, &mut self.conversion.scratch)?;
                if matches!(first, b'{' | b'[') { rescue.text(&plain_name, &json) } else { rescue.json(&plain_name, &json) }
            }
        }
        Ok(())
    }

    /// The record was read, but values of it do not fit their columns and are null.
    fn misfit(&mut self, bytes: &[u8], position: u64, before: usize) -> Result<()> {
        let (start, end, kind) = self.conversion.problem.unwrap_or((0, 0, ""));
        let value = String::from_utf8_lossy(bytes.get(start..end).unwrap_or_default());
        let malformed =
            Malformed { reason: "TYPE_MISMATCH", detail: format!("{} at byte {start} of the record is no {kind}", shown(&value)) };
        if self.plan.rescued_data.is_some() {
            // What does not fit is rescued, which leaves nothing malformed; unless nobody reads the rescued data.
            if let Some(column) = &mut self.corrupt_record {
                (before..self.rows).for_each(|_| column.push_null());
            }
            if self.rescued_data.is_none() {
                self.report(bytes, position, malformed);
            }
            return Ok(());
        }
        match self.plan.options.mode {
            ParseMode::Permissive => {
                let rows = self.rows - before;
                self.keep_text(bytes, position, rows, malformed);
                Ok(())
            }
            ParseMode::DropMalformed => {
                self.take_back(before);
                self.report(bytes, position, malformed);
                Ok(())
            }
            ParseMode::FailFast => Err(self.fail(position, &malformed)),
        }
    }

    /// The record cannot be read.
    fn malformed(&mut self, bytes: &[u8], position: u64, before: usize, malformed: Malformed) -> Result<()> {
        self.take_back(before);
        match self.plan.options.mode {
            ParseMode::Permissive => {
                self.fields.complete(self.rows);
                self.rows += 1;
                // Without a column of its own the text goes where everything goes that does not fit.
                let rescues_text = self.plan.corrupt_record.is_none();
                let mut rescued = false;
                if let Some((column, rescue)) = &mut self.rescued_data {
                    if rescues_text {
                        rescue.text(self.plan.options.corrupt_record.as_bytes(), String::from_utf8_lossy(bytes).as_bytes());
                        rescued = true;
                    }
                    rescue.finish(&self.url, |json| match json {
                        Some(json) => column.push_text(json),
                        None => column.push_null(),
                    });
                }
                if !rescued {
                    self.keep_text(bytes, position, 1, malformed);
                }
                Ok(())
            }
            ParseMode::DropMalformed => {
                self.report(bytes, position, malformed);
                Ok(())
            }
            ParseMode::FailFast => Err(self.fail(position, &malformed)),
        }
    }

    /// Puts the record's text into the corrupt-record column of its last `rows` rows or, where nobody reads that, into the quarantine.
    fn keep_text(&mut self, bytes: &[u8], position: u64, rows: usize, malformed: Malformed) {
        match &mut self.corrupt_record {
            Some(column) => {
                let text = raw_text::from_bytes(bytes);
                (0..rows).for_each(|_| column.push_text(text.as_bytes()));
            }
            None => self.report(bytes, position, malformed),
        }
    }

    /// Takes back all rows behind the first `rows`.
    fn take_back(&mut self, rows: usize) {
        self.fields.truncate(rows);
        if let Some((column, rescue)) = &mut self.rescued_data {
            column.truncate(rows);
            rescue.clear();
        }
        self.rows = rows;
    }

    fn report(&self, bytes: &[u8], position: u64, malformed: Malformed) {
        self.quarantine.put(BadRecord {
            raw: Some(clipped(&String::from_utf8_lossy(bytes), BadRecord::MAX_RAW_BYTES).to_owned()),
            origin: self.url.clone(),
            position: Some(position),
            length: Some(bytes.len() as u64),
            reason: malformed.reason.to_owned(),
            detail: malformed.detail,
        });
    }

    /// A record that is longer than allowed was skipped.
    ///
    /// # Errors
    /// `MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION` in the mode `FAILFAST`.
    pub fn too_large(&self, position: u64, length: u64) -> Result<()> {
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
        Error::new(
            ErrorKind::BadRecord,
            "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION",
            format!(
                "the record at byte {position} of {} is malformed ({}: {}) and the mode is FAILFAST: PERMISSIVE keeps it as nulls",
                self.url, malformed.reason, malformed.detail
            ),
        )
        .with_sqlstate("22023")
    }

    /// The rows as a batch; the decoder is empty afterwards.
    ///
    /// # Errors
    /// `NOT_NULL_CONSTRAINT_VIOLATION` ([`ErrorKind::SchemaMismatch`]) when a field that must not be null is null.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        self.batch().map_err(|error| {
            let message = format!("the rows of {} do not fit their schema: declare fields that may be missing as nullable", self.url);
            Error::new(ErrorKind::SchemaMismatch, "NOT_NULL_CONSTRAINT_VIOLATION", message).with_sqlstate("42000").caused_by(error)
        })
    }

    fn batch(&mut self) -> Result<RecordBatch, ArrowError> {
        let columns = self.fields.columns.iter_mut().zip(&self.projection.fields);
        let fields = columns.map(|(column, index)| column.finish(self.plan.data_type(*index))).collect::<Result<Vec<ArrayRef>, _>>()?;
        let corrupt_record = self.corrupt_record.as_mut().map(|column| column.finish(&DataType::Utf8)).transpose()?;
        let rescued_data = self.rescued_data.as_mut().map(|(column, _)| column.finish(&DataType::Utf8)).transpose()?;
        let mut arrays = Vec::with_capacity(self.projection.sources.len());
        for (source, field) in self.projection.sources.iter().zip(self.projection.schema.fields()) {
            let array = match source {
                Source::Field(index) => fields.get(*index),
                Source::CorruptRecord => corrupt_record.as_ref(),
                Source::RescuedData => rescued_data.as_ref(),
            };
            let array = array.ok_or_else(|| ArrowError::SchemaError(format!("column '{}' was not read", field.name())))?;
            arrays.push(if array.data_type() == field.data_type() { array.clone() } else { cast(array, field.data_type())? });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.rows)));
        RecordBatch::try_new_with_options(self.projection.schema.clone(), arrays, &options)
    }
}

impl Malformed {
    fn json(detail: impl Into<String>) -> Self {
        Malformed { reason: "MALFORMED_JSON", detail: detail.into() }
    }
}

impl From<Fault> for Malformed {
    #[cold]
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Syntax { at, what } => Malformed::json(format!("{what} at byte {at} of the record")),
            Fault::TooDeep => {
                Malformed { reason: "TOO_DEEP", detail: "the record is nested deeper than the option maxNestingDepth allows".to_owned() }
            }
        }
    }
}

#[cold]
fn not_utf8(bytes: &[u8]) -> Malformed {
    let at = simdutf8::compat::from_utf8(bytes).err().map_or(0, |error| error.valid_up_to());
    Malformed { reason: "INVALID_UTF8", detail: format!("byte {at} of the record is not UTF-8: set the option encoding") }
}

fn shown(text: &str) -> Cow<'_, str> {
    let start = clipped(text, SHOWN);
    if start.len() == text.len() { text.into() } else { format!("{start}…").into() }
}

fn clipped(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}
