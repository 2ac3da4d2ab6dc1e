//! Queries of a pipeline's files: parsed, with everything that they read.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::TableProvider;
use datafusion::logical_expr::LogicalPlan;
use millstream_core::{Error, Options, Result};
use millstream_engine::Session;
use millstream_engine::relation::TableRelation;
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Read, Relation as Plan, read};

use super::diagnostic::{Diagnostic, Position};
use super::fragment::Fragment;
use super::relation::{LEAF, Relation, RelationSource};
use crate::analyzer::{Leaf, Leaves, analyze, leaves_of};
use crate::functions::Settings;
use crate::python::PythonRuntime;

/// A query, and what it reads.
#[derive(Clone)]
pub struct PreparedQuery {
    /// The query, not resolved.
    pub(crate) plan: Arc<Plan>,
    /// What it reads, each place once, `STREAM …` and `read_files(…)` first, then tables, each in the order of the text.
    pub relations: Vec<Relation>,
    /// Where it begins.
    pub position: Position,
    /// The query as one line without comments, variables in place: the same text means the same query.
    pub definition: String,
    /// Its text.
    pub(crate) text: Fragment,
}

impl fmt::Debug for PreparedQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedQuery").field("position", &self.position).field("definition", &self.definition).finish_non_exhaustive()
    }
}

impl PreparedQuery {
    /// Reads a query.
    ///
    /// # Errors
    /// What is wrong with its text.
    pub(crate) fn of(text: Fragment) -> Result<PreparedQuery, Diagnostic> {
        let (plan, places) = super::parse::placed_query(&text)?;
        // Names of common table expressions were places, too, and are no leaves of the plan.
        let leaves = leaves_of(&plan).map_err(|error| Diagnostic::of(&text.position(), &error))?;
        let mut relations: Vec<Relation> = Vec::with_capacity(leaves.len());
        for leaf in leaves {
            let Some(RelType::Read(read)) = leaf.rel_type else { continue };
            let Some((leaf, options)) = of_leaf(&read) else { continue };
            let Some(place) = leaf.parse::<usize>().ok().and_then(|number| places.get(number)) else { continue };
            let (position, source) = (place.position.clone(), place.source.clone());
            relations.push(Relation { position, streaming: read.is_streaming, source, options, leaf });
        }
        // Records of files' schemas name relations by their number in this order.
        relations.sort_by_key(|relation| {
            let is_table = !relation.streaming && !matches!(relation.source, RelationSource::ReadFiles { .. });
            (is_table, relation.position.line, relation.position.column)
        });
        Ok(PreparedQuery { plan: Arc::new(plan), relations, position: text.position(), definition: text.line(), text })
    }

    /// Whether any relation is read as a stream.
    pub fn is_streaming(&self) -> bool {
        self.relations.iter().any(|relation| relation.streaming)
    }

    /// The relation that a leaf of the plan is, by the options of the leaf, with its number.
    pub(crate) fn relation_of(&self, leaf: Option<&str>) -> Option<(usize, &Relation)> {
        self.relations.iter().enumerate().find(|(_, relation)| Some(relation.leaf.as_str()) == leaf)
    }
}

/// By what a leaf is known, and its other options.
fn of_leaf(read: &Read) -> Option<(String, Options)> {
    let options = match &read.read_type {
        Some(read::ReadType::NamedTable(table)) => &table.options,
        Some(read::ReadType::DataSource(source)) => &source.options,
        None => return None,
    };
    let others = options.iter().filter(|(name, _)| *name != LEAF).map(|(name, value)| (name.as_str(), value.as_str())).collect();
    Some((options.get(LEAF)?.clone(), others))
}

/// Plans a query over a table that has a name, in UTC. The session gets what such plans need.
///
/// # Errors
/// Those of the text and Spark's conditions of analysis.
pub async fn plan_over(session: &Session, name: &str, table: TableRelation, text: &str) -> Result<LogicalPlan> {
    crate::analyzer::set_up(session.context());
    let query = super::parse::relation(text, &HashMap::new(), &[])?;
    let tables = Tables(vec![(name.to_owned(), Arc::new(table))]);
    analyze(&query, &tables, &Settings::default(), session.state()).await?.named_plan()
}

/// Tables by their names, and nothing else that can be read.
#[derive(Default)]
pub(crate) struct Tables(Vec<(String, Arc<dyn TableProvider>)>);

/// The fault of a query for something that only sessions of clients have.
pub(crate) fn no_client(what: &str) -> Error {
    Error::invalid("UNSUPPORTED_FEATURE", format!("{what} is only there for clients of Spark Connect")).with_sqlstate("0A000")
}

#[async_trait]
impl Leaves for Tables {
    async fn named(&self, parts: &[String], _streaming: bool, _options: &Options) -> Result<Leaf> {
        let found = match parts {
            [name] => self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)),
            _ => None,
        };
        found.map(|(_, table)| Leaf::Table(table.clone())).ok_or_else(|| {
            Error::invalid("TABLE_OR_VIEW_NOT_FOUND", format!("there is no table or view '{}'", parts.join("."))).with_sqlstate("42P01")
        })
    }

    async fn source(&self, _source: &read::DataSource, _streaming: bool) -> Result<Leaf> {
        Err(no_client("a data source"))
    }

    async fn remote(&self, _relation_id: &str) -> Result<Leaf> {
        Err(no_client("a plan that was kept"))
    }

    async fn cached(&self, _hash: &str) -> Result<Arc<[u8]>> {
        Err(no_client("an artifact"))
    }

    fn python(&self) -> Result<PythonRuntime> {
        Err(no_client("Python"))
    }
}

#[cfg(test)]
mod tests;
