//! Rows whose schema is not the table's.

use arrow::array::{Int32Array, StructArray};
use arrow::datatypes::Fields;
use millstream_core::ErrorKind;

use super::*;

fn wider() -> RecordBatch {
    let inner = Fields::from(vec![Field::new("x", DataType::Int64, true)]);
    let schema = Schema::new(vec![Field::new("extra", DataType::Struct(inner.clone()), true), Field::new("ID", DataType::Int32, true)]);
    let extra = StructArray::new(inner, vec![Arc::new(Int64Array::from(vec![7])) as ArrayRef], None);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(extra), Arc::new(Int32Array::from(vec![2]))]).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_columns_need_merge_schema() {
    let bench = Bench::new();
    append(bench.sink(&[]).await.as_ref(), 0, [1]).await.unwrap();
    let strict = bench.sink(&[]).await;
    let error = strict.prepare(&wider().schema(), OutputMode::Append).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("DELTA_METADATA_MISMATCH", ErrorKind::SchemaMismatch));
    assert!(error.message().contains("'extra'") && error.message().contains("mergeSchema"), "{error}");

    let sink = bench.sink(&[("mergeSchema", "true")]).await;
    assert!(run(sink.as_ref(), 1, OutputMode::Append, wider()).await.unwrap());
    assert!(append(sink.as_ref(), 2, [3]).await.unwrap());
    let rows = bench.read(&[]).await.unwrap();
    assert_eq!(rows.schema().fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["id", "name", "extra"]);
    assert_eq!(sorted_ids(&rows), [1, 2, 3]);
    assert_eq!(rows.column_by_name("extra").unwrap().null_count(), 2);
    assert_eq!(rows.column_by_name("name").unwrap().null_count(), 1);
    let by_delta_rs = bench.sql("SELECT id, extra['x'] AS x FROM t WHERE extra IS NOT NULL").await;
    assert_eq!(by_delta_rs[0].column_by_name("x").unwrap().as_primitive::<Int64Type>().value(0), 7);
    // The old version still has the old schema.
    assert_eq!(bench.read(&[("versionAsOf", "0")]).await.unwrap().num_columns(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_types_are_refused_by_column() {
    let bench = Bench::new();
    append(bench.sink(&[]).await.as_ref(), 0, [1]).await.unwrap();
    let sink = bench.sink(&[("mergeSchema", "true")]).await;
    let text = one_column("id", Arc::new(StringArray::from(vec!["x"])));
    let error = run(sink.as_ref(), 1, OutputMode::Append, text).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("DELTA_FAILED_TO_MERGE_FIELDS", ErrorKind::SchemaMismatch));
    assert!(error.message().contains("'id'") && error.message().contains("overwriteSchema"), "{error}");
    assert_eq!(bench.versions().await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn complete_mode_can_replace_the_schema() {
    let bench = Bench::new();
    append(bench.sink(&[]).await.as_ref(), 0, [1]).await.unwrap();
    let text = one_column("id", Arc::new(StringArray::from(vec!["x"])));
    assert!(run(bench.sink(&[]).await.as_ref(), 1, OutputMode::Complete, text.clone()).await.is_err());
    let sink = bench.sink(&[("overwriteSchema", "true")]).await;
    run(sink.as_ref(), 1, OutputMode::Complete, text.clone()).await.unwrap();
    run(sink.as_ref(), 2, OutputMode::Complete, text).await.unwrap();
    let rows = bench.read(&[]).await.unwrap();
    assert_eq!((rows.num_columns(), rows.num_rows()), (1, 1));
    assert_eq!(rows.column(0).as_string::<i32>().value(0), "x");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_that_another_writer_changes_is_followed() {
    let bench = Bench::new();
    let sink = bench.sink(&[]).await;
    append(sink.as_ref(), 0, [1]).await.unwrap();
    let batch = info(1, OutputMode::Append, schema());
    let part = stage(sink.as_ref(), &batch, rows([2])).await.unwrap();
    let other = bench.sink(&[("mergeSchema", "true"), ("txnAppId", "other")]).await;
    run(other.as_ref(), 0, OutputMode::Append, wider()).await.unwrap();
    sink.commit(&batch, vec![part]).await.unwrap();
    assert_eq!(bench.ids_by_delta_rs().await, [1, 2, 2]);

    // A change that the staged rows do not fit stops the query and commits nothing.
    let batch = info(2, OutputMode::Append, schema());
    let part = stage(sink.as_ref(), &batch, rows([3])).await.unwrap();
    let replacing = bench.sink(&[("overwriteSchema", "true"), ("txnAppId", "other")]).await;
    run(replacing.as_ref(), 1, OutputMode::Complete, one_column("id", Arc::new(StringArray::from(vec!["x"])))).await.unwrap();
    let versions = bench.versions().await;
    assert_eq!(sink.commit(&batch, vec![part]).await.unwrap_err().kind(), ErrorKind::SchemaMismatch);
    assert_eq!(bench.versions().await, versions);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creators_of_the_same_table_agree() {
    let bench = Bench::new();
    let (first, second) = (bench.sink(&[]).await, bench.sink(&[("txnAppId", "other")]).await);
    let batch = info(0, OutputMode::Append, schema());
    let (one, two) = (stage(first.as_ref(), &batch, rows([1])).await.unwrap(), stage(second.as_ref(), &batch, rows([2])).await.unwrap());
    first.commit(&batch, vec![one]).await.unwrap();
    second.commit(&batch, vec![two]).await.unwrap();
    assert_eq!(bench.ids_by_delta_rs().await, [1, 2]);
    // A creator with another partitioning loses, by name.
    let bench = Bench::new();
    let (first, second) = (bench.sink(&[]).await, bench.sink(&[("partitionBy", "name"), ("txnAppId", "other")]).await);
    let part = stage(second.as_ref(), &batch, rows([2])).await.unwrap();
    append(first.as_ref(), 0, [1]).await.unwrap();
    let error = second.commit(&batch, vec![part]).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("DELTA_METADATA_MISMATCH", ErrorKind::SchemaMismatch));
    assert_eq!(bench.ids_by_delta_rs().await, [1]);
}
