use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Fields};
use millstream_core::{ErrorKind, Options};
use orc_rust::ArrowWriterBuilder;

use super::super::reading::{local, read, read_with, remote};
use super::super::resolve::{list_of, map_of, timestamp};
use super::*;

/// Three rows of every type, written by pyarrow (`types.orc`) with zstd.
const TYPES: &[u8] = include_bytes!("testdata/types.orc");
/// 1969-12-31 23:59:58.5 and 1600-01-01 00:00:00.25 as Spark 4.2 writes them.
const OLD_TIMESTAMPS: &[u8] = include_bytes!("testdata/spark-old-timestamps.orc");
/// One row with columns `a` and `A`, written by pyarrow.
const DUPLICATE: &[u8] = include_bytes!("testdata/dup.orc");

fn schema(fields: Vec<(&str, DataType)>) -> SchemaRef {
    Arc::new(Schema::new(fields.into_iter().map(|(name, kind)| Field::new(name, kind, true)).collect::<Vec<_>>()))
}

fn record(fields: &[(&str, DataType)]) -> DataType {
    DataType::Struct(Fields::from(fields.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true)).collect::<Vec<_>>()))
}

async fn rows(column: &str, kind: DataType) -> Vec<String> {
    read(&Orc, schema(vec![(column, kind)]), Options::new(), TYPES).await.all_rows()
}

/// A file of our own with many stripes.
fn stripes(rows: usize) -> Vec<u8> {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("row {}", row * 7919 % 100_003))));
    let batch = RecordBatch::try_from_iter_with_nullable([("n", numbers, true), ("s", texts, true)]).unwrap();
    let mut content = Vec::new();
    let mut writer = ArrowWriterBuilder::new(&mut content, batch.schema()).with_stripe_byte_size(20_000).try_build().unwrap();
    for start in (0..rows).step_by(500) {
        writer.write(&batch.slice(start, 500.min(rows - start))).unwrap();
    }
    writer.close().unwrap();
    content
}

#[tokio::test]
async fn every_type_is_read_as_it_is() {
    assert_eq!(rows("i8", DataType::Int8).await, ["1", "null", "-3"]);
    assert_eq!(rows("I32", DataType::Int32).await, ["70000", "null", "5"]);
    assert_eq!(rows("i64", DataType::Int64).await, ["1099511627776", "null", "7"]);
    assert_eq!(rows("f", DataType::Float32).await, ["1.5", "null", "-2.75"]);
    assert_eq!(rows("b", DataType::Boolean).await, ["true", "null", "false"]);
    assert_eq!(rows("s", DataType::Utf8).await, ["12", "null", "žluť"]);
    assert_eq!(rows("bin", DataType::Binary).await, ["6162", "null", ""]);
    assert_eq!(rows("dt", DataType::Date32).await, ["2024-01-02", "null", "1969-12-31"]);
    let instants = ["2024-01-02T03:04:05.123456Z", "null", "1969-12-31T23:59:58Z"];
    assert_eq!(rows("ts", timestamp(true)).await, instants);
    assert_eq!(rows("tz", timestamp(true)).await, instants);
    assert_eq!(rows("dec", DataType::Decimal128(10, 2)).await, ["1.25", "null", "-99999999.99"]);
    assert_eq!(rows("l", list_of(DataType::Int32)).await, ["[1, null]", "null", "[]"]);
    assert_eq!(rows("mp", map_of(DataType::Utf8, DataType::Int32)).await, ["{a: 1}", "null", "{}"]);
}

#[tokio::test]
async fn timestamps_before_1970_keep_their_fractions() {
    let outcome = read(&Orc, schema(vec![("t", timestamp(true))]), Options::new(), OLD_TIMESTAMPS).await;
    assert_eq!(outcome.all_rows(), ["1969-12-31T23:59:58.500Z", "1600-01-01T00:00:00.250Z"]);
}

#[tokio::test]
async fn columns_and_fields_match_by_name_and_missing_ones_are_null() {
    let inner = record(&[("y", DataType::Utf8), ("z", DataType::Int32), ("X", DataType::Int64)]);
    assert_eq!(rows("ST", inner).await, ["{y: q, z: null, X: 1}", "null", "{y: null, z: null, X: null}"]);
    assert_eq!(rows("st", record(&[("zz", DataType::Int32)])).await, ["{zz: null}", "null", "{zz: null}"]);
    assert_eq!(rows("nowhere", DataType::Utf8).await, ["null", "null", "null"]);
    let error = read(&Orc, schema(vec![("a", DataType::Int64)]), Options::new(), DUPLICATE).await.error.unwrap();
    assert_eq!((error.code(), error.kind()), ("FAILED_READ_FILE.NO_HINT", ErrorKind::SchemaMismatch));
    assert_eq!(Orc.infer(&[remote("f", DUPLICATE).await], &Options::new()).await.unwrap_err().code(), "COLUMN_ALREADY_EXISTS");
}

#[tokio::test]
async fn values_evolve_as_orc_evolves_them() {
    assert_eq!(rows("i32", DataType::Int64).await, ["70000", "null", "5"]);
    assert_eq!(rows("i32", DataType::Int16).await, ["null", "null", "5"]);
    assert_eq!(rows("i32", DataType::Decimal128(5, 2)).await, ["null", "null", "5.00"]);
    assert_eq!(rows("i32", DataType::Utf8).await, ["70000", "null", "5"]);
    assert_eq!(rows("f", DataType::Int32).await, ["1", "null", "-2"]);
    assert_eq!(rows("dec", DataType::Decimal128(10, 1)).await, ["1.3", "null", "-100000000.0"]);
    assert_eq!(rows("s", DataType::Int32).await, ["12", "null", "null"]);
    assert_eq!(rows("dt", timestamp(true)).await, ["2024-01-02T00:00:00Z", "null", "1969-12-31T00:00:00Z"]);
    assert_eq!(rows("ts", DataType::Date32).await, ["2024-01-02", "null", "1969-12-31"]);
    assert_eq!(rows("i64", timestamp(false)).await, ["1970-01-13T17:25:11.627776", "null", "1970-01-01T00:00:00.000007"]);
    assert_eq!(rows("l", list_of(DataType::Int64)).await, ["[1, null]", "null", "[]"]);
    for (column, kind) in [
        ("ts", timestamp(false)),
        ("i32", DataType::Date32),
        ("bin", DataType::Int32),
        ("l", DataType::Utf8),
        ("s", list_of(DataType::Utf8)),
    ] {
        let error = read(&Orc, schema(vec![(column, kind)]), Options::new(), TYPES).await.error.unwrap();
        assert_eq!((error.code(), error.kind()), ("FAILED_READ_FILE.NO_HINT", ErrorKind::SchemaMismatch));
        assert!(error.message().contains(column), "{error}");
    }
}

#[tokio::test]
async fn the_schema_is_taken_from_the_file() {
    let inferred = Orc.infer(&[remote("e", b"").await, remote("f", TYPES).await], &Options::new()).await.unwrap();
    let expected = schema(vec![
        ("i8", DataType::Int8),
        ("i32", DataType::Int32),
        ("i64", DataType::Int64),
        ("f", DataType::Float32),
        ("d", DataType::Float64),
        ("b", DataType::Boolean),
        ("s", DataType::Utf8),
        ("bin", DataType::Binary),
        ("dt", DataType::Date32),
        ("ts", timestamp(true)),
        ("tz", timestamp(true)),
        ("dec", DataType::Decimal128(10, 2)),
        ("l", list_of(DataType::Int32)),
        ("st", record(&[("x", DataType::Int64), ("Y", DataType::Utf8)])),
        ("mp", map_of(DataType::Utf8, DataType::Int32)),
    ]);
    assert_eq!(inferred, expected);
    let other = remote("g", &stripes(1)).await;
    let merged = Orc.infer(&[other.clone(), remote("f", TYPES).await], &Options::new().with("mergeSchema", "true")).await.unwrap();
    let names: Vec<&str> = merged.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["n", "s", "i8", "i32", "i64", "f", "d", "b", "bin", "dt", "ts", "tz", "dec", "l", "st", "mp"]);
    assert_eq!(Orc.infer(&[other], &Options::new()).await.unwrap(), schema(vec![("n", DataType::Int64), ("s", DataType::Utf8)]));
    assert_eq!(Orc.infer(&[remote("e", b"").await], &Options::new()).await.unwrap_err().code(), "UNABLE_TO_INFER_SCHEMA");
    let junk = Orc.infer(&[remote("j", b"nonsense nonsense").await], &Options::new()).await.unwrap_err();
    assert_eq!(junk.code(), "FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER");
}

#[tokio::test]
async fn stripes_are_read_one_after_another_from_disk_and_store() {
    let content = stripes(5000);
    let folder = tempfile::tempdir().unwrap();
    let reader = Orc.reader(schema(vec![("s", DataType::Utf8), ("n", DataType::Int32)]), &Options::new()).unwrap();
    for file in [local(folder.path(), "ž.orc", &content), remote("f", &content).await] {
        let outcome = read_with(&reader, file.clone(), &[1], 300).await;
        assert_eq!(outcome.all_rows(), (0..5000).map(|row| row.to_string()).collect::<Vec<_>>());
        assert!(outcome.batches.iter().all(|batch| batch.num_rows() <= 300));
        let counted = read_with(&reader, file, &[], 300).await;
        assert!(counted.error.is_none());
        assert_eq!(counted.batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 5000);
    }
}

#[tokio::test]
async fn damaged_files_are_named() {
    let content = stripes(5000);
    let folder = tempfile::tempdir().unwrap();
    let reader = Orc.reader(schema(vec![("n", DataType::Int64), ("s", DataType::Utf8)]), &Options::new()).unwrap();
    for (name, bytes) in
        [("cut.orc", &content[..content.len() / 2]), ("junk.orc", b"nonsense nonsense".as_slice()), ("tiny.orc", b"ORC".as_slice())]
    {
        for file in [local(folder.path(), name, bytes), remote(name, bytes).await] {
            let error = read_with(&reader, file, &[0, 1], 300).await.error.unwrap();
            assert_eq!((error.kind(), error.code()), (ErrorKind::BadRecord, "FAILED_READ_FILE.NO_HINT"), "{name}: {error}");
            assert!(error.message().contains(name), "{error}");
        }
    }
    assert!(read_with(&reader, local(folder.path(), "empty.orc", b""), &[0, 1], 300).await.all_rows().is_empty());
}

proptest::proptest! {
    #[test]
    fn no_damage_makes_the_reader_panic(at in 0_usize..20_000, bytes in proptest::collection::vec(proptest::num::u8::ANY, 1..6)) {
        let mut content = TYPES.to_vec();
        let at = at % content.len();
        let end = (at + bytes.len()).min(content.len());
        content[at..end].copy_from_slice(&bytes[..end - at]);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let list = list_of(DataType::Int32);
            let bound = schema(vec![("i32", DataType::Int32), ("s", DataType::Utf8), ("ts", timestamp(true)), ("l", list)]);
            let outcome = read_with(&Orc.reader(bound, &Options::new()).unwrap(), remote("f", &content).await, &[0, 1, 2, 3], 100).await;
            assert!(outcome.error.is_some() || outcome.rows().len() <= 3);
        });
    }
}
