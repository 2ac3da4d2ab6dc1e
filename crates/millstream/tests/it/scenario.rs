//! The query that the suites run, and the proof that it did its work exactly once.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use async_trait::async_trait;
use futures::TryStreamExt;
use millstream::system::{RandomIds, SystemClock};
use millstream::wiring::Wiring;
use millstream::{Error, ErrorKind, QueryRequest, QuerySettings, Session, SessionOptions, Trigger};
use millstream_core::registry::{ReadRequest, Registry, WriteRequest};
use millstream_core::sink::{OutputMode, Sink};
use millstream_core::{Clock, Options};
use object_store::ObjectStoreExt;
use serde_json::Value;

/// What every sample is drawn by.
pub const SEED: u64 = 2026;

/// About one in `one_in` of the numbers, the same ones each time.
pub fn sampled(number: usize, one_in: u64) -> bool {
    let mut hasher = DefaultHasher::new();
    (SEED, number).hash(&mut hasher);
    hasher.finish().is_multiple_of(one_in)
}

/// No run takes this long; one that does hangs.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// The system's clock, on which nobody waits: sleeping moves it.
#[derive(Debug, Default)]
struct JumpingClock {
    system: SystemClock,
    jumped_ms: AtomicI64,
}

#[async_trait]
impl Clock for JumpingClock {
    fn now_ms(&self) -> i64 {
        self.system.now_ms() + self.jumped_ms.load(Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        self.system.monotonic_ns() + self.jumped_ms.load(Ordering::Relaxed) as u64 * 1_000_000
    }

    async fn sleep(&self, duration: Duration) {
        self.jumped_ms.fetch_add(duration.as_millis() as i64, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The wiring of a new process.
pub fn wiring() -> Wiring {
    Wiring::new(Arc::new(JumpingClock::default()), Arc::new(RandomIds))
}

/// Where a query reads and writes.
#[derive(Clone, Debug)]
pub struct Places {
    pub input: String,
    pub table: String,
    pub quarantine: String,
    pub checkpoint: String,
}

impl Places {
    /// Input in `input`, everything that is written below `root`.
    pub fn new(input: &str, root: &str) -> Self {
        let below = |name: &str| format!("{root}/{name}");
        Places { input: input.to_owned(), table: below("table"), quarantine: below("bad"), checkpoint: below("cp") }
    }
}

/// Rows in every input file.
const ROWS: i64 = 3;

/// One input file in three has a malformed record.
fn malformed(file: i64) -> Option<String> {
    (file % 3 == 0).then(|| format!("{{\"id\": broken in file {file}"))
}

/// The name and the content of an input file.
pub fn input(file: i64) -> (String, String) {
    let mut text = String::new();
    for row in 0..ROWS {
        text.push_str(&format!("{{\"id\": {}, \"name\": \"row {row} of file {file}\"}}\n", file * 10 + row));
        if row == 1
            && let Some(broken) = malformed(file)
        {
            text.push_str(&broken);
            text.push('\n');
        }
    }
    (format!("{file}.json"), text)
}

/// How a run failed.
#[derive(Clone, Debug)]
pub struct Failed {
    pub kind: ErrorKind,
    pub code: String,
    pub message: String,
}

impl From<&Error> for Failed {
    fn from(error: &Error) -> Self {
        Failed { kind: error.kind(), code: error.code().to_owned(), message: error.to_string() }
    }
}

static PANICS: AtomicU64 = AtomicU64::new(0);

/// Panics so far, on whatever thread.
pub fn panics() -> u64 {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let shown = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            shown(panic);
        }));
    });
    PANICS.load(Ordering::Relaxed)
}

/// Runs the query until its input is done: one file per batch, a checkpoint of the table every third version.
pub async fn run(wiring: &Wiring, places: &Places) -> Result<(), Failed> {
    run_with(wiring, places, wiring.registry(std::io::sink())).await
}

/// The same with the connectors of another registry.
pub async fn run_with(wiring: &Wiring, places: &Places, registry: Registry) -> Result<(), Failed> {
    let run = tokio::time::timeout(HANGS_AFTER, try_run(wiring, places, registry)).await;
    run.unwrap_or_else(|_| Err(Failed { kind: ErrorKind::Internal, code: "HANGS".to_owned(), message: "the run did not end".to_owned() }))
}

async fn try_run(wiring: &Wiring, places: &Places, registry: Registry) -> Result<(), Failed> {
    let failed = |error: Error| Failed::from(&error);
    let options = SessionOptions { parallelism: 2, ..SessionOptions::default() };
    let session = Session::new(registry, options).map_err(failed)?;
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, true), Field::new("name", DataType::Utf8, true)]);
    let read = ReadRequest {
        schema: Some(Arc::new(schema)),
        paths: vec![places.input.clone()],
        options: Options::new().with("maxFilesPerTrigger", "1").with("mode", "DROPMALFORMED"),
    };
    let stream = session.stream_relation("json", read).await.map_err(failed)?;
    session.context().register_table("input", Arc::new(stream)).unwrap();
    let request = QueryRequest {
        name: Some("suite".to_owned()),
        plan: session.plan_sql("SELECT id, name FROM input").await.map_err(failed)?,
        output: None,
        sink: sink(&session, &places.table).await.map_err(failed)?,
        mode: OutputMode::Append,
        trigger: Trigger::AvailableNow,
        checkpoint: wiring.checkpoint(&places.checkpoint).await.map_err(failed)?,
        quarantine: Some(sink(&session, &places.quarantine).await.map_err(failed)?),
        expectations: vec![],
        settings: QuerySettings::default(),
    };
    let query = session.start(request).await.map_err(failed)?;
    query.await_termination().await.map_err(|error| Failed::from(&*error))
}

async fn sink(session: &Session, place: &str) -> Result<Arc<dyn Sink>, Error> {
    let options = Options::new().with("checkpointInterval", "3");
    session.registry().sink("delta")?.sink(&WriteRequest { path: Some(place.to_owned()), options, ..WriteRequest::default() }).await
}

/// Proves that the first `files` input files are in the tables exactly once: every id in the table and in the history of its log, every
/// malformed record in the quarantine and its history. Says what is wrong otherwise.
pub async fn verify(wiring: &Wiring, places: &Places, files: i64) -> Result<(), String> {
    let session = Session::new(wiring.registry(std::io::sink()), SessionOptions { parallelism: 1, ..SessionOptions::default() })
        .map_err(|error| error.to_string())?;
    let ids: Vec<String> = (0..files).flat_map(|file| (0..ROWS).map(move |row| (file * 10 + row).to_string())).collect();
    let bad: Vec<String> = (0..files).filter_map(malformed).collect();
    for (place, column, wanted) in [(&places.table, "id", sorted(ids)), (&places.quarantine, "raw", sorted(bad))] {
        let found = column_of(&session, place, column).await.map_err(|error| format!("{place} cannot be read: {error}"))?;
        if found != wanted {
            return Err(format!("{place} has {column} {found:?}, not {wanted:?}"));
        }
        // Every add is still part of the table: what the history has, the table has, and the other way round.
        let rows = history(wiring, place).await?;
        if rows != wanted.len() as u64 {
            return Err(format!("the log of {place} has added {rows} rows in all, and the table has {}", wanted.len()));
        }
    }
    Ok(())
}

fn sorted(mut values: Vec<String>) -> Vec<String> {
    values.sort();
    values
}

async fn column_of(session: &Session, place: &str, column: &str) -> Result<Vec<String>, Error> {
    let table = session.table_relation("delta", ReadRequest { paths: vec![place.to_owned()], ..ReadRequest::default() }).await?;
    session.context().register_table(column, Arc::new(table)).unwrap();
    let plan = session.plan_sql(&format!("SELECT {column} FROM {column}")).await?;
    let (_, batches) = session.collect(plan).await?;
    let mut values = Vec::new();
    for batch in batches {
        let rows = batch.column(0);
        values.extend((0..rows.len()).map(|row| match rows.data_type() {
            _ if rows.is_null(row) => "null".to_owned(),
            DataType::Int64 => rows.as_primitive::<Int64Type>().value(row).to_string(),
            _ => rows.as_string::<i32>().value(row).to_owned(),
        }));
    }
    Ok(sorted(values))
}

/// The rows that the commits of a table have added. The log must be whole and add only: versions without a gap, no file added twice, no
/// transaction twice, nothing removed.
async fn history(wiring: &Wiring, place: &str) -> Result<u64, String> {
    let location = wiring.storage().open(place).map_err(|error| error.to_string())?;
    let log = location.path.clone().join("_delta_log");
    let listed: Vec<_> = location.store.list(Some(&log)).try_collect().await.map_err(|error| error.to_string())?;
    let mut commits: Vec<_> = listed.into_iter().map(|meta| meta.location).filter(|path| path.extension() == Some("json")).collect();
    commits.sort();
    let (mut rows, mut paths, mut transactions) = (0, BTreeSet::new(), BTreeSet::new());
    for (version, path) in commits.iter().enumerate() {
        if path.filename() != Some(&format!("{version:020}.json")) {
            return Err(format!("{path} is where version {version} should be"));
        }
        let bytes = location.store.get(path).await.map_err(|error| error.to_string())?.bytes().await.map_err(|error| error.to_string())?;
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let action: Value = serde_json::from_slice(line).map_err(|error| format!("{path}: {error}"))?;
            let add = &action["add"];
            if add.is_object() {
                let stats: Value = serde_json::from_str(add["stats"].as_str().unwrap_or_default()).map_err(|error| error.to_string())?;
                rows += stats["numRecords"].as_u64().ok_or_else(|| format!("{path} does not count its rows"))?;
                if !paths.insert(add["path"].to_string()) {
                    return Err(format!("{path} adds {} again", add["path"]));
                }
            }
            let txn = &action["txn"];
            if txn.is_object() && !transactions.insert((txn["appId"].to_string(), txn["version"].to_string())) {
                return Err(format!("{path} has transaction {txn} again"));
            }
            if action["remove"].is_object() {
                return Err(format!("{path} removes a file"));
            }
        }
    }
    Ok(rows)
}
