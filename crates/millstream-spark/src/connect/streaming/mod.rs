//! Streaming queries of a session: starting them, asking them, telling listeners about them.

mod destination;
mod extensions;
mod failure;
mod flow;
mod foreach;
mod foreach_batch;
mod listeners;
mod location;
mod manager;
mod progress;
mod queries;
mod query;
mod reader;
pub(super) mod spool;
mod start;
mod state_settings;
mod table;
mod trigger;

use std::sync::Arc;

use super::session::ConnectSession;
use queries::Queries;

pub use extensions::QUERY_OPTIONS;
pub(super) use flow::{FlowDestination, FlowQuery, failed, start_flow};
pub(super) use listeners::listener_bus;
pub(super) use manager::manager_command;
pub(super) use query::query_command;
pub(crate) use reader::request;
pub(super) use start::start;

/// Whether queries of the session run: such a session does not expire.
pub(super) fn is_busy(session: &ConnectSession) -> bool {
    session.part::<Queries>().any_active()
}

/// Stops the queries of a session that ends, and its listeners.
pub(super) async fn close(session: &Arc<ConnectSession>) {
    let queries = session.part::<Queries>();
    queries.stop_all().await;
    queries.bus().remove();
}

#[cfg(test)]
pub(super) mod tests;
