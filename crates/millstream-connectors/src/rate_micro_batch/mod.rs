//! The source `rate-micro-batch`: so many rows per batch, with times that are a function of the batch and of nothing else.

mod source;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use millstream_core::options::OptionKind;
use millstream_core::registry::{ReadRequest, SourceContext, SourceProvider};
use millstream_core::source::{Source, Table};
use millstream_core::{Error, OptionSpec, Options, Result};

pub use source::RateMicroBatchSource;

use crate::rate::{count, illegal_argument, no_batch_side, no_user_schema, rows};

/// Makes [`RateMicroBatchSource`]s.
#[derive(Debug)]
pub struct RateMicroBatchProvider {
    parallelism: usize,
}

impl RateMicroBatchProvider {
    /// Sources that have a partition per core of this machine unless the option `numPartitions` says otherwise.
    pub fn new() -> Self {
        Self::with_partitions(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// Sources that have `partitions` partitions unless the option `numPartitions` says otherwise.
    pub fn with_partitions(partitions: usize) -> Self {
        RateMicroBatchProvider { parallelism: partitions.max(1) }
    }
}

impl Default for RateMicroBatchProvider {
    fn default() -> Self {
        Self::new()
    }
}

/// What a source was asked for.
#[derive(Clone, Copy, Debug)]
struct BatchOptions {
    rows_per_batch: i64,
    partitions: usize,
    start_ms: i64,
    advance_ms: i64,
}

impl BatchOptions {
    fn from(options: &Options, parallelism: usize) -> Result<Self> {
        let rows_per_batch = count(options, "rowsPerBatch", 1)?
            .ok_or_else(|| illegal_argument("option 'rowsPerBatch' is missing: say how many rows a batch has"))?;
        let partitions = count(options, "numPartitions", 1)?.and_then(|partitions| usize::try_from(partitions).ok());
        Ok(BatchOptions {
            rows_per_batch,
            partitions: partitions.unwrap_or(parallelism),
            start_ms: count(options, "startTimestamp", 0)?.unwrap_or(0),
            advance_ms: count(options, "advanceMillisPerBatch", 0)?.unwrap_or(1000),
        })
    }
}

#[async_trait]
impl SourceProvider for RateMicroBatchProvider {
    fn names(&self) -> &'static [&'static str] {
        &["rate-micro-batch"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        vec![
            OptionSpec { name: "rowsPerBatch", kind: OptionKind::Integer { min: 1 }, default: None, doc: "How many rows each batch has." },
            OptionSpec {
                name: "numPartitions",
                kind: OptionKind::Integer { min: 1 },
                default: None,
                doc: "How many partitions the rows are dealt to; by default as many as there are cores.",
            },
            OptionSpec {
                name: "startTimestamp",
                kind: OptionKind::Integer { min: 0 },
                default: Some("0"),
                doc: "The time of the first batch's rows, milliseconds since the epoch.",
            },
            OptionSpec {
                name: "advanceMillisPerBatch",
                kind: OptionKind::Integer { min: 0 },
                default: Some("1000"),
                doc: "Milliseconds from the time of one batch to the next.",
            },
        ]
    }

    async fn schema(&self, request: &ReadRequest, _streaming: bool) -> Result<SchemaRef> {
        if request.schema.as_ref().is_some_and(|schema| *schema != rows::schema()) {
            return Err(no_user_schema("rate-micro-batch"));
        }
        BatchOptions::from(&request.options, self.parallelism)?;
        Ok(rows::schema())
    }

    async fn source(&self, request: &ReadRequest, _context: SourceContext) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(RateMicroBatchSource::new(BatchOptions::from(&request.options, self.parallelism)?)))
    }

    async fn table(&self, _request: &ReadRequest) -> Result<Arc<dyn Table>> {
        Err::<Arc<dyn Table>, Error>(no_batch_side("rate-micro-batch"))
    }
}
