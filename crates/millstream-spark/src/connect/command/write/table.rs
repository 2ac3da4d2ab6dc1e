//! Writes that make or replace tables, and Delta tables at a path.

use std::collections::HashMap;

use futures::TryStreamExt;
use millstream_core::{Error, ErrorKind, Result};
use object_store::ObjectStore;
use spark_connect_proto::write_operation::SaveMode;

use super::delta::{self, Definition, DeltaMode, DeltaWrite};
use super::insert::{By, into_table};
use super::{OVERWRITE_MODE, Session, Write, files, is_dynamic};
use crate::connect::catalog::{NewTable, Stored, TableName, Warehouse, not_found, table_exists};
use crate::connect::errors::unsupported;
use crate::connect::execute::named_plan;

/// Writes to a Delta table at a path.
///
/// # Errors
/// `DELTA_PATH_EXISTS`, and those of the plan and the table.
pub(super) async fn save_delta(session: &Session, write: Write, path: &str) -> Result<()> {
    match write.mode {
        SaveMode::Append | SaveMode::Overwrite => {}
        mode => {
            if has_log(session, path).await? {
                if mode == SaveMode::Ignore {
                    return Ok(());
                }
                let message = format!("Cannot write to the existing path {path} without setting the mode to overwrite or append.");
                return Err(Error::invalid("DELTA_PATH_EXISTS", message).with_sqlstate("42K04"));
            }
        }
    }
    let mode = mode_of(session, &write)?;
    let statement = write.statement.filter(|statement| !statement.name.is_empty());
    let plan = named_plan(write.analyzed, session.settings().case_sensitive)?;
    let (partition_by, options) = (write.partition_by, write.options);
    delta::write(session, DeltaWrite { location: path.to_owned(), plan, mode, partition_by, options, statement }).await
}

/// What a write does to the rows that are there.
///
/// # Errors
/// `DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE`, and those of a condition that does not parse.
fn mode_of(session: &Session, write: &Write) -> Result<DeltaMode> {
    if write.mode != SaveMode::Overwrite {
        return Ok(DeltaMode::Append);
    }
    if write.statement.as_ref().is_some_and(|statement| !statement.name.is_empty()) {
        return Ok(DeltaMode::Overwrite);
    }
    let Some(text) = write.options.get("replaceWhere") else {
        return Ok(if is_dynamic(session, &write.options) { DeltaMode::OverwritePartitions } else { DeltaMode::Overwrite });
    };
    if write.options.get(OVERWRITE_MODE).is_some_and(|mode| mode.eq_ignore_ascii_case("dynamic")) {
        let message =
            "A 'replaceWhere' expression and 'partitionOverwriteMode'='dynamic' cannot both be set in the DataFrameWriter options.";
        return Err(Error::invalid("DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE", message).with_sqlstate("42613"));
    }
    crate::sql::parse::expression(text).map(|condition| DeltaMode::ReplaceWhere(Box::new(condition)))
}

async fn has_log(session: &Session, path: &str) -> Result<bool> {
    let place = session.host.open(path)?;
    let log = place.root.clone().join("_delta_log");
    let mut objects = place.store.list(Some(&log));
    let first = objects.try_next().await;
    first.map(|first| first.is_some()).map_err(|error| {
        Error::new(ErrorKind::SinkUnavailable, "DELTA_WRITE_FAILED", format!("cannot look for a table at {path}")).caused_by(error)
    })
}

/// Runs `saveAsTable`.
///
/// # Errors
/// `TABLE_OR_VIEW_ALREADY_EXISTS`, and those of the plan and the table.
pub(super) async fn save_as(session: &Session, write: Write, name: &TableName) -> Result<()> {
    let warehouse = Warehouse::open(session.host.as_ref())?;
    match warehouse.table(name).await? {
        None => create_as(session, write, name, HashMap::new()).await,
        Some(stored) => match write.mode {
            SaveMode::Append => {
                let options = write.options.clone();
                into_table(session, write.analyzed, name, &By::Name, DeltaMode::Append, &options).await
            }
            SaveMode::Overwrite if is_delta(&write, &stored) => {
                let location = stored.location().to_owned();
                save_delta(session, Write { statement: None, ..write }, &location).await
            }
            SaveMode::Overwrite => replace_as(session, write, name, HashMap::new(), true).await,
            SaveMode::Ignore => Ok(()),
            SaveMode::ErrorIfExists | SaveMode::Unspecified => Err(table_exists(name)),
        },
    }
}

/// Whether rows go into a Delta table that stays one.
fn is_delta(write: &Write, stored: &Stored) -> bool {
    stored.format == "delta" && stored.view.is_none() && matches!(write.format.as_str(), "" | "delta")
}

/// Makes a table of rows.
///
/// # Errors
/// `TABLE_OR_VIEW_ALREADY_EXISTS`, `SCHEMA_NOT_FOUND`, and those of the plan and the table.
pub(in crate::connect) async fn create_as(
    session: &Session,
    write: Write,
    name: &TableName,
    properties: HashMap<String, String>,
) -> Result<()> {
    let warehouse = Warehouse::open(session.host.as_ref())?;
    name.check_new()?;
    warehouse.require_database(&name.database).await?;
    if warehouse.table(name).await?.is_some() {
        return Err(table_exists(name));
    }
    fill(session, &warehouse, write, name, properties, "CREATE TABLE AS SELECT").await
}

/// Replaces a table by rows, or makes it.
///
/// # Errors
/// `TABLE_OR_VIEW_NOT_FOUND` unless it may be made, and those of [`create_as`].
pub(in crate::connect) async fn replace_as(
    session: &Session,
    mut write: Write,
    name: &TableName,
    properties: HashMap<String, String>,
    may_be_new: bool,
) -> Result<()> {
    let warehouse = Warehouse::open(session.host.as_ref())?;
    let Some(stored) = warehouse.table(name).await? else {
        if may_be_new {
            return create_as(session, write, name, properties).await;
        }
        return Err(not_found(&[name.database.clone(), name.table.clone()]));
    };
    if stored.view.is_some() {
        return Err(table_exists(name));
    }
    if write.format.is_empty() {
        write.format.clone_from(&stored.format);
    }
    if write.format != stored.format {
        warehouse.drop_table(name).await?;
    }
    let statement = if may_be_new { "CREATE OR REPLACE TABLE AS SELECT" } else { "REPLACE TABLE AS SELECT" };
    fill(session, &warehouse, write, name, properties, statement).await
}

/// Writes the first rows of a table and keeps what has to be known of it.
async fn fill(
    session: &Session,
    warehouse: &Warehouse,
    mut write: Write,
    name: &TableName,
    properties: HashMap<String, String>,
    statement: &'static str,
) -> Result<()> {
    let schema = write.schema();
    let given = write.statement.take().unwrap_or_default();
    let new = NewTable {
        format: Some(write.format.clone()),
        schema: Some(schema),
        partition_by: write.partition_by.clone(),
        options: write.options.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        properties: properties.into_iter().collect(),
        comment: given.comment.clone(),
        clustering: given.clustering.clone(),
        ..NewTable::default()
    };
    let stored = new.stored(session)?;
    let managed = stored.external.is_none();
    write.statement = Some(Definition { name: statement, properties: stored.properties.clone(), managed, ..given });
    let location = stored.external.clone().unwrap_or_else(|| warehouse.folder(name));
    write.format.clone_from(&stored.format);
    write.mode = SaveMode::Overwrite;
    write.options.remove("path");
    // A new table has all of the rows, whatever the session says about partitions.
    write.options.set(OVERWRITE_MODE, "static");
    let kept = without_writer_options(stored);
    match write.format.as_str() {
        "delta" => save_delta(session, write, &location).await?,
        format if files::FORMATS.contains(&format) => files::save(session, write, &location).await?,
        format => {
            session.engine.registry().sink(format)?;
            return Err(unsupported(&format!("tables of format {format}")));
        }
    }
    warehouse.record(name, &kept).await
}

/// Options of writing mean nothing to readers.
fn without_writer_options(mut stored: Stored) -> Stored {
    const WRITERS: [&str; 5] = ["overwriteschema", "mergeschema", "compression", "partitionoverwritemode", "maxrecordsperfile"];
    stored.options.retain(|name, _| !WRITERS.contains(&name.to_lowercase().as_str()));
    stored
}

/// Replaces the partitions of a table that get rows; all of a table that has none.
///
/// # Errors
/// Those of the plan and the table.
pub(super) async fn overwrite_partitions(session: &Session, mut write: Write, name: &TableName) -> Result<()> {
    let warehouse = Warehouse::open(session.host.as_ref())?;
    let stored = warehouse.table(name).await?.ok_or_else(|| not_found(&[name.database.clone(), name.table.clone()]))?;
    if stored.format == "delta" || stored.partition_by.is_empty() {
        let options = write.options.clone();
        return into_table(session, write.analyzed, name, &By::Name, DeltaMode::OverwritePartitions, &options).await;
    }
    write.format.clone_from(&stored.format);
    write.partition_by.clone_from(&stored.partition_by);
    write.mode = SaveMode::Overwrite;
    write.options.set(OVERWRITE_MODE, "dynamic");
    files::save(session, write, stored.location()).await
}
