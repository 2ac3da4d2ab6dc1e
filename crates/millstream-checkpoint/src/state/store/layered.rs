//! A store of two layers: rows in memory, and the others on disk where memory has no room for all.
//!
//! A row in memory is what counts, whatever disk has of it. Reading a key that is on disk brings it into memory if the key has one value; what
//! has many (rows of a join) is read where it is. Disk is written when a batch settles, in one go.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use millstream_core::Result;

use super::disk::{Disk, DiskTable, Entry};
use super::memory::{MemoryStore, OnDisk};
use super::{ExpiryOf, PerKey, Shape, Store, StoreKind, Stores, Take, Visit};

/// Rows that memory gives up are written to disk in batches of about so many bytes.
const WRITE_BYTES: usize = 4 << 20;

/// A table in memory and on disk.
#[derive(Debug)]
pub(super) struct LayeredStore {
    stores: Arc<Stores>,
    table: u16,
    shape: Shape,
    groups: Range<u16>,
    memory: MemoryStore,
    disk: Option<Cold>,
    /// Bytes of memory that the budget knows of.
    reported: u64,
}

/// The layer on disk.
#[derive(Debug)]
struct Cold {
    table: Box<dyn DiskTable>,
    /// Whether every row is written when its batch settles.
    all: bool,
    /// Rows that are on disk and not in memory.
    rows: u64,
    /// Rows that were removed in this batch, and are on disk still.
    gone: HashMap<Box<[u8]>, HashSet<i64>>,
    /// Keys that this batch looked for on disk in vain.
    absent: HashSet<Box<[u8]>>,
    /// Rows of this batch that are not on disk as they are, where all are written.
    dirty: Vec<(Box<[u8]>, i64)>,
}

impl Cold {
    fn is_gone(&self, key: &[u8], sub: i64) -> bool {
        self.gone.get(key).is_some_and(|subs| subs.contains(&sub))
    }

    fn forget(&mut self, key: &[u8], sub: i64) {
        match self.gone.get_mut(key) {
            Some(subs) => drop(subs.insert(sub)),
            None => drop(self.gone.insert(key.into(), HashSet::from([sub]))),
        }
    }

    /// Whether a row that is not in memory can be on disk, as far as memory knows.
    fn may_have(&self, key: &[u8], sub: i64) -> bool {
        self.rows > 0 && !self.absent.contains(key) && !self.is_gone(key, sub)
    }

    /// Whether a row that is not in memory is on disk.
    fn has(&mut self, key: &[u8], sub: i64) -> Result<bool> {
        Ok(self.may_have(key, sub) && self.table.has(key, sub)?)
    }
}

impl LayeredStore {
    pub(super) fn new(stores: Arc<Stores>, table: u16, shape: Shape, groups: Range<u16>) -> Self {
        let memory = MemoryStore::new(groups.clone());
        LayeredStore { stores, table, shape, groups, memory, disk: None, reported: 0 }
    }

    /// Adds the layer on disk.
    pub(super) fn attach(&mut self) -> Result<()> {
        let table = self.stores.disk()?.table(self.table, self.shape, self.groups.clone())?;
        self.attach_to(table);
        Ok(())
    }

    pub(super) fn attach_to(&mut self, table: Box<dyn DiskTable>) {
        let all = self.stores.kind == StoreKind::RocksDb;
        self.disk = Some(Cold { table, all, rows: 0, gone: HashMap::new(), absent: HashSet::new(), dirty: Vec::new() });
    }

    fn add(&mut self, key: &[u8], sub: i64, value: &[u8], expiry: i64, on_disk: OnDisk) {
        self.memory.add(key, sub, value, expiry, on_disk);
        if let Some(cold) = self.disk.as_mut().filter(|cold| cold.all && on_disk != OnDisk::Same) {
            cold.dirty.push((key.into(), sub));
        }
    }

    /// Keys with one value: those that are on disk come into memory.
    fn get_single(&mut self, keys: &[&[u8]], visit: &mut dyn FnMut(usize, i64, &[u8])) -> Result<()> {
        let mut missing = Vec::new();
        let reads_disk = self.disk.as_ref().is_some_and(|cold| cold.rows > 0);
        for (index, key) in keys.iter().enumerate() {
            match self.memory.get(key).first() {
                Some(value) => visit(index, value.sub, &value.bytes),
                None if reads_disk => missing.push(index),
                None => {}
            }
        }
        let Some(cold) = self.disk.as_mut().filter(|_| !missing.is_empty()) else { return Ok(()) };
        missing.retain(|index| keys.get(*index).is_some_and(|key| !cold.absent.contains(*key) && !cold.is_gone(key, 0)));
        let asked: Vec<&[u8]> = missing.iter().filter_map(|index| keys.get(*index).copied()).collect();
        let mut found = vec![false; asked.len()];
        cold.table.get_many(&asked, &mut |at, value, expiry| {
            let (Some(index), Some(key), Some(found)) = (missing.get(at), asked.get(at), found.get_mut(at)) else { return };
            *found = true;
            visit(*index, 0, value);
            // A key may be asked for twice.
            if self.memory.row(key, 0).is_none() {
                self.memory.add(key, 0, value, expiry, OnDisk::Same);
                cold.rows -= 1;
            }
        })?;
        cold.absent.extend(asked.iter().zip(found).filter(|(_, found)| !found).map(|(key, _)| Box::from(*key)));
        Ok(())
    }

    /// Keys with many values: those in memory and those on disk, in order.
    fn get_multiple(&mut self, keys: &[&[u8]], visit: &mut dyn FnMut(usize, i64, &[u8])) -> Result<()> {
        for (index, key) in keys.iter().enumerate() {
            let mut in_memory = self.memory.get(key).iter().peekable();
            if let Some(cold) = self.disk.as_mut().filter(|cold| cold.rows > 0 && !cold.absent.contains(*key)) {
                let gone = cold.gone.get(*key);
                let mut any = false;
                cold.table.values(key, &mut |sub, value| {
                    any = true;
                    while let Some(value) = in_memory.next_if(|value| value.sub < sub) {
                        visit(index, value.sub, &value.bytes);
                    }
                    let newer = in_memory.peek().is_some_and(|value| value.sub == sub);
                    if !newer && !gone.is_some_and(|gone| gone.contains(&sub)) {
                        visit(index, sub, value);
                    }
                })?;
                if !any {
                    cold.absent.insert((*key).into());
                }
            }
            in_memory.for_each(|value| visit(index, value.sub, &value.bytes));
        }
        Ok(())
    }

    /// Writes what changed where all rows are on disk, and removes from disk what is gone.
    fn write(&mut self) -> Result<()> {
        let Some(cold) = self.disk.as_mut() else { return Ok(()) };
        cold.absent.clear();
        let (dirty, gone) = (std::mem::take(&mut cold.dirty), std::mem::take(&mut cold.gone));
        if dirty.is_empty() && gone.is_empty() {
            return Ok(());
        }
        let memory = &self.memory;
        let removed = gone.iter().flat_map(|(key, subs)| subs.iter().map(|sub| Entry::Remove { key, sub: *sub }));
        let put = dirty.iter().filter_map(|(key, sub)| {
            let row = memory.row(key, *sub)?;
            Some(Entry::Put { key, sub: *sub, value: &row.bytes, expiry: row.expiry })
        });
        cold.table.write(&mut removed.chain(put))?;
        dirty.iter().for_each(|(key, sub)| self.memory.written(key, *sub));
        Ok(())
    }

    /// Gives up rows in memory until its part of the budget is kept.
    fn make_room(&mut self) -> Result<()> {
        let excess = self.stores.budget.excess(self.memory.bytes());
        if excess == 0 || (self.disk.is_none() && !Disk::AVAILABLE) {
            return Ok(());
        }
        if self.disk.is_none() {
            self.attach()?;
            tracing::info!(table = self.table, bytes = self.memory.bytes(), "state outgrows memory: what is not in use goes to RocksDB");
        }
        let Some(cold) = self.disk.as_mut() else { return Ok(()) };
        let (mut pending, mut bytes, mut outcome) = (Vec::new(), 0, Ok(()));
        let (table, rows) = (&mut cold.table, &mut cold.rows);
        self.memory.evict(excess, &mut |key, value| {
            *rows += 1;
            if value.on_disk == OnDisk::Same {
                return;
            }
            bytes += key.len() + value.bytes.len();
            pending.push((Box::<[u8]>::from(key), value));
            if bytes >= WRITE_BYTES && outcome.is_ok() {
                outcome = write_rows(table.as_mut(), &pending);
                pending.clear();
                bytes = 0;
            }
        });
        outcome?;
        write_rows(table.as_mut(), &pending)
    }

    fn report(&mut self) {
        let now = self.memory.bytes();
        self.stores.budget.report(self.reported, now);
        self.reported = now;
    }
}

fn write_rows(table: &mut dyn DiskTable, rows: &[(Box<[u8]>, super::memory::Value)]) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    table.write(&mut rows.iter().map(|(key, value)| Entry::Put { key, sub: value.sub, value: &value.bytes, expiry: value.expiry }))
}

impl Store for LayeredStore {
    fn get_many(&mut self, keys: &[&[u8]], visit: &mut dyn FnMut(usize, i64, &[u8])) -> Result<()> {
        match self.shape.per_key {
            PerKey::One => self.get_single(keys, visit),
            PerKey::Many => self.get_multiple(keys, visit),
        }
    }

    fn get(&mut self, key: &[u8], sub: i64) -> Result<Option<Box<[u8]>>> {
        if let Some(value) = self.memory.row(key, sub) {
            return Ok(Some(value.bytes.clone()));
        }
        match &mut self.disk {
            Some(cold) if cold.may_have(key, sub) && (sub == 0 || self.shape.per_key == PerKey::Many) => cold.table.get(key, sub),
            _ => Ok(None),
        }
    }

    fn put(&mut self, key: &[u8], sub: i64, value: &[u8], expiry: i64) -> Result<bool> {
        if let Some(known) = self.memory.replace(key, sub, value, expiry) {
            if let Some(cold) = self.disk.as_mut().filter(|cold| cold.all && known == OnDisk::Same) {
                cold.dirty.push((key.into(), sub));
            }
            return Ok(true);
        }
        let Some(cold) = &mut self.disk else {
            self.add(key, sub, value, expiry, OnDisk::Nothing);
            return Ok(false);
        };
        let existed = cold.has(key, sub)?;
        if existed {
            cold.rows -= 1;
        }
        // What was removed in this batch is on disk until the batch settles.
        let again = cold.gone.get_mut(key).is_some_and(|subs| subs.remove(&sub));
        let on_disk = if existed || again { OnDisk::Older } else { OnDisk::Nothing };
        self.add(key, sub, value, expiry, on_disk);
        Ok(existed)
    }

    fn insert(&mut self, key: &[u8], sub: i64, value: &[u8], expiry: i64) -> Result<()> {
        self.add(key, sub, value, expiry, OnDisk::Nothing);
        Ok(())
    }

    fn remove(&mut self, key: &[u8], sub: i64) -> Result<bool> {
        if let Some(value) = self.memory.remove(key, sub) {
            if let Some(cold) = self.disk.as_mut().filter(|_| value.on_disk != OnDisk::Nothing) {
                cold.forget(key, sub);
            }
            return Ok(true);
        }
        let Some(cold) = &mut self.disk else { return Ok(false) };
        let existed = cold.has(key, sub)?;
        if existed {
            cold.rows -= 1;
            cold.forget(key, sub);
        }
        Ok(existed)
    }

    fn take_expired(&mut self, instant: i64, take: &mut Take<'_>) -> Result<()> {
        if self.shape.expiry == ExpiryOf::Nothing {
            return Ok(());
        }
        let disk = &mut self.disk;
        self.memory.take_expired(instant, &mut |key, value| {
            take(key, value.sub, &value.bytes);
            if let Some(cold) = disk.as_mut().filter(|_| value.on_disk != OnDisk::Nothing) {
                cold.forget(key, value.sub);
            }
        });
        let Some(cold) = disk else { return Ok(()) };
        let (memory, gone, rows) = (&self.memory, &mut cold.gone, &mut cold.rows);
        cold.table.take_expired(instant, &mut |key, sub, value| {
            if let Some(subs) = gone.get_mut(key)
                && subs.remove(&sub)
            {
                return true;
            }
            // Memory has it with a later expiry.
            if memory.row(key, sub).is_some() {
                return false;
            }
            *rows -= 1;
            take(key, sub, value);
            true
        })
    }

    fn first_expiry(&self) -> Option<i64> {
        let on_disk = self.disk.as_ref().filter(|cold| cold.rows > 0).and_then(|cold| cold.table.first_expiry());
        self.memory.first_expiry().into_iter().chain(on_disk).min()
    }

    fn scan(&self, groups: Range<u16>, visit: &mut Visit<'_>) -> Result<()> {
        for group in groups.start.max(self.groups.start)..groups.end.min(self.groups.end) {
            if !self.memory.scan(group, &mut |key, value| visit(key, value.sub, &value.bytes)) {
                return Ok(());
            }
            let Some(cold) = self.disk.as_ref().filter(|cold| cold.rows > 0) else { continue };
            let mut go_on = true;
            cold.table.scan(group, &mut |key, sub, value| {
                if self.memory.row(key, sub).is_none() && !cold.is_gone(key, sub) {
                    go_on = visit(key, sub, value);
                }
                go_on
            })?;
            if !go_on {
                return Ok(());
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        self.write()?;
        self.report();
        self.make_room()?;
        self.report();
        self.memory.tick();
        Ok(())
    }

    fn len(&self) -> u64 {
        self.memory.len() + self.disk.as_ref().map_or(0, |cold| cold.rows)
    }

    fn bytes(&self) -> u64 {
        self.memory.bytes()
    }
}

impl Drop for LayeredStore {
    fn drop(&mut self) {
        self.stores.budget.report(self.reported, 0);
    }
}
