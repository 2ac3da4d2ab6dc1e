//! What happens to files after the batch that read them, and the next one, are committed: nothing, deletion, or a move into an archive.
//!
//! A file is only touched when it is still the one that was read, and an archived file is durable under its new name before the old name
//! goes. Whatever fails is logged and tried again with the next batch.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use futures::StreamExt;
use millstream_core::{Error, Result};
use object_store::ObjectStoreExt;
use parking_lot::Mutex;

use super::listing::{FileStatus, Input, Lister};
use super::local_listing::modified_ms;
use super::options::CleanSource;
use super::uri::{self, Root};
use crate::storage::Storage;

/// The most files whose cleaning is tried again; beyond it they stay where they are.
const MAX_RETRIED: usize = 100_000;

/// Requests to a store at the same time.
const CONCURRENCY: usize = 16;

/// Cleans up files that were read.
#[derive(Debug)]
pub(crate) struct Cleaner {
    /// Where files go; `None` to delete them.
    archive: Option<Root>,
    failed: Mutex<Vec<FileStatus>>,
}

/// What became of one file.
enum Outcome {
    Done,
    /// It stays: it is not the file that was read, or its place in the archive is taken.
    Left(&'static str),
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

impl Cleaner {
    /// The cleaner that the options ask for.
    ///
    /// # Errors
    /// `INVALID_OPTION_VALUE` when the archive lies on another store than the source, or where the source would read it again.
    pub(crate) fn open(storage: &Storage, clean: &CleanSource, input: &Input) -> Result<Option<Self>> {
        let archive = match clean {
            CleanSource::Off => return Ok(None),
            CleanSource::Delete => None,
            CleanSource::Archive(directory) => {
                let archive = Root::new(&storage.open(directory)?)?;
                check_archive(&archive, input)?;
                Some(archive)
            }
        };
        Ok(Some(Cleaner { archive, failed: Mutex::default() }))
    }

    /// Cleans up files of a committed batch, and what failed before.
    pub(crate) async fn clean(&self, lister: &Lister, files: Vec<FileStatus>) {
        let mut files: Vec<FileStatus> = std::mem::take(&mut *self.failed.lock()).into_iter().chain(files).collect();
        let outcomes = match files.first().and_then(|file| lister.root_of(&file.url).ok()).filter(|root| root.local.is_some()).cloned() {
            Some(root) => {
                let archive = self.archive.clone();
                let working = tokio::task::spawn_blocking(move || {
                    let outcomes = clean_local(&root, archive.as_ref(), &files);
                    (files, outcomes)
                });
                match working.await {
                    Ok((cleaned, outcomes)) => {
                        files = cleaned;
                        outcomes
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the clean-up of source files broke off");
                        return;
                    }
                }
            }
            None => {
                let cleaning = futures::stream::iter(files.clone()).map(|file| async move { self.clean_in_store(lister, &file).await });
                cleaning.buffered(CONCURRENCY).collect().await
            }
        };
        let mut failed = self.failed.lock();
        for (file, outcome) in files.into_iter().zip(outcomes) {
            match outcome {
                Outcome::Done => {}
                Outcome::Left(why) => tracing::warn!(file = %file.url, why, "a source file was not cleaned up"),
                Outcome::Failed(error) => {
                    tracing::warn!(file = %file.url, %error, "a source file could not be cleaned up; it is tried again");
                    if failed.len() < MAX_RETRIED {
                        failed.push(file);
                    }
                }
            }
        }
    }

    async fn clean_in_store(&self, lister: &Lister, file: &FileStatus) -> Outcome {
        let cleaning = async {
            let from = lister.root_of(&file.url)?.file_ref(&file.url, file.size)?;
            match from.store.head(&from.path).await {
                Ok(meta) if meta.last_modified.timestamp_millis() != file.modified_ms => return Ok(Outcome::Left(REWRITTEN)),
                Ok(_) => {}
                Err(object_store::Error::NotFound { .. }) => return Ok(Outcome::Done),
                Err(error) => return Err(error.into()),
            }
            if let Some(archive) = &self.archive {
                let to = archive.file_ref(&format!("{}{}", archive.url, path_of(&file.url)), 0)?.path;
                match from.store.head(&to).await {
                    Ok(_) => return Ok(Outcome::Left(TAKEN)),
                    Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
                from.store.copy(&from.path, &to).await?;
            }
            from.store.delete(&from.path).await?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Outcome::Done)
        };
        cleaning.await.unwrap_or_else(Outcome::Failed)
    }
}

const REWRITTEN: &str = "it was written again after it had been read";
const TAKEN: &str = "the archive has another file of that path";

/// The part of a URL after scheme and host.
fn path_of(url: &str) -> &str {
    let after = url.split_once("://").map_or(url, |(_, after)| after);
    after.find('/').map_or("", |slash| &after[slash..])
}

/// Scheme and host of a URL.
fn store_of(url: &str) -> &str {
    url.strip_suffix(path_of(url)).unwrap_or(url)
}

fn check_archive(archive: &Root, input: &Input) -> Result<()> {
    if store_of(&archive.url) != store_of(&input.root.url) {
        return Err(Error::invalid(
            "INVALID_OPTION_VALUE",
            format!(
                "sourceArchiveDir {} is located on a different file system than the source files: use one on theirs",
                archive.display()
            ),
        ));
    }
    let names = |url: &str| -> Vec<Vec<u8>> { path_of(url).split('/').filter(|name| !name.is_empty()).map(uri::decode).collect() };
    let (root, archived) = (names(&input.root.url), names(&archive.url));
    // Compared as deep as the shorter of the two is: a source reads below its path, and an archive holds paths below its own.
    let within = |pattern: &[super::glob::Component]| {
        root.iter().zip(&archived).all(|(a, b)| a == b)
            && pattern.iter().zip(archived.iter().skip(root.len())).all(|(part, name)| part.matches(name))
    };
    if within(&[]) && (input.patterns().is_empty() || input.patterns().iter().any(|pattern| within(pattern))) {
        return Err(Error::invalid(
            "INVALID_OPTION_VALUE",
            format!(
                "sourceArchiveDir {} can match the source path {}: use a directory that is neither below nor above it",
                archive.display(),
                input.display
            ),
        ));
    }
    Ok(())
}

fn clean_local(root: &Root, archive: Option<&Root>, files: &[FileStatus]) -> Vec<Outcome> {
    let archive = archive.and_then(|archive| archive.local.as_deref());
    let mut moved = Vec::with_capacity(files.len());
    let mut directories = BTreeSet::new();
    for file in files {
        moved.push(prepare(root, archive, file, &mut directories));
    }
    // The new names are durable before any old one goes.
    let durable = directories.iter().try_for_each(|directory| std::fs::File::open(directory)?.sync_all());
    moved
        .into_iter()
        .map(|prepared| match (prepared, &durable) {
            (Ok(Prepared::Remove(path)), Ok(())) => match std::fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Outcome::Failed(error.into()),
                _ => Outcome::Done,
            },
            (Ok(Prepared::Remove(_)), Err(error)) => Outcome::Failed(io::Error::new(error.kind(), error.to_string()).into()),
            (Ok(Prepared::Gone), _) => Outcome::Done,
            (Ok(Prepared::Left(why)), _) => Outcome::Left(why),
            (Err(error), _) => Outcome::Failed(error.into()),
        })
        .collect()
}

enum Prepared {
    /// Everything is done except removing this name.
    Remove(PathBuf),
    Gone,
    Left(&'static str),
}

/// Gives a file its name in the archive, if there is one. Notes the directories that have to be made durable.
fn prepare(root: &Root, archive: Option<&Path>, file: &FileStatus, directories: &mut BTreeSet<PathBuf>) -> io::Result<Prepared> {
    let local = |path: &str| super::local_file::path_from_bytes(uri::decode(path));
    let (Some(relative), Some(base)) = (root.relative(&file.url), &root.local) else { return Ok(Prepared::Left("it lies elsewhere")) };
    let from = if relative.is_empty() { base.clone() } else { base.join(local(relative)) };
    let metadata = match std::fs::metadata(&from) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Prepared::Gone),
        Err(error) => return Err(error),
    };
    if modified_ms(&metadata) != file.modified_ms {
        return Ok(Prepared::Left(REWRITTEN));
    }
    let Some(archive) = archive else { return Ok(Prepared::Remove(from)) };
    let to = archive.join(local(path_of(&file.url).trim_start_matches('/')));
    let parent = to.parent().unwrap_or(archive);
    std::fs::create_dir_all(parent)?;
    match std::fs::hard_link(&from, &to) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            // Linked by a run that died before it removed the old name.
            if !is_same_file(&from, &to)? {
                return Ok(Prepared::Left(TAKEN));
            }
        }
        Err(error) if matches!(error.kind(), ErrorKind::CrossesDevices | ErrorKind::PermissionDenied | ErrorKind::Unsupported) => {
            copy(&from, &to)?;
        }
        Err(error) => return Err(error),
    }
    let below = parent.ancestors().take_while(|directory| directory.starts_with(archive));
    directories.extend(below.map(Path::to_path_buf));
    directories.extend(archive.parent().map(Path::to_path_buf));
    Ok(Prepared::Remove(from))
}

/// Copies a file to a name that must be free, durably.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut name = std::ffi::OsString::from(".");
    name.push(to.file_name().unwrap_or_default());
    name.push(".archiving");
    let unfinished = to.with_file_name(name);
    std::fs::copy(from, &unfinished)?;
    std::fs::File::open(&unfinished)?.sync_all()?;
    let linked = std::fs::hard_link(&unfinished, to);
    std::fs::remove_file(&unfinished)?;
    linked
}

#[cfg(unix)]
fn is_same_file(a: &Path, b: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let (a, b) = (std::fs::metadata(a)?, std::fs::metadata(b)?);
    Ok((a.dev(), a.ino()) == (b.dev(), b.ino()))
}

#[cfg(not(unix))]
fn is_same_file(_: &Path, _: &Path) -> io::Result<bool> {
    Ok(false)
}
