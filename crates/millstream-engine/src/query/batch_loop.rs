//! The loop that drives a query: look at the sources, write down what a batch will read, run it, commit it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::{self, select_all};
use millstream_checkpoint::{Checkpoint, facts};
use millstream_core::offset::Offset;
use millstream_core::recovery::{CommitRecord, OffsetRecord, Resume};
use millstream_core::watermark::{Policy, Tracker, Watermarks};
use millstream_core::{Clock, Error, ReadLimit, Result, Trigger, crash};
use tokio::task::JoinHandle;

use super::batch::{BatchOutcome, BatchPlan, BatchRun, Upload, durable};
use super::event_time::EventTimeFacts;
use super::launch::FINGERPRINT;
use super::report::{Timer, TriggerFacts, report};
use super::{QueryEvent, QueryListener, Shared, SourcePosition};
use crate::stateful::StateLog;

/// The option that says how several watermarks become one.
const POLICY: &str = "spark.sql.streaming.multipleWatermarkPolicy";

/// The state of a running query between batches.
pub(super) struct BatchLoop {
    pub(super) shared: Arc<Shared>,
    pub(super) run: BatchRun,
    pub(super) checkpoint: Arc<Checkpoint>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) listeners: Vec<Arc<dyn QueryListener>>,
    pub(super) trigger: Trigger,
    /// How often the query says that it is idle.
    pub(super) idle_interval_ms: i64,
    /// Options pinned in the checkpoint.
    pub(super) conf: BTreeMap<String, String>,
    /// Where the next batch starts, per source.
    pub(super) start: Vec<Option<Offset>>,
    pub(super) next_batch: u64,
    /// Follows event time, once it is known where it stands.
    pub(super) tracker: Option<Tracker>,
    /// How long a watermark may be without rows before it no longer holds back the others, milliseconds.
    pub(super) idle_timeout_ms: Option<i64>,
    /// Whether the watermarks of nodes go on where an earlier run left them.
    pub(super) restore_watermarks: bool,
    pub(super) event_time: EventTimeFacts,
    /// How the query differs from the one that made the checkpoint, until that is told.
    pub(super) changes: Vec<String>,
    /// What the user should know about the query, until that is told.
    pub(super) advice: Vec<String>,
    /// Which files of state count. Commits take turns with it.
    pub(super) state: Arc<tokio::sync::Mutex<StateLog>>,
    /// Whether a batch without data runs when time has passed that closes something.
    pub(super) no_data_batches: bool,
    /// The commit of the last batch, which may become durable while the next one computes.
    pub(super) pending_commit: Option<JoinHandle<Result<()>>>,
    pub(super) previous_trigger_ms: Option<i64>,
    /// When the query last reported anything, a batch or that it is idle.
    pub(super) last_progress_ms: Option<i64>,
    /// Whether a batch ran in this run.
    pub(super) ran_any: bool,
}

impl BatchLoop {
    /// Runs batches until the query ends.
    pub(super) async fn drive(mut self, resume: Resume) {
        let mut outcome = self.run_all(resume).await;
        self.shared.enter("waiting until the last commit is durable");
        if let Err(error) = self.settle().await
            && outcome.is_ok()
        {
            outcome = Err(error);
        }
        self.shared.enter("stopping sources");
        for bound in &self.run.plan.sources {
            bound.source.stop().await;
        }
        self.shared.enter("stopping the sink");
        self.run.sink.stop().await;
        for beside in self.run.quarantine.iter().chain(&self.run.late_rows) {
            beside.stop().await;
        }
        if let Err(error) = self.checkpoint.close().await {
            tracing::warn!(%error, "the checkpoint was not closed cleanly");
        }
        self.shared.end(outcome.err(), &self.listeners);
    }

    async fn run_all(&mut self, resume: Resume) -> Result<()> {
        match resume {
            Resume::Fresh => {
                self.start = vec![None; self.run.plan.sources.len()];
                self.follow(Watermarks::default())?;
            }
            Resume::Next { batch_id, start, watermark_ms, late_watermark_ms, previous } => {
                self.next_batch = batch_id;
                self.start = start;
                self.conf.extend(previous.conf);
                self.follow(Watermarks { late_ms: late_watermark_ms, evict_ms: watermark_ms })?;
            }
            Resume::Rerun { batch_id, record, start, late_watermark_ms } => {
                self.next_batch = batch_id;
                self.start = start;
                self.conf.extend(record.conf.clone());
                self.follow(Watermarks { late_ms: late_watermark_ms, evict_ms: record.watermark_ms })?;
                tracing::info!(batch = batch_id, "a batch was planned and not committed: it runs again as recorded");
                let timer = self.timer();
                let started_ms = self.clock.now_ms();
                self.batch(record, timer, started_ms).await?;
                if self.trigger == Trigger::Once {
                    return Ok(());
                }
            }
        }
        self.note_positions(&self.start);
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

    /// Follows event time from here on.
    fn follow(&mut self, current: Watermarks) -> Result<()> {
        let policy = self.conf.get(POLICY).map_or(Ok(Policy::default()), |policy| Policy::parse(policy))?;
        let nodes: &[i64] = if self.restore_watermarks { &self.event_time.watermarks_ms } else { &[] };
        let tracker = Tracker::new(policy, self.run.plan.flow.delays_ms(), current);
        self.tracker = Some(tracker.with_nodes(nodes).with_idle_timeout(self.idle_timeout_ms));
        Ok(())
    }

    /// The watermarks of the batch that runs now or next.
    fn watermarks(&self) -> Watermarks {
        self.tracker.as_ref().map_or_else(Watermarks::default, Tracker::current)
    }

    /// Whether time has passed, since the last batch of this run, that closes something.
    fn wants_another_batch(&self) -> Result<bool> {
        if !self.no_data_batches || !self.ran_any {
            return Ok(false);
        }
        let due = self.due_ms().is_some_and(|due| due <= self.clock.now_ms());
        Ok(due || self.run.plan.flow.wants_another_batch(self.watermarks().evict_ms)?)
    }

    /// When a batch without data has something to do because of the time of day. A query that ends with its data does not wait for that.
    fn due_ms(&self) -> Option<i64> {
        if self.trigger.is_finite() || !self.no_data_batches || !self.ran_any { None } else { self.run.plan.flow.due_ms() }
    }

    /// Looks at the sources and runs a batch if there is something new. Returns whether it did.
    async fn trigger_once(&mut self, started_ms: i64, unlimited: bool) -> Result<bool> {
        let look = self.shared.looks.fetch_add(1, Ordering::AcqRel) + 1;
        self.shared.enter("looking at sources");
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
        let new_data = end != self.start;
        if !new_data && !self.wants_another_batch()? {
            self.settle().await?;
            self.report_idle(&timer, started_ms);
            self.shared.say("Waiting for data to arrive", false, false);
            self.shared.caught_up.send_replace(look);
            return Ok(false);
        }
        let record = OffsetRecord {
            watermark_ms: self.watermarks().evict_ms,
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
        let new_data = record.offsets != self.start;
        self.shared.say(if new_data { "Processing new data" } else { "No new data but cleaning up state" }, new_data, true);
        let mut planned = self.write_offsets(id, record.clone());
        self.note_positions(&record.offsets);
        timer.lap("walCommit");
        let batch = BatchPlan {
            id,
            timestamp_ms: record.timestamp_ms,
            watermarks: self.watermarks(),
            start: self.start.clone(),
            end: record.offsets,
        };
        self.shared.enter("running a batch");
        let ran = self.run.run(&batch, &mut planned, &self.shared.live, &self.shared.stop, &mut timer).await;
        let mut outcome = match ran {
            Ok(outcome) => outcome,
            Err(error) => {
                // No write of this run may be under way when the query has ended.
                self.shared.enter("waiting until the plan of the batch is durable");
                if !planned.is_finished() {
                    drop(durable(&mut planned).await);
                }
                return Err(error);
            }
        };
        let record = self.commit_record(&outcome, batch.timestamp_ms)?;
        self.pending_commit = Some(self.write_commit(id, record, outcome.state.take(), batch.end.clone()));
        timer.lap("commitOffsets");
        let facts = TriggerFacts {
            run_id: self.shared.run_id,
            name: self.shared.name.as_deref(),
            batch_id: id,
            started_ms,
            previous_started_ms: self.previous_trigger_ms,
            start: &batch.start,
            end: &batch.end,
            watermark_ms: batch.watermarks.evict_ms,
            partitions: self.partitions(),
        };
        let mut progress = report(&self.run, &facts, &outcome, &timer);
        progress.millstream.query_changes = std::mem::take(&mut self.changes);
        progress.millstream.advice = std::mem::take(&mut self.advice);
        progress.millstream.idle_watermarks = self.tracker.as_ref().map(Tracker::idle).unwrap_or_default();
        let progress = Arc::new(progress);
        self.shared.keep(progress.clone());
        self.last_progress_ms = Some(self.clock.now_ms());
        self.ran_any = true;
        self.tell(&QueryEvent::Progress(progress));
        self.start = batch.end;
        self.note_positions(&self.start);
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

    /// The shuffle partitions that Spark would have.
    fn partitions(&self) -> u64 {
        self.conf.get("spark.sql.shuffle.partitions").and_then(|partitions| partitions.parse().ok()).unwrap_or(200)
    }

    /// What commits the batch that ran, but for its state, and lets time go on.
    fn commit_record(&mut self, outcome: &BatchOutcome, timestamp_ms: i64) -> Result<CommitRecord> {
        let flow = &self.run.plan.flow;
        let next_watermark_ms = match &mut self.tracker {
            Some(tracker) => {
                let next = tracker.observe(&flow.max_event_times(), timestamp_ms);
                tracker.advance(next);
                self.event_time.watermarks_ms = tracker.nodes_ms();
                next
            }
            None => 0,
        };
        let mut record = CommitRecord { next_watermark_ms, extra: BTreeMap::new() };
        if !flow.event_times.is_empty() {
            self.event_time.count(&outcome.lateness);
            self.event_time.put_into(&mut record)?;
        }
        if !flow.is_stateless() {
            facts::put(&mut record, FINGERPRINT, &flow.fingerprint)?;
        }
        Ok(record)
    }

    /// Makes `commits/N` durable in the background, once the batch's state is, and lets the sources follow.
    fn write_commit(&self, id: u64, mut record: CommitRecord, state: Option<Upload>, end: Vec<Option<Offset>>) -> JoinHandle<Result<()>> {
        let (checkpoint, log) = (self.checkpoint.clone(), self.state.clone());
        let sources: Vec<_> = self.run.plan.sources.iter().map(|bound| bound.source.clone()).collect();
        tokio::spawn(async move {
            if let Some(state) = state {
                let uploaded = state.await.map_err(|error| Error::internal("writing state ended early").caused_by(error))??;
                log.lock().await.commit(uploaded, &mut record).await?;
            }
            checkpoint.write_commit(id, &record).await?;
            log.lock().await.make_when_due(id);
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
            return;
        }
        if ran {
            return;
        }
        let changed: Vec<_> = self.run.plan.sources.iter().map(|bound| bound.source.changed()).collect();
        let changed = async { if changed.is_empty() { future::pending().await } else { drop(select_all(changed).await) } };
        let idle = self.last_progress_ms.unwrap_or(started_ms) + self.idle_interval_ms;
        let next = self.due_ms().map_or(idle, |due| due.min(idle)).saturating_sub(self.clock.now_ms());
        tokio::select! {
            () = self.shared.stop.cancelled() => {}
            () = self.shared.poke.notified() => {}
            () = changed => {}
            () = self.clock.sleep(Duration::from_millis(u64::try_from(next).unwrap_or(0))) => {}
        }
    }

    /// Reports a trigger that found nothing to do: the first one, and then one in a while, which is also an event.
    fn report_idle(&mut self, timer: &Timer, started_ms: i64) {
        let now = self.clock.now_ms();
        if self.last_progress_ms.is_some_and(|last| now.saturating_sub(last) < self.idle_interval_ms) {
            return;
        }
        let facts = TriggerFacts {
            run_id: self.shared.run_id,
            name: self.shared.name.as_deref(),
            batch_id: self.next_batch,
            started_ms,
            previous_started_ms: self.previous_trigger_ms,
            start: &self.start,
            end: &self.start,
            watermark_ms: self.watermarks().evict_ms,
            partitions: self.partitions(),
        };
        let mut progress = report(&self.run, &facts, &BatchOutcome::default(), timer);
        progress.event_time.retain(|name, _| name == "watermark");
        for operator in &mut progress.state_operators {
            (operator.num_rows_updated, operator.num_rows_dropped_by_watermark) = (0, 0);
            operator.custom_metrics.entry("lateRows".to_owned()).and_modify(|late| *late = 0);
        }
        if !self.ran_any {
            progress.sink.num_output_rows = -1;
        }
        self.shared.keep(Arc::new(progress));
        if self.last_progress_ms.replace(now).is_some() {
            self.tell(&QueryEvent::Idle { id: self.shared.id, run_id: self.shared.run_id, timestamp_ms: started_ms });
        }
    }

    /// Says how far the query is: `available` is the end of what it reads now.
    fn note_positions(&self, available: &[Option<Offset>]) {
        let positions = self.run.plan.sources.iter().enumerate().map(|(index, bound)| SourcePosition {
            description: bound.source.description(),
            committed: self.start.get(index).cloned().flatten(),
            available: available.get(index).cloned().flatten(),
        });
        *self.shared.positions.lock() = positions.collect();
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
