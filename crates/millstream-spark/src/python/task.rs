//! The conversation of one task with PySpark's standard worker, `pyspark.worker`.

use std::io;

use millstream_core::Result;
use serde_json::{Map, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use super::protocol::{
    END_OF_DATA_SECTION, END_OF_STREAM, EXCEPTION_THROWN, Message, START_ARROW_STREAM, TIMING_DATA, exception, read_bytes, read_exactly,
    read_int, read_text,
};
use super::runtime::PythonFiles;
use super::worker::Worker;

/// Longs in a report of times: boot, initialisation, end, processing, bytes spilled in memory and on disk.
const TIMES: usize = 6;

/// Before the traceback of a function that failed.
const THROWN: &str = "An exception was thrown from the Python worker";

/// Where a task runs, as `TaskContext` tells a function.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskContext {
    /// The partition.
    pub(crate) partition: i32,
    /// Local properties, such as `streaming.sql.batchId`.
    pub(crate) properties: Vec<(&'static str, String)>,
}

impl TaskContext {
    /// The context of a task without local properties.
    pub(crate) fn of_partition(partition: usize) -> Self {
        TaskContext { partition: i32::try_from(partition).unwrap_or(i32::MAX), properties: Vec::new() }
    }
}

/// What a worker is to do.
#[derive(Debug)]
pub(crate) struct Task {
    /// The client's version of Python, `3.11`.
    pub(crate) python_version: String,
    /// PySpark's kind of evaluation; 0 is a function over an iterator.
    pub(crate) eval_type: i32,
    /// Files that the functions need.
    pub(crate) files: PythonFiles,
    /// Settings of the session that the worker asks for.
    pub(crate) settings: Vec<(&'static str, String)>,
    /// What the kind of evaluation wants to know besides, such as the types of arguments.
    pub(crate) described: Vec<(&'static str, String)>,
    /// The function or functions, in the form that the kind of evaluation has.
    pub(crate) functions: Message,
}

impl Task {
    fn header(&self, context: &TaskContext) -> Message {
        let properties: Map<_, _> = context.properties.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let described = json!({
            "isBarrier": false,
            "stageId": 0,
            "partitionId": context.partition,
            "attemptNumber": 0,
            "taskAttemptId": 0,
            "cpus": 1,
            "resources": {},
            "localProperties": properties,
        });
        let mut message = Message::default();
        message.int(context.partition).text(&self.python_version).text(&described.to_string());
        self.files.describe(&mut message);
        // No broadcasts that need a server, none at all.
        message.bool(false).int(0);
        message.int(self.eval_type).int(i32::try_from(self.settings.len()).unwrap_or(0));
        for (name, value) in &self.settings {
            message.text(name).text(value);
        }
        message.int(i32::try_from(self.described.len()).unwrap_or(0));
        for (name, value) in &self.described {
            message.text(name).text(value);
        }
        message.append(&self.functions);
        message
    }
}

/// What a worker says next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A piece of the results.
    Piece(Vec<u8>),
    /// The results follow as an Arrow stream.
    ArrowStream,
    /// That was all, and the worker can be used again if this is true.
    End(bool),
}

impl Worker {
    /// Begins a task.
    ///
    /// # Errors
    /// `PYTHON_WORKER_LOST`.
    pub(crate) async fn begin(&mut self, task: &Task, context: &TaskContext) -> Result<()> {
        self.send(&task.header(context)).await
    }

    /// Sends a piece of input.
    ///
    /// # Errors
    /// `PYTHON_WORKER_LOST`.
    pub(crate) async fn feed(&mut self, piece: &[u8]) -> Result<()> {
        let length = i32::try_from(piece.len()).map_err(|error| self.lost(io::Error::other(error)))?;
        let stream = self.stream();
        let sent = async {
            stream.write_i32(length).await?;
            stream.write_all(piece).await
        };
        sent.await.map_err(|error| self.lost(error))
    }

    /// Says that the input in pieces is complete.
    ///
    /// # Errors
    /// `PYTHON_WORKER_LOST`.
    pub(crate) async fn end_of_input(&mut self) -> Result<()> {
        let mut message = Message::default();
        message.int(END_OF_DATA_SECTION).int(END_OF_STREAM);
        self.send(&message).await
    }

    /// Reads what the worker says next.
    ///
    /// # Errors
    /// `PYTHON_EXCEPTION` with the traceback when the function failed; `PYTHON_WORKER_LOST`.
    pub(crate) async fn answer(&mut self) -> Result<Answer> {
        match next_answer(self.stream()).await {
            Ok(answer) => answer,
            Err(error) => Err(self.lost(error)),
        }
    }
}

/// What a worker says next on a connection.
pub(super) async fn next_answer(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Result<Answer>> {
    loop {
        return Ok(Ok(match read_int(stream).await? {
            EXCEPTION_THROWN => return Ok(Err(exception(THROWN, &read_text(stream).await?))),
            TIMING_DATA => {
                for _ in 0..TIMES {
                    stream.read_i64().await?;
                }
                continue;
            }
            START_ARROW_STREAM => Answer::ArrowStream,
            END_OF_DATA_SECTION => {
                for _ in 0..read_int(stream).await?.max(0) {
                    read_bytes(stream).await?;
                }
                Answer::End(read_int(stream).await? == END_OF_STREAM)
            }
            length => Answer::Piece(read_exactly(stream, length).await?),
        }));
    }
}
