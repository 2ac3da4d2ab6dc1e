//! Partition directories and the `_metadata` column.

use super::*;

async fn read(world: &World, columns: &[(&str, DataType)], options: &[(&str, &str)], wanted: &[&str]) -> Result<Vec<String>> {
    let mut request = world.request("in", options);
    request.schema = Some(schema(columns));
    Query::new(world.open_with(request, new_log()).await?).try_batch(wanted).await.map(Option::unwrap_or_default)
}

#[tokio::test]
async fn columns_outside_the_schema_are_appended_with_an_inferred_type() {
    let world = World::new();
    world.put("day=2024-01-01/hour=7/a", "a", 0);
    let source = world.source(&[]).await;
    let schema = source.schema();
    let fields: Vec<(&str, &DataType)> = schema.fields().iter().map(|field| (field.name().as_str(), field.data_type())).collect();
    assert_eq!(fields[..3], [("value", &DataType::Utf8), ("day", &DataType::Date32), ("hour", &DataType::Int32)]);
    assert_eq!(fields[3].0, "_metadata");
    assert_eq!(Query::new(source).batch(&["hour", "value", "day"]).await.unwrap(), ["7|a|2024-01-01"]);
}

#[tokio::test]
async fn declared_columns_keep_their_type_and_move_behind_the_data() {
    let world = World::new();
    world.put("P=7/a", "a", 0);
    let mut request = world.request("in", &[]);
    request.schema = Some(Arc::new(Schema::new(vec![Field::new("p", DataType::Int64, false), Field::new("value", DataType::Utf8, false)])));
    let schema = world.provider().schema(&request, true).await.unwrap();
    let fields: Vec<(&str, &DataType, bool)> =
        schema.fields().iter().map(|field| (field.name().as_str(), field.data_type(), field.is_nullable())).collect();
    assert_eq!(fields[..2], [("value", &DataType::Utf8, true), ("p", &DataType::Int64, true)]);
    assert_eq!(read(&world, &[("p", DataType::Int64)], &[], &["value", "p"]).await.unwrap(), ["a|7"]);
}

#[tokio::test]
async fn values_are_unescaped_and_null_is_read() {
    let world = World::new();
    world.put("p=a%20b%2Fc/a", "a", 0);
    world.put("p=žluť/b", "b", 1);
    world.put("p=x=y/c", "c", 2);
    world.put("p=__HIVE_DEFAULT_PARTITION__/d", "d", 3);
    world.put("p=with space/e", "e", 4);
    let rows = read(&world, &[("p", DataType::Utf8)], &[], &["value", "p"]).await.unwrap();
    assert_eq!(rows, ["a|a b/c", "b|žluť", "c|x=y", "d|null", "e|with space"]);
}

#[tokio::test]
async fn a_value_of_the_wrong_type_is_refused() {
    let world = World::new();
    world.put("p=1/a", "a", 0);
    let mut request = world.request("in", &[]);
    request.schema = Some(schema(&[("p", DataType::Int32)]));
    let mut query = Query::new(world.open(request).await.unwrap());
    assert_eq!(query.batch(&["value", "p"]).await.unwrap(), ["a|1"]);
    world.put("p=abc/b", "b", 1);
    assert_eq!(query.try_batch(&["value", "p"]).await.unwrap_err().code(), "INVALID_PARTITION_VALUE");
    let error = read(&world, &[("p", DataType::Int32)], &[], &["p"]).await.unwrap_err();
    assert_eq!((error.code(), error.sqlstate()), ("INVALID_PARTITION_VALUE", Some("42846")));
}

#[tokio::test]
async fn directories_may_appear_later_and_files_may_lie_beside_them() {
    let world = World::new();
    world.put("p=1/a", "a", 0);
    let mut query = Query::new(world.source(&[]).await);
    assert_eq!(query.batch(&["value", "p"]).await.unwrap(), ["a|1"]);
    world.put("p=2/b", "b", 1);
    world.put("p=1/sub/c", "c", 2);
    world.put("top", "top", 3);
    assert_eq!(query.batch(&["value", "p"]).await.unwrap(), ["b|2", "c|1", "top|null"]);
}

#[tokio::test]
async fn the_base_path_says_where_partitions_begin() {
    let world = World::new();
    world.put("p=1/q=2/a", "a", 0);
    let columns = |path: &str, options: &[(&str, &str)]| {
        let request = world.request(path, options);
        let provider = world.provider();
        async move {
            let schema = provider.schema(&request, true).await?;
            Ok::<_, millstream_core::Error>(schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>())
        }
    };
    let base = world.path("in").display().to_string();
    assert_eq!(columns("in", &[]).await.unwrap(), ["value", "p", "q", "_metadata"]);
    assert_eq!(columns("in/p=1", &[]).await.unwrap(), ["value", "q", "_metadata"]);
    assert_eq!(columns("in/p=1", &[("basePath", &base)]).await.unwrap(), ["value", "p", "q", "_metadata"]);
    assert_eq!(columns("in/p=*", &[]).await.unwrap(), ["value", "q", "_metadata"]);
    assert_eq!(columns("in/p=*", &[("basePath", &base)]).await.unwrap(), ["value", "p", "q", "_metadata"]);
    assert_eq!(columns("in", &[("recursiveFileLookup", "true")]).await.unwrap(), ["value", "_metadata"]);
    let other = world.path("elsewhere").display().to_string();
    assert_eq!(columns("in", &[("basePath", &other)]).await.unwrap_err().code(), "INVALID_OPTION_VALUE");
}

#[tokio::test]
async fn mixed_structures_are_refused() {
    for names in [["a=1/x", "sub/y"], ["a=1/x", "sub/a=2/y"]] {
        let world = World::new();
        names.iter().for_each(|name| drop(world.put(name, "x", 0)));
        let error = world.provider().schema(&world.request("in", &[]), true).await.unwrap_err();
        assert_eq!(error.code(), "CONFLICTING_DIRECTORY_STRUCTURES", "{names:?}");
    }
    let world = World::new();
    world.put("a=1/x", "x", 0);
    world.put("b=1/y", "y", 0);
    let error = world.provider().schema(&world.request("in", &[]), true).await.unwrap_err();
    assert_eq!(error.code(), "CONFLICTING_PARTITION_COLUMN_NAMES");
}

#[tokio::test]
async fn metadata_describes_the_file_of_each_row() {
    let world = World::new();
    let names = ["with space", "per%cent", "hash#tag", "plus+and&", "žluť", "q'uote", "a=b", "20%25"];
    for (at, name) in (0..).zip(names) {
        world.put(name, name, at);
    }
    let source = world.source(&[]).await;
    assert!(crate::files::is_hidden(source.schema().field_with_name("_metadata").unwrap()));
    let rows = Query::new(source).batch(&["_metadata", "value"]).await.unwrap();
    for (name, encoded, at) in
        [("with space", "with%20space", 0), ("per%cent", "per%25cent", 1), ("žluť", "žluť", 4), ("20%25", "20%2525", 7)]
    {
        let (url, size) = (world.url(&format!("in/{encoded}")), name.len());
        let expected = format!(
            "{{file_path: {url}, file_name: {encoded}, file_size: {size}, file_block_start: 0, file_block_length: {size}, \
             file_modification_time: 2023-11-14T22:13:{}Z}}|{name}",
            20 + at
        );
        assert!(rows.contains(&expected), "{expected} in {rows:#?}");
    }
}

#[tokio::test]
async fn no_columns_are_still_rows() {
    let world = World::new();
    world.put("p=1/a", "a\nb", 0);
    world.put("p=1/b", "c", 1);
    let source = world.source(&[]).await;
    let end = source.latest_offset(None, &all()).await.unwrap().unwrap();
    let mut rows = 0;
    for split in source.plan(None, &end).await.unwrap() {
        let context = ReadContext { projection: vec![], batch_size: 100, quarantine: Arc::new(Kept::default()) };
        rows += split.read(context).try_collect::<Vec<_>>().await.unwrap().iter().map(RecordBatch::num_rows).sum::<usize>();
    }
    assert_eq!(rows, 3);
}
