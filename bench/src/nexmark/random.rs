//! Random choices that depend on nothing but a seed and the number of an event.

/// A stream of random numbers (SplitMix64).
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of one event.
    pub fn of(seed: u64, event: u64) -> Self {
        Random(scrambled(seed ^ scrambled(event.wrapping_add(0x9E37_79B9_7F4A_7C15))))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        scrambled(self.0)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // The high half of the product is uniform but for a part in 2^64.
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// A fraction in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// One of these.
    pub fn among<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices.get(self.below(choices.len().max(1) as u64) as usize).copied().unwrap_or_default()
    }

    /// Appends letters, one in thirteen of them `special`; 3 to `max - 1` of them.
    pub fn letters(&mut self, text: &mut String, max: u64, special: char) {
        let count = 3 + self.below(max.saturating_sub(3).max(1));
        self.exactly(text, count, special);
    }

    /// Appends `count` letters, one in thirteen of them `special`.
    pub fn exactly(&mut self, text: &mut String, count: u64, special: char) {
        for _ in 0..count {
            let letter = if self.below(13) == 0 { special } else { char::from(b'a' + self.below(26) as u8) };
            text.push(letter);
        }
    }
}

fn scrambled(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
