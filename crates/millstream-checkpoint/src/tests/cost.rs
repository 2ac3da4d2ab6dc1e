use std::sync::Arc;

use object_store::ObjectStore;
use object_store::memory::InMemory;
use parking_lot::Mutex;

use super::setup::*;
use crate::store::{FaultStore, Operation};

fn counts(store: &FaultStore<InMemory>) -> [u64; 5] {
    [Operation::Put, Operation::Get, Operation::Head, Operation::List, Operation::Delete].map(|operation| store.calls(operation))
}

#[tokio::test]
async fn a_record_is_one_put_and_the_fence_is_two_metadata_reads_however_long_the_history() {
    let store = FaultStore::new(InMemory::new());
    let dynamic: Arc<dyn ObjectStore> = Arc::new(store.clone());
    let checkpoint = open(&dynamic).await;
    let log = checkpoint.source_log("0");
    let mut seen = Vec::new();
    for batch in 0..40 {
        let before = counts(&store);
        checkpoint.write_offsets(batch, &plan(batch)).await.unwrap();
        checkpoint.write_commit(batch, &commit(0)).await.unwrap();
        checkpoint.purge(batch).await.unwrap();
        let after = counts(&store);
        seen.push(std::array::from_fn(|index| after[index] - before[index]));
    }
    assert_eq!(seen, [[2, 0, 4, 0, 0]; 40]);

    // The first look at a source's log lists it; after that only compaction reads anything.
    log.add(0, &entries(0, 1)).await.unwrap();
    let before = counts(&store);
    log.add(1, &entries(1, 1)).await.unwrap();
    let after = counts(&store);
    assert_eq!(std::array::from_fn(|index| after[index] - before[index]), [1, 0, 2, 0, 0]);
}

#[tokio::test]
async fn every_crash_point_is_passed_in_order() {
    static PASSED: Mutex<Vec<(std::thread::ThreadId, &str)>> = Mutex::new(Vec::new());
    millstream_core::crash::install(|name| PASSED.lock().push((std::thread::current().id(), name)));
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let checkpoint = open_with(&store, super::program::hurried(options("a"))).await.unwrap();
    batches(&checkpoint, 0, 3).await;
    checkpoint.purge(2).await.unwrap();
    let me = std::thread::current().id();
    let passed: Vec<&str> = PASSED.lock().iter().filter(|(thread, _)| *thread == me).map(|(_, name)| *name).collect();
    let batch = ["source.log.before", "source.log.after", "offsets.before", "offsets.after", "commit.before", "commit.after"];
    let expected: Vec<&str> = ["metadata.before", "metadata.after", "epoch.before", "epoch.after"]
        .into_iter()
        .chain(batch.into_iter().cycle().take(18))
        .chain(["purge.before", "purge.after"])
        .collect();
    assert_eq!(passed, expected);
    assert!(passed.iter().all(|name| millstream_core::crash::POINTS.contains(name)));
}
