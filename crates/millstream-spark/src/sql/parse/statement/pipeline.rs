//! The statements of a pipeline's SQL files, as open Spark has them: datasets, flows, and the settings and names that hold for what follows.

use std::collections::BTreeMap;

use arrow::datatypes::Field;
use datafusion::sql::sqlparser::tokenizer::Token;
use spark_connect_proto::{Expression, Relation};

use super::{CreateTable, InsertTarget, Name, Set, Statement};
use crate::sql::Diagnostic;
use crate::sql::parse::parser::Parser;

/// What a statement of a pipeline's file asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PipelineStatement {
    /// `CREATE STREAMING TABLE`, `CREATE MATERIALIZED VIEW`, and views.
    Dataset(Box<PipelineDataset>),
    /// `CREATE FLOW`.
    Flow(Box<PipelineFlow>),
    /// `SET key = value`.
    Set(Set),
    /// `USE` with the kind of object that it names, if it says so.
    Use {
        /// The name.
        name: Name,
        /// Whether `SCHEMA`, `DATABASE` or `NAMESPACE` stands before it.
        is_schema: bool,
    },
    /// `SET CATALOG`.
    UseCatalog(String),
    /// A statement that is right in itself and has no place in a pipeline.
    Other,
}

/// What a dataset of a pipeline is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PipelineDatasetKind {
    /// A table that flows append to.
    StreamingTable,
    /// A table that is the result of its query.
    MaterializedView,
    /// A name inside of the pipeline.
    TemporaryView,
    /// A view that the catalog keeps.
    PersistedView,
}

/// A dataset.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PipelineDataset {
    /// What it is.
    pub(crate) kind: PipelineDatasetKind,
    /// Its name.
    pub(crate) name: Name,
    /// Declared columns; empty for those of its query.
    pub(crate) columns: Vec<Field>,
    /// `USING`.
    pub(crate) provider: Option<String>,
    /// `PARTITIONED BY`.
    pub(crate) partitioning: Vec<Expression>,
    /// `CLUSTER BY`.
    pub(crate) clustering: Vec<String>,
    /// `COMMENT`.
    pub(crate) comment: Option<String>,
    /// `TBLPROPERTIES`.
    pub(crate) properties: BTreeMap<String, String>,
    /// Its own query, with its text.
    pub(crate) query: Option<(Relation, String)>,
}

/// A flow into a dataset that is defined elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PipelineFlow {
    /// Its name.
    pub(crate) name: Name,
    /// The dataset.
    pub(crate) target: Name,
    /// Whether columns are matched by their names.
    pub(crate) by_name: bool,
    /// The rows.
    pub(crate) query: Relation,
}

fn not_allowed(position: crate::sql::Position, message: &str) -> Diagnostic {
    Diagnostic {
        sqlstate: None,
        ..Diagnostic::new("_LEGACY_ERROR_TEMP_0035", "42000", position, format!("Operation not allowed: {message}."))
    }
}

impl Parser<'_> {
    /// A statement of a pipeline's file.
    pub(in crate::sql::parse) fn pipeline_statement(&mut self) -> Result<PipelineStatement, Diagnostic> {
        // `OR REFRESH` is the vendor's spelling: a pipeline refreshes what there is in either.
        let is = |parser: &mut Self, what: &[&'static str]| {
            let refresh: Vec<&str> = ["CREATE", "OR", "REFRESH"].into_iter().chain(what.iter().skip(1).copied()).collect();
            parser.cursor.eat(what) || parser.cursor.eat(&refresh)
        };
        if is(self, &["CREATE", "STREAMING", "TABLE"]) {
            return self.pipeline_table(PipelineDatasetKind::StreamingTable);
        }
        if is(self, &["CREATE", "MATERIALIZED", "VIEW"]) {
            return self.pipeline_table(PipelineDatasetKind::MaterializedView);
        }
        if self.cursor.eat(&["CREATE", "FLOW"]) {
            return self.pipeline_flow();
        }
        if self.cursor.eat(&["USE"]) {
            let is_schema = self.nth_is_word(1) && self.eat_any(&["DATABASE", "SCHEMA", "NAMESPACE"]);
            return Ok(PipelineStatement::Use { name: self.names("a schema")?, is_schema });
        }
        Ok(match self.statement()? {
            Statement::CreateView(view) => {
                // As in Spark, names that such a view gives its columns mean nothing in a pipeline.
                let kind = match view.scope {
                    super::ViewScope::Permanent => PipelineDatasetKind::PersistedView,
                    super::ViewScope::Temporary | super::ViewScope::GlobalTemporary => PipelineDatasetKind::TemporaryView,
                };
                PipelineStatement::Dataset(Box::new(PipelineDataset {
                    kind,
                    name: view.name,
                    columns: Vec::new(),
                    provider: None,
                    partitioning: Vec::new(),
                    clustering: Vec::new(),
                    comment: view.comment,
                    properties: view.properties,
                    query: Some((view.query, view.text)),
                }))
            }
            Statement::Set(set) => PipelineStatement::Set(set),
            Statement::UseCatalog { name } => PipelineStatement::UseCatalog(name),
            _ => PipelineStatement::Other,
        })
    }

    fn pipeline_table(&mut self, kind: PipelineDatasetKind) -> Result<PipelineStatement, Diagnostic> {
        self.cursor.eat(&["IF", "NOT", "EXISTS"]);
        let mut table = CreateTable { name: self.names("the name of a table")?, ..CreateTable::default() };
        if self.is_token(&Token::LParen) && !self.at_query(1) {
            table.columns = self.columns()?;
        }
        let position = self.position();
        self.table_clauses(&mut table)?;
        if table.location.is_some() || !table.options.is_empty() {
            let message = "LOCATION and OPTIONS have no place in a pipeline: its tables are where the catalog keeps tables";
            return Err(not_allowed(position, message));
        }
        if kind == PipelineDatasetKind::MaterializedView && (self.cursor.at_end() || self.is_token(&Token::SemiColon)) {
            return Err(not_allowed(self.position(), "a materialized view has no query: write AS and a query"));
        }
        let query = if kind == PipelineDatasetKind::MaterializedView || self.cursor.is("AS") {
            self.cursor.expect(&["AS"])?;
            let mark = self.cursor.mark();
            let query = self.query()?;
            Some((query, self.text_since(mark).to_owned()))
        } else {
            None
        };
        Ok(PipelineStatement::Dataset(Box::new(PipelineDataset {
            kind,
            name: table.name,
            columns: table.columns,
            provider: table.provider,
            partitioning: table.partitioning,
            clustering: table.clustering,
            comment: table.comment,
            properties: table.properties,
            query,
        })))
    }

    fn pipeline_flow(&mut self) -> Result<PipelineStatement, Diagnostic> {
        let name = self.names("the name of a flow")?;
        if self.cursor.eat(&["COMMENT"]) {
            self.cursor.string("the comment")?;
        }
        self.cursor.expect(&["AS"])?;
        let position = self.position();
        match self.insert()? {
            Statement::Insert(insert) => {
                let plain = !insert.overwrite && insert.partition.is_empty() && insert.replace_where.is_none();
                let InsertTarget::Table { name: target, .. } = insert.target else { return Ok(PipelineStatement::Other) };
                // Columns that are named are matched by their places.
                let by_name = plain && insert.by_name && insert.columns.is_empty();
                Ok(PipelineStatement::Flow(Box::new(PipelineFlow { name, target, by_name, query: insert.query })))
            }
            _ => Err(Diagnostic::syntax(position, "a flow is INSERT INTO table BY NAME query")),
        }
    }
}
