//! KLL sketches of the DataSketches library, which give quantiles of very many numbers.
//!
//! Numbers are kept in levels; one at level *n* stands for 2^n. A level that is full gives every second of its numbers, in order, to the next.

mod functions;
mod image;
mod item;
mod summary;
mod view;

pub(super) use functions::register;
pub(crate) use item::{Bigint, Double, Float, Item, Native, Numbers};

/// The size of a sketch where none is given.
pub(crate) const DEFAULT_K: u16 = 200;
/// The smallest size.
pub(crate) const LEAST_K: i32 = 8;

/// The smallest capacity of a level.
const M: usize = 8;

/// A sketch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KllSketch<T> {
    k: u16,
    /// The smallest size of the sketches that were merged into this one.
    least_k: u16,
    n: u64,
    range: Option<(T, T)>,
    /// Level 0 has the number that came last in front and is not in order; the others are.
    levels: Vec<Vec<T>>,
    first_level_sorted: bool,
    coin: u64,
}

impl<T: Item> KllSketch<T> {
    /// An empty sketch.
    pub(crate) fn new(k: u16) -> Self {
        KllSketch { k, least_k: k, n: 0, range: None, levels: vec![Vec::new()], first_level_sorted: false, coin: 0x9E37_79B9_7F4A_7C15 }
    }

    /// Its size.
    pub(crate) fn k(&self) -> u16 {
        self.k
    }

    /// How many numbers it has seen.
    pub(crate) fn n(&self) -> u64 {
        self.n
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.levels.iter().map(|level| level.capacity() * size_of::<T>()).sum()
    }

    /// Adds a number; NaN is none.
    pub(crate) fn add(&mut self, item: T) {
        if item.is_nan() {
            return;
        }
        self.widen(item, item);
        if self.retained() >= self.capacity() {
            self.compress();
        }
        self.n += 1;
        self.first_level_sorted = false;
        if let Some(level) = self.levels.first_mut() {
            level.insert(0, item);
        }
    }

    /// Adds what another sketch has seen.
    pub(crate) fn merge(&mut self, other: &KllSketch<T>) {
        let Some((low, high)) = other.range else { return };
        let n = self.n + other.n;
        for item in other.levels.first().into_iter().flatten() {
            self.add(*item);
        }
        if other.levels.len() > 1 {
            for (level, items) in other.levels.iter().enumerate().skip(1) {
                if self.levels.len() <= level {
                    self.levels.push(Vec::new());
                }
                if let Some(mine) = self.levels.get_mut(level) {
                    *mine = merged(mine, items);
                }
            }
            self.compress_all();
            self.least_k = self.least_k.min(other.least_k);
        }
        self.n = n;
        self.widen(low, high);
    }

    fn widen(&mut self, low: T, high: T) {
        self.range = Some(match self.range {
            None => (low, high),
            Some((least, most)) => (if low.below(least) { low } else { least }, if most.below(high) { high } else { most }),
        });
    }

    fn retained(&self) -> usize {
        self.levels.iter().map(Vec::len).sum()
    }

    fn capacity(&self) -> usize {
        let levels = self.levels.len();
        (0..levels).map(|level| level_capacity(self.k, levels, level)).sum()
    }

    /// Makes room by halving the lowest full level.
    fn compress(&mut self) {
        let levels = self.levels.len();
        let full = self.levels.iter().enumerate().position(|(level, items)| items.len() >= level_capacity(self.k, levels, level));
        if let Some(level) = full {
            self.halve(level);
        }
    }

    /// Halves levels from below as long as there are too many numbers.
    fn compress_all(&mut self) {
        let (mut level, mut capacity) = (0, self.capacity());
        while level < self.levels.len() {
            let length = self.levels.get(level).map_or(0, Vec::len);
            if self.retained() >= capacity && length >= level_capacity(self.k, self.levels.len(), level) {
                self.halve(level);
                capacity = self.capacity();
            }
            level += 1;
        }
    }

    /// Gives half of a level to the next. Of an odd number one stays behind.
    fn halve(&mut self, level: usize) {
        if level + 1 >= self.levels.len() {
            self.levels.push(Vec::new());
        }
        let offset = self.toss();
        let sorted = level > 0 || self.first_level_sorted;
        let Some(items) = self.levels.get_mut(level) else { return };
        let rest = items.len() % 2;
        let mut moved = items.split_off(rest);
        if !sorted {
            moved.sort_by(|left, right| left.order(*right));
        }
        let Some(above) = self.levels.get_mut(level + 1) else { return };
        // Into an empty level the halving goes from the top down.
        let first = if above.is_empty() { 1 - offset } else { offset };
        let half: Vec<T> = moved.into_iter().skip(first).step_by(2).collect();
        *above = merged(&half, above);
    }

    /// 0 or 1, from a sequence of its own: the same numbers in the same order give the same sketch.
    fn toss(&mut self) -> usize {
        self.coin ^= self.coin << 13;
        self.coin ^= self.coin >> 7;
        self.coin ^= self.coin << 17;
        (self.coin >> 33 & 1) as usize
    }
}

/// Two sequences in order as one.
fn merged<T: Item>(left: &[T], right: &[T]) -> Vec<T> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.iter().copied().peekable(), right.iter().copied().peekable());
    while let Some(next) = match (left.peek(), right.peek()) {
        (Some(a), Some(b)) if !a.below(*b) => right.next(),
        (Some(_), _) => left.next(),
        (None, _) => right.next(),
    } {
        merged.push(next);
    }
    merged
}

/// How many numbers a level takes: two thirds of the next one, at least [`M`].
fn level_capacity(k: u16, levels: usize, level: usize) -> usize {
    let depth = levels.saturating_sub(level + 1);
    let part = |k: u128, depth: usize| -> u128 {
        let power = 3_u128.pow(u32::try_from(depth.min(60)).unwrap_or(60));
        (((k << 1) << depth.min(60)) / power).div_ceil(2)
    };
    let capacity = if depth <= 30 { part(u128::from(k), depth) } else { part(part(u128::from(k), depth / 2), depth - depth / 2) };
    usize::try_from(capacity).unwrap_or(usize::MAX).max(M)
}
