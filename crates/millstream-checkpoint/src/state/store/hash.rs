//! The hash of keys in hash tables of this process.

use std::hash::{BuildHasher, Hasher, RandomState};

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes hashers that differ from process to process, so that nobody can prepare keys that collide.
#[derive(Clone, Debug)]
pub(super) struct KeyHash {
    seed: u64,
}

impl Default for KeyHash {
    fn default() -> Self {
        KeyHash { seed: RandomState::new().hash_one(MULTIPLIER) }
    }
}

impl BuildHasher for KeyHash {
    type Hasher = KeyHasher;

    fn build_hasher(&self) -> KeyHasher {
        KeyHasher(self.seed)
    }
}

/// Folds eight bytes at a time by a multiplication of which no bit is lost.
#[derive(Debug)]
pub(super) struct KeyHasher(u64);

impl KeyHasher {
    fn fold(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(MULTIPLIER);
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.fold(word.first_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word)));
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            let mut word = [0; 8];
            word.iter_mut().zip(rest).for_each(|(to, byte)| *to = *byte);
            self.fold(u64::from_le_bytes(word));
        }
    }

    fn write_usize(&mut self, number: usize) {
        self.fold(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        self.fold(number);
    }

    fn finish(&self) -> u64 {
        let product = u128::from(self.0) * u128::from(!MULTIPLIER);
        (product as u64) ^ ((product >> 64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_that_are_alike_have_different_hashes() {
        let hash = KeyHash::default();
        let mut seen = HashSet::new();
        for number in 0..100_000u64 {
            let mut key = vec![0, 1];
            key.extend(number.to_be_bytes());
            assert!(seen.insert(hash.hash_one(key.as_slice())), "{number}");
        }
        let mut low = [0u32; 256];
        for hash in seen {
            low[(hash & 255) as usize] += 1;
        }
        assert!(low.iter().all(|count| (250..550).contains(count)), "{low:?}");
    }
}
