//! Runs of a graph: its tables are made, then its flows run, each after everything that it reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use millstream_core::{Error, ErrorKind, Result};
use spark_connect_proto::execute_plan_response::ResponseType;
use spark_connect_proto::{PipelineEvent, PipelineEventResult};

use super::cdc;
use super::checkpoints::{Checkpoints, Refreshes};
use super::event::{FlowStatus, again, with_error};
use super::flow;
use super::graph::{FlowQuery, Graph, OutputKind};
use super::resolve::Resolver;
use super::tables::{self, RowsThere, Wanted, record_view};
use super::validate::{self, Selection, Unresolved};
use crate::connect::execute::Answers;
use crate::connect::session::ConnectSession;

/// Flows that run at once (`spark.sql.pipelines.execution.maxConcurrentFlows`).
const MOST_FLOWS: i64 = 16;

/// How often a flow that failed is tried again (`spark.sql.pipelines.maxFlowRetryAttempts`).
const RETRIES: i64 = 2;

/// The pause before the first retry (`spark.sql.pipelines.execution.watchdog.minRetryTime`); each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(5);

/// The longest pause (`spark.sql.pipelines.execution.watchdog.maxRetryTime`).
const LONGEST_PAUSE: Duration = Duration::from_secs(60 * 60);

/// What a client asks of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Request {
    pub(super) refresh: Vec<String>,
    pub(super) full_refresh: Vec<String>,
    pub(super) full_refresh_all: bool,
    /// Whether the graph is only checked.
    pub(super) dry: bool,
    pub(super) storage: String,
}

/// Runs a graph and tells the client how it goes.
///
/// # Errors
/// What is wrong with the graph; the error of the first flow that failed.
pub(super) async fn run(answers: &Answers, graph: Graph, request: Request) -> Result<()> {
    let events = Events(answers);
    let checkpoints = Checkpoints::open(answers.session.host.as_ref(), &request.storage)?;
    validate::definitions(&graph)?;
    let selection = Selection::of(&graph, &request.refresh, &request.full_refresh, request.full_refresh_all)?;
    let resolver = Resolver::new(answers.session.clone(), graph);
    if let Some(unresolved) = Unresolved::of(&resolver).await? {
        for (name, failure) in &unresolved.broken {
            events.tell(with_error(&format!("Failed to resolve flow: '{name}'."), &failure.error)).await;
        }
        return Err(unresolved.error());
    }
    validate::resolved(&resolver).await?;
    if !request.dry {
        let run = Run { resolver, checkpoints, events: &events, selection };
        let numbers = run.make_tables().await?;
        run.flows(&numbers).await?;
    }
    events.tell("Run is COMPLETED.".to_owned()).await;
    Ok(())
}

/// Tells a client what happens.
struct Events<'a>(&'a Answers);

impl Events<'_> {
    async fn tell(&self, message: String) {
        let now_ms = self.0.session.host.clock().now_ms();
        let nanos = i32::try_from(now_ms.rem_euclid(1_000) * 1_000_000).unwrap_or(0);
        let timestamp = prost_types::Timestamp { seconds: now_ms.div_euclid(1_000), nanos };
        let event = PipelineEvent { timestamp: Some(timestamp), message: Some(message) };
        self.0.send(ResponseType::PipelineEventResult(PipelineEventResult { event: Some(event) })).await;
    }
}

struct Run<'a> {
    resolver: Arc<Resolver>,
    checkpoints: Checkpoints,
    events: &'a Events<'a>,
    selection: Selection,
}

impl Run<'_> {
    /// Makes the tables of the flows that run, and empties those that begin anew. Gives how often each output was refreshed.
    async fn make_tables(&self) -> Result<BTreeMap<usize, u64>> {
        let session = self.resolver.client();
        let mut refreshes: BTreeMap<usize, Refreshes> = BTreeMap::new();
        for index in &self.selection.outputs {
            let known = self.checkpoints.refreshes(&self.name(*index)).await?;
            let number = known.number + u64::from(self.selection.refreshed.contains(index));
            let is_open = known.is_open || self.selection.refreshed.contains(index);
            refreshes.insert(*index, Refreshes { number, is_open });
        }
        let mut plans = Vec::new();
        for (index, refreshed) in &refreshes {
            for wanted in self.wanted(*index, refreshed.is_open).await? {
                plans.push(tables::plan(session, wanted).await?);
            }
        }
        for (index, refreshed) in refreshes.iter().filter(|(_, refreshed)| refreshed.is_open) {
            self.checkpoints.set_refreshes(&self.name(*index), *refreshed).await?;
        }
        for plan in plans {
            plan.apply(session).await?;
        }
        for (index, refreshed) in refreshes.iter().filter(|(_, refreshed)| refreshed.is_open) {
            self.checkpoints.set_refreshes(&self.name(*index), Refreshes { is_open: false, ..*refreshed }).await?;
        }
        self.make_views().await?;
        Ok(refreshes.into_iter().map(|(index, refreshed)| (index, refreshed.number)).collect())
    }

    async fn make_views(&self) -> Result<()> {
        for output in &self.resolver.graph.outputs {
            if let (OutputKind::PersistedView { text, properties }, Some(name)) = (&output.kind, output.name.table()) {
                record_view(self.resolver.client(), &name, text, output.comment.as_ref(), properties).await?;
            }
        }
        Ok(())
    }

    fn name(&self, output: usize) -> String {
        self.resolver.graph.outputs.get(output).map(|output| output.name.to_string()).unwrap_or_default()
    }

    /// The tables that an output needs: its own, and that beside it of an AUTO CDC flow.
    async fn wanted(&self, index: usize, refreshed: bool) -> Result<Vec<Wanted>> {
        let graph = &self.resolver.graph;
        let Some(output) = graph.outputs.get(index) else { return Ok(Vec::new()) };
        let (Some(details), Some(name)) = (output.table(), output.name.table()) else { return Ok(Vec::new()) };
        let rows = if refreshed || !output.is_streaming_table() { RowsThere::Go } else { RowsThere::Stay };
        let mut wanted = vec![Wanted {
            name: name.clone(),
            schema: self.resolver.columns(index).await?.as_ref().clone(),
            format: details.format.as_deref().filter(|format| !format.is_empty()).map(str::to_lowercase),
            partition_by: details.partition_by.clone(),
            cluster_by: details.cluster_by.clone(),
            properties: details.properties.clone(),
            comment: output.comment.clone(),
            rows,
        }];
        for flow_index in graph.flows_into(index) {
            if let FlowQuery::AutoCdc(cdc) = &self.resolver.flow(flow_index)?.query {
                let changes = self.resolver.resolve(flow_index).await.map_err(|failure| again(&failure.error))?;
                let (_, side) = cdc::side_table(&name, cdc, &changes.schema)?;
                wanted.push(Wanted {
                    name: side.name,
                    schema: side.schema,
                    format: Some(tables::DEFAULT_FORMAT.to_owned()),
                    partition_by: Vec::new(),
                    cluster_by: Vec::new(),
                    properties: side.properties,
                    comment: None,
                    rows: if refreshed { RowsThere::Go } else { RowsThere::Untouched },
                });
            }
        }
        Ok(wanted)
    }

    /// Runs the flows, as many at once as may.
    async fn flows(&self, refreshes: &BTreeMap<usize, u64>) -> Result<()> {
        let graph = &self.resolver.graph;
        let mut waiting: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (index, flow) in graph.flows.iter().enumerate() {
            let Some(target) = graph.target(flow) else { continue };
            if graph.outputs.get(target).is_none_or(|output| output.is_view()) {
                continue;
            }
            if !self.selection.outputs.contains(&target) {
                self.tell(index, FlowStatus::Excluded).await;
                continue;
            }
            waiting.insert(index, BTreeSet::new());
        }
        let chosen: BTreeSet<usize> = waiting.keys().copied().collect();
        for (index, upstream) in &mut waiting {
            self.tell(*index, FlowStatus::Queued).await;
            let resolved = self.resolver.resolve(*index).await.map_err(|failure| again(&failure.error))?;
            upstream.extend(
                resolved.inputs.iter().flat_map(|input| graph.flows_into(*input)).filter(|flow| chosen.contains(flow) && flow != index),
            );
        }
        let confs = &self.resolver.client().confs;
        let most = confs.integer("spark.sql.pipelines.execution.maxConcurrentFlows").unwrap_or(MOST_FLOWS).max(1);
        let most = usize::try_from(most).unwrap_or(1);
        let mut running = FuturesUnordered::new();
        let mut failure: Option<Error> = None;
        loop {
            while running.len() < most {
                let Some(next) = waiting.iter().find(|(_, upstream)| upstream.is_empty()).map(|(index, _)| *index) else { break };
                waiting.remove(&next);
                running.push(async move { (next, self.flow(next, refreshes).await) });
            }
            match running.next().await {
                None => break,
                // Flows behind one that failed stay in the queue.
                Some((_, Err(error))) => {
                    failure.get_or_insert(error);
                }
                Some((done, Ok(()))) => {
                    for upstream in waiting.values_mut() {
                        upstream.remove(&done);
                    }
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    async fn tell(&self, index: usize, status: FlowStatus) {
        if let Ok(flow) = self.resolver.flow(index) {
            self.events.tell(format!("Flow '{}' {status}.", flow.name)).await;
        }
    }

    /// Runs one flow, and again where that may help.
    async fn flow(&self, index: usize, refreshes: &BTreeMap<usize, u64>) -> Result<()> {
        let flow = self.resolver.flow(index)?;
        let target = self.resolver.graph.target(flow).unwrap_or_default();
        let number = refreshes.get(&target).copied().unwrap_or(0);
        let checkpoint = self.checkpoints.of_flow(&self.name(target), flow.name.last(), number);
        let retry = Retry::of(self.resolver.session_of(index)?.as_ref());
        let mut attempt = 0;
        loop {
            let Err(error) = self.attempt(index, target, &checkpoint).await else {
                self.tell(index, FlowStatus::Completed).await;
                return Ok(());
            };
            let message = format!("Flow '{}' {}.", flow.name, FlowStatus::Failed);
            match retry.pause(attempt, &error) {
                None => {
                    self.events.tell(with_error(&message, &error)).await;
                    return Err(error);
                }
                Some(pause) => {
                    let again = format!("{message} It is tried again in {} seconds.", pause.as_secs_f64());
                    self.events.tell(with_error(&again, &error)).await;
                    self.resolver.client().host.clock().sleep(pause).await;
                    attempt += 1;
                }
            }
        }
    }

    async fn attempt(&self, index: usize, target: usize, checkpoint: &str) -> Result<()> {
        self.tell(index, FlowStatus::Planning).await;
        let flow = flow::prepare(&self.resolver, index, target, checkpoint).await?;
        self.tell(index, FlowStatus::Starting).await;
        let running = flow.start().await?;
        self.tell(index, FlowStatus::Running).await;
        running.finish().await
    }
}

/// When a flow that failed is tried again.
#[derive(Clone, Copy, Debug)]
struct Retry {
    most: i64,
    first: Duration,
    longest: Duration,
}

impl Retry {
    fn of(session: &ConnectSession) -> Self {
        let pause = |name: &str| session.confs.duration(&format!("spark.sql.pipelines.execution.watchdog.{name}"));
        Retry {
            most: session.confs.integer("spark.sql.pipelines.maxFlowRetryAttempts").unwrap_or(RETRIES),
            first: pause("minRetryTime").unwrap_or(FIRST_PAUSE),
            longest: pause("maxRetryTime").unwrap_or(LONGEST_PAUSE),
        }
    }

    /// The pause before the next attempt after this many retries; `None` when there is none.
    fn pause(&self, retries: i64, error: &Error) -> Option<Duration> {
        // What is wrong with the program is as wrong the next time.
        let hopeless = matches!(error.kind(), ErrorKind::Invalid | ErrorKind::SchemaMismatch | ErrorKind::Cancelled);
        if hopeless || retries >= self.most {
            return None;
        }
        let factor = u32::try_from(retries).ok().and_then(|retries| 2_u32.checked_pow(retries)).unwrap_or(u32::MAX);
        Some(self.first.saturating_mul(factor).min(self.longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_hopeless_flows_get_none() {
        let retry = Retry { most: 3, first: Duration::from_secs(5), longest: Duration::from_secs(12) };
        let error = Error::new(ErrorKind::BadRecord, "DIVIDE_BY_ZERO", "");
        let pauses: Vec<Option<u64>> = (0..4).map(|retries| retry.pause(retries, &error).map(|pause| pause.as_secs())).collect();
        assert_eq!(pauses, [Some(5), Some(10), Some(12), None]);
        assert_eq!(retry.pause(0, &Error::invalid("UNRESOLVED_COLUMN", "")), None);
    }
}
