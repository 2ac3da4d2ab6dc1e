//! PySpark's daemon: one process per interpreter that forks workers, which are used again and again.

use std::collections::{BTreeMap, VecDeque};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use millstream_core::{Error, ErrorKind, Ids, Result};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin};
use tokio::sync::{OnceCell, Semaphore};

use super::command::PythonCommand;
use super::protocol::{Message, read_int, read_text};
use super::worker::{START, Words, Worker};

/// Idle workers kept per interpreter. More are let go of.
const IDLE: usize = 8;

/// How long a task waits for another one's worker where as many are busy as may be.
const PATIENCE: Duration = Duration::from_secs(60);

/// The workers of a process, by interpreter. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Workers(Arc<Mutex<BTreeMap<PythonCommand, Arc<Pool>>>>);

#[derive(Debug)]
struct Pool {
    daemon: OnceCell<Arc<Daemon>>,
    idle: Mutex<VecDeque<Worker>>,
    /// As many permits as there may be busy workers.
    busy: Arc<Semaphore>,
}

impl Pool {
    fn new(workers: usize) -> Arc<Self> {
        let busy = Arc::new(Semaphore::new(workers.min(Semaphore::MAX_PERMITS)));
        Arc::new(Pool { daemon: OnceCell::new(), idle: Mutex::default(), busy })
    }
}

impl Workers {
    /// A worker that waits for a task. Where as many are busy as may be, one of them is waited for.
    ///
    /// # Errors
    /// `PYTHON_WORKER_UNAVAILABLE`.
    pub(crate) async fn take(&self, python: &PythonCommand, ids: &dyn Ids) -> Result<Worker> {
        let pool = self.pool(python);
        let permit = match tokio::time::timeout(PATIENCE, pool.busy.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Some(permit),
            _ => return Err(all_busy(python)),
        };
        if let Some(idle) = pool.idle.lock().pop_front() {
            return Ok(idle.with_permit(permit));
        }
        let daemon = pool.daemon.get_or_try_init(|| Daemon::start(python, ids)).await?.clone();
        match daemon.clone().fork().await {
            Ok(worker) => Ok(worker.with_permit(permit)),
            Err(error) => {
                // The next one begins with a new daemon.
                self.0.lock().remove(python);
                Err(python.unusable(&format!("{error}; {}", daemon.words.last())))
            }
        }
    }

    fn pool(&self, python: &PythonCommand) -> Arc<Pool> {
        self.0.lock().entry(python.clone()).or_insert_with(|| Pool::new(python.workers())).clone()
    }

    /// Gives a worker back that ended its task as it should.
    pub(crate) fn give_back(&self, python: &PythonCommand, worker: Worker) {
        let pool = self.pool(python);
        let worker = worker.with_permit(None);
        let mut idle = pool.idle.lock();
        if idle.len() < IDLE {
            idle.push_back(worker);
        }
    }
}

fn all_busy(python: &PythonCommand) -> Error {
    let message = format!(
        "all {} Python workers of this session are busy: run fewer queries at once, or start the server with a larger --python-workers",
        python.workers()
    );
    Error::new(ErrorKind::Invalid, "PYTHON_WORKER_UNAVAILABLE", message)
}

/// A running daemon, which ends with all its children when this is dropped.
#[derive(Debug)]
struct Daemon {
    port: u16,
    secret: String,
    /// Takes the ids of children to kill; closing it ends the daemon.
    orders: tokio::sync::Mutex<ChildStdin>,
    words: Words,
    _child: Child,
}

impl Daemon {
    async fn start(python: &PythonCommand, ids: &dyn Ids) -> Result<Arc<Daemon>> {
        let secret = ids.next().to_string();
        let mut command = python.module("pyspark.daemon");
        command.arg("pyspark.worker").env("PYTHON_WORKER_FACTORY_SECRET", &secret).env("SPARK_REUSE_WORKER", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| python.unusable(&error.to_string()))?;
        let words = Words::default();
        drop(words.follow(child.stderr.take()));
        let (Some(orders), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(python.unusable("it has no standard streams"));
        };
        let port = match tokio::time::timeout(START, output.read_i32()).await {
            Ok(Ok(port)) => u16::try_from(port).map_err(|_| python.unusable(&format!("its daemon names port {port}")))?,
            Ok(Err(error)) => return Err(python.unusable(&format!("its daemon does not start: {error}; {}", words.last()))),
            Err(_) => return Err(python.unusable("its daemon does not start in time")),
        };
        // Children write on the same stream.
        drop(words.follow(Some(output)));
        Ok(Arc::new(Daemon { port, secret, orders: tokio::sync::Mutex::new(orders), words, _child: child }))
    }

    async fn fork(self: Arc<Self>) -> std::io::Result<Worker> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.set_nodelay(true)?;
        let mut stream = BufStream::new(stream);
        let pid = read_int(&mut stream).await?;
        Message::default().text(&self.secret).send(&mut stream).await?;
        let said = read_text(&mut stream).await?;
        if said != "ok" {
            return Err(std::io::Error::other(format!("the daemon answers '{said}'")));
        }
        let words = self.words.clone();
        Ok(Worker::forked(stream, words, Fork { pid, daemon: self }))
    }
}

/// A child of a daemon. The daemon is told to kill it when this is dropped, whatever it does then.
pub(super) struct Fork {
    pid: i32,
    daemon: Arc<Daemon>,
}

impl Drop for Fork {
    fn drop(&mut self) {
        let (pid, daemon) = (self.pid, self.daemon.clone());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let mut orders = daemon.orders.lock().await;
            if let Err(error) = orders.write_i32(pid).await {
                tracing::debug!(pid, %error, "a Python worker could not be killed");
            }
        });
    }
}
