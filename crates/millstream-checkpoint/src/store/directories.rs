//! Directories that a store writes to: made when missing, made durable up to the root, synced once for many writers.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use millstream_core::Clock;
use parking_lot::Mutex;

use super::file_ops::FileOps;
use super::stats::DurableStats;

/// Directories remembered as durable. When full, all are forgotten, which costs a few calls and nothing else.
const REMEMBERED: usize = 4096;

/// A directory unchanged for this long has been written back by any file system in use (their longest delay is half a minute).
const SETTLED_AFTER_MS: i64 = 10 * 60 * 1000;

/// The directories below one root.
#[derive(Debug)]
pub(super) struct Directories {
    root: PathBuf,
    mode: u32,
    files: Arc<dyn FileOps>,
    clock: Arc<dyn Clock>,
    stats: Arc<DurableStats>,
    durable: Mutex<HashMap<PathBuf, Arc<Directory>>>,
    /// Held while directories are made, so that no one takes a directory for durable that another thread has only just made.
    making: Mutex<()>,
}

impl Directories {
    pub(super) fn new(root: PathBuf, mode: u32, files: Arc<dyn FileOps>, clock: Arc<dyn Clock>, stats: Arc<DurableStats>) -> Self {
        Directories { root, mode, files, clock, stats, durable: Mutex::default(), making: Mutex::new(()) }
    }

    /// The directory `path`, which exists and whose name will survive a power cut when this returns.
    pub(super) fn ensure(&self, path: &Path) -> io::Result<Arc<Directory>> {
        if let Some(directory) = self.durable.lock().get(path) {
            return Ok(Arc::clone(directory));
        }
        let _making = self.making.lock();
        let mut unknown = Vec::new();
        for ancestor in path.ancestors() {
            if ancestor == self.root || self.durable.lock().contains_key(ancestor) {
                break;
            }
            unknown.push(ancestor);
        }
        let mut unsettled = Vec::new();
        for directory in unknown.iter().rev() {
            if self.make(directory)? {
                unsettled.extend(directory.parent().map(|parent| (parent, true)));
            } else if !self.settled(directory) {
                unsettled.extend(directory.parent().map(|parent| (parent, false)));
            }
        }
        for (parent, made) in unsettled {
            match self.sync_path(parent) {
                // A parent that we may not open is not ours: who made the directory answers for it.
                Err(error) if !made && error.kind() == io::ErrorKind::PermissionDenied => {}
                outcome => outcome?,
            }
        }
        let mut durable = self.durable.lock();
        if durable.len() + unknown.len() > REMEMBERED {
            durable.clear();
        }
        for directory in unknown {
            durable.insert(directory.to_path_buf(), Arc::new(Directory::new(directory)));
        }
        Ok(Arc::clone(durable.entry(path.to_path_buf()).or_insert_with(|| Arc::new(Directory::new(path)))))
    }

    /// Forgets `path` and what is above it: it turned out to have been removed by someone else.
    pub(super) fn forget(&self, path: &Path) {
        let mut durable = self.durable.lock();
        for ancestor in path.ancestors() {
            durable.remove(ancestor);
        }
    }

    /// Makes every entry change of `directory` durable that was made before the call. Callers that arrive while a sync runs share the next.
    ///
    /// # Errors
    /// The sync's own error, also for the callers that shared it. A later sync does not make up for it.
    pub(super) fn sync(&self, directory: &Directory) -> io::Result<()> {
        let ticket = directory.requested.fetch_add(1, SeqCst) + 1;
        let mut progress = directory.progress.lock();
        if progress.failed >= ticket {
            return Err(io::Error::other("the directory could not be synced for another write at the same time"));
        }
        if progress.synced >= ticket {
            return Ok(());
        }
        let covered = directory.requested.load(SeqCst);
        let outcome = self.sync_path(&directory.path);
        match outcome {
            Ok(()) => progress.synced = covered,
            Err(_) => progress.failed = covered,
        }
        outcome
    }

    /// Makes the entries of any directory durable, alone.
    pub(super) fn sync_path(&self, path: &Path) -> io::Result<()> {
        let started = self.clock.monotonic_ns();
        let outcome = self.files.sync_dir(path);
        self.stats.synced_dir(self.clock.monotonic_ns().saturating_sub(started));
        outcome
    }

    /// Makes one directory unless it exists, and says whether it did.
    fn make(&self, path: &Path) -> io::Result<bool> {
        if path.is_dir() {
            return Ok(false);
        }
        match self.files.make_dir(path, self.mode) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether an existing directory is so old that its name is on disk.
    fn settled(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|meta| {
            let age_ms = self.clock.now_ms().saturating_sub(meta.ctime().saturating_mul(1000));
            age_ms > SETTLED_AFTER_MS
        })
    }
}

/// One directory and how far its syncs have come.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// Number of the last sync asked for.
    requested: AtomicU64,
    progress: Mutex<SyncProgress>,
}

#[derive(Debug, Default)]
struct SyncProgress {
    /// Every request up to this number is done.
    synced: u64,
    /// Every open request up to this number has failed.
    failed: u64,
}

impl Directory {
    fn new(path: &Path) -> Self {
        Directory { path: path.to_path_buf(), requested: AtomicU64::new(0), progress: Mutex::default() }
    }
}
