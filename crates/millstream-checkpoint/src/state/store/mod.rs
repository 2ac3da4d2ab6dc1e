//! State stores: values by key, for one table of one task.
//!
//! A store knows bytes: [`super::key`] says what is in a key. Rows that were used of late are in hash tables of this process ([`memory`]), as far as
//! the query's memory goes; the others are in RocksDB, in a working directory that nothing depends on ([`layered`]). What is in a store can be
//! made again from the checkpoint at any time, so nothing here is made durable.

mod budget;
mod directory;
mod disk;
mod hash;
mod layered;
mod memory;
#[cfg(feature = "rocksdb")]
mod rocks;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use millstream_core::Result;
use parking_lot::Mutex;
use uuid::Uuid;

use budget::Budget;
use disk::Disk;
use layered::LayeredStore;

/// Takes the key, the number and the value of a row, and says whether to go on.
pub type Visit<'a> = dyn FnMut(&[u8], i64, &[u8]) -> bool + 'a;

/// Is handed a key, `sub` and a value.
pub type Take<'a> = dyn FnMut(&[u8], i64, &[u8]) + 'a;

/// Keeps the values of one table of one task. A key has any number of values, told apart by a number (`sub`).
///
/// The cost of every call depends on what it touches or removes, never on how much is kept; `scan` is the exception. A batch asks for many keys at
/// once, puts and removes what it likes, and then settles: that is when a disk is written, if there is one.
pub trait Store: Debug + Send {
    /// Visits the values of each key: the position of the key, `sub`, the value. The values of a key come in the order of `sub`; keys that may
    /// have many come in the order in which they are asked for, others in any.
    ///
    /// # Errors
    /// Those of the medium.
    fn get_many(&mut self, keys: &[&[u8]], visit: &mut dyn FnMut(usize, i64, &[u8])) -> Result<()>;

    /// One value of a key.
    ///
    /// # Errors
    /// Those of the medium.
    fn get(&mut self, key: &[u8], sub: i64) -> Result<Option<Box<[u8]>>>;

    /// Puts a value that may leave when time has passed `expiry` (microseconds, [`NEVER`](super::key::NEVER) if it never does). Returns whether it
    /// replaced one.
    ///
    /// # Errors
    /// Those of the medium.
    fn put(&mut self, key: &[u8], sub: i64, value: &[u8], expiry: i64) -> Result<bool>;

    /// Puts a value that is known to replace none.
    ///
    /// # Errors
    /// Those of the medium.
    fn insert(&mut self, key: &[u8], sub: i64, value: &[u8], expiry: i64) -> Result<()>;

    /// Removes a value. Returns whether there was one.
    ///
    /// # Errors
    /// Those of the medium.
    fn remove(&mut self, key: &[u8], sub: i64) -> Result<bool>;

    /// Removes every value whose expiry is at or before `instant` and hands it over, in any order.
    ///
    /// # Errors
    /// Those of the medium.
    fn take_expired(&mut self, instant: i64, take: &mut Take<'_>) -> Result<()>;

    /// The earliest expiry there may be; that of a value which is gone counts as well.
    fn first_expiry(&self) -> Option<i64>;

    /// Visits the values of these key groups, group by group, until the visitor answers `false`.
    ///
    /// # Errors
    /// Those of the medium.
    fn scan(&self, groups: Range<u16>, visit: &mut Visit<'_>) -> Result<()>;

    /// Ends a batch: writes what has to be on disk, and makes room in memory.
    ///
    /// # Errors
    /// Those of the medium.
    fn settle(&mut self) -> Result<()>;

    /// Values kept.
    fn len(&self) -> u64;

    /// Whether nothing is kept.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory used, about.
    fn bytes(&self) -> u64;
}

/// How many values the keys of a table have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerKey {
    /// One, whose number is 0.
    One,
    /// Any number, told apart by their numbers.
    Many,
}

/// Where the expiry of a table's rows is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryOf {
    /// Rows stay until they are removed.
    Nothing,
    /// In the key: its bytes are in the order of expiry.
    Key,
    /// It belongs to the value, and a put may change it.
    Value,
}

/// What a store has to know about its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many values a key has.
    pub per_key: PerKey,
    /// Where the expiry is.
    pub expiry: ExpiryOf,
}

/// Where state is first of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreKind {
    /// In memory, and in RocksDB what memory has no room for.
    #[default]
    Memory,
    /// In RocksDB, and in memory what was used of late.
    RocksDb,
}

/// How the stores of a query work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// Where state is first of all.
    pub kind: StoreKind,
    /// Bytes of memory for all state of the query, RocksDB's caches and buffers included.
    pub memory_limit: u64,
    /// Where working directories are made.
    pub directory: PathBuf,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions { kind: StoreKind::Memory, memory_limit: 1 << 30, directory: std::env::temp_dir() }
    }
}

/// The stores of one query, which share memory and a working directory.
#[derive(Debug)]
pub struct Stores {
    kind: StoreKind,
    budget: Budget,
    directory: PathBuf,
    /// The name of the working directory.
    id: Uuid,
    disk: Mutex<Option<Arc<Disk>>>,
}

impl Stores {
    /// Stores of a query; `id` names its working directory and must be new.
    pub fn new(options: StoreOptions, id: Uuid) -> Arc<Self> {
        let StoreOptions { mut kind, memory_limit, directory } = options;
        if kind == StoreKind::RocksDb && !Disk::AVAILABLE {
            tracing::warn!("this build has no RocksDB: all state of the query is kept in memory");
            kind = StoreKind::Memory;
        }
        Arc::new(Stores { kind, budget: Budget::new(memory_limit), directory, id, disk: Mutex::new(None) })
    }

    /// Stores in memory, whatever they need.
    pub fn unlimited() -> Arc<Self> {
        Self::new(StoreOptions { memory_limit: u64::MAX, ..StoreOptions::default() }, Uuid::nil())
    }

    /// An empty store for the rows of these key groups. `table` is the number of the table among all of the query.
    ///
    /// # Errors
    /// Those of RocksDB and its working directory, where rows are there first of all.
    pub fn open(self: &Arc<Self>, table: u16, shape: Shape, groups: Range<u16>) -> Result<Box<dyn Store>> {
        let mut store = LayeredStore::new(self.clone(), table, shape, groups);
        if self.kind == StoreKind::RocksDb {
            store.attach()?;
        }
        Ok(Box::new(store))
    }

    /// Whether working with the stores may wait for a disk.
    pub fn may_block(&self) -> bool {
        self.disk.lock().is_some()
    }

    /// What RocksDB did and has, under Spark's names; empty without it.
    pub fn metrics(&self) -> BTreeMap<String, i64> {
        self.disk.lock().as_ref().map(|disk| disk.metrics()).unwrap_or_default()
    }

    /// Bytes of memory that RocksDB uses.
    pub fn disk_memory(&self) -> u64 {
        self.disk.lock().as_ref().map_or(0, |disk| disk.memory())
    }

    /// The disk, opened if it was not.
    fn disk(&self) -> Result<Arc<Disk>> {
        let mut disk = self.disk.lock();
        if let Some(disk) = &*disk {
            return Ok(disk.clone());
        }
        let opened = Arc::new(Disk::open(&self.directory, self.id, self.budget.for_disk())?);
        self.budget.share_with_disk();
        Ok(disk.insert(opened).clone())
    }
}
