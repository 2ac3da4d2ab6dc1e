//! The change data feed: which rows each commit added, removed or changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use futures::StreamExt;
use millstream_core::source::{BatchStream, ReadContext, Split, Table};
use millstream_core::{Error, ErrorKind, Result};

use super::actions::{Add, Commit, Metadata, Remove};
use super::log::TableLog;
use super::options::{Boundary, SourceOptions};
use super::schema::TableSchema;
use super::split::DeltaSplit;
use super::{history, protocol};

/// The column that tells what happened to a row: `insert`, `delete`, `update_preimage`, `update_postimage`.
pub(super) const CHANGE_TYPE: &str = "_change_type";
/// The column of the version that did it.
const COMMIT_VERSION: &str = "_commit_version";
/// The column of the time of that version.
const COMMIT_TIMESTAMP: &str = "_commit_timestamp";

/// The rows of a feed: the table's columns, then what happened, and when.
pub(super) fn schema(table: &TableSchema) -> SchemaRef {
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let more = [
        Field::new(CHANGE_TYPE, DataType::Utf8, true),
        Field::new(COMMIT_VERSION, DataType::Int64, true),
        Field::new(COMMIT_TIMESTAMP, utc, true),
    ];
    Arc::new(Schema::new(table.arrow.fields().iter().cloned().chain(more.map(Arc::new)).collect::<Vec<_>>()))
}

/// What happened to the rows of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// They are new.
    Insert,
    /// They are gone.
    Delete,
    /// Each row says it.
    Recorded,
}

/// A file of a feed.
#[derive(Clone, Debug)]
pub(super) struct FeedFile {
    pub add: Arc<Add>,
    pub event: Event,
    /// Only these rows of the file, where others were gone before.
    pub only: Option<Arc<OnlyRows>>,
    pub version: u64,
    pub timestamp_ms: i64,
}

/// The rows that one deletion vector of a file has and an older one has not.
#[derive(Clone, Debug)]
pub(super) struct OnlyRows {
    /// The file as it was, with its older deletion vector.
    pub before: Add,
}

/// The files that tell what a commit did, in the order of the log.
///
/// # Errors
/// `DELTA_MISSING_CHANGE_DATA` where the table does not keep changes any more.
pub(super) fn of_commit(version: u64, timestamp_ms: i64, commit: &Commit, table: &str) -> Result<Vec<FeedFile>> {
    if commit.metadata.as_ref().is_some_and(|metadata| !is_on(metadata)) {
        return Err(missing(version, version, version, table));
    }
    let file = |add: Add, event| FeedFile { add: Arc::new(Add { stats: None, ..add }), event, only: None, version, timestamp_ms };
    if !commit.cdcs.is_empty() {
        let recorded = |cdc: &super::actions::Cdc| {
            let add = Add { path: cdc.path.clone(), partition_values: cdc.partition_values.clone(), size: cdc.size, ..Add::default() };
            file(add, Event::Recorded)
        };
        return Ok(commit.cdcs.iter().map(recorded).collect());
    }
    let old: BTreeMap<&str, &Remove> =
        commit.removes.iter().filter(|remove| remove.data_change).map(|remove| (remove.path.as_str(), remove)).collect();
    let mut files = Vec::new();
    let mut rewritten: Vec<&str> = Vec::new();
    for add in commit.adds.iter().filter(|add| add.data_change) {
        match old.get(add.path.as_str()) {
            // The same file with more rows deleted.
            Some(remove) => {
                rewritten.push(add.path.as_str());
                let before = as_add(remove);
                files.push(FeedFile { only: Some(Arc::new(OnlyRows { before })), ..file(add.clone(), Event::Delete) });
            }
            None => files.push(file(add.clone(), Event::Insert)),
        }
    }
    for remove in old.values().filter(|remove| !rewritten.contains(&remove.path.as_str())) {
        files.push(file(as_add(remove), Event::Delete));
    }
    Ok(files)
}

fn as_add(remove: &Remove) -> Add {
    Add {
        path: remove.path.clone(),
        partition_values: remove.partition_values.clone().unwrap_or_default(),
        size: remove.size.unwrap_or(0),
        deletion_vector: remove.deletion_vector.clone(),
        ..Add::default()
    }
}

/// Whether a table keeps changes.
pub(super) fn is_on(metadata: &Metadata) -> bool {
    metadata.flag("delta.enableChangeDataFeed")
}

fn missing(start: u64, end: u64, version: u64, table: &str) -> Error {
    let message = format!(
        "Error getting change data for range [{start} , {end}] as change data was not recorded for version [{version}] of table {table}: read \
         from a version on at which the property delta.enableChangeDataFeed is true"
    );
    Error::invalid("DELTA_MISSING_CHANGE_DATA", message).with_sqlstate("KD002")
}

/// The changes of a range of versions, read as a batch.
#[derive(Debug)]
pub(super) struct FeedTable {
    log: TableLog,
    table: Arc<TableSchema>,
    schema: SchemaRef,
    start: u64,
    /// The last version; the newest one there is without it.
    end: Option<u64>,
}

impl FeedTable {
    /// The changes that the options ask for.
    ///
    /// # Errors
    /// `DELTA_NO_START_FOR_CDC_READ`, `DELTA_MULTIPLE_CDC_BOUNDARY`, `DELTA_INVALID_CDC_RANGE`, `DELTA_CDC_START_VERSION_AFTER_LATEST`.
    pub(super) async fn open(log: TableLog, options: &SourceOptions) -> Result<Self> {
        let Some(snapshot) = log.snapshot(None).await? else { return Err(history::no_table(&log)) };
        protocol::check_readable(&snapshot.protocol, log.url().as_str())?;
        let table = Arc::new(TableSchema::of(&snapshot.metadata, log.kind())?);
        let newest = snapshot.version();
        let start = match &options.feed_start {
            None => {
                let message = "a change data feed read as a batch needs the option startingVersion or startingTimestamp";
                return Err(Error::invalid("DELTA_NO_START_FOR_CDC_READ", message).with_sqlstate("42601"));
            }
            Some(Boundary::Version(version)) => *version,
            Some(Boundary::Time(time_ms)) => history::first_at_or_after(&log, *time_ms).await?.unwrap_or(newest + 1),
        };
        let end = match &options.feed_end {
            None => None,
            Some(Boundary::Version(version)) => Some(*version),
            Some(Boundary::Time(time_ms)) => {
                let times = history::commit_times(&log).await?;
                Some(times.iter().rev().find(|(_, time)| time <= time_ms).map_or(0, |(version, _)| *version))
            }
        };
        if start > newest {
            let message = format!("Start version {start} for change data feed exceeds the latest table version {newest}.");
            return Err(Error::invalid("DELTA_CDC_START_VERSION_AFTER_LATEST", message).with_sqlstate("22003"));
        }
        if let Some(end) = end.filter(|end| *end < start) {
            let message = format!("CDC range from start {start} to end {end} was invalid. End cannot be before start.");
            return Err(Error::invalid("DELTA_INVALID_CDC_RANGE", message).with_sqlstate("22003"));
        }
        let first = log.snapshot(Some(start)).await?;
        if !first.as_ref().is_some_and(|first| is_on(&first.metadata)) {
            return Err(missing(start, end.unwrap_or(newest).min(newest), start, log.url().as_str()));
        }
        Ok(FeedTable { log, schema: schema(&table), table, start, end })
    }
}

#[async_trait]
impl Table for FeedTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    async fn scan(&self) -> Result<Vec<Arc<dyn Split>>> {
        let times: BTreeMap<u64, i64> = history::commit_times(&self.log).await?.into_iter().collect();
        let newest = times.keys().next_back().copied().unwrap_or(0);
        let mut splits: Vec<Arc<dyn Split>> = Vec::new();
        for version in self.start..=self.end.unwrap_or(newest).min(newest) {
            let Some(commit) = self.log.read_commit(version).await? else {
                let message = format!("version {version} of table {} is no longer in its log: start at a newer one", self.log.url());
                return Err(Error::new(ErrorKind::DataLost, "DELTA_VERSION_NOT_FOUND", message).with_sqlstate("22003"));
            };
            let timestamp_ms = times.get(&version).copied().unwrap_or(0);
            for file in of_commit(version, timestamp_ms, &commit, self.log.url().as_str())? {
                splits.push(Arc::new(FeedSplit::new(self.log.clone(), &self.table, file)));
            }
        }
        Ok(splits)
    }
}

/// One file of a feed.
#[derive(Debug)]
pub(super) struct FeedSplit {
    inner: DeltaSplit,
    schema: SchemaRef,
    event: Event,
    version: i64,
    timestamp_ms: i64,
}

impl FeedSplit {
    pub(super) fn new(log: TableLog, table: &Arc<TableSchema>, file: FeedFile) -> Self {
        let schema = schema(table);
        let table = match file.event {
            Event::Recorded => Arc::new(table.with_column(Field::new(CHANGE_TYPE, DataType::Utf8, true))),
            Event::Insert | Event::Delete => table.clone(),
        };
        let mut inner = DeltaSplit::new(log, table, file.add);
        if let Some(only) = &file.only {
            inner = inner.only_deleted_since(&only.before);
        }
        let version = i64::try_from(file.version).unwrap_or(i64::MAX);
        FeedSplit { inner, schema, event: file.event, version, timestamp_ms: file.timestamp_ms }
    }
}

impl Split for FeedSplit {
    fn label(&self) -> &str {
        self.inner.label()
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read(&self, context: ReadContext) -> BatchStream {
        let own = self.schema.fields().len().saturating_sub(3);
        let schema = match self.schema.project(&context.projection) {
            Ok(schema) => Arc::new(schema),
            Err(error) => {
                let error = Error::internal("a read asks for columns that a change data feed does not have").caused_by(error);
                return futures::stream::iter([Err(error)]).boxed();
            }
        };
        let (event, version, micros) = (self.event, self.version, self.timestamp_ms.saturating_mul(1000));
        let wanted = context.projection.clone();
        // Files of changes have what happened after the table's columns, as the feed has.
        let in_file = move |index: &usize| *index < own || (*index == own && event == Event::Recorded);
        let inner = ReadContext { projection: wanted.iter().copied().filter(|index| in_file(index)).collect(), ..context };
        let rows = self.inner.read(inner);
        rows.map(move |batch| {
            let batch = batch?;
            let count = batch.num_rows();
            let mut given = batch.columns().iter();
            let column = |index: &usize| -> Option<ArrayRef> {
                if in_file(index) {
                    return given.next().cloned();
                }
                Some(match index - own {
                    0 => Arc::new(StringArray::from(vec![if event == Event::Insert { "insert" } else { "delete" }; count])),
                    1 => Arc::new(Int64Array::from(vec![version; count])),
                    _ => Arc::new(TimestampMicrosecondArray::from(vec![micros; count]).with_timezone("UTC")),
                })
            };
            let columns: Option<Vec<ArrayRef>> = wanted.iter().map(column).collect();
            let columns = columns.ok_or_else(|| Error::internal("a read gives fewer columns than it was asked for"))?;
            RecordBatch::try_new_with_options(schema.clone(), columns, &RecordBatchOptions::new().with_row_count(Some(count)))
                .map_err(|error| Error::internal("rows of a change data feed do not fit their schema").caused_by(error))
        })
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delta::actions::{Cdc, DeletionVector};

    fn add(path: &str, vector: Option<&str>) -> Add {
        let deletion_vector =
            vector.map(|id| DeletionVector { storage_type: "i".into(), path_or_inline_dv: id.into(), ..DeletionVector::default() });
        Add { path: path.into(), data_change: true, deletion_vector, ..Add::default() }
    }

    #[test]
    fn a_commit_tells_its_changes_by_files_of_changes_else_by_what_came_and_went() {
        let events = |commit: &Commit| -> Vec<(String, Event, bool)> {
            let files = of_commit(3, 7, commit, "t").unwrap();
            files.into_iter().map(|file| (file.add.path.clone(), file.event, file.only.is_some())).collect()
        };
        let remove = |path: &str| add(path, None).removal(1);
        let plain = Commit {
            adds: vec![add("new", None), Add { data_change: false, ..add("moved", None) }],
            removes: vec![remove("old")],
            ..Commit::default()
        };
        assert_eq!(events(&plain), [("new".into(), Event::Insert, false), ("old".into(), Event::Delete, false)]);
        let recorded = Commit { cdcs: vec![Cdc { path: "c".into(), ..Cdc::default() }], ..plain };
        assert_eq!(events(&recorded), [("c".into(), Event::Recorded, false)]);
        let deleted = Commit { adds: vec![add("same", Some("x"))], removes: vec![remove("same")], ..Commit::default() };
        assert_eq!(events(&deleted), [("same".into(), Event::Delete, true)]);
        let off = Commit { metadata: Some(Metadata::default()), ..Commit::default() };
        assert_eq!(of_commit(3, 7, &off, "t").unwrap_err().code(), "DELTA_MISSING_CHANGE_DATA");
    }
}
