//! Rows to and from a worker as Arrow streams.

use std::io::{self, Cursor};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StructArray};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use arrow_ipc::reader::StreamDecoder;
use millstream_core::{Error, Result};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::types::{retype, simple_name, wire_field};

/// What every message of an Arrow stream begins with.
const CONTINUATION: u32 = u32::MAX;

/// The longest message that is believed, bytes.
const LONGEST: i64 = 1 << 31;

/// Writes rows as an Arrow stream, piece by piece.
pub(crate) struct Encoder {
    writer: StreamWriter<Cursor<Vec<u8>>>,
    schema: SchemaRef,
}

impl Encoder {
    /// A stream of rows of a schema, which is one of [`sent_schema`].
    ///
    /// # Errors
    /// `INTERNAL_ERROR` when the schema does not encode.
    pub(crate) fn new(schema: &SchemaRef) -> Result<Self> {
        let writer = StreamWriter::try_new(Cursor::default(), schema).map_err(unencoded)?;
        Ok(Encoder { writer, schema: schema.clone() })
    }

    /// The bytes of more rows, after those of the schema the first time.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` when the columns are not those of the schema.
    pub(crate) fn rows(&mut self, columns: &[ArrayRef], rows: usize) -> Result<Vec<u8>> {
        let columns = columns.iter().zip(self.schema.fields()).map(|(column, field)| retype(column, field.data_type()));
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).map_err(unencoded)?;
        self.writer.write(&batch).map_err(unencoded)?;
        Ok(self.take())
    }

    /// The same for rows that are one structure to the worker.
    ///
    /// # Errors
    /// As [`Encoder::rows`].
    pub(crate) fn structs(&mut self, columns: &[ArrayRef], rows: usize) -> Result<Vec<u8>> {
        let Some(DataType::Struct(fields)) = self.schema.fields().first().map(|field| field.data_type().clone()) else {
            return Err(Error::internal("rows go into a structure that is none"));
        };
        let columns = columns.iter().zip(&fields).map(|(column, field)| retype(column, field.data_type()));
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let column = StructArray::try_new_with_length(fields, columns, None, rows).map_err(unencoded)?;
        self.rows(&[Arc::new(column)], rows)
    }

    /// The bytes of the end, after those of the schema if there were no rows.
    ///
    /// # Errors
    /// `INTERNAL_ERROR`.
    pub(crate) fn end(mut self) -> Result<Vec<u8>> {
        self.writer.finish().map_err(unencoded)?;
        Ok(self.take())
    }

    fn take(&mut self) -> Vec<u8> {
        let written = std::mem::take(self.writer.get_mut().get_mut());
        self.writer.get_mut().set_position(0);
        written
    }
}

fn unencoded(error: ArrowError) -> Error {
    Error::internal("rows for a Python function do not encode").caused_by(error)
}

/// The schema under which a worker is sent columns: Spark's names inside, instants in the session's zone, everything may be null.
pub(crate) fn sent_schema<'a>(fields: impl IntoIterator<Item = &'a Field>, time_zone: &str) -> SchemaRef {
    let fields = fields.into_iter().map(|field| wire_field(field, time_zone).with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The schema of rows that are one structure to the worker.
pub(crate) fn sent_struct(schema: &Schema) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("struct", DataType::Struct(schema.fields().clone()), false)]))
}

/// The columns of a worker's answer that is one structure.
///
/// # Errors
/// `INTERNAL_ERROR` for an answer that is none.
pub(crate) fn parts(answer: &RecordBatch) -> Result<&StructArray> {
    let column = answer.columns().first().and_then(|column| column.as_struct_opt());
    column.ok_or_else(|| Error::internal("a worker answers without a structure"))
}

/// Values of a worker as the types that its function has declared.
///
/// # Errors
/// `ARROW_TYPE_MISMATCH` for other values; `operation` says what the function was called for.
pub(crate) fn adopted(columns: &[ArrayRef], fields: &Fields, operation: &str) -> Result<Vec<ArrayRef>> {
    if columns.len() != fields.len() || !columns.iter().zip(fields).all(|(column, field)| same(column.data_type(), field.data_type())) {
        let shown = |types: Vec<&DataType>| types.iter().map(|kind| simple_name(kind)).collect::<Vec<_>>().join(", ");
        return Err(Error::invalid(
            "ARROW_TYPE_MISMATCH",
            format!(
                "Invalid schema from {operation}: expected {}, got {}.",
                shown(fields.iter().map(|field| field.data_type()).collect()),
                shown(columns.iter().map(|column| column.data_type()).collect())
            ),
        )
        .with_sqlstate("42K0G"));
    }
    columns.iter().zip(fields).map(|(column, field)| retype(column, field.data_type())).collect()
}

/// Whether two types hold the same values: they may differ in names, nullability, zones, and the width of offsets.
fn same(given: &DataType, declared: &DataType) -> bool {
    use DataType::{Binary, LargeBinary, LargeList, LargeUtf8, List, Map, Struct, Timestamp, Utf8};
    match (given, declared) {
        (Timestamp(TimeUnit::Microsecond, given), Timestamp(TimeUnit::Microsecond, declared)) => given.is_some() == declared.is_some(),
        (LargeUtf8, Utf8) | (LargeBinary, Binary) => true,
        (List(given) | LargeList(given), List(declared)) => same(given.data_type(), declared.data_type()),
        (Map(given, _), Map(declared, _)) => same(given.data_type(), declared.data_type()),
        (Struct(given), Struct(declared)) => {
            given.len() == declared.len()
                && given.iter().zip(declared).all(|(given, declared)| same(given.data_type(), declared.data_type()))
        }
        _ => given == declared,
    }
}

/// Reads an Arrow stream, to its end and not a byte further.
#[derive(Default)]
pub(super) struct Decoder(StreamDecoder);

impl Decoder {
    /// The next rows; `None` at the end.
    pub(super) async fn next(&mut self, from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<RecordBatch>> {
        while let Some(message) = read_message(from).await? {
            let mut bytes = Buffer::from(message);
            while !bytes.is_empty() {
                if let Some(batch) = self.0.decode(&mut bytes).map_err(io::Error::other)? {
                    return Ok(Some(batch));
                }
            }
        }
        Ok(None)
    }
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

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, Int64Array, LargeStringArray, StringArray};

    use super::*;

    fn stream(column: &ArrayRef, pieces: usize) -> Vec<u8> {
        let field = Field::new("v", column.data_type().clone(), true);
        let mut encoder = Encoder::new(&sent_schema([&field], "UTC")).unwrap();
        let mut bytes = Vec::new();
        for _ in 0..pieces {
            bytes.extend(encoder.rows(std::slice::from_ref(column), column.len()).unwrap());
        }
        bytes.extend(encoder.end().unwrap());
        bytes
    }

    #[tokio::test]
    async fn a_stream_is_read_to_its_end_and_no_further() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        for pieces in [0, 1, 2] {
            let mut bytes = stream(&column, pieces);
            bytes.extend_from_slice(b"next");
            let (mut from, mut decoder) = (bytes.as_slice(), Decoder::default());
            for _ in 0..pieces {
                assert_eq!(decoder.next(&mut from).await.unwrap().unwrap().column(0), &column);
            }
            assert_eq!(decoder.next(&mut from).await.unwrap(), None);
            assert_eq!(from, b"next");
        }
    }

    #[tokio::test]
    async fn a_stream_that_breaks_off_is_an_error() {
        let bytes = stream(&(Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef), 1);
        for length in [0, 3, 20, bytes.len() - 12] {
            let mut decoder = Decoder::default();
            let mut from = &bytes[..length];
            let failed = loop {
                match decoder.next(&mut from).await {
                    Ok(Some(_)) => {}
                    Ok(None) => break false,
                    Err(_) => break true,
                }
            };
            assert!(failed, "after {length} bytes");
        }
    }

    #[test]
    fn values_of_a_worker_must_be_of_the_declared_types() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
        let large: ArrayRef = Arc::new(LargeStringArray::from(vec!["x"]));
        let number: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        let fields = Fields::from(vec![Field::new("s", DataType::Utf8, true)]);
        for (given, fits) in [(&text, true), (&large, true), (&number, false)] {
            let adopted = adopted(std::slice::from_ref(given), &fields, "mapInArrow()");
            match adopted {
                Ok(columns) => assert!(fits && columns[0].as_ref() == text.as_ref(), "{given:?}"),
                Err(error) => assert!(!fits && error.code() == "ARROW_TYPE_MISMATCH", "{given:?}: {error}"),
            }
        }
        assert!(adopted(&[text.clone(), text], &fields, "mapInArrow()").is_err());
    }
}
