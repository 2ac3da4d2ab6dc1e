//! Event time and operators that keep state from batch to batch.
//!
//! Three operators have logical nodes of their own: [`Watermark`], [`Deduplicate`] and [`SessionWindow`]. Aggregations, joins, limits and
//! `DISTINCT` are DataFusion's own nodes, and keep state when their input is a stream.
//!
//! A column is event time where its field has the metadata [`WATERMARK_DELAY`]. DataFusion carries a field's metadata through columns and
//! aliases, and the struct column `{start, end}` of a time window carries it as well.

mod logical;

pub use logical::{Deduplicate, SessionWindow, WATERMARK_DELAY, Watermark, delay_ms, event_time_delay};
