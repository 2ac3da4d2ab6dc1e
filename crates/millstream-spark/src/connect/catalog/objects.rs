//! What is in the catalog, as the rows that clients make their objects from.

use std::sync::Arc;

use arrow::array::RecordBatch;
use millstream_core::Result;
use spark_connect_proto::read::{NamedTable, ReadType};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Read, Relation};

use super::name::{CATALOG, TableName, not_found, parts};
use super::rows::{batch, lists, matches, texts, truths};
use super::warehouse::{Stored, Warehouse};
use crate::connect::command::Registered;
use crate::connect::session::{ConnectSession, DEFAULT_DATABASE, GLOBAL_TEMP};
use crate::functions::Functions;
use crate::functions::aggregate::Aggregates;
use crate::types::{COMMENT, simple_name};

/// What a name stands for.
#[derive(Clone, Debug)]
pub(super) enum Found {
    /// A temporary view of the session.
    View(String),
    /// A view of `global_temp`.
    GlobalView(String),
    /// A table, or a view that is stored.
    Table(TableName, Box<Stored>),
}

impl Found {
    /// A text that only this object has.
    pub(super) fn label(&self) -> String {
        match self {
            Found::View(name) => name.clone(),
            Found::GlobalView(name) => format!("{GLOBAL_TEMP}.{name}"),
            Found::Table(name, _) => name.to_string(),
        }
    }
}

/// Finds what a name stands for: temporary views come first.
///
/// # Errors
/// `STORE_UNAVAILABLE`.
pub(super) async fn find(session: &ConnectSession, warehouse: &Warehouse, name: &[String]) -> Result<Option<Found>> {
    match name {
        [view] if session.view(view).is_some() => return Ok(Some(Found::View(view.to_lowercase()))),
        [database, view] if database.eq_ignore_ascii_case(GLOBAL_TEMP) => {
            let known = session.global_views().read().contains_key(&view.to_lowercase());
            return Ok(known.then(|| Found::GlobalView(view.to_lowercase())));
        }
        _ => {}
    }
    let Some(table) = TableName::of(session, name) else { return Ok(None) };
    Ok(warehouse.table(&table).await?.map(|stored| Found::Table(table, Box::new(stored))))
}

/// The same for a text.
///
/// # Errors
/// `TABLE_OR_VIEW_NOT_FOUND`.
pub(super) async fn require(session: &ConnectSession, warehouse: &Warehouse, name: &str) -> Result<Found> {
    let name = parts(name)?;
    find(session, warehouse, &name).await?.ok_or_else(|| not_found(&name))
}

/// The name of a schema, which may have the catalog before it.
///
/// # Errors
/// `SCHEMA_NOT_FOUND` for another catalog.
pub(super) fn database(text: &str) -> Result<String> {
    match parts(text)?.as_slice() {
        [name] => Ok(name.to_lowercase()),
        [catalog, name] if catalog.eq_ignore_ascii_case(CATALOG) => Ok(name.to_lowercase()),
        _ => Err(super::schema_not_found(text)),
    }
}

pub(super) fn databases(warehouse: &Warehouse, names: &[String]) -> Result<RecordBatch> {
    batch(vec![
        ("name", texts(names.iter().map(Some))),
        ("catalog", texts(names.iter().map(|_| Some(CATALOG)))),
        ("description", texts(names.iter().map(|name| Some(if name == DEFAULT_DATABASE { "default database" } else { "" })))),
        ("locationUri", texts(names.iter().map(|name| Some(warehouse.shown_url(name))))),
    ])
}

/// The tables and stored views of a schema that `which` picks, and the temporary views.
pub(super) async fn list(
    session: &ConnectSession,
    warehouse: &Warehouse,
    schema: Option<&str>,
    pattern: Option<&str>,
    which: impl Fn(&Stored) -> bool,
) -> Result<RecordBatch> {
    let schema = schema.map(database).transpose()?.unwrap_or_else(|| session.database());
    let mut found = Vec::new();
    if schema == GLOBAL_TEMP {
        let mut names: Vec<String> = session.global_views().read().keys().cloned().collect();
        names.sort();
        found.extend(names.into_iter().filter(|name| matches(name, pattern)).map(Found::GlobalView));
    } else {
        warehouse.require_database(&schema).await?;
        let tables = warehouse.tables(&schema).await?.into_iter().filter(|(name, stored)| matches(&name.table, pattern) && which(stored));
        found.extend(tables.map(|(name, stored)| Found::Table(name, Box::new(stored))));
    }
    found.extend(session.view_names().into_iter().filter(|name| matches(name, pattern)).map(Found::View));
    tables(&found)
}

pub(super) fn tables(found: &[Found]) -> Result<RecordBatch> {
    let name = |found: &Found| match found {
        Found::View(name) | Found::GlobalView(name) => name.clone(),
        Found::Table(name, _) => name.table.clone(),
    };
    let kind = |found: &Found| match found {
        Found::View(_) | Found::GlobalView(_) => "TEMPORARY",
        Found::Table(_, stored) if stored.view.is_some() => "VIEW",
        Found::Table(_, stored) if stored.external.is_some() => "EXTERNAL",
        Found::Table(..) => "MANAGED",
    };
    let namespace = |found: &Found| match found {
        Found::View(_) => Vec::new(),
        Found::GlobalView(_) => vec![GLOBAL_TEMP.to_owned()],
        Found::Table(name, _) => vec![name.database.clone()],
    };
    let namespaces: Vec<Vec<String>> = found.iter().map(namespace).collect();
    let comment = |found: &Found| match found {
        Found::Table(_, stored) => stored.comment.clone(),
        Found::View(_) | Found::GlobalView(_) => None,
    };
    batch(vec![
        ("name", texts(found.iter().map(|found| Some(name(found))))),
        ("catalog", texts(found.iter().map(|found| matches!(found, Found::Table(..)).then_some(CATALOG)))),
        ("namespace", lists(namespaces.iter().map(|parts| Some(parts.iter().map(String::as_str).collect())))),
        ("description", texts(found.iter().map(comment))),
        ("tableType", texts(found.iter().map(|found| Some(kind(found))))),
        ("isTemporary", truths(found.iter().map(|found| !matches!(found, Found::Table(..))))),
    ])
}

/// The columns of a table or view.
pub(super) async fn columns(session: &Arc<ConnectSession>, warehouse: &Warehouse, name: &str) -> Result<RecordBatch> {
    let found = require(session, warehouse, name).await?;
    let read = Read {
        is_streaming: false,
        read_type: Some(ReadType::NamedTable(NamedTable { unparsed_identifier: name.to_owned(), ..NamedTable::default() })),
    };
    let schema = session.analyze(&Relation { common: None, rel_type: Some(RelType::Read(read)) }).await?.schema();
    let fields = schema.fields();
    let partition_by = match &found {
        Found::Table(_, stored) => stored.partition_by.clone(),
        Found::View(_) | Found::GlobalView(_) => Vec::new(),
    };
    let partitions = |name: &str| partition_by.iter().any(|partition| partition.eq_ignore_ascii_case(name));
    let none = || truths(fields.iter().map(|_| false));
    batch(vec![
        ("name", texts(fields.iter().map(|field| Some(field.name())))),
        ("description", texts(fields.iter().map(|field| field.metadata().get(COMMENT)))),
        ("dataType", texts(fields.iter().map(|field| Some(simple_name(field.data_type()))))),
        ("nullable", truths(fields.iter().map(|field| field.is_nullable()))),
        ("isPartition", truths(fields.iter().map(|field| partitions(field.name())))),
        ("isBucket", none()),
        ("isCluster", none()),
    ])
}

/// The names of all functions, in order, with those that the session's client registered.
pub(in crate::connect) fn function_names(session: &ConnectSession) -> Vec<String> {
    let builtin = Functions::all().names().into_iter().chain(Aggregates::all().names()).map(str::to_owned);
    let mut names: Vec<String> = builtin.chain(session.part::<Registered>().names()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The function of that name, which may have `system.builtin` before it.
pub(super) fn function(session: &ConnectSession, text: &str) -> Option<String> {
    let parts = parts(text).ok()?;
    let name = match parts.as_slice() {
        [name] => name,
        [builtin, name] if builtin.eq_ignore_ascii_case("builtin") => name,
        [system, builtin, name] if system.eq_ignore_ascii_case("system") && builtin.eq_ignore_ascii_case("builtin") => name,
        _ => return None,
    };
    function_names(session).into_iter().find(|known| known.eq_ignore_ascii_case(name))
}

/// Whether there is a function of that name.
pub(in crate::connect) fn function_exists(session: &ConnectSession, text: &str) -> bool {
    function(session, text).is_some()
}

pub(super) fn functions(names: &[String]) -> Result<RecordBatch> {
    let nothing = || texts(names.iter().map(|_| None::<&str>));
    batch(vec![
        ("name", texts(names.iter().map(Some))),
        ("catalog", nothing()),
        ("namespace", lists(names.iter().map(|_| None))),
        ("description", texts(names.iter().map(|name| Some(format!("{name} is a function of this server"))))),
        ("className", texts(names.iter().map(|_| Some("millstream")))),
        ("isTemporary", truths(names.iter().map(|_| true))),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_may_be_called_with_their_catalog() {
        assert_eq!(database("Db2").unwrap(), "db2");
        assert_eq!(database("spark_catalog.default").unwrap(), "default");
        assert_eq!(database("other.default").unwrap_err().code(), "SCHEMA_NOT_FOUND");
    }

    #[test]
    fn kinds_of_tables() {
        let name = TableName { database: "default".into(), table: "t".into() };
        let found = [
            Found::Table(name.clone(), Box::new(Stored::of_format("delta"))),
            Found::Table(name, Box::new(Stored { external: Some("file:/x".into()), ..Stored::of_format("json") })),
            Found::View("v".into()),
        ];
        let rows = tables(&found).unwrap();
        let kinds = rows.column(4).as_any().downcast_ref::<arrow::array::StringArray>().unwrap();
        assert_eq!(kinds.iter().flatten().collect::<Vec<_>>(), ["MANAGED", "EXTERNAL", "TEMPORARY"]);
    }
}
