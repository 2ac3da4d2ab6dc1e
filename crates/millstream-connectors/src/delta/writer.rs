//! Data files: rows of one task as parquet files, durable when [`DeltaPartWriter`] finishes and part of the table only after the commit.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{FieldRef, Fields, Schema, SchemaRef};
use arrow::row::{OwnedRow, RowConverter, SortField};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use millstream_core::sink::{Part, PartWriter};
use millstream_core::{Clock, Error, ErrorKind, Ids, Result, crash};
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::SchemaDescriptor;
use serde::{Deserialize, Serialize};

use super::actions::{Add, PartitionValues, encode_path};
use super::convert::{FieldNaming, Target, convert};
use super::log::TableLog;
use super::schema::{TableSchema, plain};
use super::stats::{self, NanColumns};
use super::{options::SinkOptions, partition};

/// The values of a partition, and which rows of a batch belong to it.
type Group = (Vec<Option<String>>, Vec<u32>);

/// Encoded bytes of a file that are held before they are uploaded in parts.
const UPLOAD_PART_BYTES: usize = 8 << 20;
/// Bytes of a row group in memory before it is closed.
const ROW_GROUP_BYTES: usize = 32 << 20;
/// Partitions that one task writes at the same time; beyond it the fullest file is finished early.
const OPEN_PARTITIONS: usize = 64;
/// Bytes in memory for all partitions of a task; beyond it the fullest file is finished early.
const OPEN_BYTES: usize = 64 << 20;
/// Files made durable at the same time.
const PARALLEL_UPLOADS: usize = 8;

/// What [`Part::staged`] holds for the Delta sink.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Staged {
    /// The partition columns under which the files were written.
    pub partition_by: Vec<String>,
    pub adds: Vec<Add>,
}

/// Everything about the files of one run that is the same for every batch: computed once per schema.
#[derive(Debug)]
pub(super) struct Layout {
    /// Positions in the rows, and targets, of the columns in the files.
    columns: Vec<(usize, FieldRef)>,
    /// Positions in the rows, and targets, of the partition columns.
    partitions: Vec<(usize, FieldRef)>,
    partition_by: Vec<String>,
    file_schema: SchemaRef,
    parquet_schema: SchemaDescriptor,
    properties: WriterProperties,
    suffix: &'static str,
    target_bytes: u64,
    stats_columns: usize,
    /// The folder inside the table, with a slash at its end, and how names of files begin.
    place: (&'static str, &'static str),
}

impl Layout {
    /// The layout of rows with schema `rows` in a table with schema `table`.
    ///
    /// # Errors
    /// `DELTA_NOT_NULL_CONSTRAINT_VIOLATED` when the rows lack a required column, `INVALID_PARTITION_COLUMN_DATA_TYPE`.
    pub(super) fn new(rows: &Schema, table: &TableSchema, options: &SinkOptions, stats_columns: usize) -> Result<Self> {
        let mut columns = Vec::new();
        let mut partitions: Vec<Option<(usize, FieldRef)>> = vec![None; table.partition_columns.len()];
        for field in table.arrow.fields() {
            let index = FieldNaming::AnyCase.find(rows.fields(), field);
            match (index, table.partition_columns.iter().position(|name| name == field.name())) {
                (Some(index), Some(position)) => {
                    partition::check_type(field.name(), field.data_type())?;
                    partitions[position] = Some((index, field.clone()));
                }
                (Some(index), None) => columns.push((index, plain(field))),
                (None, None) if field.is_nullable() => {}
                // Files may leave a nullable column out, but a partition column must be in the action.
                (None, Some(_)) => {
                    let message = format!("partition column '{}' of the table is missing in the rows: select it", field.name());
                    return Err(Error::new(ErrorKind::SchemaMismatch, "DELTA_MISSING_PARTITION_COLUMN", message).with_sqlstate("42KD6"));
                }
                (None, None) => return Err(super::convert::null_violation(field.name())),
            }
        }
        let Some(partitions) = partitions.into_iter().collect::<Option<Vec<_>>>() else {
            return Err(Error::new(
                ErrorKind::SchemaMismatch,
                "DELTA_MISSING_PARTITION_COLUMN",
                "the table's schema lacks one of its partition columns: repair the table",
            ));
        };
        let file_schema = Arc::new(Schema::new(columns.iter().map(|(_, field)| field.clone()).collect::<Fields>()));
        let parquet_schema = ArrowSchemaConverter::new()
            .with_coerce_types(true)
            .convert(&file_schema)
            .map_err(|error| Error::internal("the rows have no parquet schema").caused_by(error))?;
        let properties = WriterProperties::builder()
            .set_compression(options.compression)
            .set_coerce_types(true)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_statistics_truncate_length(Some(stats::TEXT_BYTES))
            .set_created_by(concat!("millstream version ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        Ok(Layout {
            columns,
            partitions,
            partition_by: table.partition_columns.clone(),
            file_schema,
            parquet_schema,
            properties,
            suffix: suffix(options.compression),
            target_bytes: options.target_file_size,
            stats_columns,
            place: ("", "part"),
        })
    }

    /// The same for files of changes.
    pub(super) fn of_changes(self) -> Self {
        Layout { place: ("_change_data/", "cdc"), ..self }
    }

    fn converted(rows: &RecordBatch, columns: &[(usize, FieldRef)]) -> Result<Vec<ArrayRef>> {
        columns
            .iter()
            .map(|(index, field)| {
                let Some(column) = rows.columns().get(*index) else {
                    return Err(Error::internal(format!("a batch lacks column '{}' of its schema", field.name())));
                };
                convert(column, &Target::column(field, field), FieldNaming::AnyCase)
            })
            .collect()
    }
}

fn suffix(compression: Compression) -> &'static str {
    match compression {
        Compression::SNAPPY => "c000.snappy.parquet",
        Compression::ZSTD(_) => "c000.zstd.parquet",
        Compression::GZIP(_) => "c000.gz.parquet",
        Compression::LZ4_RAW | Compression::LZ4 => "c000.lz4.parquet",
        _ => "c000.parquet",
    }
}

/// Writes one task's rows of one batch.
pub(super) struct DeltaPartWriter {
    log: TableLog,
    layout: Arc<Layout>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    partition: usize,
    converter: Option<RowConverter>,
    open: HashMap<Vec<Option<String>>, OpenFile>,
    done: Vec<Add>,
    rows: u64,
}

impl DeltaPartWriter {
    pub(super) fn new(log: TableLog, layout: Arc<Layout>, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>, partition: usize) -> Result<Self> {
        let sort = layout.partitions.iter().map(|(_, field)| SortField::new(field.data_type().clone())).collect::<Vec<_>>();
        let converter = match sort.is_empty() {
            true => None,
            false => {
                Some(RowConverter::new(sort).map_err(|error| Error::internal("partition columns cannot be compared").caused_by(error))?)
            }
        };
        Ok(DeltaPartWriter { log, layout, clock, ids, partition, converter, open: HashMap::new(), done: Vec::new(), rows: 0 })
    }

    async fn write_to(&mut self, values: Vec<Option<String>>, rows: &RecordBatch) -> Result<()> {
        if !self.open.contains_key(&values) {
            if self.open.len() >= OPEN_PARTITIONS {
                self.finish_fullest().await?;
            }
            let file = OpenFile::create(&self.layout, &values, self.partition, self.ids.as_ref())?;
            self.open.insert(values.clone(), file);
        }
        let Some(file) = self.open.get_mut(&values) else { return Err(Error::internal("a partition's file was lost")) };
        file.write(rows, &self.log).await?;
        if file.bytes() >= self.layout.target_bytes
            && let Some(file) = self.open.remove(&values)
        {
            self.done.push(file.finish(&self.log, &self.layout, self.clock.as_ref()).await?);
        }
        while self.open.len() > 1 && self.open.values().map(OpenFile::memory).sum::<usize>() > OPEN_BYTES {
            self.finish_fullest().await?;
        }
        Ok(())
    }

    async fn finish_fullest(&mut self) -> Result<()> {
        let fullest = self.open.iter().max_by_key(|(_, file)| file.memory()).map(|(key, _)| key.clone());
        if let Some(file) = fullest.and_then(|key| self.open.remove(&key)) {
            self.done.push(file.finish(&self.log, &self.layout, self.clock.as_ref()).await?);
        }
        Ok(())
    }

    /// The rows of each partition in a batch.
    fn groups(&mut self, columns: &[ArrayRef]) -> Result<Vec<Group>> {
        let Some(converter) = &self.converter else { return Ok(Vec::new()) };
        let keys =
            converter.convert_columns(columns).map_err(|error| Error::internal("partition columns cannot be compared").caused_by(error))?;
        let mut found: HashMap<OwnedRow, usize> = HashMap::new();
        let mut groups: Vec<Vec<u32>> = Vec::new();
        let mut last: Option<(usize, usize)> = None;
        for (index, key) in keys.iter().enumerate() {
            let group = match last {
                Some((row, group)) if keys.row(row) == key => group,
                _ => *found.entry(key.owned()).or_insert_with(|| {
                    groups.push(Vec::new());
                    groups.len() - 1
                }),
            };
            last = Some((index, group));
            if let (Some(rows), Ok(index)) = (groups.get_mut(group), u32::try_from(index)) {
                rows.push(index);
            }
        }
        groups
            .into_iter()
            .map(|rows| {
                let first = rows.first().map_or(0, |row| *row as usize);
                let values = self
                    .layout
                    .partitions
                    .iter()
                    .zip(columns)
                    .map(|((_, field), column)| partition::to_text(field.name(), column, first))
                    .collect::<Result<Vec<_>>>()?;
                Ok((values, rows))
            })
            .collect()
    }
}

fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    RecordBatch::try_new_with_options(schema.clone(), columns, &RecordBatchOptions::new().with_row_count(Some(rows)))
        .map_err(|error| Error::internal("converted rows do not fit their schema").caused_by(error))
}

#[async_trait]
impl PartWriter for DeltaPartWriter {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let layout = self.layout.clone();
        let columns = Layout::converted(&rows, &layout.columns)?;
        if layout.partitions.is_empty() {
            let rows = batch(&layout.file_schema, columns, rows.num_rows())?;
            self.write_to(Vec::new(), &rows).await?;
        } else {
            let keys = Layout::converted(&rows, &layout.partitions)?;
            let mut groups = self.groups(&keys)?;
            if let [(values, _)] = groups.as_mut_slice() {
                let values = std::mem::take(values);
                let rows = batch(&layout.file_schema, columns, rows.num_rows())?;
                self.write_to(values, &rows).await?;
            } else {
                for (values, indices) in groups {
                    let indices = UInt32Array::from(indices);
                    let taken = columns
                        .iter()
                        .map(|column| take(column, &indices, None))
                        .collect::<std::result::Result<Vec<_>, _>>()
                        .map_err(|error| Error::internal("rows of a partition cannot be taken").caused_by(error))?;
                    let rows = batch(&layout.file_schema, taken, indices.values().len())?;
                    self.write_to(values, &rows).await?;
                }
            }
        }
        self.rows += rows.num_rows() as u64;
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<Part> {
        crash::point("sink.data.before");
        let open: Vec<OpenFile> = self.open.drain().map(|(_, file)| file).collect();
        let (log, layout, clock) = (&self.log, &self.layout, self.clock.as_ref());
        let finished: Result<Vec<Add>> =
            futures::stream::iter(open).map(|file| file.finish(log, layout, clock)).buffer_unordered(PARALLEL_UPLOADS).try_collect().await;
        self.done.extend(finished?);
        self.done.sort_by(|left, right| left.path.cmp(&right.path));
        crash::point("sink.data.after");
        let staged = Staged { partition_by: self.layout.partition_by.clone(), adds: std::mem::take(&mut self.done) };
        let bytes = staged.adds.iter().map(|add| add.size).sum();
        let staged = serde_json::to_vec(&staged).map_err(|error| Error::internal("staged files do not serialise").caused_by(error))?;
        Ok(Part { rows: self.rows, bytes, staged: Bytes::from(staged) })
    }

    async fn abort(mut self: Box<Self>) {
        for (_, file) in self.open.drain() {
            file.abort().await;
        }
        delete(&self.log, &self.done).await;
    }
}

/// Removes files that never became part of the table. Best effort.
pub(super) async fn delete(log: &TableLog, adds: &[Add]) {
    for add in adds {
        let Ok((store, path)) = log.data_file(&add.path) else { continue };
        if let Err(error) = store.delete(&path).await {
            tracing::debug!(path = %path, %error, "a staged file stays behind until VACUUM");
        }
    }
}

/// A parquet file being written. Small ones are one put; larger ones go up in parts while they are written.
struct OpenFile {
    writer: ArrowWriter<Vec<u8>>,
    path: String,
    partition_values: PartitionValues,
    nans: NanColumns,
    upload: Option<Box<dyn MultipartUpload>>,
    uploaded: u64,
}

impl OpenFile {
    fn create(layout: &Layout, values: &[Option<String>], partition: usize, ids: &dyn Ids) -> Result<Self> {
        let named = || layout.partition_by.iter().map(String::as_str).zip(values);
        let (folder, kind) = layout.place;
        let mut path = folder.to_owned();
        let partitions = partition::folder(named().map(|(name, value)| (name, value.as_deref())));
        if !partitions.is_empty() {
            path.push_str(&partitions);
            path.push('/');
        }
        path.push_str(&format!("{kind}-{partition:05}-{}-{}", ids.next(), layout.suffix));
        let options = ArrowWriterOptions::new()
            .with_properties(layout.properties.clone())
            .with_skip_arrow_metadata(true)
            .with_parquet_schema(layout.parquet_schema.clone());
        let writer = ArrowWriter::try_new_with_options(Vec::new(), layout.file_schema.clone(), options).map_err(encoding)?;
        let partition_values = named().map(|(name, value)| (name.to_owned(), value.clone())).collect();
        Ok(OpenFile { writer, path, partition_values, nans: NanColumns::default(), upload: None, uploaded: 0 })
    }

    /// About how many bytes the file has so far.
    fn bytes(&self) -> u64 {
        self.uploaded + (self.writer.inner().len() + self.writer.in_progress_size()) as u64
    }

    /// Bytes that the file takes in memory.
    fn memory(&self) -> usize {
        self.writer.inner().len() + self.writer.memory_size()
    }

    async fn write(&mut self, rows: &RecordBatch, log: &TableLog) -> Result<()> {
        self.nans.look(rows.columns());
        self.writer.write(rows).map_err(encoding)?;
        if self.writer.memory_size() >= ROW_GROUP_BYTES {
            self.writer.flush().map_err(encoding)?;
        }
        if self.writer.inner().len() >= UPLOAD_PART_BYTES {
            self.upload_part(log).await?;
        }
        Ok(())
    }

    async fn upload_part(&mut self, log: &TableLog) -> Result<()> {
        let bytes = std::mem::take(self.writer.inner_mut());
        self.uploaded += bytes.len() as u64;
        let upload = match &mut self.upload {
            Some(upload) => upload,
            None => {
                let path = log.inside(&self.path)?;
                let upload =
                    log.store().put_multipart(&path).await.map_err(|error| log.unavailable(format!("cannot write {path}"), error))?;
                self.upload.insert(upload)
            }
        };
        upload.put_part(PutPayload::from(bytes)).await.map_err(|error| log.unavailable(format!("cannot write {}", self.path), error))
    }

    async fn finish(mut self, log: &TableLog, layout: &Layout, clock: &dyn Clock) -> Result<Add> {
        let metadata = self.writer.finish().map_err(encoding)?;
        let size = match self.upload.is_some() {
            false => {
                let bytes = std::mem::take(self.writer.inner_mut());
                let size = bytes.len() as u64;
                let path = log.inside(&self.path)?;
                let put = log.store().put(&path, PutPayload::from(bytes)).await;
                put.map_err(|error| log.unavailable(format!("cannot write {path}"), error))?;
                size
            }
            true => {
                self.upload_part(log).await?;
                if let Some(upload) = &mut self.upload {
                    upload.complete().await.map_err(|error| log.unavailable(format!("cannot finish {}", self.path), error))?;
                }
                self.uploaded
            }
        };
        Ok(Add {
            path: encode_path(&self.path),
            partition_values: self.partition_values,
            size,
            modification_time: clock.now_ms(),
            data_change: true,
            stats: Some(stats::of_file(&metadata, &layout.file_schema, &self.nans, layout.stats_columns)),
            tags: None,
            deletion_vector: None,
        })
    }

    async fn abort(mut self) {
        if let Some(upload) = &mut self.upload
            && let Err(error) = upload.abort().await
        {
            tracing::debug!(path = self.path, %error, "an upload was not aborted");
        }
    }
}

fn encoding(error: parquet::errors::ParquetError) -> Error {
    Error::internal("rows cannot be encoded as parquet").caused_by(error)
}

/// Columns that [`stats::of_file`] covers when the table does not say.
pub(super) const STATS_COLUMNS: usize = 32;

/// How many columns have statistics, by the table property `delta.dataSkippingNumIndexedCols` (-1 is all).
pub(super) fn stats_columns(property: Option<i64>) -> usize {
    match property {
        None => STATS_COLUMNS,
        Some(count) => usize::try_from(count).unwrap_or(usize::MAX),
    }
}
