//! The Delta sink: each batch is one commit, exactly once.
//!
//! The commit carries `txn(query id, batch id)`, compared with ≤.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use millstream_core::registry::{SinkProvider, WriteRequest};
use millstream_core::sink::{Admission, BatchInfo, Committed, Guarantee, OutputMode, Part, PartWriter, Sink, Target};
use millstream_core::{Clock, Error, ErrorKind, Ids, OptionSpec, Result, crash};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::actions::{Commit, CommitInfo, Remove, Txn};
use super::checkpoint::Checkpoints;
use super::head::Head;
use super::log::TableLog;
use super::options::{SINK, SinkOptions};
use super::plan::{TablePlan, plan};
use super::publish::{Published, Publisher};
use super::writer::{DeltaPartWriter, Layout, Staged, delete, stats_columns};
use crate::storage::Storage;

/// How often other writers may win before a commit gives up.
const CONFLICTS: u32 = 200;

/// Makes Delta sinks.
#[derive(Clone, Debug)]
pub struct DeltaSinkProvider {
    storage: Storage,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl DeltaSinkProvider {
    /// A provider over this storage, whose stores must make writes durable and creation exclusive.
    pub fn new(storage: Storage, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        DeltaSinkProvider { storage, clock, ids }
    }
}

#[async_trait]
impl SinkProvider for DeltaSinkProvider {
    fn names(&self) -> &'static [&'static str] {
        &["delta"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        SINK.to_vec()
    }

    async fn sink(&self, request: &WriteRequest) -> Result<Arc<dyn Sink>> {
        let options = SinkOptions::of(request)?;
        let log = TableLog::open(&self.storage, &options.path, ErrorKind::SinkUnavailable)?;
        Ok(Arc::new(DeltaSink::new(log, options, self.clock.clone(), self.ids.clone())))
    }
}

/// A Delta table as the sink of one query.
#[derive(Debug)]
pub struct DeltaSink {
    log: TableLog,
    options: SinkOptions,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    state: Mutex<State>,
    publisher: Publisher,
    checkpoints: Checkpoints,
}

#[derive(Debug, Default)]
struct State {
    head: Option<Head>,
    planned: Option<Planned>,
    /// The only batch, when the transaction version is fixed.
    single: Option<u64>,
    /// The newest transaction that this process finished, with or without a commit of its own.
    finished: Option<i64>,
}

/// What a schema of rows means for the table, kept until one of them changes.
#[derive(Debug)]
struct Planned {
    rows: SchemaRef,
    mode: OutputMode,
    epoch: u64,
    table: Arc<TablePlan>,
    layout: Arc<Layout>,
}

impl DeltaSink {
    pub(super) fn new(log: TableLog, options: SinkOptions, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        let publisher = Publisher::new(log.clone(), clock.clone());
        DeltaSink { log, options, clock, ids, state: Mutex::default(), publisher, checkpoints: Checkpoints::default() }
    }

    fn app_id(&self, batch: &BatchInfo) -> String {
        self.options.txn_app_id.clone().unwrap_or_else(|| batch.query_id.to_string())
    }

    fn txn_version(&self, batch: &BatchInfo, state: &mut State) -> Result<i64> {
        let Some(version) = self.options.txn_version else {
            return i64::try_from(batch.batch_id).map_err(|_| Error::internal("a batch id does not fit a transaction version"));
        };
        match *state.single.get_or_insert(batch.batch_id) {
            first if first == batch.batch_id => Ok(version),
            first => Err(Error::invalid(
                "INVALID_OPTION_VALUE",
                format!(
                    "option 'txnVersion' names the version of a single write, but batch {} follows batch {first} and would be skipped: \
                     remove the option",
                    batch.batch_id
                ),
            )),
        }
    }

    /// Brings the state up to the newest commit.
    async fn refresh(&self, state: &mut State) -> Result<()> {
        let now_ms = self.clock.now_ms();
        match &mut state.head {
            Some(head) => head.follow(&self.log, now_ms).await,
            None => {
                state.head = Head::open(&self.log, now_ms).await?;
                Ok(())
            }
        }
    }

    async fn newest_txn(&self, state: &mut State, app_id: &str) -> Result<Option<i64>> {
        let committed = match &mut state.head {
            Some(head) => head.txn(app_id).await?,
            None => None,
        };
        Ok(committed.max(state.finished))
    }

    fn planned<'a>(&self, state: &'a mut State, rows: &SchemaRef, mode: OutputMode) -> Result<&'a Planned> {
        let epoch = state.head.as_ref().map_or(0, |head| head.epoch);
        let valid = state.planned.as_ref().is_some_and(|planned| {
            planned.epoch == epoch && planned.mode == mode && (Arc::ptr_eq(&planned.rows, rows) || planned.rows == *rows)
        });
        if !valid {
            let head = state.head.as_ref();
            let current = head.map(Head::current);
            let table = plan(current, rows, mode, &self.options, self.log.url().as_str(), self.ids.next(), self.clock.now_ms())?;
            let layout = Layout::new(rows, &table.schema, &self.options, stats_columns(table.indexed_columns))?;
            let (table, layout) = (Arc::new(table), Arc::new(layout));
            state.planned = Some(Planned { rows: rows.clone(), mode, epoch, table, layout });
        }
        state.planned.as_ref().ok_or_else(|| Error::internal("a plan was lost"))
    }

    fn commit_of(
        &self,
        batch: &BatchInfo,
        version: u64,
        txn: Txn,
        table: &TablePlan,
        staged: &Staged,
        removes: Vec<Remove>,
        rows: u64,
    ) -> Commit {
        let bytes: u64 = staged.adds.iter().map(|add| add.size).sum();
        let mode = match batch.mode {
            OutputMode::Complete => "Complete",
            OutputMode::Append | OutputMode::Update => "Append",
        };
        let mut info = CommitInfo::new();
        let mut put = |key: &str, value: Value| drop(info.insert(key.to_owned(), value));
        put("timestamp", json!(self.clock.now_ms()));
        put("operation", json!("STREAMING UPDATE"));
        put(
            "operationParameters",
            json!({"outputMode": mode, "queryId": batch.query_id.to_string(), "epochId": batch.batch_id.to_string()}),
        );
        if let Some(read) = version.checked_sub(1) {
            put("readVersion", json!(read));
        }
        put("isolationLevel", json!("Serializable"));
        put("isBlindAppend", json!(removes.is_empty() && batch.mode != OutputMode::Complete));
        put(
            "operationMetrics",
            json!({
                "numAddedFiles": staged.adds.len().to_string(),
                "numRemovedFiles": removes.len().to_string(),
                "numOutputRows": rows.to_string(),
                "numOutputBytes": bytes.to_string(),
            }),
        );
        if let Some(text) = &self.options.user_metadata {
            put("userMetadata", json!(text));
        }
        put("engineInfo", json!(concat!("Millstream/", env!("CARGO_PKG_VERSION"))));
        put("txnId", json!(self.ids.next().to_string()));
        Commit {
            info: Some(info),
            protocol: table.protocol.clone(),
            metadata: table.metadata.clone(),
            txns: vec![txn],
            adds: staged.adds.clone(),
            removes,
            ..Commit::default()
        }
    }

    /// Checkpoints when a version is due.
    fn maintain(&self, head: &Head) {
        self.checkpoints.start_if_due(&self.log, head.version, &head.metadata, self.options.checkpoint_interval, &self.clock);
    }
}

#[async_trait]
impl Sink for DeltaSink {
    fn description(&self) -> String {
        format!("DeltaSink[{}]", self.log.spark_path())
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::ExactlyOnce
    }

    fn supports(&self, mode: OutputMode) -> bool {
        mode != OutputMode::Update
    }

    async fn prepare(&self, schema: &SchemaRef, mode: OutputMode) -> Result<()> {
        if !self.supports(mode) {
            return Err(Error::invalid(
                "STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE",
                format!("data source delta does not support {mode} output mode: use append, complete, or foreachBatch with a merge"),
            )
            .with_sqlstate("42KDE"));
        }
        let mut state = self.state.lock().await;
        self.refresh(&mut state).await?;
        self.planned(&mut state, schema, mode).map(drop)
    }

    async fn target(&self) -> Result<Target> {
        let mut state = self.state.lock().await;
        self.refresh(&mut state).await?;
        Ok(state.head.as_ref().map_or(Target::Missing, |head| Target::Existing { id: head.metadata.id.clone() }))
    }

    async fn admit(&self, batch: &BatchInfo) -> Result<Admission> {
        let mut state = self.state.lock().await;
        self.refresh(&mut state).await?;
        let version = self.txn_version(batch, &mut state)?;
        let newest = self.newest_txn(&mut state, &self.app_id(batch)).await?;
        Ok(if newest.is_some_and(|newest| newest >= version) { Admission::AlreadyCommitted } else { Admission::Write })
    }

    async fn writer(&self, batch: &BatchInfo, partition: usize) -> Result<Box<dyn PartWriter>> {
        let mut state = self.state.lock().await;
        if state.head.is_none() {
            self.refresh(&mut state).await?;
        }
        let layout = self.planned(&mut state, &batch.schema, batch.mode)?.layout.clone();
        Ok(Box::new(DeltaPartWriter::new(self.log.clone(), layout, self.clock.clone(), self.ids.clone(), partition)?))
    }

    /// A batch without rows is not committed in append mode: there is nothing that a later attempt could write twice, and an empty commit
    /// per idle trigger would only grow the log. It is committed when it creates the table or, in complete mode, empties it.
    async fn commit(&self, batch: &BatchInfo, parts: Vec<Part>) -> Result<Committed> {
        let mut staged: Option<Staged> = None;
        let rows: u64 = parts.iter().map(|part| part.rows).sum();
        for part in &parts {
            let part: Staged = serde_json::from_slice(&part.staged)
                .map_err(|error| Error::internal("a staged part is not one of the Delta sink").caused_by(error))?;
            match &mut staged {
                Some(staged) => staged.adds.extend(part.adds),
                None => staged = Some(part),
            }
        }
        let staged = staged.unwrap_or_default();
        let bytes = staged.adds.iter().map(|add| add.size).sum();
        let app_id = self.app_id(batch);

        let mut state = self.state.lock().await;
        self.refresh(&mut state).await?;
        let txn_version = self.txn_version(batch, &mut state)?;
        for _ in 0..CONFLICTS {
            if self.newest_txn(&mut state, &app_id).await?.is_some_and(|newest| newest >= txn_version) {
                return Ok(Committed { rows, bytes, metrics: BTreeMap::new() });
            }
            let table = self.planned(&mut state, &batch.schema, batch.mode)?.table.clone();
            if !staged.adds.is_empty() && staged.partition_by != table.schema.partition_columns {
                return Err(Error::new(
                    ErrorKind::SinkUnavailable,
                    "DELTA_METADATA_CHANGED",
                    format!("the partitioning of table {} was changed by another writer: restart the query", self.log.url()),
                )
                .with_sqlstate("2D521"));
            }
            let now_ms = self.clock.now_ms();
            let removes: Vec<Remove> = match (&mut state.head, batch.mode) {
                (Some(head), OutputMode::Complete) => head.files(&self.log).await?.map(|file| file.removal(now_ms)).collect(),
                _ => Vec::new(),
            };
            if staged.adds.is_empty() && removes.is_empty() && state.head.is_some() && table.metadata.is_none() {
                state.finished = state.finished.max(Some(txn_version));
                return Ok(Committed { rows, bytes, metrics: BTreeMap::new() });
            }
            let version = state.head.as_ref().map_or(0, |head| head.version + 1);
            let txn = Txn { app_id: app_id.clone(), version: txn_version, last_updated: Some(now_ms) };
            let removed = removes.len();
            let commit = self.commit_of(batch, version, txn, &table, &staged, removes, rows);
            let text = commit.to_bytes()?;
            crash::point("sink.commit.before");
            let (commit, ours) = match self.publisher.publish(version, &text).await? {
                Published::Ours => (commit, true),
                Published::Theirs(commit) => (*commit, false),
            };
            if ours {
                crash::point("sink.commit.after");
            }
            match &mut state.head {
                Some(head) => head.apply(version, &commit, self.log.kind())?,
                None if ours => state.head = Some(Head::created(&commit, now_ms, self.log.kind())?),
                None => state.head = Head::open(&self.log, now_ms).await?,
            }
            if !ours {
                self.refresh(&mut state).await?;
                continue;
            }
            if let Some(head) = &mut state.head {
                if batch.mode != OutputMode::Complete {
                    head.forget_files();
                }
                self.maintain(head);
            }
            let metrics = [("deltaVersion", version), ("numAddedFiles", staged.adds.len() as u64), ("numRemovedFiles", removed as u64)];
            let metrics = metrics.into_iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect();
            return Ok(Committed { rows, bytes, metrics });
        }
        Err(Error::new(
            ErrorKind::SinkUnavailable,
            "DELTA_MAX_COMMIT_RETRIES_EXCEEDED_EXCEPTION",
            format!("other writers won {CONFLICTS} commits of table {} in a row: have fewer writers, or restart the query", self.log.url()),
        )
        .with_sqlstate("40000"))
    }

    async fn abort(&self, _batch: &BatchInfo, parts: Vec<Part>) {
        if self.publisher.is_unresolved() {
            return;
        }
        for part in parts {
            if let Ok(staged) = serde_json::from_slice::<Staged>(&part.staged) {
                delete(&self.log, &staged.adds).await;
            }
        }
    }

    async fn stop(&self) {
        self.checkpoints.wait().await;
    }
}
