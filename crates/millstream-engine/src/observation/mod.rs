//! `observe`: aggregates over the rows that pass a place in a plan, known when the rows have passed.

mod exec;
mod node;
mod report;

pub use node::Observe;
pub use report::{Observed, observed};

pub(crate) use exec::ObserveExec;
