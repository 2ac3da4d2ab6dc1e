//! Streams of events given file by file, a sink for every mode, and what a step showed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::Column;
use datafusion::common::metadata::FieldMetadata;
use datafusion::datasource::provider_as_source;
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, lit};
use datafusion::prelude::{col, date_bin, named_struct};
use datafusion::scalar::ScalarValue;
use futures::{StreamExt, stream};
use millstream_checkpoint::reader::CheckpointReader;
use millstream_core::registry::{ReadRequest, Registry, SourceContext, SourceProvider};
use millstream_core::sink::{Admission, BatchInfo, Committed, Guarantee, OutputMode, Part, PartWriter, Sink};
use millstream_core::source::{BatchStream, ReadContext, Source, Split, Table};
use millstream_core::{Error, ErrorKind, Ids, Offset, OptionSpec, ReadLimit, Result, Trigger};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parking_lot::Mutex;
use tokio::sync::Notify;
use url::Url;
use uuid::Uuid;

use crate::query::CheckpointLocation;
use crate::relation::StreamRelation;
use crate::stateful::{Deduplicate, SessionWindow, WATERMARK_DELAY, Watermark};
use crate::tests::doubles::StepClock;
use crate::{QueryRequest, QuerySettings, Session, SessionOptions, StreamingQuery};

pub(super) use OutputMode::{Append, Complete, Update};

/// An event: key, seconds, value.
pub(super) type Event = (&'static str, Option<f64>, i64);

/// An event at a second.
pub(super) fn at(k: &'static str, second: impl Into<f64>, v: i64) -> Event {
    (k, Some(second.into()), v)
}

/// A stream of events under column names of its own, one file a batch.
#[derive(Clone, Debug)]
pub(super) struct Events(Arc<EventsState>);

#[derive(Debug)]
struct EventsState {
    schema: SchemaRef,
    files: Mutex<Vec<RecordBatch>>,
    frozen: Mutex<Option<u64>>,
    added: Notify,
    /// Whether a batch takes all files that are there.
    unlimited: AtomicBool,
}

impl Events {
    /// With the columns `k`, `ts` and `v`, after a prefix.
    pub(super) fn new(prefix: &str) -> Self {
        let schema = Schema::new(vec![
            Field::new(format!("{prefix}k"), DataType::Utf8, true),
            Field::new(format!("{prefix}ts"), DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
            Field::new(format!("{prefix}v"), DataType::Int64, true),
        ]);
        Events(Arc::new(EventsState {
            schema: Arc::new(schema),
            files: Mutex::default(),
            frozen: Mutex::default(),
            added: Notify::new(),
            unlimited: AtomicBool::new(false),
        }))
    }

    /// Lets a batch take all files that are there.
    pub(super) fn take_all_at_once(&self) {
        self.0.unlimited.store(true, Ordering::SeqCst);
    }

    /// Adds a file of these columns.
    pub(super) fn add_columns(&self, columns: Vec<ArrayRef>) {
        self.0.files.lock().push(RecordBatch::try_new(self.0.schema.clone(), columns).unwrap());
        self.0.added.notify_one();
    }

    /// Adds a file. The key `-` is null.
    pub(super) fn add(&self, events: &[Event]) {
        let keys: StringArray = events.iter().map(|(k, ..)| Some(*k).filter(|k| *k != "-")).collect();
        let times: TimestampMicrosecondArray =
            events.iter().map(|(_, second, _)| second.map(|second| (second * 1e6).round() as i64)).collect();
        let values: Int64Array = events.iter().map(|(.., v)| Some(*v)).collect();
        self.add_columns(vec![Arc::new(keys), Arc::new(times.with_timezone("UTC")), Arc::new(values)]);
    }

    /// The stream as a plan.
    pub(super) fn plan(&self) -> LogicalPlan {
        let relation =
            StreamRelation { provider: Arc::new(self.clone()), request: ReadRequest::default(), schema: self.0.schema.clone(), name: None };
        // Unqualified, as plans of the analyzer are.
        let scan = LogicalPlanBuilder::scan("events", provider_as_source(Arc::new(relation)), None).unwrap();
        let columns: Vec<Expr> = self
            .0
            .schema
            .fields()
            .iter()
            .map(|field| Expr::Column(Column::new(Some("events"), field.name())).alias(field.name()))
            .collect();
        scan.project(columns).unwrap().build().unwrap()
    }

    /// The stream with a watermark on its time.
    pub(super) fn watermarked(&self, delay_ms: i64) -> LogicalPlan {
        let time = self.0.schema.field(1).name().clone();
        Watermark::try_new(self.plan(), Column::from_name(time), delay_ms).unwrap().into_plan()
    }
}

#[async_trait]
impl SourceProvider for Events {
    fn names(&self) -> &'static [&'static str] {
        &["events"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        vec![]
    }

    async fn schema(&self, _: &ReadRequest, _: bool) -> Result<SchemaRef> {
        Ok(self.0.schema.clone())
    }

    async fn source(&self, _: &ReadRequest, _: SourceContext) -> Result<Arc<dyn Source>> {
        *self.0.frozen.lock() = None;
        Ok(Arc::new(self.clone()))
    }

    async fn table(&self, _: &ReadRequest) -> Result<Arc<dyn Table>> {
        Err(Error::invalid("UNSUPPORTED_BATCH_READ", "events are a stream"))
    }
}

#[async_trait]
impl Source for Events {
    fn description(&self) -> String {
        "Events".to_owned()
    }

    fn schema(&self) -> SchemaRef {
        self.0.schema.clone()
    }

    fn read_limit(&self) -> ReadLimit {
        if self.0.unlimited.load(Ordering::SeqCst) { ReadLimit::AllAvailable } else { ReadLimit::MaxFiles(1) }
    }

    fn supports_available_now(&self) -> bool {
        true
    }

    async fn prepare_available_now(&self) -> Result<()> {
        *self.0.frozen.lock() = Some(self.0.files.lock().len() as u64);
        Ok(())
    }

    async fn latest_offset(&self, start: Option<&Offset>, limit: &ReadLimit) -> Result<Option<Offset>> {
        let from: u64 = start.map_or(Ok(0), Offset::read)?;
        let all = self.0.frozen.lock().unwrap_or(self.0.files.lock().len() as u64);
        let end = if limit.max_files().is_some() { all.min(from + 1) } else { all };
        if end == 0 { Ok(None) } else { Offset::of(&end).map(Some) }
    }

    async fn plan(&self, start: Option<&Offset>, end: &Offset) -> Result<Vec<Arc<dyn Split>>> {
        let (from, to): (usize, usize) = (start.map_or(Ok(0), Offset::read)?, end.read()?);
        let files = self.0.files.lock();
        let file = |(index, rows): (usize, &RecordBatch)| Arc::new(File(format!("file {index}"), rows.clone())) as Arc<dyn Split>;
        Ok(files.iter().enumerate().take(to).skip(from).map(file).collect())
    }

    async fn changed(&self) {
        self.0.added.notified().await;
    }
}

#[derive(Debug)]
struct File(String, RecordBatch);

impl Split for File {
    fn label(&self) -> &str {
        &self.0
    }

    fn read(&self, context: ReadContext) -> BatchStream {
        stream::iter([Ok(self.1.project(&context.projection).unwrap())]).boxed()
    }
}

/// Keeps what every batch committed.
#[derive(Clone, Debug, Default)]
pub(super) struct Results(Arc<ResultsState>);

#[derive(Debug, Default)]
struct ResultsState {
    staged: Mutex<Vec<Vec<RecordBatch>>>,
    batches: Mutex<Vec<(u64, Vec<RecordBatch>)>>,
    fails: AtomicU64,
}

impl Results {
    /// Fails the next commits, after they happened if `after`.
    pub(super) fn fail(&self, after: bool) {
        self.0.fails.store(if after { 2 } else { 1 }, Ordering::SeqCst);
    }

    /// The rows of all batches from the one at this position on, as text, in order.
    pub(super) fn since(&self, position: usize) -> Vec<String> {
        let batches = self.0.batches.lock();
        let mut lines: Vec<String> =
            batches[position.min(batches.len())..].iter().flat_map(|(_, rows)| rows.iter().flat_map(lines)).collect();
        lines.sort();
        lines
    }

    pub(super) fn batches(&self) -> usize {
        self.0.batches.lock().len()
    }

    /// The rows of all batches.
    pub(super) fn all(&self) -> Vec<RecordBatch> {
        self.0.batches.lock().iter().flat_map(|(_, rows)| rows.clone()).collect()
    }
}

/// Rows as text: values with bars between them, instants as seconds.
pub(super) fn lines(rows: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let columns: Vec<Vec<String>> = rows
        .columns()
        .iter()
        .flat_map(|column| match column.as_any().downcast_ref::<arrow::array::StructArray>() {
            Some(window) => window.columns().iter().map(|part| (part.clone(), column.logical_nulls())).collect::<Vec<_>>(),
            None => vec![(column.clone(), None)],
        })
        .map(|(column, nulls)| {
            let seconds = column.as_any().downcast_ref::<TimestampMicrosecondArray>().cloned();
            let text = ArrayFormatter::try_new(&column, &options).unwrap();
            (0..column.len())
                .map(|row| match &seconds {
                    _ if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) => "null".to_owned(),
                    Some(seconds) if seconds.is_valid(row) => (seconds.value(row) as f64 / 1e6).to_string(),
                    _ => text.value(row).to_string(),
                })
                .collect()
        })
        .collect();
    (0..rows.num_rows()).map(|row| columns.iter().map(|column| column[row].clone()).collect::<Vec<_>>().join("|")).collect()
}

#[async_trait]
impl Sink for Results {
    fn description(&self) -> String {
        "Results".to_owned()
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::ExactlyOnce
    }

    fn supports(&self, _: OutputMode) -> bool {
        true
    }

    async fn admit(&self, batch: &BatchInfo) -> Result<Admission> {
        let has = self.0.batches.lock().iter().any(|(id, _)| *id >= batch.batch_id);
        Ok(if has { Admission::AlreadyCommitted } else { Admission::Write })
    }

    async fn writer(&self, _: &BatchInfo, _: usize) -> Result<Box<dyn PartWriter>> {
        Ok(Box::new(Writer { sink: self.clone(), rows: vec![] }))
    }

    async fn commit(&self, batch: &BatchInfo, parts: Vec<Part>) -> Result<Committed> {
        let down = || Error::new(ErrorKind::SinkUnavailable, "SINK_DOWN", "the sink is down");
        let fails = self.0.fails.swap(0, Ordering::SeqCst);
        if fails == 1 {
            return Err(down());
        }
        let staged = self.0.staged.lock();
        let rows =
            parts.iter().flat_map(|part| staged[usize::from(u16::from_le_bytes([part.staged[0], part.staged[1]]))].clone()).collect();
        self.0.batches.lock().push((batch.batch_id, rows));
        if fails == 2 { Err(down()) } else { Ok(Committed::default()) }
    }
}

struct Writer {
    sink: Results,
    rows: Vec<RecordBatch>,
}

#[async_trait]
impl PartWriter for Writer {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        self.rows.push(rows);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<Part> {
        let mut staged = self.sink.0.staged.lock();
        staged.push(self.rows);
        let index = u16::try_from(staged.len() - 1).unwrap();
        Ok(Part { rows: 0, bytes: 0, staged: Bytes::from(index.to_le_bytes().to_vec()) })
    }
}

/// Identifiers that differ from those of every run in this process.
#[derive(Debug)]
struct UniqueIds;

impl Ids for UniqueIds {
    fn next(&self) -> Uuid {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Uuid::from_u128(u128::from(NEXT.fetch_add(1, Ordering::Relaxed)))
    }
}

/// A session and a checkpoint in memory.
pub(super) struct Lab {
    pub(super) session: Session,
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) results: Results,
    pub(super) settings: QuerySettings,
    /// How many batches of the results earlier steps have looked at.
    seen: AtomicUsize,
}

impl Lab {
    pub(super) fn new() -> Self {
        Self::parallel(2)
    }

    /// With so many tasks at once.
    pub(super) fn parallel(tasks: usize) -> Self {
        Self::over(Arc::new(InMemory::new()), Results::default(), tasks)
    }

    /// A session that works in so many tasks.
    pub(super) fn over(store: Arc<dyn ObjectStore>, results: Results, tasks: usize) -> Self {
        let registry = Registry::new(Arc::new(StepClock::default()), Arc::new(UniqueIds));
        let session = Session::new(registry, SessionOptions { parallelism: tasks, ..SessionOptions::default() }).unwrap();
        let seen = AtomicUsize::new(results.batches());
        Lab { session, store, results, settings: QuerySettings::default(), seen }
    }

    /// The same checkpoint and sink after the process ended.
    pub(super) fn restarted(&self) -> Self {
        Lab { settings: self.settings.clone(), ..Self::over(self.store.clone(), self.results.clone(), 2) }
    }

    pub(super) async fn start(&self, plan: LogicalPlan, mode: OutputMode) -> Result<StreamingQuery> {
        self.start_by(plan, mode, Trigger::Default).await
    }

    pub(super) async fn start_by(&self, plan: LogicalPlan, mode: OutputMode, trigger: Trigger) -> Result<StreamingQuery> {
        let url = Url::parse("memory:///ck").unwrap();
        let request = QueryRequest {
            name: Some("test".to_owned()),
            plan,
            output: None,
            sink: Arc::new(self.results.clone()),
            mode,
            trigger,
            checkpoint: CheckpointLocation { store: self.store.clone(), root: Path::from("ck"), url },
            quarantine: None,
            expectations: vec![],
            settings: self.settings.clone(),
        };
        self.session.start(request).await
    }

    /// What this step added, and the report of its last batch.
    pub(super) async fn step(&self, query: &StreamingQuery) -> Step {
        query.process_all_available().await.unwrap();
        let before = self.seen.swap(self.results.batches(), Ordering::AcqRel);
        Step::of(query, self.results.since(before))
    }

    /// The checkpoint, to look into it.
    pub(super) fn reader(&self) -> CheckpointReader {
        Self::reader_of(self.store.clone())
    }

    /// The checkpoint in a store, to look into it.
    pub(super) fn reader_of(store: Arc<dyn ObjectStore>) -> CheckpointReader {
        let url = Url::parse("memory:///ck").unwrap();
        CheckpointReader::new(store, Path::from("ck"), url, Arc::new(StepClock::default()))
    }

    /// Names below a folder of the checkpoint.
    pub(super) async fn names(&self, folder: &str) -> Vec<String> {
        let listed = self.store.list_with_delimiter(Some(&Path::from(format!("ck/{folder}")))).await.unwrap();
        listed.objects.iter().map(|object| object.location.filename().unwrap().to_owned()).collect()
    }

    /// A file of the snapshot that the newest commit builds on.
    pub(super) async fn snapshot(&self) -> Option<String> {
        let reader = self.reader();
        let batch = reader.last_commit().await.unwrap()?;
        let files = reader.state_after(batch).await.unwrap()?;
        files.into_iter().map(|file| file.name).find(|name| name.ends_with(".snapshot"))
    }

    /// Turns over one byte in the middle of a file of state.
    pub(super) async fn damage(&self, name: &str) {
        let path = Path::from(format!("ck/state/{name}"));
        let mut bytes = self.store.get(&path).await.unwrap().bytes().await.unwrap().to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0xff;
        self.store.put(&path, bytes.into()).await.unwrap();
    }

    pub(super) async fn remove(&self, path: &str) {
        self.store.delete(&Path::from(format!("ck/{path}"))).await.unwrap();
    }
}

/// What a step showed: rows added, the watermark in seconds, and of each operator rows in total, updated, removed, late.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) added: Vec<String>,
    pub(super) watermark: Option<String>,
    pub(super) state: Vec<(String, [u64; 4])>,
}

impl Step {
    fn of(query: &StreamingQuery, added: Vec<String>) -> Step {
        let progress = query.last_progress().unwrap();
        Step {
            added,
            watermark: progress.event_time.get("watermark").map(|text| text[11..].trim_end_matches('Z').to_owned()),
            state: progress
                .state_operators
                .iter()
                .map(|operator| {
                    let counts = [
                        operator.num_rows_total,
                        operator.num_rows_updated,
                        operator.num_rows_removed,
                        operator.num_rows_dropped_by_watermark,
                    ];
                    (operator.operator_name.clone(), counts)
                })
                .collect(),
        }
    }

    /// Checks rows, watermark (`HH:MM:SS.mmm`), and the counts of the operators.
    #[track_caller]
    pub(super) fn is(&self, added: &[&str], watermark: &str, state: &[[u64; 4]]) {
        let counts: Vec<[u64; 4]> = self.state.iter().map(|(_, counts)| *counts).collect();
        let shown = (self.added.iter().map(String::as_str).collect::<Vec<_>>(), self.watermark.as_deref().unwrap_or("none"), counts);
        assert_eq!(shown, (added.to_vec(), watermark, state.to_vec()));
    }
}

/// The tumbling window of `time`, as the analyzer makes it: a struct of start and end that is event time where `time` is.
pub(super) fn window(time: &str, seconds: i64, delay_ms: Option<i64>, name: &str) -> Expr {
    let width = ScalarValue::new_interval_mdn(0, 0, seconds * 1_000_000_000);
    let origin = ScalarValue::TimestampMicrosecond(Some(0), Some("UTC".into()));
    let instant = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let start = cast(date_bin(lit(width.clone()), col(time), lit(origin)), instant.clone());
    let end = cast(start.clone() + lit(width), instant);
    let window = named_struct(vec![lit("start"), start, lit("end"), end]);
    match delay_ms {
        Some(delay) => {
            let metadata = FieldMetadata::from(std::collections::HashMap::from([(WATERMARK_DELAY.to_owned(), delay.to_string())]));
            window.alias_with_metadata(name, Some(metadata))
        }
        None => window.alias(name),
    }
}

/// Sums of `v` by tumbling window and key: start, end, key, sum.
pub(super) fn sums(input: LogicalPlan, seconds: i64, delay_ms: Option<i64>) -> LogicalPlan {
    LogicalPlanBuilder::from(input)
        .project(vec![window("ts", seconds, delay_ms, "w"), col("k"), col("v")])
        .and_then(|plan| plan.aggregate(vec![col("w"), col("k")], vec![sum(col("v")).alias("s")]))
        .and_then(LogicalPlanBuilder::build)
        .unwrap()
}

/// Sums of `v` by key.
pub(super) fn by_key(input: LogicalPlan) -> LogicalPlan {
    LogicalPlanBuilder::from(input).aggregate(vec![col("k")], vec![sum(col("v")).alias("s")]).and_then(LogicalPlanBuilder::build).unwrap()
}

/// The first row of each key.
pub(super) fn distinct(input: LogicalPlan, keys: &[&str], within_watermark: bool) -> LogicalPlan {
    Deduplicate::try_new(input, keys.iter().map(|key| Column::from_name(*key)), within_watermark).unwrap().into_plan()
}

/// Sums of `v` by session and key: key, start, end, sum.
pub(super) fn sessions(input: LogicalPlan, gap_seconds: i64) -> LogicalPlan {
    let gap = lit(ScalarValue::new_interval_mdn(0, 0, gap_seconds * 1_000_000_000));
    SessionWindow::try_new(input, vec![col("k")], col("ts"), col("ts") + gap, "session", vec![sum(col("v")).alias("s")])
        .unwrap()
        .into_plan()
}

/// Steps through files of one stream.
pub(super) async fn play(events: &Events, plan: LogicalPlan, mode: OutputMode, files: &[&[Event]]) -> Vec<Step> {
    let lab = Lab::new();
    let query = lab.start(plan, mode).await.unwrap();
    let mut steps = Vec::new();
    for file in files {
        events.add(file);
        steps.push(lab.step(&query).await);
    }
    query.stop().await;
    steps
}
