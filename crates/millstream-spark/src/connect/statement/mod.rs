//! SQL statements: what `spark.sql` does at once, and the rows that it answers.

mod alter;
pub(super) mod change;
mod create;
mod describe;
mod insert;
mod settings;
mod show;
mod upkeep;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use millstream_core::{Error, Result};
use spark_connect_proto::analyze_plan_request::explain;
use spark_connect_proto::catalog::CatType;
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{self as proto, Catalog, Expression, Relation, Sql, WithRelations};

use super::analyze;
use super::catalog::rows::{done, strict, texts};
use super::catalog::{self as objects, Warehouse, drop_any_view, drop_database, drop_table};
use super::command::Registered;
use super::delta;
use super::errors::{self, unsupported};
use super::persisted::Persisted;
use super::session::{ConnectSession, GLOBAL_TEMP};
use crate::sql::parse::{ExplainMode, Name, ObjectKind, Statement, statement as parse};
use crate::types::quote;

type Session = Arc<ConnectSession>;

/// Runs a relation that is the text of a statement, or an extension that does something, and gives its rows; `None` for a query and for everything else.
///
/// # Errors
/// Those of the text and of the statement.
pub(super) async fn run(session: &Session, relation: &Relation) -> Result<Option<RecordBatch>> {
    let (sql, references) = match &relation.rel_type {
        Some(RelType::Extension(_)) => return delta::run(session, relation).await,
        Some(RelType::Sql(sql)) => (sql, &[][..]),
        Some(RelType::WithRelations(with)) => match with.root.as_ref().and_then(|root| root.rel_type.as_ref()) {
            Some(RelType::Sql(sql)) => (sql, with.references.as_slice()),
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    if is_plainly_a_query(&sql.query) {
        return Ok(None);
    }
    let (named, positional) = arguments(sql);
    let statement = parse(&sql.query, &named, &positional)?;
    if let Statement::Query(_) = statement {
        return Ok(None);
    }
    let rows = Statements { session, references }.run(statement).await?;
    session.part::<Persisted>().refresh();
    Ok(Some(rows))
}

/// Most texts are queries; they need not be read twice.
fn is_plainly_a_query(text: &str) -> bool {
    let text = text.trim_start();
    let word: String = text.chars().take_while(char::is_ascii_alphabetic).collect();
    text.starts_with('(') || ["select", "values", "from"].contains(&word.to_ascii_lowercase().as_str())
}

#[expect(deprecated, reason = "clients before 4.0 send literals")]
fn arguments(sql: &Sql) -> (HashMap<String, Expression>, Vec<Expression>) {
    let literal = |literal: &spark_connect_proto::expression::Literal| Expression {
        expr_type: Some(spark_connect_proto::expression::ExprType::Literal(literal.clone())),
        ..Expression::default()
    };
    let mut named: HashMap<String, Expression> = sql.args.iter().map(|(name, value)| (name.clone(), literal(value))).collect();
    named.extend(sql.named_arguments.iter().map(|(name, value)| (name.clone(), value.clone())));
    let mut positional: Vec<Expression> = sql.pos_args.iter().map(literal).collect();
    positional.extend(sql.pos_arguments.iter().cloned());
    (named, positional)
}

/// Runs the statements of one text.
struct Statements<'a> {
    session: &'a Session,
    /// The frames that the text mentions.
    references: &'a [Relation],
}

impl Statements<'_> {
    async fn run(&self, statement: Statement) -> Result<RecordBatch> {
        let session = self.session;
        match statement {
            Statement::Query(_) => Err(Error::internal("a query is no statement")),
            Statement::CreateView(view) => self.create_view(view).await,
            Statement::CreateTemporaryViewUsing { name, replace, global, columns, provider, options } => {
                self.create_view_using(&name, replace, global, columns, &provider, options).await
            }
            Statement::CreateTable(table) => self.create_table(table).await,
            Statement::CreateDatabase { name, if_not_exists, comment: _, location, properties } => {
                if location.is_some() {
                    return Err(unsupported("schemas outside of the warehouse"));
                }
                let create = proto::CreateDatabase { db_name: text_of(&name), if_not_exists, properties: properties.into_iter().collect() };
                self.catalog(CatType::CreateDatabase(create)).await
            }
            Statement::Drop { kind, name, if_exists, cascade, purge: _ } => self.drop_object(kind, &name, if_exists, cascade).await,
            Statement::DropFunction { name, if_exists, temporary } => self.drop_function(&name, if_exists, temporary),
            Statement::Insert(insert) => self.insert(insert).await,
            Statement::Truncate { table } => {
                self.catalog(CatType::TruncateTable(proto::TruncateTable { table_name: text_of(&table) })).await
            }
            Statement::Delete { table, alias, condition } => self.delete(&table, alias, condition).await,
            Statement::Update { table, alias, assignments, condition } => self.update(&table, alias, assignments, condition).await,
            Statement::Merge { alias, command } => self.merge(alias, command).await,
            Statement::Optimize { table, condition, zorder } => self.optimize(&table, condition, zorder).await,
            Statement::Vacuum { table, hours, dry_run } => self.vacuum(&table, hours, dry_run).await,
            Statement::Restore { table, version, time } => self.restore(&table, version, time).await,
            Statement::Alter { kind, name, action } => self.alter(kind, &name, action).await,
            Statement::Comment { kind, name, comment } => self.comment(kind, &name, comment).await,
            Statement::Describe(what) => self.describe(what).await,
            Statement::Show(what) => self.show(what).await,
            Statement::Set(set) => settings::set(session, set),
            Statement::Reset { key } => settings::reset(session, key),
            Statement::Use { name } => {
                self.catalog(CatType::SetCurrentDatabase(proto::SetCurrentDatabase { db_name: text_of(&name) })).await
            }
            Statement::UseCatalog { name } => {
                self.catalog(CatType::SetCurrentCatalog(proto::SetCurrentCatalog { catalog_name: name })).await
            }
            Statement::Cache { name, lazy: _, query } => {
                if let Some(query) = query {
                    self.define_view(&name, query, &[], false, false).await?;
                }
                let table_name = text_of(&name);
                self.catalog(CatType::CacheTable(proto::CacheTable { table_name, storage_level: None })).await
            }
            Statement::Uncache { name, if_exists } => {
                let uncached = self.catalog(CatType::UncacheTable(proto::UncacheTable { table_name: text_of(&name) })).await;
                if if_exists { done() } else { uncached }
            }
            Statement::ClearCache => self.catalog(CatType::ClearCache(proto::ClearCache {})).await,
            Statement::RefreshTable { name } => {
                self.catalog(CatType::RefreshTable(proto::RefreshTable { table_name: text_of(&name) })).await
            }
            Statement::Analyze { table } => {
                self.catalog(CatType::AnalyzeTable(proto::AnalyzeTable { table_name: text_of(&table), no_scan: false })).await
            }
            Statement::RefreshPath { .. } => done(),
            Statement::Explain { mode, statement } => self.explain(mode, *statement).await,
        }
    }

    /// Does what the catalog's message of the same meaning does.
    async fn catalog(&self, cat_type: CatType) -> Result<RecordBatch> {
        objects::run(self.session, Catalog { cat_type: Some(cat_type) }).await
    }

    /// A query of the text, together with the frames that it may mention.
    fn query(&self, query: Relation) -> Relation {
        if self.references.is_empty() {
            return query;
        }
        let with = WithRelations { root: Some(Box::new(query)), references: self.references.to_vec() };
        Relation { common: None, rel_type: Some(RelType::WithRelations(Box::new(with))) }
    }

    async fn drop_object(&self, kind: ObjectKind, name: &Name, if_exists: bool, cascade: bool) -> Result<RecordBatch> {
        let session = self.session;
        let warehouse = Warehouse::open(session.host.as_ref())?;
        let text = text_of(name);
        match kind {
            ObjectKind::Database => {
                let database = name.last().map(|name| name.to_lowercase()).unwrap_or_default();
                drop_database(session, &warehouse, &database, if_exists, cascade).await?;
            }
            ObjectKind::View => {
                if !drop_any_view(session, &text) {
                    drop_table(session, &warehouse, &text, if_exists, true).await?;
                }
            }
            ObjectKind::Table => {
                let is_view = matches!(name.as_slice(), [view] if session.view(view).is_some())
                    || matches!(name.as_slice(), [database, _] if database.eq_ignore_ascii_case(GLOBAL_TEMP));
                // As in Spark, DROP TABLE removes a temporary view of that name.
                if !(is_view && drop_any_view(session, &text)) {
                    drop_table(session, &warehouse, &text, if_exists, false).await?;
                }
            }
        }
        done()
    }

    /// Registered functions are temporary ones; there are no others that can be dropped.
    fn drop_function(&self, name: &Name, if_exists: bool, temporary: bool) -> Result<RecordBatch> {
        let dropped = match name.as_slice() {
            [name] if temporary => self.session.part::<Registered>().drop_function(name),
            _ => false,
        };
        if dropped || if_exists {
            return done();
        }
        let message = format!("The routine {} cannot be found. Verify the spelling and correctness of the name.", text_of(name));
        Err(Error::invalid("ROUTINE_NOT_FOUND", message).with_sqlstate("42883"))
    }

    async fn explain(&self, mode: ExplainMode, statement: Statement) -> Result<RecordBatch> {
        let plan = match statement {
            Statement::Query(query) => {
                let mode = match mode {
                    ExplainMode::Simple => explain::ExplainMode::Simple,
                    ExplainMode::Extended => explain::ExplainMode::Extended,
                    ExplainMode::Codegen => explain::ExplainMode::Codegen,
                    ExplainMode::Cost => explain::ExplainMode::Cost,
                    ExplainMode::Formatted => explain::ExplainMode::Formatted,
                };
                analyze::explain(self.session, &self.query(query), mode).await?
            }
            _ => "== Physical Plan ==\nExecute command\n".to_owned(),
        };
        strict(vec![("plan", texts([Some(plan)]))])
    }
}

/// A name as a text that reads back as the same parts.
fn text_of(name: &[String]) -> String {
    name.iter().map(|part| quote(part)).collect::<Vec<_>>().join(".")
}

/// Spark's refusal of what a table cannot do.
fn table_operation(table: &[String], operation: &str) -> Error {
    errors::table_operation(&text_of(table), operation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_told_by_their_first_word() {
        for text in ["SELECT 1", " \n select 1", "(SELECT 1)", "values (1)", "FROM t SELECT 1"] {
            assert!(is_plainly_a_query(text), "{text}");
        }
        for text in ["WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", "SET x=1", "selectx", "-- c\nSELECT 1", ""] {
            assert!(!is_plainly_a_query(text), "{text}");
        }
    }
}
