//! Listing the files below a directory.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path as FilePath, PathBuf};

use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use object_store::path::Path;
use object_store::{ListResult, ObjectMeta, Result};

use super::durable::{blocking, object_meta};
use super::failure::{STORE, file_failure};
use super::publish::is_staged;

/// Objects found per visit to the blocking pool.
const CHUNK: usize = 1024;

/// A walk below one directory, entries of a directory in order of their names, hidden files of ours left out.
///
/// Files that vanish meanwhile, broken links and things that are neither file nor directory are left out. A name that cannot be a path of an
/// object (not UTF-8, control characters) is an error that names it, never skipped.
#[derive(Debug)]
pub(super) struct Listing {
    prefix: String,
    directory: PathBuf,
    offset: Option<Path>,
    open: Vec<Level>,
    started: bool,
}

#[derive(Debug)]
struct Level {
    /// Device and inode, to find links that lead back up.
    identity: (u64, u64),
    /// What is left to visit, last first.
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    path: PathBuf,
    location: Result<Path>,
    /// Known without asking for metadata; false for links, whatever they lead to.
    is_file: bool,
}

impl Listing {
    /// Lists the objects below `prefix`, only those after `offset` if there is one.
    pub(super) fn new(root: &FilePath, prefix: Option<&Path>, offset: Option<Path>) -> Self {
        let prefix = prefix.map(|prefix| prefix.as_ref().to_owned()).unwrap_or_default();
        Listing { directory: root.join(&prefix), prefix, offset, open: Vec::new(), started: false }
    }

    /// The whole walk, as a stream.
    pub(super) fn stream(self) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::unfold(Some(self), |listing| async move {
            let mut listing = listing?;
            let visit = blocking(move || {
                let chunk: Vec<_> = listing.by_ref().take(CHUNK).collect();
                Ok((chunk, listing))
            });
            match visit.await {
                Ok((chunk, _)) if chunk.is_empty() => None,
                Ok((chunk, listing)) => Some((stream::iter(chunk), Some(listing))),
                Err(error) => Some((stream::iter(vec![Err(error)]), None)),
            }
        })
        .flatten()
        .boxed()
    }

    /// The files and directories directly below the prefix.
    pub(super) fn one_level(&mut self) -> Result<ListResult> {
        let mut result = ListResult { common_prefixes: Vec::new(), objects: Vec::new() };
        let directory = self.directory.clone();
        let Some(mut level) = self.read(&directory, &self.prefix)? else { return Ok(result) };
        while let Some(entry) = level.entries.pop() {
            let Some(metadata) = metadata(&entry.path)? else { continue };
            if metadata.is_dir() {
                result.common_prefixes.push(entry.location?);
            } else if metadata.is_file() {
                result.objects.push(object_meta(entry.location?, &metadata));
            }
        }
        Ok(result)
    }

    /// The entries of one directory; `None` if it is not there.
    fn read(&self, directory: &FilePath, prefix: &str) -> Result<Option<Level>> {
        let failed = |error| file_failure("list", directory, error);
        let gone = |error: &io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
        let metadata = match fs::metadata(directory) {
            Ok(metadata) => metadata,
            Err(error) if gone(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if gone(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let (name, is_file) = (entry.file_name(), entry.file_type().is_ok_and(|kind| kind.is_file()));
            if name.to_str().is_some_and(is_staged) {
                continue;
            }
            let path = directory.join(&name);
            let location = match name.to_str() {
                Some(name) if prefix.is_empty() => Path::parse(name).map_err(object_store::Error::from),
                Some(name) => Path::parse(format!("{prefix}/{name}")).map_err(object_store::Error::from),
                None => {
                    let source = format!("the name of {} is not UTF-8", path.display()).into();
                    Err(object_store::Error::Generic { store: STORE, source })
                }
            };
            found.push(Entry { path, location, is_file });
        }
        found.sort_by(|a, b| b.path.as_os_str().cmp(a.path.as_os_str()));
        Ok(Some(Level { identity: (metadata.dev(), metadata.ino()), entries: found }))
    }

    fn descend(&mut self, directory: &FilePath, prefix: &str) -> Result<()> {
        if let Some(level) = self.read(directory, prefix)?
            && !self.open.iter().any(|above| above.identity == level.identity)
        {
            self.open.push(level);
        }
        Ok(())
    }

    /// The object of one entry, if it is one; a directory is entered instead.
    fn visit(&mut self, entry: Entry) -> Result<Option<ObjectMeta>> {
        // Saves a call per file where a log is tailed.
        if entry.is_file && matches!((&self.offset, &entry.location), (Some(offset), Ok(location)) if location <= offset) {
            return Ok(None);
        }
        let Some(metadata) = metadata(&entry.path)? else { return Ok(None) };
        if metadata.is_dir() {
            let location = entry.location?;
            self.descend(&entry.path, location.as_ref())?;
            return Ok(None);
        }
        if !metadata.is_file() {
            return Ok(None);
        }
        let location = entry.location?;
        if self.offset.as_ref().is_some_and(|offset| location <= *offset) {
            return Ok(None);
        }
        Ok(Some(object_meta(location, &metadata)))
    }
}

impl Iterator for Listing {
    type Item = Result<ObjectMeta>;

    fn next(&mut self) -> Option<Self::Item> {
        if !self.started {
            self.started = true;
            let (directory, prefix) = (self.directory.clone(), self.prefix.clone());
            if let Err(error) = self.descend(&directory, &prefix) {
                return Some(Err(error));
            }
        }
        while let Some(level) = self.open.last_mut() {
            let Some(entry) = level.entries.pop() else {
                self.open.pop();
                continue;
            };
            if let Some(outcome) = self.visit(entry).transpose() {
                return Some(outcome);
            }
        }
        None
    }
}

fn metadata(path: &FilePath) -> Result<Option<fs::Metadata>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        // Removed since, or a link to nothing.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => Ok(None),
        Err(error) => Err(file_failure("read the metadata of", path, error)),
    }
}
