//! The one way in which files come into being: written under a hidden name, synced, then given their name, then the directory synced.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millstream_core::{Clock, Error, ErrorKind, crash};
use object_store::{PutPayload, PutResult, Result};
use rustix::fs::{FlockOperation, flock};

use super::directories::{Directories, Directory};
use super::failure::{carry, file_failure};
use super::file_ops::FileOps;
use super::open::StoreOptions;
use super::stats::DurableStats;

const STAGED_PREFIX: &str = ".millstream-";
const STAGED_SUFFIX: &str = ".tmp";

/// Names tried for a staged file before giving up: more leftovers of one identifier than any crash can leave.
const STAGED_ATTEMPTS: usize = 1024;

/// Who may read what a store writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Privacy {
    /// Only the owner: new directories get mode 0700 and files 0600. For checkpoints, quarantine and state.
    Private,
    /// Whom the umask lets. For tables and other output.
    Shared,
}

/// What a publication does when the name is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Refuse,
    Replace,
}

/// Whether a file name is that of a staged file, which listings leave out and requests may not use.
pub(super) fn is_staged(name: &str) -> bool {
    name.starts_with(STAGED_PREFIX) && name.ends_with(STAGED_SUFFIX)
}

/// Publishes files below one root.
#[derive(Debug)]
pub(super) struct Publisher {
    pub(super) files: Arc<dyn FileOps>,
    pub(super) directories: Directories,
    clock: Arc<dyn Clock>,
    stats: Arc<DurableStats>,
    file_mode: u32,
    /// Makes staged names of this store differ from those of every other store and process.
    writer: String,
    next_staged: AtomicU64,
}

impl Publisher {
    pub(super) fn new(root: PathBuf, privacy: Privacy, options: &StoreOptions) -> Self {
        let (file_mode, dir_mode) = match privacy {
            Privacy::Private => (0o600, 0o700),
            Privacy::Shared => (0o666, 0o777),
        };
        let (clock, stats, files) = (options.clock(), options.stats(), options.file_ops());
        Publisher {
            directories: Directories::new(root, dir_mode, Arc::clone(files), Arc::clone(clock), Arc::clone(stats)),
            files: Arc::clone(files),
            clock: Arc::clone(clock),
            stats: Arc::clone(stats),
            file_mode,
            writer: options.ids().next().simple().to_string(),
            next_staged: AtomicU64::new(0),
        }
    }

    /// Writes `payload` as `target`. When this returns, the file survives a power cut. Blocks.
    pub(super) fn put(&self, target: &Path, payload: &PutPayload, taken: Taken) -> Result<PutResult> {
        let mut staged = self.stage(target)?;
        let mut offset = 0;
        for chunk in payload {
            staged.write_at(self, offset, chunk)?;
            offset += chunk.len() as u64;
        }
        self.publish(staged, target, taken)
    }

    /// Creates a hidden file next to `target`, making the directories above it.
    pub(super) fn stage(&self, target: &Path) -> Result<Staged> {
        let parent = target.parent().unwrap_or(Path::new("/"));
        match self.create_staged(parent, self.directory_of(target)?) {
            // Someone removed the directory behind our back.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.directories.forget(parent);
                self.create_staged(parent, self.directory_of(target)?)
            }
            outcome => outcome,
        }
        .map_err(|error| file_failure("create a file in", parent, error))
    }

    /// The directory of `target`, made durable under its own name.
    pub(super) fn directory_of(&self, target: &Path) -> Result<Arc<Directory>> {
        let parent = target.parent().unwrap_or(Path::new("/"));
        self.directories.ensure(parent).map_err(|error| file_failure("make the directory", parent, error))
    }

    fn create_staged(&self, parent: &Path, directory: Arc<Directory>) -> io::Result<Staged> {
        for _ in 0..STAGED_ATTEMPTS {
            let path = self.staged_name(parent);
            match self.files.create(&path, self.file_mode) {
                Ok(file) => {
                    // The lock tells a sweep that the writer lives. A file system without locks only makes sweeps wait for the age.
                    let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
                    return Ok(Staged { files: Arc::clone(&self.files), file, path, directory, written: 0, renamed: false });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("every staging name is taken; remove the .millstream-*.tmp files there"))
    }

    /// A name for a hidden file in `parent` that no other writer uses.
    fn staged_name(&self, parent: &Path) -> PathBuf {
        let number = self.next_staged.fetch_add(1, Relaxed);
        parent.join(format!("{STAGED_PREFIX}{}-{number}{STAGED_SUFFIX}", self.writer))
    }

    /// Makes a staged file durable and gives it its name.
    pub(super) fn publish(&self, mut staged: Staged, target: &Path, taken: Taken) -> Result<PutResult> {
        crash::point("store.tmp.written");
        self.sync_file(&staged.file, &staged.path)?;
        crash::point("store.synced");
        let meta = staged.file.metadata().map_err(|error| file_failure("read the metadata of", &staged.path, error))?;
        match taken {
            Taken::Refuse => self.link(&staged.path, target, &staged.directory)?,
            Taken::Replace => {
                self.files.rename(&staged.path, target).map_err(|error| file_failure("write", target, error))?;
                staged.renamed = true;
            }
        }
        crash::point("store.linked");
        let directory = Arc::clone(&staged.directory);
        drop(staged);
        self.sync_directory(&directory, target)?;
        self.stats.published();
        Ok(PutResult { e_tag: Some(e_tag(&meta)), version: None })
    }

    /// Gives `from` the free name `to`, whose directory is not synced yet.
    fn link(&self, from: &Path, to: &Path, directory: &Directory) -> Result<()> {
        let Err(error) = self.files.link(from, to) else { return Ok(()) };
        if error.kind() == io::ErrorKind::AlreadyExists {
            // The name may be there without being durable yet, and the caller will now act on what it finds under it.
            self.sync_directory(directory, to)?;
        } else if cannot_link(&error) {
            return Err(without_hard_links(to, error));
        }
        Err(file_failure("create", to, error))
    }

    /// Makes the content of a file durable. An error is final for this file: the kernel has dropped the pages, so a second call on the
    /// same descriptor would succeed without having written them.
    pub(super) fn sync_file(&self, file: &File, path: &Path) -> Result<()> {
        let started = self.clock.monotonic_ns();
        let outcome = self.files.sync_file(file, path);
        self.stats.synced_file(self.clock.monotonic_ns().saturating_sub(started));
        outcome.map_err(|error| sync_failed(path, error))
    }

    /// Makes the entries of a directory durable after `target` was put into it.
    pub(super) fn sync_directory(&self, directory: &Directory, target: &Path) -> Result<()> {
        self.directories.sync(directory).map_err(|error| sync_failed(target, error))
    }
}

/// A file that has content but not its name. Dropping it removes its hidden name.
#[derive(Debug)]
pub(super) struct Staged {
    files: Arc<dyn FileOps>,
    file: File,
    path: PathBuf,
    directory: Arc<Directory>,
    written: u64,
    renamed: bool,
}

impl Staged {
    /// Writes `data` at `offset`. Parts may be written in any order.
    pub(super) fn write_at(&mut self, publisher: &Publisher, offset: u64, data: &[u8]) -> Result<()> {
        self.files.write_at(&self.file, &self.path, offset, data).map_err(|error| file_failure("write", &self.path, error))?;
        self.written += data.len() as u64;
        publisher.stats.wrote(data.len() as u64);
        Ok(())
    }

    /// Bytes written so far, in whatever order.
    pub(super) fn written(&self) -> u64 {
        self.written
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.renamed {
            // A leftover is invisible and swept later.
            let _ = self.files.unlink(&self.path);
        }
    }
}

/// Identifies one content of one file: inode, time of modification and length.
pub(super) fn e_tag(meta: &Metadata) -> String {
    format!("{:x}-{:x}.{:x}-{:x}", meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.len())
}

/// What file systems answer that have no hard links: FAT and SMB (`EPERM`, `EOPNOTSUPP`), FUSE (`ENOSYS`).
pub(super) fn cannot_link(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let code = error.raw_os_error();
    [Errno::PERM, Errno::OPNOTSUPP, Errno::NOSYS, Errno::MLINK].iter().any(|errno| code == Some(errno.raw_os_error()))
}

fn without_hard_links(path: &Path, error: io::Error) -> object_store::Error {
    let message = format!(
        "the file system of {} has no hard links, without which a file cannot be created exactly once; use a local file system such as \
         ext4 or xfs, or an object store",
        path.display()
    );
    carry(Error::invalid("STORE_WITHOUT_HARD_LINKS", message).caused_by(error))
}

fn sync_failed(path: &Path, error: io::Error) -> object_store::Error {
    let message =
        format!("{} could not be made durable; whatever was written is lost or unknown. Check the disk and restart", path.display());
    carry(Error::new(ErrorKind::StoreUnavailable, "STORE_SYNC_FAILED", message).caused_by(error))
}
