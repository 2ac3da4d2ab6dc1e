//! One task of a worker from its beginning to its end: input goes to it while its answers come back.

use std::io;
use std::sync::Arc;

use arrow::array::RecordBatch;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use millstream_core::{Error, Result};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::arrow::Decoder;
use super::protocol::{END_OF_STREAM, Message};
use super::runtime::PythonRuntime;
use super::task::{Answer, Task, TaskContext, next_answer};
use super::worker::Worker;

/// Answers that may wait to be taken; then the worker waits.
const AHEAD: usize = 2;

/// A piece of what a worker gives.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Rows of an Arrow stream.
    Rows(RecordBatch),
    /// A pickle.
    Pickle(Vec<u8>),
}

/// What a worker is sent: bytes, with what ends the input of its kind of task; what ends the conversation is added.
pub(crate) type Input = BoxStream<'static, Result<Vec<u8>>>;

/// Runs a task and gives its replies as they come. Nothing happens before the first is asked for; when the stream is dropped the worker is
/// killed.
///
/// The errors of the stream are `PYTHON_EXCEPTION`, `PYTHON_WORKER_LOST`, `PYTHON_WORKER_UNAVAILABLE`, and those of the input.
pub(crate) fn converse(runtime: PythonRuntime, task: Arc<Task>, context: TaskContext, input: Input) -> BoxStream<'static, Result<Reply>> {
    let (to, replies) = mpsc::channel(AHEAD);
    let talk = async move {
        let mut worker = runtime.take().await?;
        worker.begin(&task, &context).await?;
        if let Some(worker) = worker.talk(input, to).await? {
            runtime.give_back(worker);
        }
        Ok(())
    };
    let running = Running { replies, talk: Some(Talk::Waiting(Box::pin(talk))) };
    stream::unfold(running, |mut running| async move { running.next().await.map(|next| (next, running)) }).boxed()
}

/// A conversation that goes on in a task of its own.
struct Running {
    replies: mpsc::Receiver<Reply>,
    /// `None` after its end.
    talk: Option<Talk>,
}

enum Talk {
    Waiting(BoxFuture<'static, Result<()>>),
    Begun(AbortOnDropHandle<Result<()>>),
}

impl Running {
    async fn next(&mut self) -> Option<Result<Reply>> {
        let mut task = match self.talk.take()? {
            Talk::Waiting(talk) => AbortOnDropHandle::new(tokio::spawn(talk)),
            Talk::Begun(task) => task,
        };
        if let Some(reply) = self.replies.recv().await {
            self.talk = Some(Talk::Begun(task));
            return Some(Ok(reply));
        }
        match (&mut task).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Err(error)),
            Err(error) if error.is_cancelled() => Some(Err(Error::cancelled())),
            Err(error) => Some(Err(Error::internal("the input of a Python function panicked").caused_by(error))),
        }
    }
}

impl Worker {
    /// Sends `input` and hands over the answers, both at once. Returns the worker if it can be used again.
    async fn talk(mut self, mut input: Input, to: mpsc::Sender<Reply>) -> Result<Option<Worker>> {
        let outcome = {
            let (mut read, mut write) = tokio::io::split(self.stream());
            let send = async {
                while let Some(piece) = input.next().await {
                    write.write_all(&piece?).await.map_err(Broken::Connection)?;
                    write.flush().await.map_err(Broken::Connection)?;
                }
                let mut end = Message::default();
                end.int(END_OF_STREAM);
                end.send(&mut write).await.map_err(Broken::Connection)
            };
            let receive = async {
                let taken = |sent: Result<(), mpsc::error::SendError<Reply>>| sent.map_err(|_| Broken::Error(Error::cancelled()));
                loop {
                    match next_answer(&mut read).await.map_err(Broken::Connection)?? {
                        Answer::ArrowStream => {
                            let mut rows = Decoder::default();
                            while let Some(batch) = rows.next(&mut read).await.map_err(Broken::Connection)? {
                                taken(to.send(Reply::Rows(batch)).await)?;
                            }
                        }
                        Answer::Piece(pickle) => taken(to.send(Reply::Pickle(pickle)).await)?,
                        Answer::End(reusable) => return Ok(reusable),
                    }
                }
            };
            both(send, receive).await
        };
        match outcome {
            Ok(reusable) => Ok(reusable.then_some(self)),
            Err(Broken::Error(error)) => Err(error),
            Err(Broken::Connection(error)) => Err(self.lost(error)),
        }
    }
}

/// Why a conversation ends early.
enum Broken {
    Connection(io::Error),
    Error(Error),
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Broken::Error(error)
    }
}

/// Sends and receives at once. What is received decides: a worker whose function failed says so, and takes no more input.
async fn both(send: impl Future<Output = Result<(), Broken>>, receive: impl Future<Output = Result<bool, Broken>>) -> Result<bool, Broken> {
    let (mut send, mut receive) = (std::pin::pin!(send), std::pin::pin!(receive));
    let sent = tokio::select! {
        received = &mut receive => return received,
        sent = &mut send => sent,
    };
    match sent {
        Err(Broken::Error(error)) => Err(Broken::Error(error)),
        Err(Broken::Connection(error)) => match receive.await {
            Err(Broken::Error(error)) => Err(Broken::Error(error)),
            _ => Err(Broken::Connection(error)),
        },
        Ok(()) => receive.await,
    }
}
