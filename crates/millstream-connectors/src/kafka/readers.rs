//! Consumers that stay open between batches.
//!
//! One consumer holds many partitions, each with a queue of its own, so that splits are read in parallel without a thread for each. A
//! consumer goes on fetching behind the range that was asked for: the next batch mostly begins with records that are here already. Groups
//! of consumers are never joined; every position is given by the planner.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use millstream_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use rdkafka::consumer::Consumer;
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::error::KafkaError;
use rdkafka::message::{Message, OwnedMessage};
use rdkafka::topic_partition_list::Offset as Place;
use rdkafka::{ClientConfig, TopicPartitionList};
use tokio::sync::Notify;

use super::client::{Client, Listener};
use super::positions::TopicPartition;

/// How long a consumer may take to move to another position.
const MOVE: Duration = Duration::from_secs(10);

/// The consumers of one source.
#[derive(Debug)]
pub(super) struct Readers {
    config: ClientConfig,
    /// Consumers among which partitions are dealt.
    homes: usize,
    clients: Mutex<Vec<Arc<Reader>>>,
    /// Told when records arrive that nobody is reading.
    pub(super) news: Arc<Notify>,
}

#[derive(Debug)]
struct Reader {
    client: Client,
    lanes: Mutex<HashMap<TopicPartition, Option<Lane>>>,
}

/// The queue of one partition in one consumer.
pub(super) struct Lane {
    pub(super) queue: PartitionQueue<Listener>,
    /// Told when the queue stops being empty.
    pub(super) arrived: Arc<Notify>,
    /// A record that was taken from the queue and belongs to the next range.
    pub(super) ahead: Option<OwnedMessage>,
    /// The offset from which on the queue has every record; unknown after a failure.
    pub(super) next: Option<i64>,
    /// The end of the log was told, and no record since. The client tells an end once, and a range that ends before it may be read later.
    pub(super) was_at_end: bool,
}

impl Lane {
    /// Looks for what came while nobody reads, and whether the first record of it did. What the client tells beside records is taken out of
    /// the queue: only an empty one tells of the next record.
    fn has_news(&mut self) -> bool {
        while self.ahead.is_none() {
            match self.queue.poll(Duration::ZERO) {
                None => return false,
                Some(Ok(record)) if self.next.is_some_and(|next| record.offset() < next) => {}
                Some(Ok(record)) => {
                    self.ahead = Some(record.detach());
                    return true;
                }
                Some(Err(KafkaError::PartitionEOF(_))) => self.was_at_end = true,
                Some(Err(error)) => {
                    tracing::debug!(%error, "a consumer that nobody reads failed, and moves before it is read again");
                    self.next = None;
                }
            }
        }
        false
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("next", &self.next).finish_non_exhaustive()
    }
}

/// A lane that one split reads. It goes back when this is dropped.
#[derive(Debug)]
pub(super) struct Lease {
    reader: Arc<Reader>,
    partition: TopicPartition,
    lane: Option<Lane>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut lanes = self.reader.lanes.lock();
        match self.lane.take() {
            Some(lane) => drop(lanes.insert(self.partition.clone(), Some(lane))),
            None => drop(lanes.remove(&self.partition)),
        }
    }
}

impl Lease {
    /// The lane, while nothing has failed.
    pub(super) fn lane(&mut self) -> Result<&mut Lane> {
        self.lane.as_mut().ok_or_else(|| Error::internal("a partition is read after its consumer was given up"))
    }

    /// Moves to an offset: what is in the queue is thrown away.
    ///
    /// # Errors
    /// `TimeoutException` when the client does not do it.
    pub(super) async fn move_to(&mut self, offset: i64) -> Result<()> {
        let (client, partition) = (self.reader.client.consumer().clone(), self.partition.clone());
        let lane = self.lane()?;
        (lane.next, lane.ahead, lane.was_at_end) = (None, None, false);
        let moving = move || client.seek(&partition.topic, partition.partition, Place::Offset(offset), MOVE);
        let moved =
            tokio::task::spawn_blocking(moving).await.map_err(|error| Error::internal("moving a consumer ended early").caused_by(error))?;
        moved.map_err(|error| {
            let what = format!("the Kafka client cannot move to offset {offset} of {}", self.partition);
            Error::new(ErrorKind::SourceUnavailable, "TimeoutException", what).caused_by(error)
        })?;
        self.lane()?.next = Some(offset);
        Ok(())
    }

    /// The range is read up to `next`, where the queue goes on. If another consumer reads what follows, this one stops to fetch it.
    pub(super) fn finish(mut self, next: i64, goes_on: bool) {
        if goes_on {
            if let Some(lane) = &mut self.lane {
                lane.next = Some(next);
            }
            return;
        }
        tokio::task::spawn_blocking(move || {
            self.lane = None;
            let mut list = TopicPartitionList::new();
            list.add_partition(&self.partition.topic, self.partition.partition);
            if let Err(error) = self.reader.client.consumer().incremental_unassign(&list) {
                tracing::debug!(%error, partition = %self.partition, "a partition stays assigned");
            }
        });
    }
}

impl Readers {
    /// Readers for `homes` consumers with these settings.
    pub(super) fn new(config: ClientConfig, homes: usize) -> Self {
        Readers { config, homes: homes.max(1), clients: Mutex::default(), news: Arc::default() }
    }

    /// A lane that is at `from`, and whether it went there only now.
    ///
    /// # Errors
    /// `ConfigException`; `TimeoutException`.
    pub(super) async fn lease(self: &Arc<Self>, partition: &TopicPartition, from: i64) -> Result<(Lease, bool)> {
        if let Some(mut lease) = self.idle(partition) {
            if lease.lane()?.next == Some(from) {
                return Ok((lease, false));
            }
            match lease.move_to(from).await {
                Ok(()) => return Ok((lease, true)),
                // After an error the client may not fetch the partition any more: another one will.
                Err(error) => {
                    tracing::debug!(%error, "a consumer is given up");
                    self.clients.lock().retain(|reader| !Arc::ptr_eq(reader, &lease.reader));
                }
            }
        }
        let (readers, partition) = (self.clone(), partition.clone());
        let opening = tokio::task::spawn_blocking(move || readers.assign(&partition, from));
        Ok((opening.await.map_err(|error| Error::internal("opening a consumer ended early").caused_by(error))??, true))
    }

    /// Follows partitions from these offsets on, so that news of them are told. Blocks for milliseconds.
    pub(super) fn follow<'a>(self: &Arc<Self>, positions: impl Iterator<Item = (&'a TopicPartition, &'a i64)>) {
        for (partition, from) in positions {
            let is_known = self.clients.lock().iter().any(|reader| reader.lanes.lock().contains_key(partition));
            if !is_known && let Err(error) = self.assign(partition, *from) {
                tracing::debug!(%error, %partition, "a partition is not followed");
            }
        }
    }

    /// Whether a record arrived that nobody has asked for, since this was last asked. While it says no, [`Readers::news`] tells of the next.
    pub(super) fn have_news(&self) -> bool {
        let clients = self.clients.lock();
        // Every lane is looked at: each is to tell of its next record.
        let news = clients
            .iter()
            .map(|reader| reader.lanes.lock().values_mut().flatten().filter_map(|lane| lane.has_news().then_some(())).count());
        news.sum::<usize>() > 0
    }

    fn idle(&self, partition: &TopicPartition) -> Option<Lease> {
        self.clients.lock().iter().find_map(|reader| {
            let lane = reader.lanes.lock().get_mut(partition)?.take()?;
            Some(Lease { reader: reader.clone(), partition: partition.clone(), lane: Some(lane) })
        })
    }

    /// A new lane in a consumer that does not have the partition. Blocks for milliseconds.
    fn assign(&self, partition: &TopicPartition, from: i64) -> Result<Lease> {
        let mut hasher = DefaultHasher::new();
        partition.hash(&mut hasher);
        let home = usize::try_from(hasher.finish() % self.homes as u64).unwrap_or(0);
        let free = |reader: &&Arc<Reader>| !reader.lanes.lock().contains_key(partition);
        let known = {
            let clients = self.clients.lock();
            let at_home = clients.get(home).filter(free);
            let anywhere = || if clients.len() < self.homes { None } else { clients.iter().find(free) };
            let found = at_home.or_else(anywhere).cloned();
            // Taken before another split can take it.
            found.inspect(|reader| drop(reader.lanes.lock().insert(partition.clone(), None)))
        };
        let reader = match known {
            Some(reader) => reader,
            None => {
                let reader = Arc::new(Reader { client: Client::open(&self.config)?, lanes: Mutex::default() });
                reader.lanes.lock().insert(partition.clone(), None);
                self.clients.lock().push(reader.clone());
                reader
            }
        };
        let mut lease = Lease { reader: reader.clone(), partition: partition.clone(), lane: None };
        let consumer = reader.client.consumer();
        let refused = |what: String| Error::new(ErrorKind::SourceUnavailable, "TimeoutException", what);
        // The queue comes first: records must not go to the queue of all partitions.
        let mut queue = consumer
            .split_partition_queue(&partition.topic, partition.partition)
            .ok_or_else(|| refused(format!("the Kafka client has no queue for {partition}")))?;
        let (arrived, news) = (Arc::new(Notify::new()), self.news.clone());
        let tell = arrived.clone();
        queue.set_nonempty_callback(move || {
            tell.notify_one();
            news.notify_one();
        });
        let mut list = TopicPartitionList::new();
        let assigned = list
            .add_partition_offset(&partition.topic, partition.partition, Place::Offset(from))
            .and_then(|()| consumer.incremental_assign(&list));
        assigned.map_err(|error| refused(format!("the Kafka client does not take {partition}")).caused_by(error))?;
        lease.lane = Some(Lane { queue, arrived, ahead: None, next: Some(from), was_at_end: false });
        Ok(lease)
    }
}
