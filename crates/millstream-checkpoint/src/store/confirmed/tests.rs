use millstream_core::ErrorKind;
use object_store::memory::InMemory;

use super::super::testing::{TestClock, create, read};
use super::super::{Failure, Fault, FaultStore, Gate, Hit, Operation, to_error};
use super::*;

fn store() -> (FaultStore<InMemory>, ConfirmedStore<FaultStore<InMemory>>) {
    let faults = FaultStore::new(InMemory::new());
    (faults.clone(), ConfirmedStore::new(faults, Arc::new(TestClock::default())))
}

#[tokio::test]
async fn every_single_failure_before_or_after_a_create_is_survived() {
    for failure in Failure::ALL {
        for fault in [Fault::Before(*failure), Fault::After(*failure)] {
            let (faults, store) = store();
            faults.on(Operation::Put, "offsets/3", Hit::First(2), fault.clone());
            create(&store, "offsets/3", "mine").await.unwrap_or_else(|error| panic!("{fault}: {error}"));
            assert_eq!(read(&store, "offsets/3").await.unwrap(), "mine");
            // It is there now, and another writer's bytes are refused.
            let lost = create(&store, "offsets/3", "other").await;
            assert!(matches!(lost, Err(object_store::Error::AlreadyExists { .. })), "{fault}");
            assert_eq!(read(&store, "offsets/3").await.unwrap(), "mine");
        }
    }
}

#[tokio::test]
async fn anothers_object_is_already_exists_even_when_the_answer_was_lost() {
    for failure in Failure::ALL {
        let (faults, store) = store();
        create(&faults, "commits/1", "theirs").await.unwrap();
        faults.on(Operation::Put, "", Hit::Nth(1), Fault::Before(*failure));
        let lost = create(&store, "commits/1", "my own").await;
        assert!(matches!(lost, Err(object_store::Error::AlreadyExists { .. })), "{failure}");
        assert_eq!(faults.calls(Operation::Put), 2, "{failure}: no second attempt once the object is seen");
    }
}

#[tokio::test]
async fn a_conflict_with_nothing_there_is_never_called_already_exists() {
    let (faults, store) = store();
    faults.on(Operation::Put, "", Hit::Every, Fault::Before(Failure::Conflict));
    let error = to_error("cannot write commits/1", create(&store, "commits/1", "mine").await.unwrap_err());
    assert_eq!((error.kind(), error.code()), (ErrorKind::StoreUnavailable, "STORE_OUTCOME_UNKNOWN"));
    assert!(error.to_string().contains("commits/1") && error.to_string().contains("409"), "{error}");
    assert_eq!(faults.calls(Operation::Put), u64::from(ATTEMPTS));
}

#[tokio::test]
async fn an_unreadable_outcome_is_unknown() {
    let (faults, store) = store();
    faults.on(Operation::Put, "", Hit::Every, Fault::After(Failure::Conflict));
    faults.on(Operation::Get, "", Hit::Every, Fault::Before(Failure::Unavailable));
    let error = to_error("cannot write", create(&store, "commits/1", "mine").await.unwrap_err());
    assert_eq!(error.code(), "STORE_OUTCOME_UNKNOWN");
    assert_eq!(faults.calls(Operation::Put), 1, "nothing is created again before it is known that nothing is there");
    assert_eq!(faults.calls(Operation::Get), u64::from(ATTEMPTS));

    faults.clear();
    faults.on(Operation::Put, "", Hit::Every, Fault::After(Failure::Timeout));
    faults.on(Operation::Get, "", Hit::First(3), Fault::Before(Failure::Unavailable));
    create(&store, "commits/2", "mine").await.unwrap();
}

#[tokio::test]
async fn a_read_back_that_was_cut_short_is_read_again() {
    let (faults, store) = store();
    faults.on(Operation::Put, "", Hit::Nth(1), Fault::After(Failure::Timeout));
    faults.on(Operation::Get, "", Hit::Nth(1), Fault::TruncateRead(2));
    create(&store, "commits/2", "mine").await.unwrap();
}

#[tokio::test]
async fn a_zombie_that_lands_later_changes_nothing() {
    let (faults, store) = store();
    let gate = Gate::new();
    faults.on(Operation::Put, "commits/1", Hit::Nth(1), Fault::Zombie(gate.clone()));
    create(&store, "commits/1", "mine").await.unwrap();
    gate.release();
    gate.landed(1).await;
    assert_eq!(read(&store, "commits/1").await.unwrap(), "mine");
}

#[tokio::test]
async fn refusals_and_other_requests_pass_through() {
    let (faults, store) = store();
    let path = Path::from("x");
    faults.on(Operation::Put, "", Hit::Every, Fault::Before(Failure::Timeout));
    assert!(store.put(&path, "overwrite".into()).await.is_err());
    assert_eq!(faults.calls(Operation::Put), 1);
    let refused = object_store::Error::PermissionDenied { path: "x".into(), source: "no".into() };
    assert!(!may_have_been_applied(&refused));
}
