//! Writes that make or replace tables, and Delta tables at a path.

use std::collections::HashMap;

use futures::TryStreamExt;
use millstream_core::sink::OutputMode;
use millstream_core::{Error, ErrorKind, Result};
use object_store::ObjectStore;
use spark_connect_proto::write_operation::SaveMode;

use super::insert::{By, into_table};
use super::{OVERWRITE_MODE, Session, Write, files, is_dynamic, open, write_rows};
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
    let mode = if write.mode == SaveMode::Overwrite { OutputMode::Complete } else { OutputMode::Append };
    let partly = write.options.get("replaceWhere").is_some() || (!write.partition_by.is_empty() && is_dynamic(session, &write.options));
    if mode == OutputMode::Complete && partly {
        return Err(unsupported("overwriting a part of a Delta table"));
    }
    let sink = open(session, &write, Some(path)).await?;
    let plan = named_plan(write.analyzed, session.settings().case_sensitive)?;
    write_rows(session, plan, sink, mode).await
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
        Some(_) => match write.mode {
            SaveMode::Append => {
                let options = write.options.clone();
                into_table(session, write.analyzed, name, &By::Name, false, &options).await
            }
            SaveMode::Overwrite => replace_as(session, write, name, HashMap::new(), true).await,
            SaveMode::Ignore => Ok(()),
            SaveMode::ErrorIfExists | SaveMode::Unspecified => Err(table_exists(name)),
        },
    }
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
    fill(session, &warehouse, write, name, properties, SaveMode::Overwrite).await
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
    if write.format == stored.format || (write.format.is_empty() && stored.format == "delta") {
        write.options.set("overwriteSchema", "true");
    } else {
        warehouse.drop_table(name).await?;
    }
    fill(session, &warehouse, write, name, properties, SaveMode::Overwrite).await
}

/// Writes the first rows of a table and keeps what has to be known of it.
async fn fill(
    session: &Session,
    warehouse: &Warehouse,
    mut write: Write,
    name: &TableName,
    properties: HashMap<String, String>,
    mode: SaveMode,
) -> Result<()> {
    let schema = write.schema();
    let new = NewTable {
        format: Some(write.format.clone()),
        schema: Some(schema),
        partition_by: write.partition_by.clone(),
        options: write.options.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        properties: properties.into_iter().collect(),
        ..NewTable::default()
    };
    let stored = new.stored(session)?;
    let location = stored.external.clone().unwrap_or_else(|| warehouse.folder(name));
    write.format.clone_from(&stored.format);
    write.mode = mode;
    write.options.remove("path");
    // A new table has all of the rows, whatever the session says about partitions.
    write.options.set(OVERWRITE_MODE, "static");
    let kept = without_writer_options(stored);
    match write.format.as_str() {
        "delta" => save_delta(session, write, &location).await?,
        format if files::FORMATS.contains(&format) => files::save(session, write, &location).await?,
        format => return Err(unsupported(&format!("tables of format {format}"))),
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
/// Those of the plan and the table; the partitions of a Delta table cannot be replaced one by one.
pub(super) async fn overwrite_partitions(session: &Session, mut write: Write, name: &TableName) -> Result<()> {
    let warehouse = Warehouse::open(session.host.as_ref())?;
    let stored = warehouse.table(name).await?.ok_or_else(|| not_found(&[name.database.clone(), name.table.clone()]))?;
    if stored.partition_by.is_empty() {
        let options = write.options.clone();
        return into_table(session, write.analyzed, name, &By::Name, true, &options).await;
    }
    if stored.format == "delta" {
        return Err(unsupported("overwriting partitions of a Delta table"));
    }
    write.format.clone_from(&stored.format);
    write.partition_by.clone_from(&stored.partition_by);
    write.mode = SaveMode::Overwrite;
    write.options.set(OVERWRITE_MODE, "dynamic");
    files::save(session, write, stored.location()).await
}
