//! Progress of one trigger from what was counted and measured.

use std::collections::BTreeMap;

use millstream_core::offset::Offset;
use millstream_core::progress::{Extras, QueryProgress, SinkProgress, SourceProgress, StateOperatorProgress, utc_text};
use uuid::Uuid;

use super::batch::{BatchOutcome, BatchRun};
use crate::stateful::{TimeFlow, late_origins};

/// Rows that one source gave to a batch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SourceCount {
    pub(super) rows: u64,
}

/// Measures the phases of a trigger, under Spark's names, and the time spent waiting for durable writes.
pub(super) struct Timer {
    now: Box<dyn Fn() -> u64 + Send + Sync>,
    started: u64,
    lapped: u64,
    waited: u64,
    phases: BTreeMap<String, u64>,
}

impl Timer {
    /// Starts now. `now` gives monotonic nanoseconds.
    pub(super) fn start(now: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        let started = now();
        Timer { now: Box::new(now), started, lapped: started, waited: 0, phases: BTreeMap::new() }
    }

    /// Books the time since the last lap under `phase`.
    pub(super) fn lap(&mut self, phase: &str) {
        let now = (self.now)();
        *self.phases.entry(phase.to_owned()).or_default() += now.saturating_sub(self.lapped);
        self.lapped = now;
    }

    /// Books nanoseconds spent waiting for durable writes.
    pub(super) fn wait(&mut self, nanos: u64) {
        self.waited += nanos;
    }

    fn elapsed(&self) -> u64 {
        (self.now)().saturating_sub(self.started)
    }
}

/// What a report says about a trigger besides the outcome of its batch.
pub(super) struct TriggerFacts<'a> {
    pub(super) run_id: Uuid,
    pub(super) name: Option<&'a str>,
    pub(super) batch_id: u64,
    pub(super) started_ms: i64,
    pub(super) previous_started_ms: Option<i64>,
    pub(super) start: &'a [Option<Offset>],
    pub(super) end: &'a [Option<Offset>],
    /// The watermark of the batch.
    pub(super) watermark_ms: i64,
    /// Spark's shuffle partitions.
    pub(super) partitions: u64,
}

/// The report of a trigger that ran a batch.
pub(super) fn report(run: &BatchRun, facts: &TriggerFacts<'_>, outcome: &BatchOutcome, timer: &Timer) -> QueryProgress {
    let elapsed_ns = timer.elapsed();
    let since_previous_ms = facts.previous_started_ms.map(|previous| facts.started_ms.saturating_sub(previous));
    let input_rate = |rows: u64| since_previous_ms.map_or(0.0, |ms| per_second(rows, ms as f64 / 1e3));
    let processing_rate = |rows: u64| per_second(rows, elapsed_ns as f64 / 1e9);
    let rows = outcome.sources.iter().map(|count| count.rows).sum();
    let mut duration_ms: BTreeMap<String, u64> = timer.phases.iter().map(|(phase, nanos)| (phase.clone(), nanos / 1_000_000)).collect();
    duration_ms.insert("triggerExecution".to_owned(), elapsed_ns / 1_000_000);
    let sources = run.plan.sources.iter().enumerate().map(|(index, bound)| {
        let rows = outcome.sources.get(index).map_or(0, |count| count.rows);
        SourceProgress {
            description: bound.source.description(),
            start_offset: facts.start.get(index).cloned().flatten(),
            end_offset: facts.end.get(index).cloned().flatten(),
            latest_offset: bound.source.reported_latest(),
            num_input_rows: rows,
            input_rows_per_second: input_rate(rows),
            processed_rows_per_second: processing_rate(rows),
            metrics: bound.source.metrics(),
        }
    });
    let num_output_rows = if run.sink.reports_rows() { i64::try_from(outcome.committed.rows).unwrap_or(i64::MAX) } else { -1 };
    QueryProgress {
        id: run.query_id,
        run_id: facts.run_id,
        name: facts.name.map(str::to_owned),
        timestamp: utc_text(facts.started_ms),
        batch_id: facts.batch_id,
        batch_duration: elapsed_ns / 1_000_000,
        num_input_rows: rows,
        input_rows_per_second: input_rate(rows),
        processed_rows_per_second: processing_rate(rows),
        duration_ms,
        event_time: event_time(&run.plan.flow, facts.watermark_ms),
        state_operators: (0..run.plan.flow.operators.len())
            .filter_map(|operator| state_operator(&run.plan.flow, operator, facts))
            .collect(),
        sources: sources.collect(),
        sink: SinkProgress { description: run.sink.description(), num_output_rows, metrics: outcome.committed.metrics.clone() },
        observed_metrics: outcome.observed.clone(),
        millstream: Extras {
            quarantined: outcome.quarantined.values().sum(),
            quarantined_by_reason: outcome.quarantined.clone(),
            splits: outcome.splits,
            late_rows: outcome.lateness.iter().map(|(.., tally)| tally.late).sum(),
            partly_late_rows: outcome.lateness.iter().map(|(.., tally)| tally.partly_late).sum(),
            late_origins: late_origins(&outcome.lateness),
            expectations: outcome.expectations.clone(),
            own_time_us: elapsed_ns.saturating_sub(timer.waited) / 1_000,
            durable_wait_us: timer.waited / 1_000,
            ..Extras::default()
        },
    }
}

/// The report of the operator at this index. How many rows were late is among its metrics, where clients of Spark find it.
fn state_operator(flow: &TimeFlow, operator: usize, facts: &TriggerFacts<'_>) -> Option<StateOperatorProgress> {
    let mut progress = flow.operators.get(operator)?.progress(facts.partitions);
    if let Some(late) = flow.late_rows_of(operator) {
        progress.custom_metrics.insert("lateRows".to_owned(), i64::try_from(late).unwrap_or(i64::MAX));
    }
    Some(progress)
}

/// The watermark used and the event times seen; empty where there is no watermark.
fn event_time(flow: &TimeFlow, watermark_ms: i64) -> BTreeMap<String, String> {
    let mut times = BTreeMap::new();
    if flow.event_times.is_empty() {
        return times;
    }
    if let Some(seen) = flow.seen() {
        times
            .extend([("avg", seen.avg_ms()), ("max", seen.max_ms), ("min", seen.min_ms)].map(|(name, ms)| (name.to_owned(), utc_text(ms))));
    }
    times.insert("watermark".to_owned(), utc_text(watermark_ms));
    times
}

fn per_second(rows: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { rows as f64 / seconds } else { 0.0 }
}
