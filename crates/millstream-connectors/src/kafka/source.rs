//! The source. Its offset has a position for every partition; a batch is what lies between two of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use millstream_core::source::{Source, Split};
use millstream_core::source_log::SourceLog;
use millstream_core::{Clock, Error, ErrorKind, Offset, ReadLimit, Result};
use parking_lot::Mutex;

use super::cluster::{Ask, Cluster};
use super::errors::Loss;
use super::options::SourceOptions;
use super::positions::{self, Positions, TopicPartition};
use super::ranges::{self, Range};
use super::resolve::{self, End};
use super::split::{RangeSplit, Reading};

/// How long it is believed which partitions there are.
const PARTITIONS_MS: i64 = 1_000;

/// How often more than the options say an answer is asked for again that lacks what is known.
const INSIST: u32 = 10;

/// The pause before that.
const AGAIN: Duration = Duration::from_millis(100);

const UNKNOWN: &str = "UnknownTopicOrPartitionException";

/// How long [`Source::changed`] waits for records that its consumers would tell, in case that nobody tells.
const PAUSE: Duration = Duration::from_millis(250);

/// Reads topics.
#[derive(Debug)]
pub struct KafkaSource {
    options: SourceOptions,
    reading: Arc<Reading>,
    cluster: Arc<Cluster>,
    /// Commits to the group that the user named.
    commits: Option<Cluster>,
    clock: Arc<dyn Clock>,
    log: Arc<dyn SourceLog>,
    state: Mutex<State>,
}

/// What a run of a query knows.
#[derive(Debug, Default)]
struct State {
    /// Where the query began, from the log of the source.
    initial: Option<Positions>,
    /// The partitions with their leaders, and when they were asked for.
    partitions: Option<(i64, BTreeMap<TopicPartition, i32>)>,
    /// The ends of partitions beyond which this run does not go.
    frozen: Option<Positions>,
    /// The newest ends, for reports.
    latest: Positions,
    /// Where the last batch ends, for reports.
    consumed: Positions,
    /// When a batch was last let through that had to wait for enough offsets.
    last_batch_ms: i64,
}

impl KafkaSource {
    pub(super) fn new(options: SourceOptions, reading: Reading, commits: Option<Cluster>, log: Arc<dyn SourceLog>) -> Self {
        let (cluster, clock) = (reading.cluster.clone(), reading.clock.clone());
        KafkaSource { options, reading: Arc::new(reading), cluster, commits, clock, log, state: Mutex::default() }
    }

    /// Where the query began: from the source's log, or as the options say now, which goes into the log.
    async fn initial(&self) -> Result<Positions> {
        if let Some(initial) = self.state.lock().initial.clone() {
            return Ok(initial);
        }
        let initial = match self.log.get(0).await? {
            Some(entries) => entries.first().and_then(|entry| positions::parse(entry)).ok_or_else(|| {
                let message = "entry 0 of the Kafka source's log has no offsets: restore it, or start a new checkpoint";
                Error::new(ErrorKind::CheckpointIncompatible, "SOURCE_LOG_MISMATCH", message)
            })?,
            None => {
                let partitions = self.partitions(true).await?;
                let resolved = resolve::bound(&self.cluster, &self.options, partitions.keys(), End::Start).await?;
                // Without a topic, too: those that appear later are read from their beginning.
                self.log.add(0, &[positions::to_offset(&resolved)?.as_json().to_owned()]).await?;
                resolved
            }
        };
        self.state.lock().initial = Some(initial.clone());
        Ok(initial)
    }

    /// The partitions and their leaders, asked for when that was not done `now`.
    async fn partitions(&self, now: bool) -> Result<BTreeMap<TopicPartition, i32>> {
        let time = self.clock.now_ms();
        if let (false, Some((asked, partitions))) = (now, &self.state.lock().partitions)
            && (0..PARTITIONS_MS).contains(&time.saturating_sub(*asked))
        {
            return Ok(partitions.clone());
        }
        let partitions = self.cluster.partitions(&self.options.subscription).await?;
        self.state.lock().partitions = Some((time, partitions.clone()));
        Ok(partitions)
    }

    /// The ends of all partitions. Brokers that just took over, or that answer while partitions move, say less than there is: so ends behind
    /// what is known, and known partitions that are missing, are asked for again. If that lasts, they are a loss, and a query that fails over
    /// it does so before anything is written down.
    async fn ends(&self, known: &Positions, now: bool) -> Result<Positions> {
        let mut attempt = 0;
        loop {
            let partitions = match self.partitions(now || attempt > 0).await {
                Err(error) if error.code() == UNKNOWN && !known.is_empty() => self.remaining(known, error).await?,
                partitions => partitions?,
            };
            let latest = self.cluster.offsets_of(partitions.keys(), Ask::Latest).await?;
            let (_, losses) = ranges::between(known, &latest);
            if losses.is_empty() {
                return Ok(latest);
            }
            if attempt >= self.cluster.retries + INSIST {
                losses.iter().try_for_each(|loss| self.reading.report(loss))?;
                return Ok(latest);
            }
            tracing::debug!(attempt, "the answer of the brokers lacks what is known, and is asked for again");
            attempt += 1;
            self.clock.sleep(self.cluster.retry_interval.max(AGAIN)).await;
        }
    }

    /// The partitions of those topics that are still there.
    async fn remaining(&self, known: &Positions, error: Error) -> Result<BTreeMap<TopicPartition, i32>> {
        use super::options::Subscription;
        let mut remaining = BTreeMap::new();
        let topics: std::collections::BTreeSet<&str> = known.keys().map(|partition| partition.topic.as_ref()).collect();
        for topic in topics {
            match self.cluster.partitions(&Subscription::Topics(vec![topic.to_owned()])).await {
                Ok(partitions) => remaining.extend(partitions),
                Err(error) if error.code() == UNKNOWN => {}
                Err(error) => return Err(error),
            }
        }
        if remaining.is_empty() && !self.options.fail_on_data_loss { Err(error) } else { Ok(remaining) }
    }

    /// The end of the next batch. Partitions that `start` does not have begin where they begin now.
    async fn limited(&self, start: &Positions, latest: Positions, limit: &ReadLimit, is_finite: bool) -> Result<Positions> {
        let new = latest.keys().filter(|partition| !start.contains_key(*partition));
        let earliest = self.cluster.offsets_of(new, Ask::Earliest).await?;
        let parts: &[ReadLimit] = match limit {
            ReadLimit::All(parts) => parts,
            other => std::slice::from_ref(other),
        };
        // A query that ends with its data waits for nothing.
        if let (false, Some((rows, max_delay))) = (is_finite, parts.iter().find_map(min_rows)) {
            let now = self.clock.now_ms();
            let mut state = self.state.lock();
            let waited = Duration::from_millis(u64::try_from(now.saturating_sub(state.last_batch_ms)).unwrap_or(0));
            if waited < max_delay && ranges::backlog(start, &earliest, &latest) < rows {
                return Ok(start.clone());
            }
            state.last_batch_ms = now;
        }
        Ok(match limit.max_rows() {
            Some(rows) => ranges::prorate(rows, start, &earliest, &latest),
            None => latest,
        })
    }
}

fn min_rows(limit: &ReadLimit) -> Option<(u64, Duration)> {
    match limit {
        ReadLimit::MinRows { rows, max_delay } => Some((*rows, *max_delay)),
        _ => None,
    }
}

/// Compares the beginnings of ranges with what is left in the log. What is lost is left out, where that is wanted.
pub(super) async fn check_beginnings(reading: &Reading, known: &Positions, ranges: &mut Vec<Range>) -> Result<()> {
    let earliest = reading.cluster.offsets_of(ranges.iter().map(|range| &range.partition), Ask::Earliest).await?;
    for range in ranges.iter_mut() {
        let low = earliest.get(&range.partition).copied().unwrap_or(0);
        if low <= range.from {
            continue;
        }
        if known.contains_key(&range.partition) {
            let (partition, until) = (range.partition.clone(), low.min(range.until));
            reading.report(&Loss::Expired { partition, from: range.from, until })?;
        } else {
            reading.report(&Loss::LateStart(range.partition.clone(), low))?;
        }
        range.from = low.min(range.until);
    }
    ranges.retain(|range| range.len() > 0);
    Ok(())
}

/// Splits for ranges.
pub(super) fn splits(ranges: Vec<Range>, options: &SourceOptions, reading: &Arc<Reading>) -> Vec<Arc<dyn Split>> {
    let dealt = ranges::deal(ranges, options.min_partitions, options.max_records_per_partition);
    dealt.into_iter().map(|range| Arc::new(RangeSplit::new(range, reading.clone())) as Arc<dyn Split>).collect()
}

#[async_trait]
impl Source for KafkaSource {
    fn description(&self) -> String {
        format!("KafkaV2[{}]", self.options.subscription.description())
    }

    fn schema(&self) -> SchemaRef {
        self.reading.schema.clone()
    }

    fn read_limit(&self) -> ReadLimit {
        self.options.limit.clone()
    }

    fn supports_available_now(&self) -> bool {
        true
    }

    async fn prepare_available_now(&self) -> Result<()> {
        let consumed = self.state.lock().consumed.clone();
        let ends = self.ends(&consumed, true).await?;
        self.state.lock().frozen = Some(ends);
        Ok(())
    }

    async fn restore(&self, committed: Option<&Offset>) -> Result<()> {
        if let Some(committed) = committed {
            self.state.lock().consumed = positions::from_offset(committed)?;
        }
        Ok(())
    }

    async fn latest_offset(&self, start: Option<&Offset>, limit: &ReadLimit) -> Result<Option<Offset>> {
        let begin = match start {
            Some(start) => positions::from_offset(start)?,
            None => self.initial().await?,
        };
        let frozen = self.state.lock().frozen.clone();
        let is_finite = frozen.is_some();
        let latest = match frozen {
            Some(frozen) => frozen,
            None => self.ends(&begin, start.is_none()).await?,
        };
        self.state.lock().latest.clone_from(&latest);
        if latest.is_empty() {
            // Nobody may forget where it was because brokers said nothing.
            return Ok(start.cloned());
        }
        let end = self.limited(&begin, latest, limit, is_finite).await?;
        self.state.lock().consumed.clone_from(&end);
        if start.is_some() && end == begin {
            return Ok(start.cloned());
        }
        positions::to_offset(&end).map(Some)
    }

    fn reported_latest(&self) -> Option<Offset> {
        let latest = self.state.lock().latest.clone();
        if latest.is_empty() { None } else { positions::to_offset(&latest).ok() }
    }

    async fn plan(&self, start: Option<&Offset>, end: &Offset) -> Result<Vec<Arc<dyn Split>>> {
        let known = match start {
            Some(start) => positions::from_offset(start)?,
            None => self.initial().await?,
        };
        let end = positions::from_offset(end)?;
        let (mut ranges, losses) = ranges::between(&known, &end);
        losses.iter().try_for_each(|loss| self.reading.report(loss))?;
        check_beginnings(&self.reading, &known, &mut ranges).await?;
        self.state.lock().consumed = end;
        Ok(splits(ranges, &self.options, &self.reading))
    }

    async fn commit(&self, end: &Offset) -> Result<()> {
        let Some(commits) = &self.commits else { return Ok(()) };
        // The group is a service to others: the query does not depend on it.
        if let Err(error) = commits.commit(positions::from_offset(end)?).await {
            tracing::warn!(%error, "the end of a batch is not committed to the consumer group; lag shown by other tools is too high until the next");
        }
        Ok(())
    }

    async fn changed(&self) {
        // Where nothing was read yet, reading begins at what was the end.
        let positions = {
            let state = self.state.lock();
            let mut positions = state.latest.clone();
            positions.extend(state.consumed.iter().map(|(partition, position)| (partition.clone(), *position)));
            positions
        };
        let (readers, news) = (self.reading.readers.clone(), self.reading.readers.news.clone());
        // Cheap once every partition is followed.
        drop(tokio::task::spawn_blocking(move || readers.follow(positions.iter())));
        let mut pause = self.clock.sleep(PAUSE);
        while !self.reading.readers.have_news() {
            tokio::select! {
                () = news.notified() => {}
                () = &mut pause => return,
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "an average is a fraction")]
    fn metrics(&self) -> BTreeMap<String, String> {
        let state = self.state.lock();
        let behind: BTreeMap<&TopicPartition, i64> = state
            .latest
            .iter()
            .map(|(partition, latest)| (partition, latest.saturating_sub(state.consumed.get(partition).copied().unwrap_or(0)).max(0)))
            .collect();
        let (Some(min), Some(max)) = (behind.values().min(), behind.values().max()) else { return BTreeMap::new() };
        let total: i64 = behind.values().fold(0, |total, behind| total.saturating_add(*behind));
        let average = total as f64 / behind.len() as f64;
        let mut metrics = BTreeMap::from([
            ("minOffsetsBehindLatest".to_owned(), min.to_string()),
            ("maxOffsetsBehindLatest".to_owned(), max.to_string()),
            ("avgOffsetsBehindLatest".to_owned(), average_text(average)),
        ]);
        if *max > 0 {
            metrics.extend(lagging(&behind, average));
        }
        metrics
    }

    async fn stop(&self) {}
}

/// A number of offsets as Java writes it: from ten millions on with an exponent.
fn average_text(average: f64) -> String {
    if average < 1e7 {
        return format!("{average:?}");
    }
    let text = format!("{average:E}");
    match text.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        _ => text,
    }
}

/// The most partitions that a report names.
const MAX_NAMED: usize = 16;

/// The partitions that are furthest behind, and those that hold up the rest: a hot partition has most of the backlog of several.
#[expect(clippy::cast_precision_loss, reason = "compared with an average")]
fn lagging(behind: &BTreeMap<&TopicPartition, i64>, average: f64) -> Vec<(String, String)> {
    let mut most: Vec<(&TopicPartition, i64)> = behind.iter().map(|(partition, behind)| (*partition, *behind)).collect();
    most.sort_by_key(|(_, behind)| std::cmp::Reverse(*behind));
    most.truncate(MAX_NAMED);
    let named: Vec<String> = most.iter().map(|(partition, behind)| format!("\"{partition}\":{behind}")).collect();
    let hot: Vec<&TopicPartition> =
        most.iter().filter(|(_, own)| behind.len() > 1 && *own as f64 > 2.0 * average).map(|(partition, _)| *partition).collect();
    let mut found = vec![("offsetsBehindLatestByPartition".to_owned(), format!("{{{}}}", named.join(",")))];
    if !hot.is_empty() {
        found.push(("hotPartitions".to_owned(), positions::list(hot)));
    }
    found
}
