//! Tables with features: honoured or refused, never ignored.

use object_store::ObjectStoreExt as _;

use super::*;

/// Rewrites the first commit of the table.
async fn edit(bench: &Bench, edit: impl FnOnce(String) -> String) {
    let path = Path::from("t/_delta_log/00000000000000000000.json");
    let text = bench.store.get(&path).await.unwrap().bytes().await.unwrap();
    bench.store.put(&path, edit(String::from_utf8(text.to_vec()).unwrap()).into()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_honoured_is_refused_by_name() {
    let protocol = r#""protocol":{"minReaderVersion":1,"minWriterVersion":2}"#;
    let cases: [(&str, &str, &str); 4] = [
        (r#""configuration":{}"#, r#""configuration":{"delta.constraints.c":"id > 0"}"#, "checkConstraints"),
        (
            protocol,
            r#""protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":[],"writerFeatures":["rowTracking","domainMetadata"]}"#,
            "rowTracking",
        ),
        (
            protocol,
            r#""protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["fromTheFuture"],"writerFeatures":["fromTheFuture"]}"#,
            "fromTheFuture",
        ),
        (r#"\"metadata\":{}"#, r#"\"metadata\":{\"delta.generationExpression\":\"1\"}"#, "generatedColumns"),
    ];
    for (from, to, feature) in cases {
        let bench = Bench::new();
        append(bench.sink(&[]).await.as_ref(), 0, [1]).await.unwrap();
        edit(&bench, |text| {
            assert!(text.contains(from), "{text}");
            text.replace(from, to)
        })
        .await;
        let error = append(bench.sink(&[]).await.as_ref(), 1, [2]).await.unwrap_err();
        assert!(error.code().starts_with("DELTA_UNSUPPORTED_FEATURES_FOR_"), "{error}");
        assert!(error.message().contains(feature), "{error}");
        assert_eq!(bench.versions().await, 1);
        if feature == "fromTheFuture" {
            assert_eq!(bench.read(&[]).await.unwrap_err().code(), "DELTA_UNSUPPORTED_FEATURES_FOR_READ");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn required_columns_are_checked() {
    let bench = Bench::new();
    append(bench.sink(&[]).await.as_ref(), 0, [1]).await.unwrap();
    edit(&bench, |text| text.replacen(r#"\"nullable\":true"#, r#"\"nullable\":false"#, 1)).await;
    let sink = bench.sink(&[]).await;
    let null = one_column("id", Arc::new(Int64Array::from(vec![None])));
    let error = run(sink.as_ref(), 1, OutputMode::Append, null).await.unwrap_err();
    assert_eq!(error.code(), "DELTA_NOT_NULL_CONSTRAINT_VIOLATED");
    let missing = one_column("name", Arc::new(StringArray::from(vec!["x"])));
    assert_eq!(run(sink.as_ref(), 1, OutputMode::Append, missing).await.unwrap_err().code(), "DELTA_NOT_NULL_CONSTRAINT_VIOLATED");
    assert!(append(sink.as_ref(), 1, [2]).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn properties_of_new_tables_bind() {
    let bench = Bench::new();
    let sink = bench.sink(&[("delta.appendOnly", "true"), ("delta.checkpointInterval", "2")]).await;
    for id in 0..4 {
        append(sink.as_ref(), id, [id as i64]).await.unwrap();
    }
    sink.stop().await;
    let log = super::super::log::TableLog::open(&bench.storage, TABLE, millstream_core::ErrorKind::SinkUnavailable).unwrap();
    assert_eq!(log.last_checkpoint().await, Some(2));
    let error = run(sink.as_ref(), 4, OutputMode::Complete, rows([9])).await.unwrap_err();
    assert_eq!(error.code(), "DELTA_CANNOT_MODIFY_APPEND_ONLY");
    assert_eq!(bench.ids_by_delta_rs().await, [0, 1, 2, 3]);
}

/// Whole files that are added and removed are read as inserts and deletes by readers of the change data feed, so that an overwrite needs no
/// change files of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_change_feed_of_an_overwrite_is_complete() {
    let bench = Bench::new();
    let sink = bench.sink(&[("delta.enableChangeDataFeed", "true")]).await;
    run(sink.as_ref(), 0, OutputMode::Complete, rows([1, 2])).await.unwrap();
    run(sink.as_ref(), 1, OutputMode::Complete, rows([3])).await.unwrap();
    let log = super::super::log::TableLog::open(&bench.storage, TABLE, millstream_core::ErrorKind::SinkUnavailable).unwrap();
    let mut table = deltalake::DeltaTable::new(log.log_store());
    table.load().await.unwrap();
    let context = deltalake::datafusion::prelude::SessionContext::new();
    let scan = table.scan_cdf().with_starting_version(1).build(&context.state(), None).await.unwrap();
    let batches = deltalake::datafusion::physical_plan::collect(scan, context.task_ctx()).await.unwrap();
    let mut changes: Vec<(i64, String)> = batches
        .iter()
        .flat_map(|batch| {
            let kinds = arrow::compute::cast(batch.column_by_name("_change_type").unwrap(), &DataType::Utf8).unwrap();
            let kinds: Vec<String> = kinds.as_string::<i32>().iter().map(|kind| kind.unwrap().to_owned()).collect();
            ids_of(batch).into_iter().zip(kinds).collect::<Vec<_>>()
        })
        .collect();
    changes.sort();
    assert_eq!(changes, [(1, "delete".to_owned()), (2, "delete".to_owned()), (3, "insert".to_owned())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timestamps_without_zone_need_their_feature() {
    let bench = Bench::new();
    let plain = one_column("id", Arc::new(Int64Array::from(vec![1])));
    run(bench.sink(&[]).await.as_ref(), 0, OutputMode::Append, plain).await.unwrap();
    let local = one_column("at", Arc::new(arrow::array::TimestampMicrosecondArray::from(vec![5])));
    run(bench.sink(&[("mergeSchema", "true")]).await.as_ref(), 1, OutputMode::Append, local).await.unwrap();
    let info = super::super::table_info(&bench.storage, TABLE, None).await.unwrap().unwrap();
    assert_eq!((info.protocol.min_reader_version, info.protocol.min_writer_version), (3, 7));
    assert!(info.protocol.writer_features.unwrap().contains(&"timestampNtz".to_owned()));
    let rows = bench.sql("SELECT at FROM t WHERE at IS NOT NULL").await;
    assert_eq!(rows[0].column(0).data_type(), &DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None));
}
