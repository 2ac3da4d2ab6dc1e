//! Rows as clients take them: Arrow's IPC streams of a few megabytes, one for each response.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatch, RecordBatchOptions, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use arrow_ipc::writer::StreamWriter;
use millstream_core::{Error, Result, raw_text};
use prost::bytes::Bytes;
use spark_connect_proto::execute_plan_response::ArrowBatch;

use crate::types::VARIANT;

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

/// A field as it is sent.
fn wire_field(field: &Field, time_zone: &str) -> Field {
    let mut data_type = wire_type(field.data_type(), time_zone);
    if field.metadata().contains_key(VARIANT)
        && let DataType::Struct(parts) = &data_type
    {
        // Clients tell a variant from a structure by this mark.
        let marked = parts.iter().map(|part| match part.name().as_str() {
            "metadata" => Arc::new(part.as_ref().clone().with_metadata([("variant".to_owned(), "true".to_owned())].into())),
            _ => part.clone(),
        });
        data_type = DataType::Struct(marked.collect());
    }
    Field::new(field.name(), data_type, field.is_nullable())
}

fn wire_type(data_type: &DataType, time_zone: &str) -> DataType {
    let wire = |field: &Field, name: &str| Arc::new(wire_field(field, time_zone).with_name(name));
    match data_type {
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => DataType::Timestamp(TimeUnit::Microsecond, Some(time_zone.into())),
        DataType::List(element) => DataType::List(wire(element, "element")),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| wire_field(field, time_zone)).collect()),
        DataType::Map(entries, sorted) => match entries.data_type() {
            DataType::Struct(pair) => {
                let names = ["key", "value"];
                let pair: Fields = pair.iter().zip(names).map(|(field, name)| wire(field, name)).collect();
                DataType::Map(Arc::new(Field::new("entries", DataType::Struct(pair), false)), *sorted)
            }
            _ => data_type.clone(),
        },
        other => other.clone(),
    }
}

/// Texts as they are shown: what Arrow takes for text has no bytes that are no UTF-8.
fn shown(array: &ArrayRef) -> ArrayRef {
    match array.as_string_opt::<i32>() {
        Some(texts) if raw_text::has_raw_bytes(texts.values()) => {
            Arc::new(texts.iter().map(|text| text.map(raw_text::shown)).collect::<StringArray>())
        }
        _ => array.clone(),
    }
}

/// The same values under a type that differs in names, nullability and time zones.
fn retype(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(shown(array));
    }
    match (array.data_type(), to) {
        (DataType::Timestamp(TimeUnit::Microsecond, _), DataType::Timestamp(TimeUnit::Microsecond, zone)) => {
            let instants = array.as_any().downcast_ref::<TimestampMicrosecondArray>().cloned();
            instants.map(|instants| Arc::new(instants.with_timezone_opt(zone.clone())) as ArrayRef)
        }
        (DataType::List(_), DataType::List(element)) => match array.as_any().downcast_ref::<ListArray>() {
            Some(list) => {
                let values = retype(list.values(), element.data_type())?;
                let element = relaxed(element, &values);
                Some(Arc::new(ListArray::try_new(element, list.offsets().clone(), values, list.nulls().cloned()).map_err(misfit)?)
                    as ArrayRef)
            }
            None => None,
        },
        (DataType::Struct(_), DataType::Struct(fields)) => match array.as_any().downcast_ref::<StructArray>() {
            Some(parts) if parts.num_columns() == fields.len() => Some(Arc::new(structure(parts, fields)?) as ArrayRef),
            _ => None,
        },
        (DataType::Map(..), DataType::Map(entries, sorted)) => match (array.as_any().downcast_ref::<MapArray>(), entries.data_type()) {
            (Some(map), DataType::Struct(fields)) => {
                let pairs = structure(map.entries(), fields)?;
                let entries = Arc::new(entries.as_ref().clone().with_data_type(pairs.data_type().clone()));
                let map = MapArray::try_new(entries, map.offsets().clone(), pairs, map.nulls().cloned(), *sorted).map_err(misfit)?;
                Some(Arc::new(map) as ArrayRef)
            }
            _ => None,
        },
        _ => None,
    }
    .map_or_else(|| arrow::compute::cast(array, to).map_err(misfit), Ok)
}

fn structure(parts: &StructArray, fields: &Fields) -> Result<StructArray> {
    let columns: Vec<ArrayRef> =
        parts.columns().iter().zip(fields).map(|(column, field)| retype(column, field.data_type())).collect::<Result<_>>()?;
    if columns.is_empty() {
        return Ok(StructArray::new_empty_fields(parts.len(), parts.nulls().cloned()));
    }
    let fields: Fields = fields.iter().zip(&columns).map(|(field, column)| relaxed(field, column)).collect();
    StructArray::try_new(fields, columns, parts.nulls().cloned()).map_err(misfit)
}

fn relaxed(field: &Arc<Field>, values: &ArrayRef) -> Arc<Field> {
    let field = if field.data_type() == values.data_type() {
        field.clone()
    } else {
        Arc::new(field.as_ref().clone().with_data_type(values.data_type().clone()))
    };
    match field.is_nullable() || values.null_count() == 0 {
        true => field,
        false => Arc::new(field.as_ref().clone().with_nullable(true)),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};
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
