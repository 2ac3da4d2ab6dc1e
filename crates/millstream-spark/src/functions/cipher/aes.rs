//! The block cipher AES (FIPS 197) with keys of 128, 192 or 256 bits.

/// Bytes of a block.
pub(super) const BLOCK: usize = 16;

/// A block of text, column by column.
pub(super) type Block = [u8; BLOCK];

const SUBSTITUTES: [u8; 256] = substitutes();
const ORIGINALS: [u8; 256] = originals();

/// A key, expanded to one round key for each round and one more.
#[derive(Clone)]
pub(super) struct Aes {
    round_keys: Vec<Block>,
}

impl Aes {
    /// Expands a key of 16, 24 or 32 bytes; `None` for another length.
    pub(super) fn new(key: &[u8]) -> Option<Aes> {
        let words = match key.len() {
            16 | 24 | 32 => key.len() / 4,
            _ => return None,
        };
        let rounds = words + 6;
        let mut expanded: Vec<[u8; 4]> = key.as_chunks::<4>().0.to_vec();
        let mut constant = 1_u8;
        while expanded.len() < 4 * (rounds + 1) {
            let place = expanded.len();
            let mut word = *expanded.last()?;
            if place.is_multiple_of(words) {
                word.rotate_left(1);
                word = word.map(substitute);
                word[0] ^= constant;
                constant = double(constant);
            } else if words > 6 && place % words == 4 {
                word = word.map(substitute);
            }
            let before = expanded.get(place - words)?;
            for (byte, before) in word.iter_mut().zip(before) {
                *byte ^= before;
            }
            expanded.push(word);
        }
        let round_keys = expanded.as_flattened().as_chunks::<BLOCK>().0.to_vec();
        Some(Aes { round_keys })
    }

    /// Encrypts a block.
    pub(super) fn encrypt(&self, block: &mut Block) {
        let last = self.round_keys.len() - 1;
        for (round, key) in self.round_keys.iter().enumerate() {
            if round > 0 {
                *block = block.map(substitute);
                shift_rows(block, 1);
                if round < last {
                    mix_columns(block, [2, 3, 1, 1]);
                }
            }
            add(block, key);
        }
    }

    /// Decrypts a block.
    pub(super) fn decrypt(&self, block: &mut Block) {
        let last = self.round_keys.len() - 1;
        for (round, key) in self.round_keys.iter().enumerate().rev() {
            add(block, key);
            if round > 0 {
                if round < last {
                    mix_columns(block, [14, 11, 13, 9]);
                }
                shift_rows(block, 3);
                *block = block.map(|byte| ORIGINALS.get(usize::from(byte)).copied().unwrap_or(0));
            }
        }
    }
}

/// Adds another block, bit by bit.
pub(super) fn add(block: &mut Block, other: &Block) {
    for (byte, other) in block.iter_mut().zip(other) {
        *byte ^= other;
    }
}

fn substitute(byte: u8) -> u8 {
    SUBSTITUTES.get(usize::from(byte)).copied().unwrap_or(0)
}

/// Moves each row by its number times `by` columns to the left.
fn shift_rows(block: &mut Block, by: usize) {
    let before = *block;
    for (place, byte) in block.iter_mut().enumerate() {
        let (column, row) = (place / 4, place % 4);
        *byte = before.get(4 * ((column + by * row) % 4) + row).copied().unwrap_or(0);
    }
}

/// Multiplies each column by a polynomial, given by the first row of its matrix.
fn mix_columns(block: &mut Block, [a, b, c, d]: [u8; 4]) {
    for column in block.as_chunks_mut::<4>().0 {
        let [w, x, y, z] = *column;
        *column = [
            times(w, a) ^ times(x, b) ^ times(y, c) ^ times(z, d),
            times(w, d) ^ times(x, a) ^ times(y, b) ^ times(z, c),
            times(w, c) ^ times(x, d) ^ times(y, a) ^ times(z, b),
            times(w, b) ^ times(x, c) ^ times(y, d) ^ times(z, a),
        ];
    }
}

/// Multiplication by x in GF(2^8).
const fn double(byte: u8) -> u8 {
    byte << 1 ^ if byte & 0x80 == 0 { 0 } else { 0x1b }
}

const fn times(mut left: u8, mut right: u8) -> u8 {
    let mut product = 0;
    while right > 0 {
        if right & 1 == 1 {
            product ^= left;
        }
        left = double(left);
        right >>= 1;
    }
    product
}

#[expect(clippy::indexing_slicing, reason = "computed when the program is compiled")]
const fn substitutes() -> [u8; 256] {
    let mut table = [0_u8; 256];
    let mut byte = 0_usize;
    while byte < 256 {
        // The inverse is the power of 254; that of zero is zero.
        let (mut inverse, mut power, mut base) = (1_u8, 254_u8, byte as u8);
        while power > 0 {
            if power & 1 == 1 {
                inverse = times(inverse, base);
            }
            base = times(base, base);
            power >>= 1;
        }
        let rotated = inverse ^ inverse.rotate_left(1) ^ inverse.rotate_left(2) ^ inverse.rotate_left(3) ^ inverse.rotate_left(4);
        table[byte] = rotated ^ 0x63;
        byte += 1;
    }
    table
}

#[expect(clippy::indexing_slicing, reason = "computed when the program is compiled")]
const fn originals() -> [u8; 256] {
    let mut table = [0_u8; 256];
    let mut byte = 0_usize;
    while byte < 256 {
        table[SUBSTITUTES[byte] as usize] = byte as u8;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of FIPS 197, appendix C.
    #[test]
    fn published_blocks() {
        let key: Vec<u8> = (0..32).collect();
        let plain: Block = std::array::from_fn(|place| place as u8 * 0x11);
        let cases =
            [(16, "69c4e0d86a7b0430d8cdb78070b4c55a"), (24, "dda97ca4864cdfe06eaf70a0ec0d7191"), (32, "8ea2b7ca516745bfeafc49904b496089")];
        for (length, expected) in cases {
            let aes = Aes::new(&key[..length]).unwrap();
            let mut block = plain;
            aes.encrypt(&mut block);
            let hexadecimal: String = block.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hexadecimal, expected);
            aes.decrypt(&mut block);
            assert_eq!(block, plain);
        }
        assert!(Aes::new(&key[..15]).is_none());
    }
}
