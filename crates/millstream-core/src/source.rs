//! The trait through which every source is read.
//!
//! A source turns an outside system into positions ([`Offset`]) and, for any range of positions, the same rows every time. The engine asks
//! for the newest position under a limit, writes it down, and only then plans and reads the range. Nothing else may decide what a batch
//! contains.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::stream::BoxStream;

use crate::error::Result;
use crate::limit::ReadLimit;
use crate::offset::Offset;
use crate::quarantine::Quarantine;

/// A stream of record batches read from one split.
pub type BatchStream = BoxStream<'static, Result<RecordBatch>>;

/// A source of a streaming query. Bound to one query and its checkpoint.
#[async_trait]
pub trait Source: Debug + Send + Sync {
    /// How progress names it, in Spark's form: `FileStreamSource[file:/data/in]`, `RateStreamV2[rowsPerSecond=1, …]`.
    fn description(&self) -> String;

    /// The schema of the rows, fixed for the life of the query.
    fn schema(&self) -> SchemaRef;

    /// The read limit that the source's own options ask for.
    fn read_limit(&self) -> ReadLimit {
        ReadLimit::AllAvailable
    }

    /// The columns whose conditions the source decides: rows that such a condition leaves out do not count as read.
    fn filters(&self) -> FilterColumns {
        FilterColumns::default()
    }

    /// Whether [`Source::prepare_available_now`] works. If one source of a query lacks it, the whole query runs one single batch.
    fn supports_available_now(&self) -> bool {
        false
    }

    /// Fixes the end of the input: from now on [`Source::latest_offset`] never goes beyond what is there at this moment.
    async fn prepare_available_now(&self) -> Result<()> {
        Ok(())
    }

    /// Tells a restarted query's source where the checkpoint stands: `committed` is the end of the last planned batch.
    async fn restore(&self, committed: Option<&Offset>) -> Result<()> {
        let _ = committed;
        Ok(())
    }

    /// The newest position not beyond `limit` after `start`; `start` itself (or `None`) when there is nothing new.
    ///
    /// Whatever the source needs in order to plan the range again must be durable when this returns (the file source's own log).
    async fn latest_offset(&self, start: Option<&Offset>, limit: &ReadLimit) -> Result<Option<Offset>>;

    /// The newest position there is, whatever the limit, for progress reports only. `None` where the source does not say.
    fn reported_latest(&self) -> Option<Offset> {
        None
    }

    /// The work of the range `(start, end]`. The same range gives the same rows, in every process, for ever; a range that cannot be read
    /// again fails with [`ErrorKind::DataLost`](crate::ErrorKind::DataLost).
    async fn plan(&self, start: Option<&Offset>, end: &Offset) -> Result<Vec<Arc<dyn Split>>>;

    /// The batch that ended at `end` is committed: side effects on the outside (clean-up, group commits) may follow now and not before.
    async fn commit(&self, end: &Offset) -> Result<()> {
        let _ = end;
        Ok(())
    }

    /// Completes when [`Source::latest_offset`] may have something new. False alarms are allowed, missed data is not; a source that cannot
    /// know completes after a reasonable pause. Dropping the future must be safe.
    async fn changed(&self);

    /// Metrics for progress (`sources[].metrics`), values as text.
    fn metrics(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Releases what the source holds. Called once, when the query ends.
    async fn stop(&self) {}
}

/// Columns of a source's schema, by their places, whose conditions are decided before a row counts as read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterColumns {
    /// Columns with one value for all rows of a file, such as partition columns: every condition on them alone is decided.
    pub constant: BTreeSet<usize>,
    /// Columns that are compared with constants while rows are parsed.
    pub compared: BTreeSet<usize>,
}

/// What a split needs to know in order to read.
#[derive(Clone)]
pub struct ReadContext {
    /// Columns of the source's schema to produce, in this order.
    pub projection: Vec<usize>,
    /// About how many rows a record batch should have.
    pub batch_size: usize,
    /// Where malformed records go.
    pub quarantine: Arc<dyn Quarantine>,
}

/// A part of a range that one task reads from beginning to end.
pub trait Split: Debug + Send + Sync {
    /// What it reads, for messages and statistics per source partition: a file's URL, `topic-3`.
    fn label(&self) -> &str;

    /// About how many bytes it is, for balancing. 0 when unknown.
    fn size_bytes(&self) -> u64 {
        0
    }

    /// Opens it. Every batch produced has exactly the projected fields of the source's schema. Reading blocks at most for short pieces of
    /// CPU work; waiting is asynchronous.
    fn read(&self, context: ReadContext) -> BatchStream;
}

/// A table that is read whole, at its present state: the static side of a join, the input of a materialized view.
#[async_trait]
pub trait Table: Debug + Send + Sync {
    /// The schema of the rows.
    fn schema(&self) -> SchemaRef;

    /// The work of reading the table as it is now.
    async fn scan(&self) -> Result<Vec<Arc<dyn Split>>>;
}
