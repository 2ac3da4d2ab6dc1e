//! The catalog: `spark.catalog` of clients, and the tables that names in plans stand for.

mod create;
mod name;
mod objects;
pub(super) mod rows;
mod warehouse;

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema};
use millstream_core::{Error, Result};
use parking_lot::Mutex;
use spark_connect_proto::catalog::CatType;
use spark_connect_proto::{self as proto, Catalog};

use super::errors::{incomplete, unsupported};
use super::session::{ConnectSession, GLOBAL_TEMP};
use crate::types::from_proto;
use objects::{Found, find, require};
use rows::{batch, done, matches, texts, truths, value};

pub(super) use create::{NewTable, create_table, define, has_comments};
pub(super) use name::{CATALOG, TableName, not_found, parts};
pub(super) use objects::{function_exists, function_names};
pub(super) use warehouse::{Stored, Warehouse, schema_not_found, table_exists};

/// The tables that a session was asked to cache. Nothing is kept in memory: reading a table again gives the same rows.
#[derive(Debug, Default)]
struct Cached(Mutex<BTreeSet<String>>);

/// Does what a catalog relation says. Its rows are the answer.
///
/// # Errors
/// Spark's conditions of the catalog.
pub(super) async fn run(session: &Arc<ConnectSession>, catalog: Catalog) -> Result<RecordBatch> {
    let warehouse = Warehouse::open(session.host.as_ref())?;
    match catalog.cat_type.ok_or_else(|| incomplete("Catalog"))? {
        CatType::CurrentCatalog(_) => value(texts([Some(CATALOG)])),
        CatType::SetCurrentCatalog(asked) => match asked.catalog_name.eq_ignore_ascii_case(CATALOG) {
            true => done(),
            false => Err(catalog_not_found(&asked.catalog_name)),
        },
        CatType::ListCatalogs(asked) => {
            let names: Vec<&str> = [CATALOG].into_iter().filter(|name| matches(name, asked.pattern.as_deref())).collect();
            batch(vec![("name", texts(names.iter().map(Some))), ("description", texts(names.iter().map(|_| None::<&str>)))])
        }
        CatType::CurrentDatabase(_) => value(texts([Some(session.database())])),
        CatType::SetCurrentDatabase(asked) => {
            let name = objects::database(&asked.db_name)?;
            warehouse.require_database(&name).await?;
            session.set_database(&name);
            done()
        }
        CatType::ListDatabases(asked) => {
            let names = warehouse.databases().await?.into_iter().filter(|name| matches(name, asked.pattern.as_deref()));
            objects::databases(&warehouse, &names.collect::<Vec<_>>())
        }
        CatType::GetDatabase(asked) => {
            let name = objects::database(&asked.db_name)?;
            warehouse.require_database(&name).await?;
            objects::databases(&warehouse, &[name])
        }
        CatType::DatabaseExists(asked) => {
            let name = objects::database(&asked.db_name);
            let exists = match name {
                Ok(name) => name == GLOBAL_TEMP || warehouse.has_database(&name).await?,
                Err(_) => false,
            };
            value(truths([exists]))
        }
        CatType::CreateDatabase(asked) => {
            let name = objects::database(&asked.db_name)?;
            if !warehouse.create_database(&name).await? && !asked.if_not_exists {
                return Err(schema_exists(&name));
            }
            done()
        }
        CatType::DropDatabase(asked) => {
            drop_database(session, &warehouse, &objects::database(&asked.db_name)?, asked.if_exists, asked.cascade).await?;
            done()
        }
        CatType::ListTables(asked) => {
            objects::list(session, &warehouse, asked.db_name.as_deref(), asked.pattern.as_deref(), |_| true).await
        }
        CatType::ListViews(asked) => {
            objects::list(session, &warehouse, asked.db_name.as_deref(), asked.pattern.as_deref(), |stored| stored.view.is_some()).await
        }
        CatType::GetTable(asked) => {
            let name = qualified(asked.db_name.as_deref(), &asked.table_name);
            objects::tables(&[require(session, &warehouse, &name).await?])
        }
        CatType::TableExists(asked) => {
            let name = qualified(asked.db_name.as_deref(), &asked.table_name);
            value(truths([find(session, &warehouse, &parts(&name)?).await?.is_some()]))
        }
        CatType::ListColumns(asked) => objects::columns(session, &warehouse, &qualified(asked.db_name.as_deref(), &asked.table_name)).await,
        CatType::ListFunctions(asked) => {
            if let Some(database) = &asked.db_name {
                warehouse.require_database(&objects::database(database)?).await?;
            }
            let names = function_names(session).into_iter().filter(|name| matches(name, asked.pattern.as_deref()));
            objects::functions(&names.collect::<Vec<_>>())
        }
        CatType::GetFunction(asked) => match objects::function(session, &asked.function_name) {
            Some(name) => objects::functions(&[name]),
            None => Err(crate::functions::faults::unresolved_routine(&asked.function_name)),
        },
        CatType::FunctionExists(asked) => value(truths([objects::function(session, &asked.function_name).is_some()])),
        CatType::CreateTable(asked) => {
            let schema = asked.schema.as_ref().map(to_schema).transpose()?;
            let table = NewTable {
                format: asked.source,
                path: asked.path,
                schema,
                options: asked.options.into_iter().collect(),
                comment: asked.description,
                ..NewTable::default()
            };
            created(session, &asked.table_name, table).await
        }
        CatType::CreateExternalTable(asked) => {
            let schema = asked.schema.as_ref().map(to_schema).transpose()?;
            let options = asked.options.into_iter().collect();
            created(session, &asked.table_name, NewTable { format: asked.source, path: asked.path, schema, options, ..NewTable::default() })
                .await
        }
        CatType::DropTable(asked) => {
            drop_table(session, &warehouse, &asked.table_name, asked.if_exists, false).await?;
            done()
        }
        CatType::DropView(asked) => {
            if !drop_any_view(session, &asked.view_name) {
                drop_table(session, &warehouse, &asked.view_name, asked.if_exists, true).await?;
            }
            done()
        }
        CatType::DropTempView(asked) => value(truths([session.drop_view(&asked.view_name)])),
        CatType::DropGlobalTempView(asked) => {
            let removed = session.global_views().write().remove(&asked.view_name.to_lowercase());
            value(truths([removed.is_some()]))
        }
        CatType::IsCached(asked) => {
            let found = require(session, &warehouse, &asked.table_name).await?;
            value(truths([session.part::<Cached>().0.lock().contains(&found.label())]))
        }
        CatType::CacheTable(asked) => {
            let found = require(session, &warehouse, &asked.table_name).await?;
            session.part::<Cached>().0.lock().insert(found.label());
            done()
        }
        CatType::UncacheTable(asked) => {
            let found = require(session, &warehouse, &asked.table_name).await?;
            session.part::<Cached>().0.lock().remove(&found.label());
            done()
        }
        CatType::ClearCache(_) => {
            session.part::<Cached>().0.lock().clear();
            done()
        }
        CatType::RefreshTable(asked) => require(session, &warehouse, &asked.table_name).await.and_then(|_| done()),
        CatType::RecoverPartitions(asked) => require(session, &warehouse, &asked.table_name).await.and_then(|_| done()),
        CatType::AnalyzeTable(asked) => require(session, &warehouse, &asked.table_name).await.and_then(|_| done()),
        CatType::RefreshByPath(_) => done(),
        CatType::GetTableProperties(asked) => match require(session, &warehouse, &asked.table_name).await? {
            Found::Table(_, stored) => {
                let stored = stored.with_own_properties(session).await?;
                batch(vec![("key", texts(stored.properties.keys().map(Some))), ("value", texts(stored.properties.values().map(Some)))])
            }
            Found::View(_) | Found::GlobalView(_) => batch(vec![("key", texts::<&str>([])), ("value", texts::<&str>([]))]),
        },
        CatType::ListPartitions(_) => Err(unsupported("listing the partitions of a table: select its partition columns instead")),
        CatType::GetCreateTableString(_) => Err(unsupported("SHOW CREATE TABLE")),
        CatType::TruncateTable(asked) => {
            create::truncate(session, &warehouse, &asked.table_name).await?;
            done()
        }
    }
}

/// The columns of a catalog relation's rows. A table that it made already is not made again.
///
/// # Errors
/// Those of [`run`].
pub(super) async fn schema(session: &Arc<ConnectSession>, catalog: Catalog) -> Result<Schema> {
    let made = match &catalog.cat_type {
        Some(CatType::CreateTable(asked)) => Some(&asked.table_name),
        Some(CatType::CreateExternalTable(asked)) => Some(&asked.table_name),
        _ => None,
    };
    if let Some(name) = made {
        let name = TableName::parse(session, name)?;
        if let Some(stored) = Warehouse::open(session.host.as_ref())?.table(&name).await? {
            return stored.columns(session).await;
        }
    }
    run(session, catalog).await.map(|rows| rows.schema().as_ref().clone())
}

/// `db.t` for a name that is given in two pieces.
fn qualified(database: Option<&str>, table: &str) -> String {
    match database {
        Some(database) if !database.is_empty() => format!("`{}`.{table}", database.replace('`', "``")),
        _ => table.to_owned(),
    }
}

async fn created(session: &Arc<ConnectSession>, name: &str, table: NewTable) -> Result<RecordBatch> {
    let name = TableName::parse(session, name)?;
    let stored = create_table(session, &name, table).await?;
    Ok(RecordBatch::new_empty(Arc::new(stored.columns(session).await?)))
}

/// A schema of the protocol.
///
/// # Errors
/// Those of its types; `INVALID_PLAN_INPUT` for a type that is no structure.
pub(super) fn to_schema(data_type: &proto::DataType) -> Result<Schema> {
    if let Some(proto::data_type::Kind::Unparsed(text)) = &data_type.kind {
        return super::schema::parse(&text.data_type_string).map(|schema| schema.as_ref().clone());
    }
    let field: Field = from_proto(data_type)?;
    match field.data_type() {
        arrow::datatypes::DataType::Struct(fields) => Ok(Schema::new(fields.clone())),
        other => Err(Error::invalid("INVALID_PLAN_INPUT", format!("the schema of a table is a {other} and not a structure"))),
    }
}

/// Removes a temporary view of either kind; says whether there was one.
pub(super) fn drop_any_view(session: &ConnectSession, name: &str) -> bool {
    match parts(name).unwrap_or_default().as_slice() {
        [view] => session.drop_view(view),
        [database, view] if database.eq_ignore_ascii_case(GLOBAL_TEMP) => {
            session.global_views().write().remove(&view.to_lowercase()).is_some()
        }
        _ => false,
    }
}

/// Removes a table, or a view that is stored.
///
/// # Errors
/// `TABLE_OR_VIEW_NOT_FOUND` unless `if_exists`; `WRONG_COMMAND_FOR_OBJECT_TYPE` for a view that is dropped as a table or the other way
/// round.
pub(super) async fn drop_table(session: &ConnectSession, warehouse: &Warehouse, name: &str, if_exists: bool, view: bool) -> Result<()> {
    let name_parts = parts(name)?;
    let found = TableName::of(session, &name_parts);
    let stored = match &found {
        Some(found) => warehouse.table(found).await?,
        None => None,
    };
    let (Some(found), Some(stored)) = (found, stored) else {
        return if if_exists { Ok(()) } else { Err(not_found(&name_parts)) };
    };
    if stored.view.is_some() != view {
        let (is, other) = if view { ("a table", "DROP TABLE") } else { ("a view", "DROP VIEW") };
        let message = format!("{found} is {is}: use {other}");
        return Err(Error::invalid("WRONG_COMMAND_FOR_OBJECT_TYPE", message).with_sqlstate("42809"));
    }
    warehouse.drop_table(&found).await
}

/// Removes a schema.
///
/// # Errors
/// `SCHEMA_NOT_FOUND` unless `if_exists`; `SCHEMA_NOT_EMPTY` unless `cascade`; `UNSUPPORTED_FEATURE.DROP_DATABASE` for `default`.
pub(super) async fn drop_database(
    session: &ConnectSession,
    warehouse: &Warehouse,
    name: &str,
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    if !warehouse.has_database(name).await? {
        return if if_exists { Ok(()) } else { Err(schema_not_found(name)) };
    }
    if name == super::session::DEFAULT_DATABASE {
        let message = "The feature is not supported: Drop the default schema `spark_catalog`.`default`.";
        return Err(Error::invalid("UNSUPPORTED_FEATURE.DROP_DATABASE", message).with_sqlstate("0A000"));
    }
    if !cascade && !warehouse.tables(name).await?.is_empty() {
        let message = format!("Cannot drop a schema `{name}` because it contains objects: use CASCADE, or drop them first.");
        return Err(Error::invalid("SCHEMA_NOT_EMPTY", message).with_sqlstate("2BP01"));
    }
    warehouse.drop_database(name).await?;
    if session.database() == name {
        session.set_database(super::session::DEFAULT_DATABASE);
    }
    Ok(())
}

fn catalog_not_found(name: &str) -> Error {
    let message = format!("The catalog `{name}` not found: there is only `{CATALOG}`.");
    Error::new(millstream_core::ErrorKind::Invalid, "CATALOG_NOT_FOUND", message).with_sqlstate("42P08")
}

/// A schema of that name exists.
pub(super) fn schema_exists(name: &str) -> Error {
    let message = format!("Cannot create schema `{name}` because it already exists: choose a different name, or drop it first.");
    Error::invalid("SCHEMA_ALREADY_EXISTS", message).with_sqlstate("42P06")
}
