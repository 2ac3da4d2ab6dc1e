//! What a client has defined of a pipeline: datasets, sinks, and the flows between them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::Schema;
use millstream_core::{Error, Result};
use spark_connect_proto::Relation;

use super::cdc::AutoCdc;
use super::name::{Identifier, Namespace};

/// A graph as far as it is defined. Copies share the plans.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    /// Where names without catalog and schema belong.
    pub(super) defaults: Namespace,
    /// Settings of every flow.
    pub(super) confs: BTreeMap<String, String>,
    /// Datasets and sinks, in the order of their definition.
    pub(super) outputs: Vec<Arc<Output>>,
    /// Flows, in the order of their definition.
    pub(super) flows: Vec<Arc<Flow>>,
}

/// A dataset or sink.
#[derive(Clone, Debug)]
pub(super) struct Output {
    pub(super) name: Identifier,
    pub(super) kind: OutputKind,
    pub(super) comment: Option<String>,
}

/// What an output is.
#[derive(Clone, Debug)]
pub(super) enum OutputKind {
    /// A table that flows append to.
    StreamingTable(TableDetails),
    /// A table that is the result of its flow.
    MaterializedView(TableDetails),
    /// A name inside of the graph.
    TemporaryView,
    /// A view that the catalog keeps, with its text.
    PersistedView { text: String, properties: BTreeMap<String, String> },
    /// A place outside of the pipeline.
    Sink { format: String, options: BTreeMap<String, String> },
}

/// What there is to say about a table.
#[derive(Clone, Debug, Default)]
pub(super) struct TableDetails {
    pub(super) properties: BTreeMap<String, String>,
    pub(super) partition_by: Vec<String>,
    pub(super) cluster_by: Vec<String>,
    /// The format that was asked for; Delta without it.
    pub(super) format: Option<String>,
    /// The columns as they were declared.
    pub(super) schema: Option<Schema>,
}

impl Output {
    /// What is said about it if it is a table.
    pub(super) fn table(&self) -> Option<&TableDetails> {
        match &self.kind {
            OutputKind::StreamingTable(table) | OutputKind::MaterializedView(table) => Some(table),
            OutputKind::TemporaryView | OutputKind::PersistedView { .. } | OutputKind::Sink { .. } => None,
        }
    }

    pub(super) fn is_streaming_table(&self) -> bool {
        matches!(self.kind, OutputKind::StreamingTable(_))
    }

    pub(super) fn is_view(&self) -> bool {
        matches!(self.kind, OutputKind::TemporaryView | OutputKind::PersistedView { .. })
    }

    pub(super) fn is_sink(&self) -> bool {
        matches!(self.kind, OutputKind::Sink { .. })
    }
}

/// A query whose rows go somewhere.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) name: Identifier,
    /// The output that it writes to, as it was named: it may be defined later.
    pub(super) target: Vec<String>,
    pub(super) query: FlowQuery,
    /// Settings of its own, over those of the graph.
    pub(super) confs: BTreeMap<String, String>,
    /// Where names in its query belong.
    pub(super) namespace: Namespace,
}

/// What a flow computes.
#[derive(Clone, Debug)]
pub(super) enum FlowQuery {
    /// The rows of a relation.
    Relation(Box<Relation>),
    /// The rows of a query whose grammar is right and that means nothing.
    Faulty(Arc<Error>),
    /// Changes that are applied to a table.
    AutoCdc(Box<AutoCdc>),
    /// A relation that the client is asked for once it can make it.
    Awaited { client: Option<String> },
}

impl Graph {
    pub(super) fn new(defaults: Namespace, confs: BTreeMap<String, String>) -> Self {
        Graph { defaults, confs, outputs: Vec::new(), flows: Vec::new() }
    }

    /// Adds an output.
    ///
    /// # Errors
    /// `PIPELINE_DUPLICATE_IDENTIFIERS.OUTPUT`.
    pub(super) fn add_output(&mut self, output: Output) -> Result<()> {
        if self.outputs.iter().any(|known| known.name == output.name) {
            let message = format!("'{}' is defined twice: give each dataset, view and sink a name of its own", output.name);
            return Err(Error::invalid("PIPELINE_DUPLICATE_IDENTIFIERS.OUTPUT", message).with_sqlstate("42710"));
        }
        self.outputs.push(Arc::new(output));
        Ok(())
    }

    /// Adds a flow.
    ///
    /// # Errors
    /// `PIPELINE_DUPLICATE_IDENTIFIERS.FLOW`.
    pub(super) fn add_flow(&mut self, flow: Flow) -> Result<()> {
        if self.flows.iter().any(|known| known.name == flow.name) {
            let message = format!("flow '{}' is defined twice: a dataset's own query is a flow of the dataset's name", flow.name);
            return Err(Error::invalid("PIPELINE_DUPLICATE_IDENTIFIERS.FLOW", message).with_sqlstate("42710"));
        }
        self.flows.push(Arc::new(flow));
        Ok(())
    }

    /// The place of the output of that name.
    pub(super) fn output(&self, name: &Identifier) -> Option<usize> {
        self.outputs.iter().position(|output| output.name == *name)
    }

    /// The place of the output that a name in a query, or a flow's target, means: views and sinks by their name alone come first.
    ///
    /// # Errors
    /// Those of the name.
    pub(super) fn find(&self, parts: &[String], namespace: &Namespace) -> Result<Option<usize>> {
        if let Some(index) = self.output(&Identifier::of(parts.to_vec())).filter(|index| self.is_own(*index)) {
            return Ok(Some(index));
        }
        if parts.len() > 3 {
            return Ok(None);
        }
        Ok(self.output(&namespace.qualify(parts)?))
    }

    /// Whether an output is in the graph alone, and not in the catalog.
    fn is_own(&self, output: usize) -> bool {
        let own = |output: &Arc<Output>| matches!(output.kind, OutputKind::TemporaryView | OutputKind::Sink { .. });
        self.outputs.get(output).is_some_and(own)
    }

    /// The places of the flows into an output.
    pub(super) fn flows_into(&self, output: usize) -> Vec<usize> {
        (0..self.flows.len()).filter(|index| self.flows.get(*index).and_then(|flow| self.target(flow)) == Some(output)).collect()
    }

    /// The place of the output that a flow writes to.
    pub(super) fn target(&self, flow: &Flow) -> Option<usize> {
        self.find(&flow.target, &flow.namespace).ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(name: &str, target: &str, namespace: &Namespace) -> Flow {
        Flow {
            name: namespace.qualify(&[name.to_owned()]).unwrap(),
            target: vec![target.to_owned()],
            query: FlowQuery::Awaited { client: None },
            confs: BTreeMap::new(),
            namespace: namespace.clone(),
        }
    }

    #[test]
    fn names_are_given_once_and_flows_may_come_before_their_tables() {
        let here = Namespace { catalog: "spark_catalog".into(), database: "db".into() };
        let mut graph = Graph::new(here.clone(), BTreeMap::new());
        graph.add_flow(flow("f", "t", &here)).unwrap();
        assert_eq!(graph.add_flow(flow("f", "u", &here)).unwrap_err().code(), "PIPELINE_DUPLICATE_IDENTIFIERS.FLOW");
        assert_eq!(graph.target(&graph.flows[0]), None);
        let table = || Output {
            name: here.qualify(&["t".to_owned()]).unwrap(),
            kind: OutputKind::StreamingTable(TableDetails::default()),
            comment: None,
        };
        graph.add_output(table()).unwrap();
        assert_eq!(graph.add_output(table()).unwrap_err().code(), "PIPELINE_DUPLICATE_IDENTIFIERS.OUTPUT");
        assert_eq!(graph.flows_into(0), [0]);
        let view = Output { name: Identifier::of(vec!["t".to_owned()]), kind: OutputKind::TemporaryView, comment: None };
        graph.add_output(view).unwrap();
        assert_eq!(graph.find(&["t".to_owned()], &here).unwrap(), Some(1), "a view's own name comes first");
        assert_eq!(graph.find(&["db".to_owned(), "t".to_owned()], &here).unwrap(), Some(0));
    }
}
