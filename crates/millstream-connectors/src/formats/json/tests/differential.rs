//! Against `serde_json`, and against itself in other pieces.

use std::fmt::Write;

use arrow::array::AsArray;
use bytes::Bytes;
use object_store::GetResult;
use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn any_fields() -> Vec<Field> {
    let inner = DataType::Struct(vec![field("a", DataType::Int64), field("b", DataType::Utf8), field("c", list(DataType::Float64))].into());
    vec![
        field("a", DataType::Int64),
        field("b", DataType::Utf8),
        field("c", DataType::Float64),
        field("d", list(inner.clone())),
        field("e", map(DataType::Boolean)),
        field("f", inner),
        field("g", DataType::Decimal128(20, 3)),
        field("h", timestamp()),
        field("i", DataType::Date32),
        field("j", DataType::Binary),
        corrupt(),
    ]
}

/// Any JSON value, with names that often hit a column.
fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(Value::from),
        "[ -~]{0,12}".prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
        prop_oneof![Just("2024-01-02"), Just("2024-01-02T03:04:05.6Z"), Just("aGk="), Just("NaN"), Just("")].prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec(("[a-j]|[a-z\"\\\\é]{0,4}", inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    proptest::collection::vec(("[a-j]", json()), 0..9).prop_map(|members| Value::Object(members.into_iter().collect()))
}

/// A store that hands out a file in pieces of chosen sizes.
fn pieces(content: &[u8], sizes: &[usize]) -> FileRef {
    let (mut parts, mut rest, mut turn) = (Vec::new(), content, 0);
    while !rest.is_empty() {
        let (part, later) = rest.split_at(sizes[turn % sizes.len()].clamp(1, rest.len()));
        parts.push(Bytes::copy_from_slice(part));
        (rest, turn) = (later, turn + 1);
    }
    let inner = file_of("a.json", content);
    FileRef { store: Arc::new(InPieces { inner: inner.store.clone(), parts }), ..inner }
}

#[derive(Debug)]
struct InPieces {
    inner: Arc<dyn ObjectStore>,
    parts: Vec<Bytes>,
}

impl std::fmt::Display for InPieces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InPieces")
    }
}

#[async_trait]
impl ObjectStore for InPieces {
    async fn put_opts(
        &self,
        location: &Path,
        payload: object_store::PutPayload,
        options: object_store::PutOptions,
    ) -> object_store::Result<object_store::PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: object_store::PutMultipartOptions,
    ) -> object_store::Result<Box<dyn object_store::MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: object_store::GetOptions) -> object_store::Result<GetResult> {
        let found = self.inner.get_opts(location, options).await?;
        let stream = futures::stream::iter(self.parts.clone()).map(Ok).boxed();
        Ok(GetResult { payload: object_store::GetResultPayload::Stream(stream), ..found })
    }

    fn delete_stream(
        &self,
        locations: futures::stream::BoxStream<'static, object_store::Result<Path>>,
    ) -> futures::stream::BoxStream<'static, object_store::Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> futures::stream::BoxStream<'static, object_store::Result<object_store::ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<object_store::ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: object_store::CopyOptions) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

fn show(value: Option<&Value>, as_type: &DataType) -> String {
    let (Some(value), null) = (value, "null".to_owned()) else { return "null".to_owned() };
    match (as_type, value) {
        (_, Value::Null) => null,
        (DataType::Int64, Value::Number(number)) => number.as_i64().map_or(null, |value| value.to_string()),
        (DataType::Float64, Value::Number(number)) => format!("{:?}", number.as_f64().unwrap()),
        (DataType::Float64, Value::String(text)) if text == "NaN" => "NaN".to_owned(),
        (DataType::Boolean, Value::Bool(value)) => value.to_string(),
        (DataType::Utf8, Value::String(text)) => text.clone(),
        (DataType::Utf8, other) => other.to_string(),
        _ => null,
    }
}

/// A row with its third column, a number, in the shortest digits that Rust finds: where two are as short, others may choose the other.
fn same_numbers(row: &str) -> String {
    let (rest, last) = row.rsplit_once('|').unwrap();
    let (rest, number) = rest.rsplit_once('|').unwrap();
    format!("{rest}|{}|{last}", number.parse::<f64>().map_or_else(|_| number.to_owned(), |number| format!("{number:?}")))
}

/// A row whose second column, if it is JSON, has no spaces between its tokens: a string that takes an object keeps its spelling.
fn without_spaces(row: &str) -> String {
    let (first, rest) = row.split_once('|').unwrap();
    let (rest, last) = rest.rsplit_once('|').unwrap();
    let (text, third) = rest.rsplit_once('|').unwrap();
    let text = serde_json::from_str::<Value>(text).map_or_else(|_| text.to_owned(), |value| value.to_string());
    format!("{first}|{text}|{third}|{last}")
}

proptest! {
    #[test]
    fn scalars_are_those_of_serde_json(values in proptest::collection::vec(object(), 1..8), pretty in any::<bool>()) {
        let fields = [("a", DataType::Int64), ("b", DataType::Utf8), ("c", DataType::Float64), ("d", DataType::Boolean)];
        let fields = fields.map(|(name, data_type)| field(name, data_type)).to_vec();
        let mut text = String::new();
        for value in &values {
            // Spaces everywhere, but no line ends.
            let line = if pretty { serde_json::to_string_pretty(value).unwrap().replace('\n', " ") } else { value.to_string() };
            writeln!(text, "{line}").unwrap();
        }
        let outcome = read_file(file_of("a.json", text.as_bytes()), fields.clone(), &[], None);
        let expected: Vec<String> = values
            .iter()
            .map(|value| fields.iter().map(|field| show(value.get(field.name()), field.data_type())).collect::<Vec<_>>().join("|"))
            .map(|row| without_spaces(&row))
            .collect();
        let actual: Vec<String> = outcome.rows.iter().map(|row| without_spaces(&same_numbers(row))).collect();
        prop_assert_eq!(actual, expected);
        prop_assert!(outcome.bad.iter().all(|bad| bad.reason == "TYPE_MISMATCH"));
    }

    #[test]
    fn pieces_make_no_difference(
        lines in proptest::collection::vec(prop_oneof![
            4 => json().prop_map(|value| value.to_string()),
            1 => "\\PC{0,30}",
            1 => Just("\r".to_owned()),
        ], 0..12),
        sizes in proptest::collection::vec(1_usize..50, 1..6),
    ) {
        let text = lines.join("\n");
        let options = [("maxRecordBytes", "300")];
        let whole = read_file(file_of("a.json", text.as_bytes()), any_fields(), &options, None);
        let split = read_file(pieces(text.as_bytes(), &sizes), any_fields(), &options, None);
        prop_assert_eq!(whole.rows, split.rows);
        prop_assert_eq!(whole.bad, split.bad);
    }

    #[test]
    fn any_bytes_give_rows_and_no_panic(
        mut bytes in proptest::collection::vec(prop_oneof![
            4 => proptest::sample::select(b"{}[]\",:0123456789.eE+-tfnabc\\u/*' \n".to_vec()),
            1 => any::<u8>(),
        ], 0..120),
        value in object(),
        at in any::<prop::sample::Index>(),
        lenient in any::<bool>(),
    ) {
        let valid = value.to_string();
        let cut = at.index(valid.len() + 1);
        bytes.extend_from_slice(&valid.as_bytes()[..cut]);
        bytes.extend_from_slice(b"\n{\"a\":7}\n");
        let allowed = ["allowComments", "allowUnquotedFieldNames", "allowBackslashEscapingAnyCharacter", "allowUnquotedControlChars"];
        let mut options: Vec<(&str, &str)> = allowed.iter().filter(|_| lenient).map(|name| (*name, "true")).collect();
        let outcome = read_file(file_of("a.json", &bytes), any_fields(), &options, None);
        prop_assert!(outcome.error.is_none());
        prop_assert!(lenient || outcome.rows.last().is_some_and(|row| row.starts_with("7|null")));
        options.push(("rescuedDataColumn", "b"));
        prop_assert!(read_file(file_of("a.json", &bytes), any_fields(), &options, None).error.is_none());
        options.push(("multiLine", "true"));
        prop_assert!(read_file(file_of("a.json", &bytes), any_fields(), &options, None).error.is_none());
        let _ = run(Json.infer(&[file_of("a.json", &bytes)], &options.iter().copied().collect()));
    }
}

#[test]
fn a_string_that_takes_everything_keeps_the_spelling() {
    let inner = "{\"a\":[1,2.50,-0,\"\\u0001\\ud800\"],\"é\":{}}";
    let text = &format!("{{\"k\":{inner}}}");
    assert_eq!(read(text, kv(), &[]), [format!("{inner}|null")]);
    let file = file_of("a.json", text.as_bytes());
    let reader = Json.reader(Arc::new(Schema::new(kv())), &Options::new()).unwrap();
    let context = ReadContext { projection: vec![0], batch_size: 10, quarantine: Arc::new(Kept::default()) };
    let batches: Vec<RecordBatch> = run(reader.read(file, context).try_collect()).unwrap();
    assert_eq!(batches[0].column(0).as_string::<i32>().value(0), inner);
}
