//! Reading one range of one partition, whole or not at all.
//!
//! A range was there when it was planned, but it need not have a record for every offset: transactions leave markers, aborted records are
//! not shown, compaction removes some. So a gap is fine where the log still begins before it, and the end of a range is reached when a record
//! behind it arrives or the log ends there. What a client may do by itself is never relied on: a position that is out of range is an error
//! of its own (`auto.offset.reset=error`), and a client that is slow loses nothing, it is waited for.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::{StreamExt, stream};
use millstream_core::source::{BatchStream, ReadContext, Split};
use millstream_core::{Clock, Error, ErrorKind, Result};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::Message;

use super::cluster::Cluster;
use super::errors::{self, Loss};
use super::ranges::Range;
use super::readers::{Lease, Readers};
use super::rows::Rows;

/// About how many bytes a record has, as long as nobody has looked.
const BYTES_PER_RECORD: u64 = 200;

/// How often gaps are compared with the beginning of the log, at most.
const GAP_CHECK_NS: u64 = 1_000_000_000;

/// How long the queue is trusted to tell that it is no longer empty.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How long records of a range are waited for after an end of the log that was told before the range was planned.
const AFTER_OLD_END: Duration = Duration::from_millis(100);

/// What the splits of a source have in common.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) schema: SchemaRef,
    pub(super) cluster: Arc<Cluster>,
    pub(super) readers: Arc<Readers>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) fail_on_data_loss: bool,
    pub(super) poll_timeout: Duration,
}

impl Reading {
    /// Fails over a loss, or tells it and goes on, as the user wants.
    pub(super) fn report(&self, loss: &Loss) -> Result<()> {
        if self.fail_on_data_loss {
            return Err(loss.error());
        }
        tracing::warn!(loss = loss.text(), "records of Kafka are lost; failOnDataLoss is false, so the query goes on without them");
        Ok(())
    }
}

/// A range of one partition.
#[derive(Debug)]
pub(super) struct RangeSplit {
    label: String,
    range: Range,
    reading: Arc<Reading>,
}

impl RangeSplit {
    pub(super) fn new(range: Range, reading: Arc<Reading>) -> Self {
        RangeSplit { label: range.partition.to_string(), range, reading }
    }
}

impl Split for RangeSplit {
    fn label(&self) -> &str {
        &self.label
    }

    fn size_bytes(&self) -> u64 {
        self.range.len().saturating_mul(BYTES_PER_RECORD)
    }

    fn read(&self, context: ReadContext) -> BatchStream {
        let rows = Rows::new(self.range.partition.clone(), &self.reading.schema, &context.projection, context.batch_size);
        let rows = match rows {
            Ok(rows) => rows,
            Err(error) => return stream::iter([Err(error)]).boxed(),
        };
        let progress = Progress {
            next: self.range.from,
            range: self.range.clone(),
            reading: self.reading.clone(),
            context,
            rows,
            lease: None,
            confirming: None,
            unexplained: None,
            explained_ns: None,
            cut_offs: 0,
        };
        stream::try_unfold(progress, |mut progress| async move { Ok(progress.batch().await?.map(|batch| (batch, progress))) }).boxed()
    }
}

/// How far a range has been read.
struct Progress {
    range: Range,
    /// The next offset that is expected.
    next: i64,
    reading: Arc<Reading>,
    context: ReadContext,
    rows: Rows,
    lease: Option<Lease>,
    /// The end of the log was seen, and is being looked at again; the broker that leads the partition.
    confirming: Option<i32>,
    /// The first offset without a record of which it is not known yet whether it was lost.
    unexplained: Option<i64>,
    /// When gaps were last compared with the beginning of the log.
    explained_ns: Option<u64>,
    /// How often the log seemed to end before the range.
    cut_offs: u32,
}

/// What the queue of a partition gives.
enum Event {
    /// A record was taken; offsets from this one on were left out before it.
    Record {
        gap: Option<i64>,
    },
    /// The range is at its end.
    Done,
    /// The log is at its end.
    End,
    /// Nothing now.
    Empty,
    Failed(KafkaError),
}

impl Progress {
    /// The next batch, or nothing at the end of the range.
    async fn batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.lease.is_none() && self.next < self.range.until {
            self.begin().await?;
        }
        while self.next < self.range.until && !self.rows.is_full() {
            match self.take()? {
                Event::Record { gap } => {
                    if let Some(gap) = gap {
                        self.unexplained.get_or_insert(gap);
                        self.explain(false).await?;
                    }
                }
                Event::Done => {
                    self.unexplained.get_or_insert(self.next);
                    self.next = self.range.until;
                }
                Event::End => self.at_end_of_log().await?,
                Event::Empty => self.wait().await?,
                Event::Failed(error) => self.recover(error).await?,
            }
        }
        if self.next >= self.range.until {
            self.explain(true).await?;
            if let Some(lease) = self.lease.take() {
                lease.finish(self.range.until, self.range.is_last);
            }
        }
        if self.rows.is_empty() { Ok(None) } else { self.rows.take().map(Some) }
    }

    /// Takes a consumer that is at the next offset.
    async fn begin(&mut self) -> Result<()> {
        let (lease, is_fresh) = self.reading.readers.lease(&self.range.partition, self.next).await?;
        self.lease = Some(lease);
        if is_fresh {
            tracing::debug!(partition = %self.range.partition, from = self.next, "a consumer moved to the beginning of a range");
        }
        Ok(())
    }

    fn lease(&mut self) -> Result<&mut Lease> {
        self.lease.as_mut().ok_or_else(|| Error::internal("a range is read without a consumer"))
    }

    /// Takes the next event without waiting.
    fn take(&mut self) -> Result<Event> {
        let Progress { lease, rows, next, range, context, confirming, .. } = self;
        let is_old_end = *next == range.from && confirming.is_none();
        let lane = lease.as_mut().ok_or_else(|| Error::internal("a range is read without a consumer"))?.lane()?;
        if let Some(record) = lane.ahead.take() {
            let event = keep(&record, rows, next, range, context)?;
            if matches!(event, Event::Done) {
                lane.ahead = Some(record);
            }
            lane.was_at_end = false;
            return Ok(event);
        }
        loop {
            return match lane.queue.poll(Duration::ZERO) {
                None => Ok(Event::Empty),
                Some(Ok(record)) if record.offset() < *next => {
                    tracing::debug!(partition = %range.partition, offset = record.offset(), next, "a record before the range is left out");
                    continue;
                }
                Some(Ok(record)) => {
                    let event = keep(&record, rows, next, range, context)?;
                    if matches!(event, Event::Done) {
                        lane.ahead = Some(record.detach());
                    }
                    lane.was_at_end = false;
                    Ok(event)
                }
                Some(Err(KafkaError::PartitionEOF(_))) => {
                    lane.was_at_end = true;
                    // It may have waited here since before the range was planned.
                    if is_old_end {
                        continue;
                    }
                    Ok(Event::End)
                }
                Some(Err(error)) => Ok(Event::Failed(error)),
            };
        }
    }

    /// Waits until the queue has something.
    async fn wait(&mut self) -> Result<()> {
        let clock = self.reading.clock.clone();
        let (patience, began) = (self.reading.poll_timeout, clock.monotonic_ns());
        let arrived = self.lease()?.lane()?.arrived.clone();
        loop {
            let was_at_end = self.lease()?.lane()?.was_at_end;
            tokio::select! {
                () = arrived.notified() => return Ok(()),
                () = clock.sleep(if was_at_end { AFTER_OLD_END } else { LOOK_AGAIN }.min(patience)) => {}
            }
            match self.take()? {
                Event::Empty if was_at_end => {
                    self.lease()?.lane()?.was_at_end = false;
                    return self.at_end_of_log().await;
                }
                Event::Empty => {}
                // Told late, so the waiting is over all the same.
                Event::Record { gap } => {
                    if let Some(gap) = gap {
                        self.unexplained.get_or_insert(gap);
                        self.explain(false).await?;
                    }
                    return Ok(());
                }
                Event::Done => {
                    self.unexplained.get_or_insert(self.next);
                    self.next = self.range.until;
                    return Ok(());
                }
                Event::End => return self.at_end_of_log().await,
                Event::Failed(error) => return self.recover(error).await,
            }
            if Duration::from_nanos(clock.monotonic_ns().saturating_sub(began)) >= patience {
                let message = format!(
                    "Cannot fetch record for offset {} of {} in {} milliseconds: check the brokers, or raise kafkaConsumer.pollTimeoutMs",
                    self.next,
                    self.range.partition,
                    patience.as_millis()
                );
                return Err(Error::new(ErrorKind::SourceUnavailable, "TimeoutException", message));
            }
        }
    }

    /// Offsets without records are fine unless the log begins behind them: then records were deleted before they were read. `now`: look even
    /// if that was done just now.
    async fn explain(&mut self, now: bool) -> Result<()> {
        let Some(gap) = self.unexplained else { return Ok(()) };
        let time = self.reading.clock.monotonic_ns();
        if !now && self.explained_ns.is_some_and(|last| time.saturating_sub(last) < GAP_CHECK_NS) {
            return Ok(());
        }
        let low = self.reading.cluster.earliest(&self.range.partition).await?;
        (self.unexplained, self.explained_ns) = (None, Some(time));
        if low > gap {
            let until = low.min(self.range.until);
            self.reading.report(&Loss::Expired { partition: self.range.partition.clone(), from: gap, until })?;
        }
        Ok(())
    }

    /// The client has seen the end of the log. That may have been long ago, or at a broker that was behind: so the leader is asked where the
    /// log ends, and only an end that the same leader shows again after that answer counts.
    async fn at_end_of_log(&mut self) -> Result<()> {
        let (cluster, partition) = (self.reading.cluster.clone(), self.range.partition.clone());
        let leader = cluster.leader(&partition).await?;
        if self.confirming == Some(leader) && leader >= 0 {
            self.unexplained.get_or_insert(self.next);
            self.next = self.range.until;
            return Ok(());
        }
        let end = cluster.latest(&partition).await?;
        if end < self.range.until {
            // A new leader may be behind for a moment.
            self.cut_offs += 1;
            if self.cut_offs > cluster.retries {
                self.reading.report(&Loss::CutOff { partition, end, until: self.range.until })?;
                self.next = self.range.until;
                return Ok(());
            }
            cluster.pause().await;
        } else {
            self.confirming = Some(leader);
        }
        let next = self.next;
        self.lease()?.move_to(next).await
    }

    /// Goes on after what the client calls an error, if it can.
    async fn recover(&mut self, error: KafkaError) -> Result<()> {
        let partition = self.range.partition.clone();
        match error.rdkafka_error_code() {
            Some(Code::AutoOffsetReset | Code::OffsetOutOfRange) => {
                let cluster = self.reading.cluster.clone();
                let (low, high) = (cluster.earliest(&partition).await?, cluster.latest(&partition).await?);
                if low > self.next {
                    let until = low.min(self.range.until);
                    self.reading.report(&Loss::Expired { partition, from: self.next, until })?;
                    self.next = until;
                } else if high < self.range.until {
                    self.cut_offs += 1;
                    if self.cut_offs > cluster.retries {
                        self.reading.report(&Loss::CutOff { partition, end: high, until: self.range.until })?;
                        self.next = self.range.until;
                    }
                    cluster.pause().await;
                }
                self.again().await
            }
            // The client connects again by itself, and looks for leaders that moved.
            Some(
                Code::BrokerTransportFailure
                | Code::AllBrokersDown
                | Code::OperationTimedOut
                | Code::Resolve
                | Code::NotLeaderForPartition
                | Code::LeaderNotAvailable
                | Code::BrokerNotAvailable
                | Code::ReplicaNotAvailable
                | Code::OffsetNotAvailable
                | Code::UnknownLeaderEpoch
                | Code::FencedLeaderEpoch
                | Code::PreferredLeaderNotAvailable
                | Code::KafkaStorageError
                | Code::RequestTimedOut
                | Code::GroupAuthorizationFailed
                | Code::CoordinatorLoadInProgress
                | Code::CoordinatorNotAvailable
                | Code::NotCoordinator,
            ) => {
                tracing::debug!(%error, %partition, "the Kafka client goes on after an error");
                Ok(())
            }
            Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition | Code::UnknownTopicId) => {
                // Asked again, because brokers that just started do not know all topics yet.
                match self.reading.cluster.leader(&partition).await {
                    Ok(_) => self.again().await,
                    Err(error) if error.code() == "UnknownTopicOrPartitionException" => {
                        self.reading.report(&Loss::Deleted(vec![partition]))?;
                        self.next = self.range.until;
                        Ok(())
                    }
                    Err(error) => Err(error),
                }
            }
            _ => Err(errors::unavailable(&format!("reading {partition} at offset {}", self.next), error)),
        }
    }

    /// Reads on at the next offset with a consumer that is not in the state after an error.
    async fn again(&mut self) -> Result<()> {
        self.confirming = None;
        if self.next >= self.range.until {
            self.lease = None;
            return Ok(());
        }
        let next = self.next;
        if self.lease()?.move_to(next).await.is_ok() {
            return Ok(());
        }
        self.lease = None;
        self.begin().await
    }
}

/// Puts a record into the rows, unless it is behind the range.
fn keep(record: &impl Message, rows: &mut Rows, next: &mut i64, range: &Range, context: &ReadContext) -> Result<Event> {
    let offset = record.offset();
    if offset >= range.until {
        return Ok(Event::Done);
    }
    rows.push(record, context.quarantine.as_ref())?;
    let expected = std::mem::replace(next, offset + 1);
    Ok(Event::Record { gap: (offset > expected).then_some(expected) })
}
