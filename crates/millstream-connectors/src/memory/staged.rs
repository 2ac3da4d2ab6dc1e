//! Rows carried inside [`Part::staged`](millstream_core::sink::Part::staged), as an Arrow IPC stream, so that they may cross a network.

use std::io::Cursor;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use bytes::Bytes;
use millstream_core::{Error, Result};

/// The rows as bytes. Batches must have `schema`.
pub(crate) fn encode(schema: &Schema, batches: &[RecordBatch]) -> Result<Bytes> {
    let write = || -> Result<Vec<u8>, ArrowError> {
        let mut writer = StreamWriter::try_new(Vec::new(), schema)?;
        batches.iter().try_for_each(|batch| writer.write(batch))?;
        writer.into_inner()
    };
    write().map(Bytes::from).map_err(|error| Error::internal("rows for a sink in memory do not encode").caused_by(error))
}

/// The rows of [`encode`].
pub(crate) fn decode(staged: &Bytes) -> Result<Vec<RecordBatch>> {
    let read = || StreamReader::try_new(Cursor::new(staged), None)?.collect::<Result<Vec<_>, ArrowError>>();
    read().map_err(|error| Error::internal("staged rows of a sink in memory do not decode").caused_by(error))
}
