//! When batches run.

use std::time::Duration;

/// How a query is driven.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trigger {
    /// The next batch as soon as there is data.
    #[default]
    Default,
    /// A batch at each multiple of the interval since the epoch; zero is the same as [`Trigger::Default`].
    ProcessingTime(Duration),
    /// One batch, whatever the read limit, and no batch without data after it.
    Once,
    /// As many limited batches as the data present at the start needs, then stop.
    AvailableNow,
}

impl Trigger {
    /// Whether the query ends by itself.
    pub fn is_finite(&self) -> bool {
        matches!(self, Trigger::Once | Trigger::AvailableNow)
    }

    /// Milliseconds to wait at `now_ms` before the next trigger fires, when the previous fired at `previous_ms`.
    ///
    /// Interval triggers fire at multiples of the interval; a batch that overran fires the next one at once (Spark's
    /// `ProcessingTimeExecutor`).
    pub fn delay_ms(&self, previous_ms: Option<i64>, now_ms: i64) -> u64 {
        let Trigger::ProcessingTime(interval) = self else { return 0 };
        let interval = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX);
        let Some(previous) = previous_ms.filter(|_| interval > 0) else { return 0 };
        let due = (previous.div_euclid(interval)).saturating_add(1).saturating_mul(interval);
        u64::try_from(due.saturating_sub(now_ms)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_triggers_fire_at_multiples_and_catch_up_at_once() {
        let trigger = Trigger::ProcessingTime(Duration::from_secs(10));
        for (previous, now, delay) in
            [(None, 12_345, 0), (Some(12_345), 12_400, 7_600), (Some(20_000), 20_000, 10_000), (Some(12_345), 27_000, 0)]
        {
            assert_eq!(trigger.delay_ms(previous, now), delay, "{previous:?} {now}");
        }
        assert_eq!(Trigger::ProcessingTime(Duration::ZERO).delay_ms(Some(5), 5), 0);
        assert_eq!(Trigger::Default.delay_ms(Some(5), 5), 0);
    }
}
