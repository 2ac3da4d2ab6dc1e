//! Making tables and emptying them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use millstream_core::versioned::{self, AsOf, Operation};
use millstream_core::{Error, Options, Result};

use super::name::TableName;
use super::objects::{Found, require};
use super::warehouse::{Stored, Warehouse, table_exists};
use crate::connect::change::{Constraints, Place, write};
use crate::connect::command::{clear, no_rows};
use crate::connect::errors::unsupported;
use crate::connect::session::ConnectSession;
use crate::types::{COMMENT, schema_from_json, schema_to_json};

/// A table to make.
#[derive(Clone, Debug, Default)]
pub(in crate::connect) struct NewTable {
    /// The format; Delta without it.
    pub(in crate::connect) format: Option<String>,
    /// Where its data is, if not in the warehouse.
    pub(in crate::connect) path: Option<String>,
    pub(in crate::connect) schema: Option<Schema>,
    pub(in crate::connect) partition_by: Vec<String>,
    pub(in crate::connect) clustering: Vec<String>,
    pub(in crate::connect) options: BTreeMap<String, String>,
    pub(in crate::connect) properties: BTreeMap<String, String>,
    pub(in crate::connect) comment: Option<String>,
    /// Whether it may take the place of another one.
    pub(in crate::connect) replaces: bool,
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
            (schema, "delta") => Stored { has_comments: schema.as_ref().is_some_and(has_comments), ..stored },
            (None, _) => stored,
            (Some(schema), _) => stored.with_schema(schema),
        })
    }
}

/// Whether columns have comments.
pub(in crate::connect) fn has_comments(schema: &Schema) -> bool {
    schema.fields().iter().any(|field| field.metadata().contains_key(COMMENT))
}

/// Makes a table.
///
/// # Errors
/// `TABLE_OR_VIEW_ALREADY_EXISTS`, `SCHEMA_NOT_FOUND`, `DATA_SOURCE_NOT_FOUND`, and those of its data.
pub(in crate::connect) async fn create_table(session: &Arc<ConnectSession>, name: &TableName, table: NewTable) -> Result<Stored> {
    let warehouse = Warehouse::open(session.host.as_ref())?;
    name.check_new()?;
    warehouse.require_database(&name.database).await?;
    let known = warehouse.table(name).await?;
    match &known {
        Some(known) if !table.replaces || known.view.is_some() => return Err(table_exists(name)),
        Some(known) if table.stored(session)?.format != known.format || known.format != "delta" => warehouse.drop_table(name).await?,
        _ => {}
    }
    let stored = table.stored(session)?;
    session.engine.registry().source(&stored.format)?;
    let location = stored.external.clone().unwrap_or_else(|| warehouse.folder(name));
    if stored.format == "delta" && table.schema.is_some() {
        define(session, &location, &table).await?;
    } else if stored.format != "delta" && table.schema.is_none() && stored.external.is_none() {
        return Err(Error::invalid(
            "UNABLE_TO_INFER_SCHEMA",
            format!("Unable to infer schema for {}: give the table columns.", stored.format),
        )
        .with_sqlstate("42KD9"));
    } else if !table.clustering.is_empty() && stored.format != "delta" {
        return Err(unsupported(&format!("CLUSTER BY of tables of format {}: partition the table instead", stored.format)));
    }
    warehouse.record(name, &stored).await?;
    warehouse.table(name).await?.ok_or_else(|| Error::internal("a new table is not there"))
}

/// Makes a Delta table at a place, or replaces the one that is there. One that is there and not to be replaced has to be the same.
///
/// # Errors
/// `DELTA_CREATE_TABLE_SCHEME_MISMATCH`, `DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING`, and those of columns and properties.
pub(in crate::connect) async fn define(session: &ConnectSession, location: &str, new: &NewTable) -> Result<()> {
    let tables = session.engine.registry().versioned("delta").ok_or_else(|| unsupported("Delta tables"))?;
    let known = tables.open(location, &AsOf::Newest).await?;
    let schema = new.schema.clone().unwrap_or_else(Schema::empty);
    if let Some(known) = known.as_ref().filter(|_| !new.replaces) {
        return check_same(known.facts(), &schema, &new.partition_by, location);
    }
    let name = match (new.replaces, known.is_some()) {
        (true, _) => "CREATE OR REPLACE TABLE",
        (false, _) => "CREATE TABLE",
    };
    let operation = Operation::new(name)
        .with("partitionBy", serde_json::json!(new.partition_by).to_string())
        .with("clusterBy", serde_json::json!(new.clustering).to_string())
        .with("isManaged", new.path.is_none().to_string())
        .with("properties", serde_json::json!(new.properties).to_string());
    let definition = versioned::NewTable {
        schema: schema_to_json(&schema),
        partition_columns: new.partition_by.clone(),
        clustering_columns: new.clustering.clone(),
        properties: new.properties.clone(),
        description: new.comment.clone(),
        operation: operation.clone(),
    };
    let checked = Constraints::features();
    let sink = match known {
        Some(known) => {
            let removes = versioned::Removes::Everything;
            known
                .change(versioned::Change { operation, replacement: Some(definition), removes, checked, ..versioned::Change::default() })
                .await?
        }
        None => tables.create(location, definition, &Options::new()).await?,
    };
    write(session, no_rows(&schema)?, sink).await.map(drop)
}

/// A table that is there already may be named in `CREATE TABLE … LOCATION`, as what it is.
fn check_same(known: &versioned::TableFacts, schema: &Schema, partition_by: &[String], location: &str) -> Result<()> {
    let there = schema_from_json(&known.schema)?;
    let same = |one: &Field, other: &Field| one.name().eq_ignore_ascii_case(other.name()) && one.data_type() == other.data_type();
    let fields =
        there.fields().len() == schema.fields().len() && there.fields().iter().zip(schema.fields()).all(|(one, other)| same(one, other));
    if !fields {
        let message = format!("the columns given are not those of the table at {location}: leave them out, or give the same ones");
        return Err(Error::invalid("DELTA_CREATE_TABLE_SCHEME_MISMATCH", message).with_sqlstate("42KD7"));
    }
    let same_partitions = known.partition_columns.len() == partition_by.len()
        && known.partition_columns.iter().zip(partition_by).all(|(one, other)| one.eq_ignore_ascii_case(other));
    if !same_partitions {
        let message = format!("the table at {location} is partitioned by {:?}: give the same columns", known.partition_columns);
        return Err(Error::invalid("DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING", message).with_sqlstate("42KD7"));
    }
    Ok(())
}

/// Removes every row of a table.
///
/// # Errors
/// `TABLE_OR_VIEW_NOT_FOUND`, and those of its data.
pub(super) async fn truncate(session: &Arc<ConnectSession>, warehouse: &Warehouse, name: &str) -> Result<()> {
    match require(session, warehouse, name).await? {
        Found::Table(_, stored) if stored.view.is_some() => Err(unsupported("truncating a view")),
        Found::Table(name, stored) if stored.format == "delta" => {
            let place = Place::of_name(session, &[name.database, name.table], "TRUNCATE TABLE").await?;
            let table = place.open(session).await?;
            let schema = table.schema();
            let change = versioned::Change {
                operation: Operation::new("TRUNCATE"),
                removes: versioned::Removes::Everything,
                checked: Constraints::features(),
                ..versioned::Change::default()
            };
            write(session, no_rows(&schema)?, table.change(change).await?).await.map(drop)
        }
        Found::Table(_, stored) => clear(session, stored.location()).await,
        Found::View(_) | Found::GlobalView(_) => Err(unsupported("truncating a view")),
    }
}
