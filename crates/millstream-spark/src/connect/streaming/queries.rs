//! The streaming queries of one session.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use millstream_core::{Clock, Error, Result};
use millstream_engine::{Session, StreamingQuery};
use parking_lot::Mutex;
use tokio::sync::watch;
use uuid::Uuid;

use super::failure;
use super::listeners::ListenerBus;
use crate::connect::host::TemporaryDirectory;

/// Ended queries that stay readable, the newest ones.
const KEPT_ENDED: usize = 1_000;

/// How long an ended query stays readable, as in Spark: an hour.
const KEPT_MS: i64 = 60 * 60 * 1_000;

/// What a session knows about its queries.
#[derive(Debug, Default)]
pub(super) struct Queries {
    known: Mutex<Known>,
    /// Which query ended first since the last reset, or the newest one that failed.
    terminated: watch::Sender<Option<StreamingQuery>>,
    bus: Arc<ListenerBus>,
    /// Set once the bus hears the session's queries.
    heard: OnceLock<()>,
}

#[derive(Debug, Default)]
struct Known {
    active: Vec<StreamingQuery>,
    /// With the time of their end.
    ended: VecDeque<(i64, StreamingQuery)>,
    /// Names of queries that are about to start.
    reserved: Vec<String>,
}

/// A name that no other query of the session takes while this exists.
#[derive(Debug)]
pub(super) struct NameReservation {
    queries: Arc<Queries>,
    name: Option<String>,
}

impl Drop for NameReservation {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            self.queries.known.lock().reserved.retain(|reserved| reserved != name);
        }
    }
}

impl Queries {
    /// The listeners of the session.
    pub(super) fn bus(&self) -> &Arc<ListenerBus> {
        &self.bus
    }

    /// Makes the session's listeners hear its queries.
    pub(super) fn listen(&self, engine: &Session) {
        self.heard.get_or_init(|| engine.add_listener(self.bus.clone()));
    }

    /// Takes a name for a query that starts.
    ///
    /// # Errors
    /// `IllegalArgumentException` when an active query of the session has it.
    pub(super) fn reserve(self: &Arc<Self>, name: Option<&str>) -> Result<NameReservation> {
        if let Some(name) = name {
            let mut known = self.known.lock();
            let taken = known.active.iter().any(|query| query.is_active() && query.name() == Some(name));
            if taken || known.reserved.iter().any(|reserved| reserved == name) {
                return Err(Error::invalid(
                    "IllegalArgumentException",
                    format!("Cannot start query with name {name} as a query with that name is already active in this SparkSession"),
                ));
            }
            known.reserved.push(name.to_owned());
        }
        Ok(NameReservation { queries: self.clone(), name: name.map(str::to_owned) })
    }

    /// Keeps a query that has started, and what has to be tidied up at its end.
    pub(super) fn add(self: &Arc<Self>, query: StreamingQuery, checkpoint: Option<Box<dyn TemporaryDirectory>>, clock: Arc<dyn Clock>) {
        self.known.lock().active.push(query.clone());
        let queries = self.clone();
        tokio::spawn(async move {
            let failed = query.await_termination().await.is_err();
            if let (Some(checkpoint), true) = (checkpoint, failed) {
                checkpoint.keep();
            }
            queries.ended(query, clock.now_ms());
        });
    }

    fn ended(&self, query: StreamingQuery, now_ms: i64) {
        {
            let mut known = self.known.lock();
            known.active.retain(|known| known.run_id() != query.run_id());
            while known.ended.len() >= KEPT_ENDED || known.ended.front().is_some_and(|(ended, _)| now_ms - ended > KEPT_MS) {
                known.ended.pop_front();
            }
            known.ended.push_back((now_ms, query.clone()));
        }
        self.terminated.send_if_modified(|terminated| {
            let tells = terminated.is_none() || query.error().is_some();
            if tells {
                *terminated = Some(query);
            }
            tells
        });
    }

    /// The queries that run.
    pub(super) fn active(&self) -> Vec<StreamingQuery> {
        self.known.lock().active.iter().filter(|query| query.is_active()).cloned().collect()
    }

    /// Whether a query runs.
    pub(super) fn any_active(&self) -> bool {
        self.known.lock().active.iter().any(StreamingQuery::is_active)
    }

    /// A run, active or ended not long ago.
    ///
    /// # Errors
    /// `CONNECT_INVALID_PLAN.STREAMING_QUERY_NOT_FOUND`.
    pub(super) fn find(&self, id: &str, run_id: &str) -> Result<StreamingQuery> {
        let is = |query: &&StreamingQuery| query.id().to_string() == id && query.run_id().to_string() == run_id;
        let known = self.known.lock();
        let found = known.active.iter().find(is).or_else(|| known.ended.iter().map(|(_, query)| query).find(is));
        found.cloned().ok_or_else(|| {
            Error::invalid(
                "CONNECT_INVALID_PLAN.STREAMING_QUERY_NOT_FOUND",
                format!("Streaming query {id} is not found: it belongs to another session, or ended more than an hour ago"),
            )
            .with_sqlstate("56K00")
        })
    }

    /// The active query of that id.
    pub(super) fn active_by_id(&self, id: Uuid) -> Option<StreamingQuery> {
        self.known.lock().active.iter().find(|query| query.is_active() && query.id() == id).cloned()
    }

    /// Waits until a query has ended since the last reset, no longer than `timeout`. Returns whether one has.
    ///
    /// # Errors
    /// `STREAM_FAILED` when one failed.
    pub(super) async fn await_any(&self, timeout: Option<Duration>) -> Result<bool> {
        let mut terminated = self.terminated.subscribe();
        let ended = async {
            let seen = terminated.wait_for(Option::is_some).await;
            // The sender lives in `self`, so waiting cannot fail.
            seen.ok().and_then(|query| query.clone())
        };
        let query = match timeout {
            None => ended.await,
            Some(timeout) => match tokio::time::timeout(timeout, ended).await {
                Ok(query) => query,
                Err(_) => return Ok(false),
            },
        };
        match query.as_ref().and_then(|query| query.error().map(|error| (query, error))) {
            Some((query, error)) => Err(failure::stream_failed(query, &error)),
            None => Ok(true),
        }
    }

    /// Forgets which queries have ended, for [`Queries::await_any`].
    pub(super) fn reset_terminated(&self) {
        self.terminated.send_replace(None);
    }

    /// Stops every query.
    pub(super) async fn stop_all(&self) {
        futures::future::join_all(self.active().iter().map(StreamingQuery::stop)).await;
    }
}
