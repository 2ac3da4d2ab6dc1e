//! All definitions of a pipeline as one dataflow graph: what reads what, in which order to run, and everything that cannot work.

mod check;
mod files;
mod order;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::name::TableName;
pub use super::parser::DatasetKind;
use super::parser::{self, Column, Definition, Expectation, Settings};
use crate::sql::{Diagnostic, Diagnostics, Fragment, Position, PreparedQuery, RelationSource, SourceFile, Variables, closest};

pub use files::read_files;

/// How the names of quarantine tables begin.
pub(super) const QUARANTINE: &str = "_quarantine_";
/// What the names of tables of late rows begin with.
pub(super) const LATE: &str = "_late_";

/// A table or view of the pipeline.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// Its name.
    pub name: TableName,
    /// What it is.
    pub kind: DatasetKind,
    /// Where it is defined.
    pub position: Position,
    /// Not to be shown outside of the pipeline.
    pub private: bool,
    /// Declared columns.
    pub columns: Vec<Column>,
    /// Expectations.
    pub expectations: Vec<Expectation>,
    /// Columns to partition by.
    pub partition_by: Vec<(String, Position)>,
    /// The comment.
    pub comment: Option<String>,
    /// Table properties.
    pub properties: BTreeMap<String, String>,
    /// The query, of a view.
    pub view: Option<ViewQuery>,
}

/// The query of a temporary view.
#[derive(Clone, Debug)]
pub struct ViewQuery {
    /// The query.
    pub query: PreparedQuery,
    /// What each of its relations is, in the same order.
    pub inputs: Vec<Input>,
    /// What was set when it was defined.
    pub settings: Settings,
}

/// What a relation of a query turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A dataset of the pipeline, by its place in [`Graph::datasets`].
    Dataset(usize),
    /// A table that exists outside of the pipeline.
    External(TableName),
    /// Files, which the relation itself describes.
    Files,
}

/// A query whose rows go into a table of the pipeline.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Its name: that of its table for the query of the table itself.
    pub name: TableName,
    /// Where it is defined.
    pub position: Position,
    /// The table, by its place in [`Graph::datasets`].
    pub target: usize,
    /// A batch query whose rows are appended once.
    pub once: bool,
    /// The query.
    pub query: PreparedQuery,
    /// What each of its relations is, in the same order.
    pub inputs: Vec<Input>,
    /// The flows that write what it reads, directly or through views, by their places in [`Graph::flows`]; always before it.
    pub upstream: Vec<usize>,
    /// Flows with the same number depend on each other in some way; others can run side by side from beginning to end.
    pub component: usize,
    /// What was set when it was defined.
    pub settings: Settings,
}

/// A pipeline without faults.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Tables and views, in the order of their definition.
    pub datasets: Vec<Dataset>,
    /// Flows, each after everything it reads from.
    pub flows: Vec<Flow>,
    /// Clauses that have no effect, and other things worth knowing.
    pub notes: Vec<Diagnostic>,
}

impl Graph {
    /// Makes the graph of some files. `variables` are given from outside; `external` knows the tables that exist without the pipeline.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the text.
    pub fn build(files: &[Arc<SourceFile>], variables: &Variables, external: &dyn Fn(&TableName) -> bool) -> Result<Graph, Diagnostics> {
        let mut builder = Builder::new(external);
        for file in files {
            let parsed = parser::parse(file, variables);
            builder.faults.extend(parsed.faults);
            builder.graph.notes.extend(parsed.notes);
            builder.definitions(parsed.definitions);
        }
        let mut unset: Vec<Diagnostic> = Vec::new();
        for fault in builder.faults.iter().filter(|fault| fault.code == "UNDEFINED_VARIABLE") {
            if !unset.iter().any(|known| known.message == fault.message) {
                unset.push(fault.clone());
            }
        }
        // Without a value, statements are left out, and whatever reads them would be told to be wrong, too.
        if !unset.is_empty() {
            return Err(Diagnostics(unset));
        }
        builder.finish(files)
    }

    /// The dataset of that name.
    pub fn dataset(&self, name: &TableName) -> Option<usize> {
        self.datasets.iter().position(|dataset| dataset.name == *name)
    }

    /// The flows into a dataset, by their places.
    pub fn flows_into(&self, dataset: usize) -> impl Iterator<Item = usize> {
        self.flows.iter().enumerate().filter(move |(_, flow)| flow.target == dataset).map(|(index, _)| index)
    }
}

/// A flow or view whose relations are not looked up yet.
struct Pending {
    name: TableName,
    position: Position,
    reader: Reader,
    once: bool,
    query: PreparedQuery,
    inputs: Vec<Input>,
    settings: Settings,
}

/// What a query belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Flow { target: usize },
    View { dataset: usize },
}

impl Reader {
    fn dataset(self) -> usize {
        match self {
            Reader::Flow { target } => target,
            Reader::View { dataset } => dataset,
        }
    }
}

struct FlowToTarget {
    definition: Box<parser::FlowDefinition>,
}

struct Builder<'a> {
    external: &'a dyn Fn(&TableName) -> bool,
    graph: Graph,
    faults: Vec<Diagnostic>,
    pending: Vec<Pending>,
    flows: Vec<FlowToTarget>,
}

impl<'a> Builder<'a> {
    fn new(external: &'a dyn Fn(&TableName) -> bool) -> Self {
        Builder { external, graph: Graph::default(), faults: Vec::new(), pending: Vec::new(), flows: Vec::new() }
    }

    fn prepare(&mut self, text: &Fragment) -> Option<PreparedQuery> {
        PreparedQuery::of(text.clone()).map_err(|fault| self.faults.push(fault)).ok()
    }

    fn definitions(&mut self, definitions: Vec<Definition>) {
        for definition in definitions {
            match definition {
                Definition::Flow(definition) => self.flows.push(FlowToTarget { definition }),
                Definition::Dataset(definition) => self.dataset(*definition),
            }
        }
    }

    fn dataset(&mut self, definition: parser::DatasetDefinition) {
        let name = definition.name.name.to_lowercase();
        if let Some(reserved) = [QUARANTINE, LATE].into_iter().find(|reserved| name.starts_with(reserved)) {
            let message = format!("names that begin with {reserved} belong to the tables of records that flows could not use");
            self.faults.push(Diagnostic::new("RESERVED_NAME", "42939", definition.position, message).with_hint("choose another name"));
            return;
        }
        if [&definition.name.name, &definition.name.schema, &definition.name.catalog].iter().any(|part| part.trim().is_empty()) {
            let message = format!("'{}' is no name of a {}: a part of it is empty", definition.name, definition.kind.name());
            self.faults.push(Diagnostic::new("INVALID_SCHEMA_OR_RELATION_NAME", "42602", definition.position, message));
            return;
        }
        let index = self.graph.datasets.len();
        if let Some(known) = self.graph.dataset(&definition.name) {
            let first = &self.graph.datasets[known];
            let message = format!("'{}' is defined twice: the first is the {} at {}", definition.name, first.kind.name(), first.position);
            self.faults.push(Diagnostic::new("PIPELINE_DUPLICATE_IDENTIFIERS.OUTPUT", "42710", definition.position, message));
            return;
        }
        self.graph.datasets.push(Dataset {
            name: definition.name.clone(),
            kind: definition.kind,
            position: definition.position.clone(),
            private: definition.private,
            columns: definition.columns,
            expectations: definition.expectations,
            partition_by: definition.partition_by,
            comment: definition.comment,
            properties: definition.properties,
            view: None,
        });
        let Some(query) = definition.query.as_ref().and_then(|text| self.prepare(text)) else {
            return;
        };
        let reader = match definition.kind {
            DatasetKind::TemporaryView => Reader::View { dataset: index },
            _ => Reader::Flow { target: index },
        };
        self.pending.push(Pending {
            name: definition.name,
            position: definition.position,
            reader,
            once: definition.once,
            query,
            inputs: Vec::new(),
            settings: definition.settings,
        });
    }

    /// Gives every `CREATE FLOW` its table, now that all of them are known.
    fn connect_flows(&mut self) {
        for FlowToTarget { definition } in std::mem::take(&mut self.flows) {
            let Some(query) = self.prepare(&definition.query) else { continue };
            let taken = |pending: &&Pending| matches!(pending.reader, Reader::Flow { .. }) && pending.name == definition.name;
            if let Some(first) = self.pending.iter().find(taken) {
                let message = format!("flow '{}' is defined twice: the first is at {}", definition.name, first.position);
                self.faults.push(
                    Diagnostic::new("PIPELINE_DUPLICATE_IDENTIFIERS.FLOW", "42710", definition.position, message)
                        .with_hint("a table's own query is a flow of the table's name"),
                );
                continue;
            }
            let Some(target) = self.graph.dataset(&definition.target) else {
                let hint = match self.near(&definition.target) {
                    Some(near) => format!("did you mean '{near}'?"),
                    None => format!("define it with CREATE STREAMING TABLE {};", definition.target),
                };
                let message =
                    format!("flow '{}' inserts into '{}', which the pipeline does not define", definition.name, definition.target);
                self.faults.push(Diagnostic::new("TABLE_OR_VIEW_NOT_FOUND", "42P01", definition.target_position, message).with_hint(hint));
                continue;
            };
            let dataset = &self.graph.datasets[target];
            if dataset.kind != DatasetKind::StreamingTable {
                let message = format!("a flow inserts into a streaming table, and '{}' is a {}", dataset.name, dataset.kind.name());
                self.faults.push(
                    Diagnostic::new("MATERIALIZED_VIEW_WITH_MULTIPLE_QUERIES", "42000", definition.target_position, message)
                        .with_hint(format!("'{}' is defined at {}", dataset.name, dataset.position)),
                );
                continue;
            }
            self.pending.push(Pending {
                name: definition.name,
                position: definition.position,
                reader: Reader::Flow { target },
                once: definition.once,
                query,
                inputs: Vec::new(),
                settings: definition.settings,
            });
        }
    }

    /// Finds out what every relation is.
    fn resolve(&mut self) {
        for index in 0..self.pending.len() {
            let Some(pending) = self.pending.get(index) else { continue };
            let mut inputs = Vec::with_capacity(pending.query.relations.len());
            let mut faults = Vec::new();
            for relation in &pending.query.relations {
                let RelationSource::Table(parts) = &relation.source else {
                    inputs.push(Input::Files);
                    continue;
                };
                let input = match pending.settings.namespace.resolve(parts) {
                    Some(name) => match self.graph.dataset(&name) {
                        Some(dataset) => Some(Input::Dataset(dataset)),
                        None if (self.external)(&name) => Some(Input::External(name)),
                        None => {
                            faults.push(self.unknown(&name, &relation.position));
                            None
                        }
                    },
                    None => {
                        let message =
                            format!("a table is named by at most three parts, and '{}' has {}", relation.source.display(), parts.len());
                        faults.push(Diagnostic::syntax(relation.position.clone(), message));
                        None
                    }
                };
                inputs.extend(input);
            }
            self.faults.extend(faults);
            if let Some(pending) = self.pending.get_mut(index) {
                pending.inputs = inputs;
            }
        }
    }

    fn unknown(&self, name: &TableName, position: &Position) -> Diagnostic {
        let fault = Diagnostic::new("TABLE_OR_VIEW_NOT_FOUND", "42P01", position.clone(), format!("there is no table or view '{name}'"));
        match self.near(name) {
            Some(near) => fault.with_hint(format!("did you mean '{near}'?")),
            None => fault.with_hint("it is neither defined in the pipeline nor stored before; files are read with read_files('path')"),
        }
    }

    fn near(&self, name: &TableName) -> Option<String> {
        let known: Vec<String> = self.graph.datasets.iter().map(|dataset| dataset.name.to_string()).collect();
        closest(&name.to_string(), known.iter().map(String::as_str)).map(str::to_owned)
    }

    fn finish(mut self, files: &[Arc<SourceFile>]) -> Result<Graph, Diagnostics> {
        self.connect_flows();
        self.resolve();
        self.check();
        if self.faults.is_empty() {
            match order::order(&self.graph.datasets, self.pending) {
                Ok((flows, views)) => {
                    self.graph.flows = flows;
                    for (dataset, view) in views {
                        if let Some(dataset) = self.graph.datasets.get_mut(dataset) {
                            dataset.view = Some(view);
                        }
                    }
                    return Ok(self.graph);
                }
                Err(cycles) => self.faults = cycles,
            }
        } else if let Err(cycles) = order::order(&self.graph.datasets, self.pending) {
            self.faults.extend(cycles);
        }
        let file_order = |file: &Arc<str>| files.iter().position(|known| known.name == *file).unwrap_or(usize::MAX);
        self.faults.sort_by_key(|fault| (file_order(&fault.position.file), fault.position.line, fault.position.column));
        Err(Diagnostics(self.faults))
    }
}

#[cfg(test)]
mod tests;
