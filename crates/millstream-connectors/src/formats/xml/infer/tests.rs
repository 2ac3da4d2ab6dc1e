use super::super::super::FileFormat;
use super::super::super::reading::remote;
use super::super::Xml;

async fn inferred(text: &str, options: &[(&str, &str)]) -> String {
    let options = [("rowTag", "r")].into_iter().chain(options.iter().copied()).collect();
    let schema = Xml.infer(&[remote("f", text.as_bytes()).await], &options).await.unwrap();
    schema.fields().iter().map(|field| format!("{}: {}", field.name(), field.data_type())).collect::<Vec<_>>().join(", ")
}

#[tokio::test]
async fn values_tell_their_types() {
    for (text, schema) in [
        ("<all><r id='1'><k>a</k><v>1</v></r><r id='2'><v>1.5</v></r></all>", "_id: Int64, k: Utf8, v: Float64"),
        ("<r><b>true</b><d>2024-01-02</d><e/></r>", "b: Boolean, d: Date32, e: Utf8"),
        ("<r><a>1</a><a>x</a></r>", "a: List(Utf8, field: 'element')"),
        ("<all><r><a>1</a><a>2</a></r><r><a>3</a></r></all>", "a: List(Int64, field: 'element')"),
        ("<r>text</r>", "_VALUE: Utf8"),
        ("<r><v>12345678901234567890</v><w>1d</w></r>", "v: Float64, w: Utf8"),
        ("<r><v>1</v></r><r><v>", "_corrupt_record: Utf8, v: Int64"),
        ("<all/>", ""),
    ] {
        assert_eq!(inferred(text, &[]).await, schema, "{text}");
    }
}

#[tokio::test]
async fn options_change_what_is_inferred() {
    let text = "<r id='1'><v>1.5</v></r>";
    assert_eq!(inferred(text, &[("inferSchema", "false")]).await, "_id: Utf8, v: Utf8");
    assert_eq!(inferred(text, &[("excludeAttribute", "true"), ("prefersDecimal", "true")]).await, "v: Decimal128(2, 1)");
    assert!(inferred(text, &[("singleVariantColumn", "all")]).await.starts_with("all: Struct"));
}
