//! RocksDB: one database a query, in its working directory, without a log of its own.
//!
//! ```text
//! table u16 | key | sub (tables with many values)        → value, after its expiry where that belongs to the value
//! table u16 with the highest bit | key group | expiry | rest of the key | sub   → nothing: where to look for rows that expire
//! ```
//!
//! Numbers are in the order of their bytes. Where the expiry is in the key, what expires is the beginning of each key group; where it belongs to the
//! value, an entry of the second kind leads to it, and may be out of date.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_core::{Error, ErrorKind, Result};
use rocksdb::statistics::{StatsLevel, Ticker};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, LogLevel, Options, ReadOptions, WriteBatch, WriteBufferManager, WriteOptions,
    properties,
};
use uuid::Uuid;

use super::directory::WorkingDirectory;
use super::disk::{DiskTable, Entry};
use super::{ExpiryOf, PerKey, Shape, Visit};
use crate::state::key::{self, EXPIRY_BYTES, GROUP_BYTES, NEVER};

const TABLE_BYTES: usize = 2;
const SUB_BYTES: usize = 8;
/// Set in the table number of entries that lead to rows that expire.
const EXPIRIES: u16 = 1 << 15;
/// From so many rows of a key group on, what expires is removed as a range: many ranges make reading slow, many removals as well.
const RANGE_ROWS: usize = 1_024;
const FILE_BYTES: u64 = 64 << 20;

/// A query's database.
pub(super) struct Disk {
    // Closed before its directory goes.
    db: DB,
    options: Options,
    cache: Cache,
    gets: AtomicU64,
    puts: AtomicU64,
    _directory: WorkingDirectory,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("path", &self.db.path()).finish_non_exhaustive()
    }
}

fn failed(error: rocksdb::Error) -> Error {
    Error::new(
        ErrorKind::StoreUnavailable,
        "CANNOT_LOAD_STATE_STORE.UNCATEGORIZED",
        "RocksDB cannot read or write state in its working directory: check the local disk; the query goes on from its checkpoint when restarted",
    )
    .with_sqlstate("58030")
    .caused_by(error)
}

impl Disk {
    /// Whether this build has it.
    pub(super) const AVAILABLE: bool = true;

    /// A new database in a directory of its own, with so many bytes of memory.
    pub(super) fn open(parent: &Path, id: Uuid, memory: u64) -> Result<Self> {
        let directory = WorkingDirectory::create(parent, id)?;
        let memory = usize::try_from(memory).unwrap_or(usize::MAX >> 1).max(8 << 20);
        let cache = Cache::new_lru_cache(memory);
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&cache);
        blocks.set_block_size(16 << 10);
        blocks.set_bloom_filter(10.0, false);
        blocks.set_cache_index_and_filter_blocks(true);
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
        blocks.set_format_version(5);
        // Nothing is read again after closing: what is in write buffers then need not reach the disk.
        let mut options = Options::default().get_options_from_string("avoid_flush_during_shutdown=true").map_err(failed)?;
        options.create_if_missing(true);
        options.set_block_based_table_factory(&blocks);
        // Write buffers are part of the same memory.
        options.set_write_buffer_manager(&WriteBufferManager::new_write_buffer_manager_with_cache(memory / 2, false, cache.clone()));
        options.set_write_buffer_size((memory / 4).min(FILE_BYTES as usize));
        options.set_memtable_whole_key_filtering(true);
        options.set_memtable_prefix_bloom_ratio(0.05);
        options.set_target_file_size_base(FILE_BYTES);
        options.set_max_bytes_for_level_base(4 * FILE_BYTES);
        options.set_level_compaction_dynamic_level_bytes(true);
        options.set_compression_type(DBCompressionType::Lz4);
        options.set_max_background_jobs(2);
        options.set_max_open_files(512);
        options.set_keep_log_file_num(1);
        options.set_log_level(LogLevel::Warn);
        options.set_stats_dump_period_sec(0);
        options.set_stats_persist_period_sec(0);
        options.enable_statistics();
        options.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
        let db = DB::open(&options, directory.path().join("db")).map_err(failed)?;
        Ok(Disk { db, options, cache, gets: AtomicU64::new(0), puts: AtomicU64::new(0), _directory: directory })
    }

    /// The rows of one table of one task: none, whatever was there.
    pub(super) fn table(self: &Arc<Self>, table: u16, shape: Shape, groups: Range<u16>) -> Result<Box<dyn DiskTable>> {
        let earliest = groups.clone().map(|_| NEVER).collect();
        let table = RocksTable { disk: self.clone(), table: table & !EXPIRIES, shape, groups: groups.clone(), earliest };
        let mut batch = WriteBatch::default();
        for flag in [0, EXPIRIES] {
            batch.delete_range(table.group(flag, groups.start), table.group(flag, groups.end));
        }
        self.write(batch)?;
        Ok(Box::new(table))
    }

    /// Bytes of memory in use: cached blocks and write buffers.
    pub(super) fn memory(&self) -> u64 {
        self.cache.get_usage() as u64
    }

    /// Counts since the query began, and sizes, under the names of Spark's RocksDB provider.
    pub(super) fn metrics(&self) -> BTreeMap<String, i64> {
        let ticker = |ticker: Ticker| self.options.get_ticker_count(ticker);
        let size = self.db.property_int_value(properties::TOTAL_SST_FILES_SIZE).ok().flatten().unwrap_or(0);
        let metrics = [
            ("rocksdbGetCount", self.gets.load(Ordering::Relaxed)),
            ("rocksdbPutCount", self.puts.load(Ordering::Relaxed)),
            ("rocksdbReadBlockCacheHitCount", ticker(Ticker::BlockCacheHit)),
            ("rocksdbReadBlockCacheMissCount", ticker(Ticker::BlockCacheMiss)),
            ("rocksdbTotalBytesRead", ticker(Ticker::BytesRead) + ticker(Ticker::NumberMultigetBytesRead)),
            ("rocksdbTotalBytesWritten", ticker(Ticker::BytesWritten)),
            ("rocksdbTotalBytesReadThroughIterator", ticker(Ticker::IterBytesRead)),
            ("rocksdbTotalBytesReadByCompaction", ticker(Ticker::CompactReadBytes)),
            ("rocksdbTotalBytesWrittenByCompaction", ticker(Ticker::CompactWriteBytes)),
            ("rocksdbTotalBytesWrittenByFlush", ticker(Ticker::FlushWriteBytes)),
            ("rocksdbWriterStallLatencyMs", ticker(Ticker::StallMicros) / 1_000),
            ("rocksdbPinnedBlocksMemoryUsage", self.cache.get_pinned_usage() as u64),
            ("rocksdbBlockCacheUsage", self.cache.get_usage() as u64),
            ("rocksdbSstFileSize", size),
        ];
        metrics.into_iter().map(|(name, value)| (name.to_owned(), i64::try_from(value).unwrap_or(i64::MAX))).collect()
    }

    fn write(&self, batch: WriteBatch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        self.db.write_opt(batch, &options).map_err(failed)
    }
}

struct RocksTable {
    disk: Arc<Disk>,
    table: u16,
    shape: Shape,
    groups: Range<u16>,
    /// No row of each group expires before this.
    earliest: Vec<i64>,
}

impl fmt::Debug for RocksTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocksTable").field("table", &self.table).field("groups", &self.groups).finish_non_exhaustive()
    }
}

impl RocksTable {
    /// Where a row is.
    fn row(&self, key: &[u8], sub: i64) -> Vec<u8> {
        let mut row = Vec::with_capacity(TABLE_BYTES + key.len() + SUB_BYTES);
        row.extend_from_slice(&self.table.to_be_bytes());
        row.extend_from_slice(key);
        if self.shape.per_key == PerKey::Many {
            row.extend_from_slice(&key::ordered(sub));
        }
        row
    }

    /// The key and the number of a row.
    fn parse<'a>(&self, row: &'a [u8]) -> (&'a [u8], i64) {
        let key = row.get(TABLE_BYTES..).unwrap_or_default();
        match self.shape.per_key {
            PerKey::One => (key, 0),
            PerKey::Many => {
                let (key, sub) = key.split_last_chunk::<SUB_BYTES>().map_or((key, [0; SUB_BYTES]), |(key, sub)| (key, *sub));
                (key, key::from_ordered(sub))
            }
        }
    }

    /// The value of a row and its expiry.
    fn value<'a>(&self, key: &[u8], stored: &'a [u8]) -> (&'a [u8], i64) {
        match self.shape.expiry {
            ExpiryOf::Nothing => (stored, NEVER),
            ExpiryOf::Key => (stored, key::expiry(key)),
            ExpiryOf::Value => {
                stored.split_first_chunk::<EXPIRY_BYTES>().map_or((stored, NEVER), |(expiry, value)| (value, key::from_ordered(*expiry)))
            }
        }
    }

    /// What leads to a row that expires.
    fn hint(&self, key: &[u8], sub: i64, expiry: i64) -> Vec<u8> {
        let mut hint = Vec::with_capacity(TABLE_BYTES + key.len() + EXPIRY_BYTES + SUB_BYTES);
        let (group, rest) = key.split_at_checked(GROUP_BYTES).unwrap_or((key, &[]));
        hint.extend_from_slice(&(self.table | EXPIRIES).to_be_bytes());
        hint.extend_from_slice(group);
        hint.extend_from_slice(&key::ordered(expiry));
        hint.extend_from_slice(rest);
        hint.extend_from_slice(&key::ordered(sub));
        hint
    }

    /// The key and the number that a hint leads to.
    fn lead(hint: &[u8]) -> Option<(Vec<u8>, i64)> {
        let (group, rest) = hint.get(TABLE_BYTES..)?.split_at_checked(GROUP_BYTES)?;
        let (columns, sub) = rest.get(EXPIRY_BYTES..)?.split_last_chunk::<SUB_BYTES>()?;
        Some(([group, columns].concat(), key::from_ordered(*sub)))
    }

    /// The beginning of a key group among the rows, or among what leads to them.
    fn group(&self, flag: u16, group: u16) -> Vec<u8> {
        [(self.table | flag).to_be_bytes(), group.to_be_bytes()].concat()
    }

    /// Visits entries from `from` on and before `to` until the visitor answers `false`.
    fn range(&self, from: &[u8], to: Vec<u8>, mut visit: impl FnMut(&[u8], &[u8]) -> Result<bool>) -> Result<()> {
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(to);
        let mut entries = self.disk.db.raw_iterator_opt(options);
        entries.seek(from);
        while let Some((key, value)) = entries.item() {
            if !visit(key, value)? {
                return Ok(());
            }
            entries.next();
        }
        entries.status().map_err(failed)
    }

    /// What expires in one group; returns when the next row does.
    fn take_group(&self, group: u16, instant: i64, batch: &mut WriteBatch, take: &mut Visit<'_>) -> Result<i64> {
        let by_value = self.shape.expiry == ExpiryOf::Value;
        let from = self.group(if by_value { EXPIRIES } else { 0 }, group);
        let mut to = from.clone();
        to.extend_from_slice(&[u8::MAX; EXPIRY_BYTES]);
        let (mut next, mut last, mut passed) = (NEVER, None, Vec::new());
        self.range(&from, to, |entry, stored| {
            let expiry = key::expiry(entry.get(TABLE_BYTES..).unwrap_or_default());
            if expiry > instant {
                next = expiry;
                return Ok(false);
            }
            if by_value {
                if let Some((key, sub)) = Self::lead(entry) {
                    let row = self.row(&key, sub);
                    if let Some(stored) = self.disk.db.get_pinned(&row).map_err(failed)? {
                        let (value, current) = self.value(&key, &stored);
                        if current == expiry && take(&key, sub, value) {
                            batch.delete(row);
                        }
                    }
                }
            } else {
                let (key, sub) = self.parse(entry);
                take(key, sub, stored);
            }
            if passed.len() < RANGE_ROWS {
                passed.push(entry.to_vec());
            } else {
                last = Some(expiry);
            }
            Ok(true)
        })?;
        match last {
            None => passed.into_iter().for_each(|entry| batch.delete(entry)),
            Some(last) => {
                let end = [from.as_slice(), &key::ordered(last.saturating_add(1))].concat();
                batch.delete_range(from, end);
            }
        }
        Ok(next)
    }
}

impl DiskTable for RocksTable {
    fn get_many(&mut self, keys: &[&[u8]], visit: &mut dyn FnMut(usize, &[u8], i64)) -> Result<()> {
        self.disk.gets.fetch_add(keys.len() as u64, Ordering::Relaxed);
        let rows: Vec<Vec<u8>> = keys.iter().map(|key| self.row(key, 0)).collect();
        for (index, (found, key)) in self.disk.db.multi_get(rows).into_iter().zip(keys).enumerate() {
            if let Some(stored) = found.map_err(failed)? {
                let (value, expiry) = self.value(key, &stored);
                visit(index, value, expiry);
            }
        }
        Ok(())
    }

    fn values(&mut self, key: &[u8], visit: &mut dyn FnMut(i64, &[u8])) -> Result<()> {
        self.disk.gets.fetch_add(1, Ordering::Relaxed);
        let from = self.row(key, i64::MIN);
        // The number after the largest is that of no row.
        let to = self.row(key, i64::MAX);
        self.range(&from, to, |entry, stored| {
            let (found, sub) = self.parse(entry);
            if found == key {
                visit(sub, self.value(key, stored).0);
            }
            Ok(true)
        })
    }

    fn get(&mut self, key: &[u8], sub: i64) -> Result<Option<Box<[u8]>>> {
        self.disk.gets.fetch_add(1, Ordering::Relaxed);
        let stored = self.disk.db.get_pinned(self.row(key, sub)).map_err(failed)?;
        Ok(stored.map(|stored| self.value(key, &stored).0.into()))
    }

    fn first_expiry(&self) -> Option<i64> {
        self.earliest.iter().copied().filter(|expiry| *expiry != NEVER).min()
    }

    fn has(&mut self, key: &[u8], sub: i64) -> Result<bool> {
        self.disk.gets.fetch_add(1, Ordering::Relaxed);
        Ok(self.disk.db.get_pinned(self.row(key, sub)).map_err(failed)?.is_some())
    }

    fn scan(&self, group: u16, visit: &mut Visit<'_>) -> Result<()> {
        self.range(&self.group(0, group), self.group(0, group + 1), |entry, stored| {
            let (key, sub) = self.parse(entry);
            Ok(visit(key, sub, self.value(key, stored).0))
        })
    }

    fn take_expired(&mut self, instant: i64, take: &mut Visit<'_>) -> Result<()> {
        let mut batch = WriteBatch::default();
        for (place, group) in self.groups.clone().enumerate() {
            if self.earliest.get(place).is_some_and(|earliest| *earliest <= instant) {
                let next = self.take_group(group, instant, &mut batch, take)?;
                if let Some(earliest) = self.earliest.get_mut(place) {
                    *earliest = next;
                }
            }
        }
        self.disk.write(batch)
    }

    fn write(&mut self, entries: &mut dyn Iterator<Item = Entry<'_>>) -> Result<()> {
        let mut batch = WriteBatch::default();
        let mut puts = 0;
        for entry in entries {
            match entry {
                Entry::Remove { key, sub } => batch.delete(self.row(key, sub)),
                Entry::Put { key, sub, value, expiry } => {
                    puts += 1;
                    let row = self.row(key, sub);
                    if self.shape.expiry == ExpiryOf::Value {
                        batch.put(row, [&key::ordered(expiry), value].concat());
                        if expiry != NEVER {
                            batch.put(self.hint(key, sub, expiry), b"");
                        }
                    } else {
                        batch.put(row, value);
                    }
                    let place = usize::from(key::group(key).saturating_sub(self.groups.start));
                    if let Some(earliest) = self.earliest.get_mut(place).filter(|_| self.shape.expiry != ExpiryOf::Nothing) {
                        *earliest = expiry.min(*earliest);
                    }
                }
            }
        }
        self.disk.puts.fetch_add(puts, Ordering::Relaxed);
        self.disk.write(batch)
    }
}
