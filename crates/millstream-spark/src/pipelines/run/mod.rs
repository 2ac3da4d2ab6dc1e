//! Runs a pipeline: every streaming table and materialized view is a Delta table below one storage root.
//!
//! ```text
//! <root>/tables/<table>                 the tables
//! <root>/tables/_quarantine_<flow>      records that a flow could not read
//! <root>/tables/_late_<flow>            rows that a flow left out because they were late
//! <root>/_checkpoints/<flow>            a flow's checkpoint; <flow>@<n> after the n-th full refresh of its table
//! <root>/_pipeline/…                    what the runner remembers: full refreshes, inferred schemas, states of materialized views
//! ```

mod check;
mod columns;
mod continuous;
mod event;
mod flow;
mod materialize;
mod once;
mod place;
mod relations;
mod tables;
mod totals;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use millstream_core::{Error, Result};
use millstream_engine::Session;
use millstream_engine::query::CheckpointLocation;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::graph::{self, Graph};
use super::name::TableName;
use super::parser::DatasetKind;
use crate::sql::{Diagnostic, SourceFile, Variables, closest};

pub use check::Checked;
pub use event::{FlowKind, FlowStatus, FlowSummary, PipelineEvent, RunSummary};
pub use place::Place;

/// How to run a pipeline.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Bring everything up to date and end; otherwise run until stopped.
    pub once: bool,
    /// Tables to compute again from nothing.
    pub full_refresh: Vec<String>,
    /// Compute every table again from nothing, except those with `pipelines.reset.allowed = false`.
    pub full_refresh_all: bool,
    /// The most flows that run at once when running once (`spark.sql.pipelines.execution.maxConcurrentFlows`).
    pub parallelism: usize,
    /// Changes of what a flow means that are accepted although they mix its old state with new results: `window`, `keys`, `aggregates`,
    /// `session`, `join`, `event-time`, `output-mode`, or `all`.
    pub accepted_changes: BTreeSet<String>,
    /// How often a flow is tried again after a failure that may pass (`spark.sql.pipelines.maxFlowRetryAttempts`).
    pub retries: u32,
    /// The pause before the first retry; each later one is twice as long (`spark.sql.pipelines.execution.watchdog.minRetryTime`).
    pub retry_pause: Duration,
    /// The shortest time between two computations of a materialized view while running continuously.
    pub refresh_interval: Duration,
    /// How often a materialized view that reads files or other tables looks for changes of theirs while running continuously.
    pub poll_interval: Duration,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            once: false,
            full_refresh: Vec::new(),
            full_refresh_all: false,
            parallelism: 16,
            accepted_changes: BTreeSet::new(),
            retries: 2,
            retry_pause: Duration::from_secs(5),
            refresh_interval: Duration::from_secs(1),
            poll_interval: Duration::from_secs(60),
        }
    }
}

/// A pipeline without faults in its text, ready to be checked and run. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Pipeline {
    session: Session,
    graph: Arc<Graph>,
    place: Place,
}

impl Pipeline {
    /// Reads a file, or the `*.sql` files of a folder, as one pipeline whose tables live below `root`. The session gets Spark's functions.
    ///
    /// # Errors
    /// Every fault of the text at once; `PATH_NOT_FOUND` and the like for the files; store errors for the root.
    pub async fn load(session: Session, path: &Path, variables: &Variables, root: CheckpointLocation) -> Result<Pipeline> {
        let files = graph::read_files(path)?;
        Self::of(session, &files, variables, root).await
    }

    /// A pipeline of texts.
    ///
    /// # Errors
    /// Every fault of the texts at once; store errors for the root.
    pub async fn of(session: Session, files: &[Arc<SourceFile>], variables: &Variables, root: CheckpointLocation) -> Result<Pipeline> {
        crate::analyzer::set_up(session.context());
        let place = Place::new(root);
        let stored = place.stored_tables().await?;
        let graph = Graph::build(files, variables, &|name| stored.contains(&place::directory(name)))?;
        Ok(Pipeline { session, graph: Arc::new(graph), place })
    }

    /// What the pipeline consists of.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Where its tables and checkpoints are.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Plans everything, reading no more than schemas and changing nothing.
    ///
    /// # Errors
    /// Every fault of every query and every table that could not be written, at its place in the text.
    pub async fn check(&self) -> Result<Checked> {
        let checked = self.checked(&[]).await?;
        self.check_tables(&checked).await?;
        Ok(checked)
    }

    /// Runs the pipeline. Events are told to `events`; a full channel loses progress reports and nothing else. `stop` ends the run: what
    /// a batch has begun is abandoned and done again by the next run.
    ///
    /// # Errors
    /// Faults found before anything runs, and errors of preparing the tables. What happens to single flows is in the summary.
    pub async fn run(&self, options: RunOptions, events: mpsc::Sender<PipelineEvent>, stop: CancellationToken) -> Result<RunSummary> {
        let refreshed = self.to_refresh(&options)?;
        let checked = self.checked(&refreshed).await?;
        let started = self.session.registry().clock.monotonic_ns();
        let unprepared = self.prepare_tables(&checked, &refreshed).await;
        let run = Arc::new(Run {
            pipeline: self.clone(),
            options,
            unprepared,
            totals: totals::Totals::default(),
            commits: watch::Sender::new(vec![0; self.graph.flows.len()]),
            events,
            stop,
        });
        run.listen();
        let flows = if run.options.once { once::run(&run).await } else { continuous::run(&run).await };
        Ok(RunSummary { flows, elapsed: self.since(started) })
    }

    fn since(&self, started_ns: u64) -> Duration {
        Duration::from_nanos(self.session.registry().clock.monotonic_ns().saturating_sub(started_ns))
    }

    /// The datasets that the options ask to compute from nothing.
    fn to_refresh(&self, options: &RunOptions) -> Result<Vec<usize>> {
        let mut refreshed = Vec::new();
        for name in &options.full_refresh {
            let parts: Vec<_> = name.split('.').map(datafusion::sql::sqlparser::ast::Ident::new).collect();
            let found = super::name::Namespace::default().resolve(&parts).and_then(|name| self.graph.dataset(&name));
            let Some(index) = found.filter(|index| self.dataset(*index).is_ok_and(|dataset| dataset.kind != DatasetKind::TemporaryView))
            else {
                let known: Vec<String> = self.graph.datasets.iter().map(|dataset| dataset.name.to_string()).collect();
                let hint =
                    closest(name, known.iter().map(String::as_str)).map(|near| format!(": did you mean '{near}'?")).unwrap_or_default();
                let message = format!("the pipeline has no table '{name}' to refresh{hint}");
                return Err(Error::invalid("TABLE_OR_VIEW_NOT_FOUND", message).with_sqlstate("42P01"));
            };
            if !self.may_reset(index)? {
                let message =
                    format!("table '{name}' has the property pipelines.reset.allowed = false: it is not computed again from nothing");
                return Err(Error::invalid("PIPELINE_RESET_NOT_ALLOWED", message));
            }
            refreshed.push(index);
        }
        if options.full_refresh_all {
            for (index, dataset) in self.graph.datasets.iter().enumerate() {
                if dataset.kind != DatasetKind::TemporaryView && self.may_reset(index)? {
                    refreshed.push(index);
                }
            }
        }
        refreshed.sort_unstable();
        refreshed.dedup();
        Ok(refreshed)
    }

    fn may_reset(&self, index: usize) -> Result<bool> {
        let dataset = self.dataset(index)?;
        match dataset.properties.get("pipelines.reset.allowed").map(String::as_str) {
            None => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(text) => {
                let message = format!("table property pipelines.reset.allowed is '{text}' but takes true or false");
                Err(Diagnostic::new("INVALID_CONF_VALUE.TYPE_MISMATCH", "22022", dataset.position.clone(), message).into())
            }
        }
    }

    fn dataset(&self, index: usize) -> Result<&super::Dataset> {
        self.graph.datasets.get(index).ok_or_else(|| Error::internal("a dataset of the graph is missing"))
    }

    fn flow(&self, index: usize) -> Result<&super::Flow> {
        self.graph.flows.get(index).ok_or_else(|| Error::internal("a flow of the graph is missing"))
    }
}

/// One run of a pipeline.
#[derive(Debug)]
struct Run {
    pipeline: Pipeline,
    options: RunOptions,
    /// Tables that could not be made or emptied, and why.
    unprepared: BTreeMap<usize, Arc<Error>>,
    totals: totals::Totals,
    /// How often each flow has committed.
    commits: watch::Sender<Vec<u64>>,
    events: mpsc::Sender<PipelineEvent>,
    stop: CancellationToken,
}

impl Run {
    /// Takes the progress of every query of this run into the totals, and tells it.
    fn listen(self: &Arc<Self>) {
        let names: BTreeMap<String, usize> =
            self.pipeline.graph.flows.iter().enumerate().map(|(index, flow)| (flow.name.to_string(), index)).collect();
        let run = Arc::downgrade(self);
        self.pipeline.session.add_listener(Arc::new(move |event: &millstream_engine::QueryEvent| {
            let millstream_engine::QueryEvent::Progress(progress) = event else { return };
            let (Some(run), Some(index)) = (run.upgrade(), progress.name.as_ref().and_then(|name| names.get(name))) else { return };
            run.totals.add(*index, progress);
            run.committed(*index);
            run.tell(PipelineEvent::Progress { flow: progress.name.clone().unwrap_or_default(), progress: progress.clone() });
        }));
    }

    /// What there is to do for a flow, or why its table cannot be written.
    fn kind(&self, index: usize) -> Result<FlowKind, Arc<Error>> {
        let flow = self.pipeline.flow(index)?;
        match self.unprepared.get(&flow.target) {
            Some(error) => Err(error.clone()),
            None => Ok(self.pipeline.kind(index)?),
        }
    }

    fn committed(&self, flow: usize) {
        self.commits.send_modify(|commits| {
            if let Some(count) = commits.get_mut(flow) {
                *count += 1;
            }
        });
    }

    fn tell(&self, event: PipelineEvent) {
        // Whoever listens may be slow or gone; neither is a reason to hold up the data.
        drop(self.events.try_send(event));
    }

    fn summary(&self, index: usize, status: FlowStatus, started_ns: u64, error: Option<Arc<Error>>) -> FlowSummary {
        let (name, table, kind) = match self.pipeline.flow(index) {
            Ok(flow) => {
                let dataset = self.pipeline.dataset(flow.target).ok();
                let kind = match dataset.map(|dataset| dataset.kind) {
                    Some(DatasetKind::MaterializedView) => FlowKind::MaterializedView,
                    _ if flow.once => FlowKind::Once,
                    _ => FlowKind::Streaming,
                };
                (flow.name.to_string(), dataset.map(|dataset| dataset.name.clone()).unwrap_or_else(|| TableName::new("")), kind)
            }
            Err(_) => (String::new(), TableName::new(""), FlowKind::Streaming),
        };
        let summary = FlowSummary {
            name,
            table: table.to_string(),
            kind,
            status,
            elapsed: self.pipeline.since(started_ns),
            error,
            counts: self.totals.of(index),
        };
        self.tell(PipelineEvent::Finished(Box::new(summary.clone())));
        summary
    }
}

#[cfg(test)]
mod tests;
