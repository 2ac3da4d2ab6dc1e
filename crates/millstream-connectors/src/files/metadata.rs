//! The hidden `_metadata` column: facts about the file that each row came from.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray, StructArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Fields, SchemaRef, TimeUnit};
use millstream_core::{Error, Result};

use super::listing::FileStatus;
use super::uri;

/// The column's name.
pub const METADATA_COLUMN: &str = "_metadata";

/// The key in a field's metadata that marks a hidden column: one that `SELECT *` leaves out. Its value is the column's logical name.
pub const HIDDEN_COLUMN_KEY: &str = "__metadata_col";

/// Whether a field of a source's schema is hidden from `SELECT *`.
pub fn is_hidden(field: &Field) -> bool {
    field.metadata().contains_key(HIDDEN_COLUMN_KEY)
}

/// The `_metadata` field. Only formats whose rows have a stable number have `row_index`.
pub(crate) fn field(row_index: bool) -> Field {
    let mark = HashMap::from([
        (HIDDEN_COLUMN_KEY.to_owned(), METADATA_COLUMN.to_owned()),
        ("__file_source_metadata_col".to_owned(), "true".to_owned()),
    ]);
    Field::new(METADATA_COLUMN, DataType::Struct(parts(row_index)), false).with_metadata(mark)
}

fn parts(row_index: bool) -> Fields {
    let mut parts = vec![
        Field::new("file_path", DataType::Utf8, false),
        Field::new("file_name", DataType::Utf8, false),
        Field::new("file_size", DataType::Int64, false),
        Field::new("file_block_start", DataType::Int64, false),
        Field::new("file_block_length", DataType::Int64, false),
        Field::new("file_modification_time", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), false),
    ];
    if row_index {
        parts.push(Field::new("row_index", DataType::Int64, false));
    }
    parts.into()
}

/// Whether the schema's last column is the `_metadata` of a file source, and not a column that the data happens to call so.
pub(crate) fn ends_with_metadata(schema: &SchemaRef) -> bool {
    schema.fields().last().is_some_and(|field| field.name() == METADATA_COLUMN && is_hidden(field))
}

/// The `_metadata` of `rows` rows of a file, the first of which is row `first_row` of the file.
///
/// # Errors
/// `INTERNAL_ERROR` when arrow refuses the parts.
pub(crate) fn column(field: &Field, file: &FileStatus, first_row: u64, rows: usize) -> Result<ArrayRef> {
    let DataType::Struct(parts) = field.data_type() else { return Err(Error::internal("the _metadata column is no struct")) };
    let size = i64::try_from(file.size).unwrap_or(i64::MAX);
    let number = |value: i64| Arc::new(Int64Array::from_value(value, rows)) as ArrayRef;
    let text = |value: &str| Arc::new(StringArray::from_iter_values(std::iter::repeat_n(value, rows))) as ArrayRef;
    let mut columns = vec![
        text(&file.url),
        text(uri::name_of(&file.url)),
        number(size),
        number(0),
        number(size),
        Arc::new(TimestampMicrosecondArray::from_value(file.modified_ms.saturating_mul(1000), rows).with_timezone("UTC")) as ArrayRef,
    ];
    if parts.len() > columns.len() {
        let first = i64::try_from(first_row).unwrap_or(i64::MAX);
        columns.push(Arc::new((0_i64..).take(rows).map(|row| first.saturating_add(row)).collect::<Int64Array>()));
    }
    let column =
        StructArray::try_new(parts.clone(), columns, None).map_err(|error| Error::internal("_metadata does not fit").caused_by(error))?;
    Ok(Arc::new(column))
}
