use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path;

use super::*;
use crate::formats::{FileFormat, json::Json};
use millstream_core::Options;

async fn inferred(text: &str, options: &[(&str, &str)]) -> Result<String> {
    let store = Arc::new(InMemory::new());
    store.put(&Path::from("a"), text.as_bytes().to_vec().into()).await.unwrap();
    let file = FileRef { store, path: Path::from("a"), url: "memory:///a".to_owned(), size: 1, modified_ms: 0 };
    let schema = Json.infer(&[file], &options.iter().copied().collect::<Options>()).await?;
    Ok(schema.fields().iter().map(|field| format!("{} {}", field.name(), short(field.data_type()))).collect::<Vec<_>>().join(", "))
}

fn short(data_type: &DataType) -> String {
    match data_type {
        DataType::Utf8 => "string".to_owned(),
        DataType::Int64 => "bigint".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Boolean => "boolean".to_owned(),
        DataType::Decimal128(precision, scale) => format!("decimal({precision},{scale})"),
        DataType::Timestamp(..) => "timestamp".to_owned(),
        DataType::List(element) => format!("array<{}>", short(element.data_type())),
        DataType::Struct(fields) => {
            format!(
                "struct<{}>",
                fields.iter().map(|field| format!("{}:{}", field.name(), short(field.data_type()))).collect::<Vec<_>>().join(",")
            )
        }
        other => other.to_string(),
    }
}

const RECORDED: &str = r#"{"i": 1, "f": 1.5, "s": "x", "ts": "2024-01-02T03:04:05Z", "a": [1, 2.5], "o": {"z": null, "b": true}}
{"i": 2.5, "n": null}
"#;

#[tokio::test]
async fn the_recorded_schemas() {
    let all = |options| async move { inferred(RECORDED, options).await.unwrap() };
    assert_eq!(all(&[]).await, "a array<double>, f double, i double, n string, o struct<b:boolean,z:string>, s string, ts string");
    assert_eq!(
        all(&[("primitivesAsString", "true")]).await,
        "a array<string>, f string, i string, n string, o struct<b:string,z:string>, s string, ts string"
    );
    assert_eq!(
        all(&[("dropFieldIfAllNull", "true")]).await,
        "a array<double>, f double, i double, o struct<b:boolean>, s string, ts string"
    );
    assert_eq!(
        all(&[("inferTimestamp", "true"), ("prefersDecimal", "true")]).await,
        "a array<decimal(21,1)>, f decimal(2,1), i decimal(21,1), n string, o struct<b:boolean,z:string>, s string, ts timestamp"
    );
}

#[tokio::test]
async fn conflicts_are_strings_and_malformed_records_a_column() {
    assert_eq!(inferred("{\"a\":1}\n{\"a\":true}\n{\"b\":[]}\n{\"c\":{}}\n", &[]).await.unwrap(), "a string, b array<string>");
    assert_eq!(inferred("{\"a\":{\"x\":1}}\n{\"a\":[1]}\n", &[]).await.unwrap(), "a string");
    assert_eq!(inferred("{\"n\":99999999999999999999,\"m\":9223372036854775807}\n", &[]).await.unwrap(), "m bigint, n decimal(20,0)");
    assert_eq!(inferred("[{\"a\":1},{\"b\":2}]\n\nnull\n", &[]).await.unwrap(), "a bigint, b bigint");
    assert_eq!(inferred("{\"a\":1}\nbroken\n5\n", &[]).await.unwrap(), "_corrupt_record string, a bigint");
    assert_eq!(inferred("{\"a\":1}\nbroken\n", &[("mode", "DROPMALFORMED")]).await.unwrap(), "a bigint");
    assert_eq!(inferred("broken\n", &[("mode", "FAILFAST")]).await.unwrap_err().kind(), ErrorKind::BadRecord);
    assert_eq!(inferred("", &[]).await.unwrap(), "");
    assert_eq!(inferred("{\"a\":1}\n{\"b\":1}\n{\"c\":1}\n{\"d\":1}\n", &[("samplingRatio", "0.5")]).await.unwrap(), "b bigint, d bigint");
}

#[test]
fn merging_is_symmetric_and_keeps_the_wider() {
    let kinds = [
        Kind::Null,
        Kind::Boolean,
        Kind::Long,
        Kind::Double,
        Kind::Decimal { precision: 2, scale: 1 },
        Kind::Decimal { precision: 38, scale: 20 },
        Kind::Text,
        Kind::Timestamp,
        Kind::Array(Box::new(Kind::Long)),
        Kind::Struct(Fields::from([("a".to_owned(), Kind::Long)])),
        Kind::Struct(Fields::from([("a".to_owned(), Kind::Double), ("b".to_owned(), Kind::Null)])),
    ];
    for one in &kinds {
        assert_eq!(&merge(one.clone(), one.clone()), one);
        for other in &kinds {
            let merged = merge(one.clone(), other.clone());
            assert_eq!(merged, merge(other.clone(), one.clone()));
            assert_eq!(merge(merged.clone(), other.clone()), merged);
        }
    }
}
