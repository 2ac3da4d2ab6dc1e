//! Schemas of Delta tables: between the log's text and arrow, and what changes when rows of another schema are written.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use delta_kernel::engine::arrow_conversion::{TryFromArrow, TryIntoArrow};
use delta_kernel::schema::{ArrayType, DataType as DeltaType, MapType, StructField, StructType};
use millstream_core::{Error, ErrorKind, Result};

use super::actions::Metadata;
use super::convert::{FieldNaming, converts};

/// The schema of a table at one metadata version.
#[derive(Clone, Debug)]
pub struct TableSchema {
    kernel: StructType,
    /// The columns as users see them, without metadata.
    pub arrow: SchemaRef,
    /// The same columns with the table's field metadata, which tells how files name them.
    pub(super) annotated: SchemaRef,
    /// Columns whose values are in the log and not in the files.
    pub partition_columns: Vec<String>,
    /// How files name the columns.
    pub(super) naming: FieldNaming,
}

impl TableSchema {
    /// The schema in a table's metadata.
    ///
    /// # Errors
    /// `DELTA_UNSUPPORTED_SCHEMA` of `kind` when it has types that Millstream does not know.
    pub fn of(metadata: &Metadata, kind: ErrorKind) -> Result<Self> {
        let unsupported = |cause: Box<dyn std::error::Error + Send + Sync>| {
            Error::new(kind, "DELTA_UNSUPPORTED_SCHEMA", "the table's schema has types that Millstream does not know").caused_by(cause)
        };
        let kernel: StructType = serde_json::from_str(&metadata.schema_string).map_err(|error| unsupported(error.into()))?;
        let annotated: Schema = (&kernel).try_into_arrow().map_err(|error| unsupported(error.into()))?;
        let naming = match metadata.configuration.get("delta.columnMapping.mode").map(String::as_str) {
            Some("name") => FieldNaming::Physical,
            Some("id") => FieldNaming::Id,
            _ => FieldNaming::Name,
        };
        let arrow = Arc::new(Schema::new(annotated.fields().iter().map(plain).collect::<Fields>()));
        let annotated = Arc::new(annotated);
        Ok(TableSchema { kernel, arrow, annotated, partition_columns: metadata.partition_columns.clone(), naming })
    }

    /// The same with one more column, which the log knows nothing of.
    pub(super) fn with_column(&self, field: Field) -> TableSchema {
        let field = Arc::new(field);
        let longer = |schema: &SchemaRef| Arc::new(Schema::new(schema.fields().iter().cloned().chain([field.clone()]).collect::<Vec<_>>()));
        TableSchema { arrow: longer(&self.arrow), annotated: longer(&self.annotated), ..self.clone() }
    }

    /// Whether a field on any level has this metadata key.
    pub(super) fn any_field_has(&self, key: &str) -> bool {
        any_field(&self.kernel, &|field| field.metadata().contains_key(key))
    }

    /// Whether a field on any level is a `timestamp_ntz`.
    pub(super) fn has_timestamp_ntz(&self) -> bool {
        has_timestamp_ntz(&self.kernel)
    }

    /// The schema in the form of the log.
    pub(super) fn kernel(&self) -> &StructType {
        &self.kernel
    }

    /// Whether a column is a partition column.
    pub(super) fn is_partition(&self, column: &str) -> bool {
        self.partition_columns.iter().any(|name| name == column)
    }
}

/// Whether a field on any level is a `timestamp_ntz`.
pub(super) fn has_timestamp_ntz(schema: &StructType) -> bool {
    any_field(schema, &|field| holds_timestamp_ntz(field.data_type()))
}

fn holds_timestamp_ntz(data_type: &DeltaType) -> bool {
    match data_type {
        DeltaType::Array(array) => holds_timestamp_ntz(array.element_type()),
        DeltaType::Map(map) => holds_timestamp_ntz(map.key_type()) || holds_timestamp_ntz(map.value_type()),
        other => *other == DeltaType::TIMESTAMP_NTZ,
    }
}

fn any_field(schema: &StructType, test: &dyn Fn(&StructField) -> bool) -> bool {
    fn inside(data_type: &DeltaType, test: &dyn Fn(&StructField) -> bool) -> bool {
        match data_type {
            DeltaType::Struct(inner) => any_field(inner, test),
            DeltaType::Array(array) => inside(array.element_type(), test),
            DeltaType::Map(map) => inside(map.key_type(), test) || inside(map.value_type(), test),
            _ => false,
        }
    }
    schema.fields().any(|field| test(field) || inside(field.data_type(), test))
}

/// The field without metadata on any level.
pub(super) fn plain(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain).collect()),
        DataType::List(element) => DataType::List(plain(element)),
        DataType::Map(entries, sorted) => DataType::Map(plain(entries), *sorted),
        other => other.clone(),
    };
    Arc::new(Field::new(field.name(), data_type, field.is_nullable()))
}

/// The table schema for rows of this arrow schema: every field nullable, types as Delta stores them.
///
/// # Errors
/// `DELTA_UNSUPPORTED_DATA_TYPES`, `DELTA_NULL_SCHEMA_IN_STREAMING_WRITE`, `DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES`,
/// `DELTA_DUPLICATE_COLUMNS_FOUND`, naming the column.
pub(super) fn from_arrow(schema: &Schema) -> Result<StructType> {
    let fields = storable_fields(schema.fields(), "")?;
    StructType::try_from_arrow(&Schema::new(fields)).map_err(|error| {
        Error::invalid("DELTA_UNSUPPORTED_DATA_TYPES", "the rows have a schema that Delta cannot store")
            .caused_by(error)
            .with_sqlstate("0AKDC")
    })
}

fn storable_fields(fields: &Fields, parent: &str) -> Result<Fields> {
    let mut seen = std::collections::BTreeSet::new();
    fields
        .iter()
        .map(|field| {
            let path = if parent.is_empty() { field.name().clone() } else { format!("{parent}.{}", field.name()) };
            if field.name().contains([' ', ',', ';', '{', '}', '(', ')', '\n', '\t', '=']) {
                let message = format!("column '{path}' has a character among \" ,;{{}}()\\n\\t=\" in its name: give it another with AS");
                return Err(Error::invalid("DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES", message).with_sqlstate("42K05"));
            }
            if !seen.insert(field.name().to_lowercase()) {
                let message = format!("there are several columns '{path}' (whatever the case): rename all but one");
                return Err(Error::invalid("DELTA_DUPLICATE_COLUMNS_FOUND", message).with_sqlstate("42711"));
            }
            Ok(Arc::new(Field::new(field.name(), storable(field.data_type(), &path)?, true)))
        })
        .collect()
}

/// The type in which Delta stores values of an arrow type.
fn storable(data_type: &DataType, path: &str) -> Result<DataType> {
    Ok(match data_type {
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Float32
        | DataType::Float64
        | DataType::Date32 => data_type.clone(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => DataType::Binary,
        DataType::Date64 => DataType::Date32,
        DataType::Timestamp(_, Some(_)) => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Timestamp(_, None) => DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) | DataType::Decimal128(precision, scale)
            if *scale >= 0 =>
        {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Dictionary(_, value) => storable(value, path)?,
        DataType::Struct(fields) => DataType::Struct(storable_fields(fields, path)?),
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            DataType::List(Arc::new(Field::new("element", storable(element.data_type(), &format!("{path}.element"))?, true)))
        }
        DataType::Map(entries, _) => {
            let DataType::Struct(pair) = entries.data_type() else { return Err(unstorable(data_type, path)) };
            let [key, value] = pair.as_ref() else { return Err(unstorable(data_type, path)) };
            let pair = Fields::from(vec![
                Field::new("key", storable(key.data_type(), &format!("{path}.key"))?, false),
                Field::new("value", storable(value.data_type(), &format!("{path}.value"))?, true),
            ]);
            DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(pair), false)), false)
        }
        DataType::Null => {
            let message =
                format!("column '{path}' has the type void, which Delta does not store: cast it, for example CAST({path} AS STRING)");
            return Err(Error::invalid("DELTA_NULL_SCHEMA_IN_STREAMING_WRITE", message).with_sqlstate("42P18"));
        }
        other => return Err(unstorable(other, path)),
    })
}

fn unstorable(data_type: &DataType, path: &str) -> Error {
    Error::invalid("DELTA_UNSUPPORTED_DATA_TYPES", format!("column '{path}' has the type {data_type}, which Delta cannot store: cast it"))
        .with_sqlstate("0AKDC")
}

/// Refuses names of columns, on any level, that Delta cannot store or tell apart.
///
/// # Errors
/// `DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES`, `DELTA_DUPLICATE_COLUMNS_FOUND`, `DELTA_NULL_SCHEMA_IN_STREAMING_WRITE`.
pub(super) fn check_names(schema: &StructType) -> Result<()> {
    let arrow: Schema = schema.try_into_arrow().map_err(|error| {
        Error::invalid("DELTA_UNSUPPORTED_DATA_TYPES", "the table would have columns of types that Delta cannot store")
            .caused_by(error)
            .with_sqlstate("0AKDC")
    })?;
    storable_fields(arrow.fields(), "").map(drop)
}

/// The table's schema after rows of another schema: the table's columns, then the new ones. `None` when nothing is new.
///
/// # Errors
/// `DELTA_FAILED_TO_MERGE_FIELDS` for a column whose values do not fit the table's type without loss.
pub(super) fn merge(table: &StructType, rows: &StructType) -> Result<Option<StructType>> {
    let merged = merge_structs(table, rows, "")?;
    Ok((merged != *table).then_some(merged))
}

fn merge_structs(table: &StructType, rows: &StructType, parent: &str) -> Result<StructType> {
    let mut fields: Vec<StructField> = table.fields().cloned().collect();
    for new in rows.fields() {
        let path = if parent.is_empty() { new.name().clone() } else { format!("{parent}.{}", new.name()) };
        match fields.iter_mut().find(|field| same_name(field.name(), new.name())) {
            Some(field) => field.data_type = merge_types(field.data_type(), new.data_type(), &path)?,
            None => fields.push(new.clone()),
        }
    }
    StructType::try_new(fields).map_err(|error| Error::internal("merged schemas do not form a schema").caused_by(error))
}

fn merge_types(table: &DeltaType, rows: &DeltaType, path: &str) -> Result<DeltaType> {
    Ok(match (table, rows) {
        (DeltaType::Struct(table), DeltaType::Struct(rows)) => DeltaType::Struct(Box::new(merge_structs(table, rows, path)?)),
        (DeltaType::Array(table), DeltaType::Array(rows)) => {
            let element = merge_types(table.element_type(), rows.element_type(), &format!("{path}.element"))?;
            DeltaType::Array(Box::new(ArrayType::new(element, table.contains_null())))
        }
        (DeltaType::Map(table), DeltaType::Map(rows)) => {
            let key = merge_types(table.key_type(), rows.key_type(), &format!("{path}.key"))?;
            let value = merge_types(table.value_type(), rows.value_type(), &format!("{path}.value"))?;
            DeltaType::Map(Box::new(MapType::new(key, value, table.value_contains_null())))
        }
        (table, rows) if table == rows || fits(rows, table) => table.clone(),
        (table, rows) => {
            return Err(Error::new(
                ErrorKind::SchemaMismatch,
                "DELTA_FAILED_TO_MERGE_FIELDS",
                format!(
                    "column '{path}' of the rows has the type {rows} but the table has {table}: cast the column in the query, or use complete \
                     mode with the option overwriteSchema"
                ),
            )
            .with_sqlstate("22005"));
        }
    })
}

fn fits(rows: &DeltaType, table: &DeltaType) -> bool {
    let arrow = |data_type: &DeltaType| -> Option<DataType> { data_type.try_into_arrow().ok() };
    match (arrow(rows), arrow(table)) {
        (Some(rows), Some(table)) => converts(&rows, &table),
        _ => false,
    }
}

/// Column names are compared without case, as Spark does.
pub(super) fn same_name(left: &str, right: &str) -> bool {
    left == right || left.to_lowercase() == right.to_lowercase()
}

/// Paths of the fields of `new` that `old` lacks.
pub(super) fn added(old: &StructType, new: &StructType) -> Vec<String> {
    fn collect(old: &DeltaType, new: &DeltaType, path: &str, out: &mut Vec<String>) {
        match (old, new) {
            (DeltaType::Struct(old), DeltaType::Struct(new)) => structs(old, new, path, out),
            (DeltaType::Array(old), DeltaType::Array(new)) => collect(old.element_type(), new.element_type(), path, out),
            (DeltaType::Map(old), DeltaType::Map(new)) => {
                collect(old.key_type(), new.key_type(), path, out);
                collect(old.value_type(), new.value_type(), path, out);
            }
            _ => {}
        }
    }
    fn structs(old: &StructType, new: &StructType, parent: &str, out: &mut Vec<String>) {
        for field in new.fields() {
            let path = if parent.is_empty() { field.name().clone() } else { format!("{parent}.{}", field.name()) };
            match old.fields().find(|known| same_name(known.name(), field.name())) {
                Some(known) => collect(known.data_type(), field.data_type(), &path, out),
                None => out.push(path),
            }
        }
    }
    let mut out = Vec::new();
    structs(old, new, "", &mut out);
    out
}

#[cfg(test)]
mod tests;
