//! Every outside system that Millstream reads or writes. One folder per connector, the same file names in each; all meet the engine only
//! through the traits of `millstream-core`.

pub mod console;
pub mod delta;
pub mod files;
pub mod formats;
pub mod kafka;
pub mod memory;
pub mod noop;
pub mod rate;
pub mod rate_micro_batch;
pub mod socket;
pub mod storage;
