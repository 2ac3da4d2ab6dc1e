//! The trait through which every sink is written.
//!
//! The engine admits a batch, lets any number of tasks write parts of it, and commits all parts at once. A batch may be attempted again,
//! by this process or a later one; after [`Sink::commit`] succeeded once for a query and batch, no further attempt may change anything.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, Result};

/// What a batch hands to the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputMode {
    /// Rows that will never change.
    Append,
    /// Rows that are new or changed since the last batch.
    Update,
    /// The whole result.
    Complete,
}

impl OutputMode {
    /// Reads the name, whatever its case.
    ///
    /// # Errors
    /// `STREAMING_OUTPUT_MODE.INVALID` for another word.
    pub fn parse(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "append" => Ok(OutputMode::Append),
            "update" => Ok(OutputMode::Update),
            "complete" => Ok(OutputMode::Complete),
            _ => Err(Error::invalid(
                "STREAMING_OUTPUT_MODE.INVALID",
                format!("unknown output mode '{text}': use append, update or complete"),
            )
            .with_sqlstate("42KDE")),
        }
    }
}

impl fmt::Display for OutputMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OutputMode::Append => "append",
            OutputMode::Update => "update",
            OutputMode::Complete => "complete",
        })
    }
}

/// What a reader of the sink may rely on when batches are attempted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// Each batch is visible exactly once.
    ExactlyOnce,
    /// A batch may be visible again, whole or in part.
    AtLeastOnce,
    /// Output lives in this process only.
    None,
}

/// One batch of one query, the same on every attempt.
#[derive(Clone, Debug)]
pub struct BatchInfo {
    /// The id persisted in the checkpoint: the idempotence key together with `batch_id`.
    pub query_id: Uuid,
    /// The batch.
    pub batch_id: u64,
    /// What the rows mean.
    pub mode: OutputMode,
    /// The schema of the rows.
    pub schema: SchemaRef,
    /// Milliseconds since the epoch at which the batch was first planned.
    pub timestamp_ms: i64,
}

/// Whether a batch still has to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Write it.
    Write,
    /// The sink has this batch, or a later one of this query: skip it.
    AlreadyCommitted,
}

/// What a sink writes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The sink cannot tell, or it makes no difference.
    Unknown,
    /// It is not there: never made, or removed.
    Missing,
    /// It is there. One that is removed and made anew has another id.
    Existing {
        /// Tells it from every other, wherever it is moved.
        id: String,
    },
}

/// What one task wrote, handed to [`Sink::commit`]. Staged data must be durable when this exists.
#[derive(Clone, Debug)]
pub struct Part {
    /// Rows written.
    pub rows: u64,
    /// Bytes written, 0 when the sink does not know.
    pub bytes: u64,
    /// What the sink needs to know in order to make the part visible; may cross a network.
    pub staged: Bytes,
}

/// What became visible.
#[derive(Clone, Debug, Default)]
pub struct Committed {
    /// Rows of the batch.
    pub rows: u64,
    /// Bytes of the batch, 0 when the sink does not know.
    pub bytes: u64,
    /// Metrics for progress (`sink.metrics`), values as text.
    pub metrics: BTreeMap<String, String>,
}

/// A sink of a streaming query.
#[async_trait]
pub trait Sink: Debug + Send + Sync {
    /// How progress names it, in Spark's form: `DeltaSink[file:/t]`, `FileSink[file:/out]`, `MemorySink`.
    fn description(&self) -> String;

    /// What readers may rely on.
    fn guarantee(&self) -> Guarantee;

    /// Whether the sink takes this output mode.
    fn supports(&self, mode: OutputMode) -> bool;

    /// Whether a query may go on from a checkpoint with this sink: what it lost with the process can be made anew, or does not matter.
    fn resumes(&self, mode: OutputMode) -> bool {
        let _ = mode;
        true
    }

    /// Whether progress reports the number of rows written (Spark's file sink says -1).
    fn reports_rows(&self) -> bool {
        true
    }

    /// Checks or creates the target for rows of this schema. Called once per run, before the first batch, and again when a batch's schema
    /// differs.
    async fn prepare(&self, schema: &SchemaRef, mode: OutputMode) -> Result<()> {
        let _ = (schema, mode);
        Ok(())
    }

    /// Whether what the sink writes to exists.
    async fn target(&self) -> Result<Target> {
        Ok(Target::Unknown)
    }

    /// Whether the batch has to be written. Asked before anything is computed on recovery, and before every commit.
    async fn admit(&self, batch: &BatchInfo) -> Result<Admission>;

    /// A writer for one task of a batch.
    async fn writer(&self, batch: &BatchInfo, partition: usize) -> Result<Box<dyn PartWriter>>;

    /// Makes all parts visible at once and durably. After an error or an unknown outcome the sink itself finds out what happened, so that
    /// an error means "not committed" or names that it cannot tell.
    async fn commit(&self, batch: &BatchInfo, parts: Vec<Part>) -> Result<Committed>;

    /// Removes what an attempt staged. Best effort.
    async fn abort(&self, batch: &BatchInfo, parts: Vec<Part>) {
        let _ = (batch, parts);
    }

    /// The query is asked to stop while this sink writes or commits: give up what waits for others. Called from another task, at most once a
    /// batch.
    fn interrupt(&self) {}

    /// Releases what the sink holds. Called once, when the query ends.
    async fn stop(&self) {}
}

/// Writes one task's rows of one batch.
#[async_trait]
pub trait PartWriter: Send {
    /// Takes rows.
    async fn write(&mut self, rows: RecordBatch) -> Result<()>;

    /// Makes the rows durable, though not yet visible.
    async fn finish(self: Box<Self>) -> Result<Part>;

    /// Throws the rows away. Best effort.
    async fn abort(self: Box<Self>) {}
}
