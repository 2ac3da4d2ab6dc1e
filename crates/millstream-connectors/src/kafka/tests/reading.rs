use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use arrow::array::{Array, AsArray, StructArray};
use arrow::datatypes::{Int32Type, TimestampMicrosecondType};
use futures::TryStreamExt;
use millstream_core::conformance::source::{SourceFactory, all as suite};
use millstream_core::quarantine::Discard;
use millstream_core::source::ReadContext;
use millstream_core::source_log::SourceLog;
use millstream_core::{Offset, ReadLimit};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::super::*;
use super::world::{ALL, TokioClock, World, all, latest, places, range, rows, texts};

struct Factory {
    world: World,
    options: Vec<(&'static str, &'static str)>,
    fed: AtomicI64,
}

#[async_trait]
impl SourceFactory for Factory {
    async fn open(&self) -> Result<Arc<dyn Source>> {
        self.world.source(&self.options).await
    }

    async fn feed(&self) -> Result<()> {
        let number = self.fed.fetch_add(1, Ordering::Relaxed);
        for row in 0..3 {
            let value = format!("{number}-{row}");
            self.world.send("t", row, None, Some(&value), 1000 * number);
        }
        Ok(())
    }

    fn small_limit(&self) -> Option<ReadLimit> {
        Some(ReadLimit::MaxRows(4))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conforms() {
    for options in [
        vec![("subscribe", "t"), ("startingOffsets", "earliest")],
        vec![("subscribePattern", "^t$"), ("startingOffsets", "earliest"), ("minPartitions", "7")],
        vec![("assign", r#"{"t":[0,1,2]}"#), ("startingOffsets", "earliest"), ("maxRecordsPerPartition", "1"), ("includeHeaders", "true")],
    ] {
        suite(|| Factory { world: World::with(&[("t", 3)]), options: options.clone(), fed: 0.into() }).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_is_what_sparks_is() {
    let world = World::with(&[("t", 1)]);
    world.send("t", 0, Some("k"), Some("v"), 1_500);
    world.send("t", 0, None, None, 2_500);
    world.send_headers("t", &[("h1", Some(b"x")), ("h1", None), ("h2", Some(b"\xff"))]);
    let source = world.source(&[("subscribe", "t"), ("startingOffsets", "earliest"), ("includeHeaders", "true")]).await.unwrap();
    let end = latest(source.as_ref(), None).await;
    assert_eq!(end.as_json(), r#"{"t":{"0":3}}"#);
    let splits = source.plan(None, &end).await.unwrap();
    assert_eq!(splits.iter().map(|split| split.label().to_owned()).collect::<Vec<_>>(), ["t-0"]);
    let context = ReadContext { projection: (0..8).collect(), batch_size: 100, quarantine: Arc::new(Discard) };
    let batches: Vec<_> = splits[0].read(context).try_collect().await.unwrap();
    let [batch] = batches.as_slice() else { panic!("{} batches", batches.len()) };
    assert_eq!(texts(&batches, "key"), [Some("k".to_owned()), None, None]);
    assert_eq!(texts(&batches, "value"), [Some("v".to_owned()), None, Some("v".to_owned())]);
    assert_eq!(batch.column(2).as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["t", "t", "t"]);
    assert_eq!(batch.column(5).as_primitive::<TimestampMicrosecondType>().values()[..2], [1_500_000, 2_500_000]);
    assert_eq!(batch.column(6).as_primitive::<Int32Type>().values(), &[0, 0, 0]);
    let headers = batch.column(7).as_list::<i32>();
    assert!(headers.is_null(0) && headers.is_null(1));
    let listed = headers.value(2);
    let listed = listed.as_any().downcast_ref::<StructArray>().unwrap();
    assert_eq!(listed.column(0).as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["h1", "h1", "h2"]);
    let values = listed.column(1).as_binary::<i32>();
    assert_eq!((values.value(0), values.is_null(1), values.value(2)), (&b"x"[..], true, &b"\xff"[..]));
}

/// Ways to say where a batch begins and ends, with the rows that Spark 4.2 gave for the same topic. Mock brokers have no record at any time;
/// real ones are asked in `cargo xtask kafka`.
#[tokio::test(flavor = "multi_thread")]
async fn bounds_of_batches_are_sparks() {
    let world = World::with(&[("t1", 3)]);
    for partition in 0..3 {
        world.fill("t1", partition, 10);
    }
    type Case = (&'static [(&'static str, &'static str)], &'static [(i32, i64, i64)]);
    let cases: [Case; 7] = [
        (&[], &[(0, 0, 10), (1, 0, 10), (2, 0, 10)]),
        (&[("startingOffsets", r#"{"t1":{"0":3,"1":-2,"2":9}}"#)], &[(0, 3, 10), (1, 0, 10), (2, 9, 10)]),
        (&[("endingOffsets", r#"{"t1":{"0":3,"1":-1,"2":5}}"#)], &[(0, 0, 3), (1, 0, 10), (2, 0, 5)]),
        (
            &[("startingOffsets", r#"{"t1":{"0":1,"1":2,"2":3}}"#), ("endingOffsets", r#"{"t1":{"0":3,"1":2,"2":7}}"#)],
            &[(0, 1, 3), (2, 3, 7)],
        ),
        (&[("startingTimestamp", "99000"), ("startingOffsetsByTimestampStrategy", "latest"), ("startingOffsets", "earliest")], &[]),
        (&[("endingTimestamp", "99000"), ("endingOffsets", r#"{"t1":{"0":3,"1":-1,"2":5}}"#)], &[(0, 0, 10), (1, 0, 10), (2, 0, 10)]),
        (&[("minPartitions", "9"), ("maxRecordsPerPartition", "4")], &[(0, 0, 10), (1, 0, 10), (2, 0, 10)]),
    ];
    for (options, expected) in cases {
        let options: Vec<_> = options.iter().copied().chain([("subscribe", "t1")]).collect();
        let found = world.batch(&options).await;
        assert_eq!(found.unwrap_or_else(|error| panic!("{options:?}: {error}")), all(expected), "{options:?}");
    }
    assert_eq!(world.batch(&[("assign", r#"{"t1":[0,2]}"#)]).await.unwrap(), all(&[(0, 0, 10), (2, 0, 10)]));
    assert_eq!(world.batch(&[("subscribePattern", "1")]).await.unwrap().len(), 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_begins_where_its_options_say_and_then_where_its_checkpoint_says() {
    let world = World::with(&[("t", 2)]);
    world.fill("t", 0, 5);
    let latest_only = [("subscribe", "t")];
    let source = world.source(&latest_only).await.unwrap();
    let begin = latest(source.as_ref(), None).await;
    assert_eq!(begin.as_json(), r#"{"t":{"0":5,"1":0}}"#);
    assert_eq!(world.log.get(0).await.unwrap().unwrap(), [r#"{"t":{"0":5,"1":0}}"#]);
    assert_eq!(range(source.as_ref(), None, &begin).await.unwrap(), []);
    world.fill("t", 1, 3);
    let end = latest(source.as_ref(), Some(&begin)).await;
    assert_eq!(end.as_json(), r#"{"t":{"0":5,"1":3}}"#);
    // A query that was killed in its first batch begins there again, whatever its options say now.
    let source = world.source(&[("subscribe", "t"), ("startingOffsets", "earliest")]).await.unwrap();
    assert_eq!(range(source.as_ref(), None, &end).await.unwrap(), all(&[(1, 0, 3)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_that_appear_later_are_read_from_their_beginning() {
    let world = World::with(&[("t1", 1)]);
    world.fill("t1", 0, 2);
    let source = world.source(&[("subscribePattern", "t.*")]).await.unwrap();
    let begin = latest(source.as_ref(), None).await;
    world.brokers.create_topic("t2", 2);
    world.fill("t2", 1, 4);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let end = latest(source.as_ref(), Some(&begin)).await;
    assert_eq!(end.as_json(), r#"{"t1":{"0":2},"t2":{"0":0,"1":4}}"#);
    assert_eq!(range(source.as_ref(), Some(&begin), &end).await.unwrap(), all(&[(1, 0, 4)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_began_without_topics_reads_those_that_appear_whole() {
    let world = World::with(&[("other", 1)]);
    let source = world.source(&[("subscribePattern", "^t")]).await.unwrap();
    assert_eq!(source.latest_offset(None, &ALL).await.unwrap(), None);
    world.brokers.create_topic("t1", 1);
    world.fill("t1", 0, 3);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let end = latest(source.as_ref(), None).await;
    assert_eq!(end.as_json(), r#"{"t1":{"0":3}}"#);
    assert_eq!(range(source.as_ref(), None, &end).await.unwrap(), all(&[(0, 0, 3)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_shared_out_as_in_spark_and_progress_says_how_far_behind_the_query_is() {
    let world = World::with(&[("t1", 3)]);
    for partition in 0..3 {
        world.fill("t1", partition, 10);
    }
    let begin = r#"{"t1":{"0":1,"1":5,"2":9}}"#;
    let source = world.source(&[("subscribe", "t1"), ("startingOffsets", begin), ("maxOffsetsPerTrigger", "7")]).await.unwrap();
    source.prepare_available_now().await.unwrap();
    world.fill("t1", 0, 5);
    let mut start = None;
    let mut seen = Vec::new();
    for (end, metrics) in [
        (r#"{"t1":{"0":5,"1":7,"2":10}}"#, ("0", "5", "2.6666666666666665")),
        (r#"{"t1":{"0":9,"1":9,"2":10}}"#, ("0", "1", "0.6666666666666666")),
        (r#"{"t1":{"0":10,"1":10,"2":10}}"#, ("0", "0", "0.0")),
    ] {
        let next = latest(source.as_ref(), start.as_ref()).await;
        assert_eq!(next.as_json(), end);
        seen.extend(range(source.as_ref(), start.as_ref(), &next).await.unwrap());
        let told = source.metrics();
        let of = |name: &str| told[name].as_str();
        assert_eq!((of("minOffsetsBehindLatest"), of("maxOffsetsBehindLatest"), of("avgOffsetsBehindLatest")), metrics);
        start = Some(next);
    }
    seen.sort_unstable();
    assert_eq!(seen, all(&[(0, 1, 10), (1, 5, 10), (2, 9, 10)]));
    assert_eq!(source.latest_offset(start.as_ref(), &ALL).await.unwrap(), start);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_waits_for_enough_offsets_but_not_for_ever() {
    let world = World::with(&[("t", 1)]);
    world.fill("t", 0, 3);
    let options = [("subscribe", "t"), ("startingOffsets", "earliest"), ("minOffsetsPerTrigger", "5"), ("maxTriggerDelay", "700ms")];
    let source = world.source(&options).await.unwrap();
    let first = latest(source.as_ref(), None).await;
    assert_eq!(first.as_json(), r#"{"t":{"0":3}}"#, "nothing was read before, so nothing is waited for");
    world.fill("t", 0, 4);
    assert_eq!(latest(source.as_ref(), Some(&first)).await, first);
    tokio::time::sleep(Duration::from_millis(750)).await;
    let second = latest(source.as_ref(), Some(&first)).await;
    assert_eq!(second.as_json(), r#"{"t":{"0":7}}"#);
    world.fill("t", 0, 5);
    assert_eq!(latest(source.as_ref(), Some(&second)).await.as_json(), r#"{"t":{"0":12}}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_are_asked_again_and_a_range_survives_brokers_that_fail() {
    let world = World::with(&[("t", 2)]);
    world.fill("t", 0, 50);
    world.fill("t", 1, 50);
    use RDKafkaRespErr::{RD_KAFKA_RESP_ERR__TRANSPORT as LOST, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION as MOVED};
    world.brokers.fail(RDKafkaApiKey::ListOffsets, &[LOST, MOVED, LOST]);
    world.brokers.fail(RDKafkaApiKey::Metadata, &[LOST]);
    world.brokers.fail(RDKafkaApiKey::Fetch, &[LOST, LOST, MOVED, LOST]);
    let source = world.source(&[("subscribe", "t"), ("startingOffsets", "earliest"), ("minPartitions", "6")]).await.unwrap();
    let end = latest(source.as_ref(), None).await;
    let splits = source.plan(None, &end).await.unwrap();
    assert_eq!(splits.len(), 6);
    assert_eq!(places(&rows(&splits).await.unwrap()), all(&[(0, 0, 50), (1, 0, 50)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_the_brokers_do_not_name_keeps_its_position() {
    let world = World::with(&[("t", 2)]);
    world.fill("t", 0, 5);
    let source = world.source(&[("subscribe", "t"), ("startingOffsets", "earliest")]).await.unwrap();
    // The checkpoint knows a third partition: it is gone now, which is a loss and not a new beginning.
    let start = Offset::from_json(r#"{"t":{"0":2,"1":0,"2":7}}"#).unwrap();
    let error = source.latest_offset(Some(&start), &ALL).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("KAFKA_DATA_LOSS.PARTITIONS_DELETED", millstream_core::ErrorKind::DataLost));
    let lenient = world.source(&[("subscribe", "t"), ("failOnDataLoss", "false")]).await.unwrap();
    let end = latest(lenient.as_ref(), Some(&start)).await;
    assert_eq!(end.as_json(), r#"{"t":{"0":5,"1":0}}"#);
    assert_eq!(source.plan(Some(&start), &end).await.unwrap_err().code(), "KAFKA_DATA_LOSS.PARTITIONS_DELETED");
    assert_eq!(range(lenient.as_ref(), Some(&start), &end).await.unwrap(), all(&[(0, 2, 5)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_that_ends_behind_the_log_is_a_loss_and_no_endless_wait() {
    let world = World::with(&[("t", 1)]);
    world.fill("t", 0, 5);
    for (fail, outcome) in [("true", Err("KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE")), ("false", Ok(all(&[(0, 3, 5)])))] {
        let source = world.source(&[("subscribe", "t"), ("startingOffsets", "earliest"), ("failOnDataLoss", fail)]).await.unwrap();
        let (start, end) = (Offset::from_json(r#"{"t":{"0":3}}"#).unwrap(), Offset::from_json(r#"{"t":{"0":9}}"#).unwrap());
        let found = range(source.as_ref(), Some(&start), &end).await;
        assert_eq!(found.map_err(|error| error.code().to_owned()), outcome.map_err(str::to_owned), "failOnDataLoss={fail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_batch_is_committed_to_a_group_only_when_it_is_asked_for() {
    let world = World::with(&[("t", 1)]);
    world.fill("t", 0, 5);
    let source = world.source(&[("subscribe", "t"), ("startingOffsets", "earliest"), ("commitOffsetsToGroup", "lag")]).await.unwrap();
    let end = latest(source.as_ref(), None).await;
    source.commit(&end).await.unwrap();
    let mut config = rdkafka::ClientConfig::new();
    config.set("bootstrap.servers", &world.brokers.servers).set("group.id", "lag");
    let committed = tokio::task::spawn_blocking(move || {
        use rdkafka::consumer::{BaseConsumer, Consumer};
        let consumer: BaseConsumer = config.create().unwrap();
        let mut list = rdkafka::TopicPartitionList::new();
        list.add_partition("t", 0);
        let known = consumer.committed_offsets(list, Duration::from_secs(10)).unwrap();
        known.elements()[0].offset()
    });
    assert_eq!(committed.await.unwrap(), rdkafka::Offset::Offset(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_that_go_back_are_asked_for_again() {
    let world = World::with(&[("t", 1)]);
    world.fill("t", 0, 5);
    let source = world.source(&[("subscribe", "t")]).await.unwrap();
    let start = Offset::from_json(r#"{"t":{"0":7}}"#).unwrap();
    let (end, ()) = tokio::join!(source.latest_offset(Some(&start), &ALL), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        world.fill("t", 0, 4);
    });
    assert_eq!(end.unwrap().unwrap().as_json(), r#"{"t":{"0":9}}"#);
    let beyond = Offset::from_json(r#"{"t":{"0":70}}"#).unwrap();
    let error = source.latest_offset(Some(&beyond), &ALL).await.unwrap_err();
    assert_eq!(error.code(), "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_records_is_no_loss() {
    use RDKafkaRespErr::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE as AWAY;
    let world = World::with(&[("t", 1)]);
    world.fill("t", 0, 5);
    let options =
        [("subscribe", "t"), ("startingOffsets", "earliest"), ("failOnDataLoss", "false"), ("kafkaConsumer.pollTimeoutMs", "400")];
    let source = world.source(&options).await.unwrap();
    let end = latest(source.as_ref(), None).await;
    world.brokers.fail(RDKafkaApiKey::Fetch, &[AWAY; 500]);
    let error = range(source.as_ref(), None, &end).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("TimeoutException", millstream_core::ErrorKind::SourceUnavailable));
    world.brokers.fail_no_more(RDKafkaApiKey::Fetch);
    assert_eq!(range(source.as_ref(), None, &end).await.unwrap(), all(&[(0, 0, 5)]));
}

#[test]
fn a_reader_leaves_nothing_to_the_clients_own_defaults_and_users_may_change_what_is_safe() {
    let settings =
        Settings::from(&[("kafka.isolation.level", "read_committed"), ("kafka.fetch.max.wait.ms", "7")].into_iter().collect()).unwrap();
    let config = settings.over(&reader_defaults("g"));
    for (name, value) in [
        ("auto.offset.reset", "error"),
        ("enable.auto.commit", "false"),
        ("check.crcs", "true"),
        ("isolation.level", "read_committed"),
        ("fetch.wait.max.ms", "7"),
        ("group.id", "g"),
    ] {
        assert_eq!(config.get(name), Some(value), "{name}");
    }
    assert_eq!(Settings::from(&Options::new()).unwrap().over(&reader_defaults("g")).get("isolation.level"), Some("read_uncommitted"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_waits_is_told_of_records_and_not_of_the_end_of_the_log() {
    let world = World::with(&[("t1", 2)]);
    world.fill("t1", 0, 3);
    let request = world.request(&[("subscribe", "t1"), ("startingOffsets", "earliest")]);
    let context = SourceContext { log: world.log.clone(), clock: Arc::new(Unasked(world.clock.clone())) };
    let source = world.provider().source(&request, context).await.unwrap();
    let mut start = latest(source.as_ref(), None).await;
    assert_eq!(range(source.as_ref(), None, &start).await.unwrap(), all(&[(0, 0, 3)]));
    for (partition, next) in [(0, 3), (1, 0), (0, 4)] {
        let waited = tokio::time::timeout(Duration::from_millis(600), source.changed()).await;
        assert!(waited.is_err(), "it was told of something before record {next} of partition {partition}");
        world.fill("t1", partition, 1);
        tokio::time::timeout(Duration::from_secs(10), source.changed()).await.expect("nobody told of the record");
        let end = latest(source.as_ref(), Some(&start)).await;
        assert_eq!(range(source.as_ref(), Some(&start), &end).await.unwrap(), [(partition, next)]);
        start = end;
    }
}

/// A clock by which nobody looks for records unasked.
#[derive(Debug)]
struct Unasked(Arc<TokioClock>);

#[async_trait]
impl Clock for Unasked {
    fn now_ms(&self) -> i64 {
        self.0.now_ms()
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.monotonic_ns()
    }

    async fn sleep(&self, duration: Duration) {
        match duration.as_millis() {
            250 => std::future::pending().await,
            _ => self.0.sleep(duration).await,
        }
    }
}
