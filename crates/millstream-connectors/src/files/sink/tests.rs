use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use futures::stream::BoxStream;
use millstream_core::ErrorKind;
use millstream_core::conformance::sink::{SinkFactory, all, schema};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult,
};
use tempfile::TempDir;
use url::Url;
use uuid::Uuid;

use super::*;
use crate::files::manifest::Manifest;
use crate::rate::tests::ManualClock;
use crate::storage::Location;

const NOW: i64 = 1_704_067_200_000;

/// Identifiers 1, 2, 3 …, in the form of UUIDs.
#[derive(Debug, Default)]
struct Counted(AtomicU64);

impl Ids for Counted {
    fn next(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.0.fetch_add(1, Ordering::SeqCst) + 1))
    }
}

/// A folder, and what it takes to open sinks over it.
struct Folder {
    storage: Storage,
    url: String,
    clock: Arc<ManualClock>,
    ids: Arc<dyn Ids>,
    local: Option<TempDir>,
}

impl Folder {
    fn local() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new());
        let storage = Storage::new(move |path| {
            let url = Url::from_file_path(path).unwrap();
            Ok(Location { url, store: store.clone(), path: Path::parse(path).unwrap() })
        });
        let url = dir.path().join("out put").to_str().unwrap().to_owned();
        Folder { storage, url, clock: ManualClock::at(NOW), ids: Arc::new(Counted::default()), local: Some(dir) }
    }

    fn stored_in(store: Arc<dyn ObjectStore>) -> Self {
        let storage = Storage::new(move |url| {
            let url = Url::parse(url).unwrap();
            let path = Path::parse(url.path()).unwrap();
            Ok(Location { url, store: store.clone(), path })
        });
        Folder { storage, url: "s3://bucket/out".to_owned(), clock: ManualClock::at(NOW), ids: Arc::new(Counted::default()), local: None }
    }

    fn root(&self) -> Root {
        Root::new(&self.storage.open(&self.url).unwrap()).unwrap()
    }

    fn path(&self) -> PathBuf {
        self.local.as_ref().unwrap().path().join("out put")
    }

    async fn sink(&self, format: &str, options: &[(&str, &str)], partition_by: &[&str]) -> Arc<dyn Sink> {
        let (clock, ids): (Arc<dyn Clock>, _) = (self.clock.clone(), self.ids.clone());
        let providers = FileSinkProvider::all(&self.storage, &clock, &ids);
        let provider = providers.iter().find(|provider| provider.names().contains(&format)).unwrap();
        let request = WriteRequest {
            path: Some(self.url.clone()),
            partition_by: partition_by.iter().map(|name| (*name).to_owned()).collect(),
            options: options.iter().copied().collect(),
            query_name: None,
        };
        provider.sink(&request).await.unwrap()
    }

    /// The names of everything in the folder, identifiers left out, except the manifest.
    async fn files(&self) -> Vec<String> {
        let root = self.root();
        let listed: Vec<ObjectMeta> = futures::TryStreamExt::try_collect(root.store.list(Some(&root.path))).await.unwrap();
        let prefix = format!("{}/", root.path);
        let names = listed.iter().map(|meta| meta.location.as_ref().strip_prefix(&prefix).unwrap().to_owned());
        let id = regex::Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap();
        let mut names: Vec<String> =
            names.filter(|name| !name.starts_with("_spark_metadata")).map(|name| id.replace(&name, "<id>").into_owned()).collect();
        names.sort_unstable();
        names
    }

    /// The entries of the manifest.
    async fn manifest(&self) -> BTreeMap<String, String> {
        let root = self.root();
        let directory = root.path.clone().join("_spark_metadata");
        let mut entries = BTreeMap::new();
        for meta in root.store.list_with_delimiter(Some(&directory)).await.unwrap().objects {
            let bytes = root.store.get(&meta.location).await.unwrap().bytes().await.unwrap();
            entries.insert(meta.location.filename().unwrap().to_owned(), String::from_utf8(bytes.to_vec()).unwrap());
        }
        entries
    }

    /// The rows of the JSON files that the manifest names.
    async fn rows(&self) -> Vec<RecordBatch> {
        let root = self.root();
        let manifest = Manifest::default();
        if !manifest.discover(&root).await.unwrap() {
            return vec![];
        }
        let mut batches = Vec::new();
        for status in manifest.files(&root).await.unwrap().iter() {
            let file = root.file_ref(&status.url, status.size).unwrap();
            let bytes = file.store.get(&file.path).await.unwrap().bytes().await.unwrap();
            assert_eq!(bytes.len() as u64, status.size, "{}", status.url);
            let values: Vec<serde_json::Value> =
                std::str::from_utf8(&bytes).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let keys: ArrayRef = Arc::new(values.iter().map(|value| value["k"].as_str()).collect::<StringArray>());
            let numbers: ArrayRef = Arc::new(values.iter().map(|value| value["v"].as_i64()).collect::<Int64Array>());
            batches.push(RecordBatch::try_new(schema(), vec![keys, numbers]).unwrap());
        }
        batches
    }

    async fn count(&self) -> usize {
        self.rows().await.iter().map(RecordBatch::num_rows).sum()
    }
}

#[async_trait]
impl SinkFactory for Folder {
    async fn open(&self) -> Result<Arc<dyn Sink>> {
        Ok(self.sink("json", &[], &[]).await)
    }

    async fn visible(&self) -> Result<Vec<RecordBatch>> {
        Ok(self.rows().await)
    }
}

fn info(batch_id: u64, schema: &SchemaRef) -> BatchInfo {
    BatchInfo { query_id: Uuid::nil(), batch_id, mode: OutputMode::Append, schema: schema.clone(), timestamp_ms: NOW }
}

fn rows(pairs: &[(Option<&str>, i64)]) -> RecordBatch {
    let keys: ArrayRef = Arc::new(pairs.iter().map(|(key, _)| *key).collect::<StringArray>());
    let values: ArrayRef = Arc::new(pairs.iter().map(|(_, value)| Some(*value)).collect::<Int64Array>());
    RecordBatch::try_new(schema(), vec![keys, values]).unwrap()
}

async fn part(sink: &dyn Sink, batch: &BatchInfo, partition: usize, rows: Option<RecordBatch>) -> Part {
    let mut writer = sink.writer(batch, partition).await.unwrap();
    if let Some(rows) = rows {
        writer.write(rows).await.unwrap();
    }
    writer.finish().await.unwrap()
}

async fn try_put(sink: &dyn Sink, batch_id: u64, pairs: &[(Option<&str>, i64)]) -> Result<Committed> {
    let batch = info(batch_id, &schema());
    let part = part(sink, &batch, 0, Some(rows(pairs))).await;
    sink.commit(&batch, vec![part]).await
}

async fn put(sink: &dyn Sink, batch_id: u64, pairs: &[(Option<&str>, i64)]) {
    try_put(sink, batch_id, pairs).await.unwrap();
}

#[tokio::test]
async fn conforms_on_a_local_disk() {
    all(Folder::local).await.unwrap();
}

#[tokio::test]
async fn conforms_on_an_object_store() {
    all(|| Folder::stored_in(Arc::new(InMemory::new()))).await.unwrap();
}

/// Names and bytes recorded from Spark 4.2.
#[tokio::test]
async fn files_and_manifest_are_those_of_spark() {
    let folder = Folder::local();
    let sink = folder.sink("json", &[], &[]).await;
    assert_eq!(sink.description(), format!("FileSink[file:{}]", folder.path().display()));
    assert!(!sink.reports_rows());
    put(sink.as_ref(), 0, &[(Some("a"), 1)]).await;
    assert_eq!(folder.files().await, ["part-00000-<id>-c000.json"]);
    let path = folder.path().to_str().unwrap().replace(' ', "%20");
    let expected = format!(
        "v1\n{{\"path\":\"file://{path}/part-00000-00000000-0000-0000-0000-000000000001-c000.json\",\"size\":16,\"isDir\":false,\
         \"modificationTime\":{NOW},\"blockReplication\":1,\"blockSize\":33554432,\"action\":\"add\"}}"
    );
    assert_eq!(folder.manifest().await, BTreeMap::from([("0".to_owned(), expected)]));
}

#[tokio::test]
async fn the_first_task_leaves_a_file_without_rows_and_others_do_not() {
    let folder = Folder::local();
    let sink = folder.sink("parquet", &[], &[]).await;
    let batch = info(0, &schema());
    let parts = vec![part(sink.as_ref(), &batch, 0, None).await, part(sink.as_ref(), &batch, 1, None).await];
    sink.commit(&batch, parts).await.unwrap();
    assert_eq!(folder.files().await, ["part-00000-<id>-c000.snappy.parquet"]);
}

#[tokio::test]
async fn partitions_are_folders_and_may_be_all_there_is() {
    let folder = Folder::local();
    let sink = folder.sink("json", &[], &["K", "v"]).await;
    put(sink.as_ref(), 0, &[(Some("a/b"), 1), (None, 2), (Some("a/b"), 1), (Some(""), 2), (Some("é"), 3)]).await;
    assert_eq!(
        folder.files().await,
        [
            "k=__HIVE_DEFAULT_PARTITION__/v=2/part-00000-<id>.c000.json",
            "k=a%2Fb/v=1/part-00000-<id>.c000.json",
            "k=é/v=3/part-00000-<id>.c000.json"
        ]
    );
    assert!(folder.path().join("k=a%2Fb").is_dir(), "the name on the disk is escaped once");
    let manifest = folder.manifest().await;
    assert!(manifest["0"].contains("/k=a%252Fb/v=1/part-00000-"), "{}", manifest["0"]);
    let batches = folder.rows().await;
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 5, "rows are {{}}");
    // No rows: no folder, no file, but an entry.
    put(sink.as_ref(), 1, &[]).await;
    assert_eq!(folder.manifest().await["1"], "v1");
}

#[tokio::test]
async fn more_partitions_than_files_may_be_open_at_once() {
    let folder = Folder::local();
    let sink = folder.sink("json", &[], &["k"]).await;
    let keys: Vec<String> = (0..50).map(|i| format!("k{i}")).collect();
    let pairs: Vec<(Option<&str>, i64)> = keys.iter().map(|key| (Some(key.as_str()), 1)).collect();
    let batch = info(0, &schema());
    let mut writer = sink.writer(&batch, 0).await.unwrap();
    for _ in 0..3 {
        writer.write(rows(&pairs)).await.unwrap();
    }
    let part = writer.finish().await.unwrap();
    sink.commit(&batch, vec![part]).await.unwrap();
    assert_eq!(folder.count().await, 150);
}

#[tokio::test]
async fn the_rows_of_a_file_are_limited() {
    let folder = Folder::local();
    let sink = folder.sink("json", &[("maxRecordsPerFile", "2")], &[]).await;
    put(sink.as_ref(), 0, &[(Some("a"), 1), (Some("b"), 2), (Some("c"), 3), (Some("d"), 4), (Some("e"), 5)]).await;
    assert_eq!(folder.files().await, ["part-00000-<id>-c000.json", "part-00000-<id>-c001.json", "part-00000-<id>-c002.json"]);
    assert_eq!(folder.count().await, 5);
}

#[tokio::test]
async fn a_folder_keeps_the_batches_that_another_checkpoint_wrote() {
    let folder = Folder::local();
    put(folder.sink("json", &[], &[]).await.as_ref(), 0, &[(Some("a"), 1)]).await;
    let other = folder.sink("json", &[], &[]).await;
    let batch = BatchInfo { query_id: Uuid::from_u128(99), ..info(0, &schema()) };
    assert_eq!(other.admit(&batch).await.unwrap(), Admission::AlreadyCommitted);
    assert_eq!(other.admit(&BatchInfo { batch_id: 1, ..batch }).await.unwrap(), Admission::Write);
}

#[tokio::test]
async fn the_manifest_is_compacted_every_ten_batches_and_old_entries_go() {
    let folder = Folder::local();
    let sink = folder.sink("json", &[], &[]).await;
    for id in 0..20 {
        put(sink.as_ref(), id, &[(Some("a"), i64::try_from(id).unwrap())]).await;
    }
    let manifest = folder.manifest().await;
    assert!(manifest.contains_key("9.compact") && !manifest.contains_key("9"));
    assert_eq!(manifest["19.compact"].lines().count(), 21);
    // Readers under way may still need entries that were replaced a moment ago.
    for id in 20..130 {
        put(sink.as_ref(), id, &[]).await;
    }
    assert!(folder.manifest().await.contains_key("0"));
    folder.clock.advance(10 * 365 * 86_400_000);
    for id in 130..140 {
        put(sink.as_ref(), id, &[]).await;
    }
    let manifest = folder.manifest().await;
    assert_eq!(manifest.keys().filter_map(|name| name.trim_end_matches(".compact").parse::<u64>().ok()).min(), Some(39));
    assert_eq!(folder.count().await, 20);
}

#[tokio::test]
async fn retention_takes_old_files_out_of_the_manifest() {
    let folder = Folder::local();
    let sink = folder.sink("json", &[("retention", "1h")], &[]).await;
    for id in 0..9 {
        put(sink.as_ref(), id, &[(Some("a"), 1)]).await;
    }
    folder.clock.advance(3_600_001);
    put(sink.as_ref(), 9, &[(Some("b"), 2)]).await;
    assert_eq!(folder.count().await, 1);
    assert_eq!(folder.files().await.len(), 10, "the files themselves stay");
}

#[tokio::test]
async fn the_interval_of_a_folder_is_kept() {
    let folder = Folder::local();
    let root = folder.root();
    let directory = root.path.clone().join("_spark_metadata");
    for name in ["0", "1", "2.compact", "3", "4"] {
        root.store.put(&directory.clone().join(name), PutPayload::from_static(b"v1")).await.unwrap();
    }
    let sink = folder.sink("json", &[], &[]).await;
    put(sink.as_ref(), 5, &[(Some("a"), 1)]).await;
    put(sink.as_ref(), 11, &[(Some("b"), 1)]).await;
    let names: Vec<String> = folder.manifest().await.into_keys().collect();
    assert!(["5.compact", "8.compact", "9", "10", "11.compact"].iter().all(|name| names.iter().any(|known| known == name)), "{names:?}");
    assert_eq!(folder.count().await, 2);
}

#[tokio::test]
async fn a_missing_entry_stops_the_compaction() {
    let folder = Folder::local();
    let sink = folder.sink("json", &[], &[]).await;
    for id in 0..9 {
        put(sink.as_ref(), id, &[(Some("a"), 1)]).await;
    }
    std::fs::remove_file(folder.path().join("_spark_metadata/4")).unwrap();
    let error = try_put(sink.as_ref(), 9, &[(Some("b"), 2)]).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::DataLost, "BATCH_METADATA_NOT_FOUND"));
}

#[tokio::test]
async fn of_two_queries_on_one_folder_the_slower_is_stopped() {
    let folder = Folder::local();
    let (first, second) = (folder.sink("json", &[], &[]).await, folder.sink("json", &[], &[]).await);
    assert_eq!(first.admit(&info(0, &schema())).await.unwrap(), Admission::Write);
    assert_eq!(second.admit(&info(0, &schema())).await.unwrap(), Admission::Write);
    put(first.as_ref(), 0, &[(Some("a"), 1)]).await;
    let error = try_put(second.as_ref(), 0, &[(Some("b"), 2)]).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Fenced, "CONCURRENT_STREAM_LOG_UPDATE"));
    assert_eq!(folder.count().await, 1);
}

#[tokio::test]
async fn committing_again_removes_the_files_of_the_second_attempt_only() {
    let folder = Folder::local();
    let sink = folder.sink("json", &[], &[]).await;
    let batch = info(0, &schema());
    let first = part(sink.as_ref(), &batch, 0, Some(rows(&[(Some("a"), 1)]))).await;
    sink.commit(&batch, vec![first.clone()]).await.unwrap();
    sink.commit(&batch, vec![first]).await.unwrap();
    assert_eq!(folder.files().await.len(), 1);
    put(sink.as_ref(), 0, &[(Some("z"), 9)]).await;
    assert_eq!(folder.files().await.len(), 1);
    assert_eq!(folder.count().await, 1);
}

#[tokio::test]
async fn aborting_leaves_no_files() {
    let folder = Folder::local();
    let sink = folder.sink("json", &[], &["k"]).await;
    let batch = info(0, &schema());
    let part = part(sink.as_ref(), &batch, 0, Some(rows(&[(Some("a"), 1), (Some("b c"), 2)]))).await;
    assert_eq!(folder.files().await.len(), 2);
    sink.abort(&batch, vec![part]).await;
    assert!(folder.files().await.is_empty());
}

#[tokio::test]
async fn aborting_what_is_committed_after_all_removes_nothing() {
    let folder = Folder::local();
    let sink = folder.sink("json", &[], &[]).await;
    for id in [0, 9] {
        let batch = info(id, &schema());
        let part = part(sink.as_ref(), &batch, 0, Some(rows(&[(Some("a"), 1)]))).await;
        sink.commit(&batch, vec![part.clone()]).await.unwrap();
        sink.abort(&batch, vec![part]).await;
    }
    assert_eq!(folder.count().await, 2);
    assert_eq!(folder.files().await.len(), 2);
}

#[tokio::test]
async fn a_restart_may_change_the_schema() {
    let folder = Folder::local();
    let sink = folder.sink("parquet", &[], &[]).await;
    put(sink.as_ref(), 0, &[(Some("a"), 1)]).await;
    let wider = Arc::new(Schema::new(vec![Field::new("w", DataType::Utf8, true)]));
    let batch = info(1, &wider);
    let column: ArrayRef = Arc::new(StringArray::from(vec!["B"]));
    let part = part(sink.as_ref(), &batch, 0, Some(RecordBatch::try_new(wider.clone(), vec![column]).unwrap())).await;
    assert_eq!(sink.commit(&batch, vec![part]).await.unwrap().rows, 1);
    assert_eq!(folder.files().await.len(), 2);
}

#[tokio::test]
async fn what_a_query_gets_wrong_is_refused_before_its_first_batch() {
    let folder = Folder::local();
    let code = |error: Error| (error.code().to_owned(), error.sqlstate().map(str::to_owned));
    let sink = folder.sink("json", &[], &[]).await;
    for mode in [OutputMode::Update, OutputMode::Complete] {
        let (code, sqlstate) = code(sink.prepare(&schema(), mode).await.unwrap_err());
        assert_eq!((code.as_str(), sqlstate.as_deref()), ("STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE", Some("42KDE")));
    }
    let sink = folder.sink("json", &[], &["nope"]).await;
    assert_eq!(code(sink.prepare(&schema(), OutputMode::Append).await.unwrap_err()).0, "_LEGACY_ERROR_TEMP_1196");
    let sink = folder.sink("text", &[], &[]).await;
    assert_eq!(code(sink.prepare(&schema(), OutputMode::Append).await.unwrap_err()).0, "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE");

    let (clock, ids): (Arc<dyn Clock>, _) = (folder.clock.clone(), folder.ids.clone());
    let provider = FileSinkProvider::all(&folder.storage, &clock, &ids).remove(0);
    assert_eq!(code(provider.sink(&WriteRequest::default()).await.unwrap_err()).0, "_LEGACY_ERROR_TEMP_2047");
    let request =
        WriteRequest { path: Some(folder.url.clone()), options: [("retention", "soon")].into_iter().collect(), ..WriteRequest::default() };
    assert_eq!(code(provider.sink(&request).await.unwrap_err()).0, "INVALID_OPTION_VALUE");
    assert!(!folder.path().exists(), "nothing is touched");
}

/// A store whose creation of manifest entries fails, before or after it took effect.
#[derive(Debug)]
struct Faulty {
    inner: InMemory,
    failures: AtomicUsize,
    takes_effect: bool,
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> object_store::Result<PutResult> {
        let fails = location.as_ref().contains("_spark_metadata")
            && self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if fails && !self.takes_effect {
            return Err(object_store::Error::Generic { store: "faulty", source: "refused".into() });
        }
        let put = self.inner.put_opts(location, payload, options).await;
        if fails { Err(object_store::Error::Generic { store: "faulty", source: "the answer was lost".into() }) } else { put }
    }

    async fn put_multipart_opts(&self, location: &Path, options: PutMultipartOptions) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, object_store::Result<Path>>) -> BoxStream<'static, object_store::Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_found_out() {
    for (takes_effect, visible) in [(true, 1), (false, 0)] {
        let store = Faulty { inner: InMemory::new(), failures: AtomicUsize::new(1), takes_effect };
        let folder = Folder::stored_in(Arc::new(store));
        let sink = folder.sink("json", &[], &[]).await;
        let outcome = try_put(sink.as_ref(), 0, &[(Some("a"), 1)]).await;
        assert_eq!(outcome.is_ok(), takes_effect);
        if let Err(error) = outcome {
            assert_eq!((error.kind(), error.code()), (ErrorKind::SinkUnavailable, "SINK_LOG_UNAVAILABLE"));
        }
        assert_eq!(folder.count().await, visible);
        let expected = if takes_effect { Admission::AlreadyCommitted } else { Admission::Write };
        assert_eq!(sink.admit(&info(0, &schema())).await.unwrap(), expected);
        put(sink.as_ref(), 1, &[(Some("b"), 2)]).await;
        assert_eq!(folder.count().await, visible + 1);
    }
}

#[tokio::test]
async fn a_large_file_is_uploaded_in_parts() {
    let folder = Folder::stored_in(Arc::new(InMemory::new()));
    let sink = folder.sink("json", &[], &[]).await;
    let long = "x".repeat(200);
    let pairs: Vec<(Option<&str>, i64)> = (0..8_000).map(|i| (Some(long.as_str()), i)).collect();
    let batch = info(0, &schema());
    let mut writer = sink.writer(&batch, 0).await.unwrap();
    for _ in 0..5 {
        writer.write(rows(&pairs)).await.unwrap();
    }
    let part = writer.finish().await.unwrap();
    assert!(part.bytes > 8_000_000);
    assert_eq!(sink.commit(&batch, vec![part]).await.unwrap().rows, 40_000);
    assert_eq!(folder.count().await, 40_000);
}
