//! The lock that tells a second live query at once that a checkpoint is in use.
//!
//! It is for people, not for safety: epochs keep a writer out that believes to be alone (see [`crate::epoch`]). On a local disk it is a
//! `flock` on the file `LOCK`, which the kernel releases when the process dies; elsewhere it excludes within this process only.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use millstream_core::{Error, ErrorKind, Result};
use object_store::ObjectStore;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use url::Url;
use uuid::Uuid;

use crate::checkpoint::CheckpointOptions;
use crate::identity::location;

/// The query that holds a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its process.
    pub pid: u32,
    /// Host and process, for people.
    pub owner: String,
    /// The query's id.
    pub query_id: Uuid,
    /// The run of the query: distinct for everyone who ever opened the checkpoint.
    pub writer: Uuid,
}

/// Where a lock is taken.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// In the directory of a local checkpoint.
    Directory(PathBuf),
    /// In this process, under a name that is the same for everyone who opens the checkpoint.
    Process(String),
}

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub(crate) enum Lock {
    File {
        _file: File,
    },
    Process {
        name: String,
        writer: Uuid,
    },
    /// The file system has no locks.
    Unsupported,
}

/// Who holds the lock, `None` when that cannot be read.
type Held = Option<Holder>;

impl Lock {
    /// Takes the lock for `holder`, or says who has it. `takeover` takes it from whoever has it.
    fn acquire(place: &Place, holder: &Holder, takeover: bool) -> Result<Result<Lock, Held>> {
        match place {
            Place::Directory(directory) => acquire_file(directory, holder, takeover).map_err(|error| {
                Error::new(
                    ErrorKind::StoreUnavailable,
                    "STORE_LOCK_FAILED",
                    format!("cannot lock {}/LOCK; check the permissions of the checkpoint directory", directory.display()),
                )
                .caused_by(error)
            }),
            Place::Process(name) => {
                let mut holders = in_process();
                match holders.get(name) {
                    Some(other) if !takeover => Ok(Err(Some(other.clone()))),
                    _ => {
                        holders.insert(name.clone(), holder.clone());
                        Ok(Ok(Lock::Process { name: name.clone(), writer: holder.writer }))
                    }
                }
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Lock::Process { name, writer } = self {
            let mut holders = in_process();
            if holders.get(name).is_some_and(|holder| holder.writer == *writer) {
                holders.remove(name);
            }
        }
    }
}

fn in_process() -> std::sync::MutexGuard<'static, HashMap<String, Holder>> {
    static HOLDERS: OnceLock<Mutex<HashMap<String, Holder>>> = OnceLock::new();
    HOLDERS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

fn acquire_file(directory: &Path, holder: &Holder, takeover: bool) -> std::io::Result<Result<Lock, Held>> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let path = directory.join("LOCK");
    if takeover
        && let Err(error) = std::fs::remove_file(&path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(error);
    }
    loop {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut text = String::new();
                file.read_to_string(&mut text)?;
                return Ok(Err(serde_json::from_str(&text).ok()));
            }
            Err(Errno::OPNOTSUPP | Errno::NOLCK | Errno::NOSYS) => {
                tracing::warn!(path = %path.display(), "the file system has no locks: a second query on this checkpoint will be stopped, not refused");
                return Ok(Ok(Lock::Unsupported));
            }
            Err(error) => return Err(error.into()),
        }
        // Somebody may have taken over, and replaced the file, between opening and locking it.
        let locked = file.metadata()?;
        match std::fs::metadata(&path) {
            Ok(current) if (current.dev(), current.ino()) == (locked.dev(), locked.ino()) => {}
            Ok(_) => continue,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        }
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&serde_json::to_vec(holder)?)?;
        return Ok(Ok(Lock::File { _file: file }));
    }
}

/// Where the lock of the checkpoint at `url` is.
pub(crate) fn place(store: &Arc<dyn ObjectStore>, root: &object_store::path::Path, url: &Url) -> Result<Place> {
    match url.scheme() {
        "file" => url.to_file_path().map(Place::Directory).map_err(|()| {
            Error::invalid(
                "INVALID_CHECKPOINT_LOCATION",
                format!("the checkpoint location {} is not a path on this machine", location(url)),
            )
        }),
        // Memory stores have no name of their own; the store itself is what runs share.
        "memory" => Ok(Place::Process(format!("{:p}/{root}", Arc::as_ptr(store).cast::<()>()))),
        _ => Ok(Place::Process(location(url))),
    }
}

/// Takes the lock for `holder`, where the options allow it from whoever has it.
///
/// # Errors
/// `CONCURRENT_QUERY` when another run keeps it.
pub(crate) async fn acquire(place: &Place, holder: &Holder, url: &Url, options: &CheckpointOptions) -> Result<Lock> {
    let mut held = match Lock::acquire(place, holder, options.takeover)? {
        Ok(lock) => return Ok(lock),
        Err(held) => held,
    };
    if let (Some(stop), Some(other)) = (&options.stop_other, &held)
        && other.pid == holder.pid
        && stop(other.clone()).await?
    {
        // The other run answered; its last reference may still be on its way out.
        for _ in 0..100 {
            match Lock::acquire(place, holder, false)? {
                Ok(lock) => return Ok(lock),
                Err(still) => held = still,
            }
            options.clock.sleep(Duration::from_millis(20)).await;
        }
    }
    Err(concurrent_query(url, &held))
}

/// The error for a checkpoint that another live query uses.
fn concurrent_query(url: &Url, held: &Held) -> Error {
    let who = match held {
        Some(holder) => format!("query {}, {} (process {})", holder.query_id, holder.owner, holder.pid),
        None => "a process that did not write its name".to_owned(),
    };
    Error::new(
        ErrorKind::Fenced,
        "CONCURRENT_QUERY",
        format!(
            "Another instance of this query runs on the checkpoint {}: {who}. Stop it first, or give this query its own checkpoint.",
            location(url)
        ),
    )
    .with_sqlstate("0A000")
}
