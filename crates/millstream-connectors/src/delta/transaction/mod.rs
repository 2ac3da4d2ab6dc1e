//! One change of a table as a sink of one batch: rows that are written, files that go, and a commit that fails where another writer changed
//! what the change depends on.

mod conflict;
mod metrics;
mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use millstream_core::sink::{Admission, BatchInfo, Committed, Guarantee, OutputMode, Part, PartWriter, Sink};
use millstream_core::versioned::{BEFORE, CHANGE, Change, NewTable, Operation, Reads, Removes, Rows};
use millstream_core::{Clock, Error, ErrorKind, Ids, Result, crash};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::actions::{Add, Commit, CommitInfo, DomainMetadata, Metadata, PartitionValues, Protocol, Remove, Txn};
use super::change_feed::CHANGE_TYPE;
use super::checkpoint::Checkpoints;
use super::definition;
use super::log::TableLog;
use super::options::SinkOptions;
use super::plan::{Current, TablePlan, plan};
use super::publish::{Published, Publisher};
use super::schema::TableSchema;
use super::writer::{Layout, delete, stats_columns};
use conflict::Winner;
use rows::{ChangeWriter, Layouts, StagedChange};

/// How often other writers may win before a change gives up.
const CONFLICTS: u64 = 200;

/// The table that a change begins with.
#[derive(Debug)]
pub(super) struct Base {
    pub version: u64,
    pub protocol: Protocol,
    pub metadata: Metadata,
    pub schema: Arc<TableSchema>,
    pub files: Vec<Add>,
}

/// A change on its way.
#[derive(Debug)]
pub(super) struct ChangeSink {
    log: TableLog,
    base: Option<Arc<Base>>,
    change: Change,
    options: SinkOptions,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    planned: Mutex<Option<Arc<Planned>>>,
    publisher: Publisher,
    checkpoints: Checkpoints,
    started_ms: i64,
}

/// What the rows mean for the table.
#[derive(Debug)]
struct Planned {
    rows: SchemaRef,
    table: TablePlan,
    domains: Vec<DomainMetadata>,
    layouts: Arc<Layouts>,
}

impl ChangeSink {
    pub(super) fn new(
        log: TableLog,
        base: Option<Arc<Base>>,
        change: Change,
        options: SinkOptions,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Self {
        let (publisher, started_ms) = (Publisher::new(log.clone(), clock.clone()), clock.now_ms());
        ChangeSink {
            log,
            base,
            change,
            options,
            clock,
            ids,
            planned: Mutex::default(),
            publisher,
            checkpoints: Checkpoints::default(),
            started_ms,
        }
    }

    /// Whether the change removes rows, or puts others in their place.
    fn takes_away(&self) -> bool {
        self.change.removes != Removes::Nothing && !self.change.rearranges
    }

    fn planned(&self, rows: &SchemaRef) -> Result<Arc<Planned>> {
        let mut slot = self.planned.lock();
        if let Some(planned) = slot.as_ref().filter(|planned| planned.rows == *rows) {
            return Ok(planned.clone());
        }
        let planned = Arc::new(self.plan(rows)?);
        *slot = Some(planned.clone());
        Ok(planned)
    }

    fn plan(&self, rows: &SchemaRef) -> Result<Planned> {
        let own: Vec<_> = rows.fields().iter().filter(|field| ![CHANGE, BEFORE].contains(&field.name().as_str())).cloned().collect();
        let columns = Schema::new(own);
        let place = self.log.url().as_str();
        let current = self.base.as_ref().map(|base| Current {
            protocol: &base.protocol,
            metadata: &base.metadata,
            schema: &base.schema,
            cared_for: &self.change.checked,
        });
        let mut domains = Vec::new();
        let table = match (&self.change.replacement, current) {
            (Some(new), current) => {
                domains = definition::clustering(&new.clustering_columns, current.is_some());
                self.replaced(new, current, place)?
            }
            (None, current) => {
                let mode = if self.takes_away() { OutputMode::Complete } else { OutputMode::Append };
                plan(current, &columns, mode, &self.options, place, self.ids.next(), self.clock.now_ms())?
            }
        };
        let indexed = stats_columns(table.indexed_columns);
        let data = Layout::new(&columns, &table.schema, &self.options, indexed)?;
        let records = self.change.rows == Rows::Tagged && records_changes(table.metadata.as_ref().or(self.metadata()));
        let changes = match records {
            true => Some(self.change_layout(&columns, &table)?),
            false => None,
        };
        let tag = rows.fields().iter().position(|field| field.name() == CHANGE);
        let before = rows.fields().iter().position(|field| field.name() == BEFORE);
        let layouts = Arc::new(Layouts { data: Arc::new(data), changes, columns: columns.fields().len(), tag, before });
        Ok(Planned { rows: rows.clone(), table, domains, layouts })
    }

    fn metadata(&self) -> Option<&Metadata> {
        self.base.as_ref().map(|base| &base.metadata)
    }

    /// The table that takes the place of the one that is there, or of none.
    fn replaced(&self, new: &NewTable, current: Option<Current<'_>>, place: &str) -> Result<TablePlan> {
        let id = match current {
            Some(current) => current.metadata.id.clone(),
            None => self.ids.next().to_string(),
        };
        if let Some(current) = current {
            super::protocol::check_writable(current, true, place)?;
        }
        let metadata = definition::metadata(new, id, self.clock.now_ms())?;
        let schema = Arc::new(TableSchema::of(&metadata, ErrorKind::SinkUnavailable)?);
        let protocol =
            definition::protocol(&metadata, &schema, !new.clustering_columns.is_empty(), current.map(|current| current.protocol));
        super::protocol::check_writable(
            Current { protocol: &protocol, metadata: &metadata, schema: &schema, cared_for: &self.change.checked },
            false,
            place,
        )?;
        let changed = current.is_none_or(|current| *current.protocol != protocol);
        let same = current.is_some_and(|current| {
            let created_time = current.metadata.created_time;
            Metadata { created_time, ..metadata.clone() } == *current.metadata
        });
        Ok(TablePlan {
            schema,
            indexed_columns: metadata.number("delta.dataSkippingNumIndexedCols"),
            metadata: (!same).then_some(metadata),
            protocol: changed.then_some(protocol),
        })
    }

    /// Files of changed rows have one more column, and are in a folder of their own.
    fn change_layout(&self, columns: &Schema, table: &TablePlan) -> Result<Arc<Layout>> {
        let kind = Field::new(CHANGE_TYPE, DataType::Utf8, true);
        let columns = Schema::new(columns.fields().iter().cloned().chain([Arc::new(kind.clone())]).collect::<Vec<_>>());
        let schema = table.schema.with_column(kind);
        Layout::new(&columns, &schema, &self.options, 0).map(|layout| Arc::new(layout.of_changes()))
    }

    /// The files that the commit removes; `files` are those of the table as it is now.
    fn removed<'a>(&self, files: &'a BTreeMap<(String, Option<String>), Add>, adds: &[Add]) -> Result<Vec<&'a Add>> {
        Ok(match &self.change.removes {
            Removes::Nothing => Vec::new(),
            Removes::Everything => files.values().collect(),
            Removes::WrittenPartitions => {
                let written: BTreeSet<&PartitionValues> = adds.iter().map(|add| &add.partition_values).collect();
                files.values().filter(|file| written.contains(&file.partition_values)).collect()
            }
            Removes::Files(positions) => {
                let base = self.base.as_ref().map_or(&[][..], |base| base.files.as_slice());
                let file = |position: &usize| base.get(*position).and_then(|file| files.get(&file.key()));
                let found: Option<Vec<&Add>> = positions.iter().map(file).collect();
                found.ok_or_else(|| Error::internal("a change removes a file that the table does not have"))?
            }
        })
    }

    fn removal(&self, file: &Add, now_ms: i64) -> Remove {
        Remove { data_change: !self.change.rearranges, ..file.removal(now_ms) }
    }

    fn info(&self, version: u64, rows: u64, figures: &metrics::Figures, blind: bool) -> CommitInfo {
        let mut info = CommitInfo::new();
        let mut put = |key: &str, value: Value| drop(info.insert(key.to_owned(), value));
        let Operation { name, parameters, metrics } = &self.change.operation;
        put("timestamp", json!(self.clock.now_ms()));
        put("operation", json!(name));
        let parameters: serde_json::Map<String, Value> =
            parameters.iter().map(|(name, text)| (name.clone(), definition::parameter(text))).collect();
        put("operationParameters", Value::Object(parameters));
        if let Some(base) = &self.base {
            put("readVersion", json!(base.version));
        } else if let Some(read) = version.checked_sub(1) {
            put("readVersion", json!(read));
        }
        put("isolationLevel", json!(if self.change.rearranges { "SnapshotIsolation" } else { "Serializable" }));
        put("isBlindAppend", json!(blind));
        let duration = self.clock.now_ms().saturating_sub(self.started_ms);
        put("operationMetrics", figures.of_operation(name, rows, duration, metrics));
        if let Some(text) = &self.options.user_metadata {
            put("userMetadata", json!(text));
        }
        put("engineInfo", json!(concat!("Millstream/", env!("CARGO_PKG_VERSION"))));
        put("txnId", json!(self.ids.next().to_string()));
        info
    }

    fn txn(&self) -> Option<Txn> {
        let (app_id, version) = (self.options.txn_app_id.clone()?, self.options.txn_version?);
        Some(Txn { app_id, version, last_updated: Some(self.clock.now_ms()) })
    }
}

/// Whether a table keeps what changed, for readers of its change data feed.
pub(super) fn records_changes(metadata: Option<&Metadata>) -> bool {
    metadata.is_some_and(|metadata| metadata.flag("delta.enableChangeDataFeed"))
}

#[async_trait]
impl Sink for ChangeSink {
    fn description(&self) -> String {
        format!("DeltaTable[{}]", self.log.spark_path())
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::ExactlyOnce
    }

    fn supports(&self, _mode: OutputMode) -> bool {
        true
    }

    async fn prepare(&self, schema: &SchemaRef, _mode: OutputMode) -> Result<()> {
        self.planned(schema).map(drop)
    }

    async fn admit(&self, _batch: &BatchInfo) -> Result<Admission> {
        let Some(txn) = self.txn() else { return Ok(Admission::Write) };
        let newest = match self.log.snapshot(None).await? {
            Some(snapshot) => snapshot.txn(&txn.app_id).await?,
            None => None,
        };
        Ok(if newest.is_some_and(|newest| newest >= txn.version) { Admission::AlreadyCommitted } else { Admission::Write })
    }

    async fn writer(&self, batch: &BatchInfo, partition: usize) -> Result<Box<dyn PartWriter>> {
        let planned = self.planned(&batch.schema)?;
        Ok(Box::new(ChangeWriter::new(&self.log, &planned.layouts, &self.clock, &self.ids, partition)?))
    }

    async fn commit(&self, batch: &BatchInfo, parts: Vec<Part>) -> Result<Committed> {
        let planned = self.planned(&batch.schema)?;
        let mut staged = StagedChange::default();
        for part in &parts {
            staged.extend(StagedChange::read(part)?);
        }
        if self.change.rearranges {
            staged.adds.iter_mut().for_each(|add| add.data_change = false);
        }
        let now_ms = self.clock.now_ms();
        let mut files: BTreeMap<(String, Option<String>), Add> =
            self.base.iter().flat_map(|base| &base.files).map(|file| (file.key(), file.clone())).collect();
        let first = self.base.as_ref().map_or(0, |base| base.version + 1);
        for version in first..first.saturating_add(CONFLICTS) {
            let removed = self.removed(&files, &staged.adds)?;
            let removes: Vec<Remove> = removed.iter().map(|file| self.removal(file, now_ms)).collect();
            let figures = metrics::Figures::new(&staged, &removed);
            let changes_nothing = staged.is_empty() && removes.is_empty() && planned.table.metadata.is_none();
            if changes_nothing && self.change.reads == Reads::Table && self.base.is_some() {
                return Ok(figures.committed(None));
            }
            let blind = self.change.reads == Reads::Nothing && removes.is_empty() && self.base.is_some() && !self.change.rearranges;
            let rows = parts.iter().map(|part| part.rows).sum();
            let commit = Commit {
                info: Some(self.info(version, rows, &figures, blind)),
                protocol: planned.table.protocol.clone(),
                metadata: planned.table.metadata.clone(),
                txns: self.txn().into_iter().collect(),
                adds: staged.adds.clone(),
                removes,
                cdcs: staged.cdcs.clone(),
                domains: planned.domains.clone(),
            };
            let text = commit.to_bytes()?;
            crash::point("sink.commit.before");
            let theirs = match self.publisher.publish(version, &text).await? {
                Published::Ours => {
                    crash::point("sink.commit.after");
                    if let Some(metadata) = planned.table.metadata.as_ref().or(self.metadata()) {
                        self.checkpoints.start_if_due(&self.log, version, metadata, self.options.checkpoint_interval, &self.clock);
                    }
                    return Ok(figures.committed(Some(version)));
                }
                Published::Theirs(theirs) => *theirs,
            };
            let winner = Winner { version, commit: &theirs, table: self.log.url().as_str() };
            winner.check(&self.change, self.base.is_some(), &commit)?;
            for remove in &theirs.removes {
                files.remove(&remove.key());
            }
            files.extend(theirs.adds.iter().map(|add| (add.key(), add.clone())));
        }
        Err(Error::new(
            ErrorKind::SinkUnavailable,
            "DELTA_MAX_COMMIT_RETRIES_EXCEEDED_EXCEPTION",
            format!("other writers won {CONFLICTS} commits of table {} in a row: have fewer writers, or try again", self.log.url()),
        )
        .with_sqlstate("40000"))
    }

    async fn abort(&self, _batch: &BatchInfo, parts: Vec<Part>) {
        if self.publisher.is_unresolved() {
            return;
        }
        for part in parts {
            if let Ok(staged) = StagedChange::read(&part) {
                delete(&self.log, &staged.adds).await;
                delete(&self.log, &staged.cdcs.iter().map(rows::as_add).collect::<Vec<_>>()).await;
            }
        }
    }

    async fn stop(&self) {
        self.checkpoints.wait().await;
    }
}
