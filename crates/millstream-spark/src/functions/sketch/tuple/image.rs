//! The bytes of a sketch.

use millstream_core::Result;

use super::super::image::{Image, broken};
use super::super::murmur::seed_hash;
use super::{Number, Summary, TupleSketch};
use crate::functions::sketch::theta::ALL;

const VERSION: u8 = 3;
const FAMILY: u8 = 9;
const COMPACT_SKETCH: u8 = 1;
const READ_ONLY: u8 = 2;
const EMPTY: u8 = 4;
const COMPACT: u8 = 8;

impl<N: Number> TupleSketch<N> {
    /// The compact image.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let estimating = self.theta < ALL && !self.empty;
        let words = match (self.empty, estimating) {
            (true, _) => 1,
            (false, true) => 3,
            (false, false) if self.entries.len() == 1 => 1,
            (false, false) => 2,
        };
        let flags = READ_ONLY | COMPACT | if self.empty { EMPTY } else { 0 };
        let mut out = vec![words, VERSION, FAMILY, COMPACT_SKETCH, 0, flags];
        out.extend(seed_hash().to_le_bytes());
        if words > 1 {
            out.extend((self.entries.len() as u64).to_le_bytes());
        }
        if words > 2 {
            out.extend(self.theta.to_le_bytes());
        }
        for (hash, summary) in &self.entries {
            out.extend(hash.to_le_bytes());
            summary.write(&mut out);
        }
        out
    }

    /// The sketch of an image.
    ///
    /// # Errors
    /// When the bytes are no image of a sketch with such summaries.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let image = Image::new(bytes);
        let (words, flags) = (image.byte(0)?, image.byte(5)?);
        if image.byte(1)? != VERSION || image.byte(2)? != FAMILY || image.byte(3)? != COMPACT_SKETCH || !(1..=3).contains(&words) {
            return Err(broken());
        }
        if flags & EMPTY != 0 {
            return Ok(TupleSketch { entries: Vec::new(), theta: ALL, empty: true });
        }
        let count = if words == 1 { 1 } else { image.int(8)? as usize };
        let theta = if words > 2 { image.long(16)? } else { ALL };
        let (start, length) = (8 * usize::from(words), 8 + N::BYTES + 1);
        let entries = (0..count).map(|number| {
            let at = start + number * length;
            Ok((image.long(at)?, Summary::read(image, at + 8)?))
        });
        Ok(TupleSketch { entries: entries.collect::<Result<_>>()?, theta, empty: false })
    }
}
