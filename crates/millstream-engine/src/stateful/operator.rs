//! What every stateful operator is to the engine: something that takes rows, closes what time has passed, and has tables of state.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result as DfResult};
use futures::future::{BoxFuture, FutureExt};
use millstream_core::Error;
use millstream_core::progress::StateOperatorProgress;
use millstream_core::watermark::Watermarks;
use parking_lot::Mutex;

use super::refuse::RefuseCore;
use super::table::{StateTable, TableSchema};
use crate::to_datafusion;

/// The work of one operator: never waits, and says what it has as soon as it has it.
///
/// A batch pushes all its rows and then finishes; a query that runs continuously can push for as long as an epoch lasts.
pub(crate) trait Core: Debug + Send {
    /// Starts the batch of this number.
    fn begin(&mut self, _: u64) {}

    /// Whether the batch that has begun needs the rows of the input at this index.
    fn reads(&self, _: usize) -> bool {
        true
    }

    /// Takes rows of the input at this index; `emit` is given what can leave at once.
    ///
    /// # Errors
    /// Those of expressions, and of the state store.
    fn push(&mut self, input: usize, rows: &RecordBatch, time: Watermarks, emit: &mut dyn FnMut(RecordBatch)) -> DfResult<()>;

    /// Ends the batch: state that time has passed leaves, and `emit` is given the rest of the output.
    ///
    /// # Errors
    /// As [`Core::push`].
    fn finish(&mut self, time: Watermarks, emit: &mut dyn FnMut(RecordBatch)) -> DfResult<()>;

    /// Ends the batch, for a core that waits for another process. Others end as [`Core::finish`] says.
    fn finish_waiting<'a>(&'a mut self, time: Watermarks, emit: &'a mut (dyn FnMut(RecordBatch) + Send)) -> BoxFuture<'a, DfResult<()>> {
        async move { self.finish(time, emit) }.boxed()
    }

    /// What the batch did so far.
    fn counts(&self) -> Counts;

    /// Rows in state, as Spark counts them.
    fn rows(&mut self) -> u64 {
        self.tables().iter().map(|table| table.len()).sum()
    }

    /// Further counts of the batch, under Spark's names.
    fn metrics(&mut self) -> BTreeMap<String, i64> {
        BTreeMap::new()
    }

    /// The tables, always in the same order.
    fn tables(&mut self) -> Vec<&mut StateTable>;

    /// Tells what the state that was loaded means, by [`Description::variant`] of the operator that wrote it.
    fn adopt(&mut self, variant: &str) {
        let _ = variant;
    }

    /// Keeps a table of the checkpoint that is none of this core's. Says whether it does.
    fn keep(&mut self, _: TableSchema) -> DfResult<bool> {
        Ok(false)
    }

    /// The input watermark of operators above, given this one's input watermark, milliseconds; `None` when its rows are not in event time.
    fn output_watermark(&self, input_ms: i64) -> Option<i64> {
        Some(input_ms)
    }

    /// Whether a batch without data would do something, now that the input watermark has moved.
    fn wants_time_to_pass(&self) -> bool {
        true
    }

    /// When a batch without data would do something because of the time of the batch, milliseconds.
    fn due_ms(&self) -> Option<i64> {
        None
    }
}

/// What an operator did in a batch, as Spark counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Rows put into state.
    pub(crate) updated: u64,
    /// Rows removed from state.
    pub(crate) removed: u64,
    /// Rows (groups, for aggregations) left out because they were late.
    pub(crate) late: u64,
}

/// What an operator is, for telling whether state in a checkpoint is this operator's.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    /// Spark's name.
    pub(crate) name: &'static str,
    /// Its tables.
    pub(crate) tables: Vec<TableSchema>,
    /// What else changes the meaning of its state.
    pub(crate) variant: String,
    /// State stores per partition that Spark would have.
    pub(crate) stores: u64,
}

/// Makes a core with empty state.
pub(crate) type NewCore = dyn Fn() -> DfResult<Box<dyn Core>> + Send + Sync;

/// An operator of a query: lives as long as the query, while its plan is reset for every batch.
pub(crate) struct Operator {
    pub(crate) description: Description,
    new: Box<NewCore>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    core: Box<dyn Core>,
    time: Watermarks,
    finished: bool,
}

impl Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operator").field("name", &self.description.name).finish_non_exhaustive()
    }
}

impl Operator {
    /// An operator with empty state.
    pub(crate) fn new(description: Description, new: Box<NewCore>) -> DfResult<Arc<Self>> {
        let core = new()?;
        let state = Mutex::new(State { core, time: Watermarks::default(), finished: true });
        Ok(Arc::new(Operator { description, new, state }))
    }

    /// A core of this kind with empty state, for making a snapshot from changes.
    pub(crate) fn empty_core(&self) -> DfResult<Box<dyn Core>> {
        (self.new)()
    }

    /// Starts the batch of this number.
    pub(crate) fn begin(&self, time: Watermarks, batch: u64) {
        let mut state = self.state.lock();
        state.time = time;
        state.finished = false;
        state.core.begin(batch);
    }

    /// Whether the batch needs the rows of an input.
    pub(crate) fn reads(&self, input: usize) -> bool {
        self.state.lock().core.reads(input)
    }

    /// Takes rows of an input.
    pub(crate) fn push(&self, input: usize, rows: &RecordBatch, out: &mut Vec<RecordBatch>) -> DfResult<()> {
        let mut state = self.state.lock();
        let time = state.time;
        state.core.push(input, rows, time, &mut |rows| out.push(rows))
    }

    /// Ends the batch. A core that is dropped while it waits takes its state with it, and the query has ended.
    pub(crate) async fn finish(&self, out: &mut Vec<RecordBatch>) -> DfResult<()> {
        let (mut core, time) = {
            let mut state = self.state.lock();
            let away = RefuseCore { code: "INTERNAL_ERROR", message: format!("the state of {} is in use", self.description.name) };
            (std::mem::replace(&mut state.core, Box::new(away)), state.time)
        };
        let finished = core.finish_waiting(time, &mut |rows| out.push(rows)).await;
        let mut state = self.state.lock();
        state.core = core;
        state.finished = finished.is_ok();
        finished
    }

    /// Checks that the batch reached this operator to its end: a plan that stops early must not lose state.
    pub(crate) fn ensure_finished(&self) -> DfResult<()> {
        if self.state.lock().finished {
            return Ok(());
        }
        let name = self.description.name;
        Err(to_datafusion(Error::internal(format!("the operator {name} did not see its whole input. Please report this."))))
    }

    pub(crate) fn output_watermark(&self, input_ms: i64) -> Option<i64> {
        self.state.lock().core.output_watermark(input_ms)
    }

    /// Whether another batch would do something, were its input watermark `input_ms`.
    pub(crate) fn wants_another_batch(&self, input_ms: i64) -> bool {
        let state = self.state.lock();
        input_ms > state.time.evict_ms && state.core.wants_time_to_pass()
    }

    /// When a batch without data would do something because of the time of the batch, milliseconds.
    pub(crate) fn due_ms(&self) -> Option<i64> {
        self.state.lock().core.due_ms()
    }

    /// Tells what the state that was loaded means.
    pub(crate) fn adopt(&self, variant: &str) {
        self.state.lock().core.adopt(variant);
    }

    /// Works on the core between batches.
    pub(crate) fn with_core<T>(&self, work: impl FnOnce(&mut dyn Core) -> T) -> T {
        work(self.state.lock().core.as_mut())
    }

    /// The report of the batch.
    pub(crate) fn progress(&self, partitions: u64) -> StateOperatorProgress {
        let mut state = self.state.lock();
        let counts = state.core.counts();
        let bytes = state.core.tables().iter().map(|table| table.bytes()).sum();
        StateOperatorProgress {
            operator_name: self.description.name.to_owned(),
            num_rows_total: state.core.rows(),
            num_rows_updated: counts.updated,
            num_rows_removed: counts.removed,
            num_rows_dropped_by_watermark: counts.late,
            memory_used_bytes: bytes,
            num_shuffle_partitions: partitions,
            num_state_store_instances: partitions.saturating_mul(self.description.stores),
            custom_metrics: state.core.metrics(),
            ..StateOperatorProgress::default()
        }
    }
}

/// An error that says that a plan cannot run, found when its first batch does.
pub(crate) fn refused(code: &'static str, message: impl Into<String>) -> DataFusionError {
    to_datafusion(Error::invalid(code, message))
}
