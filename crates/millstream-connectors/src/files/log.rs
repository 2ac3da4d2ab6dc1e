//! The source's own log and the memory of which files were read.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

use millstream_core::{Error, ErrorKind, Offset, Result};
use serde::{Deserialize, Serialize};

use super::listing::FileStatus;
use super::uri;

/// A line of the log, byte for byte as Spark writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LogEntry {
    /// The file's URL.
    pub(crate) path: String,
    /// Its modification time in milliseconds since 1970.
    pub(crate) timestamp: i64,
    /// The batch of the log that it belongs to.
    pub(crate) batch_id: u64,
}

impl LogEntry {
    /// # Errors
    /// `SOURCE_LOG_MISMATCH`.
    pub(crate) fn parse(line: &str) -> Result<Self> {
        serde_json::from_str::<LogEntry>(line).map(|entry| LogEntry { path: uri::canonical(&entry.path), ..entry }).map_err(|error| {
            Error::new(
                ErrorKind::CheckpointIncompatible,
                "SOURCE_LOG_MISMATCH",
                format!("the source log holds {line:?}, which is no entry of a file source: the checkpoint belongs to another source"),
            )
            .caused_by(error)
        })
    }

    /// # Errors
    /// `INTERNAL_ERROR`.
    pub(crate) fn to_line(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|error| Error::internal("a source log entry does not serialise").caused_by(error))
    }
}

/// The batch that a line of the log belongs to.
pub(crate) fn batch_of(line: &str) -> Option<u64> {
    serde_json::from_str::<LogEntry>(line).ok().map(|entry| entry.batch_id)
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogOffset {
    log_offset: i64,
}

/// The offset after batch `id` of the log.
///
/// # Errors
/// `INTERNAL_ERROR`.
pub(crate) fn offset(id: u64) -> Result<Offset> {
    Offset::of(&LogOffset { log_offset: i64::try_from(id).unwrap_or(i64::MAX) })
}

/// The first batch of the log after an offset. Offsets of old versions are bare numbers.
///
/// # Errors
/// `MALFORMED_OFFSET`.
pub(crate) fn next_batch(offset: Option<&Offset>) -> Result<u64> {
    let Some(offset) = offset else { return Ok(0) };
    let last = match offset.read::<LogOffset>() {
        Ok(offset) => offset.log_offset,
        Err(error) => offset.read::<i64>().map_err(|_| error)?,
    };
    Ok(u64::try_from(last.saturating_add(1)).unwrap_or(0))
}

/// The files that were read, by a fingerprint of 128 bits of their URL or name, so that a million of them take some 40 MB.
///
/// A file that is older than the newest one by more than the age limit is forgotten and, if it is still there, ignored. Spark walks the
/// whole map after every batch; here the same files count as forgotten, and are swept out when the map has doubled and they are no longer
/// listed. So an old file that is not in the map was never read.
#[derive(Debug)]
pub(crate) struct SeenFiles {
    by_key: HashMap<u128, i64, BuildHasherDefault<DefaultHasher>>,
    max_age_ms: Option<i64>,
    name_only: bool,
    newest_ms: i64,
    /// Files modified before are too old.
    threshold_ms: i64,
    sweep_at: usize,
}

/// Files of a listing that the age limit leaves out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TooOld {
    /// How many.
    pub(crate) files: u64,
    /// The URL of one of them.
    pub(crate) example: Option<String>,
}

impl SeenFiles {
    const FIRST_SWEEP: usize = 1024;

    pub(crate) fn new(max_age_ms: Option<i64>, name_only: bool) -> Self {
        SeenFiles {
            by_key: HashMap::default(),
            max_age_ms,
            name_only,
            newest_ms: i64::MIN,
            threshold_ms: i64::MIN,
            sweep_at: Self::FIRST_SWEEP,
        }
    }

    fn key(&self, url: &str) -> u128 {
        let text = if self.name_only { uri::name_of(url) } else { url };
        let hash = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            salt.hash(&mut hasher);
            text.hash(&mut hasher);
            u128::from(hasher.finish())
        };
        hash(0) << 64 | hash(1)
    }

    pub(crate) fn add(&mut self, url: &str, modified_ms: i64) {
        self.by_key.insert(self.key(url), modified_ms);
        self.newest_ms = self.newest_ms.max(modified_ms);
    }

    /// Whether the file was read and is not forgotten: it is not new, whatever its time.
    pub(crate) fn contains(&self, url: &str) -> bool {
        self.by_key.get(&self.key(url)).is_some_and(|seen_ms| *seen_ms >= self.threshold_ms)
    }

    /// Leaves the files of a full listing that are new and young enough to be read, and gives those that are left out for their age and
    /// were never read.
    pub(crate) fn sift(&mut self, files: &mut Vec<FileStatus>) -> TooOld {
        let mut read = HashSet::<u128, BuildHasherDefault<DefaultHasher>>::default();
        let mut too_old = TooOld::default();
        files.retain(|file| {
            if file.modified_ms >= self.threshold_ms {
                return !self.contains(&file.url);
            }
            let key = self.key(&file.url);
            if self.by_key.contains_key(&key) {
                read.insert(key);
            } else {
                too_old.files += 1;
                too_old.example.get_or_insert_with(|| file.url.clone());
            }
            false
        });
        if self.by_key.len() >= self.sweep_at {
            let threshold_ms = self.threshold_ms;
            self.by_key.retain(|key, seen_ms| *seen_ms >= threshold_ms || read.contains(key));
            self.sweep_at = (self.by_key.len() * 2).max(Self::FIRST_SWEEP);
        }
        too_old
    }

    /// Moves the age limit on, seen from the newest file. To be called when a batch has been chosen: the first listing knows no age.
    pub(crate) fn purge(&mut self) {
        let Some(max_age_ms) = self.max_age_ms.filter(|_| !self.by_key.is_empty()) else { return };
        self.threshold_ms = self.newest_ms.saturating_sub(max_age_ms);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.by_key.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_spark() {
        let line = r#"{"path":"file:///in/žluť%20a.json","timestamp":1795974503478,"batchId":1}"#;
        let entry = LogEntry::parse(line).unwrap();
        assert_eq!(entry.to_line().unwrap(), line);
        assert_eq!(batch_of(line), Some(1));
        assert_eq!(batch_of("{}"), None);
        assert_eq!(LogEntry::parse(r#"{"a":1}"#).unwrap_err().code(), "SOURCE_LOG_MISMATCH");
    }

    #[test]
    fn offsets_are_those_of_spark() {
        assert_eq!(offset(3).unwrap().as_json(), r#"{"logOffset":3}"#);
        assert_eq!(next_batch(None).unwrap(), 0);
        for (text, next) in [(r#"{"logOffset":3}"#, 4), (r#"{"logOffset":-1}"#, 0), ("3", 4)] {
            assert_eq!(next_batch(Some(&Offset::from_json(text).unwrap())).unwrap(), next, "{text}");
        }
        assert_eq!(next_batch(Some(&Offset::from_json(r#"{"offset":3}"#).unwrap())).unwrap_err().code(), "MALFORMED_OFFSET");
    }

    fn file(url: &str, modified_ms: i64) -> FileStatus {
        FileStatus { url: url.to_owned(), size: 1, modified_ms }
    }

    /// Whether a file is to be read when it is all that is listed.
    fn is_new(seen: &mut SeenFiles, url: &str, modified_ms: i64) -> bool {
        let mut files = vec![file(url, modified_ms)];
        seen.sift(&mut files);
        !files.is_empty()
    }

    #[test]
    fn what_the_age_limit_leaves_out_is_counted_and_what_was_read_is_not() {
        let mut seen = SeenFiles::new(Some(100), false);
        for ms in 0..2 * SeenFiles::FIRST_SWEEP as i64 {
            seen.add(&format!("read {ms}"), ms);
        }
        seen.add("newest", 1_000_000);
        seen.purge();
        // The map is swept here, and once more with nothing listed.
        let mut files =
            vec![file("read 5", 5), file("newest", 1_000_000), file("dropped", 999_899), file("young", 999_900), file("gone", 0)];
        let too_old = seen.sift(&mut files);
        assert_eq!(too_old, TooOld { files: 2, example: Some("dropped".to_owned()) });
        assert_eq!(files.iter().map(|file| file.url.as_str()).collect::<Vec<_>>(), ["young"]);
        assert_eq!(seen.len(), 2);
        assert_eq!(seen.sift(&mut vec![file("read 5", 5)]).files, 0);
    }

    #[test]
    fn age_is_measured_against_the_newest_file_seen() {
        let mut seen = SeenFiles::new(Some(100), false);
        assert!(is_new(&mut seen, "old", -5_000), "the first listing knows no age");
        seen.add("new", 1_000);
        seen.purge();
        assert!(is_new(&mut seen, "late", 900));
        assert!(!is_new(&mut seen, "too late", 899));
        assert!(!is_new(&mut seen, "new", 1_000));
        seen.add("newer", 1_200);
        seen.purge();
        assert!(is_new(&mut seen, "new", 1_300), "a forgotten file that was written again is new");
        assert!(!is_new(&mut seen, "new", 1_000));
    }

    #[test]
    fn names_alone_may_tell_files_apart() {
        let mut seen = SeenFiles::new(None, true);
        seen.add("file:///in/p=1/a.json", 0);
        assert!(!is_new(&mut seen, "file:///in/p=2/a.json", 1));
        assert!(is_new(&mut seen, "file:///in/p=2/b.json", 1));
    }

    #[test]
    fn forgotten_files_take_no_memory_for_long() {
        let mut seen = SeenFiles::new(Some(10), false);
        for ms in 0..100_000 {
            seen.add(&format!("file:///in/{ms}"), ms);
            seen.purge();
            seen.sift(&mut Vec::new());
        }
        assert!(seen.len() <= SeenFiles::FIRST_SWEEP, "{}", seen.len());
        assert!(!is_new(&mut seen, "file:///in/99999", 99_999));
    }
}
