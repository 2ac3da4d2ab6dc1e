//! `SHOW`.

use std::collections::BTreeSet;

use arrow::array::{Array, RecordBatch, StringArray};
use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use futures::TryStreamExt;
use millstream_core::Result;
use millstream_engine::from_datafusion;
use spark_connect_proto::read::{NamedTable, ReadType};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Read, Relation};

use super::{Statements, table_operation, text_of};
use crate::connect::catalog::rows::{matches, strict, texts, truths};
use crate::connect::catalog::{CATALOG, Stored, TableName, Warehouse, function_names, not_found};
use crate::connect::command::Registered;
use crate::connect::errors::unsupported;
use crate::connect::session::GLOBAL_TEMP;
use crate::functions::cast::{TextStyle, text_of as texts_of};
use crate::sql::parse::{Name, Show};
use crate::types::to_ddl;

impl Statements<'_> {
    pub(super) async fn show(&self, what: Show) -> Result<RecordBatch> {
        let warehouse = Warehouse::open(self.session.host.as_ref())?;
        match what {
            Show::Tables { extended: true, .. } => Err(unsupported("SHOW TABLE EXTENDED: use DESCRIBE TABLE EXTENDED")),
            Show::Tables { database, pattern, .. } => self.objects(&warehouse, database, pattern.as_deref(), "tableName", |_| true).await,
            Show::Views { database, pattern } => {
                self.objects(&warehouse, database, pattern.as_deref(), "viewName", |stored| stored.view.is_some()).await
            }
            Show::Databases { pattern } => {
                let names = warehouse.databases().await?.into_iter().filter(|name| matches(name, pattern.as_deref()));
                strict(vec![("namespace", texts(names.map(Some)))])
            }
            Show::Catalogs { pattern } => {
                let names = [CATALOG].into_iter().filter(|name| matches(name, pattern.as_deref()));
                strict(vec![("catalog", texts(names.map(Some)))])
            }
            Show::Columns { table } => {
                let schema = self.schema_of(&table).await?;
                strict(vec![("col_name", texts(schema.fields().iter().map(|field| Some(field.name()))))])
            }
            Show::Functions { pattern, kind } => {
                let of_user = kind.eq_ignore_ascii_case("USER");
                let names = if of_user { self.session.part::<Registered>().names() } else { function_names(self.session) };
                let names = names.into_iter();
                strict(vec![("function", texts(names.filter(|name| matches(name, pattern.as_deref())).map(Some)))])
            }
            Show::CreateTable { table } => self.create_text(&table).await,
            Show::Properties { table, key } => self.properties(&table, key).await,
            Show::Partitions { table } => self.partitions(&table).await,
            Show::CurrentNamespace => {
                strict(vec![("catalog", texts([Some(CATALOG)])), ("namespace", texts([Some(self.session.database())]))])
            }
        }
    }

    async fn objects(
        &self,
        warehouse: &Warehouse,
        database: Option<Name>,
        pattern: Option<&str>,
        column: &str,
        which: impl Fn(&Stored) -> bool,
    ) -> Result<RecordBatch> {
        let database = database.and_then(|name| name.last().map(|name| name.to_lowercase())).unwrap_or_else(|| self.session.database());
        let mut found: Vec<(String, String, bool)> = Vec::new();
        if database == GLOBAL_TEMP {
            let names: BTreeSet<String> = self.session.global_views().read().keys().cloned().collect();
            found.extend(names.into_iter().map(|name| (GLOBAL_TEMP.to_owned(), name, true)));
        } else {
            warehouse.require_database(&database).await?;
            let tables = warehouse.tables(&database).await?.into_iter().filter(|(_, stored)| which(stored));
            found.extend(tables.map(|(name, _)| (name.database, name.table, false)));
        }
        found.extend(self.session.view_names().into_iter().map(|name| (String::new(), name, true)));
        found.retain(|(_, name, _)| matches(name, pattern));
        strict(vec![
            ("namespace", texts(found.iter().map(|(namespace, ..)| Some(namespace)))),
            (column, texts(found.iter().map(|(_, name, _)| Some(name)))),
            ("isTemporary", truths(found.iter().map(|(.., temporary)| *temporary))),
        ])
    }

    async fn known(&self, name: &Name) -> Result<(TableName, Stored)> {
        let (table, stored) = self.stored(name).await?.ok_or_else(|| not_found(name))?;
        Ok((table, stored.with_own_properties(self.session).await?))
    }

    async fn create_text(&self, name: &Name) -> Result<RecordBatch> {
        let (table, stored) = self.known(name).await?;
        let full = format!("{CATALOG}.{}.{}", table.database, table.table);
        let text = match &stored.view {
            Some(text) => format!("CREATE VIEW {full} AS {text}\n"),
            None => {
                let schema = self.schema_of(name).await?;
                let columns: Vec<String> =
                    schema.fields().iter().map(|field| to_ddl(&arrow::datatypes::Schema::new(vec![field.clone()]))).collect();
                let mut text = format!("CREATE TABLE {full} (\n  {})\nUSING {}\n", columns.join(",\n  "), stored.format);
                if !stored.partition_by.is_empty() {
                    text.push_str(&format!("PARTITIONED BY ({})\n", stored.partition_by.join(", ")));
                }
                if !stored.clustering.is_empty() {
                    text.push_str(&format!("CLUSTER BY ({})\n", stored.clustering.join(", ")));
                }
                if let Some(location) = &stored.external {
                    text.push_str(&format!("LOCATION '{location}'\n"));
                }
                if let Some(comment) = &stored.comment {
                    text.push_str(&format!("COMMENT '{}'\n", comment.replace('\'', "\\'")));
                }
                if !stored.properties.is_empty() {
                    let pairs: Vec<String> = stored.properties.iter().map(|(key, value)| format!("'{key}' = '{value}'")).collect();
                    text.push_str(&format!("TBLPROPERTIES (\n  {})\n", pairs.join(",\n  ")));
                }
                text
            }
        };
        strict(vec![("createtab_stmt", texts([Some(text)]))])
    }

    async fn properties(&self, name: &Name, key: Option<String>) -> Result<RecordBatch> {
        let (table, stored) = self.known(name).await?;
        let pairs: Vec<(String, String)> = match key {
            None => stored.properties.into_iter().collect(),
            Some(key) => {
                let value = stored.properties.get(&key).cloned();
                let value = value.unwrap_or_else(|| format!("Table {table} does not have property: {key}"));
                vec![(key, value)]
            }
        };
        strict(vec![("key", texts(pairs.iter().map(|(key, _)| Some(key)))), ("value", texts(pairs.iter().map(|(_, value)| Some(value))))])
    }

    async fn partitions(&self, name: &Name) -> Result<RecordBatch> {
        let (_, stored) = self.known(name).await?;
        if stored.partition_by.is_empty() {
            return Err(table_operation(name, "SHOW PARTITIONS: it has none"));
        }
        let read = Read {
            is_streaming: false,
            read_type: Some(ReadType::NamedTable(NamedTable { unparsed_identifier: text_of(name), ..NamedTable::default() })),
        };
        let analyzed = self.session.analyze(&Relation { common: None, rel_type: Some(RelType::Read(read)) }).await?;
        let of = |name: &String| analyzed.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name)).cloned();
        let columns: Vec<_> = stored.partition_by.iter().filter_map(of).collect();
        let exprs: Vec<Expr> = columns.iter().map(|column| Expr::Column(Column::new_unqualified(&column.internal))).collect();
        let plan = LogicalPlanBuilder::from(analyzed.plan)
            .project(exprs)
            .and_then(LogicalPlanBuilder::distinct)
            .and_then(LogicalPlanBuilder::build)
            .map_err(from_datafusion)?;
        let batches: Vec<RecordBatch> = self.session.engine.rows(plan).await?.batches.try_collect().await?;
        let style = TextStyle::cast(self.session.settings().time_zone);
        let mut found = BTreeSet::new();
        for batch in &batches {
            let values: Vec<StringArray> = batch
                .columns()
                .iter()
                .zip(&columns)
                .map(|(values, column)| texts_of(values, &column.to_field(), &style))
                .collect::<Result<_>>()?;
            for row in 0..batch.num_rows() {
                let part = |(values, column): (&StringArray, &crate::analyzer::Attribute)| {
                    let value = if values.is_null(row) { "__HIVE_DEFAULT_PARTITION__" } else { values.value(row) };
                    format!("{}={value}", column.name)
                };
                found.insert(values.iter().zip(&columns).map(part).collect::<Vec<_>>().join("/"));
            }
        }
        strict(vec![("partition", texts(found.iter().map(Some)))])
    }
}
