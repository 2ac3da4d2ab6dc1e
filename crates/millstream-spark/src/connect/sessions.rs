//! The sessions of a server: finding, cloning, releasing and expiring them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use millstream_core::{Error, Result};
use parking_lot::Mutex;
use spark_connect_proto::UserContext;
use uuid::Uuid;

use super::errors::invalid_handle;
use super::execute::Operations;
use super::host::Host;
use super::session::{ConnectSession, GlobalViews, SessionKey};
use super::streaming;

/// How often idle sessions and abandoned operations are looked for; more often where they are to end sooner.
const MAINTENANCE: Duration = Duration::from_secs(30);

/// The shortest time between two looks.
const LEAST_PAUSE: Duration = Duration::from_millis(100);

/// Released sessions that are remembered, so that a client is told what happened to its session.
const CLOSED: usize = 1_000;

/// The most sessions at once.
const MOST_SESSIONS: usize = 10_000;

/// How long clients that are gone are waited for.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// How long a session lives without requests, running operations and queries: an hour by default, as Spark's
    /// `spark.connect.session.manager.defaultSessionTimeout`.
    pub session: Duration,
    /// How long an operation waits for a client that went away: five minutes by default, as Spark's
    /// `spark.connect.execute.manager.detachedTimeout`.
    pub detached: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts { session: Duration::from_secs(60 * 60), detached: Duration::from_secs(5 * 60) }
    }
}

/// The sessions of a server.
#[derive(Debug)]
pub(super) struct Sessions {
    host: Arc<dyn Host>,
    timeouts: Timeouts,
    global_views: GlobalViews,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: HashMap<SessionKey, Arc<Open>>,
    closed: VecDeque<SessionKey>,
}

#[derive(Debug)]
struct Open {
    session: Arc<ConnectSession>,
    last_access_ms: AtomicI64,
}

impl Sessions {
    pub(super) fn new(host: Arc<dyn Host>, timeouts: Timeouts) -> Self {
        Sessions { host, timeouts, global_views: GlobalViews::default(), state: Mutex::default() }
    }

    /// The session of a request, made if this is its first. `observed` is our id of the session that the client saw before, if any.
    ///
    /// # Errors
    /// `INVALID_HANDLE.FORMAT`, `.SESSION_CLOSED`, and `.SESSION_CHANGED` when the server has restarted since.
    pub(super) fn open(&self, user: Option<&UserContext>, session_id: &str, observed: Option<&str>) -> Result<Arc<ConnectSession>> {
        let key = key(user, session_id)?;
        let open = {
            let mut state = self.state.lock();
            match state.open.get(&key) {
                Some(open) => open.clone(),
                None => {
                    check_not_closed(&state, &key)?;
                    if observed.is_some_and(|observed| !observed.is_empty()) {
                        return Err(changed(session_id));
                    }
                    if state.open.len() >= MOST_SESSIONS {
                        let message = format!("this server has {MOST_SESSIONS} sessions: stop sessions that are not needed any more");
                        return Err(Error::invalid("TOO_MANY_SESSIONS", message));
                    }
                    let session = ConnectSession::new(key.clone(), self.host.clone(), self.global_views.clone())?;
                    let open = Arc::new(Open { session, last_access_ms: AtomicI64::default() });
                    state.open.insert(key, open.clone());
                    open
                }
            }
        };
        self.touch(&open);
        check_observed(&open.session, observed)?;
        Ok(open.session.clone())
    }

    /// The session of a request that makes sense only in one that exists.
    ///
    /// # Errors
    /// `INVALID_HANDLE.FORMAT`, `.SESSION_NOT_FOUND`, `.SESSION_CLOSED` and `.SESSION_CHANGED`.
    pub(super) fn find(&self, user: Option<&UserContext>, session_id: &str, observed: Option<&str>) -> Result<Arc<ConnectSession>> {
        let key = key(user, session_id)?;
        let open = {
            let state = self.state.lock();
            match state.open.get(&key) {
                Some(open) => open.clone(),
                None => {
                    check_not_closed(&state, &key)?;
                    return Err(invalid_handle("SESSION_NOT_FOUND", session_id, "Session not found."));
                }
            }
        };
        self.touch(&open);
        check_observed(&open.session, observed)?;
        Ok(open.session.clone())
    }

    fn touch(&self, open: &Open) {
        open.last_access_ms.store(self.host.clock().now_ms(), Ordering::Relaxed);
    }

    /// A copy of a session under an id that the client chose, or a new one.
    ///
    /// # Errors
    /// `INVALID_CLONE_SESSION_REQUEST.*`.
    pub(super) fn duplicate(&self, source: &ConnectSession, target: Option<&str>) -> Result<Arc<ConnectSession>> {
        let refuse = |what: &str, message: String| {
            Err(Error::invalid(format!("INVALID_CLONE_SESSION_REQUEST.{what}"), format!("Invalid session clone request. {message}"))
                .with_sqlstate("42K04"))
        };
        let id = match target {
            None => self.host.ids().next().to_string(),
            Some(id) if is_uuid(id) => id.to_owned(),
            Some(id) => {
                let message = format!(
                    "Target session ID {id} for clone operation must be an UUID string of the format \
                     '00112233-4455-6677-8899-aabbccddeeff'."
                );
                return refuse("TARGET_SESSION_ID_FORMAT", message);
            }
        };
        let copy = source.duplicate(id.clone())?;
        let mut state = self.state.lock();
        if state.open.contains_key(&copy.key) {
            let message = format!("Cannot clone session to target session ID {id} because a session with this ID already exists.");
            return refuse("TARGET_SESSION_ID_ALREADY_EXISTS", message);
        }
        if state.closed.contains(&copy.key) {
            let message = format!("Cannot clone session to target session ID {id} because a session with this ID was previously closed.");
            return refuse("TARGET_SESSION_ID_ALREADY_CLOSED", message);
        }
        let open = Arc::new(Open { session: copy.clone(), last_access_ms: AtomicI64::default() });
        self.touch(&open);
        state.open.insert(copy.key.clone(), open);
        Ok(copy)
    }

    /// Ends a session: its operations are cancelled and its queries stopped. Nothing happens if there is none. Returns our id of it.
    ///
    /// # Errors
    /// `INVALID_HANDLE.FORMAT`.
    pub(super) async fn release(&self, user: Option<&UserContext>, session_id: &str, allow_reconnect: bool) -> Result<Option<String>> {
        let key = key(user, session_id)?;
        let open = {
            let mut state = self.state.lock();
            let open = state.open.remove(&key);
            if !allow_reconnect && !state.closed.contains(&key) {
                if state.closed.len() >= CLOSED {
                    state.closed.pop_front();
                }
                state.closed.push_back(key);
            }
            open
        };
        let Some(open) = open else { return Ok(None) };
        close(&open.session).await;
        Ok(Some(open.session.server_side_session_id.clone()))
    }

    /// Ends every session, as the server does when it stops.
    pub(super) async fn close_all(&self) {
        let open: Vec<Arc<Open>> = self.state.lock().open.drain().map(|(_, open)| open).collect();
        futures::future::join_all(open.iter().map(|open| close(&open.session))).await;
    }

    /// Looks for idle sessions and abandoned operations, for ever.
    pub(super) async fn maintain(&self) {
        let clock = self.host.clock();
        let Timeouts { session: idle, detached } = self.timeouts;
        let pause = (idle.min(detached) / 2).clamp(LEAST_PAUSE, MAINTENANCE);
        loop {
            clock.sleep(pause).await;
            let now_ms = clock.now_ms();
            let open: Vec<Arc<Open>> = self.state.lock().open.values().cloned().collect();
            for open in open {
                let operations = open.session.part::<Operations>();
                operations.abandon_detached(now_ms, detached);
                if operations.any_running() || streaming::is_busy(&open.session) {
                    self.touch(&open);
                } else if now_ms.saturating_sub(open.last_access_ms.load(Ordering::Relaxed)) > milliseconds(idle) {
                    tracing::info!(session = %open.session.key.session_id, ?idle, "a session without requests is ended");
                    self.state.lock().open.remove(&open.session.key);
                    close(&open.session).await;
                }
            }
        }
    }
}

/// A span of time for comparing with differences of the clock.
pub(super) fn milliseconds(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

async fn close(session: &Arc<ConnectSession>) {
    session.part::<Operations>().cancel_all();
    streaming::close(session).await;
}

fn key(user: Option<&UserContext>, session_id: &str) -> Result<SessionKey> {
    check_uuid(session_id)?;
    Ok(SessionKey { user_id: user.map(|user| user.user_id.clone()).unwrap_or_default(), session_id: session_id.to_owned() })
}

/// # Errors
/// `INVALID_HANDLE.FORMAT` for what is no UUID.
pub(super) fn check_uuid(handle: &str) -> Result<()> {
    match is_uuid(handle) {
        true => Ok(()),
        false => {
            let message = "Handle must be an UUID string of the format '00112233-4455-6677-8899-aabbccddeeff'";
            Err(invalid_handle("FORMAT", handle, message))
        }
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && Uuid::try_parse(text).is_ok()
}

fn check_not_closed(state: &State, key: &SessionKey) -> Result<()> {
    match state.closed.contains(key) {
        true => Err(invalid_handle("SESSION_CLOSED", &key.session_id, "Session was closed.")),
        false => Ok(()),
    }
}

fn check_observed(session: &ConnectSession, observed: Option<&str>) -> Result<()> {
    match observed {
        Some(observed) if !observed.is_empty() && observed != session.server_side_session_id => Err(changed(&session.key.session_id)),
        _ => Ok(()),
    }
}

fn changed(session_id: &str) -> Error {
    invalid_handle("SESSION_CHANGED", session_id, "The server has restarted since this session began. Please reconnect.")
}
