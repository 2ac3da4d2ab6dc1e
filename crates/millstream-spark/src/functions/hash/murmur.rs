//! Murmur3 in its form of 32 bits, as Spark has it: the bytes behind the last whole word are mixed in one by one.

use super::values::Algorithm;

pub(super) struct Murmur;

fn mix_word(word: u32) -> u32 {
    word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593)
}

fn mix(state: u32, word: u32) -> u32 {
    (state ^ mix_word(word)).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
}

fn finish(state: u32, length: u32) -> u32 {
    let mut state = state ^ length;
    state = (state ^ (state >> 16)).wrapping_mul(0x85eb_ca6b);
    state = (state ^ (state >> 13)).wrapping_mul(0xc2b2_ae35);
    state ^ (state >> 16)
}

/// The hash of bytes.
pub(in super::super) fn murmur3_bytes(bytes: &[u8], seed: u32) -> u32 {
    let (words, rest) = bytes.as_chunks::<4>();
    let state = words.iter().fold(seed, |state, word| mix(state, u32::from_le_bytes(*word)));
    let state = rest.iter().fold(state, |state, byte| mix(state, i32::from(*byte as i8) as u32));
    finish(state, bytes.len() as u32)
}

impl Algorithm for Murmur {
    type State = u32;

    fn int(value: i32, seed: u32) -> u32 {
        finish(mix(seed, value as u32), 4)
    }

    fn long(value: i64, seed: u32) -> u32 {
        let value = value as u64;
        finish(mix(mix(seed, value as u32), (value >> 32) as u32), 8)
    }

    fn bytes(value: &[u8], seed: u32) -> u32 {
        murmur3_bytes(value, seed)
    }
}
