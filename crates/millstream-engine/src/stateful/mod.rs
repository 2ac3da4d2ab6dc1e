//! Event time and operators that keep state from batch to batch.
//!
//! Five operators have logical nodes of their own: [`Watermark`], [`Deduplicate`], [`SlidingWindow`], [`SessionWindow`] and [`Arbitrary`]. Aggregations, joins, limits and
//! `DISTINCT` are DataFusion's own nodes, and keep state when their input is a stream.
//!
//! A column is event time where its field has the metadata [`WATERMARK_DELAY`]. DataFusion carries a field's metadata through columns and
//! aliases, and the struct column `{start, end}` of a time window carries it as well.
//!
//! Below the planner every operator is a [`Core`](operator::Core) in an [`Operator`](operator::Operator), run by one kind of plan node and
//! keeping its state in [tables](table).

mod accumulate;
mod aggregate;
pub mod arbitrary;
mod bind;
mod compatibility;
mod deduplicate;
mod durability;
mod event_time;
mod exchange;
mod exec;
mod fingerprint;
mod flow;
mod join;
mod lateness;
mod limit;
mod lineage;
mod logical;
mod operator;
mod planner;
mod refuse;
mod rewrite;
mod session;
mod sliding;
mod table;

use arrow::array::{Array, BooleanArray, Int64Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::min;
use millstream_core::watermark::Watermarks;

pub(crate) use bind::{Bind, unread_inputs};
pub(crate) use compatibility::OperatorFacts;
pub(crate) use durability::{BatchChanges, OPERATORS, SnapshotRules, StateLog, Uploaded, changes, upload};
pub(crate) use fingerprint::Fingerprint;
pub use fingerprint::{ACCEPTABLE_CHANGES, ChangePolicy};
pub(crate) use flow::TimeFlow;
pub(crate) use join::bounds::join_is_bounded;
pub(crate) use lateness::{LateRows, late_origins, late_rows_schema};
pub(crate) use logical::Program;
pub use logical::{
    Arbitrary, Deduplicate, ExceptAllRows, SessionWindow, Slide, SlidingWindow, WATERMARK_DELAY, Watermark, delay_ms, event_time_delay,
};
pub(crate) use planner::StatefulPlanner;
pub(crate) use rewrite::{allowed, parts, rewrite};
pub(crate) use table::Placement;

/// The time of a batch query, in which nothing is late and nothing leaves.
pub(crate) const BEGINNING: Watermarks = Watermarks { late_ms: i64::MIN, evict_ms: i64::MIN };

/// Milliseconds in microseconds, the unit of event time.
fn micros(ms: i64) -> i64 {
    ms.saturating_mul(1_000)
}

/// Encoded rows as bytes.
fn slices<T: AsRef<[u8]>>(rows: &[T]) -> impl Iterator<Item = &[u8]> {
    rows.iter().map(AsRef::as_ref)
}

/// Which rows of a batch are late.
struct Late {
    /// The rows that are not.
    kept: BooleanArray,
    count: usize,
}

impl Late {
    /// Those of these event times (microseconds) that the watermark had passed, `None` where there are none. A row without event time is
    /// never late.
    fn among(times: &Int64Array, time: Watermarks) -> Option<Late> {
        let bound = micros(time.late_ms);
        if min(times).is_none_or(|earliest| earliest > bound) {
            return None;
        }
        let kept = BooleanBuffer::collect_bool(times.len(), |row| times.is_null(row) || times.value(row) > bound);
        let count = kept.len() - kept.count_set_bits();
        Some(Late { kept: BooleanArray::new(kept, None), count })
    }

    fn is(&self, row: usize) -> bool {
        !self.kept.value(row)
    }
}
