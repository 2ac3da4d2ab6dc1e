//! What durability costs: counts and time of the calls that wait for the disk.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters that every durable store of one process adds to. Reading them is cheap and never blocks a writer.
#[derive(Debug, Default)]
pub struct DurableStats {
    files_published: AtomicU64,
    bytes_written: AtomicU64,
    file_syncs: AtomicU64,
    dir_syncs: AtomicU64,
    sync_ns: AtomicU64,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurableCounts {
    /// Files that got their final name.
    pub files_published: u64,
    /// Bytes of content handed to the file system.
    pub bytes_written: u64,
    /// Calls that made a file's content durable.
    pub file_syncs: u64,
    /// Calls that made a directory's entries durable.
    pub dir_syncs: u64,
    /// Nanoseconds spent in both kinds of calls, added up over threads.
    pub sync_ns: u64,
}

impl DurableStats {
    /// The counters now.
    pub fn counts(&self) -> DurableCounts {
        DurableCounts {
            files_published: self.files_published.load(Relaxed),
            bytes_written: self.bytes_written.load(Relaxed),
            file_syncs: self.file_syncs.load(Relaxed),
            dir_syncs: self.dir_syncs.load(Relaxed),
            sync_ns: self.sync_ns.load(Relaxed),
        }
    }

    pub(super) fn published(&self) {
        self.files_published.fetch_add(1, Relaxed);
    }

    pub(super) fn wrote(&self, bytes: u64) {
        self.bytes_written.fetch_add(bytes, Relaxed);
    }

    pub(super) fn synced_file(&self, ns: u64) {
        self.file_syncs.fetch_add(1, Relaxed);
        self.sync_ns.fetch_add(ns, Relaxed);
    }

    pub(super) fn synced_dir(&self, ns: u64) {
        self.dir_syncs.fetch_add(1, Relaxed);
        self.sync_ns.fetch_add(ns, Relaxed);
    }
}

impl DurableCounts {
    /// What was added since `earlier`.
    pub fn since(&self, earlier: &DurableCounts) -> DurableCounts {
        DurableCounts {
            files_published: self.files_published.saturating_sub(earlier.files_published),
            bytes_written: self.bytes_written.saturating_sub(earlier.bytes_written),
            file_syncs: self.file_syncs.saturating_sub(earlier.file_syncs),
            dir_syncs: self.dir_syncs.saturating_sub(earlier.dir_syncs),
            sync_ns: self.sync_ns.saturating_sub(earlier.sync_ns),
        }
    }
}
