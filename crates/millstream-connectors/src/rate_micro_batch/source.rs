//! The source. Its offset is the number of rows so far and the time of the next batch.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use millstream_core::source::{Source, Split};
use millstream_core::{Error, ErrorKind, Offset, ReadLimit, Result};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::BatchOptions;
use crate::rate::rows::{self, Times};

/// `{"offset":5,"timestamp":1000}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Position {
    /// Rows so far.
    offset: i64,
    /// The time of the next batch's rows, milliseconds since the epoch.
    timestamp: i64,
}

/// Makes a fixed number of rows for each batch.
#[derive(Debug)]
pub struct RateMicroBatchSource {
    options: BatchOptions,
    available_now: Mutex<AvailableNow>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AvailableNow {
    Off,
    /// The next batch is the last.
    Next,
    End(Position),
}

impl RateMicroBatchSource {
    pub(super) fn new(options: BatchOptions) -> Self {
        RateMicroBatchSource { options, available_now: Mutex::new(AvailableNow::Off) }
    }

    fn position(&self, offset: Option<&Offset>) -> Result<Position> {
        offset.map_or(Ok(Position { offset: 0, timestamp: self.options.start_ms }), Offset::read)
    }

    fn after(&self, start: Position) -> Position {
        Position {
            offset: start.offset.saturating_add(self.options.rows_per_batch),
            timestamp: start.timestamp.saturating_add(self.options.advance_ms),
        }
    }
}

#[async_trait]
impl Source for RateMicroBatchSource {
    fn description(&self) -> String {
        let BatchOptions { rows_per_batch, partitions, start_ms, advance_ms } = self.options;
        format!(
            "RatePerMicroBatchStream[rowsPerBatch={rows_per_batch}, numPartitions={partitions}, startTimestamp={start_ms}, \
             advanceMsPerBatch={advance_ms}]"
        )
    }

    fn schema(&self) -> SchemaRef {
        rows::schema()
    }

    fn supports_available_now(&self) -> bool {
        true
    }

    async fn prepare_available_now(&self) -> Result<()> {
        *self.available_now.lock() = AvailableNow::Next;
        Ok(())
    }

    /// There is always one more batch, except after [`Source::prepare_available_now`], which admits one.
    async fn latest_offset(&self, start: Option<&Offset>, _limit: &ReadLimit) -> Result<Option<Offset>> {
        let next = self.after(self.position(start)?);
        let mut available_now = self.available_now.lock();
        let end = match *available_now {
            AvailableNow::Off => next,
            AvailableNow::Next => {
                *available_now = AvailableNow::End(next);
                next
            }
            AvailableNow::End(end) => end,
        };
        Offset::of(&end).map(Some)
    }

    /// # Errors
    /// `MALFORMED_STATE_IN_RATE_PER_MICRO_BATCH_SOURCE.INVALID_OFFSET` and `.INVALID_TIMESTAMP` when the range runs backwards.
    async fn plan(&self, start: Option<&Offset>, end: &Offset) -> Result<Vec<Arc<dyn Split>>> {
        let (start, end) = (self.position(start)?, self.position(Some(end))?);
        if start.offset > end.offset {
            return Err(malformed("INVALID_OFFSET", "offset", start.offset, end.offset));
        }
        if start.timestamp > end.timestamp {
            return Err(malformed("INVALID_TIMESTAMP", "timestamp", start.timestamp, end.timestamp));
        }
        Ok(rows::deal(start.offset..end.offset, Times::At(start.timestamp), self.options.partitions, "rate-micro-batch"))
    }

    async fn changed(&self) {}
}

fn malformed(subclass: &str, what: &str, start: i64, end: i64) -> Error {
    Error::new(
        ErrorKind::CheckpointIncompatible,
        format!("MALFORMED_STATE_IN_RATE_PER_MICRO_BATCH_SOURCE.{subclass}"),
        format!(
            "the batch would begin at {what} {start}, behind its end {end}: restore the checkpoint's offsets, or start a new checkpoint"
        ),
    )
    .with_sqlstate("22000")
}
