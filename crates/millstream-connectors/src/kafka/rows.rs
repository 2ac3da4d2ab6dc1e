//! Records as Arrow columns, with Spark's schema. Bytes are copied once: from the client's buffer into the column.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, Int32Array, Int64Array, ListBuilder, RecordBatch, RecordBatchOptions, StringArray, StringBuilder,
    StructBuilder, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use millstream_core::quarantine::{BadRecord, Quarantine};
use millstream_core::{Error, ErrorKind, Result};
use rdkafka::message::{Headers, Message, Timestamp};

use super::positions::TopicPartition;

/// About how many bytes a batch may have: the offsets of a column have 32 bits.
const MAX_BYTES: usize = 64 << 20;

/// The schema of the rows.
pub(super) fn schema(include_headers: bool) -> SchemaRef {
    let mut fields = vec![
        Field::new("key", DataType::Binary, true),
        Field::new("value", DataType::Binary, true),
        Field::new("topic", DataType::Utf8, true),
        Field::new("partition", DataType::Int32, true),
        Field::new("offset", DataType::Int64, true),
        Field::new("timestamp", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
        Field::new("timestampType", DataType::Int32, true),
    ];
    if include_headers {
        fields.push(Field::new("headers", DataType::List(header_item()), true));
    }
    Arc::new(Schema::new(fields))
}

fn header_fields() -> Fields {
    Fields::from(vec![Field::new("key", DataType::Utf8, true), Field::new("value", DataType::Binary, true)])
}

fn header_item() -> Arc<Field> {
    Arc::new(Field::new_list_field(DataType::Struct(header_fields()), true))
}

/// Collects records of one partition into columns.
pub(super) struct Rows {
    partition: TopicPartition,
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
    capacity: usize,
}

/// A column of the schema that is asked for, by its name.
enum Column {
    Key(BinaryBuilder),
    Value(BinaryBuilder),
    Topic,
    Partition,
    Offset(Vec<i64>),
    Timestamp(Vec<i64>),
    TimestampType(Vec<i32>),
    Headers(ListBuilder<StructBuilder>),
}

impl Rows {
    /// Batches of about `capacity` rows with these columns of `schema`.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` for a column that is not there.
    pub(super) fn new(partition: TopicPartition, schema: &SchemaRef, projection: &[usize], capacity: usize) -> Result<Self> {
        let capacity = capacity.max(1);
        let schema = schema.project(projection).map_err(|error| Error::internal("a projection names no column").caused_by(error))?;
        let columns = schema.fields().iter().map(|field| Column::new(field.name(), capacity)).collect();
        Ok(Rows { partition, schema: Arc::new(schema), columns, rows: 0, bytes: 0, capacity })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows >= self.capacity || self.bytes >= MAX_BYTES
    }

    /// Takes a record.
    ///
    /// # Errors
    /// `KAFKA_MALFORMED_RECORD_TIMESTAMP` for a time that does not fit.
    pub(super) fn push(&mut self, record: &impl Message, quarantine: &dyn Quarantine) -> Result<()> {
        let (key, value) = (record.key(), record.payload());
        for column in &mut self.columns {
            match column {
                Column::Key(keys) => {
                    self.bytes += key.map_or(0, <[u8]>::len);
                    keys.append_option(key);
                }
                Column::Value(values) => {
                    self.bytes += value.map_or(0, <[u8]>::len);
                    values.append_option(value);
                }
                Column::Topic | Column::Partition => {}
                Column::Offset(offsets) => offsets.push(record.offset()),
                Column::Timestamp(times) => times.push(micros(record)?),
                Column::TimestampType(types) => types.push(match record.timestamp() {
                    Timestamp::LogAppendTime(_) => 1,
                    Timestamp::CreateTime(_) | Timestamp::NotAvailable => 0,
                }),
                Column::Headers(lists) => self.bytes += push_headers(lists, record, quarantine),
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// The rows so far, and begins anew.
    ///
    /// # Errors
    /// `INTERNAL_ERROR`.
    pub(super) fn take(&mut self) -> Result<RecordBatch> {
        let (rows, partition) = (std::mem::take(&mut self.rows), &self.partition);
        self.bytes = 0;
        let columns = self.columns.iter_mut().map(|column| column.finish(rows, partition)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(|error| Error::internal("records do not fit their schema").caused_by(error))
    }
}

impl Column {
    fn new(name: &str, capacity: usize) -> Self {
        match name {
            "key" => Column::Key(BinaryBuilder::with_capacity(capacity, 0)),
            "value" => Column::Value(BinaryBuilder::with_capacity(capacity, 0)),
            "topic" => Column::Topic,
            "partition" => Column::Partition,
            "offset" => Column::Offset(Vec::with_capacity(capacity)),
            "timestamp" => Column::Timestamp(Vec::with_capacity(capacity)),
            "timestampType" => Column::TimestampType(Vec::with_capacity(capacity)),
            _ => Column::Headers(ListBuilder::new(StructBuilder::from_fields(header_fields(), 0)).with_field(header_item())),
        }
    }

    fn finish(&mut self, rows: usize, partition: &TopicPartition) -> ArrayRef {
        let topic = partition.topic.as_ref();
        match self {
            Column::Key(values) | Column::Value(values) => Arc::new(values.finish()),
            Column::Topic => Arc::new(StringArray::from_iter_values(std::iter::repeat_n(topic, rows))),
            Column::Partition => Arc::new(Int32Array::from_value(partition.partition, rows)),
            Column::Offset(values) => Arc::new(Int64Array::from(std::mem::take(values))),
            Column::Timestamp(values) => Arc::new(TimestampMicrosecondArray::from(std::mem::take(values)).with_timezone("UTC")),
            Column::TimestampType(values) => Arc::new(Int32Array::from(std::mem::take(values))),
            Column::Headers(values) => Arc::new(values.finish()),
        }
    }
}

/// The time of a record. A record without one has time -1, as in the Java client.
fn micros(record: &impl Message) -> Result<i64> {
    let ms = match record.timestamp() {
        Timestamp::NotAvailable => -1,
        Timestamp::CreateTime(ms) | Timestamp::LogAppendTime(ms) => ms,
    };
    ms.checked_mul(1000).ok_or_else(|| {
        let place = format!("topic {} partition {} offset {}", record.topic(), record.partition(), record.offset());
        Error::new(
            ErrorKind::BadRecord,
            "KAFKA_MALFORMED_RECORD_TIMESTAMP",
            format!(
                "Record at {place} has timestamp value {ms}, which does not fit into microseconds. Timestamps of Kafka are milliseconds: \
                 correct the producer, or start the query behind the record."
            ),
        )
        .with_sqlstate("22008")
    })
}

/// Appends the headers of a record, null when it has none, and returns their size.
fn push_headers(lists: &mut ListBuilder<StructBuilder>, record: &impl Message, quarantine: &dyn Quarantine) -> usize {
    let Some(headers) = record.headers().filter(|headers| headers.count() > 0) else {
        lists.append(false);
        return 0;
    };
    let mut size = 0;
    let mut complete = true;
    for index in 0..headers.count() {
        // The client's library panics over a name that is not UTF-8. Nothing is changed before it does.
        let read = catch_unwind(AssertUnwindSafe(|| headers.try_get(index)));
        let (name, value) = match &read {
            Ok(Some(header)) => (Some(header.key), header.value),
            Ok(None) | Err(_) => {
                complete = false;
                (None, None)
            }
        };
        size += name.map_or(0, str::len) + value.map_or(0, <[u8]>::len);
        let item = lists.values();
        if let Some(names) = item.field_builder::<StringBuilder>(0) {
            names.append_option(name);
        }
        if let Some(values) = item.field_builder::<BinaryBuilder>(1) {
            values.append_option(value);
        }
        item.append(true);
    }
    lists.append(true);
    if !complete {
        quarantine.put(BadRecord {
            raw: record.payload().map(|value| String::from_utf8_lossy(value.get(..BadRecord::MAX_RAW_BYTES).unwrap_or(value)).into_owned()),
            origin: format!("{}-{}", record.topic(), record.partition()),
            position: u64::try_from(record.offset()).ok(),
            length: record.payload().map(|value| value.len() as u64),
            reason: "UNREADABLE_HEADER".to_owned(),
            detail: "a header has a name that is not UTF-8: the row has null in its place".to_owned(),
        });
    }
    size
}
