//! `CREATE VIEW` and `CREATE TABLE`.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema};
use millstream_core::{Error, Result};
use spark_connect_proto::read::{DataSource, ReadType};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::write_operation::SaveMode;
use spark_connect_proto::{Read, Relation};

use super::{Statements, text_of};
use crate::analyzer::Leaf;
use crate::connect::catalog::rows::done;
use crate::connect::catalog::{NewTable, Stored, TableName, Warehouse, create_table, not_found, table_exists};
use crate::connect::command::{Definition, Write, create_as, define, partition_column, replace_as};
use crate::sql::parse::{CreateTable, CreateView, Name, ViewScope};
use crate::types::{quote, schema_to_json};

impl Statements<'_> {
    pub(super) async fn create_view(&self, view: CreateView) -> Result<RecordBatch> {
        if view.scope != ViewScope::Permanent {
            let replace = view.replace;
            if view.if_not_exists && matches!(view.name.as_slice(), [name] if self.session.view(name).is_some()) {
                return done();
            }
            let columns: Vec<String> = view.columns.into_iter().map(|(name, _)| name).collect();
            self.define_view(&view.name, view.query, &columns, view.scope == ViewScope::GlobalTemporary, replace).await?;
            return done();
        }
        let warehouse = Warehouse::open(self.session.host.as_ref())?;
        let name = TableName::of(self.session, &view.name).ok_or_else(|| not_found(&view.name))?;
        name.check_new()?;
        warehouse.require_database(&name.database).await?;
        match warehouse.table(&name).await? {
            Some(stored) if stored.view.is_none() || !(view.replace || view.if_not_exists) => return Err(table_exists(&name)),
            Some(_) if view.if_not_exists => return done(),
            _ => {}
        }
        let analyzed = self.session.analyze(&self.query(view.query)).await?;
        check_arity(&name.to_string(), view.columns.len(), analyzed.schema().fields().len())?;
        let text = if view.columns.is_empty() {
            view.text
        } else {
            let columns: Vec<String> = view.columns.iter().map(|(name, _)| quote(name)).collect();
            format!("SELECT * FROM ({}) AS `view` ({})", view.text, columns.join(", "))
        };
        let stored = Stored { view: Some(text), comment: view.comment, properties: view.properties, ..Stored::of_format("view") };
        warehouse.record(&name, &stored).await?;
        done()
    }

    /// Makes a temporary view of a query.
    ///
    /// # Errors
    /// Those of the query; `TEMP_TABLE_OR_VIEW_ALREADY_EXISTS` unless it replaces.
    pub(super) async fn define_view(&self, name: &Name, query: Relation, columns: &[String], global: bool, replace: bool) -> Result<()> {
        let [name] = name.as_slice() else {
            let message = format!("the temporary view {} must have a name of one part", text_of(name));
            return Err(Error::invalid("TEMP_VIEW_NAME_TOO_MANY_NAME_PARTS", message).with_sqlstate("428EK"));
        };
        let mut analyzed = self.session.analyze(&self.query(query)).await?;
        check_arity(name, columns.len(), analyzed.schema().fields().len())?;
        for (column, new) in analyzed.columns.iter_mut().filter(|column| !column.hidden).zip(columns) {
            column.name.clone_from(new);
        }
        define(self.session, name, Leaf::Analyzed(analyzed), global, replace)
    }

    pub(super) async fn create_view_using(
        &self,
        name: &str,
        replace: bool,
        global: bool,
        columns: Vec<Field>,
        provider: &str,
        options: BTreeMap<String, String>,
    ) -> Result<RecordBatch> {
        let source = DataSource {
            format: Some(provider.to_owned()),
            schema: (!columns.is_empty()).then(|| schema_to_json(&Schema::new(columns))),
            options: options.into_iter().collect(),
            ..DataSource::default()
        };
        let read = Read { is_streaming: false, read_type: Some(ReadType::DataSource(source)) };
        let relation = Relation { common: None, rel_type: Some(RelType::Read(read)) };
        let analyzed = self.session.analyze(&relation).await?;
        define(self.session, name, Leaf::Analyzed(analyzed), global, replace)?;
        done()
    }

    pub(super) async fn create_table(&self, table: CreateTable) -> Result<RecordBatch> {
        let session = self.session;
        let name = TableName::of(session, &table.name).ok_or_else(|| not_found(&table.name))?;
        let warehouse = Warehouse::open(session.host.as_ref())?;
        let known = warehouse.table(&name).await?;
        if known.is_some() && table.if_not_exists {
            return done();
        }
        let partition_by: Vec<String> = table.partitioning.iter().map(partition_column).collect::<Result<_>>()?;
        if let Some(query) = table.query {
            let mut options: millstream_core::Options = table.options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            if let Some(location) = &table.location {
                options.set("path", location.as_str());
            }
            let write = Write {
                analyzed: session.analyze(&self.query(query)).await?.stored(),
                format: table.provider.unwrap_or_default().to_lowercase(),
                mode: SaveMode::ErrorIfExists,
                partition_by,
                options,
                statement: Some(Definition { clustering: table.clustering, comment: table.comment, ..Definition::default() }),
            };
            let properties = table.properties.into_iter().collect();
            match table.replace {
                true => replace_as(session, write, &name, properties, !table.must_exist).await?,
                false => create_as(session, write, &name, properties).await?,
            }
            return done();
        }
        if table.must_exist && known.is_none() {
            return Err(not_found(&table.name));
        }
        let schema = match &table.like {
            Some(source) => {
                let source = TableName::of(session, source).ok_or_else(|| not_found(source))?;
                let stored = warehouse.table(&source).await?.ok_or_else(|| not_found(&[source.database.clone(), source.table.clone()]))?;
                Some(stored.columns(session).await?)
            }
            None => (!table.columns.is_empty()).then(|| Schema::new(table.columns)),
        };
        let new = NewTable {
            format: table.provider,
            path: table.location,
            schema,
            partition_by,
            options: table.options,
            properties: table.properties,
            comment: table.comment,
            clustering: table.clustering,
            replaces: table.replace,
        };
        create_table(session, &name, new).await?;
        done()
    }
}

fn check_arity(view: &str, names: usize, columns: usize) -> Result<()> {
    if names == 0 || names == columns {
        return Ok(());
    }
    let what = if names > columns { "NOT_ENOUGH_DATA_COLUMNS" } else { "TOO_MANY_DATA_COLUMNS" };
    let message = format!("Cannot create view {view}: it names {names} columns and its query has {columns}.");
    Err(Error::invalid(format!("CREATE_VIEW_COLUMN_ARITY_MISMATCH.{what}"), message).with_sqlstate("21S01"))
}
