//! Sending records. Everything here blocks and runs on threads for blocking work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use millstream_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use rdkafka::client::ClientContext;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::topic_partition_list::Offset as Place;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, Statistics, TopicPartitionList};

use super::client::{Listener, misconfigured};
use super::columns::Records;
use arrow::array::RecordBatch;

/// How long one step of a transaction may take before it is looked at whether the query is to stop.
const STEP: Duration = Duration::from_secs(5);

/// Counts what the brokers have taken.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    listener: Listener,
    taken: AtomicU64,
    failure: Mutex<Option<KafkaError>>,
}

impl ClientContext for Deliveries {
    fn log(&self, level: rdkafka::config::RDKafkaLogLevel, facility: &str, message: &str) {
        self.listener.log(level, facility, message);
    }

    fn stats(&self, _statistics: Statistics) {}

    fn error(&self, error: KafkaError, reason: &str) {
        self.listener.error(error, reason);
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        match result {
            Ok(_) => drop(self.taken.fetch_add(1, Ordering::Relaxed)),
            Err((error, _)) => drop(self.failure.lock().get_or_insert_with(|| error.clone())),
        }
    }
}

/// A producer, with a transaction around each batch if it has an id for them.
pub(super) struct Sender {
    producer: BaseProducer<Deliveries>,
    transaction: Option<Transaction>,
}

/// What makes a batch of a query visible once.
pub(super) struct Transaction {
    /// Knows the group in which the number of the last batch is kept.
    consumer: BaseConsumer<Listener>,
    topic: String,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sender")
    }
}

impl Sender {
    /// A producer with these settings.
    ///
    /// # Errors
    /// `ConfigException`.
    pub(super) fn open(config: &ClientConfig) -> Result<Self> {
        let producer = BaseProducer::from_config_and_context(config, Deliveries::default()).map_err(misconfigured)?;
        Ok(Sender { producer, transaction: None })
    }

    /// A producer with transactions. Ends what an earlier process of the query left open, and keeps that process from going on.
    ///
    /// # Errors
    /// `ConfigException`; `TimeoutException` when the brokers do not answer; `PRODUCER_FENCED` when a later process has taken over.
    pub(super) fn open_transactional(config: &ClientConfig, group: &ClientConfig, topic: &str, stop: &AtomicBool) -> Result<Self> {
        let mut sender = Self::open(config)?;
        sender.persist("beginning transactions", stop, |producer| producer.init_transactions(STEP))?;
        let consumer = BaseConsumer::from_config_and_context(group, Listener::default()).map_err(misconfigured)?;
        sender.transaction = Some(Transaction { consumer, topic: topic.to_owned() });
        Ok(sender)
    }

    /// The last batch that a transaction of the query has made visible.
    ///
    /// # Errors
    /// `TimeoutException`.
    pub(super) fn last_batch(&self) -> Result<Option<u64>> {
        let Some(transaction) = &self.transaction else { return Ok(None) };
        let mut list = TopicPartitionList::new();
        list.add_partition(&transaction.topic, 0);
        let known = transaction.consumer.committed_offsets(list, Duration::from_secs(60));
        let known = known.map_err(|error| self.failed("asking for the last batch in Kafka", error))?;
        Ok(known.elements().iter().find_map(|element| match element.offset() {
            Place::Offset(offset) => u64::try_from(offset).ok()?.checked_sub(1),
            _ => None,
        }))
    }

    /// Begins a batch.
    ///
    /// # Errors
    /// Those of the brokers.
    pub(super) fn begin(&self) -> Result<()> {
        self.producer.context().taken.store(0, Ordering::Relaxed);
        *self.producer.context().failure.lock() = None;
        if self.transaction.is_some() {
            self.producer.begin_transaction().map_err(|error| self.failed("beginning a transaction", error))?;
        }
        Ok(())
    }

    /// Sends rows. What the brokers refuse is known at the end of the batch at the latest.
    ///
    /// # Errors
    /// `CANCELLED` when the query is asked to stop; those of the brokers.
    pub(super) fn send(&self, rows: &RecordBatch, topic: Option<&str>, header: Option<(&str, &str)>, stop: &AtomicBool) -> Result<u64> {
        let records = Records::of(rows);
        for row in 0..rows.num_rows() {
            let outgoing = records.get(row);
            let to = topic.or(outgoing.topic).unwrap_or_default();
            let mut record = BaseRecord::<[u8], [u8]>::to(to);
            (record.key, record.payload, record.partition) = (outgoing.key, outgoing.value, outgoing.partition);
            record.headers = records.headers(row, header);
            loop {
                match self.producer.send(record) {
                    Ok(()) => break,
                    Err((KafkaError::MessageProduction(Code::QueueFull), again)) => {
                        self.check(stop)?;
                        self.producer.poll(Duration::from_millis(50));
                        record = again;
                    }
                    Err((error, _)) => return Err(self.failed(&format!("sending to topic {to}"), error)),
                }
            }
            if row % 1024 == 0 {
                self.producer.poll(Duration::ZERO);
                self.check(stop)?;
            }
        }
        Ok(rows.num_rows() as u64)
    }

    fn check(&self, stop: &AtomicBool) -> Result<()> {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::cancelled());
        }
        match self.producer.context().failure.lock().clone() {
            Some(error) => Err(self.failed("sending records", error)),
            None => Ok(()),
        }
    }

    /// Ends a batch: every one of its `rows` is with the brokers, and visible.
    ///
    /// # Errors
    /// `CANCELLED`; those of the brokers. Without a transaction some of the rows may be visible then.
    pub(super) fn finish(&self, rows: u64, batch_id: u64, stop: &AtomicBool) -> Result<()> {
        while self.producer.in_flight_count() > 0 {
            self.producer.poll(Duration::from_millis(100));
            self.check(stop)?;
        }
        self.producer.poll(Duration::ZERO);
        self.check(stop)?;
        let taken = self.producer.context().taken.load(Ordering::Relaxed);
        if taken != rows {
            return Err(Error::internal(format!("Kafka confirmed {taken} of {rows} records")));
        }
        let Some(transaction) = &self.transaction else { return Ok(()) };
        let group = transaction.consumer.group_metadata().ok_or_else(|| Error::internal("a consumer without a group"))?;
        let mut marker = TopicPartitionList::new();
        let next = i64::try_from(batch_id.saturating_add(1)).unwrap_or(i64::MAX);
        marker
            .add_partition_offset(&transaction.topic, 0, Place::Offset(next))
            .map_err(|error| Error::internal("the number of a batch is no offset").caused_by(error))?;
        self.persist("adding the number of the batch to its transaction", stop, |producer| {
            producer.send_offsets_to_transaction(&marker, &group, STEP)
        })?;
        self.persist("committing a transaction", &AtomicBool::new(false), |producer| producer.commit_transaction(STEP))
    }

    /// Makes sure that the batch that was begun is not visible. Best effort: the next process does it otherwise.
    pub(super) fn abort(&self) {
        if self.transaction.is_some()
            && let Err(error) = self.producer.abort_transaction(STEP)
        {
            tracing::debug!(%error, "a transaction is left to time out");
        }
    }

    /// Takes a step of a transaction until it is done or cannot be.
    fn persist(&self, what: &str, stop: &AtomicBool, step: impl Fn(&BaseProducer<Deliveries>) -> Result<(), KafkaError>) -> Result<()> {
        for _ in 0..24 {
            let error = match step(&self.producer) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let passes = matches!(&error, KafkaError::Transaction(inner) if inner.is_retriable() && !inner.txn_requires_abort());
            if !passes {
                return Err(self.failed(what, error));
            }
            if stop.load(Ordering::Relaxed) {
                return Err(Error::cancelled());
            }
        }
        let message = format!("{what}: the brokers did not answer in two minutes");
        Err(Error::new(ErrorKind::SinkUnavailable, "TimeoutException", message))
    }

    fn failed(&self, what: &str, error: KafkaError) -> Error {
        failed(what, error, self.producer.context().listener.last_error())
    }
}

/// What the producer said, as an error of a sink.
fn failed(what: &str, error: KafkaError, heard: Option<String>) -> Error {
    let code = match &error {
        KafkaError::Transaction(inner) => Some(inner.code()),
        other => other.rdkafka_error_code(),
    };
    let heard = heard.map(|heard| format!(" (the client says: {heard})")).unwrap_or_default();
    let unavailable = |name: &'static str, fix: &str| Error::new(ErrorKind::SinkUnavailable, name, format!("{what}: {fix}{heard}"));
    match code {
        Some(RDKafkaErrorCode::Fenced | RDKafkaErrorCode::ProducerFenced | RDKafkaErrorCode::InvalidProducerEpoch) => {
            let message = format!("{what}: another process writes for the same query: make sure that only one runs");
            Error::new(ErrorKind::Fenced, "PRODUCER_FENCED", message)
        }
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic) => {
            unavailable("UnknownTopicOrPartitionException", "This server does not host this topic-partition. Create the topic.")
        }
        Some(Code::UnknownPartition) => unavailable(
            "TimeoutException",
            "the topic has no such partition: correct the column partition, or add partitions to the topic.",
        ),
        Some(Code::MessageSizeTooLarge) => Error::new(
            ErrorKind::BadRecord,
            "RecordTooLargeException",
            format!(
                "{what}: a record is larger than kafka.max.request.size or than the topic's max.message.bytes: raise them, or shorten it"
            ),
        ),
        Some(Code::TopicAuthorizationFailed | Code::TransactionalIdAuthorizationFailed | Code::GroupAuthorizationFailed) => unavailable(
            "TopicAuthorizationException",
            "not authorized. Grant this client write on the topic, and its transactions and group.",
        ),
        _ => unavailable("TimeoutException", "the brokers cannot be reached or do not take records. Check the cluster; nothing is lost."),
    }
    .caused_by(error)
}

/// A sender that is given up is closed on a thread of its own: that waits.
pub(super) fn give_up(sender: Option<Arc<Sender>>) {
    let Some(sender) = sender else { return };
    let closing = std::thread::Builder::new().name("kafka-close".to_owned()).spawn(move || drop(sender));
    if let Err(error) = closing {
        tracing::debug!(%error, "a producer was closed in place");
    }
}
