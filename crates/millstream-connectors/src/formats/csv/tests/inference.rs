//! Schema inference, recorded from Spark 4.2.

use super::*;

async fn inferred(pairs: &[(&str, &str)], contents: &[&str]) -> String {
    let mut files = Vec::new();
    for content in contents {
        files.push(remote("f", content.as_bytes()).await);
    }
    let all = options(pairs);
    let all = if all.get("inferSchema").is_some() { all } else { all.with("inferSchema", "true") };
    match Csv.infer(&files, &all).await {
        Ok(schema) => {
            schema.fields().iter().map(|field| format!("{}:{}", field.name(), kind(field.data_type()))).collect::<Vec<_>>().join(",")
        }
        Err(error) => error.code().to_owned(),
    }
}

fn kind(kind: &DataType) -> String {
    match kind {
        DataType::Decimal128(precision, scale) => format!("decimal({precision},{scale})"),
        other => super::super::column::type_name(other).to_owned(),
    }
}

#[tokio::test]
async fn single_values() {
    for (text, kind) in [
        ("1", "int"),
        ("+5", "int"),
        ("3000000000", "bigint"),
        ("12345678901234567890", "decimal(20,0)"),
        ("123456789012345678901234567890123456789", "double"),
        ("1.5", "double"),
        ("1e3", "double"),
        ("NaN", "double"),
        ("Inf", "double"),
        (" 1", "double"),
        ("5.", "decimal(1,0)"),
        ("2024-01-02", "date"),
        ("2024-1-2", "timestamp"),
        ("2024", "int"),
        ("2024-01", "timestamp"),
        ("2024-01-02 03:04:05", "timestamp"),
        ("2024-01-02T03:04:05Z", "timestamp"),
        ("TRUE", "boolean"),
        ("t", "string"),
        ("", "string"),
        ("1,000", "string"),
        ("0x1", "string"),
    ] {
        assert_eq!(inferred(&[], &[&format!("\"{text}\"\n")]).await, format!("_c0:{kind}"), "{text}");
    }
}

#[tokio::test]
async fn values_that_differ() {
    for (a, b, kind) in [
        ("1", "3000000000", "bigint"),
        ("1", "1.5", "double"),
        ("1", "12345678901234567890", "decimal(20,0)"),
        ("12345678901234567890", "1.5", "double"),
        ("1", "abc", "string"),
        ("true", "1", "string"),
        ("2024-01-02", "2024-01-02 03:04:05", "timestamp"),
        ("2024-01-02 03:04:05", "2024-01-02", "timestamp"),
        ("1", "2024-01-02", "string"),
        ("2024-01-02", "true", "string"),
        ("1", "2024", "int"),
    ] {
        assert_eq!(inferred(&[], &[&format!("{a}\n{b}\n")]).await, format!("_c0:{kind}"), "{a} {b}");
    }
    assert_eq!(inferred(&[], &["x,\nx,1\n"]).await, "_c0:string,_c1:int");
}

#[tokio::test]
async fn formats_of_dates() {
    let both = "2024-01-02\n2024-01-02 03:04:05\n";
    assert_eq!(inferred(&[("preferDate", "false")], &["2024-01-02\n"]).await, "_c0:timestamp");
    assert_eq!(inferred(&[("dateFormat", "dd/MM/yyyy")], &["02/01/2024\n"]).await, "_c0:date");
    assert_eq!(inferred(&[("dateFormat", "dd/MM/yyyy")], &["2024-01-02\n"]).await, "_c0:timestamp");
    assert_eq!(inferred(&[("dateFormat", "dd/MM/yyyy")], &["02/01/2024\n2024-01-02 03:04:05\n"]).await, "_c0:string");
    assert_eq!(inferred(&[("timestampFormat", "yyyy-MM-dd HH:mm:ss")], &[both]).await, "_c0:string");
    assert_eq!(inferred(&[("dateFormat", "yyyy-MM-dd")], &[both]).await, "_c0:timestamp");
}

#[tokio::test]
async fn names_come_from_the_header() {
    let header = [("header", "true")];
    assert_eq!(inferred(&header, &["a,b\n1,2\n"]).await, "a:int,b:int");
    assert_eq!(inferred(&header, &["a,b,a,A,,\n1,2,3,4,5,6\n"]).await, "a0:int,b:int,a2:int,A3:int,_c4:int,_c5:int");
    assert_eq!(inferred(&header, &["a,b\n1,2,3\n"]).await, "a:int,b:int");
    assert_eq!(inferred(&header, &["a,b,c\n1,2\n"]).await, "a:int,b:int,c:string");
    assert_eq!(inferred(&header, &["", "a\n1\n", "a\n1.5\n"]).await, "a:double");
    assert_eq!(inferred(&[("header", "true"), ("comment", "#")], &["\n#c\na,b\n1,2\n"]).await, "a:int,b:int");
    assert_eq!(inferred(&[("header", "true"), ("nullValue", "NA")], &["NA,b\n1,NA\n2,3\n"]).await, "_c0:int,b:int");
    assert_eq!(inferred(&[("header", "true"), ("multiLine", "true")], &["a,\"b c\"\n1,\"x\ny\"\n"]).await, "a:int,b c:string");
    assert_eq!(inferred(&[("inferSchema", "false")], &["1,2\n"]).await, "_c0:string,_c1:string");
    assert_eq!(inferred(&[("inferSchema", "false"), ("header", "true")], &["a,b\n"]).await, "a:string,b:string");
    assert_eq!(inferred(&[], &["1,2\n3\n"]).await, "_c0:int,_c1:int");
    assert_eq!(inferred(&[], &["", "\n\n"]).await, "");
}

/// `conformance/cases/sources.py`, `json_and_csv_schema_inferred_when_allowed`.
#[tokio::test]
async fn the_recorded_case() {
    let content = "i,f,d,ts,s,e\n1,1.5,2024-01-02,2024-01-02 03:04:05,x,\n2,2,2024-01-03,2024-01-02T03:04:05Z,3,\n";
    assert_eq!(inferred(&[("header", "true")], &[content]).await, "i:int,f:double,d:date,ts:timestamp,s:string,e:string");
    assert_eq!(
        inferred(&[("inferSchema", "false")], &[content]).await,
        "_c0:string,_c1:string,_c2:string,_c3:string,_c4:string,_c5:string"
    );
}
