use arrow::datatypes::{DataType, Field, Fields, Schema, TimeUnit};

use super::super::reading::{Outcome, read};
use super::*;

fn field(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

fn strings(names: &[&str]) -> SchemaRef {
    Arc::new(Schema::new(names.iter().map(|name| field(name, DataType::Utf8)).collect::<Vec<_>>()))
}

fn list(data_type: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("element", data_type, true)))
}

async fn rows(text: &str, schema: SchemaRef, options: &[(&str, &str)]) -> Outcome {
    let options: Options = [("rowTag", "r")].into_iter().chain(options.iter().copied()).collect();
    read(&Xml, schema, options, text.as_bytes()).await
}

#[tokio::test]
async fn attributes_elements_and_text_are_columns() {
    let schema = Arc::new(Schema::new(vec![
        field("_id", DataType::Int32),
        field("k", DataType::Utf8),
        field("v", DataType::Int64),
        field("_VALUE", DataType::Utf8),
    ]));
    let text = "<all><r id='1'><k>a</k><v>1</v></r><r id='2'> x <k> b </k><v/></r><r/></all>";
    let read = rows(text, schema, &[]).await;
    assert_eq!(read.all_rows(), ["1 | a | 1 | null", "2 | b | null | x", "null | null | null | null"]);
}

#[tokio::test]
async fn values_have_the_types_of_their_columns() {
    let types = [
        ("b", DataType::Boolean),
        ("n", DataType::Int8),
        ("d", DataType::Float64),
        ("m", DataType::Decimal128(10, 2)),
        ("day", DataType::Date32),
        ("at", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
    ];
    let schema = Arc::new(Schema::new(types.map(|(name, data_type)| field(name, data_type)).to_vec()));
    let good = "<r><b>1</b><n>-5</n><d>1e3</d><m>1.005</m><day>2024-01-02</day><at>2024-01-02T03:04:05Z</at></r>";
    let read = rows(good, schema.clone(), &[]).await;
    assert_eq!(read.all_rows(), ["true | -5 | 1000.0 | 1.01 | 2024-01-02 | 2024-01-02T03:04:05Z"]);
    for bad in ["<b>yes</b>", "<n>128</n>", "<d>x</d>", "<m>123456789.5</m>", "<day>never</day>", "<at>then</at>"] {
        let read = rows(&format!("<r>{bad}</r>"), schema.clone(), &[]).await;
        assert_eq!(read.all_rows(), ["null | null | null | null | null | null"], "{bad}");
        assert_eq!(read.bad[0].reason, "TYPE_MISMATCH", "{bad}");
    }
}

#[tokio::test]
async fn nested_elements_are_structs_arrays_and_maps() {
    let point = DataType::Struct(Fields::from(vec![field("_at", DataType::Utf8), field("x", DataType::Int32)]));
    let entries = Fields::from(vec![Field::new("key", DataType::Utf8, false), field("value", DataType::Int32)]);
    let map = DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false);
    let schema = Arc::new(Schema::new(vec![field("p", list(point)), field("a", list(DataType::Int32)), field("m", map)]));
    let text = "<r><p at='q'><x>1</x></p><a>1</a><p><x>2</x></p><a>2</a><m><one>1</one><two>2</two></m></r>";
    assert_eq!(rows(text, schema, &[]).await.all_rows(), ["[{_at: q, x: 1}, {_at: null, x: 2}] | [1, 2] | {one: 1, two: 2}"]);
}

#[tokio::test]
async fn modes_decide_about_malformed_records() {
    let schema = Arc::new(Schema::new(vec![field("v", DataType::Int32), field("_corrupt_record", DataType::Utf8)]));
    let text = "<all><r><v>1</v></r><r><v>x</v></r></all>";
    let read = rows(text, schema.clone(), &[]).await;
    assert_eq!(read.all_rows(), ["1 | null".to_owned(), format!("null | {text}")]);
    assert!(read.bad.is_empty());
    assert_eq!(rows(text, schema.clone(), &[("mode", "DROPMALFORMED")]).await.all_rows(), ["1 | null"]);
    let read = rows(text, schema, &[("mode", "FAILFAST")]).await;
    assert_eq!(read.rows(), ["1 | null"]);
    assert_eq!(read.error.unwrap().code(), "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION");
}

#[tokio::test]
async fn a_broken_document_ends_with_one_malformed_row() {
    let schema = Arc::new(Schema::new(vec![field("k", DataType::Utf8), field("_corrupt_record", DataType::Utf8)]));
    for text in ["<a><r><k>1</k></r><r><k>2</r><r><k>3</k></r></a>", "<a><r><k>1</k></r><r><k>&no;</k></r><r/></a>", "<r><k>1</k></r><r/>"]
    {
        let read = rows(text, schema.clone(), &[]).await;
        assert_eq!(read.all_rows(), ["1 | null".to_owned(), format!("null | {text}")], "{text}");
        assert_eq!(rows(text, schema.clone(), &[("mode", "DROPMALFORMED")]).await.all_rows(), ["1 | null"], "{text}");
    }
}

#[tokio::test]
async fn names_spaces_and_nulls_follow_the_options() {
    let text = "<a:r b:id='1'><b:k> x </b:k><n>-</n></a:r>";
    let plain = rows(text, strings(&["_b:id", "b:k", "n"]), &[("rowTag", "a:r"), ("nullValue", "-")]).await;
    assert_eq!(plain.all_rows(), ["1 | x | null"]);
    let local = rows(text, strings(&["_id", "k", "n"]), &[("ignoreNamespace", "true"), ("ignoreSurroundingSpaces", "false")]).await;
    assert_eq!(local.all_rows(), ["1 |  x  | -"]);
    let renamed = rows("<r id='1'>t<k/></r>", strings(&["@id", "#", "k"]), &[("attributePrefix", "@"), ("valueTag", "#")]).await;
    assert_eq!(renamed.all_rows(), ["1 | t | "]);
    let without = rows("<r id='1'><k>t</k></r>", strings(&["_id", "k"]), &[("excludeAttribute", "true")]).await;
    assert_eq!(without.all_rows(), ["null | t"]);
}

#[tokio::test]
async fn what_has_no_column_is_wild_or_rescued() {
    let text = "<r><k>a</k><x>1</x><y><z>2</z></y></r>";
    assert_eq!(rows(text, strings(&["k", "xs_any"]), &[]).await.all_rows(), ["a | <z>2</z>"]);
    let schema = Arc::new(Schema::new(vec![field("k", DataType::Utf8), field("rest", list(DataType::Utf8))]));
    assert_eq!(rows(text, schema, &[("wildcardColName", "rest")]).await.all_rows(), ["a | [1, <z>2</z>]"]);
    let schema = Arc::new(Schema::new(vec![field("k", DataType::Int32), field("saved", DataType::Utf8)]));
    let saved = r#"null | {"x":"1","y":"<z>2</z>","k":"a","_file_path":"memory:///f"}"#;
    assert_eq!(rows(text, schema, &[("rescuedDataColumn", "saved")]).await.all_rows(), [saved]);
}

#[test]
fn a_row_tag_is_required() {
    for (tag, code) in [("", "IllegalArgumentException"), ("<r>", "IllegalArgumentException")] {
        let options: Options = [("rowTag", tag)].into_iter().collect();
        assert_eq!(Xml.reader(strings(&["k"]), &options).unwrap_err().code(), code);
    }
}
