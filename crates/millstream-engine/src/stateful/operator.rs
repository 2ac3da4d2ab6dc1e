//! What every stateful operator is to the engine: something that takes rows, closes what time has passed, and has tables of state.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result as DfResult};
use futures::future::{BoxFuture, FutureExt};
use millstream_core::progress::StateOperatorProgress;
use millstream_core::watermark::Watermarks;
use millstream_core::{Error, Result};
use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio_util::task::AbortOnDropHandle;

use super::deduplicate::DEDUPE;
use super::refuse::RefuseCore;
use super::table::{Expiry, Placement, StateTable, TableSchema, Tables};
use crate::{from_datafusion, to_datafusion};

/// The work of one task of an operator: never waits, and says what it has as soon as it has it.
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

    /// Whether the batch ends as [`Core::finish_waiting`] says.
    fn waits(&self) -> bool {
        false
    }

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

/// Makes a core with empty state in tables of a task.
pub(crate) type NewCore = dyn Fn(&Tables) -> DfResult<Box<dyn Core>> + Send + Sync;

/// Makes cores of one kind.
pub(crate) fn making<C: Core + 'static>(new: impl Fn(&Tables) -> DfResult<C> + Send + Sync + 'static) -> Box<NewCore> {
    Box::new(move |tables| Ok(Box::new(new(tables)?)))
}

/// An operator of a query: lives as long as the query, while its plan is reset for every batch. Each of its tasks has the rows of a range of
/// key groups.
pub(crate) struct Operator {
    pub(crate) description: Description,
    new: Box<NewCore>,
    tasks: Vec<Task>,
    placement: Placement,
    /// Runs whose rows nobody takes any more.
    abandoned: Mutex<Vec<AbortOnDropHandle<DfResult<()>>>>,
}

/// One task.
#[derive(Debug)]
struct Task {
    groups: Range<u16>,
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
        f.debug_struct("Operator").field("name", &self.description.name).field("tasks", &self.tasks.len()).finish_non_exhaustive()
    }
}

impl Operator {
    /// An operator with empty state.
    pub(crate) fn new(description: Description, new: Box<NewCore>, placement: &Placement) -> DfResult<Arc<Self>> {
        let task = |tables: Tables| -> DfResult<Task> {
            let state = State { core: new(&tables)?, time: Watermarks::default(), finished: true };
            Ok(Task { groups: tables.groups(), state: Mutex::new(state) })
        };
        let tasks = placement.tasks().map(task).collect::<DfResult<Vec<_>>>()?;
        Ok(Arc::new(Operator { description, new, tasks, placement: placement.clone(), abandoned: Mutex::default() }))
    }

    /// Whether it is a deduplication that never forgets a key.
    pub(crate) fn remembers_for_ever(&self) -> bool {
        self.description.name == DEDUPE && self.description.tables.iter().all(|table| table.expiry == Expiry::Never)
    }

    /// How many tasks it has.
    pub(crate) fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// A core of this kind with empty state, for making a snapshot from changes.
    pub(crate) fn empty_core(&self, tables: &Tables) -> DfResult<Box<dyn Core>> {
        (self.new)(tables)
    }

    fn task(&self, task: usize) -> DfResult<&Task> {
        self.tasks.get(task).ok_or_else(|| to_datafusion(Error::internal(format!("{self:?} has no task {task}"))))
    }

    /// Starts the batch of this number.
    pub(crate) fn begin(&self, time: Watermarks, batch: u64) {
        self.abandoned.lock().clear();
        for task in &self.tasks {
            let mut state = task.state.lock();
            state.time = time;
            state.finished = false;
            state.core.begin(batch);
        }
    }

    /// Whether the batch needs the rows of an input.
    pub(crate) fn reads(&self, input: usize) -> bool {
        self.tasks.iter().any(|task| task.state.lock().core.reads(input))
    }

    /// Takes rows of an input that are of this task.
    pub(crate) fn push(&self, task: usize, input: usize, rows: &RecordBatch, out: &mut Vec<RecordBatch>) -> DfResult<()> {
        let task = self.task(task)?;
        self.apart(|| {
            let mut state = task.state.lock();
            let time = state.time;
            state.core.push(input, rows, time, &mut |rows| out.push(rows))
        })
    }

    /// Ends the batch of a task. A core that is dropped while it waits takes its state with it, and the query has ended.
    pub(crate) async fn finish(&self, task: usize, out: &mut Vec<RecordBatch>) -> DfResult<()> {
        let task = self.task(task)?;
        let (mut core, time) = {
            let mut state = task.state.lock();
            let away = RefuseCore { code: "INTERNAL_ERROR", message: format!("the state of {} is in use", self.description.name) };
            (std::mem::replace(&mut state.core, Box::new(away)), state.time)
        };
        let mut finished = match core.waits() {
            true => core.finish_waiting(time, &mut |rows| out.push(rows)).await,
            false => self.apart(|| core.finish(time, &mut |rows| out.push(rows))),
        };
        if finished.is_ok() {
            finished = self.apart(|| core.tables().into_iter().try_for_each(StateTable::settle));
        }
        let mut state = task.state.lock();
        state.core = core;
        state.finished = finished.is_ok();
        finished
    }

    /// Works where waiting for a disk holds nobody else back.
    fn apart<T>(&self, work: impl FnOnce() -> T) -> T {
        let waits = || Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
        if self.placement.stores().may_block() && waits() { tokio::task::block_in_place(work) } else { work() }
    }

    /// Drives a task to its end although nobody takes its rows any more: state must see every row.
    pub(crate) fn abandon(&self, run: impl Future<Output = DfResult<()>> + Send + 'static) {
        if let Ok(runtime) = Handle::try_current() {
            self.abandoned.lock().push(AbortOnDropHandle::new(runtime.spawn(run)));
        }
    }

    /// Waits for the tasks that were left behind.
    ///
    /// # Errors
    /// Theirs.
    pub(crate) async fn settle_abandoned(&self) -> DfResult<()> {
        loop {
            let Some(run) = self.abandoned.lock().pop() else { return Ok(()) };
            run.await.map_err(|error| DataFusionError::External(Box::new(error)))??;
        }
    }

    /// Stops the tasks that were left behind: the batch has failed.
    pub(crate) fn give_up(&self) {
        self.abandoned.lock().clear();
    }

    /// Checks that the batch reached this operator to its end: a plan that stops early must not lose state.
    pub(crate) fn ensure_finished(&self) -> DfResult<()> {
        if self.tasks.iter().all(|task| task.state.lock().finished) {
            return Ok(());
        }
        let name = self.description.name;
        Err(to_datafusion(Error::internal(format!("the operator {name} did not see its whole input. Please report this."))))
    }

    /// The input watermark of operators above, given this one's; `None` when its rows are not in event time.
    pub(crate) fn output_watermark(&self, input_ms: i64) -> Option<i64> {
        self.tasks.iter().map(|task| task.state.lock().core.output_watermark(input_ms)).min().flatten()
    }

    /// Whether another batch would do something, were its input watermark `input_ms`.
    pub(crate) fn wants_another_batch(&self, input_ms: i64) -> bool {
        self.tasks.iter().any(|task| {
            let state = task.state.lock();
            input_ms > state.time.evict_ms && state.core.wants_time_to_pass()
        })
    }

    /// When a batch without data would do something because of the time of the batch, milliseconds.
    pub(crate) fn due_ms(&self) -> Option<i64> {
        self.tasks.iter().filter_map(|task| task.state.lock().core.due_ms()).min()
    }

    /// Works on the core of each task in turn, between batches.
    pub(crate) fn for_each_task(&self, mut work: impl FnMut(&Range<u16>, &mut dyn Core)) {
        self.tasks.iter().for_each(|task| work(&task.groups, task.state.lock().core.as_mut()));
    }

    /// Works on the core of one task, between batches.
    ///
    /// # Errors
    /// Those of the work, and `INTERNAL_ERROR` when there is no such task.
    pub(crate) fn with_task<T>(&self, task: usize, work: impl FnOnce(&Range<u16>, &mut dyn Core) -> Result<T>) -> Result<T> {
        let task = self.task(task).map_err(from_datafusion)?;
        work(&task.groups, task.state.lock().core.as_mut())
    }

    /// Tells what the state that was loaded means.
    pub(crate) fn adopt(&self, variant: &str) {
        self.tasks.iter().for_each(|task| task.state.lock().core.adopt(variant));
    }

    /// Starts over with empty state.
    ///
    /// # Errors
    /// Those of opening tables.
    pub(crate) fn reset(&self) -> DfResult<()> {
        for (task, tables) in self.tasks.iter().zip(self.placement.tasks()) {
            task.state.lock().core = (self.new)(&tables)?;
        }
        Ok(())
    }

    /// The report of the batch.
    pub(crate) fn progress(&self, partitions: u64) -> StateOperatorProgress {
        let mut report = StateOperatorProgress {
            operator_name: self.description.name.to_owned(),
            num_shuffle_partitions: partitions,
            num_state_store_instances: partitions.saturating_mul(self.description.stores),
            custom_metrics: self.placement.stores().metrics(),
            ..StateOperatorProgress::default()
        };
        for task in &self.tasks {
            let mut state = task.state.lock();
            let counts = state.core.counts();
            report.num_rows_updated += counts.updated;
            report.num_rows_removed += counts.removed;
            report.num_rows_dropped_by_watermark += counts.late;
            report.num_rows_total += state.core.rows();
            for (name, value) in state.core.metrics() {
                // What is declared is the same in every task; what happened adds up.
                let declared = name.ends_with("Vars");
                let total = report.custom_metrics.entry(name).or_default();
                *total = if declared { value.max(*total) } else { *total + value };
            }
            report.memory_used_bytes += state.core.tables().iter().map(|table| table.bytes()).sum::<u64>();
        }
        report
    }
}

/// An error that says that a plan cannot run, found when its first batch does.
pub(crate) fn refused(code: &'static str, message: impl Into<String>) -> DataFusionError {
    to_datafusion(Error::invalid(code, message))
}
