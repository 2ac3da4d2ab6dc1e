//! A query reduced to what the checkpoint sees of it, whose every run plans differently.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_core::recovery::{CommitRecord, OffsetRecord, Resume, resume};
use millstream_core::{Offset, Result};
use object_store::ObjectStore;
use parking_lot::Mutex;
use serde::Deserialize;

use super::setup::{entries, logged, open_with, plan};
use crate::CheckpointOptions;

/// A range of input: after the first, up to and including the second, counted from 1.
type Range = (u64, u64);

/// An idempotent sink, and what was seen of it.
#[derive(Debug, Default)]
pub(super) struct Sink {
    /// What it holds per batch.
    pub holds: Mutex<BTreeMap<u64, Range>>,
    /// Everything that was ever sent to it.
    sent: Mutex<BTreeMap<u64, BTreeSet<Range>>>,
    /// The end of each batch whose commit was reported as durable.
    accepted: Mutex<BTreeMap<u64, BTreeSet<u64>>>,
}

impl Sink {
    fn send(&self, batch: u64, range: Range) {
        self.sent.lock().entry(batch).or_default().insert(range);
        let mut holds = self.holds.lock();
        if holds.last_key_value().is_none_or(|(last, _)| *last < batch) {
            holds.insert(batch, range);
        }
    }

    /// What must hold at every moment.
    pub fn check(&self) -> Result<(), String> {
        let mut end = 0;
        for (index, (batch, range)) in self.holds.lock().iter().enumerate() {
            if *batch != index as u64 || range.0 != end {
                return Err(format!("the sink has a gap or an overlap at batch {batch}: {range:?} after {end}"));
            }
            end = range.1;
        }
        for (batch, ranges) in self.sent.lock().iter() {
            if ranges.len() > 1 {
                return Err(format!("batch {batch} ran with different inputs: {ranges:?}"));
            }
        }
        for (batch, ends) in self.accepted.lock().iter() {
            let held = self.holds.lock().get(batch).map(|range| range.1);
            if ends.len() > 1 || ends.first().copied() != held {
                return Err(format!("batch {batch} is committed with {ends:?}, the sink has {held:?}"));
            }
        }
        Ok(())
    }

    pub fn batches(&self) -> u64 {
        self.holds.lock().len() as u64
    }
}

fn position(offset: Option<&Option<Offset>>) -> Result<u64> {
    #[derive(Deserialize)]
    struct Position {
        #[serde(rename = "logOffset")]
        log_offset: u64,
    }
    match offset {
        Some(Some(offset)) => Ok(offset.read::<Position>()?.log_offset + 1),
        _ => Ok(0),
    }
}

/// Runs the query from wherever it stands until `until` batches are committed.
pub(super) async fn run(store: &Arc<dyn ObjectStore>, options: CheckpointOptions, sink: &Sink, until: u64) -> Result<()> {
    let checkpoint = open_with(store, options).await?;
    let log = checkpoint.source_log("0");
    let (mut batch, mut start, mut planned) = match resume(&checkpoint.tail().await?)? {
        Resume::Fresh => (0, 0, None),
        Resume::Rerun { batch_id, record, start, .. } => (batch_id, position(start.first())?, Some(record)),
        Resume::Next { batch_id, start, .. } => (batch_id, position(start.first())?, None),
    };
    while batch < until {
        let record: OffsetRecord = match planned.take() {
            Some(record) => record,
            None => {
                // As the file source does: what was logged and never planned is next; otherwise this run finds a number of its own.
                let mut end = log.latest().await?.map_or(0, |latest| latest + 1);
                if end <= start {
                    for _ in 0..1 + checkpoint.epoch() % 2 {
                        log.add(end, &entries(end, 1 + checkpoint.epoch() % 3)).await?;
                        end += 1;
                    }
                }
                let record = plan(end - 1);
                checkpoint.write_offsets(batch, &record).await?;
                record
            }
        };
        let end = position(record.offsets.first())?;
        sink.send(batch, (start, end));
        let commit = CommitRecord { next_watermark_ms: end as i64, extra: BTreeMap::new() };
        checkpoint.write_commit(batch, &commit).await?;
        sink.accepted.lock().entry(batch).or_default().insert(end);
        checkpoint.purge(batch).await?;
        (batch, start) = (batch + 1, end);
    }
    let logged: Vec<u64> = logged(&log, &|_| None).await?.into_iter().map(|(id, _)| id).collect();
    assert!(logged.last().is_none_or(|last| *last + 1 >= start), "the source's log ends at {logged:?}, input is taken up to {start}");
    checkpoint.close().await
}

/// Options under which compaction, clean-up and retention happen within a few batches.
pub(super) fn hurried(options: CheckpointOptions) -> CheckpointOptions {
    CheckpointOptions { min_batches_to_retain: 1, compact_interval: 2, cleanup_delay: std::time::Duration::ZERO, ..options }
}
