//! The hash table that a sketch grows in.

use super::{Mode, Number, Summary, TupleSketch};
use crate::functions::sketch::murmur;
use crate::functions::sketch::theta::ALL;

/// The logarithm of the smallest table, and of the factor by which one grows.
const LG_LEAST: u32 = 5;
const LG_GROWTH: u32 = 3;

/// Hashes by open addressing; a free place is `None`.
#[derive(Clone, Debug)]
pub(crate) struct Table<N> {
    places: Vec<Option<(u64, Summary<N>)>>,
    count: usize,
    /// The number of entries that are kept when there are too many.
    nominal: usize,
    pub(super) theta: u64,
    pub(super) empty: bool,
}

impl<N: Number> Table<N> {
    /// An empty table for 2^`lg_entries` entries.
    pub(crate) fn new(lg_entries: u8) -> Self {
        let target = u32::from(lg_entries) + 1;
        let lg = target.saturating_sub(LG_LEAST) % LG_GROWTH + LG_LEAST;
        Table { places: vec![None; 1 << lg], count: 0, nominal: 1 << lg_entries, theta: ALL, empty: true }
    }

    /// Takes in a number for an integer key.
    pub(crate) fn add_long(&mut self, key: i64, value: N, mode: Mode) {
        self.add(murmur::hash_long(key), value, mode);
    }

    /// Takes in a number for a double key.
    pub(crate) fn add_double(&mut self, key: f64, value: N, mode: Mode) {
        self.add(murmur::hash_double(key), value, mode);
    }

    /// Takes in a number for a key of bytes; no bytes are no key.
    pub(crate) fn add_bytes(&mut self, key: &[u8], value: N, mode: Mode) {
        if !key.is_empty() {
            self.add(murmur::hash(key), value, mode);
        }
    }

    fn add(&mut self, (hash, _): (u64, u64), value: N, mode: Mode) {
        self.empty = false;
        self.update(hash >> 1, |summary| {
            let mut summary = summary.unwrap_or_else(|| Summary::new(mode));
            summary.add(value);
            summary
        });
    }

    /// Changes the summary of a hash below theta, or makes one.
    pub(super) fn update(&mut self, hash: u64, change: impl FnOnce(Option<Summary<N>>) -> Summary<N>) {
        if hash == 0 || hash >= self.theta {
            return;
        }
        let place = self.place(hash);
        let Some(place) = self.places.get_mut(place) else { return };
        let before = place.map(|(_, summary)| summary);
        *place = Some((hash, change(before)));
        self.count += usize::from(before.is_none());
        self.make_room();
    }

    /// The place of a hash, or the free one for it.
    fn place(&self, hash: u64) -> usize {
        let mask = self.places.len() - 1;
        let stride = 2 * ((hash >> self.places.len().trailing_zeros()) as usize & 0x7f) + 1;
        let mut place = hash as usize & mask;
        for _ in 0..self.places.len() {
            match self.places.get(place) {
                Some(Some((there, _))) if *there != hash => place = (place + stride) & mask,
                _ => break,
            }
        }
        place
    }

    fn make_room(&mut self) {
        let size = self.places.len();
        if size > self.nominal {
            if self.count > size * 15 / 16 {
                let mut hashes: Vec<u64> = self.entries().map(|(hash, _)| hash).collect();
                hashes.sort_unstable();
                self.theta = hashes.get(self.nominal).copied().unwrap_or(self.theta);
                self.rehash(size);
            }
        } else if self.count > size / 2 {
            self.rehash(size << LG_GROWTH);
        }
    }

    fn rehash(&mut self, size: usize) {
        let before = std::mem::replace(&mut self.places, vec![None; size]);
        self.count = 0;
        for (hash, summary) in before.into_iter().flatten().filter(|(hash, _)| *hash < self.theta) {
            let place = self.place(hash);
            if let Some(place) = self.places.get_mut(place) {
                *place = Some((hash, summary));
                self.count += 1;
            }
        }
    }

    /// The entries in the order of the table.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, Summary<N>)> {
        self.places.iter().copied().flatten()
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn nominal(&self) -> usize {
        self.nominal
    }

    /// Whether no value was seen.
    pub(crate) fn is_empty(&self) -> bool {
        self.empty
    }

    /// Bytes of memory.
    pub(crate) fn size(&self) -> usize {
        size_of_val(self) + self.places.capacity() * size_of::<Option<(u64, Summary<N>)>>()
    }

    /// The sketch of what was taken in.
    pub(crate) fn finish(&self) -> TupleSketch<N> {
        TupleSketch { entries: self.entries().collect(), theta: if self.empty { ALL } else { self.theta }, empty: self.empty }
    }
}

/// The order in which a table for exactly these hashes gives them.
pub(super) fn ordered<N: Number>(entries: Vec<(u64, Summary<N>)>) -> Vec<(u64, Summary<N>)> {
    let wanted = (entries.len() * 4).div_ceil(3).next_power_of_two().max(16);
    let mut table = Table { places: vec![None; wanted], count: 0, nominal: usize::MAX, theta: u64::MAX, empty: false };
    for (hash, summary) in entries {
        let place = table.place(hash);
        if let Some(place) = table.places.get_mut(place) {
            *place = Some((hash, summary));
        }
    }
    table.entries().collect()
}
