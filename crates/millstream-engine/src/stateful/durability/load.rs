//! State from the checkpoint, at the start of a query.

use std::ops::Range;
use std::sync::Arc;

use millstream_checkpoint::state::blocks::{self, Section};
use millstream_checkpoint::state::{StateFile, StateManifest};
use millstream_checkpoint::{Checkpoint, facts};
use millstream_core::recovery::CommitRecord;
use millstream_core::{Error, ErrorKind, Result};

use super::files::{Source, apply, foreign, overlaps};
use super::{OPERATORS, StateLog};
use crate::stateful::compatibility::{self, OperatorFacts};
use crate::stateful::operator::Operator;

/// The files that make up a state: a snapshot and the changes since.
struct Files {
    base: Option<u64>,
    snapshot: Vec<StateFile>,
    changes: Vec<StateFile>,
}

impl StateLog {
    /// Loads the state after `batch` into the operators. A snapshot that is damaged or gone costs time and not data, as long as the checkpoint has
    /// an older one and the changes since.
    ///
    /// # Errors
    /// `STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY` when the batches before had no state or it is gone; the conditions of
    /// [`compatibility::check`]; those of reading.
    pub(crate) async fn load(mut self, batch: u64) -> Result<Self> {
        let current: Vec<OperatorFacts> = self.operators.iter().map(|operator| OperatorFacts::of(&operator.description)).collect();
        let newest = match self.checkpoint.read_commit(batch).await? {
            None if current.is_empty() => return Ok(self),
            None => return Err(hole(batch)),
            Some(newest) => newest,
        };
        let Some(manifest) = StateManifest::of(&newest)? else {
            return if current.is_empty() { Ok(self) } else { Err(compatibility::missing(self.checkpoint.url())) };
        };
        let written = stored(&newest)?;
        compatibility::check(&written, &current)?;
        if current.is_empty() {
            return Ok(self);
        }
        if !self.checkpoint.has_state().await? {
            return Err(compatibility::missing(self.checkpoint.url()));
        }
        // Sections can be told apart by key groups where groups are what they were.
        let grouped = written.iter().zip(&current).map(|(written, current)| written.variant() == current.variant()).collect::<Vec<_>>();
        let files = files_since(&self.checkpoint, &manifest, batch).await?;
        let Err(error) = self.restore(&files, &grouped).await else {
            self.adopt(&written);
            return Ok(self.builds_on(files));
        };
        let Some(older) = self.older(&manifest, batch).await? else { return Err(error) };
        let from = older
            .base
            .map_or_else(|| "the changes since the beginning".to_owned(), |base| format!("the one of batch {base} and the changes since"));
        self.repair = Some(format!("a snapshot of state cannot be read ({}), so state was made from {from}", error.message()));
        for operator in &self.operators {
            operator.reset().map_err(crate::from_datafusion)?;
        }
        self.restore(&older, &grouped).await.map_err(|_| error)?;
        self.adopt(&written);
        Ok(self.builds_on(older))
    }

    /// Tells the operators what their state means.
    fn adopt(&self, written: &[OperatorFacts]) {
        self.operators.iter().zip(written).for_each(|(operator, written)| operator.adopt(written.variant()));
    }

    fn builds_on(mut self, files: Files) -> Self {
        (self.base, self.snapshot, self.changes) = (files.base, files.snapshot, files.changes);
        self
    }

    /// Puts what files say into the operators, in the order of the files. `grouped` says of each operator whether the key groups of sections are
    /// those of its tasks.
    async fn restore(&self, files: &Files, grouped: &[bool]) -> Result<()> {
        for file in files.snapshot.iter().chain(&files.changes) {
            let bytes = self.checkpoint.read_state(file).await?;
            let (source, operators, grouped) = (Source::of(file), self.operators.clone(), grouped.to_vec());
            let restored = tokio::task::spawn_blocking(move || {
                let (_, sections) = blocks::decode(&source.name, &bytes)?;
                drop(bytes);
                into_operators(&source, &sections, &operators, &grouped)
            });
            restored.await.map_err(|error| Error::internal("reading state ended early").caused_by(error))??;
        }
        Ok(())
    }

    /// The newest files that build on an older snapshot than this manifest does, if the checkpoint still has all that belongs to them.
    async fn older(&self, manifest: &StateManifest, batch: u64) -> Result<Option<Files>> {
        let Some(base) = manifest.base else { return Ok(None) };
        for before in (0..=base.min(batch)).rev() {
            let Some(record) = self.checkpoint.read_commit(before).await? else { return Ok(None) };
            let Some(older) = StateManifest::of(&record)? else { return Ok(None) };
            if older.base != manifest.base {
                let since = StateManifest { changes: manifest.changes.clone(), ..older };
                return Ok(files_since(&self.checkpoint, &since, batch).await.ok());
            }
        }
        Ok(None)
    }
}

/// The files of the state after `batch`, whose record has this manifest.
async fn files_since(checkpoint: &Checkpoint, manifest: &StateManifest, batch: u64) -> Result<Files> {
    let mut changes = Vec::new();
    for between in manifest.oldest_needed(batch)..batch {
        let record = checkpoint.read_commit(between).await?.ok_or_else(|| hole(between))?;
        changes.extend(StateManifest::of(&record)?.unwrap_or_default().changes);
    }
    changes.extend(manifest.changes.iter().cloned());
    Ok(Files { base: manifest.base, snapshot: manifest.snapshot.clone(), changes })
}

/// Puts sections into operators, in as many threads as there are tasks.
fn into_operators(source: &Source, sections: &[Section], operators: &[Arc<Operator>], grouped: &[bool]) -> Result<()> {
    if let Some(section) = sections.iter().find(|section| section.operator >= operators.len()) {
        return Err(foreign(&source.name, section));
    }
    let restore = |task: usize| {
        operators.iter().enumerate().filter(|(_, operator)| task < operator.tasks()).try_for_each(|(number, operator)| {
            operator.with_task(task, |groups: &Range<u16>, core| {
                let grouped = grouped.get(number) == Some(&true);
                let own = |section: &&Section| section.operator == number && (!grouped || overlaps(section, groups));
                sections.iter().filter(own).try_for_each(|section| apply(source, section, core))
            })
        })
    };
    let tasks = operators.iter().map(|operator| operator.tasks()).max().unwrap_or(0);
    if tasks <= 1 {
        return (0..tasks).try_for_each(restore);
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..tasks).map(|task| scope.spawn(move || restore(task))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(Error::internal("reading state ended early"))))
    })
}

fn hole(batch: u64) -> Error {
    Error::new(
        ErrorKind::CheckpointIncompatible,
        "CHECKPOINT_LOG_HOLE",
        format!("commits/{batch} does not exist, but later state builds on it. Restore it from a backup, or start a new checkpoint."),
    )
}

fn stored(record: &CommitRecord) -> Result<Vec<OperatorFacts>> {
    Ok(facts::get(record, OPERATORS)?.unwrap_or_default())
}
