//! A worker process of PySpark's, connected.

use std::collections::VecDeque;
use std::fmt;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use millstream_core::{Error, Ids, Result};
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Child;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

use super::command::PythonCommand;
use super::daemon::Fork;
use super::protocol::{self, Message, read_int, read_text};

/// How long a process may take to start and connect; a busy machine needs long for the imports.
pub(super) const START: Duration = Duration::from_secs(120);

/// Lines of a process's output that are kept for messages.
const KEPT_LINES: usize = 20;

/// A worker, which is killed when this is dropped.
pub(crate) struct Worker {
    stream: BufStream<TcpStream>,
    words: Words,
    process: Process,
    /// That it may be busy.
    _permit: Option<OwnedSemaphorePermit>,
}

/// What is behind a connection.
pub(super) enum Process {
    /// A process of its own.
    Own { _child: Child },
    /// A child of the daemon.
    Forked { _fork: Fork },
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.process {
            Process::Own { .. } => "own process",
            Process::Forked { .. } => "fork",
        };
        f.debug_struct("Worker").field("process", &kind).finish_non_exhaustive()
    }
}

impl Worker {
    /// Starts a process of `module`, which connects back to this one, with further environment variables.
    ///
    /// # Errors
    /// `PYTHON_WORKER_UNAVAILABLE` when there is no such Python, it lacks PySpark, or does not connect in time.
    pub(crate) async fn start(python: &PythonCommand, module: &str, environment: &[(&str, String)], ids: &dyn Ids) -> Result<Worker> {
        let secret = ids.next().to_string();
        let unusable = |error: std::io::Error| python.unusable(&error.to_string());
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(unusable)?;
        let port = listener.local_addr().map_err(unusable)?.port();
        let mut command = python.module(module);
        command.env("PYTHON_WORKER_FACTORY_PORT", port.to_string()).env("PYTHON_WORKER_FACTORY_SECRET", &secret);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(unusable)?;
        let words = Words::default();
        let following = [words.follow(child.stdout.take()), words.follow(child.stderr.take())];
        let connected = tokio::select! {
            connected = accept(&listener, &secret) => connected.map_err(unusable),
            status = child.wait() => Err(python.unusable(&match status {
                Ok(status) => format!("it ended with {status}"),
                Err(error) => error.to_string(),
            })),
            () = tokio::time::sleep(START) => Err(python.unusable("it did not connect in time")),
        };
        let stream = match connected {
            Ok(stream) => stream,
            Err(error) => {
                // What it said may still be on its way.
                drop(child);
                drop(futures::future::join_all(following.into_iter().flatten()).await);
                return Err(match words.last() {
                    said if said.is_empty() => error,
                    said => Error::new(error.kind(), error.code().to_owned(), format!("{} It said: {said}", error.message())),
                });
            }
        };
        Ok(Worker { stream, words, process: Process::Own { _child: child }, _permit: None })
    }

    pub(super) fn forked(stream: BufStream<TcpStream>, words: Words, fork: Fork) -> Worker {
        Worker { stream, words, process: Process::Forked { _fork: fork }, _permit: None }
    }

    /// The same worker with the permit to be busy, or without.
    pub(super) fn with_permit(self, permit: Option<OwnedSemaphorePermit>) -> Worker {
        Worker { _permit: permit, ..self }
    }

    /// Both directions of the conversation.
    pub(super) fn stream(&mut self) -> &mut BufStream<TcpStream> {
        &mut self.stream
    }

    /// Sends a message.
    ///
    /// # Errors
    /// `PYTHON_WORKER_LOST`.
    pub(crate) async fn send(&mut self, message: &Message) -> Result<()> {
        message.send(&mut self.stream).await.map_err(|error| self.lost(error))
    }

    /// Reads whether what was asked for went well; `what` stands before the traceback if not.
    ///
    /// # Errors
    /// `PYTHON_EXCEPTION`, `PYTHON_WORKER_LOST`.
    pub(crate) async fn outcome(&mut self, what: &str) -> Result<()> {
        match protocol::read_outcome(&mut self.stream, what).await {
            Ok(outcome) => outcome,
            Err(error) => Err(self.lost(error)),
        }
    }

    /// The error for a conversation that broke off.
    pub(super) fn lost(&self, error: std::io::Error) -> Error {
        protocol::broken(error, &self.words.last())
    }
}

/// Takes the connection of the process that knows the secret; others are turned away.
async fn accept(listener: &TcpListener, secret: &str) -> std::io::Result<BufStream<TcpStream>> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let mut stream = BufStream::new(stream);
        if read_text(&mut stream).await.is_ok_and(|said| said == secret) {
            Message::default().text("ok").send(&mut stream).await?;
            // Its process id, which we know.
            read_int(&mut stream).await?;
            return Ok(stream);
        }
    }
}

/// What a process writes on its standard streams: into our log, the last of it kept for messages.
#[derive(Clone, Debug, Default)]
pub(super) struct Words(Arc<Mutex<VecDeque<String>>>);

impl Words {
    /// Reads a stream to its end, in a task.
    pub(super) fn follow(&self, stream: Option<impl AsyncRead + Send + Unpin + 'static>) -> Option<JoinHandle<()>> {
        let stream = stream?;
        let words = self.0.clone();
        Some(tokio::spawn(async move {
            let mut lines = BufReader::new(stream).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                tracing::debug!(target: "millstream::python", "{line}");
                let mut words = words.lock();
                if words.len() == KEPT_LINES {
                    words.pop_front();
                }
                words.push_back(line);
            }
        }))
    }

    pub(super) fn last(&self) -> String {
        self.0.lock().iter().cloned().collect::<Vec<_>>().join("\n")
    }
}
