//! Options of the source, with Spark's rejections: where it throws a plain Java exception, the exception's name stands in.

use std::time::Duration;

use millstream_core::options::{OptionKind, OptionSpec, parse_duration};
use millstream_core::{Error, Options, ReadLimit, Result};
use regex::Regex;

use super::positions::{self, Positions, TopicPartition};
use crate::rate::{count, illegal_argument};

const fn text(name: &'static str, default: Option<&'static str>, doc: &'static str) -> OptionSpec {
    OptionSpec { name, kind: OptionKind::Text, default, doc }
}

/// Options that the source and the sink share.
pub(super) const CONNECTION: [OptionSpec; 2] = [
    text("kafka.bootstrap.servers", None, "The brokers to begin with, `host:port` with commas. Required."),
    text(
        "kafka.*",
        None,
        "Any setting of Kafka's Java client or of librdkafka, with `kafka.` before its name: security, timeouts, sizes. See docs/kafka.md for \
         those that are refused, translated or ignored.",
    ),
];

/// Options of the source and of tables.
pub(super) const SOURCE: &[OptionSpec] = &[
    CONNECTION[0],
    CONNECTION[1],
    text("subscribe", None, "Topics to read, with commas. Exactly one of subscribe, subscribePattern and assign is required."),
    text(
        "subscribePattern",
        None,
        "Topics to read, as a regular expression that finds something in their names; new topics are picked up.",
    ),
    text("assign", None, "Partitions to read, as JSON: `{\"topic\":[0,1]}`."),
    text(
        "startingOffsets",
        None,
        "Where a new query or a batch read begins: earliest, latest, or JSON `{\"topic\":{\"0\":5,\"1\":-2}}` (-2 earliest, -1 latest). By \
         default latest for streams and earliest for batches. A query with a checkpoint goes on from there, and partitions that appear later \
         are read from their beginning.",
    ),
    text(
        "startingTimestamp",
        None,
        "Begin at the first record at or after this time in every partition, in milliseconds; before startingOffsetsByTimestamp.",
    ),
    text("startingOffsetsByTimestamp", None, "The same per partition, as JSON: `{\"topic\":{\"0\":1000}}`; before startingOffsets."),
    OptionSpec {
        name: "startingOffsetsByTimestampStrategy",
        kind: OptionKind::OneOf(&["error", "latest"]),
        default: Some("error"),
        doc: "What to do about a partition without a record at or after the starting time: fail, or begin at its end.",
    },
    text("endingOffsets", Some("latest"), "Where a batch read ends: latest, or JSON as for startingOffsets. Not for streams."),
    text("endingTimestamp", None, "End a batch read before the first record at or after this time; before endingOffsetsByTimestamp."),
    text("endingOffsetsByTimestamp", None, "The same per partition, as JSON; before endingOffsets."),
    OptionSpec {
        name: "failOnDataLoss",
        kind: OptionKind::Bool,
        default: Some("true"),
        doc: "Fails when records that were to be read are gone; otherwise says so in the log and goes on with what is left.",
    },
    OptionSpec {
        name: "maxOffsetsPerTrigger",
        kind: OptionKind::Integer { min: 1 },
        default: None,
        doc: "At most this many offsets in a batch, dealt to partitions in proportion to what they have.",
    },
    OptionSpec {
        name: "minOffsetsPerTrigger",
        kind: OptionKind::Integer { min: 1 },
        default: None,
        doc: "Waits for this many new offsets before a batch runs, though not beyond maxTriggerDelay.",
    },
    OptionSpec {
        name: "maxTriggerDelay",
        kind: OptionKind::Duration,
        default: Some("15m"),
        doc: "The longest time that minOffsetsPerTrigger may hold back a batch.",
    },
    OptionSpec {
        name: "minPartitions",
        kind: OptionKind::Integer { min: 1 },
        default: None,
        doc: "About how many splits a batch has at least: the ranges of large partitions are divided.",
    },
    OptionSpec {
        name: "maxRecordsPerPartition",
        kind: OptionKind::Integer { min: 1 },
        default: None,
        doc: "The most offsets in one split: larger ranges are divided.",
    },
    OptionSpec {
        name: "includeHeaders",
        kind: OptionKind::Bool,
        default: Some("false"),
        doc: "Adds the column headers, an array of key and value.",
    },
    OptionSpec {
        name: "kafkaConsumer.pollTimeoutMs",
        kind: OptionKind::Integer { min: 1 },
        default: Some("120000"),
        doc: "How long a split may wait for its next record, in milliseconds.",
    },
    OptionSpec {
        name: "fetchOffset.numRetries",
        kind: OptionKind::Integer { min: 0 },
        default: Some("3"),
        doc: "How often a question about offsets is asked again.",
    },
    OptionSpec {
        name: "fetchOffset.retryIntervalMs",
        kind: OptionKind::Integer { min: 0 },
        default: Some("10"),
        doc: "The pause before it is asked again, in milliseconds.",
    },
    text("groupIdPrefix", Some("spark-kafka-source"), "How the names of this query's consumer groups begin. Ignored with kafka.group.id."),
    text(
        "kafka.group.id",
        None,
        "The consumer group to read as, where access is granted by group. Use it for one query only. Offsets are not committed to it.",
    ),
    text(
        "commitOffsetsToGroup",
        None,
        "A consumer group to which the end of each batch is committed after the batch, so that tools that watch groups see the lag. Never read \
         by this source.",
    ),
];

/// What to read.
#[derive(Clone, Debug)]
pub(super) enum Subscription {
    Topics(Vec<String>),
    Pattern(Regex),
    Partitions(Vec<TopicPartition>),
}

impl Subscription {
    /// Its form in progress reports.
    pub(super) fn description(&self) -> String {
        match self {
            Subscription::Topics(topics) => format!("Subscribe[{}]", topics.join(", ")),
            Subscription::Pattern(pattern) => format!("SubscribePattern[{pattern}]"),
            Subscription::Partitions(partitions) => format!("Assign[{}]", positions::list(partitions)),
        }
    }
}

/// An end of what is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Earliest,
    Latest,
    /// Offsets, where -1 stands for latest and -2 for earliest.
    Offsets(Positions),
    /// The first record at or after this time, milliseconds.
    Timestamp(i64),
    Timestamps(Positions),
}

/// The offset that stands for the end of a partition.
pub(super) const LATEST: i64 = -1;
/// The offset that stands for the beginning of a partition.
pub(super) const EARLIEST: i64 = -2;

/// What a source was asked for.
#[derive(Clone, Debug)]
pub(super) struct SourceOptions {
    pub(super) streaming: bool,
    pub(super) subscription: Subscription,
    pub(super) start: Bound,
    pub(super) end: Bound,
    /// Begin at the end of a partition that has no record at or after the starting time.
    pub(super) latest_without_match: bool,
    pub(super) fail_on_data_loss: bool,
    pub(super) limit: ReadLimit,
    pub(super) min_partitions: Option<u64>,
    pub(super) max_records_per_partition: Option<u64>,
    pub(super) include_headers: bool,
    pub(super) poll_timeout: Duration,
    pub(super) retries: u32,
    pub(super) retry_interval: Duration,
    pub(super) group_prefix: String,
    pub(super) commit_group: Option<String>,
}

/// What Spark checks when a reader is loaded.
///
/// # Errors
/// `IllegalArgumentException`.
pub(super) fn check(options: &Options, streaming: bool) -> Result<()> {
    subscription(options)?;
    for name in ["minPartitions", "maxRecordsPerPartition"] {
        if count(options, name, i64::MIN)?.is_some_and(|given| given <= 0) {
            return Err(illegal_argument(format!("{name} must be positive")));
        }
    }
    refuse_settings(options)?;
    if let (Ok(Some(max)), Ok(Some(min))) =
        (count(options, "maxOffsetsPerTrigger", i64::MIN), count(options, "minOffsetsPerTrigger", i64::MIN))
        && min > max
    {
        return Err(illegal_argument(format!(
            "The value of minOffsetPerTrigger({min}) is higher than the maxOffsetsPerTrigger({max}): raise the one or lower the other"
        )));
    }
    if streaming {
        // Spark does not look at endingTimestamp here, and neither refuses nor heeds it.
        for (name, what) in [("endingOffsets", "ending offset"), ("endingOffsetsByTimestamp", "ending timestamp")] {
            if options.get(name).is_some() {
                return Err(illegal_argument(format!("{what} not valid in streaming queries")));
            }
        }
        return Ok(());
    }
    match start(options, false)? {
        Bound::Latest => return Err(illegal_argument("starting offset can't be latest for batch queries on Kafka")),
        Bound::Offsets(offsets) => {
            if let Some((partition, _)) = offsets.iter().find(|(_, offset)| **offset == LATEST) {
                return Err(illegal_argument(format!("startingOffsets for {partition} can't be latest for batch queries on Kafka")));
            }
        }
        _ => {}
    }
    match end(options)? {
        Bound::Earliest => Err(illegal_argument("ending offset can't be earliest for batch queries on Kafka")),
        Bound::Offsets(offsets) => match offsets.iter().find(|(_, offset)| **offset == EARLIEST) {
            Some((partition, _)) => {
                Err(illegal_argument(format!("ending offset for {partition} can't be earliest for batch queries on Kafka")))
            }
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Settings of the client that a source sets itself.
fn refuse_settings(options: &Options) -> Result<()> {
    const DECODED: &str = "are decoded as byte arrays: use operations of the data frame to decode the";
    let refusals: [(&str, String); 6] = [
        (
            "auto.offset.reset",
            "is not supported. Instead set the source option 'startingoffsets' to 'earliest' or 'latest' to specify where to start: the \
             query keeps its own offsets, and a restarted query goes on where it left off."
                .to_owned(),
        ),
        ("key.deserializer", format!("is not supported as keys {DECODED} keys.")),
        ("value.deserializer", format!("is not supported as values {DECODED} values.")),
        ("interceptor.classes", "is not supported".to_owned()),
        ("enable.auto.commit", "is not supported".to_owned()),
        ("enable.auto.offset.store", "is not supported".to_owned()),
    ];
    for (name, why) in refusals {
        if options.get(&format!("kafka.{name}")).is_some() {
            return Err(illegal_argument(format!("Kafka option '{name}' {why}")));
        }
    }
    if options.get("kafka.bootstrap.servers").is_none_or(|servers| servers.trim().is_empty()) {
        return Err(illegal_argument("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer"));
    }
    Ok(())
}

fn subscription(options: &Options) -> Result<Subscription> {
    const NAMES: [&str; 3] = ["subscribe", "subscribePattern", "assign"];
    let given: Vec<(&str, &str)> = NAMES.iter().filter_map(|name| options.get(name).map(|value| (*name, value))).collect();
    let all = "subscribe, subscribepattern, assign. See the docs for more details.";
    let [(name, value)] = given.as_slice() else {
        let what = if given.is_empty() { "One of the following options must be" } else { "Only one of the following options can be" };
        return Err(illegal_argument(format!("{what} specified for Kafka source: {all}")));
    };
    match *name {
        "subscribe" => {
            let mut topics: Vec<String> = value.split(',').map(str::trim).filter(|topic| !topic.is_empty()).map(str::to_owned).collect();
            topics.dedup();
            if topics.is_empty() {
                let what = format!("No topics to subscribe to as specified value for option 'subscribe' is '{value}'");
                return Err(illegal_argument(what));
            }
            Ok(Subscription::Topics(topics))
        }
        "subscribePattern" => {
            if value.trim().is_empty() {
                let what = format!("Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{value}'");
                return Err(illegal_argument(what));
            }
            Regex::new(value.trim()).map(Subscription::Pattern).map_err(|error| {
                let what = format!("option 'subscribePattern' is '{value}', which is no regular expression (look-around is not supported)");
                Error::invalid("PatternSyntaxException", what).caused_by(error)
            })
        }
        _ => {
            let refused = || illegal_argument(format!("No topicpartitions to assign as specified value for option 'assign' is '{value}'"));
            if !value.trim().starts_with('{') {
                return Err(refused());
            }
            let partitions = positions::parse_partitions(value)
                .ok_or_else(|| illegal_argument(format!("Expected e.g. {{\"topicA\":[0,1],\"topicB\":[0,1]}}, got {value}")))?;
            Ok(Subscription::Partitions(partitions))
        }
    }
}

fn start(options: &Options, streaming: bool) -> Result<Bound> {
    let default = if streaming { Bound::Latest } else { Bound::Earliest };
    bound(options, ["startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets"], default)
}

fn end(options: &Options) -> Result<Bound> {
    bound(options, ["endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets"], Bound::Latest)
}

fn bound(options: &Options, [timestamp, timestamps, offsets]: [&str; 3], default: Bound) -> Result<Bound> {
    let positions = |value: &str, example: &str| {
        positions::parse(value).ok_or_else(|| illegal_argument(format!("Expected e.g. {example}, got {value}")))
    };
    if let Some(value) = options.get(timestamp) {
        return value.trim().parse().map(Bound::Timestamp).map_err(|error| {
            let what = format!("Expected a single long value, got {value}: option '{timestamp}' is a time in milliseconds");
            illegal_argument(what).caused_by(error)
        });
    }
    if let Some(value) = options.get(timestamps) {
        let example = r#"{"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789, "1": 123456789}}"#;
        return positions(value, example).map(Bound::Timestamps);
    }
    match options.get(offsets) {
        None => Ok(default),
        Some(value) if value.eq_ignore_ascii_case("latest") => Ok(Bound::Latest),
        Some(value) if value.eq_ignore_ascii_case("earliest") => Ok(Bound::Earliest),
        Some(value) => positions(value, r#"{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}"#).map(Bound::Offsets),
    }
}

/// How much a batch may have.
fn limit(options: &Options) -> Result<ReadLimit> {
    let offsets = |name| Ok::<_, Error>(count(options, name, 1)?.and_then(|rows| u64::try_from(rows).ok()));
    let (max, min) = (offsets("maxOffsetsPerTrigger")?, offsets("minOffsetsPerTrigger")?);
    let delay = options.get("maxTriggerDelay").map_or(Ok(Duration::from_secs(15 * 60)), |delay| {
        parse_duration("maxTriggerDelay", delay).map_err(|error| Error::invalid("NumberFormatException", error.message().to_owned()))
    })?;
    let limits: Vec<ReadLimit> =
        min.map(|rows| ReadLimit::MinRows { rows, max_delay: delay }).into_iter().chain(max.map(ReadLimit::MaxRows)).collect();
    Ok(match limits.len() {
        0 => ReadLimit::AllAvailable,
        _ => ReadLimit::All(limits),
    })
}

fn flag(options: &Options, name: &str, default: bool) -> Result<bool> {
    options.bool(name, default).map_err(|error| illegal_argument(error.message().to_owned()))
}

fn millis(options: &Options, name: &str, default: u64) -> Result<Duration> {
    let given = count(options, name, 0)?.and_then(|given| u64::try_from(given).ok());
    Ok(Duration::from_millis(given.unwrap_or(default)))
}

impl SourceOptions {
    /// Reads every option.
    ///
    /// # Errors
    /// `IllegalArgumentException`, `NumberFormatException`.
    pub(super) fn from(options: &Options, streaming: bool) -> Result<Self> {
        check(options, streaming)?;
        let positive = |name| Ok::<_, Error>(count(options, name, 1)?.and_then(|given| u64::try_from(given).ok()));
        let strategy = options.get("startingOffsetsByTimestampStrategy").unwrap_or("error");
        let latest_without_match = match strategy.to_ascii_lowercase().as_str() {
            "error" => false,
            "latest" => true,
            _ => {
                let what = format!("option 'startingOffsetsByTimestampStrategy' is '{strategy}' but takes error or latest");
                return Err(Error::invalid("NoSuchElementException", what));
            }
        };
        Ok(SourceOptions {
            streaming,
            subscription: subscription(options)?,
            start: start(options, streaming)?,
            end: end(options)?,
            latest_without_match,
            fail_on_data_loss: flag(options, "failOnDataLoss", true)?,
            limit: if streaming { limit(options)? } else { ReadLimit::AllAvailable },
            min_partitions: positive("minPartitions")?,
            max_records_per_partition: positive("maxRecordsPerPartition")?,
            include_headers: flag(options, "includeHeaders", false)?,
            poll_timeout: millis(options, "kafkaConsumer.pollTimeoutMs", 120_000)?,
            retries: count(options, "fetchOffset.numRetries", 0)?.and_then(|given| u32::try_from(given).ok()).unwrap_or(3),
            retry_interval: millis(options, "fetchOffset.retryIntervalMs", 10)?,
            group_prefix: options.get("groupIdPrefix").unwrap_or("spark-kafka-source").to_owned(),
            commit_group: options.get("commitOffsetsToGroup").map(str::to_owned),
        })
    }
}
