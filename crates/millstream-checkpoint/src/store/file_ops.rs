//! The few operations by which a durable store changes a file system, as a seam: the system's own, a recorder, a saboteur in tests.

use std::fmt::Debug;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

/// The changes that a store makes to a file system. Paths are absolute. Every method is one system call's worth of work and blocks.
pub trait FileOps: Debug + Send + Sync + 'static {
    /// Creates a file that must not exist, open for writing; `mode` is narrowed by the umask.
    fn create(&self, path: &Path, mode: u32) -> io::Result<File>;

    /// Writes all of `data` at `offset` of the file that was created as `path`.
    fn write_at(&self, file: &File, path: &Path, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Makes the content of the file that was created as `path` durable.
    fn sync_file(&self, file: &File, path: &Path) -> io::Result<()>;

    /// Gives the file `from` a second name; fails with `AlreadyExists` if `to` is taken.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Moves `from` to `to`, replacing what `to` named.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes one name of a file.
    fn unlink(&self, path: &Path) -> io::Result<()>;

    /// Creates one directory; `mode` is narrowed by the umask.
    fn make_dir(&self, path: &Path, mode: u32) -> io::Result<()>;

    /// Makes the entries of a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// The operating system's file operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemFiles;

impl FileOps for SystemFiles {
    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
    }

    fn write_at(&self, file: &File, _path: &Path, offset: u64, data: &[u8]) -> io::Result<()> {
        file.write_all_at(data, offset)
    }

    fn sync_file(&self, file: &File, _path: &Path) -> io::Result<()> {
        file.sync_all()
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn make_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        DirBuilder::new().mode(mode).create(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}
