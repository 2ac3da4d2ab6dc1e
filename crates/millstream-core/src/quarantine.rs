//! Records that could not be read: what is kept of them, and what the reader does next.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// What a reader does with a malformed record (Spark's option `mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParseMode {
    /// Keep the row with nulls for what could not be read, and its text in the corrupt-record column if there is one.
    #[default]
    Permissive,
    /// Leave the row out.
    DropMalformed,
    /// Fail the query.
    FailFast,
}

impl ParseMode {
    /// Reads the option value.
    ///
    /// Spark treats an unknown word as `PERMISSIVE` with a warning; a typo that silently keeps broken rows helps nobody, so it is refused.
    ///
    /// # Errors
    /// `INVALID_OPTION_VALUE` for an unknown word.
    pub fn parse(text: &str) -> Result<Self> {
        match text.to_ascii_uppercase().as_str() {
            "PERMISSIVE" => Ok(ParseMode::Permissive),
            "DROPMALFORMED" => Ok(ParseMode::DropMalformed),
            "FAILFAST" => Ok(ParseMode::FailFast),
            _ => Err(Error::invalid(
                "INVALID_OPTION_VALUE",
                format!("option 'mode' is '{text}' but takes one of PERMISSIVE, DROPMALFORMED, FAILFAST"),
            )),
        }
    }
}

/// A record that could not be read whole, as it goes to the quarantine table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadRecord {
    /// The raw text, cut to [`BadRecord::MAX_RAW_BYTES`]; bytes that are not UTF-8 are replaced. `None` for a whole file that is unreadable.
    pub raw: Option<String>,
    /// Where it came from: a file's URL, or topic and partition.
    pub origin: String,
    /// The position inside the origin: the byte offset of the record in the *decompressed* file, or a message offset.
    pub position: Option<u64>,
    /// The length of the whole record in bytes, which `raw` may have been cut from.
    pub length: Option<u64>,
    /// A stable word for the reason, such as `MALFORMED_JSON`, `RECORD_TOO_LARGE`, `UNREADABLE_FILE`.
    pub reason: String,
    /// What exactly was wrong, for people.
    pub detail: String,
}

impl BadRecord {
    /// The longest raw text that is kept.
    pub const MAX_RAW_BYTES: usize = 64 * 1024;
}

/// Takes the bad records of one batch. Readers call it from any thread; it must not block for long.
pub trait Quarantine: Send + Sync {
    /// Takes one record.
    fn put(&self, record: BadRecord);
}

/// A quarantine that forgets: for batch reads whose caller does not ask.
#[derive(Debug, Default)]
pub struct Discard;

impl Quarantine for Discard {
    fn put(&self, _record: BadRecord) {}
}

/// The schema of a quarantine table: one row per bad record, plus the query and batch that met it.
pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("query_id", DataType::Utf8, true),
        Field::new("batch_id", DataType::Int64, true),
        Field::new("source", DataType::Utf8, true),
        Field::new("origin", DataType::Utf8, true),
        Field::new("position", DataType::Int64, true),
        Field::new("length", DataType::Int64, true),
        Field::new("reason", DataType::Utf8, true),
        Field::new("detail", DataType::Utf8, true),
        Field::new("raw", DataType::Utf8, true),
    ]))
}

/// Rows of a quarantine table. `records` are pairs of source description and record.
///
/// # Errors
/// `INTERNAL_ERROR` when arrow refuses the columns.
pub fn to_batch(query_id: &str, batch_id: u64, records: &[(String, BadRecord)]) -> Result<RecordBatch> {
    let text =
        |of: &dyn Fn(&(String, BadRecord)) -> Option<String>| -> ArrayRef { Arc::new(records.iter().map(of).collect::<StringArray>()) };
    let number = |of: &dyn Fn(&BadRecord) -> Option<u64>| -> ArrayRef {
        Arc::new(records.iter().map(|(_, record)| of(record).and_then(|n| i64::try_from(n).ok())).collect::<Int64Array>())
    };
    let columns = vec![
        text(&|_| Some(query_id.to_owned())),
        number(&|_| Some(batch_id)),
        text(&|(source, _)| Some(source.clone())),
        text(&|(_, record)| Some(record.origin.clone())),
        number(&|record| record.position),
        number(&|record| record.length),
        text(&|(_, record)| Some(record.reason.clone())),
        text(&|(_, record)| Some(record.detail.clone())),
        text(&|(_, record)| record.raw.clone()),
    ];
    RecordBatch::try_new(schema(), columns).map_err(|error| Error::internal("quarantine rows do not fit their schema").caused_by(error))
}
