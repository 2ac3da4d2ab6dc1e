//! What a commit means for a reader that follows the table: files to pass on, nothing, or a reason to stop.

use std::sync::Arc;

use millstream_core::{Error, ErrorKind, Result};

use super::actions::{Add, Commit, Metadata};
use super::change_feed::{self, Event, FeedFile};
use super::convert::converts;
use super::options::SourceOptions;
use super::protocol;
use super::schema::{TableSchema, same_name};

/// A file of a commit, with its index among the files that the commit added, or among those of its changes.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub index: i64,
    pub piece: Piece,
}

/// A file to read.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    /// Its rows.
    Rows(Arc<Add>),
    /// What happened to its rows.
    Feed(Box<FeedFile>),
}

impl Piece {
    /// Bytes of the file.
    pub(super) fn size(&self) -> u64 {
        match self {
            Piece::Rows(add) => add.size,
            Piece::Feed(file) => file.add.size,
        }
    }
}

/// The rules by which one query follows one table.
#[derive(Debug)]
pub(super) struct Rules {
    pub table: String,
    /// The schema of the query.
    pub schema: Arc<TableSchema>,
    /// The version whose schema that was.
    pub schema_version: u64,
    pub options: SourceOptions,
}

impl Rules {
    /// The files that tell what a commit did, for a reader of the change data feed.
    ///
    /// # Errors
    /// `DELTA_MISSING_CHANGE_DATA`, `DELTA_SCHEMA_CHANGED_WITH_VERSION`.
    pub(super) fn feed(&self, version: u64, timestamp_ms: i64, commit: &Commit) -> Result<Vec<Change>> {
        if let Some(protocol) = &commit.protocol {
            protocol::check_readable(protocol, &self.table)?;
        }
        if let Some(metadata) = &commit.metadata {
            self.check_schema(version, metadata)?;
        }
        let files = change_feed::of_commit(version, timestamp_ms, commit, &self.table)?;
        let wanted = (0..).zip(files).filter(|(_, file)| self.wanted(&file.add));
        Ok(wanted.map(|(index, file)| Change { index, piece: Piece::Feed(Box::new(file)) }).collect())
    }

    /// A file of the table as it is when the query begins.
    pub(super) fn initial(&self, version: u64, timestamp_ms: i64, add: &Arc<Add>) -> Piece {
        match self.options.change_feed {
            false => Piece::Rows(add.clone()),
            true => Piece::Feed(Box::new(FeedFile { add: add.clone(), event: Event::Insert, only: None, version, timestamp_ms })),
        }
    }

    /// The files of a commit that are to be passed on.
    ///
    /// # Errors
    /// `DELTA_SOURCE_TABLE_IGNORE_CHANGES` and `DELTA_SOURCE_IGNORE_DELETE` for commits that do more than add rows,
    /// `DELTA_SCHEMA_CHANGED_WITH_VERSION` for a schema that the query was not started with.
    pub(super) fn changes(&self, version: u64, commit: &Commit) -> Result<Vec<Change>> {
        if let Some(protocol) = &commit.protocol {
            protocol::check_readable(protocol, &self.table)?;
        }
        if let Some(metadata) = &commit.metadata {
            self.check_schema(version, metadata)?;
        }
        let adds: Vec<&Add> = commit.adds.iter().filter(|add| add.data_change).collect();
        let removed = commit.removes.iter().find(|remove| remove.data_change);
        if let Some(removed) = removed {
            let changes_allowed = self.options.ignore_changes || self.options.skip_change_commits;
            if !adds.is_empty() && !changes_allowed {
                return Err(self.refused(
                    "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
                    "a data update",
                    &removed.path,
                    version,
                    "skipChangeCommits",
                ));
            }
            if adds.is_empty() && !changes_allowed && !self.options.ignore_deletes {
                return Err(self.refused("DELTA_SOURCE_IGNORE_DELETE", "deleted data", &removed.path, version, "ignoreDeletes"));
            }
            if self.options.skip_change_commits {
                return Ok(Vec::new());
            }
        }
        // Statistics are of no use here and larger than everything else.
        let change = |(index, add): (i64, &Add)| {
            let piece = Piece::Rows(Arc::new(Add { stats: None, ..add.clone() }));
            Change { index, piece }
        };
        Ok((0..).zip(adds).filter(|(_, add)| self.wanted(add)).map(change).collect())
    }

    /// Whether the options leave the file in.
    pub(super) fn wanted(&self, add: &Add) -> bool {
        self.options.exclude.as_ref().is_none_or(|exclude| !exclude.is_match(&add.path))
    }

    /// A schema that came after the query's stops it, so that the restarted query sees the new columns. A schema that came before must be
    /// one whose every column the query's schema can read.
    fn check_schema(&self, version: u64, metadata: &Metadata) -> Result<()> {
        let schema = TableSchema::of(metadata, ErrorKind::SchemaMismatch)?;
        let same = schema.arrow == self.schema.arrow && schema.partition_columns == self.schema.partition_columns;
        if same || (version <= self.schema_version && reads(&self.schema, &schema)) {
            return Ok(());
        }
        let message = format!(
            "the schema of table {} changed at version {version}: restart the query to go on with the new schema, after checking that it \
             does what is wanted with it. Schema of the query: {}; new schema: {}",
            self.table,
            names(&self.schema),
            names(&schema),
        );
        Err(Error::new(ErrorKind::SchemaMismatch, "DELTA_SCHEMA_CHANGED_WITH_VERSION", message).with_sqlstate("KD007"))
    }

    fn refused(&self, code: &'static str, what: &str, path: &str, version: u64, option: &str) -> Error {
        let message = format!(
            "Detected {what} (for example {path}) in the source table {} at version {version}. This is currently not supported. If this is \
             going to happen regularly and you are okay to skip changes, set the option '{option}' to 'true'. If you would like the update \
             to be reflected, restart this query with a fresh checkpoint.",
            self.table
        );
        Error::invalid(code, message).with_sqlstate("0A000")
    }
}

/// Whether rows written under `old` can be read as `new` without losing a column or a value.
fn reads(new: &TableSchema, old: &TableSchema) -> bool {
    old.arrow.fields().iter().all(|field| {
        new.arrow.fields().iter().any(|wanted| {
            same_name(field.name(), wanted.name()) && (field.data_type().is_nested() || converts(field.data_type(), wanted.data_type()))
        })
    })
}

fn names(schema: &TableSchema) -> String {
    let fields: Vec<String> = schema.arrow.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
    fields.join(", ")
}
