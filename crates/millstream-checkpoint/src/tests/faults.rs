use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_core::ErrorKind;
use object_store::ObjectStore;
use object_store::memory::InMemory;

use super::program::{Sink, hurried, run};
use super::setup::*;
use crate::CheckpointOptions;
use crate::store::{Failure, Fault, FaultStore, Gate, Hit, Operation};

const OPERATIONS: [Operation; 5] = [Operation::Put, Operation::Get, Operation::Head, Operation::Delete, Operation::List];
const BATCHES: u64 = 7;

fn faults(operation: Operation, gate: &Gate) -> Vec<Fault> {
    let mut faults: Vec<Fault> = Failure::ALL.iter().flat_map(|failure| [Fault::Before(*failure), Fault::After(*failure)]).collect();
    match operation {
        Operation::Put => faults.extend([Fault::Zombie(gate.clone()), Fault::IgnoreCondition]),
        Operation::Delete => faults.extend([Fault::Zombie(gate.clone()), Fault::Lose]),
        Operation::Get => faults.extend([0, 1, 40].map(Fault::TruncateRead).into_iter().chain([3, 200, 1_000].map(Fault::FlipBit))),
        Operation::List => faults.extend([0, 1].map(Fault::PartialList)),
        _ => {}
    }
    faults
}

fn fresh() -> (FaultStore<InMemory>, Arc<dyn ObjectStore>) {
    let store = FaultStore::new(InMemory::new());
    (store.clone(), Arc::new(store))
}

fn calm() -> CheckpointOptions {
    hurried(takeover("a"))
}

/// Three runs: one that stops in the middle of the query, one that is hit, one that must finish.
async fn hit(operation: Operation, when: Hit, fault: Fault, gate: &Gate) -> (Result<(), (ErrorKind, String)>, FaultStore<InMemory>) {
    let (store, dynamic) = fresh();
    let sink = Sink::default();
    run(&dynamic, calm(), &sink, 3).await.unwrap();
    store.on(operation, "", when, fault.clone());
    let what = format!("{operation:?}, {when:?}, {fault}");
    let struck = run(&dynamic, calm(), &sink, BATCHES - 2).await.map_err(|error| (error.kind(), error.code().to_owned()));
    store.clear();
    sink.check().unwrap_or_else(|error| panic!("{what}: {error}"));
    run(&dynamic, calm(), &sink, BATCHES - 1).await.unwrap_or_else(|error| panic!("{what}: recovery fails: {error}"));
    // What the store held back arrives now.
    gate.release();
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    // A claim that arrives late fences nobody who is not running; a plan that does stands, and the next run takes it over.
    let mut outcome = run(&dynamic, calm(), &sink, BATCHES).await;
    if outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::Fenced) {
        outcome = run(&dynamic, calm(), &sink, BATCHES).await;
    }
    outcome.unwrap_or_else(|error| panic!("{what}: going on fails: {error}"));
    sink.check().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(sink.batches(), BATCHES, "{what}");
    (struck, store)
}

/// Every fault at every request of a run: it is retried, or it has a name; afterwards the query goes on and nothing is lost or doubled.
#[tokio::test]
async fn every_fault_at_every_request() {
    let (store, dynamic) = fresh();
    let sink = Sink::default();
    run(&dynamic, calm(), &sink, 3).await.unwrap();
    let before = OPERATIONS.map(|operation| store.calls(operation));
    run(&dynamic, calm(), &sink, BATCHES - 2).await.unwrap();
    let requests: Vec<u64> = OPERATIONS.iter().zip(before).map(|(operation, before)| store.calls(*operation) - before).collect();
    assert!(requests.iter().all(|requests| *requests > 3), "{requests:?}");
    let mut coverage = BTreeMap::<(Operation, String), u64>::new();
    let mut outcomes = BTreeMap::<String, u64>::new();
    for (operation, requests) in OPERATIONS.into_iter().zip(requests) {
        for nth in 1..=requests {
            let kinds = faults(operation, &Gate::new()).len();
            for kind in 0..kinds {
                let gate = Gate::new();
                let fault = faults(operation, &gate).remove(kind);
                let (struck, store) = hit(operation, Hit::Nth(nth), fault.clone(), &gate).await;
                let outcome = match struck {
                    Ok(()) => "retried".to_owned(),
                    Err((kind, code)) => {
                        assert!(kind != ErrorKind::Internal && !code.is_empty(), "{operation:?} {nth} {fault}: {code}");
                        code
                    }
                };
                *outcomes.entry(outcome).or_default() += 1;
                store.hits().into_iter().for_each(|(key, count)| *coverage.entry(key).or_default() += count);
            }
        }
    }
    println!("{outcomes:?}");
    println!("{coverage:#?}");
    let retried = outcomes["retried"];
    let named: u64 = outcomes.values().sum::<u64>() - retried;
    assert!(retried > 10 * named, "{outcomes:?}");
    for operation in OPERATIONS {
        for fault in faults(operation, &Gate::new()) {
            assert!(coverage.contains_key(&(operation, fault.to_string())), "{operation:?} was never hit by {fault}");
        }
    }
}

/// A store that stays down gives an error that says so.
#[tokio::test]
async fn a_store_that_stays_down_is_named() {
    for operation in OPERATIONS {
        for failure in Failure::ALL {
            let gate = Gate::new();
            let (struck, _) = hit(operation, Hit::Every, Fault::Before(*failure), &gate).await;
            match struck {
                Ok(()) => assert_eq!(operation, Operation::Delete, "{failure}"),
                Err((kind, code)) => assert!(kind == ErrorKind::StoreUnavailable, "{operation:?} {failure}: {kind} {code}"),
            }
        }
    }
}

/// A store that forgets what it acknowledged breaks its promise. What can be seen of that later is an error and not a second run of a batch.
#[tokio::test]
async fn a_forgotten_record_is_noticed_by_the_next_run() {
    for path in ["offsets/4", "commits/4", "sources/0/", "epoch/"] {
        let (store, dynamic) = fresh();
        let sink = Sink::default();
        run(&dynamic, calm(), &sink, 3).await.unwrap();
        store.on(Operation::Put, path, Hit::Nth(1), Fault::Lose);
        let first = run(&dynamic, calm(), &sink, 5).await;
        store.clear();
        let second = run(&dynamic, calm(), &sink, BATCHES).await;
        sink.check().unwrap_or_else(|error| panic!("{path}: {error}"));
        for error in [first.err(), second.err()].into_iter().flatten() {
            assert!(["CHECKPOINT_LOG_HOLE", "CONCURRENT_STREAM_LOG_UPDATE"].contains(&error.code()), "{path}: {error}");
        }
    }
}

/// On a local disk a failed write may be visible and not durable, so reading it back is no proof.
#[tokio::test]
async fn a_failed_write_to_a_local_disk_is_never_success() {
    let on_disk = OnDisk::new();
    let store = FaultStore::new(object_store::local::LocalFileSystem::new_with_prefix(on_disk.directory.path()).unwrap());
    let options = || options("a");
    let open = || crate::Checkpoint::open(Arc::new(store.clone()), Default::default(), on_disk.url.clone(), options());
    let checkpoint = open().await.unwrap();
    store.on(Operation::Put, "offsets/0", Hit::Nth(1), Fault::After(Failure::NoSpace));
    let error = checkpoint.write_offsets(0, &plan(0)).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::StoreUnavailable, "STORE_FULL"));
    assert!(error.message().contains("offsets/0"), "{error}");
}
