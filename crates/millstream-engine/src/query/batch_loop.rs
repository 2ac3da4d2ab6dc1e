//! The loop that drives a query: look at the sources, write down what a batch will read, run it, commit it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::{SessionState, TaskContext};
use futures::future::{self, select_all};
use millstream_checkpoint::{Checkpoint, CheckpointOptions};
use millstream_core::offset::Offset;
use millstream_core::recovery::{self, CommitRecord, OffsetRecord, Resume};
use millstream_core::{Clock, Error, ErrorKind, Ids, ReadLimit, Result, Trigger, crash};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::batch::{BatchPlan, BatchRun, durable};
use super::report::{Timer, TriggerFacts, report};
use super::{Lifecycle, QueryEvent, QueryListener, QueryRequest, QueryStatus, RECENT_PROGRESS, Shared, StreamingQuery};
use crate::plan::{Preparation, prepare};
use crate::runner::BatchRunner;

/// How often an idle query says so (Spark's `noDataProgressEventInterval`).
const IDLE_EVENT_MS: i64 = 10_000;

/// What starting a query needs from its session.
pub(crate) struct Launch {
    pub(crate) request: QueryRequest,
    pub(crate) state: SessionState,
    pub(crate) context: Arc<TaskContext>,
    pub(crate) runner: Arc<dyn BatchRunner>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) listeners: Vec<Arc<dyn QueryListener>>,
    pub(crate) checkpoint: CheckpointOptions,
}

/// Opens the checkpoint, builds the plan once, and starts the loop.
///
/// # Errors
/// Those of the checkpoint, the sources, the planner and the sink; nothing of the query runs then.
pub(crate) async fn launch(launch: Launch) -> Result<StreamingQuery> {
    let Launch { request, state, context, runner, clock, ids, listeners, checkpoint } = launch;
    let location = &request.checkpoint;
    let checkpoint = Arc::new(Checkpoint::open(location.store.clone(), location.root.clone(), location.url.clone(), checkpoint).await?);
    let opened = open(&request, &state, &clock, &checkpoint).await;
    let (plan, resume) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            // The lock must not outlive a failed start; the reason for the failure is what the user needs to see.
            drop(checkpoint.close().await);
            return Err(error);
        }
    };
    let query_id = checkpoint.query_id();
    let shared = Arc::new(Shared {
        id: query_id,
        run_id: ids.next(),
        name: request.name.clone(),
        explain: plan.explain(),
        checkpoint: checkpoint.url().clone(),
        status: Mutex::new(QueryStatus { message: "Initializing sources".to_owned(), is_data_available: false, is_trigger_active: false }),
        recent: Mutex::default(),
        live: super::batch::Live::default(),
        lifecycle: watch::Sender::new(Lifecycle::Running),
        caught_up: watch::Sender::new(0),
        poke: Notify::new(),
        stop: CancellationToken::new(),
    });
    let run = BatchRun {
        plan,
        runner,
        context,
        sink: request.sink,
        quarantine: request.quarantine,
        mode: request.mode,
        query_id,
        clock: clock.clone(),
    };
    let query = BatchLoop {
        shared: shared.clone(),
        run,
        checkpoint,
        clock,
        listeners,
        trigger: request.trigger,
        conf: BTreeMap::new(),
        start: Vec::new(),
        next_batch: 0,
        watermark_ms: 0,
        pending_commit: None,
        previous_trigger_ms: None,
        last_event_ms: 0,
    };
    tokio::spawn(query.drive(resume));
    Ok(StreamingQuery(shared))
}

async fn open(
    request: &QueryRequest,
    state: &SessionState,
    clock: &Arc<dyn Clock>,
    checkpoint: &Arc<Checkpoint>,
) -> Result<(crate::plan::PreparedPlan, Resume)> {
    let resume = recovery::resume(&checkpoint.tail().await?)?;
    if resume != Resume::Fresh && !request.sink.resumes(request.mode) {
        return Err(Error::new(
            ErrorKind::CheckpointIncompatible,
            "RECOVERY_NOT_SUPPORTED",
            format!(
                "This query does not support recovering from checkpoint location. {} in output mode '{}' lost its rows with the process \
                 that wrote them: delete {} to start over.",
                request.sink.description(),
                request.mode,
                checkpoint.url()
            ),
        ));
    }
    let preparation =
        Preparation { state, clock: clock.clone(), expectations: &request.expectations, log: &|name| checkpoint.source_log(name) };
    let plan = prepare(request.plan.clone(), preparation).await?;
    let planned = match &resume {
        Resume::Fresh => None,
        Resume::Rerun { record, .. } => Some(record),
        Resume::Next { previous, .. } => Some(previous),
    };
    if let Some(record) = planned {
        recovery::check_sources(record, plan.sources.len())?;
    }
    for (index, bound) in plan.sources.iter().enumerate() {
        bound.source.restore(planned.and_then(|record| record.offsets.get(index)).and_then(Option::as_ref)).await?;
    }
    request.sink.prepare(&plan.schema, request.mode).await?;
    Ok((plan, resume))
}

/// The state of a running query between batches.
struct BatchLoop {
    shared: Arc<Shared>,
    run: BatchRun,
    checkpoint: Arc<Checkpoint>,
    clock: Arc<dyn Clock>,
    listeners: Vec<Arc<dyn QueryListener>>,
    trigger: Trigger,
    /// Options pinned in the checkpoint.
    conf: BTreeMap<String, String>,
    /// Where the next batch starts, per source.
    start: Vec<Option<Offset>>,
    next_batch: u64,
    watermark_ms: i64,
    /// The commit of the last batch, which may become durable while the next one computes.
    pending_commit: Option<JoinHandle<Result<()>>>,
    previous_trigger_ms: Option<i64>,
    last_event_ms: i64,
}

impl BatchLoop {
    async fn drive(mut self, resume: Resume) {
        let (id, run_id) = (self.shared.id, self.shared.run_id);
        self.last_event_ms = self.clock.now_ms();
        self.tell(&QueryEvent::Started { id, run_id, name: self.shared.name.clone(), timestamp_ms: self.last_event_ms });
        let mut outcome = self.run_all(resume).await;
        if let Err(error) = self.settle().await
            && outcome.is_ok()
        {
            outcome = Err(error);
        }
        for bound in &self.run.plan.sources {
            bound.source.stop().await;
        }
        self.run.sink.stop().await;
        if let Some(quarantine) = &self.run.quarantine {
            quarantine.stop().await;
        }
        if let Err(error) = self.checkpoint.close().await {
            tracing::warn!(%error, "the checkpoint was not closed cleanly");
        }
        let stopped = self.shared.stop.is_cancelled();
        let error = match outcome {
            Err(error) if !(stopped && error.kind() == ErrorKind::Cancelled) => {
                let name = self.shared.name.as_deref().unwrap_or("unnamed");
                tracing::error!(query = name, code = error.code(), "{error}");
                Some(Arc::new(error))
            }
            _ => None,
        };
        self.shared.say(if error.is_some() { "Terminated with exception" } else { "Stopped" }, false, false);
        self.tell(&QueryEvent::Terminated { id, run_id, error: error.clone() });
        self.shared.lifecycle.send_replace(Lifecycle::Ended(error));
    }

    async fn run_all(&mut self, resume: Resume) -> Result<()> {
        match resume {
            Resume::Fresh => self.start = vec![None; self.run.plan.sources.len()],
            Resume::Next { batch_id, start, watermark_ms, previous, .. } => {
                self.next_batch = batch_id;
                self.start = start;
                self.watermark_ms = watermark_ms;
                self.conf = previous.conf;
            }
            Resume::Rerun { batch_id, record, start, .. } => {
                self.next_batch = batch_id;
                self.start = start;
                self.watermark_ms = record.watermark_ms;
                self.conf = record.conf.clone();
                tracing::info!(batch = batch_id, "a batch was planned and not committed: it runs again as recorded");
                let timer = self.timer();
                let started_ms = self.clock.now_ms();
                self.batch(record, timer, started_ms).await?;
                if self.trigger == Trigger::Once {
                    return Ok(());
                }
            }
        }
        let single = match self.trigger {
            Trigger::Once => true,
            Trigger::AvailableNow => {
                let all = self.run.plan.sources.iter().all(|bound| bound.source.supports_available_now());
                if all {
                    for bound in &self.run.plan.sources {
                        bound.source.prepare_available_now().await?;
                    }
                }
                !all
            }
            _ => false,
        };
        while !self.shared.stop.is_cancelled() {
            let started_ms = self.clock.now_ms();
            let ran = self.trigger_once(started_ms, single).await?;
            self.previous_trigger_ms = Some(started_ms);
            if single || (!ran && self.trigger.is_finite()) {
                return Ok(());
            }
            self.pause(started_ms, ran).await;
        }
        Ok(())
    }

    /// Looks at the sources and runs a batch if there is something new. Returns whether it did.
    async fn trigger_once(&mut self, started_ms: i64, unlimited: bool) -> Result<bool> {
        let mut timer = self.timer();
        let mut end = Vec::with_capacity(self.start.len());
        for (index, bound) in self.run.plan.sources.iter().enumerate() {
            self.shared.say(&format!("Getting offsets from {}", bound.source.description()), false, true);
            let start = self.start.get(index).and_then(Option::as_ref);
            let limit = if unlimited { ReadLimit::AllAvailable } else { bound.source.read_limit() };
            let latest = tokio::select! {
                biased;
                () = self.shared.stop.cancelled() => return Err(Error::cancelled()),
                latest = bound.source.latest_offset(start, &limit) => latest?,
            };
            end.push(latest.or_else(|| start.cloned()));
        }
        timer.lap("latestOffset");
        if end == self.start {
            self.settle().await?;
            self.shared.say("Waiting for data to arrive", false, false);
            self.shared.caught_up.send_modify(|looks| *looks += 1);
            return Ok(false);
        }
        let record = OffsetRecord {
            watermark_ms: self.watermark_ms,
            timestamp_ms: self.clock.now_ms(),
            conf: self.conf.clone(),
            offsets: end,
            extra: BTreeMap::new(),
        };
        self.batch(record, timer, started_ms).await?;
        Ok(true)
    }

    /// Runs the batch that `record` describes, from planning to the hand-over of its commit record.
    async fn batch(&mut self, record: OffsetRecord, mut timer: Timer, started_ms: i64) -> Result<()> {
        let id = self.next_batch;
        self.shared.say("Processing new data", true, true);
        let mut planned = self.write_offsets(id, record.clone());
        timer.lap("walCommit");
        let batch = BatchPlan { id, timestamp_ms: record.timestamp_ms, start: self.start.clone(), end: record.offsets };
        let ran = self.run.run(&batch, &mut planned, &self.shared.live, &self.shared.stop, &mut timer).await;
        let outcome = match ran {
            Ok(outcome) => outcome,
            Err(error) => {
                // No write of this run may be under way when the query has ended.
                if !planned.is_finished() {
                    drop(durable(&mut planned).await);
                }
                return Err(error);
            }
        };
        self.pending_commit = Some(self.write_commit(id, batch.end.clone()));
        timer.lap("commitOffsets");
        let facts = TriggerFacts {
            run_id: self.shared.run_id,
            name: self.shared.name.as_deref(),
            batch_id: id,
            started_ms,
            previous_started_ms: self.previous_trigger_ms,
            start: &batch.start,
            end: &batch.end,
        };
        let progress = Arc::new(report(&self.run, &facts, &outcome, &timer));
        {
            let mut recent = self.shared.recent.lock();
            if recent.len() == RECENT_PROGRESS {
                recent.pop_front();
            }
            recent.push_back(progress.clone());
        }
        self.last_event_ms = self.clock.now_ms();
        self.tell(&QueryEvent::Progress(progress));
        self.start = batch.end;
        self.next_batch = id + 1;
        self.shared.say("Waiting for next trigger", true, false);
        Ok(())
    }

    /// Makes `offsets/N` durable in the background, after the commit of the batch before.
    fn write_offsets(&mut self, id: u64, record: OffsetRecord) -> JoinHandle<Result<()>> {
        let checkpoint = self.checkpoint.clone();
        let before = self.pending_commit.take();
        tokio::spawn(async move {
            if let Some(mut before) = before {
                durable(&mut before).await?;
            }
            checkpoint.write_offsets(id, &record).await
        })
    }

    /// Makes `commits/N` durable in the background, and lets the sources follow.
    fn write_commit(&self, id: u64, end: Vec<Option<Offset>>) -> JoinHandle<Result<()>> {
        let checkpoint = self.checkpoint.clone();
        let sources: Vec<_> = self.run.plan.sources.iter().map(|bound| bound.source.clone()).collect();
        let record = CommitRecord { next_watermark_ms: self.watermark_ms, extra: BTreeMap::new() };
        tokio::spawn(async move {
            checkpoint.write_commit(id, &record).await?;
            crash::point("source.commit.before");
            for (source, end) in sources.iter().zip(&end) {
                if let Some(end) = end {
                    source.commit(end).await?;
                }
            }
            crash::point("source.commit.after");
            checkpoint.purge(id).await
        })
    }

    /// Waits for the last commit record.
    async fn settle(&mut self) -> Result<()> {
        match self.pending_commit.take() {
            Some(mut commit) => durable(&mut commit).await,
            None => Ok(()),
        }
    }

    /// Waits for the next trigger: new data, the interval, a poke, or the end.
    async fn pause(&mut self, started_ms: i64, ran: bool) {
        if self.trigger.is_finite() {
            return;
        }
        if let Trigger::ProcessingTime(interval) = self.trigger
            && !interval.is_zero()
        {
            let delay = Duration::from_millis(self.trigger.delay_ms(Some(started_ms), self.clock.now_ms()));
            self.shared.say("Waiting for next trigger", ran, false);
            tokio::select! {
                () = self.shared.stop.cancelled() => {}
                () = self.shared.poke.notified() => {}
                () = self.clock.sleep(delay) => {}
            }
            return self.idle(ran);
        }
        if ran {
            return;
        }
        let changed: Vec<_> = self.run.plan.sources.iter().map(|bound| bound.source.changed()).collect();
        let changed = async { if changed.is_empty() { future::pending().await } else { drop(select_all(changed).await) } };
        let until_idle = (self.last_event_ms + IDLE_EVENT_MS).saturating_sub(self.clock.now_ms());
        tokio::select! {
            () = self.shared.stop.cancelled() => {}
            () = self.shared.poke.notified() => {}
            () = changed => {}
            () = self.clock.sleep(Duration::from_millis(u64::try_from(until_idle).unwrap_or(0))) => self.idle(false),
        }
    }

    /// Says that the query is idle, if it has been for a while.
    fn idle(&mut self, ran: bool) {
        let now = self.clock.now_ms();
        if !ran && now.saturating_sub(self.last_event_ms) >= IDLE_EVENT_MS {
            self.last_event_ms = now;
            self.tell(&QueryEvent::Idle { id: self.shared.id, run_id: self.shared.run_id, timestamp_ms: now });
        }
    }

    fn timer(&self) -> Timer {
        let clock = self.clock.clone();
        Timer::start(move || clock.monotonic_ns())
    }

    fn tell(&self, event: &QueryEvent) {
        for listener in &self.listeners {
            listener.on_event(event);
        }
    }
}
