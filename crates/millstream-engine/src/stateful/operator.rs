//! What every stateful operator is to the engine: something that takes rows, closes what time has passed, and has tables of state.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result as DfResult};
use millstream_core::Error;
use millstream_core::progress::StateOperatorProgress;
use millstream_core::watermark::Watermarks;
use parking_lot::Mutex;

use super::table::{StateTable, TableSchema};
use crate::to_datafusion;

/// The work of one operator: never waits, and says what it has as soon as it has it.
///
/// A batch pushes all its rows and then finishes; a query that runs continuously can push for as long as an epoch lasts.
pub(crate) trait Core: Debug + Send {
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

    /// What the batch did so far.
    fn counts(&self) -> Counts;

    /// The tables, always in the same order.
    fn tables(&mut self) -> Vec<&mut StateTable>;

    /// Rows in state, as Spark would count them.
    fn rows(&mut self) -> u64 {
        self.tables().iter().map(|table| table.len()).sum()
    }

    /// Tells what the state that was loaded means, by [`Description::variant`] of the operator that wrote it.
    fn adopt(&mut self, variant: &str) {
        let _ = variant;
    }

    /// The input watermark of operators above, given this one's input watermark, milliseconds.
    fn output_watermark(&self, input_ms: i64) -> i64 {
        input_ms
    }

    /// Whether a batch without data would do something, now that the input watermark has moved.
    fn wants_time_to_pass(&self) -> bool {
        true
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

    /// Starts a batch.
    pub(crate) fn begin(&self, time: Watermarks) {
        let mut state = self.state.lock();
        state.time = time;
        state.finished = false;
    }

    /// Takes rows of an input.
    pub(crate) fn push(&self, input: usize, rows: &RecordBatch, out: &mut Vec<RecordBatch>) -> DfResult<()> {
        let mut state = self.state.lock();
        let time = state.time;
        state.core.push(input, rows, time, &mut |rows| out.push(rows))
    }

    /// Ends the batch.
    pub(crate) fn finish(&self, out: &mut Vec<RecordBatch>) -> DfResult<()> {
        let mut state = self.state.lock();
        let time = state.time;
        state.core.finish(time, &mut |rows| out.push(rows))?;
        state.finished = true;
        Ok(())
    }

    /// Checks that the batch reached this operator to its end: a plan that stops early must not lose state.
    pub(crate) fn ensure_finished(&self) -> DfResult<()> {
        if self.state.lock().finished {
            return Ok(());
        }
        let name = self.description.name;
        Err(to_datafusion(Error::internal(format!("the operator {name} did not see its whole input. Please report this."))))
    }

    pub(crate) fn output_watermark(&self, input_ms: i64) -> i64 {
        self.state.lock().core.output_watermark(input_ms)
    }

    /// Whether another batch would do something, were its input watermark `input_ms`.
    pub(crate) fn wants_another_batch(&self, input_ms: i64) -> bool {
        let state = self.state.lock();
        input_ms > state.time.evict_ms && state.core.wants_time_to_pass()
    }

    /// Tells what the state that was loaded means.
    pub(crate) fn adopt(&self, variant: &str) {
        self.state.lock().core.adopt(variant);
    }

    /// Works on the tables.
    pub(crate) fn with_tables<T>(&self, work: impl FnOnce(Vec<&mut StateTable>) -> T) -> T {
        work(self.state.lock().core.tables())
    }

    /// The report of the batch.
    pub(crate) fn progress(&self, partitions: u64) -> StateOperatorProgress {
        let mut state = self.state.lock();
        let counts = state.core.counts();
        let rows = state.core.rows();
        let bytes = state.core.tables().iter().map(|table| table.bytes()).sum();
        StateOperatorProgress {
            operator_name: self.description.name.to_owned(),
            num_rows_total: rows,
            num_rows_updated: counts.updated,
            num_rows_removed: counts.removed,
            num_rows_dropped_by_watermark: counts.late,
            memory_used_bytes: bytes,
            num_shuffle_partitions: partitions,
            num_state_store_instances: partitions.saturating_mul(self.description.stores),
            ..StateOperatorProgress::default()
        }
    }
}

/// An error that says that a plan cannot run, found when its first batch does.
pub(crate) fn refused(code: &'static str, message: impl Into<String>) -> DataFusionError {
    to_datafusion(Error::invalid(code, message))
}
