//! A checkpoint that is open for writing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use millstream_core::recovery::{CommitRecord, LogTail, OffsetRecord};
use millstream_core::source_log::SourceLog;
use millstream_core::{Clock, Error, ErrorKind, Ids, Result, crash};
use object_store::ObjectStore;
use object_store::path::Path;
use parking_lot::Mutex;
use url::Url;
use uuid::Uuid;

use crate::codec::boundary::{self, Boundary};
use crate::codec::epoch::Claim;
use crate::codec::{Author, Flaw, commits, offsets};
use crate::epoch;
use crate::identity::{identify, location};
use crate::layout::{Entry, Layout, Log, hadoop_checksum};
use crate::lock::{self, Holder, Lock};
use crate::objects::{Created, Found, Objects};
use crate::source_log::CheckpointSourceLog;
use crate::state::{StateFile, StateManifest};
use crate::store::probe;
use crate::{purge, tail};

/// Asks the query that holds a checkpoint, which is in this process, to stop. Answers whether it did.
pub type StopOther = Arc<dyn Fn(Holder) -> BoxFuture<'static, Result<bool>> + Send + Sync>;

/// How a checkpoint is opened.
#[derive(Clone)]
pub struct CheckpointOptions {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where new identifiers come from.
    pub ids: Arc<dyn Ids>,
    /// Host and process of this run, for people, as in `pid 4711 on web-1`.
    pub owner: String,
    /// How many committed batches stay in the logs (`spark.sql.streaming.minBatchesToRetain`).
    pub min_batches_to_retain: u64,
    /// After how many batches a source's log is compacted (`spark.sql.streaming.fileSource.log.compactInterval`).
    pub compact_interval: u64,
    /// How long files of a source's log stay once a compacted one covers them (`spark.sql.streaming.fileSource.log.cleanupDelay`).
    pub cleanup_delay: Duration,
    /// Whether to take the checkpoint from a run that holds its lock. That run is fenced and changes nothing any more.
    pub takeover: bool,
    /// Whether to accept that the checkpoint is somewhere else than where it was last used.
    pub adopt: bool,
    /// The query's id where the checkpoint is new; one of `ids` by default. An existing checkpoint keeps its own.
    pub new_id: Option<Uuid>,
    /// How to stop a query in this process that holds the checkpoint; without it such a checkpoint is refused.
    pub stop_other: Option<StopOther>,
}

impl CheckpointOptions {
    /// Spark's defaults.
    pub fn new(clock: Arc<dyn Clock>, ids: Arc<dyn Ids>, owner: impl Into<String>) -> Self {
        CheckpointOptions {
            clock,
            ids,
            owner: owner.into(),
            min_batches_to_retain: 100,
            compact_interval: 10,
            cleanup_delay: Duration::from_secs(10 * 60),
            takeover: false,
            adopt: false,
            new_id: None,
            stop_other: None,
        }
    }
}

impl fmt::Debug for CheckpointOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckpointOptions")
            .field("owner", &self.owner)
            .field("min_batches_to_retain", &self.min_batches_to_retain)
            .field("compact_interval", &self.compact_interval)
            .field("cleanup_delay", &self.cleanup_delay)
            .field("takeover", &self.takeover)
            .field("adopt", &self.adopt)
            .field("stop_other", &self.stop_other.is_some())
            .finish_non_exhaustive()
    }
}

/// Into how many key groups state is split.
pub const KEY_GROUPS: u16 = 128;

/// What a file of state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// What a batch changed.
    Changes,
    /// All that there is after a batch.
    Snapshot,
}

impl StateKind {
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            StateKind::Changes => "changes",
            StateKind::Snapshot => "snapshot",
        }
    }
}

/// What the logs say about a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchRecords {
    /// When `offsets/N` was written, milliseconds since the epoch, if it is there.
    pub planned_ms: Option<i64>,
    /// When `commits/N` was written, milliseconds since the epoch, if it is there.
    pub committed_ms: Option<i64>,
}

/// A query's checkpoint, open for writing by this run and by no other.
///
/// Dropping it releases the lock like [`Checkpoint::close`] does; its source logs refuse to write from then on.
#[derive(Debug)]
pub struct Checkpoint {
    shared: Arc<Shared>,
    lock: Mutex<Option<Lock>>,
    source_logs: Mutex<BTreeMap<String, Arc<CheckpointSourceLog>>>,
}

/// What a checkpoint and its source logs have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub objects: Objects,
    pub layout: Layout,
    pub options: CheckpointOptions,
    pub claim: Claim,
    /// What was removed, as far as this run knows.
    pub boundary: Mutex<Boundary>,
    pub position: Mutex<Position>,
    url: Url,
    query_id: Uuid,
    moved_from: Option<String>,
    closed: AtomicBool,
    /// Checksums that Hadoop left beside records, seen in listings.
    hadoop_checksums: Mutex<BTreeSet<Path>>,
}

/// How far the query is, for deciding what may be removed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Position {
    /// The newest batch known to be committed.
    pub committed: Option<u64>,
    /// The batch whose commit names the state snapshot that the newest one builds on.
    pub state_base: Option<u64>,
}

impl Checkpoint {
    /// Opens the checkpoint at `root` in `store`, which people know as `url`, and creates it if there is none.
    ///
    /// Afterwards this run is the only one that can write: it holds the lock, and every earlier run is fenced.
    ///
    /// # Errors
    /// - `CONCURRENT_QUERY` when a live run holds it (on local disks; elsewhere within this process);
    /// - `STREAMING_CHECKPOINT_MISSING_METADATA_FILE` when there are logs and no `metadata`;
    /// - `CHECKPOINT_RECORD_DAMAGED` or `INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION` when `metadata` cannot be read;
    /// - `STORE_WITHOUT_CONDITIONAL_CREATE` when the store cannot keep two writers apart, and other `STORE_…` codes when it fails.
    pub async fn open(store: Arc<dyn ObjectStore>, root: Path, url: Url, options: CheckpointOptions) -> Result<Checkpoint> {
        let place = lock::place(&store, &root, &url)?;
        let objects = Objects::new(store.clone(), options.clock.clone(), url.scheme() == "file");
        if url.scheme() != "file" {
            probe(store.as_ref(), &root, options.ids.as_ref()).await?;
        }
        let layout = Layout::new(root);
        let here = location(&url);
        let metadata = identify(&objects, &layout, &here, &options).await?;
        let writer = options.ids.next();
        let holder = Holder { pid: std::process::id(), owner: options.owner.clone(), query_id: metadata.id, writer };
        let lock = lock::acquire(&place, &holder, &url, &options).await?;
        let boundary = match objects.read_record(&layout.boundary(), |bytes| boundary::decode(bytes)).await? {
            Found::Record(boundary) => boundary,
            Found::Nothing => Boundary::default(),
            Found::Flawed(flaw, _) => {
                tracing::warn!(path = %layout.boundary(), ?flaw, "the boundary cannot be read; it is written again at the next clean-up");
                Boundary::default()
            }
        };
        let accepted = |previous: Option<&Claim>| previous.map(|claim| claim.location.clone()).or_else(|| metadata.location.clone());
        let claim = epoch::claim(&objects, &layout, boundary.epoch, |epoch, previous| Claim {
            epoch,
            writer,
            owner: options.owner.clone(),
            started_ms: options.clock.now_ms(),
            location: accepted(previous).filter(|_| !options.adopt).unwrap_or_else(|| here.clone()),
        })
        .await?;
        let moved_from = Some(claim.location.clone()).filter(|location| *location != here);
        if let Some(from) = &moved_from {
            tracing::warn!(
                query_id = %metadata.id, %from, to = %here,
                "the checkpoint was last used in another place. If it was copied, the copies share one query id and sinks will take their \
                 batches for the same: let only one run. If it was moved, open it once with `adopt`."
            );
        }
        let shared = Shared {
            objects,
            layout,
            options,
            claim,
            boundary: Mutex::new(boundary),
            position: Mutex::default(),
            url,
            query_id: metadata.id,
            moved_from,
            closed: AtomicBool::new(false),
            hadoop_checksums: Mutex::default(),
        };
        Ok(Checkpoint { shared: Arc::new(shared), lock: Mutex::new(Some(lock)), source_logs: Mutex::default() })
    }

    /// The query that the checkpoint belongs to: the key under which sinks remember its batches.
    pub fn query_id(&self) -> Uuid {
        self.shared.query_id
    }

    /// This run's epoch. It is higher than that of every earlier run.
    pub fn epoch(&self) -> u64 {
        self.shared.claim.epoch
    }

    /// Identifies this run among all that ever opened the checkpoint.
    pub fn writer(&self) -> Uuid {
        self.shared.claim.writer
    }

    /// Where the checkpoint is.
    pub fn url(&self) -> &Url {
        &self.shared.url
    }

    /// Where the checkpoint was used before, if that was another place and has not been accepted with [`CheckpointOptions::adopt`].
    pub fn moved_from(&self) -> Option<&str> {
        self.shared.moved_from.as_deref()
    }

    /// Fails when a later run has opened the checkpoint.
    ///
    /// # Errors
    /// `STALE_EPOCH`.
    pub async fn ensure_owner(&self) -> Result<()> {
        self.shared.ensure_owner().await
    }

    /// The newest records of the logs, from which `millstream_core::recovery::resume` decides where to go on.
    ///
    /// A newest record whose write never completed is moved to `.torn/` beside it and counts as not written.
    ///
    /// # Errors
    /// `CHECKPOINT_RECORD_DAMAGED` names a record that was changed, or an older one that is incomplete;
    /// `INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION` one of a later version; `STALE_EPOCH` when a later run has opened the checkpoint.
    pub async fn tail(&self) -> Result<LogTail> {
        tail::read(&self.shared).await
    }

    /// Makes the plan of batch `batch_id` durable. Repeating a call with the same record succeeds.
    ///
    /// # Errors
    /// `STALE_EPOCH` when a later run has opened the checkpoint: this run must stop and let nothing follow from the batch.
    /// `CONCURRENT_STREAM_LOG_UPDATE` when the batch has another plan, left by a run that was fenced in the middle of this very write: the
    /// plan in the log stands, so read [`Checkpoint::tail`] again (or restart) and run it unchanged.
    pub async fn write_offsets(&self, batch_id: u64, record: &OffsetRecord) -> Result<()> {
        let bytes = offsets::encode(record, self.shared.author())?;
        let path = self.shared.layout.record(Log::Offsets, batch_id);
        crash::point("offsets.before");
        if let Created::Other(_) = self.shared.publish(&path, std::slice::from_ref(&bytes)).await? {
            let strip = |mut record: OffsetRecord| {
                Author::strip(&mut record.extra);
                record
            };
            let ours = offsets::decode(&bytes).map_err(|flaw| flawed(&path, flaw))?;
            let theirs = self.shared.record(&path, |bytes| offsets::decode(bytes)).await?;
            if theirs.as_ref().map(|theirs| strip(theirs.clone())) != Some(strip(ours)) {
                return Err(conflict(&path, theirs.and_then(|theirs| Author::of(&theirs.extra))));
            }
        }
        crash::point("offsets.after");
        Ok(())
    }

    /// Makes it durable that batch `batch_id` is done. Repeating a call with the same record succeeds.
    ///
    /// Everything that the batch did must be durable before: its output, and the state files that the record names.
    ///
    /// # Errors
    /// As [`Checkpoint::write_offsets`].
    pub async fn write_commit(&self, batch_id: u64, record: &CommitRecord) -> Result<()> {
        let bytes = commits::encode(record, self.shared.author())?;
        let manifest = StateManifest::of(record)?;
        let path = self.shared.layout.record(Log::Commits, batch_id);
        crash::point("commit.before");
        if let Created::Other(_) = self.shared.publish(&path, std::slice::from_ref(&bytes)).await? {
            let strip = |mut record: CommitRecord| {
                Author::strip(&mut record.extra);
                record
            };
            let ours = commits::decode(&bytes).map_err(|flaw| flawed(&path, flaw))?;
            let theirs = self.shared.record(&path, |bytes| commits::decode(bytes)).await?;
            if theirs.as_ref().map(|theirs| strip(theirs.clone())) != Some(strip(ours)) {
                return Err(conflict(&path, theirs.and_then(|theirs| Author::of(&theirs.extra))));
            }
        }
        crash::point("commit.after");
        let mut position = self.shared.position.lock();
        if position.committed.is_none_or(|committed| committed < batch_id) {
            *position = Position { committed: Some(batch_id), state_base: manifest.map(|manifest| manifest.oldest_needed(batch_id)) };
        }
        Ok(())
    }

    /// The plan of a batch, or `None` when there is none.
    ///
    /// # Errors
    /// `CHECKPOINT_RECORD_DAMAGED`, `INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION`.
    pub async fn read_offsets(&self, batch_id: u64) -> Result<Option<OffsetRecord>> {
        self.shared.record(&self.shared.layout.record(Log::Offsets, batch_id), |bytes| offsets::decode(bytes)).await
    }

    /// The commit record of a batch, or `None` when there is none.
    ///
    /// # Errors
    /// As [`Checkpoint::read_offsets`].
    pub async fn read_commit(&self, batch_id: u64) -> Result<Option<CommitRecord>> {
        self.shared.record(&self.shared.layout.record(Log::Commits, batch_id), |bytes| commits::decode(bytes)).await
    }

    /// Makes a file of state about `batch_id` durable, with entries of these key groups (the first, and the one after the last), under a name that
    /// no other file has. It counts once a commit record names it.
    ///
    /// # Errors
    /// `STALE_EPOCH` when a later run has opened the checkpoint, and those of the store.
    pub async fn write_state(&self, batch_id: u64, kind: StateKind, key_groups: (u16, u16), bytes: Vec<u8>) -> Result<StateFile> {
        let name = format!("{batch_id}_{}.{}", self.shared.options.ids.next(), kind.suffix());
        let file = StateFile::of(name, &bytes, key_groups);
        let path = self.shared.layout.state().join(file.name.as_str());
        crash::point("state.before");
        let bytes = Bytes::from(bytes);
        if let Created::Other(_) = self.shared.publish(&path, std::slice::from_ref(&bytes)).await? {
            return Err(Error::internal(format!("the state file {path} was there before it was written")));
        }
        crash::point("state.after");
        Ok(file)
    }

    /// The bytes of a file of state.
    ///
    /// # Errors
    /// `CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS` or `….CANNOT_READ_MISSING_SNAPSHOT_FILE` when it is not there,
    /// `CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED` when it is not what was written.
    pub async fn read_state(&self, file: &StateFile) -> Result<Bytes> {
        read_state(&self.shared.objects, &self.shared.layout, file).await
    }

    /// Whether there is any file of state.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn has_state(&self) -> Result<bool> {
        Ok(!self.shared.objects.list(&self.shared.layout.state()).await?.is_empty())
    }

    /// Every batch that the logs know, oldest first.
    pub async fn batches(&self) -> Result<BTreeMap<u64, BatchRecords>> {
        let mut batches = BTreeMap::<u64, BatchRecords>::new();
        for log in Log::ALL {
            for (id, modified_ms) in self.shared.listed(log).await? {
                let records = batches.entry(id).or_default();
                match log {
                    Log::Offsets => records.planned_ms = Some(modified_ms),
                    Log::Commits => records.committed_ms = Some(modified_ms),
                }
            }
        }
        Ok(batches)
    }

    /// The log of the source called `name`: its number in plan order, or its own name where it has one.
    pub fn source_log(&self, name: &str) -> Arc<dyn SourceLog> {
        let mut logs = self.source_logs.lock();
        let log = logs.entry(name.to_owned()).or_insert_with(|| Arc::new(CheckpointSourceLog::new(self.shared.clone(), name)));
        log.clone()
    }

    /// Removes what nothing needs any more, given that batch `committed` is committed: old records of `offsets` and `commits`, files of source
    /// logs that a compacted one covers, claims of long ago. Cheap when there is little to do; call it after any commit.
    ///
    /// What recovery needs stays, whatever the options say: the newest committed batch, the one before it, and everything newer.
    ///
    /// # Errors
    /// `STALE_EPOCH`; a store error, after which nothing is inconsistent.
    pub async fn purge(&self, committed: u64) -> Result<()> {
        let logs: Vec<_> = self.source_logs.lock().values().cloned().collect();
        purge::run(&self.shared, committed, &logs).await
    }

    /// Releases the lock. Nothing can be written afterwards.
    pub async fn close(&self) -> Result<()> {
        self.shared.closed.store(true, Ordering::Release);
        drop(self.lock.lock().take());
        Ok(())
    }
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
    }
}

impl Shared {
    pub fn author(&self) -> Author {
        Author { epoch: self.claim.epoch, writer: self.claim.writer }
    }

    pub async fn ensure_owner(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Internal, "CHECKPOINT_CLOSED", format!("the checkpoint {} is closed", location(&self.url))));
        }
        epoch::check(&self.objects, &self.layout, &self.claim).await
    }

    /// Creates an object as the owner; [`crate::epoch`] says why it checks twice.
    pub async fn publish(&self, path: &Path, parts: &[Bytes]) -> Result<Created> {
        self.ensure_owner().await?;
        let stale = hadoop_checksum(path);
        if self.hadoop_checksums.lock().remove(&stale) {
            self.objects.delete(&stale).await?;
        }
        let created = self.objects.create(path, parts).await?;
        self.ensure_owner().await?;
        Ok(created)
    }

    /// The record at `path`, `None` when there is none, an error that names it when it cannot be used.
    pub async fn record<T>(&self, path: &Path, decode: impl Fn(&Bytes) -> Result<T, Flaw>) -> Result<Option<T>> {
        match self.objects.read_record(path, decode).await? {
            Found::Nothing => Ok(None),
            Found::Record(record) => Ok(Some(record)),
            Found::Flawed(flaw, _) => Err(flawed(path, flaw)),
        }
    }

    /// The numbers of the records that a listing of `log` shows, and when each was written.
    pub async fn listed(&self, log: Log) -> Result<BTreeMap<u64, i64>> {
        let objects = self.objects.list(&self.layout.log(log)).await?;
        let mut records = BTreeMap::new();
        for object in objects {
            match Entry::parse(object.location.filename().unwrap_or_default()) {
                Entry::Record(id) => drop(records.insert(id, object.last_modified.timestamp_millis())),
                Entry::HadoopChecksum(_) => self.note_hadoop_checksum(object.location),
                _ => {}
            }
        }
        Ok(records)
    }

    pub fn note_hadoop_checksum(&self, path: Path) {
        self.hadoop_checksums.lock().insert(path);
    }
}

/// The bytes of a file of state.
pub(crate) async fn read_state(objects: &Objects, layout: &Layout, file: &StateFile) -> Result<Bytes> {
    let path = layout.state().join(file.name.as_str());
    let Some(bytes) = objects.read(&path).await? else {
        return Err(Error::new(
            ErrorKind::CheckpointIncompatible,
            if file.is_snapshot() {
                "CANNOT_LOAD_STATE_STORE.CANNOT_READ_MISSING_SNAPSHOT_FILE"
            } else {
                "CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS"
            },
            format!("The state file {path} does not exist. Restore it from a backup, or start a new checkpoint."),
        )
        .with_sqlstate("58030"));
    };
    file.verify(&bytes)?;
    Ok(bytes)
}

/// The error for a record that cannot be used.
pub(crate) fn flawed(path: &Path, flaw: Flaw) -> Error {
    match flaw {
        Flaw::Version { found, supported } => Error::new(
            ErrorKind::CheckpointIncompatible,
            "INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION",
            format!(
                "Failed to read log file {path}. The maximum supported log version is \"v{supported}\", but encountered \"v{found}\". The log \
                 file was produced by a newer version and cannot be read by this one. You need to upgrade."
            ),
        )
        .with_sqlstate("KD002"),
        Flaw::Malformed(what) => Error::new(
            ErrorKind::CheckpointIncompatible,
            "MALFORMED_LOG_FILE",
            format!("Log file {path} was malformed: {what}. Restore it from a backup, or start a new checkpoint."),
        )
        .with_sqlstate("KD002"),
        Flaw::Torn(what) | Flaw::Damaged(what) => Error::new(
            ErrorKind::CheckpointIncompatible,
            "CHECKPOINT_RECORD_DAMAGED",
            format!(
                "Failed to read log file {path}: {what}. Restore it from a backup, or start a new checkpoint. If it was edited on purpose, \
                 remove its {} field.",
                crate::FACTS
            ),
        ),
    }
}

fn conflict(path: &Path, author: Option<Author>) -> Error {
    let who = match author {
        Some(author) => format!("run {} (epoch {})", author.writer, author.epoch),
        None => "another program".to_owned(),
    };
    Error::new(
        ErrorKind::Fenced,
        "CONCURRENT_STREAM_LOG_UPDATE",
        format!("{path} was written by {who} in the meantime, with other contents. Make sure that only one run uses the checkpoint and restart the query: it goes on with what is recorded."),
    )
    .with_sqlstate("40000")
}
