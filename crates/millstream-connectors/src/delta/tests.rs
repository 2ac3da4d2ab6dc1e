//! The Delta connector against stores that fail, against other writers, and against delta-rs as an independent reader.

mod conformance;
mod evolution;
mod exactly_once;
mod faults;
mod features;
mod long_run;
mod partitions;
mod reading;
mod source;
mod transactions;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use async_trait::async_trait;
use futures::TryStreamExt;
use millstream_checkpoint::store::{FaultStore, Privacy, StoreOptions};
use millstream_core::quarantine::Discard;
use millstream_core::registry::{ReadRequest, SinkProvider, SourceProvider, WriteRequest};
use millstream_core::sink::{Admission, BatchInfo, OutputMode, Part, Sink};
use millstream_core::source::{ReadContext, Split};
use millstream_core::{Clock, Ids, Options, Result};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use url::Url;
use uuid::Uuid;

use super::{DeltaSinkProvider, DeltaSourceProvider};
use crate::storage::{Location, Storage};

/// A clock that jumps instead of sleeping.
#[derive(Debug)]
struct TestClock(AtomicI64);

impl TestClock {
    fn start() -> Arc<Self> {
        Arc::new(TestClock(AtomicI64::new(1_700_000_000_000)))
    }
}

#[async_trait]
impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        self.now_ms() as u64 * 1_000_000
    }

    async fn sleep(&self, duration: Duration) {
        self.0.fetch_add(duration.as_millis() as i64, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Identifiers in order, never twice in the process.
#[derive(Debug)]
struct TestIds;

impl Ids for TestIds {
    fn next(&self) -> Uuid {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Uuid::from_u128(u128::from(NEXT.fetch_add(1, Ordering::Relaxed)))
    }
}

/// A table in memory behind a store that can fail.
struct Bench {
    store: FaultStore<InMemory>,
    storage: Storage,
    clock: Arc<TestClock>,
}

const TABLE: &str = "memory:///t";
const QUERY: Uuid = Uuid::from_u128(0x51);

impl Bench {
    fn new() -> Self {
        let store = FaultStore::new(InMemory::new());
        let shared: Arc<dyn ObjectStore> = Arc::new(store.clone());
        Bench { store, storage: storage_over(shared), clock: TestClock::start() }
    }

    async fn sink(&self, options: &[(&str, &str)]) -> Arc<dyn Sink> {
        self.try_sink(options).await.unwrap()
    }

    async fn try_sink(&self, options: &[(&str, &str)]) -> Result<Arc<dyn Sink>> {
        let provider = DeltaSinkProvider::new(self.storage.clone(), self.clock.clone(), Arc::new(TestIds));
        let options: Options = options.iter().copied().collect();
        provider.sink(&WriteRequest { path: Some(TABLE.into()), options, ..WriteRequest::default() }).await
    }

    fn sources(&self) -> DeltaSourceProvider {
        DeltaSourceProvider::new(self.storage.clone())
    }

    /// All rows of the table as our own reader sees them.
    async fn read(&self, options: &[(&str, &str)]) -> Result<RecordBatch> {
        let table = self.sources().table(&request(options)).await?;
        rows_of(table.scan().await?, &table.schema()).await
    }

    /// The `id` column of the table, sorted.
    async fn ids(&self) -> Vec<i64> {
        sorted_ids(&self.read(&[]).await.unwrap())
    }

    /// The `id` column as delta-rs and DataFusion see it, sorted.
    async fn ids_by_delta_rs(&self) -> Vec<i64> {
        let batches = self.sql("SELECT id FROM t").await;
        let mut ids: Vec<i64> = batches.iter().flat_map(ids_of).collect();
        ids.sort_unstable();
        ids
    }

    async fn sql(&self, sql: &str) -> Vec<RecordBatch> {
        let log = super::log::TableLog::open(&self.storage, TABLE, millstream_core::ErrorKind::SourceUnavailable).unwrap();
        let mut table = deltalake::DeltaTable::new(log.log_store());
        table.load().await.unwrap();
        let context = deltalake::datafusion::prelude::SessionContext::new();
        context.register_table("t", table.table_provider().await.unwrap()).unwrap();
        context.sql(sql).await.unwrap().collect().await.unwrap()
    }

    /// Versions of the table, by its commit files.
    async fn versions(&self) -> u64 {
        let log = super::log::TableLog::open(&self.storage, TABLE, millstream_core::ErrorKind::SourceUnavailable).unwrap();
        log.files_from(0).await.unwrap().iter().filter(|file| !file.checkpoint).count() as u64
    }
}

/// The local disk through the store that the product uses.
fn durable_storage(clock: Arc<TestClock>) -> Storage {
    let stores = StoreOptions::new(clock, Arc::new(TestIds));
    Storage::new(move |path| {
        let (store, path, url) = millstream_checkpoint::store::open(path, Privacy::Shared, &stores)?;
        Ok(Location { url, store, path })
    })
}

fn storage_over(store: Arc<dyn ObjectStore>) -> Storage {
    Storage::new(move |path| {
        let url = match path.contains(":/") {
            true => Url::parse(path).unwrap(),
            false => Url::from_file_path(path).unwrap(),
        };
        let inside = Path::from_url_path(url.path()).unwrap();
        Ok(Location { url, store: store.clone(), path: inside })
    })
}

fn request(options: &[(&str, &str)]) -> ReadRequest {
    ReadRequest { paths: vec![TABLE.into()], options: options.iter().copied().collect(), ..ReadRequest::default() }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true), Field::new("name", DataType::Utf8, true)]))
}

fn rows(ids: impl IntoIterator<Item = i64>) -> RecordBatch {
    let ids: Vec<i64> = ids.into_iter().collect();
    let names: Vec<String> = ids.iter().map(|id| format!("name {id}")).collect();
    RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from(ids)), Arc::new(StringArray::from(names))]).unwrap()
}

fn info(batch_id: u64, mode: OutputMode, schema: SchemaRef) -> BatchInfo {
    BatchInfo { query_id: QUERY, batch_id, mode, schema, timestamp_ms: 0 }
}

/// Stages rows as one task.
async fn stage(sink: &dyn Sink, batch: &BatchInfo, rows: RecordBatch) -> Result<Part> {
    let mut writer = sink.writer(batch, 0).await?;
    writer.write(rows).await?;
    writer.finish().await
}

/// Runs one batch as the engine does. Returns whether it was written.
async fn run(sink: &dyn Sink, batch_id: u64, mode: OutputMode, rows: RecordBatch) -> Result<bool> {
    let batch = info(batch_id, mode, rows.schema());
    if sink.admit(&batch).await? == Admission::AlreadyCommitted {
        return Ok(false);
    }
    let part = stage(sink, &batch, rows).await?;
    sink.commit(&batch, vec![part]).await?;
    Ok(true)
}

async fn append(sink: &dyn Sink, batch_id: u64, ids: impl IntoIterator<Item = i64>) -> Result<bool> {
    run(sink, batch_id, OutputMode::Append, rows(ids)).await
}

/// Rows of splits, every column, in the order of the splits.
async fn rows_of(splits: Vec<Arc<dyn Split>>, schema: &SchemaRef) -> Result<RecordBatch> {
    let mut batches = Vec::new();
    for split in splits {
        let context = ReadContext { projection: (0..schema.fields().len()).collect(), batch_size: 3, quarantine: Arc::new(Discard) };
        batches.extend(split.read(context).try_collect::<Vec<_>>().await?);
    }
    Ok(concat_batches(schema, &batches).unwrap())
}

fn ids_of(batch: &RecordBatch) -> Vec<i64> {
    let column = batch.column_by_name("id").unwrap();
    (0..column.len()).map(|row| column.as_primitive::<Int64Type>().value(row)).collect()
}

fn sorted_ids(batch: &RecordBatch) -> Vec<i64> {
    let mut ids = ids_of(batch);
    ids.sort_unstable();
    ids
}

fn one_column(name: &str, column: ArrayRef) -> RecordBatch {
    let field = Field::new(name, column.data_type().clone(), true);
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![column]).unwrap()
}
