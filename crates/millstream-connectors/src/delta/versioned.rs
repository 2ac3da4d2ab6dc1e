//! Delta tables as tables that can be changed row by row.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use millstream_core::registry::WriteRequest;
use millstream_core::sink::Sink;
use millstream_core::source::Table;
use millstream_core::versioned::{
    Alteration, AsOf, Change, ColumnBounds, DataFile, NewTable, TableFacts, Vacuum, Vacuumed, Version, VersionedTable, VersionedTables,
};
use millstream_core::{Clock, Error, ErrorKind, Ids, Options, Result};

use super::actions::Add;
use super::bounds;
use super::definition;
use super::file_table::FileTable;
use super::log::TableLog;
use super::options::SinkOptions;
use super::schema::TableSchema;
use super::snapshot::TableSnapshot;
use super::transaction::{Base, ChangeSink, records_changes};
use super::{alter, history, protocol, restore, table, vacuum};
use crate::storage::Storage;

/// The Delta tables that a process can reach.
#[derive(Clone, Debug)]
pub struct DeltaTables {
    storage: Storage,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl DeltaTables {
    /// The tables of this storage, whose stores must make writes durable and creation exclusive.
    pub fn new(storage: Storage, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        DeltaTables { storage, clock, ids }
    }

    fn log(&self, path: &str) -> Result<TableLog> {
        TableLog::open(&self.storage, path, ErrorKind::SinkUnavailable)
    }
}

/// The options of a writer to the table of a log.
pub(super) fn options(log: &TableLog, options: &Options) -> Result<SinkOptions> {
    let mut options = options.clone();
    options.remove("path");
    SinkOptions::of(&WriteRequest { path: Some(log.url().to_string()), options, ..WriteRequest::default() })
}

#[async_trait]
impl VersionedTables for DeltaTables {
    fn name(&self) -> &'static str {
        "delta"
    }

    async fn open(&self, path: &str, as_of: &AsOf) -> Result<Option<Arc<dyn VersionedTable>>> {
        let log = self.log(path)?;
        let version = match as_of {
            AsOf::Newest => None,
            other if log.files_from(0).await?.is_empty() => {
                tracing::debug!(table = %log.url(), ?other, "there is no table");
                return Ok(None);
            }
            other => history::resolve(&log, other).await?,
        };
        let Some(snapshot) = log.snapshot(version).await? else { return Ok(None) };
        let version = DeltaVersion::of(log, &snapshot, self.clock.clone(), self.ids.clone()).await?;
        Ok(Some(Arc::new(version)))
    }

    async fn create(&self, path: &str, new: NewTable, given: &Options) -> Result<Arc<dyn Sink>> {
        let log = self.log(path)?;
        let options = options(&log, given)?;
        let change = Change { operation: new.operation.clone(), replacement: Some(new), ..Change::default() };
        Ok(Arc::new(ChangeSink::new(log, None, change, options, self.clock.clone(), self.ids.clone())))
    }
}

/// A Delta table at one version.
#[derive(Debug)]
pub(super) struct DeltaVersion {
    pub(super) log: TableLog,
    pub(super) base: Arc<Base>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn Ids>,
    facts: TableFacts,
    files: OnceLock<Vec<DataFile>>,
}

impl DeltaVersion {
    async fn of(log: TableLog, snapshot: &TableSnapshot, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Result<Self> {
        protocol::check_readable(&snapshot.protocol, log.url().as_str())?;
        let mut files = snapshot.files().await?;
        files.sort_by(|left, right| (left.modification_time, &left.path).cmp(&(right.modification_time, &right.path)));
        let base = Base {
            version: snapshot.version(),
            protocol: snapshot.protocol.clone(),
            metadata: snapshot.metadata.clone(),
            schema: Arc::new(TableSchema::of(&snapshot.metadata, log.kind())?),
            files,
        };
        let metadata = &base.metadata;
        let listed = base.protocol.reader_features.iter().chain(&base.protocol.writer_features).flatten();
        let mut features: Vec<String> = listed.cloned().collect();
        features.sort();
        features.dedup();
        let clustering = match features.iter().any(|feature| feature == "clustering") {
            true => snapshot.domain(definition::CLUSTERING).await?.map(|text| definition::clustering_columns(&text)).unwrap_or_default(),
            false => Vec::new(),
        };
        let facts = TableFacts {
            id: metadata.id.clone(),
            name: metadata.name.clone(),
            description: metadata.description.clone(),
            location: log.url().to_string(),
            version: base.version,
            schema: metadata.schema_string.clone(),
            partition_columns: metadata.partition_columns.clone(),
            clustering_columns: clustering,
            properties: metadata.configuration.clone(),
            protocol: (base.protocol.min_reader_version, base.protocol.min_writer_version),
            features,
            created_ms: metadata.created_time,
            modified_ms: log.commit_time(base.version).await?,
            records_changes: records_changes(Some(metadata)),
        };
        Ok(DeltaVersion { log, base: Arc::new(base), clock, ids, facts, files: OnceLock::new() })
    }
}

fn data_file(schema: &TableSchema, add: &Add) -> DataFile {
    let value = |column: &String| {
        let field = schema.annotated.fields().iter().find(|field| field.name() == column);
        let name = field.map_or(column.as_str(), |field| schema.naming.physical(field));
        (column.clone(), add.partition_values.get(name).cloned().flatten())
    };
    DataFile {
        path: add.path.clone(),
        partition: schema.partition_columns.iter().map(value).collect(),
        size: add.size,
        rows: add.rows(),
        has_deletions: add.deletion_vector.is_some(),
    }
}

#[async_trait]
impl VersionedTable for DeltaVersion {
    fn facts(&self) -> &TableFacts {
        &self.facts
    }

    fn schema(&self) -> SchemaRef {
        self.base.schema.arrow.clone()
    }

    fn files(&self) -> &[DataFile] {
        self.files.get_or_init(|| self.base.files.iter().map(|add| data_file(&self.base.schema, add)).collect())
    }

    fn bounds(&self, column: &str) -> Option<ColumnBounds> {
        bounds::of_column(&self.base.schema, &self.base.files, column)
    }

    fn read(&self, files: &[usize]) -> Arc<dyn Table> {
        let chosen = files.iter().filter_map(|position| Some((*position, Arc::new(self.base.files.get(*position)?.clone()))));
        Arc::new(FileTable::new(self.log.clone(), self.base.schema.clone(), chosen.collect()))
    }

    async fn change(&self, change: Change) -> Result<Arc<dyn Sink>> {
        let options = options(&self.log, &change.options)?;
        Ok(Arc::new(ChangeSink::new(self.log.clone(), Some(self.base.clone()), change, options, self.clock.clone(), self.ids.clone())))
    }

    async fn alter(&self, alteration: Alteration) -> Result<u64> {
        alter::alter(self, alteration).await
    }

    async fn history(&self, limit: usize) -> Result<Vec<Version>> {
        table::versions(&self.log, limit).await
    }

    async fn restore(&self, to: &AsOf) -> Result<BTreeMap<String, i64>> {
        restore::restore(self, to).await
    }

    async fn vacuum(&self, vacuum: Vacuum) -> Result<Vacuumed> {
        vacuum::vacuum(&self.log, &self.base.metadata, vacuum).await
    }
}

/// There is no such table.
pub(super) fn gone(log: &TableLog) -> Error {
    history::no_table(log)
}
