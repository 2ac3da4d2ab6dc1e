//! Delta tables read whole, and what there is to know about one.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use millstream_core::source::{Split, Table};
use millstream_core::versioned::{AsOf, Version};
use millstream_core::{ErrorKind, Result};
use serde_json::Value;

use super::actions::Protocol;
use super::history;
use super::log::TableLog;
use super::options::SourceOptions;
use super::protocol;
use super::schema::TableSchema;
use super::snapshot::TableSnapshot;
use super::split::DeltaSplit;
use crate::storage::Storage;

/// A Delta table read whole: at a given version, else at its newest one whenever it is scanned.
#[derive(Debug)]
pub struct DeltaTable {
    log: TableLog,
    version: Option<u64>,
    schema: Arc<TableSchema>,
}

impl DeltaTable {
    pub(super) async fn open(log: TableLog, options: &SourceOptions) -> Result<Self> {
        let version = match (options.version_as_of, options.timestamp_as_of) {
            (None, None) => None,
            (Some(version), None) => history::resolve(&log, &AsOf::Version(version)).await?,
            (None, Some(time_ms)) => Some(history::last_at_or_before(&log, time_ms).await?),
            (Some(_), Some(_)) => {
                let message = "the options 'versionAsOf' and 'timestampAsOf' exclude each other: remove one";
                return Err(millstream_core::Error::invalid("DELTA_ONEOF_IN_TIMETRAVEL", message).with_sqlstate("42601"));
            }
        };
        let snapshot = snapshot(&log, version).await?;
        let schema = Arc::new(TableSchema::of(&snapshot.metadata, log.kind())?);
        Ok(DeltaTable { log, version, schema })
    }
}

async fn snapshot(log: &TableLog, version: Option<u64>) -> Result<TableSnapshot> {
    let Some(snapshot) = log.snapshot(version).await? else { return Err(history::no_table(log)) };
    protocol::check_readable(&snapshot.protocol, log.url().as_str())?;
    Ok(snapshot)
}

#[async_trait]
impl Table for DeltaTable {
    fn schema(&self) -> SchemaRef {
        self.schema.arrow.clone()
    }

    async fn scan(&self) -> Result<Vec<Arc<dyn Split>>> {
        let snapshot = snapshot(&self.log, self.version).await?;
        // The rows keep the schema with which the query was planned; columns that came since are left out, missing ones are null.
        let newest = TableSchema::of(&snapshot.metadata, self.log.kind())?;
        let schema = match newest.arrow == self.schema.arrow {
            true => Arc::new(newest),
            false => self.schema.clone(),
        };
        let mut files = snapshot.files().await?;
        files.sort_by(|left, right| (left.modification_time, &left.path).cmp(&(right.modification_time, &right.path)));
        let split = |add| -> Arc<dyn Split> { Arc::new(DeltaSplit::new(self.log.clone(), schema.clone(), Arc::new(add))) };
        Ok(files.into_iter().map(split).collect())
    }
}

/// What there is to know about a table at one version.
#[derive(Clone, Debug)]
pub struct TableInfo {
    /// Identifies the table, whatever its location.
    pub id: String,
    /// The table's name, if it has one.
    pub name: Option<String>,
    /// The URL.
    pub location: String,
    /// The version described.
    pub version: u64,
    /// Files of the table at this version.
    pub files: u64,
    /// Rows, where every file has statistics.
    pub rows: Option<u64>,
    /// Bytes of the files.
    pub bytes: u64,
    /// The schema.
    pub schema: SchemaRef,
    /// Columns by which the table is partitioned.
    pub partition_columns: Vec<String>,
    /// Table properties.
    pub properties: BTreeMap<String, String>,
    /// What readers and writers have to know.
    pub protocol: Protocol,
    /// When the table was created, milliseconds since the epoch.
    pub created_ms: Option<i64>,
    /// The newest transaction per application: for streaming queries, the last batch per query id.
    pub transactions: BTreeMap<String, i64>,
}

/// Describes the table at a path or URL, at a version or its newest; `None` when there is no table.
///
/// # Errors
/// `DELTA_VERSION_NOT_FOUND`; `DELTA_READ_LOG_FAILED` and the store's errors, of kind `SourceUnavailable`.
pub async fn table_info(storage: &Storage, path: &str, version: Option<u64>) -> Result<Option<TableInfo>> {
    let log = TableLog::open(storage, path, ErrorKind::SourceUnavailable)?;
    if let Some(version) = version {
        match log.files_from(0).await?.iter().map(|file| file.version).max() {
            None => return Ok(None),
            Some(newest) if newest < version => return Err(history::no_such_version(&log, version, newest)),
            Some(_) => {}
        }
    }
    let Some(snapshot) = log.snapshot(version).await? else { return Ok(None) };
    let schema = TableSchema::of(&snapshot.metadata, log.kind())?;
    let (mut files, mut bytes, mut rows) = (0_u64, 0_u64, Some(0_u64));
    snapshot
        .each_file(|file| {
            files += 1;
            bytes += file.size;
            rows = rows.zip(file.rows()).map(|(sum, more)| sum + more);
        })
        .await?;
    let metadata = snapshot.metadata.clone();
    Ok(Some(TableInfo {
        id: metadata.id,
        name: metadata.name,
        location: log.url().to_string(),
        version: snapshot.version(),
        files,
        rows,
        bytes,
        schema: schema.arrow,
        partition_columns: metadata.partition_columns,
        properties: metadata.configuration,
        protocol: snapshot.protocol.clone(),
        created_ms: metadata.created_time,
        transactions: snapshot.txns().await?,
    }))
}

/// The newest commits of a table that its log still has, newest first, at most `limit`.
///
/// # Errors
/// `DELTA_PATH_DOES_NOT_EXIST` when there is no table.
pub async fn table_history(storage: &Storage, path: &str, limit: usize) -> Result<Vec<Version>> {
    versions(&TableLog::open(storage, path, ErrorKind::SourceUnavailable)?, limit).await
}

/// The same for the log of a table.
pub(super) async fn versions(log: &TableLog, limit: usize) -> Result<Vec<Version>> {
    let mut entries = Vec::new();
    for (version, timestamp_ms) in history::commit_times(log).await?.into_iter().rev().take(limit) {
        let Some(commit) = log.read_commit(version).await? else { continue };
        let info = commit.info.unwrap_or_default();
        let text = |key: &str| info.get(key).and_then(Value::as_str).map(str::to_owned);
        let map = |key: &str| -> BTreeMap<String, String> {
            let object = info.get(key).and_then(Value::as_object);
            object
                .into_iter()
                .flatten()
                .map(|(name, value)| (name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
                .collect()
        };
        entries.push(Version {
            version,
            timestamp_ms,
            operation: text("operation"),
            parameters: map("operationParameters"),
            metrics: map("operationMetrics"),
            transactions: commit.txns.into_iter().map(|txn| (txn.app_id, txn.version)).collect(),
            user_metadata: text("userMetadata"),
            engine: text("engineInfo"),
            read_version: info.get("readVersion").and_then(Value::as_i64),
            isolation_level: text("isolationLevel"),
            is_blind_append: info.get("isBlindAppend").and_then(Value::as_bool),
        });
    }
    Ok(entries)
}
