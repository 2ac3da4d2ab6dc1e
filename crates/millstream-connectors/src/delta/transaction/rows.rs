//! The rows of a change on their way into files: those that stay into data files, and what became of each into files of changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int8Array, RecordBatch, StringArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Int8Type, Schema};
use async_trait::async_trait;
use bytes::Bytes;
use millstream_core::sink::{Part, PartWriter};
use millstream_core::versioned::RowChange;
use millstream_core::{Clock, Error, Ids, Result};
use serde::{Deserialize, Serialize};

use crate::delta::actions::{Add, Cdc};
use crate::delta::change_feed::CHANGE_TYPE;
use crate::delta::log::TableLog;
use crate::delta::writer::{DeltaPartWriter, Layout, Staged};

/// How the rows of a change are written.
#[derive(Debug)]
pub(super) struct Layouts {
    pub data: Arc<Layout>,
    /// Files of changes, where the table keeps them.
    pub changes: Option<Arc<Layout>>,
    /// Columns of the table at the beginning of the rows.
    pub columns: usize,
    /// The place of the column that tells what became of a row.
    pub tag: Option<usize>,
    /// The place of the row as it was.
    pub before: Option<usize>,
}

/// What a task staged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct StagedChange {
    pub adds: Vec<Add>,
    pub cdcs: Vec<Cdc>,
    /// Rows by what became of them, see [`RowChange`].
    pub counts: BTreeMap<i8, u64>,
}

impl StagedChange {
    pub(super) fn read(part: &Part) -> Result<Self> {
        serde_json::from_slice(&part.staged).map_err(|error| Error::internal("a staged part is not one of a change").caused_by(error))
    }

    pub(super) fn extend(&mut self, other: StagedChange) {
        self.adds.extend(other.adds);
        self.cdcs.extend(other.cdcs);
        for (code, rows) in other.counts {
            *self.counts.entry(code).or_default() += rows;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.adds.is_empty() && self.cdcs.is_empty()
    }

    /// Rows of which this became.
    pub(super) fn count(&self, change: RowChange) -> u64 {
        self.counts.get(&change.code()).copied().unwrap_or(0)
    }
}

/// A file of changes as a data file, to be removed like one.
pub(super) fn as_add(cdc: &Cdc) -> Add {
    Add { path: cdc.path.clone(), ..Add::default() }
}

/// Writes one task's rows of a change.
pub(super) struct ChangeWriter {
    layouts: Arc<Layouts>,
    data: Box<DeltaPartWriter>,
    changes: Option<Box<DeltaPartWriter>>,
    counts: BTreeMap<i8, u64>,
}

impl ChangeWriter {
    pub(super) fn new(
        log: &TableLog,
        layouts: &Arc<Layouts>,
        clock: &Arc<dyn Clock>,
        ids: &Arc<dyn Ids>,
        partition: usize,
    ) -> Result<Self> {
        let writer =
            |layout: &Arc<Layout>| DeltaPartWriter::new(log.clone(), layout.clone(), clock.clone(), ids.clone(), partition).map(Box::new);
        let data = writer(&layouts.data)?;
        let changes = layouts.changes.as_ref().map(writer).transpose()?;
        Ok(ChangeWriter { layouts: layouts.clone(), data, changes, counts: BTreeMap::new() })
    }

    fn columns(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        rows.project(&(0..self.layouts.columns).collect::<Vec<_>>()).map_err(misfit)
    }

    /// Writes what became of rows for readers of the change data feed.
    async fn record(&mut self, rows: &RecordBatch, columns: &RecordBatch, tags: &Int8Array) -> Result<()> {
        let Some(changes) = &mut self.changes else { return Ok(()) };
        let kinds = [
            (&[RowChange::Updated, RowChange::UpdatedBySource][..], Some("update_preimage"), "update_postimage"),
            (&[RowChange::Inserted], None, "insert"),
            (&[RowChange::Deleted, RowChange::DeletedBySource], Some("delete"), ""),
        ];
        for (which, before, after) in kinds {
            let chosen: BooleanArray = tags.iter().map(|tag| Some(which.iter().any(|change| tag == Some(change.code())))).collect();
            if chosen.true_count() == 0 {
                continue;
            }
            if let Some(kind) = before {
                let old = match self.layouts.before.and_then(|place| rows.columns().get(place)).and_then(|column| column.as_struct_opt()) {
                    Some(old) => RecordBatch::try_new(columns.schema(), old.columns().to_vec()).map_err(misfit)?,
                    // A row that goes has the values that it had.
                    None => columns.clone(),
                };
                changes.write(with_kind(&filter_record_batch(&old, &chosen).map_err(misfit)?, kind)?).await?;
            }
            if !after.is_empty() {
                changes.write(with_kind(&filter_record_batch(columns, &chosen).map_err(misfit)?, after)?).await?;
            }
        }
        Ok(())
    }
}

fn with_kind(rows: &RecordBatch, kind: &str) -> Result<RecordBatch> {
    let field = Arc::new(Field::new(CHANGE_TYPE, DataType::Utf8, true));
    let schema = Schema::new(rows.schema_ref().fields().iter().cloned().chain([field]).collect::<Vec<_>>());
    let kinds: ArrayRef = Arc::new(StringArray::from(vec![kind; rows.num_rows()]));
    let columns = rows.columns().iter().cloned().chain([kinds]).collect();
    RecordBatch::try_new(Arc::new(schema), columns).map_err(misfit)
}

fn misfit(error: arrow::error::ArrowError) -> Error {
    Error::internal("rows of a change do not fit their schema").caused_by(error)
}

#[async_trait]
impl PartWriter for ChangeWriter {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let columns = self.columns(&rows)?;
        let tags = match self.layouts.tag.and_then(|place| rows.columns().get(place)) {
            None => {
                *self.counts.entry(RowChange::Inserted.code()).or_default() += rows.num_rows() as u64;
                return self.data.write(columns).await;
            }
            Some(tags) => {
                tags.as_primitive_opt::<Int8Type>().ok_or_else(|| Error::internal("what became of a row is no 8-bit integer"))?.clone()
            }
        };
        for tag in tags.iter().flatten() {
            *self.counts.entry(tag).or_default() += 1;
        }
        let stays: BooleanArray = tags
            .iter()
            .map(|tag| {
                let change = tag.and_then(|tag| usize::try_from(tag).ok()).and_then(|tag| RowChange::ALL.get(tag));
                Some(change.is_some_and(|change| change.stays()))
            })
            .collect();
        self.record(&rows, &columns, &tags).await?;
        if stays.true_count() == stays.len() {
            return self.data.write(columns).await;
        }
        self.data.write(filter_record_batch(&columns, &stays).map_err(misfit)?).await
    }

    async fn finish(self: Box<Self>) -> Result<Part> {
        let ChangeWriter { data, changes, counts, .. } = *self;
        let data = data.finish().await?;
        let staged = |part: &Part| -> Result<Staged> {
            serde_json::from_slice(&part.staged).map_err(|error| Error::internal("staged files cannot be read back").caused_by(error))
        };
        let mut out = StagedChange { adds: staged(&data)?.adds, cdcs: Vec::new(), counts };
        if let Some(changes) = changes {
            let part = changes.finish().await?;
            let cdc = |add: Add| Cdc { path: add.path, partition_values: add.partition_values, size: add.size, data_change: false };
            out.cdcs = staged(&part)?.adds.into_iter().map(cdc).collect();
        }
        let bytes = serde_json::to_vec(&out).map_err(|error| Error::internal("a staged change does not serialise").caused_by(error))?;
        Ok(Part { rows: data.rows, bytes: data.bytes, staged: Bytes::from(bytes) })
    }

    async fn abort(self: Box<Self>) {
        let ChangeWriter { data, changes, .. } = *self;
        data.abort().await;
        if let Some(changes) = changes {
            changes.abort().await;
        }
    }
}
