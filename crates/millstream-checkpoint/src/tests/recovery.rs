use std::sync::Arc;

use millstream_core::ErrorKind;
use millstream_core::recovery::{Resume, resume};
use object_store::ObjectStore;
use object_store::memory::InMemory;

use super::setup::*;
use crate::BatchRecords;
use crate::store::{Fault, FaultStore, Hit, Operation};

#[tokio::test]
async fn a_new_checkpoint_is_fresh_and_remembers_its_query() {
    let on_disk = OnDisk::new();
    let checkpoint = on_disk.open(options("a")).await.unwrap();
    assert_eq!(resume(&checkpoint.tail().await.unwrap()).unwrap(), Resume::Fresh);
    assert_eq!((checkpoint.epoch(), checkpoint.url()), (1, &on_disk.url));
    let id = checkpoint.query_id();
    assert!(on_disk.read("metadata").starts_with(&format!("{{\"id\":\"{id}\",\"millstream\":{{\"format\":1,")));
    checkpoint.close().await.unwrap();
    let again = on_disk.open(options("a")).await.unwrap();
    assert_eq!((again.query_id(), again.epoch(), again.moved_from()), (id, 2, None));
}

#[tokio::test]
async fn a_checkpoint_of_spark_goes_on() {
    let on_disk = OnDisk::of_spark("file-source");
    on_disk.write("offsets/.3.crc", "crc");
    on_disk.write("offsets/.4.crc", "of a record that is gone");
    on_disk.write("offsets/.4.6db105bb-b75b-4d68-a7e9-a1529f313f40.tmp", "");
    let checkpoint = on_disk.open(options("a")).await.unwrap();
    assert_eq!(checkpoint.moved_from(), None, "Spark does not say where a checkpoint was");
    let Resume::Next { batch_id: 4, start, previous, .. } = resume(&checkpoint.tail().await.unwrap()).unwrap() else { panic!() };
    assert_eq!(start, plan(3).offsets);
    assert_eq!(previous.conf["spark.sql.shuffle.partitions"], "2");
    let log = checkpoint.source_log("0");
    assert_eq!(log.latest().await.unwrap(), Some(3));
    let files: Vec<_> = logged(&log, &|_| None).await.unwrap();
    assert_eq!(files.iter().map(|(batch, _)| *batch).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(files[2].1, "{\"path\":\"file:///fixtures/ck/src/f2.json\",\"timestamp\":1795974230347,\"batchId\":2}");

    log.add(4, &entries(4, 2)).await.unwrap();
    checkpoint.write_offsets(4, &plan(4)).await.unwrap();
    checkpoint.write_commit(4, &commit(0)).await.unwrap();
    assert!(!on_disk.has("offsets/.4.crc") && on_disk.has("offsets/.3.crc"));
    assert!(on_disk.read("commits/4").starts_with("v1\n{\"nextBatchWatermarkMs\":0,\"millstream\":{"));
    let known = checkpoint.batches().await.unwrap();
    assert_eq!(known.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert!(known.values().all(|BatchRecords { planned_ms, committed_ms }| planned_ms.is_some() && committed_ms.is_some()));

    let on_disk = OnDisk::of_spark("named-source");
    let named = on_disk.open(options("a")).await.unwrap();
    assert_eq!(named.source_log("src_a").get(0).await.unwrap().unwrap().len(), 4);
    assert_eq!(named.source_log("0").latest().await.unwrap(), None);
}

#[tokio::test]
async fn a_plan_of_version_two_goes_on_in_version_one() {
    let on_disk = OnDisk::of_spark("offsets-v2");
    let checkpoint = on_disk.open(options("a")).await.unwrap();
    let Resume::Next { batch_id: 4, start, .. } = resume(&checkpoint.tail().await.unwrap()).unwrap() else { panic!() };
    assert_eq!(start, plan(3).offsets);
    checkpoint.write_offsets(4, &plan(4)).await.unwrap();
    assert!(on_disk.read("offsets/4").starts_with("v1\n"));
    let tail = checkpoint.tail().await.unwrap();
    assert_eq!(tail.previous_offsets.unwrap().1.offsets, plan(3).offsets);
}

/// What a power cut can leave of a record, given what was being written.
fn torn_forms(whole: &str) -> Vec<Vec<u8>> {
    let whole = whole.as_bytes();
    let mut forms: Vec<Vec<u8>> = [0, 1, 2, 3, 10, whole.len() / 2, whole.len() - 1].map(|length| whole[..length].to_vec()).into();
    forms.extend([0, 3, whole.len() - 5].map(|length| [&whole[..length], &vec![0; whole.len() - length]].concat()));
    forms
}

#[tokio::test]
async fn a_torn_newest_plan_counts_as_not_written_and_is_kept_for_people() {
    let on_disk = OnDisk::new();
    let checkpoint = on_disk.open(options("a")).await.unwrap();
    batches(&checkpoint, 0, 2).await;
    checkpoint.write_offsets(2, &plan(7)).await.unwrap();
    let whole = on_disk.read("offsets/2");
    for (index, torn) in torn_forms(&whole).into_iter().enumerate() {
        on_disk.write("offsets/2", &torn);
        on_disk.write("offsets/.2.crc", "stale");
        let tail = checkpoint.tail().await.unwrap();
        assert_eq!(tail.latest_offsets.as_ref().map(|(id, _)| *id), Some(1), "{torn:?}");
        assert!(matches!(resume(&tail), Ok(Resume::Next { batch_id: 2, .. })));
        assert!(!on_disk.has("offsets/2") && !on_disk.has("offsets/.2.crc"));
        let kept = on_disk.names("offsets/.torn");
        assert_eq!(kept.len(), index + 1);
        assert!(kept.iter().all(|name| name.starts_with("2.")));
    }
    checkpoint.write_offsets(2, &plan(8)).await.unwrap();
    assert_eq!(checkpoint.read_offsets(2).await.unwrap().unwrap().offsets, plan(8).offsets);
}

#[tokio::test]
async fn a_torn_newest_commit_makes_its_batch_run_again() {
    let on_disk = OnDisk::new();
    let checkpoint = on_disk.open(options("a")).await.unwrap();
    batches(&checkpoint, 0, 3).await;
    let whole = on_disk.read("commits/2");
    for torn in torn_forms(&whole) {
        on_disk.write("commits/2", &torn);
        let tail = checkpoint.tail().await.unwrap();
        assert!(matches!(resume(&tail), Ok(Resume::Rerun { batch_id: 2, .. })), "{torn:?}");
    }
    assert_eq!(on_disk.names("commits/.torn").len(), torn_forms(&whole).len());
}

#[tokio::test]
async fn what_cannot_be_a_torn_write_is_an_error_that_names_the_file() {
    let on_disk = OnDisk::new();
    let checkpoint = on_disk.open(options("a")).await.unwrap();
    batches(&checkpoint, 0, 3).await;
    checkpoint.write_offsets(3, &plan(3)).await.unwrap();
    let newest = on_disk.read("offsets/3");
    let cases = [
        ("offsets/2", String::new(), "an older record"),
        ("offsets/2", on_disk.read("offsets/2").replace("1000", "1001"), "an older record that was changed"),
        ("offsets/3", newest.replace("{\"logOffset\":3}", "{\"logOffset\":4}"), "a changed offset"),
        ("offsets/3", newest.replace("\"batchTimestampMs\":1000", "\"batchTimestampMs\":1001"), "a changed time"),
        ("commits/2", on_disk.read("commits/2").replace(":0", ":9"), "a changed watermark"),
    ];
    for (path, text, what) in cases {
        let good = on_disk.read(path);
        assert_ne!(text, good);
        on_disk.write(path, &text);
        let error = checkpoint.tail().await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::CheckpointIncompatible, "CHECKPOINT_RECORD_DAMAGED"), "{what}");
        assert!(error.message().contains(path), "{what}: {error}");
        on_disk.write(path, good);
    }
    // Its commit proves that this plan was once whole.
    on_disk.write("commits/3", on_disk.read("commits/2"));
    on_disk.write("offsets/3", "v1\n");
    assert_eq!(checkpoint.tail().await.unwrap_err().code(), "CHECKPOINT_RECORD_DAMAGED");
    assert_eq!(checkpoint.read_offsets(3).await.unwrap_err().code(), "CHECKPOINT_RECORD_DAMAGED");
    assert!(on_disk.has("offsets/3"));
    checkpoint.tail().await.unwrap_err();
}

#[tokio::test]
async fn two_torn_records_are_one_too_many() {
    let on_disk = OnDisk::new();
    let checkpoint = on_disk.open(options("a")).await.unwrap();
    batches(&checkpoint, 0, 1).await;
    checkpoint.write_offsets(1, &plan(1)).await.unwrap();
    checkpoint.write_offsets(2, &plan(2)).await.unwrap();
    on_disk.write("offsets/1", "");
    on_disk.write("offsets/2", "");
    let error = checkpoint.tail().await.unwrap_err();
    assert!(error.message().contains("offsets/1"), "{error}");
}

#[tokio::test]
async fn a_later_version_is_refused_and_left_alone() {
    for path in ["offsets/2", "commits/2", "sources/0/2"] {
        let on_disk = OnDisk::new();
        let checkpoint = on_disk.open(options("a")).await.unwrap();
        batches(&checkpoint, 0, 3).await;
        let text = on_disk.read(path).replacen("v1", "v99", 1);
        on_disk.write(path, &text);
        let error = match path {
            "sources/0/2" => checkpoint.source_log("0").get(2).await.unwrap_err(),
            _ => checkpoint.tail().await.unwrap_err(),
        };
        assert_eq!(error.code(), "INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION");
        assert!(error.message().contains(path) && error.message().contains("v99"), "{error}");
        assert_eq!(on_disk.read(path), text);
    }
}

#[tokio::test]
async fn a_hole_is_an_error() {
    let on_disk = OnDisk::new();
    let checkpoint = on_disk.open(options("a")).await.unwrap();
    batches(&checkpoint, 0, 3).await;
    std::fs::remove_file(on_disk.directory.path().join("offsets/1")).unwrap();
    assert_eq!(resume(&checkpoint.tail().await.unwrap()).unwrap_err().code(), "CHECKPOINT_LOG_HOLE");
    let on_disk = OnDisk::new();
    let checkpoint = on_disk.open(options("a")).await.unwrap();
    batches(&checkpoint, 0, 2).await;
    std::fs::remove_file(on_disk.directory.path().join("offsets/1")).unwrap();
    assert_eq!(resume(&checkpoint.tail().await.unwrap()).unwrap_err().code(), "CHECKPOINT_LOG_HOLE");
}

#[tokio::test]
async fn metadata_that_is_missing_or_torn() {
    for (contents, logs, expected) in [
        (None, true, Some("STREAMING_CHECKPOINT_MISSING_METADATA_FILE")),
        (None, false, None),
        (Some(""), false, None),
        (Some("{\"id\":\"7c77"), false, None),
        (Some(""), true, Some("CHECKPOINT_RECORD_DAMAGED")),
        (Some("{\"id\":\"no id\"}"), false, Some("CHECKPOINT_RECORD_DAMAGED")),
    ] {
        let on_disk = if logs { OnDisk::of_spark("file-source") } else { OnDisk::new() };
        match contents {
            Some(contents) => on_disk.write("metadata", contents),
            None => drop(std::fs::remove_file(on_disk.directory.path().join("metadata"))),
        }
        let opened = on_disk.open(options("a")).await;
        assert_eq!(opened.as_ref().err().map(|error| error.code()), expected, "{contents:?} {logs}");
        if let (Err(error), None) = (&opened, contents) {
            assert_eq!(error.sqlstate(), Some("42K03"));
        }
    }
}

/// A listing that lacks entries must not make an old checkpoint look new, not even after its first records were removed.
#[tokio::test]
async fn a_partial_listing_hides_nothing() {
    for listed in [0, 1, 3] {
        for retained in [100, 1] {
            let store = FaultStore::new(InMemory::new());
            let dynamic: Arc<dyn ObjectStore> = Arc::new(store.clone());
            let hurried = || super::program::hurried(options("a"));
            let options = || crate::CheckpointOptions { min_batches_to_retain: retained, ..hurried() };
            let checkpoint = open_with(&dynamic, options()).await.unwrap();
            batches(&checkpoint, 0, 9).await;
            checkpoint.purge(8).await.unwrap();
            checkpoint.close().await.unwrap();
            store.on(Operation::List, "", Hit::Every, Fault::PartialList(listed));
            let checkpoint = open_with(&dynamic, options()).await.unwrap();
            assert_eq!(checkpoint.epoch(), 2);
            let tail = checkpoint.tail().await.unwrap();
            assert!(matches!(resume(&tail), Ok(Resume::Next { batch_id: 9, .. })), "{listed} {retained}: {tail:?}");
            let log = checkpoint.source_log("0");
            assert_eq!(log.latest().await.unwrap(), Some(8), "{listed} {retained}");
            let all = logged(&log, &|entry| entry.split("/in/").nth(1)?.split('-').next()?.parse().ok()).await.unwrap();
            assert_eq!(all.iter().map(|(batch, _)| *batch).collect::<Vec<_>>(), (0..9).collect::<Vec<_>>());
        }
    }
}
