//! The bytes of a sketch: a preamble of two, three or ten words of four bytes, then coupons or registers.

use millstream_core::Result;

use super::super::image::{Image, broken};
use super::{ADDRESS_BITS, ADDRESS_MASK, CouponSet, HllSketch, LIST_SLOTS, Registers, SET_SLOTS, Values};

const VERSION: u8 = 1;
const FAMILY: u8 = 7;
const EMPTY: u8 = 4;
const COMPACT: u8 = 8;
const OUT_OF_ORDER: u8 = 16;
const REBUILD: u8 = 32;
const EIGHT_BITS: u8 = 2 << 2;

impl HllSketch {
    /// The updatable image, with room for more values.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match &self.values {
            Values::List(coupons) => {
                let flags = if coupons.is_empty() { EMPTY } else { 0 };
                out.extend([2, VERSION, FAMILY, self.lg_k, LIST_SLOTS.trailing_zeros() as u8, flags, coupons.len() as u8, EIGHT_BITS]);
                let free = LIST_SLOTS.saturating_sub(coupons.len());
                words(&mut out, coupons.iter().copied().chain(std::iter::repeat_n(0, free)));
            }
            Values::Set(set) => {
                out.extend([3, VERSION, FAMILY, self.lg_k, set.places.len().trailing_zeros() as u8, 0, 0, EIGHT_BITS | 1]);
                words(&mut out, std::iter::once(set.count as u32).chain(set.places.iter().copied()));
            }
            Values::Registers(registers) => {
                let flags = if registers.out_of_order { OUT_OF_ORDER } else { 0 };
                out.extend([10, VERSION, FAMILY, self.lg_k, 0, flags, registers.lowest, EIGHT_BITS | 2]);
                for number in [registers.history, registers.inverse_low, registers.inverse_high] {
                    out.extend(number.to_le_bytes());
                }
                words(&mut out, [registers.at_lowest, 0].into_iter());
                out.extend(&registers.registers);
            }
        }
        out
    }

    /// The sketch of an image, compact or updatable, with registers of four, six or eight bits.
    ///
    /// # Errors
    /// When the bytes are no such image.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<HllSketch> {
        let image = Image::new(bytes);
        let (words, lg_k, flags, mode) = (image.byte(0)? & 0x3f, image.byte(3)?, image.byte(5)?, image.byte(7)?);
        if image.byte(1)? != VERSION || image.byte(2)? != FAMILY || !(4..=21).contains(&lg_k) {
            return Err(broken());
        }
        let values = match (mode & 3, words) {
            (0, 2) => {
                let count = usize::from(image.byte(6)?);
                if count >= LIST_SLOTS {
                    return Err(broken());
                }
                Values::List((0..count).map(|number| image.int(8 + 4 * number)).collect::<Result<_>>()?)
            }
            (1, 3) => Values::Set(set(image, flags & COMPACT != 0)?),
            (2, 10) => Values::Registers(registers(image, lg_k, flags, mode >> 2 & 3)?),
            _ => return Err(broken()),
        };
        Ok(HllSketch { lg_k, values })
    }
}

fn words(out: &mut Vec<u8>, words: impl Iterator<Item = u32>) {
    words.for_each(|word| out.extend(word.to_le_bytes()));
}

fn set(image: Image<'_>, compact: bool) -> Result<CouponSet> {
    let count = image.int(8)? as usize;
    if compact {
        let mut set = CouponSet { places: vec![0; SET_SLOTS], count: 0 };
        for number in 0..count {
            set.add(image.int(12 + 4 * number)?);
            if set.count * 4 > set.places.len() * 3 {
                set.grow();
            }
        }
        return Ok(set);
    }
    let lg_places = image.byte(4)?;
    if !(5..=21).contains(&lg_places) {
        return Err(broken());
    }
    let places = (0..1_usize << lg_places).map(|place| image.int(12 + 4 * place)).collect::<Result<Vec<_>>>()?;
    if places.iter().filter(|coupon| **coupon != 0).count() != count {
        return Err(broken());
    }
    Ok(CouponSet { places, count })
}

fn registers(image: Image<'_>, lg_k: u8, flags: u8, width: u8) -> Result<Registers> {
    let k = 1_usize << lg_k;
    let values = match width {
        0 => four_bits(image, lg_k)?,
        1 => {
            let packed = image.bytes(40, k * 3 / 4)?;
            packed
                .chunks_exact(3)
                .flat_map(|three| {
                    let bits = three.iter().rev().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
                    (0..4).map(move |place| (bits >> (6 * place) & 0x3f) as u8)
                })
                .collect()
        }
        2 => image.bytes(40, k)?.to_vec(),
        _ => return Err(broken()),
    };
    let mut registers = Registers {
        registers: values,
        history: image.double(8)?,
        out_of_order: flags & OUT_OF_ORDER != 0,
        inverse_low: image.double(16)?,
        inverse_high: image.double(24)?,
        lowest: image.byte(6)?,
        at_lowest: image.int(32)?,
    };
    if flags & REBUILD != 0 || width != 2 {
        registers.recount();
    }
    Ok(registers)
}

/// Registers as offsets from the lowest; the offset 15 says that the register is among the exceptions behind.
fn four_bits(image: Image<'_>, lg_k: u8) -> Result<Vec<u8>> {
    let k = 1_usize << lg_k;
    let lowest = image.byte(6)?;
    let packed = image.bytes(40, k / 2)?;
    let mut registers: Vec<u8> = packed.iter().flat_map(|byte| [byte & 0x0f, byte >> 4]).map(|offset| offset + lowest.min(63)).collect();
    for word in image.rest(40 + k / 2)?.chunks_exact(4) {
        let pair = word.iter().rev().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
        if pair != 0
            && let Some(register) = registers.get_mut((pair & ADDRESS_MASK) as usize & (k - 1))
        {
            *register = (pair >> ADDRESS_BITS) as u8;
        }
    }
    Ok(registers)
}
