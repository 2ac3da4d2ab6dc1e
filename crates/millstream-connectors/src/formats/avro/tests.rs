use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow_avro::compression::CompressionCodec;
use arrow_avro::writer::WriterBuilder;
use arrow_avro::writer::format::AvroOcfFormat;
use millstream_core::{ErrorKind, Options};

use super::super::reading::{local, read, read_with, remote};
use super::super::resolve::{list_of, map_of, timestamp};
use super::*;

/// Two rows of every kind of Avro type, unions of several among them, written by fastavro.
const TYPES: &[u8] = include_bytes!("testdata/types.avro");
/// A record that contains itself, written by fastavro.
const RECURSIVE: &[u8] = include_bytes!("testdata/recursive.avro");
/// A file of bare numbers, written by fastavro.
const NO_RECORD: &[u8] = include_bytes!("testdata/no-record.avro");

fn schema(fields: Vec<(&str, DataType)>) -> SchemaRef {
    Arc::new(Schema::new(fields.into_iter().map(|(name, kind)| Field::new(name, kind, true)).collect::<Vec<_>>()))
}

fn record(fields: &[(&str, DataType)]) -> DataType {
    DataType::Struct(Fields::from(fields.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true)).collect::<Vec<_>>()))
}

async fn rows(column: &str, kind: DataType) -> Vec<String> {
    read(&Avro, schema(vec![(column, kind)]), Options::new(), TYPES).await.all_rows()
}

/// A file in blocks of 100 rows.
fn written(rows: usize, codec: Option<CompressionCodec>) -> Vec<u8> {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("row {}", row * 7919 % 100_003))));
    let batch = RecordBatch::try_from_iter_with_nullable([("n", numbers, true), ("s", texts, true)]).unwrap();
    let builder = WriterBuilder::new(batch.schema().as_ref().clone()).with_compression(codec);
    let mut writer = builder.build::<_, AvroOcfFormat>(Vec::new()).unwrap();
    for start in (0..rows).step_by(100) {
        writer.write(&batch.slice(start, 100.min(rows - start))).unwrap();
    }
    writer.finish().unwrap();
    writer.into_inner()
}

#[tokio::test]
async fn every_type_is_read_as_spark_has_it() {
    assert_eq!(rows("x", DataType::Int32).await, ["1", "2"]);
    assert_eq!(rows("M", DataType::Utf8).await, ["a", "null"]);
    assert_eq!(rows("e", DataType::Utf8).await, ["A", "B"]);
    assert_eq!(rows("fx", DataType::Binary).await, ["616263", "78797a"]);
    let instants = ["2024-01-02T03:04:05.123Z", "2024-01-02T03:04:05.123Z"];
    assert_eq!(rows("tsm", timestamp(true)).await, instants);
    assert_eq!(rows("tsu", timestamp(true)).await, ["2024-01-02T03:04:05.123456Z", "2024-01-02T03:04:05.123456Z"]);
    assert_eq!(rows("ltm", timestamp(false)).await[0], "2024-01-02T03:04:05.123");
    assert_eq!(rows("dt", DataType::Date32).await[0], "2024-01-02");
    assert_eq!(rows("de", DataType::Decimal128(5, 2)).await[0], "1.25");
    assert_eq!(rows("uu", DataType::Utf8).await[0], "12345678-1234-5678-1234-567812345678");
    assert_eq!(rows("nu", DataType::Utf8).await, ["null", "null"]);
    assert_eq!(rows("arr", list_of(DataType::Int32)).await, ["[1, 2]", "[]"]);
    assert_eq!(rows("mp", map_of(DataType::Utf8, DataType::Int64)).await, ["{k: 7}", "{}"]);
    assert_eq!(rows("nowhere", DataType::Utf8).await, ["null", "null"]);
}

#[tokio::test]
async fn unions_become_the_wider_number_or_a_struct_of_members() {
    let members = record(&[("member0", DataType::Int32), ("member1", DataType::Utf8)]);
    assert_eq!(rows("u", members).await, ["{member0: 1, member1: null}", "{member0: null, member1: s}"]);
    assert_eq!(rows("n", DataType::Int64).await, ["null", "5"]);
    assert_eq!(rows("fd", DataType::Float64).await, ["1.5", "2.5"]);
    let nested = record(&[("member0", DataType::Int32), ("member1", record(&[("z", DataType::Int32)]))]);
    assert_eq!(rows("u3", nested).await, ["{member0: null, member1: {z: 3}}", "{member0: 7, member1: null}"]);
    for (column, kind) in [("u", DataType::Int32), ("n", DataType::Int32), ("fd", DataType::Float32)] {
        let error = read(&Avro, schema(vec![(column, kind)]), Options::new(), TYPES).await.error.unwrap();
        assert_eq!((error.code(), error.kind()), ("FAILED_READ_FILE.NO_HINT", ErrorKind::SchemaMismatch));
    }
}

#[tokio::test]
async fn values_convert_as_in_spark_and_nothing_else_does() {
    assert_eq!(rows("x", DataType::Int64).await, ["1", "2"]);
    assert_eq!(rows("x", DataType::Float64).await, ["1.0", "2.0"]);
    assert_eq!(rows("x", DataType::Date32).await, ["1970-01-02", "1970-01-03"]);
    assert_eq!(rows("dt", DataType::Int32).await, ["19724", "19724"]);
    assert_eq!(rows("tsm", DataType::Int64).await[0], "1704164645123");
    assert_eq!(rows("de", DataType::Decimal128(6, 3)).await[0], "1.250");
    assert_eq!(rows("de", DataType::Decimal128(4, 1)).await[0], "1.3");
    let bare = read(&Avro, schema(vec![("n", timestamp(true))]), Options::new(), &written(2, None)).await;
    assert_eq!(bare.all_rows(), ["1970-01-01T00:00:00Z", "1970-01-01T00:00:00.001Z"]);
    for (column, kind) in [
        ("x", DataType::Utf8),
        ("x", DataType::Int16),
        ("tsm", timestamp(false)),
        ("de", DataType::Decimal128(4, 2)),
        ("m", DataType::Binary),
    ] {
        let error = read(&Avro, schema(vec![(column, kind.clone())]), Options::new(), TYPES).await.error;
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::SchemaMismatch), "{column} as {kind}");
    }
}

#[tokio::test]
async fn the_schema_is_taken_from_the_file_or_the_option() {
    let inferred = Avro.infer(&[remote("e", b"").await, remote("f", TYPES).await], &Options::new()).await.unwrap();
    let expected = schema(vec![
        ("u", record(&[("member0", DataType::Int32), ("member1", DataType::Utf8)])),
        ("n", DataType::Int64),
        ("m", DataType::Utf8),
        ("x", DataType::Int32),
        ("fd", DataType::Float64),
        ("e", DataType::Utf8),
        ("fx", DataType::Binary),
        ("u3", record(&[("member0", DataType::Int32), ("member1", record(&[("z", DataType::Int32)]))])),
        ("tsm", timestamp(true)),
        ("tsu", timestamp(true)),
        ("ltm", timestamp(false)),
        ("dt", DataType::Date32),
        ("de", DataType::Decimal128(5, 2)),
        ("uu", DataType::Utf8),
        ("nu", DataType::Null),
        ("arr", list_of(DataType::Int32)),
        ("mp", map_of(DataType::Utf8, DataType::Int64)),
    ]);
    assert_eq!(inferred, expected);
    for (content, code) in
        [(RECURSIVE, "AVRO_INCOMPATIBLE_SCHEMA"), (NO_RECORD, "AVRO_INCOMPATIBLE_SCHEMA"), (b"junk", "FAILED_READ_FILE.NO_HINT")]
    {
        assert_eq!(Avro.infer(&[remote("f", content).await], &Options::new()).await.unwrap_err().code(), code);
    }
    let option = Options::new().with("avroSchema", r#"{"type":"record","name":"r","fields":[{"name":"y","type":["null","long"]}]}"#);
    assert_eq!(Avro.infer(&[], &option).await.unwrap(), schema(vec![("y", DataType::Int64)]));
    assert_eq!(Avro.infer(&[], &Options::new()).await.unwrap_err().code(), "UNABLE_TO_INFER_SCHEMA");
}

#[tokio::test]
async fn a_reader_schema_renames_promotes_and_fills_in() {
    let json = r#"{"type":"record","name":"r","fields":[
        {"name":"y","type":"long","aliases":["x"]},
        {"name":"new","type":"int","default":42},
        {"name":"none","type":["null","string"],"default":null}]}"#;
    let options = Options::new().with("avroSchema", json);
    let bound = schema(vec![("new", DataType::Int32), ("y", DataType::Int64), ("none", DataType::Utf8)]);
    assert_eq!(read(&Avro, bound, options, TYPES).await.all_rows(), ["42 | 1 | null", "42 | 2 | null"]);
    let missing = r#"{"type":"record","name":"r","fields":[{"name":"nope","type":"long"}]}"#;
    let outcome = read(&Avro, schema(vec![("nope", DataType::Int64)]), Options::new().with("avroSchema", missing), TYPES).await;
    assert_eq!(outcome.error.unwrap().code(), "FAILED_READ_FILE.NO_HINT");
    let broken = Avro.reader(schema(vec![("a", DataType::Int32)]), &Options::new().with("avroSchema", "{")).unwrap_err();
    assert_eq!(broken.code(), "AVRO_INCOMPATIBLE_SCHEMA");
}

#[tokio::test]
async fn columns_may_match_by_position() {
    let options = Options::new().with("positionalFieldMatching", "true");
    let bound = schema(vec![("first", DataType::Int64), ("second", DataType::Utf8), ("third", DataType::Int32)]);
    assert_eq!(read(&Avro, bound, options, &written(2, None)).await.all_rows(), ["0 | row 0 | null", "1 | row 7919 | null"]);
}

#[tokio::test]
async fn every_codec_from_disk_and_store_in_batches_of_the_size_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let reader = Avro.reader(schema(vec![("s", DataType::Utf8), ("n", DataType::Int64)]), &Options::new()).unwrap();
    let codecs = [
        None,
        Some(CompressionCodec::Deflate),
        Some(CompressionCodec::Snappy),
        Some(CompressionCodec::ZStandard),
        Some(CompressionCodec::Bzip2),
    ];
    for codec in codecs {
        let content = written(1050, codec);
        for file in [local(folder.path(), "a.avro", &content), remote("a.avro", &content).await] {
            let outcome = read_with(&reader, file.clone(), &[1], 300).await;
            assert_eq!(outcome.all_rows(), (0..1050).map(|row| row.to_string()).collect::<Vec<_>>(), "{codec:?}");
            assert!(outcome.batches.iter().all(|batch| batch.num_rows() <= 300));
            let counted = read_with(&reader, file, &[], 300).await;
            assert!(counted.error.is_none());
            assert_eq!(counted.batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 1050);
        }
    }
    let xz = read_with(&reader, remote("x.avro", &written(10, Some(CompressionCodec::Xz))).await, &[1], 300).await.error.unwrap();
    assert!(xz.message().contains("codec 'xz' is not supported"), "{xz}");
}

#[tokio::test]
async fn damaged_files_are_named_after_the_blocks_before_the_damage() {
    let content = written(1000, Some(CompressionCodec::Snappy));
    let reader = Avro.reader(schema(vec![("n", DataType::Int64)]), &Options::new()).unwrap();
    let mut damaged = content.clone();
    let middle = content.len() / 2;
    damaged[middle] ^= 0xff;
    for (name, bytes, before) in [
        ("cut.avro", &content[..content.len() - 2], true),
        ("half.avro", &content[..middle], true),
        ("damaged.avro", &damaged, true),
        ("header.avro", &content[..20], false),
        ("junk.avro", b"nonsense nonsense".as_slice(), false),
    ] {
        let outcome = read_with(&reader, remote(name, bytes).await, &[0], 100).await;
        let error = outcome.error.as_ref().unwrap();
        assert_eq!((error.kind(), error.code()), (ErrorKind::BadRecord, "FAILED_READ_FILE.NO_HINT"), "{name}");
        assert!(error.message().contains(name), "{error}");
        let rows = outcome.rows();
        assert_eq!(rows.is_empty(), !before, "{name}");
        assert!(rows.len() < 1000 && rows.len() % 100 == 0, "{name}: {}", rows.len());
    }
    assert!(read_with(&reader, remote("e", b"").await, &[0], 100).await.all_rows().is_empty());
}

#[tokio::test]
async fn a_block_that_counts_its_records_wrong_is_refused() {
    // The first block has the count 100, zigzag 200: bytes c8 01.
    let mut content = written(100, None);
    let at = content.windows(2).position(|pair| pair == [0xc8, 0x01]).unwrap();
    content[at] = 0xc6;
    let reader = Avro.reader(schema(vec![("n", DataType::Int64)]), &Options::new()).unwrap();
    let error = read_with(&reader, remote("f", &content).await, &[0], 100).await.error.unwrap();
    assert!(error.message().contains("more bytes than its records"), "{error}");
}

proptest::proptest! {
    #[test]
    fn no_damage_makes_the_reader_panic_or_hang(at in 0_usize..4000, bytes in proptest::collection::vec(proptest::num::u8::ANY, 1..6)) {
        let mut content = if at % 2 == 0 { TYPES.to_vec() } else { written(100, None) };
        let at = at % content.len();
        let end = (at + bytes.len()).min(content.len());
        content[at..end].copy_from_slice(&bytes[..end - at]);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (decimal, list) = (DataType::Decimal128(5, 2), list_of(DataType::Int32));
            let bound = schema(vec![("n", DataType::Int64), ("x", DataType::Int32), ("de", decimal), ("arr", list)]);
            let outcome = read_with(&Avro.reader(bound, &Options::new()).unwrap(), remote("f", &content).await, &[0, 1, 2, 3], 100).await;
            assert!(outcome.error.is_some() || outcome.rows().len() <= 100);
        });
    }
}
