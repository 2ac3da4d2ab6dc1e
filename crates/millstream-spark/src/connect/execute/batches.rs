//! Rows as clients take them: Arrow's IPC streams of a few megabytes, one for each response.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Fields, Schema, SchemaRef};
use arrow_ipc::writer::StreamWriter;
use millstream_core::{Error, Result};
use prost::bytes::Bytes;
use spark_connect_proto::execute_plan_response::ArrowBatch;

use crate::types::{retype, wire_field};

/// About how large a record batch is sent, bytes.
pub(super) const BATCH_BYTES: usize = 4 << 20;

/// The smallest piece that a client may ask for, bytes.
pub(super) const LEAST_CHUNK: usize = 1 << 10;

/// Encodes the rows of one result, one batch after the other.
#[derive(Debug)]
pub(super) struct Batches {
    schema: SchemaRef,
    /// Rows encoded so far.
    offset: i64,
}

impl Batches {
    /// For rows whose columns are `fields` to the client. Instants are sent in the session's time zone.
    pub(super) fn new(fields: &Fields, time_zone: &str) -> Self {
        let fields: Fields = fields.iter().map(|field| wire_field(field, time_zone)).collect();
        Batches { schema: Arc::new(Schema::new(fields)), offset: 0 }
    }

    /// Whether anything was encoded. A result has at least one batch.
    pub(super) fn is_empty(&self) -> bool {
        self.offset == 0
    }

    /// Rows encoded so far.
    pub(super) fn rows(&self) -> i64 {
        self.offset
    }

    /// A batch without rows, which tells the columns.
    ///
    /// # Errors
    /// Those of the encoding.
    pub(super) fn nothing(&mut self) -> Result<ArrowBatch> {
        self.encode(&RecordBatch::new_empty(self.schema.clone()))
    }

    /// The responses for some rows: several if they are many bytes.
    ///
    /// # Errors
    /// Those of the encoding.
    pub(super) fn split(&mut self, rows: &RecordBatch) -> Result<Vec<ArrowBatch>> {
        let rows = self.convert(rows)?;
        let mut encoded = Vec::new();
        let mut start = 0;
        let per_piece = rows_per_piece(&rows);
        while start < rows.num_rows() {
            let length = per_piece.min(rows.num_rows() - start);
            encoded.push(self.encode(&rows.slice(start, length))?);
            start += length;
        }
        Ok(encoded)
    }

    fn convert(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        if rows.num_columns() != self.schema.fields().len() {
            return Err(Error::internal(format!("a result has {} columns and not {}", rows.num_columns(), self.schema.fields().len())));
        }
        let columns: Vec<ArrayRef> = rows
            .columns()
            .iter()
            .zip(self.schema.fields())
            .map(|(column, field)| retype(column, field.data_type()))
            .collect::<Result<_>>()?;
        // A column that is not to have nulls and has some is sent as it is.
        let fields: Vec<Field> = self
            .schema
            .fields()
            .iter()
            .zip(&columns)
            .map(|(field, column)| field.as_ref().clone().with_nullable(field.is_nullable() || column.null_count() > 0))
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).map_err(misfit)
    }

    fn encode(&mut self, rows: &RecordBatch) -> Result<ArrowBatch> {
        let write = || {
            let mut writer = StreamWriter::try_new(Vec::new(), rows.schema_ref())?;
            writer.write(rows)?;
            writer.into_inner()
        };
        let data = write().map_err(|error| Error::internal("rows do not encode").caused_by(error))?;
        let row_count = i64::try_from(rows.num_rows()).unwrap_or(i64::MAX);
        let batch = ArrowBatch {
            row_count,
            data: Bytes::from(data),
            start_offset: Some(self.offset),
            chunk_index: None,
            num_chunks_in_batch: None,
        };
        self.offset += row_count;
        Ok(batch)
    }
}

/// Cuts an encoded batch into pieces of `size` bytes, for clients that put them together again.
pub(super) fn chunks(batch: ArrowBatch, size: usize) -> Vec<ArrowBatch> {
    let count = batch.data.len().div_ceil(size.max(1)).max(1);
    let piece = |index: usize| {
        let start = (index * size).min(batch.data.len());
        let stop = (start + size).min(batch.data.len());
        ArrowBatch {
            data: batch.data.slice(start..stop),
            chunk_index: i64::try_from(index).ok(),
            num_chunks_in_batch: i64::try_from(count).ok(),
            ..batch.clone()
        }
    };
    (0..count).map(piece).collect()
}

/// How many rows are about [`BATCH_BYTES`] bytes.
fn rows_per_piece(rows: &RecordBatch) -> usize {
    let bytes: usize = rows.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or(0)).sum();
    match rows.num_rows() {
        0 => 1,
        count => (BATCH_BYTES / (bytes / count).max(1)).max(1),
    }
}

fn misfit(error: arrow::error::ArrowError) -> Error {
    Error::internal("a result does not have the types of its plan").caused_by(error)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray, StructArray, TimestampMicrosecondArray};
    use arrow::datatypes::{DataType, TimeUnit};
    use arrow_ipc::reader::StreamReader;

    use super::*;

    fn read(batch: &ArrowBatch) -> RecordBatch {
        let mut reader = StreamReader::try_new(batch.data.as_ref(), None).unwrap();
        reader.next().unwrap().unwrap()
    }

    #[test]
    fn large_results_come_in_pieces_with_their_offsets() {
        let text = "x".repeat(1 << 10);
        let rows = RecordBatch::try_from_iter([("s", Arc::new(StringArray::from(vec![text.as_str(); 10_000])) as ArrayRef)]).unwrap();
        let mut batches = Batches::new(rows.schema().fields(), "UTC");
        let pieces = batches.split(&rows).unwrap();
        assert!(pieces.len() > 1 && pieces.iter().all(|piece| piece.data.len() < BATCH_BYTES * 5 / 4));
        let mut offset = 0;
        for piece in &pieces {
            assert_eq!(piece.start_offset, Some(offset));
            assert_eq!(i64::try_from(read(piece).num_rows()).unwrap(), piece.row_count);
            offset += piece.row_count;
        }
        assert_eq!((offset, batches.rows()), (10_000, 10_000));
    }

    #[test]
    fn names_and_zones_are_those_of_the_client() {
        let inner = Fields::from(vec![Field::new("#1", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), false)]);
        let instants: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![Some(1), None]).with_timezone("UTC"));
        let parts = StructArray::try_new(Fields::from(vec![Field::new("#1", instants.data_type().clone(), true)]), vec![instants], None);
        let rows = RecordBatch::try_from_iter([("#9", Arc::new(parts.unwrap()) as ArrayRef)]).unwrap();
        let named = Field::new("t", inner[0].data_type().clone(), true);
        let fields = Fields::from(vec![Field::new("s", DataType::Struct(Fields::from(vec![named])), false)]);
        let sent = read(&Batches::new(&fields, "Europe/Paris").split(&rows).unwrap()[0]);
        let DataType::Struct(parts) = sent.schema().field(0).data_type().clone() else { panic!("a structure") };
        assert_eq!((sent.schema().field(0).name().as_str(), parts[0].name().as_str()), ("s", "t"));
        assert_eq!(parts[0].data_type(), &DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Paris".into())));
    }

    #[test]
    fn a_result_without_columns_keeps_its_rows() {
        let options = RecordBatchOptions::new().with_row_count(Some(3));
        let rows = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
        let mut batches = Batches::new(&Fields::empty(), "UTC");
        assert!(batches.is_empty());
        assert_eq!(batches.split(&rows).unwrap()[0].row_count, 3);
    }

    #[test]
    fn chunks_put_together_are_the_batch() {
        let rows = RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from_iter_values(0..1_000)) as ArrayRef)]).unwrap();
        let batch = Batches::new(rows.schema().fields(), "UTC").split(&rows).unwrap().remove(0);
        let pieces = chunks(batch.clone(), 1_000);
        assert_eq!(pieces.len(), batch.data.len().div_ceil(1_000));
        let together: Vec<u8> = pieces.iter().flat_map(|piece| piece.data.to_vec()).collect();
        assert_eq!(together, batch.data);
        assert!(pieces.iter().enumerate().all(|(index, piece)| piece.chunk_index == i64::try_from(index).ok()));
    }
}
