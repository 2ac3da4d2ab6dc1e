use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use arrow::datatypes::{DataType, Field, Schema};
use async_trait::async_trait;
use millstream_connectors::delta::{DeltaSinkProvider, DeltaSourceProvider, DeltaTables};
use millstream_connectors::files::sink::FileSinkProvider;
use millstream_connectors::memory::{MemoryProvider, MemoryTables};
use millstream_connectors::noop::NoopProvider;
use millstream_connectors::rate_micro_batch::RateMicroBatchProvider;
use millstream_connectors::storage::{Location, Storage};
use millstream_core::registry::{ReadRequest, Registry};
use millstream_core::sink::OutputMode;
use millstream_core::{Clock, Error, Ids, Options, Result, Trigger};
use millstream_engine::query::CheckpointLocation;
use millstream_engine::{QueryEvent, QueryListener, QueryRequest, QuerySettings, Session, SessionOptions, StreamingQuery};
use object_store::memory::InMemory;
use spark_connect_proto::streaming_query_command::{AwaitTerminationCommand, Command};
use spark_connect_proto::streaming_query_command_result::ResultType;
use spark_connect_proto::streaming_query_listener_bus_command::Command as BusCommand;
use spark_connect_proto::{
    StreamingQueryCommand, StreamingQueryEventType, StreamingQueryInstanceId, StreamingQueryListenerBusCommand,
    StreamingQueryListenerEventsResult,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use url::Url;
use uuid::Uuid;

use super::destination::{self, Wanted};
use super::listeners::Untold;
use super::queries::Queries;
use super::{listener_bus, location, query_command};
use crate::connect::host::{Host, TemporaryDirectory};
use crate::connect::session::{ConnectSession, GlobalViews, SessionKey};

/// A process with sinks in memory and a clock that is moved by sleeping on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TestHost {
    store: Arc<InMemory>,
    time: Arc<TestTime>,
}

#[derive(Debug, Default)]
struct TestTime {
    now_ms: AtomicI64,
    ids: AtomicU64,
}

#[async_trait]
impl Clock for TestTime {
    fn now_ms(&self) -> i64 {
        self.now_ms.fetch_add(1, Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.now_ms()).unwrap() * 1_000_000
    }

    async fn sleep(&self, _: Duration) {
        std::future::pending().await
    }
}

impl Ids for TestTime {
    fn next(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.ids.fetch_add(1, Ordering::Relaxed)))
    }
}

/// The URL of a path, or of a URL, and its path in the store.
fn located(place: &str) -> (Url, object_store::path::Path) {
    let url = match place.contains("://") {
        true => Url::parse(place).unwrap(),
        false => Url::parse(&format!("memory:///{}", place.trim_start_matches('/'))).unwrap(),
    };
    let path = object_store::path::Path::from_url_path(url.path()).unwrap();
    (url, path)
}

#[derive(Debug)]
struct TestDirectory(tempfile::TempDir);

impl TemporaryDirectory for TestDirectory {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn keep(self: Box<Self>) {
        let _ = self.0.keep();
    }
}

#[async_trait]
impl Host for TestHost {
    fn session(&self) -> Result<Session> {
        let mut registry = Registry::new(self.clock(), self.ids());
        let tables = MemoryTables::new();
        registry.add_source(Arc::new(RateMicroBatchProvider::new()));
        registry.add_source(Arc::new(MemoryProvider::new(tables.clone())));
        registry.add_sink(Arc::new(MemoryProvider::new(tables)));
        registry.add_sink(Arc::new(NoopProvider));
        let store = self.store.clone();
        let storage = Storage::new(move |place| {
            let (url, path) = located(place);
            Ok(Location { url, store: store.clone(), path })
        });
        registry.add_source(Arc::new(DeltaSourceProvider::new(storage.clone())));
        registry.add_sink(Arc::new(DeltaSinkProvider::new(storage.clone(), self.clock(), self.ids())));
        registry.add_versioned(Arc::new(DeltaTables::new(storage.clone(), self.clock(), self.ids())));
        for files in FileSinkProvider::all(&storage, &self.clock(), &self.ids()) {
            registry.add_sink(files);
        }
        Session::new(registry, SessionOptions { parallelism: 1, ..SessionOptions::default() })
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.time.clone()
    }

    fn ids(&self) -> Arc<dyn Ids> {
        self.time.clone()
    }

    async fn checkpoint(&self, place: &str) -> Result<CheckpointLocation> {
        self.open(place)
    }

    fn open(&self, place: &str) -> Result<CheckpointLocation> {
        let (url, root) = located(place);
        Ok(CheckpointLocation { store: self.store.clone(), root, url })
    }

    fn temporary_directory(&self, _: &str) -> Result<Box<dyn TemporaryDirectory>> {
        Ok(Box::new(TestDirectory(tempfile::tempdir().unwrap())))
    }

    fn warehouse(&self) -> String {
        "memory:///warehouse".to_owned()
    }

    fn time_zone(&self) -> String {
        "UTC".to_owned()
    }

    fn address(&self) -> Option<String> {
        None
    }
}

pub(in crate::connect) fn session() -> Arc<ConnectSession> {
    let key = SessionKey { user_id: "u".to_owned(), session_id: "s".to_owned() };
    ConnectSession::new(key, Arc::new(TestHost::default()), GlobalViews::default()).unwrap()
}

/// A query over `rate-micro-batch`, which always has something new; `fails` divides by zero in its first batch.
async fn query(session: &Arc<ConnectSession>, name: &str, fails: bool) -> StreamingQuery {
    let options = Options::new().with("rowsPerBatch", "2");
    let relation = session.engine.stream_relation("rate-micro-batch", ReadRequest { options, ..ReadRequest::default() }).await.unwrap();
    let context = session.engine.context();
    context.deregister_table("numbers").unwrap();
    context.register_table("numbers", Arc::new(relation)).unwrap();
    let sql = if fails { "SELECT 1 / (value - value) AS v FROM numbers" } else { "SELECT value AS v FROM numbers" };
    let queries = session.part::<Queries>();
    queries.listen(&session.engine);
    let request = QueryRequest {
        name: Some(name.to_owned()),
        plan: session.engine.plan_sql(sql).await.unwrap(),
        output: None,
        sink: session.engine.registry().sink("noop").unwrap().sink(&Default::default()).await.unwrap(),
        mode: OutputMode::Append,
        trigger: Trigger::AvailableNow,
        checkpoint: session.host.open(name).unwrap(),
        quarantine: None,
        expectations: vec![],
        settings: QuerySettings::default(),
    };
    let query = session.engine.start_detached(request).await.unwrap();
    queries.add(query.clone(), None, session.host.clock());
    queries.bus().tell(query.run_id());
    query
}

async fn ask(session: &Arc<ConnectSession>, query: &StreamingQuery, command: Command) -> Result<Option<ResultType>> {
    let query_id = Some(StreamingQueryInstanceId { id: query.id().to_string(), run_id: query.run_id().to_string() });
    query_command(session, StreamingQueryCommand { query_id, command: Some(command) }).await.map(|result| result.result_type)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_query_can_be_asked_and_is_not_active() {
    let session = session();
    let query = query(&session, "q", false).await;
    let wait = Command::AwaitTermination(AwaitTerminationCommand { timeout_ms: None });
    let Some(ResultType::AwaitTermination(ended)) = ask(&session, &query, wait).await.unwrap() else { panic!() };
    assert!(ended.terminated);
    let Some(ResultType::Status(status)) = ask(&session, &query, Command::Status(true)).await.unwrap() else { panic!() };
    assert_eq!((status.status_message.as_str(), status.is_active), ("Stopped", false));
    let Some(ResultType::RecentProgress(recent)) = ask(&session, &query, Command::RecentProgress(true)).await.unwrap() else { panic!() };
    assert!(recent.recent_progress_json.first().unwrap().contains("\"numInputRows\":2"), "{recent:?}");
    assert_eq!(ask(&session, &query, Command::Exception(true)).await.unwrap(), None);
    let unknown = StreamingQueryCommand { query_id: None, command: Some(Command::Status(true)) };
    let error = query_command(&session, unknown).await.unwrap_err();
    assert_eq!(error.code(), "CONNECT_INVALID_PLAN.STREAMING_QUERY_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_told_to_everyone_who_waits() {
    let session = session();
    let query = query(&session, "q", true).await;
    let queries = session.part::<Queries>();
    for error in [
        ask(&session, &query, Command::AwaitTermination(AwaitTerminationCommand { timeout_ms: None })).await.unwrap_err(),
        ask(&session, &query, Command::ProcessAllAvailable(true)).await.unwrap_err(),
        queries.await_any(None).await.unwrap_err(),
    ] {
        assert_eq!((error.code(), error.sqlstate()), ("STREAM_FAILED", Some("XXKST")));
        assert!(error.message().starts_with(&format!("Query [id = {}, runId = {}] terminated", query.id(), query.run_id())), "{error}");
    }
    let Some(ResultType::Exception(exception)) = ask(&session, &query, Command::Exception(true)).await.unwrap() else { panic!() };
    let message = exception.exception_message.unwrap();
    assert!(message.starts_with("org.apache.spark.sql.streaming.StreamingQueryException: "), "{message}");
    assert!(message.contains("Identifier: q [id = "), "{message}");
    queries.reset_terminated();
    assert!(!queries.await_any(Some(Duration::ZERO)).await.unwrap());
}

#[tokio::test]
async fn a_name_is_taken_until_it_is_let_go() {
    let queries = Arc::new(Queries::default());
    let first = queries.reserve(Some("q")).unwrap();
    assert_eq!(queries.reserve(Some("q")).unwrap_err().code(), "IllegalArgumentException");
    let (_other, _unnamed, _second_unnamed) =
        (queries.reserve(Some("Q")).unwrap(), queries.reserve(None).unwrap(), queries.reserve(None).unwrap());
    drop(first);
    queries.reserve(Some("q")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_hears_progress_and_end_and_then_its_stream_ends() {
    let session = session();
    let (answers, mut heard) = mpsc::channel::<StreamingQueryListenerEventsResult>(100);
    let add = StreamingQueryListenerBusCommand { command: Some(BusCommand::AddListenerBusListener(true)) };
    let listening = tokio::spawn({
        let session = session.clone();
        async move { listener_bus(&session, add, answers).await }
    });
    assert_eq!(heard.recv().await.unwrap().listener_bus_listener_added, Some(true));
    let second = StreamingQueryListenerBusCommand { command: Some(BusCommand::AddListenerBusListener(true)) };
    assert_eq!(listener_bus(&session, second, mpsc::channel(1).0).await.unwrap_err().code(), "IllegalStateException");
    query(&session, "q", false).await.await_termination().await.unwrap();
    let remove = StreamingQueryListenerBusCommand { command: Some(BusCommand::RemoveListenerBusListener(true)) };
    listener_bus(&session, remove, mpsc::channel(1).0).await.unwrap();
    listening.await.unwrap().unwrap();
    let mut kinds = Vec::new();
    while let Some(answer) = heard.recv().await {
        kinds.extend(answer.events.into_iter().map(|event| event.event_type));
    }
    let (progress, terminated) = (StreamingQueryEventType::QueryProgressEvent, StreamingQueryEventType::QueryTerminatedEvent);
    assert_eq!(kinds.first(), Some(&i32::from(progress)), "{kinds:?}");
    assert_eq!(kinds.last(), Some(&i32::from(terminated)), "{kinds:?}");
}

/// A clock on which less than a second is over at once, and more never.
#[derive(Debug)]
struct ShortSleeps;

#[async_trait]
impl Clock for ShortSleeps {
    fn now_ms(&self) -> i64 {
        0
    }

    fn monotonic_ns(&self) -> u64 {
        0
    }

    async fn sleep(&self, duration: Duration) {
        if duration >= Duration::from_secs(1) {
            std::future::pending::<()>().await;
        }
    }
}

#[tokio::test]
async fn events_of_a_run_wait_until_its_start_was_told() {
    let session = session();
    let bus = session.part::<Queries>().bus().clone();
    let (answers, mut heard) = mpsc::channel::<StreamingQueryListenerEventsResult>(100);
    let add = StreamingQueryListenerBusCommand { command: Some(BusCommand::AddListenerBusListener(true)) };
    let listening = tokio::spawn(async move { listener_bus(&session, add, answers).await });
    heard.recv().await.unwrap();
    let [early, late, removed] = [1, 2, 3].map(Uuid::from_u128);
    let started = |run_id| bus.on_event(&QueryEvent::Started { id: run_id, run_id, name: None, timestamp_ms: 0 });
    let idle = |run_id, timestamp_ms| bus.on_event(&QueryEvent::Idle { id: run_id, run_id, timestamp_ms });
    started(late);
    idle(late, 1);
    // One that was told, or whose start nobody waits for, does not wait for others.
    started(early);
    bus.tell(early);
    idle(early, 2);
    idle(late, 3);
    let released = CancellationToken::new();
    let untold = Untold { bus: bus.clone(), run_id: late };
    let telling = tokio::spawn(untold.told(released.clone().cancelled_owned(), Arc::new(ShortSleeps)));
    idle(early, 4);
    released.cancel();
    telling.await.unwrap();
    idle(late, 5);
    started(removed);
    idle(removed, 6);
    bus.remove();
    listening.await.unwrap().unwrap();
    let mut times = Vec::new();
    while let Some(answer) = heard.recv().await {
        times.extend(answer.events.into_iter().map(|event| event.event_json));
    }
    let order: Vec<String> = [2, 4, 1, 3, 5, 6].iter().map(|ms| millstream_core::progress::utc_text(*ms)).collect();
    assert_eq!(times.len(), order.len(), "{times:?}");
    assert!(times.iter().zip(&order).all(|(event, time)| event.contains(time.as_str())), "{times:?}");
}

#[tokio::test]
async fn the_checkpoint_is_where_the_query_or_the_session_says() {
    let session = session();
    let place = |options: Options, name: Option<&'static str>, temporary: bool| {
        let session = session.clone();
        async move {
            location::checkpoint(&session, &options, name, temporary)
                .await
                .map(|place| (place.location.url.path().to_owned(), place.temporary.is_some()))
        }
    };
    let given = Options::new().with("CHECKPOINTLOCATION", "/given");
    assert_eq!(place(given.clone(), None, true).await.unwrap(), ("/given".to_owned(), false));
    assert_eq!(place(Options::new(), Some("q"), false).await.unwrap_err().code(), "_LEGACY_ERROR_TEMP_1298");
    assert!(place(Options::new(), None, true).await.unwrap().1);
    session.confs.set("spark.sql.streaming.checkpointLocation", "/root/").unwrap();
    assert_eq!(place(Options::new(), Some("q"), true).await.unwrap(), ("/root/q".to_owned(), false));
    assert_eq!(place(given, Some("q"), true).await.unwrap().0, "/given");
}

#[tokio::test]
async fn sinks_refuse_what_spark_refuses() {
    let session = session();
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Utf8, true), Field::new("v", DataType::Int64, true)]));
    let open = |format: &'static str, options: &'static [(&'static str, &'static str)], partition_by: &'static [&'static str], mode| {
        let (session, schema) = (session.clone(), schema.clone());
        async move {
            let wanted = Wanted {
                format: format.to_owned(),
                options: options.iter().copied().collect(),
                partition_by: partition_by.iter().map(|name| (*name).to_owned()).collect(),
                name: Some("q".to_owned()),
                mode,
            };
            destination::open(&session, &wanted, &schema)
                .await
                .map(|sink| sink.description())
                .map_err(|error: Error| error.code().to_owned())
        }
    };
    let path: &[(&str, &str)] = &[("path", "/out")];
    let cases = BTreeMap::from([
        ("a file", (open("json", path, &["K"], OutputMode::Append).await, Ok(()))),
        ("no path", (open("json", &[], &[], OutputMode::Append).await, Err("_LEGACY_ERROR_TEMP_2047"))),
        ("another mode", (open("json", path, &[], OutputMode::Update).await, Err("STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE"))),
        ("a missing column", (open("json", path, &["nope"], OutputMode::Append).await, Err("_LEGACY_ERROR_TEMP_1196"))),
        ("no sink", (open("rate-micro-batch", &[], &[], OutputMode::Append).await, Err("_LEGACY_ERROR_TEMP_2049"))),
        ("no format", (open("no_such", &[], &[], OutputMode::Append).await, Err("DATA_SOURCE_NOT_FOUND"))),
        ("a partitioned noop", (open("noop", &[], &["nope"], OutputMode::Update).await, Ok(()))),
    ]);
    for (what, (opened, expected)) in cases {
        assert_eq!(opened.map(drop), expected.map_err(str::to_owned), "{what}");
    }
}
