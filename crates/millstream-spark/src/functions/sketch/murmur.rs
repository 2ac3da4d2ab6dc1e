//! The hash of the DataSketches library: MurmurHash3 (x64, 128 bits) with its seed.

/// The seed of all sketches.
const SEED: u64 = 9001;

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// The two halves of the hash of some bytes.
pub(super) fn hash(bytes: &[u8]) -> (u64, u64) {
    seeded(bytes, SEED)
}

/// The hash of a number, which is that of its eight bytes.
pub(super) fn hash_long(number: i64) -> (u64, u64) {
    hash(&number.to_le_bytes())
}

/// The hash of a double: one for all NaNs, one for both zeros.
pub(super) fn hash_double(number: f64) -> (u64, u64) {
    let number = if number == 0.0 { 0.0 } else { number };
    hash_long(if number.is_nan() { 0x7ff8_0000_0000_0000 } else { number.to_bits() as i64 })
}

/// What images carry to tell sketches of different seeds apart.
pub(super) fn seed_hash() -> u16 {
    seeded(&SEED.to_le_bytes(), 0).0 as u16
}

fn seeded(bytes: &[u8], seed: u64) -> (u64, u64) {
    let (mut first, mut second) = (seed, seed);
    let mut blocks = bytes.chunks_exact(16);
    for block in &mut blocks {
        let (low, high) = block.split_at(8);
        first ^= mix1(word(low));
        first = first.rotate_left(27).wrapping_add(second).wrapping_mul(5).wrapping_add(0x52dc_e729);
        second ^= mix2(word(high));
        second = second.rotate_left(31).wrapping_add(first).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let rest = blocks.remainder();
    let (low, high) = rest.split_at(rest.len().min(8));
    if !high.is_empty() {
        second ^= mix2(word(high));
    }
    if !low.is_empty() {
        first ^= mix1(word(low));
    }
    first ^= bytes.len() as u64;
    second ^= bytes.len() as u64;
    first = first.wrapping_add(second);
    second = second.wrapping_add(first);
    first = finish(first);
    second = finish(second);
    first = first.wrapping_add(second);
    (first, second.wrapping_add(first))
}

/// Up to eight bytes, the least significant first.
fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn mix1(word: u64) -> u64 {
    word.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mix2(word: u64) -> u64 {
    word.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finish(mut word: u64) -> u64 {
    word ^= word >> 33;
    word = word.wrapping_mul(0xff51_afd7_ed55_8ccd);
    word ^= word >> 33;
    word = word.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ word >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the reference implementation, seed 0.
    #[test]
    fn published_hashes() {
        assert_eq!(seeded(b"The quick brown fox jumps over the lazy dog", 0), (0xe34b_bc7b_bc07_1b6c, 0x7a43_3ca9_c49a_9347));
        assert_eq!(seeded(b"", 0), (0, 0));
    }

    #[test]
    fn the_seed_is_the_one_of_all_images() {
        assert_eq!(seed_hash(), 0x93cc);
    }
}
