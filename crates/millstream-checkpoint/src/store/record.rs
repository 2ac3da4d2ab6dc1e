//! Recording every change of a file system, from which the disks follow that a power cut could leave behind.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::file_ops::{FileOps, SystemFiles};
use super::image::Image;

/// One change, with paths relative to the recorded directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileOp {
    /// A new empty file.
    Create(PathBuf),
    /// Bytes written to a file at an offset.
    Write(PathBuf, u64, Bytes),
    /// The content of a file made durable.
    SyncFile(PathBuf),
    /// A second name for a file.
    Link(PathBuf, PathBuf),
    /// A file moved, replacing what was there.
    Rename(PathBuf, PathBuf),
    /// A name removed.
    Unlink(PathBuf),
    /// A new directory.
    MakeDir(PathBuf),
    /// The entries of a directory made durable.
    SyncDir(PathBuf),
    /// A remark of the test, such as "the put of a was acknowledged". Changes nothing.
    Mark(String),
}

/// What was there at first, and everything that happened then, in order.
#[derive(Clone, Debug, Default)]
pub struct OpLog {
    /// The recorded directory when recording began, taken to be durable.
    pub base: Image,
    /// The changes that succeeded.
    pub ops: Vec<FileOp>,
}

/// File operations that do what they are told and remember what happened below one directory.
///
/// Give it to [`StoreOptions::with_file_ops`](super::StoreOptions::with_file_ops), run what is to be tested on stores opened with these
/// options, then hand [`Recorder::log`] to [`images`](super::images).
#[derive(Debug)]
pub struct Recorder {
    root: PathBuf,
    files: Arc<dyn FileOps>,
    log: Mutex<OpLog>,
}

impl Recorder {
    /// Records changes below `root`, an existing directory; changes elsewhere are made and not recorded.
    ///
    /// # Errors
    /// Those of reading what is in `root`.
    pub fn new(root: impl AsRef<Path>) -> io::Result<Arc<Self>> {
        Self::over(root, Arc::new(SystemFiles))
    }

    /// Records what goes through to `files`.
    ///
    /// # Errors
    /// Those of reading what is in `root`.
    pub fn over(root: impl AsRef<Path>, files: Arc<dyn FileOps>) -> io::Result<Arc<Self>> {
        let root = root.as_ref().canonicalize()?;
        let base = Image::read(&root)?;
        Ok(Arc::new(Recorder { root, files, log: Mutex::new(OpLog { base, ops: Vec::new() }) }))
    }

    /// Puts a remark into the log.
    pub fn mark(&self, remark: impl Into<String>) {
        self.log.lock().ops.push(FileOp::Mark(remark.into()));
    }

    /// The log so far.
    pub fn log(&self) -> OpLog {
        self.log.lock().clone()
    }

    /// Does `work` and logs `op` if it succeeded, as one step, so that the log has the order in which things happened.
    fn step<T>(&self, work: impl FnOnce() -> io::Result<T>, op: impl FnOnce() -> Option<FileOp>) -> io::Result<T> {
        let mut log = self.log.lock();
        let outcome = work()?;
        log.ops.extend(op());
        Ok(outcome)
    }

    fn below(&self, path: &Path) -> Option<PathBuf> {
        path.strip_prefix(&self.root).ok().map(Path::to_path_buf)
    }
}

impl FileOps for Recorder {
    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        self.step(|| self.files.create(path, mode), || Some(FileOp::Create(self.below(path)?)))
    }

    fn write_at(&self, file: &File, path: &Path, offset: u64, data: &[u8]) -> io::Result<()> {
        let work = || self.files.write_at(file, path, offset, data);
        self.step(work, || Some(FileOp::Write(self.below(path)?, offset, Bytes::copy_from_slice(data))))
    }

    fn sync_file(&self, file: &File, path: &Path) -> io::Result<()> {
        self.step(|| self.files.sync_file(file, path), || Some(FileOp::SyncFile(self.below(path)?)))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(|| self.files.link(from, to), || Some(FileOp::Link(self.below(from)?, self.below(to)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(|| self.files.rename(from, to), || Some(FileOp::Rename(self.below(from)?, self.below(to)?)))
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.step(|| self.files.unlink(path), || Some(FileOp::Unlink(self.below(path)?)))
    }

    fn make_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.step(|| self.files.make_dir(path, mode), || Some(FileOp::MakeDir(self.below(path)?)))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.step(|| self.files.sync_dir(path), || Some(FileOp::SyncDir(self.below(path)?)))
    }
}
