//! A source of numbers, a sink of rows, and a world to run them in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use millstream_core::quarantine::BadRecord;
use millstream_core::registry::{ReadRequest, Registry, SourceContext, SourceProvider};
use millstream_core::sink::{Admission, BatchInfo, Committed, Guarantee, OutputMode, Part, PartWriter, Sink};
use millstream_core::source::{BatchStream, ReadContext, Source, Split, Table};
use millstream_core::{Clock, Error, ErrorKind, Ids, Offset, OptionSpec, ReadLimit, Result, Trigger};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parking_lot::Mutex;
use tokio::sync::Notify;
use url::Url;
use uuid::Uuid;

use crate::expectation::Expectation;
use crate::query::CheckpointLocation;
use crate::{QueryRequest, QuerySettings, Session, SessionOptions, StreamingQuery};

/// A clock that moves a millisecond at every look, and really sleeps.
#[derive(Debug, Default)]
pub(super) struct StepClock(AtomicU64);

#[async_trait]
impl Clock for StepClock {
    fn now_ms(&self) -> i64 {
        1_700_000_000_000 + self.0.fetch_add(1, Ordering::Relaxed) as i64
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) * 1_000_000
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

#[derive(Debug, Default)]
struct CountedIds(AtomicU64);

impl Ids for CountedIds {
    fn next(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.0.fetch_add(1, Ordering::Relaxed)) + 1)
    }
}

/// A session and a checkpoint in memory.
pub(super) struct World {
    pub(super) session: Session,
    store: Arc<dyn ObjectStore>,
}

impl World {
    pub(super) fn new() -> Self {
        let registry = Registry::new(Arc::new(StepClock::default()), Arc::new(CountedIds::default()));
        let session = Session::new(registry, SessionOptions { parallelism: 2, ..SessionOptions::default() }).unwrap();
        World { session, store: Arc::new(InMemory::new()) }
    }

    /// The same checkpoint after the process ended.
    pub(super) fn restarted(&self) -> Self {
        World { store: self.store.clone(), ..World::new() }
    }

    /// The names of the records in a log.
    pub(super) async fn log(&self, log: &str) -> Vec<String> {
        let listed = self.store.list_with_delimiter(Some(&Path::from(format!("ck/{log}")))).await.unwrap();
        listed.objects.iter().map(|object| object.location.filename().unwrap().to_owned()).collect()
    }

    pub(super) async fn text(&self, path: &str) -> String {
        let bytes = self.store.get(&Path::from(format!("ck/{path}"))).await.unwrap().bytes().await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    pub(super) async fn remove(&self, path: &str) {
        self.store.delete(&Path::from(format!("ck/{path}"))).await.unwrap();
    }

    pub(super) async fn start(&self, sql: &str, numbers: &Numbers, rows: &Rows, trigger: Trigger) -> Result<StreamingQuery> {
        self.start_with(sql, numbers, rows, trigger, vec![], None).await
    }

    pub(super) async fn start_with(
        &self,
        sql: &str,
        numbers: &Numbers,
        rows: &Rows,
        trigger: Trigger,
        expectations: Vec<Expectation>,
        quarantine: Option<Arc<dyn Sink>>,
    ) -> Result<StreamingQuery> {
        let request = self.request(sql, numbers, rows).await;
        self.session.start(QueryRequest { trigger, expectations, quarantine, ..request }).await
    }

    pub(super) async fn start_in(&self, sql: &str, numbers: &Numbers, rows: &Rows, mode: OutputMode) -> Result<StreamingQuery> {
        let request = self.request(sql, numbers, rows).await;
        self.session.start(QueryRequest { mode, ..request }).await
    }

    async fn request(&self, sql: &str, numbers: &Numbers, rows: &Rows) -> QueryRequest {
        let relation = crate::relation::StreamRelation {
            provider: Arc::new(numbers.clone()),
            request: ReadRequest::default(),
            schema: numbers_schema(),
            name: None,
        };
        self.session.context().deregister_table("numbers").unwrap();
        self.session.context().register_table("numbers", Arc::new(relation)).unwrap();
        let url = Url::parse("memory:///ck").unwrap();
        QueryRequest {
            name: Some("test".to_owned()),
            plan: self.session.plan_sql(sql).await.unwrap(),
            output: None,
            sink: Arc::new(rows.clone()),
            mode: OutputMode::Append,
            trigger: Trigger::AvailableNow,
            checkpoint: CheckpointLocation { store: self.store.clone(), root: Path::from("ck"), url },
            quarantine: None,
            expectations: vec![],
            settings: QuerySettings::default(),
        }
    }
}

pub(super) fn numbers_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("value", DataType::Int64, true)]))
}

/// The numbers from 0 up to a bound that can grow.
#[derive(Clone, Debug)]
pub(super) struct Numbers(Arc<NumbersState>);

#[derive(Debug)]
struct NumbersState {
    bound: AtomicU64,
    frozen: Mutex<Option<u64>>,
    per_batch: Option<u64>,
    malformed_every: Option<u64>,
    panicking: bool,
    grown: Notify,
    committed: Mutex<Vec<String>>,
}

impl Numbers {
    pub(super) fn new(bound: u64) -> Self {
        Numbers(Arc::new(NumbersState {
            bound: AtomicU64::new(bound),
            frozen: Mutex::default(),
            per_batch: None,
            malformed_every: None,
            panicking: false,
            grown: Notify::new(),
            committed: Mutex::default(),
        }))
    }

    fn edit(self, edit: impl FnOnce(&mut NumbersState)) -> Self {
        let mut state = Arc::try_unwrap(self.0).unwrap();
        edit(&mut state);
        Numbers(Arc::new(state))
    }

    pub(super) fn per_batch(self, rows: u64) -> Self {
        self.edit(|state| state.per_batch = Some(rows))
    }

    pub(super) fn malformed_every(self, nth: u64) -> Self {
        self.edit(|state| state.malformed_every = Some(nth))
    }

    pub(super) fn panicking(self) -> Self {
        self.edit(|state| state.panicking = true)
    }

    pub(super) fn grow(&self, bound: u64) {
        self.0.bound.store(bound, Ordering::SeqCst);
        self.0.grown.notify_one();
    }

    /// The offsets that the source was told are committed.
    pub(super) fn committed(&self) -> Vec<String> {
        self.0.committed.lock().clone()
    }
}

#[async_trait]
impl SourceProvider for Numbers {
    fn names(&self) -> &'static [&'static str] {
        &["numbers"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        vec![]
    }

    async fn schema(&self, _: &ReadRequest, _: bool) -> Result<SchemaRef> {
        Ok(numbers_schema())
    }

    async fn source(&self, _: &ReadRequest, _: SourceContext) -> Result<Arc<dyn Source>> {
        *self.0.frozen.lock() = None;
        Ok(Arc::new(self.clone()))
    }

    async fn table(&self, _: &ReadRequest) -> Result<Arc<dyn Table>> {
        Err(Error::invalid("UNSUPPORTED_BATCH_READ", "numbers are a stream"))
    }
}

#[async_trait]
impl Source for Numbers {
    fn description(&self) -> String {
        "Numbers".to_owned()
    }

    fn schema(&self) -> SchemaRef {
        numbers_schema()
    }

    fn read_limit(&self) -> ReadLimit {
        self.0.per_batch.map_or(ReadLimit::AllAvailable, ReadLimit::MaxRows)
    }

    fn supports_available_now(&self) -> bool {
        true
    }

    async fn prepare_available_now(&self) -> Result<()> {
        *self.0.frozen.lock() = Some(self.0.bound.load(Ordering::SeqCst));
        Ok(())
    }

    async fn latest_offset(&self, start: Option<&Offset>, limit: &ReadLimit) -> Result<Option<Offset>> {
        let from: u64 = start.map_or(Ok(0), Offset::read)?;
        let bound = self.0.frozen.lock().unwrap_or(self.0.bound.load(Ordering::SeqCst));
        let end = limit.max_rows().map_or(bound, |rows| bound.min(from + rows));
        if end == 0 { Ok(None) } else { Offset::of(&end).map(Some) }
    }

    async fn plan(&self, start: Option<&Offset>, end: &Offset) -> Result<Vec<Arc<dyn Split>>> {
        let (from, to): (u64, u64) = (start.map_or(Ok(0), Offset::read)?, end.read()?);
        Ok(vec![Arc::new(NumbersSplit { from, to, state: self.0.clone() })])
    }

    async fn commit(&self, end: &Offset) -> Result<()> {
        self.0.committed.lock().push(end.as_json().to_owned());
        Ok(())
    }

    async fn changed(&self) {
        self.0.grown.notified().await;
    }
}

#[derive(Debug)]
struct NumbersSplit {
    from: u64,
    to: u64,
    state: Arc<NumbersState>,
}

impl Split for NumbersSplit {
    fn label(&self) -> &str {
        "numbers"
    }

    fn read(&self, context: ReadContext) -> BatchStream {
        assert!(!self.state.panicking, "seven");
        let mut kept = Vec::new();
        for number in self.from..self.to {
            if self.state.malformed_every.is_some_and(|nth| number % nth == 1) {
                context.quarantine.put(BadRecord {
                    raw: Some(number.to_string()),
                    origin: "numbers".to_owned(),
                    position: Some(number),
                    length: None,
                    reason: "ODD".to_owned(),
                    detail: "an odd number".to_owned(),
                });
            } else {
                kept.push(number as i64);
            }
        }
        let schema = Arc::new(numbers_schema().project(&context.projection).unwrap());
        let options = RecordBatchOptions::new().with_row_count(Some(kept.len()));
        let column: ArrayRef = Arc::new(Int64Array::from(kept));
        let columns = context.projection.iter().map(|_| column.clone()).collect();
        stream::iter([Ok(RecordBatch::try_new_with_options(schema, columns, &options).unwrap())]).boxed()
    }
}

/// Where a sink fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Write,
    Commit,
    /// The commit happens and its answer is lost.
    AfterCommit,
}

/// Keeps rows, and what happened to it.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows(Arc<RowsState>);

#[derive(Debug, Default)]
struct RowsState {
    staged: Mutex<Vec<Vec<RecordBatch>>>,
    committed: Mutex<Vec<(u64, Vec<RecordBatch>)>>,
    fault: Mutex<Option<Fault>>,
    aborted: AtomicU64,
    stopped: AtomicBool,
}

impl Rows {
    pub(super) fn fail_once(&self, fault: Fault) {
        *self.0.fault.lock() = Some(fault);
    }

    pub(super) fn all(&self) -> Vec<RecordBatch> {
        self.0.committed.lock().iter().flat_map(|(_, rows)| rows.clone()).collect()
    }

    pub(super) fn batches(&self) -> Vec<u64> {
        self.0.committed.lock().iter().map(|(id, _)| *id).collect()
    }

    pub(super) fn stopped(&self) -> bool {
        self.0.stopped.load(Ordering::SeqCst)
    }

    fn fails(&self, at: Fault) -> bool {
        let mut fault = self.0.fault.lock();
        let fails = *fault == Some(at);
        if fails {
            *fault = None;
        }
        fails
    }
}

fn down() -> Error {
    Error::new(ErrorKind::SinkUnavailable, "SINK_DOWN", "the sink is down")
}

#[async_trait]
impl Sink for Rows {
    fn description(&self) -> String {
        "Rows".to_owned()
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::ExactlyOnce
    }

    fn supports(&self, mode: OutputMode) -> bool {
        mode == OutputMode::Append
    }

    async fn admit(&self, batch: &BatchInfo) -> Result<Admission> {
        let has = self.0.committed.lock().iter().any(|(id, _)| *id >= batch.batch_id);
        Ok(if has { Admission::AlreadyCommitted } else { Admission::Write })
    }

    async fn writer(&self, _: &BatchInfo, _: usize) -> Result<Box<dyn PartWriter>> {
        Ok(Box::new(RowsWriter { sink: self.clone(), rows: vec![] }))
    }

    async fn commit(&self, batch: &BatchInfo, parts: Vec<Part>) -> Result<Committed> {
        if self.fails(Fault::Commit) {
            return Err(down());
        }
        let staged = self.0.staged.lock();
        let rows: Vec<RecordBatch> = parts.iter().flat_map(|part| staged[usize::from(part.staged[0])].clone()).collect();
        let count = rows.iter().map(|rows| rows.num_rows() as u64).sum();
        self.0.committed.lock().push((batch.batch_id, rows));
        if self.fails(Fault::AfterCommit) {
            return Err(down());
        }
        Ok(Committed { rows: count, ..Committed::default() })
    }

    async fn abort(&self, _: &BatchInfo, _: Vec<Part>) {
        self.0.aborted.fetch_add(1, Ordering::SeqCst);
    }

    async fn stop(&self) {
        self.0.stopped.store(true, Ordering::SeqCst);
    }
}

struct RowsWriter {
    sink: Rows,
    rows: Vec<RecordBatch>,
}

#[async_trait]
impl PartWriter for RowsWriter {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        if self.sink.fails(Fault::Write) {
            return Err(down());
        }
        self.rows.push(rows);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<Part> {
        let mut staged = self.sink.0.staged.lock();
        staged.push(self.rows);
        let index = u8::try_from(staged.len() - 1).unwrap();
        Ok(Part { rows: 0, bytes: 0, staged: Bytes::from(vec![index]) })
    }
}
