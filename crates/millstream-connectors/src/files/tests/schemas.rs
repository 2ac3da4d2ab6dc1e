//! What is checked and found out before anything is read, and tables.

use std::fs;

use super::*;

async fn refused(world: &World, request: &ReadRequest, streaming: bool) -> String {
    world.provider().schema(request, streaming).await.unwrap_err().code().to_owned()
}

/// A format whose schema is not fixed: one column per file.
#[derive(Debug)]
struct Inferred;

#[async_trait]
impl FileFormat for Inferred {
    fn names(&self) -> &'static [&'static str] {
        &["inferred"]
    }

    fn options(&self) -> Vec<millstream_core::OptionSpec> {
        vec![]
    }

    async fn infer(&self, files: &[crate::formats::FileRef], _: &Options) -> Result<SchemaRef> {
        let name = |file: &crate::formats::FileRef| file.url.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(Arc::new(Schema::new(files.iter().map(|file| Field::new(name(file), DataType::Utf8, false)).collect::<Vec<_>>())))
    }

    fn reader(&self, _: SchemaRef, options: &Options) -> Result<Arc<dyn crate::formats::FileReader>> {
        Text.reader(schema(&[]), options)
    }
}

#[tokio::test]
async fn what_spark_refuses_while_loading() {
    let world = World { format: Arc::new(Inferred), ..World::new() };
    assert_eq!(refused(&world, &ReadRequest::default(), true).await, "_LEGACY_ERROR_TEMP_2047");
    assert_eq!(refused(&world, &world.request("in", &[]), true).await, "_LEGACY_ERROR_TEMP_2048");
    assert_eq!(refused(&world, &world.request("in", &[("schemaInference", "true")]), true).await, "UNABLE_TO_INFER_SCHEMA");
    assert_eq!(refused(&world, &world.request("in", &[]), false).await, "UNABLE_TO_INFER_SCHEMA");
    for streaming in [true, false] {
        let error = world.provider().schema(&world.request("nowhere", &[]), streaming).await.unwrap_err();
        assert_eq!((error.code(), error.sqlstate()), ("PATH_NOT_FOUND", Some("42K03")));
    }
    assert_eq!(refused(&world, &world.request("in/*/x", &[]), false).await, "PATH_NOT_FOUND");
}

#[tokio::test]
async fn options_are_checked_when_the_query_starts() {
    let world = World::new();
    for option in [("maxFilesPerTrigger", "0"), ("modifiedAfter", "2024-01-01T00:00:00"), ("lineSep", "")] {
        let request = world.request("in", &[option]);
        assert!(world.provider().schema(&request, true).await.is_ok(), "{option:?}");
        assert!(world.open(request).await.is_err(), "{option:?}");
    }
}

#[tokio::test]
async fn a_schema_is_inferred_where_it_may_be() {
    let world = World { format: Arc::new(Inferred), ..World::new() };
    world.put("p=1/a", "x", 0);
    world.put("p=2/b", "x", 1);
    for (streaming, options) in [(true, &[("schemaInference", "true")][..]), (false, &[])] {
        let schema = world.provider().schema(&world.request("in", options), streaming).await.unwrap();
        let fields: Vec<(&str, bool)> = schema.fields().iter().map(|field| (field.name().as_str(), field.is_nullable())).collect();
        assert_eq!(fields, [("a", true), ("b", true), ("p", true), ("_metadata", false)]);
    }
}

#[tokio::test]
async fn every_column_becomes_nullable_through_and_through() {
    let item = |nullable| Arc::new(Field::new("item", DataType::Int32, nullable));
    let key = || Field::new("key", DataType::Utf8, false);
    let entries = |nullable| {
        let parts = DataType::Struct(vec![key(), Field::new("value", DataType::Int32, nullable)].into());
        DataType::Map(Arc::new(Field::new("entries", parts, false)), false)
    };
    let column = |nullable| {
        let parts = vec![Field::new("list", DataType::List(item(nullable)), nullable), Field::new("map", entries(nullable), nullable)];
        Field::new("s", DataType::Struct(parts.into()), nullable)
    };
    let world = World::new();
    let mut request = world.request("in", &[]);
    request.schema = Some(Arc::new(Schema::new(vec![column(false)])));
    let schema = world.provider().schema(&request, true).await.unwrap();
    assert_eq!(schema.field(0), &column(true));
}

#[tokio::test]
async fn a_column_of_the_data_may_be_called_metadata() {
    let world = World::new();
    world.put("a", "a", 0);
    let mut request = world.request("in", &[]);
    request.schema = Some(Arc::new(Schema::new(vec![Field::new("_metadata", DataType::Utf8, true)])));
    let mut query = Query::new(world.open(request).await.unwrap());
    assert_eq!(query.batch(&["_metadata"]).await.unwrap(), ["a"]);
}

#[tokio::test]
async fn every_option_is_documented_once() {
    let options = World::new().provider().options();
    let mut names: Vec<String> = options.iter().map(|spec| spec.name.to_lowercase()).collect();
    names.sort();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(names.contains(&"maxfilespertrigger".to_owned()) && names.contains(&"wholetext".to_owned()));
    assert!(options.iter().all(|spec| spec.doc.ends_with('.')));
}

#[tokio::test]
async fn a_table_is_the_files_that_were_there_with_their_present_content() {
    let world = World::new();
    world.put("p=1/a", "a", 0);
    let request = world.request("in", &[]);
    let provider = world.provider();
    let schema = provider.schema(&request, false).await.unwrap();
    let table = provider.table(&ReadRequest { schema: Some(schema.clone()), ..request.clone() }).await.unwrap();
    let rows = async || rows_of(&table.scan().await.unwrap(), &schema, &["value", "p"], &Arc::default()).await;
    assert_eq!(rows().await.unwrap(), ["a|1"]);
    world.put("p=2/b", "b", 1);
    world.put("p=1/a", "changed", 2);
    assert_eq!(rows().await.unwrap(), ["changed|1"]);
    fs::remove_file(world.path("in/p=1/a")).unwrap();
    assert!(rows().await.is_err());
    assert_eq!(table_rows(&world, &request, &["value", "p"]).await.unwrap(), ["b|2"]);
}

#[tokio::test]
async fn a_table_may_be_cut_by_modification_time_and_have_several_paths() {
    let world = World::new();
    world.put("one/a", "a", 0);
    world.put("two/b", "b", 60);
    world.put("two/c", "c", 120);
    let mut request = world.request("in", &[("modifiedAfter", "2023-11-14T22:13:20"), ("modifiedBefore", "2023-11-14T22:15:20")]);
    request.paths = ["in/one", "in/two"].map(|name| world.path(name).display().to_string()).to_vec();
    assert_eq!(table_rows(&world, &request, &["value"]).await.unwrap(), ["b"]);
    request.options = Options::new();
    assert_eq!(table_rows(&world, &request, &["value"]).await.unwrap(), ["a", "b", "c"]);
}

#[tokio::test]
async fn the_manifest_of_a_streaming_sink_says_what_is_read() {
    let world = World::new();
    for (name, at) in [("a", 0), ("b", 1), ("stray", 2), ("c", 3)] {
        world.put(name, name, at);
    }
    let manifest = world.path("in/_spark_metadata");
    fs::create_dir(&manifest).unwrap();
    let line = |name: &str| {
        format!(
            r#"{{"path":"{}","size":1,"isDir":false,"modificationTime":1700000000000,"blockReplication":1,"blockSize":33554432,"action":"add"}}"#,
            world.url(&format!("in/{name}"))
        )
    };
    fs::write(manifest.join("0"), format!("v1\n{}", line("a"))).unwrap();
    let request = world.request("in", &[]);
    let mut query = Query::new(world.open(request.clone()).await.unwrap());
    assert_eq!(query.batches().await, [["a"]]);
    fs::write(manifest.join("1.compact"), format!("v1\n{}\n{}", line("a"), line("b"))).unwrap();
    assert_eq!(query.batches().await, [["b"]]);
    fs::write(manifest.join("2"), format!("v1\n{}", line("c"))).unwrap();
    assert_eq!(table_rows(&world, &request, &["value"]).await.unwrap(), ["a", "b", "c"]);
    fs::write(manifest.join("4"), "v1").unwrap();
    let error = table_rows(&world, &request, &["value"]).await.unwrap_err();
    assert_eq!((error.code(), error.message().contains("batch 3")), ("BATCH_METADATA_NOT_FOUND", true));
    let cleaning = world.open_with(world.request("in", &[("cleanSource", "delete")]), new_log()).await;
    assert_eq!(cleaning.unwrap_err().code(), "BATCH_METADATA_NOT_FOUND");
    fs::remove_file(manifest.join("4")).unwrap();
    let cleaning = world.open_with(world.request("in", &[("cleanSource", "delete")]), new_log()).await.unwrap();
    assert_eq!(cleaning.latest_offset(None, &all()).await.unwrap_err().code(), "INVALID_OPTION_VALUE");
}
