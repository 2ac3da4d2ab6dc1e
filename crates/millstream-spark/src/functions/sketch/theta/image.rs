//! The bytes of a sketch, plain (version 3) or as packed differences (version 4).

use millstream_core::Result;

use super::super::image::{Image, broken};
use super::super::murmur::seed_hash;
use super::{ALL, ThetaSketch};

const PLAIN: u8 = 3;
const PACKED: u8 = 4;
const FAMILY: u8 = 3;
const READ_ONLY: u8 = 2;
const EMPTY: u8 = 4;
const COMPACT: u8 = 8;
const ORDERED: u8 = 16;
const SINGLE: u8 = 32;

impl ThetaSketch {
    /// The image, packed where that is shorter.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        if self.hashes.is_empty() || self.hashes.len() == 1 && self.theta == ALL { self.plain() } else { self.packed() }
    }

    fn plain(&self) -> Vec<u8> {
        let single = self.hashes.len() == 1 && self.theta == ALL;
        let words: u8 = match self.theta {
            ALL if self.empty || single => 1,
            ALL => 2,
            _ => 3,
        };
        let mut flags = READ_ONLY | COMPACT | ORDERED;
        flags |= if self.empty { EMPTY } else { 0 } | if single { SINGLE } else { 0 };
        let mut out = vec![words, PLAIN, FAMILY, 0, 0, flags];
        out.extend(if self.empty { 0 } else { seed_hash() }.to_le_bytes());
        if words > 1 {
            out.extend((self.hashes.len() as u64).to_le_bytes());
        }
        if words > 2 {
            out.extend(self.theta.to_le_bytes());
        }
        self.hashes.iter().for_each(|hash| out.extend(hash.to_le_bytes()));
        out
    }

    fn packed(&self) -> Vec<u8> {
        let estimating = self.theta < ALL;
        let deltas = self.hashes.iter().scan(0, |last, hash| Some(hash - std::mem::replace(last, *hash)));
        let width = 64 - deltas.clone().fold(0, |all, delta| all | delta).leading_zeros();
        let count = self.hashes.len() as u32;
        let count_bytes = (32 - count.leading_zeros()).div_ceil(8);
        let words = if estimating { 2 } else { 1 };
        let mut out = vec![words, PACKED, FAMILY, width as u8, count_bytes as u8, COMPACT | READ_ONLY | ORDERED];
        out.extend(seed_hash().to_le_bytes());
        if estimating {
            out.extend(self.theta.to_le_bytes());
        }
        out.extend(count.to_le_bytes().iter().take(count_bytes as usize));
        let (mut pending, mut bits) = (0_u128, 0);
        for delta in deltas {
            pending = pending << width | u128::from(delta);
            bits += width;
            while bits >= 8 {
                bits -= 8;
                out.push((pending >> bits) as u8);
            }
        }
        if bits > 0 {
            out.push((pending << (8 - bits)) as u8);
        }
        out
    }

    /// The sketch of an image.
    ///
    /// # Errors
    /// When the bytes are no image of a finished sketch.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<ThetaSketch> {
        let image = Image::new(bytes);
        if image.bytes(0, 8)?.len() < 8 || image.byte(2)? != FAMILY {
            return Err(broken());
        }
        let flags = image.byte(5)?;
        if flags & COMPACT == 0 || flags & EMPTY == 0 && image.short(6)? != seed_hash() {
            return Err(broken());
        }
        let mut sketch = match image.byte(1)? {
            PLAIN => from_plain(image, flags)?,
            PACKED => from_packed(image)?,
            _ => return Err(broken()),
        };
        sketch.hashes.sort_unstable();
        Ok(sketch)
    }
}

fn from_plain(image: Image<'_>, flags: u8) -> Result<ThetaSketch> {
    let words = usize::from(image.byte(0)? & 0x3f);
    if flags & EMPTY != 0 {
        return Ok(ThetaSketch::empty());
    }
    let count = match words {
        1 => 1,
        _ => image.int(8)? as usize,
    };
    let theta = if words > 2 { image.long(16)? } else { ALL };
    let hashes = (0..count).map(|number| image.long(8 * (words + number))).collect::<Result<_>>()?;
    Ok(ThetaSketch { hashes, theta, empty: false })
}

fn from_packed(image: Image<'_>) -> Result<ThetaSketch> {
    let (words, width, count_bytes) = (image.byte(0)?, u32::from(image.byte(3)?), usize::from(image.byte(4)?));
    if !(1..=2).contains(&words) || !(1..=63).contains(&width) || count_bytes > 4 {
        return Err(broken());
    }
    let theta = if words > 1 { image.long(8)? } else { ALL };
    let start = 8 * usize::from(words);
    let count = image.bytes(start, count_bytes)?.iter().rev().fold(0_usize, |count, byte| count << 8 | usize::from(*byte));
    let mut packed = image.rest(start + count_bytes)?.iter();
    let (mut pending, mut bits, mut last) = (0_u128, 0, 0_u64);
    let mut hashes = Vec::new();
    for _ in 0..count {
        while bits < width {
            pending = pending << 8 | u128::from(*packed.next().ok_or_else(broken)?);
            bits += 8;
        }
        bits -= width;
        last = last.wrapping_add((pending >> bits) as u64);
        pending &= (1 << bits) - 1;
        hashes.push(last);
    }
    Ok(ThetaSketch { hashes, theta, empty: false })
}
