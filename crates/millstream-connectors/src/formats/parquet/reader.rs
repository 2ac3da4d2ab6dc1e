//! Reading the rows of a Parquet file.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Fields, SchemaRef};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use millstream_core::source::{BatchStream, ReadContext};
use millstream_core::{Error, ErrorKind, Result};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::arrow::async_reader::{AsyncFileReader, ParquetRecordBatchStreamBuilder};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;

use super::super::positioned::{Positioned, decode_error, guarded, unreadable};
use super::super::resolve::{Clash, Resolution, entries, find};
use super::super::{FileReader, FileRef};
use super::{footer, types};

/// About how many bytes the rows of a batch may have once they are decoded.
const BATCH_BYTES: u64 = 16 << 20;

/// Reads Parquet files into one schema.
#[derive(Debug)]
pub(super) struct ParquetReader {
    schema: SchemaRef,
}

impl ParquetReader {
    pub(super) fn new(schema: SchemaRef) -> Self {
        ParquetReader { schema }
    }
}

impl FileReader for ParquetReader {
    fn read(&self, file: FileRef, context: ReadContext) -> BatchStream {
        let bound = match self.schema.project(&context.projection) {
            Ok(bound) => Arc::new(bound),
            Err(error) => {
                let error = Error::internal("the projection of a Parquet read does not fit its schema").caused_by(error);
                return stream::once(async { Err(error) }).boxed();
            }
        };
        stream::once(open(file, bound, context.batch_size.max(1))).try_flatten().boxed()
    }
}

/// Opens a file; rows are decoded as the stream is polled. A file without a single byte has no rows, as in Spark.
fn open(file: FileRef, bound: SchemaRef, batch_size: usize) -> BoxFuture<'static, Result<BatchStream>> {
    Box::pin(async move {
        let open = Positioned::open(&file).await?;
        if open.len() == 0 {
            return Ok(stream::empty().boxed());
        }
        let metadata = footer::read(&file, &open).await?;
        let leaves = wanted_leaves(&metadata, &bound).map_err(|clash| mismatch(&file, &clash))?;
        let batch_size = rows_per_batch(metadata.metadata(), &leaves, batch_size);
        let mask = ProjectionMask::leaves(metadata.parquet_schema(), leaves);
        let (read_schema, batches) = match &open {
            Positioned::Local { file: local, .. } => local_batches(&file, local, metadata, mask, batch_size)?,
            Positioned::Remote { .. } => remote_batches(&file, open, metadata, mask, batch_size)?,
        };
        let resolution = Resolution::new(read_schema.fields(), bound, types::rules).map_err(|clash| mismatch(&file, &clash))?;
        let convert = move |batch: RecordBatch| guarded(&file, || resolution.apply(&batch).map_err(|error| does_not_fit(&file, error)));
        Ok(batches.map(move |batch| batch.and_then(&convert)).boxed())
    })
}

/// How many rows a batch gets: fewer than `most` where rows are wide. Columns that say how long their decoded strings are tell it even where
/// a dictionary makes them small in the file.
fn rows_per_batch(metadata: &ParquetMetaData, leaves: &[usize], most: usize) -> usize {
    let widths = metadata.row_groups().iter().map(|group| {
        let columns = leaves.iter().filter_map(|leaf| group.columns().get(*leaf));
        let sizes = columns.map(|column| column.uncompressed_size().max(column.unencoded_byte_array_data_bytes().unwrap_or(0)));
        let bytes = sizes.map(|size| u64::try_from(size).unwrap_or(0)).fold(0, u64::saturating_add);
        bytes / u64::try_from(group.num_rows()).unwrap_or(0).max(1)
    });
    let rows = BATCH_BYTES / widths.max().unwrap_or(0).max(1);
    usize::try_from(rows).unwrap_or(most).clamp(1, most)
}

type Batches = (SchemaRef, BoxStream<'static, Result<RecordBatch>>);

/// Page by page from a local file: what is in memory is a page per column and one batch.
fn local_batches(
    file: &FileRef,
    local: &std::fs::File,
    metadata: ArrowReaderMetadata,
    mask: ProjectionMask,
    batch_size: usize,
) -> Result<Batches> {
    let local = local.try_clone().map_err(|error| decode_error(file, error))?;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(local, metadata).with_projection(mask).with_batch_size(batch_size);
    let reader = guarded(file, || builder.build().map_err(|error| decode_error(file, error)))?;
    let schema = arrow::array::RecordBatchReader::schema(&reader);
    let state = Some((reader, file.clone()));
    let batches = stream::unfold(state, |state| async {
        let (mut reader, file) = state?;
        match guarded(&file, || reader.next().transpose().map_err(|error| decode_error(&file, error))) {
            Ok(batch) => batch.map(|batch| (Ok(batch), Some((reader, file)))),
            Err(error) => Some((Err(error), None)),
        }
    });
    Ok((schema, batches.boxed()))
}

/// Row group by row group from an object store: the projected columns of one are in memory.
fn remote_batches(
    file: &FileRef,
    open: Positioned,
    metadata: ArrowReaderMetadata,
    mask: ProjectionMask,
    batch_size: usize,
) -> Result<Batches> {
    let reader = Parts { open, metadata: metadata.metadata().clone() };
    let builder = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, metadata).with_projection(mask).with_batch_size(batch_size);
    let stream = guarded(file, || builder.build().map_err(|error| decode_error(file, error)))?;
    let schema = stream.schema().clone();
    let batches = stream::unfold(Some((stream, file.clone())), |state| async {
        let (mut stream, file) = state?;
        let step = std::panic::AssertUnwindSafe(stream.next()).catch_unwind().await;
        match step {
            Ok(Some(Ok(batch))) => Some((Ok(batch), Some((stream, file)))),
            Ok(Some(Err(error))) => Some((Err(decode_error(&file, error)), None)),
            Ok(None) => None,
            Err(_) => Some((Err(unreadable(&file, "its decoder gave up")), None)),
        }
    });
    Ok((schema, batches.boxed()))
}

/// The parts of an object that the decoder asks for.
struct Parts {
    open: Positioned,
    metadata: Arc<ParquetMetaData>,
}

impl AsyncFileReader for Parts {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, ParquetError>> {
        async move { self.open.read(range).await.map_err(|error| ParquetError::External(Box::new(error))) }.boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>, ParquetError>> {
        async move { self.open.read_parts(&ranges).await.map_err(|error| ParquetError::External(Box::new(error))) }.boxed()
    }

    fn get_metadata<'a>(&'a mut self, _: Option<&'a ArrowReaderOptions>) -> BoxFuture<'a, Result<Arc<ParquetMetaData>, ParquetError>> {
        let metadata = self.metadata.clone();
        async move { Ok(metadata) }.boxed()
    }
}

/// The leaves of the file that the bound columns need. A struct none of whose fields is in the file needs one, which tells where the
/// struct itself is null.
fn wanted_leaves(metadata: &ArrowReaderMetadata, bound: &SchemaRef) -> Result<Vec<usize>, Clash> {
    let file = metadata.schema().fields();
    let starts = leaf_starts(file, 0);
    let mut leaves = Vec::new();
    for field in bound.fields() {
        if let Some(position) = find(file, field.name())? {
            add_leaves(file[position].data_type(), field.data_type(), starts[position], &mut leaves)?;
        }
    }
    Ok(leaves)
}

fn add_leaves(file: &DataType, bound: &DataType, start: usize, leaves: &mut Vec<usize>) -> Result<(), Clash> {
    match (file, bound) {
        (DataType::Struct(from), DataType::Struct(to)) => {
            let starts = leaf_starts(from, start);
            let before = leaves.len();
            for field in to {
                if let Some(position) = find(from, field.name())? {
                    add_leaves(from[position].data_type(), field.data_type(), starts[position], leaves)?;
                }
            }
            if leaves.len() == before {
                leaves.push(cheapest_leaf(from, start));
            }
        }
        (DataType::List(from), DataType::List(to)) => add_leaves(from.data_type(), to.data_type(), start, leaves)?,
        (DataType::Map(from, _), DataType::Map(to, _)) => match (entries(from), entries(to)) {
            (Some((from_key, from_value)), Some((to_key, to_value))) => {
                add_leaves(from_key.data_type(), to_key.data_type(), start, leaves)?;
                add_leaves(from_value.data_type(), to_value.data_type(), start + leaf_count(from_key.data_type()), leaves)?;
            }
            _ => leaves.extend(start..start + leaf_count(file)),
        },
        // Whatever else it is, resolving it will say whether it fits.
        _ => leaves.extend(start..start + leaf_count(file)),
    }
    Ok(())
}

/// A leaf of fixed width outside lists and maps if there is one, otherwise the first.
fn cheapest_leaf(fields: &Fields, start: usize) -> usize {
    let starts = leaf_starts(fields, start);
    fields.iter().zip(starts).find(|(field, _)| field.data_type().is_primitive()).map_or(start, |(_, leaf)| leaf)
}

fn leaf_starts(fields: &Fields, start: usize) -> Vec<usize> {
    let mut next = start;
    fields
        .iter()
        .map(|field| {
            let start = next;
            next += leaf_count(field.data_type());
            start
        })
        .collect()
}

fn leaf_count(kind: &DataType) -> usize {
    match kind {
        DataType::Struct(fields) => fields.iter().map(|field| leaf_count(field.data_type())).sum(),
        DataType::List(field) | DataType::Map(field, _) => leaf_count(field.data_type()),
        _ => 1,
    }
}

fn mismatch(file: &FileRef, clash: &Clash) -> Error {
    let code = match clash {
        Clash::Type { .. } => "FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH",
        Clash::Shape { .. } | Clash::Ambiguous { .. } => "FAILED_READ_FILE.NO_HINT",
    };
    let message = format!("file {} does not fit the schema: {clash}", file.url);
    Error::new(ErrorKind::SchemaMismatch, code, message).with_sqlstate("KD001")
}

fn does_not_fit(file: &FileRef, error: arrow::error::ArrowError) -> Error {
    let message = format!("file {} has a value that does not fit its column's type", file.url);
    Error::new(ErrorKind::SchemaMismatch, "FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH", message)
        .with_sqlstate("KD001")
        .caused_by(error)
}
