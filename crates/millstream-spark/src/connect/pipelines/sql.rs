//! SQL files of definitions. What a file sets holds for the definitions after it in that file, and for no other file.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::Schema;
use millstream_core::{Error, Result};

use super::graph::{Flow, FlowQuery, Graph, Output, OutputKind, TableDetails};
use super::name::{Identifier, Namespace};
use crate::connect::command::partition_column;
use crate::connect::config::Confs;
use crate::sql::SourceFile;
use crate::sql::parse::{PipelineDataset, PipelineDatasetKind, PipelineFlow, PipelineStatement, Set, pipeline_statement};

/// How often a variable's value is looked at for variables (`spark.sql.variable.substitute.depth`).
const DEPTH: usize = 40;

/// Adds what a file defines to a graph.
///
/// # Errors
/// Those of the text, `PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR` for statements that define nothing, and those of the graph.
pub(super) fn define(graph: &mut Graph, confs: &Confs, path: &str, text: &str) -> Result<()> {
    let file = SourceFile::new(path, text);
    let mut reader = Reader { namespace: graph.defaults.clone(), set: BTreeMap::new(), graph, path };
    for range in file.statements() {
        let statement = text.get(range).unwrap_or_default();
        reader.statement(&substituted(statement, confs)?)?;
    }
    Ok(())
}

struct Reader<'a> {
    graph: &'a mut Graph,
    path: &'a str,
    namespace: Namespace,
    set: BTreeMap<String, String>,
}

impl Reader<'_> {
    fn statement(&mut self, text: &str) -> Result<()> {
        let (statement, fault) = pipeline_statement(text)?;
        match statement {
            PipelineStatement::Dataset(dataset) => self.dataset(*dataset, fault),
            PipelineStatement::Flow(flow) => self.flow(*flow, fault),
            PipelineStatement::Set(Set::Put(key, value)) => {
                self.set.insert(key, value);
                Ok(())
            }
            PipelineStatement::Set(_) => {
                let message = format!("SET without a key and a value defines nothing, in {}: write SET key = value", self.path);
                Err(Error::invalid("RuntimeException", message))
            }
            PipelineStatement::Use { name, is_schema: true } => {
                match name.as_slice() {
                    [database] => self.namespace.database.clone_from(database),
                    [catalog, database] => {
                        Namespace::check_catalog(catalog)?;
                        self.namespace.database.clone_from(database);
                    }
                    _ => return Err(self.refused("USE of a name with so many parts")),
                }
                Ok(())
            }
            PipelineStatement::UseCatalog(name) => Namespace::check_catalog(&name),
            PipelineStatement::Use { is_schema: false, .. } => Err(self.refused("USE without SCHEMA")),
            PipelineStatement::Other => {
                let first: Vec<&str> = text.split_whitespace().take(2).collect();
                Err(self.refused(&format!("'{}'", first.join(" ").to_uppercase())))
            }
        }
    }

    fn refused(&self, what: &str) -> Error {
        let message = format!(
            "{what} has no place in {}: a pipeline's SQL files have CREATE STREAMING TABLE, CREATE MATERIALIZED VIEW, CREATE VIEW, CREATE FLOW … \
             BY NAME, SET, USE SCHEMA and SET CATALOG",
            self.path
        );
        Error::invalid("PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR", message).with_sqlstate("42000")
    }

    fn dataset(&mut self, dataset: PipelineDataset, fault: Option<Error>) -> Result<()> {
        let name = match dataset.kind {
            PipelineDatasetKind::TemporaryView => match dataset.name.as_slice() {
                [_] => Identifier::of(dataset.name.clone()),
                _ => {
                    let message = format!("the temporary view '{}' must have a name of one part", dataset.name.join("."));
                    return Err(Error::invalid("INVALID_TEMP_OBJ_QUALIFIER", message).with_sqlstate("42602"));
                }
            },
            _ => self.namespace.qualify(&dataset.name)?,
        };
        if !dataset.clustering.is_empty() {
            return Err(self.refused("CLUSTER BY, which Python's cluster_by has,"));
        }
        let partitions: Result<Vec<String>> = dataset.partitioning.iter().map(partition_column).collect();
        let table = TableDetails {
            properties: dataset.properties.clone(),
            partition_by: partitions.map_err(|_| self.refused("PARTITIONED BY of an expression"))?,
            cluster_by: Vec::new(),
            format: dataset.provider,
            schema: (!dataset.columns.is_empty()).then(|| Schema::new(dataset.columns)),
        };
        let kind = match dataset.kind {
            PipelineDatasetKind::StreamingTable => OutputKind::StreamingTable(table),
            PipelineDatasetKind::MaterializedView => OutputKind::MaterializedView(table),
            PipelineDatasetKind::TemporaryView => OutputKind::TemporaryView,
            PipelineDatasetKind::PersistedView => OutputKind::PersistedView {
                text: dataset.query.as_ref().map(|(_, text)| text.clone()).unwrap_or_default(),
                properties: dataset.properties,
            },
        };
        let target = name.parts().to_vec();
        self.graph.add_output(Output { name: name.clone(), kind, comment: dataset.comment })?;
        match dataset.query {
            Some((query, _)) => self.add(name, target, query, fault),
            None => fault.map_or(Ok(()), Err),
        }
    }

    fn flow(&mut self, flow: PipelineFlow, fault: Option<Error>) -> Result<()> {
        if !flow.by_name {
            return Err(self.refused("INSERT INTO without BY NAME"));
        }
        let name = self.namespace.qualify(&flow.name)?;
        self.add(name, flow.target, flow.query, fault)
    }

    fn add(&mut self, name: Identifier, target: Vec<String>, query: spark_connect_proto::Relation, fault: Option<Error>) -> Result<()> {
        let query = match fault {
            Some(fault) => FlowQuery::Faulty(Arc::new(fault)),
            None => FlowQuery::Relation(Box::new(query)),
        };
        self.graph.add_flow(Flow { name, target, query, confs: self.set.clone(), namespace: self.namespace.clone() })
    }
}

/// A statement with the values of settings in the places of `${name}`; nothing in the place of one that is not set.
fn substituted(text: &str, confs: &Confs) -> Result<String> {
    if confs.get("spark.sql.variable.substitute").is_some_and(|value| value.eq_ignore_ascii_case("false")) {
        return Ok(text.to_owned());
    }
    let mut text = text.to_owned();
    for _ in 0..DEPTH {
        let Some((start, end)) = first_variable(&text) else { return Ok(text) };
        let name = text.get(start + 2..end).unwrap_or_default();
        let key = ["spark:", "sparkconf:", "hivevar:", "hiveconf:"].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
        let value = confs.get(key.trim()).unwrap_or_default();
        text.replace_range(start..=end, &value);
    }
    match first_variable(&text) {
        None => Ok(text),
        Some(_) => {
            let message = format!("a statement has more than {DEPTH} variables, or one that refers to itself");
            Err(Error::invalid("IllegalStateException", message))
        }
    }
}

/// Where the innermost `${…}` begins and ends.
fn first_variable(text: &str) -> Option<(usize, usize)> {
    let mut from = 0;
    while let Some(end) = text.get(from..)?.find('}').map(|at| from + at) {
        if let Some(start) = text.get(..end)?.rfind("${")
            && !text.get(start + 2..end)?.contains(['}', '$', '{', ' '])
            && end > start + 2
        {
            return Some((start, end));
        }
        from = end + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(text: &str) -> Result<Graph> {
        let here = Namespace { catalog: "spark_catalog".into(), database: "db".into() };
        let mut graph = Graph::new(here, BTreeMap::new());
        let confs = Confs::new("file:/w", "UTC");
        confs.set("where.to", "x = 1").unwrap();
        define(&mut graph, &confs, "a.sql", text)?;
        Ok(graph)
    }

    #[test]
    fn what_a_file_sets_holds_for_what_follows() {
        let graph = graph(
            "CREATE OR REFRESH MATERIALIZED VIEW a AS SELECT 1 AS x;\nSET k = v;\nUSE SCHEMA other; SET CATALOG spark_catalog;\n\
             CREATE STREAMING TABLE b; -- own flows; none\nCREATE FLOW f AS INSERT INTO b BY NAME SELECT * FROM STREAM c WHERE ${where.to}${none.such};\n\
             CREATE TEMPORARY VIEW v AS SELECT 2 AS y",
        )
        .unwrap();
        let names: Vec<String> = graph.outputs.iter().map(|output| output.name.to_string()).collect();
        assert_eq!(names, ["spark_catalog.db.a", "spark_catalog.other.b", "v"]);
        let flows: Vec<(String, usize, Option<usize>)> =
            graph.flows.iter().map(|flow| (flow.name.to_string(), flow.confs.len(), graph.target(flow))).collect();
        let expected = [("spark_catalog.db.a", 0, Some(0)), ("spark_catalog.other.f", 1, Some(1)), ("v", 1, Some(2))];
        assert_eq!(flows, expected.map(|(name, confs, target)| (name.to_owned(), confs, target)));
    }

    #[test]
    fn what_defines_nothing_is_refused() {
        for (text, code) in [
            ("CREATE TABLE t (a INT)", "PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR"),
            ("SELECT 1", "PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR"),
            ("USE other", "PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR"),
            ("CREATE FLOW f AS INSERT INTO t SELECT 1 AS a", "PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR"),
            ("SET", "RuntimeException"),
            ("SET CATALOG nowhere", "CATALOG_NOT_FOUND"),
            ("CREATE OR REFRESH TABLE t AS SELECT 1", "PARSE_SYNTAX_ERROR"),
            ("CREATE MATERIALIZED VIEW m", "_LEGACY_ERROR_TEMP_0035"),
            ("CREATE MATERIALIZED VIEW m LOCATION '/x' AS SELECT 1 AS a", "_LEGACY_ERROR_TEMP_0035"),
            ("CREATE MATERIALIZED VIEW m CLUSTER BY (a) AS SELECT 1 AS a", "PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR"),
            ("CREATE FLOW f AS INSERT OVERWRITE t SELECT 1 AS a", "PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR"),
            ("CREATE TEMPORARY VIEW a.v AS SELECT 1 AS a", "INVALID_TEMP_OBJ_QUALIFIER"),
            ("CREATE STREAMING TABLE t AS SELECT * FROM STREAM (SELECT 1)", "PARSE_SYNTAX_ERROR"),
            ("CREATE MATERIALIZED VIEW a.b.c.d AS SELECT 1", "REQUIRES_SINGLE_PART_NAMESPACE"),
        ] {
            assert_eq!(graph(text).unwrap_err().code(), code, "{text}");
        }
    }

    #[test]
    fn faults_of_meaning_are_the_flows() {
        for (text, code) in [
            ("CREATE STREAMING TABLE t AS SELECT * FROM STREAM read_files('/x')", "UNRESOLVABLE_TABLE_VALUED_FUNCTION"),
            ("CREATE STREAMING TABLE t AS SELECT * FROM STREAM(STREAM(c))", "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION"),
            (
                "CREATE STREAMING TABLE t AS SELECT * FROM STREAM c IDENTIFIED BY d",
                "STREAMING_QUERY_EVOLUTION_ERROR.SOURCE_NAMING_NOT_SUPPORTED",
            ),
        ] {
            let graph = graph(text).unwrap();
            let FlowQuery::Faulty(fault) = &graph.flows[0].query else { panic!("{text}") };
            assert_eq!(fault.code(), code, "{text}");
        }
    }

    #[test]
    fn variables_stand_inside_of_variables() {
        let confs = Confs::new("file:/w", "UTC");
        for (key, value) in [("a", "b"), ("b", "two"), ("c", "${a}"), ("loop", "${loop}")] {
            confs.set(key, value).unwrap();
        }
        for (text, expected) in [("${a}", "b"), ("${${a}}", "two"), ("${c}-${x}", "b-"), ("{}$", "{}$"), ("${sparkconf:b}", "two")] {
            assert_eq!(substituted(text, &confs).unwrap(), expected, "{text}");
        }
        assert!(substituted("${loop}", &confs).is_err());
    }
}
