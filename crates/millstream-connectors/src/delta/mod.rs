//! Delta Lake: tables as sinks, as streaming sources, as tables read whole, and as tables that are changed row by row.
//!
//! Single commits are read and written here directly, one request each; snapshots, file lists and log checkpoints come from the Delta
//! kernel that delta-rs is built on. Both go through the stores that [`Storage`](crate::storage::Storage) opens.

mod actions;
mod alter;
mod bounds;
mod change_feed;
mod changes;
mod checkpoint;
mod convert;
mod data_file;
mod definition;
mod file_table;
mod head;
mod history;
mod log;
mod offset;
mod options;
mod partition;
mod plan;
mod protocol;
mod publish;
mod restore;
mod schema;
mod sink;
mod snapshot;
mod source;
mod split;
mod stats;
mod table;
mod transaction;
mod vacuum;
mod versioned;
mod walk;
mod watch;
mod writer;

pub use actions::Protocol;
pub use sink::{DeltaSink, DeltaSinkProvider};
pub use source::{DeltaSource, DeltaSourceProvider};
pub use table::{DeltaTable, TableInfo, table_history, table_info};
pub use versioned::DeltaTables;

#[cfg(test)]
mod tests;
