//! What a write means for the table itself: creating it, adding columns, or refusing the rows.

use std::sync::Arc;

use arrow::datatypes::Schema;
use delta_kernel::schema::StructType;
use millstream_core::sink::OutputMode;
use millstream_core::{Error, ErrorKind, Result};
use uuid::Uuid;

use super::actions::{Metadata, Protocol};
use super::options::SinkOptions;
use super::schema::{self, TableSchema, same_name};
use super::{partition, protocol};

/// The table as a write finds it or makes it.
#[derive(Debug)]
pub(super) struct TablePlan {
    /// The schema after the write.
    pub schema: Arc<TableSchema>,
    /// The property `delta.dataSkippingNumIndexedCols`.
    pub indexed_columns: Option<i64>,
    /// To be committed with the rows.
    pub metadata: Option<Metadata>,
    /// To be committed with the rows.
    pub protocol: Option<Protocol>,
}

/// The table that a write finds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Current<'a> {
    pub protocol: &'a Protocol,
    pub metadata: &'a Metadata,
    pub schema: &'a Arc<TableSchema>,
    /// Features in use that the writer's caller takes care of.
    pub cared_for: &'a [String],
}

/// Decides what a write of rows with this schema does to the table. `id` and `now_ms` are for a table that it creates.
///
/// # Errors
/// `DELTA_METADATA_MISMATCH` and those of [`schema::merge`] when the rows do not fit, `DELTA_UNSUPPORTED_FEATURES_FOR_WRITE` and the like
/// when the table cannot be written at all; each names the column or feature and what to do.
pub(super) fn plan(
    current: Option<Current<'_>>,
    rows: &Schema,
    mode: OutputMode,
    options: &SinkOptions,
    table: &str,
    id: Uuid,
    now_ms: i64,
) -> Result<TablePlan> {
    let overwrite = mode == OutputMode::Complete;
    let incoming = schema::from_arrow(rows)?;
    let Some(head) = current else {
        return create(&incoming, options, id, now_ms);
    };
    protocol::check_writable(head, overwrite, table)?;
    let changed = if overwrite && options.overwrite_schema {
        let partition_by = partition_columns(&incoming, &options.partition_by)?;
        let same = head.schema.kernel() == &incoming && head.metadata.partition_columns == partition_by;
        (!same).then(|| (incoming.clone(), partition_by))
    } else {
        check_partitioning(head.metadata, &options.partition_by, table)?;
        let merged = schema::merge(head.schema.kernel(), &incoming)?;
        if let Some(merged) = &merged
            && !options.merge_schema
        {
            return Err(new_columns(&schema::added(head.schema.kernel(), merged), table));
        }
        merged.map(|merged| (merged, head.metadata.partition_columns.clone()))
    };
    let indexed_columns = head.metadata.number("delta.dataSkippingNumIndexedCols");
    let Some((schema, partition_columns)) = changed else {
        return Ok(TablePlan { schema: head.schema.clone(), indexed_columns, metadata: None, protocol: None });
    };
    let upgrade = schema::has_timestamp_ntz(&schema) && !head.schema.has_timestamp_ntz() && !protocol::has_timestamp_ntz(head.protocol);
    let metadata = Metadata { schema_string: schema_text(&schema)?, partition_columns, ..head.metadata.clone() };
    Ok(TablePlan {
        schema: Arc::new(TableSchema::of(&metadata, ErrorKind::SinkUnavailable)?),
        indexed_columns,
        metadata: Some(metadata),
        protocol: upgrade.then(|| protocol::with_timestamp_ntz(head.protocol)),
    })
}

fn create(incoming: &StructType, options: &SinkOptions, id: Uuid, now_ms: i64) -> Result<TablePlan> {
    let metadata = Metadata {
        id: id.to_string(),
        schema_string: schema_text(incoming)?,
        partition_columns: partition_columns(incoming, &options.partition_by)?,
        configuration: options.properties.clone(),
        created_time: Some(now_ms),
        ..Metadata::default()
    };
    let change_data_feed = metadata.flag("delta.enableChangeDataFeed");
    Ok(TablePlan {
        schema: Arc::new(TableSchema::of(&metadata, ErrorKind::SinkUnavailable)?),
        indexed_columns: metadata.number("delta.dataSkippingNumIndexedCols"),
        protocol: Some(protocol::for_new_table(schema::has_timestamp_ntz(incoming), change_data_feed)),
        metadata: Some(metadata),
    })
}

/// The partition columns of a new table, spelt as the rows spell them.
pub(super) fn partition_columns(rows: &StructType, wanted: &[String]) -> Result<Vec<String>> {
    let mut columns: Vec<String> = Vec::with_capacity(wanted.len());
    for name in wanted {
        let Some(field) = rows.fields().find(|field| same_name(field.name(), name)) else {
            let known: Vec<&str> = rows.fields().map(|field| field.name().as_str()).collect();
            let message = format!("partition column '{name}' is not a column of the rows: use one of {}", known.join(", "));
            return Err(Error::invalid("DELTA_PARTITION_COLUMN_NOT_FOUND", message).with_sqlstate("42703"));
        };
        let arrow: arrow::datatypes::DataType = delta_kernel::engine::arrow_conversion::TryIntoArrow::try_into_arrow(field.data_type())
            .map_err(|error| Error::internal(format!("partition column '{name}' has no arrow type")).caused_by(error))?;
        partition::check_type(name, &arrow)?;
        if !columns.contains(field.name()) {
            columns.push(field.name().clone());
        }
    }
    if !columns.is_empty() && columns.len() == rows.num_fields() {
        let message = "a table cannot be partitioned by all its columns: leave at least one out";
        return Err(Error::invalid("DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION", message).with_sqlstate("428FT"));
    }
    Ok(columns)
}

fn check_partitioning(metadata: &Metadata, wanted: &[String], table: &str) -> Result<()> {
    let existing = &metadata.partition_columns;
    let same = wanted.len() == existing.len() && wanted.iter().zip(existing).all(|(left, right)| same_name(left, right));
    if wanted.is_empty() || same {
        return Ok(());
    }
    let list = |columns: &[String]| if columns.is_empty() { "no column".to_owned() } else { columns.join(", ") };
    let message = format!(
        "table {table} is partitioned by {} but the query partitions by {}: partition as the table does, or leave it out",
        list(existing),
        list(wanted)
    );
    Err(Error::new(ErrorKind::SchemaMismatch, "DELTA_METADATA_MISMATCH", message).with_sqlstate("42KDG"))
}

fn new_columns(columns: &[String], table: &str) -> Error {
    let message = format!(
        "table {table} has no column {}: set the option mergeSchema to true to add it, or leave it out of the query",
        columns.iter().map(|column| format!("'{column}'")).collect::<Vec<_>>().join(", ")
    );
    Error::new(ErrorKind::SchemaMismatch, "DELTA_METADATA_MISMATCH", message).with_sqlstate("42KDG")
}

pub(super) fn schema_text(schema: &StructType) -> Result<String> {
    serde_json::to_string(schema).map_err(|error| Error::internal("a schema does not serialise").caused_by(error))
}
