mod differential;
mod malformed;
mod throughput;

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Fields, Schema, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::{StreamExt, TryStreamExt};
use millstream_core::quarantine::{BadRecord, Quarantine};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parking_lot::Mutex;

use super::*;

#[derive(Default)]
struct Kept(Mutex<Vec<BadRecord>>);

impl Quarantine for Kept {
    fn put(&self, record: BadRecord) {
        self.0.lock().push(record);
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

fn field(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

fn kv() -> Vec<Field> {
    vec![field("k", DataType::Utf8), field("v", DataType::Int64)]
}

fn corrupt() -> Field {
    field("_corrupt_record", DataType::Utf8)
}

fn list(element: DataType) -> DataType {
    DataType::List(Arc::new(field("element", element)))
}

fn map(value: DataType) -> DataType {
    let entries = Fields::from(vec![Field::new("key", DataType::Utf8, false), field("value", value)]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
}

fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

fn file_of(name: &str, content: &[u8]) -> FileRef {
    let store = Arc::new(InMemory::new());
    let path = Path::from(name);
    run(store.put(&path, content.to_vec().into())).unwrap();
    FileRef { store: store as Arc<dyn ObjectStore>, path, url: format!("memory:///{name}"), size: content.len() as u64, modified_ms: 0 }
}

/// What reading a file gave: its rows as text, the records in quarantine, the error at the end.
#[derive(Debug)]
struct Outcome {
    rows: Vec<String>,
    bad: Vec<BadRecord>,
    error: Option<millstream_core::Error>,
}

fn texts(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let columns: Vec<_> = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    (0..batch.num_rows()).map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|")).collect()
}

fn read_file(file: FileRef, fields: Vec<Field>, options: &[(&str, &str)], projection: Option<Vec<usize>>) -> Outcome {
    let kept = Arc::new(Kept::default());
    let options: Options = options.iter().copied().collect();
    let projection = projection.unwrap_or_else(|| (0..fields.len()).collect());
    let reader = Json.reader(Arc::new(Schema::new(fields)), &options).unwrap();
    let context = ReadContext { projection, batch_size: 3, quarantine: kept.clone() };
    let (mut rows, mut error) = (Vec::new(), None);
    run(async {
        let mut stream = reader.read(file, context);
        while let Some(batch) = stream.next().await {
            match batch {
                Ok(batch) => {
                    assert!(batch.num_rows() <= 3 && batch.num_rows() > 0);
                    rows.extend(texts(&batch));
                }
                Err(fault) => error = Some(fault),
            }
        }
    });
    let bad = std::mem::take(&mut *kept.0.lock());
    Outcome { rows, bad, error }
}

fn read(content: &str, fields: Vec<Field>, options: &[(&str, &str)]) -> Vec<String> {
    let outcome = read_file(file_of("a.json", content.as_bytes()), fields, options, None);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    outcome.rows
}

fn value(data_type: DataType, json: &str) -> String {
    let rows = read(&format!("{{\"c\":{json}}}\n"), vec![field("c", data_type)], &[]);
    assert_eq!(rows.len(), 1, "{json}");
    rows[0].clone()
}

#[test]
fn malformed_lines_become_rows_of_nulls() {
    assert_eq!(read("{\"k\":\"a\",\"v\":1}\nnot json at all\n{\"k\":\"b\",\"v\":2}\n", kv(), &[]), ["a|1", "null|null", "b|2"]);
    assert_eq!(read("{\"k\":\"a\",\"v\":1}\n{\"k\":\"b\",\"v\":2", kv(), &[]), ["a|1", "null|null"]);
}

#[test]
fn the_corrupt_record_column_keeps_the_line_and_good_fields_stay() {
    let fields = [kv(), vec![corrupt()]].concat();
    let rows = read("{\"k\":\"a\",\"v\":1}\n{\"k\":\"b\",\"v\":\n{\"k\":\"c\",\"v\":\"x\"}\n", fields.clone(), &[]);
    assert_eq!(rows, ["a|1|null", "null|null|{\"k\":\"b\",\"v\":", "c|null|{\"k\":\"c\",\"v\":\"x\"}"]);
    let rows = read("{\n \"k\": \"a\",\n \"v\": 1\n}\n", fields, &[]);
    assert_eq!(rows, ["null|null|{", "null|null| \"k\": \"a\",", "null|null| \"v\": 1", "null|null|}"]);
}

#[test]
fn nested_structs_arrays_and_maps() {
    let person = DataType::Struct(vec![field("name", DataType::Utf8), field("tags", list(DataType::Utf8))].into());
    let fields = vec![
        field("id", DataType::Int32),
        field("p", person),
        field("m", map(DataType::Int64)),
        field("a", list(DataType::Struct(vec![field("q", DataType::Int32)].into()))),
    ];
    let text = r#"{"id": 1, "p": {"name": "x", "tags": ["a", null]}, "m": {"one": 1, "two": null}, "a": [{"q": 1}, {"q": null}, null]}
{"id": 2, "p": null, "m": {}, "a": []}
{"id": 3, "p": {}, "m": null, "a": null}
"#;
    let expected = [
        "1|{name: x, tags: [a, null]}|{one: 1, two: null}|[{q: 1}, {q: null}, null]",
        "2|null|{}|[]",
        "3|{name: null, tags: null}|null|null",
    ];
    assert_eq!(read(text, fields, &[]), expected);
}

#[test]
fn a_line_with_an_array_gives_a_row_for_each_element() {
    let text = "[{\"k\":\"a\",\"v\":1},{\"k\":\"b\",\"v\":2}]\n{\"k\":\"c\",\"v\":3}\n[]\n5\n\"text\"\nnull\n";
    assert_eq!(read(text, kv(), &[]), ["a|1", "b|2", "c|3", "null|null", "null|null", "null|null"]);
    let fields = [kv(), vec![corrupt()]].concat();
    assert_eq!(
        read("[{\"v\":1},{\"v\":\"x\"}]", fields.clone(), &[]),
        ["null|1|[{\"v\":1},{\"v\":\"x\"}]", "null|null|[{\"v\":1},{\"v\":\"x\"}]"]
    );
    assert_eq!(read("[{\"v\":1},5]", fields, &[]), ["null|null|[{\"v\":1},5]"]);
    let many = format!("[{}]", ["{\"v\":1}"; 10].join(","));
    assert_eq!(read(&many, kv(), &[]).len(), 10);
}

#[test]
fn multi_line_files_are_one_value() {
    let multi = [("multiLine", "true")];
    assert_eq!(read("{\n \"k\": \"a\",\n \"v\": 1\n}\n", kv(), &multi), ["a|1"]);
    assert_eq!(read("[\n {\"k\": \"b\", \"v\": 2},\n {\"k\": \"c\",\n  \"v\": 3}\n]", kv(), &multi), ["b|2", "c|3"]);
    assert_eq!(read("{\"k\": \"d\", \"v\": 4}\n{\"k\": \"ignored\", \"v\": 5}\n", kv(), &multi), ["d|4"]);
    assert_eq!(read("{\"k\": \"e\", \"v\": ", kv(), &multi), ["null|null"]);
    assert_eq!(read("", kv(), &multi), [""; 0]);
    assert_eq!(read("{\"k\": { \"x\" : 01.0 }}", kv(), &multi), ["null|null"]);
    assert_eq!(read("{\"k\": { \"x\" : 1.0 }}", kv(), &multi), ["{ \"x\" : 1.0 }|null"]);
}

#[test]
fn zoneless_timestamps_are_in_the_zone_of_the_option() {
    let text = "{\"ts\":\"2024-01-02 03:04:05\"}\n{\"ts\":\"2024-07-02T03:04:05\"}\n{\"ts\":\"2024-01-02T03:04:05Z\"}\n";
    let rows = read(text, vec![field("ts", timestamp())], &[("timeZone", "America/New_York")]);
    assert_eq!(rows, ["2024-01-02T08:04:05Z", "2024-07-02T07:04:05Z", "2024-01-02T03:04:05Z"]);
}

#[test]
fn lenient_syntax_is_an_option() {
    let text = "{k:'a','v':01} // note\n{\"k\":\"b\",\"v\":2} /* note */\n{'k':'c\\$','v':3}\n";
    let lenient = [
        ("allowUnquotedFieldNames", "true"),
        ("allowNumericLeadingZeros", "true"),
        ("allowComments", "true"),
        ("allowBackslashEscapingAnyCharacter", "true"),
    ];
    assert_eq!(read(text, kv(), &lenient), ["a|1", "b|2", "c$|3"]);
    assert_eq!(read(text, kv(), &[]), ["null|null", "b|2", "null|null"]);
    assert_eq!(read(text, kv(), &[("allowSingleQuotes", "false")]), ["null|null", "b|2", "null|null"]);
    assert_eq!(read("{\"k\":\"a\tb\",\"v\":1}\n", kv(), &[]), ["null|null"]);
    assert_eq!(read("{\"k\":\"a\tb\",\"v\":1}\n", kv(), &[("allowUnquotedControlChars", "true")]), ["a\tb|1"]);
    assert_eq!(read("// nothing\n/* here */ {\"v\":/**/1}\n", kv(), &[("allowComments", "true")]), ["null|1"]);
}

#[test]
fn non_numeric_numbers() {
    let text = "{\"d\":NaN}\n{\"d\":Infinity}\n{\"d\":-INF}\n{\"d\":\"NaN\"}\n{\"d\":\"-Infinity\"}\n{\"d\":+INF}\n";
    let d = || vec![field("d", DataType::Float64)];
    assert_eq!(read(text, d(), &[]), ["NaN", "inf", "-inf", "NaN", "-inf", "inf"]);
    assert_eq!(read(text, d(), &[("allowNonNumericNumbers", "false")]), ["null"; 6]);
    assert_eq!(value(DataType::Utf8, "[NaN,-INF]"), "[NaN,-INF]");
}

#[test]
fn blank_lines_byte_order_marks_and_separators() {
    assert_eq!(read("\n  \n\n{\"k\":\"a\",\"v\":1}\n\n", kv(), &[]), ["a|1"]);
    assert_eq!(read("", kv(), &[]), [""; 0]);
    assert_eq!(read("\u{feff}{\"k\":\"a\",\"v\":1}\n{\"k\":\"b\",\"v\":2}\n", kv(), &[]), ["a|1", "b|2"]);
    assert_eq!(read("{\"k\":\"a\",\"v\":1}|{\"k\":\"b\",\"v\":2}|", kv(), &[("lineSep", "|")]), ["a|1", "b|2"]);
}

#[test]
fn names_are_case_sensitive_unescaped_and_the_last_of_several_counts() {
    let fields = vec![field("ключ", DataType::Utf8), field("x.y", DataType::Int32)];
    let text = "{\"ключ\":\"значение\",\"x.y\":2}\n{\"\\u043a\\u043b\\u044e\\u0447\":\"\\ud83d\\ude00\"}\n";
    assert_eq!(read(text, fields, &[]), ["значение|2", "😀|null"]);
    assert_eq!(read("{\"K\":\"a\",\"V\":1}\n{\"k\":\"a\",\"v\":1,\"k\":\"b\",\"v\":2}\n", kv(), &[]), ["null|null", "b|2"]);
    // The order of the fields changes from line to line, and some are missing.
    let text = "{\"k\":\"a\",\"v\":1}\n{\"v\":2,\"k\":\"b\"}\n{\"x\":0,\"v\":3}\n{\"k\":\"d\"}\n{\"kk\":1,\"k\":\"e\",\"v\":5}\n";
    assert_eq!(read(text, kv(), &[]), ["a|1", "b|2", "null|3", "d|null", "e|5"]);
}

#[test]
fn scalars_are_strict() {
    assert_eq!(value(DataType::Float64, "\"1.5\""), "null");
    assert_eq!(value(DataType::Int64, "\"2\""), "null");
    assert_eq!(value(DataType::Int64, "1.0"), "null");
    assert_eq!(value(DataType::Int64, "-9223372036854775808"), "-9223372036854775808");
    assert_eq!(value(DataType::Int64, "9223372036854775808"), "null");
    assert_eq!(value(DataType::Int32, "2147483648"), "null");
    assert_eq!(value(DataType::Int16, "-32769"), "null");
    assert_eq!(value(DataType::Int8, "200"), "-56");
    assert_eq!(value(DataType::Int8, "256"), "null");
    assert_eq!(value(DataType::Float64, "5"), "5.0");
    assert_eq!(value(DataType::Float64, "1e400"), "inf");
    assert_eq!(value(DataType::Float32, "16777217"), "16777216.0");
    assert_eq!(value(DataType::Boolean, "true"), "true");
    for other in ["1", "\"true\"", "[]", "{}"] {
        assert_eq!(value(DataType::Boolean, other), "null", "{other}");
    }
    assert_eq!(value(DataType::Decimal128(10, 2), "1.005"), "1.01");
    assert_eq!(value(DataType::Decimal128(10, 2), "\"1,000.5\""), "1000.50");
    assert_eq!(value(DataType::Decimal128(4, 2), "123.4"), "null");
    assert_eq!(value(DataType::Decimal128(38, 0), "99999999999999999999999999999999999999"), "99999999999999999999999999999999999999");
    assert_eq!(value(DataType::Binary, "\"aGk=\""), "6869");
    assert_eq!(value(DataType::Binary, "\"\""), "");
    assert_eq!(value(DataType::Binary, "\"??\""), "null");
    assert_eq!(value(DataType::Binary, "\"aGk\""), "null");
}

#[test]
fn dates_and_timestamps() {
    assert_eq!(value(DataType::Date32, "\"2024-1-2\""), "2024-01-02");
    assert_eq!(value(DataType::Date32, "\"2024\""), "2024-01-01");
    assert_eq!(value(DataType::Date32, "\"123\""), "1970-05-04");
    assert_eq!(value(DataType::Date32, "\"-5\""), "1969-12-27");
    assert_eq!(value(DataType::Date32, "20240102"), "null");
    assert_eq!(value(DataType::Date32, "\"\""), "null");
    let days = read("{\"c\":\"20240102\"}", vec![field("c", DataType::Date32)], &[]);
    assert_ne!(days, ["null"], "a number of days");
    assert_eq!(value(timestamp(), "\"2024-01-02T03:04:05.678Z\""), "2024-01-02T03:04:05.678Z");
    assert_eq!(value(timestamp(), "1704164645"), "2024-01-02T03:04:05Z");
    assert_eq!(value(timestamp(), "1.5"), "null");
    let local = DataType::Timestamp(TimeUnit::Microsecond, None);
    assert_eq!(value(local.clone(), "\"2024-01-02 03:04:05\""), "2024-01-02T03:04:05");
    assert_eq!(value(local.clone(), "\"2024-01-02 03:04:05Z\""), "null");
    assert_eq!(value(local, "1704164645"), "null");
    let text = "{\"d\":\"03/01/2024\"}\n{\"d\":\"2024-01-03\"}\n";
    assert_eq!(read(text, vec![field("d", DataType::Date32)], &[("dateFormat", "dd/MM/yyyy")]), ["2024-01-03", "null"]);
}

#[test]
fn strings_take_any_value_as_it_is_written() {
    assert_eq!(value(DataType::Utf8, "1.50"), "1.50");
    assert_eq!(value(DataType::Utf8, "true"), "true");
    assert_eq!(value(DataType::Utf8, "-0"), "-0");
    let spaced = "{ \"q\" : [ 1 , \"a\\u00e9\\n\\/\" , null ] }";
    assert_eq!(value(DataType::Utf8, spaced), spaced);
    assert_eq!(value(DataType::Utf8, "\"\\ud83d x\""), "? x");
    assert_eq!(value(DataType::LargeUtf8, "\"a\""), "a");
    assert_eq!(value(DataType::Utf8View, "\"a\""), "a");
    assert_eq!(read("{\"k\":1.50,\"v\":2}\n", kv(), &[("primitivesAsString", "true")]), ["1.50|2"]);
}

#[test]
fn one_bad_element_nulls_an_array_and_a_struct_keeps_its_good_fields() {
    assert_eq!(value(list(DataType::Int32), "[1,\"x\",3]"), "null");
    assert_eq!(value(list(list(DataType::Int32)), "[[1],[\"x\"],[3]]"), "null");
    let pair = DataType::Struct(vec![field("a", DataType::Int32), field("b", list(DataType::Utf8))].into());
    assert_eq!(value(pair.clone(), "{\"a\":\"x\",\"b\":[\"y\"]}"), "{a: null, b: [y]}");
    assert_eq!(value(list(pair), "[{\"a\":1},{\"a\":\"x\",\"b\":[\"y\"]}]"), "[{a: 1, b: null}, {a: null, b: [y]}]");
    assert_eq!(value(map(DataType::Int32), "{\"a\":1,\"b\":\"x\",\"c\":3}"), "null");
    // What was begun must not leak into the next row.
    let text = "{\"c\":[[\"a\"],[\"b\",5,{}],[7,\"c\"]]}\n{\"c\":[[\"d\"],[\"e\",[]]]}\n{\"c\":\n{\"c\":[[\"f\"]]}\n";
    let rows = read(text, vec![field("c", list(list(DataType::Utf8)))], &[]);
    assert_eq!(rows, ["[[a], [b, 5, {}], [7, c]]", "[[d], [e, []]]", "null", "[[f]]"]);
    let text = "{\"c\":{\"x\":[1,2],\"y\":[3,\"no\"]}}\n{\"c\":{\"x\":[4]}}\n{\"c\":{\"x\":[5],\"z\":[6}}\n{\"c\":{\"x\":[8]}}\n";
    let rows = read(text, vec![field("c", map(list(DataType::Int32)))], &[]);
    assert_eq!(rows, ["null", "{x: [4]}", "null", "{x: [8]}"]);
}

#[test]
fn compression_and_encodings() {
    let text = "{\"k\":\"ž\",\"v\":1}\n{\"k\":\"b\",\"v\":2}\n";
    let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
    assert_eq!(read_file(file_of("a.json.zst", &packed), kv(), &[], None).rows, ["ž|1", "b|2"]);
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(read_file(file_of("a.json", &utf16), kv(), &[("encoding", "UTF-16LE")], None).rows, ["ž|1", "b|2"]);
}

#[test]
fn schemas_and_options_are_checked_before_any_file() {
    let refused = |fields: Vec<Field>, options: &[(&str, &str)]| {
        let options: Options = options.iter().copied().collect();
        Json.reader(Arc::new(Schema::new(fields)), &options).unwrap_err().code().to_owned()
    };
    assert_eq!(refused(vec![field("c", DataType::UInt8)], &[]), "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE");
    assert_eq!(refused(vec![field("_corrupt_record", DataType::Int32)], &[]), "INVALID_CORRUPT_RECORD_TYPE");
    for bad in [("mode", "WHATEVER"), ("multiLine", "maybe"), ("maxNestingDepth", "100000"), ("lineSep", "")] {
        assert_eq!(refused(kv(), &[bad]), "INVALID_OPTION_VALUE", "{bad:?}");
    }
    assert_eq!(refused(kv(), &[("encoding", "klingon")]), "INVALID_PARAMETER_VALUE.CHARSET");
    assert_eq!(refused(kv(), &[("dateFormat", "E")]), "INVALID_DATETIME_PATTERN.ILLEGAL_CHARACTER");
}

#[test]
fn projection_and_row_counts() {
    let file = || file_of("a.json", b"{\"k\":\"a\",\"v\":1}\nbroken\n{\"k\":\"b\",\"v\":\"x\"}\n");
    let fields = [kv(), vec![corrupt()]].concat();
    let outcome = read_file(file(), fields.clone(), &[], Some(vec![2, 0]));
    assert_eq!(outcome.rows, ["null|a", "broken|null", "null|b"], "only the columns that are read make a record malformed");
    assert_eq!(read_file(file(), fields.clone(), &[], Some(vec![1, 1])).rows, ["1|1", "null|null", "null|null"]);
    assert_eq!(read_file(file(), fields.clone(), &[], Some(vec![])).rows, ["", "", ""]);
    assert_eq!(read_file(file(), fields.clone(), &[("mode", "DROPMALFORMED")], Some(vec![])).rows, ["", ""]);
    let only = read_file(file(), fields, &[], Some(vec![2])).error.unwrap();
    assert_eq!(only.code(), "UNSUPPORTED_FEATURE.QUERY_ONLY_CORRUPT_RECORD_COLUMN");
}

#[test]
fn every_batch_has_the_projected_schema() {
    let fields = vec![
        field("k", DataType::Utf8View),
        field("m", map(DataType::Utf8View)),
        field("l", DataType::LargeList(Arc::new(field("item", timestamp())))),
    ];
    let schema = Arc::new(Schema::new(fields));
    let reader = Json.reader(schema.clone(), &Options::new()).unwrap();
    let context = ReadContext { projection: vec![2, 0, 1], batch_size: 10, quarantine: Arc::new(Kept::default()) };
    let file = file_of("a.json", b"{\"k\":\"a\",\"m\":{\"x\":\"y\"},\"l\":[\"2024-01-01\",null]}\n{}\n");
    let batches: Vec<RecordBatch> = run(reader.read(file, context).try_collect()).unwrap();
    assert_eq!(batches[0].schema().as_ref(), &schema.project(&[2, 0, 1]).unwrap());
    assert_eq!(texts(&batches[0]), ["[2024-01-01T00:00:00Z, null]|a|{x: y}", "null|null|null"]);
    assert_eq!(batches[0].column(1).null_count(), 1);
}
