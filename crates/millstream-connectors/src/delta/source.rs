//! The Delta source: the table as it is, file by file, then the files of each later commit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use millstream_core::registry::{ReadRequest, SourceContext, SourceProvider};
use millstream_core::source::{Source, Split, Table};
use millstream_core::{Clock, Error, ErrorKind, Offset, OptionSpec, ReadLimit, Result};
use tokio::sync::Mutex;

use super::actions::Add;
use super::changes::{Change, Rules};
use super::history;
use super::log::TableLog;
use super::offset::{BEFORE, Position};
use super::options::{SOURCE, SourceOptions, Starting};
use super::protocol;
use super::schema::TableSchema;
use super::split::DeltaSplit;
use super::table::DeltaTable;
use super::watch::CommitWatch;
use crate::storage::Storage;

/// Commits without data after which the position is moved past them, so that a quiet stream does not fall behind the log's retention.
const QUIET_COMMITS: u64 = 100;
/// Commits whose files are kept between planning and reading.
const KEPT_COMMITS: usize = 1024;
/// How often a missing next commit is checked against the log, in milliseconds.
const CONFIRM_MS: i64 = 60_000;

/// Makes Delta sources and tables.
#[derive(Clone, Debug)]
pub struct DeltaSourceProvider {
    storage: Storage,
}

impl DeltaSourceProvider {
    /// A provider over this storage.
    pub fn new(storage: Storage) -> Self {
        DeltaSourceProvider { storage }
    }

    fn log(&self, options: &SourceOptions) -> Result<TableLog> {
        TableLog::open(&self.storage, &options.path, ErrorKind::SourceUnavailable)
    }
}

#[async_trait]
impl SourceProvider for DeltaSourceProvider {
    fn names(&self) -> &'static [&'static str] {
        &["delta"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        SOURCE.to_vec()
    }

    async fn schema(&self, request: &ReadRequest, streaming: bool) -> Result<SchemaRef> {
        let options = SourceOptions::of(request)?;
        let log = self.log(&options)?;
        let schema = if streaming {
            let Some(snapshot) = log.snapshot(None).await? else {
                let message = format!("table {} has no schema yet: write data into it first", log.spark_path());
                return Err(Error::invalid("DELTA_SCHEMA_NOT_SET", message).with_sqlstate("KD008"));
            };
            protocol::check_readable(&snapshot.protocol, log.url().as_str())?;
            TableSchema::of(&snapshot.metadata, log.kind())?.arrow
        } else {
            DeltaTable::open(log, &options).await?.schema()
        };
        match &request.schema {
            Some(given) if given.fields() != schema.fields() => Err(Error::invalid(
                "DELTA_UNSUPPORTED_SCHEMA_DURING_READ",
                "Delta does not support specifying the schema at read time: leave it out",
            )
            .with_sqlstate("0AKDC")),
            _ => Ok(schema),
        }
    }

    async fn source(&self, request: &ReadRequest, context: SourceContext) -> Result<Arc<dyn Source>> {
        let options = SourceOptions::of(request)?;
        let log = self.log(&options)?;
        Ok(Arc::new(DeltaSource::open(log, options, request.schema.as_ref(), context.clock).await?))
    }

    async fn table(&self, request: &ReadRequest) -> Result<Arc<dyn Table>> {
        let options = SourceOptions::of(request)?;
        Ok(Arc::new(DeltaTable::open(self.log(&options)?, &options).await?))
    }
}

/// A Delta table as the source of one query.
#[derive(Debug)]
pub struct DeltaSource {
    log: TableLog,
    rules: Rules,
    table_id: String,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    watch: CommitWatch,
    /// The commit that would be news; `u64::MAX` until it is known.
    awaited: AtomicU64,
    /// A read limit left something for the next batch.
    backlog: AtomicBool,
    files_outstanding: AtomicU64,
    bytes_outstanding: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// The files of the table at the version with which the query begins.
    initial: Option<(u64, Arc<Vec<Arc<Add>>>)>,
    commits: BTreeMap<u64, Arc<Vec<Change>>>,
    /// The last version to read, once the end of the input is fixed.
    last: Option<u64>,
    /// A position, and the one up to which nothing follows it.
    quiet: Option<(Position, Position)>,
    /// When the log was last checked for commits that are gone.
    confirmed_ms: Option<i64>,
}

/// How much of a batch's limit is left. The first file is always admitted.
struct Budget {
    files: Option<u64>,
    bytes: Option<u64>,
    empty: bool,
}

impl Budget {
    fn of(limit: &ReadLimit) -> Self {
        Budget { files: limit.max_files(), bytes: limit.max_bytes(), empty: true }
    }

    fn take(&mut self, bytes: u64) -> bool {
        let room = self.files != Some(0) && self.bytes != Some(0);
        if !room && !self.empty {
            return false;
        }
        self.empty = false;
        self.files = self.files.map(|files| files.saturating_sub(1));
        self.bytes = self.bytes.map(|left| left.saturating_sub(bytes));
        true
    }
}

/// Files of a range.
struct Walk {
    files: Vec<Arc<Add>>,
    end: Position,
    /// Files, and their bytes, known to follow.
    left: (u64, u64),
}

/// Where a query without a checkpoint begins.
enum First {
    /// Read on from here.
    At(Position),
    /// This position has to be written down before anything that follows is read: the same question gives another answer later.
    Pin(Position),
    /// There is nothing yet.
    Nothing,
}

impl DeltaSource {
    /// A source of the table. `schema`, if given, is the schema with which the query was planned.
    pub(super) async fn open(log: TableLog, options: SourceOptions, schema: Option<&SchemaRef>, clock: Arc<dyn Clock>) -> Result<Self> {
        let Some(snapshot) = log.snapshot(None).await? else { return Err(history::no_table(&log)) };
        protocol::check_readable(&snapshot.protocol, log.url().as_str())?;
        let table = TableSchema::of(&snapshot.metadata, log.kind())?;
        if schema.is_some_and(|schema| schema.fields() != table.arrow.fields()) {
            let message = format!("the schema of table {} changed while the query was started: start it again", log.url());
            return Err(Error::new(ErrorKind::SchemaMismatch, "DELTA_SCHEMA_CHANGED_WITH_VERSION", message).with_sqlstate("KD007"));
        }
        let rules =
            Rules { table: log.url().to_string(), schema: Arc::new(table), schema_version: snapshot.version(), options };
        Ok(DeltaSource {
            watch: CommitWatch::new(log.clone(), clock.clone()),
            log,
            rules,
            table_id: snapshot.metadata.id.clone(),
            clock,
            state: Mutex::default(),
            awaited: AtomicU64::new(u64::MAX),
            backlog: AtomicBool::new(false),
            files_outstanding: AtomicU64::new(0),
            bytes_outstanding: AtomicU64::new(0),
        })
    }

    async fn newest(&self, state: &State) -> Result<u64> {
        let newest = history::newest(&self.log, self.rules.schema_version).await?;
        Ok(state.last.map_or(newest, |last| newest.min(last)))
    }

    /// Where a query without a checkpoint begins.
    async fn first(&self, state: &mut State) -> Result<First> {
        match self.rules.options.starting {
            Starting::Version(version) => {
                let newest = self.newest(state).await?;
                if version > newest {
                    return Err(no_such_version(&self.log, version, newest));
                }
                Ok(First::At(Position::before(version)))
            }
            Starting::Latest => Ok(First::Pin(Position::before(self.newest(state).await? + 1))),
            Starting::Timestamp(time_ms) => match history::first_at_or_after(&self.log, time_ms).await? {
                Some(version) => Ok(First::At(Position::before(version))),
                None => Ok(First::Pin(Position::before(self.newest(state).await? + 1))),
            },
            Starting::Snapshot => {
                let version = match &state.initial {
                    Some((version, _)) if self.log.commit_time(version + 1).await?.is_none() => *version,
                    _ => self.newest(state).await?,
                };
                if self.initial(state, version).await?.is_empty() {
                    self.awaited.store(version + 1, Ordering::Release);
                    return Ok(First::Nothing);
                }
                Ok(First::At(Position::table_at(version)))
            }
        }
    }

    /// Where the range of a first batch begins whose end is known.
    async fn first_before(&self, end: Position) -> Result<Position> {
        if end.initial {
            return Ok(Position::table_at(end.version));
        }
        match self.rules.options.starting {
            Starting::Version(version) => Ok(Position::before(version)),
            Starting::Latest => Ok(end),
            Starting::Timestamp(time_ms) => {
                Ok(history::first_at_or_after(&self.log, time_ms).await?.map_or(end, Position::before))
            }
            Starting::Snapshot => match (end.version.checked_sub(1), end.index) {
                (Some(version), BEFORE) => Ok(Position::table_at(version)),
                _ => {
                    let message = format!(
                        "the first batch of the checkpoint ends inside version {} of table {}, which a query that begins with the whole \
                         table never does: restore the options of the query, or start a new checkpoint",
                        end.version,
                        self.log.url()
                    );
                    Err(Error::new(ErrorKind::CheckpointIncompatible, "DELTA_OFFSET_NOT_OF_THIS_QUERY", message))
                }
            },
        }
    }

    /// The files of the table at a version, in the order in which they are read.
    async fn initial(&self, state: &mut State, version: u64) -> Result<Arc<Vec<Arc<Add>>>> {
        if let Some((known, files)) = &state.initial
            && *known == version
        {
            return Ok(files.clone());
        }
        let read = async {
            match self.log.snapshot(Some(version)).await? {
                Some(snapshot) => snapshot.files().await,
                None => Err(history::no_table(&self.log)),
            }
        };
        let mut files = match read.await {
            Ok(files) => files,
            Err(error) => return Err(self.explain_initial(version, error).await),
        };
        files.sort_by(|left, right| (left.modification_time, &left.path).cmp(&(right.modification_time, &right.path)));
        let files: Arc<Vec<Arc<Add>>> = Arc::new(files.into_iter().map(Arc::new).collect());
        state.initial = Some((version, files.clone()));
        Ok(files)
    }

    /// Whether a table cannot be read at a version because its log no longer reaches back, or for another reason.
    async fn explain_initial(&self, version: u64, error: Error) -> Error {
        let Ok(files) = self.log.files_from(0).await else { return error };
        let checkpoint = files.iter().filter(|file| file.checkpoint && file.version <= version).map(|file| file.version).max();
        let from = checkpoint.map_or(0, |checkpoint| checkpoint + 1);
        let complete = (from..=version).all(|version| files.iter().any(|file| !file.checkpoint && file.version == version));
        if complete {
            return error;
        }
        let earliest = files.iter().map(|file| file.version).min().unwrap_or(0);
        lost(&self.log, version, earliest).caused_by(error)
    }

    /// The files that a commit passes on, or `None` when there is no such commit.
    async fn changes(&self, state: &mut State, version: u64) -> Result<Option<Arc<Vec<Change>>>> {
        if let Some(changes) = state.commits.get(&version) {
            return Ok(Some(changes.clone()));
        }
        let Some(commit) = self.log.read_commit(version).await? else { return Ok(None) };
        let changes = Arc::new(self.rules.changes(version, &commit)?);
        state.commits.insert(version, changes.clone());
        if state.commits.len() > KEPT_COMMITS {
            state.commits.pop_first();
        }
        Ok(Some(changes))
    }

    /// Where the log goes on if it lacks `version` and has later ones.
    async fn gap(&self, state: &mut State, version: u64) -> Result<Option<u64>> {
        let now_ms = self.clock.now_ms();
        if let Some(confirmed_ms) = state.confirmed_ms {
            if now_ms.saturating_sub(confirmed_ms) < CONFIRM_MS {
                return Ok(None);
            }
            state.confirmed_ms = Some(now_ms);
            if self.log.last_checkpoint().await.is_none_or(|checkpoint| checkpoint < version) {
                return Ok(None);
            }
        }
        state.confirmed_ms = Some(now_ms);
        let files = self.log.files_from(version).await?;
        let commit = files.iter().filter(|file| !file.checkpoint).map(|file| file.version).min();
        let checkpoint = files.iter().filter(|file| file.checkpoint).map(|file| file.version + 1).max();
        Ok(commit.or(checkpoint).filter(|earliest| *earliest > version))
    }

    /// Collects files from a position on, until the budget is spent, `until` is reached or nothing follows.
    async fn walk(&self, state: &mut State, from: Position, budget: &mut Budget, until: Option<Position>) -> Result<Walk> {
        let mut walk = Walk { files: Vec::new(), end: from, left: (0, 0) };
        if from.initial && !until.is_some_and(|until| from.reached(until)) {
            let files = match self.initial(state, from.version).await {
                Ok(files) => files,
                Err(error) if error.kind() == ErrorKind::DataLost && !self.rules.options.fail_on_data_loss => {
                    tracing::warn!(%error, "going on without the rest of the table, because failOnDataLoss is false");
                    Arc::default()
                }
                Err(error) => return Err(error),
            };
            let next = usize::try_from(from.index + 1).unwrap_or(0);
            for (index, add) in (0_i64..).zip(files.iter()).skip(next) {
                if until.is_some_and(|until| until.initial && until.version == from.version && index > until.index) {
                    return Ok(walk);
                }
                if self.rules.wanted(add) {
                    if !budget.take(add.size) {
                        let rest = files.iter().skip(usize::try_from(index).unwrap_or(0));
                        walk.left = rest.fold((0, 0), |(files, bytes), add| (files + 1, bytes + add.size));
                        return Ok(walk);
                    }
                    walk.files.push(add.clone());
                }
                walk.end.index = index;
            }
            // A batch never goes beyond the end of the table as it was, so that its beginning can be told from its end.
            walk.end = Position::before(from.version + 1);
            if until.is_none() {
                return Ok(walk);
            }
        }
        while until.is_none_or(|until| !walk.end.reached(until)) && state.last.is_none_or(|last| walk.end.version <= last) {
            let Some(changes) = self.changes(state, walk.end.version).await? else {
                match self.missing(state, walk.end.version, until).await? {
                    Some(position) => walk.end = position,
                    None => break,
                }
                continue;
            };
            for change in changes.iter().filter(|change| change.index > walk.end.index) {
                if until.is_some_and(|until| until.version == walk.end.version && change.index > until.index) {
                    return Ok(walk);
                }
                if !budget.take(change.add.size) {
                    let rest = changes.iter().filter(|other| other.index >= change.index);
                    walk.left = rest.fold((0, 0), |(files, bytes), other| (files + 1, bytes + other.add.size));
                    return Ok(walk);
                }
                walk.files.push(change.add.clone());
                walk.end.index = change.index;
            }
            walk.end = Position::before(walk.end.version + 1);
        }
        Ok(walk)
    }

    /// What to do about a commit that is not there: wait (`None`), go on elsewhere, or fail.
    async fn missing(&self, state: &mut State, version: u64, until: Option<Position>) -> Result<Option<Position>> {
        let earliest = match until {
            Some(_) => self.log.files_from(version).await?.iter().map(|file| file.version).min().unwrap_or(version).max(version + 1),
            None => match self.gap(state, version).await? {
                Some(earliest) => earliest,
                None => return Ok(None),
            },
        };
        let error = lost(&self.log, version, earliest);
        if self.rules.options.fail_on_data_loss {
            return Err(error);
        }
        tracing::warn!(%error, "going on at the earliest version there is, because failOnDataLoss is false");
        let next = until.map_or(earliest, |until| earliest.min(until.version.max(version + 1)));
        Ok(Some(Position::before(next)))
    }

    fn splits(&self, files: Vec<Arc<Add>>) -> Vec<Arc<dyn Split>> {
        files
            .into_iter()
            .map(|add| -> Arc<dyn Split> { Arc::new(DeltaSplit::new(self.log.clone(), self.rules.schema.clone(), add)) })
            .collect()
    }
}

/// The error for versions that were cleaned up before they were read.
fn lost(log: &TableLog, expected: u64, earliest: u64) -> Error {
    let message = format!(
        "the stream from table {} was expecting to process data from version {expected}, but the earliest available version in the \
         _delta_log directory is {earliest}. The files in the transaction log may have been deleted due to log cleanup. In order to avoid \
         losing data, start a new checkpoint, or set the option 'failOnDataLoss' to 'false' to go on without the lost versions.",
        log.url()
    );
    Error::new(ErrorKind::DataLost, "DELTA_MISSING_FILES_UNEXPECTED_VERSION", message).with_sqlstate("XXKDS")
}

pub(super) fn no_such_version(log: &TableLog, version: u64, newest: u64) -> Error {
    let message = format!("table {} has no version {version}: its newest is {newest}", log.url());
    Error::invalid("DELTA_VERSION_NOT_FOUND", message).with_sqlstate("22003")
}

#[async_trait]
impl Source for DeltaSource {
    fn description(&self) -> String {
        format!("DeltaSource[{}]", self.log.spark_path())
    }

    fn schema(&self) -> SchemaRef {
        self.rules.schema.arrow.clone()
    }

    fn read_limit(&self) -> ReadLimit {
        self.rules.options.limit.clone()
    }

    fn supports_available_now(&self) -> bool {
        true
    }

    async fn prepare_available_now(&self) -> Result<()> {
        let mut state = self.state.lock().await;
        state.last = None;
        state.last = Some(self.newest(&state).await?);
        Ok(())
    }

    async fn restore(&self, committed: Option<&Offset>) -> Result<()> {
        if let Some(offset) = committed {
            Position::of_offset(offset, &self.table_id)?;
        }
        Ok(())
    }

    async fn latest_offset(&self, start: Option<&Offset>, limit: &ReadLimit) -> Result<Option<Offset>> {
        let mut state = self.state.lock().await;
        let from = match start {
            Some(offset) => Position::of_offset(offset, &self.table_id)?,
            None => match self.first(&mut state).await? {
                First::At(position) => position,
                First::Pin(position) => return position.to_offset(&self.table_id).map(Some),
                First::Nothing => return Ok(None),
            },
        };
        let known = state.quiet.filter(|(quiet, _)| *quiet == from).map_or(from, |(_, end)| end);
        let walk = self.walk(&mut state, known, &mut Budget::of(limit), None).await?;
        self.awaited.store(walk.end.version, Ordering::Release);
        self.backlog.store(walk.left.0 > 0 || from.initial, Ordering::Release);
        self.files_outstanding.store(walk.left.0, Ordering::Relaxed);
        self.bytes_outstanding.store(walk.left.1, Ordering::Relaxed);
        let quiet = walk.files.is_empty() && from.initial == walk.end.initial;
        if quiet && walk.end.version.saturating_sub(from.version) < QUIET_COMMITS {
            state.quiet = Some((from, walk.end));
            return Ok(start.cloned());
        }
        state.quiet = None;
        walk.end.to_offset(&self.table_id).map(Some)
    }

    async fn plan(&self, start: Option<&Offset>, end: &Offset) -> Result<Vec<Arc<dyn Split>>> {
        let end = Position::of_offset(end, &self.table_id)?;
        let start = match start {
            Some(offset) => Position::of_offset(offset, &self.table_id)?,
            None => self.first_before(end).await?,
        };
        let mut state = self.state.lock().await;
        let walk = self.walk(&mut state, start, &mut Budget::of(&ReadLimit::AllAvailable), Some(end)).await?;
        Ok(self.splits(walk.files))
    }

    async fn commit(&self, end: &Offset) -> Result<()> {
        let end = Position::of_offset(end, &self.table_id)?;
        let mut state = self.state.lock().await;
        state.commits = state.commits.split_off(&end.version);
        if !end.initial {
            state.initial = None;
        }
        Ok(())
    }

    async fn changed(&self) {
        let awaited = self.awaited.load(Ordering::Acquire);
        if self.backlog.load(Ordering::Acquire) || awaited == u64::MAX {
            return;
        }
        self.watch.wait_for(awaited).await;
    }

    fn metrics(&self) -> BTreeMap<String, String> {
        let metric = |name: &str, value: &AtomicU64| (name.to_owned(), value.load(Ordering::Relaxed).to_string());
        [metric("numFilesOutstanding", &self.files_outstanding), metric("numBytesOutstanding", &self.bytes_outstanding)].into()
    }

    async fn stop(&self) {
        self.watch.stop();
    }
}
