//! The sink. Records are staged until their batch is committed and sent then, so that a batch that was never planned durably is never seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use millstream_core::options::{OptionKind, OptionSpec};
use millstream_core::registry::{SinkProvider, WriteRequest};
use millstream_core::sink::{Admission, BatchInfo, Committed, Guarantee, OutputMode, Part, PartWriter, Sink};
use millstream_core::{Error, Options, Result};
use parking_lot::Mutex;
use uuid::Uuid;

use super::columns::Columns;
use super::config::Settings;
use super::options::CONNECTION;
use super::producer::{Sender, give_up};
use super::staging::{Files, StagingWriter};
use crate::rate::illegal_argument;

/// Options of the sink.
const SINK: &[OptionSpec] = &[
    CONNECTION[0],
    CONNECTION[1],
    OptionSpec {
        name: "topic",
        kind: OptionKind::Text,
        default: None,
        doc: "The topic of all records; without it the column topic says it for each.",
    },
    OptionSpec {
        name: "includeHeaders",
        kind: OptionKind::Bool,
        default: Some("false"),
        doc: "Accepted for Spark's sake: a column headers is always sent.",
    },
    OptionSpec {
        name: "batchHeader",
        kind: OptionKind::Text,
        default: None,
        doc: "A header with this name is put before those of each record; its value is `query id/batch id`, by which readers can tell records \
              that were sent again.",
    },
    OptionSpec {
        name: "transactional",
        kind: OptionKind::Bool,
        default: Some("false"),
        doc: "Sends each batch in one transaction, together with its number: readers with isolation.level=read_committed see it exactly once. \
              Needs the option topic.",
    },
    OptionSpec {
        name: "transactionalIdPrefix",
        kind: OptionKind::Text,
        default: Some("millstream"),
        doc: "How the transactional id, and the consumer group that keeps the number of the last batch, begin; the query's id follows.",
    },
];

/// Makes [`KafkaSink`]s.
#[derive(Debug, Default)]
pub struct KafkaSinkProvider;

#[async_trait]
impl SinkProvider for KafkaSinkProvider {
    fn names(&self) -> &'static [&'static str] {
        &["kafka"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        SINK.to_vec()
    }

    async fn sink(&self, request: &WriteRequest) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(KafkaSink {
            options: request.options.clone(),
            shared: Arc::default(),
            columns: Mutex::default(),
            newest: Mutex::default(),
        }))
    }
}

/// Sends rows as records.
#[derive(Debug)]
pub struct KafkaSink {
    options: Options,
    shared: Arc<Shared>,
    columns: Mutex<Option<(SchemaRef, Arc<Columns>)>>,
    newest: Mutex<Option<u64>>,
}

/// What blocking work needs.
#[derive(Debug, Default)]
struct Shared {
    sender: Mutex<Option<Arc<Sender>>>,
    files: Arc<Files>,
    stop: AtomicBool,
}

/// What a producer needs to be as careful as Spark's: idempotent, confirmed by all replicas, and with Java's partition for a key.
const PRODUCER: [(&str, &str); 4] =
    [("enable.idempotence", "true"), ("acks", "all"), ("partitioner", "murmur2_random"), ("reconnect.backoff.max.ms", "1000")];

/// How long records may take that are sent without a transaction. With one they may take as long as it may.
const TIMEOUT: (&str, &str) = ("message.timeout.ms", "120000");

impl KafkaSink {
    fn topic(&self) -> Option<&str> {
        self.options.get("topic")
    }

    fn is_transactional(&self) -> Result<bool> {
        self.options.bool("transactional", false).map_err(|error| illegal_argument(error.message().to_owned()))
    }

    /// Checks the options, which Spark does when the query runs.
    fn check(&self) -> Result<()> {
        for (name, what) in [("key.serializer", "keys"), ("value.serializer", "value")] {
            if self.options.get(&format!("kafka.{name}")).is_some() {
                let message = format!("Kafka option '{name}' is not supported as {what} are serialized with ByteArraySerializer.");
                return Err(illegal_argument(message));
            }
        }
        if self.options.get("kafka.bootstrap.servers").is_none_or(|servers| servers.trim().is_empty()) {
            let message =
                "Kafka option bootstrap.servers is not set. Please make sure it is set and retry: option 'kafka.bootstrap.servers'";
            return Err(Error::invalid("SparkException", message));
        }
        if self.is_transactional()? && self.topic().is_none() {
            return Err(illegal_argument("option 'transactional' needs the option 'topic': the number of a batch is kept with one topic"));
        }
        Settings::from(&self.options).map(drop)
    }

    fn columns(&self, schema: &SchemaRef) -> Result<Arc<Columns>> {
        let mut bound = self.columns.lock();
        match &*bound {
            Some((known, columns)) if known == schema => Ok(columns.clone()),
            _ => {
                let columns = Arc::new(Columns::bind(schema, self.topic().is_some())?);
                *bound = Some((schema.clone(), columns.clone()));
                Ok(columns)
            }
        }
    }

    /// Runs work with the sender, which is opened first if there is none.
    async fn with_sender<T: Send + 'static>(
        &self,
        query_id: Uuid,
        work: impl FnOnce(&Sender, &Shared) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let settings = Settings::from(&self.options)?;
        let transactions = match (self.is_transactional()?, self.topic()) {
            (true, Some(topic)) => {
                let prefix = self.options.get("transactionalIdPrefix").unwrap_or("millstream");
                Some((format!("{prefix}-{query_id}"), topic.to_owned()))
            }
            _ => None,
        };
        let shared = self.shared.clone();
        let working = tokio::task::spawn_blocking(move || {
            let known = shared.sender.lock().clone();
            let sender = match known {
                Some(sender) => sender,
                None => {
                    let sender = match &transactions {
                        Some((id, topic)) => {
                            let mut config = settings.over(&PRODUCER);
                            config.set("transactional.id", id);
                            let mut group = settings.over(&[("enable.auto.commit", "false")]);
                            group.set("group.id", id).set("isolation.level", "read_committed");
                            Sender::open_transactional(&config, &group, topic, &shared.stop)?
                        }
                        None => Sender::open(&settings.over(&[&PRODUCER[..], &[TIMEOUT]].concat()))?,
                    };
                    let sender = Arc::new(sender);
                    *shared.sender.lock() = Some(sender.clone());
                    sender
                }
            };
            let outcome = work(&sender, &shared);
            if outcome.is_err() {
                // Its state is not known; another one finds out.
                shared.sender.lock().take();
            }
            outcome
        });
        working.await.map_err(|error| Error::internal("sending to Kafka ended early").caused_by(error))?
    }

    async fn last_batch(&self, query_id: Uuid) -> Result<Option<u64>> {
        if !self.is_transactional()? {
            return Ok(None);
        }
        self.with_sender(query_id, |sender, _| sender.last_batch()).await
    }
}

impl Drop for KafkaSink {
    fn drop(&mut self) {
        give_up(self.shared.sender.lock().take());
    }
}

#[async_trait]
impl Sink for KafkaSink {
    fn description(&self) -> String {
        "org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable".to_owned()
    }

    fn guarantee(&self) -> Guarantee {
        if self.is_transactional().unwrap_or(false) { Guarantee::ExactlyOnce } else { Guarantee::AtLeastOnce }
    }

    fn supports(&self, _mode: OutputMode) -> bool {
        true
    }

    async fn prepare(&self, schema: &SchemaRef, _mode: OutputMode) -> Result<()> {
        self.check()?;
        self.columns(schema).map(drop)
    }

    async fn admit(&self, batch: &BatchInfo) -> Result<Admission> {
        let known = *self.newest.lock();
        let newest = match known {
            Some(newest) => Some(newest),
            None => self.last_batch(batch.query_id).await?,
        };
        if known.is_none() {
            *self.newest.lock() = newest;
        }
        Ok(if newest.is_some_and(|newest| newest >= batch.batch_id) { Admission::AlreadyCommitted } else { Admission::Write })
    }

    async fn writer(&self, batch: &BatchInfo, _partition: usize) -> Result<Box<dyn PartWriter>> {
        Ok(Box::new(StagingWriter::new(self.columns(&batch.schema)?, self.shared.files.clone())?))
    }

    async fn commit(&self, batch: &BatchInfo, parts: Vec<Part>) -> Result<Committed> {
        let rows: u64 = parts.iter().map(|part| part.rows).sum();
        if self.admit(batch).await? == Admission::AlreadyCommitted {
            self.shared.files.forget(&parts);
            return Ok(Committed { rows, ..Committed::default() });
        }
        // An empty transaction would be refused; the batch has nothing to be seen.
        if rows > 0 {
            let (topic, batch_id) = (self.topic().map(str::to_owned), batch.batch_id);
            let header = self.options.get("batchHeader").map(|name| (name.to_owned(), format!("{}/{batch_id}", batch.query_id)));
            let sent = parts.clone();
            let sending = move |sender: &Sender, shared: &Shared| {
                let send = || -> Result<()> {
                    sender.begin()?;
                    let header = header.as_ref().map(|(name, value)| (name.as_str(), value.as_str()));
                    for part in &sent {
                        for staged in shared.files.read(&part.staged)? {
                            let staged = staged.map_err(|error| Error::internal("staged records do not decode").caused_by(error))?;
                            sender.send(&staged, topic.as_deref(), header, &shared.stop)?;
                        }
                    }
                    sender.finish(rows, batch_id, &shared.stop)
                };
                send().inspect_err(|_| sender.abort())
            };
            if let Err(error) = self.with_sender(batch.query_id, sending).await {
                // The transaction may be committed although nobody said so. Who asks again ends it, one way or the other.
                let found = self.is_transactional()? && !self.shared.stop.load(Ordering::Relaxed);
                let found = found && self.last_batch(batch.query_id).await.ok().flatten().is_some_and(|newest| newest >= batch_id);
                if !found {
                    return Err(error);
                }
                tracing::info!(batch = batch_id, %error, "a transaction of Kafka is committed, although its outcome was not told");
            }
        }
        self.shared.files.forget(&parts);
        *self.newest.lock() = Some(batch.batch_id);
        Ok(Committed { rows, ..Committed::default() })
    }

    async fn abort(&self, _batch: &BatchInfo, parts: Vec<Part>) {
        self.shared.files.forget(&parts);
    }

    fn interrupt(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    async fn stop(&self) {
        give_up(self.shared.sender.lock().take());
    }
}
