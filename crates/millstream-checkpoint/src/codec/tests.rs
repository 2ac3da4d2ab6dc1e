use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use millstream_core::Offset;
use millstream_core::recovery::{CommitRecord, OffsetRecord};
use proptest::prelude::*;
use serde_json::json;

use super::boundary::Boundary;
use super::epoch::Claim;
use super::metadata::Metadata;
use super::*;

const AUTHOR: Author = Author { epoch: 3, writer: Uuid::from_u128(0x66d951d5_34e7_4f69_a54f_e3c2e56d586f) };

fn fixture(path: &str) -> Vec<u8> {
    std::fs::read(Path::new("tests-data/spark-4.2").join(path)).unwrap()
}

fn offset(text: &str) -> Option<Offset> {
    Some(Offset::from_json(text).unwrap())
}

fn plan() -> OffsetRecord {
    OffsetRecord {
        watermark_ms: 1_704_067_205_000,
        timestamp_ms: 1_795_974_516_428,
        conf: BTreeMap::from([("spark.sql.shuffle.partitions".into(), "2".into())]),
        offsets: vec![offset("{\"logOffset\":2}"), None],
        extra: BTreeMap::from([(FACTS.into(), json!({"fingerprint": "ab12"}))]),
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn offsets_are_spark_s_text_with_our_facts_last() {
    let written = offsets::encode(&plan(), AUTHOR).unwrap();
    let expected = concat!(
        "v1\n",
        r#"{"batchWatermarkMs":1704067205000,"batchTimestampMs":1795974516428,"conf":{"#,
        r#""spark.sql.function.protobufExtensions.enabled":"false","#,
        r#""spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan":"false","#,
        r#""spark.sql.shuffle.partitions":"2","#,
        r#""spark.sql.streaming.aggregation.stateFormatVersion":"2","#,
        r#""spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion":"2","#,
        r#""spark.sql.streaming.join.stateFormatVersion":"2","#,
        r#""spark.sql.streaming.multipleWatermarkPolicy":"min","#,
        r#""spark.sql.streaming.queryEvolution.enableSourceEvolution":"false","#,
        r#""spark.sql.streaming.stateStore.compression.codec":"lz4","#,
        r#""spark.sql.streaming.stateStore.encodingFormat":"unsaferow","#,
        r#""spark.sql.streaming.stateStore.providerClass":"#,
        r#""org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider","#,
        r#""spark.sql.streaming.stateStore.rocksdb.formatVersion":"5","#,
        r#""spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion":"2","#,
        r#""spark.sql.streaming.stateStore.rowChecksum.enabled":"false","#,
        r#""spark.sql.streaming.statefulOperator.useStrictDistribution":"true"},"#,
        r#""millstream":{"fingerprint":"ab12","epoch":3,"writer":"66d951d5-34e7-4f69-a54f-e3c2e56d586f","#,
        "\"check\":\"CHECK\"}}\n",
        "{\"logOffset\":2}\n-",
    );
    assert_eq!(text(&written), expected.replace("CHECK", &check_of(&written)));
}

fn check_of(record: &[u8]) -> String {
    let text = text(record);
    let at = text.find("\"check\":\"").unwrap() + 9;
    text[at..at + 17].to_owned()
}

#[test]
fn commits_metadata_and_source_logs_are_spark_s_text() {
    let commit = CommitRecord { next_watermark_ms: 1_704_067_310_000, extra: BTreeMap::new() };
    let written = commits::encode(&commit, AUTHOR).unwrap();
    let facts = format!("\"writer\":\"66d951d5-34e7-4f69-a54f-e3c2e56d586f\",\"check\":\"{}\"", check_of(&written));
    assert_eq!(text(&written), format!("v1\n{{\"nextBatchWatermarkMs\":1704067310000,\"millstream\":{{\"epoch\":3,{facts}}}}}"));

    let metadata = Metadata { id: AUTHOR.writer, location: Some("file:///data/ck".into()) };
    let written = metadata::encode(&metadata);
    let facts = format!("\"format\":1,\"location\":\"file:///data/ck\",\"check\":\"{}\"", check_of(&written));
    assert_eq!(text(&written), format!("{{\"id\":\"66d951d5-34e7-4f69-a54f-e3c2e56d586f\",\"millstream\":{{{facts}}}}}"));
    assert_eq!(metadata::decode(&written), Ok(metadata));

    let entries = [r#"{"path":"file:///in/a","timestamp":7,"batchId":0}"#.to_owned(), r#"{"path":"file:///in/b","batchId":0}"#.to_owned()];
    let written = Bytes::from(lines::encode(&[], &entries).concat());
    let expected = "v1\n{\"path\":\"file:///in/a\",\"timestamp\":7,\"batchId\":0}\n{\"path\":\"file:///in/b\",\"batchId\":0}";
    assert_eq!(text(&written).replace([' ', '\t'], ""), expected);
    assert_eq!(written.len(), expected.len() + 64);
    assert_eq!(lines::decode(&written).unwrap(), entries);

    let old = "v1\n{\"a\":1,\"millstream\":{\"check\":\"f4d571cc-00000045\"}}\n{\"logOffset\":3}";
    assert_eq!(lines::decode(&Bytes::from_static(old.as_bytes())).unwrap(), ["{\"a\":1}", "{\"logOffset\":3}"]);
}

#[test]
fn what_spark_wrote_is_read() {
    let record = offsets::decode(&fixture("file-source/offsets/3")).unwrap();
    assert_eq!((record.watermark_ms, record.offsets), (0, vec![offset("{\"logOffset\":3}")]));
    assert_eq!(record.conf.len(), SPARK_DEFAULTS_LEN);
    assert_eq!(record.conf["spark.sql.shuffle.partitions"], "2");
    assert!(record.extra.is_empty());

    let record = offsets::decode(&fixture("two-sources/offsets/3")).unwrap();
    assert_eq!(record.watermark_ms, 1_704_067_250_000);
    assert_eq!(record.offsets, vec![offset("{\"logOffset\":3}"), offset("{\"logOffset\":3}")]);

    let record = offsets::decode(&fixture("rate/offsets/0")).unwrap();
    assert_eq!(record.offsets, vec![offset("{\"offset\":5,\"timestamp\":1000}")]);

    let record = offsets::decode(&fixture("offsets-v2/offsets/3")).unwrap();
    assert_eq!(record.offsets, vec![offset("{\"logOffset\":3}")]);
    assert_eq!(record.extra, BTreeMap::from([("sourceMetadataInfo".into(), json!({}))]));

    let record = commits::decode(&fixture("commits-v2/commits/0")).unwrap();
    assert_eq!(record.next_watermark_ms, 1_704_067_195_000);
    assert!(record.extra["stateUniqueIds"]["0"].is_array());
    assert_eq!(commits::decode(&fixture("file-source/commits/0")).unwrap(), CommitRecord::default());

    let entries = lines::decode(&fixture("named-source/sources/src_a/0").into()).unwrap();
    assert_eq!(entries.len(), 4);
    assert_eq!(entries[3], r#"{"path":"file:///fixtures/ck/src/f3.json","timestamp":1795974230548,"batchId":0}"#);
    assert_eq!(lines::batch_of(&entries[3]), Some(0));

    let metadata = metadata::decode(&fixture("named-source/metadata")).unwrap();
    assert_eq!(metadata, Metadata { id: "7c778b3a-79dc-4e04-a5f9-8b6e4cd9d0ba".parse().unwrap(), location: None });
}

const SPARK_DEFAULTS_LEN: usize = 15;

#[test]
fn our_defaults_are_what_spark_records() {
    let spark = offsets::decode(&fixture("file-source/offsets/0")).unwrap().conf;
    let mut ours = conf::with_defaults(&BTreeMap::new());
    assert_eq!(ours.insert("spark.sql.shuffle.partitions".into(), "2".into()).as_deref(), Some("200"));
    assert_eq!(ours, spark);
}

#[test]
fn version_two_orders_numbered_sources_and_names_the_others() {
    let numbered = offsets::decode(b"v2\n{\"batchWatermarkMs\":1,\"conf\":{}}\n10:{\"a\":1}\n9:-\n").unwrap();
    assert_eq!(numbered.offsets, vec![None, offset("{\"a\":1}")]);
    assert!(!numbered.extra.contains_key(offsets::SOURCES_FIELD));
    let named = offsets::decode(b"v2\n{}\nclicks:{\"a\":1}\nads:-").unwrap();
    assert_eq!(named.offsets, vec![offset("{\"a\":1}"), None]);
    assert_eq!(named.extra[offsets::SOURCES_FIELD], json!(["clicks", "ads"]));
}

#[test]
fn what_is_wrong_is_told_apart() {
    let torn = |bytes: &[u8]| matches!(offsets::decode(bytes), Err(Flaw::Torn(_)));
    for text in
        ["", "v", "v1", "v1\n", "v1\n{\"batchWatermarkMs\":0,\"conf\":{", "v1\n{}\n{\"logOff", "v1\n{}\n-\n\u{0}\u{0}", "\u{0}\u{0}\u{0}"]
    {
        assert!(torn(text.as_bytes()), "{text:?} gives {:?}", offsets::decode(text.as_bytes()));
    }
    let damaged = |bytes: &[u8]| matches!(offsets::decode(bytes), Err(Flaw::Damaged(_) | Flaw::Malformed(_)));
    assert!(matches!(offsets::decode(b"nonsense"), Err(Flaw::Malformed(_))));
    for text in [
        "w1\n{}\n-",
        "v\n{}\n-",
        "v0\n{}\n-",
        "v1\n[]\n-",
        "v1\n{}\nnot json\n-",
        "v1\n{\"conf\":3}\n-",
        "v1\n{\"conf\":{\"a\":3}}\n-",
        "v1\n{\"batchWatermarkMs\":\"x\"}\n-",
        "v1\n{\"millstream\":{}}\n-",
        "v2\n{}\nno name",
    ] {
        assert!(damaged(text.as_bytes()), "{text:?} gives {:?}", offsets::decode(text.as_bytes()));
    }
    assert!(damaged(b"v1\n{}\n\xff"));
    assert_eq!(offsets::decode(b"v9\nwhatever"), Err(Flaw::Version { found: 9, supported: 2 }));
    assert_eq!(commits::decode(b"v9\n{}"), Err(Flaw::Version { found: 9, supported: 3 }));
    assert_eq!(lines::decode(&Bytes::from_static(b"v2\n{}")), Err(Flaw::Version { found: 2, supported: 1 }));
    let newer = br#"{"id":"66d951d5-34e7-4f69-a54f-e3c2e56d586f","millstream":{"format":2}}"#;
    assert!(matches!(metadata::decode(newer), Err(Flaw::Damaged(_))));
    assert!(matches!(metadata::decode(b"{\"id\":3}"), Err(Flaw::Damaged(_))));
    assert!(matches!(metadata::decode(b""), Err(Flaw::Torn(_))));
}

#[test]
fn the_author_is_ours_to_write() {
    let mut record = plan();
    record.extra.insert(FACTS.into(), json!({"epoch": 99, "writer": "me", "check": "x", "kept": true}));
    let read = offsets::decode(&offsets::encode(&record, AUTHOR).unwrap()).unwrap();
    assert_eq!(Author::of(&read.extra), Some(AUTHOR));
    assert_eq!(read.extra[FACTS]["kept"], json!(true));
    assert!(read.extra[FACTS].get("check").is_none());
    let mut stripped = read.extra.clone();
    Author::strip(&mut stripped);
    assert_eq!(stripped, BTreeMap::from([(FACTS.into(), json!({"kept": true}))]));

    record.extra.insert(FACTS.into(), json!(3));
    assert_eq!(offsets::encode(&record, AUTHOR).unwrap_err().code(), "INTERNAL_ERROR");
    record.extra = BTreeMap::from([("conf".into(), json!({}))]);
    assert_eq!(offsets::encode(&record, AUTHOR).unwrap_err().code(), "INTERNAL_ERROR");
}

#[test]
fn entries_of_any_form_come_back() {
    for entries in [
        vec![],
        vec!["{}"],
        vec!["{ }", "{\"a\":1}"],
        vec!["1795974279252"],
        vec!["plain", "text"],
        vec!["{\"a\":1}", "plain"],
        vec!["{abc,}"],
    ] {
        let entries: Vec<String> = entries.into_iter().map(str::to_owned).collect();
        let written = Bytes::from(lines::encode(&[], &entries).concat());
        assert_eq!(lines::decode(&written).unwrap(), entries, "{written:?}");
    }
    assert!(matches!(lines::decode(&Bytes::from_static(b"v1\n{\"path\":\"a\"}\n{\"pa")), Err(Flaw::Torn(_))));
    assert!(matches!(lines::decode(&Bytes::from_static(b"v1")), Err(Flaw::Torn(_))));
}

/// The bytes of `sources/0/0` of a query over two topics, from Spark 4.2.
#[test]
fn the_zero_byte_of_sparks_kafka_source_is_passed_over() {
    let file = Bytes::from_static(b"\0v1\n{\"t1\":{\"0\":0,\"1\":0,\"2\":0},\"t2\":{\"0\":0}}");
    assert_eq!(lines::decode(&file).unwrap(), [r#"{"t1":{"0":0,"1":0,"2":0},"t2":{"0":0}}"#]);
    assert!(matches!(lines::decode(&file.slice(..file.len() - 1)), Err(Flaw::Torn(_))));
}

#[test]
fn compaction_joins_files_without_their_checksums() {
    let file = |entries: &[&str]| {
        let entries: Vec<String> = entries.iter().map(|entry| entry.to_string()).collect();
        lines::body(&Bytes::from(lines::encode(&[], &entries).concat())).unwrap()
    };
    let earlier = [file(&["{\"a\":0}", "{\"a\":1}"]), file(&[]), file(&["{\"b\":0}"])];
    let compacted = Bytes::from(lines::encode(&earlier, &["{\"c\":0}".to_owned(), "{\"c\":1}".to_owned()]).concat());
    assert_eq!(text(&compacted).matches("check").count(), 0);
    assert_eq!(text(&compacted).matches([' ', '\t']).count(), 64);
    assert_eq!(lines::decode(&compacted).unwrap(), ["{\"a\":0}", "{\"a\":1}", "{\"b\":0}", "{\"c\":0}", "{\"c\":1}"]);
    let again = Bytes::from(lines::encode(&[lines::body(&compacted).unwrap()], &[]).concat());
    assert_eq!(again, compacted);
}

fn claim() -> Claim {
    Claim {
        epoch: 7,
        writer: AUTHOR.writer,
        owner: "pid 4711 on \"web-1\"".into(),
        started_ms: 1_795_974_516_428,
        location: "s3://b/ck".into(),
    }
}

#[test]
fn claims_and_boundaries_come_back() {
    assert_eq!(epoch::decode(&epoch::encode(&claim())), Ok(claim()));
    let boundary = Boundary { batch: 100, epoch: 7, sources: BTreeMap::from([("0".into(), 99)]) };
    assert_eq!(boundary::decode(&boundary::encode(&boundary).unwrap()), Ok(boundary));
}

fn arbitrary_plan() -> impl Strategy<Value = OffsetRecord> {
    let offset = prop_oneof![
        Just(None),
        any::<u64>().prop_map(|end| Some(Offset::from_json(format!("{{\"logOffset\":{end}}}")).unwrap())),
        "[ -~]{0,12}".prop_map(|text| Some(Offset::of(&text).unwrap())),
    ];
    let conf = prop::collection::btree_map("[a-z.]{1,8}", "\\PC{0,8}", 0..4);
    let extra = prop::collection::btree_map("x[a-z]{0,4}", "\\PC{0,8}".prop_map(Value::from), 0..3);
    (any::<i64>(), any::<i64>(), conf, prop::collection::vec(offset, 0..4), extra)
        .prop_map(|(watermark_ms, timestamp_ms, conf, offsets, extra)| OffsetRecord { watermark_ms, timestamp_ms, conf, offsets, extra })
}

/// Cuts, turns over or zeroes bytes of a record.
#[derive(Clone, Debug)]
enum Harm {
    Cut(prop::sample::Index),
    Flip(prop::sample::Index, u8),
    Replace(prop::sample::Index, u8),
    Zero(prop::sample::Index),
    Append(u8),
}

fn harm() -> impl Strategy<Value = Harm> {
    prop_oneof![
        any::<prop::sample::Index>().prop_map(Harm::Cut),
        (any::<prop::sample::Index>(), 0u8..8).prop_map(|(at, bit)| Harm::Flip(at, bit)),
        (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, byte)| Harm::Replace(at, byte)),
        any::<prop::sample::Index>().prop_map(Harm::Zero),
        any::<u8>().prop_map(Harm::Append),
    ]
}

impl Harm {
    fn apply(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        let length = bytes.len();
        match self {
            Harm::Cut(at) => bytes.truncate(at.index(length)),
            Harm::Flip(at, bit) => bytes[at.index(length)] ^= 1 << bit,
            Harm::Replace(at, byte) => bytes[at.index(length)] = *byte,
            Harm::Zero(at) => bytes[at.index(length)..].fill(0),
            Harm::Append(byte) => bytes.push(*byte),
        }
        bytes
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn plans_come_back(record in arbitrary_plan()) {
        let written = offsets::encode(&record, AUTHOR).unwrap();
        let mut read = offsets::decode(&written).unwrap();
        prop_assert_eq!(Author::of(&read.extra), Some(AUTHOR));
        Author::strip(&mut read.extra);
        prop_assert_eq!(&read.conf, &conf::with_defaults(&record.conf));
        prop_assert_eq!(read, OffsetRecord { conf: conf::with_defaults(&record.conf), ..record });
    }

    #[test]
    fn commits_come_back(next_watermark_ms in any::<i64>(), extra in prop::collection::btree_map("x[a-z]{0,4}", any::<i64>().prop_map(Value::from), 0..3)) {
        let record = CommitRecord { next_watermark_ms, extra };
        let mut read = commits::decode(&commits::encode(&record, AUTHOR).unwrap()).unwrap();
        Author::strip(&mut read.extra);
        prop_assert_eq!(read, record);
    }

    #[test]
    fn source_entries_come_back(entries in prop::collection::vec("[^\u{0}\n{][^\u{0}\n]{0,20}|\\{\"path\":\"[a-z]{0,9}\",\"batchId\":[0-9]\\}", 0..5)) {
        let written = Bytes::from(lines::encode(&[], &entries).concat());
        prop_assert_eq!(lines::decode(&written), Ok(entries));
    }

    /// No harm to a record of ours gives another value: it is the same value or a flaw.
    #[test]
    fn a_harmed_record_never_gives_another_value(record in arbitrary_plan(), harm in harm()) {
        let written = offsets::encode(&record, AUTHOR).unwrap();
        let harmed = harm.apply(&written);
        match offsets::decode(&harmed) {
            Ok(read) => prop_assert_eq!(read, offsets::decode(&written).unwrap()),
            Err(Flaw::Torn(_)) => prop_assert!(!matches!(harm, Harm::Append(1..0x80))),
            Err(_) => prop_assert!(!matches!(harm, Harm::Cut(_))),
        }

        let commit = CommitRecord { next_watermark_ms: record.watermark_ms, extra: record.extra.clone() };
        let written = commits::encode(&commit, AUTHOR).unwrap();
        if let Ok(read) = commits::decode(&harm.apply(&written)) {
            prop_assert_eq!(read, commits::decode(&written).unwrap());
        }

        let entry = |batch: usize| format!("{{\"path\":\"file:///in/{batch}\",\"timestamp\":{},\"batchId\":0}}", record.timestamp_ms);
        let entries: Vec<String> = (0..record.offsets.len()).map(entry).collect();
        let written = lines::encode(&[], &entries).concat();
        if let Ok(read) = lines::decode(&harm.apply(&written).into()) {
            prop_assert_eq!(read, entries);
        }

        let metadata = Metadata { id: AUTHOR.writer, location: Some("file:///data/ck".into()) };
        if let Ok(read) = metadata::decode(&harm.apply(&metadata::encode(&metadata))) {
            prop_assert_eq!(read, metadata);
        }
        if let Ok(read) = epoch::decode(&harm.apply(&epoch::encode(&claim()))) {
            prop_assert_eq!(read, claim());
        }
    }

    /// Whatever a file contains, reading it ends, and without a panic.
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), prefix in "(v[0-9]{1,3}\n)?(\\{[ -~\n]{0,80})?") {
        let bytes = [prefix.as_bytes(), &bytes].concat();
        let _ = offsets::decode(&bytes);
        let _ = commits::decode(&bytes);
        let _ = metadata::decode(&bytes);
        let _ = epoch::decode(&bytes);
        let _ = boundary::decode(&bytes);
        let _ = lines::decode(&bytes.into());
    }
}
