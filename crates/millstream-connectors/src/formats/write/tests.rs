//! Expected texts are recorded from Spark 4.2.

use std::io::{Cursor, Read};

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DurationMicrosecondArray, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, ListArray, MapBuilder, StringArray, StringViewArray, StructArray, TimestampMicrosecondArray,
    TimestampNanosecondArray,
};
use arrow::array::{Int32Builder, StringBuilder};
use arrow::datatypes::{DataType, Field, Int32Type, TimeUnit};

use bytes::Bytes;

use super::*;

/// 2024-01-02T03:04:05.123456Z.
const MOMENT: i64 = 1_704_164_645_123_456;

fn format(name: &str) -> Arc<dyn FileWriteFormat> {
    all().into_iter().find(|format| format.names().contains(&name)).unwrap()
}

fn options(pairs: &[(&str, &str)]) -> Options {
    pairs.iter().copied().collect()
}

fn written(name: &str, rows: &RecordBatch, pairs: &[(&str, &str)]) -> Vec<u8> {
    let writer = format(name).writer(&rows.schema(), &options(pairs)).unwrap();
    let mut encoder = writer.start().unwrap();
    let half = rows.num_rows() / 2;
    let mut bytes = Vec::new();
    for part in [rows.slice(0, half), rows.slice(half, rows.num_rows() - half)] {
        encoder.write(&part).unwrap();
        bytes.extend(encoder.take());
    }
    bytes.extend(encoder.finish().unwrap());
    bytes
}

fn text(name: &str, rows: &RecordBatch, pairs: &[(&str, &str)]) -> String {
    String::from_utf8(written(name, rows, pairs)).unwrap()
}

fn refusal(name: &str, rows: &RecordBatch, pairs: &[(&str, &str)]) -> String {
    format(name).writer(&rows.schema(), &options(pairs)).unwrap_err().code().to_owned()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

fn strings(values: &[Option<&str>]) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..i32::try_from(values.len()).unwrap()));
    batch(vec![("s", Arc::new(values.iter().copied().collect::<StringArray>())), ("i", numbers)])
}

/// One row of every type, a second one of nulls.
fn every_type() -> RecordBatch {
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    map.keys().append_value("a");
    map.values().append_value(1);
    map.keys().append_value("b");
    map.values().append_null();
    map.append(true).unwrap();
    map.append(false).unwrap();
    let inner: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
    let structs =
        StructArray::try_new(vec![Field::new("x", DataType::Int32, true)].into(), vec![inner], Some(vec![true, false].into())).unwrap();
    batch(vec![
        ("bool", Arc::new(BooleanArray::from(vec![Some(true), None]))),
        ("tiny", Arc::new(Int8Array::from(vec![Some(-1), None]))),
        ("small", Arc::new(Int16Array::from(vec![Some(-300), None]))),
        ("int", Arc::new(Int32Array::from(vec![Some(7), None]))),
        ("long", Arc::new(Int64Array::from(vec![Some(i64::MAX), None]))),
        ("float", Arc::new(Float32Array::from(vec![Some(0.1), None]))),
        ("double", Arc::new(Float64Array::from(vec![Some(1e20), None]))),
        ("dec", Arc::new(Decimal128Array::from(vec![Some(-150), None]).with_precision_and_scale(10, 2).unwrap())),
        ("wide", Arc::new(Decimal128Array::from(vec![Some(10_i128.pow(30)), None]).with_precision_and_scale(38, 8).unwrap())),
        ("date", Arc::new(Date32Array::from(vec![Some(19_724), None]))),
        ("ts", Arc::new(TimestampMicrosecondArray::from(vec![Some(MOMENT), None]).with_timezone("UTC"))),
        ("ntz", Arc::new(TimestampMicrosecondArray::from(vec![Some(-1_500_000), None]))),
        ("s", Arc::new(StringArray::from(vec![Some("žluť"), None]))),
        ("b", Arc::new(BinaryArray::from(vec![Some(b"ab\xFF".as_slice()), None]))),
        ("list", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1), None]), None]))),
        ("map", Arc::new(map.finish())),
        ("struct", Arc::new(structs)),
    ])
}

#[test]
fn csv_quotes_and_trims_as_spark_does() {
    let rows = strings(&[
        Some("plain"),
        Some(" lead"),
        Some("trail "),
        Some("a,b"),
        Some("q\"q"),
        Some("\"q\""),
        Some("q\""),
        Some("back\\slash"),
        Some("back\\\"both"),
        Some("nl\nx"),
        Some("cr\rx"),
        Some("tab\tx"),
        Some(""),
        None,
        Some("#hash"),
        Some("'single'"),
        Some("\\"),
        Some("\u{1}ctl"),
        Some("a\u{a0}b "),
        Some("é,ž"),
        Some("\ta\t"),
        Some(" \"x\" "),
        Some("a\\,b"),
        Some("   "),
    ]);
    for (pairs, expected) in [
        (
            &[][..],
            concat!(
                "plain,0\nlead,1\ntrail,2\n\"a,b\",3\n\"q\\\"q\",4\n\"\\\"q\\\"\",5\n\"q\\\"\",6\nback\\slash,7\n\"back\\\\\\\"both\",8\n",
                "\"nl\nx\",9\n\"cr\rx\",10\ntab\tx,11\n\"\",12\n,13\n\"#hash\",14\n'single',15\n\\,16\nctl,17\na\u{a0}b,18\n\"é,ž\",19\n",
                "a,20\n\"\\\"x\\\"\",21\n\"a\\\\,b\",22\n\"\",23\n"
            ),
        ),
        (
            &[("escape", "\""), ("header", "true"), ("nullValue", "NULL"), ("emptyValue", "EMPTY")][..],
            concat!(
                "s,i\nplain,0\n",
                "lead,1\ntrail,2\n\"a,b\",3\n\"q\"\"q\",4\n\"\"\"q\"\"\",5\n\"q\"\"\",6\nback\\slash,7\n\"back\\\"\"both\",8\n",
                "\"nl\nx\",9\n\"cr\rx\",10\ntab\tx,11\n",
                "EMPTY,12\nNULL,13\n\"#hash\",14\n'single',15\n\\,16\nctl,17\na\u{a0}b,18\n\"é,ž\",19\n",
                "a,20\n\"\"\"x\"\"\",21\n\"a\\,b\",22\nEMPTY,23\n"
            ),
        ),
        (
            &[("sep", "\\t"), ("escapeQuotes", "false"), ("ignoreLeadingWhiteSpace", "false"), ("ignoreTrailingWhiteSpace", "false")][..],
            concat!(
                "plain\t0\n lead\t1\ntrail \t2\na,b\t3\nq\"q\t4\n\"\\\"q\\\"\"\t5\nq\"\t6\nback\\slash\t7\nback\\\"both\t8\n",
                "\"nl\nx\"\t9\n\"cr\rx\"\t10\n\"tab\tx\"\t11\n\"\"\t12\n\t13\n\"#hash\"\t14\n'single'\t15\n\\\t16\n\u{1}ctl\t17\n",
                "a\u{a0}b \t18\né,ž\t19\n\"\ta\t\"\t20\n \"x\" \t21\na\\,b\t22\n   \t23\n"
            ),
        ),
    ] {
        assert_eq!(text("csv", &rows, pairs), expected, "{pairs:?}");
    }
}

#[test]
fn csv_edges() {
    let one = batch(vec![("s", Arc::new(StringArray::from(vec![Some(""), None, Some("x")])))]);
    assert_eq!(text("csv", &one, &[]), "\"\"\nx\n", "a row of one null leaves no line");
    assert_eq!(text("csv", &one, &[("quoteAll", "true"), ("nullValue", "N"), ("emptyValue", "E")]), "\"E\"\n\"N\"\n\"x\"\n");
    let line =
        batch(vec![("a,b", Arc::new(StringArray::from(vec!["nl\nx"]))), (" sp ", Arc::new(BinaryArray::from(vec![b"ab\xFF".as_slice()])))]);
    assert_eq!(text("csv", &line, &[("header", "true"), ("lineSep", "\r\n")]), "\"a,b\",sp\r\n\"nl\r\nx\",[61 62 FF]\r\n");
    let comment = batch(vec![("a", Arc::new(StringArray::from(vec!["#a"]))), ("b", Arc::new(StringArray::from(vec![";b"])))]);
    assert_eq!(text("csv", &comment, &[("comment", ";")]), "#a,;b\n");
}

#[test]
fn json_has_sparks_numbers_times_and_escapes() {
    let rows = batch(vec![
        ("b", Arc::new(Float64Array::from(vec![1e20, f64::NAN]))),
        ("l", Arc::new(Decimal128Array::from(vec![150, 1]).with_precision_and_scale(18, 8).unwrap())),
        ("q", Arc::new(Date32Array::from(vec![-719_162, 3_671_912]))),
        ("s", Arc::new(TimestampMicrosecondArray::from(vec![MOMENT, 0]).with_timezone("UTC"))),
        ("u", Arc::new(TimestampMicrosecondArray::from(vec![MOMENT, 500_000]))),
        ("w", Arc::new(BinaryArray::from(vec![b"ab\xFF".as_slice(), b"a"]))),
        ("iv", Arc::new(DurationMicrosecondArray::from(vec![93_784_500_000, 0]))),
        ("t", Arc::new(StringArray::from(vec!["/slash<>&\u{2028}\u{1}\\b\u{c}\u{7f}\"", "\n\r\t\u{8}\u{1f}"]))),
    ]);
    assert_eq!(
        text("json", &rows, &[]),
        concat!(
            r#"{"b":1.0E20,"l":0.00000150,"q":"0001-01-01","s":"2024-01-02T03:04:05.123Z","u":"2024-01-02T03:04:05.123","w":"YWL/","#,
            r#""iv":"INTERVAL '1 02:03:04.5' DAY TO SECOND","t":"/slash<>&"#,
            "\u{2028}\\u0001\\\\b\\f\u{7f}\\\"\"}\n",
            r#"{"b":"NaN","l":1E-8,"q":"+12023-05-10","s":"1970-01-01T00:00:00.000Z","u":"1970-01-01T00:00:00.500","w":"YQ==","#,
            r#""iv":"INTERVAL '0 00:00:00' DAY TO SECOND","t":"\n\r\t\b\u001F"}"#,
            "\n"
        )
    );
}

#[test]
fn json_leaves_nulls_out_of_objects_only() {
    let rows = every_type().project(&[3, 14, 15, 16]).unwrap();
    assert_eq!(text("json", &rows, &[]), "{\"int\":7,\"list\":[1,null],\"map\":{\"a\":1,\"b\":null},\"struct\":{\"x\":1}}\n{}\n");
    assert_eq!(
        text("json", &rows.slice(1, 1), &[("ignoreNullFields", "false"), ("lineSep", "|")]),
        "{\"int\":null,\"list\":null,\"map\":null,\"struct\":null}|"
    );
    let twice = RecordBatch::try_new(
        Arc::new(Schema::new(vec![Field::new("k", DataType::Utf8, true), Field::new("k", DataType::Int64, true)])),
        vec![Arc::new(StringArray::from(vec!["é"])), Arc::new(Int64Array::from(vec![1]))],
    )
    .unwrap();
    assert_eq!(text("json", &twice, &[]), "{\"k\":\"é\",\"k\":1}\n");
    assert_eq!(text("json", &twice, &[("writeNonAsciiCharacterAsCodePoint", "true")]), "{\"k\":\"\\u00E9\",\"k\":1}\n");
}

#[test]
fn datetime_patterns_are_those_of_java() {
    let rows = batch(vec![("t", Arc::new(TimestampMicrosecondArray::from(vec![MOMENT, 1_720_796_645_000_000]).with_timezone("UTC")))]);
    let new_york = [("timeZone", "America/New_York")];
    for (pattern, zone, first, second) in [
        ("yyyy/MM/dd HH:mm", &[][..], "2024/01/02 03:04", "2024/07/12 15:04"),
        ("yy-M-d H:m:s", &[], "24-1-2 3:4:5", "24-7-12 15:4:5"),
        ("EEE, d MMM yyyy HH:mm:ss Z", &new_york, "Mon, 1 Jan 2024 22:04:05 -0500", "Fri, 12 Jul 2024 11:04:05 -0400"),
        ("EEEE MMMM d h:mm a", &[], "Tuesday January 2 3:04 AM", "Friday July 12 3:04 PM"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", &[], "2024-01-02T03:04:05.123456Z", "2024-07-12T15:04:05.000000Z"),
        ("yyyy-MM-dd HH:mm:ss[.SSSSSS] z", &new_york, "2024-01-01 22:04:05.123456 EST", "2024-07-12 11:04:05.000000 EDT"),
        ("D Q L k K F G", &[], "2 1 1 3 3 2 AD", "194 3 7 15 3 5 AD"),
        ("LLLL QQQ yyyyy", &[], "January Q1 02024", "July Q3 02024"),
        ("VV X xx O ZZZZZ", &new_york, "America/New_York -05 -0500 GMT-5 -05:00", "America/New_York -04 -0400 GMT-4 -04:00"),
        ("VV X xx O ZZZZZ", &[], "UTC Z +0000 GMT Z", "UTC Z +0000 GMT Z"),
        ("''yyyy'' s.S SSSSSSSSS", &[], "'2024' 5.1 123456000", "'2024' 5.0 000000000"),
    ] {
        let pairs = [&[("timestampFormat", pattern)], zone].concat();
        assert_eq!(text("json", &rows, &pairs), format!("{{\"t\":\"{first}\"}}\n{{\"t\":\"{second}\"}}\n"), "{pattern}");
    }
    for (pattern, code) in [
        ("e", "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_WEEK_BASED_PATTERN"),
        ("uuuu", "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_PATTERN_RECOGNITION"),
        ("YYYY", "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_PATTERN_RECOGNITION"),
        ("n", "INVALID_DATETIME_PATTERN.ILLEGAL_CHARACTER"),
        ("'open", "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_PATTERN_RECOGNITION"),
    ] {
        assert_eq!(refusal("json", &rows, &[("timestampFormat", pattern)]), code, "{pattern}");
    }
    let early = batch(vec![("t", Arc::new(TimestampMicrosecondArray::from(vec![-62_135_596_800_000_000]).with_timezone("UTC")))]);
    assert_eq!(text("json", &early, &new_york), "{\"t\":\"0000-12-31T19:03:58.000-04:56:02\"}\n");
}

#[test]
fn a_pattern_with_a_time_does_not_fit_a_date() {
    let rows = batch(vec![("d", Arc::new(Date32Array::from(vec![19_724])))]);
    assert_eq!(text("csv", &rows, &[("dateFormat", "EEE dd.MM.yyyy[ HH]")]), "Tue 02.01.2024\n");
    let writer = format("csv").writer(&rows.schema(), &options(&[("dateFormat", "HH")])).unwrap();
    assert_eq!(writer.start().unwrap().write(&rows).unwrap_err().code(), "UNSUPPORTED_DATETIME_FIELD");
}

#[test]
fn text_is_one_column_of_lines() {
    let one = batch(vec![("s", Arc::new(StringViewArray::from(vec![Some(""), None, Some("x")])))]);
    assert_eq!(text("text", &one, &[]), "\n\nx\n");
    assert_eq!(text("text", &one, &[("lineSep", "||")]), "||||x||");
    assert_eq!(refusal("text", &strings(&[None]), &[]), "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE");
    assert_eq!(refusal("text", &batch(vec![("a", one.column(0).clone()), ("b", one.column(0).clone())]), &[]), "_LEGACY_ERROR_TEMP_1290");
}

#[test]
fn what_a_format_cannot_hold_is_refused_before_anything_is_written() {
    let nested = every_type().project(&[14]).unwrap();
    assert_eq!(refusal("csv", &nested, &[]), "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE");
    let void = batch(vec![("v", arrow::array::new_null_array(&DataType::Null, 1))]);
    assert_eq!(refusal("csv", &void, &[]), "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE");
    assert_eq!(refusal("orc", &void, &[]), "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE");
    let time = batch(vec![("t", arrow::array::new_null_array(&DataType::Time64(TimeUnit::Microsecond), 1))]);
    for format in ["json", "csv", "parquet", "orc", "avro"] {
        assert_eq!(refusal(format, &time, &[]), "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE", "{format}");
        let plain = strings(&[None]);
        assert_eq!(refusal(format, &plain, &[("compression", "nope")]), "CODEC_NOT_AVAILABLE.WITH_AVAILABLE_CODECS_SUGGESTION", "{format}");
    }
    let twice = Schema::new(vec![Field::new("k", DataType::Utf8, true), Field::new("k", DataType::Int64, true)]);
    assert_eq!(format("parquet").writer(&twice, &Options::new()).unwrap_err().code(), "ParquetDecodingException");
}

#[test]
fn names_end_as_sparks_do() {
    let plain = batch(vec![("s", Arc::new(StringArray::from(vec!["x"])))]);
    for (name, codec, extension) in [
        ("json", None, ".json"),
        ("json", Some("GZIP"), ".json.gz"),
        ("csv", Some("none"), ".csv"),
        ("csv", Some("bzip2"), ".csv.bz2"),
        ("csv", Some("deflate"), ".csv.deflate"),
        ("csv", Some("snappy"), ".csv.snappy"),
        ("csv", Some("lz4"), ".csv.lz4"),
        ("text", Some("gzip"), ".txt.gz"),
        ("parquet", None, ".snappy.parquet"),
        ("parquet", Some("gzip"), ".gz.parquet"),
        ("parquet", Some("zstd"), ".zstd.parquet"),
        ("parquet", Some("uncompressed"), ".parquet"),
        ("parquet", Some("lz4"), ".lz4hadoop.parquet"),
        ("parquet", Some("lz4_raw"), ".lz4raw.parquet"),
        ("orc", None, ".zstd.orc"),
        ("orc", Some("none"), ".orc"),
        ("orc", Some("zlib"), ".zlib.orc"),
        ("orc", Some("lz4"), ".lz4.orc"),
        ("avro", None, ".avro"),
    ] {
        let pairs: Vec<(&str, &str)> = codec.map(|codec| ("compression", codec)).into_iter().collect();
        let writer = format(name).writer(&plain.schema(), &options(&pairs)).unwrap();
        assert_eq!(writer.extension(), extension, "{name} {codec:?}");
    }
}

#[test]
fn compressed_text_reads_back() {
    let values: Vec<String> = (0..60_000).map(|i| format!("line {i}")).collect();
    let rows = batch(vec![("s", Arc::new(StringArray::from(values.clone())))]);
    let expected = values.join("\n") + "\n";
    let read = |mut reader: Box<dyn Read>| {
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    };
    for codec in ["gzip", "bzip2", "deflate"] {
        let bytes = Cursor::new(written("text", &rows, &[("compression", codec)]));
        let text = match codec {
            "gzip" => read(Box::new(flate2::read::GzDecoder::new(bytes))),
            "bzip2" => read(Box::new(bzip2::read::BzDecoder::new(bytes))),
            _ => read(Box::new(flate2::read::ZlibDecoder::new(bytes))),
        };
        assert_eq!(text, expected, "{codec}");
    }
    for codec in ["snappy", "lz4"] {
        let bytes = written("text", &rows, &[("compression", codec)]);
        let (mut rest, mut text, mut blocks) = (bytes.as_slice(), Vec::new(), 0);
        while !rest.is_empty() {
            let number = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().unwrap()) as usize;
            let (length, packed) = (number(0), &rest[8..8 + number(4)]);
            let block = match codec {
                "snappy" => snap::raw::Decoder::new().decompress_vec(packed).unwrap(),
                _ => lz4_flex::block::decompress(packed, length).unwrap(),
            };
            assert_eq!(block.len(), length);
            text.extend(block);
            rest = &rest[8 + number(4)..];
            blocks += 1;
        }
        assert_eq!(String::from_utf8(text).unwrap(), expected, "{codec}");
        assert!(blocks > 1);
    }
}

fn parquet_rows(bytes: Vec<u8>) -> RecordBatch {
    let reader = ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).unwrap();
    let schema = reader.schema().clone();
    let batches: Vec<RecordBatch> = reader.build().unwrap().map(|batch| batch.unwrap()).collect();
    arrow::compute::concat_batches(&schema, &batches).unwrap()
}

/// Values of every column as text, to compare across types that only differ in names of parts.
fn shown(rows: &RecordBatch) -> Vec<Vec<Option<String>>> {
    let style = spark_text::Style::show(datetime::DateTimeText::cast_in_utc());
    let columns = rows.columns().iter().map(|column| spark_text::TextOf::new(column, &style).unwrap());
    columns.map(|column| (0..rows.num_rows()).map(|row| column.text(row)).collect()).collect()
}

#[test]
fn parquet_holds_every_type_in_sparks_physical_types() {
    let rows = every_type();
    let bytes = written("parquet", &rows, &[]);
    let file = ::parquet::file::reader::SerializedFileReader::new(Bytes::from(bytes.clone())).unwrap();
    let metadata = ::parquet::file::reader::FileReader::metadata(&file);
    let schema = metadata.file_metadata().schema_descr();
    let mut text = Vec::new();
    ::parquet::schema::printer::print_schema(&mut text, schema.root_schema());
    let text = String::from_utf8(text).unwrap();
    for line in [
        "OPTIONAL INT32 tiny (INTEGER(8,true));",
        "OPTIONAL INT64 long;",
        "OPTIONAL INT64 dec (DECIMAL(10,2));",
        "OPTIONAL FIXED_LEN_BYTE_ARRAY (16) wide (DECIMAL(38,8));",
        "OPTIONAL INT32 date (DATE);",
        "OPTIONAL INT64 ts (TIMESTAMP(MICROS,true));",
        "OPTIONAL INT64 ntz (TIMESTAMP(MICROS,false));",
        "OPTIONAL BYTE_ARRAY s (STRING);",
        "OPTIONAL BYTE_ARRAY b;",
        "OPTIONAL INT32 element;",
        "REPEATED group key_value {",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(metadata.file_metadata().key_value_metadata().is_none_or(Vec::is_empty), "no arrow schema in the footer");
    assert_eq!(shown(&parquet_rows(bytes)), shown(&rows));
    for codec in ["none", "gzip", "brotli", "lz4", "lz4_raw", "zstd"] {
        assert_eq!(shown(&parquet_rows(written("parquet", &rows, &[("compression", codec)]))), shown(&rows), "{codec}");
    }
}

#[test]
fn timestamps_of_any_unit_become_microseconds() {
    let rows = batch(vec![("t", Arc::new(TimestampNanosecondArray::from(vec![MOMENT * 1000 + 789]).with_timezone("Europe/Prague")))]);
    let back = parquet_rows(written("parquet", &rows, &[]));
    assert_eq!(back.schema().field(0).data_type(), &DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())));
    assert_eq!(shown(&back), [[Some("2024-01-02 03:04:05.123456".to_owned())]]);
}

#[test]
fn avro_reads_back() {
    let rows = every_type();
    for codec in ["uncompressed", "snappy", "deflate", "zstandard"] {
        let bytes = written("avro", &rows, &[("compression", codec)]);
        let reader = arrow_avro::reader::ReaderBuilder::new().build(Cursor::new(bytes)).unwrap();
        let batches: Vec<RecordBatch> = reader.map(|batch| batch.unwrap()).collect();
        let back = arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap();
        assert_eq!(shown(&back), shown(&rows), "{codec}");
    }
    let empty = written("avro", &rows.slice(0, 0), &[]);
    assert_eq!(arrow_avro::reader::ReaderBuilder::new().build(Cursor::new(empty)).unwrap().count(), 0);
}

fn orc_rows(bytes: Vec<u8>) -> RecordBatch {
    let reader = orc_rust::ArrowReaderBuilder::try_new(Bytes::from(bytes)).unwrap().build();
    let batches: Vec<RecordBatch> = reader.map(|batch| batch.unwrap()).collect();
    arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap()
}

/// As [`every_type`], with numbers for the types that ORC does not have.
fn every_type_of_orc() -> RecordBatch {
    let rows = every_type();
    let mut columns: Vec<ArrayRef> = rows.columns().to_vec();
    let schema = rows.schema();
    let ntz = schema.index_of("ntz").unwrap();
    columns[ntz] = arrow::compute::cast(&columns[ntz], &DataType::Int64).unwrap();
    batch(schema.fields().iter().map(|field| field.name().as_str()).zip(columns).collect())
}

#[test]
fn orc_reads_back() {
    let rows = every_type();
    for codec in ["none", "snappy", "zlib", "lz4", "zstd"] {
        assert_eq!(shown(&orc_rows(written("orc", &rows, &[("compression", codec)]))), shown(&every_type_of_orc()), "{codec}");
    }
}

#[test]
fn orc_reads_back_many_rows_with_nulls_inside_of_nulls() {
    let numbers: Vec<Option<i64>> =
        (0..50_000).map(|i| (i % 7 != 0).then_some(if i % 1000 < 500 { i } else { i * 7_919 % 1_000_003 - 500_000 })).collect();
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(
        (0..50_000).map(|i| (i % 5 != 0).then(|| (0..i % 4).map(|n| (n % 2 == 0).then_some(i * n)).collect::<Vec<_>>())),
    );
    let rows = batch(vec![
        ("n", Arc::new(Int64Array::from(numbers))),
        ("l", Arc::new(lists)),
        ("s", Arc::new((0..50_000).map(|i| (i % 3 != 0).then(|| format!("text {}", i % 100))).collect::<StringArray>())),
    ]);
    assert_eq!(shown(&orc_rows(written("orc", &rows, &[]))), shown(&rows));
}

#[test]
fn orc_refuses_the_second_that_it_cannot_hold() {
    let rows = batch(vec![("t", Arc::new(TimestampMicrosecondArray::from(vec![-500_000]).with_timezone("UTC")))]);
    let writer = format("orc").writer(&rows.schema(), &Options::new()).unwrap();
    assert_eq!(writer.start().unwrap().write(&rows).unwrap_err().code(), "ORC_TIMESTAMP_NOT_REPRESENTABLE");
}

proptest::proptest! {
    #[test]
    fn orc_holds_any_numbers(values in proptest::collection::vec(proptest::option::of(proptest::num::i64::ANY), 1..400)) {
        let rows = batch(vec![("n", Arc::new(Int64Array::from(values)))]);
        proptest::prop_assert_eq!(shown(&orc_rows(written("orc", &rows, &[("compression", "none")]))), shown(&rows));
    }

    #[test]
    fn dates_agree_with_chrono(days in -700_000_i32..2_900_000) {
        let mut text = String::new();
        datetime::DateTimeText::cast_in_utc().date(days, &mut text).unwrap();
        let date = chrono::NaiveDate::from_num_days_from_ce_opt(days + 719_163).unwrap();
        proptest::prop_assert_eq!(text, date.format("%Y-%m-%d").to_string());
    }
}
