//! The sink of `foreach`: hands the rows of each task to the client's function or object, in a Python worker.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use millstream_core::sink::{Admission, BatchInfo, Committed, Guarantee, OutputMode, Part, PartWriter, Sink};
use millstream_core::{Error, Result};
use parking_lot::Mutex;
use spark_connect_proto::PythonUdf;
use tokio_util::sync::CancellationToken;

use crate::analyzer::Leaves;
use crate::connect::session::ConnectSession;
use crate::python::{Answer, PythonRuntime, Task, TaskContext, Worker, pickle_rows};

/// Rows that are pickled at once.
const ROWS: usize = 1_000;

/// Hands rows to a function of the client's, one by one.
pub(super) struct ForeachSink {
    function: Arc<Function>,
    interrupt: CancellationToken,
    /// The batch that is written, and how many of its tasks have begun: the partitions that functions are told count from 0.
    begun: Mutex<(u64, i32)>,
}

/// What every task of the sink needs.
struct Function {
    task: Task,
    runtime: PythonRuntime,
}

impl fmt::Debug for ForeachSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeachSink").field("python", &self.function.runtime).finish_non_exhaustive()
    }
}

impl ForeachSink {
    /// A sink that calls `function`.
    ///
    /// # Errors
    /// `PYTHON_FUNCTIONS_DISABLED`.
    pub(super) fn new(session: &ConnectSession, function: &PythonUdf) -> Result<Self> {
        let runtime = session.python()?;
        let function = Function { task: runtime.over_iterator(&function.python_ver, &function.command), runtime };
        Ok(ForeachSink { function: Arc::new(function), interrupt: CancellationToken::new(), begun: Mutex::default() })
    }

    async fn begin(&self, batch_id: u64) -> Result<ForeachPart> {
        let partition = {
            let mut begun = self.begun.lock();
            if begun.0 != batch_id {
                *begun = (batch_id, 0);
            }
            begun.1 += 1;
            begun.1 - 1
        };
        let function = self.function.clone();
        let mut worker = function.runtime.take().await?;
        let context = TaskContext { partition, properties: vec![("streaming.sql.batchId", batch_id.to_string())] };
        worker.begin(&function.task, &context).await?;
        Ok(ForeachPart { worker, function, interrupt: self.interrupt.clone(), rows: 0 })
    }
}

#[async_trait]
impl Sink for ForeachSink {
    fn description(&self) -> String {
        "ForeachWriterTable(PythonForeachWriter)".to_owned()
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::AtLeastOnce
    }

    fn supports(&self, _mode: OutputMode) -> bool {
        true
    }

    async fn admit(&self, _batch: &BatchInfo) -> Result<Admission> {
        Ok(Admission::Write)
    }

    async fn writer(&self, batch: &BatchInfo, _partition: usize) -> Result<Box<dyn PartWriter>> {
        Ok(Box::new(self.begin(batch.batch_id).await?))
    }

    async fn commit(&self, batch: &BatchInfo, parts: Vec<Part>) -> Result<Committed> {
        // A batch without rows opens and closes the client's object all the same.
        if parts.is_empty() {
            Box::new(self.begin(batch.batch_id).await?).finish().await?;
        }
        Ok(Committed { rows: parts.iter().map(|part| part.rows).sum(), ..Committed::default() })
    }

    fn interrupt(&self) {
        self.interrupt.cancel();
    }
}

/// One task of one batch; its worker is killed when this is dropped before the end.
struct ForeachPart {
    worker: Worker,
    function: Arc<Function>,
    interrupt: CancellationToken,
    rows: u64,
}

impl ForeachPart {
    async fn hand_over(worker: &mut Worker, rows: &RecordBatch) -> Result<()> {
        let mut from = 0;
        while from < rows.num_rows() {
            let length = ROWS.min(rows.num_rows() - from);
            worker.feed(&pickle_rows(&rows.slice(from, length))?).await?;
            from += length;
        }
        Ok(())
    }

    /// Reads to the end of the task; says whether the worker can be used again.
    async fn outcome(worker: &mut Worker) -> Result<bool> {
        worker.end_of_input().await?;
        loop {
            match worker.answer().await? {
                Answer::End(reusable) => return Ok(reusable),
                // The function gives nothing back.
                Answer::Piece(_) => {}
                Answer::ArrowStream => return Err(Error::internal("a worker answers rows with an Arrow stream")),
            }
        }
    }
}

#[async_trait]
impl PartWriter for ForeachPart {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        self.rows += rows.num_rows() as u64;
        let written = tokio::select! {
            biased;
            () = self.interrupt.cancelled() => return Err(Error::cancelled()),
            written = Self::hand_over(&mut self.worker, &rows) => written,
        };
        match written {
            // A worker whose function failed says so before it breaks off.
            Err(error) if error.code() == "PYTHON_WORKER_LOST" => Err(match self.worker.answer().await {
                Err(failed) if failed.code() == "PYTHON_EXCEPTION" => failed,
                _ => error,
            }),
            written => written,
        }
    }

    async fn finish(mut self: Box<Self>) -> Result<Part> {
        let reusable = tokio::select! {
            biased;
            () = self.interrupt.cancelled() => return Err(Error::cancelled()),
            outcome = Self::outcome(&mut self.worker) => outcome?,
        };
        let ForeachPart { worker, function, rows, .. } = *self;
        if reusable {
            function.runtime.give_back(worker);
        }
        Ok(Part { rows, bytes: 0, staged: Bytes::new() })
    }

    async fn abort(self: Box<Self>) {}
}
