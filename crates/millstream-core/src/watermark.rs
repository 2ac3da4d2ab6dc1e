//! Watermark bookkeeping: one maximum per `withWatermark` node, one global value per policy, and two values per batch.
//!
//! Rules: `reference/spark-semantics.md` §2. A node that has never seen data contributes 0; the global watermark never goes back; batch N
//! filters late rows with the watermark of batch N−1 and evicts with its own.

use crate::error::{Error, Result};

/// How the watermarks of several nodes become one (`spark.sql.streaming.multipleWatermarkPolicy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The slowest node decides.
    #[default]
    Min,
    /// The fastest node decides.
    Max,
}

impl Policy {
    /// Reads the configuration value.
    ///
    /// # Errors
    /// `INVALID_OPTION_VALUE` for another word than `min` or `max`.
    pub fn parse(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "min" => Ok(Policy::Min),
            "max" => Ok(Policy::Max),
            _ => Err(Error::invalid("INVALID_OPTION_VALUE", format!("'multipleWatermarkPolicy' is '{text}' but takes min or max"))),
        }
    }
}

/// The two watermarks of one batch, milliseconds since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermarks {
    /// Rows at or before this are late: the watermark of the batch before.
    pub late_ms: i64,
    /// State at or before this leaves: the watermark of this batch.
    pub evict_ms: i64,
}

/// Follows the event time of one query.
#[derive(Clone, Debug)]
pub struct Tracker {
    policy: Policy,
    delays_ms: Vec<i64>,
    node_ms: Vec<i64>,
    current: Watermarks,
}

impl Tracker {
    /// A tracker for nodes with these delays (milliseconds), going on from `current`.
    pub fn new(policy: Policy, delays_ms: Vec<i64>, current: Watermarks) -> Self {
        let node_ms = vec![0; delays_ms.len()];
        Tracker { policy, delays_ms, node_ms, current }
    }

    /// The watermarks of the batch that runs now.
    pub fn current(&self) -> Watermarks {
        self.current
    }

    /// The watermark that the next batch will use, given the largest event time (microseconds) that each node saw in this batch.
    pub fn observe(&mut self, max_event_time_us: &[Option<i64>]) -> i64 {
        for (node, max) in self.node_ms.iter_mut().zip(max_event_time_us).enumerate().filter_map(|(i, (node, max))| {
            max.map(|max| (node, max.div_euclid(1_000).saturating_sub(self.delays_ms.get(i).copied().unwrap_or(0))))
        }) {
            *node = (*node).max(max);
        }
        let global = match self.policy {
            Policy::Min => self.node_ms.iter().min(),
            Policy::Max => self.node_ms.iter().max(),
        };
        self.current.evict_ms.max(global.copied().unwrap_or(0))
    }

    /// Goes on to the next batch, which uses `watermark_ms`.
    pub fn advance(&mut self, watermark_ms: i64) {
        self.current = Watermarks { late_ms: self.current.evict_ms, evict_ms: watermark_ms.max(self.current.evict_ms) };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_late_row_counts_until_the_filter_catches_up() {
        let mut tracker = Tracker::new(Policy::Min, vec![0], Watermarks::default());
        let mut seen = Vec::new();
        for max_s in [5, 15, 60] {
            seen.push(tracker.current());
            let next = tracker.observe(&[Some(max_s * 1_000_000)]);
            tracker.advance(next);
        }
        let pairs: Vec<_> = seen.iter().map(|w| (w.late_ms, w.evict_ms)).collect();
        assert_eq!(pairs, [(0, 0), (0, 5_000), (5_000, 15_000)]);
    }

    #[test]
    fn one_silent_node_holds_the_minimum_and_not_the_maximum() {
        for (policy, expected) in [(Policy::Min, 0), (Policy::Max, 50_000)] {
            let mut tracker = Tracker::new(policy, vec![10_000, 10_000], Watermarks::default());
            assert_eq!(tracker.observe(&[Some(60_000_000), None]), expected);
        }
    }

    #[test]
    fn a_delay_beyond_the_data_does_not_go_below_zero() {
        let mut tracker = Tracker::new(Policy::Min, vec![60_000], Watermarks::default());
        assert_eq!(tracker.observe(&[Some(1_000_000)]), 0);
    }

    proptest! {
        #[test]
        fn watermarks_never_go_back(maxima in prop::collection::vec(prop::option::of(any::<i64>()), 1..50), delay in 0i64..1_000_000) {
            let mut tracker = Tracker::new(Policy::Min, vec![delay], Watermarks::default());
            for max in maxima {
                let before = tracker.current();
                let next = tracker.observe(&[max]);
                tracker.advance(next);
                prop_assert!(tracker.current().evict_ms >= before.evict_ms);
                prop_assert_eq!(tracker.current().late_ms, before.evict_ms);
            }
        }
    }
}
