//! Where the tasks of a batch run. One machine's cores now; the seam for many machines.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::future::join_all;
use futures::{StreamExt, stream};
use millstream_core::sink::{BatchInfo, Part, PartWriter, Sink};
use millstream_core::source::BatchStream;
use millstream_core::{Error, ErrorKind, Result};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::from_datafusion;

/// Runs the tasks of one batch: one per partition of the plan, each writing its rows to the sink.
#[async_trait]
pub trait BatchRunner: Debug + Send + Sync {
    /// Runs every partition and returns the staged parts, which are durable and not yet visible. After a failure everything that was staged
    /// has been aborted.
    ///
    /// # Errors
    /// The first failure of any task; `CANCELLED` when `cancel` fired.
    async fn run(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
        sink: Arc<dyn Sink>,
        batch: Arc<BatchInfo>,
        cancel: CancellationToken,
    ) -> Result<Vec<Part>>;

    /// Runs every partition and hands over its rows, one partition after the other if the plan keeps an order. Tasks wait when rows are not
    /// taken, and end when the stream is dropped.
    fn rows(&self, plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> BatchStream;
}

/// Runs tasks on a pool of threads of its own, so that long computations never delay the batch loops, servers and timers of the process.
#[derive(Debug)]
pub struct LocalRunner {
    handle: Handle,
    runtime: Option<Runtime>,
}

impl LocalRunner {
    /// A pool of `threads` threads.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` when the system gives no threads.
    pub fn new(threads: usize) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("millstream-cpu")
            .thread_stack_size(8 * 1024 * 1024)
            .enable_all()
            .build()
            .map_err(|error| Error::internal("cannot start the CPU pool").caused_by(error))?;
        Ok(LocalRunner { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }
}

impl Drop for LocalRunner {
    fn drop(&mut self) {
        // A runtime must not be dropped, which waits, inside another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[async_trait]
impl BatchRunner for LocalRunner {
    async fn run(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
        sink: Arc<dyn Sink>,
        batch: Arc<BatchInfo>,
        cancel: CancellationToken,
    ) -> Result<Vec<Part>> {
        let failed = cancel.child_token();
        let written = Arc::new(AtomicUsize::new(0));
        let tasks = (0..plan.output_partitioning().partition_count()).map(|partition| {
            let output = Output { sink: sink.clone(), batch: batch.clone(), writers: written.clone() };
            let task = run_task(plan.clone(), context.clone(), output, partition, failed.clone());
            AbortOnDropHandle::new(self.handle.spawn(task))
        });
        let mut parts = Vec::new();
        let mut first: Option<Error> = None;
        for outcome in join_all(tasks.collect::<Vec<_>>()).await {
            let outcome = outcome.unwrap_or_else(|error| Err(panicked(error)));
            match outcome {
                Ok(part) => parts.extend(part),
                // A task that was cancelled because another failed is not the reason.
                Err(error) if first.as_ref().is_none_or(|known| known.kind() == ErrorKind::Cancelled) => first = Some(error),
                Err(_) => {}
            }
        }
        match first {
            None => Ok(parts),
            Some(error) => {
                sink.abort(&batch, parts).await;
                Err(error)
            }
        }
    }

    fn rows(&self, plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> BatchStream {
        let partitions = 0..plan.output_partitioning().partition_count();
        let spawn = |partition: usize, to: mpsc::Sender<Result<RecordBatch>>| {
            AbortOnDropHandle::new(self.handle.spawn(send_rows(plan.clone(), context.clone(), partition, to)))
        };
        let channels = if exchanges(&plan) {
            let (to, rows) = mpsc::channel(AHEAD * partitions.len().max(1));
            VecDeque::from([(rows, partitions.map(|partition| spawn(partition, to.clone())).collect())])
        } else {
            let each = partitions.map(|partition| {
                let (to, rows) = mpsc::channel(AHEAD);
                (rows, vec![spawn(partition, to)])
            });
            each.collect()
        };
        let running = RunningRows { channels };
        stream::unfold(running, |mut running| async move { running.next().await.map(|next| (next, running)) }).boxed()
    }
}

/// Batches that a task may be ahead of who takes them.
const AHEAD: usize = 2;

/// Rows on their way, and the tasks that send them.
type Channel = (mpsc::Receiver<Result<RecordBatch>>, Vec<AbortOnDropHandle<()>>);

/// Rows of tasks that run: of each task on its own, or of all of them together.
struct RunningRows {
    /// With the tasks that send into it.
    channels: VecDeque<Channel>,
}

impl RunningRows {
    async fn next(&mut self) -> Option<Result<RecordBatch>> {
        loop {
            let (rows, tasks) = self.channels.front_mut()?;
            match rows.recv().await {
                Some(Ok(batch)) => return Some(Ok(batch)),
                Some(Err(error)) => {
                    self.channels.clear();
                    return Some(Err(error));
                }
                None => {
                    // A task that panicked has closed its channel as well.
                    for task in std::mem::take(tasks) {
                        if let Err(error) = task.await {
                            self.channels.clear();
                            return Some(Err(panicked(error)));
                        }
                    }
                    self.channels.pop_front();
                }
            }
        }
    }
}

/// Whether rows move between tasks somewhere in a plan: tasks then wait for each other, so all of them must be served.
fn exchanges(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.name() == "RepartitionExec" || plan.children().into_iter().any(exchanges)
}

async fn send_rows(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>, partition: usize, to: mpsc::Sender<Result<RecordBatch>>) {
    let mut rows = match plan.execute(partition, context) {
        Ok(rows) => rows,
        Err(error) => {
            let _ = to.send(Err(from_datafusion(error))).await;
            return;
        }
    };
    while let Some(next) = rows.next().await {
        let failed = next.is_err();
        if to.send(next.map_err(from_datafusion)).await.is_err() || failed {
            return;
        }
    }
}

/// Where the tasks of a batch write to.
struct Output {
    sink: Arc<dyn Sink>,
    batch: Arc<BatchInfo>,
    /// Writers opened so far in this batch. Parts are numbered by it, so that the first part is number 0 whichever task has the rows.
    writers: Arc<AtomicUsize>,
}

impl Output {
    async fn writer(&self) -> Result<Box<dyn PartWriter>> {
        self.sink.writer(&self.batch, self.writers.fetch_add(1, Ordering::Relaxed)).await
    }
}

/// Runs one partition. A partition without rows opens no writer and has no part.
async fn run_task(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    output: Output,
    partition: usize,
    cancel: CancellationToken,
) -> Result<Option<Part>> {
    let mut writer = None;
    let outcome = async {
        let mut rows = plan.execute(partition, context).map_err(from_datafusion)?;
        loop {
            let next = tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(Error::cancelled()),
                next = rows.next() => next,
            };
            let Some(next) = next else { return Ok(()) };
            let next = next.map_err(from_datafusion)?;
            if next.num_rows() == 0 {
                continue;
            }
            let writer = match &mut writer {
                Some(writer) => writer,
                None => writer.insert(output.writer().await?),
            };
            writer.write(labelled(next, &output.batch.schema)?).await?;
        }
    }
    .await;
    match (outcome, writer) {
        (Ok(()), None) => Ok(None),
        (Ok(()), Some(writer)) => match writer.finish().await {
            Ok(part) => Ok(Some(part)),
            Err(error) => {
                cancel.cancel();
                Err(error)
            }
        },
        (Err(error), writer) => {
            cancel.cancel();
            if let Some(writer) = writer {
                writer.abort().await;
            }
            Err(error)
        }
    }
}

/// The rows under the column names of their batch.
fn labelled(rows: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if Arc::ptr_eq(schema, &rows.schema()) || **schema == *rows.schema() {
        return Ok(rows);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), rows.columns().to_vec(), &options)
        .map_err(|error| Error::internal("rows do not have the columns of their batch").caused_by(error))
}

fn panicked(error: tokio::task::JoinError) -> Error {
    if error.is_cancelled() {
        return Error::cancelled();
    }
    let payload = error.into_panic();
    let what = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned());
    Error::internal(format!("a task panicked: {what}. Please report this."))
}
