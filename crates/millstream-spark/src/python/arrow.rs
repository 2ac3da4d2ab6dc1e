//! Tasks whose rows go to a worker and come back as Arrow streams.

use std::io::{self, Cursor};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StructArray};
use arrow::buffer::Buffer;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use arrow_ipc::reader::StreamDecoder;
use futures::StreamExt;
use futures::stream::BoxStream;
use millstream_core::{Error, Result};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use super::protocol::{END_OF_STREAM, Message};
use super::task::{Answer, next_answer};
use super::worker::Worker;

/// What every message of an Arrow stream begins with.
const CONTINUATION: u32 = u32::MAX;

/// The longest message that is believed, bytes.
const LONGEST: i64 = 1 << 31;

/// Rows as a whole Arrow stream.
///
/// # Errors
/// `INTERNAL_ERROR` for rows that have not that schema.
pub(crate) fn encode(schema: &Schema, batches: &[RecordBatch]) -> Result<Vec<u8>> {
    let write = || -> Result<Vec<u8>, ArrowError> {
        let mut writer = StreamWriter::try_new(Vec::new(), schema)?;
        batches.iter().try_for_each(|batch| writer.write(batch))?;
        writer.into_inner()
    };
    write().map_err(|error| Error::internal("rows for a Python function do not encode").caused_by(error))
}

/// An Arrow stream that is written piece by piece.
pub(crate) struct Encoder(StreamWriter<Cursor<Vec<u8>>>);

impl Encoder {
    /// A stream of rows of this schema.
    ///
    /// # Errors
    /// As [`encode`].
    pub(crate) fn new(schema: &Schema) -> Result<Self> {
        StreamWriter::try_new(Cursor::default(), schema).map(Encoder).map_err(unencoded)
    }

    /// The bytes of more rows.
    ///
    /// # Errors
    /// As [`encode`].
    pub(crate) fn rows(&mut self, batch: &RecordBatch) -> Result<Vec<u8>> {
        self.0.write(batch).map_err(unencoded)?;
        Ok(self.take())
    }

    /// The bytes of the end.
    ///
    /// # Errors
    /// As [`encode`].
    pub(crate) fn end(mut self) -> Result<Vec<u8>> {
        self.0.finish().map_err(unencoded)?;
        Ok(self.take())
    }

    fn take(&mut self) -> Vec<u8> {
        let written = std::mem::take(self.0.get_mut().get_mut());
        self.0.get_mut().set_position(0);
        written
    }
}

fn unencoded(error: ArrowError) -> Error {
    Error::internal("rows for a Python function do not encode").caused_by(error)
}

impl Worker {
    /// Sends `input` and hands the rows of the answer to `output`, both at once. The input ends with the rows' own end; what ends the
    /// conversation is added. Returns the worker if it can be used again.
    ///
    /// # Errors
    /// `PYTHON_EXCEPTION`, `PYTHON_WORKER_LOST`, and those of the input.
    pub(crate) async fn converse(
        mut self,
        mut input: BoxStream<'static, Result<Vec<u8>>>,
        output: mpsc::Sender<Result<RecordBatch>>,
    ) -> Result<Option<Worker>> {
        let outcome = {
            let (mut from, mut to) = tokio::io::split(self.stream());
            let send = async {
                while let Some(piece) = input.next().await {
                    to.write_all(&piece?).await.map_err(Broken::Connection)?;
                }
                let mut end = Message::default();
                end.int(END_OF_STREAM);
                end.send(&mut to).await.map_err(Broken::Connection)
            };
            let receive = async {
                loop {
                    match next_answer(&mut from).await.map_err(Broken::Connection)?? {
                        Answer::ArrowStream => receive_rows(&mut from, &output).await?,
                        Answer::End(reusable) => return Ok(reusable),
                        Answer::Piece(_) => return Err(Broken::Error(Error::internal("a worker answers Arrow with something else"))),
                    }
                }
            };
            both(send, receive).await
        };
        match outcome {
            Ok(reusable) => Ok(reusable.then_some(self)),
            Err(Broken::Error(error)) => Err(error),
            Err(Broken::Connection(error)) => Err(self.lost(error)),
        }
    }
}

/// Why a conversation ends early.
enum Broken {
    Connection(io::Error),
    Error(Error),
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Broken::Error(error)
    }
}

/// Sends and receives at once. What is received decides: a worker whose function failed says so, and takes no more input.
async fn both(send: impl Future<Output = Result<(), Broken>>, receive: impl Future<Output = Result<bool, Broken>>) -> Result<bool, Broken> {
    let (mut send, mut receive) = (std::pin::pin!(send), std::pin::pin!(receive));
    let sent = tokio::select! {
        received = &mut receive => return received,
        sent = &mut send => sent,
    };
    match sent {
        Err(Broken::Error(error)) => Err(Broken::Error(error)),
        Err(Broken::Connection(error)) => match receive.await {
            Err(Broken::Error(error)) => Err(Broken::Error(error)),
            _ => Err(Broken::Connection(error)),
        },
        Ok(()) => receive.await,
    }
}

/// Reads one Arrow stream to its end and not a byte further.
async fn receive_rows(from: &mut (impl AsyncRead + Unpin), output: &mpsc::Sender<Result<RecordBatch>>) -> Result<(), Broken> {
    let mut decoder = StreamDecoder::new();
    while let Some(message) = read_message(from).await.map_err(Broken::Connection)? {
        let mut bytes = Buffer::from(message);
        while !bytes.is_empty() {
            let decoded = decoder.decode(&mut bytes).map_err(|error| Broken::Connection(io::Error::other(error)))?;
            if let Some(batch) = decoded
                && output.send(Ok(batch)).await.is_err()
            {
                return Err(Broken::Error(Error::cancelled()));
            }
        }
    }
    Ok(())
}

/// One message of a stream with everything that belongs to it; `None` at the end.
async fn read_message(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("an Arrow message {what}"));
    let mut message = Vec::new();
    let mut size = from.read_u32_le().await?;
    if size == CONTINUATION {
        message.extend_from_slice(&size.to_le_bytes());
        size = from.read_u32_le().await?;
    }
    if size == 0 {
        return Ok(None);
    }
    message.extend_from_slice(&size.to_le_bytes());
    let head = message.len();
    if from.take(size.into()).read_to_end(&mut message).await? as u64 != u64::from(size) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let header = message.get(head..).unwrap_or_default();
    let body = arrow_ipc::root_as_message(header).map_err(|error| wrong(&format!("cannot be read: {error}")))?.bodyLength();
    let body = u64::try_from(body).ok().filter(|_| body <= LONGEST).ok_or_else(|| wrong("has an impossible length"))?;
    if from.take(body).read_to_end(&mut message).await? as u64 != body {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(message))
}

/// Rows in the one struct column in which workers take and give whole frames.
pub(crate) fn wrapped(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let column = StructArray::try_new_with_length(rows.schema().fields().clone(), rows.columns().to_vec(), None, rows.num_rows());
    column
        .and_then(|column| RecordBatch::try_new(schema.clone(), vec![Arc::new(column)]))
        .map_err(|error| Error::internal("rows do not go into a struct").caused_by(error))
}

/// The schema of [`wrapped`] rows.
pub(crate) fn wrapping(fields: &Fields) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("struct", DataType::Struct(fields.clone()), false)]))
}

/// The rows of a worker's answer, cast to the columns that its function has declared.
///
/// # Errors
/// `PYTHON_RESULT_MISMATCH` when there are others.
pub(crate) fn unwrapped(answer: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let column = answer.columns().first().and_then(|column| column.as_any().downcast_ref::<StructArray>());
    let column = column.ok_or_else(|| mismatch("no frame"))?;
    if column.num_columns() != schema.fields().len() {
        return Err(mismatch(&format!("{} columns instead of {}", column.num_columns(), schema.fields().len())));
    }
    let columns = column.columns().iter().zip(schema.fields()).map(|(column, field)| adapted(column, field.data_type()));
    let options = RecordBatchOptions::new().with_row_count(Some(answer.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns.collect::<Result<Vec<_>>>()?, &options)
        .map_err(|error| mismatch(&error.to_string()))
}

/// Values of a worker as the type that its function has declared: it may have other widths of offsets, other units and zones.
///
/// # Errors
/// `PYTHON_RESULT_MISMATCH`.
pub(crate) fn adapted(values: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    if values.data_type() == target {
        return Ok(values.clone());
    }
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(values, target, &strict).map_err(|error| mismatch(&error.to_string()))
}

fn mismatch(what: &str) -> Error {
    Error::invalid("PYTHON_RESULT_MISMATCH", format!("a Python function returned something else than it has declared: {what}"))
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;

    #[tokio::test]
    async fn a_stream_is_read_to_its_end_and_no_further() {
        let rows = RecordBatch::try_from_iter([("v", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)]).unwrap();
        let mut bytes = encode(&rows.schema(), &[rows.clone(), rows.clone()]).unwrap();
        bytes.extend_from_slice(b"next");
        let (sender, mut receiver) = mpsc::channel(10);
        let mut from = bytes.as_slice();
        assert!(receive_rows(&mut from, &sender).await.is_ok());
        drop(sender);
        assert_eq!(from, b"next");
        for _ in 0..2 {
            assert_eq!(receiver.recv().await.unwrap().unwrap(), rows);
        }
        assert!(receiver.recv().await.is_none());
    }

    #[test]
    fn pieces_of_a_stream_are_the_whole() {
        let rows = RecordBatch::try_from_iter([("v", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)]).unwrap();
        let mut encoder = Encoder::new(&rows.schema()).unwrap();
        let mut bytes = encoder.rows(&rows).unwrap();
        bytes.extend(encoder.rows(&rows).unwrap());
        bytes.extend(encoder.end().unwrap());
        assert_eq!(bytes, encode(&rows.schema(), &[rows.clone(), rows]).unwrap());
    }

    #[test]
    fn frames_go_into_a_struct_and_back() {
        let rows = RecordBatch::try_from_iter([("v", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)]).unwrap();
        let wrapped = wrapped(&rows, &wrapping(rows.schema().fields())).unwrap();
        assert_eq!(unwrapped(&wrapped, &rows.schema()).unwrap(), rows);
        let two = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Int64, true)]));
        assert_eq!(unwrapped(&wrapped, &two).unwrap_err().code(), "PYTHON_RESULT_MISMATCH");
    }
}
