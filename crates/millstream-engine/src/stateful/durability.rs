//! State in the checkpoint: the changes of every batch, and now and then a snapshot.
//!
//! A snapshot is made from the files of changes, in the background and without a look at the live tables, so that a batch never waits for
//! it and costs what it changed. Rules: `DESIGN.md`, "Checkpoint directory".

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use datafusion::error::{DataFusionError, Result as DfResult};
use millstream_checkpoint::state::blocks::{self, Change, Section};
use millstream_checkpoint::state::{StateFile, StateManifest};
use millstream_checkpoint::{Checkpoint, KEY_GROUPS, StateKind, facts};
use millstream_core::recovery::CommitRecord;
use millstream_core::{Error, ErrorKind, Result};
use tokio_util::task::AbortOnDropHandle;

use super::compatibility::{self, OperatorFacts};
use super::flow::TimeFlow;
use super::operator::{Core, Operator};
use super::table::{StateTable, TableSchema};
use crate::from_datafusion;

/// The fact that describes the operators.
pub(crate) const OPERATORS: &str = "operators";
/// Rows per record batch of a snapshot.
const SNAPSHOT_ROWS: usize = 65_536;
/// A snapshot is made after at least so many files of changes …
const MIN_FILES: usize = 10;
/// … once they are as long as the last snapshot, or so many that reading them takes long.
const MAX_FILES: usize = 200;

/// What the batch changed, as the bytes of a file; `None` when nothing changed.
///
/// # Errors
/// Those of the state stores.
pub(crate) fn changes(flow: &TimeFlow, batch: u64) -> Result<Option<Vec<u8>>> {
    let mut sections = Vec::new();
    for (number, operator) in flow.operators.iter().enumerate() {
        operator
            .with_core(|core| core.tables().into_iter().try_for_each(|table| changed(number, table, &mut sections)))
            .map_err(from_datafusion)?;
    }
    // The first batch always has a file, by which the folder can be missed.
    if sections.is_empty() && batch > 0 { Ok(None) } else { blocks::encode(batch, &sections).map(Some) }
}

fn changed(operator: usize, table: &mut StateTable, sections: &mut Vec<Section>) -> DfResult<()> {
    let Some(changes) = table.take_changes()? else { return Ok(()) };
    for (rows, change) in [(changes.puts, Change::Put), (changes.removes, Change::Remove)] {
        if rows.num_rows() > 0 {
            sections.push(section(operator, &table.schema().name, change, &[rows])?);
        }
    }
    Ok(())
}

fn section(operator: usize, table: &str, change: Change, rows: &[RecordBatch]) -> DfResult<Section> {
    let schema = rows.first().map_or_else(|| Arc::new(Schema::empty()), |rows| rows.schema());
    let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
    for rows in rows {
        writer.write(rows)?;
    }
    writer.finish()?;
    let count = rows.iter().map(|rows| rows.num_rows() as u64).sum();
    Ok(Section { operator, table: table.to_owned(), change, rows: count, payload: writer.into_inner()? })
}

/// Puts the rows of a section into the tables of its operator.
fn apply(name: &str, section: &Section, core: &mut dyn Core) -> Result<()> {
    let within = |error| from_datafusion(error).within(format!("state file {name}"));
    if core.tables().iter().all(|table| table.schema().name != section.table) {
        let columns = StreamReader::try_new(section.payload.as_slice(), None).map_err(|error| within(error.into()))?.schema();
        // What was removed from a table that is not there is not there.
        if section.change == Change::Remove {
            return Ok(());
        }
        let schema = TableSchema::of_changes(&section.table, &columns).ok_or_else(|| foreign(name, section))?;
        if !core.keep(schema).map_err(within)? {
            return Err(foreign(name, section));
        }
    }
    let mut tables = core.tables();
    let table = tables.iter_mut().find(|table| table.schema().name == section.table).ok_or_else(|| foreign(name, section))?;
    let mut apply = || {
        for rows in StreamReader::try_new(section.payload.as_slice(), None)? {
            match section.change {
                Change::Put => table.restore(&rows?)?,
                Change::Remove => table.restore_removes(&rows?)?,
            }
        }
        Ok::<_, DataFusionError>(())
    };
    apply().map_err(within)
}

fn foreign(name: &str, section: &Section) -> Error {
    Error::new(
        ErrorKind::CheckpointIncompatible,
        "CANNOT_LOAD_STATE_STORE.UNCATEGORIZED",
        format!(
            "the state file {name} has rows of table '{}' of operator {}, which the query does not have",
            section.table, section.operator
        ),
    )
    .with_sqlstate("58030")
}

/// The files that make up the state, and when the next snapshot is due.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    base: Option<u64>,
    snapshot: Vec<StateFile>,
    /// The files of changes since.
    changes: Vec<StateFile>,
    making: Option<AbortOnDropHandle<Result<Made>>>,
}

#[derive(Debug)]
struct Made {
    batch: u64,
    /// How many files of changes it covers.
    covered: usize,
    file: StateFile,
}

impl Snapshots {
    /// Loads the state after `batch` into the operators.
    ///
    /// # Errors
    /// `STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY` when the batches before had no state or it is gone; the conditions of
    /// [`compatibility::check`]; those of reading.
    pub(crate) async fn load(flow: &TimeFlow, checkpoint: &Checkpoint, batch: u64) -> Result<Snapshots> {
        let current: Vec<OperatorFacts> = flow.operators.iter().map(|operator| OperatorFacts::of(&operator.description)).collect();
        let newest = match checkpoint.read_commit(batch).await? {
            None if current.is_empty() => return Ok(Snapshots::default()),
            None => return Err(hole(batch)),
            Some(newest) => newest,
        };
        let manifest = StateManifest::of(&newest)?;
        let Some(manifest) = manifest else {
            return if current.is_empty() { Ok(Snapshots::default()) } else { Err(compatibility::missing(checkpoint.url())) };
        };
        let written = stored(&newest)?;
        compatibility::check(&written, &current)?;
        if current.is_empty() {
            return Ok(Snapshots::default());
        }
        if !checkpoint.has_state().await? {
            return Err(compatibility::missing(checkpoint.url()));
        }
        let mut loaded = Snapshots { base: manifest.base, snapshot: manifest.snapshot.clone(), ..Snapshots::default() };
        for between in manifest.oldest_needed(batch)..batch {
            let record = commit(checkpoint, between).await?;
            loaded.changes.extend(StateManifest::of(&record)?.unwrap_or_default().changes);
        }
        loaded.changes.extend(manifest.changes);
        for file in loaded.snapshot.iter().chain(&loaded.changes) {
            let bytes = checkpoint.read_state(file).await?;
            restore(flow, &file.name, &bytes)?;
        }
        for (operator, written) in flow.operators.iter().zip(&written) {
            operator.adopt(written.variant());
        }
        Ok(loaded)
    }

    /// Notes a batch's files of changes and puts what commits the state into its record.
    ///
    /// # Errors
    /// Those of making a snapshot.
    pub(crate) async fn commit(&mut self, flow: &TimeFlow, files: Vec<StateFile>, record: &mut CommitRecord) -> Result<()> {
        if self.making.as_ref().is_some_and(AbortOnDropHandle::is_finished)
            && let Some(making) = self.making.take()
        {
            match making.await {
                Ok(Ok(made)) => {
                    self.base = Some(made.batch);
                    self.snapshot = vec![made.file];
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
        let operators: Vec<OperatorFacts> = flow.operators.iter().map(|operator| OperatorFacts::kept_by(operator)).collect();
        facts::put(record, OPERATORS, &operators)
    }

    /// Starts making a snapshot of the state after `batch`, when one is due. To be called once the files of the batch are durable.
    pub(crate) fn make_when_due(&mut self, flow: &TimeFlow, checkpoint: &Arc<Checkpoint>, batch: u64) {
        let length = |files: &[StateFile]| files.iter().map(|file| file.length).sum::<u64>();
        let due = self.changes.len() >= MIN_FILES && (length(&self.changes) >= length(&self.snapshot) || self.changes.len() >= MAX_FILES);
        if !due || self.making.is_some() {
            return;
        }
        let files: Vec<StateFile> = self.snapshot.iter().chain(&self.changes).cloned().collect();
        let covered = self.changes.len();
        let (operators, checkpoint) = (flow.operators.clone(), checkpoint.clone());
        self.making = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            let mut contents = Vec::with_capacity(files.len());
            for file in &files {
                contents.push((file.name.clone(), checkpoint.read_state(file).await?));
            }
            let compacted = tokio::task::spawn_blocking(move || {
                let contents: Vec<(&str, &[u8])> = contents.iter().map(|(name, bytes)| (name.as_str(), bytes.as_ref())).collect();
                compact(&operators, &contents, batch)
            });
            let bytes = compacted.await.map_err(|error| Error::internal("making a snapshot failed").caused_by(error))??;
            let file = checkpoint.write_state(batch, StateKind::Snapshot, bytes).await?;
            Ok(Made { batch, covered, file })
        })));
    }
}

async fn commit(checkpoint: &Checkpoint, batch: u64) -> Result<CommitRecord> {
    checkpoint.read_commit(batch).await?.ok_or_else(|| hole(batch))
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

fn restore(flow: &TimeFlow, name: &str, bytes: &[u8]) -> Result<()> {
    let (_, sections) = blocks::decode(name, bytes)?;
    for section in sections {
        let operator = flow.operators.get(section.operator).ok_or_else(|| foreign(name, &section))?;
        operator.with_core(|core| apply(name, &section, core))?;
    }
    Ok(())
}

/// All state that the files together make up, as the bytes of one file.
fn compact(operators: &[Arc<Operator>], files: &[(&str, &[u8])], batch: u64) -> Result<Vec<u8>> {
    let mut cores: Vec<Box<dyn Core>> =
        operators.iter().map(|operator| operator.empty_core()).collect::<DfResult<_>>().map_err(from_datafusion)?;
    for (name, bytes) in files {
        let (_, sections) = blocks::decode(name, bytes)?;
        for section in sections {
            apply(name, &section, cores.get_mut(section.operator).ok_or_else(|| foreign(name, &section))?.as_mut())?;
        }
    }
    let mut sections = Vec::new();
    for (number, core) in cores.iter_mut().enumerate() {
        for table in core.tables() {
            let mut rows = Vec::new();
            let mut collect = |piece| {
                rows.push(piece);
                Ok(())
            };
            table.snapshot(SNAPSHOT_ROWS, &mut collect).map_err(from_datafusion)?;
            if !rows.is_empty() {
                sections.push(section(number, &table.schema().name, Change::Put, &rows).map_err(from_datafusion)?);
            }
        }
    }
    blocks::encode(batch, &sections)
}
