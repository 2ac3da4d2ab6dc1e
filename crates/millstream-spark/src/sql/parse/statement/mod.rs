//! Statements other than queries.

mod change;
mod create;
mod pipeline;
mod show;
mod table;
mod upkeep;

use std::collections::BTreeMap;

use arrow::datatypes::Field;
use datafusion::sql::sqlparser::tokenizer::Token;
use spark_connect_proto::{Expression, MergeIntoTableCommand, Relation};

use super::parser::Parser;
use super::query::with_references;
use crate::sql::Diagnostic;

pub(crate) use pipeline::*;

/// A name in its parts, outermost first.
pub(crate) type Name = Vec<String>;

/// What a text asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Statement {
    /// A query.
    Query(Relation),
    /// `CREATE VIEW … AS …`.
    CreateView(CreateView),
    /// `CREATE TEMPORARY VIEW … USING format OPTIONS (…)`.
    CreateTemporaryViewUsing {
        /// The name.
        name: String,
        /// Whether a view of that name is replaced.
        replace: bool,
        /// Whether it is in the global schema.
        global: bool,
        /// The columns, if they are given.
        columns: Vec<Field>,
        /// The format.
        provider: String,
        /// Options of the format.
        options: BTreeMap<String, String>,
    },
    /// `CREATE TABLE`, `CREATE TABLE … AS …`, `REPLACE TABLE`.
    CreateTable(CreateTable),
    /// `CREATE DATABASE`.
    CreateDatabase {
        /// The name.
        name: Name,
        /// `IF NOT EXISTS`.
        if_not_exists: bool,
        /// `COMMENT`.
        comment: Option<String>,
        /// `LOCATION`.
        location: Option<String>,
        /// `WITH DBPROPERTIES`.
        properties: BTreeMap<String, String>,
    },
    /// `DROP TABLE`, `DROP VIEW`, `DROP DATABASE`.
    Drop {
        /// What is dropped.
        kind: ObjectKind,
        /// Its name.
        name: Name,
        /// `IF EXISTS`.
        if_exists: bool,
        /// `CASCADE`, for databases.
        cascade: bool,
        /// `PURGE`, for tables.
        purge: bool,
    },
    /// `DROP TEMPORARY FUNCTION`.
    DropFunction {
        /// Its name.
        name: Name,
        /// `IF EXISTS`.
        if_exists: bool,
        /// `TEMPORARY`.
        temporary: bool,
    },
    /// `INSERT`.
    Insert(Insert),
    /// `MERGE INTO`.
    Merge {
        /// The name that the target's columns can be called by.
        alias: Option<String>,
        /// Target, source, condition and actions.
        command: MergeIntoTableCommand,
    },
    /// `UPDATE t SET …`.
    Update {
        /// The table.
        table: Name,
        /// The name that its columns can be called by.
        alias: Option<String>,
        /// Columns and their values.
        assignments: Vec<(Expression, Expression)>,
        /// `WHERE`.
        condition: Option<Expression>,
    },
    /// `DELETE FROM t`.
    Delete {
        /// The table.
        table: Name,
        /// The name that its columns can be called by.
        alias: Option<String>,
        /// `WHERE`.
        condition: Option<Expression>,
    },
    /// `TRUNCATE TABLE`.
    Truncate {
        /// The table.
        table: Name,
    },
    /// `OPTIMIZE`.
    Optimize {
        /// The table.
        table: Name,
        /// `WHERE`, about partition columns.
        condition: Option<Expression>,
        /// `ZORDER BY`.
        zorder: Vec<String>,
    },
    /// `VACUUM`.
    Vacuum {
        /// The table.
        table: Name,
        /// `RETAIN … HOURS`.
        hours: Option<f64>,
        /// `DRY RUN`.
        dry_run: bool,
    },
    /// `RESTORE`.
    Restore {
        /// The table.
        table: Name,
        /// `TO VERSION AS OF`.
        version: Option<i64>,
        /// `TO TIMESTAMP AS OF`.
        time: Option<String>,
    },
    /// `ALTER TABLE` and `ALTER VIEW`.
    Alter {
        /// What is altered.
        kind: ObjectKind,
        /// Its name.
        name: Name,
        /// How.
        action: AlterAction,
    },
    /// `DESCRIBE`.
    Describe(Describe),
    /// `SHOW`.
    Show(Show),
    /// `SET`, which gives the properties that it concerns.
    Set(Set),
    /// `RESET`; all properties without a key.
    Reset {
        /// The key.
        key: Option<String>,
    },
    /// `USE`.
    Use {
        /// A database, in its catalog or not.
        name: Name,
    },
    /// `SET CATALOG`.
    UseCatalog {
        /// The catalog.
        name: String,
    },
    /// `CACHE TABLE`.
    Cache {
        /// The table or view.
        name: Name,
        /// `LAZY`.
        lazy: bool,
        /// `AS …`: the query that becomes a temporary view of that name.
        query: Option<Relation>,
    },
    /// `UNCACHE TABLE`.
    Uncache {
        /// The table or view.
        name: Name,
        /// `IF EXISTS`.
        if_exists: bool,
    },
    /// `CLEAR CACHE`.
    ClearCache,
    /// `REFRESH TABLE`.
    RefreshTable {
        /// The table.
        name: Name,
    },
    /// `REFRESH path`.
    RefreshPath {
        /// The path.
        path: String,
    },
    /// `EXPLAIN`.
    Explain {
        /// How.
        mode: ExplainMode,
        /// What.
        statement: Box<Statement>,
    },
    /// `COMMENT ON TABLE t IS …`; none for `NULL`.
    Comment {
        /// What it is on.
        kind: ObjectKind,
        /// Its name.
        name: Name,
        /// The text.
        comment: Option<String>,
    },
    /// `ANALYZE TABLE`, which has no effect on results.
    Analyze {
        /// The table.
        table: Name,
    },
}

/// A kind of object with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    /// A table.
    Table,
    /// A view.
    View,
    /// A database.
    Database,
}

/// `CREATE VIEW`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateView {
    /// The name.
    pub(crate) name: Name,
    /// Where it is.
    pub(crate) scope: ViewScope,
    /// `OR REPLACE`.
    pub(crate) replace: bool,
    /// `IF NOT EXISTS`.
    pub(crate) if_not_exists: bool,
    /// Names of its columns with their comments; empty for those of the query.
    pub(crate) columns: Vec<(String, Option<String>)>,
    /// `COMMENT`.
    pub(crate) comment: Option<String>,
    /// `TBLPROPERTIES`.
    pub(crate) properties: BTreeMap<String, String>,
    /// The query.
    pub(crate) query: Relation,
    /// The query's text.
    pub(crate) text: String,
}

/// Where a view is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ViewScope {
    /// In the catalog.
    Permanent,
    /// In the session.
    Temporary,
    /// In all sessions, under `global_temp`.
    GlobalTemporary,
}

/// `CREATE TABLE`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CreateTable {
    /// The name.
    pub(crate) name: Name,
    /// `OR REPLACE`, or `REPLACE TABLE`.
    pub(crate) replace: bool,
    /// `REPLACE TABLE`: the table must be there.
    pub(crate) must_exist: bool,
    /// `IF NOT EXISTS`.
    pub(crate) if_not_exists: bool,
    /// The columns; empty where the query or the data tells them.
    pub(crate) columns: Vec<Field>,
    /// `USING`.
    pub(crate) provider: Option<String>,
    /// Columns or transforms of `PARTITIONED BY`; typed ones are among `columns` too.
    pub(crate) partitioning: Vec<Expression>,
    /// `CLUSTER BY (…)`.
    pub(crate) clustering: Vec<String>,
    /// `OPTIONS`.
    pub(crate) options: BTreeMap<String, String>,
    /// `TBLPROPERTIES`.
    pub(crate) properties: BTreeMap<String, String>,
    /// `LOCATION`.
    pub(crate) location: Option<String>,
    /// `COMMENT`.
    pub(crate) comment: Option<String>,
    /// `AS …`.
    pub(crate) query: Option<Relation>,
    /// `LIKE source`.
    pub(crate) like: Option<Name>,
}

/// `INSERT`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Insert {
    /// Where to.
    pub(crate) target: InsertTarget,
    /// `OVERWRITE`.
    pub(crate) overwrite: bool,
    /// Columns of the target that the query gives, in its order; empty for all.
    pub(crate) columns: Vec<String>,
    /// `BY NAME`.
    pub(crate) by_name: bool,
    /// `PARTITION (a = 1, b)`: fixed partition columns, and dynamic ones without a value.
    pub(crate) partition: Vec<(String, Option<Expression>)>,
    /// `IF NOT EXISTS` of the partition.
    pub(crate) if_not_exists: bool,
    /// `REPLACE WHERE`.
    pub(crate) replace_where: Option<Expression>,
    /// `WITH SCHEMA EVOLUTION`.
    pub(crate) evolves: bool,
    /// The rows.
    pub(crate) query: Relation,
}

/// Where an `INSERT` writes to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum InsertTarget {
    /// A table, with options of `WITH (…)`.
    Table {
        /// The name.
        name: Name,
        /// The options.
        options: BTreeMap<String, String>,
    },
    /// `INSERT OVERWRITE DIRECTORY 'path' USING format`.
    Directory {
        /// The path.
        path: Option<String>,
        /// The format.
        provider: String,
        /// The options.
        options: BTreeMap<String, String>,
    },
}

/// What `ALTER` does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AlterAction {
    /// `RENAME TO`.
    Rename(Name),
    /// `ADD COLUMNS`, each with the column that it comes after; an empty name stands for the beginning.
    AddColumns(Vec<(Field, Option<String>)>),
    /// `DROP COLUMNS`.
    DropColumns {
        /// The columns.
        columns: Vec<Name>,
        /// `IF EXISTS`.
        if_exists: bool,
    },
    /// `RENAME COLUMN a TO b`.
    RenameColumn {
        /// The column.
        column: Name,
        /// Its new name.
        to: String,
    },
    /// `ALTER COLUMN a …`.
    AlterColumn {
        /// The column.
        column: Name,
        /// What becomes of it.
        change: ColumnChange,
    },
    /// `SET TBLPROPERTIES`.
    SetProperties(BTreeMap<String, String>),
    /// `UNSET TBLPROPERTIES`.
    UnsetProperties(Vec<String>),
    /// `SET LOCATION`.
    SetLocation(String),
    /// `CLUSTER BY`; empty for `NONE`.
    ClusterBy(Vec<String>),
    /// `ADD CONSTRAINT name CHECK (…)`.
    AddConstraint {
        /// The name.
        name: String,
        /// The condition.
        check: Box<Expression>,
        /// Its text.
        text: String,
    },
    /// `DROP CONSTRAINT`.
    DropConstraint {
        /// The name.
        name: String,
        /// `IF EXISTS`.
        if_exists: bool,
    },
    /// `AS …` of a view.
    As {
        /// The query.
        query: Box<Relation>,
        /// Its text.
        text: String,
    },
    /// `ADD PARTITION`, `DROP PARTITION`, `RECOVER PARTITIONS`: tables here find their partitions by themselves.
    Partitions,
}

/// A change of one column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ColumnChange {
    /// `TYPE type`.
    Type(Field),
    /// `COMMENT text`.
    Comment(String),
    /// `DROP NOT NULL`, `SET NOT NULL`.
    Nullable(bool),
}

/// `DESCRIBE`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Describe {
    /// A table or view.
    Table {
        /// The name.
        name: Name,
        /// `EXTENDED` or `FORMATTED`.
        extended: bool,
        /// One column of it.
        column: Option<Name>,
    },
    /// A database.
    Database {
        /// The name.
        name: Name,
        /// `EXTENDED`.
        extended: bool,
    },
    /// A function.
    Function {
        /// The name.
        name: Name,
        /// `EXTENDED`.
        extended: bool,
    },
    /// The commits of a table.
    History {
        /// The table.
        table: Name,
        /// `LIMIT`.
        limit: Option<usize>,
    },
    /// What a table is.
    Detail {
        /// The table.
        table: Name,
    },
    /// A query.
    Query(Box<Relation>),
}

/// `SHOW`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Show {
    /// `SHOW TABLES IN db LIKE 'pattern'`.
    Tables {
        /// The database.
        database: Option<Name>,
        /// The pattern.
        pattern: Option<String>,
        /// `SHOW TABLE EXTENDED`.
        extended: bool,
    },
    /// `SHOW VIEWS`.
    Views {
        /// The database.
        database: Option<Name>,
        /// The pattern.
        pattern: Option<String>,
    },
    /// `SHOW DATABASES`.
    Databases {
        /// The pattern.
        pattern: Option<String>,
    },
    /// `SHOW CATALOGS`.
    Catalogs {
        /// The pattern.
        pattern: Option<String>,
    },
    /// `SHOW COLUMNS IN t`.
    Columns {
        /// The table.
        table: Name,
    },
    /// `SHOW FUNCTIONS`.
    Functions {
        /// The pattern, or a name.
        pattern: Option<String>,
        /// `SYSTEM`, `USER` or `ALL`.
        kind: String,
    },
    /// `SHOW CREATE TABLE`.
    CreateTable {
        /// The table.
        table: Name,
    },
    /// `SHOW TBLPROPERTIES t ('key')`.
    Properties {
        /// The table.
        table: Name,
        /// One key.
        key: Option<String>,
    },
    /// `SHOW PARTITIONS`.
    Partitions {
        /// The table.
        table: Name,
    },
    /// `SHOW CURRENT NAMESPACE`.
    CurrentNamespace,
}

/// `SET`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// All properties that are set; `-v` with their meaning.
    All {
        /// `-v`.
        verbose: bool,
    },
    /// The value of a key.
    Get(String),
    /// A key and its new value.
    Put(String, String),
    /// `SET TIME ZONE LOCAL`.
    TimeZoneLocal,
}

/// How a plan is explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExplainMode {
    /// The physical plan.
    Simple,
    /// All plans.
    Extended,
    /// `CODEGEN`.
    Codegen,
    /// `COST`.
    Cost,
    /// `FORMATTED`.
    Formatted,
}

/// Statements of Spark that are refused by name, by their first words.
const UNSUPPORTED: &[&[&str]] = &[
    &["CREATE", "FUNCTION"],
    &["CREATE", "OR", "REPLACE", "FUNCTION"],
    &["CREATE", "TEMPORARY", "FUNCTION"],
    &["CREATE", "OR", "REPLACE", "TEMPORARY", "FUNCTION"],
    &["REFRESH", "FUNCTION"],
    &["DECLARE"],
    &["SET", "VAR"],
    &["SET", "VARIABLE"],
    &["EXECUTE", "IMMEDIATE"],
    &["BEGIN"],
    &["CALL"],
    &["LOAD", "DATA"],
    &["MSCK"],
    &["REPAIR"],
    &["ADD"],
    &["LIST"],
    &["CREATE", "INDEX"],
    &["DROP", "INDEX"],
    &["CREATE", "STREAMING", "TABLE"],
    &["CREATE", "OR", "REFRESH", "STREAMING", "TABLE"],
    &["CREATE", "MATERIALIZED", "VIEW"],
    &["CREATE", "OR", "REPLACE", "MATERIALIZED", "VIEW"],
    &["CREATE", "FLOW"],
];

impl Parser<'_> {
    /// A statement.
    pub(super) fn statement(&mut self) -> Result<Statement, Diagnostic> {
        let position = self.position();
        if let Some(words) = UNSUPPORTED.iter().find(|words| self.cursor.are(words)) {
            let what = words.join(" ");
            if what.contains("STREAMING") || what.contains("MATERIALIZED") || what.contains("FLOW") {
                let message = format!("{what} defines a part of a pipeline and does not run by itself");
                return Err(Diagnostic::new("UNSUPPORTED_FEATURE.CREATE_PIPELINE_DATASET_QUERY_EXECUTION", "0A000", position, message)
                    .with_hint("run it with 'millstream run' or spark-pipelines"));
            }
            return Err(Diagnostic::unsupported(position, format!("{what} is not supported")));
        }
        if self.is_any(&["GRANT", "REVOKE"]) {
            return Err(Diagnostic::new("INVALID_STATEMENT_OR_CLAUSE", "42601", position, "there are no roles and no grants"));
        }
        if self.is_token(&Token::LParen) || self.is_any(&["SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE"]) {
            return self.query_or_insert();
        }
        match self.keyword().as_deref() {
            Some("CREATE" | "REPLACE") => self.create(),
            Some("DROP") => self.drop_object(),
            Some("INSERT") => self.insert(),
            Some("MERGE") => self.merge(),
            Some("UPDATE") => self.update(),
            Some("DELETE") => self.delete(),
            Some("TRUNCATE") => self.truncate(),
            Some("OPTIMIZE") => self.optimize(),
            Some("VACUUM") => self.vacuum(),
            Some("RESTORE") => self.restore(),
            Some("ALTER") => self.alter(),
            Some("DESCRIBE" | "DESC") => self.describe(),
            Some("SHOW") => self.show(),
            Some("SET") => self.set(),
            Some("RESET") => self.reset_key(),
            Some("USE") => {
                self.cursor.advance();
                if self.nth_is_word(1) {
                    self.eat_any(&["DATABASE", "SCHEMA", "NAMESPACE"]);
                }
                Ok(Statement::Use { name: self.names("a database")? })
            }
            Some("CACHE") => self.cache(),
            Some("UNCACHE") => {
                self.cursor.advance();
                self.cursor.expect(&["TABLE"])?;
                let if_exists = self.cursor.eat(&["IF", "EXISTS"]);
                Ok(Statement::Uncache { name: self.names("a table")?, if_exists })
            }
            Some("CLEAR") => {
                self.cursor.expect(&["CLEAR", "CACHE"])?;
                Ok(Statement::ClearCache)
            }
            Some("REFRESH") => self.refresh(),
            Some("EXPLAIN") => self.explain(),
            Some("COMMENT") => self.comment_on(),
            Some("ANALYZE") => {
                self.cursor.expect(&["ANALYZE", "TABLE"])?;
                let table = self.names("a table")?;
                self.cursor.rest();
                Ok(Statement::Analyze { table })
            }
            _ => Err(self.cursor.expected("a statement")),
        }
    }

    /// A query, or `WITH … INSERT INTO …`.
    fn query_or_insert(&mut self) -> Result<Statement, Diagnostic> {
        if self.cursor.is("WITH") {
            let (mark, positional) = (self.cursor.mark(), self.positional);
            let tables = self.common_tables()?;
            if self.cursor.is("INSERT") {
                return Ok(match self.insert()? {
                    Statement::Insert(insert) => Statement::Insert(Insert { query: with_references(insert.query, tables), ..insert }),
                    other => other,
                });
            }
            self.reset(mark);
            self.positional = positional;
        }
        self.query().map(Statement::Query)
    }

    fn explain(&mut self) -> Result<Statement, Diagnostic> {
        self.cursor.expect(&["EXPLAIN"])?;
        let mode = match self.keyword().as_deref() {
            Some("EXTENDED") => Some(ExplainMode::Extended),
            Some("CODEGEN") => Some(ExplainMode::Codegen),
            Some("COST") => Some(ExplainMode::Cost),
            Some("FORMATTED") => Some(ExplainMode::Formatted),
            Some("LOGICAL") => return Err(Diagnostic::unsupported(self.position(), "EXPLAIN LOGICAL is not supported")),
            _ => None,
        };
        if mode.is_some() {
            self.cursor.advance();
        }
        let statement = Box::new(self.nested(Parser::statement)?);
        Ok(Statement::Explain { mode: mode.unwrap_or(ExplainMode::Simple), statement })
    }

    /// `OPTIONS (…)`, `TBLPROPERTIES (…)`: keys are texts or names, values literals.
    pub(super) fn properties(&mut self) -> Result<BTreeMap<String, String>, Diagnostic> {
        Ok(crate::sql::property_list(&mut self.cursor)?.into_iter().map(|(key, value, _)| (key, value)).collect())
    }
}

#[cfg(test)]
mod tests;
