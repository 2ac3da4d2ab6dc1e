//! The sink of `foreachBatch`: calls the client's function, in a Python worker, with each batch as a frame of the session.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use millstream_core::sink::{Admission, BatchInfo, Committed, Guarantee, OutputMode, Part, PartWriter, Sink};
use millstream_core::{Error, ErrorKind, Result};
use spark_connect_proto::PythonUdf;
use tokio_util::sync::CancellationToken;

use super::spool::Spool;
use crate::analyzer::Leaves;
use crate::connect::session::ConnectSession;
use crate::python::{Message, PythonRuntime, Worker};

/// PySpark's worker for `foreachBatch`.
const MODULE: &str = "pyspark.sql.connect.streaming.worker.foreach_batch_worker";

/// Calls a function of the client's with each batch.
pub(super) struct ForeachBatchSink {
    session: Arc<ConnectSession>,
    spool: Arc<Spool>,
    worker: tokio::sync::Mutex<Option<Worker>>,
    interrupt: CancellationToken,
}

impl fmt::Debug for ForeachBatchSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeachBatchSink").field("session", &self.session.key).finish_non_exhaustive()
    }
}

impl ForeachBatchSink {
    /// Starts the worker and hands it the function.
    ///
    /// # Errors
    /// `STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE` when that fails; `PYTHON_FUNCTIONS_DISABLED`.
    pub(super) async fn start(session: &Arc<ConnectSession>, function: &PythonUdf) -> Result<Self> {
        let runtime = session.python()?;
        let worker = match initialise(session, &runtime, function).await {
            Ok(worker) => worker,
            Err(error) => {
                return Err(Error::new(
                    error.kind(),
                    "STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE",
                    format!("Streaming Runner initialization failed, returned -2. Cause: {}", error.message()),
                )
                .with_sqlstate("XXKST"));
            }
        };
        Ok(ForeachBatchSink {
            session: session.clone(),
            spool: Spool::new(session.host.clone()),
            worker: tokio::sync::Mutex::new(Some(worker)),
            interrupt: CancellationToken::new(),
        })
    }

    /// Calls the function with rows that the session knows by an id.
    async fn call(&self, relation_id: &str, batch_id: u64) -> Result<()> {
        let mut slot = self.worker.lock().await;
        // It is taken out, so that it is killed if this is interrupted or fails.
        let mut worker = slot.take().ok_or_else(Error::cancelled)?;
        let what = format!(
            "[session: {}] [userId: {}] Found error inside foreachBatch Python process",
            self.session.key.session_id, self.session.key.user_id
        );
        let mut message = Message::default();
        message.text(relation_id).long(i64::try_from(batch_id).unwrap_or(i64::MAX));
        let called = async {
            worker.send(&message).await?;
            worker.outcome(&what).await
        };
        tokio::select! {
            biased;
            () = self.interrupt.cancelled() => return Err(Error::cancelled()),
            called = called => called?,
        }
        *slot = Some(worker);
        Ok(())
    }
}

async fn initialise(session: &ConnectSession, runtime: &PythonRuntime, function: &PythonUdf) -> Result<Worker> {
    let address = session.host.address().ok_or_else(|| {
        Error::new(ErrorKind::Internal, "PYTHON_WORKER_UNAVAILABLE", "the server does not listen yet, so no worker can connect to it")
    })?;
    let url = format!("{address}/;user_id={}", encoded(&session.key.user_id));
    let environment = [("SPARK_CONNECT_LOCAL_URL", url)];
    let mut worker = runtime.start(MODULE, &environment).await?;
    let mut message = Message::default();
    message.text(&function.python_ver).text(&session.key.session_id).bytes(&function.command);
    worker.send(&message).await?;
    worker.outcome("the worker cannot begin").await?;
    Ok(worker)
}

/// A text as a part of a URL.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
            },
        )
        .collect()
}

#[async_trait]
impl Sink for ForeachBatchSink {
    fn description(&self) -> String {
        "ForeachBatchSink".to_owned()
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::AtLeastOnce
    }

    fn supports(&self, _mode: OutputMode) -> bool {
        true
    }

    fn reports_rows(&self) -> bool {
        false
    }

    async fn admit(&self, _batch: &BatchInfo) -> Result<Admission> {
        Ok(Admission::Write)
    }

    async fn writer(&self, batch: &BatchInfo, _partition: usize) -> Result<Box<dyn PartWriter>> {
        Ok(self.spool.writer(batch.schema.clone()))
    }

    async fn commit(&self, batch: &BatchInfo, parts: Vec<Part>) -> Result<Committed> {
        let rows = self.spool.take(batch.schema.clone(), &parts)?;
        let prefix = self.session.host.ids().next().simple().to_string();
        let id = self.session.remember(rows.analyzed(&batch.schema, "foreachBatch", &prefix)?);
        let called = self.call(&id, batch.batch_id).await;
        self.session.forget(&id);
        called?;
        Ok(Committed { rows: parts.iter().map(|part| part.rows).sum(), ..Committed::default() })
    }

    async fn abort(&self, _batch: &BatchInfo, parts: Vec<Part>) {
        self.spool.forget(&parts);
    }

    fn interrupt(&self) {
        self.interrupt.cancel();
    }

    async fn stop(&self) {
        self.interrupt.cancel();
        drop(self.worker.lock().await.take());
    }
}
