//! The manifest that a streaming file sink keeps in `_spark_metadata`: only files that it names are committed output.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_core::{Error, ErrorKind, Result};
use object_store::ObjectStoreExt;
use object_store::path::Path;
use serde::Deserialize;

use super::listing::{FileStatus, cannot_list};
use super::uri::{self, Root};

/// The directory of the manifest.
pub(crate) const DIRECTORY: &str = "_spark_metadata";

/// The manifest of one directory, if it has one. Read again only when it has grown.
#[derive(Debug, Default)]
pub(crate) struct Manifest(parking_lot::Mutex<State>);

#[derive(Debug, Default)]
enum State {
    /// Neither a manifest nor a file has been seen yet.
    #[default]
    Unknown,
    /// Files were there before any manifest: it is an ordinary directory, for good.
    Absent,
    /// A manifest, with what it held after a batch.
    Present { latest: Option<u64>, files: Arc<Vec<FileStatus>> },
}

/// A line of the manifest.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    path: String,
    size: u64,
    #[serde(default)]
    is_dir: bool,
    modification_time: i64,
    #[serde(default)]
    action: Option<String>,
}

impl Manifest {
    pub(crate) fn is_in_use(&self) -> bool {
        matches!(*self.0.lock(), State::Present { .. })
    }

    /// From now on the directory is listed, whatever appears in it.
    pub(crate) fn rule_out(&self) {
        *self.0.lock() = State::Absent;
    }

    /// Whether the directory has a manifest; looks for it unless that is decided.
    ///
    /// # Errors
    /// `CANNOT_LIST_FILES`.
    pub(crate) async fn discover(&self, root: &Root) -> Result<bool> {
        match &*self.0.lock() {
            State::Absent => return Ok(false),
            State::Present { .. } => return Ok(true),
            State::Unknown => {}
        }
        let there = match &root.local {
            Some(local) => tokio::fs::metadata(local.join(DIRECTORY)).await.is_ok_and(|metadata| metadata.is_dir()),
            None => !batches(root).await?.is_empty(),
        };
        if there {
            *self.0.lock() = State::Present { latest: None, files: Arc::default() };
        }
        Ok(there)
    }

    /// The committed files.
    ///
    /// # Errors
    /// `CANNOT_LIST_FILES`, `BATCH_METADATA_NOT_FOUND` when a batch is missing, `MALFORMED_LOG_FILE`.
    pub(crate) async fn files(&self, root: &Root) -> Result<Arc<Vec<FileStatus>>> {
        let batches = batches(root).await?;
        let newest = batches.keys().next_back().copied();
        if let State::Present { latest, files } = &*self.0.lock()
            && *latest == newest
        {
            return Ok(files.clone());
        }
        let files = Arc::new(read(root, &batches).await?);
        *self.0.lock() = State::Present { latest: newest, files: files.clone() };
        Ok(files)
    }
}

fn directory(root: &Root) -> Path {
    root.path.clone().join(DIRECTORY)
}

/// The batches of the manifest, and whether each is a compacted one, which repeats all before it.
async fn batches(root: &Root) -> Result<BTreeMap<u64, bool>> {
    let listed = root.store.list_with_delimiter(Some(&directory(root))).await;
    let objects = match listed {
        Ok(listed) => listed.objects,
        Err(object_store::Error::NotFound { .. }) => return Ok(BTreeMap::new()),
        Err(error) => return Err(cannot_list(&format!("{}/{DIRECTORY}", root.display()), error)),
    };
    let mut batches = BTreeMap::new();
    for meta in objects {
        let Some(name) = meta.location.filename() else { continue };
        let (number, compacted) = name.strip_suffix(".compact").map_or((name, false), |number| (number, true));
        if let Ok(id) = number.parse::<u64>() {
            *batches.entry(id).or_default() |= compacted;
        }
    }
    Ok(batches)
}

async fn read(root: &Root, batches: &BTreeMap<u64, bool>) -> Result<Vec<FileStatus>> {
    let first = batches.iter().rev().find(|(_, compacted)| **compacted).map_or(0, |(id, _)| *id);
    let mut files: BTreeMap<String, FileStatus> = BTreeMap::new();
    for (expected, (id, compacted)) in (first..).zip(batches.range(first..)) {
        if *id != expected {
            return Err(Error::new(
                ErrorKind::DataLost,
                "BATCH_METADATA_NOT_FOUND",
                format!("batch {expected} is missing from {}/{DIRECTORY}: restore it, or read the files by a path pattern", root.display()),
            )
            .with_sqlstate("42K03"));
        }
        let name = if *compacted { format!("{id}.compact") } else { id.to_string() };
        let path = directory(root).join(name.as_str());
        let unavailable = |error| cannot_list(&format!("{}/{DIRECTORY}/{name}", root.display()), error);
        let bytes = root.store.get(&path).await.map_err(unavailable)?.bytes().await.map_err(unavailable)?;
        let malformed = |why: &str| {
            Error::new(ErrorKind::SourceUnavailable, "MALFORMED_LOG_FILE", format!("{}/{DIRECTORY}/{name} {why}", root.display()))
        };
        let text = std::str::from_utf8(&bytes).map_err(|error| malformed("is not text").caused_by(error))?;
        let mut lines = text.lines();
        if lines.next() != Some("v1") {
            return Err(malformed("does not begin with 'v1'"));
        }
        for line in lines.filter(|line| !line.is_empty()) {
            let line: Line = serde_json::from_str(line).map_err(|error| malformed("holds a line that is no file").caused_by(error))?;
            let url = uri::canonical(&line.path);
            if line.action.as_deref() == Some("delete") {
                files.remove(&url);
            } else if !line.is_dir {
                files.insert(url.clone(), FileStatus { url, size: line.size, modified_ms: line.modification_time });
            }
        }
    }
    Ok(files.into_values().collect())
}
