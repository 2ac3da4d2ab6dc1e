use std::sync::Arc;

use millstream_core::ErrorKind;
use millstream_core::recovery::{Resume, resume};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use parking_lot::Mutex;
use serde_json::json;

use super::setup::*;
use crate::store::{Failure, Fault, FaultStore, Gate, Hit, Operation};
use crate::{Checkpoint, CheckpointOptions, FACTS, Holder};

fn memory() -> (FaultStore<InMemory>, Arc<dyn ObjectStore>) {
    let store = FaultStore::new(InMemory::new());
    (store.clone(), Arc::new(store))
}

#[tokio::test]
async fn a_second_live_query_is_refused_and_told_who_is_first() {
    let on_disk = OnDisk::new();
    let first = on_disk.open(options("pid 4711 on web-1")).await.unwrap();
    let error = on_disk.open(options("b")).await.unwrap_err();
    assert_eq!((error.kind(), error.code(), error.sqlstate()), (ErrorKind::Fenced, "CONCURRENT_QUERY", Some("0A000")));
    assert!(error.message().contains("pid 4711 on web-1") && error.message().contains(&std::process::id().to_string()), "{error}");
    assert!(error.message().contains(&first.query_id().to_string()));
    batches(&first, 0, 1).await;
    first.close().await.unwrap();
    assert_eq!(on_disk.open(options("b")).await.unwrap().epoch(), 2, "a refused query claims no epoch");

    let (_, store) = memory();
    let first = open(&store).await;
    assert_eq!(open_with(&store, options("b")).await.unwrap_err().code(), "CONCURRENT_QUERY");
    drop(first);
    assert_eq!(open(&store).await.epoch(), 2);
}

#[tokio::test]
async fn the_lock_of_a_process_that_was_killed_is_free() {
    let on_disk = OnDisk::new();
    drop(on_disk.open(options("a")).await.unwrap());
    assert!(on_disk.read("LOCK").contains("\"owner\":\"a\""));
    on_disk.open(options("b")).await.unwrap();
    assert!(on_disk.read("LOCK").contains("\"owner\":\"b\""));
}

#[tokio::test]
async fn a_query_in_the_same_process_can_be_asked_to_stop() {
    let on_disk = OnDisk::new();
    let first = Arc::new(Mutex::new(Some(on_disk.open(options("a")).await.unwrap())));
    let asked = Arc::new(Mutex::new(Vec::<Holder>::new()));
    let refusing = CheckpointOptions { stop_other: Some(Arc::new(|_| Box::pin(async { Ok(false) }))), ..options("b") };
    assert_eq!(on_disk.open(refusing).await.unwrap_err().code(), "CONCURRENT_QUERY");
    let (held, log) = (first.clone(), asked.clone());
    let stopping = CheckpointOptions {
        stop_other: Some(Arc::new(move |holder| {
            log.lock().push(holder);
            let held = held.lock().take();
            Box::pin(async move {
                if let Some(checkpoint) = held {
                    checkpoint.close().await?;
                }
                Ok(true)
            })
        })),
        ..options("b")
    };
    let second = on_disk.open(stopping).await.unwrap();
    assert_eq!(second.epoch(), 2);
    assert_eq!(asked.lock().iter().map(|holder| (holder.owner.as_str(), holder.query_id)).collect::<Vec<_>>(), [("a", second.query_id())]);
}

/// What a run of which the checkpoint was taken away tries to change.
async fn everything_is_refused(zombie: &Checkpoint, batch: u64) {
    let log = zombie.source_log("0");
    for outcome in [
        zombie.write_offsets(batch, &plan(batch)).await,
        zombie.write_commit(batch, &commit(1)).await,
        log.add(batch, &entries(batch, 1)).await,
        zombie.purge(batch).await,
        zombie.tail().await.map(drop),
        zombie.ensure_owner().await,
    ] {
        let error = outcome.unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Fenced, "STALE_EPOCH"));
        assert!(error.message().contains("pid 2 on b"), "{error}");
    }
}

#[tokio::test]
async fn a_zombie_changes_nothing() {
    for on_disk in [true, false] {
        let disk = OnDisk::new();
        let (_, memory) = memory();
        let store = if on_disk { disk.store.clone() } else { memory };
        let open = async |options| match on_disk {
            true => disk.open(options).await.unwrap(),
            false => open_with(&store, options).await.unwrap(),
        };
        let zombie = open(CheckpointOptions { min_batches_to_retain: 1, ..options("pid 1 on a") }).await;
        batches(&zombie, 0, 3).await;
        let owner = open(takeover("pid 2 on b")).await;
        let before = contents(&store).await;
        everything_is_refused(&zombie, 3).await;
        everything_is_refused(&zombie, 2).await;
        assert_eq!(contents(&store).await, before);
        zombie.close().await.unwrap();
        owner.tail().await.unwrap();
        batches(&owner, 3, 5).await;
    }
}

#[tokio::test]
async fn closing_a_zombie_does_not_open_the_lock_of_the_owner() {
    let on_disk = OnDisk::new();
    let zombie = on_disk.open(options("a")).await.unwrap();
    let owner = on_disk.open(takeover("b")).await.unwrap();
    zombie.close().await.unwrap();
    assert_eq!(on_disk.open(options("c")).await.unwrap_err().code(), "CONCURRENT_QUERY");
    drop(owner);
    on_disk.open(options("c")).await.unwrap();

    let (_, store) = memory();
    let zombie = open_with(&store, options("a")).await.unwrap();
    let _owner = open_with(&store, takeover("b")).await.unwrap();
    drop(zombie);
    assert_eq!(open_with(&store, options("c")).await.unwrap_err().code(), "CONCURRENT_QUERY");
}

/// The zombie is suspended inside the very write, after its check: its record lands in a slot that the owner believes to be free.
#[tokio::test]
async fn a_plan_that_lands_late_stands_and_its_writer_does_not_use_it() {
    let (faults, store) = memory();
    let zombie = Arc::new(open(&store).await);
    let gate = Gate::new();
    faults.on(Operation::Put, "offsets/0", Hit::Nth(1), Fault::Stall(gate.clone()));
    let writing = tokio::spawn({
        let zombie = zombie.clone();
        async move { zombie.write_offsets(0, &plan(10)).await }
    });
    gate.reached(1).await;
    let owner = open_with(&store, takeover("pid 2 on b")).await.unwrap();
    assert_eq!(resume(&owner.tail().await.unwrap()).unwrap(), Resume::Fresh);
    gate.release();
    assert_eq!(writing.await.unwrap().unwrap_err().code(), "STALE_EPOCH");

    let error = owner.write_offsets(0, &plan(20)).await.unwrap_err();
    assert_eq!((error.kind(), error.code(), error.sqlstate()), (ErrorKind::Fenced, "CONCURRENT_STREAM_LOG_UPDATE", Some("40000")));
    assert!(error.message().contains("epoch 1") && error.message().contains("ck/offsets/0"), "{error}");
    let Resume::Rerun { batch_id: 0, record, .. } = resume(&owner.tail().await.unwrap()).unwrap() else { panic!() };
    assert_eq!(record.offsets, plan(10).offsets);
    owner.write_commit(0, &commit(0)).await.unwrap();
    assert!(matches!(resume(&owner.tail().await.unwrap()).unwrap(), Resume::Next { batch_id: 1, .. }));
}

#[tokio::test]
async fn the_same_commit_of_a_fenced_run_is_as_good_as_ours() {
    for (theirs, ours, agree) in [(5, 5, true), (5, 6, false)] {
        let (faults, store) = memory();
        let zombie = Arc::new(open(&store).await);
        zombie.write_offsets(0, &plan(1)).await.unwrap();
        let gate = Gate::new();
        faults.on(Operation::Put, "commits/0", Hit::Nth(1), Fault::Stall(gate.clone()));
        let writing = tokio::spawn({
            let zombie = zombie.clone();
            async move { zombie.write_commit(0, &commit(theirs)).await }
        });
        gate.reached(1).await;
        let owner = open_with(&store, takeover("pid 2 on b")).await.unwrap();
        owner.tail().await.unwrap();
        gate.release();
        assert_eq!(writing.await.unwrap().unwrap_err().code(), "STALE_EPOCH");
        let outcome = owner.write_commit(0, &commit(ours)).await.map_err(|error| error.code().to_owned());
        assert_eq!(outcome, if agree { Ok(()) } else { Err("CONCURRENT_STREAM_LOG_UPDATE".to_owned()) });
    }
}

#[tokio::test]
async fn writing_again_is_success_and_writing_differently_is_not() {
    let (faults, store) = memory();
    let checkpoint = open(&store).await;
    // The answer to the write is lost although it happened; S3 says that the object is there although it is not.
    faults.on(Operation::Put, "offsets/0", Hit::Nth(1), Fault::After(Failure::Timeout));
    faults.on(Operation::Put, "commits/0", Hit::Nth(1), Fault::Before(Failure::Conflict));
    for _ in 0..2 {
        checkpoint.write_offsets(0, &plan(1)).await.unwrap();
        checkpoint.write_commit(0, &commit(7)).await.unwrap();
    }
    let mut other = plan(1);
    other.extra.insert(FACTS.into(), json!({"fingerprint": "x"}));
    assert_eq!(checkpoint.write_offsets(0, &other).await.unwrap_err().code(), "CONCURRENT_STREAM_LOG_UPDATE");
    assert_eq!(checkpoint.write_offsets(0, &plan(2)).await.unwrap_err().code(), "CONCURRENT_STREAM_LOG_UPDATE");
    assert_eq!(checkpoint.write_commit(0, &commit(8)).await.unwrap_err().code(), "CONCURRENT_STREAM_LOG_UPDATE");
    assert_eq!(checkpoint.read_offsets(0).await.unwrap().unwrap().offsets, plan(1).offsets);
    assert_eq!(checkpoint.read_commit(0).await.unwrap().unwrap().next_watermark_ms, 7);
    assert_eq!(checkpoint.read_commit(1).await.unwrap(), None);
}

#[tokio::test]
async fn a_closed_checkpoint_and_its_source_logs_write_nothing() {
    let (_, store) = memory();
    let checkpoint = open(&store).await;
    let log = checkpoint.source_log("0");
    checkpoint.close().await.unwrap();
    assert_eq!(checkpoint.write_offsets(0, &plan(1)).await.unwrap_err().code(), "CHECKPOINT_CLOSED");
    assert_eq!(log.add(0, &entries(0, 1)).await.unwrap_err().code(), "CHECKPOINT_CLOSED");
}

#[tokio::test]
async fn a_copy_is_noticed_until_it_is_adopted() {
    let original = OnDisk::new();
    let checkpoint = original.open(options("a")).await.unwrap();
    batches(&checkpoint, 0, 1).await;
    checkpoint.close().await.unwrap();
    let copied = OnDisk::new();
    copy(original.directory.path(), copied.directory.path());
    for _ in 0..2 {
        let checkpoint = copied.open(options("a")).await.unwrap();
        assert_eq!(checkpoint.moved_from(), Some(original.url.as_str()));
    }
    assert_eq!(copied.open(CheckpointOptions { adopt: true, ..options("a") }).await.unwrap().moved_from(), None);
    assert_eq!(copied.open(options("a")).await.unwrap().moved_from(), None);
    assert_eq!(original.open(options("a")).await.unwrap().moved_from(), None);
}

#[tokio::test]
async fn a_store_that_overwrites_is_refused_before_anything_is_written() {
    let (faults, store) = memory();
    faults.on(Operation::Put, "", Hit::Every, Fault::IgnoreCondition);
    assert_eq!(open_with(&store, options("a")).await.unwrap_err().code(), "STORE_WITHOUT_CONDITIONAL_CREATE");
    assert!(contents(&store).await.is_empty());
}

#[tokio::test]
async fn secrets_of_the_location_stay_out_of_the_files() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let url = "s3://key:hush@bucket/ck?token=hush#hush".parse().unwrap();
    let open = || Checkpoint::open(store.clone(), "ck".into(), url, options("a"));
    let checkpoint = open().await.unwrap();
    checkpoint.write_offsets(0, &plan(1)).await.unwrap();
    for (path, bytes) in contents(&store).await {
        assert!(!String::from_utf8(bytes).unwrap().contains("hush"), "{path}");
    }
}
