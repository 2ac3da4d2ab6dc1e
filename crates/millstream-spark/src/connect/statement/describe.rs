//! `DESCRIBE`.

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use millstream_core::{Error, Result};
use spark_connect_proto::read::{NamedTable, ReadType};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Read, Relation};

use super::{Statements, text_of};
use crate::connect::catalog::rows::{strict, texts};
use crate::connect::catalog::{CATALOG, Stored, TableName, Warehouse, function_exists, schema_not_found};
use crate::connect::session::DEFAULT_DATABASE;
use crate::functions::faults::unresolved_routine;
use crate::sql::parse::{Describe, Name};
use crate::types::{COMMENT, simple_name};

/// A row of `DESCRIBE TABLE`.
type Row = (String, String, Option<String>);

fn row(name: &str, value: impl Into<String>, comment: Option<&str>) -> Row {
    (name.to_owned(), value.into(), comment.map(str::to_owned))
}

impl Statements<'_> {
    pub(super) async fn describe(&self, what: Describe) -> Result<RecordBatch> {
        match what {
            Describe::Query(query) => rows(columns(&self.session.analyze(&self.query(*query)).await?.schema())),
            Describe::Table { name, extended, column } => match column {
                None => self.describe_table(&name, extended).await,
                Some(column) => self.describe_column(&name, &column).await,
            },
            Describe::History { table, limit } => self.history(&table, limit).await,
            Describe::Detail { table } => self.detail(&table).await,
            Describe::Database { name, .. } => self.describe_database(&name).await,
            Describe::Function { name, .. } => {
                let text = text_of(&name);
                if !function_exists(self.session, &text) {
                    return Err(unresolved_routine(&text));
                }
                let lines =
                    [format!("Function: {text}"), "Class: millstream".to_owned(), "Usage: see Spark's reference of functions".to_owned()];
                strict(vec![("function_desc", texts(lines.iter().map(Some)))])
            }
        }
    }

    /// The columns that a table or view has.
    pub(super) async fn schema_of(&self, name: &Name) -> Result<Schema> {
        let read = Read {
            is_streaming: false,
            read_type: Some(ReadType::NamedTable(NamedTable { unparsed_identifier: text_of(name), ..NamedTable::default() })),
        };
        let relation = Relation { common: None, rel_type: Some(RelType::Read(read)) };
        self.session.analyze(&relation).await.map(|analyzed| analyzed.schema())
    }

    /// The table of a name, if it is no temporary view.
    pub(super) async fn stored(&self, name: &Name) -> Result<Option<(TableName, Stored)>> {
        if matches!(name.as_slice(), [view] if self.session.view(view).is_some()) {
            return Ok(None);
        }
        let warehouse = Warehouse::open(self.session.host.as_ref())?;
        let Some(table) = TableName::of(self.session, name) else { return Ok(None) };
        Ok(warehouse.table(&table).await?.map(|stored| (table, stored)))
    }

    async fn describe_table(&self, name: &Name, extended: bool) -> Result<RecordBatch> {
        let schema = self.schema_of(name).await?;
        let mut lines = columns(&schema);
        let Some((table, stored)) = self.stored(name).await? else { return rows(lines) };
        let stored = stored.with_own_properties(self.session).await?;
        if !stored.clustering.is_empty() {
            let of = |name: &String| lines.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name)).cloned();
            let clustering: Vec<Row> = stored.clustering.iter().filter_map(of).collect();
            lines.push(row("# Clustering Information", "", Some("")));
            lines.push(row("# col_name", "data_type", Some("comment")));
            lines.extend(clustering);
        }
        if !stored.partition_by.is_empty() {
            let of = |name: &String| lines.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name)).cloned();
            let partitions: Vec<Row> = stored.partition_by.iter().filter_map(of).collect();
            lines.push(row("# Partition Information", "", Some("")));
            lines.push(row("# col_name", "data_type", Some("comment")));
            lines.extend(partitions);
        }
        if extended {
            lines.push(row("", "", Some("")));
            lines.push(row("# Detailed Table Information", "", Some("")));
            lines.push(row("Catalog", CATALOG, Some("")));
            lines.push(row("Database", table.database.as_str(), Some("")));
            lines.push(row("Table", table.table.as_str(), Some("")));
            let kind = if stored.view.is_some() {
                "VIEW"
            } else if stored.external.is_some() {
                "EXTERNAL"
            } else {
                "MANAGED"
            };
            lines.push(row("Type", kind, Some("")));
            match &stored.view {
                Some(text) => lines.push(row("View Text", text.as_str(), Some(""))),
                None => {
                    lines.push(row("Provider", stored.format.as_str(), Some("")));
                    lines.push(row("Location", stored.location().replacen("file:///", "file:/", 1), Some("")));
                }
            }
            if let Some(comment) = &stored.comment {
                lines.push(row("Comment", comment.as_str(), Some("")));
            }
            if !stored.properties.is_empty() {
                let pairs: Vec<String> = stored.properties.iter().map(|(key, value)| format!("{key}={value}")).collect();
                lines.push(row("Table Properties", format!("[{}]", pairs.join(",")), Some("")));
            }
        }
        rows(lines)
    }

    async fn describe_column(&self, name: &Name, column: &Name) -> Result<RecordBatch> {
        let schema = self.schema_of(name).await?;
        let [wanted] = column.as_slice() else {
            let message = format!("DESC TABLE COLUMN does not support nested column: {}.", text_of(column));
            return Err(Error::invalid("_LEGACY_ERROR_TEMP_1060", message));
        };
        let field = schema.fields().iter().find(|field| field.name().eq_ignore_ascii_case(wanted)).ok_or_else(|| {
            Error::invalid("COLUMN_NOT_FOUND", format!("The column `{wanted}` cannot be found in {}.", text_of(name)))
                .with_sqlstate("42703")
        })?;
        let comment = field.metadata().get(COMMENT).map_or("NULL", String::as_str);
        let facts = [("col_name", field.name().clone()), ("data_type", simple_name(field.data_type())), ("comment", comment.to_owned())];
        strict(vec![
            ("info_name", texts(facts.iter().map(|(name, _)| Some(name)))),
            ("info_value", texts(facts.iter().map(|(_, value)| Some(value)))),
        ])
    }

    async fn describe_database(&self, name: &Name) -> Result<RecordBatch> {
        let warehouse = Warehouse::open(self.session.host.as_ref())?;
        let database = name.last().map(|name| name.to_lowercase()).unwrap_or_default();
        if !warehouse.has_database(&database).await? {
            return Err(schema_not_found(&database));
        }
        let comment = if database == DEFAULT_DATABASE { "default database" } else { "" };
        let facts = [
            ("Catalog Name", CATALOG.to_owned()),
            ("Namespace Name", database.clone()),
            ("Comment", comment.to_owned()),
            ("Location", warehouse.shown_url(&database)),
        ];
        strict(vec![
            ("info_name", texts(facts.iter().map(|(name, _)| Some(name)))),
            ("info_value", texts(facts.iter().map(|(_, value)| Some(value)))),
        ])
    }
}

fn columns(schema: &Schema) -> Vec<Row> {
    let of = |field: &std::sync::Arc<arrow::datatypes::Field>| {
        row(field.name(), simple_name(field.data_type()), field.metadata().get(COMMENT).map(String::as_str))
    };
    schema.fields().iter().map(of).collect()
}

fn rows(lines: Vec<Row>) -> Result<RecordBatch> {
    crate::connect::catalog::rows::batch(vec![
        ("col_name", texts(lines.iter().map(|(name, ..)| Some(name)))),
        ("data_type", texts(lines.iter().map(|(_, value, _)| Some(value)))),
        ("comment", texts(lines.iter().map(|(.., comment)| comment.as_ref()))),
    ])
}
