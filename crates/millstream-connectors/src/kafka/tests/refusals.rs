use super::super::*;
use super::world::{World, latest};

const ARGUMENT: &str = "IllegalArgumentException";

/// What Spark 4.2 refuses when a reader is loaded or its query starts, recorded, with the beginning of what it says.
#[tokio::test(flavor = "multi_thread")]
async fn options_are_refused_as_in_spark() {
    let world = World::with(&[("t1", 3)]);
    world.fill("t1", 0, 10);
    type Case = (&'static [(&'static str, &'static str)], Option<(&'static str, &'static str)>, Option<(&'static str, &'static str)>);
    let one = "One of the following options must be specified for Kafka source: subscribe, subscribepattern, assign.";
    let two = "Only one of the following options can be specified for Kafka source: subscribe, subscribepattern, assign.";
    let both = |code, what| (Some((code, what)), Some((code, what)));
    let of = |options: &'static [(&'static str, &'static str)], (batch, stream)| -> Case { (options, batch, stream) };
    let cases: Vec<Case> = vec![
        of(&[], both(ARGUMENT, one)),
        of(&[("subscribe", "t1"), ("assign", r#"{"t1":[0]}"#)], both(ARGUMENT, two)),
        of(&[("subscribe", " , ")], both(ARGUMENT, "No topics to subscribe to as specified value for option 'subscribe' is ' , '")),
        of(&[("assign", "nope")], both(ARGUMENT, "No topicpartitions to assign as specified value for option 'assign' is 'nope'")),
        of(
            &[("subscribePattern", "")],
            both(ARGUMENT, "Pattern to subscribe is empty as specified value for option 'subscribePattern' is ''"),
        ),
        of(
            &[("subscribe", "t1"), ("kafka.auto.offset.reset", "x")],
            both(ARGUMENT, "Kafka option 'auto.offset.reset' is not supported. Instead"),
        ),
        of(
            &[("subscribe", "t1"), ("kafka.key.deserializer", "x")],
            both(ARGUMENT, "Kafka option 'key.deserializer' is not supported as keys are"),
        ),
        of(
            &[("subscribe", "t1"), ("kafka.value.deserializer", "x")],
            both(ARGUMENT, "Kafka option 'value.deserializer' is not supported as values"),
        ),
        of(&[("subscribe", "t1"), ("kafka.enable.auto.commit", "x")], both(ARGUMENT, "Kafka option 'enable.auto.commit' is not supported")),
        of(
            &[("subscribe", "t1"), ("kafka.interceptor.classes", "x")],
            both(ARGUMENT, "Kafka option 'interceptor.classes' is not supported"),
        ),
        of(
            &[("subscribe", "t1"), ("startingOffsets", "nope")],
            both(ARGUMENT, "Expected e.g. {\"topicA\":{\"0\":23,\"1\":-1},\"topicB\":{\"0\":-2}}, got nope"),
        ),
        of(
            &[("subscribe", "t1"), ("endingOffsets", "nope")],
            (Some((ARGUMENT, "Expected e.g. {\"topicA\"")), Some((ARGUMENT, "ending offset not valid in streaming queries"))),
        ),
        of(
            &[("subscribe", "t1"), ("endingOffsetsByTimestamp", r#"{"t1":{"0":1,"1":1,"2":1}}"#)],
            (None, Some((ARGUMENT, "ending timestamp not valid in streaming queries"))),
        ),
        of(
            &[("subscribe", "t1"), ("startingOffsets", "latest")],
            (Some((ARGUMENT, "starting offset can't be latest for batch queries on Kafka")), None),
        ),
        of(
            &[("subscribe", "t1"), ("startingOffsets", r#"{"t1":{"0":3,"1":-2,"2":-1}}"#)],
            (Some((ARGUMENT, "startingOffsets for t1-2 can't be latest for batch queries on Kafka")), None),
        ),
        of(
            &[("subscribe", "t1"), ("endingOffsets", "earliest")],
            (Some((ARGUMENT, "ending offset can't be earliest for batch")), Some((ARGUMENT, "ending offset"))),
        ),
        of(
            &[("subscribe", "t1"), ("endingOffsets", r#"{"t1":{"0":-2,"1":-1,"2":5}}"#)],
            (Some((ARGUMENT, "ending offset for t1-0 can't be earliest for batch queries on Kafka")), Some((ARGUMENT, "ending offset"))),
        ),
        of(
            &[("subscribe", "t1"), ("startingOffsets", r#"{"t1":{"0":3,"1":-2}}"#)],
            (
                Some(("KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED", "Partitions specified for Kafka start offsets don't match")),
                Some(("AssertionError", "If startingOffsets contains specific offsets")),
            ),
        ),
        of(
            &[("subscribe", "t1"), ("startingOffsetsByTimestamp", r#"{"t1":{"0":3}}"#)],
            both(
                "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED",
                "Partitions specified for Kafka timestamp based start offsets don't match",
            ),
        ),
        of(&[("subscribe", "t1"), ("startingOffsetsByTimestamp", "nope")], both(ARGUMENT, "Expected e.g. {\"topicA\": {\"0\": 123456789")),
        of(&[("subscribe", "t1"), ("startingTimestamp", "foo")], both(ARGUMENT, "Expected a single long value, got foo")),
        of(
            &[("subscribe", "t1"), ("startingTimestamp", "99000")],
            both(ARGUMENT, "No offset matched from request of topic-partition t1-0 and timestamp 99000."),
        ),
        of(
            &[("subscribe", "t1"), ("startingTimestamp", "-5")],
            both(ARGUMENT, "No offset matched from request of topic-partition t1-0 and timestamp -5."),
        ),
        of(&[("subscribe", "t1"), ("startingOffsetsByTimestampStrategy", "foo")], both("NoSuchElementException", "option")),
        of(&[("subscribe", "t1"), ("minPartitions", "0")], both(ARGUMENT, "minPartitions must be positive")),
        of(&[("subscribe", "t1"), ("minPartitions", "x")], both("NumberFormatException", "option 'minPartitions'")),
        of(&[("subscribe", "t1"), ("maxRecordsPerPartition", "-1")], both(ARGUMENT, "maxRecordsPerPartition must be positive")),
        of(&[("subscribe", "t1"), ("maxOffsetsPerTrigger", "x")], (None, Some(("NumberFormatException", "option 'maxOffsetsPerTrigger'")))),
        of(
            &[("subscribe", "t1"), ("maxOffsetsPerTrigger", "3"), ("minOffsetsPerTrigger", "5")],
            both(ARGUMENT, "The value of minOffsetPerTrigger(5) is higher than the maxOffsetsPerTrigger(3)"),
        ),
        of(
            &[("subscribe", "t1"), ("maxTriggerDelay", "x"), ("minOffsetsPerTrigger", "5")],
            (None, Some(("NumberFormatException", "option 'maxTriggerDelay'"))),
        ),
        of(&[("subscribe", "t1"), ("failOnDataLoss", "x")], both(ARGUMENT, "option 'failOnDataLoss'")),
        of(&[("subscribe", "t1"), ("includeHeaders", "x")], both(ARGUMENT, "option 'includeHeaders'")),
        of(&[("subscribe", "nosuch")], both("UnknownTopicOrPartitionException", "which partitions there are")),
        of(
            &[
                ("subscribe", "t1"),
                ("startingOffsets", r#"{"t1":{"0":5,"1":5,"2":5}}"#),
                ("endingOffsets", r#"{"t1":{"0":3,"1":5,"2":5}}"#),
            ],
            (
                Some((
                    "UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET",
                    "The specified start offset 5 is greater than the end offset 3 for topic t1 partition 0.",
                )),
                Some((ARGUMENT, "ending offset")),
            ),
        ),
        of(
            &[("subscribe", "t1"), ("endingOffsets", r#"{"t1":{"0":300,"1":-1,"2":-1}}"#)],
            (Some(("KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE", "Some data may have been lost")), Some((ARGUMENT, "ending offset"))),
        ),
        of(
            &[("subscribe", "t1"), ("startingOffsets", r#"{"t1":{"0":300,"1":0,"2":0}}"#)],
            (
                Some(("RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET", "The resolved start offset 300")),
                Some(("KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED", "Some data may have been lost")),
            ),
        ),
    ];
    for (options, batch, stream) in cases {
        check(world.batch(options).await, batch, &format!("batch {options:?}"));
        let world = World::with(&[("t1", 3)]);
        world.fill("t1", 0, 10);
        let run = async {
            let source = world.source(options).await?;
            let end = source.latest_offset(None, &source.read_limit()).await?;
            if let Some(end) = end {
                source.plan(None, &end).await?;
            }
            Ok(())
        };
        check(run.await, stream, &format!("stream {options:?}"));
    }
}

fn check<T>(found: Result<T>, expected: Option<(&str, &str)>, what: &str) {
    match (found, expected) {
        (Ok(_), None) => {}
        (Ok(_), Some(expected)) => panic!("{what}: no error, but {expected:?} was expected"),
        (Err(error), None) => panic!("{what}: {error}"),
        (Err(error), Some((code, message))) => {
            assert_eq!(error.code(), code, "{what}: {error}");
            assert!(error.message().starts_with(message), "{what}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_spark_lets_pass_are_let_pass() {
    let world = World::with(&[("t", 1)]);
    world.fill("t", 0, 2);
    for (name, value) in [
        ("kafka.group.id", "g"),
        ("groupIdPrefix", "g"),
        ("kafka.key.serializer", "x"),
        ("kafka.max.poll.records", "1000"),
        ("kafka.receive.buffer.bytes", "1000"),
        ("kafka.bogus.setting", "x"),
        ("endingTimestamp", "1"),
        ("kafka.client.rack", "r"),
    ] {
        let source = world.source(&[("subscribe", "t"), ("startingOffsets", "earliest"), (name, value)]).await.unwrap();
        assert_eq!(latest(source.as_ref(), None).await.as_json(), r#"{"t":{"0":2}}"#, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_of_the_user_is_refused() {
    let world = World::with(&[("t", 1)]);
    let request = ReadRequest { schema: Some(millstream_core::conformance::sink::schema()), ..world.request(&[("subscribe", "t")]) };
    for (streaming, code) in [(true, ARGUMENT), (false, "USER_SPECIFIED_AND_ACTUAL_SCHEMA_MISMATCH")] {
        assert_eq!(world.provider().schema(&request, streaming).await.unwrap_err().code(), code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn brokers_that_cannot_be_reached_are_an_error_that_says_why() {
    let world = World::with(&[]);
    let options = [
        ("subscribe", "t"),
        ("kafka.bootstrap.servers", "127.0.0.1:1"),
        ("kafka.default.api.timeout.ms", "300"),
        ("fetchOffset.numRetries", "0"),
    ];
    let source = world.source(&options).await.unwrap();
    let error = source.latest_offset(None, &source.read_limit()).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("TimeoutException", millstream_core::ErrorKind::SourceUnavailable));
    assert!(error.message().contains("127.0.0.1:1"), "{error}");
}
