//! The files of changes and snapshots: Arrow rows in sections, from tables and into tables.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use datafusion::error::{DataFusionError, Result as DfResult};
use millstream_checkpoint::state::StateFile;
use millstream_checkpoint::state::blocks::{self, Change, Section};
use millstream_core::{Error, ErrorKind, Result};

use crate::from_datafusion;
use crate::stateful::compatibility::OperatorFacts;
use crate::stateful::operator::{Core, Operator};
use crate::stateful::table::{ChangedRows, Changes, StateTable, TableSchema};

/// What a batch changed, table by table and task by task.
#[derive(Debug)]
pub(crate) struct BatchChanges {
    batch: u64,
    /// The operators with all that they keep.
    pub(super) operators: Vec<OperatorFacts>,
    /// The operator, the key groups of the task, and what changed in one of its tables.
    tables: Vec<(usize, Range<u16>, Changes)>,
}

impl BatchChanges {
    pub(super) fn take(operators: &[Arc<Operator>], batch: u64) -> Self {
        let mut tables = Vec::new();
        for (number, operator) in operators.iter().enumerate() {
            operator.for_each_task(|groups, core| {
                let changed = core.tables().into_iter().filter_map(StateTable::take_changes);
                tables.extend(changed.map(|changes| (number, groups.clone(), changes)));
            });
        }
        BatchChanges { batch, operators: operators.iter().map(|operator| OperatorFacts::kept_by(operator)).collect(), tables }
    }

    pub(super) fn batch(&self) -> u64 {
        self.batch
    }

    /// The bytes of a file, `None` when nothing changed.
    pub(super) fn encode(self) -> Result<Option<Vec<u8>>> {
        // The first batch always has a file, by which the folder can be missed.
        if self.tables.is_empty() && self.batch > 0 {
            return Ok(None);
        }
        let mut sections = Vec::with_capacity(self.tables.len());
        for (operator, groups, changes) in self.tables {
            let ChangedRows { puts, removes } = changes.rows().map_err(from_datafusion)?;
            for (rows, change) in [(puts, Change::Put), (removes, Change::Remove)] {
                if rows.num_rows() > 0 {
                    let mut section = SectionWriter::new(operator, changes.table(), change, rows.schema()).map_err(from_datafusion)?;
                    section.add(&rows).map_err(from_datafusion)?;
                    sections.push(section.finish(groups.clone()).map_err(from_datafusion)?);
                }
            }
        }
        blocks::encode(self.batch, &sections).map(Some)
    }
}

/// Collects the rows of a section.
pub(super) struct SectionWriter {
    operator: usize,
    table: String,
    change: Change,
    rows: u64,
    writer: StreamWriter<Vec<u8>>,
}

impl SectionWriter {
    pub(super) fn new(operator: usize, table: &str, change: Change, schema: SchemaRef) -> DfResult<Self> {
        Ok(SectionWriter { operator, table: table.to_owned(), change, rows: 0, writer: StreamWriter::try_new(Vec::new(), &schema)? })
    }

    pub(super) fn add(&mut self, rows: &RecordBatch) -> DfResult<()> {
        self.rows += rows.num_rows() as u64;
        Ok(self.writer.write(rows)?)
    }

    /// Bytes so far.
    pub(super) fn len(&self) -> usize {
        self.writer.get_ref().len()
    }

    pub(super) fn finish(mut self, groups: Range<u16>) -> DfResult<Section> {
        self.writer.finish()?;
        let SectionWriter { operator, table, change, rows, writer } = self;
        Ok(Section { operator, table, change, key_groups: (groups.start, groups.end), rows, payload: writer.into_inner()? })
    }
}

/// Whether a section may have rows of these key groups.
pub(super) fn overlaps(section: &Section, groups: &Range<u16>) -> bool {
    section.key_groups.0 < groups.end && groups.start < section.key_groups.1
}

/// A file that was read.
pub(super) struct Source {
    pub(super) name: String,
    /// Whether it is of a snapshot: its rows are in no table yet.
    pub(super) snapshot: bool,
}

impl Source {
    pub(super) fn of(file: &StateFile) -> Self {
        Source { name: file.name.clone(), snapshot: file.is_snapshot() }
    }
}

/// Puts the rows of a section into the tables of its operator, or takes them out.
pub(super) fn apply(source: &Source, section: &Section, core: &mut dyn Core) -> Result<()> {
    let Source { name, snapshot } = source;
    let within = |error| from_datafusion(error).within(format!("state file {name}"));
    if core.tables().iter().all(|table| table.schema().name != section.table) {
        // What was removed from a table that is not there is not there.
        if section.change == Change::Remove {
            return Ok(());
        }
        let columns = StreamReader::try_new(section.payload.as_slice(), None).map_err(|error| within(error.into()))?.schema();
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
                Change::Put => table.restore(&rows?, *snapshot)?,
                Change::Remove => table.restore_removes(&rows?)?,
            }
            table.settle()?;
        }
        Ok::<_, DataFusionError>(())
    };
    apply().map_err(within)
}

pub(super) fn foreign(name: &str, section: &Section) -> Error {
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
