//! What a restarted query does, decided from what its logs contain.
//!
//! The rules are Spark's (`MicroBatchExecution.populateStartOffsets`), with two differences in favour of the operator: a newest record
//! that is torn counts as not written, and a hole in the log is named.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::offset::Offset;

/// What `offsets/N` records: everything about batch N that is not a function of earlier batches.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetRecord {
    /// The watermark that the batch uses, milliseconds since the epoch.
    pub watermark_ms: i64,
    /// The batch's `current_timestamp`, milliseconds since the epoch.
    pub timestamp_ms: i64,
    /// Options pinned for the life of the checkpoint, under Spark's names.
    pub conf: BTreeMap<String, String>,
    /// The end offset per source, in plan order; `None` for a source that has never had data.
    pub offsets: Vec<Option<Offset>>,
    /// Our own facts (epoch, plan fingerprint …), which Spark ignores.
    pub extra: BTreeMap<String, Value>,
}

/// What `commits/N` records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CommitRecord {
    /// The watermark that the next batch uses, milliseconds since the epoch.
    #[serde(rename = "nextBatchWatermarkMs", default)]
    pub next_watermark_ms: i64,
    /// Our own facts (epoch, state files, watermarks per operator …), which Spark ignores.
    #[serde(flatten)]
    pub extra: BTreeMap<String, Value>,
}

/// The newest records of a checkpoint's logs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogTail {
    /// The newest offsets record, if any.
    pub latest_offsets: Option<(u64, OffsetRecord)>,
    /// The offsets record before it, if it is there.
    pub previous_offsets: Option<(u64, OffsetRecord)>,
    /// The newest commit record, if any.
    pub latest_commit: Option<(u64, CommitRecord)>,
}

/// Where a query goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum Resume {
    /// Nothing was ever planned: batch 0 is new.
    Fresh,
    /// Batch `batch_id` was planned and not committed: run it exactly as recorded.
    Rerun {
        /// The batch.
        batch_id: u64,
        /// Its record.
        record: OffsetRecord,
        /// Where its input starts, per source.
        start: Vec<Option<Offset>>,
        /// The watermark used by the batch before, which its late filter uses.
        late_watermark_ms: i64,
    },
    /// Everything planned was committed: batch `batch_id` is new.
    Next {
        /// The batch.
        batch_id: u64,
        /// Where its input starts, per source.
        start: Vec<Option<Offset>>,
        /// The watermark it uses.
        watermark_ms: i64,
        /// The watermark used by the batch before, which its late filter uses.
        late_watermark_ms: i64,
        /// The record of the batch before, whose pinned options go on.
        previous: OffsetRecord,
    },
}

/// Decides where a query goes on.
///
/// # Errors
/// `CHECKPOINT_LOG_HOLE` when the batch before the newest planned one is missing, or a commit is newer than every plan.
pub fn resume(tail: &LogTail) -> Result<Resume> {
    let Some((latest, record)) = &tail.latest_offsets else {
        return match &tail.latest_commit {
            None => Ok(Resume::Fresh),
            Some((commit, _)) => Err(hole(format!("commits/{commit} exists but the offsets log is empty"))),
        };
    };
    let previous = match latest.checked_sub(1) {
        None => None,
        Some(before) => match &tail.previous_offsets {
            Some((id, previous)) if *id == before => Some(previous),
            _ => return Err(hole(format!("offsets/{latest} exists but offsets/{before} doesn't"))),
        },
    };
    let late_watermark_ms = previous.map_or(0, |previous| previous.watermark_ms);
    match &tail.latest_commit {
        Some((commit, _)) if commit > latest => Err(hole(format!("commits/{commit} exists but offsets/{commit} doesn't"))),
        Some((commit, committed)) if commit == latest => Ok(Resume::Next {
            batch_id: latest + 1,
            start: record.offsets.clone(),
            watermark_ms: record.watermark_ms.max(committed.next_watermark_ms),
            late_watermark_ms: record.watermark_ms,
            previous: record.clone(),
        }),
        _ => Ok(Resume::Rerun {
            batch_id: *latest,
            record: record.clone(),
            start: previous.map_or_else(|| vec![None; record.offsets.len()], |previous| previous.offsets.clone()),
            late_watermark_ms,
        }),
    }
}

/// Checks that a checkpoint's sources are the program's.
///
/// # Errors
/// `CHECKPOINT_SOURCES_CHANGED` when their number differs (Spark: an assertion without a condition).
pub fn check_sources(record: &OffsetRecord, sources: usize) -> Result<()> {
    if record.offsets.len() == sources {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::CheckpointIncompatible,
        "CHECKPOINT_SOURCES_CHANGED",
        format!(
            "There are [{}] sources in the checkpoint offsets and now there are [{sources}] sources requested by the query. Cannot continue. \
             Restore the sources, or start a new checkpoint.",
            record.offsets.len()
        ),
    ))
}

fn hole(what: String) -> Error {
    Error::new(
        ErrorKind::CheckpointIncompatible,
        "CHECKPOINT_LOG_HOLE",
        format!("{what}: the checkpoint was edited or damaged. Restore the missing file from a backup, or start a new checkpoint."),
    )
}

#[cfg(test)]
mod tests;
