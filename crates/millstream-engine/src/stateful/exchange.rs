//! Gives each row to the task that owns its key group.
//!
//! Every partition of the input is read by a task of its own, which puts rows into bounded queues, one for each task of the operator above.
//! Rows of one input partition stay in their order. Where the input is made by the tasks of another operator, rows of its first task come before
//! those of its second, and so on, so that what depends on the order of rows (which of several duplicates is kept) is the same in every run; rows
//! of sources come as they are read. A full queue holds the readers back, so whoever takes rows of one task must take those of
//! all tasks, if need be to drop them ([`super::operator::Operator::abandon`]).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExprRef};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PhysicalExpr,
    PlanProperties, ReplaceChildrenOptions, SendableRecordBatchStream,
};
use futures::{StreamExt, stream};
use millstream_checkpoint::state::key;
use millstream_core::Error;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

use super::exec::as_stateful;
use super::table::{Codec, normalize, task_of};
use crate::to_datafusion;

/// Batches of one input partition that a task's queue holds before their reader waits.
const AHEAD: usize = 2;

/// Bytes of rows that a reader holds until the readers of earlier partitions are done. With more it no longer waits: order is not worth memory
/// without end, and a reader that stopped reading could hold back those that it waits for.
const MOST_HELD: usize = 64 << 20;

/// The expressions whose values say which key group a row is in.
#[derive(Debug)]
struct Keys {
    exprs: Vec<PhysicalExprRef>,
    codec: Codec,
}

impl Keys {
    /// The rows of each task, `None` where all are of one.
    fn split(&self, rows: &RecordBatch, tasks: usize) -> DfResult<Vec<Option<RecordBatch>>> {
        let columns = self.exprs.iter().map(|expr| normalize(&expr.evaluate(rows)?.into_array(rows.num_rows())?));
        let encoded = self.codec.encode(&columns.collect::<DfResult<Vec<_>>>()?, rows.num_rows())?;
        let mut of_task: Vec<Vec<u32>> = vec![Vec::new(); tasks];
        for (row, columns) in (0u32..).zip(encoded.iter()) {
            if let Some(indices) = of_task.get_mut(task_of(key::group_of(columns), tasks)) {
                indices.push(row);
            }
        }
        let part = |indices: Vec<u32>| match indices.len() {
            0 => Ok(None),
            all if all == rows.num_rows() => Ok(Some(rows.clone())),
            _ => Ok(Some(take_record_batch(rows, &UInt32Array::from(indices))?)),
        };
        of_task.into_iter().map(part).collect()
    }
}

/// Splits rows by key group.
#[derive(Debug)]
pub(crate) struct ExchangeExec {
    input: Arc<dyn ExecutionPlan>,
    keys: Arc<Keys>,
    /// Whether the partitions of the input come one after the other.
    ordered: bool,
    properties: Arc<PlanProperties>,
    /// The queues of this run, once any partition has been asked for.
    run: Mutex<Option<Run>>,
}

/// One run.
#[derive(Debug)]
struct Run {
    queues: Vec<Option<mpsc::Receiver<DfResult<RecordBatch>>>>,
    readers: Arc<Readers>,
}

/// The tasks that read the input. They start when rows are wanted, and end when nobody can want any.
#[derive(Debug)]
struct Readers {
    state: Mutex<Reading>,
    partitions: usize,
    ordered: bool,
    /// Partitions that were read to their end.
    done: AtomicUsize,
}

#[derive(Debug)]
enum Reading {
    Waiting(Vec<mpsc::Sender<DfResult<RecordBatch>>>),
    Started { _tasks: Vec<AbortOnDropHandle<()>> },
}

impl ExchangeExec {
    /// A node that gives the rows of `input` to as many tasks.
    ///
    /// # Errors
    /// When the values of the keys have no encoding.
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, exprs: Vec<PhysicalExprRef>, tasks: usize) -> DfResult<Self> {
        let schema = input.schema();
        let types = exprs.iter().map(|expr| expr.data_type(&schema)).collect::<DfResult<Vec<_>>>()?;
        let keys = Arc::new(Keys { codec: Codec::new(&types)?, exprs });
        let (properties, ordered) = (properties(&input, tasks), made_by_tasks(&input));
        Ok(ExchangeExec { input, keys, ordered, properties, run: Mutex::new(None) })
    }

    fn tasks(&self) -> usize {
        self.properties.output_partitioning().partition_count()
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = properties(&input, self.tasks());
        ExchangeExec { input, keys: self.keys.clone(), ordered: self.ordered, properties, run: Mutex::new(None) }
    }
}

/// Whether the partitions of a plan are the tasks of an operator, which gives the same rows in every run.
fn made_by_tasks(plan: &Arc<dyn ExecutionPlan>) -> bool {
    as_stateful(plan).is_some() || plan.children().into_iter().any(made_by_tasks)
}

fn properties(input: &Arc<dyn ExecutionPlan>, tasks: usize) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(input.schema()),
        Partitioning::UnknownPartitioning(tasks),
        input.pipeline_behavior(),
        input.boundedness(),
    ))
}

impl Run {
    fn new(partitions: usize, tasks: usize, ordered: bool) -> Self {
        let (senders, queues) = (0..tasks).map(|_| mpsc::channel(AHEAD * partitions.max(1))).map(|(to, rows)| (to, Some(rows))).unzip();
        let readers = Readers { state: Mutex::new(Reading::Waiting(senders)), partitions, ordered, done: AtomicUsize::new(0) };
        Run { queues, readers: Arc::new(readers) }
    }
}

impl Readers {
    /// Starts the readers, unless they have.
    fn start(self: &Arc<Self>, input: &Arc<dyn ExecutionPlan>, keys: &Arc<Keys>, context: &Arc<TaskContext>) {
        let mut state = self.state.lock();
        let Reading::Waiting(senders) = &mut *state else { return };
        let senders = std::mem::take(senders);
        let mut turn = CancellationToken::new();
        turn.cancel();
        let read = |partition| {
            let next = if self.ordered { CancellationToken::new() } else { turn.clone() };
            let turn = std::mem::replace(&mut turn, next.clone());
            let (input, keys, to) = (input.clone(), keys.clone(), senders.clone());
            let reader = Reader { input, keys, to, partition, turn, _next: next.drop_guard() };
            let (readers, context) = (Arc::downgrade(self), context.clone());
            AbortOnDropHandle::new(tokio::spawn(async move {
                if let Err(error) = reader.read(context).await {
                    let error = Arc::new(error);
                    for to in &reader.to {
                        // Whoever does not listen any more does not need to know.
                        let _ = to.send(Err(DataFusionError::Shared(error.clone()))).await;
                    }
                }
                if let Some(readers) = readers.upgrade() {
                    readers.done.fetch_add(1, Ordering::Release);
                }
            }))
        };
        let tasks = (0..self.partitions).map(read).collect();
        *state = Reading::Started { _tasks: tasks };
    }

    /// Checks that no reader ended before its time, once a queue has ended.
    fn ended(&self) -> DfResult<()> {
        if self.done.load(Ordering::Acquire) == self.partitions {
            return Ok(());
        }
        Err(to_datafusion(Error::internal("a task that reads the input of a stateful operator panicked. Please report this.")))
    }
}

/// Reads one partition of the input.
struct Reader {
    input: Arc<dyn ExecutionPlan>,
    keys: Arc<Keys>,
    to: Vec<mpsc::Sender<DfResult<RecordBatch>>>,
    partition: usize,
    /// Fires when every earlier partition was read.
    turn: CancellationToken,
    /// Tells the reader of the next partition.
    _next: DropGuard,
}

impl Reader {
    async fn read(&self, context: Arc<TaskContext>) -> DfResult<()> {
        let mut input = self.input.execute(self.partition, context)?;
        let (mut held, mut bytes) = (Vec::new(), 0);
        while let Some(rows) = input.next().await {
            let rows = rows?;
            if rows.num_rows() == 0 {
                continue;
            }
            bytes += rows.get_array_memory_size();
            held.push(rows);
            if bytes < MOST_HELD && !self.turn.is_cancelled() {
                continue;
            }
            self.send(std::mem::take(&mut held)).await?;
            if self.to.iter().all(mpsc::Sender::is_closed) {
                return Ok(());
            }
        }
        self.turn.cancelled().await;
        self.send(held).await
    }

    async fn send(&self, held: Vec<RecordBatch>) -> DfResult<()> {
        for rows in held {
            for (part, to) in self.keys.split(&rows, self.to.len())?.into_iter().zip(&self.to) {
                if let Some(part) = part {
                    let _ = to.send(Ok(part)).await;
                }
            }
        }
        Ok(())
    }
}

impl DisplayAs for ExchangeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.exprs.iter().map(ToString::to_string).collect();
        let order = if self.ordered { ", in order" } else { "" };
        write!(f, "ExchangeExec: key groups of [{}] to {} tasks{order}", keys.join(", "), self.tasks())
    }
}

impl ExecutionPlan for ExchangeExec {
    fn name(&self) -> &'static str {
        "ExchangeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        let mut recursion = TreeNodeRecursion::Continue;
        for expr in &self.keys.exprs {
            recursion = visit(expr)?;
        }
        Ok(recursion)
    }

    fn replace_children(
        self: Arc<Self>,
        mut inputs: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        match inputs.pop().filter(|_| inputs.is_empty()) {
            Some(input) => Ok(Arc::new(self.over(input))),
            None => Err(DataFusionError::Internal("ExchangeExec has one child".to_owned())),
        }
    }

    fn with_new_children(self: Arc<Self>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let mut run = self.run.lock();
        let run = run.get_or_insert_with(|| Run::new(self.input.output_partitioning().partition_count(), self.tasks(), self.ordered));
        let Some(queue) = run.queues.get_mut(partition).and_then(Option::take) else {
            return Err(DataFusionError::Internal(format!("partition {partition} of an exchange is asked for twice")));
        };
        let (readers, input, keys) = (run.readers.clone(), self.input.clone(), self.keys.clone());
        let taking = Taking { queue, readers, ended: false };
        let rows = stream::unfold(taking, move |mut taking| {
            taking.readers.start(&input, &keys, &context);
            async move { taking.next().await.map(|rows| (rows, taking)) }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// Takes the rows of one task.
struct Taking {
    queue: mpsc::Receiver<DfResult<RecordBatch>>,
    readers: Arc<Readers>,
    ended: bool,
}

impl Taking {
    async fn next(&mut self) -> Option<DfResult<RecordBatch>> {
        if self.ended {
            return None;
        }
        match self.queue.recv().await {
            Some(rows) => {
                self.ended = rows.is_err();
                Some(rows)
            }
            None => {
                self.ended = true;
                self.readers.ended().err().map(Err)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, cast::AsArray};
    use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
    use futures::{FutureExt, TryStreamExt};

    use super::*;

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]))
    }

    fn rows(range: std::ops::Range<i64>) -> RecordBatch {
        RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from_iter_values(range))]).unwrap()
    }

    /// Ten rows, once `after` fires; `read` fires when they were taken.
    #[derive(Debug)]
    struct Ten {
        first: i64,
        after: CancellationToken,
        read: CancellationToken,
    }

    impl PartitionStream for Ten {
        fn schema(&self) -> &SchemaRef {
            static SCHEMA: std::sync::LazyLock<SchemaRef> = std::sync::LazyLock::new(schema);
            &SCHEMA
        }

        fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
            let (first, after, read) = (self.first, self.after.clone(), self.read.clone());
            let ten = stream::iter((first..first + 10).map(|n| Ok(rows(n..n + 1))));
            let end = async move {
                read.cancel();
                stream::empty()
            };
            let all = async move { after.cancelled().await }.into_stream().flat_map(move |()| ten.clone());
            Box::pin(RecordBatchStreamAdapter::new(schema(), all.chain(end.flatten_stream())))
        }
    }

    /// The rows of each task when the second partition was read to its end before the first gives a row.
    async fn exchanged(ordered: bool) -> Vec<Vec<i64>> {
        let (read, now) = (CancellationToken::new(), CancellationToken::new());
        now.cancel();
        let late = Arc::new(Ten { first: 0, after: read.clone(), read: CancellationToken::new() }) as Arc<dyn PartitionStream>;
        let early = Arc::new(Ten { first: 10, after: now, read }) as Arc<dyn PartitionStream>;
        let input = StreamingTableExec::try_new(schema(), vec![late, early], None, None, false, None).unwrap();
        let exchange = ExchangeExec::new(Arc::new(input), vec![Arc::new(Column::new("n", 0))], 2).unwrap();
        let exchange = ExchangeExec { ordered, ..exchange };
        let take = |task| exchange.execute(task, Arc::default()).unwrap().try_collect::<Vec<_>>();
        let (one, other) = futures::join!(take(0), take(1));
        let numbers = |batches: Vec<RecordBatch>| -> Vec<i64> {
            batches.iter().flat_map(|rows| rows.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
        };
        vec![numbers(one.unwrap()), numbers(other.unwrap())]
    }

    #[tokio::test]
    async fn rows_of_an_earlier_task_come_first_however_late_they_are() {
        let tasks = exchanged(true).await;
        assert_eq!(tasks.concat().len(), 20);
        assert!(tasks.iter().all(|rows| rows.len() > 1 && rows.is_sorted()), "{tasks:?}");
        // Rows of sources do not wait, which also shows that they come late here.
        assert!(!exchanged(false).await.iter().all(|rows| rows.is_sorted()));
    }
}
