//! Making what a killed writer left behind solid: directories synced, its hidden files removed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use object_store::Result;
use rustix::fs::{FlockOperation, flock};

use super::failure::file_failure;
use super::publish::{Publisher, is_staged};

/// Sweeps `directory` and everything below it; links to directories are not followed. Returns the number of files removed.
pub(super) fn settle(publisher: &Publisher, directory: &Path, now_ms: i64, min_age: Duration) -> Result<u64> {
    let mut removed = 0;
    let mut pending = vec![directory.to_path_buf()];
    while let Some(directory) = pending.pop() {
        let failed = |error| file_failure("sweep", &directory, error);
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => continue,
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            if entry.file_type().map_err(failed)?.is_dir() {
                pending.push(path);
            } else if entry.file_name().to_str().is_some_and(is_staged) && is_abandoned(&path, now_ms, min_age) {
                match publisher.files.unlink(&path) {
                    Ok(()) => removed += 1,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(file_failure("remove", &path, error)),
                }
            }
        }
        let known = publisher.directories.ensure(&directory).map_err(failed)?;
        publisher.sync_directory(&known, &directory)?;
    }
    Ok(removed)
}

/// Whether the writer of a hidden file is gone: its lock is free and the file is old enough not to be between creation and locking.
fn is_abandoned(path: &Path, now_ms: i64, min_age: Duration) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let Ok(metadata) = file.metadata() else { return false };
    let age_ms = now_ms.saturating_sub(metadata.ctime().saturating_mul(1000));
    let min_age_ms = i64::try_from(min_age.as_millis()).unwrap_or(i64::MAX);
    age_ms >= min_age_ms && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
}
