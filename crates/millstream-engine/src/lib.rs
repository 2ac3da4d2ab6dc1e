//! How a query runs incrementally: DataFusion plans it once, the batch loop feeds that plan one batch after another, and the checkpoint
//! and the sink make each batch happen exactly once.

pub mod batch_time;
pub mod check;
pub mod custom;
mod datafusion_error;
pub mod expectation;
pub mod inspect;
pub mod memory;
pub mod observe;
pub mod plan;
pub mod prune;
mod pushdown;
pub mod query;
pub mod relation;
pub mod runner;
mod scan;
pub mod session;
pub mod state_source;
pub mod stateful;

pub use datafusion_error::{from_datafusion, to_datafusion};
pub use expectation::{Expectation, OnViolation};
pub use millstream_checkpoint::state::store::StoreKind;
pub use query::{Ownership, QueryEvent, QueryListener, QueryRequest, QuerySettings, QueryStatus, StateSettings, StreamingQuery};
pub use session::{ActiveQueries, Rows, Session, SessionOptions};

#[cfg(test)]
mod tests;
