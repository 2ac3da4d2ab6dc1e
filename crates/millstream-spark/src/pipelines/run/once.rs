//! A run that brings everything up to date and ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_core::{Error, ErrorKind, Result, Trigger};
use tokio::task::JoinSet;

use super::event::{FlowKind, FlowStatus, FlowSummary, PipelineEvent};
use super::{Pipeline, Run};
use crate::pipelines::parser::DatasetKind;

/// Runs every flow once, each as soon as what it reads has ended, and as many at once as the options allow. A flow behind one that
/// failed is skipped; the others go on.
pub(super) async fn run(run: &Arc<Run>) -> Vec<FlowSummary> {
    let count = run.pipeline.graph.flows.len();
    let mut summaries: BTreeMap<usize, FlowSummary> = BTreeMap::new();
    let mut running: JoinSet<FlowSummary> = JoinSet::new();
    let mut indices: BTreeMap<tokio::task::Id, usize> = BTreeMap::new();
    let mut waiting: Vec<usize> = (0..count).collect();
    loop {
        let mut blocked = Vec::new();
        for index in waiting {
            let upstream: Vec<usize> = run.pipeline.graph.flows.get(index).map(|flow| flow.upstream.clone()).unwrap_or_default();
            let unfinished = upstream.iter().any(|index| !summaries.contains_key(index));
            let failed = upstream.iter().any(|index| summaries.get(index).is_some_and(|summary| !went_well(summary.status)));
            let now = run.pipeline.session.registry().clock.monotonic_ns();
            if failed && !unfinished {
                let status = if run.stop.is_cancelled() { FlowStatus::Stopped } else { FlowStatus::Skipped };
                summaries.insert(index, run.summary(index, status, now, None));
            } else if !unfinished && run.stop.is_cancelled() {
                summaries.insert(index, run.summary(index, FlowStatus::Stopped, now, None));
            } else if unfinished || running.len() >= run.options.parallelism.max(1) {
                blocked.push(index);
            } else {
                let task = run.clone();
                let handle = running.spawn(async move { flow(&task, index).await });
                indices.insert(handle.id(), index);
            }
        }
        waiting = blocked;
        let Some(ended) = running.join_next_with_id().await else {
            if waiting.is_empty() {
                break;
            }
            // Whatever waits now was unblocked by flows that ended without running.
            continue;
        };
        let (index, summary) = match ended {
            Ok((id, summary)) => (indices.remove(&id), Some(summary)),
            Err(error) => (indices.remove(&error.id()), None),
        };
        let Some(index) = index else { continue };
        let summary = summary.unwrap_or_else(|| {
            let error = Error::internal("a flow panicked: please report this");
            run.summary(index, FlowStatus::Failed, run.pipeline.session.registry().clock.monotonic_ns(), Some(Arc::new(error)))
        });
        summaries.insert(index, summary);
    }
    summaries.into_values().collect()
}

fn went_well(status: FlowStatus) -> bool {
    matches!(status, FlowStatus::Completed | FlowStatus::Unchanged)
}

/// Runs one flow, again after failures that may pass.
async fn flow(run: &Run, index: usize) -> FlowSummary {
    let clock = run.pipeline.session.registry().clock.clone();
    let started = clock.monotonic_ns();
    let name = run.pipeline.graph.flows.get(index).map(|flow| flow.name.to_string()).unwrap_or_default();
    run.tell(PipelineEvent::Started { flow: name.clone() });
    let mut pause = run.options.retry_pause;
    for attempt in 0.. {
        let error = match attempt_flow(run, index).await {
            Ok(status) => return run.summary(index, status, started, None),
            Err(error) => error,
        };
        if run.stop.is_cancelled() && error.kind() == ErrorKind::Cancelled {
            return run.summary(index, FlowStatus::Stopped, started, None);
        }
        if attempt >= run.options.retries || !error.kind().is_transient() {
            return run.summary(index, FlowStatus::Failed, started, Some(error));
        }
        run.tell(PipelineEvent::Retrying { flow: name.clone(), error, pause });
        tokio::select! {
            () = clock.sleep(pause) => {}
            () = run.stop.cancelled() => return run.summary(index, FlowStatus::Stopped, started, None),
        }
        pause *= 2;
    }
    run.summary(index, FlowStatus::Stopped, started, None)
}

async fn attempt_flow(run: &Run, index: usize) -> Result<FlowStatus, Arc<Error>> {
    let pipeline = &run.pipeline;
    match run.kind(index)? {
        FlowKind::Streaming => {
            let query = pipeline.start(pipeline.flow(index)?, Trigger::AvailableNow, &run.options).await?;
            tokio::select! {
                ended = query.await_termination() => ended.map(|()| FlowStatus::Completed),
                () = run.stop.cancelled() => {
                    query.stop().await;
                    Ok(FlowStatus::Stopped)
                }
            }
        }
        kind => {
            let flow = pipeline.flow(index)?;
            let work = async {
                match kind {
                    FlowKind::Once => pipeline.append_once(flow).await,
                    _ => pipeline.refresh(flow).await,
                }
            };
            let written = tokio::select! {
                written = work => written?,
                () = run.stop.cancelled() => return Ok(FlowStatus::Stopped),
            };
            Ok(match written {
                Some(written) => {
                    run.totals.add_batch(index, &written);
                    FlowStatus::Completed
                }
                None => FlowStatus::Unchanged,
            })
        }
    }
}

impl Pipeline {
    /// What kind of work a flow is.
    pub(super) fn kind(&self, index: usize) -> Result<FlowKind> {
        let flow = self.flow(index)?;
        Ok(match self.dataset(flow.target)?.kind {
            DatasetKind::MaterializedView => FlowKind::MaterializedView,
            _ if flow.once => FlowKind::Once,
            _ => FlowKind::Streaming,
        })
    }
}
