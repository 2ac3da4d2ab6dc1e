//! Streams of a client's data source. One process keeps the reader for the life of a query; partitions are read by other workers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::StreamExt;
use futures::stream;
use millstream_core::source::{BatchStream, ReadContext, Source, Split};
use millstream_core::{Clock, Error, Offset, ReadLimit, Result};
use parking_lot::Mutex as Lock;
use tokio::io::{AsyncReadExt, BufStream};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, MutexGuard};

use super::read::{Reader, projected};
use super::{Created, DataSourceClass, bytes_or_words, int_or_words, pickles, settled};
use crate::python::Worker;
use crate::python::arrow::Decoder;
use crate::python::protocol::{Message, START_ARROW_STREAM};
use crate::types::schema_to_json;

/// PySpark's worker for the readers of streams.
const MODULE: &str = "pyspark.sql.streaming.python_streaming_source_runner";

/// Rows of the record batches that come with partitions.
const ROWS: i32 = 10_000;

/// How long a query waits before it asks for a new offset.
const POLL: Duration = Duration::from_millis(100);

/// What the process can be asked.
mod call {
    pub(super) const INITIAL_OFFSET: i32 = 884;
    pub(super) const LATEST_OFFSET: i32 = 885;
    pub(super) const PARTITIONS: i32 = 886;
    pub(super) const COMMIT: i32 = 887;
    pub(super) const FEATURES: i32 = 888;
    pub(super) const PREPARE_AVAILABLE_NOW: i32 = 889;
    pub(super) const LATEST_OFFSET_WITHIN: i32 = 890;
    pub(super) const READ_LIMIT: i32 = 891;
}

/// The reader takes a limit.
const TAKES_LIMIT: i32 = 1;

/// The reader can fix its end.
const FIXES_END: i32 = 2;

/// A limit that is none, in PySpark's form.
const NO_LIMIT: &str = r#"{"_type": "ReadAllAvailable"}"#;

/// Rows that come with the partitions.
mod rows {
    pub(super) const NONE_KEPT: i32 = 0;
    pub(super) const FOLLOW: i32 = 1;
}

/// A stream of a client's.
#[derive(Debug)]
pub(super) struct PythonStream {
    class: DataSourceClass,
    schema: SchemaRef,
    reader: Arc<Reader>,
    /// `None` while it is asked something, and after that failed.
    worker: Mutex<Option<Worker>>,
    features: i32,
    /// The reader's own limit.
    limit: String,
    initial: Lock<Option<Offset>>,
    clock: Arc<dyn Clock>,
}

impl PythonStream {
    /// Starts the process that keeps the reader.
    ///
    /// # Errors
    /// `PYTHON_DATA_SOURCE_ERROR`, `PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR`.
    pub(super) async fn open(class: DataSourceClass, created: Created, clock: Arc<dyn Clock>) -> Result<Self> {
        let (reader, _) = Reader::plan(&class, &created, true).await?;
        let mut message = class.runtime.preface(&class.version);
        message.bytes(&created.instance).text(&schema_to_json(&created.schema)).int(ROWS);
        let mut worker = class.runtime.start(MODULE, &[]).await?;
        worker.send(&message).await?;
        let begun = int_or_words(worker.stream()).await;
        settled(begun.map(|begun| begun.map_err(|words| class.failed_running("initialize", &words))), &worker)?;
        let stream = PythonStream {
            class,
            schema: created.schema,
            reader,
            worker: Mutex::new(Some(worker)),
            features: 0,
            limit: NO_LIMIT.to_owned(),
            initial: Lock::default(),
            clock,
        };
        let mut features = Message::default();
        features.int(call::FEATURES);
        let features = stream.ask_int("checkSupportedFeatures", &features).await?;
        let limit = if features & TAKES_LIMIT == 0 {
            NO_LIMIT.to_owned()
        } else {
            let mut limit = Message::default();
            limit.int(call::READ_LIMIT);
            stream.ask_text("getDefaultReadLimit", &limit).await?
        };
        Ok(PythonStream { features, limit, ..stream })
    }

    /// Sends a question. A process whose answer is not waited for is killed.
    async fn asked(&self, question: &Message) -> Result<Asked<'_>> {
        let mut slot = self.worker.lock().await;
        let mut worker = slot.take().ok_or_else(Error::cancelled)?;
        worker.send(question).await?;
        Ok(Asked { stream: self, slot, worker })
    }

    async fn ask_int(&self, action: &str, question: &Message) -> Result<i32> {
        let mut asked = self.asked(question).await?;
        let answer = int_or_words(asked.worker.stream()).await;
        asked.told(action, answer)
    }

    async fn ask_text(&self, action: &str, question: &Message) -> Result<String> {
        let mut asked = self.asked(question).await?;
        let answer = bytes_or_words(asked.worker.stream()).await;
        asked.told(action, answer).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    async fn initial(&self) -> Result<Offset> {
        if let Some(known) = self.initial.lock().clone() {
            return Ok(known);
        }
        let mut question = Message::default();
        question.int(call::INITIAL_OFFSET);
        let initial = Offset::from_json(self.ask_text("initialOffset", &question).await?)?;
        *self.initial.lock() = Some(initial.clone());
        Ok(initial)
    }
}

/// A question whose answer comes.
struct Asked<'a> {
    stream: &'a PythonStream,
    slot: MutexGuard<'a, Option<Worker>>,
    worker: Worker,
}

impl Asked<'_> {
    /// The answer; a process that has failed is not asked again.
    fn told<T>(self, action: &str, answer: io::Result<Result<T, String>>) -> Result<T> {
        let Asked { stream, mut slot, worker } = self;
        match answer {
            Ok(Ok(answer)) => {
                *slot = Some(worker);
                Ok(answer)
            }
            Ok(Err(words)) => Err(stream.class.failed_running(action, &words)),
            Err(error) => Err(worker.lost(error)),
        }
    }
}

/// Pickled partitions, and the rows that the reader has kept of them.
type Planned = (Vec<Vec<u8>>, Option<Vec<RecordBatch>>);

async fn planned(from: &mut BufStream<TcpStream>) -> io::Result<Result<Planned, String>> {
    let count = match int_or_words(from).await? {
        Ok(count) => count,
        Err(words) => return Ok(Err(words)),
    };
    let partitions = pickles(from, count).await?;
    match int_or_words(from).await? {
        Err(words) => Ok(Err(words)),
        Ok(rows::NONE_KEPT) => Ok(Ok((partitions, None))),
        Ok(rows::FOLLOW) => {
            if from.read_i32().await? != START_ARROW_STREAM {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "rows that are no Arrow stream"));
            }
            let (mut decoder, mut kept) = (Decoder::default(), Vec::new());
            while let Some(batch) = decoder.next(from).await? {
                kept.push(batch);
            }
            Ok(Ok((partitions, Some(kept))))
        }
        Ok(_) => Ok(Ok((partitions, Some(Vec::new())))),
    }
}

#[async_trait]
impl Source for PythonStream {
    fn description(&self) -> String {
        format!("PythonMicroBatchStream[{}]", self.class.name)
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn supports_available_now(&self) -> bool {
        self.features & FIXES_END != 0
    }

    async fn prepare_available_now(&self) -> Result<()> {
        let mut question = Message::default();
        question.int(call::PREPARE_AVAILABLE_NOW);
        self.ask_int("prepareForTriggerAvailableNow", &question).await.map(drop)
    }

    async fn latest_offset(&self, start: Option<&Offset>, limit: &ReadLimit) -> Result<Option<Offset>> {
        let begin = match start {
            Some(start) => start.clone(),
            None => self.initial().await?,
        };
        let mut question = Message::default();
        if self.features & TAKES_LIMIT == 0 {
            question.int(call::LATEST_OFFSET);
        } else {
            let limit = if *limit == ReadLimit::AllAvailable { &self.limit } else { NO_LIMIT };
            question.int(call::LATEST_OFFSET_WITHIN).text(begin.as_json()).text(limit);
        }
        let latest = Offset::from_json(self.ask_text("latestOffset", &question).await?)?;
        Ok(if latest == begin { start.cloned() } else { Some(latest) })
    }

    async fn plan(&self, start: Option<&Offset>, end: &Offset) -> Result<Vec<Arc<dyn Split>>> {
        let start = match start {
            Some(start) => start.clone(),
            None => self.initial().await?,
        };
        let mut question = Message::default();
        question.int(call::PARTITIONS).text(start.as_json()).text(end.as_json());
        let mut asked = self.asked(&question).await?;
        let answer = planned(asked.worker.stream()).await;
        let (partitions, kept) = asked.told("planPartitions", answer)?;
        Ok(match kept {
            None => self.reader.splits(partitions),
            Some(batches) => vec![Arc::new(Kept { schema: self.schema.clone(), label: self.class.name.clone(), batches })],
        })
    }

    async fn commit(&self, end: &Offset) -> Result<()> {
        let mut question = Message::default();
        question.int(call::COMMIT).text(end.as_json());
        self.ask_int("commitSource", &question).await.map(drop)
    }

    async fn changed(&self) {
        self.clock.sleep(POLL).await;
    }

    async fn stop(&self) {
        drop(self.worker.lock().await.take());
    }
}

/// Rows that a simple reader has read already.
#[derive(Debug)]
struct Kept {
    schema: SchemaRef,
    label: String,
    batches: Vec<RecordBatch>,
}

impl Split for Kept {
    fn label(&self) -> &str {
        &self.label
    }

    fn read(&self, context: ReadContext) -> BatchStream {
        let schema = self.schema.clone();
        let rows = move |batch: RecordBatch| projected(batch.columns(), batch.num_rows(), &schema, &context.projection);
        stream::iter(self.batches.clone()).map(rows).boxed()
    }
}
