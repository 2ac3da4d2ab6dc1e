//! Which of the files that wait go into the next batch, and which of the rest are remembered so that they need not be listed again.

use std::collections::VecDeque;

use millstream_core::ReadLimit;

use super::listing::FileStatus;
use super::options::StreamOptions;

/// The files that are listed but not read.
#[derive(Debug)]
pub(crate) struct Backlog {
    latest_first: bool,
    max_cached_files: usize,
    discard_ratio: f64,
    /// Files for the next batches, in reading order; `None` when they have to be listed again.
    unread: Option<VecDeque<FileStatus>>,
    /// The input is fixed: `unread` is everything that there will be.
    frozen: bool,
    /// The size of `unread`.
    unread_bytes: u64,
    /// Files and bytes that were listed and not taken, those that are not remembered included.
    waiting: (u64, u64),
}

impl Backlog {
    pub(crate) fn new(options: &StreamOptions) -> Self {
        Backlog {
            latest_first: options.latest_first,
            max_cached_files: options.max_cached_files,
            discard_ratio: options.discard_ratio,
            unread: None,
            frozen: false,
            unread_bytes: 0,
            waiting: (0, 0),
        }
    }

    /// Whether the next batch is chosen from a new listing.
    pub(crate) fn needs_listing(&self) -> bool {
        self.unread.is_none()
    }

    /// Takes new files, oldest first, as what can be read next.
    pub(crate) fn offer(&mut self, mut files: Vec<FileStatus>) {
        if self.latest_first {
            files.sort_by_key(|file| std::cmp::Reverse(file.modified_ms));
        }
        self.unread_bytes = size(&files);
        self.waiting = (files.len() as u64, self.unread_bytes);
        self.unread = Some(files.into());
    }

    /// Fixes the input to the files offered last.
    pub(crate) fn freeze(&mut self) {
        self.frozen = true;
        self.unread.get_or_insert_default();
    }

    /// The files of the next batch under a limit. At least one, if one waits.
    pub(crate) fn take(&mut self, limit: &ReadLimit) -> Vec<FileStatus> {
        let mut unread = self.unread.take().unwrap_or_default();
        let (max_files, max_bytes) = (limit.max_files(), limit.max_bytes());
        let mut batch = Vec::new();
        let mut bytes = 0_u64;
        while let Some(file) = unread.front() {
            let with_it = bytes.saturating_add(file.size);
            let full = max_files.is_some_and(|files| batch.len() as u64 >= files) || max_bytes.is_some_and(|most| with_it > most);
            if full && !batch.is_empty() {
                break;
            }
            bytes = with_it;
            batch.extend(unread.pop_front());
        }
        self.unread = Some(unread);
        self.unread_bytes = self.unread_bytes.saturating_sub(bytes);
        self.waiting = (self.waiting.0.saturating_sub(batch.len() as u64), self.waiting.1.saturating_sub(bytes));
        if !self.frozen {
            self.keep(max_files, max_bytes);
        }
        batch
    }

    /// Takes back a batch that could not be planned.
    pub(crate) fn give_back(&mut self, batch: Vec<FileStatus>) {
        if self.frozen {
            let rest = self.unread.take().unwrap_or_default();
            let all = batch.into_iter().chain(rest).collect::<Vec<_>>();
            self.unread_bytes = size(&all);
            self.waiting = (all.len() as u64, self.unread_bytes);
            self.unread = Some(all.into());
        } else {
            self.unread = None;
        }
    }

    /// Decides what is remembered for the batch after this one.
    fn keep(&mut self, max_files: Option<u64>, max_bytes: Option<u64>) {
        let (files, bytes) = (self.unread.as_ref().map_or(0, VecDeque::len), self.unread_bytes);
        let too_few = |waiting: u64, limit: Option<u64>| limit.is_some_and(|limit| (waiting as f64) < limit as f64 * self.discard_ratio);
        // With the newest first, a file that appears meanwhile goes before the rest. A small rest would make a small batch.
        if self.latest_first || files == 0 || too_few(files as u64, max_files) || too_few(bytes, max_bytes) || self.max_cached_files == 0 {
            self.unread = None;
        } else if let Some(unread) = self.unread.as_mut().filter(|_| files > self.max_cached_files) {
            unread.truncate(self.max_cached_files);
            unread.shrink_to_fit();
            self.unread_bytes = size(unread.iter());
        }
    }

    /// Files and bytes that are known to wait.
    pub(crate) fn waiting(&self) -> (u64, u64) {
        self.waiting
    }
}

fn size<'a>(files: impl IntoIterator<Item = &'a FileStatus>) -> u64 {
    files.into_iter().fold(0, |bytes, file| bytes.saturating_add(file.size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(sizes: &[u64]) -> Vec<FileStatus> {
        (0_i64..).zip(sizes).map(|(at, size)| FileStatus { url: format!("f{at}"), size: *size, modified_ms: at }).collect()
    }

    fn backlog(pairs: &[(&str, &str)]) -> Backlog {
        Backlog::new(&StreamOptions::parse(&pairs.iter().copied().collect()).unwrap())
    }

    fn names(batch: &[FileStatus]) -> Vec<&str> {
        batch.iter().map(|file| file.url.as_str()).collect()
    }

    #[test]
    fn the_oldest_files_come_first_up_to_the_limit() {
        let mut backlog = backlog(&[]);
        backlog.offer(files(&[1; 5]));
        assert_eq!(names(&backlog.take(&ReadLimit::MaxFiles(2))), ["f0", "f1"]);
        assert_eq!(backlog.waiting(), (3, 3));
        assert!(!backlog.needs_listing());
        assert_eq!(names(&backlog.take(&ReadLimit::AllAvailable)), ["f2", "f3", "f4"]);
        assert_eq!(backlog.waiting(), (0, 0));
        assert!(backlog.needs_listing());
    }

    #[test]
    fn bytes_are_counted_before_a_file_is_taken_but_one_file_always_is() {
        let mut backlog = backlog(&[]);
        backlog.offer(files(&[5, 5, 1, 99, 1]));
        assert_eq!(names(&backlog.take(&ReadLimit::MaxBytes(10))), ["f0", "f1"]);
        assert_eq!(names(&backlog.take(&ReadLimit::MaxBytes(10))), ["f2"]);
        assert_eq!(names(&backlog.take(&ReadLimit::MaxBytes(10))), ["f3"]);
    }

    #[test]
    fn a_small_rest_is_listed_again() {
        let mut backlog = backlog(&[]);
        backlog.offer(files(&[1; 11]));
        backlog.take(&ReadLimit::MaxFiles(10));
        assert!(backlog.needs_listing(), "1 of 10 is less than 0.2");
        assert_eq!(backlog.waiting(), (1, 1));
        backlog.offer(files(&[1; 12]));
        backlog.take(&ReadLimit::MaxFiles(10));
        assert!(!backlog.needs_listing());
    }

    #[test]
    fn the_cache_is_bounded_and_may_be_off() {
        let mut small = backlog(&[("maxCachedFiles", "2")]);
        small.offer(files(&[1; 9]));
        small.take(&ReadLimit::MaxFiles(1));
        assert_eq!(small.waiting(), (8, 8));
        assert_eq!(small.take(&ReadLimit::AllAvailable).len(), 2);
        let mut off = backlog(&[("maxCachedFiles", "0")]);
        off.offer(files(&[1; 9]));
        off.take(&ReadLimit::MaxFiles(1));
        assert!(off.needs_listing());
    }

    #[test]
    fn newest_first_lists_again_for_every_batch() {
        let mut backlog = backlog(&[("latestFirst", "true")]);
        backlog.offer(files(&[1; 3]));
        assert_eq!(names(&backlog.take(&ReadLimit::MaxFiles(1))), ["f2"]);
        assert!(backlog.needs_listing());
    }

    #[test]
    fn frozen_input_is_kept_whole() {
        let mut backlog = backlog(&[("latestFirst", "true"), ("maxCachedFiles", "0")]);
        backlog.offer(files(&[1; 3]));
        backlog.freeze();
        for name in ["f2", "f1", "f0"] {
            assert_eq!(names(&backlog.take(&ReadLimit::MaxFiles(1))), [name]);
            assert!(!backlog.needs_listing());
        }
        assert!(backlog.take(&ReadLimit::MaxFiles(1)).is_empty());
    }
}
