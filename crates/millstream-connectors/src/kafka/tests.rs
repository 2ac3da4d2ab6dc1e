//! Against librdkafka's own cluster of mock brokers. What it cannot do (retention, transactions, compaction) is in `cargo xtask kafka`,
//! against real ones.

mod reading;
mod refusals;
mod world;
mod writing;
