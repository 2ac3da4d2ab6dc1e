//! Local relations: rows that the client sends with the plan.

use std::io::Cursor;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema};
use arrow_ipc::reader::StreamReader;
use datafusion::datasource::MemTable;
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::LocalRelation;

use super::read::scan;
use super::relation::{Analyzer, Node};
use crate::types;

impl Analyzer<'_> {
    pub(super) fn local_relation(&self, local: &LocalRelation) -> Result<Node> {
        let data: Vec<&[u8]> = local.data.iter().map(AsRef::as_ref).collect();
        self.local_rows(&data, local.schema.as_deref())
    }

    /// Rows from Arrow IPC streams, under a schema if there is one.
    pub(super) fn local_rows(&self, data: &[&[u8]], schema: Option<&str>) -> Result<Node> {
        let wanted = schema.filter(|text| !text.trim().is_empty()).map(parse_schema).transpose()?;
        let mut sent: Option<Arc<Schema>> = None;
        let mut batches: Vec<RecordBatch> = Vec::new();
        for part in data.iter().filter(|part| !part.is_empty()) {
            let reader = StreamReader::try_new(Cursor::new(*part), None).map_err(|error| undecodable(&error))?;
            sent.get_or_insert_with(|| reader.schema());
            for batch in reader {
                batches.push(batch.map_err(|error| undecodable(&error))?);
            }
        }
        let schema = match (wanted, sent) {
            (Some(schema), _) => schema,
            (None, Some(sent)) => Schema::new(sent.fields().iter().map(|field| canonical(field)).collect::<Vec<_>>()),
            (None, None) => {
                return Err(Error::invalid("INVALID_PLAN_INPUT", "a local relation has neither data nor a schema").with_sqlstate("42000"));
            }
        };
        let schema = Arc::new(schema);
        let batches = batches.into_iter().map(|batch| conformed(&batch, &schema)).collect::<Result<Vec<_>>>()?;
        let table = MemTable::try_new(schema, vec![batches]).map_err(from_datafusion)?;
        scan(Arc::new(table), &["local".to_owned()]).map(unqualified)
    }
}

fn unqualified(mut node: Node) -> Node {
    for column in &mut node.columns {
        column.qualifier.clear();
    }
    node
}

/// A schema as DDL or JSON.
pub(super) fn parse_schema(text: &str) -> Result<Schema> {
    if text.trim_start().starts_with('{') { types::schema_from_json(text) } else { types::parse_schema(text) }
}

fn undecodable(error: &arrow::error::ArrowError) -> Error {
    Error::invalid("INVALID_PLAN_INPUT", format!("the data of a local relation is not an Arrow stream: {error}")).with_sqlstate("42000")
}

/// The field under the type that Spark's type has here.
fn canonical(field: &Field) -> Field {
    use arrow::datatypes::{IntervalUnit, TimeUnit};
    let inner = |field: &Arc<Field>, name: &str| Arc::new(canonical(field).with_name(name));
    let data_type = match field.data_type() {
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => DataType::Binary,
        DataType::Timestamp(_, Some(_)) => types::timestamp(),
        DataType::Timestamp(_, None) => DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Date64 => DataType::Date32,
        DataType::Duration(_) => DataType::Duration(TimeUnit::Microsecond),
        DataType::Interval(IntervalUnit::DayTime) => DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Float16 => DataType::Float32,
        DataType::Dictionary(_, value) => canonical(&Field::new("", value.as_ref().clone(), true)).data_type().clone(),
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            DataType::List(inner(element, "element"))
        }
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| Arc::new(canonical(field))).collect()),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) => match pair.as_ref() {
                [key, value] => types::map_of(canonical(key).with_name("key"), canonical(value).with_name("value")),
                _ => field.data_type().clone(),
            },
            _ => field.data_type().clone(),
        },
        other => other.clone(),
    };
    field.clone().with_data_type(data_type)
}

/// The rows under the names and types of a schema; columns are matched by their place.
fn conformed(batch: &RecordBatch, schema: &Arc<Schema>) -> Result<RecordBatch> {
    if batch.num_columns() != schema.fields().len() {
        return Err(Error::invalid(
            "INVALID_PLAN_INPUT",
            format!("the data of a local relation has {} columns and its schema {}", batch.num_columns(), schema.fields().len()),
        )
        .with_sqlstate("42000"));
    }
    let columns =
        batch.columns().iter().zip(schema.fields()).map(|(column, field)| converted(column, field)).collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(|error| {
        Error::invalid("INVALID_PLAN_INPUT", "the data of a local relation does not fit its schema").with_sqlstate("42000").caused_by(error)
    })
}

fn converted(column: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    if column.data_type() == field.data_type() {
        return Ok(column.clone());
    }
    if *column.data_type() == DataType::Null {
        return Ok(new_null_array(field.data_type(), column.len()));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(column, field.data_type(), &options).map_err(|error| {
        Error::invalid(
            "INVALID_PLAN_INPUT",
            format!("the column `{}` of a local relation is not a {}", field.name(), types::simple_name(field.data_type())),
        )
        .with_sqlstate("42000")
        .caused_by(error)
    })
}
