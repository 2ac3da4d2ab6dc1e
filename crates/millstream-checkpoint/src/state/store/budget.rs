//! How much memory the stores of a query may use together.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Memory that the stores of a query share.
#[derive(Debug)]
pub(super) struct Budget {
    limit: u64,
    /// Bytes that rows in memory use, as far as stores have said.
    used: AtomicU64,
    /// Whether RocksDB has its part.
    shared: AtomicBool,
}

impl Budget {
    pub(super) fn new(limit: u64) -> Self {
        Budget { limit, used: AtomicU64::new(0), shared: AtomicBool::new(false) }
    }

    /// The part that RocksDB has for blocks and write buffers.
    pub(super) fn for_disk(&self) -> u64 {
        self.limit / 4
    }

    /// RocksDB takes its part from now on.
    pub(super) fn share_with_disk(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    fn for_rows(&self) -> u64 {
        if self.shared.load(Ordering::Relaxed) { self.limit - self.for_disk() } else { self.limit }
    }

    /// A store uses so many bytes now, and used so many before.
    pub(super) fn report(&self, before: u64, now: u64) {
        self.used.fetch_add(now, Ordering::Relaxed);
        self.used.fetch_sub(before, Ordering::Relaxed);
    }

    /// How many of its bytes a store has to give up: its part of what is too much and a tenth more, so that it is not asked after every batch.
    pub(super) fn excess(&self, own: u64) -> u64 {
        let (used, limit) = (self.used.load(Ordering::Relaxed), self.for_rows());
        if used <= limit {
            return 0;
        }
        let goal = limit - limit / 10;
        let excess = u128::from(used - goal) * u128::from(own) / u128::from(used.max(1));
        u64::try_from(excess).unwrap_or(own).min(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_gives_up_its_part_of_what_is_too_much() {
        let budget = Budget::new(1_000);
        budget.report(0, 800);
        budget.report(0, 200);
        assert_eq!((budget.excess(800), budget.excess(200)), (0, 0));
        budget.report(200, 400);
        assert_eq!((budget.excess(800), budget.excess(400)), (200, 100));
        budget.share_with_disk();
        assert_eq!(budget.excess(1_200), 525);
        assert_eq!(Budget::new(u64::MAX).excess(1 << 50), 0);
    }
}
