use std::sync::Arc;

use millstream_core::ErrorKind;
use object_store::memory::InMemory;

use super::super::testing::{TestClock, TestIds, durable, names};
use super::super::{ConfirmedStore, Failure, Fault, FaultStore, Hit, Operation, Privacy};
use super::*;

#[tokio::test]
async fn stores_that_keep_the_promise_pass_and_are_left_clean() {
    let (_directory, local, _) = durable(Privacy::Private);
    let confirmed = ConfirmedStore::new(InMemory::new(), Arc::new(TestClock::default()));
    let stores: [&dyn ObjectStore; 3] = [&local, &InMemory::new(), &confirmed];
    for store in stores {
        for prefix in ["", "check/point"] {
            probe(store, &Path::from(prefix), &TestIds).await.unwrap();
        }
        assert!(names(store, None).await.is_empty());
    }
}

#[tokio::test]
async fn a_store_that_ignores_the_condition_is_refused() {
    // Always; and only when several ask at once, as a shim does that asks first and writes then.
    for path in ["", ".millstream-race-"] {
        let faults = FaultStore::new(InMemory::new());
        faults.on(Operation::Put, path, Hit::Every, Fault::IgnoreCondition);
        for store in [&faults as &dyn ObjectStore, &ConfirmedStore::new(faults.clone(), Arc::new(TestClock::default()))] {
            let error = probe(store, &Path::from("c"), &TestIds).await.unwrap_err();
            assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, "STORE_WITHOUT_CONDITIONAL_CREATE"));
            assert!(names(&faults, None).await.is_empty());
        }
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_written_is_unavailable() {
    let faults = FaultStore::new(InMemory::new());
    faults.on(Operation::Put, "", Hit::Every, Fault::Before(Failure::NoSpace));
    assert_eq!(probe(&faults, &Path::default(), &TestIds).await.unwrap_err().code(), "STORE_FULL");
}
