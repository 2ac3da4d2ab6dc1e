//! The few arrow types that writers have to know: every other type is cast to the one of these that Spark means by it.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, Schema, SchemaRef, TimeUnit};
use millstream_core::{Error, ErrorKind, Result};

/// The type that writers see for values of `data_type`, or `None` where Spark has no such type.
pub(crate) fn canonical(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Null
        | DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Float32
        | DataType::Float64
        | DataType::Date32
        | DataType::Utf8
        | DataType::Binary
        | DataType::Interval(IntervalUnit::YearMonth)
        | DataType::Decimal128(_, _) => data_type.clone(),
        DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Float16 => DataType::Float32,
        DataType::Date64 => DataType::Date32,
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => DataType::Binary,
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.as_ref().map(|_| "UTC".into())),
        DataType::Duration(_) => DataType::Duration(TimeUnit::Microsecond),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => DataType::Decimal128(*precision, *scale),
        DataType::Decimal256(precision, scale) if *precision <= 38 => DataType::Decimal128(*precision, *scale),
        DataType::Dictionary(_, values) => canonical(values)?,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => {
            DataType::List(Arc::new(Field::new("element", canonical(item.data_type())?, item.is_nullable())))
        }
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(canonical_field).collect::<Option<Vec<_>>>()?.into()),
        DataType::Map(entries, _) => {
            let DataType::Struct(pair) = entries.data_type() else { return None };
            let [key, value] = pair.as_ref() else { return None };
            let key = Field::new("key", canonical(key.data_type())?, false);
            let value = Field::new("value", canonical(value.data_type())?, value.is_nullable());
            DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(vec![key, value].into()), false)), false)
        }
        _ => return None,
    })
}

fn canonical_field(field: &FieldRef) -> Option<FieldRef> {
    Some(Arc::new(Field::new(field.name(), canonical(field.data_type())?, field.is_nullable())))
}

/// The schema that writers see.
///
/// # Errors
/// `UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE`, naming the first column whose type Spark does not have.
pub(crate) fn canonical_schema(format: &str, schema: &Schema) -> Result<SchemaRef> {
    let fields = schema.fields().iter().map(|field| canonical_field(field).ok_or_else(|| unsupported(format, field)));
    Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<_>>>()?)))
}

/// The error for a column whose type a format does not write.
pub(crate) fn unsupported(format: &str, field: &Field) -> Error {
    Error::new(
        ErrorKind::Invalid,
        "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE",
        format!(
            "The {format} datasource doesn't support the column `{}` of the type \"{}\": leave it out or cast it.",
            field.name(),
            sql_type(field.data_type())
        ),
    )
    .with_sqlstate("0A000")
}

/// The batch with the canonical schema.
///
/// # Errors
/// `DATA_TYPE_CONVERSION_FAILED` when a value does not fit, such as a nanosecond timestamp beyond the years of microseconds.
pub(crate) fn canonical_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| canonical_column(column, field.data_type()));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(|error| {
        Error::new(ErrorKind::SchemaMismatch, "SINK_SCHEMA_MISMATCH", "rows do not fit the sink's schema").caused_by(error)
    })
}

/// One column, cast to a canonical type.
///
/// # Errors
/// As [`canonical_batch`].
pub(crate) fn canonical_column(column: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if column.data_type() == data_type {
        return Ok(column.clone());
    }
    cast(column, data_type).map_err(|error| {
        let what = format!("a column of the type {} does not convert to {}", sql_type(column.data_type()), sql_type(data_type));
        Error::new(ErrorKind::SchemaMismatch, "DATA_TYPE_CONVERSION_FAILED", what).caused_by(error)
    })
}

/// The name that Spark SQL gives to a type.
pub(crate) fn sql_type(data_type: &DataType) -> String {
    let field = |field: &FieldRef| {
        format!("{}: {}{}", field.name(), sql_type(field.data_type()), if field.is_nullable() { "" } else { " NOT NULL" })
    };
    match data_type {
        DataType::Null => "VOID".to_owned(),
        DataType::Boolean => "BOOLEAN".to_owned(),
        DataType::Int8 => "TINYINT".to_owned(),
        DataType::Int16 => "SMALLINT".to_owned(),
        DataType::Int32 => "INT".to_owned(),
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::Float32 => "FLOAT".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Date32 | DataType::Date64 => "DATE".to_owned(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "STRING".to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "BINARY".to_owned(),
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP".to_owned(),
        DataType::Timestamp(_, None) => "TIMESTAMP_NTZ".to_owned(),
        DataType::Duration(_) => "INTERVAL DAY TO SECOND".to_owned(),
        DataType::Interval(IntervalUnit::YearMonth) => "INTERVAL YEAR TO MONTH".to_owned(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision},{scale})"),
        DataType::List(item) => format!("ARRAY<{}>", sql_type(item.data_type())),
        DataType::Struct(fields) => format!("STRUCT<{}>", fields.iter().map(field).collect::<Vec<_>>().join(", ")),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) => {
                format!("MAP<{}>", pair.iter().map(|field| sql_type(field.data_type())).collect::<Vec<_>>().join(", "))
            }
            other => sql_type(other),
        },
        other => other.to_string().to_uppercase(),
    }
}
