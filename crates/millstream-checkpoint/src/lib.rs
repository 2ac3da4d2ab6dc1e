//! What a checkpoint directory looks like, and how it stays right whatever happens to the machine.
//!
//! ```text
//! metadata            the query's id
//! offsets/N           what batch N will do, written before it runs
//! commits/N           batch N is done, written after its output is durable
//! sources/<name>/N    what a source must remember per batch, compacted every tenth time
//! epoch/<k>           who opened the checkpoint, in turn: only the newest may write
//! boundary            below which numbers records have been removed
//! state/              files of stateful operators, named by the commit records
//! LOCK                held by the live run, on local disks
//! */.torn/            records that a power cut left incomplete, kept for people
//! ```
//!
//! The first four are Spark's own formats, so that a stateless query started by either program can be resumed by the other.
//! [`Checkpoint`] is the only way in.

mod checkpoint;
mod codec;
mod epoch;
pub mod facts;
mod identity;
mod layout;
mod lock;
mod objects;
mod purge;
pub mod reader;
mod source_log;
pub mod state;
pub mod store;
mod tail;

pub use checkpoint::{BatchRecords, Checkpoint, CheckpointOptions, KEY_GROUPS, StateKind, StopOther};
pub use codec::FACTS;
pub use codec::conf::SPARK_DEFAULTS;
pub use codec::offsets::SOURCES_FIELD;
pub use lock::Holder;

#[cfg(test)]
mod tests;
