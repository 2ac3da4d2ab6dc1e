//! State in the checkpoint: the changes of every batch, and now and then a snapshot.
//!
//! A batch leaves its changes as bytes of the stores; putting them into columns, writing them and committing them happens while the next batch
//! computes. A snapshot is made from the files of changes, in the background and without a look at the live tables, so that a batch never waits
//! for it and costs what it changed. Rules: `DESIGN.md`, "Checkpoint directory".

mod files;
mod load;
mod snapshot;

use std::sync::Arc;

use millstream_checkpoint::state::store::Stores;
use millstream_checkpoint::state::{StateFile, StateManifest};
use millstream_checkpoint::{Checkpoint, KEY_GROUPS, StateKind, facts};
use millstream_core::recovery::CommitRecord;
use millstream_core::{Error, Result};
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

use super::compatibility::OperatorFacts;
use super::flow::TimeFlow;
use super::operator::Operator;

pub(crate) use files::BatchChanges;

/// The fact that describes the operators.
pub(crate) const OPERATORS: &str = "operators";
/// From so many files of changes on, a snapshot is made even where they are shorter than the last one: reading them takes long.
const MAX_FILES: usize = 200;

/// What the batch changed.
pub(crate) fn changes(flow: &TimeFlow, batch: u64) -> BatchChanges {
    BatchChanges::take(&flow.operators, batch)
}

/// What a batch did to state, once it is durable.
#[derive(Debug)]
pub(crate) struct Uploaded {
    /// The file of changes, if there were any.
    files: Vec<StateFile>,
    operators: Vec<OperatorFacts>,
}

/// Makes what a batch changed durable while other things happen.
pub(crate) fn upload(checkpoint: &Arc<Checkpoint>, mut changes: BatchChanges) -> JoinHandle<Result<Uploaded>> {
    let checkpoint = checkpoint.clone();
    tokio::spawn(async move {
        let (batch, operators) = (changes.batch(), std::mem::take(&mut changes.operators));
        let bytes = tokio::task::spawn_blocking(move || changes.encode()).await;
        match bytes.map_err(|error| Error::internal("writing state down ended early").caused_by(error))?? {
            None => Ok(Uploaded { files: Vec::new(), operators }),
            Some(bytes) => {
                let files = vec![checkpoint.write_state(batch, StateKind::Changes, (0, KEY_GROUPS), bytes).await?];
                Ok(Uploaded { files, operators })
            }
        }
    })
}

/// How snapshots are made.
#[derive(Clone)]
pub(crate) struct SnapshotRules {
    /// A snapshot is made after at least so many files of changes, once they are as long as the last one.
    pub(crate) min_files: usize,
    /// Stores of their own in which one is put together.
    pub(crate) scratch: Arc<dyn Fn() -> Arc<Stores> + Send + Sync>,
}

/// The files that make up the state, and when the next snapshot is due.
pub(crate) struct StateLog {
    checkpoint: Arc<Checkpoint>,
    operators: Vec<Arc<Operator>>,
    rules: SnapshotRules,
    base: Option<u64>,
    snapshot: Vec<StateFile>,
    /// The files of changes since.
    changes: Vec<StateFile>,
    /// What was wrong with the state that was loaded, until that is told.
    repair: Option<String>,
    making: Option<AbortOnDropHandle<Result<Made>>>,
}

struct Made {
    batch: u64,
    /// How many files of changes it covers.
    covered: usize,
    files: Vec<StateFile>,
}

impl StateLog {
    /// The log of operators whose state is empty.
    pub(crate) fn new(flow: &TimeFlow, checkpoint: &Arc<Checkpoint>, rules: SnapshotRules) -> Self {
        StateLog {
            checkpoint: checkpoint.clone(),
            operators: flow.operators.clone(),
            rules,
            base: None,
            snapshot: Vec::new(),
            changes: Vec::new(),
            repair: None,
            making: None,
        }
    }

    /// What was wrong with the state that was loaded, the first time that this is asked.
    pub(crate) fn take_repair(&mut self) -> Option<String> {
        self.repair.take()
    }

    /// Notes what a batch did, and puts what commits the state into its record.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` when something does not serialise.
    pub(crate) async fn commit(&mut self, uploaded: Uploaded, record: &mut CommitRecord) -> Result<()> {
        let Uploaded { files, operators } = uploaded;
        if self.operators.is_empty() {
            return Ok(());
        }
        if self.making.as_ref().is_some_and(AbortOnDropHandle::is_finished)
            && let Some(making) = self.making.take()
        {
            match making.await {
                Ok(Ok(made)) => {
                    self.base = Some(made.batch);
                    self.snapshot = made.files;
                    self.changes.drain(..made.covered.min(self.changes.len()));
                }
                // The changes are still there: it is tried again later.
                Ok(Err(error)) => tracing::warn!(%error, "a snapshot of state could not be made"),
                Err(error) => tracing::warn!(%error, "making a snapshot of state ended early"),
            }
        }
        self.changes.extend(files.iter().cloned());
        let manifest = StateManifest { key_groups: KEY_GROUPS, base: self.base, snapshot: self.snapshot.clone(), changes: files };
        manifest.put_into(record)?;
        facts::put(record, OPERATORS, &operators)
    }

    /// Starts making a snapshot of the state after `batch`, which is committed, when one is due.
    pub(crate) fn make_when_due(&mut self, batch: u64) {
        let length = |files: &[StateFile]| files.iter().map(|file| file.length).sum::<u64>();
        let due = self.changes.len() >= self.rules.min_files
            && (length(&self.changes) >= length(&self.snapshot) || self.changes.len() >= MAX_FILES);
        if !due || self.making.is_some() {
            return;
        }
        let files: Vec<StateFile> = self.snapshot.iter().chain(&self.changes).cloned().collect();
        let covered = self.changes.len();
        let (operators, checkpoint, stores) = (self.operators.clone(), self.checkpoint.clone(), (self.rules.scratch)());
        self.making = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            let files = snapshot::make(operators, &checkpoint, stores, &files, batch).await?;
            Ok(Made { batch, covered, files })
        })));
    }
}
