//! The one listener of a session: a stream of events to its client, which calls the client's own listeners.

use std::sync::Arc;

use millstream_core::progress::utc_text;
use millstream_core::{Error, Result};
use millstream_engine::{QueryEvent, QueryListener, StreamingQuery};
use parking_lot::Mutex;
use serde_json::json;
use spark_connect_proto::streaming_query_listener_bus_command::Command;
use spark_connect_proto::{
    StreamingQueryEventType, StreamingQueryListenerBusCommand, StreamingQueryListenerEvent, StreamingQueryListenerEventsResult,
};
use tokio::sync::mpsc;

use super::queries::Queries;
use super::{failure, progress};
use crate::connect::session::ConnectSession;

/// Events that wait for a client. When it is that far behind, new events are dropped, as Spark's bus does, so that queries never wait.
const QUEUE: usize = 10_000;

/// Where events go, while a client listens.
#[derive(Debug, Default)]
pub(super) struct ListenerBus {
    events: Mutex<Option<mpsc::Sender<StreamingQueryListenerEvent>>>,
}

impl ListenerBus {
    /// Whether a client listens.
    pub(super) fn is_heard(&self) -> bool {
        self.events.lock().as_ref().is_some_and(|events| !events.is_closed())
    }

    /// Lets the client's stream end after the events that wait.
    pub(super) fn remove(&self) {
        *self.events.lock() = None;
    }

    fn add(&self) -> Result<mpsc::Receiver<StreamingQueryListenerEvent>> {
        let mut events = self.events.lock();
        if events.as_ref().is_some_and(|events| !events.is_closed()) {
            return Err(Error::invalid("IllegalStateException", "this session has a listener bus already: remove it first"));
        }
        let (sender, receiver) = mpsc::channel(QUEUE);
        *events = Some(sender);
        Ok(receiver)
    }

    fn send(&self, event: StreamingQueryListenerEvent) {
        if let Some(events) = self.events.lock().as_ref()
            && let Err(mpsc::error::TrySendError::Full(event)) = events.try_send(event)
        {
            tracing::warn!(kind = event.event_type, "the client's listeners are too far behind: an event is dropped");
        }
    }
}

impl QueryListener for ListenerBus {
    fn on_event(&self, event: &QueryEvent) {
        if !self.is_heard() {
            return;
        }
        let (kind, json) = match event {
            // The client is told in the answer to its request.
            QueryEvent::Started { .. } => return,
            QueryEvent::Progress(progress) => {
                (StreamingQueryEventType::QueryProgressEvent, json!({"progress": progress::listener_json(progress)}))
            }
            QueryEvent::Idle { id, run_id, timestamp_ms } => {
                (StreamingQueryEventType::QueryIdleEvent, json!({"id": id, "runId": run_id, "timestamp": utc_text(*timestamp_ms)}))
            }
            QueryEvent::Terminated { id, run_id, error } => {
                let json = json!({
                    "id": id,
                    "runId": run_id,
                    "exception": error.as_ref().map(|error| failure::termination_text(error)),
                    "errorClassOnException": error.as_ref().and_then(|error| failure::condition_of(error)),
                });
                (StreamingQueryEventType::QueryTerminatedEvent, json)
            }
        };
        self.send(StreamingQueryListenerEvent { event_json: json.to_string(), event_type: kind.into() });
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
