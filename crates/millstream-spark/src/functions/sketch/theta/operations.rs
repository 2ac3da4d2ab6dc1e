//! Union, intersection and difference.

use super::{ThetaBuilder, ThetaSketch};

/// A union of sketches.
#[derive(Clone, Debug)]
pub(crate) struct Union {
    gathered: ThetaBuilder,
}

impl Union {
    /// A union of at most 2^`lg_entries` hashes.
    pub(crate) fn new(lg_entries: u8) -> Self {
        Union { gathered: ThetaBuilder::new(lg_entries) }
    }

    /// Adds a sketch.
    pub(crate) fn add(&mut self, sketch: &ThetaSketch) {
        if sketch.empty {
            return;
        }
        self.gathered.empty = false;
        self.gathered.bound(sketch.theta);
        sketch.hashes.iter().for_each(|hash| self.gathered.add(*hash));
    }

    /// The union so far.
    pub(crate) fn result(&self) -> ThetaSketch {
        self.gathered.finish()
    }

    /// Bytes of memory.
    pub(crate) fn size(&self) -> usize {
        self.gathered.size()
    }
}

/// An intersection of sketches; of none it is everything, which is no sketch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intersection {
    common: Option<ThetaSketch>,
}

impl Intersection {
    /// Keeps what is in the sketch, too.
    pub(crate) fn add(&mut self, sketch: &ThetaSketch) {
        let Some(mut common) = self.common.take() else {
            self.common = Some(sketch.clone());
            return;
        };
        if common.empty || sketch.empty {
            self.common = Some(ThetaSketch::empty());
            return;
        }
        common.theta = common.theta.min(sketch.theta);
        let theta = common.theta;
        common.hashes.retain(|hash| *hash < theta && sketch.hashes.binary_search(hash).is_ok());
        self.common = Some(exact(common));
    }

    /// The intersection, if any sketch was added.
    pub(crate) fn result(&self) -> Option<&ThetaSketch> {
        self.common.as_ref()
    }

    /// Bytes of memory.
    pub(crate) fn size(&self) -> usize {
        self.common.as_ref().map_or(0, |common| common.hashes.capacity() * size_of::<u64>())
    }
}

/// What is in the first sketch and not in the second.
pub(crate) fn difference(left: &ThetaSketch, right: &ThetaSketch) -> ThetaSketch {
    if left.empty || right.empty {
        return left.clone();
    }
    let theta = left.theta.min(right.theta);
    let only = left.hashes.iter().copied().filter(|hash| *hash < theta && right.hashes.binary_search(hash).is_err()).collect();
    exact(ThetaSketch { hashes: only, theta, empty: false })
}

/// A sketch that leaves nothing out and has no hash has seen nothing.
fn exact(mut sketch: ThetaSketch) -> ThetaSketch {
    if sketch.hashes.is_empty() && sketch.theta == super::ALL {
        sketch.empty = true;
    }
    sketch
}
