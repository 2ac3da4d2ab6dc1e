//! A snapshot from files: rows are put together in scratch tables, which go to disk where they are many, and written group by group.

use std::ops::Range;
use std::sync::Arc;

use datafusion::error::Result as DfResult;
use millstream_checkpoint::state::StateFile;
use millstream_checkpoint::state::blocks::{self, Change};
use millstream_checkpoint::state::store::Stores;
use millstream_checkpoint::{Checkpoint, KEY_GROUPS, StateKind};
use millstream_core::{Error, Result};
use tokio::sync::mpsc;

use super::files::{SectionWriter, Source, apply, foreign};
use crate::from_datafusion;
use crate::stateful::operator::{Core, Operator};
use crate::stateful::table::{Placement, StateTable};

/// Rows per record batch.
const BATCH_ROWS: usize = 65_536;
/// About how many rows are taken from the tables before looking whether a file is long enough.
const STEP_ROWS: u64 = 8 * BATCH_ROWS as u64;
/// A file of a snapshot ends with the key group in which it becomes as long as this.
const FILE_BYTES: usize = 32 << 20;

/// Makes a snapshot of the state after `batch` out of these files. Only a file and the scratch tables are in memory at a time.
///
/// # Errors
/// Those of reading and writing.
pub(super) async fn make(
    operators: Vec<Arc<Operator>>,
    checkpoint: &Checkpoint,
    stores: Arc<Stores>,
    files: &[StateFile],
    batch: u64,
) -> Result<Vec<StateFile>> {
    let (to_tables, contents) = mpsc::channel(1);
    let (to_store, mut parts) = mpsc::channel::<(Range<u16>, Vec<u8>)>(1);
    let compacting = tokio::task::spawn_blocking(move || compact(&operators, stores, contents, batch, &to_store));
    let read = async {
        for file in files {
            let bytes = checkpoint.read_state(file).await?;
            // Whoever reads has failed, and says why itself.
            if to_tables.send((Source::of(file), bytes)).await.is_err() {
                break;
            }
        }
        drop(to_tables);
        Ok::<_, Error>(())
    };
    let write = async {
        let mut written = Vec::new();
        while let Some((groups, bytes)) = parts.recv().await {
            written.push(checkpoint.write_state(batch, StateKind::Snapshot, (groups.start, groups.end), bytes).await?);
        }
        Ok::<_, Error>(written)
    };
    let ((), written) = futures::try_join!(read, write)?;
    compacting.await.map_err(|error| Error::internal("making a snapshot failed").caused_by(error))??;
    Ok(written)
}

fn compact<B: AsRef<[u8]>>(
    operators: &[Arc<Operator>],
    stores: Arc<Stores>,
    mut files: mpsc::Receiver<(Source, B)>,
    batch: u64,
    to: &mpsc::Sender<(Range<u16>, Vec<u8>)>,
) -> Result<()> {
    let place = Placement::new(1, stores);
    let cores = operators.iter().enumerate().map(|(number, operator)| {
        let place = place.of_operator(number);
        place.tasks().map(|tables| operator.empty_core(&tables)).collect::<DfResult<Vec<_>>>()
    });
    let mut cores: Vec<Box<dyn Core>> = cores.collect::<DfResult<Vec<_>>>().map_err(from_datafusion)?.into_iter().flatten().collect();
    while let Some((source, bytes)) = files.blocking_recv() {
        let (_, sections) = blocks::decode(&source.name, bytes.as_ref())?;
        drop(bytes);
        for section in sections {
            apply(&source, &section, cores.get_mut(section.operator).ok_or_else(|| foreign(&source.name, &section))?.as_mut())?;
        }
    }
    let tables: Vec<Vec<&mut StateTable>> = cores.iter_mut().map(|core| core.tables()).collect();
    let rows: u64 = tables.iter().flatten().map(|table| table.len()).sum();
    let step = (u64::from(KEY_GROUPS) * STEP_ROWS).checked_div(rows).and_then(|step| u16::try_from(step).ok());
    let step = step.unwrap_or(KEY_GROUPS).clamp(1, KEY_GROUPS);
    let (mut from, mut to_group) = (0, 0);
    let mut open = Vec::new();
    while to_group < KEY_GROUPS {
        let next = (to_group + step).min(KEY_GROUPS);
        add_groups(&tables, to_group..next, &mut open).map_err(from_datafusion)?;
        to_group = next;
        let bytes: usize = open.iter().map(|(_, section)| section.len()).sum();
        if bytes >= FILE_BYTES || (to_group == KEY_GROUPS && (bytes > 0 || from == 0)) {
            let groups = from..to_group;
            let sections = open.drain(..).map(|(_, section)| section.finish(groups.clone())).collect::<DfResult<Vec<_>>>();
            let bytes = blocks::encode(batch, &sections.map_err(from_datafusion)?)?;
            from = to_group;
            if to.blocking_send((groups, bytes)).is_err() {
                return Err(Error::internal("a snapshot is not written any more"));
            }
        }
    }
    Ok(())
}

/// Adds the rows of key groups to the sections that are open, which are numbered by operator and table.
fn add_groups(tables: &[Vec<&mut StateTable>], groups: Range<u16>, open: &mut Vec<((usize, usize), SectionWriter)>) -> DfResult<()> {
    for (operator, tables) in tables.iter().enumerate() {
        for (number, table) in tables.iter().enumerate() {
            table.snapshot(groups.clone(), BATCH_ROWS, &mut |rows| {
                let place = (operator, number);
                let at = match open.iter().position(|(known, _)| *known == place) {
                    Some(at) => at,
                    None => {
                        open.push((place, SectionWriter::new(operator, &table.schema().name, Change::Put, rows.schema())?));
                        open.len() - 1
                    }
                };
                open.get_mut(at).map_or(Ok(()), |(_, section)| section.add(&rows))
            })?;
        }
    }
    Ok(())
}
