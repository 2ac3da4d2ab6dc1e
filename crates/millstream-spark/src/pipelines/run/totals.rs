//! What each flow has done so far.

use std::collections::BTreeMap;

use millstream_core::QueryProgress;
use millstream_engine::session::BatchWritten;
use parking_lot::Mutex;

use super::event::Counts;

/// Counts per flow.
#[derive(Debug, Default)]
pub(super) struct Totals(Mutex<BTreeMap<usize, Counts>>);

impl Totals {
    /// Adds a batch of a streaming query.
    pub(super) fn add(&self, flow: usize, progress: &QueryProgress) {
        let mut totals = self.0.lock();
        let counts = totals.entry(flow).or_default();
        counts.batches += 1;
        counts.input_rows += progress.num_input_rows;
        counts.output_rows += u64::try_from(progress.sink.num_output_rows).unwrap_or(0);
        counts.splits += progress.millstream.splits;
        counts.late_rows += progress.millstream.late_rows;
        counts.quarantined += progress.millstream.quarantined;
        for (name, more) in &progress.millstream.expectations {
            let known = counts.expectations.entry(name.clone()).or_default();
            known.passed += more.passed;
            known.failed += more.failed;
        }
    }

    /// Adds a batch that was written whole.
    pub(super) fn add_batch(&self, flow: usize, written: &BatchWritten) {
        let mut totals = self.0.lock();
        let counts = totals.entry(flow).or_default();
        counts.batches += 1;
        counts.input_rows += written.input_rows;
        counts.output_rows += written.committed.rows;
        for (name, more) in &written.expectations {
            let known = counts.expectations.entry(name.clone()).or_default();
            known.passed += more.passed;
            known.failed += more.failed;
        }
    }

    /// What a flow has done.
    pub(super) fn of(&self, flow: usize) -> Counts {
        self.0.lock().get(&flow).cloned().unwrap_or_default()
    }
}
