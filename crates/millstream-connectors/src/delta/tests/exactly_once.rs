//! Attempts, restarts and concurrent writers: whatever happens, each batch is in the table once.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_are_appended_once_however_often_they_are_attempted() {
    let bench = Bench::new();
    let sink = bench.sink(&[]).await;
    assert_eq!(sink.description(), "DeltaSink[memory:///t]");
    sink.prepare(&schema(), OutputMode::Append).await.unwrap();
    assert!(append(sink.as_ref(), 0, [1, 2]).await.unwrap());
    assert!(append(sink.as_ref(), 1, [3]).await.unwrap());
    // The same process and a new one are both told that the batch is there.
    assert!(!append(sink.as_ref(), 1, [3]).await.unwrap());
    let restarted = bench.sink(&[]).await;
    assert!(!append(restarted.as_ref(), 0, [1, 2]).await.unwrap());
    assert!(!append(restarted.as_ref(), 1, [3]).await.unwrap());
    assert!(append(restarted.as_ref(), 2, [4]).await.unwrap());
    // A zombie that passed admission long ago commits nothing either.
    let batch = info(1, OutputMode::Append, schema());
    let part = stage(sink.as_ref(), &batch, rows([3])).await.unwrap();
    sink.commit(&batch, vec![part]).await.unwrap();
    assert_eq!(bench.ids().await, [1, 2, 3, 4]);
    assert_eq!(bench.ids_by_delta_rs().await, [1, 2, 3, 4]);
    assert_eq!(bench.versions().await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_tasks_are_one_commit() {
    let bench = Bench::new();
    let sink = bench.sink(&[]).await;
    let batch = info(0, OutputMode::Append, schema());
    let mut parts = Vec::new();
    for task in 0..3_usize {
        let mut writer = sink.writer(&batch, task).await.unwrap();
        writer.write(rows([task as i64 * 10, task as i64 * 10 + 1])).await.unwrap();
        parts.push(writer.finish().await.unwrap());
    }
    // A task without rows has no file.
    parts.push(sink.writer(&batch, 3).await.unwrap().finish().await.unwrap());
    let committed = sink.commit(&batch, parts).await.unwrap();
    assert_eq!((committed.rows, committed.metrics["numAddedFiles"].as_str()), (6, "3"));
    assert_eq!(bench.versions().await, 1);
    assert_eq!(bench.ids_by_delta_rs().await, [0, 1, 10, 11, 20, 21]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_between_data_and_commit_leaves_nothing_visible() {
    let bench = Bench::new();
    append(bench.sink(&[]).await.as_ref(), 0, [1]).await.unwrap();
    let crashed = bench.sink(&[]).await;
    let batch = info(1, OutputMode::Append, schema());
    assert_eq!(crashed.admit(&batch).await.unwrap(), Admission::Write);
    stage(crashed.as_ref(), &batch, rows([2])).await.unwrap();
    drop(crashed);
    assert_eq!(bench.ids().await, [1]);
    assert!(append(bench.sink(&[]).await.as_ref(), 1, [2]).await.unwrap());
    assert_eq!(bench.ids_by_delta_rs().await, [1, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_race_for_the_same_batches() {
    let bench = Bench::new();
    let (first, second) = (bench.sink(&[]).await, bench.sink(&[]).await);
    for id in 0..20 {
        let batch = info(id, OutputMode::Append, schema());
        let (one, two) = (stage(first.as_ref(), &batch, rows([id as i64])), stage(second.as_ref(), &batch, rows([id as i64])));
        let (one, two) = futures::join!(one, two);
        let (one, two) = futures::join!(first.commit(&batch, vec![one.unwrap()]), second.commit(&batch, vec![two.unwrap()]));
        one.unwrap();
        two.unwrap();
    }
    assert_eq!(bench.versions().await, 20);
    assert_eq!(bench.ids_by_delta_rs().await, (0..20).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn different_queries_share_a_table() {
    let bench = Arc::new(Bench::new());
    let tasks: Vec<_> = (0..4_u128)
        .map(|query| {
            let bench = bench.clone();
            tokio::spawn(async move {
                let sink = bench.sink(&[]).await;
                for id in 0..10 {
                    let batch = BatchInfo { query_id: Uuid::from_u128(query), ..info(id, OutputMode::Append, schema()) };
                    let part = stage(sink.as_ref(), &batch, rows([query as i64 * 100 + id as i64])).await.unwrap();
                    sink.commit(&batch, vec![part]).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let expected: Vec<i64> = (0..4).flat_map(|query| (0..10).map(move |id| query * 100 + id)).collect();
    assert_eq!(bench.ids_by_delta_rs().await, expected);
    assert_eq!(bench.versions().await, 40);
    let info = super::super::table_info(&bench.storage, TABLE, None).await.unwrap().unwrap();
    assert_eq!((info.version, info.files, info.rows), (39, 40, Some(40)));
    assert_eq!(info.transactions.len(), 4);
    assert!(info.transactions.values().all(|version| *version == 9));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn complete_mode_replaces_the_rows_of_every_writer() {
    let bench = Bench::new();
    let sink = bench.sink(&[]).await;
    run(sink.as_ref(), 0, OutputMode::Complete, rows([1, 2])).await.unwrap();
    run(sink.as_ref(), 1, OutputMode::Complete, rows([3])).await.unwrap();
    assert_eq!(bench.ids_by_delta_rs().await, [3]);
    // Another query appends while this one stages: the overwrite comes after it and replaces its rows too.
    let batch = info(2, OutputMode::Complete, schema());
    let part = stage(sink.as_ref(), &batch, rows([4])).await.unwrap();
    let other = bench.sink(&[("txnAppId", "other")]).await;
    append(other.as_ref(), 0, [9]).await.unwrap();
    sink.commit(&batch, vec![part]).await.unwrap();
    assert_eq!(bench.ids_by_delta_rs().await, [4]);
    assert_eq!(bench.ids().await, [4]);
    // An empty result empties the table, once.
    assert!(run(sink.as_ref(), 3, OutputMode::Complete, rows([])).await.unwrap());
    assert!(bench.ids().await.is_empty());
    let versions = bench.versions().await;
    run(sink.as_ref(), 4, OutputMode::Complete, rows([])).await.unwrap();
    assert_eq!(bench.versions().await, versions);
    // A restarted query knows which files there are.
    let restarted = bench.sink(&[]).await;
    run(restarted.as_ref(), 5, OutputMode::Complete, rows([5, 6])).await.unwrap();
    assert!(!run(restarted.as_ref(), 5, OutputMode::Complete, rows([5, 6])).await.unwrap());
    assert_eq!(bench.ids_by_delta_rs().await, [5, 6]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_without_rows_are_not_committed_but_create_the_table() {
    let bench = Bench::new();
    let sink = bench.sink(&[]).await;
    let batch = info(0, OutputMode::Append, schema());
    let part = stage(sink.as_ref(), &batch, rows([])).await.unwrap();
    sink.commit(&batch, vec![part]).await.unwrap();
    assert_eq!((bench.versions().await, bench.ids().await.len()), (1, 0));
    for id in 1..5 {
        append(sink.as_ref(), id, []).await.unwrap();
    }
    sink.commit(&info(5, OutputMode::Append, schema()), Vec::new()).await.unwrap();
    assert_eq!(bench.versions().await, 1);
    append(sink.as_ref(), 6, [1]).await.unwrap();
    assert_eq!(bench.ids_by_delta_rs().await, [1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn update_mode_is_refused() {
    let bench = Bench::new();
    let sink = bench.sink(&[]).await;
    assert!(!sink.supports(OutputMode::Update) && sink.supports(OutputMode::Append) && sink.supports(OutputMode::Complete));
    let error = sink.prepare(&schema(), OutputMode::Update).await.unwrap_err();
    assert_eq!(error.code(), "STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_can_be_named_by_the_user() {
    let bench = Bench::new();
    let options = [("txnAppId", "job"), ("txnVersion", "7"), ("userMetadata", "nightly")];
    let sink = bench.sink(&options).await;
    assert!(append(sink.as_ref(), 0, [1]).await.unwrap());
    assert!(!append(sink.as_ref(), 0, [1]).await.unwrap());
    // A fixed version would swallow the second batch of a stream.
    assert_eq!(append(sink.as_ref(), 1, [2]).await.unwrap_err().code(), "INVALID_OPTION_VALUE");
    let history = super::super::table_history(&bench.storage, TABLE, 10).await.unwrap();
    let [entry] = history.as_slice() else { panic!("{history:?}") };
    assert_eq!(entry.transactions, [("job".to_owned(), 7)]);
    assert_eq!(entry.user_metadata.as_deref(), Some("nightly"));
    assert_eq!(entry.operation.as_deref(), Some("STREAMING UPDATE"));
    assert_eq!((entry.parameters["outputMode"].as_str(), entry.metrics["numOutputRows"].as_str()), ("Append", "1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aborted_batches_leave_no_files() {
    let bench = Bench::new();
    let sink = bench.sink(&[]).await;
    let batch = info(0, OutputMode::Append, schema());
    let part = stage(sink.as_ref(), &batch, rows([1])).await.unwrap();
    sink.abort(&batch, vec![part]).await;
    let mut writer = sink.writer(&batch, 0).await.unwrap();
    writer.write(rows([1])).await.unwrap();
    writer.abort().await;
    let left: Vec<_> = bench.store.list(None).try_collect().await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_slept_through_a_clean_up_does_not_write_into_the_hole() {
    use object_store::ObjectStoreExt as _;

    let bench = Bench::new();
    let sleeper = bench.sink(&[]).await;
    append(sleeper.as_ref(), 0, [1]).await.unwrap();
    let busy = bench.sink(&[("txnAppId", "busy"), ("checkpointInterval", "4")]).await;
    for id in 0..5 {
        append(busy.as_ref(), id, [10 + id as i64]).await.unwrap();
    }
    busy.stop().await;
    for version in 0..4 {
        bench.store.delete(&Path::from(format!("t/_delta_log/{version:020}.json"))).await.unwrap();
    }
    bench.clock.0.fetch_add(3_600_000, Ordering::Relaxed);
    assert!(append(sleeper.as_ref(), 1, [2]).await.unwrap());
    assert_eq!(bench.ids().await, [1, 2, 10, 11, 12, 13, 14]);
    assert!(!append(sleeper.as_ref(), 1, [2]).await.unwrap());
}
