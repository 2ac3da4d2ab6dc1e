//! One batch: plan its input, run the plan, make its state durable and its result visible.

use std::pin::pin;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use millstream_checkpoint::Checkpoint;
use millstream_core::lateness::Tally;
use millstream_core::offset::Offset;
use millstream_core::sink::{Admission, BatchInfo, Committed, OutputMode, Part, Sink};
use millstream_core::source::Split;
use millstream_core::watermark::Watermarks;
use millstream_core::{Clock, Error, Result, crash};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::discard::Discard;
use super::quarantine::BatchQuarantine;
use super::report::{SourceCount, Timer};
use super::side_table::SideTable;
use crate::from_datafusion;
use crate::observe::Observed;
use crate::plan::PreparedPlan;
use crate::relation::Input;
use crate::runner::BatchRunner;
use crate::scan::SplitFeed;
use crate::stateful::{BatchChanges, LateRows, Uploaded, changes, late_rows_schema, unread_inputs, upload};

/// The rows that the running batch has read so far, readable while it runs.
#[derive(Debug, Default)]
pub(crate) struct Live(Mutex<Vec<Arc<SplitFeed>>>);

impl Live {
    pub(super) fn begin(&self, feeds: Vec<Arc<SplitFeed>>) {
        *self.0.lock() = feeds;
    }

    pub(super) fn end(&self) {
        self.0.lock().clear();
    }

    pub(super) fn rows(&self) -> u64 {
        self.0.lock().iter().map(|feed| feed.rows()).sum()
    }
}

/// What every batch of a run needs.
pub(super) struct BatchRun {
    pub(super) plan: PreparedPlan,
    pub(super) runner: Arc<dyn BatchRunner>,
    pub(super) context: Arc<TaskContext>,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) quarantine: Option<Arc<dyn Sink>>,
    /// Where late rows go; they are only counted without it.
    pub(super) late_rows: Option<Arc<dyn Sink>>,
    pub(super) mode: OutputMode,
    pub(super) query_id: uuid::Uuid,
    pub(super) clock: Arc<dyn Clock>,
    /// How an observation is written into progress.
    pub(super) describe: fn(&Observed) -> Value,
    pub(super) checkpoint: Arc<Checkpoint>,
}

/// One batch, as recorded in `offsets/N`.
pub(super) struct BatchPlan {
    pub(super) id: u64,
    pub(super) timestamp_ms: i64,
    pub(super) watermarks: Watermarks,
    pub(super) start: Vec<Option<Offset>>,
    pub(super) end: Vec<Option<Offset>>,
}

/// What a batch did.
#[derive(Default)]
pub(super) struct BatchOutcome {
    pub(super) committed: Committed,
    pub(super) sources: Vec<SourceCount>,
    pub(super) splits: u64,
    pub(super) quarantined: std::collections::BTreeMap<String, u64>,
    pub(super) expectations: std::collections::BTreeMap<String, millstream_core::progress::ExpectationProgress>,
    pub(super) observed: std::collections::BTreeMap<String, Value>,
    /// What the batch changed in state, on its way to the checkpoint.
    pub(super) state: Option<Upload>,
    /// Rows by how far behind they were, and those that were late: by source and partition.
    pub(super) lateness: Vec<(Option<usize>, Option<String>, Tally)>,
}

/// Gives what a batch did to state, once it is durable.
pub(super) type Upload = JoinHandle<Result<Uploaded>>;

impl BatchRun {
    /// Runs a batch up to and including the sink's commit. `planned` completes when `offsets/N` is durable: computing overlaps with it,
    /// becoming visible does not.
    pub(super) async fn run(
        &self,
        batch: &BatchPlan,
        planned: &mut JoinHandle<Result<()>>,
        live: &Live,
        cancel: &CancellationToken,
        timer: &mut Timer,
    ) -> Result<BatchOutcome> {
        let info = Arc::new(BatchInfo {
            query_id: self.query_id,
            batch_id: batch.id,
            mode: self.mode,
            schema: self.plan.schema.clone(),
            timestamp_ms: batch.timestamp_ms,
        });
        let written = self.sink.admit(&info).await? == Admission::AlreadyCommitted;
        if written {
            tracing::info!(batch = batch.id, "the sink has this batch already: it is not written again");
            if self.plan.flow.is_stateless() {
                durable(planned).await?;
                return Ok(BatchOutcome::default());
            }
        }
        // What later batches depend on is computed again even where the rows are not needed.
        let sink: Arc<dyn Sink> = if written { Arc::new(Discard) } else { self.sink.clone() };

        let mut outcome = BatchOutcome::default();
        let quarantine = BatchQuarantine::open(self.quarantine.clone(), &info);
        self.feed(batch, &quarantine, &mut outcome).await?;
        timer.lap("getBatch");
        self.plan.time.set(batch.timestamp_ms);
        self.plan.checks.reset();
        self.plan.flow.begin(batch.watermarks, batch.id)?;
        let late_rows = self.open_late_rows(&info);
        let physical = self.plan.reset()?;
        timer.lap("queryPlanning");
        crash::point("batch.planned");

        live.begin(
            self.plan.inputs.iter().filter(|input| matches!(input.input, Input::Source(_))).map(|input| input.feed.clone()).collect(),
        );
        let computing = self.runner.run(physical.clone(), self.context.clone(), sink.clone(), info.clone(), cancel.clone());
        let computed = match self.interruptible(computing, cancel).await {
            Ok(parts) => match self.completed(&physical, &info, cancel).await {
                Ok(state) => Ok((parts, state)),
                Err(error) => {
                    sink.abort(&info, parts).await;
                    Err(error)
                }
            },
            Err(error) => Err(error),
        };
        live.end();
        // The collectors hold the queue of the quarantine; without them its writer can end.
        for input in &self.plan.inputs {
            input.quarantine.set(Arc::new(millstream_core::quarantine::Discard));
        }
        self.plan.flow.send_late_rows(None);
        let (parts, state) = computed.inspect_err(|_| self.plan.flow.give_up())?;
        crash::point("batch.computed");
        // Not visible, so it need not wait for anything, nor anything for it before the commit record.
        let mut state = state.map(|changes| upload(&self.checkpoint, changes));
        let visible = self.make_visible((&sink, &info, parts), (quarantine, late_rows), (planned, cancel, timer), &mut outcome).await;
        if let Err(error) = visible {
            // No write of this run may be under way when the query has ended.
            if let Some(state) = &mut state {
                let _ = state.await;
            }
            return Err(error);
        }
        outcome.state = state;
        Ok(outcome)
    }

    /// Waits until the plan of the batch is durable, and with it everything of earlier batches; then commits.
    async fn make_visible(
        &self,
        (sink, info, parts): (&Arc<dyn Sink>, &Arc<BatchInfo>, Vec<Part>),
        (mut quarantine, late_rows): (BatchQuarantine, Option<SideTable>),
        (planned, cancel, timer): (&mut JoinHandle<Result<()>>, &CancellationToken, &mut Timer),
        outcome: &mut BatchOutcome,
    ) -> Result<()> {
        let waited = self.clock.monotonic_ns();
        if let Err(error) = durable(planned).await {
            sink.abort(info, parts).await;
            return Err(error);
        }
        timer.wait(self.clock.monotonic_ns().saturating_sub(waited));
        quarantine.commit().await?;
        if let Some(late_rows) = late_rows {
            late_rows.commit().await?;
        }
        for (index, count) in outcome.sources.iter_mut().enumerate() {
            count.rows = self
                .plan
                .inputs
                .iter()
                .filter(|input| matches!(input.input, Input::Source(source) if source == index))
                .map(|input| input.feed.rows())
                .sum();
        }
        outcome.quarantined = quarantine.counts();
        outcome.lateness = self.plan.flow.lateness();
        outcome.expectations = self.plan.checks.counts();
        outcome.observed = self.plan.observed()?.iter().map(|observed| (observed.name.clone(), (self.describe)(observed))).collect();
        outcome.committed = self.interruptible(sink.commit(info, parts), cancel).await?;
        timer.lap("addBatch");
        Ok(())
    }

    /// Waits for work of the sink, which is told when the query is asked to stop meanwhile.
    async fn interruptible<T>(&self, work: impl Future<Output = T>, cancel: &CancellationToken) -> T {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            done = &mut work => done,
            () = cancel.cancelled() => {
                self.sink.interrupt();
                work.await
            }
        }
    }

    /// What the batch changed in state, once all of its input has been read: a join with an empty table does not look at its other side, but
    /// time passes there and state grows.
    async fn completed(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        info: &Arc<BatchInfo>,
        cancel: &CancellationToken,
    ) -> Result<Option<BatchChanges>> {
        self.settled(cancel).await?;
        for unread in unread_inputs(plan) {
            let info = Arc::new(BatchInfo { schema: unread.schema(), ..info.as_ref().clone() });
            self.runner.run(unread, self.context.clone(), Arc::new(Discard), info, cancel.clone()).await?;
        }
        self.settled(cancel).await?;
        self.plan.flow.operators.iter().try_for_each(|operator| operator.ensure_finished()).map_err(from_datafusion)?;
        Ok((!self.plan.flow.operators.is_empty()).then(|| changes(&self.plan.flow, info.batch_id)))
    }

    /// Waits for the tasks whose rows the plan did not take to the end.
    async fn settled(&self, cancel: &CancellationToken) -> Result<()> {
        tokio::select! {
            biased;
            settled = self.plan.flow.settle() => settled,
            () = cancel.cancelled() => Err(Error::cancelled()),
        }
    }

    /// Opens the table of late rows, where there is one, and tells the operators.
    fn open_late_rows(&self, info: &BatchInfo) -> Option<SideTable> {
        let sink = self.late_rows.clone()?;
        let points = ["late_rows.commit.before", "late_rows.commit.after"];
        let together = |batches: &[RecordBatch]| {
            concat_batches(&late_rows_schema(), batches)
                .map_err(|error| Error::internal("late rows do not fit their table").caused_by(error))
        };
        let (table, queue) = SideTable::open(sink, info, late_rows_schema(), points, together);
        let sources = self.plan.sources.iter().map(|bound| bound.source.description()).collect();
        self.plan.flow.send_late_rows(Some(&LateRows {
            queue,
            origins: self.plan.flow.origins.clone(),
            sources: Arc::new(sources),
            query_id: info.query_id.to_string(),
            batch_id: info.batch_id,
        }));
        Some(table)
    }

    /// Gives every scan of the plan its splits.
    async fn feed(&self, batch: &BatchPlan, quarantine: &BatchQuarantine, outcome: &mut BatchOutcome) -> Result<()> {
        let mut splits: Vec<Vec<Arc<dyn Split>>> = Vec::with_capacity(self.plan.sources.len());
        for (index, bound) in self.plan.sources.iter().enumerate() {
            let start = batch.start.get(index).and_then(Option::as_ref);
            let planned = match batch.end.get(index).and_then(Option::as_ref) {
                Some(end) if Some(end) != start => bound.source.plan(start, end).await?,
                _ => Vec::new(),
            };
            outcome.splits += planned.len() as u64;
            outcome.sources.push(SourceCount::default());
            splits.push(planned);
        }
        self.plan.flow.origins.clear();
        for input in &self.plan.inputs {
            match &input.input {
                Input::Source(index) => {
                    let bound = self.plan.sources.get(*index).ok_or_else(|| Error::internal("a scan names a source that is not there"))?;
                    input.quarantine.set(quarantine.of_source(&bound.source.description()));
                    let splits = splits.get(*index).cloned().unwrap_or_default();
                    let first = match self.plan.flow.counts_origins() {
                        true => self.plan.flow.origins.add(*index, splits.iter().map(|split| split.label().to_owned())),
                        false => 0,
                    };
                    input.feed.fill(splits, first);
                }
                Input::Table(table) => input.feed.fill(table.scan().await?, 0),
            }
        }
        Ok(())
    }
}

/// Waits for a durable write that runs as a task.
pub(super) async fn durable(write: &mut JoinHandle<Result<()>>) -> Result<()> {
    write.await.map_err(|error| Error::internal("a write to the checkpoint ended early").caused_by(error))?
}
