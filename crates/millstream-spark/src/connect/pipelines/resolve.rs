//! Resolution: what each flow of a graph reads, and which columns it has.
//!
//! A flow is resolved when it is asked for, and everything that it reads before it. While a graph is checked its tables are known only by
//! their columns; when a flow runs, the same query is resolved over the tables as they are.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use futures::future::BoxFuture;
use millstream_core::{Error, Result};
use millstream_engine::plan::is_streaming;
use parking_lot::Mutex;

use super::cdc;
use super::event::again;
use super::graph::{Flow, FlowQuery, Graph, OutputKind};
use super::leaves::GraphLeaves;
use crate::analyzer::{Analyzed, Leaf};
use crate::connect::session::ConnectSession;
use crate::pipelines::{declared, schema};

/// The code of a flow that cannot be resolved because something that it reads cannot.
pub(super) const UPSTREAM: &str = "PIPELINE_UPSTREAM_NOT_RESOLVED";

/// The code of flows that read what they write.
pub(super) const CIRCLE: &str = "PIPELINE_CIRCULAR_DEPENDENCY";

/// Resolves the flows of one graph.
#[derive(Debug)]
pub(super) struct Resolver {
    pub(super) graph: Graph,
    session: Arc<ConnectSession>,
    flows: Mutex<HashMap<usize, State>>,
    sessions: Mutex<HashMap<usize, Arc<ConnectSession>>>,
}

#[derive(Clone, Debug)]
enum State {
    Running,
    Done(Result<Arc<Resolved>, Arc<Failure>>),
}

/// Why a flow cannot be resolved.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: Error,
    /// Whether it is its definition that is wrong, and not what it reads: such an error is told as it is.
    pub(super) is_definition: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure { error, is_definition: false }
    }
}

/// A flow whose names and types are known.
#[derive(Debug)]
pub(super) struct Resolved {
    /// The columns of its rows.
    pub(super) schema: SchemaRef,
    pub(super) is_streaming: bool,
    /// The outputs that it reads, directly and through views.
    pub(super) inputs: BTreeSet<usize>,
}

/// What a flow reads, and what its names stand for.
struct Read {
    analyzed: Analyzed,
    leaves: GraphLeaves,
}

/// Whether tables are known by their columns, or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Declared,
    Live,
}

impl Resolver {
    pub(super) fn new(session: Arc<ConnectSession>, graph: Graph) -> Arc<Self> {
        Arc::new(Resolver { graph, session, flows: Mutex::default(), sessions: Mutex::default() })
    }

    /// The session in which a flow is resolved and run: that of the client with the flow's settings and namespace.
    ///
    /// # Errors
    /// Those of settings that have no such value.
    pub(super) fn session_of(&self, index: usize) -> Result<Arc<ConnectSession>> {
        if let Some(session) = self.sessions.lock().get(&index) {
            return Ok(session.clone());
        }
        let flow = self.flow(index)?;
        let session = self.session.duplicate(self.session.host.ids().next().to_string())?;
        session.set_database(&flow.namespace.database.to_lowercase());
        for (key, value) in self.graph.confs.iter().chain(&flow.confs) {
            session.confs.set(key, value)?;
        }
        if matches!(flow.query, FlowQuery::AutoCdc(_)) {
            // Which of two changes with one sequence counts depends on their order: one task reads them.
            let state = session.engine.context().state_ref();
            state.write().config_mut().options_mut().execution.target_partitions = 1;
        }
        Ok(self.sessions.lock().entry(index).or_insert(session).clone())
    }

    /// The session of the client.
    pub(super) fn client(&self) -> &Arc<ConnectSession> {
        &self.session
    }

    pub(super) fn flow(&self, index: usize) -> Result<&Arc<Flow>> {
        self.graph.flows.get(index).ok_or_else(|| Error::internal("a flow is not in its graph"))
    }

    /// Whether an output's rows are changed in place, and not only added.
    pub(super) fn is_changed_in_place(&self, output: usize) -> bool {
        let is_cdc = |flow: &Arc<Flow>| matches!(flow.query, FlowQuery::AutoCdc(_));
        self.graph.flows_into(output).into_iter().any(|flow| self.graph.flows.get(flow).is_some_and(is_cdc))
    }

    /// Resolves a flow, once.
    pub(super) fn resolve(self: &Arc<Self>, index: usize) -> BoxFuture<'static, Result<Arc<Resolved>, Arc<Failure>>> {
        let resolver = self.clone();
        Box::pin(async move {
            {
                let mut flows = resolver.flows.lock();
                match flows.get(&index) {
                    Some(State::Done(outcome)) => return outcome.clone(),
                    Some(State::Running) => return Err(Arc::new(resolver.circle(index).into())),
                    None => flows.insert(index, State::Running),
                };
            }
            let outcome = resolver.resolved(index).await.map(Arc::new).map_err(Arc::new);
            resolver.flows.lock().insert(index, State::Done(outcome.clone()));
            outcome
        })
    }

    fn circle(&self, index: usize) -> Error {
        let name = self.graph.flows.get(index).map(|flow| flow.name.to_string()).unwrap_or_default();
        let message = format!("flow '{name}' reads what it writes, directly or through others: a pipeline has no circles");
        Error::invalid(CIRCLE, message)
    }

    async fn resolved(self: &Arc<Self>, index: usize) -> Result<Resolved, Failure> {
        let of_definition = |error| Failure { error, is_definition: true };
        self.session_of(index).map_err(of_definition)?;
        let (read, inputs) = self.read(index, Mode::Declared).await?;
        let analyzed = self.shaped(index, read).map_err(of_definition)?;
        Ok(Resolved { schema: Arc::new(analyzed.schema()), is_streaming: is_streaming(&analyzed.plan)?, inputs })
    }

    /// Analyzes the query of a flow: over its tables' columns, or over the tables as they are. Gives the outputs that it reads, too.
    ///
    /// # Errors
    /// Those of the query; [`UPSTREAM`] for one that reads what cannot be resolved.
    pub(super) async fn analyze(self: &Arc<Self>, index: usize, mode: Mode) -> Result<(Analyzed, BTreeSet<usize>)> {
        let (read, inputs) = self.read(index, mode).await?;
        Ok((self.shaped(index, read)?, inputs))
    }

    /// What a flow reads.
    async fn read(self: &Arc<Self>, index: usize, mode: Mode) -> Result<(Read, BTreeSet<usize>)> {
        let flow = self.flow(index)?;
        let session = self.session_of(index)?;
        let leaves = GraphLeaves::new(self.clone(), session.clone(), flow.namespace.clone(), mode);
        let relation = match &flow.query {
            FlowQuery::Relation(relation) => relation.as_ref(),
            FlowQuery::AutoCdc(cdc) => &cdc.source,
            FlowQuery::Faulty(fault) => return Err(again(fault)),
            FlowQuery::Awaited { .. } => {
                let message = format!("flow '{}' has no query: its client did not send one", flow.name);
                return Err(Error::invalid("PIPELINE_DATASET_WITHOUT_FLOW", message).with_sqlstate("0A000"));
            }
        };
        let mut settings = session.settings();
        // As in Spark, whose parser decides about it, this does not depend on settings of the flow.
        settings.ansi = self.session.settings().ansi;
        if self.graph.target(flow).is_some_and(|target| self.is_batch(target)) {
            settings.running_time_zone = Some(self.session.settings().time_zone);
        }
        let analyzed = crate::analyzer::analyze(relation, &leaves, &settings, session.engine.state()).await?;
        let inputs = leaves.inputs();
        Ok((Read { analyzed, leaves }, inputs))
    }

    /// The rows of a flow, of what it reads.
    fn shaped(&self, index: usize, read: Read) -> Result<Analyzed> {
        let flow = self.flow(index)?;
        let analyzed = match &flow.query {
            FlowQuery::AutoCdc(cdc) => {
                cdc::shaped(self.session_of(index)?.as_ref(), &read.leaves, &flow.name.to_string(), cdc, read.analyzed)?
            }
            _ => read.analyzed,
        };
        Ok(analyzed.stored())
    }

    /// The columns of a table of the graph, of which only the graph is known.
    ///
    /// # Errors
    /// [`UPSTREAM`] when a flow into it cannot be resolved, and those of columns that do not fit together.
    pub(super) async fn columns(self: &Arc<Self>, output: usize) -> Result<SchemaRef> {
        let known = self.graph.outputs.get(output).ok_or_else(|| Error::internal("an output is not in its graph"))?;
        let flows = self.graph.flows_into(output);
        let mut inferred: Option<Schema> = None;
        for index in flows {
            let schema = self.flow_columns(index).await?;
            inferred = Some(match inferred {
                None => schema,
                Some(known) => schema::merged(&known, &schema)?,
            });
        }
        match (known.table().and_then(|table| table.schema.as_ref()), inferred) {
            (Some(declared), _) => Ok(Arc::new(declared.clone())),
            (None, Some(inferred)) => Ok(Arc::new(inferred)),
            (None, None) => {
                let message = format!("'{}' has neither columns nor a flow that writes to it", known.name);
                Err(Error::invalid("UNABLE_TO_INFER_PIPELINE_TABLE_SCHEMA", message).with_sqlstate("42KD9"))
            }
        }
    }

    /// The columns that a flow gives its table.
    pub(super) async fn flow_columns(self: &Arc<Self>, index: usize) -> Result<Schema> {
        let flow = self.flow(index)?;
        let resolved = self.resolve(index).await.map_err(|error| upstream(&flow.name.to_string(), &error.error))?;
        match (&flow.query, self.graph.target(flow).and_then(|target| self.graph.outputs.get(target))) {
            (FlowQuery::AutoCdc(cdc), Some(output)) => match output.name.table() {
                Some(table) => cdc::side_table(&table, cdc, &resolved.schema).map(|(target, _)| target),
                None => Ok(resolved.schema.as_ref().clone()),
            },
            _ => Ok(resolved.schema.as_ref().clone()),
        }
    }

    /// What a name of the graph is to a query that reads it.
    ///
    /// # Errors
    /// Those of [`Resolver::columns`] and of views.
    pub(super) async fn leaf(self: &Arc<Self>, output: usize, streaming: bool, mode: Mode) -> Result<(Option<Leaf>, BTreeSet<usize>)> {
        let known = self.graph.outputs.get(output).ok_or_else(|| Error::internal("an output is not in its graph"))?;
        match &known.kind {
            OutputKind::StreamingTable(_) | OutputKind::MaterializedView(_) if mode == Mode::Live => Ok((None, BTreeSet::from([output]))),
            OutputKind::StreamingTable(_) | OutputKind::MaterializedView(_) => {
                let schema = self.columns(output).await?;
                Ok((Some(declared::leaf(&known.name.to_string(), &schema, streaming)), BTreeSet::from([output])))
            }
            OutputKind::TemporaryView | OutputKind::PersistedView { .. } => {
                let Some(index) = self.graph.flows_into(output).first().copied() else {
                    let message = format!("view '{}' has no query", known.name);
                    return Err(Error::invalid("PIPELINE_DATASET_WITHOUT_FLOW", message).with_sqlstate("0A000"));
                };
                // Circles among views are found here: a view is resolved before it is read.
                self.resolve(index).await.map_err(|error| upstream(&known.name.to_string(), &error.error))?;
                let (analyzed, mut inputs) = self.analyze(index, mode).await?;
                if streaming && !is_streaming(&analyzed.plan)? {
                    let message = format!("View {} is a batch view and must be referenced without STREAM or readStream.", known.name);
                    return Err(Error::invalid("INCOMPATIBLE_BATCH_VIEW_READ", message).with_sqlstate("42000"));
                }
                if !streaming && is_streaming(&analyzed.plan)? {
                    let message = format!("View {} is a streaming view and must be referenced with STREAM or readStream.", known.name);
                    return Err(Error::invalid("INCOMPATIBLE_STREAMING_VIEW_READ", message).with_sqlstate("42000"));
                }
                inputs.insert(output);
                Ok((Some(Leaf::Analyzed(analyzed)), inputs))
            }
            OutputKind::Sink { .. } => {
                let message = format!("'{}' is a sink: rows go there, and are not read from there", known.name);
                Err(Error::invalid("TABLE_OR_VIEW_NOT_FOUND", message).with_sqlstate("42P01"))
            }
        }
    }

    /// Resolves every flow. Gives the errors by flow.
    pub(super) async fn resolve_all(self: &Arc<Self>) -> BTreeMap<usize, Arc<Failure>> {
        let mut failed = BTreeMap::new();
        for index in 0..self.graph.flows.len() {
            if let Err(error) = self.resolve(index).await {
                failed.insert(index, error);
            }
        }
        failed
    }

    /// Whether the flow of an output runs as a batch, in the settings of the client: its own hold only while it is resolved, as in Spark.
    fn is_batch(&self, output: usize) -> bool {
        self.graph.outputs.get(output).is_some_and(|output| matches!(output.kind, OutputKind::MaterializedView(_)))
    }
}

fn upstream(name: &str, error: &Error) -> Error {
    if error.code() == CIRCLE {
        return again(error);
    }
    Error::invalid(UPSTREAM, format!("'{name}' cannot be resolved: {}", error.message()))
}
