//! Sinks of a client's data source.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use millstream_core::sink::{Admission, BatchInfo, Committed, Guarantee, OutputMode, Part, PartWriter, Sink};
use millstream_core::{Error, Options, Result};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::{Created, DataSourceClass, bytes_or_words, column_of_pickles, int_or_words, settled, write_options};
use crate::python::arrow::{Encoder, sent_schema, sent_struct};
use crate::python::function::{described_bytes, kind, together};
use crate::python::task::TaskContext;
use crate::python::{Reply, Task, converse};
use crate::types::schema_to_json;

/// The column of the messages with which writers end.
const MESSAGE: &str = "message";

/// Batches that a writer may be ahead of its worker.
const AHEAD: usize = 2;

/// A sink of a client's.
pub(crate) struct PythonSink {
    class: DataSourceClass,
    options: Options,
    overwrite: bool,
    streaming: bool,
    planned: Mutex<Option<Arc<Planned>>>,
}

impl fmt::Debug for PythonSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PythonSink").field("class", &self.class.name).finish_non_exhaustive()
    }
}

/// A writer for rows of one schema.
#[derive(Debug)]
struct Planned {
    task: Arc<Task>,
    /// The pickle of the writer, for commits of a batch write.
    writer: Vec<u8>,
    /// The object that makes the writers of a stream.
    created: Option<Created>,
    schema: SchemaRef,
}

impl PythonSink {
    /// A sink for these options, of a stream or of one write; `overwrite` replaces what is there.
    pub(crate) fn new(class: DataSourceClass, options: Options, overwrite: bool, streaming: bool) -> Self {
        PythonSink { class, options, overwrite, streaming, planned: Mutex::default() }
    }

    async fn plan(&self, schema: &SchemaRef) -> Result<Planned> {
        let class = &self.class;
        let mut message = class.planning();
        message.bytes(&class.command).text(&class.name).text(&schema_to_json(schema)).text(&schema_to_json(&column_of_pickles(MESSAGE)));
        write_options(&mut message, &self.options);
        message.bool(self.overwrite).bool(self.streaming).bool(true);
        let mut worker = class.runtime.start("pyspark.sql.worker.write_into_data_source", &[]).await?;
        worker.send(&message).await?;
        let answered = async {
            let command = match bytes_or_words(worker.stream()).await? {
                Ok(command) => command,
                Err(words) => return Ok(Err(class.failed("plan", &words))),
            };
            match bytes_or_words(worker.stream()).await? {
                Ok(writer) => Ok(Ok((command, writer))),
                Err(words) => Ok(Err(class.failed("plan", &words))),
            }
        };
        let (command, writer) = settled(answered.await, &worker)?;
        let created = if self.streaming { Some(class.create(Some(schema), &self.options).await?) } else { None };
        let functions = together([described_bytes(&[(0, None)], &command)].into_iter());
        let task = Arc::new(class.runtime.task(&class.version, kind::MAP_ARROW, functions));
        Ok(Planned { task, writer, created, schema: schema.clone() })
    }

    fn planned(&self) -> Result<Arc<Planned>> {
        self.planned.lock().clone().ok_or_else(|| Error::internal("a sink is used before it was prepared"))
    }

    /// Tells the client's writer how a batch ended.
    async fn end(&self, batch: &BatchInfo, parts: &[Part], abort: bool) -> Result<()> {
        let planned = self.planned()?;
        let class = &self.class;
        let mut message = class.planning();
        let module = match &planned.created {
            Some(created) => {
                message.bytes(&created.instance).text(&schema_to_json(&planned.schema)).bool(self.overwrite);
                "pyspark.sql.worker.python_streaming_sink_runner"
            }
            None => {
                message.bytes(&planned.writer);
                "pyspark.sql.worker.commit_data_source_write"
            }
        };
        message.int(i32::try_from(parts.len()).unwrap_or(i32::MAX));
        for part in parts {
            message.bytes(&part.staged);
        }
        if self.streaming {
            message.long(i64::try_from(batch.batch_id).unwrap_or(i64::MAX));
        }
        message.bool(abort);
        let mut worker = class.runtime.start(module, &[]).await?;
        worker.send(&message).await?;
        let action = if abort { "abort" } else { "commit" };
        let answer = int_or_words(worker.stream()).await;
        settled(answer.map(|answer| answer.map_err(|words| class.failed(action, &words))), &worker).map(drop)
    }
}

#[async_trait]
impl Sink for PythonSink {
    fn description(&self) -> String {
        format!("PythonDataSourceSink[{}]", self.class.name)
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::AtLeastOnce
    }

    fn supports(&self, mode: OutputMode) -> bool {
        mode != OutputMode::Complete || self.overwrite
    }

    async fn prepare(&self, schema: &SchemaRef, _mode: OutputMode) -> Result<()> {
        if self.planned.lock().as_ref().is_some_and(|planned| planned.schema == *schema) {
            return Ok(());
        }
        let planned = Arc::new(self.plan(schema).await?);
        *self.planned.lock() = Some(planned);
        Ok(())
    }

    async fn admit(&self, _batch: &BatchInfo) -> Result<Admission> {
        Ok(Admission::Write)
    }

    async fn writer(&self, _batch: &BatchInfo, partition: usize) -> Result<Box<dyn PartWriter>> {
        let planned = self.planned()?;
        let runtime = self.class.runtime.clone();
        let sent = sent_struct(&sent_schema(planned.schema.fields().iter().map(AsRef::as_ref), runtime.time_zone()));
        let (to, from) = mpsc::channel::<Result<Vec<u8>>>(AHEAD);
        let input = stream::unfold(from, |mut from| async move { from.recv().await.map(|piece| (piece, from)) }).boxed();
        let replies = converse(runtime, planned.task.clone(), TaskContext::of_partition(partition), input);
        // The worker runs while rows are handed over.
        let answer = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(message_of(replies)));
        Ok(Box::new(PythonPart { encoder: Encoder::new(&sent)?, to, answer, rows: 0 }))
    }

    async fn commit(&self, batch: &BatchInfo, parts: Vec<Part>) -> Result<Committed> {
        self.end(batch, &parts, false).await?;
        Ok(Committed { rows: parts.iter().map(|part| part.rows).sum(), ..Committed::default() })
    }

    async fn abort(&self, batch: &BatchInfo, parts: Vec<Part>) {
        if let Err(error) = self.end(batch, &parts, true).await {
            tracing::warn!(sink = %self.class.name, %error, "a write could not be aborted");
        }
    }
}

/// The message with which a writer ends.
async fn message_of(mut replies: futures::stream::BoxStream<'static, Result<Reply>>) -> Result<Bytes> {
    let mut message = None;
    while let Some(reply) = replies.next().await {
        let Reply::Rows(rows) = reply? else { return Err(Error::internal("a writer answers with a pickle")) };
        let column = crate::python::arrow::parts(&rows)?.columns().first().cloned();
        if let Some(pickles) = column.as_ref().and_then(|column| column.as_binary_opt::<i32>())
            && !pickles.is_empty()
        {
            message = Some(Bytes::copy_from_slice(pickles.value(0)));
        }
    }
    message.ok_or_else(|| Error::internal("a writer of a data source ends without a message"))
}

/// One task's rows on their way to a writer.
struct PythonPart {
    encoder: Encoder,
    to: mpsc::Sender<Result<Vec<u8>>>,
    answer: tokio_util::task::AbortOnDropHandle<Result<Bytes>>,
    rows: u64,
}

#[async_trait]
impl PartWriter for PythonPart {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        self.rows += rows.num_rows() as u64;
        let piece = self.encoder.structs(rows.columns(), rows.num_rows())?;
        if self.to.send(Ok(piece)).await.is_ok() {
            return Ok(());
        }
        // A writer that takes no more rows has failed, or has enough.
        match (&mut self.answer).await {
            Ok(Err(error)) => Err(error),
            _ => Err(Error::internal("a writer of a data source ended before its rows did")),
        }
    }

    async fn finish(self: Box<Self>) -> Result<Part> {
        let PythonPart { encoder, to, answer, rows } = *self;
        // A writer that has failed says why.
        let _ = to.send(encoder.end()).await;
        drop(to);
        let staged = answer.await.map_err(|error| Error::internal("a writer of a data source panicked").caused_by(error))??;
        Ok(Part { rows, bytes: 0, staged })
    }
}
