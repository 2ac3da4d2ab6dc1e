//! Starting a query: first what its caller waits for, then what fails the query itself.
//!
//! As in Spark, a query exists as soon as its checkpoint is open and its identity known. Opening its sources, reading its logs and planning
//! come after that: where the caller does not wait for them, their errors end the query.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use datafusion::execution::{SessionState, TaskContext};
use millstream_checkpoint::state::store::{StoreKind, StoreOptions, Stores};
use millstream_checkpoint::{Checkpoint, CheckpointOptions, facts};
use millstream_core::recovery::{self, Resume};
use millstream_core::sink::{Admission, BatchInfo, Sink, Target};
use millstream_core::{Clock, Error, ErrorKind, Ids, Result};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::advice;
use super::batch::BatchRun;
use super::batch_loop::BatchLoop;
use super::event_time::EventTimeFacts;
use super::ownership::committed_in;
use super::state_settings::StateSettings;
use super::{Lifecycle, Ownership, QueryEvent, QueryListener, QueryRequest, QueryStatus, Shared, StreamingQuery};
use crate::observe::Observed;
use crate::plan::{Preparation, PreparedPlan, prepare};
use crate::runner::BatchRunner;
use crate::stateful::{ChangePolicy, Fingerprint, Placement, SnapshotRules, StateLog};

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

/// A query that has its identity and its checkpoint, and does nothing yet.
pub(crate) struct Launched {
    shared: Arc<Shared>,
    checkpoint: Arc<Checkpoint>,
    request: QueryRequest,
    state: SessionState,
    context: Arc<TaskContext>,
    runner: Arc<dyn BatchRunner>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    listeners: Vec<Arc<dyn QueryListener>>,
}

/// Opens the checkpoint.
///
/// # Errors
/// Those of the checkpoint; `_LEGACY_ERROR_TEMP_1299` when it has batches and the sink lost their rows.
pub(crate) async fn launch(launch: Launch) -> Result<Launched> {
    let Launch { request, state, context, runner, clock, ids, listeners, checkpoint } = launch;
    let location = &request.checkpoint;
    let checkpoint = Arc::new(Checkpoint::open(location.store.clone(), location.root.clone(), location.url.clone(), checkpoint).await?);
    if !request.sink.resumes(request.mode)
        && let Err(error) = unresumed(&request, &checkpoint).await
    {
        close(&checkpoint).await;
        return Err(error);
    }
    let shared = Arc::new(Shared {
        id: checkpoint.query_id(),
        run_id: ids.next(),
        name: request.name.clone(),
        started_ms: clock.now_ms(),
        logical: request.plan.display_indent().to_string(),
        explain: OnceLock::new(),
        checkpoint: checkpoint.url().clone(),
        status: Mutex::new(QueryStatus { message: "Initializing sources".to_owned(), is_data_available: false, is_trigger_active: false }),
        recent: Mutex::default(),
        recent_capacity: request.settings.recent_progress.max(1),
        positions: Mutex::default(),
        live: super::batch::Live::default(),
        lifecycle: watch::Sender::new(Lifecycle::Running),
        looks: AtomicU64::new(0),
        caught_up: watch::Sender::new(0),
        poke: Notify::new(),
        stop: CancellationToken::new(),
        phase: Mutex::new("opening sources and logs"),
    });
    Ok(Launched { shared, checkpoint, request, state, context, runner, clock, ids, listeners })
}

impl Launched {
    /// The query.
    pub(crate) fn query(&self) -> StreamingQuery {
        StreamingQuery(self.shared.clone())
    }

    /// Opens everything else and starts the loop.
    ///
    /// # Errors
    /// Those of the sources, the logs, the planner and the sink; nothing of the query runs then.
    pub(crate) async fn begin(self) -> Result<StreamingQuery> {
        let query = self.query();
        match open(&self.request, &self.state, (&self.clock, &self.ids), &self.checkpoint).await {
            Ok(opened) => {
                self.started();
                tokio::spawn(self.run(opened));
                Ok(query)
            }
            Err(error) => {
                self.release().await;
                Err(error)
            }
        }
    }

    /// Returns the query at once; what goes wrong from here on ends it.
    pub(crate) fn detach(self) -> StreamingQuery {
        let query = self.query();
        self.started();
        tokio::spawn(async move {
            let opened = tokio::select! {
                biased;
                () = self.shared.stop.cancelled() => Err(Error::cancelled()),
                opened = open(&self.request, &self.state, (&self.clock, &self.ids), &self.checkpoint) => opened,
            };
            match opened {
                Ok(opened) => self.run(opened).await,
                Err(error) => {
                    self.release().await;
                    self.shared.end(error, &self.listeners);
                }
            }
        });
        query
    }

    fn started(&self) {
        let Shared { id, run_id, name, started_ms, .. } = self.shared.as_ref();
        let event = QueryEvent::Started { id: *id, run_id: *run_id, name: name.clone(), timestamp_ms: *started_ms };
        for listener in &self.listeners {
            listener.on_event(&event);
        }
    }

    async fn run(self, Opened { plan, resume, state, event_time, changes, advice }: Opened) {
        // Set once, here.
        let _ = self.shared.explain.set(plan.explain());
        let Launched { shared, checkpoint, request, context, runner, clock, listeners, .. } = self;
        let run = BatchRun {
            plan,
            runner,
            context,
            sink: request.sink,
            quarantine: request.quarantine,
            late_rows: request.settings.late_rows,
            mode: request.mode,
            query_id: shared.id,
            clock: clock.clone(),
            describe: request.settings.observation_json,
            checkpoint: checkpoint.clone(),
        };
        let query = BatchLoop {
            shared,
            run,
            checkpoint,
            clock,
            listeners,
            trigger: request.trigger,
            idle_interval_ms: request.settings.no_data_progress_interval_ms,
            conf: request.settings.pinned,
            start: Vec::new(),
            next_batch: 0,
            tracker: None,
            idle_timeout_ms: request.settings.idle_timeout_ms,
            restore_watermarks: request.settings.restore_watermarks,
            event_time,
            changes,
            advice,
            state: Arc::new(tokio::sync::Mutex::new(state)),
            no_data_batches: request.settings.no_data_batches,
            pending_commit: None,
            previous_trigger_ms: None,
            last_progress_ms: None,
            ran_any: false,
        };
        query.drive(resume).await;
    }

    /// Lets go of what a query holds that never ran.
    async fn release(&self) {
        self.request.sink.stop().await;
        for beside in self.request.quarantine.iter().chain(&self.request.settings.late_rows) {
            beside.stop().await;
        }
        // The lock must not outlive a failed start; the reason for the failure is what the user needs to see.
        close(&self.checkpoint).await;
    }
}

async fn close(checkpoint: &Checkpoint) {
    if let Err(error) = checkpoint.close().await {
        tracing::warn!(%error, "the checkpoint was not closed cleanly");
    }
}

/// Refuses a checkpoint that has batches, for a sink that cannot make their rows anew.
async fn unresumed(request: &QueryRequest, checkpoint: &Checkpoint) -> Result<()> {
    if recovery::resume(&checkpoint.tail().await?)? == Resume::Fresh {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::CheckpointIncompatible,
        "_LEGACY_ERROR_TEMP_1299",
        format!(
            "This query does not support recovering from checkpoint location. Delete {}/offsets to start over: {} in output mode '{}' lost \
             its rows with the run that wrote them.",
            checkpoint.url().as_str().trim_end_matches('/'),
            request.sink.description(),
            request.mode,
        ),
    ))
}

async fn open(
    request: &QueryRequest,
    state: &SessionState,
    (clock, ids): (&Arc<dyn Clock>, &Arc<dyn Ids>),
    checkpoint: &Arc<Checkpoint>,
) -> Result<Opened> {
    let resume = recovery::resume(&checkpoint.tail().await?)?;
    let planned = match &resume {
        Resume::Fresh => None,
        Resume::Rerun { record, .. } => Some(record),
        Resume::Next { previous, .. } => Some(previous),
    };
    let (pinned, conf) = (&request.settings.pinned, planned.map_or(&request.settings.pinned, |record| &record.conf));
    let options = request.settings.state.options(conf);
    let preparation = Preparation {
        state,
        clock: clock.clone(),
        expectations: &request.expectations,
        output: request.output.as_ref(),
        mode: request.mode,
        propagate: request.settings.multiple_stateful_operators,
        placement: Placement::new(tasks(&request.settings, state), Stores::new(options.clone(), ids.next())),
        log: &|name| checkpoint.source_log(name),
    };
    let plan = prepare(request.plan.clone(), preparation).await?;
    request.settings.state.check_operators(pinned, conf, plan.flow.operators.iter().map(|operator| operator.description.name))?;
    if let Some(record) = planned {
        recovery::check_sources(record, plan.sources.len())?;
    }
    for (index, bound) in plan.sources.iter().enumerate() {
        bound.source.restore(planned.and_then(|record| record.offsets.get(index)).and_then(Option::as_ref)).await?;
    }
    let scratch = {
        let (ids, memory_limit) = (ids.clone(), options.memory_limit / 4);
        move || Stores::new(StoreOptions { kind: StoreKind::Memory, memory_limit, ..options.clone() }, ids.next())
    };
    let rules = SnapshotRules { min_files: request.settings.state.min_deltas_for_snapshot.max(1), scratch: Arc::new(scratch) };
    let committed = match &resume {
        Resume::Fresh => None,
        Resume::Rerun { batch_id, .. } | Resume::Next { batch_id, .. } => batch_id.checked_sub(1),
    };
    let mut state = StateLog::new(&plan.flow, checkpoint, rules);
    let (mut event_time, mut changes) = (EventTimeFacts::default(), Vec::new());
    if let Some(batch) = committed {
        state = state.load(batch).await?;
        if let Some(record) = checkpoint.read_commit(batch).await? {
            event_time = EventTimeFacts::of(&record)?;
            let written: Option<Fingerprint> = facts::get(&record, FINGERPRINT)?;
            let found = written.map(|written| plan.flow.fingerprint.changes_since(&written)).unwrap_or_default();
            changes = request.settings.changes.judge(&found)?;
        }
    }
    let mut advice = advice::of(pinned, planned, &plan.flow);
    advice.extend(state.take_repair());
    let query = request.name.as_deref().unwrap_or("unnamed");
    for change in &changes {
        tracing::warn!(query, change, "the query is not the one that made the checkpoint");
    }
    for text in &advice {
        tracing::warn!(query, advice = text, "the query may not do what was meant");
    }
    if let Some(batch) = committed
        && request.sink.target().await? == Target::Missing
    {
        match &request.settings.ownership {
            Some(ownership) => return Err(ownership.target_lost(&request.sink.description(), &committed_in(checkpoint.url(), batch))),
            // As in Spark, the query goes on with a new target.
            None => tracing::warn!(
                sink = request.sink.description(),
                checkpoint = %checkpoint.url(),
                batch,
                "what the query wrote is gone; it goes on with a new target, which will hold only what comes from now on"
            ),
        }
    }
    request.sink.prepare(&plan.schema, request.mode).await?;
    if let (Resume::Fresh, Some(ownership)) = (&resume, &request.settings.ownership) {
        let first = BatchInfo {
            query_id: checkpoint.query_id(),
            batch_id: 0,
            mode: request.mode,
            schema: plan.schema.clone(),
            timestamp_ms: clock.now_ms(),
        };
        if request.sink.admit(&first).await? == Admission::AlreadyCommitted {
            return Err(ownership.checkpoint_lost(&request.sink.description(), checkpoint.url()));
        }
    }
    Ok(Opened { plan, resume, state, event_time, changes, advice })
}

/// Into how many tasks stateful operators are split: as many as the session's tasks, and no more than its shuffle partitions. What the
/// checkpoint says does not matter, because state belongs to key groups.
fn tasks(settings: &QuerySettings, state: &SessionState) -> usize {
    let partitions = settings.pinned.get("spark.sql.shuffle.partitions").and_then(|partitions| partitions.trim().parse().ok());
    partitions.unwrap_or(usize::MAX).min(state.config().target_partitions())
}

/// The fact that says what a query with state means.
pub(crate) const FINGERPRINT: &str = "query";

/// What a query needs to run its first batch.
struct Opened {
    plan: PreparedPlan,
    resume: Resume,
    state: StateLog,
    event_time: EventTimeFacts,
    /// How the query differs from the one that made the checkpoint.
    changes: Vec<String>,
    /// What the user should know about the query.
    advice: Vec<String>,
}

/// Settings of one query that its session may change from query to query.
#[derive(Clone, Debug)]
pub struct QuerySettings {
    /// Options to pin in a new checkpoint, under Spark's names; an existing checkpoint's own go before.
    pub pinned: BTreeMap<String, String>,
    /// Batches that the checkpoint keeps (`spark.sql.streaming.minBatchesToRetain`); the session's own number by default.
    pub min_batches_to_retain: Option<u64>,
    /// How often an idle query says so, milliseconds (`spark.sql.streaming.noDataProgressEventInterval`).
    pub no_data_progress_interval_ms: i64,
    /// The most progress reports that the query keeps (`spark.sql.streaming.numRecentProgressUpdates`).
    pub recent_progress: usize,
    /// Whether an active run on the same checkpoint is stopped first (`spark.sql.streaming.stopActiveRunOnRestart`).
    pub stop_active_run: bool,
    /// Whether to check first that the plan can run in its output mode (`spark.sql.streaming.unsupportedOperationCheck`).
    pub check_operations: bool,
    /// Whether to refuse plans in which rows of one stateful operator would reach another too late
    /// (`spark.sql.streaming.statefulOperator.checkCorrectness.enabled`).
    pub check_correctness: bool,
    /// Whether a batch without data runs when time has passed that closes something (`spark.sql.streaming.noDataMicroBatches.enabled`).
    pub no_data_batches: bool,
    /// Where and how state is kept.
    pub state: StateSettings,
    /// Whether each stateful operator has watermarks of its own (`spark.sql.streaming.statefulOperator.allowMultiple`); otherwise all have
    /// the query's, and of several operators only the first is right.
    pub multiple_stateful_operators: bool,
    /// Where late rows go, as a table of their own; they are only counted without it.
    pub late_rows: Option<Arc<dyn Sink>>,
    /// How long, in milliseconds, a watermark may be without rows before it no longer holds back the others; `None` for ever, as in Spark.
    pub idle_timeout_ms: Option<i64>,
    /// Whether the watermarks of single nodes go on where an earlier run left them. In Spark they start from 0, so that after a restart every
    /// one of several streams has to have rows before time goes on.
    pub restore_watermarks: bool,
    /// That only this query writes its target: what was lost is refused instead of written anew, as Spark does.
    pub ownership: Option<Ownership>,
    /// What happens when the query means something else than the one that made the checkpoint.
    pub changes: ChangePolicy,
    /// How an observation is written into progress; an object of its metrics as texts by default.
    pub observation_json: fn(&Observed) -> Value,
}

fn metrics_as_texts(observed: &Observed) -> Value {
    let metrics = observed.fields.iter().zip(&observed.values);
    Value::Object(metrics.map(|(field, value)| (field.name().clone(), Value::String(value.to_string()))).collect())
}

impl Default for QuerySettings {
    fn default() -> Self {
        QuerySettings {
            pinned: BTreeMap::new(),
            min_batches_to_retain: None,
            no_data_progress_interval_ms: 10_000,
            recent_progress: 100,
            stop_active_run: true,
            check_operations: true,
            check_correctness: true,
            no_data_batches: true,
            state: StateSettings::default(),
            multiple_stateful_operators: true,
            late_rows: None,
            idle_timeout_ms: None,
            restore_watermarks: false,
            ownership: None,
            changes: ChangePolicy::default(),
            observation_json: metrics_as_texts,
        }
    }
}
