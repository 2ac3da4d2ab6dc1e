//! Reading one data file of a table: columns by their names in the file, partition values from the log, deleted rows left out.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use futures::{StreamExt, TryStreamExt};
use millstream_core::source::{BatchStream, ReadContext, Split};
use millstream_core::{Error, ErrorKind, Result};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, RowSelection, RowSelector};
use parquet::arrow::async_reader::ParquetRecordBatchStreamBuilder;
use parquet::basic::Type as PhysicalType;
use parquet::errors::ParquetError;

use super::actions::{Add, DeletionVector, decode_path};
use super::convert::{Target, convert};
use super::data_file::DataFile;
use super::log::TableLog;
use super::partition;
use super::schema::TableSchema;
use super::snapshot::deleted_rows;

/// One data file of a table.
#[derive(Clone, Debug)]
pub(super) struct DeltaSplit {
    log: TableLog,
    schema: Arc<TableSchema>,
    add: Arc<Add>,
    /// Only the rows that its deletion vector has and this one, of an older version, has not.
    since: Option<Option<Arc<DeletionVector>>>,
    label: String,
}

impl DeltaSplit {
    pub(super) fn new(log: TableLog, schema: Arc<TableSchema>, add: Arc<Add>) -> Self {
        let label = match log.folder_url().join(&add.path) {
            Ok(url) => url.to_string(),
            Err(_) => add.path.clone(),
        };
        DeltaSplit { log, schema, add, since: None, label }
    }

    /// The rows that were deleted since the file was as it was before.
    pub(super) fn only_deleted_since(self, before: &Add) -> Self {
        DeltaSplit { since: Some(before.deletion_vector.clone().map(Arc::new)), ..self }
    }

    async fn open(self, context: ReadContext) -> Result<BatchStream> {
        let columns = self.columns(&context.projection)?;
        let output: SchemaRef = Arc::new(Schema::new(columns.iter().map(|column| column.field().clone()).collect::<Fields>()));
        let (store, path) = self.log.data_file(&self.add.path)?;
        let mut reader = DataFile::new(store, path, self.add.size);
        let metadata = self.metadata(&mut reader).await?;

        let file_fields = metadata.schema().fields();
        let roots: Vec<usize> = columns
            .iter()
            .filter_map(|column| match column {
                Column::File { annotated, .. } => self.schema.naming.find(file_fields, annotated),
                Column::Partition { .. } => None,
            })
            .collect();
        let mask = ProjectionMask::roots(metadata.parquet_schema(), roots);
        let rows = u64::try_from(metadata.metadata().file_metadata().num_rows()).unwrap_or(0);
        let mut builder = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, metadata)
            .with_projection(mask)
            .with_batch_size(context.batch_size.max(1));
        if let Some(vector) = &self.add.deletion_vector {
            let deleted = deleted_rows(&self.log, vector).await?;
            let left = match &self.since {
                None => selection(&deleted, rows),
                Some(before) => {
                    let before = match before {
                        Some(vector) => deleted_rows(&self.log, vector).await?,
                        None => Vec::new(),
                    };
                    let new: Vec<u64> = deleted.into_iter().filter(|row| before.binary_search(row).is_err()).collect();
                    chosen(&new, rows)
                }
            };
            builder = builder.with_row_selection(left);
        }
        let stream = builder.build().map_err(|error| self.unreadable(error))?;
        let split = self.clone();
        let batches = stream.map_err(move |error| split.unreadable(error)).and_then(move |batch| {
            let converted = self.convert(&batch, &columns, &output);
            futures::future::ready(converted)
        });
        Ok(batches.boxed())
    }

    /// The footer; timestamps of the old 96-bit form are read with the resolution of the table, which nanoseconds would overflow.
    async fn metadata(&self, reader: &mut DataFile) -> Result<ArrowReaderMetadata> {
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = ArrowReaderMetadata::load_async(reader, options.clone()).await.map_err(|error| self.unreadable(error))?;
        let old_timestamps = metadata.parquet_schema().columns().iter().any(|column| column.physical_type() == PhysicalType::INT96);
        if !old_timestamps {
            return Ok(metadata);
        }
        let schema = Schema::new(metadata.schema().fields().iter().map(microseconds).collect::<Fields>());
        ArrowReaderMetadata::try_new(metadata.metadata().clone(), options.with_schema(Arc::new(schema)))
            .map_err(|error| self.unreadable(error))
    }

    fn columns(&self, projection: &[usize]) -> Result<Vec<Column>> {
        projection
            .iter()
            .map(|index| {
                let (Some(field), Some(annotated)) = (self.schema.arrow.fields().get(*index), self.schema.annotated.fields().get(*index))
                else {
                    return Err(Error::internal(format!("a read asks for column {index} of a table that has fewer")));
                };
                Ok(match self.schema.is_partition(field.name()) {
                    true => {
                        let name = self.schema.naming.physical(annotated);
                        Column::Partition { field: field.clone(), text: self.add.partition_values.get(name).cloned().flatten() }
                    }
                    false => Column::File { field: field.clone(), annotated: annotated.clone() },
                })
            })
            .collect()
    }

    fn convert(&self, batch: &RecordBatch, columns: &[Column], output: &SchemaRef) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let schema = batch.schema();
        let arrays: Vec<ArrayRef> = columns
            .iter()
            .map(|column| match column {
                Column::Partition { field, text } => partition::from_text(field.name(), text.as_deref(), field.data_type(), rows),
                Column::File { field, annotated } => {
                    let target = Target::column(field, annotated);
                    match self.schema.naming.find(schema.fields(), annotated) {
                        Some(index) => convert(batch.column(index), &target, self.schema.naming),
                        None => target.missing(rows),
                    }
                }
            })
            .collect::<Result<_>>()
            .map_err(|error| error.within(format!("file {}", self.label)))?;
        RecordBatch::try_new_with_options(output.clone(), arrays, &RecordBatchOptions::new().with_row_count(Some(rows)))
            .map_err(|error| Error::internal("rows of a Delta table do not fit its schema").caused_by(error))
    }

    fn unreadable(&self, error: ParquetError) -> Error {
        if is_missing(&error) {
            let path = decode_path(&self.add.path, ErrorKind::DataLost).unwrap_or_else(|_| self.add.path.clone());
            let message = format!(
                "file {path} referenced in the log of table {} cannot be found: it was removed by VACUUM or by hand before it was read. \
                 Restore it, or start a new checkpoint.",
                self.log.url()
            );
            return Error::new(ErrorKind::DataLost, "DELTA_FILE_NOT_FOUND_DETAILED", message).caused_by(error).with_sqlstate("42K03");
        }
        let kind = match &error {
            ParquetError::External(cause) if cause.is::<object_store::Error>() => self.log.kind(),
            _ => ErrorKind::BadRecord,
        };
        Error::new(kind, "DELTA_FILE_UNREADABLE", format!("file {} of table {} cannot be read", self.label, self.log.url()))
            .caused_by(error)
    }
}

fn is_missing(error: &ParquetError) -> bool {
    let ParquetError::External(cause) = error else { return false };
    matches!(cause.downcast_ref::<object_store::Error>(), Some(object_store::Error::NotFound { .. }))
}

impl Split for DeltaSplit {
    fn label(&self) -> &str {
        &self.label
    }

    fn size_bytes(&self) -> u64 {
        self.add.size
    }

    fn read(&self, context: ReadContext) -> BatchStream {
        futures::stream::once(self.clone().open(context)).try_flatten().boxed()
    }
}

/// A column to produce.
#[derive(Debug)]
enum Column {
    File { field: FieldRef, annotated: FieldRef },
    Partition { field: FieldRef, text: Option<String> },
}

impl Column {
    fn field(&self) -> &FieldRef {
        match self {
            Column::File { field, .. } | Column::Partition { field, .. } => field,
        }
    }
}

fn microseconds(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(microseconds).collect()),
        DataType::List(element) => DataType::List(microseconds(element)),
        DataType::Map(entries, sorted) => DataType::Map(microseconds(entries), *sorted),
        other => other.clone(),
    };
    Arc::new(Field::new(field.name(), data_type, field.is_nullable()).with_metadata(field.metadata().clone()))
}

/// The rows that are left when `deleted`, ascending, are taken out of `rows`.
fn selection(deleted: &[u64], rows: u64) -> RowSelection {
    let length = |from: u64, to: u64| usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
    let mut selectors = Vec::new();
    let mut next = 0;
    for row in deleted.iter().copied().filter(|row| *row < rows) {
        selectors.push(RowSelector::select(length(next, row)));
        selectors.push(RowSelector::skip(1));
        next = row + 1;
    }
    selectors.push(RowSelector::select(length(next, rows)));
    RowSelection::from(selectors)
}

/// The rows `wanted`, ascending, of `rows`.
fn chosen(wanted: &[u64], rows: u64) -> RowSelection {
    let length = |from: u64, to: u64| usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
    let mut selectors = Vec::new();
    let mut next = 0;
    for row in wanted.iter().copied().filter(|row| *row < rows) {
        selectors.push(RowSelector::skip(length(next, row)));
        selectors.push(RowSelector::select(1));
        next = row + 1;
    }
    selectors.push(RowSelector::skip(length(next, rows)));
    RowSelection::from(selectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_rows_are_the_only_ones() {
        assert_eq!(chosen(&[], 3).row_count(), 0);
        assert_eq!(chosen(&[0, 2, 9], 3).row_count(), 2);
    }

    #[test]
    fn deleted_rows_are_skipped_whatever_their_number() {
        assert_eq!(selection(&[], 3).row_count(), 3);
        assert_eq!(selection(&[0, 2], 3).row_count(), 1);
        assert_eq!(selection(&[0, 1, 2], 3).row_count(), 0);
        assert_eq!(selection(&[1, 99], 3).row_count(), 2);
    }
}
