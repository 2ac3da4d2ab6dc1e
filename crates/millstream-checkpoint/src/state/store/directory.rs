//! Working directories: private to a process, and of no use to any other.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use millstream_core::{Error, ErrorKind, Result};
use rustix::fs::{FlockOperation, flock};
use uuid::Uuid;

/// The folder of all working directories.
const FOLDER: &str = "millstream-state";
/// Locked by the process whose directory it is in.
const LOCK: &str = "owner";
/// Locked while directories are made or removed, so that none is taken for left behind before it is locked.
const GATE: &str = "gate";

/// A working directory, which goes when it is dropped.
#[derive(Debug)]
pub(super) struct WorkingDirectory {
    path: PathBuf,
    _lock: File,
}

impl WorkingDirectory {
    /// Makes a directory called `id` below `parent`, and removes those whose processes ended without doing so.
    pub(super) fn create(parent: &Path, id: Uuid) -> Result<Self> {
        let folder = parent.join(FOLDER);
        let path = folder.join(id.to_string());
        let create = || -> std::io::Result<File> {
            fs::create_dir_all(&path)?;
            let gate = File::create(folder.join(GATE))?;
            flock(&gate, FlockOperation::LockExclusive)?;
            let lock = File::create(path.join(LOCK))?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            sweep(&folder);
            Ok(lock)
        };
        let lock = create().map_err(|error| {
            Error::new(
                ErrorKind::StoreUnavailable,
                "CANNOT_LOAD_STATE_STORE.UNCATEGORIZED",
                format!(
                    "the working directory {} of state cannot be made: make room there, or set another local directory",
                    path.display()
                ),
            )
            .with_sqlstate("58030")
            .caused_by(error)
        })?;
        Ok(WorkingDirectory { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkingDirectory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "a working directory of state was not removed");
        }
    }
}

/// Removes directories whose owners have ended. What cannot be looked at is left alone.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(lock) = File::open(path.join(LOCK)) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            tracing::info!(path = %path.display(), "removing the working directory of a process that has ended");
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_go_with_their_owners_and_never_before() {
        let parent = tempfile::tempdir().unwrap();
        let first = WorkingDirectory::create(parent.path(), Uuid::from_u128(1)).unwrap();
        // One that a killed process left behind.
        let left = parent.path().join(FOLDER).join("left");
        fs::create_dir_all(&left).unwrap();
        File::create(left.join(LOCK)).unwrap();
        let second = WorkingDirectory::create(parent.path(), Uuid::from_u128(2)).unwrap();
        assert!(first.path().is_dir() && second.path().is_dir() && !left.exists());
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists() && second.path().is_dir());
    }
}
