//! A run that goes on until it is stopped.

use std::sync::Arc;

use millstream_core::{Error, ErrorKind, Trigger};
use tokio::task::JoinSet;

use super::Run;
use super::event::{FlowKind, FlowStatus, FlowSummary, PipelineEvent};

/// Runs every streaming flow at once, and computes a materialized view whenever something may have changed, but not more often than the
/// options say. One flow that fails does not stop the others.
pub(super) async fn run(run: &Arc<Run>) -> Vec<FlowSummary> {
    let mut running: JoinSet<(usize, FlowSummary)> = JoinSet::new();
    for index in 0..run.pipeline.graph.flows.len() {
        let run = run.clone();
        running.spawn(async move {
            let started = run.pipeline.session.registry().clock.monotonic_ns();
            let name = run.pipeline.graph.flows.get(index).map(|flow| flow.name.to_string()).unwrap_or_default();
            run.tell(PipelineEvent::Started { flow: name.clone() });
            let summary = match keep_running(&run, index, &name).await {
                Ok(status) => run.summary(index, status, started, None),
                Err(error) => run.summary(index, FlowStatus::Failed, started, Some(error)),
            };
            (index, summary)
        });
    }
    let mut summaries = Vec::new();
    while let Some(ended) = running.join_next().await {
        // A task that panicked has no summary; the panic itself was logged where it happened.
        summaries.extend(ended.ok());
    }
    summaries.sort_by_key(|(index, _)| *index);
    summaries.into_iter().map(|(_, summary)| summary).collect()
}

async fn keep_running(run: &Run, index: usize, name: &str) -> Result<FlowStatus, Arc<Error>> {
    let clock = run.pipeline.session.registry().clock.clone();
    let (mut attempts, mut pause) = (0, run.options.retry_pause);
    loop {
        let begun = clock.monotonic_ns();
        let error = match one_life(run, index, name).await {
            Ok(status) => return Ok(status),
            Err(error) => error,
        };
        if run.stop.is_cancelled() && error.kind() == ErrorKind::Cancelled {
            return Ok(FlowStatus::Stopped);
        }
        // Having run well for a while makes up for earlier failures.
        if run.pipeline.since(begun) > pause * 10 {
            (attempts, pause) = (0, run.options.retry_pause);
        }
        if attempts >= run.options.retries || !error.kind().is_transient() {
            return Err(error);
        }
        attempts += 1;
        run.tell(PipelineEvent::Retrying { flow: name.to_owned(), error, pause });
        tokio::select! {
            () = clock.sleep(pause) => {}
            () = run.stop.cancelled() => return Ok(FlowStatus::Stopped),
        }
        pause *= 2;
    }
}

async fn one_life(run: &Run, index: usize, name: &str) -> Result<FlowStatus, Arc<Error>> {
    let pipeline = &run.pipeline;
    match run.kind(index)? {
        FlowKind::Streaming => {
            let query = pipeline.start(pipeline.flow(index)?, Trigger::Default, &run.options).await?;
            tokio::select! {
                ended = query.await_termination() => ended.map(|()| FlowStatus::Stopped),
                () = run.stop.cancelled() => {
                    query.stop().await;
                    Ok(FlowStatus::Stopped)
                }
            }
        }
        FlowKind::Once => {
            let written = tokio::select! {
                written = pipeline.append_once(pipeline.flow(index)?) => written?,
                () = run.stop.cancelled() => return Ok(FlowStatus::Stopped),
            };
            run.committed(index);
            Ok(match written {
                Some(written) => {
                    run.totals.add_batch(index, &written);
                    FlowStatus::Completed
                }
                None => FlowStatus::Unchanged,
            })
        }
        FlowKind::MaterializedView => keep_fresh(run, index, name).await,
    }
}

/// Computes a materialized view again after every commit to what it reads, until the run is stopped.
async fn keep_fresh(run: &Run, index: usize, name: &str) -> Result<FlowStatus, Arc<Error>> {
    let pipeline = &run.pipeline;
    let clock = pipeline.session.registry().clock.clone();
    let flow = pipeline.flow(index)?;
    let reads_outside = pipeline.reads_outside(flow);
    let mut commits = run.commits.subscribe();
    loop {
        let seen = read_commits(&commits.borrow_and_update(), &flow.upstream);
        let written = tokio::select! {
            written = pipeline.refresh(flow) => written?,
            () = run.stop.cancelled() => return Ok(FlowStatus::Stopped),
        };
        if let Some(written) = written {
            run.totals.add_batch(index, &written);
            run.tell(PipelineEvent::Refreshed { flow: name.to_owned(), rows: written.committed.rows });
            run.committed(index);
        }
        tokio::select! {
            () = clock.sleep(run.options.refresh_interval) => {}
            () = run.stop.cancelled() => return Ok(FlowStatus::Stopped),
        }
        let changed = commits.wait_for(|now| read_commits(now, &flow.upstream) != seen);
        tokio::select! {
            told = changed => if told.is_err() { return Ok(FlowStatus::Stopped); },
            // Nobody tells of changes that other programs make: look now and then.
            () = clock.sleep(run.options.poll_interval), if reads_outside => {}
            () = run.stop.cancelled() => return Ok(FlowStatus::Stopped),
        }
    }
}

/// The commits of some flows.
fn read_commits(commits: &[u64], flows: &[usize]) -> Vec<u64> {
    flows.iter().map(|flow| commits.get(*flow).copied().unwrap_or(0)).collect()
}
