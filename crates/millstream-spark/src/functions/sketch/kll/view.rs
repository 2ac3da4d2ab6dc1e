//! Quantiles and ranks.

use super::{Item, KllSketch};

impl<T: Item> KllSketch<T> {
    /// The numbers in order, each with the number of values up to it.
    fn cumulated(&self) -> Vec<(T, u64)> {
        let mut weighted: Vec<(T, u64)> =
            self.levels.iter().enumerate().flat_map(|(level, items)| items.iter().map(move |item| (*item, 1_u64 << level))).collect();
        weighted.sort_by(|left, right| left.0.order(right.0));
        let mut total = 0;
        for (_, weight) in &mut weighted {
            total += *weight;
            *weight = total;
        }
        if let Some((low, high)) = self.range {
            if weighted.first().is_none_or(|(first, _)| *first != low) {
                weighted.insert(0, (low, 1));
            }
            if weighted.last().is_none_or(|(last, _)| *last != high) {
                if let Some((_, weight)) = weighted.last_mut() {
                    *weight = total.saturating_sub(1);
                }
                weighted.push((high, total));
            }
        }
        weighted
    }

    /// The smallest number up to which this part of all values lies; `None` of an empty sketch.
    pub(super) fn quantile(&self, rank: f64) -> Option<T> {
        /// Up to here ranks are rounded before the next whole one is taken.
        const ROUNDING: f64 = 1e7;
        let exact = rank * self.n as f64;
        let rounded = if self.n as f64 <= ROUNDING { (exact * ROUNDING + 0.5).floor() / ROUNDING } else { exact };
        let rank = rounded.ceil();
        let cumulated = self.cumulated();
        let found = cumulated.iter().find(|(_, weight)| *weight as f64 >= rank);
        found.or(cumulated.last()).map(|(item, _)| *item)
    }

    /// Which part of all values lies up to a number; `None` of an empty sketch.
    pub(super) fn rank(&self, item: T) -> Option<f64> {
        self.range?;
        let cumulated = self.cumulated();
        let found = cumulated.iter().rev().find(|(there, _)| !item.below(*there));
        Some(found.map_or(0.0, |(_, weight)| *weight as f64 / self.n as f64))
    }
}
