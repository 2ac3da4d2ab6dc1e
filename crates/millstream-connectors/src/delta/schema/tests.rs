use super::*;

fn delta(fields: Vec<Field>) -> StructType {
    from_arrow(&Schema::new(fields)).unwrap()
}

#[test]
fn types_are_stored_as_spark_stores_them() {
    let nested = DataType::Struct(Fields::from(vec![Field::new("n", DataType::LargeUtf8, false)]));
    let schema = delta(vec![
        Field::new("t", DataType::Timestamp(TimeUnit::Nanosecond, Some("Europe/Paris".into())), false),
        Field::new("n", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        Field::new("s", nested, false),
        Field::new("d", DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8View)), true),
        Field::new("l", DataType::LargeList(Arc::new(Field::new("item", DataType::Decimal128(10, 2), false))), true),
    ]);
    let json = serde_json::to_string(&schema).unwrap();
    for part in
        [r#""name":"t","type":"timestamp","nullable":true"#, r#""type":"timestamp_ntz""#, r#""decimal(10,2)""#, r#""containsNull":true"#]
    {
        assert!(json.contains(part), "{part} in {json}");
    }
    assert!(!json.contains(r#""nullable":false"#), "{json}");
    assert!(has_timestamp_ntz(&schema));
}

#[test]
fn what_delta_cannot_store_is_refused_by_column() {
    for (name, data_type, code) in [
        ("u", DataType::UInt64, "DELTA_UNSUPPORTED_DATA_TYPES"),
        ("v", DataType::Null, "DELTA_NULL_SCHEMA_IN_STREAMING_WRITE"),
        ("a b", DataType::Int64, "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"),
    ] {
        let error = from_arrow(&Schema::new(vec![Field::new(name, data_type, true)])).unwrap_err();
        assert_eq!(error.code(), code);
        assert!(error.message().contains(&format!("'{name}'")), "{error}");
    }
    let twice = Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("A", DataType::Int64, true)]);
    assert_eq!(from_arrow(&twice).unwrap_err().code(), "DELTA_DUPLICATE_COLUMNS_FOUND");
}

#[test]
fn merging_adds_columns_on_every_level_and_never_changes_types() {
    let inner = |extra: bool| {
        let mut fields = vec![Field::new("x", DataType::Int32, true)];
        if extra {
            fields.push(Field::new("y", DataType::Utf8, true));
        }
        DataType::Struct(fields.into())
    };
    let table = delta(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("s", inner(false), true),
        Field::new("l", DataType::List(Arc::new(Field::new("element", inner(false), true))), true),
    ]);
    let rows = delta(vec![
        Field::new("new", DataType::Date32, true),
        Field::new("ID", DataType::Int32, true),
        Field::new("s", inner(true), true),
        Field::new("l", DataType::List(Arc::new(Field::new("element", inner(true), true))), true),
    ]);
    let merged = merge(&table, &rows).unwrap().unwrap();
    assert_eq!(added(&table, &merged), ["s.y", "l.y", "new"]);
    assert_eq!(merged.field("id").unwrap().data_type(), &DeltaType::LONG);
    assert!(merge(&table, &delta(vec![Field::new("id", DataType::Int64, true)])).unwrap().is_none());

    let error = merge(&table, &delta(vec![Field::new("id", DataType::Utf8, true)])).unwrap_err();
    assert_eq!((error.code(), error.kind()), ("DELTA_FAILED_TO_MERGE_FIELDS", ErrorKind::SchemaMismatch));
    assert!(error.message().contains("'id'"), "{error}");
}
