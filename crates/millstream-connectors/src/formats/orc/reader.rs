//! Reading the rows of an ORC file.

use std::io;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};
use futures::{FutureExt, Stream};
use millstream_core::source::{BatchStream, ReadContext};
use millstream_core::{Error, ErrorKind, Result};
use orc_rust::TimestampPrecision;
use orc_rust::arrow_reader::ArrowReaderBuilder;
use orc_rust::projection::ProjectionMask;
use orc_rust::reader::AsyncChunkReader;

use super::super::positioned::{Positioned, decode_error, guarded, unreadable};
use super::super::resolve::{Clash, Resolution, find};
use super::super::{FileReader, FileRef};
use super::types;

/// The largest part of a file that is read at once: a stream of one column in one stripe.
const MAX_PART_BYTES: u64 = 1 << 30;

/// Reads ORC files into one schema.
#[derive(Debug)]
pub(super) struct OrcReader {
    schema: SchemaRef,
}

impl OrcReader {
    pub(super) fn new(schema: SchemaRef) -> Self {
        OrcReader { schema }
    }
}

impl FileReader for OrcReader {
    fn read(&self, file: FileRef, context: ReadContext) -> BatchStream {
        let bound = match self.schema.project(&context.projection) {
            Ok(bound) => Arc::new(bound),
            Err(error) => {
                let error = Error::internal("the projection of an ORC read does not fit its schema").caused_by(error);
                return stream::once(async { Err(error) }).boxed();
            }
        };
        stream::once(open(file, bound, context.batch_size.max(1))).try_flatten().boxed()
    }
}

/// The columns of a file, as the decoder shows them.
pub(super) async fn columns_of(file: &FileRef) -> Result<SchemaRef> {
    Ok(builder(file, Positioned::open(file).await?).await?.schema())
}

async fn builder(file: &FileRef, open: Positioned) -> Result<ArrowReaderBuilder<Parts>> {
    let opened = std::panic::AssertUnwindSafe(ArrowReaderBuilder::try_new_async(Parts(open))).catch_unwind().await;
    match opened {
        Ok(Ok(builder)) => Ok(builder.with_timestamp_precision(TimestampPrecision::Microsecond)),
        Ok(Err(error)) => Err(decode_error(file, error)),
        Err(_) => Err(unreadable(file, "it is no ORC file, or its footer is damaged")),
    }
}

/// Opens a file; a stripe is read when the stream reaches it. A file without a single byte has no rows, as in Spark.
fn open(file: FileRef, bound: SchemaRef, batch_size: usize) -> BoxFuture<'static, Result<BatchStream>> {
    Box::pin(async move {
        let open = Positioned::open(&file).await?;
        if open.len() == 0 {
            return Ok(stream::empty().boxed());
        }
        let builder = builder(&file, open).await?;
        let columns = builder.schema();
        let root = builder.file_metadata().root_data_type();
        let mut wanted = Vec::new();
        for field in bound.fields() {
            if let Some(position) = find(columns.fields(), field.name()).map_err(|clash| mismatch(&file, &clash))? {
                wanted.extend(root.children().get(position).map(|column| column.data_type().column_index()));
            }
        }
        let mask = ProjectionMask::roots(root, wanted);
        let builder = builder.with_projection(mask).with_batch_size(batch_size);
        let resolution = Resolution::new(builder.schema().fields(), bound, types::rules).map_err(|clash| mismatch(&file, &clash))?;
        let rows = builder.file_metadata().number_of_rows();
        let batches = guarded(&file, || Ok(builder.build_async()))?;
        Ok(converted(file, batches, resolution, rows).boxed())
    })
}

/// Checks and converts what the decoder yields. A decoder that stops early has lost rows.
fn converted(
    file: FileRef,
    batches: impl Stream<Item = std::result::Result<RecordBatch, arrow::error::ArrowError>> + Send + Unpin + 'static,
    resolution: Resolution,
    rows: u64,
) -> impl Stream<Item = Result<RecordBatch>> + Send + 'static {
    stream::unfold(Some((batches, file, resolution, rows)), |state| async {
        let (mut batches, file, resolution, left) = state?;
        let next = std::panic::AssertUnwindSafe(batches.next()).catch_unwind().await;
        let batch = match next {
            Ok(Some(Ok(batch))) => batch,
            Ok(Some(Err(error))) => return Some((Err(decode_error(&file, error)), None)),
            Ok(None) if left > 0 => return Some((Err(unreadable(&file, format!("its last {left} rows are missing"))), None)),
            Ok(None) => return None,
            Err(_) => return Some((Err(unreadable(&file, "its decoder gave up")), None)),
        };
        let left = left.saturating_sub(batch.num_rows() as u64);
        match guarded(&file, || resolution.apply(&batch).map_err(|error| decode_error(&file, error))) {
            Ok(batch) => Some((Ok(batch), Some((batches, file, resolution, left)))),
            Err(error) => Some((Err(error), None)),
        }
    })
}

/// The parts of a file that the decoder asks for.
struct Parts(Positioned);

impl AsyncChunkReader for Parts {
    fn len(&mut self) -> BoxFuture<'_, io::Result<u64>> {
        let len = self.0.len();
        Box::pin(async move { Ok(len) })
    }

    fn get_bytes(&mut self, offset_from_start: u64, length: u64) -> BoxFuture<'_, io::Result<Bytes>> {
        Box::pin(async move {
            let end = offset_from_start.checked_add(length).filter(|end| *end <= self.0.len() && length <= MAX_PART_BYTES);
            match end {
                Some(end) => self.0.read(offset_from_start..end).await,
                None => {
                    Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("{length} bytes at {offset_from_start} are not in the file")))
                }
            }
        })
    }
}

fn mismatch(file: &FileRef, clash: &Clash) -> Error {
    let message = format!("file {} does not fit the schema: {clash}", file.url);
    Error::new(ErrorKind::SchemaMismatch, "FAILED_READ_FILE.NO_HINT", message).with_sqlstate("KD001")
}
