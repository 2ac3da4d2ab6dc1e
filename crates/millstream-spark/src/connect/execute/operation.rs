//! Operations: what a session runs for its client now, and what it remembers of those that ended.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use millstream_core::{Error, Result};
use parking_lot::Mutex;
use spark_connect_proto::get_status_response::operation_status::OperationState;
use tokio_util::sync::CancellationToken;

use super::responses::{End, Responses};
use crate::connect::errors::invalid_handle;
use crate::connect::sessions::milliseconds;

/// Ended operations that are remembered.
const REMEMBERED: usize = 1_000;

/// An operation.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) id: String,
    pub(super) tags: Vec<String>,
    pub(super) reattachable: bool,
    /// Tells a repeated request from another one of the same id.
    pub(super) plan_bytes: usize,
    pub(super) responses: Responses,
    pub(super) cancel: CancellationToken,
}

impl Operation {
    fn state(&self) -> OperationState {
        match self.responses.end() {
            Some(End::Complete) => OperationState::Succeeded,
            Some(End::Failed(_)) if self.cancel.is_cancelled() => OperationState::Cancelled,
            Some(End::Failed(_)) => OperationState::Failed,
            None if self.cancel.is_cancelled() => OperationState::Terminating,
            None => OperationState::Running,
        }
    }

    fn is_running(&self) -> bool {
        self.responses.end().is_none()
    }
}

/// The operations of a session.
#[derive(Debug, Default)]
pub(in crate::connect) struct Operations(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    open: HashMap<String, Arc<Operation>>,
    /// Released or abandoned, oldest first, with what became of them.
    ended: VecDeque<(String, OperationState)>,
}

impl State {
    fn remove(&mut self, id: &str) -> Option<Arc<Operation>> {
        let operation = self.open.remove(id)?;
        operation.cancel.cancel();
        if self.ended.len() >= REMEMBERED {
            self.ended.pop_front();
        }
        self.ended.push_back((id.to_owned(), operation.state()));
        Some(operation)
    }

    fn remembered(&self, id: &str) -> Option<OperationState> {
        self.ended.iter().rev().find(|(known, _)| known == id).map(|(_, state)| *state)
    }
}

/// What a request to execute leads to.
#[derive(Debug)]
pub(super) enum Admitted {
    /// It is new, and has to be run.
    New(Arc<Operation>),
    /// The client repeats a request, because it does not know whether the first one arrived.
    Known(Arc<Operation>),
}

impl Operations {
    /// Adds an operation.
    ///
    /// # Errors
    /// `INVALID_HANDLE.OPERATION_ALREADY_EXISTS` for the id of a running operation of another plan, `.OPERATION_ABANDONED` for the id of one
    /// that ended.
    pub(super) fn admit(&self, operation: Operation) -> Result<Admitted> {
        let mut state = self.0.lock();
        if let Some(known) = state.open.get(&operation.id) {
            if known.reattachable && operation.reattachable && known.plan_bytes == operation.plan_bytes {
                return Ok(Admitted::Known(known.clone()));
            }
            return Err(invalid_handle("OPERATION_ALREADY_EXISTS", &operation.id, "Operation already exists."));
        }
        if state.remembered(&operation.id).is_some() {
            return Err(abandoned(&operation.id));
        }
        let operation = Arc::new(operation);
        state.open.insert(operation.id.clone(), operation.clone());
        Ok(Admitted::New(operation))
    }

    /// A running or finished operation that was not released.
    ///
    /// # Errors
    /// `INVALID_HANDLE.OPERATION_NOT_FOUND` and `.OPERATION_ABANDONED`.
    pub(super) fn find(&self, id: &str) -> Result<Arc<Operation>> {
        let state = self.0.lock();
        match state.open.get(id) {
            Some(operation) => Ok(operation.clone()),
            None if state.remembered(id).is_some() => Err(abandoned(id)),
            None => Err(invalid_handle("OPERATION_NOT_FOUND", id, "Operation not found.")),
        }
    }

    /// Forgets an operation and stops it if it runs; says whether there was one.
    pub(super) fn release(&self, id: &str) -> bool {
        self.0.lock().remove(id).is_some()
    }

    /// Forgets the responses of an operation up to the one of that id; says whether there is such an operation.
    pub(super) fn release_until(&self, id: &str, response_id: &str) -> bool {
        let operation = self.0.lock().open.get(id).cloned();
        operation.is_some_and(|operation| {
            operation.responses.release_until(response_id);
            true
        })
    }

    /// Stops the running operations that `which` picks, and gives their ids.
    pub(super) fn interrupt(&self, which: impl Fn(&Operation) -> bool) -> Vec<String> {
        let state = self.0.lock();
        let picked = state.open.values().filter(|operation| operation.is_running() && which(operation));
        picked
            .map(|operation| {
                operation.cancel.cancel();
                operation.id.clone()
            })
            .collect()
    }

    /// The states of some operations, or of all that are known.
    pub(super) fn states(&self, ids: &[String]) -> Vec<(String, OperationState)> {
        let state = self.0.lock();
        if ids.is_empty() {
            let open = state.open.values().map(|operation| (operation.id.clone(), operation.state()));
            return open.chain(state.ended.iter().cloned()).collect();
        }
        let of = |id: &String| state.open.get(id).map(|operation| operation.state()).or_else(|| state.remembered(id));
        ids.iter().map(|id| (id.clone(), of(id).unwrap_or(OperationState::Unknown))).collect()
    }

    /// Whether an operation runs.
    pub(in crate::connect) fn any_running(&self) -> bool {
        self.0.lock().open.values().any(|operation| operation.is_running())
    }

    /// Forgets the operations whose client went away longer ago than `patience`.
    pub(in crate::connect) fn abandon_detached(&self, now_ms: i64, patience: Duration) {
        let mut state = self.0.lock();
        let patience = milliseconds(patience);
        let since = |operation: &Operation| operation.responses.detached_since_ms();
        let late = |operation: &Operation| since(operation).is_some_and(|since| now_ms.saturating_sub(since) > patience);
        let ids: Vec<String> = state.open.values().filter(|operation| late(operation)).map(|operation| operation.id.clone()).collect();
        for id in ids {
            state.remove(&id);
        }
    }

    /// Stops and forgets every operation.
    pub(in crate::connect) fn cancel_all(&self) {
        let mut state = self.0.lock();
        let ids: Vec<String> = state.open.keys().cloned().collect();
        for id in ids {
            state.remove(&id);
        }
    }
}

fn abandoned(id: &str) -> Error {
    invalid_handle("OPERATION_ABANDONED", id, "Operation was considered abandoned because of inactivity and removed.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(id: &str, tag: &str, plan_bytes: usize) -> Operation {
        Operation {
            id: id.to_owned(),
            tags: vec![tag.to_owned()],
            reattachable: true,
            plan_bytes,
            responses: Responses::new(id.to_owned(), true),
            cancel: CancellationToken::new(),
        }
    }

    #[test]
    fn a_repeated_request_is_recognised_and_another_one_refused() {
        let operations = Operations::default();
        assert!(matches!(operations.admit(operation("a", "t", 1)), Ok(Admitted::New(_))));
        assert!(matches!(operations.admit(operation("a", "t", 1)), Ok(Admitted::Known(_))));
        assert_eq!(operations.admit(operation("a", "t", 2)).unwrap_err().code(), "INVALID_HANDLE.OPERATION_ALREADY_EXISTS");
        assert!(operations.release("a") && !operations.release("a"));
        assert_eq!(operations.admit(operation("a", "t", 1)).unwrap_err().code(), "INVALID_HANDLE.OPERATION_ABANDONED");
        assert_eq!(operations.find("b").unwrap_err().code(), "INVALID_HANDLE.OPERATION_NOT_FOUND");
    }

    #[test]
    fn interrupting_picks_running_operations() {
        let operations = Operations::default();
        for (id, tag) in [("a", "x"), ("b", "y"), ("c", "x")] {
            operations.admit(operation(id, tag, 1)).unwrap();
        }
        operations.find("c").unwrap().responses.finish(End::Complete);
        assert_eq!(operations.interrupt(|operation| operation.tags.contains(&"x".to_owned())), ["a"]);
        let states = operations.states(&["a".to_owned(), "c".to_owned(), "z".to_owned()]);
        let states: Vec<OperationState> = states.into_iter().map(|(_, state)| state).collect();
        assert_eq!(states, [OperationState::Terminating, OperationState::Succeeded, OperationState::Unknown]);
    }

    #[test]
    fn operations_without_a_client_are_forgotten_after_a_while() {
        let operations = Operations::default();
        operations.admit(operation("a", "t", 1)).unwrap();
        let attached = operations.find("a").unwrap();
        let client = attached.responses.attach();
        let patience = Duration::from_secs(2);
        operations.abandon_detached(9_000, patience);
        assert!(operations.find("a").is_ok());
        attached.responses.detach(client, 1_000);
        operations.abandon_detached(3_000, patience);
        assert!(operations.find("a").is_ok());
        operations.abandon_detached(3_001, patience);
        assert!(attached.cancel.is_cancelled() && operations.find("a").is_err());
    }
}
