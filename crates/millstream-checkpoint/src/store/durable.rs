//! The local file system as an object store whose acknowledged writes survive a power cut.

use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use millstream_core::Clock;
use object_store::path::Path;
use object_store::{
    Attributes, CopyMode, CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, RenameTargetMode, Result,
};

use super::failure::{STORE, file_failure};
use super::listing::Listing;
use super::open::StoreOptions;
use super::publish::{Privacy, Publisher, Taken, cannot_link, e_tag, is_staged};
use super::sweep;
use super::upload::DurableUpload;

/// Reads up to this size are answered with the bytes at once, larger ones with the open file.
const INLINE_READ: u64 = 256 * 1024;

/// Bytes read at a time when an object is copied.
const COPY_CHUNK: usize = 1024 * 1024;

/// An [`ObjectStore`] over a local directory that is safe against power loss.
///
/// A write is: hidden file in the same directory, `fsync`, then `link` (create) or `rename` (overwrite), then `fsync` of the directory and of
/// the parents of directories made for it. So an acknowledged object survives a power cut whole, and no reader ever sees half of one.
/// In steady state that is one file sync and one directory sync; concurrent writers in one directory share the latter. Deleting is *not*
/// made durable: nothing may depend on the absence of an object.
///
/// An error of `fsync` is final: the object is reported as failed (`STORE_SYNC_FAILED`) and may or may not exist.
///
/// An object's path is its file's path below the root, character by character: nothing is encoded or decoded. Symbolic links are followed.
/// [`PutMode::Update`], attributes and tags are not supported.
#[derive(Clone, Debug)]
pub struct DurableStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    publisher: Publisher,
    clock: Arc<dyn Clock>,
}

impl DurableStore {
    /// A store of the files below `root`, an existing directory given by an absolute path.
    pub fn new(root: impl Into<PathBuf>, privacy: Privacy, options: &StoreOptions) -> Self {
        let root = root.into();
        let publisher = Publisher::new(root.clone(), privacy, options);
        DurableStore(Arc::new(Inner { root, publisher, clock: Arc::clone(options.clock()) }))
    }

    /// The file of an object.
    pub fn file_path(&self, location: &Path) -> PathBuf {
        self.0.root.join(location.as_ref())
    }

    /// Makes what is below `prefix` as solid as if this store had just written it: directory entries that a killed process left unsynced
    /// become durable, and hidden files of writers that died are removed once they are `min_age` old. Recovery calls it before it
    /// believes what it reads. Returns the number of files removed; a prefix that does not exist is none.
    ///
    /// # Errors
    /// `STORE_SYNC_FAILED` and errors of reading directories.
    pub async fn settle(&self, prefix: &Path, min_age: Duration) -> Result<u64> {
        let (inner, path) = (Arc::clone(&self.0), self.file_path(prefix));
        blocking(move || sweep::settle(&inner.publisher, &path, inner.clock.now_ms(), min_age)).await
    }
}

impl Inner {
    /// The file of an object that can be named: not the root itself and not a hidden file of ours.
    fn file(&self, location: &Path) -> Result<PathBuf> {
        match location.filename() {
            Some(name) if !is_staged(name) => Ok(self.root.join(location.as_ref())),
            _ => {
                let source = format!("'{location}' cannot name an object").into();
                Err(object_store::Error::Generic { store: STORE, source })
            }
        }
    }

    fn get(&self, location: &Path, options: &GetOptions) -> Result<GetResult> {
        let path = self.file(location)?;
        let (file, metadata) = open(&path)?;
        let meta = object_meta(location.clone(), &metadata);
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            Some(range) => {
                range.as_range(meta.size).map_err(|error| object_store::Error::Generic { store: STORE, source: error.into() })?
            }
            None => 0..meta.size,
        };
        let payload = if options.head || range.end - range.start > INLINE_READ {
            GetResultPayload::File(file, path)
        } else {
            let bytes = read(&file, &path, meta.size, range.clone())?;
            GetResultPayload::Stream(stream::once(async move { Ok(bytes) }).boxed())
        };
        Ok(GetResult { payload, meta, range, attributes: Attributes::default() })
    }

    /// Copies content, so that the two objects share nothing and may be on different file systems.
    fn copy(&self, from: &Path, to: &Path, taken: Taken) -> Result<()> {
        let (source, target) = (self.file(from)?, self.file(to)?);
        let (file, _) = open(&source)?;
        let mut staged = self.publisher.stage(&target)?;
        let mut chunk = vec![0; COPY_CHUNK];
        let mut offset = 0;
        loop {
            match file.read_at(&mut chunk, offset) {
                Ok(0) => break,
                Ok(count) => {
                    staged.write_at(&self.publisher, offset, &chunk[..count])?;
                    offset += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(file_failure("read", &source, error)),
            }
        }
        self.publisher.publish(staged, &target, taken).map(drop)
    }

    /// Moves a file, by copying where it cannot be moved in place. The old name goes last, so that a power cut leaves one name or both.
    fn rename(&self, from: &Path, to: &Path, taken: Taken) -> Result<()> {
        let (source, target) = (self.file(from)?, self.file(to)?);
        let publisher = &self.publisher;
        // The file may have been written by someone who does not sync.
        publisher.sync_file(&open(&source)?.0, &source)?;
        let directory = publisher.directory_of(&target)?;
        let moved = match taken {
            Taken::Refuse => publisher.files.link(&source, &target),
            Taken::Replace => publisher.files.rename(&source, &target),
        };
        let old_name_is_left = match moved {
            Ok(()) => {
                publisher.sync_directory(&directory, &target)?;
                taken == Taken::Refuse
            }
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices || cannot_link(&error) => {
                self.copy(from, to, taken)?;
                true
            }
            Err(error) => return Err(file_failure("rename to", &target, error)),
        };
        if old_name_is_left {
            publisher.files.unlink(&source).map_err(|error| file_failure("remove", &source, error))?;
        } else if source.parent() == target.parent() {
            return Ok(());
        }
        let directory = publisher.directory_of(&source)?;
        publisher.sync_directory(&directory, &source)
    }

    fn delete(&self, location: &Path) -> Result<()> {
        let path = self.file(location)?;
        self.publisher.files.unlink(&path).map_err(|error| file_failure("remove", &path, error))
    }
}

#[async_trait]
impl ObjectStore for DurableStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let taken = match options.mode {
            PutMode::Create => Taken::Refuse,
            PutMode::Overwrite => Taken::Replace,
            PutMode::Update(_) => return Err(unsupported("put_opts with PutMode::Update")),
        };
        if !options.attributes.is_empty() {
            return Err(unsupported("put_opts with attributes"));
        }
        let (inner, path) = (Arc::clone(&self.0), self.0.file(location)?);
        blocking(move || inner.publisher.put(&path, &payload, taken)).await
    }

    async fn put_multipart_opts(&self, location: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        if !options.attributes.is_empty() {
            return Err(unsupported("put_multipart_opts with attributes"));
        }
        let (store, path) = (self.clone(), self.0.file(location)?);
        let upload = blocking(move || {
            let staged = store.0.publisher.stage(&path)?;
            Ok(DurableUpload::new(store, staged, path))
        })
        .await?;
        Ok(Box::new(upload))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (inner, location) = (Arc::clone(&self.0), location.clone());
        blocking(move || inner.get(&location, &options)).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let (path, ranges) = (self.0.file(location)?, ranges.to_vec());
        blocking(move || {
            let (file, metadata) = open(&path)?;
            ranges.into_iter().map(|range| read(&file, &path, metadata.len(), range)).collect()
        })
        .await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let inner = Arc::clone(&self.0);
        locations
            .map(move |location| {
                let inner = Arc::clone(&inner);
                blocking(move || {
                    let location = location?;
                    inner.delete(&location)?;
                    Ok(location)
                })
            })
            .buffered(8)
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        Listing::new(&self.0.root, prefix, None).stream()
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        Listing::new(&self.0.root, prefix, Some(offset.clone())).stream()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let mut listing = Listing::new(&self.0.root, prefix, None);
        blocking(move || listing.one_level()).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let taken = match options.mode {
            CopyMode::Create => Taken::Refuse,
            CopyMode::Overwrite => Taken::Replace,
        };
        let (inner, from, to) = (Arc::clone(&self.0), from.clone(), to.clone());
        blocking(move || inner.copy(&from, &to, taken)).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let taken = match options.target_mode {
            RenameTargetMode::Create => Taken::Refuse,
            RenameTargetMode::Overwrite => Taken::Replace,
        };
        let (inner, from, to) = (Arc::clone(&self.0), from.clone(), to.clone());
        blocking(move || inner.rename(&from, &to, taken)).await
    }
}

impl fmt::Display for DurableStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{STORE}({})", self.0.root.display())
    }
}

impl DurableStore {
    pub(super) fn publisher(&self) -> &Publisher {
        &self.0.publisher
    }
}

/// Runs blocking work on the runtime's pool for it, or here when there is no runtime.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => runtime.spawn_blocking(work).await?,
        Err(_) => work(),
    }
}

/// What a listing and a read say of a file.
pub(super) fn object_meta(location: Path, metadata: &Metadata) -> ObjectMeta {
    let last_modified = metadata.modified().map_or(DateTime::<Utc>::UNIX_EPOCH, DateTime::<Utc>::from);
    ObjectMeta { location, last_modified, size: metadata.len(), e_tag: Some(e_tag(metadata)), version: None }
}

fn open(path: &FilePath) -> Result<(File, Metadata)> {
    let file = File::open(path).map_err(|error| file_failure("open", path, error))?;
    let metadata = file.metadata().map_err(|error| file_failure("read the metadata of", path, error))?;
    if metadata.is_dir() {
        return Err(file_failure("open", path, io::Error::new(io::ErrorKind::NotFound, "it is a directory")));
    }
    Ok((file, metadata))
}

/// Reads `range`, cut at the end of a file of `length` bytes.
fn read(file: &File, path: &FilePath, length: u64, range: Range<u64>) -> Result<Bytes> {
    let failed = |error| file_failure("read", path, error);
    let end = range.end.min(length);
    if range.start > end || (range.start == end && !range.is_empty()) {
        let found = format!("bytes {}..{} were asked for, the file has {length}", range.start, range.end);
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, found)));
    }
    let mut buffer = vec![0; usize::try_from(end - range.start).map_err(|error| failed(io::Error::other(error)))?];
    file.read_exact_at(&mut buffer, range.start).map_err(failed)?;
    Ok(buffer.into())
}

fn unsupported(operation: &str) -> object_store::Error {
    object_store::Error::NotImplemented { operation: operation.to_owned(), implementer: STORE.to_owned() }
}

#[cfg(test)]
mod tests;
