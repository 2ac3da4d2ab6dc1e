//! Questions to the cluster: which partitions there are, and where they begin and end.
//!
//! librdkafka answers them in calls that block, so each is asked on a thread for blocking work, again and again until the patience that the
//! settings give is over. Those answers decide what a query reads; an answer that is not complete is none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_core::{Clock, Error, Result};
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::metadata::Metadata;
use rdkafka::topic_partition_list::Offset as Place;
use rdkafka::types::RDKafkaRespErr;

use super::client::{Client, Listener};
use super::errors;
use super::options::Subscription;
use super::positions::{Positions, TopicPartition};

/// How long one attempt may take. A stopped query leaves it behind.
const ATTEMPT: Duration = Duration::from_secs(10);

/// What of a partition is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// The offset of the first record.
    Earliest,
    /// The offset after the last record that may be read (with `read_committed`: up to the first open transaction).
    Latest,
    /// The offset of the first record at or after this time, milliseconds.
    Since(i64),
}

/// The offset that answers [`Ask::Since`] where there is no such record.
pub(super) const NO_MATCH: i64 = -1;

/// A client for questions.
#[derive(Debug)]
pub(super) struct Cluster {
    client: Client,
    clock: Arc<dyn Clock>,
    pub(super) patience: Duration,
    pub(super) retries: u32,
    pub(super) retry_interval: Duration,
}

type Asked = BaseConsumer<Listener>;

impl Cluster {
    pub(super) fn new(client: Client, clock: Arc<dyn Clock>, patience: Duration, (retries, retry_interval): (u32, Duration)) -> Self {
        Cluster { client, clock, patience, retries, retry_interval }
    }

    /// Pauses before something is tried again.
    pub(super) async fn pause(&self) {
        self.clock.sleep(self.retry_interval).await;
    }

    /// The partitions of a subscription with the brokers that lead them (-1: nobody now).
    ///
    /// # Errors
    /// `UnknownTopicOrPartitionException` for a topic by name that is not there; those of an unreachable cluster.
    pub(super) async fn partitions(&self, subscription: &Subscription) -> Result<BTreeMap<TopicPartition, i32>> {
        let subscription = subscription.clone();
        self.ask("which partitions there are", move |consumer, timeout| {
            let mut found = BTreeMap::new();
            match &subscription {
                Subscription::Topics(topics) => {
                    for topic in topics {
                        collect(&consumer.fetch_metadata(Some(topic), timeout)?, |name| name == topic, &mut found)?;
                    }
                }
                Subscription::Pattern(pattern) => {
                    collect(&consumer.fetch_metadata(None, timeout)?, |name| pattern.is_match(name), &mut found)?;
                }
                Subscription::Partitions(wanted) => {
                    let mut topics: Vec<&str> = wanted.iter().map(|partition| partition.topic.as_ref()).collect();
                    topics.dedup();
                    for topic in topics {
                        collect(&consumer.fetch_metadata(Some(topic), timeout)?, |name| name == topic, &mut found)?;
                    }
                    found.retain(|partition, _| wanted.contains(partition));
                }
            }
            Ok(found)
        })
        .await
    }

    /// The broker that leads a partition.
    pub(super) async fn leader(&self, partition: &TopicPartition) -> Result<i32> {
        let only = Subscription::Partitions(vec![partition.clone()]);
        let found = self.partitions(&only).await?;
        found.get(partition).copied().ok_or_else(|| gone(partition))
    }

    /// One number for each of these partitions.
    ///
    /// # Errors
    /// `UnknownTopicOrPartitionException`; those of an unreachable cluster.
    pub(super) async fn offsets(&self, wanted: BTreeMap<TopicPartition, Ask>) -> Result<Positions> {
        if wanted.is_empty() {
            return Ok(Positions::new());
        }
        self.ask("where partitions begin and end", move |consumer, timeout| {
            let mut list = TopicPartitionList::with_capacity(wanted.len());
            for (partition, ask) in &wanted {
                let place = match ask {
                    Ask::Earliest => Place::Beginning,
                    Ask::Latest => Place::End,
                    Ask::Since(ms) => Place::Offset((*ms).max(0)),
                };
                list.add_partition_offset(&partition.topic, partition.partition, place)?;
            }
            let answered = consumer.offsets_for_times(list, timeout)?;
            let mut positions = Positions::new();
            for element in answered.elements() {
                element.error()?;
                let partition = TopicPartition::new(element.topic(), element.partition());
                let position = match element.offset() {
                    Place::Offset(offset) => offset,
                    Place::End if matches!(wanted.get(&partition), Some(Ask::Since(_))) => NO_MATCH,
                    _ => return Err(KafkaError::OffsetFetch(Code::NoOffset)),
                };
                positions.insert(partition, position);
            }
            if positions.len() != wanted.len() {
                return Err(KafkaError::OffsetFetch(Code::Partial));
            }
            Ok(positions)
        })
        .await
    }

    /// The same for all partitions.
    pub(super) async fn offsets_of<'a>(&self, partitions: impl IntoIterator<Item = &'a TopicPartition>, ask: Ask) -> Result<Positions> {
        self.offsets(partitions.into_iter().map(|partition| (partition.clone(), ask)).collect()).await
    }

    /// The offset of the first record of a partition.
    pub(super) async fn earliest(&self, partition: &TopicPartition) -> Result<i64> {
        self.offsets_of([partition], Ask::Earliest).await?.get(partition).copied().ok_or_else(|| gone(partition))
    }

    /// The offset after the last record of a partition.
    pub(super) async fn latest(&self, partition: &TopicPartition) -> Result<i64> {
        self.offsets_of([partition], Ask::Latest).await?.get(partition).copied().ok_or_else(|| gone(partition))
    }

    /// Commits positions to the group of the client.
    pub(super) async fn commit(&self, positions: Positions) -> Result<()> {
        self.ask("committing offsets to a consumer group", move |consumer, _| {
            let mut list = TopicPartitionList::with_capacity(positions.len());
            for (partition, position) in &positions {
                list.add_partition_offset(&partition.topic, partition.partition, Place::Offset(*position))?;
            }
            consumer.commit(&list, rdkafka::consumer::CommitMode::Sync)
        })
        .await
    }

    /// Asks until there is an answer, an error that will not pass, or no patience left.
    async fn ask<T: Send + 'static>(
        &self,
        what: &'static str,
        question: impl Fn(&Asked, Duration) -> Result<T, KafkaError> + Send + Sync + 'static,
    ) -> Result<T> {
        let question = Arc::new(question);
        let began = self.clock.monotonic_ns();
        let mut attempt = 0_u32;
        loop {
            let (consumer, question) = (self.client.consumer().clone(), question.clone());
            let timeout = ATTEMPT.min(self.patience).max(Duration::from_millis(1));
            let asked = tokio::task::spawn_blocking(move || question(&consumer, timeout)).await;
            let error = match asked.map_err(|error| Error::internal("a question to Kafka ended early").caused_by(error))? {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            attempt += 1;
            let waited = Duration::from_nanos(self.clock.monotonic_ns().saturating_sub(began));
            if !errors::is_passing(&error) || (waited >= self.patience && attempt > self.retries) {
                let heard = self.client.consumer().context().last_error().filter(|_| errors::is_passing(&error));
                let what = heard.map_or_else(|| what.to_owned(), |heard| format!("{what} (the client says: {heard})"));
                return Err(errors::unavailable(&what, error));
            }
            tracing::debug!(%error, attempt, "a question to Kafka is asked again: {what}");
            self.clock.sleep(self.retry_interval.max(Duration::from_millis(if attempt > self.retries { 100 } else { 1 }))).await;
        }
    }
}

fn gone(partition: &TopicPartition) -> Error {
    errors::Loss::Deleted(vec![partition.clone()]).error()
}

fn collect(metadata: &Metadata, wanted: impl Fn(&str) -> bool, found: &mut BTreeMap<TopicPartition, i32>) -> Result<(), KafkaError> {
    for topic in metadata.topics().iter().filter(|topic| wanted(topic.name())) {
        if let Some(error) = topic.error() {
            return Err(KafkaError::MetadataFetch(code(error)));
        }
        if topic.partitions().is_empty() {
            return Err(KafkaError::MetadataFetch(Code::LeaderNotAvailable));
        }
        let name: Arc<str> = topic.name().into();
        found.extend(topic.partitions().iter().map(|partition| (TopicPartition::new(name.clone(), partition.id()), partition.leader())));
    }
    Ok(())
}

fn code(error: RDKafkaRespErr) -> Code {
    error.into()
}
