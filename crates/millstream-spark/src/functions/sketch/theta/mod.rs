//! Theta sketches of the DataSketches library, which count distinct values and can be united, intersected and subtracted.
//!
//! A sketch is a set of hashes below a bound, *theta*; values whose hashes are at or above it are left out, which scales the count.

mod functions;
mod image;
mod operations;

use super::murmur;

pub(super) use functions::register;
pub(crate) use operations::{Intersection, Union, difference};

/// Theta of a sketch that leaves nothing out.
pub(super) const ALL: u64 = i64::MAX as u64;

/// A finished sketch: hashes in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ThetaSketch {
    /// Hashes below `theta`, ascending.
    pub(super) hashes: Vec<u64>,
    pub(super) theta: u64,
    /// No value was seen; a sketch without hashes may still have seen some.
    pub(super) empty: bool,
}

impl ThetaSketch {
    /// A sketch that has seen nothing.
    pub(crate) fn empty() -> Self {
        ThetaSketch { hashes: Vec::new(), theta: ALL, empty: true }
    }

    /// The estimated number of distinct values.
    pub(crate) fn estimate(&self) -> f64 {
        self.hashes.len() as f64 / (self.theta as f64 / ALL as f64)
    }
}

/// A sketch that takes in values: the 2^`lg_entries` smallest hashes, and the next as theta.
#[derive(Clone, Debug)]
pub(crate) struct ThetaBuilder {
    hashes: std::collections::BTreeSet<u64>,
    entries: usize,
    theta: u64,
    empty: bool,
}

impl ThetaBuilder {
    /// A sketch of 2^`lg_entries` hashes.
    pub(crate) fn new(lg_entries: u8) -> Self {
        ThetaBuilder { hashes: std::collections::BTreeSet::new(), entries: 1 << lg_entries, theta: ALL, empty: true }
    }

    /// Counts a number.
    pub(crate) fn add_long(&mut self, number: i64) {
        self.add_hashed(murmur::hash_long(number));
    }

    /// Counts a double.
    pub(crate) fn add_double(&mut self, number: f64) {
        self.add_hashed(murmur::hash_double(number));
    }

    /// Counts bytes; no bytes are no value.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.add_hashed(murmur::hash(bytes));
        }
    }

    fn add_hashed(&mut self, (hash, _): (u64, u64)) {
        self.empty = false;
        self.add(hash >> 1);
    }

    /// Adds a hash. Past the nominal number the largest one becomes the bound.
    pub(super) fn add(&mut self, hash: u64) {
        if hash == 0 || hash >= self.theta {
            return;
        }
        self.hashes.insert(hash);
        if self.hashes.len() > self.entries
            && let Some(largest) = self.hashes.pop_last()
        {
            self.theta = largest;
        }
    }

    /// Lowers theta.
    pub(super) fn bound(&mut self, theta: u64) {
        if theta < self.theta {
            self.theta = theta;
            self.hashes.split_off(&theta);
        }
    }

    /// Bytes of memory.
    pub(crate) fn size(&self) -> usize {
        size_of_val(self) + self.hashes.len() * 2 * size_of::<u64>()
    }

    /// The sketch of what was counted.
    pub(crate) fn finish(&self) -> ThetaSketch {
        ThetaSketch { hashes: self.hashes.iter().copied().collect(), theta: self.theta, empty: self.empty }
    }
}
