//! Tuple sketches of the DataSketches library: theta sketches whose hashes carry a number, the *summary*.
//!
//! The order of the hashes in an image is that of the library's hash table, which is why there is one of the same kind here.

mod functions;
mod image;
mod operations;
mod summary;
mod table;

pub(super) use functions::register;
pub(crate) use functions::{mode, size};
pub(crate) use operations::{Intersection, Union};
pub(crate) use summary::{Doubles, Integers, Mode, Native, Number, Numbers, Summary};
pub(crate) use table::Table;

use super::theta::ALL;

/// A finished sketch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TupleSketch<N> {
    /// Hashes below `theta` with their summaries.
    entries: Vec<(u64, Summary<N>)>,
    theta: u64,
    /// No value was seen.
    empty: bool,
}

impl<N: Number> TupleSketch<N> {
    /// The estimated number of distinct values.
    fn estimate(&self) -> f64 {
        self.entries.len() as f64 / self.fraction()
    }

    /// Which part of all hashes the sketch keeps.
    fn fraction(&self) -> f64 {
        self.theta as f64 / ALL as f64
    }
}
