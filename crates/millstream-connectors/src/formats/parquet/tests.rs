use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields, Int32Type, IntervalUnit, Schema, SchemaRef, TimeUnit};
use millstream_core::{ErrorKind, Options};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use proptest::prelude::*;

use super::super::reading::{local, read, read_with, remote};
use super::super::resolve::{list_of, map_of, timestamp};
use super::*;

fn schema(fields: Vec<(&str, DataType)>) -> SchemaRef {
    Arc::new(Schema::new(fields.into_iter().map(|(name, kind)| Field::new(name, kind, true)).collect::<Vec<_>>()))
}

fn written(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    written_in_groups(columns, 1_000_000)
}

fn written_in_groups(columns: Vec<(&str, ArrayRef)>, rows: usize) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(rows)).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn ints(values: &[Option<i32>]) -> ArrayRef {
    Arc::new(Int32Array::from(values.to_vec()))
}

/// The rows of one column `c` read as another type, or the error's code.
async fn read_as(array: ArrayRef, to: DataType) -> Result<Vec<String>, String> {
    let outcome = read(&Parquet, schema(vec![("c", to)]), Options::new(), &written(vec![("c", array)])).await;
    match outcome.error {
        None => Ok(outcome.rows()),
        Some(error) => Err(error.code().to_owned()),
    }
}

const MISMATCH: &str = "FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH";

#[tokio::test]
async fn columns_match_by_name_whatever_their_case_and_missing_ones_are_null() {
    let content = written(vec![("K", Arc::new(StringArray::from(vec!["a"]))), ("extra", ints(&[Some(9)])), ("V", ints(&[Some(1)]))]);
    let bound = schema(vec![("v", DataType::Int32), ("gone", DataType::Date32), ("k", DataType::Utf8)]);
    assert_eq!(read(&Parquet, bound, Options::new(), &content).await.all_rows(), ["1 | null | a"]);
}

#[tokio::test]
async fn wide_rows_come_in_small_batches_even_when_a_dictionary_makes_them_small() {
    let wide = "x".repeat(64 << 10);
    let content = written(vec![("c", Arc::new(StringArray::from(vec![wide.as_str(); 600]))), ("n", ints(&[Some(1); 600]))]);
    assert!(content.len() < 1 << 20, "{}", content.len());
    let outcome = read(&Parquet, schema(vec![("c", DataType::Utf8)]), Options::new(), &content).await;
    let rows: Vec<_> = outcome.batches.iter().map(RecordBatch::num_rows).collect();
    assert_eq!(rows.iter().sum::<usize>(), 600);
    assert!(rows.iter().all(|rows| *rows <= 256), "{rows:?}");
    let narrow = read(&Parquet, schema(vec![("n", DataType::Int32)]), Options::new(), &content).await;
    assert_eq!(narrow.batches.len(), 1);
}

#[tokio::test]
async fn names_that_differ_only_in_case_cannot_be_told_apart() {
    let content = written(vec![("a", ints(&[Some(1)])), ("A", ints(&[Some(2)]))]);
    let outcome = read(&Parquet, schema(vec![("a", DataType::Int32)]), Options::new(), &content).await;
    assert_eq!(outcome.error.unwrap().code(), "FAILED_READ_FILE.NO_HINT");
    assert_eq!(read(&Parquet, schema(vec![("z", DataType::Int32)]), Options::new(), &content).await.all_rows(), ["null"]);
}

#[tokio::test]
async fn numbers_widen_as_in_spark_and_nothing_else_does() {
    let array = || ints(&[Some(5), None]);
    for to in [DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64] {
        assert_eq!(read_as(array(), to).await.unwrap(), ["5", "null"]);
    }
    assert_eq!(read_as(array(), DataType::Float64).await.unwrap(), ["5.0", "null"]);
    assert_eq!(read_as(array(), DataType::Decimal128(12, 2)).await.unwrap(), ["5.00", "null"]);
    assert_eq!(read_as(array(), DataType::Date32).await.unwrap(), ["1970-01-06", "null"]);
    for to in [DataType::Float32, DataType::Utf8, DataType::Binary, DataType::Boolean, timestamp(true), DataType::Decimal128(11, 2)] {
        assert_eq!(read_as(array(), to.clone()).await, Err(MISMATCH.to_owned()), "{to}");
    }
    let long = || Arc::new(Int64Array::from(vec![5])) as ArrayRef;
    assert_eq!(read_as(long(), DataType::Decimal128(22, 2)).await.unwrap(), ["5.00"]);
    assert_eq!(read_as(long(), DataType::Duration(TimeUnit::Microsecond)).await.unwrap(), ["PT0.000005S"]);
    for to in [DataType::Int32, DataType::Float64, DataType::Decimal128(21, 2), timestamp(true), DataType::Date32] {
        assert_eq!(read_as(long(), to.clone()).await, Err(MISMATCH.to_owned()), "{to}");
    }
    assert_eq!(read_as(Arc::new(Float32Array::from(vec![1.5])), DataType::Float64).await.unwrap(), ["1.5"]);
    assert_eq!(read_as(Arc::new(Float64Array::from(vec![1.5])), DataType::Float32).await, Err(MISMATCH.to_owned()));
    assert_eq!(read_as(ints(&[Some(14)]), DataType::Interval(IntervalUnit::YearMonth)).await.unwrap(), ["1 years 2 mons"]);
}

#[tokio::test]
async fn a_number_that_does_not_fit_is_an_error_and_not_another_number() {
    assert_eq!(read_as(ints(&[Some(300)]), DataType::Int8).await, Err(MISMATCH.to_owned()));
}

#[tokio::test]
async fn unsigned_types_and_dictionaries() {
    assert_eq!(read_as(Arc::new(UInt8Array::from(vec![200])), DataType::Int16).await.unwrap(), ["200"]);
    assert_eq!(read_as(Arc::new(UInt16Array::from(vec![60_000])), DataType::Int32).await.unwrap(), ["60000"]);
    assert_eq!(read_as(Arc::new(UInt32Array::from(vec![4_000_000_000])), DataType::Int64).await.unwrap(), ["4000000000"]);
    assert_eq!(read_as(Arc::new(UInt32Array::from(vec![1])), DataType::Int32).await, Err(MISMATCH.to_owned()));
    let big = UInt64Array::from(vec![18_000_000_000_000_000_000]);
    assert_eq!(read_as(Arc::new(big), DataType::Decimal128(20, 0)).await.unwrap(), ["18000000000000000000"]);
    let dictionary: DictionaryArray<Int32Type> = vec![Some("x"), None, Some("x")].into_iter().collect();
    assert_eq!(read_as(Arc::new(dictionary), DataType::Utf8).await.unwrap(), ["x", "null", "x"]);
    assert_eq!(read_as(Arc::new(LargeStringArray::from(vec!["x"])), DataType::Utf8).await.unwrap(), ["x"]);
    assert_eq!(read_as(Arc::new(StringViewArray::from(vec!["x"])), DataType::Utf8).await.unwrap(), ["x"]);
    assert_eq!(read_as(Arc::new(StringArray::from(vec!["x"])), DataType::Binary).await.unwrap(), ["78"]);
}

#[tokio::test]
async fn decimals_may_gain_digits_on_both_sides() {
    let array = || Arc::new(Decimal128Array::from(vec![125]).with_precision_and_scale(5, 2).unwrap()) as ArrayRef;
    for (to, text) in [((5, 2), "1.25"), ((7, 4), "1.2500"), ((10, 3), "1.250"), ((38, 10), "1.2500000000")] {
        assert_eq!(read_as(array(), DataType::Decimal128(to.0, to.1)).await.unwrap(), [text]);
    }
    for to in [(5, 3), (4, 2), (10, 1), (20, 0)] {
        assert_eq!(read_as(array(), DataType::Decimal128(to.0, to.1)).await, Err(MISMATCH.to_owned()), "{to:?}");
    }
}

#[tokio::test]
async fn timestamps_keep_their_number_whatever_the_zone_says() {
    let micros = 1_704_164_645_123_456_i64;
    let zoned = || Arc::new(TimestampMicrosecondArray::from(vec![micros]).with_timezone("Europe/Prague")) as ArrayRef;
    assert_eq!(read_as(zoned(), timestamp(true)).await.unwrap(), ["2024-01-02T03:04:05.123456Z"]);
    assert_eq!(read_as(zoned(), timestamp(false)).await.unwrap(), ["2024-01-02T03:04:05.123456"]);
    assert_eq!(read_as(zoned(), DataType::Int64).await.unwrap(), [micros.to_string()]);
    let millis = Arc::new(TimestampMillisecondArray::from(vec![-1]));
    assert_eq!(read_as(millis, timestamp(true)).await.unwrap(), ["1969-12-31T23:59:59.999Z"]);
    let nanos = Arc::new(TimestampNanosecondArray::from(vec![micros * 1000]));
    assert_eq!(read_as(nanos, timestamp(true)).await, Err(MISMATCH.to_owned()));
    let days = Arc::new(Date32Array::from(vec![19_724]));
    assert_eq!(read_as(days.clone(), timestamp(false)).await.unwrap(), ["2024-01-02T00:00:00"]);
    assert_eq!(read_as(days, timestamp(true)).await, Err(MISMATCH.to_owned()));
}

/// Written by pyarrow with `use_deprecated_int96_timestamps`: 2024-01-02 03:04:05.123456, null, 0001-01-01, and the last again in a struct.
#[tokio::test]
async fn int96_timestamps_are_utc_microseconds_over_all_years() {
    let content = include_bytes!("testdata/int96.parquet");
    let inner = DataType::Struct(Fields::from(vec![Field::new("t", timestamp(true), true)]));
    let bound = schema(vec![("t", timestamp(true)), ("s", inner.clone())]);
    let rows = [
        "2024-01-02T03:04:05.123456Z | {t: 2024-01-02T03:04:05.123456Z}",
        "null | {t: null}",
        "0001-01-01T00:00:00Z | {t: 0001-01-01T00:00:00Z}",
    ];
    assert_eq!(read(&Parquet, bound.clone(), Options::new(), content).await.all_rows(), rows);
    assert_eq!(Parquet.infer(&[remote("f", content).await], &Options::new()).await.unwrap(), bound);
    let ntz = read(&Parquet, schema(vec![("t", timestamp(false))]), Options::new(), content).await;
    assert_eq!(ntz.all_rows()[0], "2024-01-02T03:04:05.123456");
}

fn nested() -> Vec<u8> {
    let xy = Fields::from(vec![Field::new("x", DataType::Int64, true), Field::new("Y", DataType::Utf8, true)]);
    let xs: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, None]));
    let ys: ArrayRef = Arc::new(StringArray::from(vec![Some("q"), None, None]));
    let structs = StructArray::new(xy, vec![xs.clone(), ys], Some(vec![true, false, true].into()));
    let item = Fields::from(vec![Field::new("p", DataType::Int64, true)]);
    let items =
        StructArray::new(item.clone(), vec![Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef], Some(vec![true, false].into()));
    let item = Arc::new(Field::new("item", DataType::Struct(item), true));
    let lists = ListArray::new(item, OffsetBuffer::from_lengths([1, 1, 0]), Arc::new(items), Some(vec![true, true, false].into()));
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    maps.keys().append_value("k");
    maps.values().append_value(7);
    maps.append(true).unwrap();
    maps.append(false).unwrap();
    maps.append(true).unwrap();
    written(vec![("s", Arc::new(structs)), ("l", Arc::new(lists)), ("m", Arc::new(maps.finish()))])
}

#[tokio::test]
async fn nested_fields_match_by_name_and_null_structs_stay_null() {
    let fields =
        |names: &[(&str, DataType)]| DataType::Struct(names.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true)).collect());
    let bound = |kind: DataType, name: &str| schema(vec![(name, kind)]);
    let long = DataType::Int64;
    let cases = [
        ("s", fields(&[("y", DataType::Utf8)]), ["{y: q}", "null", "{y: null}"]),
        ("s", fields(&[("z", long.clone())]), ["{z: null}", "null", "{z: null}"]),
        ("s", fields(&[("z", DataType::Utf8), ("X", long.clone())]), ["{z: null, X: 1}", "null", "{z: null, X: null}"]),
        ("l", list_of(fields(&[("q", DataType::Int32), ("p", long.clone())])), ["[{q: null, p: 1}]", "[null]", "null"]),
        ("l", list_of(fields(&[("q", DataType::Int32)])), ["[{q: null}]", "[null]", "null"]),
        ("m", map_of(DataType::Utf8, long.clone()), ["{k: 7}", "null", "{}"]),
        ("m", map_of(DataType::Utf8, DataType::Decimal128(20, 0)), ["{k: 7}", "null", "{}"]),
    ];
    for (name, kind, rows) in cases {
        assert_eq!(read(&Parquet, bound(kind.clone(), name), Options::new(), &nested()).await.all_rows(), rows, "{kind}");
    }
    for (name, kind, code) in [
        ("s", fields(&[("x", DataType::Int32)]), MISMATCH),
        ("s", DataType::Utf8, "FAILED_READ_FILE.NO_HINT"),
        ("l", list_of(long.clone()), "FAILED_READ_FILE.NO_HINT"),
        ("m", map_of(long, DataType::Utf8), MISMATCH),
    ] {
        let error = read(&Parquet, bound(kind, name), Options::new(), &nested()).await.error.unwrap();
        assert_eq!((error.code(), error.kind()), (code, ErrorKind::SchemaMismatch));
    }
}

#[tokio::test]
async fn the_schema_is_taken_from_the_file_with_spark_types() {
    let inferred = Parquet.infer(&[remote("e", b"").await, remote("f", &nested()).await], &Options::new()).await.unwrap();
    let structs = DataType::Struct(Fields::from(vec![Field::new("x", DataType::Int64, true), Field::new("Y", DataType::Utf8, true)]));
    let items = DataType::Struct(Fields::from(vec![Field::new("p", DataType::Int64, true)]));
    assert_eq!(inferred, schema(vec![("s", structs), ("l", list_of(items)), ("m", map_of(DataType::Utf8, DataType::Int64))]));
    for (array, kind) in [
        (Arc::new(UInt8Array::from(vec![1])) as ArrayRef, DataType::Int16),
        (Arc::new(UInt64Array::from(vec![1])), DataType::Decimal128(20, 0)),
        (Arc::new(TimestampMillisecondArray::from(vec![1])), timestamp(false)),
        (Arc::new(TimestampMicrosecondArray::from(vec![1]).with_timezone("+05:00")), timestamp(true)),
        (Arc::new(LargeStringArray::from(vec!["x"])), DataType::Utf8),
    ] {
        let file = remote("f", &written(vec![("c", array)])).await;
        assert_eq!(Parquet.infer(&[file], &Options::new()).await.unwrap(), schema(vec![("c", kind)]));
    }
    let nanos = remote("f", &written(vec![("c", Arc::new(TimestampNanosecondArray::from(vec![1])))])).await;
    assert_eq!(Parquet.infer(&[nanos], &Options::new()).await.unwrap_err().code(), "PARQUET_TYPE_ILLEGAL");
    assert_eq!(Parquet.infer(&[remote("e", b"").await], &Options::new()).await.unwrap_err().code(), "UNABLE_TO_INFER_SCHEMA");
    let junk = remote("e", b"no parquet file at all").await;
    assert_eq!(Parquet.infer(&[junk], &Options::new()).await.unwrap_err().code(), "FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER");
}

#[tokio::test]
async fn schemas_are_merged_when_asked() {
    let first = remote("a", &written(vec![("a", ints(&[Some(1)]))])).await;
    let second = remote("b", &written(vec![("A", ints(&[Some(1)])), ("b", Arc::new(StringArray::from(vec!["x"])))])).await;
    let files = [first, second];
    assert_eq!(Parquet.infer(&files, &Options::new()).await.unwrap(), schema(vec![("a", DataType::Int32)]));
    let merged = Parquet.infer(&files, &Options::new().with("mergeSchema", "true")).await.unwrap();
    assert_eq!(merged, schema(vec![("a", DataType::Int32), ("b", DataType::Utf8)]));
    let long = remote("c", &written(vec![("a", Arc::new(Int64Array::from(vec![1])))])).await;
    let error = Parquet.infer(&[files[0].clone(), long], &Options::new().with("mergeSchema", "true")).await.unwrap_err();
    assert_eq!(error.code(), "CANNOT_MERGE_SCHEMAS");
}

#[tokio::test]
async fn local_and_remote_files_give_the_same_batches_and_rows_are_counted_without_columns() {
    let values: Vec<Option<i32>> = (0..2500).map(|i| (i % 7 != 0).then_some(i)).collect();
    let content = written_in_groups(vec![("a", ints(&values)), ("b", ints(&values))], 1000);
    let folder = tempfile::tempdir().unwrap();
    let reader =
        Parquet.reader(schema(vec![("a", DataType::Int64), ("b", DataType::Int32), ("c", DataType::Utf8)]), &Options::new()).unwrap();
    for file in [remote("f", &content).await, local(folder.path(), "a b.parquet", &content)] {
        let outcome = read_with(&reader, file.clone(), &[1], 300).await;
        let expected: Vec<String> = values.iter().map(|value| value.map_or("null".to_owned(), |value| value.to_string())).collect();
        assert_eq!(outcome.all_rows(), expected);
        assert!(outcome.batches.iter().all(|batch| batch.num_rows() <= 300));
        for projection in [&[][..], &[2]] {
            let outcome = read_with(&reader, file.clone(), projection, 300).await;
            assert_eq!(outcome.batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 2500);
            assert_eq!(outcome.batches[0].num_columns(), projection.len());
        }
    }
}

#[tokio::test]
async fn damaged_files_are_named_after_the_rows_before_the_damage() {
    let values: Vec<Option<i32>> = (0..3000).map(Some).collect();
    let content = written_in_groups(vec![("a", ints(&values))], 1000);
    let folder = tempfile::tempdir().unwrap();
    let reader = Parquet.reader(schema(vec![("a", DataType::Int32)]), &Options::new()).unwrap();
    let mut damaged = content.clone();
    let third = content.len() * 5 / 8;
    damaged[third..third + 200].fill(0xff);
    let mut huge_footer = b"PAR1".to_vec();
    huge_footer.extend_from_slice(&[0xff, 0xff, 0xff, 0x7f]);
    huge_footer.extend_from_slice(b"PAR1");
    for (name, bytes, rows) in [
        ("cut.parquet", &content[..content.len() / 2], 0),
        ("junk.parquet", b"this is no parquet file".as_slice(), 0),
        ("tiny.parquet", b"PAR1".as_slice(), 0),
        ("footer.parquet", &huge_footer, 0),
        ("damaged.parquet", &damaged, 1000),
    ] {
        for file in [local(folder.path(), name, bytes), remote(name, bytes).await] {
            let outcome = read_with(&reader, file, &[0], 500).await;
            let error = outcome.error.as_ref().unwrap();
            assert_eq!((error.kind(), error.code()), (ErrorKind::BadRecord, "FAILED_READ_FILE.NO_HINT"), "{name}");
            assert!(error.message().contains(name), "{error}");
            assert!(outcome.rows().len() >= rows && outcome.rows().len() < 3000, "{name}: {}", outcome.rows().len());
        }
    }
    assert!(read_with(&reader, local(folder.path(), "empty.parquet", b""), &[0], 500).await.all_rows().is_empty());
    let gone = local(folder.path(), "gone.parquet", b"");
    std::fs::remove_file(folder.path().join("gone.parquet")).unwrap();
    let error = read_with(&reader, gone, &[0], 500).await.error.unwrap();
    assert_eq!((error.kind(), error.code()), (ErrorKind::DataLost, "FAILED_READ_FILE.FILE_NOT_EXIST"));
}

proptest! {
    #[test]
    fn no_damage_makes_the_reader_panic_or_invent_rows(at in 0_usize..4000, bytes in prop::collection::vec(any::<u8>(), 1..8)) {
        let values: Vec<Option<i32>> = (0..500).map(Some).collect();
        let mut content = written(vec![("a", ints(&values)), ("s", Arc::new(StringArray::from(vec!["text"; 500])))]);
        let at = at % content.len();
        let end = (at + bytes.len()).min(content.len());
        content[at..end].copy_from_slice(&bytes[..end - at]);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let reader = Parquet.reader(schema(vec![("a", DataType::Int32), ("s", DataType::Utf8)]), &Options::new()).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let outcome = read_with(&reader, local(folder.path(), "f", &content), &[0, 1], 100).await;
            assert!(outcome.error.is_some() || outcome.batches.iter().map(RecordBatch::num_rows).sum::<usize>() <= 500);
        });
    }
}

/// Not a test but a measurement: `cargo test -p millstream-connectors parquet::tests::throughput -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn throughput() {
    let rows = 2_000_000_i64;
    let keys = StringArray::from_iter_values((0..rows).map(|n| format!("key-{}", n.wrapping_mul(2_654_435_761) % 100_000)));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..rows))),
        ("key", Arc::new(keys)),
        ("value", Arc::new(Float64Array::from_iter_values((0..rows).map(|n| (n % 997) as f64 + 0.25)))),
        ("ts", Arc::new(TimestampMicrosecondArray::from_iter_values((0..rows).map(|n| n * 1_000_003)).with_timezone("UTC"))),
    ];
    let memory: usize = columns.iter().map(|(_, array)| array.get_array_memory_size()).sum();
    let folder = tempfile::tempdir().unwrap();
    let file = local(folder.path(), "a.parquet", &written(columns));
    let bound = schema(vec![("id", DataType::Int64), ("key", DataType::Utf8), ("value", DataType::Float64), ("ts", timestamp(true))]);
    let reader = Parquet.reader(bound, &Options::new()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let processor_seconds = || {
        let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        statistics.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
    };
    for projection in [&[0, 1, 2, 3][..], &[0, 2], &[]] {
        let mut best = f64::MAX;
        for _ in 0..5 {
            let start = processor_seconds();
            let outcome = runtime.block_on(read_with(&reader, file.clone(), projection, 8192));
            best = best.min(processor_seconds() - start);
            assert!(outcome.error.is_none());
        }
        let (in_file, in_memory) = (file.size as f64 / 1e6, memory as f64 / 1e6);
        println!(
            "columns {projection:?}: {:.0} MB/s of the file, {:.0} MB/s decoded, {:.1} M rows/s",
            in_file / best,
            in_memory / best,
            rows as f64 / best / 1e6
        );
    }
}
