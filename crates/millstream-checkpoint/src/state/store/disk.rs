//! What the layer on disk does. RocksDB, where it is built in.

use std::fmt::Debug;

use millstream_core::Result;

use super::Visit;
#[cfg(feature = "rocksdb")]
pub(super) use super::rocks::Disk;
#[cfg(not(feature = "rocksdb"))]
pub(super) use absent::Disk;

/// The rows of one table of one task, on disk.
pub(super) trait DiskTable: Debug + Send {
    /// Visits the values of keys that have one: the position of the key, the value, its expiry.
    fn get_many(&mut self, keys: &[&[u8]], visit: &mut dyn FnMut(usize, &[u8], i64)) -> Result<()>;

    /// Visits the values of a key that has many, in the order of `sub`.
    fn values(&mut self, key: &[u8], visit: &mut dyn FnMut(i64, &[u8])) -> Result<()>;

    /// One value of a key.
    fn get(&mut self, key: &[u8], sub: i64) -> Result<Option<Box<[u8]>>>;

    /// The earliest expiry there may be.
    fn first_expiry(&self) -> Option<i64>;

    /// Whether there is a row.
    fn has(&mut self, key: &[u8], sub: i64) -> Result<bool>;

    /// Visits the rows of a key group until the visitor answers `false`.
    fn scan(&self, group: u16, visit: &mut Visit<'_>) -> Result<()>;

    /// Hands over every row whose expiry is at or before `instant`, and removes those for which the answer is `true`. Where the expiry is in
    /// the key, the answer for a row that must stay is never asked for.
    fn take_expired(&mut self, instant: i64, take: &mut Visit<'_>) -> Result<()>;

    /// Puts and removes rows, all or nothing.
    fn write(&mut self, entries: &mut dyn Iterator<Item = Entry<'_>>) -> Result<()>;
}

/// A row to put or to remove.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entry<'a> {
    Put { key: &'a [u8], sub: i64, value: &'a [u8], expiry: i64 },
    Remove { key: &'a [u8], sub: i64 },
}

/// In a build without RocksDB.
#[cfg(not(feature = "rocksdb"))]
mod absent {
    use std::collections::BTreeMap;
    use std::ops::Range;
    use std::path::Path;

    use millstream_core::{Error, Result};
    use uuid::Uuid;

    use super::DiskTable;
    use crate::state::store::Shape;

    #[derive(Debug)]
    pub(in crate::state::store) enum Disk {}

    impl Disk {
        pub(in crate::state::store) const AVAILABLE: bool = false;

        pub(in crate::state::store) fn open(_: &Path, _: Uuid, _: u64) -> Result<Self> {
            Err(Error::invalid(
                "STATE_STORE_PROVIDER_UNAVAILABLE",
                "this build of Millstream has no RocksDB: use a build with the feature `rocksdb`, or state in memory with a larger limit",
            ))
        }

        pub(in crate::state::store) fn table(&self, _: u16, _: Shape, _: Range<u16>) -> Result<Box<dyn DiskTable>> {
            match *self {}
        }

        pub(in crate::state::store) fn metrics(&self) -> BTreeMap<String, i64> {
            match *self {}
        }

        pub(in crate::state::store) fn memory(&self) -> u64 {
            match *self {}
        }
    }
}
