//! Union, intersection and difference, with tuple sketches and with theta sketches.

use super::table::{Table, ordered};
use super::{Mode, Number, Summary, TupleSketch};
use crate::functions::sketch::theta::{ALL, ThetaSketch};

/// A union of sketches.
#[derive(Clone, Debug)]
pub(crate) struct Union<N> {
    table: Table<N>,
    theta: u64,
    empty: bool,
    mode: Mode,
}

impl<N: Number> Union<N> {
    /// A union of at most 2^`lg_entries` hashes whose summaries are united in a mode.
    pub(crate) fn new(lg_entries: u8, mode: Mode) -> Self {
        Union { table: Table::new(lg_entries), theta: ALL, empty: true, mode }
    }

    /// Adds a sketch.
    pub(crate) fn add(&mut self, sketch: &TupleSketch<N>) {
        if !sketch.empty {
            self.merge(sketch.theta, sketch.entries.iter().copied());
        }
    }

    /// Adds a theta sketch, whose hashes carry nothing: the summary of no number.
    pub(super) fn add_theta(&mut self, sketch: &ThetaSketch) {
        if !sketch.empty {
            let summary = Summary::new(self.mode);
            self.merge(sketch.theta, sketch.hashes.iter().map(|hash| (*hash, summary)));
        }
    }

    fn merge(&mut self, theta: u64, entries: impl Iterator<Item = (u64, Summary<N>)>) {
        self.empty = false;
        self.theta = self.theta.min(theta);
        self.table.empty = false;
        let mode = self.mode;
        for (hash, theirs) in entries {
            self.table.update(hash, |mine| mine.map_or(theirs, |mine| Summary::of(mode, mine, theirs)));
        }
        self.theta = self.theta.min(self.table.theta);
    }

    /// Whether no value was seen.
    pub(crate) fn is_empty(&self) -> bool {
        self.empty
    }

    /// The union so far.
    pub(crate) fn result(&self) -> TupleSketch<N> {
        if self.empty || self.theta >= self.table.theta && self.table.len() <= self.table.nominal() {
            return TupleSketch { empty: self.empty, ..self.table.finish() };
        }
        let mut theta = self.theta.min(self.table.theta);
        let mut entries: Vec<_> = self.table.entries().filter(|(hash, _)| *hash < theta).collect();
        if entries.len() > self.table.nominal() {
            let mut hashes: Vec<u64> = entries.iter().map(|(hash, _)| *hash).collect();
            hashes.sort_unstable();
            theta = hashes.get(self.table.nominal()).copied().unwrap_or(theta);
            entries.retain(|(hash, _)| *hash < theta);
        }
        TupleSketch { entries, theta, empty: false }
    }

    /// Bytes of memory.
    pub(crate) fn size(&self) -> usize {
        self.table.size()
    }
}

/// An intersection of sketches; of none it is everything, which is no sketch.
#[derive(Clone, Debug)]
pub(crate) struct Intersection<N> {
    common: Option<TupleSketch<N>>,
    mode: Mode,
}

impl<N: Number> Intersection<N> {
    /// An intersection whose summaries are united in a mode.
    pub(crate) fn new(mode: Mode) -> Self {
        Intersection { common: None, mode }
    }

    /// Keeps what is in the sketch, too.
    pub(crate) fn add(&mut self, sketch: &TupleSketch<N>) {
        self.intersect(sketch.empty, sketch.theta, &sketch.entries);
    }

    /// Keeps what is in the theta sketch, too.
    pub(super) fn add_theta(&mut self, sketch: &ThetaSketch) {
        let summary = Summary::new(self.mode);
        let entries: Vec<_> = sketch.hashes.iter().map(|hash| (*hash, summary)).collect();
        self.intersect(sketch.empty, sketch.theta, &entries);
    }

    fn intersect(&mut self, empty: bool, theta: u64, entries: &[(u64, Summary<N>)]) {
        let first = self.common.is_none();
        let mut common = self.common.take().unwrap_or_else(|| TupleSketch { entries: Vec::new(), theta: ALL, empty: false });
        if common.empty || empty {
            self.common = Some(TupleSketch { entries: Vec::new(), theta: ALL, empty: true });
            return;
        }
        common.theta = common.theta.min(theta);
        common.entries = if first {
            ordered(entries.to_vec())
        } else {
            let mine: std::collections::HashMap<u64, Summary<N>> = common.entries.iter().copied().collect();
            let both = entries.iter().filter(|(hash, _)| *hash < common.theta);
            let both = both.filter_map(|(hash, theirs)| Some((*hash, Summary::of(self.mode, *mine.get(hash)?, *theirs))));
            ordered(both.collect())
        };
        self.common = Some(common);
    }

    /// The intersection, if any sketch was added.
    pub(crate) fn result(&self) -> Option<TupleSketch<N>> {
        let mut common = self.common.clone()?;
        let theta = common.theta;
        common.entries.retain(|(hash, _)| *hash <= theta);
        Some(common)
    }

    /// Bytes of memory.
    pub(crate) fn size(&self) -> usize {
        self.common.as_ref().map_or(0, |common| common.entries.capacity() * size_of::<(u64, Summary<N>)>())
    }
}

/// What is in the first sketch and not among the hashes of the second.
pub(super) fn difference<N: Number>(left: &TupleSketch<N>, empty: bool, theta: u64, hashes: &[u64]) -> TupleSketch<N> {
    if left.empty || empty {
        return left.clone();
    }
    let theta = left.theta.min(theta);
    let others: std::collections::HashSet<u64> = hashes.iter().copied().collect();
    let entries: Vec<_> = left.entries.iter().copied().filter(|(hash, _)| *hash < theta && !others.contains(hash)).collect();
    let empty = entries.is_empty() && theta == ALL;
    TupleSketch { entries, theta, empty }
}
