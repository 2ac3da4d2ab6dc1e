//! The logical nodes of event time and state.

mod arbitrary;
mod deduplicate;
mod except_all;
mod limit;
mod session_window;
mod sliding_window;
mod watermark;

use arrow::datatypes::Field;

pub use arbitrary::Arbitrary;
pub(crate) use arbitrary::Program;
pub use deduplicate::Deduplicate;
pub use except_all::ExceptAllRows;
pub(crate) use limit::StreamLimit;
pub use session_window::SessionWindow;
pub use sliding_window::{Slide, SlidingWindow};
pub(crate) use watermark::marked;
pub use watermark::{Watermark, delay_ms};

/// The metadata key of an event-time column; its value is the delay of its watermark in milliseconds.
///
/// An empty value takes the meaning away again: DataFusion's aliases can add metadata and cannot remove it.
pub const WATERMARK_DELAY: &str = "spark.watermarkDelayMs";

/// The delay in milliseconds of the watermark on this column, `None` where it is not event time.
pub fn event_time_delay(field: &Field) -> Option<i64> {
    field.metadata().get(WATERMARK_DELAY).and_then(|delay| delay.parse().ok())
}

#[cfg(test)]
mod tests;
