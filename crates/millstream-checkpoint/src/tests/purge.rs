use std::sync::Arc;

use millstream_core::recovery::{CommitRecord, Resume, resume};
use object_store::ObjectStore;
use object_store::memory::InMemory;

use super::setup::*;
use crate::CheckpointOptions;
use crate::state::{StateFile, StateManifest};

fn retaining(batches: u64) -> CheckpointOptions {
    CheckpointOptions { min_batches_to_retain: batches, ..options("a") }
}

fn numbers(on_disk: &OnDisk, folder: &str) -> Vec<u64> {
    let mut numbers: Vec<u64> = on_disk.names(folder).iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

#[tokio::test]
async fn a_hundred_batches_stay_by_default() {
    let on_disk = OnDisk::new();
    let checkpoint = on_disk.open(options("a")).await.unwrap();
    for batch in 0..140 {
        batches(&checkpoint, batch, batch + 1).await;
        checkpoint.purge(batch).await.unwrap();
        let kept = numbers(&on_disk, "offsets");
        assert_eq!(kept, numbers(&on_disk, "commits"));
        assert_eq!(kept.last(), Some(&batch));
        assert!(kept.len() as u64 >= 101.min(batch + 1) && kept.len() <= 126, "{} records after batch {batch}", kept.len());
    }
    assert_eq!(numbers(&on_disk, "offsets"), (25..140).collect::<Vec<_>>());
    checkpoint.close().await.unwrap();
    let again = on_disk.open(options("a")).await.unwrap();
    assert!(matches!(resume(&again.tail().await.unwrap()), Ok(Resume::Next { batch_id: 140, .. })));
}

#[tokio::test]
async fn what_recovery_needs_stays_whatever_is_asked_for() {
    for retained in [0, 1, 2] {
        let on_disk = OnDisk::new();
        let checkpoint = on_disk.open(retaining(retained)).await.unwrap();
        batches(&checkpoint, 0, 6).await;
        checkpoint.write_offsets(6, &plan(6)).await.unwrap();
        checkpoint.purge(u64::MAX).await.unwrap();
        let oldest = 5 - retained.max(1);
        assert_eq!(numbers(&on_disk, "offsets"), (oldest..=6).collect::<Vec<_>>());
        assert_eq!(numbers(&on_disk, "commits"), (oldest..=5).collect::<Vec<_>>());
        assert!(matches!(resume(&checkpoint.tail().await.unwrap()), Ok(Resume::Rerun { batch_id: 6, .. })));
        // The last commit is lost with a power cut that came after.
        std::fs::remove_file(on_disk.directory.path().join("offsets/6")).unwrap();
        std::fs::remove_file(on_disk.directory.path().join("commits/5")).unwrap();
        assert!(matches!(resume(&checkpoint.tail().await.unwrap()), Ok(Resume::Rerun { batch_id: 5, .. })));
    }
}

#[tokio::test]
async fn nothing_goes_while_nothing_is_known_to_be_committed() {
    let on_disk = OnDisk::new();
    let checkpoint = on_disk.open(retaining(1)).await.unwrap();
    for batch in 0..5 {
        checkpoint.write_offsets(batch, &plan(batch)).await.unwrap();
    }
    checkpoint.purge(4).await.unwrap();
    assert_eq!(numbers(&on_disk, "offsets"), [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn commits_that_name_state_in_use_stay() {
    let on_disk = OnDisk::new();
    let checkpoint = on_disk.open(retaining(2)).await.unwrap();
    for batch in 0..20u64 {
        checkpoint.write_offsets(batch, &plan(batch)).await.unwrap();
        let mut record = CommitRecord::default();
        let changes = vec![StateFile::of(format!("{batch}.changes"), b"x", (0, 128))];
        let base = (batch >= 8).then_some(7);
        StateManifest { key_groups: 128, base, snapshot: Vec::new(), changes }.put_into(&mut record).unwrap();
        checkpoint.write_commit(batch, &record).await.unwrap();
        checkpoint.purge(batch).await.unwrap();
    }
    assert_eq!(numbers(&on_disk, "commits"), (8..20).collect::<Vec<_>>(), "the snapshot after batch 7 and every change since");
    checkpoint.close().await.unwrap();
    let again = on_disk.open(retaining(2)).await.unwrap();
    again.tail().await.unwrap();
    again.purge(19).await.unwrap();
    assert_eq!(numbers(&on_disk, "commits"), (8..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_hadoop_left_beside_old_records_goes_too_and_nothing_else() {
    let on_disk = OnDisk::of_spark("file-source");
    for name in
        ["offsets/.0.crc", "offsets/.1.6db105bb-b75b-4d68-a7e9-a1529f313f40.tmp", "offsets/.3.crc", "offsets/README", "offsets/.torn/0.x"]
    {
        on_disk.write(name, "x");
    }
    let checkpoint = on_disk.open(retaining(1)).await.unwrap();
    checkpoint.tail().await.unwrap();
    checkpoint.purge(3).await.unwrap();
    assert_eq!(on_disk.names("offsets"), [".3.crc", ".torn", "2", "3", "README"]);
    assert!(on_disk.has("offsets/.torn/0.x"));
}

#[tokio::test]
async fn claims_of_long_ago_go_and_numbers_go_on() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    for _ in 0..1_003 {
        open_with(&store, retaining(1)).await.unwrap();
    }
    let checkpoint = open_with(&store, retaining(1)).await.unwrap();
    batches(&checkpoint, 0, 3).await;
    checkpoint.purge(2).await.unwrap();
    let claims = contents(&store).await.into_keys().filter(|path| path.starts_with("ck/epoch/")).count();
    assert_eq!(claims, 1_000);
    assert_eq!(checkpoint.epoch(), 1_004);
    drop(checkpoint);
    assert_eq!(open(&store).await.epoch(), 1_005);
}
