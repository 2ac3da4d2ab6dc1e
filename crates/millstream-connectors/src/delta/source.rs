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

use super::change_feed::{self, FeedSplit, FeedTable};
use super::changes::{Piece, Rules};
use super::history;
use super::log::TableLog;
use super::offset::Position;
use super::options::{SOURCE, SourceOptions};
use super::protocol;
use super::schema::TableSchema;
use super::split::DeltaSplit;
use super::table::DeltaTable;
use super::walk::{Budget, First, State, Walker};
use super::watch::CommitWatch;
use crate::storage::Storage;

/// Commits without data after which the position is moved past them, so that a quiet stream does not fall behind the log's retention.
const QUIET_COMMITS: u64 = 100;
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
            DeltaSource::rows(&options, &TableSchema::of(&snapshot.metadata, log.kind())?)
        } else if options.change_feed {
            FeedTable::open(log, &options).await?.schema()
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
        let log = self.log(&options)?;
        match options.change_feed {
            true => Ok(Arc::new(FeedTable::open(log, &options).await?)),
            false => Ok(Arc::new(DeltaTable::open(log, &options).await?)),
        }
    }
}

/// A Delta table as the source of one query.
#[derive(Debug)]
pub struct DeltaSource {
    walker: Walker,
    /// The schema of the rows.
    rows: SchemaRef,
    table_id: String,
    state: Mutex<State>,
    watch: CommitWatch,
    /// The commit that would be news; `u64::MAX` until it is known.
    awaited: AtomicU64,
    /// A read limit left something for the next batch.
    backlog: AtomicBool,
    files_outstanding: AtomicU64,
    bytes_outstanding: AtomicU64,
}

impl DeltaSource {
    /// A source of the table. `schema`, if given, is the schema with which the query was planned.
    pub(super) async fn open(log: TableLog, options: SourceOptions, schema: Option<&SchemaRef>, clock: Arc<dyn Clock>) -> Result<Self> {
        let Some(snapshot) = log.snapshot(None).await? else { return Err(history::no_table(&log)) };
        protocol::check_readable(&snapshot.protocol, log.url().as_str())?;
        let table = TableSchema::of(&snapshot.metadata, log.kind())?;
        let rows = Self::rows(&options, &table);
        if schema.is_some_and(|schema| schema.fields() != rows.fields()) {
            let message = format!("the schema of table {} changed while the query was started: start it again", log.url());
            return Err(Error::new(ErrorKind::SchemaMismatch, "DELTA_SCHEMA_CHANGED_WITH_VERSION", message).with_sqlstate("KD007"));
        }
        if options.change_feed && !change_feed::is_on(&snapshot.metadata) {
            let message = format!(
                "the changes of table {} are not recorded: set its property delta.enableChangeDataFeed to true, or read it without readChangeFeed",
                log.url()
            );
            return Err(Error::invalid("DELTA_MISSING_CHANGE_DATA", message).with_sqlstate("KD002"));
        }
        let rules = Rules { table: log.url().to_string(), schema: Arc::new(table), schema_version: snapshot.version(), options };
        Ok(DeltaSource {
            watch: CommitWatch::new(log.clone(), clock.clone()),
            rows,
            walker: Walker { log, rules, clock },
            table_id: snapshot.metadata.id.clone(),
            state: Mutex::default(),
            awaited: AtomicU64::new(u64::MAX),
            backlog: AtomicBool::new(false),
            files_outstanding: AtomicU64::new(0),
            bytes_outstanding: AtomicU64::new(0),
        })
    }

    fn splits(&self, files: Vec<Piece>) -> Vec<Arc<dyn Split>> {
        let (log, schema) = (&self.walker.log, &self.walker.rules.schema);
        let split = |piece| -> Arc<dyn Split> {
            match piece {
                Piece::Rows(add) => Arc::new(DeltaSplit::new(log.clone(), schema.clone(), add)),
                Piece::Feed(file) => Arc::new(FeedSplit::new(log.clone(), schema, *file)),
            }
        };
        files.into_iter().map(split).collect()
    }

    /// The schema of the rows that the options ask for.
    fn rows(options: &SourceOptions, table: &TableSchema) -> SchemaRef {
        if options.change_feed { change_feed::schema(table) } else { table.arrow.clone() }
    }
}

#[async_trait]
impl Source for DeltaSource {
    fn description(&self) -> String {
        format!("DeltaSource[{}]", self.walker.log.spark_path())
    }

    fn schema(&self) -> SchemaRef {
        self.rows.clone()
    }

    fn read_limit(&self) -> ReadLimit {
        self.walker.rules.options.limit.clone()
    }

    fn supports_available_now(&self) -> bool {
        true
    }

    async fn prepare_available_now(&self) -> Result<()> {
        let mut state = self.state.lock().await;
        state.last = None;
        state.last = Some(self.walker.newest(&state).await?);
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
            None => match self.walker.first(&mut state).await? {
                First::At(position) => position,
                First::Pin(position) => return position.to_offset(&self.table_id).map(Some),
                First::Nothing(awaited) => {
                    self.awaited.store(awaited, Ordering::Release);
                    self.backlog.store(false, Ordering::Release);
                    return Ok(None);
                }
            },
        };
        let known = state.quiet.filter(|(quiet, _)| *quiet == from).map_or(from, |(_, end)| end);
        let walk = self.walker.walk(&mut state, known, &mut Budget::of(limit), None).await?;
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
            None => self.walker.first_before(end).await?,
        };
        let mut state = self.state.lock().await;
        let walk = self.walker.walk(&mut state, start, &mut Budget::of(&ReadLimit::AllAvailable), Some(end)).await?;
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
