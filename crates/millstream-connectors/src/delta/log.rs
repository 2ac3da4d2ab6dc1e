//! The log of one table: reading and writing single commits directly, and snapshots through the Delta kernel.
//!
//! Everything goes through the store that [`Storage`] opened, so that what is durable is decided in one place.

use std::sync::Arc;

use bytes::Bytes;
use delta_kernel::Engine;
use deltalake::logstore::{LogStore, StorageConfig, default_logstore};
use futures::TryStreamExt;
use millstream_core::{Error, ErrorKind, Result};
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use url::Url;

use super::actions::{Commit, decode_path};
use super::snapshot::TableSnapshot;
use crate::storage::{Location, Storage};

/// The log of one table. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct TableLog {
    location: Location,
    storage: Storage,
    /// What an unreachable store means to the user: a source or a sink.
    kind: ErrorKind,
}

/// What became of an attempt to create a commit file.
#[derive(Debug)]
pub(super) enum Put {
    /// It is there and durable.
    Written,
    /// The store says that there is one already; it may be our own, written by a try whose answer was lost.
    Taken,
    /// Anything may have happened.
    Unknown(object_store::Error),
}

/// A file of the log that says something about a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LogFile {
    pub version: u64,
    /// A checkpoint, or part of one; otherwise a commit.
    pub checkpoint: bool,
    /// Milliseconds since the epoch.
    pub modified_ms: i64,
}

impl TableLog {
    /// The log of the table at a path or URL. `kind` is the kind of errors about the store. Touches nothing.
    ///
    /// # Errors
    /// Those of [`Storage::open`].
    pub fn open(storage: &Storage, path: &str, kind: ErrorKind) -> Result<Self> {
        Ok(TableLog { location: storage.open(path)?, storage: storage.clone(), kind })
    }

    /// The table's URL.
    pub fn url(&self) -> &Url {
        &self.location.url
    }

    /// The table as Spark prints paths: `file:/data/t`, `s3://bucket/t`.
    pub fn spark_path(&self) -> String {
        let url = decode_path(self.location.url.as_str(), self.kind).unwrap_or_else(|_| self.location.url.to_string());
        let url = url.trim_end_matches('/');
        match url.strip_prefix("file://") {
            Some(path) => format!("file:{path}"),
            None => url.to_owned(),
        }
    }

    /// What an unreachable store means to the user.
    pub(super) fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The store and the path in it of a data file named by an action.
    pub(super) fn data_file(&self, action_path: &str) -> Result<(Arc<dyn ObjectStore>, Path)> {
        let decoded = decode_path(action_path, self.kind)?;
        if has_scheme(&decoded) {
            let location = self.storage.open(&decoded)?;
            return Ok((location.store, location.path));
        }
        Ok((self.location.store.clone(), self.inside(&decoded)?))
    }

    /// The path in the store of a path relative to the table, taken as it is.
    pub(super) fn inside(&self, relative: &str) -> Result<Path> {
        let text = match self.location.path.as_ref() {
            "" => relative.to_owned(),
            root => format!("{root}/{relative}"),
        };
        Path::parse(&text).map_err(|error| {
            Error::new(self.kind, "DELTA_INVALID_PATH", format!("'{relative}' is not a path inside table {}", self.location.url))
                .caused_by(error)
        })
    }

    /// The store of the table.
    pub(super) fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.location.store
    }

    /// The folder of the log on the local disk, if it is there.
    pub(super) fn local_folder(&self) -> Option<std::path::PathBuf> {
        if self.location.url.scheme() != "file" {
            return None;
        }
        self.location.url.to_file_path().ok().map(|path| path.join("_delta_log"))
    }

    fn commit_path(&self, version: u64) -> Result<Path> {
        self.inside(&format!("_delta_log/{version:020}.json"))
    }

    /// The bytes of a commit, or `None` when there is no such file.
    pub(super) async fn read_commit_bytes(&self, version: u64) -> Result<Option<Bytes>> {
        let path = self.commit_path(version)?;
        let read = async { self.location.store.get(&path).await?.bytes().await };
        match read.await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.unavailable(format!("cannot read commit {version}"), error)),
        }
    }

    /// A commit, or `None` when there is no such file.
    pub(super) async fn read_commit(&self, version: u64) -> Result<Option<Commit>> {
        match self.read_commit_bytes(version).await? {
            Some(bytes) => Ok(Some(Commit::parse(version, &bytes, self.kind)?)),
            None => Ok(None),
        }
    }

    /// Whether a commit file exists, and when it was written (milliseconds since the epoch).
    pub(super) async fn commit_time(&self, version: u64) -> Result<Option<i64>> {
        match self.location.store.head(&self.commit_path(version)?).await {
            Ok(meta) => Ok(Some(meta.last_modified.timestamp_millis())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.unavailable(format!("cannot look for commit {version}"), error)),
        }
    }

    /// Creates a commit file, durably and only if there is none.
    pub(super) async fn put_commit(&self, version: u64, bytes: Bytes) -> Result<Put> {
        let path = self.commit_path(version)?;
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        Ok(match self.location.store.put_opts(&path, PutPayload::from_bytes(bytes), options).await {
            Ok(_) => Put::Written,
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => Put::Taken,
            Err(error) => Put::Unknown(error),
        })
    }

    /// Commits and checkpoints from a version on, oldest first. Lists the log: not for every batch.
    pub(super) async fn files_from(&self, version: u64) -> Result<Vec<LogFile>> {
        let folder = self.inside("_delta_log")?;
        let before = self.inside(&format!("_delta_log/{version:020}"))?;
        let listed: std::result::Result<Vec<ObjectMeta>, _> =
            self.location.store.list_with_offset(Some(&folder), &before).try_collect().await;
        let listed = match listed {
            Ok(listed) => listed,
            Err(object_store::Error::NotFound { .. }) => Vec::new(),
            Err(error) => return Err(self.unavailable("cannot list the log".into(), error)),
        };
        let mut files: Vec<LogFile> = listed
            .iter()
            .filter_map(|meta| {
                let name = meta.location.filename()?;
                let (digits, rest) = name.split_at_checked(20)?;
                let checkpoint = rest.starts_with(".checkpoint.");
                if !checkpoint && rest != ".json" {
                    return None;
                }
                Some(LogFile { version: digits.parse().ok()?, checkpoint, modified_ms: meta.last_modified.timestamp_millis() })
            })
            .filter(|file| file.version >= version)
            .collect();
        files.sort_unstable();
        Ok(files)
    }

    /// The version that `_last_checkpoint` names, if it can be read. A hint only.
    pub(super) async fn last_checkpoint(&self) -> Option<u64> {
        #[derive(serde::Deserialize)]
        struct Hint {
            version: u64,
        }
        let path = self.inside("_delta_log/_last_checkpoint").ok()?;
        let bytes = self.location.store.get(&path).await.ok()?.bytes().await.ok()?;
        serde_json::from_slice::<Hint>(&bytes).ok().map(|hint| hint.version)
    }

    /// The table at a version, or at its newest; `None` when there is no table.
    ///
    /// # Errors
    /// `DELTA_READ_LOG_FAILED` when the log cannot be read or no longer reaches back to the version.
    pub async fn snapshot(&self, version: Option<u64>) -> Result<Option<TableSnapshot>> {
        // A table may appear between the kernel's look and ours: then the kernel looks once more.
        let mut empty_before = false;
        loop {
            let engine = self.engine();
            let url = self.folder_url();
            let blocking = engine.clone();
            let built = tokio::task::spawn_blocking(move || {
                let mut builder = delta_kernel::Snapshot::builder_for(url);
                if let Some(version) = version {
                    builder = builder.at_version(version);
                }
                builder.build(blocking.as_ref())
            })
            .await;
            let error = match built {
                Ok(Ok(snapshot)) => return Ok(Some(TableSnapshot::new(self.clone(), snapshot, engine)?)),
                Ok(Err(error)) => self.log_failure(version, error),
                Err(error) => return Err(self.log_failure(version, error)),
            };
            if self.files_from(0).await?.is_empty() {
                return Ok(None);
            }
            if empty_before || version.is_some() {
                return Err(error);
            }
            empty_before = true;
        }
    }

    fn log_failure(&self, version: Option<u64>, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        let which = version.map_or_else(|| "its newest version".to_owned(), |version| format!("version {version}"));
        Error::new(self.kind, "DELTA_READ_LOG_FAILED", format!("table {} cannot be read at {which}", self.location.url)).caused_by(cause)
    }

    /// The table's URL with a slash at its end, as joining needs it.
    pub(super) fn folder_url(&self) -> Url {
        let mut url = self.location.url.clone();
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        url
    }

    /// delta-rs's view of the same log, over the same store.
    pub(super) fn log_store(&self) -> Arc<dyn LogStore> {
        let root = self.location.store.clone();
        let prefixed: Arc<dyn ObjectStore> = match self.location.path.as_ref() {
            "" => root.clone(),
            _ => Arc::new(PrefixStore::new(root.clone(), self.location.path.clone())),
        };
        default_logstore(prefixed, root, &self.folder_url(), &StorageConfig::default())
    }

    /// The kernel's way to do I/O on this table. Needs a Tokio runtime.
    pub(super) fn engine(&self) -> Arc<dyn Engine> {
        self.log_store().engine(None)
    }

    /// The error for a store that does not do what was asked.
    pub(super) fn unavailable(&self, what: String, cause: object_store::Error) -> Error {
        let code = match self.kind {
            ErrorKind::SinkUnavailable => "DELTA_SINK_UNAVAILABLE",
            _ => "DELTA_SOURCE_UNAVAILABLE",
        };
        Error::new(self.kind, code, format!("{what} of table {}: check the store and its permissions", self.location.url)).caused_by(cause)
    }
}

/// Whether a path is a URI with a scheme (`s3://…`, `file:/…`), as tables that share files write them.
fn has_scheme(path: &str) -> bool {
    path.split_once(":/").is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::has_scheme;

    #[test]
    fn a_scheme_is_told_from_a_partition_folder() {
        assert!(has_scheme("s3://bucket/x") && has_scheme("file:/x"));
        assert!(!has_scheme("p=1:/x") && !has_scheme("p=a/b:/x") && !has_scheme("x.parquet"));
    }
}
