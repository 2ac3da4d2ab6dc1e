//! The manifest of a file sink: `_spark_metadata/N`, one line of JSON per file, and every tenth batch all of them as `N.compact`.
//!
//! The bytes are Spark's, so that either engine reads and goes on with what the other wrote.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use millstream_core::{Clock, Error, ErrorKind, Result};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::files::manifest::DIRECTORY;
use crate::files::uri::Root;

/// Every how many batches the manifest is compacted, unless the folder's own manifest shows another interval.
const COMPACT_INTERVAL: u64 = 10;

/// Batches that stay readable on their own before a compacted one replaces them.
const KEPT_BATCHES: u64 = 100;

/// How long a replaced batch stays for readers that are under way, milliseconds.
const CLEANUP_DELAY_MS: i64 = 10 * 60 * 1000;

/// The first line of every batch.
const VERSION: &str = "v1";

/// A file as the manifest names it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    path: std::borrow::Cow<'a, str>,
    size: u64,
    is_dir: bool,
    modification_time: i64,
    block_replication: u32,
    block_size: u64,
    action: std::borrow::Cow<'a, str>,
}

/// The line of a file of `size` bytes written at `modified_ms`.
pub(super) fn line_of(url: &str, size: u64, modified_ms: i64) -> String {
    let line = Line {
        path: url.into(),
        size,
        is_dir: false,
        modification_time: modified_ms,
        block_replication: 1,
        // What Hadoop reports for local files and for S3.
        block_size: 32 * 1024 * 1024,
        action: "add".into(),
    };
    serde_json::to_string(&line).unwrap_or_default()
}

/// The URL of a line's file.
pub(super) fn url_of(line: &str) -> Option<String> {
    serde_json::from_str::<Line<'_>>(line).ok().map(|line| line.path.into_owned())
}

/// What became of a batch handed to [`ManifestLog::add`].
pub(super) enum Added {
    /// It is durable now.
    New,
    /// It, or a later one, had been there.
    Known,
}

/// The manifest of one folder.
#[derive(Debug)]
pub(super) struct ManifestLog {
    root: Root,
    directory: Path,
    clock: Arc<dyn Clock>,
    retention: Option<Duration>,
    /// What the folder held when it was last looked at; `None` before that and after a doubt.
    state: Mutex<Option<State>>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    latest: Option<u64>,
    interval: u64,
}

impl State {
    fn compacts(&self, id: u64) -> bool {
        (id + 1).is_multiple_of(self.interval)
    }
}

impl ManifestLog {
    pub(super) fn new(root: &Root, clock: Arc<dyn Clock>, retention: Option<Duration>) -> Self {
        let directory = root.path.clone().join(DIRECTORY);
        ManifestLog { root: root.clone(), directory, clock, retention, state: Mutex::new(None) }
    }

    /// The newest batch, whichever query wrote it: a folder's own manifest decides what it has.
    ///
    /// # Errors
    /// `SINK_LOG_UNAVAILABLE`.
    pub(super) async fn latest(&self) -> Result<Option<u64>> {
        let mut state = self.state.lock().await;
        Ok(self.load(&mut state).await?.latest)
    }

    /// Makes a batch durable and visible, unless it or a later one is there.
    ///
    /// # Errors
    /// `CONCURRENT_STREAM_LOG_UPDATE` when another writer was faster with the batch; `SINK_LOG_UNAVAILABLE` when the batch is not there
    /// for any other reason; `BATCH_METADATA_NOT_FOUND` when an earlier batch that has to be compacted is gone.
    pub(super) async fn add(&self, id: u64, lines: &[&str]) -> Result<Added> {
        let mut slot = self.state.lock().await;
        let state = self.load(&mut slot).await?;
        if state.latest.is_some_and(|latest| latest >= id) {
            return Ok(Added::Known);
        }
        // In doubt about what is there the next call looks again.
        *slot = None;
        self.fill_gap(&state, id).await?;
        self.write(&state, id, lines, id.checked_sub(1)).await?;
        if state.compacts(id) {
            self.remove_replaced(&state, id).await;
        }
        *slot = Some(State { latest: Some(id), ..state });
        Ok(Added::New)
    }

    async fn load(&self, slot: &mut Option<State>) -> Result<State> {
        if let Some(state) = slot {
            return Ok(*state);
        }
        let batches = self.list().await?;
        let mut compacted = batches.iter().rev().filter(|(_, batch)| batch.compacted).map(|(id, _)| *id);
        let interval = match (compacted.next(), compacted.next()) {
            (Some(newest), Some(before)) => newest - before,
            (Some(only), None) => interval_of(only),
            _ => COMPACT_INTERVAL,
        };
        let state = State { latest: batches.keys().next_back().copied(), interval };
        *slot = Some(state);
        Ok(state)
    }

    /// Batches that never reached the sink get an empty entry each, because readers (Spark among them) refuse a manifest with holes.
    async fn fill_gap(&self, state: &State, id: u64) -> Result<()> {
        let first = state.latest.map_or(0, |latest| latest + 1);
        // Everything before the last compaction is in that one entry.
        let compacted = (id / state.interval * state.interval).checked_sub(1).filter(|compacted| *compacted >= first);
        for missing in compacted.unwrap_or(first)..id {
            self.write(state, missing, &[], state.latest).await?;
        }
        Ok(())
    }

    /// Writes one entry; `before` is the newest one that there is. After an error the entry itself tells whether it is there.
    async fn write(&self, state: &State, id: u64, lines: &[&str], before: Option<u64>) -> Result<()> {
        let (name, text) = if state.compacts(id) {
            (format!("{id}.compact"), self.compacted(before, lines).await?)
        } else {
            (id.to_string(), [&[VERSION], lines].concat().join("\n"))
        };
        let bytes = Bytes::from(text);
        let path = self.directory.clone().join(name.as_str());
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let Err(error) = self.root.store.put_opts(&path, PutPayload::from_bytes(bytes.clone()), options).await else { return Ok(()) };
        match self.read(&name).await {
            Ok(Some(there)) if there == bytes => Ok(()),
            Ok(Some(_)) => Err(Error::new(
                ErrorKind::Fenced,
                "CONCURRENT_STREAM_LOG_UPDATE",
                format!(
                    "batch {id} of {}/{DIRECTORY} exists with other contents; another query writes to the same folder: stop one of them",
                    self.root.display()
                ),
            )
            .with_sqlstate("40000")),
            Ok(None) => Err(self.unavailable(&name, error)),
            Err(_) => Err(self.unavailable(&name, error).within("it cannot be told whether the batch was committed")),
        }
    }

    /// All lines up to the entry `before`, then `lines`, without those that were deleted or have outlived the retention.
    async fn compacted(&self, before: Option<u64>, lines: &[&str]) -> Result<String> {
        let batches = self.list().await?;
        let end = before.map_or(0, |before| before + 1);
        let first = batches.range(..end).rev().find(|(_, batch)| batch.compacted).map(|(first, _)| *first);
        let mut text = String::from(VERSION);
        let mut earlier = Vec::new();
        for batch in first.unwrap_or(0)..end {
            let name = if Some(batch) == first { format!("{batch}.compact") } else { batch.to_string() };
            let missing = || {
                let what = format!("batch {batch} is missing from {}/{DIRECTORY}: restore it, or begin a new folder", self.root.display());
                Error::new(ErrorKind::DataLost, "BATCH_METADATA_NOT_FOUND", what).with_sqlstate("42K03")
            };
            earlier.push(self.read(&name).await?.ok_or_else(missing)?);
        }
        let earlier = earlier.iter().flat_map(|bytes| std::str::from_utf8(bytes).unwrap_or_default().lines().skip(1));
        let all: Vec<&str> = earlier.chain(lines.iter().copied()).filter(|line| !line.is_empty()).collect();
        let oldest = self.retention.map(|age| self.clock.now_ms().saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX)));
        let deleted = deleted_urls(&all);
        for line in all {
            if (deleted.is_empty() && oldest.is_none()) || is_kept(line, &deleted, oldest) {
                text.push('\n');
                text.push_str(line);
            }
        }
        Ok(text)
    }

    /// Removes entries that an older compacted one has replaced. Best effort.
    async fn remove_replaced(&self, state: &State, id: u64) {
        let Ok(batches) = self.list().await else { return };
        let Some(recent) = id.checked_sub(KEPT_BATCHES) else { return };
        let Some(kept) = batches.range(..=recent).rev().find(|(_, batch)| batch.compacted).map(|(kept, _)| *kept) else { return };
        debug_assert!(state.compacts(kept));
        let now = self.clock.now_ms();
        for batch in batches.range(..kept).map(|(_, batch)| batch) {
            if now.saturating_sub(batch.meta.last_modified.timestamp_millis()) < CLEANUP_DELAY_MS {
                continue;
            }
            if let Err(error) = self.root.store.delete(&batch.meta.location).await {
                tracing::debug!(entry = %batch.meta.location, %error, "a replaced entry of a manifest was not removed");
            }
        }
    }

    /// The lines that the manifest has of a batch, or `None` when it cannot be told because a compacted entry has replaced the batch's own.
    ///
    /// # Errors
    /// `SINK_LOG_UNAVAILABLE`.
    pub(super) async fn lines_of(&self, id: u64) -> Result<Option<Vec<String>>> {
        for name in [id.to_string(), format!("{id}.compact")] {
            if let Some(bytes) = self.read(&name).await? {
                let text = std::str::from_utf8(&bytes).unwrap_or_default();
                return Ok(Some(text.lines().skip(1).map(str::to_owned).collect()));
            }
        }
        let written = self.latest().await?.is_some_and(|latest| latest >= id);
        Ok(if written { None } else { Some(Vec::new()) })
    }

    async fn read(&self, name: &str) -> Result<Option<Bytes>> {
        let path = self.directory.clone().join(name);
        let get = async { self.root.store.get(&path).await?.bytes().await };
        match get.await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.unavailable(name, error)),
        }
    }

    async fn list(&self) -> Result<BTreeMap<u64, Batch>> {
        let objects = match self.root.store.list_with_delimiter(Some(&self.directory)).await {
            Ok(listed) => listed.objects,
            Err(object_store::Error::NotFound { .. }) => Vec::new(),
            Err(error) => return Err(self.unavailable("", error)),
        };
        let mut batches: BTreeMap<u64, Batch> = BTreeMap::new();
        for meta in objects {
            let Some(name) = meta.location.filename() else { continue };
            let (number, compacted) = name.strip_suffix(".compact").map_or((name, false), |number| (number, true));
            let Ok(id) = number.parse::<u64>() else { continue };
            if compacted || !batches.contains_key(&id) {
                batches.insert(id, Batch { compacted, meta });
            }
        }
        Ok(batches)
    }

    fn unavailable(&self, name: &str, error: object_store::Error) -> Error {
        Error::new(
            ErrorKind::SinkUnavailable,
            "SINK_LOG_UNAVAILABLE",
            format!("cannot read or write {}/{DIRECTORY}/{name}: check the folder's store, then restart the query", self.root.display()),
        )
        .caused_by(error)
    }
}

struct Batch {
    compacted: bool,
    meta: ObjectMeta,
}

/// The interval of a folder whose only compacted batch is `id`: ours if that fits, else one that does.
fn interval_of(id: u64) -> u64 {
    let batches = id + 1;
    if batches <= COMPACT_INTERVAL {
        return batches;
    }
    (COMPACT_INTERVAL..=batches / 2).find(|interval| batches.is_multiple_of(*interval)).unwrap_or(batches)
}

/// The files that lines with the action `delete`, which old Sparks wrote, take back.
fn deleted_urls(lines: &[&str]) -> HashSet<String> {
    lines
        .iter()
        .filter(|line| line.contains(r#""action":"delete""#))
        .filter_map(|line| serde_json::from_str::<Line<'_>>(line).ok())
        .map(|line| line.path.into_owned())
        .collect()
}

/// Whether a compacted batch keeps a line. What cannot be read is kept.
fn is_kept(line: &str, deleted: &HashSet<String>, oldest_ms: Option<i64>) -> bool {
    let Ok(line) = serde_json::from_str::<Line<'_>>(line) else { return true };
    !deleted.contains(line.path.as_ref()) && oldest_ms.is_none_or(|oldest| line.modification_time >= oldest)
}
