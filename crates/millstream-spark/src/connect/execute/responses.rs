//! The responses of one operation: a bounded queue between what runs and the client, which may go away and come back.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;

use parking_lot::Mutex;
use prost::Message;
use spark_connect_proto::ExecutePlanResponse;
use tokio::sync::Notify;

use crate::connect::errors::Fault;

/// Bytes that may wait for the client. When they do, the operation pauses until the client has taken some.
const MOST_WAITING: usize = 16 << 20;

/// Responses that may wait for the client.
const MOST_WAITING_RESPONSES: u64 = 256;

/// Bytes kept after they were sent, until the client releases them, so that it can ask again. The oldest go first. What was sent may be in the
/// buffers of two systems and of the network when a connection breaks, so this has to be more than they hold.
const MOST_KEPT: usize = 64 << 20;

/// The responses of an operation, counted from 0.
#[derive(Debug)]
pub(super) struct Responses {
    operation_id: String,
    /// Whether what was sent is kept for a client that comes back.
    reattachable: bool,
    queue: Mutex<Queue>,
    /// Something new is there, or a client was replaced.
    changed: Notify,
    /// The client took something.
    taken: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    /// The number of the first response in `responses`.
    first: u64,
    responses: VecDeque<(usize, ExecutePlanResponse)>,
    /// How many responses were ever sent.
    sent: u64,
    bytes_waiting: usize,
    bytes_kept: usize,
    end: Option<End>,
    /// The newest client; only it gets responses.
    client: u64,
    detached_since_ms: Option<i64>,
}

/// How an operation ended.
#[derive(Clone, Debug)]
pub(super) enum End {
    /// Everything was sent.
    Complete,
    /// It failed.
    Failed(Arc<Fault>),
}

/// What a client gets next.
#[derive(Debug)]
pub(super) enum Next {
    /// The response at its position.
    Response(Box<ExecutePlanResponse>),
    /// There is nothing after its position.
    End(End),
    /// Another call took its place.
    Replaced,
    /// The response at its position was released or is too old.
    Gone,
}

/// Where a client wants to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cursor {
    /// At the response of that number.
    At(u64),
    /// There is no such response.
    Unknown,
}

impl Queue {
    fn end_number(&self) -> u64 {
        self.first + self.responses.len() as u64
    }

    fn drop_first(&mut self) {
        if let Some((bytes, _)) = self.responses.pop_front() {
            if self.first < self.sent {
                self.bytes_kept = self.bytes_kept.saturating_sub(bytes);
            } else {
                self.bytes_waiting = self.bytes_waiting.saturating_sub(bytes);
                self.sent = self.first + 1;
            }
            self.first += 1;
        }
    }
}

impl Responses {
    pub(super) fn new(operation_id: String, reattachable: bool) -> Self {
        Responses { operation_id, reattachable, queue: Mutex::default(), changed: Notify::new(), taken: Notify::new() }
    }

    /// Adds a response, when there is room.
    pub(super) async fn push(&self, response: ExecutePlanResponse) {
        self.add(response, None).await;
    }

    /// Adds the last response, when there is room. Nobody sees it and takes the operation for running.
    pub(super) async fn push_last(&self, response: ExecutePlanResponse) {
        self.add(response, Some(End::Complete)).await;
    }

    async fn add(&self, mut response: ExecutePlanResponse, mut end: Option<End>) {
        loop {
            let mut taken = pin!(self.taken.notified());
            taken.as_mut().enable();
            {
                let mut queue = self.queue.lock();
                let waiting = queue.end_number() - queue.sent.max(queue.first);
                if waiting == 0 || (queue.bytes_waiting < MOST_WAITING && waiting < MOST_WAITING_RESPONSES) {
                    let number = queue.end_number();
                    response.response_id = format!("{}.{number}", self.operation_id);
                    let bytes = response.encoded_len();
                    queue.bytes_waiting += bytes;
                    queue.responses.push_back((bytes, response));
                    if let Some(end) = end.take() {
                        queue.end.get_or_insert(end);
                    }
                    break;
                }
            }
            taken.await;
        }
        self.changed.notify_waiters();
    }

    /// Says that nothing more comes. Only the first end counts.
    pub(super) fn finish(&self, end: End) {
        self.queue.lock().end.get_or_insert(end);
        self.changed.notify_waiters();
    }

    /// How it ended, if it has.
    pub(super) fn end(&self) -> Option<End> {
        self.queue.lock().end.clone()
    }

    /// The number after the response of that id.
    pub(super) fn after(&self, response_id: &str) -> Cursor {
        let number = response_id.strip_prefix(&self.operation_id).and_then(|rest| rest.strip_prefix('.')?.parse::<u64>().ok());
        match number {
            Some(number) if number < self.queue.lock().end_number() => Cursor::At(number + 1),
            _ => Cursor::Unknown,
        }
    }

    /// Makes a new client the one that gets responses, and returns its number.
    pub(super) fn attach(&self) -> u64 {
        let mut queue = self.queue.lock();
        queue.client += 1;
        queue.detached_since_ms = None;
        let client = queue.client;
        drop(queue);
        self.changed.notify_waiters();
        client
    }

    /// A client went away. Returns whether it was the one that got responses.
    pub(super) fn detach(&self, client: u64, now_ms: i64) -> bool {
        let mut queue = self.queue.lock();
        let current = queue.client == client;
        if current {
            queue.detached_since_ms = Some(now_ms);
        }
        current
    }

    /// Since when no client is there, if one was there before.
    pub(super) fn detached_since_ms(&self) -> Option<i64> {
        self.queue.lock().detached_since_ms
    }

    /// Waits for what comes at a position.
    pub(super) async fn next(&self, client: u64, position: u64) -> Next {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(next) = self.take(client, position) {
                return next;
            }
            changed.await;
        }
    }

    fn take(&self, client: u64, position: u64) -> Option<Next> {
        let mut queue = self.queue.lock();
        if queue.client != client {
            return Some(Next::Replaced);
        }
        if position >= queue.end_number() {
            return queue.end.clone().map(Next::End);
        }
        let Some(index) = position.checked_sub(queue.first).and_then(|index| usize::try_from(index).ok()) else { return Some(Next::Gone) };
        if !self.reattachable {
            let (bytes, response) = queue.responses.pop_front()?;
            queue.bytes_waiting = queue.bytes_waiting.saturating_sub(bytes);
            queue.first += 1;
            queue.sent = queue.first;
            drop(queue);
            self.taken.notify_waiters();
            return Some(Next::Response(Box::new(response)));
        }
        let (bytes, response) = queue.responses.get(index).cloned()?;
        if position >= queue.sent {
            queue.sent = position + 1;
            queue.bytes_waiting = queue.bytes_waiting.saturating_sub(bytes);
            queue.bytes_kept += bytes;
            // The newest one stays in any case: the client has no other way to get it again.
            while queue.bytes_kept > MOST_KEPT && queue.first + 1 < queue.sent {
                queue.drop_first();
            }
        }
        drop(queue);
        self.taken.notify_waiters();
        Some(Next::Response(Box::new(response)))
    }

    /// Forgets the responses up to the one of that id. One that is not known is ignored: it was released before.
    pub(super) fn release_until(&self, response_id: &str) {
        let Cursor::At(next) = self.after(response_id) else { return };
        let mut queue = self.queue.lock();
        while queue.first < next && !queue.responses.is_empty() {
            queue.drop_first();
        }
        drop(queue);
        self.taken.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(bytes: usize) -> ExecutePlanResponse {
        ExecutePlanResponse { session_id: "x".repeat(bytes), ..ExecutePlanResponse::default() }
    }

    async fn id_at(responses: &Responses, client: u64, position: u64) -> Option<String> {
        match responses.next(client, position).await {
            Next::Response(response) => Some(response.response_id),
            _ => None,
        }
    }

    #[tokio::test]
    async fn a_client_that_comes_back_goes_on_where_it_was() {
        let responses = Responses::new("op".into(), true);
        for _ in 0..3 {
            responses.push(response(1)).await;
        }
        responses.finish(End::Complete);
        let first = responses.attach();
        assert_eq!(id_at(&responses, first, 0).await.as_deref(), Some("op.0"));
        assert_eq!(id_at(&responses, first, 1).await.as_deref(), Some("op.1"));
        let second = responses.attach();
        assert!(matches!(responses.next(first, 2).await, Next::Replaced));
        assert_eq!(responses.after("op.0"), Cursor::At(1));
        assert_eq!(id_at(&responses, second, 1).await.as_deref(), Some("op.1"));
        responses.release_until("op.1");
        assert!(matches!(responses.next(second, 0).await, Next::Gone));
        assert_eq!(id_at(&responses, second, 2).await.as_deref(), Some("op.2"));
        assert!(matches!(responses.next(second, 3).await, Next::End(End::Complete)));
        assert_eq!(responses.after("op.3"), Cursor::Unknown);
        assert_eq!(responses.after("other.0"), Cursor::Unknown);
    }

    #[tokio::test]
    async fn who_sees_the_last_response_sees_the_end() {
        let responses = Responses::new("op".into(), true);
        let client = responses.attach();
        responses.push(response(1)).await;
        assert!(id_at(&responses, client, 0).await.is_some() && responses.end().is_none());
        responses.push_last(response(1)).await;
        assert!(matches!(responses.end(), Some(End::Complete)));
        assert_eq!(id_at(&responses, client, 1).await.as_deref(), Some("op.1"));
        assert!(matches!(responses.next(client, 2).await, Next::End(End::Complete)));
    }

    #[tokio::test]
    async fn what_is_not_taken_holds_the_operation_back() {
        let responses = Responses::new("op".into(), false);
        responses.push(response(MOST_WAITING)).await;
        let mut second = pin!(responses.push(response(1)));
        assert!(futures::poll!(second.as_mut()).is_pending());
        let client = responses.attach();
        assert!(matches!(responses.next(client, 0).await, Next::Response(_)));
        second.await;
        assert_eq!(id_at(&responses, client, 1).await.as_deref(), Some("op.1"));
    }

    #[tokio::test]
    async fn sent_responses_are_kept_up_to_a_limit() {
        let responses = Responses::new("op".into(), true);
        let client = responses.attach();
        for position in 0..5 {
            responses.push(response(MOST_KEPT / 4)).await;
            assert!(id_at(&responses, client, position).await.is_some());
        }
        assert!(matches!(responses.next(client, 0).await, Next::Gone));
        assert!(id_at(&responses, client, 4).await.is_some() && id_at(&responses, client, 2).await.is_some());
    }
}
