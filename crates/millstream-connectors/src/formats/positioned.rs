//! Random access to a file's bytes, for formats that start reading at the end.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use millstream_core::{Error, ErrorKind, Result};
use object_store::path::Path;
use object_store::{GetOptions, GetResultPayload, ObjectStore, ObjectStoreExt};

use super::FileRef;

/// An open file. Cloning is cheap.
#[derive(Clone, Debug)]
pub(super) enum Positioned {
    /// A file of this machine, read directly: the page cache is faster than any store's detour, and reads are short.
    Local {
        /// The file.
        file: Arc<File>,
        /// Its size in bytes when it was opened.
        len: u64,
    },
    /// An object.
    Remote {
        /// The store.
        store: Arc<dyn ObjectStore>,
        /// The path inside it.
        path: Path,
        /// The size in bytes when it was listed.
        len: u64,
    },
}

impl Positioned {
    /// Opens a file.
    ///
    /// # Errors
    /// `FAILED_READ_FILE.FILE_NOT_EXIST` (kind `DataLost`), or kind `SourceUnavailable`.
    pub(super) async fn open(file: &FileRef) -> Result<Self> {
        // Asking costs a request, and only stores of local files can answer with an open one.
        if file.url.starts_with("file:") {
            let head = GetOptions { head: true, ..GetOptions::default() };
            let found = file.store.get_opts(&file.path, head).await.map_err(|error| io_error(file, io::Error::other(error)))?;
            if let GetResultPayload::File(open, _) = found.payload {
                return Ok(Positioned::Local { file: Arc::new(open), len: found.meta.size });
            }
        }
        Ok(Positioned::Remote { store: file.store.clone(), path: file.path.clone(), len: file.size })
    }

    /// The size in bytes.
    pub(super) fn len(&self) -> u64 {
        match self {
            Positioned::Local { len, .. } | Positioned::Remote { len, .. } => *len,
        }
    }

    /// Reads exactly these bytes.
    pub(super) async fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        match self {
            Positioned::Local { file, len } => {
                if range.start > range.end || range.end > *len {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("bytes {range:?} are beyond the end at {len}")));
                }
                let length = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, range.start)?;
                Ok(bytes.into())
            }
            Positioned::Remote { store, path, .. } => store.get_range(path, range).await.map_err(io::Error::other),
        }
    }

    /// Reads several parts; a store may fetch them together.
    pub(super) async fn read_parts(&self, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
        match self {
            Positioned::Local { .. } => {
                let mut parts = Vec::with_capacity(ranges.len());
                for range in ranges {
                    parts.push(self.read(range.clone()).await?);
                }
                Ok(parts)
            }
            Positioned::Remote { store, path, .. } => store.get_ranges(path, ranges).await.map_err(io::Error::other),
        }
    }
}

/// A file whose content cannot be read: code `FAILED_READ_FILE.NO_HINT`, kind `BadRecord`.
pub(super) fn unreadable(file: &FileRef, why: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::BadRecord, "FAILED_READ_FILE.NO_HINT", format!("cannot read file {}: {why}", file.url)).with_sqlstate("KD001")
}

/// A file that could not be reached, by the error of a read.
pub(super) fn io_error(file: &FileRef, error: io::Error) -> Error {
    let store_says_gone = || {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<object_store::Error>());
        matches!(inner, Some(object_store::Error::NotFound { .. }))
    };
    match error.kind() {
        io::ErrorKind::UnexpectedEof => unreadable(file, "it ends too early").caused_by(error),
        io::ErrorKind::NotFound => gone(file).caused_by(error),
        _ if store_says_gone() => gone(file).caused_by(error),
        _ => {
            let message = format!("file {} cannot be reached: check the storage; the query resumes when restarted", file.url);
            Error::new(ErrorKind::SourceUnavailable, "FAILED_READ_FILE.NO_HINT", message).with_sqlstate("KD001").caused_by(error)
        }
    }
}

fn gone(file: &FileRef) -> Error {
    let message = format!("file {} does not exist any more: it was listed, so something removed it before it was read", file.url);
    Error::new(ErrorKind::DataLost, "FAILED_READ_FILE.FILE_NOT_EXIST", message).with_sqlstate("KD001")
}

/// The error of a decoder. An error of the operating system or the store among its causes is the storage's; anything else means that the
/// file is damaged.
pub(super) fn decode_error(file: &FileRef, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let error = error.into();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error.as_ref());
    while let Some(current) = cause {
        if let Some(io) = current.downcast_ref::<io::Error>().filter(|io| io.raw_os_error().is_some()) {
            return io_error(file, io::Error::new(io.kind(), error.to_string()));
        }
        if let Some(store) = current.downcast_ref::<object_store::Error>() {
            let gone = matches!(store, object_store::Error::NotFound { .. });
            let kind = if gone { io::ErrorKind::NotFound } else { io::ErrorKind::Other };
            return io_error(file, io::Error::new(kind, error.to_string()));
        }
        let inner = current.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause = inner.map(|inner| inner as &(dyn std::error::Error + 'static)).or_else(|| current.source());
    }
    unreadable(file, "it is damaged or of another format").caused_by(error)
}

/// Runs a step of a decoder that is not ours. A panic in it, which a damaged file can cause, becomes an error of the file.
pub(super) fn guarded<T>(file: &FileRef, step: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(step)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(unreadable(file, format!("its decoder gave up ({})", said.unwrap_or("no reason given"))))
    })
}
