//! Reading tables: everything that a Delta table may ask of its readers.

use arrow::array::{ListArray, MapArray, StructArray, TimestampMicrosecondArray};
use arrow::datatypes::{Fields, TimeUnit};
use bytes::Bytes;
use delta_kernel::actions::deletion_vector_writer::{KernelDeletionVector, StreamingDeletionVectorWriter};
use millstream_core::ErrorKind;
use object_store::ObjectStoreExt as _;
use parquet::data_type::{Int96, Int96Type};
use parquet::file::writer::SerializedFileWriter;

use super::super::actions::{Add, Commit, CommitInfo, DeletionVector};
use super::super::log::{Put, TableLog};
use super::*;

fn log(bench: &Bench) -> TableLog {
    TableLog::open(&bench.storage, TABLE, ErrorKind::SourceUnavailable).unwrap()
}

async fn commit(bench: &Bench, version: u64, commit: Commit) {
    let commit = Commit { info: Some(CommitInfo::new()), ..commit };
    let put = log(bench).put_commit(version, commit.to_bytes().unwrap()).await.unwrap();
    assert!(matches!(put, Put::Written), "{put:?}");
}

/// One row of every kind of type.
fn everything() -> RecordBatch {
    let inner = Fields::from(vec![Field::new("x", DataType::Int32, true), Field::new("y", DataType::Utf8, true)]);
    let element = Arc::new(Field::new("element", DataType::Struct(inner.clone()), true));
    let structs = StructArray::new(
        inner.clone(),
        vec![Arc::new(arrow::array::Int32Array::from(vec![Some(1), None])) as ArrayRef, Arc::new(StringArray::from(vec![None, Some("y")]))],
        None,
    );
    let list = ListArray::new(element, arrow::buffer::OffsetBuffer::from_lengths([2, 0]), Arc::new(structs.clone()), None);
    let map = MapArray::new_from_strings(["a", "b"].into_iter(), &Int64Array::from(vec![1, 2]), &[0, 2, 2]).unwrap();
    let entries = Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Int64, true)]);
    let entries = Arc::new(Field::new("key_value", DataType::Struct(entries), false));
    let DataType::Struct(pair) = entries.data_type() else { unreachable!() };
    let pairs = StructArray::new(pair.clone(), map.entries().columns().to_vec(), None);
    let map = MapArray::new(entries.clone(), map.offsets().clone(), pairs, None, false);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(vec![1, 2]))),
        ("byte", Arc::new(arrow::array::Int8Array::from(vec![Some(-1), None]))),
        ("short", Arc::new(arrow::array::Int16Array::from(vec![300, -300]))),
        ("float", Arc::new(arrow::array::Float32Array::from(vec![1.5, f32::NAN]))),
        ("double", Arc::new(arrow::array::Float64Array::from(vec![-0.0, 2.5]))),
        ("flag", Arc::new(arrow::array::BooleanArray::from(vec![Some(true), None]))),
        ("day", Arc::new(arrow::array::Date32Array::from(vec![-1, 19_724]))),
        ("at", Arc::new(TimestampMicrosecondArray::from(vec![-1, 1_700_000_000_123_456]).with_timezone("UTC"))),
        ("local", Arc::new(TimestampMicrosecondArray::from(vec![0, 1]))),
        ("money", Arc::new(arrow::array::Decimal128Array::from(vec![-1205, 99]).with_precision_and_scale(38, 2).unwrap())),
        ("small", Arc::new(arrow::array::Decimal128Array::from(vec![7, -7]).with_precision_and_scale(9, 3).unwrap())),
        ("raw", Arc::new(arrow::array::BinaryArray::from_vec(vec![b"\0\xff", b""]))),
        ("inner", Arc::new(structs)),
        ("list", Arc::new(list)),
        ("map", Arc::new(map)),
        ("text", Arc::new(StringArray::from(vec!["é".repeat(40), "a".to_owned()]))),
    ];
    let schema = Schema::new(columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, column)| column).collect()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_type_comes_back_and_its_bounds_are_right() {
    for compression in ["snappy", "zstd", "none", "gzip", "lz4"] {
        let bench = Bench::new();
        run(bench.sink(&[("compression", compression)]).await.as_ref(), 0, OutputMode::Append, everything()).await.unwrap();
        assert_eq!(bench.read(&[]).await.unwrap(), everything(), "{compression}");
        assert_eq!(bench.ids_by_delta_rs().await, [1, 2]);
    }
    let bench = Bench::new();
    run(bench.sink(&[]).await.as_ref(), 0, OutputMode::Append, everything()).await.unwrap();
    let files = log(&bench).snapshot(None).await.unwrap().unwrap().files().await.unwrap();
    let stats: serde_json::Value = serde_json::from_str(files[0].stats.as_deref().unwrap()).unwrap();
    assert_eq!(stats["numRecords"], 2);
    let (min, max, nulls) = (&stats["minValues"], &stats["maxValues"], &stats["nullCount"]);
    assert_eq!((&min["id"], &max["id"], &nulls["id"]), (&1.into(), &2.into(), &0.into()));
    assert_eq!((&min["day"], &max["day"]), (&"1969-12-31".into(), &"2024-01-02".into()));
    assert_eq!((&min["at"], &max["at"]), (&"1969-12-31T23:59:59.999999Z".into(), &"2023-11-14T22:13:20.123456Z".into()));
    assert_eq!((min["money"].to_string(), max["money"].to_string()), ("-12.05".to_owned(), "0.99".to_owned()));
    assert_eq!((min["small"].to_string(), max["small"].to_string()), ("-0.007".to_owned(), "0.007".to_owned()));
    assert_eq!((&min["inner"]["x"], &nulls["inner"]["x"]), (&1.into(), &1.into()));
    // NaN is Spark's largest number and the footer leaves it out: no bounds at all for such a column.
    assert_eq!((&min["float"], &max["float"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    assert_eq!((&max["double"], &nulls["byte"]), (&2.5.into(), &1.into()));
    // Long text is cut between characters, the upper bound upwards.
    let (low, high) = (min["text"].as_str().unwrap(), max["text"].as_str().unwrap());
    assert!(low == "a" && high.len() <= 32 && high > "é".repeat(40).as_str(), "{low} {high}");
    assert_eq!((min.get("flag"), min.get("list"), min.get("raw"), &nulls["flag"]), (None, None, None, &1.into()));
    // delta-rs prunes by them.
    let kept = bench.sql("SELECT id FROM t WHERE money = -12.05 AND day >= DATE '1969-12-31' AND text LIKE 'é%'").await;
    assert_eq!(kept.iter().flat_map(ids_of).collect::<Vec<_>>(), [1]);
}

/// Writes a table to the folder `MILL_DELTA_OUT`, for a look at it with other readers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a folder to write to"]
async fn a_table_for_other_readers() {
    let Ok(folder) = std::env::var("MILL_DELTA_OUT") else { return };
    let storage = storage_over(Arc::new(object_store::local::LocalFileSystem::new()));
    let provider = DeltaSinkProvider::new(storage, TestClock::start(), Arc::new(TestIds));
    let options = [("partitionBy", "text,day"), ("checkpointInterval", "2")].into_iter().collect();
    let sink = provider.sink(&WriteRequest { path: Some(folder), options, ..WriteRequest::default() }).await.unwrap();
    for id in 0..4 {
        run(sink.as_ref(), id, OutputMode::Append, everything()).await.unwrap();
    }
    sink.stop().await;
}

/// Rows whose text no encoding makes small: about 200 bytes each.
fn noisy(ids: std::ops::Range<i64>) -> RecordBatch {
    let noise = |id: i64| format!("{:x}{:x}", id.wrapping_mul(0x1E37_79B9_7F4A_7C15), id.wrapping_mul(0x2545_F491_4F6C_DD1D)).repeat(6);
    let names: Vec<String> = ids.clone().map(noise).collect();
    RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from_iter_values(ids)), Arc::new(StringArray::from(names))]).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_files_go_up_in_parts_or_roll_over() {
    // Without rolling over it is one file, uploaded while it is written; with a small target it is several.
    for (target, several) in [("1g", false), ("8m", true)] {
        let bench = Bench::new();
        let sink = bench.sink(&[("compression", "none"), ("targetFileSize", target)]).await;
        let batch = info(0, OutputMode::Append, schema());
        let mut writer = sink.writer(&batch, 0).await.unwrap();
        for chunk in 0..10 {
            writer.write(noisy(chunk * 20_000..(chunk + 1) * 20_000)).await.unwrap();
        }
        let part = writer.finish().await.unwrap();
        sink.commit(&batch, vec![part]).await.unwrap();
        assert_eq!(bench.ids_by_delta_rs().await, (0..200_000).collect::<Vec<_>>());
        let files = log(&bench).snapshot(None).await.unwrap().unwrap().files().await.unwrap();
        assert_eq!(files.len() > 1, several, "{}", files.len());
        for file in &files {
            let size = bench.store.head(&Path::from(format!("t/{}", file.path))).await.unwrap().size;
            assert_eq!(size, file.size);
        }
        let parts = bench.store.calls(millstream_checkpoint::store::Operation::PutPart);
        assert_eq!(parts > 1, !several, "{parts}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn projections_have_their_columns_in_their_order() {
    let bench = Bench::new();
    run(bench.sink(&[("partitionBy", "day")]).await.as_ref(), 0, OutputMode::Append, everything()).await.unwrap();
    let table = bench.sources().table(&request(&[])).await.unwrap();
    let index = |name: &str| table.schema().index_of(name).unwrap();
    for names in [vec!["text", "day", "id"], vec!["day"], vec![]] {
        let mut found = 0;
        for split in table.scan().await.unwrap() {
            let projection = names.iter().map(|name| index(name)).collect();
            let context = ReadContext { projection, batch_size: 100, quarantine: Arc::new(Discard) };
            assert!(split.size_bytes() > 0 && split.label().starts_with("memory:///t/day="), "{}", split.label());
            for batch in split.read(context).try_collect::<Vec<_>>().await.unwrap() {
                let schema = batch.schema();
                assert_eq!(schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), names);
                found += batch.num_rows();
            }
        }
        assert_eq!(found, 2, "{names:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_travel_by_version_and_time() {
    let bench = Bench::new();
    let sink = bench.sink(&[]).await;
    let mut times = Vec::new();
    for id in 0..3 {
        append(sink.as_ref(), id, [id as i64]).await.unwrap();
        times.push(log(&bench).commit_time(id).await.unwrap().unwrap());
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    assert_eq!(sorted_ids(&bench.read(&[("versionAsOf", "1")]).await.unwrap()), [0, 1]);
    let at = |ms: i64| chrono::DateTime::from_timestamp_millis(ms).unwrap().to_rfc3339();
    assert_eq!(sorted_ids(&bench.read(&[("timestampAsOf", &at(times[1] + 2))]).await.unwrap()), [0, 1]);
    for (option, value, code) in [
        ("versionAsOf", "9".to_owned(), "DELTA_VERSION_NOT_FOUND"),
        ("timestampAsOf", at(times[0] - 1000), "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION"),
        ("timestampAsOf", at(times[2] + 100_000), "DELTA_TIMESTAMP_GREATER_THAN_COMMIT"),
    ] {
        assert_eq!(bench.read(&[(option, &value)]).await.unwrap_err().code(), code);
    }
    assert_eq!(Bench::new().read(&[]).await.unwrap_err().code(), "DELTA_PATH_DOES_NOT_EXIST");
    let error = Bench::new().sources().schema(&request(&[]), true).await.unwrap_err();
    assert_eq!(error.code(), "DELTA_SCHEMA_NOT_SET");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_rows_stay_deleted() {
    let bench = Bench::new();
    append(bench.sink(&[]).await.as_ref(), 0, 0..10).await.unwrap();
    let add = log(&bench).snapshot(None).await.unwrap().unwrap().files().await.unwrap().remove(0);

    let mut bytes = Vec::new();
    let mut writer = StreamingDeletionVectorWriter::new(&mut bytes);
    let mut deleted = KernelDeletionVector::new();
    deleted.add_deleted_row_indexes([0_u64, 3, 4, 9]);
    let written = writer.write_deletion_vector(deleted).unwrap();
    writer.finalize().unwrap();
    bench.store.put(&Path::from("t/vector.bin"), Bytes::from(bytes).into()).await.unwrap();
    let vector = DeletionVector {
        storage_type: "p".into(),
        path_or_inline_dv: "memory:///t/vector.bin".into(),
        offset: Some(written.offset),
        size_in_bytes: written.size_in_bytes,
        cardinality: 4,
    };
    let features = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    let protocol = super::super::actions::Protocol {
        min_reader_version: 3,
        min_writer_version: 7,
        reader_features: features(&["deletionVectors"]),
        writer_features: features(&["deletionVectors"]),
    };
    let shortened = Add { deletion_vector: Some(vector), ..add.clone() };
    commit(&bench, 1, Commit { protocol: Some(protocol), removes: vec![add.removal(5)], adds: vec![shortened], ..Commit::default() }).await;

    assert_eq!(bench.ids().await, [1, 2, 5, 6, 7, 8]);
    assert_eq!(bench.ids_by_delta_rs().await, [1, 2, 5, 6, 7, 8]);
    let missing = super::super::table_info(&bench.storage, TABLE, Some(9_999)).await.unwrap_err();
    assert_eq!((missing.code(), missing.kind()), ("DELTA_VERSION_NOT_FOUND", ErrorKind::Invalid));
    let info = super::super::table_info(&bench.storage, TABLE, None).await.unwrap().unwrap();
    assert_eq!((info.files, info.rows), (1, Some(6)));
    // An overwrite removes the file together with its deletion vector.
    let sink = bench.sink(&[("txnAppId", "other")]).await;
    run(sink.as_ref(), 0, OutputMode::Complete, rows([20])).await.unwrap();
    assert_eq!(bench.ids_by_delta_rs().await, [20]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mapped_columns_are_found_by_their_physical_names() {
    let bench = Bench::new();
    append(bench.sink(&[("partitionBy", "name")]).await.as_ref(), 0, [1, 2]).await.unwrap();
    let mut metadata = log(&bench).snapshot(None).await.unwrap().unwrap().metadata;
    // Renames id to number and name to title; the files keep the old names.
    for (old, new, id) in [("id", "number", 1), ("name", "title", 2)] {
        let plain = format!(r#""name":"{old}","type""#);
        assert!(metadata.schema_string.contains(&plain), "{}", metadata.schema_string);
        metadata.schema_string = metadata.schema_string.replace(&plain, &format!(r#""name":"{new}","type""#)).replacen(
            r#""metadata":{}"#,
            &format!(r#""metadata":{{"delta.columnMapping.id":{id},"delta.columnMapping.physicalName":"{old}"}}"#),
            1,
        );
    }
    metadata.partition_columns = vec!["title".into()];
    metadata.configuration.insert("delta.columnMapping.mode".into(), "name".into());
    let protocol = super::super::actions::Protocol { min_reader_version: 2, min_writer_version: 5, ..Default::default() };
    commit(&bench, 1, Commit { protocol: Some(protocol), metadata: Some(metadata), ..Commit::default() }).await;
    let rows = bench.read(&[]).await.unwrap();
    assert_eq!(rows.schema().fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["number", "title"]);
    let numbers = rows.column(0).as_primitive::<Int64Type>();
    let titles = rows.column(1).as_string::<i32>();
    let mut found: Vec<_> = (0..2).map(|row| (numbers.value(row), titles.value(row).to_owned())).collect();
    found.sort();
    assert_eq!(found, [(1, "name 1".to_owned()), (2, "name 2".to_owned())]);
    // Writing such a table is not supported, and said so.
    let error = append(bench.sink(&[]).await.as_ref(), 1, [3]).await.unwrap_err();
    assert!(error.message().contains("columnMapping"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_96_bit_timestamps_outside_the_range_of_nanoseconds() {
    let bench = Bench::new();
    let field = Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true);
    let schema = Arc::new(Schema::new(vec![field]));
    let none = RecordBatch::new_empty(schema);
    run(bench.sink(&[]).await.as_ref(), 0, OutputMode::Append, none).await.unwrap();

    let parquet_schema = Arc::new(parquet::schema::parser::parse_message_type("message m { optional int96 at; }").unwrap());
    let mut writer = SerializedFileWriter::new(Vec::new(), parquet_schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    // 0001-01-01 and 1970-01-01T00:00:00.000001 as Julian days and nanoseconds of the day.
    let mut values = [Int96::new(), Int96::new()];
    values[0].set_data(0, 0, 1_721_426);
    values[1].set_data(1_000, 0, 2_440_588);
    column.typed::<Int96Type>().write_batch(&values, Some(&[1, 1]), None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    let bytes = writer.into_inner().unwrap();
    let add = Add { path: "old.parquet".into(), size: bytes.len() as u64, data_change: true, ..Add::default() };
    bench.store.put(&Path::from("t/old.parquet"), bytes.into()).await.unwrap();
    commit(&bench, 1, Commit { adds: vec![add], ..Commit::default() }).await;

    let rows = bench.read(&[]).await.unwrap();
    let at = rows.column(0).as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
    assert_eq!((at.value(0), at.value(1)), (-62_135_596_800_000_000, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_other_types_are_widened_or_refused() {
    let bench = Bench::new();
    append(bench.sink(&[]).await.as_ref(), 0, [1]).await.unwrap();
    let write = async |name: &str, column: ArrayRef| {
        let batch = one_column("id", column);
        let mut writer = parquet::arrow::ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        let bytes = writer.into_inner().unwrap();
        let add = Add { path: name.into(), size: bytes.len() as u64, data_change: true, ..Add::default() };
        bench.store.put(&Path::from(format!("t/{name}")), bytes.into()).await.unwrap();
        add
    };
    let narrow = write("narrow.parquet", Arc::new(arrow::array::Int32Array::from(vec![2]))).await;
    commit(&bench, 1, Commit { adds: vec![narrow], ..Commit::default() }).await;
    assert_eq!(bench.ids().await, [1, 2]);
    let wrong = write("wrong.parquet", Arc::new(arrow::array::Float64Array::from(vec![2.5]))).await;
    commit(&bench, 2, Commit { adds: vec![wrong], ..Commit::default() }).await;
    let error = bench.read(&[]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    assert!(error.message().contains("wrong.parquet") && error.message().contains("'id'"), "{error}");
}
