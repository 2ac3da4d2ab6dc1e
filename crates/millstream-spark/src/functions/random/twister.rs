//! The generator of `shuffle` and `uuid`: MT19937, seeded as Apache Commons Math does it.

const SIZE: usize = 624;
const MIDDLE: usize = 397;

/// A sequence.
#[derive(Clone, Debug)]
pub(in super::super) struct MersenneTwister {
    words: [u32; SIZE],
    place: usize,
}

impl MersenneTwister {
    /// The sequence of a seed.
    pub(in super::super) fn seeded(seed: i64) -> Self {
        let seed = seed as u64;
        Self::keyed(&[(seed >> 32) as u32, seed as u32])
    }

    fn keyed(keys: &[u32]) -> Self {
        let mut words = [0_u32; SIZE];
        let mut last = 19_650_218_u32;
        for (place, word) in words.iter_mut().enumerate() {
            if place > 0 {
                last = 1_812_433_253_u32.wrapping_mul(last ^ (last >> 30)).wrapping_add(place as u32);
            }
            *word = last;
        }
        let mut twister = MersenneTwister { words, place: SIZE };
        let (mut at, mut key) = (1, 0);
        for _ in 0..SIZE.max(keys.len()) {
            let value = keys.get(key).copied().unwrap_or(0).wrapping_add(key as u32);
            twister.mix(at, 1_664_525, |word| word.wrapping_add(value));
            (at, key) = (at + 1, (key + 1) % keys.len().max(1));
            at = twister.wrapped(at);
        }
        for _ in 1..SIZE {
            twister.mix(at, 1_566_083_941, |word| word.wrapping_sub(at as u32));
            at = twister.wrapped(at + 1);
        }
        twister.set(0, 0x8000_0000);
        twister
    }

    fn word(&self, at: usize) -> u32 {
        self.words.get(at).copied().unwrap_or(0)
    }

    fn set(&mut self, at: usize, value: u32) {
        if let Some(word) = self.words.get_mut(at) {
            *word = value;
        }
    }

    fn mix(&mut self, at: usize, factor: u32, add: impl FnOnce(u32) -> u32) {
        let before = self.word(at - 1);
        let mixed = self.word(at) ^ (before ^ (before >> 30)).wrapping_mul(factor);
        self.set(at, add(mixed));
    }

    /// Behind the last word the first takes its value.
    fn wrapped(&mut self, at: usize) -> usize {
        if at < SIZE {
            return at;
        }
        self.set(0, self.word(SIZE - 1));
        1
    }

    fn next(&mut self) -> u32 {
        if self.place >= SIZE {
            for at in 0..SIZE {
                let joined = (self.word(at) & 0x8000_0000) | (self.word((at + 1) % SIZE) & 0x7fff_ffff);
                let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
                self.set(at, self.word((at + MIDDLE) % SIZE) ^ (joined >> 1) ^ odd);
            }
            self.place = 0;
        }
        let mut word = self.word(self.place);
        self.place += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    /// 64 bits.
    pub(in super::super) fn next_long(&mut self) -> u64 {
        u64::from(self.next()) << 32 | u64::from(self.next())
    }

    /// A number from 0 to `bound` − 1, which is positive.
    fn below(&mut self, bound: i64) -> i64 {
        if bound & (bound - 1) == 0 {
            return (bound * i64::from(self.next() >> 1)) >> 31;
        }
        loop {
            let bits = i64::from(self.next() >> 1);
            let value = bits % bound;
            // Numbers of the last, incomplete round would come up more often than others.
            if bits - value + (bound - 1) <= i64::from(i32::MAX) {
                return value;
            }
        }
    }

    /// The places of a random order of so many elements.
    pub(in super::super) fn permutation(&mut self, length: usize) -> Vec<usize> {
        let mut places = Vec::with_capacity(length);
        for place in 0..length {
            let other = usize::try_from(self.below(place as i64 + 1)).unwrap_or(place);
            places.push(place);
            places.swap(place, other.min(place));
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gives_the_published_numbers() {
        let mut twister = MersenneTwister::keyed(&[0x123, 0x234, 0x345, 0x456]);
        let first: Vec<u32> = (0..5).map(|_| twister.next()).collect();
        assert_eq!(first, [1_067_595_299, 955_945_823, 477_289_528, 4_107_218_783, 4_228_976_476]);
    }

    #[test]
    fn a_seed_gives_the_order_that_spark_gives() {
        assert_eq!(MersenneTwister::seeded(5).permutation(3), [2, 0, 1]);
    }

    #[test]
    fn a_permutation_has_every_place_once() {
        let mut places = MersenneTwister::seeded(-1).permutation(100);
        places.sort_unstable();
        assert_eq!(places, (0..100).collect::<Vec<_>>());
    }
}
