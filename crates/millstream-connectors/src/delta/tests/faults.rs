//! A store that fails in every known way: a commit happens once, or the error says that it cannot be told.

use bytes::Bytes;
use millstream_checkpoint::store::{Failure, Fault, Gate, Hit, Operation};
use millstream_core::ErrorKind;

use super::*;

const COMMITS: &str = "_delta_log/";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_put_of_the_commit_is_resolved_from_the_log() {
    for failure in Failure::ALL {
        for applied in [false, true] {
            let bench = Bench::new();
            let sink = bench.sink(&[]).await;
            append(sink.as_ref(), 0, [1]).await.unwrap();
            let fault = if applied { Fault::After(*failure) } else { Fault::Before(*failure) };
            bench.store.on(Operation::Put, COMMITS, Hit::Nth(1), fault);
            assert!(append(sink.as_ref(), 1, [2]).await.unwrap(), "{failure} {applied}");
            append(sink.as_ref(), 2, [3]).await.unwrap();
            assert_eq!(bench.versions().await, 3, "{failure} {applied}");
            assert_eq!(bench.ids_by_delta_rs().await, [1, 2, 3], "{failure} {applied}");
            assert!(!append(bench.sink(&[]).await.as_ref(), 2, [3]).await.unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_put_of_the_first_commit_is_resolved_too() {
    for fault in [Fault::After(Failure::InternalError), Fault::Before(Failure::Conflict)] {
        let bench = Bench::new();
        bench.store.on(Operation::Put, COMMITS, Hit::Nth(1), fault);
        append(bench.sink(&[]).await.as_ref(), 0, [1]).await.unwrap();
        assert_eq!((bench.versions().await, bench.ids_by_delta_rs().await), (1, vec![1]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_outcome_is_an_error_that_keeps_the_data() {
    let bench = Bench::new();
    let sink = bench.sink(&[]).await;
    append(sink.as_ref(), 0, [1]).await.unwrap();
    // The commit is written, and neither its answer nor the look at the log comes through.
    bench.store.on(Operation::Put, COMMITS, Hit::Every, Fault::After(Failure::Timeout));
    for read_back in 2..=6 {
        bench.store.on(Operation::Get, "00001.json", Hit::Nth(read_back), Fault::Before(Failure::Unavailable));
    }
    let batch = info(1, OutputMode::Append, schema());
    let part = stage(sink.as_ref(), &batch, rows([2])).await.unwrap();
    let error = sink.commit(&batch, vec![part.clone()]).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("DELTA_COMMIT_OUTCOME_UNKNOWN", ErrorKind::SinkUnavailable));
    bench.store.clear();
    // Its files are part of the table already, so that giving up must not remove them.
    let sink_after = bench.sink(&[]).await;
    assert_eq!(sink_after.admit(&batch).await.unwrap(), Admission::AlreadyCommitted);
    sink.abort(&batch, vec![part]).await;
    assert_eq!(bench.ids_by_delta_rs().await, [1, 2]);
    assert_eq!(sink.admit(&batch).await.unwrap(), Admission::AlreadyCommitted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn puts_that_never_get_through_fail_and_a_later_attempt_succeeds() {
    let bench = Bench::new();
    let sink = bench.sink(&[]).await;
    append(sink.as_ref(), 0, [1]).await.unwrap();
    bench.store.on(Operation::Put, COMMITS, Hit::Every, Fault::Before(Failure::NoSpace));
    let error = append(sink.as_ref(), 1, [2]).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("DELTA_COMMIT_OUTCOME_UNKNOWN", ErrorKind::SinkUnavailable));
    bench.store.clear();
    assert!(append(sink.as_ref(), 1, [2]).await.unwrap());
    assert_eq!((bench.versions().await, bench.ids_by_delta_rs().await), (2, vec![1, 2]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_that_arrives_late_changes_nothing() {
    // It arrives after the next process has written the batch.
    let bench = Bench::new();
    append(bench.sink(&[]).await.as_ref(), 0, [1]).await.unwrap();
    let gate = Gate::new();
    bench.store.on(Operation::Put, COMMITS, Hit::Every, Fault::Zombie(gate.clone()));
    let zombie = bench.sink(&[]).await;
    assert_eq!(append(zombie.as_ref(), 1, [2]).await.unwrap_err().code(), "DELTA_COMMIT_OUTCOME_UNKNOWN");
    bench.store.clear();
    let next = bench.sink(&[]).await;
    assert!(append(next.as_ref(), 1, [2]).await.unwrap());
    gate.release();
    gate.landed(1).await;
    append(next.as_ref(), 2, [3]).await.unwrap();
    assert_eq!((bench.versions().await, bench.ids_by_delta_rs().await), (3, vec![1, 2, 3]));

    // It arrives before.
    let bench = Bench::new();
    append(bench.sink(&[]).await.as_ref(), 0, [1]).await.unwrap();
    let gate = Gate::new();
    bench.store.on(Operation::Put, COMMITS, Hit::Every, Fault::Zombie(gate.clone()));
    assert!(append(bench.sink(&[]).await.as_ref(), 1, [2]).await.is_err());
    bench.store.clear();
    gate.release();
    gate.landed(1).await;
    let next = bench.sink(&[]).await;
    assert!(!append(next.as_ref(), 1, [2]).await.unwrap());
    assert_eq!((bench.versions().await, bench.ids_by_delta_rs().await), (2, vec![1, 2]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_writers_commit_at_our_version_moves_us_on() {
    let bench = Bench::new();
    let sink = bench.sink(&[]).await;
    append(sink.as_ref(), 0, [1]).await.unwrap();
    let batch = info(1, OutputMode::Append, schema());
    let part = stage(sink.as_ref(), &batch, rows([2])).await.unwrap();
    // The other commit comes while ours is under way: after our look at the log, before our put.
    let gate = Gate::new();
    bench.store.on(Operation::Put, COMMITS, Hit::Nth(1), Fault::Stall(gate.clone()));
    let committing = tokio::spawn({
        let (sink, batch) = (sink.clone(), batch.clone());
        async move { sink.commit(&batch, vec![part]).await }
    });
    gate.reached(1).await;
    append(bench.sink(&[("txnAppId", "other")]).await.as_ref(), 0, [9]).await.unwrap();
    gate.release();
    committing.await.unwrap().unwrap();
    assert_eq!((bench.versions().await, bench.ids_by_delta_rs().await), (3, vec![1, 2, 9]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_of_every_other_request_are_errors_and_never_wrong_rows() {
    let cases = [
        (Operation::Put, "part-"),
        (Operation::Get, "00001.json"),
        (Operation::Get, "00002.json"),
        (Operation::List, "_delta_log"),
        (Operation::Get, "00000.json"),
    ];
    for (operation, path) in cases {
        for failure in Failure::ALL {
            let bench = Bench::new();
            append(bench.sink(&[]).await.as_ref(), 0, [1]).await.unwrap();
            let sink = bench.sink(&[]).await;
            bench.store.on(operation, path, Hit::Nth(1), Fault::Before(*failure));
            if let Err(error) = append(sink.as_ref(), 1, [2]).await {
                assert_eq!(error.kind(), ErrorKind::SinkUnavailable, "{operation:?} {failure}: {error}");
            }
            bench.store.clear();
            append(sink.as_ref(), 1, [2]).await.unwrap();
            assert_eq!((bench.versions().await, bench.ids_by_delta_rs().await), (2, vec![1, 2]), "{operation:?} {failure}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_checkpoints_that_fail_do_no_harm() {
    let bench = Bench::new();
    bench.store.on(Operation::Put, "checkpoint", Hit::Every, Fault::Before(Failure::NoSpace));
    bench.store.on(Operation::StartUpload, "checkpoint", Hit::Every, Fault::Before(Failure::NoSpace));
    let sink = bench.sink(&[("checkpointInterval", "3")]).await;
    for id in 0..8 {
        append(sink.as_ref(), id, [id as i64]).await.unwrap();
    }
    sink.stop().await;
    assert_eq!(bench.ids_by_delta_rs().await, (0..8).collect::<Vec<_>>());
    bench.store.clear();
    for id in 8..12 {
        append(sink.as_ref(), id, [id as i64]).await.unwrap();
        sink.stop().await;
    }
    let log = super::super::log::TableLog::open(&bench.storage, TABLE, ErrorKind::SinkUnavailable).unwrap();
    assert_eq!(log.last_checkpoint().await, Some(9));
    assert_eq!(bench.ids_by_delta_rs().await, (0..12).collect::<Vec<_>>());
    assert!(!append(bench.sink(&[]).await.as_ref(), 11, [11]).await.unwrap(), "transactions survive in the checkpoint");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_without_its_hint_or_with_a_broken_one_is_read() {
    use object_store::ObjectStoreExt as _;

    let bench = Bench::new();
    let sink = bench.sink(&[("checkpointInterval", "3")]).await;
    for id in 0..5 {
        append(sink.as_ref(), id, [id as i64]).await.unwrap();
    }
    sink.stop().await;
    let hint = Path::from("t/_delta_log/_last_checkpoint");
    for broken in ["", "{", "{\"version\":1}"] {
        bench.store.put(&hint, broken.into()).await.unwrap();
        assert_eq!(bench.ids().await, [0, 1, 2, 3, 4], "{broken}");
    }
    bench.store.delete(&hint).await.unwrap();
    assert!(!append(bench.sink(&[]).await.as_ref(), 4, [4]).await.unwrap());
    assert!(append(bench.sink(&[]).await.as_ref(), 5, [5]).await.unwrap());
    assert_eq!(bench.ids_by_delta_rs().await, [0, 1, 2, 3, 4, 5]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torn_commit_is_named_and_not_written_over() {
    use object_store::ObjectStoreExt as _;

    let bench = Bench::new();
    let sink = bench.sink(&[]).await;
    append(sink.as_ref(), 0, [1]).await.unwrap();
    bench.store.put(&Path::from("t/_delta_log/00000000000000000001.json"), Bytes::new().into()).await.unwrap();
    let error = append(sink.as_ref(), 1, [2]).await.unwrap_err();
    assert_eq!(error.code(), "DELTA_LOG_CORRUPT");
    assert!(error.message().contains("commit 1"), "{error}");
}
