//! Making tables and emptying them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion::common::DFSchema;
use datafusion::logical_expr::{EmptyRelation, LogicalPlan};
use millstream_core::registry::WriteRequest;
use millstream_core::sink::OutputMode;
use millstream_core::{Error, Options, Result};
use millstream_engine::from_datafusion;

use super::name::TableName;
use super::objects::{Found, require};
use super::warehouse::{Stored, Warehouse, table_exists};
use crate::connect::command::clear;
use crate::connect::errors::unsupported;
use crate::connect::session::ConnectSession;

/// A table to make.
#[derive(Clone, Debug, Default)]
pub(in crate::connect) struct NewTable {
    /// The format; Delta without it.
    pub(in crate::connect) format: Option<String>,
    /// Where its data is, if not in the warehouse.
    pub(in crate::connect) path: Option<String>,
    pub(in crate::connect) schema: Option<Schema>,
    pub(in crate::connect) partition_by: Vec<String>,
    pub(in crate::connect) options: BTreeMap<String, String>,
    pub(in crate::connect) properties: BTreeMap<String, String>,
    pub(in crate::connect) comment: Option<String>,
}

impl NewTable {
    /// What will be known of the table. A location among the options is one.
    ///
    /// # Errors
    /// `INVALID_LOCATION`.
    pub(in crate::connect) fn stored(&self, session: &ConnectSession) -> Result<Stored> {
        let mut options = self.options.clone();
        let option = options.keys().find(|name| name.eq_ignore_ascii_case("path")).cloned().and_then(|name| options.remove(&name));
        let path = self.path.clone().or(option).filter(|path| !path.is_empty());
        let external =
            path.map(|path| session.host.open(&path)).transpose()?.map(|place| place.url.as_str().trim_end_matches('/').to_owned());
        let stored = Stored {
            external,
            partition_by: self.partition_by.clone(),
            options,
            properties: self.properties.clone(),
            comment: self.comment.clone(),
            ..Stored::of_format(self.format.as_deref().filter(|format| !format.is_empty()).unwrap_or("delta"))
        };
        Ok(match (&self.schema, stored.format.as_str()) {
            // A Delta table's own log says what its columns are.
            (_, "delta") | (None, _) => stored,
            (Some(schema), _) => stored.with_schema(schema),
        })
    }
}

/// Makes a table.
///
/// # Errors
/// `TABLE_OR_VIEW_ALREADY_EXISTS`, `SCHEMA_NOT_FOUND`, `DATA_SOURCE_NOT_FOUND`, and those of its data.
pub(in crate::connect) async fn create_table(session: &Arc<ConnectSession>, name: &TableName, table: NewTable) -> Result<Stored> {
    let warehouse = Warehouse::open(session.host.as_ref())?;
    name.check_new()?;
    warehouse.require_database(&name.database).await?;
    if warehouse.table(name).await?.is_some() {
        return Err(table_exists(name));
    }
    let stored = table.stored(session)?;
    session.engine.registry().source(&stored.format)?;
    let location = stored.external.clone().unwrap_or_else(|| warehouse.folder(name));
    if let ("delta", Some(schema)) = (stored.format.as_str(), &table.schema) {
        write_nothing(session, &location, schema, &table.partition_by, OutputMode::Append).await?;
    } else if stored.format != "delta" && table.schema.is_none() && stored.external.is_none() {
        return Err(Error::invalid(
            "UNABLE_TO_INFER_SCHEMA",
            format!("Unable to infer schema for {}: give the table columns.", stored.format),
        )
        .with_sqlstate("42KD9"));
    }
    warehouse.record(name, &stored).await?;
    warehouse.table(name).await?.ok_or_else(|| Error::internal("a new table is not there"))
}

/// Adds columns to a Delta table; rows that are there have nulls in them.
///
/// # Errors
/// `FIELD_ALREADY_EXISTS`, and those of the table.
pub(in crate::connect) async fn add_columns(session: &ConnectSession, stored: &Stored, columns: Vec<Field>) -> Result<()> {
    if stored.view.is_some() || stored.format != "delta" {
        return Err(unsupported(&format!("adding columns to a table of format {}", stored.format)));
    }
    let schema = stored.columns(session).await?;
    if let Some(known) = columns.iter().find(|new| schema.fields().iter().any(|field| field.name().eq_ignore_ascii_case(new.name()))) {
        let message = format!("Cannot add column `{}`, because it already exists.", known.name());
        return Err(Error::invalid("FIELD_ALREADY_EXISTS", message).with_sqlstate("42710"));
    }
    let all: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone()).chain(columns).collect();
    write_nothing(session, stored.location(), &Schema::new(all), &stored.partition_by, OutputMode::Append).await
}

/// Commits a batch without rows to a Delta table: it makes the table or its new columns, or empties it.
async fn write_nothing(session: &ConnectSession, location: &str, schema: &Schema, partition_by: &[String], mode: OutputMode) -> Result<()> {
    let request = WriteRequest {
        path: Some(location.to_owned()),
        partition_by: partition_by.to_vec(),
        options: Options::new().with("mergeSchema", "true"),
        query_name: None,
    };
    let sink = session.engine.registry().sink("delta")?.sink(&request).await?;
    let schema = DFSchema::try_from(schema.clone()).map_err(from_datafusion)?;
    let plan = LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema: Arc::new(schema) });
    let written = session.engine.write_batch(plan, sink.clone(), mode, &[], session.host.ids().next(), 0).await;
    sink.stop().await;
    written.map(drop)
}

/// Removes every row of a table.
///
/// # Errors
/// `TABLE_OR_VIEW_NOT_FOUND`, and those of its data.
pub(super) async fn truncate(session: &Arc<ConnectSession>, warehouse: &Warehouse, name: &str) -> Result<()> {
    match require(session, warehouse, name).await? {
        Found::Table(_, stored) if stored.view.is_some() => Err(unsupported("truncating a view")),
        Found::Table(_, stored) if stored.format == "delta" => {
            let schema = stored.columns(session).await?;
            write_nothing(session, stored.location(), &schema, &stored.partition_by, OutputMode::Complete).await
        }
        Found::Table(_, stored) => clear(session, stored.location()).await,
        Found::View(_) | Found::GlobalView(_) => Err(unsupported("truncating a view")),
    }
}
