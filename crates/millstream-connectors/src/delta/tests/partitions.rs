//! Partitioned tables.

use arrow::array::{BooleanArray, Date32Array, Decimal128Array, Float64Array, TimestampMicrosecondArray};

use super::*;

fn keyed(keys: Vec<Option<&str>>) -> RecordBatch {
    let ids = Int64Array::from_iter_values(0..keys.len() as i64);
    let schema = Schema::new(vec![Field::new("k", DataType::Utf8, true), Field::new("id", DataType::Int64, true)]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(StringArray::from(keys)), Arc::new(ids)]).unwrap()
}

const KEYS: &[&str] =
    &["plain", "a b", "a/b", "a=b", "100%", "a%20b", "__HIVE_DEFAULT_PARTITION__", "ü", "日本", "q?&#+", "'\"\\", "a:b*c", "..", "[x]{y}^"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_key_comes_back() {
    let bench = Bench::new();
    let sink = bench.sink(&[("partitionBy", "k")]).await;
    let mut keys: Vec<Option<&str>> = KEYS.iter().copied().map(Some).collect();
    keys.extend([None, Some("")]);
    run(sink.as_ref(), 0, OutputMode::Append, keyed(keys.clone())).await.unwrap();
    let rows = bench.read(&[]).await.unwrap();
    // An empty key is null: the protocol cannot tell them apart, and Spark writes it so.
    let expected: Vec<(i64, Option<String>)> =
        (0..).zip(keys).map(|(id, key)| (id, key.filter(|key| !key.is_empty()).map(str::to_owned))).collect();
    assert_eq!(pairs(&rows), expected);
    let by_delta_rs = bench.sql("SELECT count(*) AS n, count(DISTINCT k) AS k FROM t").await;
    assert_eq!(by_delta_rs[0].column(0).as_primitive::<Int64Type>().value(0), 16);
    assert_eq!(by_delta_rs[0].column(1).as_primitive::<Int64Type>().value(0), KEYS.len() as i64);
    let one = bench.sql("SELECT id FROM t WHERE k = 'a%20b'").await;
    assert_eq!(one.iter().flat_map(ids_of).collect::<Vec<_>>(), [5]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_key_comes_back_from_the_local_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a table #1").to_str().unwrap().to_owned();
    let clock = TestClock::start();
    let storage = durable_storage(clock.clone());
    let provider = DeltaSinkProvider::new(storage.clone(), clock, Arc::new(TestIds));
    let options = [("partitionBy", "k"), ("checkpointInterval", "1")].into_iter().collect();
    let sink = provider.sink(&WriteRequest { path: Some(path.clone()), options, ..WriteRequest::default() }).await.unwrap();
    assert_eq!(sink.description(), format!("DeltaSink[file:{}/a table #1]", folder.path().to_str().unwrap()));
    for id in 0..3 {
        run(sink.as_ref(), id, OutputMode::Append, keyed(KEYS.iter().copied().map(Some).collect())).await.unwrap();
        sink.stop().await;
    }
    let request = ReadRequest { paths: vec![path.clone()], ..ReadRequest::default() };
    let table = DeltaSourceProvider::new(storage.clone()).table(&request).await.unwrap();
    let rows = rows_of(table.scan().await.unwrap(), &table.schema()).await.unwrap();
    assert_eq!(rows.num_rows(), 3 * KEYS.len());
    let keys = rows.column_by_name("k").unwrap().as_string::<i32>();
    for (row, id) in ids_of(&rows).into_iter().enumerate() {
        assert_eq!(keys.value(row), KEYS[id as usize]);
    }
    assert_eq!(super::super::table_info(&storage, &path, None).await.unwrap().unwrap().rows, Some(3 * KEYS.len() as u64));
}

/// Ids and keys, sorted.
fn pairs(rows: &RecordBatch) -> Vec<(i64, Option<String>)> {
    let keys = rows.column_by_name("k").unwrap().as_string::<i32>();
    let key = |row: usize| keys.is_valid(row).then(|| keys.value(row).to_owned());
    let mut pairs: Vec<_> = ids_of(rows).into_iter().enumerate().map(|(row, id)| (id, key(row))).collect();
    pairs.sort();
    pairs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_type_can_be_a_key() {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("b", Arc::new(BooleanArray::from(vec![true]))),
        ("d", Arc::new(Date32Array::from(vec![19_724]))),
        ("f", Arc::new(Float64Array::from(vec![f64::INFINITY]))),
        ("m", Arc::new(Decimal128Array::from(vec![-1250]).with_precision_and_scale(6, 2).unwrap())),
        ("t", Arc::new(TimestampMicrosecondArray::from(vec![1_500_001]).with_timezone("UTC"))),
        ("n", Arc::new(TimestampMicrosecondArray::from(vec![-1]))),
        ("id", Arc::new(Int64Array::from(vec![1]))),
    ];
    let schema = Schema::new(columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect::<Vec<_>>());
    let batch = RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, column)| column).collect()).unwrap();
    let bench = Bench::new();
    run(bench.sink(&[("partitionBy", "b,d,f,m,t,n")]).await.as_ref(), 0, OutputMode::Append, batch.clone()).await.unwrap();
    assert_eq!(bench.read(&[]).await.unwrap(), batch);
    let found =
        bench.sql("SELECT id FROM t WHERE b AND d = DATE '2024-01-02' AND m = -12.50 AND t < TIMESTAMP '1970-01-01T00:00:02Z'").await;
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_partitions_in_one_batch_are_complete() {
    let bench = Bench::new();
    let sink = bench.sink(&[("partitionBy", "k")]).await;
    let keys: Vec<String> = (0..500).map(|row| format!("{}", row % 100)).collect();
    run(sink.as_ref(), 0, OutputMode::Append, keyed(keys.iter().map(|key| Some(key.as_str())).collect())).await.unwrap();
    assert_eq!(bench.ids_by_delta_rs().await, (0..500).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitioning_must_be_the_tables() {
    let bench = Bench::new();
    let batch = keyed(vec![Some("a")]);
    for (columns, code) in [("missing", "DELTA_PARTITION_COLUMN_NOT_FOUND"), ("k,id", "DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION")] {
        let error = bench.sink(&[("partitionBy", columns)]).await.prepare(&batch.schema(), OutputMode::Append).await.unwrap_err();
        assert_eq!(error.code(), code);
    }
    run(bench.sink(&[("partitionBy", "K")]).await.as_ref(), 0, OutputMode::Append, batch.clone()).await.unwrap();
    // Not said again, or said in another case, it is the table's; anything else is refused.
    run(bench.sink(&[]).await.as_ref(), 1, OutputMode::Append, batch.clone()).await.unwrap();
    let error = bench.sink(&[("partitionBy", "id")]).await.prepare(&batch.schema(), OutputMode::Append).await.unwrap_err();
    assert_eq!(error.code(), "DELTA_METADATA_MISMATCH");
    assert!(error.message().contains("partitioned by k"), "{error}");
    let error = run(bench.sink(&[]).await.as_ref(), 2, OutputMode::Append, rows([1])).await.unwrap_err();
    assert_eq!(error.code(), "DELTA_METADATA_MISMATCH", "the new column 'name' comes first: {error}");
    let only_id = one_column("id", Arc::new(Int64Array::from(vec![1])));
    assert_eq!(
        run(bench.sink(&[]).await.as_ref(), 2, OutputMode::Append, only_id).await.unwrap_err().code(),
        "DELTA_MISSING_PARTITION_COLUMN"
    );
}
