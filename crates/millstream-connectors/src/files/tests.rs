//! A directory, a checkpoint's log and a source over them; the tests by subject.

mod cleaning;
mod discovery;
mod faults;
mod partitions;
mod recovery;
mod schemas;
mod stores;
mod volume;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use async_trait::async_trait;
use futures::TryStreamExt;
use millstream_core::quarantine::{BadRecord, Quarantine};
use millstream_core::registry::{ReadRequest, SourceContext, SourceProvider};
use millstream_core::source::{ReadContext, Source, Split};
use millstream_core::source_log::{MemorySourceLog, SourceLog};
use millstream_core::{Clock, Offset, Options, ReadLimit, Result};
use object_store::ObjectStoreExt;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use url::Url;

use super::FilesProvider;
use crate::formats::FileFormat;
use crate::formats::text::Text;
use crate::storage::{Location, Storage};

/// The time of the first file of a test, in seconds since 1970.
const T0: u64 = 1_700_000_000;

/// Real time, or pauses that take no time and are noted.
#[derive(Debug, Default)]
struct TestClock {
    instant: bool,
    pauses: parking_lot::Mutex<Vec<u64>>,
}

#[async_trait]
impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        0
    }

    fn monotonic_ns(&self) -> u64 {
        0
    }

    async fn sleep(&self, duration: Duration) {
        self.pauses.lock().push(duration.as_secs());
        if !self.instant {
            tokio::time::sleep(duration).await;
        }
    }
}

/// Keeps what it is given.
#[derive(Default)]
struct Kept(parking_lot::Mutex<Vec<BadRecord>>);

impl Quarantine for Kept {
    fn put(&self, record: BadRecord) {
        self.0.lock().push(record);
    }
}

impl Kept {
    fn reasons(&self) -> Vec<(String, String)> {
        let name = |url: &str| url.rsplit('/').next().unwrap_or_default().to_owned();
        self.0.lock().iter().map(|bad| (bad.reason.clone(), name(&bad.origin))).collect()
    }
}

/// Storage of this machine, and of one store in memory under `memory://store/`.
fn storage(memory: Arc<InMemory>) -> Storage {
    Storage::new(move |location| {
        if location.starts_with("memory://") {
            let url = Url::parse(location).unwrap();
            let path = Path::from_url_path(url.path()).unwrap();
            return Ok(Location { url, store: memory.clone(), path });
        }
        let file = match location.strip_prefix("file://") {
            Some(_) => Url::parse(location).unwrap().to_file_path().unwrap(),
            None => std::path::absolute(location).unwrap(),
        };
        let url = Url::from_file_path(&file).unwrap();
        let path = Path::from_url_path(url.path()).unwrap();
        Ok(Location { url, store: Arc::new(LocalFileSystem::new()), path })
    })
}

/// A directory `in`, a log, and a format.
struct World {
    dir: tempfile::TempDir,
    log: Arc<dyn SourceLog>,
    memory: Arc<InMemory>,
    format: Arc<dyn FileFormat>,
    clock: Arc<TestClock>,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("in")).unwrap();
        World { dir, log: new_log(), memory: Arc::default(), format: Arc::new(Text), clock: Arc::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn url(&self, name: &str) -> String {
        format!("file://{}/{name}", self.dir.path().display())
    }

    /// Writes a file below `in`, modified so many seconds after [`T0`].
    fn put(&self, name: &str, text: &str, seconds: u64) -> PathBuf {
        let path = self.path("in").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let staged = self.path(".staged");
        std::fs::write(&staged, text).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(T0 + seconds);
        std::fs::File::options().write(true).open(&staged).unwrap().set_modified(time).unwrap();
        std::fs::rename(&staged, &path).unwrap();
        path
    }

    async fn store(&self, path: &str, text: &str) {
        self.memory.put(&Path::parse(path).unwrap(), text.to_owned().into()).await.unwrap();
    }

    fn provider(&self) -> FilesProvider {
        FilesProvider::new(storage(self.memory.clone()), self.format.clone()).with_parallelism(1)
    }

    fn request(&self, path: &str, options: &[(&str, &str)]) -> ReadRequest {
        let path = if path.contains("://") || path.starts_with('/') { path.to_owned() } else { self.path(path).display().to_string() };
        let options: Options = options.iter().copied().collect();
        ReadRequest { schema: None, paths: vec![], options: options.with("path", path) }
    }

    async fn open_with(&self, mut request: ReadRequest, log: Arc<dyn SourceLog>) -> Result<Arc<dyn Source>> {
        let provider = self.provider();
        request.schema = Some(provider.schema(&request, true).await?);
        provider.source(&request, SourceContext { log, clock: self.clock.clone() }).await
    }

    async fn open(&self, request: ReadRequest) -> Result<Arc<dyn Source>> {
        self.open_with(request, self.log.clone()).await
    }

    /// A source over `in` with a new checkpoint.
    async fn anew(&self, options: &[(&str, &str)]) -> Arc<dyn Source> {
        self.open_with(self.request("in", options), new_log()).await.unwrap()
    }

    /// A source over `in`.
    async fn source(&self, options: &[(&str, &str)]) -> Arc<dyn Source> {
        self.open(self.request("in", options)).await.unwrap()
    }
}

fn new_log() -> Arc<dyn SourceLog> {
    Arc::new(MemorySourceLog::default())
}

/// The fields of a schema, the text column first.
fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    let value = [Field::new("value", DataType::Utf8, true)];
    let others = columns.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true));
    Arc::new(Schema::new(value.into_iter().chain(others).collect::<Vec<_>>()))
}

/// Rows as text: the named columns, joined by `|`, in reading order.
async fn rows_of(splits: &[Arc<dyn Split>], schema: &SchemaRef, columns: &[&str], quarantine: &Arc<Kept>) -> Result<Vec<String>> {
    let projection: Vec<usize> = columns.iter().map(|name| schema.index_of(name).unwrap()).collect();
    let mut rows = Vec::new();
    for split in splits {
        let context = ReadContext { projection: projection.clone(), batch_size: 1024, quarantine: quarantine.clone() };
        for batch in split.read(context).try_collect::<Vec<RecordBatch>>().await? {
            let options = FormatOptions::new().with_null("null");
            let columns: Vec<_> =
                batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap()).collect();
            for row in 0..batch.num_rows() {
                rows.push(columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|"));
            }
        }
    }
    Ok(rows)
}

/// A query over a source: remembers where it stands.
struct Query {
    source: Arc<dyn Source>,
    at: Option<Offset>,
    quarantine: Arc<Kept>,
}

impl Query {
    fn new(source: Arc<dyn Source>) -> Self {
        Query { source, at: None, quarantine: Arc::default() }
    }

    /// Runs one batch under the source's limit; gives the rows of the columns, or `None` when nothing is new.
    async fn try_batch(&mut self, columns: &[&str]) -> Result<Option<Vec<String>>> {
        let end = self.source.latest_offset(self.at.as_ref(), &self.source.read_limit()).await?;
        let Some(end) = end.filter(|end| Some(end) != self.at.as_ref()) else { return Ok(None) };
        let splits = self.source.plan(self.at.as_ref(), &end).await?;
        let rows = rows_of(&splits, &self.source.schema(), columns, &self.quarantine).await?;
        self.at = Some(end);
        Ok(Some(rows))
    }

    async fn batch(&mut self, columns: &[&str]) -> Option<Vec<String>> {
        self.try_batch(columns).await.unwrap()
    }

    /// Runs batches of the column `value` until nothing is new.
    async fn batches(&mut self) -> Vec<Vec<String>> {
        let mut batches = Vec::new();
        while let Some(rows) = self.batch(&["value"]).await {
            batches.push(rows);
        }
        batches
    }

    async fn commit(&self) {
        self.source.commit(self.at.as_ref().unwrap()).await.unwrap();
    }
}

/// Everything that a table has in a column.
async fn table_rows(world: &World, request: &ReadRequest, columns: &[&str]) -> Result<Vec<String>> {
    let provider = world.provider();
    let schema = provider.schema(request, false).await?;
    let table = provider.table(&ReadRequest { schema: Some(schema), ..request.clone() }).await?;
    rows_of(&table.scan().await?, &table.schema(), columns, &Arc::default()).await
}

fn all() -> ReadLimit {
    ReadLimit::AllAvailable
}
