//! Errors of stores: from the operating system into object_store's, and from those into ours.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use millstream_core::{Error, ErrorKind};

/// The name of the local store in `object_store`'s errors.
pub(super) const STORE: &str = "DurableStore";

/// A file operation that failed: what was being done to which file.
#[derive(Debug)]
pub(super) struct FileFailure {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl fmt::Display for FileFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}", self.doing, self.path.display())
    }
}

impl StdError for FileFailure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.source)
    }
}

/// An operating system's error as `object_store` shapes it.
pub(super) fn file_failure(doing: &'static str, path: &Path, source: io::Error) -> object_store::Error {
    let kind = source.kind();
    let (name, source) = (path.display().to_string(), Box::new(FileFailure { doing, path: path.to_path_buf(), source }));
    match kind {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => object_store::Error::NotFound { path: name, source },
        io::ErrorKind::AlreadyExists => object_store::Error::AlreadyExists { path: name, source },
        io::ErrorKind::PermissionDenied => object_store::Error::PermissionDenied { path: name, source },
        _ => object_store::Error::Generic { store: STORE, source },
    }
}

/// One of our errors, carried through `object_store`'s traits; [`to_error`] finds it again.
pub(super) fn carry(error: Error) -> object_store::Error {
    object_store::Error::Generic { store: STORE, source: Box::new(error) }
}

/// An error of a store as one of ours. `doing` says what failed, as in `cannot write offsets/3`.
///
/// The kind is [`ErrorKind::StoreUnavailable`] with one of the codes `STORE_OBJECT_NOT_FOUND`, `STORE_OBJECT_EXISTS`, `STORE_FULL`,
/// `STORE_PERMISSION_DENIED`, `STORE_OUTCOME_UNKNOWN`, `STORE_SYNC_FAILED` and `STORE_UNAVAILABLE`; an error that this module named itself
/// (`STORE_WITHOUT_HARD_LINKS`, …) keeps its kind and code.
pub fn to_error(doing: impl fmt::Display, error: object_store::Error) -> Error {
    if let Some((kind, code, message)) = named(&error) {
        return Error::new(kind, code, format!("{doing}: {message}"));
    }
    let (code, hint) = match &error {
        object_store::Error::NotFound { .. } => ("STORE_OBJECT_NOT_FOUND", "the object does not exist"),
        object_store::Error::AlreadyExists { .. } => ("STORE_OBJECT_EXISTS", "another writer's object is there"),
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
            ("STORE_PERMISSION_DENIED", "check the credentials and the permissions of the location")
        }
        _ if is_full(&error) => ("STORE_FULL", "free space or raise the quota"),
        _ => ("STORE_UNAVAILABLE", "check that the store can be reached and written"),
    };
    Error::new(ErrorKind::StoreUnavailable, code, format!("{doing}; {hint}")).caused_by(error)
}

fn named(error: &object_store::Error) -> Option<(ErrorKind, String, String)> {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(at) = cause {
        if let Some(ours) = at.downcast_ref::<Error>() {
            let cause = ours.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            return Some((ours.kind(), ours.code().to_owned(), format!("{}{cause}", ours.message())));
        }
        cause = at.source();
    }
    None
}

fn is_full(error: &object_store::Error) -> bool {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(at) = cause {
        if let Some(io) = at.downcast_ref::<io::Error>() {
            return matches!(io.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        }
        cause = at.source();
    }
    false
}
