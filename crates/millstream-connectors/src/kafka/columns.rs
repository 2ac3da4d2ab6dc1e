//! Rows as records: which columns are key, value, headers, topic and partition.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int32Array, ListArray, RecordBatch, StringArray, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Int32Type, Schema, SchemaRef};
use millstream_core::{Error, ErrorKind, Result};
use rdkafka::message::{Header, OwnedHeaders};

/// The columns of rows that make a record, bound to a schema.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    /// Places of the columns in the rows, with the fields that staged rows have.
    places: Vec<(usize, FieldRef)>,
    /// The schema of staged rows: some of topic, key, value, headers, partition, under these names.
    pub(super) schema: SchemaRef,
}

const UNSUPPORTED: &str = "_LEGACY_ERROR_TEMP_3080";

impl Columns {
    /// Finds the columns, by their exact names. A topic of the sink goes before a column.
    ///
    /// # Errors
    /// `_LEGACY_ERROR_TEMP_3080` for a column that is missing or has another type.
    pub(super) fn bind(rows: &Schema, has_topic: bool) -> Result<Self> {
        let find = |name: &str| rows.fields().iter().position(|field| field.name() == name);
        let mut places = Vec::new();
        let mut bind = |name: &str, kind: DataType, accepts: &dyn Fn(&DataType) -> bool, wanted: &str| -> Result<bool> {
            let Some(place) = find(name) else { return Ok(false) };
            let given = rows.field(place).data_type();
            if !accepts(given) {
                let message = format!("{name} attribute unsupported type {}. {name} must be a(n) {wanted}", type_name(given));
                return Err(Error::invalid(UNSUPPORTED, message));
            }
            places.push((place, Arc::new(Field::new(name, kind, true))));
            Ok(true)
        };
        if !has_topic && !bind("topic", DataType::Utf8, &is_text, "string")? {
            let message = "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic.";
            return Err(Error::invalid(UNSUPPORTED, message));
        }
        bind("key", DataType::Binary, &is_bytes, "string or binary")?;
        if !bind("value", DataType::Binary, &is_bytes, "string or binary")? {
            return Err(Error::invalid(
                UNSUPPORTED,
                "Required attribute 'value' not found: name the column that has the value of a record",
            ));
        }
        bind("headers", header_type(), &is_headers, "array<struct<key:string,value:binary>>")?;
        bind("partition", DataType::Int32, &|kind| *kind == DataType::Int32, "int")?;
        let schema = Arc::new(Schema::new(places.iter().map(|(_, field)| field.clone()).collect::<Fields>()));
        Ok(Columns { places, schema })
    }

    /// The columns of a record, in the types that [`Records`] reads.
    ///
    /// # Errors
    /// `KAFKA_NULL_TOPIC_IN_DATA` for a row without a topic.
    pub(super) fn of(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.places.len());
        for (place, field) in &self.places {
            let column = rows.columns().get(*place).ok_or_else(|| Error::internal("rows lack a column of their schema"))?;
            if field.name() == "topic" && column.null_count() > 0 {
                let message = "The Kafka message data sent to the producer contains a null topic. Use the `topic` option for setting a default topic.";
                return Err(Error::new(ErrorKind::BadRecord, "KAFKA_NULL_TOPIC_IN_DATA", message));
            }
            let column = if column.data_type() == field.data_type() { column.clone() } else { converted(column, field)? };
            columns.push(column);
        }
        RecordBatch::try_new(self.schema.clone(), columns).map_err(|error| Error::internal("rows do not become records").caused_by(error))
    }
}

fn converted(column: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    cast(column, field.data_type())
        .map_err(|error| Error::internal(format!("column {} does not become part of a record", field.name())).caused_by(error))
}

fn is_text(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_bytes(kind: &DataType) -> bool {
    is_text(kind) || matches!(kind, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

fn is_headers(kind: &DataType) -> bool {
    let (DataType::List(item) | DataType::LargeList(item)) = kind else { return false };
    let DataType::Struct(fields) = item.data_type() else { return false };
    match fields.iter().as_slice() {
        [key, value] => {
            let binary = matches!(value.data_type(), DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
            key.name() == "key" && value.name() == "value" && is_text(key.data_type()) && binary
        }
        _ => false,
    }
}

fn header_type() -> DataType {
    let fields = Fields::from(vec![Field::new("key", DataType::Utf8, true), Field::new("value", DataType::Binary, true)]);
    DataType::List(Arc::new(Field::new_list_field(DataType::Struct(fields), true)))
}

/// The name of a type in SQL, as messages of Spark have it.
fn type_name(kind: &DataType) -> String {
    let name = match kind {
        DataType::Boolean => "boolean",
        DataType::Int8 => "tinyint",
        DataType::Int16 => "smallint",
        DataType::Int32 => "int",
        DataType::Int64 => "bigint",
        DataType::Float32 => "float",
        DataType::Float64 => "double",
        DataType::Null => "void",
        DataType::Date32 => "date",
        DataType::Timestamp(_, Some(_)) => "timestamp",
        DataType::Timestamp(_, None) => "timestamp_ntz",
        kind if is_text(kind) => "string",
        kind if is_bytes(kind) => "binary",
        DataType::Decimal128(precision, scale) => return format!("decimal({precision},{scale})"),
        DataType::List(item) | DataType::LargeList(item) => return format!("array<{}>", type_name(item.data_type())),
        DataType::Struct(fields) => {
            let fields: Vec<String> = fields.iter().map(|field| format!("{}:{}", field.name(), type_name(field.data_type()))).collect();
            return format!("struct<{}>", fields.join(","));
        }
        DataType::Map(entries, _) => {
            let types: Vec<String> = match entries.data_type() {
                DataType::Struct(fields) => fields.iter().map(|field| type_name(field.data_type())).collect(),
                _ => Vec::new(),
            };
            return format!("map<{}>", types.join(","));
        }
        other => return other.to_string(),
    };
    name.to_owned()
}

/// Staged rows, read as records.
#[derive(Debug)]
pub(super) struct Records<'a> {
    topics: Option<&'a StringArray>,
    keys: Option<&'a BinaryArray>,
    values: Option<&'a BinaryArray>,
    headers: Option<&'a ListArray>,
    partitions: Option<&'a Int32Array>,
}

/// One record to send.
pub(super) struct Outgoing<'a> {
    pub(super) topic: Option<&'a str>,
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    pub(super) partition: Option<i32>,
}

impl<'a> Records<'a> {
    /// The records of rows that [`Columns::of`] made.
    pub(super) fn of(rows: &'a RecordBatch) -> Self {
        let column = |name: &str| rows.column_by_name(name);
        Records {
            topics: column("topic").and_then(|column| column.as_string_opt()),
            keys: column("key").and_then(|column| column.as_binary_opt()),
            values: column("value").and_then(|column| column.as_binary_opt()),
            headers: column("headers").and_then(|column| column.as_list_opt()),
            partitions: column("partition").and_then(|column| column.as_primitive_opt::<Int32Type>()),
        }
    }

    /// The record of a row.
    pub(super) fn get(&self, row: usize) -> Outgoing<'a> {
        let bytes = |array: Option<&'a BinaryArray>| array.filter(|array| array.is_valid(row)).map(|array| array.value(row));
        Outgoing {
            topic: self.topics.filter(|topics| topics.is_valid(row)).map(|topics| topics.value(row)),
            key: bytes(self.keys),
            value: bytes(self.values),
            partition: self.partitions.filter(|partitions| partitions.is_valid(row)).map(|partitions| partitions.value(row)),
        }
    }

    /// The headers of a row, after those of the sink.
    pub(super) fn headers(&self, row: usize, own: Option<(&str, &str)>) -> Option<OwnedHeaders> {
        let listed = self.headers.filter(|headers| headers.is_valid(row)).map(|headers| headers.value(row));
        let listed = listed.as_ref().and_then(|items| items.as_any().downcast_ref::<StructArray>());
        if listed.is_none_or(|items| items.is_empty()) && own.is_none() {
            return None;
        }
        let mut headers = OwnedHeaders::new();
        if let Some((name, value)) = own {
            headers = headers.insert(Header { key: name, value: Some(value) });
        }
        let Some(items) = listed else { return Some(headers) };
        let (names, values) = (items.column(0).as_string_opt::<i32>(), items.column(1).as_binary_opt::<i32>());
        let (Some(names), Some(values)) = (names, values) else { return Some(headers) };
        for item in (0..items.len()).filter(|item| items.is_valid(*item)) {
            let name = if names.is_valid(item) { names.value(item) } else { "" };
            headers = headers.insert(Header { key: name, value: values.is_valid(item).then(|| values.value(item)) });
        }
        Some(headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(fields: &[(&str, DataType)], has_topic: bool) -> Result<Vec<String>> {
        let schema = Schema::new(fields.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true)).collect::<Vec<_>>());
        Columns::bind(&schema, has_topic).map(|columns| columns.schema.fields().iter().map(|field| field.name().clone()).collect())
    }

    /// Conditions and words recorded from Spark 4.2.
    #[test]
    fn columns_are_refused_as_in_spark() {
        let text = || ("value", DataType::Utf8);
        let list = DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true)));
        type Case<'a> = (&'a [(&'a str, DataType)], bool, &'a str);
        let cases: [Case<'_>; 9] = [
            (&[text()], false, "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."),
            (&[("key", DataType::Utf8)], true, "Required attribute 'value' not found"),
            (&[("Value", DataType::Utf8)], true, "Required attribute 'value' not found"),
            (&[("value", DataType::Int32)], true, "value attribute unsupported type int. value must be a(n) string or binary"),
            (&[("key", list), text()], true, "key attribute unsupported type array<int>. key must be a(n) string or binary"),
            (&[("topic", DataType::Int32), text()], false, "topic attribute unsupported type int. topic must be a(n) string"),
            (&[("partition", DataType::Utf8), text()], true, "partition attribute unsupported type string. partition must be a(n) int"),
            (&[("partition", DataType::Int64), text()], true, "partition attribute unsupported type bigint. partition must be a(n) int"),
            (
                &[("headers", DataType::Utf8), text()],
                true,
                "headers attribute unsupported type string. headers must be a(n) array<struct<key:string,value:binary>>",
            ),
        ];
        for (fields, has_topic, message) in cases {
            let error = bind(fields, has_topic).unwrap_err();
            assert_eq!(error.code(), UNSUPPORTED);
            assert!(error.message().starts_with(message), "{error}");
        }
    }

    #[test]
    fn a_topic_of_the_sink_goes_before_a_column_whatever_its_type() {
        assert_eq!(bind(&[("topic", DataType::Int32), ("value", DataType::Binary)], true).unwrap(), ["value"]);
        let all = [
            ("other", DataType::Int32),
            ("headers", header_type()),
            ("value", DataType::Utf8View),
            ("topic", DataType::Utf8),
            ("partition", DataType::Int32),
            ("key", DataType::LargeBinary),
        ];
        assert_eq!(bind(&all, false).unwrap(), ["topic", "key", "value", "headers", "partition"]);
    }

    #[test]
    fn a_row_becomes_a_record() {
        let schema = Arc::new(Schema::new(vec![
            Field::new("value", DataType::Utf8, true),
            Field::new("topic", DataType::Utf8, true),
            Field::new("partition", DataType::Int32, true),
        ]));
        let columns = Columns::bind(&schema, false).unwrap();
        let rows = |topics: Vec<Option<&str>>| {
            let values = StringArray::from(vec![Some("v"), None]);
            let partitions = Int32Array::from(vec![None, Some(3)]);
            RecordBatch::try_new(schema.clone(), vec![Arc::new(values), Arc::new(StringArray::from(topics)), Arc::new(partitions)]).unwrap()
        };
        let staged = columns.of(&rows(vec![Some("a"), Some("b")])).unwrap();
        let records = Records::of(&staged);
        let (first, second) = (records.get(0), records.get(1));
        assert_eq!((first.topic, first.value, first.key, first.partition), (Some("a"), Some(&b"v"[..]), None, None));
        assert_eq!((second.topic, second.value, second.partition), (Some("b"), None, Some(3)));
        assert!(records.headers(0, None).is_none());
        assert_eq!(columns.of(&rows(vec![Some("a"), None])).unwrap_err().code(), "KAFKA_NULL_TOPIC_IN_DATA");
    }
}
