//! What leaves an operator whose rows come from a program.

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::min;
use arrow::datatypes::SchemaRef;
use millstream_core::progress::utc_text;
use millstream_core::watermark::Watermarks;
use millstream_core::{Error, Result};

use super::super::logical::event_time_delay;
use super::super::micros;
use super::super::table::instants;
use crate::from_datafusion;

/// Checks the rows of a program.
#[derive(Clone, Debug)]
pub(super) struct Output {
    schema: SchemaRef,
    /// The column of event time.
    event_time: Option<usize>,
    /// Rows at or before this must not leave, milliseconds.
    watermark_ms: i64,
}

impl Output {
    pub(super) fn new(schema: &SchemaRef, time: Watermarks) -> Self {
        let event_time = schema.fields().iter().position(|field| event_time_delay(field).is_some());
        Output { schema: schema.clone(), event_time, watermark_ms: time.evict_ms }
    }

    /// The rows under the output schema.
    ///
    /// # Errors
    /// `STATEFUL_PROCESSOR_RESULT_MISMATCH` for other columns; `EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED`.
    pub(super) fn checked(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let rows = RecordBatch::try_new_with_options(self.schema.clone(), rows.columns().to_vec(), &options).map_err(|error| {
            Error::invalid(
                "STATEFUL_PROCESSOR_RESULT_MISMATCH",
                format!("a processor gave rows that are not those it has declared: {error}"),
            )
        })?;
        if let Some(column) = self.event_time.and_then(|column| rows.columns().get(column)) {
            let times = instants(column).map_err(from_datafusion)?;
            let earliest = if times.is_empty() { None } else { min(&times) };
            if let Some(earliest) = earliest.filter(|earliest| *earliest <= micros(self.watermark_ms)) {
                return Err(Error::invalid(
                    "EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED",
                    format!(
                        "Previous node emitted a row with eventTime={} which is older than current_watermark_value={}: rows must be later than the \
                         watermark ({})",
                        earliest,
                        self.watermark_ms,
                        utc_text(self.watermark_ms)
                    ),
                )
                .with_sqlstate("42815"));
            }
        }
        Ok(rows)
    }
}
