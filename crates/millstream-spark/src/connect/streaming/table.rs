//! `toTable()`: a table of the catalog as the place where rows go.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use millstream_core::{Error, Result};

use super::destination::Wanted;
use crate::connect::catalog::{NewTable, TableName, Warehouse, create_table, not_found, parts};
use crate::connect::session::ConnectSession;

/// Directs the query to a table, which is made if there is none. `has_format` tells whether the user named a format.
///
/// # Errors
/// Spark's refusals: `_LEGACY_ERROR_TEMP_1190` for a temporary view, `_LEGACY_ERROR_TEMP_1191` for a stored one, `_LEGACY_ERROR_TEMP_1192`
/// for a table of another format; those of making a table.
pub(super) async fn direct(
    session: &Arc<ConnectSession>,
    table: &str,
    has_format: bool,
    schema: &SchemaRef,
    wanted: &mut Wanted,
) -> Result<()> {
    let name_parts = parts(table)?;
    if let [view] = name_parts.as_slice()
        && session.view(view).is_some()
    {
        return Err(Error::invalid("_LEGACY_ERROR_TEMP_1190", format!("Temporary view {view} doesn't support streaming write")));
    }
    let name = TableName::of(session, &name_parts).ok_or_else(|| not_found(&name_parts))?;
    let warehouse = Warehouse::open(session.host.as_ref())?;
    let stored = match warehouse.table(&name).await? {
        Some(stored) => stored,
        None => {
            let new = NewTable {
                format: Some(wanted.format.clone()),
                path: wanted.options.get("path").map(str::to_owned),
                // A table that already has data may lack any of its columns.
                schema: Some(nullable(schema)),
                partition_by: wanted.partition_by.clone(),
                ..NewTable::default()
            };
            create_table(session, &name, new).await?
        }
    };
    if stored.view.is_some() {
        return Err(Error::invalid("_LEGACY_ERROR_TEMP_1191", format!("Streaming into views {table} is not supported.")));
    }
    // A Delta table says itself that it is one, so that its format need not be repeated.
    if stored.format != wanted.format && (has_format || stored.format != "delta") {
        return Err(Error::invalid(
            "_LEGACY_ERROR_TEMP_1192",
            format!(
                "The input source({}) is different from the table {table}'s data source provider({}): name the table's format.",
                wanted.format, stored.format
            ),
        ));
    }
    stored.format.clone_into(&mut wanted.format);
    wanted.options.set("path", stored.location());
    if wanted.partition_by.is_empty() {
        wanted.partition_by = stored.partition_by;
    }
    Ok(())
}

fn nullable(schema: &Schema) -> Schema {
    Schema::new(schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<_>>())
}
