use std::sync::Arc;

use millstream_core::source_log::SourceLog;
use object_store::ObjectStore;
use object_store::memory::InMemory;

use super::setup::*;
use crate::codec::lines::batch_of;

async fn fill(log: &Arc<dyn SourceLog>, from: u64, to: u64) {
    for id in from..to {
        log.add(id, &entries(id, 2)).await.unwrap();
    }
}

async fn check_all(log: &Arc<dyn SourceLog>, end: u64) {
    let expected: Vec<(u64, String)> = (0..end).flat_map(|id| entries(id, 2).into_iter().map(move |entry| (id, entry))).collect();
    assert_eq!(logged(log, &batch_of).await.unwrap(), expected);
    assert_eq!(log.latest().await.unwrap(), end.checked_sub(1));
    for id in 0..end {
        assert_eq!(log.get(id).await.unwrap(), Some(entries(id, 2)), "batch {id}");
    }
    assert_eq!(log.get(end).await.unwrap(), None);
}

#[tokio::test]
async fn every_tenth_batch_holds_all_history() {
    let on_disk = OnDisk::new();
    let checkpoint = on_disk.open(options("a")).await.unwrap();
    let log = checkpoint.source_log("0");
    fill(&log, 0, 23).await;
    let mut names: Vec<String> = (0..23).map(|id| if id % 10 == 9 { format!("{id}.compact") } else { id.to_string() }).collect();
    names.sort();
    assert_eq!(on_disk.names("sources/0"), names);
    let compacted = on_disk.read("sources/0/19.compact");
    assert!(compacted.starts_with("v1\n{\"path\":\"file:///in/0-0\",\"timestamp\":1,\"batchId\":0 "));
    assert_eq!((compacted.lines().count(), compacted.matches([' ', '\t']).count()), (41, 64));
    check_all(&log, 23).await;
    checkpoint.close().await.unwrap();
    let again = on_disk.open(options("b")).await.unwrap();
    check_all(&again.source_log("0"), 23).await;
}

#[tokio::test]
async fn adding_again_is_success_and_adding_differently_is_not() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let checkpoint = open(&store).await;
    let log = checkpoint.source_log("0");
    fill(&log, 0, 12).await;
    for id in [0, 8, 9, 11] {
        log.add(id, &entries(id, 2)).await.unwrap();
        let error = log.add(id, &entries(id, 1)).await.unwrap_err();
        assert_eq!((error.code(), error.sqlstate()), ("CONCURRENT_STREAM_LOG_UPDATE", Some("40000")));
    }
    for entry in ["", "two\nlines", "{\"cut\":", "nul\0"] {
        assert_eq!(log.add(12, &[entry.to_owned()]).await.unwrap_err().code(), "INTERNAL_ERROR", "{entry:?}");
    }
    check_all(&log, 12).await;
}

#[tokio::test]
async fn entries_that_do_not_tell_their_batch_are_not_compacted() {
    let on_disk = OnDisk::new();
    let checkpoint = on_disk.open(options("a")).await.unwrap();
    let log = checkpoint.source_log("rates");
    for id in 0..12 {
        log.add(id, &[format!("{id}")]).await.unwrap();
    }
    assert!(on_disk.has("sources/rates/9") && !on_disk.has("sources/rates/9.compact"));
    let found = logged(&log, &|_| None).await.unwrap();
    assert_eq!(found, (0..12).map(|id| (id, id.to_string())).collect::<Vec<_>>());
    assert_eq!(on_disk.read("sources/rates/0"), "v1\n0", "Spark reads a number here");
}

#[tokio::test]
async fn batches_without_entries_are_batches() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let checkpoint = open(&store).await;
    let log = checkpoint.source_log("0");
    for id in 0..11 {
        let entries = if id == 4 { entries(4, 2) } else { Vec::new() };
        log.add(id, &entries).await.unwrap();
    }
    assert_eq!(log.latest().await.unwrap(), Some(10));
    assert_eq!(log.get(3).await.unwrap(), Some(vec![]));
    assert_eq!(logged(&log, &batch_of).await.unwrap().len(), 2);
}

#[tokio::test]
async fn files_that_a_compacted_one_covers_go_by_spark_s_rule() {
    let on_disk = OnDisk::new();
    let options = || crate::CheckpointOptions { min_batches_to_retain: 5, ..options("a") };
    let checkpoint = on_disk.open(options()).await.unwrap();
    on_disk.write("sources/0/.3.crc", "");
    batches(&checkpoint, 0, 14).await;
    checkpoint.purge(13).await.unwrap();
    assert!(on_disk.has("sources/0/0"), "five batches back is batch 9, and only 0 to 8 are covered by a compacted one before it");
    batches(&checkpoint, 14, 15).await;
    checkpoint.purge(14).await.unwrap();
    assert_eq!(on_disk.names("sources/0"), ["10", "11", "12", "13", "14", "9.compact"]);
    assert_eq!(checkpoint.source_log("0").get(3).await.unwrap(), Some(entries(3, 1)), "its entry is in 9.compact");
    checkpoint.close().await.unwrap();
    let again = on_disk.open(options()).await.unwrap();
    assert_eq!(logged(&again.source_log("0"), &batch_of).await.unwrap().len(), 15);
    batches(&again, 15, 26).await;
    assert_eq!(logged(&again.source_log("0"), &batch_of).await.unwrap().len(), 26);
}

#[tokio::test]
async fn young_files_stay_and_are_not_looked_for_all_the_time() {
    let on_disk = OnDisk::new();
    let clock = Arc::new(TestClock(std::sync::atomic::AtomicI64::new(0)));
    let options = crate::CheckpointOptions { min_batches_to_retain: 1, clock: clock.clone(), ..options("a") };
    let checkpoint = on_disk.open(options).await.unwrap();
    batches(&checkpoint, 0, 11).await;
    checkpoint.purge(10).await.unwrap();
    assert!(on_disk.has("sources/0/0") && !on_disk.has("offsets/0"));
    clock.0.store(10 * 60 * 1000 - 1, std::sync::atomic::Ordering::SeqCst);
    checkpoint.purge(10).await.unwrap();
    assert!(on_disk.has("sources/0/0"));
    clock.0.store(FAR_FUTURE_MS, std::sync::atomic::Ordering::SeqCst);
    checkpoint.purge(10).await.unwrap();
    assert_eq!(on_disk.names("sources/0"), ["10", "9.compact"]);
}

/// A crash after the compacted file, or anywhere in the clean-up, leaves both forms: the log reads the same.
#[tokio::test]
async fn a_crash_between_compaction_and_clean_up_changes_nothing() {
    let complete = OnDisk::new();
    let checkpoint = complete.open(options("a")).await.unwrap();
    fill(&checkpoint.source_log("0"), 0, 22).await;
    checkpoint.close().await.unwrap();
    for removed in 0..=19 {
        let on_disk = OnDisk::new();
        copy(complete.directory.path(), on_disk.directory.path());
        for id in 0..removed {
            let name = if id == 9 { "9.compact".to_owned() } else { id.to_string() };
            std::fs::remove_file(on_disk.directory.path().join("sources/0").join(name)).unwrap();
        }
        let checkpoint = on_disk.open(options("a")).await.unwrap();
        let log = checkpoint.source_log("0");
        check_all(&log, 22).await;
        fill(&log, 22, 30).await;
        assert!(on_disk.has("sources/0/29.compact"));
        check_all(&log, 30).await;
    }
}

#[tokio::test]
async fn a_missing_or_damaged_file_is_named() {
    for (harm, code) in [(None, "CHECKPOINT_LOG_HOLE"), (Some("v1\n{\"path\":"), "CHECKPOINT_RECORD_DAMAGED")] {
        let on_disk = OnDisk::new();
        let checkpoint = on_disk.open(options("a")).await.unwrap();
        fill(&checkpoint.source_log("0"), 0, 8).await;
        match harm {
            None => std::fs::remove_file(on_disk.directory.path().join("sources/0/4")).unwrap(),
            Some(text) => on_disk.write("sources/0/4", text),
        }
        checkpoint.close().await.unwrap();
        let checkpoint = on_disk.open(options("a")).await.unwrap();
        let log = checkpoint.source_log("0");
        let error = logged(&log, &batch_of).await.unwrap_err();
        assert_eq!(error.code(), code);
        assert!(error.message().contains("sources/0/4"), "{error}");
        log.add(8, &entries(8, 2)).await.unwrap();
        assert_eq!(log.add(9, &entries(9, 2)).await.unwrap_err().code(), code, "compaction must not lose batch 4");
    }
}
