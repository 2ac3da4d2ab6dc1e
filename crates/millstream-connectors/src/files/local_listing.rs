//! Listing local directories, directly and on a blocking thread: a directory of 100,000 files is one pass over its names.

use std::fs::{DirEntry, Metadata, ReadDir};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use millstream_core::Result;

use super::glob::Component;
use super::listing::{FileStatus, Found, Input, cannot_list, is_hidden};
use super::options::Selection;
use super::uri;

type Skip = dyn Fn(&str) -> bool + Send + Sync;

/// A directory to look into.
struct Directory {
    path: PathBuf,
    url: String,
    top: bool,
}

/// Finds the files of a local input. Files that `skip` names are not asked for size and time.
///
/// # Errors
/// `CANNOT_LIST_FILES` for directories that exist and cannot be read.
pub(crate) fn find(input: &Input, selection: &Selection, skip: Option<&Skip>) -> Result<Found> {
    let mut walk = Walk { selection, skip, found: Found::default(), queue: Vec::new() };
    let Some(root) = input.root.local.clone() else { return Ok(walk.found) };
    if input.is_pattern() {
        for pattern in input.patterns() {
            walk.expand(root.clone(), input.root.url.clone(), pattern)?;
        }
    } else {
        walk.start(root, input.root.url.clone())?;
    }
    while let Some(directory) = walk.queue.pop() {
        walk.read(directory)?;
    }
    Ok(walk.found)
}

struct Walk<'a> {
    selection: &'a Selection,
    skip: Option<&'a Skip>,
    found: Found,
    queue: Vec<Directory>,
}

impl Walk<'_> {
    /// A path that the user named, or that a pattern of theirs matched.
    fn start(&mut self, path: PathBuf, url: String) -> Result<()> {
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => self.queue.push(Directory { path, url, top: true }),
            Ok(metadata) => {
                let name = uri::decode(uri::name_of(&url));
                self.file(uri::parent_of(&url), true, &name, url.clone(), || Ok(metadata))?;
            }
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(cannot_list(&path.display().to_string(), error)),
        }
        Ok(())
    }

    /// Follows a pattern, name by name.
    fn expand(&mut self, path: PathBuf, url: String, pattern: &[Component]) -> Result<()> {
        let Some((first, rest)) = pattern.split_first() else { return self.start(path, url) };
        let names: Vec<Vec<u8>> = match first {
            Component::Literal(name) => vec![name.clone().into_bytes()],
            Component::Pattern(_) => {
                let Some(entries) = open(&path)? else { return Ok(()) };
                let mut names = Vec::new();
                for entry in entries {
                    let name = name_of(&entry.map_err(|error| cannot_list(&path.display().to_string(), error))?);
                    if first.matches(&name) {
                        names.push(name);
                    }
                }
                names
            }
        };
        for name in names {
            let below = path.join(super::local_file::path_from_bytes(name.clone()));
            self.expand(below, format!("{url}/{}", uri::encode(&name)), rest)?;
        }
        Ok(())
    }

    fn read(&mut self, directory: Directory) -> Result<()> {
        let Some(entries) = open(&directory.path)? else { return Ok(()) };
        let failed = |error: std::io::Error| cannot_list(&directory.path.display().to_string(), error);
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let name = name_of(&entry);
            if is_hidden(&name) {
                continue;
            }
            let url = format!("{}/{}", directory.url, uri::encode(&name));
            let kind = match entry.file_type() {
                Ok(kind) => kind,
                Err(error) if is_gone(&error) => continue,
                Err(error) => return Err(failed(error)),
            };
            let is_directory = if kind.is_symlink() {
                match std::fs::metadata(entry.path()) {
                    Ok(metadata) if metadata.is_dir() && is_loop(&directory.path, &entry.path()) => {
                        tracing::warn!(directory = %entry.path().display(), "not followed: the link leads to a directory above it");
                        continue;
                    }
                    Ok(metadata) => metadata.is_dir(),
                    Err(error) if is_gone(&error) => continue,
                    Err(error) => return Err(failed(error)),
                }
            } else {
                kind.is_dir()
            };
            if is_directory {
                self.queue.push(Directory { path: entry.path(), url, top: false });
            } else {
                // The link's own metadata would be that of the link.
                let metadata = || if kind.is_symlink() { std::fs::metadata(entry.path()) } else { entry.metadata() };
                self.file(&directory.url, directory.top, &name, url, metadata)?;
            }
        }
        Ok(())
    }

    fn file(
        &mut self,
        directory: &str,
        top: bool,
        name: &[u8],
        url: String,
        metadata: impl FnOnce() -> std::io::Result<Metadata>,
    ) -> Result<()> {
        if is_hidden(name) || self.selection.name_filter.as_ref().is_some_and(|filter| !filter.matches(name)) {
            return Ok(());
        }
        if self.skip.is_some_and(|skip| skip(&url)) {
            self.found.directory(directory, top);
            return Ok(());
        }
        let metadata = match metadata() {
            Ok(metadata) => metadata,
            Err(error) if is_gone(&error) => return Ok(()),
            Err(error) => return Err(cannot_list(&url, error)),
        };
        let modified_ms = modified_ms(&metadata);
        if self.selection.admits_time(modified_ms) {
            let directory = self.found.directory(directory, top);
            self.found.file(directory, FileStatus { url, size: metadata.len(), modified_ms });
            self.found.newest_arrival_ms = self.found.newest_arrival_ms.max(arrival_ms(&metadata));
        }
        Ok(())
    }
}

/// The modification time in milliseconds since 1970, rounded down as Java does it.
pub(crate) fn modified_ms(metadata: &Metadata) -> i64 {
    let Ok(modified) = metadata.modified() else { return 0 };
    match modified.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos().div_ceil(1_000_000)).map_or(i64::MIN, |ms| -ms),
    }
}

/// When the file came to be there as it is now. Unlike the modification time it cannot be set, and moving a file renews it.
#[cfg(unix)]
fn arrival_ms(metadata: &Metadata) -> Option<i64> {
    use std::os::unix::fs::MetadataExt;
    Some(metadata.ctime().saturating_mul(1000).saturating_add(metadata.ctime_nsec() / 1_000_000))
}

/// When the file came to be there as it is now: not known here.
#[cfg(not(unix))]
fn arrival_ms(_: &Metadata) -> Option<i64> {
    None
}

fn open(path: &Path) -> Result<Option<ReadDir>> {
    match std::fs::read_dir(path) {
        Ok(entries) => Ok(Some(entries)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(cannot_list(&path.display().to_string(), error)),
    }
}

/// What was there a moment ago, or is no directory, has no files for us.
fn is_gone(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn is_loop(directory: &Path, link: &Path) -> bool {
    match (directory.canonicalize(), link.canonicalize()) {
        (Ok(directory), Ok(target)) => directory.starts_with(target),
        _ => true,
    }
}

#[cfg(unix)]
fn name_of(entry: &DirEntry) -> Vec<u8> {
    use std::os::unix::ffi::OsStringExt;
    entry.file_name().into_vec()
}

#[cfg(not(unix))]
fn name_of(entry: &DirEntry) -> Vec<u8> {
    entry.file_name().to_string_lossy().into_owned().into_bytes()
}
