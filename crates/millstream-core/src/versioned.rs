//! Tables whose every change is a new version, and which can be changed row by row: Delta.
//!
//! Whoever changes a table opens it ([`VersionedTables::open`]), which fixes the version that is read, reads the files that the change is
//! about, and hands the rows that take their place to a sink ([`VersionedTable::change`]). The sink commits only if no other writer changed
//! anything that the change has read.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Array};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;

use crate::error::Result;
use crate::options::Options;
use crate::sink::Sink;
use crate::source::Table;

/// The column of [`VersionedTable::read`] with the position of a row's file in [`VersionedTable::files`], a 32-bit integer.
pub const FILE: &str = "__millstream_file";

/// The column of [`VersionedTable::read`] with the position of a row in its file, a 64-bit integer. It comes after [`FILE`].
pub const ROW: &str = "__millstream_row";

/// The column of rows for a sink of changed rows that tells what became of each, see [`RowChange`]; an 8-bit integer.
pub const CHANGE: &str = "__millstream_change";

/// The column of rows for a sink that records changes with the row as it was before, a struct of the table's columns.
pub const BEFORE: &str = "__millstream_before";

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowChange {
    /// It stays as it is, in a new file.
    Copied = 0,
    /// It is new.
    Inserted = 1,
    /// It has new values.
    Updated = 2,
    /// It is gone.
    Deleted = 3,
    /// It has new values because no row of a merge's source matched it.
    UpdatedBySource = 4,
    /// It is gone because no row of a merge's source matched it.
    DeletedBySource = 5,
}

impl RowChange {
    /// All of them, each at the place of its number.
    pub const ALL: [RowChange; 6] = [
        RowChange::Copied,
        RowChange::Inserted,
        RowChange::Updated,
        RowChange::Deleted,
        RowChange::UpdatedBySource,
        RowChange::DeletedBySource,
    ];

    /// The number in [`CHANGE`].
    pub fn code(self) -> i8 {
        self as i8
    }

    /// Whether the row is in the table afterwards.
    pub fn stays(self) -> bool {
        !matches!(self, RowChange::Deleted | RowChange::DeletedBySource)
    }

    /// The name under which a sink's metrics count such rows.
    pub fn metric(self) -> &'static str {
        match self {
            RowChange::Copied => "numRowsCopied",
            RowChange::Inserted => "numRowsInserted",
            RowChange::Updated => "numRowsUpdated",
            RowChange::Deleted => "numRowsDeleted",
            RowChange::UpdatedBySource => "numRowsUpdatedBySource",
            RowChange::DeletedBySource => "numRowsDeletedBySource",
        }
    }
}

/// Which version of a table to open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AsOf {
    /// The newest.
    #[default]
    Newest,
    /// This one.
    Version(u64),
    /// The newest at a time given as text, such as `2024-01-02 03:04:05`; UTC unless it has a zone.
    Time(String),
}

/// The tables of one format.
#[async_trait]
pub trait VersionedTables: Debug + Send + Sync {
    /// The format's name.
    fn name(&self) -> &'static str;

    /// The table at a path or URL; `None` when there is none.
    async fn open(&self, path: &str, as_of: &AsOf) -> Result<Option<Arc<dyn VersionedTable>>>;

    /// A sink whose one batch becomes the first version of a new table. Its rows have the columns of the table.
    ///
    /// # Errors
    /// The format's refusals of schemas and properties; that there is a table already is found by the commit.
    async fn create(&self, path: &str, table: NewTable, options: &Options) -> Result<Arc<dyn Sink>>;
}

/// A table to make, or what a table becomes when it is replaced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewTable {
    /// The schema as Spark's JSON.
    pub schema: String,
    /// Columns to partition by.
    pub partition_columns: Vec<String>,
    /// Columns to cluster by, without being partitioned by them.
    pub clustering_columns: Vec<String>,
    /// Table properties.
    pub properties: BTreeMap<String, String>,
    /// A comment on the table.
    pub description: Option<String>,
    /// What is recorded as done, such as `CREATE TABLE`.
    pub operation: Operation,
}

/// What a commit records as done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operation {
    /// Such as `MERGE`.
    pub name: String,
    /// How, as names with values of JSON.
    pub parameters: BTreeMap<String, String>,
    /// Figures that only the caller knows, such as the rows of a merge's source.
    pub metrics: BTreeMap<String, String>,
}

impl Operation {
    /// An operation without parameters.
    pub fn new(name: impl Into<String>) -> Self {
        Operation { name: name.into(), ..Operation::default() }
    }

    /// The same with one more parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.parameters.insert(name.to_owned(), value.into());
        self
    }
}

/// What there is to know about a table at one version.
#[derive(Clone, Debug, Default)]
pub struct TableFacts {
    /// Identifies the table, whatever its location.
    pub id: String,
    /// Its name, if the format keeps one.
    pub name: Option<String>,
    /// A comment on it.
    pub description: Option<String>,
    /// The URL.
    pub location: String,
    /// The version.
    pub version: u64,
    /// The schema as Spark's JSON, with everything that the format keeps beside a column.
    pub schema: String,
    /// Columns that it is partitioned by.
    pub partition_columns: Vec<String>,
    /// Columns that it is clustered by.
    pub clustering_columns: Vec<String>,
    /// Table properties.
    pub properties: BTreeMap<String, String>,
    /// The oldest versions of the protocol that readers and writers must know.
    pub protocol: (i32, i32),
    /// Features that readers or writers must know, in order.
    pub features: Vec<String>,
    /// When it was created, milliseconds since the epoch.
    pub created_ms: Option<i64>,
    /// When the version was committed, milliseconds since the epoch.
    pub modified_ms: Option<i64>,
    /// Whether a sink of changes wants rows as they were before ([`BEFORE`]).
    pub records_changes: bool,
}

/// A data file of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataFile {
    /// As the log names it.
    pub path: String,
    /// Values of partition columns as text; `None` is null.
    pub partition: BTreeMap<String, Option<String>>,
    /// Bytes.
    pub size: u64,
    /// Rows that are not deleted, if it is known.
    pub rows: Option<u64>,
    /// Whether some of its rows are deleted without having been removed from the file.
    pub has_deletions: bool,
}

/// What is known of the values of a column, file by file in the order of [`VersionedTable::files`].
#[derive(Clone, Debug)]
pub struct ColumnBounds {
    /// No value is smaller; null where it is not known.
    pub min: ArrayRef,
    /// No value is larger; null where it is not known.
    pub max: ArrayRef,
    /// Nulls; null where it is not known.
    pub nulls: UInt64Array,
}

/// A table at one version.
#[async_trait]
pub trait VersionedTable: Debug + Send + Sync {
    /// What it is.
    fn facts(&self) -> &TableFacts;

    /// The schema of its rows.
    fn schema(&self) -> SchemaRef;

    /// Its data files, always in the same order.
    fn files(&self) -> &[DataFile];

    /// Bounds of a column by file, for a column whose files have any.
    fn bounds(&self, column: &str) -> Option<ColumnBounds>;

    /// The rows of some files. After the columns of the table come [`FILE`] and [`ROW`].
    fn read(&self, files: &[usize]) -> Arc<dyn Table>;

    /// A sink whose one batch is a change of the table.
    ///
    /// # Errors
    /// The format's refusals: features that are not supported, rows that do not fit.
    async fn change(&self, change: Change) -> Result<Arc<dyn Sink>>;

    /// Changes what the table is and none of its rows. Gives the new version.
    ///
    /// # Errors
    /// The format's refusals, and that another writer did the same at the same time.
    async fn alter(&self, alteration: Alteration) -> Result<u64>;

    /// The newest commits, newest first, at most `limit`.
    ///
    /// # Errors
    /// Those of reading the log.
    async fn history(&self, limit: usize) -> Result<Vec<Version>>;

    /// Makes the table again what it was at an older version. Gives figures by their names.
    ///
    /// # Errors
    /// Those of the versions, and files that are no longer there.
    async fn restore(&self, to: &AsOf) -> Result<BTreeMap<String, i64>>;

    /// Removes files that no version younger than the retention refers to.
    ///
    /// # Errors
    /// A retention that is too short, and those of the store.
    async fn vacuum(&self, vacuum: Vacuum) -> Result<Vacuumed>;
}

/// A change of a table's rows.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// What is recorded as done.
    pub operation: Operation,
    /// What is no longer there.
    pub removes: Removes,
    /// What was read in order to find out what changes.
    pub reads: Reads,
    /// What the sink's rows are.
    pub rows: Rows,
    /// What the table becomes besides.
    pub replacement: Option<NewTable>,
    /// Whether the rows are only arranged in another way.
    pub rearranges: bool,
    /// Conditions of the table (constraints, generated columns) by name, which the caller has checked on every row.
    pub checked: Vec<String>,
    /// Options of the writer: `mergeSchema`, `userMetadata`, `compression`, `txnAppId` and its like.
    pub options: Options,
}

/// What a change removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Removes {
    /// Nothing.
    #[default]
    Nothing,
    /// These files, by their positions in [`VersionedTable::files`].
    Files(Vec<usize>),
    /// Every file that there is when it commits.
    Everything,
    /// Every file of the partitions in which the sink's rows are.
    WrittenPartitions,
}

/// What a change depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// On nothing in the table.
    #[default]
    Nothing,
    /// On the rows of the table, so that it conflicts with whoever added or removed some.
    Table,
}

/// What the rows of a sink of changes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rows {
    /// Rows that are in the table afterwards, with the columns of the table.
    #[default]
    Plain,
    /// Rows with [`CHANGE`] after their columns and, where [`TableFacts::records_changes`] says so, [`BEFORE`] after it.
    Tagged,
}

/// A change of what a table is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alteration {
    /// What is recorded as done.
    pub operation: Operation,
    /// The new schema as Spark's JSON.
    pub schema: Option<String>,
    /// The new properties, all of them.
    pub properties: Option<BTreeMap<String, String>>,
    /// The new comment.
    pub description: Option<Option<String>>,
    /// The new columns to cluster by.
    pub clustering_columns: Option<Vec<String>>,
    /// Features that readers and writers must know from now on.
    pub features: Vec<String>,
    /// The least versions of the protocol for readers and writers.
    pub protocol: Option<(i32, i32)>,
    /// Whether it depends on the rows that are there, such as a new constraint.
    pub reads: Reads,
}

/// One commit of a table's history.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Version {
    /// The version.
    pub version: u64,
    /// When it was committed, milliseconds since the epoch.
    pub timestamp_ms: i64,
    /// What was done, such as `STREAMING UPDATE` or `WRITE`.
    pub operation: Option<String>,
    /// How, as the writer recorded it.
    pub parameters: BTreeMap<String, String>,
    /// Counts that the writer recorded.
    pub metrics: BTreeMap<String, String>,
    /// Transactions that the commit carries: application id and version.
    pub transactions: Vec<(String, i64)>,
    /// Text that the user recorded with the commit.
    pub user_metadata: Option<String>,
    /// The writer's software.
    pub engine: Option<String>,
    /// The version that the writer had read.
    pub read_version: Option<i64>,
    /// How strictly it was kept apart from other writers.
    pub isolation_level: Option<String>,
    /// Whether it added rows without having read any.
    pub is_blind_append: Option<bool>,
}

/// What to remove of the files that nobody needs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Vacuum {
    /// How long files stay after they were removed from the table, hours; the table's own property without it.
    pub retention_hours: Option<f64>,
    /// Whether a retention below the table's own is refused.
    pub check_retention: bool,
    /// Whether files are only listed.
    pub dry_run: bool,
}

/// What a vacuum removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vacuumed {
    /// The files' URLs.
    pub files: Vec<String>,
    /// Their bytes.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_changes_are_their_places() {
        for (place, change) in RowChange::ALL.iter().enumerate() {
            assert_eq!(usize::try_from(change.code()).unwrap(), place, "{change:?}");
        }
        assert_eq!(RowChange::ALL.iter().filter(|change| !change.stays()).count(), 2);
    }
}
