//! A streaming query: its request, its handle, and the events that it tells.

mod advice;
mod batch;
mod batch_loop;
mod discard;
mod event_time;
mod launch;
mod ownership;
mod quarantine;
mod report;
mod side_table;
mod state_settings;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use datafusion::logical_expr::LogicalPlan;
use millstream_core::sink::{OutputMode, Sink};
use millstream_core::{Error, ErrorKind, Offset, QueryProgress, Result, Trigger};
use object_store::ObjectStore;
use object_store::path::Path;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use url::Url;
use uuid::Uuid;

use crate::expectation::Expectation;

pub(crate) use event_time::EventTimeFacts;
pub use launch::QuerySettings;
pub(crate) use launch::{FINGERPRINT, Launch, Launched, launch};
pub use ownership::Ownership;
pub(crate) use ownership::committed_in;
pub use state_settings::StateSettings;

/// A query that takes so long to stop says where it is: its disk may be stuck, or a function of the user.
const SLOW_STOP: Duration = Duration::from_secs(10);

/// Where a query keeps its checkpoint.
#[derive(Clone, Debug)]
pub struct CheckpointLocation {
    /// A store whose writes are durable and whose conditional create excludes.
    pub store: Arc<dyn ObjectStore>,
    /// The directory inside the store.
    pub root: Path,
    /// The same as a URL, for messages and for telling whether two queries share it.
    pub url: Url,
}

/// A query to start.
#[derive(Debug)]
pub struct QueryRequest {
    /// A name for progress and messages.
    pub name: Option<String>,
    /// The plan, with [`StreamRelation`](crate::relation::StreamRelation)s in it.
    pub plan: LogicalPlan,
    /// The columns as they reach the sink, by position: their names (which may repeat) and metadata. The plan's own by default.
    pub output: Option<SchemaRef>,
    /// Where rows go.
    pub sink: Arc<dyn Sink>,
    /// What a batch hands to the sink.
    pub mode: OutputMode,
    /// When batches run.
    pub trigger: Trigger,
    /// The checkpoint.
    pub checkpoint: CheckpointLocation,
    /// Where malformed records go; they are only counted without it.
    pub quarantine: Option<Arc<dyn Sink>>,
    /// Expectations on the rows that reach the sink.
    pub expectations: Vec<Expectation>,
    /// Settings.
    pub settings: QuerySettings,
}

/// What a query tells its listeners.
#[derive(Clone, Debug)]
pub enum QueryEvent {
    /// It started.
    Started {
        /// The id persisted in the checkpoint.
        id: Uuid,
        /// This run.
        run_id: Uuid,
        /// The query's name.
        name: Option<String>,
        /// When, milliseconds since the epoch.
        timestamp_ms: i64,
    },
    /// A trigger ran a batch.
    Progress(Arc<QueryProgress>),
    /// It has had nothing to do for a while.
    Idle {
        /// The id persisted in the checkpoint.
        id: Uuid,
        /// This run.
        run_id: Uuid,
        /// When, milliseconds since the epoch.
        timestamp_ms: i64,
    },
    /// It ended.
    Terminated {
        /// The id persisted in the checkpoint.
        id: Uuid,
        /// This run.
        run_id: Uuid,
        /// Why, if it failed.
        error: Option<Arc<Error>>,
    },
}

/// Takes the events of queries. Called from the query's own loop: it must return soon.
pub trait QueryListener: Send + Sync {
    /// Takes one event.
    fn on_event(&self, event: &QueryEvent);
}

impl<F: Fn(&QueryEvent) + Send + Sync> QueryListener for F {
    fn on_event(&self, event: &QueryEvent) {
        self(event);
    }
}

/// What a query is doing, in Spark's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryStatus {
    /// What it does now: `Initializing sources`, `Processing new data`, `Waiting for data to arrive` …
    pub message: String,
    /// Whether there was data at the last look.
    pub is_data_available: bool,
    /// Whether a trigger is running.
    pub is_trigger_active: bool,
}

/// How a query ended, or that it runs.
#[derive(Clone, Debug)]
pub(crate) enum Lifecycle {
    Running,
    Ended(Option<Arc<Error>>),
}

/// What the loop and the handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) id: Uuid,
    pub(crate) run_id: Uuid,
    pub(crate) name: Option<String>,
    /// Milliseconds since the epoch.
    pub(crate) started_ms: i64,
    /// The plan that it was started with.
    pub(crate) logical: String,
    /// The physical plan, once there is one.
    pub(crate) explain: OnceLock<String>,
    pub(crate) checkpoint: Url,
    pub(crate) status: Mutex<QueryStatus>,
    pub(crate) recent: Mutex<VecDeque<Arc<QueryProgress>>>,
    pub(crate) recent_capacity: usize,
    pub(crate) positions: Mutex<Vec<SourcePosition>>,
    pub(crate) live: batch::Live,
    pub(crate) lifecycle: watch::Sender<Lifecycle>,
    /// How many looks at the sources have begun.
    pub(crate) looks: AtomicU64,
    /// The number of the last look that found nothing new.
    pub(crate) caught_up: watch::Sender<u64>,
    /// Asks the loop to look again at once.
    pub(crate) poke: tokio::sync::Notify,
    pub(crate) stop: CancellationToken,
    /// What the loop does or waits for, for whoever wonders why a query that was asked to stop does not end.
    pub(crate) phase: Mutex<&'static str>,
}

impl Shared {
    pub(crate) fn enter(&self, phase: &'static str) {
        *self.phase.lock() = phase;
    }

    pub(crate) fn say(&self, message: &str, data: bool, active: bool) {
        *self.status.lock() = QueryStatus { message: message.to_owned(), is_data_available: data, is_trigger_active: active };
    }

    pub(crate) fn keep(&self, progress: Arc<QueryProgress>) {
        let mut recent = self.recent.lock();
        if recent.len() >= self.recent_capacity {
            recent.pop_front();
        }
        recent.push_back(progress);
    }

    /// Ends the query because of `outcome`, which is no failure when it was asked to stop.
    pub(crate) fn end(&self, outcome: impl Into<Option<Error>>, listeners: &[Arc<dyn QueryListener>]) {
        let stopped = self.stop.is_cancelled();
        let error = outcome.into().filter(|error| !(stopped && error.kind() == ErrorKind::Cancelled)).map(Arc::new);
        match &error {
            Some(error) => {
                tracing::error!(query = self.name.as_deref().unwrap_or("unnamed"), code = error.code(), "{error}");
                self.say(&format!("Terminated with exception: {error}"), false, false);
            }
            None => self.say("Stopped", false, false),
        }
        let event = QueryEvent::Terminated { id: self.id, run_id: self.run_id, error: error.clone() };
        for listener in listeners {
            listener.on_event(&event);
        }
        self.lifecycle.send_replace(Lifecycle::Ended(error));
    }
}

/// How far a query is in one source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourcePosition {
    /// The source, as progress names it.
    pub description: String,
    /// The end of what is committed.
    pub committed: Option<Offset>,
    /// The end of what the running batch reads; the same as `committed` between batches.
    pub available: Option<Offset>,
}

/// A running or ended query. Cloning gives another handle to the same query; dropping handles does not stop it.
#[derive(Clone, Debug)]
pub struct StreamingQuery(pub(crate) Arc<Shared>);

impl StreamingQuery {
    /// The id persisted in the checkpoint: the same for every run of the query.
    pub fn id(&self) -> Uuid {
        self.0.id
    }

    /// The id of this run.
    pub fn run_id(&self) -> Uuid {
        self.0.run_id
    }

    /// The name.
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// The checkpoint's URL.
    pub fn checkpoint(&self) -> &Url {
        &self.0.checkpoint
    }

    /// Whether it still runs.
    pub fn is_active(&self) -> bool {
        matches!(*self.0.lifecycle.borrow(), Lifecycle::Running)
    }

    /// Why it failed, if it did.
    pub fn error(&self) -> Option<Arc<Error>> {
        match &*self.0.lifecycle.borrow() {
            Lifecycle::Ended(error) => error.clone(),
            Lifecycle::Running => None,
        }
    }

    /// What it is doing.
    pub fn status(&self) -> QueryStatus {
        self.0.status.lock().clone()
    }

    /// The reports of the last triggers, oldest first.
    pub fn recent_progress(&self) -> Vec<Arc<QueryProgress>> {
        self.0.recent.lock().iter().cloned().collect()
    }

    /// The report of the last trigger.
    pub fn last_progress(&self) -> Option<Arc<QueryProgress>> {
        self.0.recent.lock().back().cloned()
    }

    /// Rows read so far by the batch that runs now; 0 between batches.
    pub fn rows_in_flight(&self) -> u64 {
        self.0.live.rows()
    }

    /// The physical plan as text; `None` until there is one.
    pub fn explain(&self) -> Option<&str> {
        self.0.explain.get().map(String::as_str)
    }

    /// The logical plan as text.
    pub fn explain_logical(&self) -> &str {
        &self.0.logical
    }

    /// When it was started, milliseconds since the epoch.
    pub fn started_ms(&self) -> i64 {
        self.0.started_ms
    }

    /// How far it is in each of its sources, in plan order; empty until they are open.
    pub fn positions(&self) -> Vec<SourcePosition> {
        self.0.positions.lock().clone()
    }

    /// Asks the query to stop and waits until it has. A batch that runs is abandoned; it runs again when the query is started again.
    pub async fn stop(&self) {
        self.0.stop.cancel();
        self.0.poke.notify_one();
        let mut waited = Duration::ZERO;
        while tokio::time::timeout(SLOW_STOP, self.ended()).await.is_err() {
            waited += SLOW_STOP;
            let (query, phase) = (self.name().unwrap_or("unnamed"), *self.0.phase.lock());
            tracing::warn!(query, run_id = %self.run_id(), phase, ?waited, "a query was asked to stop and has not ended");
        }
    }

    /// Waits until the query has ended.
    ///
    /// # Errors
    /// The error that ended it.
    pub async fn await_termination(&self) -> Result<(), Arc<Error>> {
        self.ended().await;
        self.error().map_or(Ok(()), Err)
    }

    /// Waits until the query has ended, but no longer than `timeout`. Returns whether it has ended.
    ///
    /// # Errors
    /// The error that ended it.
    pub async fn await_termination_for(&self, timeout: Duration) -> Result<bool, Arc<Error>> {
        match tokio::time::timeout(timeout, self.ended()).await {
            Ok(()) => self.error().map_or(Ok(true), Err),
            Err(_) => Ok(false),
        }
    }

    /// Waits until everything that the sources had at this moment is in the sink, or the query has ended.
    ///
    /// # Errors
    /// The error that ended it.
    pub async fn process_all_available(&self) -> Result<(), Arc<Error>> {
        let mut caught_up = self.0.caught_up.subscribe();
        // A look that has begun may have missed what is there now: only one that begins later counts.
        let target = self.0.looks.load(Ordering::Acquire) + 1;
        let mut lifecycle = self.0.lifecycle.subscribe();
        loop {
            if !self.is_active() {
                return self.error().map_or(Ok(()), Err);
            }
            if *caught_up.borrow_and_update() >= target {
                return Ok(());
            }
            self.0.poke.notify_one();
            tokio::select! {
                changed = caught_up.changed() => if changed.is_err() { return Ok(()); },
                changed = lifecycle.changed() => if changed.is_err() { return Ok(()); },
            }
        }
    }

    async fn ended(&self) {
        let mut lifecycle = self.0.lifecycle.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        let _ = lifecycle.wait_for(|state| matches!(state, Lifecycle::Ended(_))).await;
    }
}
