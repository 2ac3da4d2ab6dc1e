//! A checkpoint that is only looked at: nothing is locked, claimed, moved or written, so that it may belong to a running query.

mod verify;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use millstream_core::recovery::{CommitRecord, OffsetRecord};
use millstream_core::{Clock, Error, ErrorKind, Result};
use object_store::ObjectStore;
use object_store::path::Path;
use url::Url;
use uuid::Uuid;

use crate::checkpoint::{BatchRecords, flawed, read_state};
use crate::codec::{Flaw, commits, epoch, lines, metadata, offsets};
use crate::identity::location;
use crate::layout::{Entry, Layout, Log};
use crate::objects::{Found, Objects};
use crate::state::{StateFile, StateManifest};

pub use verify::{Finding, Severity};

/// Reads a checkpoint.
pub struct CheckpointReader {
    objects: Objects,
    layout: Layout,
    url: Url,
}

impl fmt::Debug for CheckpointReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckpointReader").field("url", &self.location()).finish_non_exhaustive()
    }
}

/// Who opened a checkpoint for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The number of the opening: only the newest may write.
    pub epoch: u64,
    /// Host and process.
    pub owner: String,
    /// When, milliseconds since the epoch.
    pub started_ms: i64,
}

/// The log of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLogFiles {
    /// The source: its number in plan order, or its name.
    pub name: String,
    /// The batches of its files, and whether each file covers all batches before.
    pub files: BTreeMap<u64, bool>,
}

/// A file below `state/`, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub length: u64,
}

impl CheckpointReader {
    /// Reads the checkpoint at `root` in `store`, which people know as `url`.
    pub fn new(store: Arc<dyn ObjectStore>, root: Path, url: Url, clock: Arc<dyn Clock>) -> CheckpointReader {
        let objects = Objects::new(store, clock, url.scheme() == "file");
        CheckpointReader { objects, layout: Layout::new(root), url }
    }

    /// Where it is, without what may be secret in the URL.
    pub fn location(&self) -> String {
        location(&self.url)
    }

    /// The query that it belongs to.
    ///
    /// # Errors
    /// `CHECKPOINT_NOT_FOUND` when there is none, `CHECKPOINT_RECORD_DAMAGED` when `metadata` cannot be read.
    pub async fn query_id(&self) -> Result<Uuid> {
        match self.record(&self.layout.metadata(), |bytes| metadata::decode(bytes)).await? {
            Some(metadata) => Ok(metadata.id),
            None => Err(Error::invalid(
                "CHECKPOINT_NOT_FOUND",
                format!(
                    "there is no checkpoint at {}: it has no metadata. Give the directory that the query calls its checkpoint",
                    self.location()
                ),
            )),
        }
    }

    /// Who opened it last; `None` for one that only Spark has used.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn opened(&self) -> Result<Option<Opened>> {
        let newest = self.numbers(&self.layout.epochs()).await?.into_keys().next_back();
        let Some(newest) = newest else { return Ok(None) };
        let claim = self.record(&self.layout.epoch(newest), |bytes| epoch::decode(bytes)).await?;
        Ok(claim.map(|claim| Opened { epoch: claim.epoch, owner: claim.owner, started_ms: claim.started_ms }))
    }

    /// Every batch that the logs know, oldest first.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn batches(&self) -> Result<BTreeMap<u64, BatchRecords>> {
        let mut batches = BTreeMap::<u64, BatchRecords>::new();
        for (batch, modified_ms) in self.numbers(&self.layout.log(Log::Offsets)).await? {
            batches.entry(batch).or_default().planned_ms = Some(modified_ms);
        }
        for (batch, modified_ms) in self.numbers(&self.layout.log(Log::Commits)).await? {
            batches.entry(batch).or_default().committed_ms = Some(modified_ms);
        }
        Ok(batches)
    }

    /// The plan of a batch, or `None` when there is none.
    ///
    /// # Errors
    /// `CHECKPOINT_RECORD_DAMAGED`, `INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION`.
    pub async fn offsets(&self, batch: u64) -> Result<Option<OffsetRecord>> {
        self.record(&self.layout.record(Log::Offsets, batch), |bytes| offsets::decode(bytes)).await
    }

    /// The commit record of a batch, or `None` when there is none.
    ///
    /// # Errors
    /// As [`CheckpointReader::offsets`].
    pub async fn commit(&self, batch: u64) -> Result<Option<CommitRecord>> {
        self.record(&self.layout.record(Log::Commits, batch), |bytes| commits::decode(bytes)).await
    }

    /// The newest batch with a commit record.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn last_commit(&self) -> Result<Option<u64>> {
        Ok(self.numbers(&self.layout.log(Log::Commits)).await?.into_keys().next_back())
    }

    /// The logs of sources.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn source_logs(&self) -> Result<Vec<SourceLogFiles>> {
        let mut logs = Vec::new();
        for folder in self.objects.folders(&self.layout.sources()).await? {
            let mut files = BTreeMap::new();
            for object in self.objects.list(&folder).await? {
                match Entry::parse(object.location.filename().unwrap_or_default()) {
                    Entry::Record(batch) => drop(files.insert(batch, false)),
                    Entry::Compact(batch) => drop(files.insert(batch, true)),
                    Entry::HadoopChecksum(_) | Entry::Temporary(_) | Entry::Other => {}
                }
            }
            logs.push(SourceLogFiles { name: folder.filename().unwrap_or_default().to_owned(), files });
        }
        Ok(logs)
    }

    /// The files below `state/`, whether a commit names them or not.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn state_files(&self) -> Result<Vec<StoredFile>> {
        let listed = self.objects.list(&self.layout.state()).await?;
        let file = |object: &object_store::ObjectMeta| {
            let name = object.location.filename()?.to_owned();
            Some(StoredFile { name, length: object.size })
        };
        Ok(listed.iter().filter_map(file).collect())
    }

    /// The files that make up the state after a batch, in the order in which they are read; `None` when the batch had no state.
    ///
    /// # Errors
    /// `CHECKPOINT_LOG_HOLE` when a commit record that is needed is gone, and those of reading records.
    pub async fn state_after(&self, batch: u64) -> Result<Option<Vec<StateFile>>> {
        let record = self.commit(batch).await?.ok_or_else(|| hole(batch, "it is not committed"))?;
        let Some(manifest) = StateManifest::of(&record)? else { return Ok(None) };
        let mut files = manifest.snapshot.clone();
        for between in manifest.oldest_needed(batch)..batch {
            let record = self.commit(between).await?.ok_or_else(|| hole(between, "its record is gone, and the state builds on it"))?;
            files.extend(StateManifest::of(&record)?.unwrap_or_default().changes);
        }
        files.extend(manifest.changes);
        Ok(Some(files))
    }

    /// The bytes of a file of state.
    ///
    /// # Errors
    /// Those of [`Checkpoint::read_state`](crate::Checkpoint::read_state).
    pub async fn read_state(&self, file: &StateFile) -> Result<Bytes> {
        read_state(&self.objects, &self.layout, file).await
    }

    async fn numbers(&self, folder: &Path) -> Result<BTreeMap<u64, i64>> {
        let listed = self.objects.list(folder).await?;
        let numbers = listed.iter().filter_map(|object| match Entry::parse(object.location.filename().unwrap_or_default()) {
            Entry::Record(number) => Some((number, object.last_modified.timestamp_millis())),
            _ => None,
        });
        Ok(numbers.collect())
    }

    async fn record<T>(&self, path: &Path, decode: impl Fn(&Bytes) -> Result<T, Flaw>) -> Result<Option<T>> {
        match self.objects.read_record(path, decode).await? {
            Found::Nothing => Ok(None),
            Found::Record(record) => Ok(Some(record)),
            Found::Flawed(flaw, _) => Err(flawed(path, flaw)),
        }
    }

    /// The entries of a file of a source's log.
    async fn source_entries(&self, path: &Path) -> Result<Option<Vec<String>>> {
        self.record(path, lines::decode).await
    }
}

fn hole(batch: u64, why: &str) -> Error {
    Error::new(
        ErrorKind::CheckpointIncompatible,
        "CHECKPOINT_LOG_HOLE",
        format!("the state after batch {batch} cannot be read: {why}. Choose a batch that the commits log has"),
    )
}
