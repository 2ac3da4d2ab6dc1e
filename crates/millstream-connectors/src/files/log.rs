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

/// The fingerprint of a file's URL or name.
type Key = [u64; 2];

type Hashed = BuildHasherDefault<DefaultHasher>;

/// URLs of files that are not known to have been read.
pub(crate) type Unread = HashMap<Key, String, Hashed>;

/// The files that were read, by a fingerprint of 128 bits of their URL or name, so that each takes some 50 bytes whatever its name.
///
/// A file that is older than the newest one by more than the age limit is forgotten and, if it is still there, ignored. Spark walks the
/// whole map after every batch; here the same files count as forgotten, and are swept out, with their memory, when the map has doubled. Those
/// that are still listed are remembered as read, so that a file which was left out for its age is told from one that was read long ago.
#[derive(Debug)]
pub(crate) struct SeenFiles {
    by_key: HashMap<Key, i64, Hashed>,
    /// Files of the last listing that were read and are too old by now.
    read_long_ago: HashSet<Key, Hashed>,
    max_age_ms: Option<i64>,
    name_only: bool,
    newest_ms: i64,
    /// Files modified before are too old.
    threshold_ms: i64,
    sweep_at: usize,
}

impl SeenFiles {
    const FIRST_SWEEP: usize = 1024;

    pub(crate) fn new(max_age_ms: Option<i64>, name_only: bool) -> Self {
        SeenFiles {
            by_key: HashMap::default(),
            read_long_ago: HashSet::default(),
            max_age_ms,
            name_only,
            newest_ms: i64::MIN,
            threshold_ms: i64::MIN,
            sweep_at: Self::FIRST_SWEEP,
        }
    }

    fn key(&self, url: &str) -> Key {
        let text = if self.name_only { uri::name_of(url) } else { url };
        let hash = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            salt.hash(&mut hasher);
            text.hash(&mut hasher);
            hasher.finish()
        };
        [hash(0), hash(1)]
    }

    pub(crate) fn add(&mut self, url: &str, modified_ms: i64) {
        self.by_key.insert(self.key(url), modified_ms);
        self.newest_ms = self.newest_ms.max(modified_ms);
    }

    /// Whether the file was read and is not forgotten: it is not new, whatever its time.
    pub(crate) fn contains(&self, url: &str) -> bool {
        self.by_key.get(&self.key(url)).is_some_and(|seen_ms| *seen_ms >= self.threshold_ms)
    }

    /// Leaves the files of a full listing that are new and young enough to be read, and gives the URLs of those that are left out for their
    /// age and are not known to have been read.
    pub(crate) fn sift(&mut self, files: &mut Vec<FileStatus>) -> Vec<String> {
        let mut read_long_ago = HashSet::default();
        let mut unread = Vec::new();
        files.retain(|file| {
            if file.modified_ms >= self.threshold_ms {
                return !self.contains(&file.url);
            }
            let key = self.key(&file.url);
            if self.by_key.contains_key(&key) || self.read_long_ago.contains(&key) {
                read_long_ago.insert(key);
            } else {
                unread.push(file.url.clone());
            }
            false
        });
        self.read_long_ago = read_long_ago;
        self.sweep();
        unread
    }

    /// The files that [`SeenFiles::sift`] gave, to be looked up.
    pub(crate) fn by_key(&self, unread: Vec<String>) -> Unread {
        unread.into_iter().map(|url| (self.key(&url), url)).collect()
    }

    /// A file of the log was read before any that is remembered: if it is among those that seemed unread, it goes from them.
    pub(crate) fn read_before(&mut self, unread: &mut Unread, url: &str) {
        let key = self.key(url);
        if unread.remove(&key).is_some() {
            self.read_long_ago.insert(key);
        }
    }

    /// Gives the memory of forgotten files back when the map has doubled.
    pub(crate) fn sweep(&mut self) {
        if self.by_key.len() >= self.sweep_at {
            let threshold_ms = self.threshold_ms;
            self.by_key.retain(|_, seen_ms| *seen_ms >= threshold_ms);
            self.sweep_at = (self.by_key.len() * 2).max(Self::FIRST_SWEEP);
            self.by_key.shrink_to(self.sweep_at);
        }
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

    /// Bytes of the map: a place and a byte of control for each bucket, which are as many as the next power of two.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        (self.by_key.capacity() * 8 / 7).next_power_of_two() * (size_of::<([u64; 2], i64)>() + 1)
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
        // The map is swept here.
        let mut files =
            vec![file("read 5", 5), file("newest", 1_000_000), file("dropped", 999_899), file("young", 999_900), file("gone", 0)];
        let too_old = seen.sift(&mut files);
        assert_eq!(too_old, ["dropped", "gone"]);
        assert_eq!(files.iter().map(|file| file.url.as_str()).collect::<Vec<_>>(), ["young"]);
        assert_eq!(seen.len(), 1);
        let unread = seen.sift(&mut vec![file("read 5", 5), file("gone", 0), file("dropped", 1)]);
        let mut unread = seen.by_key(unread);
        for url in ["newest", "gone"] {
            seen.read_before(&mut unread, url);
        }
        assert_eq!(unread.into_values().collect::<Vec<_>>(), ["dropped"]);
        assert_eq!(seen.sift(&mut vec![file("read 5", 5), file("gone", 0)]), [""; 0]);
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

    #[test]
    fn ten_million_files_take_less_than_half_a_gigabyte_and_none_of_it_once_they_are_forgotten() {
        const FILES: u64 = 10_000_000;
        let mut seen = SeenFiles::new(Some(10), false);
        let name = "x".repeat(200);
        seen.add(&name, 0);
        // The fingerprints of as many files: what is measured is the map.
        seen.by_key.extend((1..FILES).map(|file| ([file.wrapping_mul(0x9e37_79b9_7f4a_7c15), file], 0)));
        seen.purge();
        seen.sweep();
        assert_eq!((seen.len() as u64, seen.contains(&name)), (FILES, true));
        assert!(seen.bytes() < 500_000_000, "{}", seen.bytes());
        seen.add("newer", 100);
        seen.sweep_at = 0;
        seen.purge();
        seen.sweep();
        assert_eq!(seen.len(), 1);
        assert!(seen.bytes() < 1_000_000, "{}", seen.bytes());
    }
}
