//! How much a source may hand to one batch.

use std::time::Duration;

/// A bound on the input of one batch. A source always admits at least one unit of work, so that a small limit cannot stop a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadLimit {
    /// Everything that is there.
    AllAvailable,
    /// At most this many rows.
    MaxRows(u64),
    /// At most this many files.
    MaxFiles(u64),
    /// Files until their sizes reach this many bytes: the file that crosses the limit is the last.
    MaxBytes(u64),
    /// Wait for this many rows, but no longer than `max_delay` after the previous batch.
    MinRows {
        /// Rows to wait for.
        rows: u64,
        /// The longest wait.
        max_delay: Duration,
    },
    /// All of these hold at once.
    All(Vec<ReadLimit>),
}

impl ReadLimit {
    /// The bound on files, if this limit has one.
    pub fn max_files(&self) -> Option<u64> {
        self.bound(|limit| match limit {
            ReadLimit::MaxFiles(files) => Some(*files),
            _ => None,
        })
    }

    /// The bound on bytes, if this limit has one.
    pub fn max_bytes(&self) -> Option<u64> {
        self.bound(|limit| match limit {
            ReadLimit::MaxBytes(bytes) => Some(*bytes),
            _ => None,
        })
    }

    /// The bound on rows, if this limit has one.
    pub fn max_rows(&self) -> Option<u64> {
        self.bound(|limit| match limit {
            ReadLimit::MaxRows(rows) => Some(*rows),
            _ => None,
        })
    }

    fn bound(&self, of: impl Fn(&ReadLimit) -> Option<u64> + Copy) -> Option<u64> {
        match self {
            ReadLimit::All(limits) => limits.iter().filter_map(|limit| limit.bound(of)).min(),
            limit => of(limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strictest_part_of_a_composite_limit_wins() {
        let limit = ReadLimit::All(vec![ReadLimit::MaxFiles(7), ReadLimit::MaxBytes(10), ReadLimit::MaxFiles(3)]);
        assert_eq!(limit.max_files(), Some(3));
        assert_eq!(limit.max_bytes(), Some(10));
        assert_eq!(limit.max_rows(), None);
    }
}
