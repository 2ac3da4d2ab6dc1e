//! The one listener of a session: a stream of events to its client, which calls the client's own listeners.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_core::progress::utc_text;
use millstream_core::{Clock, Error, Result};
use millstream_engine::{QueryEvent, QueryListener, StreamingQuery};
use parking_lot::Mutex;
use serde_json::json;
use spark_connect_proto::streaming_query_listener_bus_command::Command;
use spark_connect_proto::{
    StreamingQueryEventType, StreamingQueryListenerBusCommand, StreamingQueryListenerEvent, StreamingQueryListenerEventsResult,
};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::queries::Queries;
use super::{failure, progress};
use crate::connect::session::ConnectSession;

/// Events that wait for a client. When it is that far behind, new events are dropped, as Spark's bus does, so that queries never wait.
const QUEUE: usize = 10_000;

/// How long the events of a run wait for a client to take the answer to its start; one that never says that it did gets them then.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long they wait after that, about as long as Spark needs for a first batch: the client still has to call its listeners with the answer,
/// and reads events in another thread.
const HEAD_START: Duration = Duration::from_millis(100);

/// Where events go, while a client listens.
///
/// A client hears of a start from the answer to its request, and of what follows from the stream of events. Nothing orders the two, so the
/// events of a run wait here until the client has been told of its start.
#[derive(Debug, Default)]
pub(super) struct ListenerBus(Mutex<Listening>);

#[derive(Debug, Default)]
struct Listening {
    events: Option<mpsc::Sender<StreamingQueryListenerEvent>>,
    /// The events of runs whose start the client does not know of, in order, up to [`QUEUE`] each.
    untold: HashMap<Uuid, Vec<StreamingQueryListenerEvent>>,
}

impl Listening {
    fn is_heard(&self) -> bool {
        self.events.as_ref().is_some_and(|events| !events.is_closed())
    }

    fn send(&self, event: StreamingQueryListenerEvent) {
        if let Some(events) = &self.events
            && let Err(mpsc::error::TrySendError::Full(event)) = events.try_send(event)
        {
            dropped(&event);
        }
    }
}

fn dropped(event: &StreamingQueryListenerEvent) {
    tracing::warn!(kind = event.event_type, "the client's listeners are too far behind: an event is dropped");
}

impl ListenerBus {
    /// Whether a client listens.
    pub(super) fn is_heard(&self) -> bool {
        self.0.lock().is_heard()
    }

    /// Lets the client's stream end after the events that wait.
    pub(super) fn remove(&self) {
        let mut listening = self.0.lock();
        let untold = std::mem::take(&mut listening.untold);
        untold.into_values().flatten().for_each(|event| listening.send(event));
        listening.events = None;
    }

    /// Sends the events of a run from now on, and first those that waited.
    pub(super) fn tell(&self, run_id: Uuid) {
        let mut listening = self.0.lock();
        let waited = listening.untold.remove(&run_id).unwrap_or_default();
        waited.into_iter().for_each(|event| listening.send(event));
    }

    fn add(&self) -> Result<mpsc::Receiver<StreamingQueryListenerEvent>> {
        let mut listening = self.0.lock();
        if listening.is_heard() {
            return Err(Error::invalid("IllegalStateException", "this session has a listener bus already: remove it first"));
        }
        let (sender, receiver) = mpsc::channel(QUEUE);
        *listening = Listening { events: Some(sender), untold: HashMap::new() };
        Ok(receiver)
    }
}

impl QueryListener for ListenerBus {
    fn on_event(&self, event: &QueryEvent) {
        let mut listening = self.0.lock();
        if !listening.is_heard() {
            return;
        }
        let (run_id, kind, json) = match event {
            // The client is told in the answer to its request.
            QueryEvent::Started { run_id, .. } => {
                listening.untold.insert(*run_id, Vec::new());
                return;
            }
            QueryEvent::Progress(progress) => {
                (progress.run_id, StreamingQueryEventType::QueryProgressEvent, json!({"progress": progress::listener_json(progress)}))
            }
            QueryEvent::Idle { id, run_id, timestamp_ms } => {
                let json = json!({"id": id, "runId": run_id, "timestamp": utc_text(*timestamp_ms)});
                (*run_id, StreamingQueryEventType::QueryIdleEvent, json)
            }
            QueryEvent::Terminated { id, run_id, error } => {
                let json = json!({
                    "id": id,
                    "runId": run_id,
                    "exception": error.as_ref().map(|error| failure::termination_text(error)),
                    "errorClassOnException": error.as_ref().and_then(|error| failure::condition_of(error)),
                });
                (*run_id, StreamingQueryEventType::QueryTerminatedEvent, json)
            }
        };
        let event = StreamingQueryListenerEvent { event_json: json.to_string(), event_type: kind.into() };
        match listening.untold.get_mut(&run_id) {
            Some(waiting) if waiting.len() < QUEUE => waiting.push(event),
            Some(_) => dropped(&event),
            None => listening.send(event),
        }
    }
}

/// Lets the events of a run go, some time after its start was answered.
#[derive(Debug)]
pub(in crate::connect) struct Untold {
    pub(super) bus: Arc<ListenerBus>,
    pub(super) run_id: Uuid,
}

impl Untold {
    /// Waits until the client has taken the answer, as `taken` says, and a little longer.
    pub(in crate::connect) async fn told(self, taken: impl Future<Output = ()>, clock: Arc<dyn Clock>) {
        tokio::select! {
            () = taken => {}
            () = clock.sleep(PATIENCE) => {}
        }
        clock.sleep(HEAD_START).await;
    }
}

impl Drop for Untold {
    fn drop(&mut self) {
        self.bus.tell(self.run_id);
    }
}

/// The event that the answer to a start carries for a client that listens.
pub(super) fn started_json(query: &StreamingQuery) -> String {
    json!({
        "id": query.id(),
        "runId": query.run_id(),
        "name": query.name(),
        "timestamp": utc_text(query.started_ms()),
        "jobTags": [],
    })
    .to_string()
}

/// Adds the session's listener and sends its events into `answers` until it is removed, the session ends or the client is gone; or removes
/// it.
///
/// # Errors
/// `IllegalStateException` when there is one already.
pub(in crate::connect) async fn listener_bus(
    session: &Arc<ConnectSession>,
    command: StreamingQueryListenerBusCommand,
    answers: mpsc::Sender<StreamingQueryListenerEventsResult>,
) -> Result<()> {
    let bus = session.part::<Queries>().bus().clone();
    let mut events = match command.command {
        Some(Command::AddListenerBusListener(true)) => bus.add()?,
        Some(Command::RemoveListenerBusListener(true)) => {
            bus.remove();
            return Ok(());
        }
        _ => return Err(Error::invalid("INVALID_PLAN_INPUT", "a command to the listener bus adds or removes the listener")),
    };
    let added = StreamingQueryListenerEventsResult { events: Vec::new(), listener_bus_listener_added: Some(true) };
    if answers.send(added).await.is_err() {
        return Ok(());
    }
    loop {
        let event = tokio::select! {
            () = answers.closed() => return Ok(()),
            event = events.recv() => event,
        };
        let Some(event) = event else { return Ok(()) };
        let answer = StreamingQueryListenerEventsResult { events: vec![event], listener_bus_listener_added: None };
        if answers.send(answer).await.is_err() {
            return Ok(());
        }
    }
}
