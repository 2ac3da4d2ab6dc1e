//! Finding the files below a path: which names count, how deep to look, and in what order files are read.

use std::collections::HashMap;
use std::sync::Arc;

use futures::TryStreamExt;
use millstream_core::{Error, ErrorKind, Result};
use object_store::ObjectStoreExt;

use super::glob::{self, Component};
use super::local_listing;
use super::manifest::Manifest;
use super::options::Selection;
use super::partition::{self, PartitionBase, PartitionKey};
use super::uri::{self, Root};
use crate::storage::Storage;

/// A file as it was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileStatus {
    /// Its URL, encoded as Spark does it.
    pub(crate) url: String,
    /// Bytes.
    pub(crate) size: u64,
    /// Milliseconds since 1970.
    pub(crate) modified_ms: i64,
}

/// Says by URL which files a listing need not look at closer.
pub(crate) type Skip = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// What was found: a set of directories, and files in them that were not skipped.
#[derive(Debug, Default)]
pub(crate) struct Found {
    directories: Vec<Directory>,
    by_url: HashMap<String, usize>,
    files: Vec<(usize, FileStatus)>,
    /// When the last of the files came to be there under its name, where that is known.
    pub(crate) newest_arrival_ms: Option<i64>,
}

/// A directory that holds files.
#[derive(Debug)]
struct Directory {
    url: String,
    /// Whether it is one that the user named, and not one below it.
    top: bool,
}

impl Found {
    /// Notes a directory that holds at least one file that counts; gives its number.
    pub(crate) fn directory(&mut self, url: &str, top: bool) -> usize {
        if let Some(at) = self.by_url.get(url).copied() {
            if let Some(directory) = self.directories.get_mut(at) {
                directory.top |= top;
            }
            return at;
        }
        self.directories.push(Directory { url: url.to_owned(), top });
        self.by_url.insert(url.to_owned(), self.directories.len() - 1);
        self.directories.len() - 1
    }

    pub(crate) fn file(&mut self, directory: usize, file: FileStatus) {
        self.files.push((directory, file));
    }
}

/// Which files are there.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Oldest first, then by name.
    pub(crate) files: Vec<FileStatus>,
    /// The partition keys of every directory that has some.
    pub(crate) partitions: Vec<Vec<PartitionKey>>,
    /// Whether there is any file that counts, skipped ones included.
    pub(crate) any: bool,
    /// When the last of `files` came to be there under its name (milliseconds since 1970), where that is known.
    pub(crate) newest_arrival_ms: Option<i64>,
}

/// One path that the user named.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    /// The directory or file, or the directory before the first pattern.
    pub(crate) root: Root,
    /// What follows it, as alternatives; empty for a path without patterns.
    patterns: Vec<Vec<Component>>,
    /// The path as reports show it.
    pub(crate) display: String,
}

impl Input {
    /// Opens a path. A path that exists as it is written is no pattern, whatever characters it has.
    ///
    /// # Errors
    /// Those of the storage, `INVALID_GLOB_PATTERN`, `CANNOT_LIST_FILES`.
    pub(crate) async fn open(storage: &Storage, path: &str) -> Result<Self> {
        let literal = || Root::new(&storage.open(path)?);
        let plain = |root: Root| Input { display: root.display(), root, patterns: vec![] };
        if !glob::is_pattern(path) {
            return Ok(plain(literal()?));
        }
        if let Ok(root) = literal() {
            let input = plain(root);
            if input.exists().await? {
                return Ok(input);
            }
        }
        let (directory, patterns) = glob::split(path)?;
        let root = Root::new(&storage.open(directory)?)?;
        let display = format!("{}/{}", root.display().trim_end_matches('/'), path.strip_prefix(directory).unwrap_or(path));
        Ok(Input { root, patterns, display })
    }

    pub(crate) fn is_pattern(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// The alternatives of what follows the root.
    pub(crate) fn patterns(&self) -> &[Vec<Component>] {
        &self.patterns
    }

    /// Whether the path (of a pattern: the directory before it) is there.
    ///
    /// # Errors
    /// `CANNOT_LIST_FILES` when the store does not answer.
    pub(crate) async fn exists(&self) -> Result<bool> {
        if let Some(local) = self.root.local.clone() {
            return match tokio::fs::metadata(&local).await {
                Ok(_) => Ok(true),
                Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => Ok(false),
                Err(error) => Err(cannot_list(&self.display, error)),
            };
        }
        if self.root.path.as_ref().is_empty() {
            return Ok(true);
        }
        match self.root.store.head(&self.root.path).await {
            Ok(_) => return Ok(true),
            Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(cannot_list(&self.display, error)),
        }
        let first = self.root.store.list(Some(&self.root.path)).try_next().await;
        first.map(|first| first.is_some()).map_err(|error| cannot_list(&self.display, error))
    }

    /// Where partition directories begin, when the user does not say.
    fn base(&self) -> PartitionBase {
        match self.patterns.iter().map(Vec::len).max() {
            None => PartitionBase::Directory(self.root.url.clone()),
            Some(depth) => PartitionBase::Matched(self.root.url.clone(), depth),
        }
    }

    async fn find(&self, selection: &Selection, skip: &Option<Skip>) -> Result<Found> {
        if self.root.local.is_some() {
            let (input, selection, skip) = (self.clone(), selection.clone(), skip.clone());
            let walk = tokio::task::spawn_blocking(move || local_listing::find(&input, &selection, skip.as_deref()));
            return walk.await.map_err(|error| Error::internal("the listing of files broke off").caused_by(error))?;
        }
        self.find_in_store(selection, skip).await
    }

    async fn find_in_store(&self, selection: &Selection, skip: &Option<Skip>) -> Result<Found> {
        let mut found = Found::default();
        let prefix = Some(&self.root.path).filter(|path| !path.as_ref().is_empty());
        let mut objects = self.root.store.list(prefix);
        let mut any = false;
        while let Some(meta) = objects.try_next().await.map_err(|error| cannot_list(&self.display, error))? {
            any = true;
            let Some(parts) = meta.location.prefix_match(&self.root.path) else { continue };
            let names: Vec<String> = parts.map(|part| part.as_ref().to_owned()).collect();
            let Some((name, above)) = names.split_last() else { continue };
            let Some(top) = self.top_of(&names) else { continue };
            if above[top.min(above.len())..].iter().chain([name]).any(|name| is_hidden(name.as_bytes())) {
                continue;
            }
            let directory = above.iter().fold(self.root.url.clone(), |url, name| format!("{url}/{}", uri::encode(name.as_bytes())));
            self.object(&mut found, selection, skip, (&directory, above.len() <= top), name, &meta);
        }
        if !any && !self.is_pattern() && prefix.is_some() {
            match self.root.store.head(&self.root.path).await {
                Ok(meta) => {
                    let name = uri::decode_text(uri::name_of(&self.root.url));
                    self.object(&mut found, selection, skip, (uri::parent_of(&self.root.url), true), &name, &meta);
                }
                Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(cannot_list(&self.display, error)),
            }
        }
        Ok(found)
    }

    /// How many of the names below the root lead to the directory that the user named; `None` for a file that no pattern matches.
    fn top_of(&self, names: &[String]) -> Option<usize> {
        if self.patterns.is_empty() {
            return Some(0);
        }
        let matches = |pattern: &&Vec<Component>| {
            names.len() >= pattern.len() && pattern.iter().zip(names).all(|(part, name)| part.matches(name.as_bytes()))
        };
        self.patterns.iter().find(matches).map(Vec::len)
    }

    fn object(
        &self,
        found: &mut Found,
        selection: &Selection,
        skip: &Option<Skip>,
        (directory, top): (&str, bool),
        name: &str,
        meta: &object_store::ObjectMeta,
    ) {
        if selection.name_filter.as_ref().is_some_and(|filter| !filter.matches(name.as_bytes())) {
            return;
        }
        let modified_ms = meta.last_modified.timestamp_millis();
        let url = format!("{directory}/{}", uri::encode(name.as_bytes()));
        if !selection.admits_time(modified_ms) {
            return;
        }
        let directory = found.directory(directory, top);
        if !skip.as_ref().is_some_and(|skip| skip(&url)) {
            found.file(directory, FileStatus { url, size: meta.size, modified_ms });
        }
    }
}

/// Lists the files of the paths that a user named, time after time.
#[derive(Debug)]
pub(crate) struct Lister {
    pub(crate) inputs: Vec<Input>,
    pub(crate) selection: Selection,
    base: Option<PartitionBase>,
    manifest: Manifest,
}

impl Lister {
    /// # Errors
    /// Those of the storage, `INVALID_GLOB_PATTERN`, and `INVALID_OPTION_VALUE` for a `basePath` that is above none of the paths.
    pub(crate) async fn open(storage: &Storage, paths: &[String], selection: Selection) -> Result<Self> {
        let mut inputs = Vec::with_capacity(paths.len());
        for path in paths {
            inputs.push(Input::open(storage, path).await?);
        }
        let base = match &selection.base_path {
            _ if selection.recursive => Some(PartitionBase::Off),
            None => None,
            Some(base_path) => {
                let base = Root::new(&storage.open(base_path)?)?;
                if let Some(input) = inputs.iter().find(|input| base.relative(&input.root.url).is_none()) {
                    return Err(Error::invalid(
                        "INVALID_OPTION_VALUE",
                        format!("wrong basePath {base_path} for the path {}: name a directory above it", input.display),
                    ));
                }
                Some(PartitionBase::Directory(base.url))
            }
        };
        Ok(Lister { inputs, selection, base, manifest: Manifest::default() })
    }

    /// Whether the directory is the output of a streaming file sink, whose manifest says what is in it. Known after the first listing
    /// that found files.
    pub(crate) fn reads_manifest(&self) -> bool {
        self.manifest.is_in_use()
    }

    /// The files that are there now. Those that `skip` names are left out, but count for the partition columns.
    ///
    /// # Errors
    /// `CANNOT_LIST_FILES`; `CONFLICTING_DIRECTORY_STRUCTURES` and `CONFLICTING_PARTITION_COLUMN_NAMES` when directories with and without
    /// partition columns are mixed; `BATCH_METADATA_NOT_FOUND` for an incomplete manifest.
    pub(crate) async fn list(&self, skip: Option<Skip>) -> Result<Listing> {
        let manifest_root = match &self.inputs[..] {
            [input] if !input.is_pattern() => Some(&input.root),
            _ => None,
        };
        if let Some(root) = manifest_root
            && self.manifest.discover(root).await?
        {
            return self.list_manifest(root, &skip).await;
        }
        let mut listing = Listing::default();
        for input in &self.inputs {
            let found = input.find(&self.selection, &skip).await?;
            listing.newest_arrival_ms = listing.newest_arrival_ms.max(found.newest_arrival_ms);
            self.arrange(input, found, &mut listing)?;
        }
        if let Some(root) = manifest_root.filter(|_| listing.any) {
            // The sink may have written its first manifest and files between the two looks.
            if self.manifest.discover(root).await? {
                return self.list_manifest(root, &skip).await;
            }
            self.manifest.rule_out();
        }
        sort(&mut listing.files);
        Ok(listing)
    }

    async fn list_manifest(&self, root: &Root, skip: &Option<Skip>) -> Result<Listing> {
        let base = self.base.clone().unwrap_or_else(|| PartitionBase::Directory(root.url.clone()));
        let mut listing = Listing::default();
        let mut directories = Found::default();
        for file in self.manifest.files(root).await?.iter() {
            let name = uri::decode(uri::name_of(&file.url));
            let counts = self.selection.name_filter.as_ref().is_none_or(|filter| filter.matches(&name));
            if !counts || !self.selection.admits_time(file.modified_ms) {
                continue;
            }
            listing.any = true;
            directories.directory(uri::parent_of(&file.url), false);
            if !skip.as_ref().is_some_and(|skip| skip(&file.url)) {
                listing.files.push(file.clone());
            }
        }
        for directory in &directories.directories {
            listing.partitions.extend(Some(base.keys(&directory.url)?.0).filter(|keys| !keys.is_empty()));
        }
        sort(&mut listing.files);
        Ok(listing)
    }

    /// Applies the rule of depth: everything is read where directories are partitions or the user asked for it, else only what lies
    /// directly in the directories named.
    fn arrange(&self, input: &Input, found: Found, listing: &mut Listing) -> Result<()> {
        let base = self.base.clone().unwrap_or_else(|| input.base());
        let mut keys = Vec::with_capacity(found.directories.len());
        for directory in &found.directories {
            keys.push(base.keys(&directory.url)?);
        }
        let partitioned = keys.iter().any(|(keys, _)| !keys.is_empty());
        if partitioned {
            check_structure(&found.directories, &keys)?;
        }
        let deep = partitioned || self.selection.recursive;
        let counts: Vec<bool> = found.directories.iter().map(|directory| deep || directory.top).collect();
        listing.any |= counts.contains(&true);
        let mut files: Vec<FileStatus> =
            found.files.into_iter().filter(|(at, _)| counts.get(*at) == Some(&true)).map(|(_, file)| file).collect();
        if input.is_pattern() {
            // Its alternatives may meet in one directory.
            files.sort_unstable_by(|a, b| a.url.cmp(&b.url));
            files.dedup_by(|a, b| a.url == b.url);
        }
        listing.files.extend(files);
        listing.partitions.extend(keys.into_iter().map(|(keys, _)| keys).filter(|keys| !keys.is_empty()));
        Ok(())
    }

    /// The partition keys of a file, from its URL alone.
    ///
    /// # Errors
    /// `INVALID_PARTITION_VALUE`.
    pub(crate) fn keys_of(&self, directory: &str) -> Result<Vec<PartitionKey>> {
        if let Some(base) = &self.base {
            return Ok(base.keys(directory)?.0);
        }
        let input = self.inputs.iter().find(|input| input.root.relative(directory).is_some());
        input.map_or(Ok(vec![]), |input| Ok(input.base().keys(directory)?.0))
    }

    /// The root that a file of that URL lies below (or is).
    ///
    /// # Errors
    /// `SOURCE_PATH_CHANGED` when it lies below none: the checkpoint was written with another path.
    pub(crate) fn root_of(&self, url: &str) -> Result<&Root> {
        self.inputs.iter().map(|input| &input.root).find(|root| root.relative(url).is_some()).ok_or_else(|| {
            let paths: Vec<&str> = self.inputs.iter().map(|input| input.display.as_str()).collect();
            Error::new(
                ErrorKind::CheckpointIncompatible,
                "SOURCE_PATH_CHANGED",
                format!(
                    "the checkpoint holds {url}, which does not lie in {}: restore the path or start a new checkpoint",
                    paths.join(", ")
                ),
            )
        })
    }
}

/// Checks that all partition directories begin at one place and have the same columns. Files directly in that place are allowed.
fn check_structure(directories: &[Directory], keys: &[(Vec<PartitionKey>, usize)]) -> Result<()> {
    let start = |directory: &Directory, (keys, _): &(Vec<PartitionKey>, usize)| -> String {
        let mut start = directory.url.as_str();
        let mut left = keys.len();
        while left > 0 && !start.is_empty() {
            left -= usize::from(uri::decode_text(uri::name_of(start)).contains('='));
            start = uri::parent_of(start);
        }
        start.to_lowercase()
    };
    let mut starts = directories.iter().zip(keys).map(|(directory, keys)| start(directory, keys));
    if let Some(first) = starts.next()
        && let Some(other) = starts.find(|other| *other != first)
    {
        return Err(Error::invalid(
            "CONFLICTING_DIRECTORY_STRUCTURES",
            format!(
                "{first} and {other} cannot both be read: partition directories must begin at one place, and plain directories may not \
                 stand beside them; set basePath, or recursiveFileLookup to read all files without partition columns"
            ),
        )
        .with_sqlstate("KD009"));
    }
    partition::check_names(
        directories
            .iter()
            .zip(keys)
            .filter(|(_, (keys, _))| !keys.is_empty())
            .map(|(directory, (keys, _))| (directory.url.as_str(), &keys[..])),
    )
}

/// Oldest first, then by name, so that the order does not depend on the file system.
fn sort(files: &mut [FileStatus]) {
    files.sort_unstable_by(|a, b| (a.modified_ms, &a.url).cmp(&(b.modified_ms, &b.url)));
}

/// Names that never count: hidden files, logs and work directories of other engines, files that Hadoop is still copying.
pub(crate) fn is_hidden(name: &[u8]) -> bool {
    name.starts_with(b".") || (name.starts_with(b"_") && !name.contains(&b'=')) || name.ends_with(b"._COPYING_")
}

/// The store does not say what is in a directory.
pub(crate) fn cannot_list(path: &str, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::SourceUnavailable, "CANNOT_LIST_FILES", format!("cannot list the files of {path}: check that it can be read"))
        .caused_by(cause)
}
