use object_store::memory::InMemory;

use super::super::testing::{create, durable, names, overwrite, read};
use super::super::{Privacy, to_error};
use super::*;

fn faults() -> FaultStore<InMemory> {
    FaultStore::new(InMemory::new())
}

#[tokio::test]
async fn before_leaves_nothing_and_after_leaves_everything() {
    for failure in Failure::ALL {
        let store = faults();
        store.on(Operation::Put, "", Hit::Nth(1), Fault::Before(*failure));
        store.on(Operation::Put, "", Hit::Nth(2), Fault::After(*failure));
        create(&store, "a", "x").await.unwrap_err();
        assert!(read(&store, "a").await.is_err());
        create(&store, "a", "x").await.unwrap_err();
        assert_eq!(read(&store, "a").await.unwrap(), "x");
    }
}

#[tokio::test]
async fn failures_have_the_shapes_of_the_real_ones() {
    let store = faults();
    for failure in Failure::ALL {
        store.on(Operation::Put, failure.to_string(), Hit::Every, Fault::Before(*failure));
    }
    assert!(matches!(create(&store, "409", "x").await, Err(object_store::Error::AlreadyExists { .. })));
    assert!(matches!(create(&store, "412", "x").await, Err(object_store::Error::AlreadyExists { .. })));
    assert!(matches!(overwrite(&store, "412", "x").await, Err(object_store::Error::Precondition { .. })));
    for path in ["429", "500", "503", "timeout"] {
        let error = create(&store, path, "x").await.unwrap_err();
        assert!(matches!(error, object_store::Error::Generic { .. }) && error.to_string().contains(path), "{error}");
    }
    assert_eq!(to_error("x", create(&store, "ENOSPC", "x").await.unwrap_err()).code(), "STORE_FULL");
}

#[tokio::test]
async fn rules_choose_by_operation_path_and_count() {
    let store = faults();
    store.on(Operation::Put, "b", Hit::Nth(2), Fault::Before(Failure::Timeout));
    store.on(Operation::Put, "c", Hit::First(2), Fault::Before(Failure::Timeout));
    let mut outcomes = Vec::new();
    for path in ["a", "b", "c", "b", "c", "b", "c"] {
        outcomes.push(overwrite(&store, path, "x").await.is_ok());
    }
    assert_eq!(outcomes, [true, true, false, false, false, true, true]);
    store.on(Operation::Put, "", Hit::Every, Fault::Before(Failure::Timeout));
    assert!(overwrite(&store, "a", "x").await.is_err());
    assert!(read(&store, "a").await.is_ok());
    store.clear();
    assert!(overwrite(&store, "a", "x").await.is_ok());
    assert_eq!(store.calls(Operation::Put), 9);
    assert_eq!(store.hits()[&(Operation::Put, "timeout before".to_owned())], 4);
}

#[tokio::test]
async fn a_stalled_put_lands_when_released() {
    let (store, gate) = (faults(), Gate::new());
    store.on(Operation::Put, "a", Hit::Nth(1), Fault::Stall(gate.clone()));
    let writer = tokio::spawn({
        let store = store.clone();
        async move { create(&store, "a", "late").await }
    });
    gate.reached(1).await;
    assert!(read(&store, "a").await.is_err());
    gate.release();
    writer.await.unwrap().unwrap();
    assert_eq!(read(&store, "a").await.unwrap(), "late");
}

#[tokio::test]
async fn a_zombie_is_reported_dead_and_lands_later() {
    let (store, gate) = (faults(), Gate::new());
    store.on(Operation::Put, "a", Hit::Nth(1), Fault::Zombie(gate.clone()));
    overwrite(&store, "a", "zombie").await.unwrap_err();
    overwrite(&store, "a", "living").await.unwrap();
    gate.release();
    gate.landed(1).await;
    assert_eq!(read(&store, "a").await.unwrap(), "zombie");
}

#[tokio::test]
async fn reads_are_cut_and_bits_turned() {
    let store = faults();
    overwrite(&store, "a", "abcd").await.unwrap();
    store.on(Operation::Get, "", Hit::Nth(1), Fault::TruncateRead(3));
    store.on(Operation::Get, "", Hit::Nth(2), Fault::FlipBit(8));
    store.on(Operation::Get, "", Hit::Nth(3), Fault::FlipBit(32));
    assert_eq!(read(&store, "a").await.unwrap(), "abc");
    assert_eq!(read(&store, "a").await.unwrap(), "accd");
    assert_eq!(read(&store, "a").await.unwrap(), "`bcd");
    store.clear();
    store.on(Operation::Get, "", Hit::Every, Fault::TruncateRead(1));
    assert_eq!(store.get_ranges(&Path::from("a"), &[0..2, 2..4]).await.unwrap(), ["a", "c"]);
}

#[tokio::test]
async fn lists_end_early_or_fail_at_the_end() {
    let store = faults();
    for path in ["p/1", "p/2", "p/3"] {
        overwrite(&store, path, "x").await.unwrap();
    }
    store.on(Operation::List, "p", Hit::Nth(1), Fault::PartialList(2));
    store.on(Operation::List, "p", Hit::Nth(2), Fault::PartialList(1));
    store.on(Operation::List, "p", Hit::Nth(3), Fault::After(Failure::Unavailable));
    assert_eq!(names(&store, Some("p")).await, ["p/1", "p/2"]);
    assert_eq!(store.list_with_delimiter(Some(&Path::from("p"))).await.unwrap().objects.len(), 1);
    let found: Vec<_> = store.list(Some(&Path::from("p"))).collect().await;
    assert_eq!(found.iter().map(|entry| entry.is_ok()).collect::<Vec<_>>(), [true, true, true, false]);
}

#[tokio::test]
async fn conditions_are_ignored_and_writes_forgotten() {
    let store = faults();
    store.on(Operation::Put, "ignored", Hit::Every, Fault::IgnoreCondition);
    store.on(Operation::Put, "lost", Hit::Every, Fault::Lose);
    store.on(Operation::Delete, "", Hit::Every, Fault::Lose);
    create(&store, "ignored", "one").await.unwrap();
    create(&store, "ignored", "two").await.unwrap();
    create(&store, "lost", "x").await.unwrap();
    store.delete(&Path::from("ignored")).await.unwrap();
    assert_eq!(names(&store, None).await, ["ignored"]);
    assert_eq!(read(&store, "ignored").await.unwrap(), "two");
}

#[tokio::test]
async fn uploads_lose_parts_and_ends() {
    let (_directory, local, _) = durable(Privacy::Shared);
    let store = FaultStore::new(local);
    let path = Path::from("big");
    let upload = async |parts: usize| {
        let mut upload = store.put_multipart(&path).await?;
        for _ in 0..parts {
            upload.put_part("part".into()).await?;
        }
        upload.complete().await
    };
    store.on(Operation::StartUpload, "", Hit::Nth(1), Fault::Before(Failure::Unavailable));
    store.on(Operation::PutPart, "", Hit::Nth(2), Fault::After(Failure::Timeout));
    store.on(Operation::CompleteUpload, "", Hit::Nth(1), Fault::Before(Failure::InternalError));
    for _ in 0..3 {
        upload(2).await.unwrap_err();
        assert!(names(&store, None).await.is_empty());
    }
    store.on(Operation::CompleteUpload, "", Hit::Nth(1), Fault::After(Failure::InternalError));
    upload(2).await.unwrap_err();
    assert_eq!(read(&store, "big").await.unwrap(), "partpart");
    store.on(Operation::PutPart, "", Hit::Nth(2), Fault::Lose);
    upload(3).await.unwrap();
    assert_eq!(read(&store, "big").await.unwrap(), "partpart");
}

#[tokio::test]
async fn every_general_fault_hits_every_operation() {
    let store = faults();
    for operation in Operation::ALL {
        for failure in Failure::ALL {
            for fault in [Fault::Before(*failure), Fault::After(*failure)] {
                store.clear();
                let [a, b] = ["a", "b"].map(Path::from);
                store.inner().put(&a, "x".into()).await.unwrap();
                store.on(*operation, "", Hit::Every, fault);
                let outcome = match operation {
                    Operation::Put => store.put(&a, "x".into()).await.map(drop),
                    Operation::StartUpload => store.put_multipart(&a).await.map(drop),
                    Operation::PutPart => store.put_multipart(&a).await.unwrap().put_part("x".into()).await,
                    Operation::CompleteUpload => store.put_multipart(&a).await.unwrap().complete().await.map(drop),
                    Operation::AbortUpload => store.put_multipart(&a).await.unwrap().abort().await,
                    Operation::Get => store.get(&a).await.map(drop),
                    Operation::Head => store.head(&a).await.map(drop),
                    Operation::Delete => store.delete(&a).await,
                    Operation::List => store.list_with_delimiter(None).await.map(drop),
                    Operation::Copy => store.copy(&a, &b).await,
                    Operation::Rename => store.rename(&a, &b).await,
                };
                assert!(outcome.is_err(), "{operation:?}");
            }
        }
    }
    assert_eq!(store.hits().len(), Operation::ALL.len() * Failure::ALL.len() * 2);
    assert_eq!(store.coverage().lines().count(), store.hits().len());
    assert!(store.coverage().contains("CompleteUpload  409 after"), "{}", store.coverage());
}
