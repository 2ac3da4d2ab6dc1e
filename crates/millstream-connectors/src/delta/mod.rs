//! Delta Lake: tables as sinks, as streaming sources and as tables read whole.
//!
//! Single commits are read and written here directly, one request each; snapshots, file lists and log checkpoints come from the Delta
//! kernel that delta-rs is built on. Both go through the stores that [`Storage`](crate::storage::Storage) opens.

mod actions;
mod changes;
mod checkpoint;
mod convert;
mod data_file;
mod head;
mod history;
mod log;
mod offset;
mod options;
mod partition;
mod plan;
mod protocol;
mod schema;
mod sink;
mod snapshot;
mod source;
mod split;
mod stats;
mod table;
mod walk;
mod watch;
mod writer;

pub use actions::Protocol;
pub use sink::{DeltaSink, DeltaSinkProvider};
pub use source::{DeltaSource, DeltaSourceProvider};
pub use table::{DeltaTable, HistoryEntry, TableInfo, table_history, table_info};

#[cfg(test)]
mod tests;
