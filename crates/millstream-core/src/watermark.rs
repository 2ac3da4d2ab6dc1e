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
    nodes: Vec<Node>,
    current: Watermarks,
    /// How long a node may be without rows before it no longer holds the others back, milliseconds; `None` for ever, as in Spark.
    idle_timeout_ms: Option<i64>,
}

/// What is known of one watermark node.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    watermark_ms: i64,
    /// The time of the last batch that had rows for it, or of the first batch of this run.
    active_ms: Option<i64>,
    idle: bool,
}

impl Tracker {
    /// A tracker for nodes with these delays (milliseconds), going on from `current`.
    pub fn new(policy: Policy, delays_ms: Vec<i64>, current: Watermarks) -> Self {
        let nodes = vec![Node::default(); delays_ms.len()];
        Tracker { policy, delays_ms, nodes, current, idle_timeout_ms: None }
    }

    /// The same, in which nodes without rows for this long (milliseconds) no longer hold the watermark back. Their rows may be late when they
    /// come.
    #[must_use]
    pub fn with_idle_timeout(self, timeout_ms: Option<i64>) -> Self {
        Tracker { idle_timeout_ms: timeout_ms, ..self }
    }

    /// The same, going on from the watermarks of nodes that an earlier run had. Spark forgets them, and starts nodes from 0.
    #[must_use]
    pub fn with_nodes(mut self, watermarks_ms: &[i64]) -> Self {
        if watermarks_ms.len() == self.nodes.len() {
            for (node, watermark_ms) in self.nodes.iter_mut().zip(watermarks_ms) {
                node.watermark_ms = *watermark_ms;
            }
        }
        self
    }

    /// The watermarks of the batch that runs now.
    pub fn current(&self) -> Watermarks {
        self.current
    }

    /// The watermark of each node.
    pub fn nodes_ms(&self) -> Vec<i64> {
        self.nodes.iter().map(|node| node.watermark_ms).collect()
    }

    /// The numbers of the nodes that have been without rows for too long.
    pub fn idle(&self) -> Vec<usize> {
        self.nodes.iter().enumerate().filter(|(_, node)| node.idle).map(|(number, _)| number).collect()
    }

    /// The watermark that the next batch will use, given the largest event time (microseconds) that each node saw in this batch, whose time
    /// is `now_ms`.
    pub fn observe(&mut self, max_event_time_us: &[Option<i64>], now_ms: i64) -> i64 {
        for (number, node) in self.nodes.iter_mut().enumerate() {
            let active_ms = *node.active_ms.get_or_insert(now_ms);
            if let Some(max) = max_event_time_us.get(number).copied().flatten() {
                let delay = self.delays_ms.get(number).copied().unwrap_or(0);
                node.watermark_ms = node.watermark_ms.max(max.div_euclid(1_000).saturating_sub(delay));
                (node.active_ms, node.idle) = (Some(now_ms), false);
            } else {
                node.idle = self.idle_timeout_ms.is_some_and(|timeout| now_ms.saturating_sub(active_ms) >= timeout);
            }
        }
        // When all are idle there is none to follow.
        let awake = self.nodes.iter().filter(|node| !node.idle).map(|node| node.watermark_ms);
        let global = match self.policy {
            Policy::Min => awake.min(),
            Policy::Max => awake.max(),
        };
        self.current.evict_ms.max(global.unwrap_or(0))
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
            let next = tracker.observe(&[Some(max_s * 1_000_000)], 0);
            tracker.advance(next);
        }
        let pairs: Vec<_> = seen.iter().map(|w| (w.late_ms, w.evict_ms)).collect();
        assert_eq!(pairs, [(0, 0), (0, 5_000), (5_000, 15_000)]);
    }

    #[test]
    fn one_silent_node_holds_the_minimum_and_not_the_maximum() {
        for (policy, expected) in [(Policy::Min, 0), (Policy::Max, 50_000)] {
            let mut tracker = Tracker::new(policy, vec![10_000, 10_000], Watermarks::default());
            assert_eq!(tracker.observe(&[Some(60_000_000), None], 0), expected);
        }
    }

    #[test]
    fn a_delay_beyond_the_data_does_not_go_below_zero() {
        let mut tracker = Tracker::new(Policy::Min, vec![60_000], Watermarks::default());
        assert_eq!(tracker.observe(&[Some(1_000_000)], 0), 0);
    }

    #[test]
    fn an_idle_node_holds_the_others_back_until_its_timeout_and_again_when_it_has_rows() {
        for (timeout, expected) in
            [(None, [10_000, 10_000, 10_000, 10_000, 90_000]), (Some(60_000), [10_000, 10_000, 30_000, 30_000, 90_000])]
        {
            let mut tracker = Tracker::new(Policy::Min, vec![0, 0], Watermarks::default()).with_idle_timeout(timeout);
            let batches = [(0, 20, Some(10)), (59, 25, None), (60, 30, None), (61, 40, Some(5)), (62, 100, Some(90))];
            let mut seen = Vec::new();
            for (now_s, first_s, second_s) in batches {
                let maxima = [Some(first_s * 1_000_000), second_s.map(|second: i64| second * 1_000_000)];
                let next = tracker.observe(&maxima, now_s * 1_000);
                tracker.advance(next);
                seen.push(next);
                assert_eq!(tracker.idle(), if timeout.is_some() && now_s == 60 { vec![1] } else { vec![] }, "{now_s}");
            }
            assert_eq!(seen, expected, "{timeout:?}");
        }
    }

    #[test]
    fn nodes_go_on_where_they_were_only_if_they_are_the_same() {
        for (nodes, expected) in [(vec![], 0), (vec![50_000, 70_000], 60_000), (vec![50_000], 0)] {
            let mut tracker = Tracker::new(Policy::Min, vec![0, 0], Watermarks::default()).with_nodes(&nodes);
            assert_eq!(tracker.observe(&[Some(60_000_000), None], 0), expected, "{nodes:?}");
        }
    }

    proptest! {
        #[test]
        fn watermarks_never_go_back(maxima in prop::collection::vec(prop::option::of(any::<i64>()), 1..50), delay in 0i64..1_000_000) {
            let mut tracker = Tracker::new(Policy::Min, vec![delay], Watermarks::default());
            for max in maxima {
                let before = tracker.current();
                let next = tracker.observe(&[max], 0);
                tracker.advance(next);
                prop_assert!(tracker.current().evict_ms >= before.evict_ms);
                prop_assert_eq!(tracker.current().late_ms, before.evict_ms);
            }
        }
    }
}
