//! The bytes of a sketch: empty, of a single number, or full.

use millstream_core::Result;

use super::super::image::{Image, broken};
use super::{Item, KllSketch, M, level_capacity};

const FAMILY: u8 = 15;
const EMPTY: u8 = 1;
const SORTED: u8 = 2;
const SINGLE: u8 = 4;
const FULL_WORDS: u8 = 5;
const SHORT_WORDS: u8 = 2;
const FULL: u8 = 1;
const SINGLE_ITEM: u8 = 2;
const UPDATABLE: u8 = 3;
const LEVELS_AT: usize = 20;

impl<T: Item> KllSketch<T> {
    /// The compact image.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let (words, version) = match self.n {
            0 => (SHORT_WORDS, FULL),
            1 => (SHORT_WORDS, SINGLE_ITEM),
            _ => (FULL_WORDS, FULL),
        };
        let mut flags = if self.n == 0 { EMPTY } else { 0 };
        flags |= if self.first_level_sorted { SORTED } else { 0 } | if self.n == 1 { SINGLE } else { 0 };
        let mut out = vec![words, version, FAMILY, flags];
        out.extend(self.k.to_le_bytes());
        out.extend([M as u8, 0]);
        let Some((low, high)) = self.range else { return out };
        if self.n > 1 {
            out.extend(self.n.to_le_bytes());
            out.extend(self.least_k.to_le_bytes());
            out.extend([self.levels.len() as u8, 0]);
            let mut place = self.capacity() - self.retained();
            for level in &self.levels {
                out.extend((place as u32).to_le_bytes());
                place += level.len();
            }
            low.write(&mut out);
            high.write(&mut out);
        }
        self.levels.iter().flatten().for_each(|item| item.write(&mut out));
        out
    }

    /// The sketch of an image.
    ///
    /// # Errors
    /// When the bytes are no image of such a sketch.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let image = Image::new(bytes);
        let (words, version, flags, k) = (image.byte(0)?, image.byte(1)?, image.byte(3)?, image.short(4)?);
        if image.byte(2)? != FAMILY || usize::from(image.byte(6)?) != M || usize::from(k) < M {
            return Err(broken());
        }
        let mut sketch = KllSketch::new(k);
        match (words, version) {
            (SHORT_WORDS, FULL) if flags & EMPTY != 0 => {}
            (SHORT_WORDS, SINGLE_ITEM) if flags & EMPTY == 0 => sketch.add(T::read(image, 8)?),
            (FULL_WORDS, FULL | UPDATABLE) if flags & EMPTY == 0 => sketch.read_levels(image, version == UPDATABLE)?,
            (FULL_WORDS, UPDATABLE) => {}
            _ => return Err(broken()),
        }
        sketch.first_level_sorted = flags & SORTED != 0;
        Ok(sketch)
    }

    fn read_levels(&mut self, image: Image<'_>, updatable: bool) -> Result<()> {
        self.n = image.long(8)?;
        self.least_k = image.short(16)?;
        let levels = usize::from(image.byte(18)?);
        if !(1..=60).contains(&levels) {
            return Err(broken());
        }
        let capacity: usize = (0..levels).map(|level| level_capacity(self.k, levels, level)).sum();
        let mut bounds = (0..levels).map(|level| Ok(image.int(LEVELS_AT + 4 * level)? as usize)).collect::<Result<Vec<_>>>()?;
        bounds.push(capacity);
        let range_at = LEVELS_AT + 4 * (levels + usize::from(updatable));
        self.range = Some((T::read(image, range_at)?, T::read(image, range_at + T::BYTES)?));
        let first = if updatable { 0 } else { bounds.first().copied().unwrap_or(0) };
        let items_at = range_at + 2 * T::BYTES;
        self.levels.clear();
        for bound in bounds.windows(2) {
            let [start, end] = bound else { return Err(broken()) };
            let items = (*start..*end).map(|place| {
                let number = place.checked_sub(first).ok_or_else(broken)?;
                T::read(image, items_at + T::BYTES * number)
            });
            self.levels.push(items.collect::<Result<_>>()?);
        }
        let weight: u64 = self.levels.iter().enumerate().map(|(level, items)| (items.len() as u64) << level).sum();
        if weight == self.n { Ok(()) } else { Err(broken()) }
    }
}
