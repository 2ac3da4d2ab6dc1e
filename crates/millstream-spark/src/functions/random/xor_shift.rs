//! The generator of `rand`, `randn`, `uniform` and `randstr` (Marsaglia's xorshift).

use super::super::hash::murmur3_bytes;

/// A sequence.
#[derive(Clone, Debug)]
pub(in super::super) struct XorShift {
    state: u64,
    /// Normally distributed numbers come in pairs.
    gaussian: Option<f64>,
}

impl XorShift {
    /// The sequence of a seed.
    pub(in super::super) fn seeded(seed: i64) -> XorShift {
        let bytes = seed.to_be_bytes();
        let low = murmur3_bytes(&bytes, 0x3c07_4a61);
        let high = murmur3_bytes(&bytes, low);
        XorShift { state: u64::from(high) << 32 | u64::from(low), gaussian: None }
    }

    fn next(&mut self, bits: u32) -> u64 {
        let mut state = self.state ^ (self.state << 21);
        state ^= state >> 35;
        state ^= state << 4;
        self.state = state;
        state & ((1 << bits) - 1)
    }

    /// A whole number.
    pub(in super::super) fn next_int(&mut self) -> i32 {
        self.next(32) as i32
    }

    /// A number from 0 up to 1.
    pub(in super::super) fn next_double(&mut self) -> f64 {
        let high = self.next(26) << 27;
        (high + self.next(27)) as f64 / (1_u64 << 53) as f64
    }

    /// A normally distributed number, by the polar method, as `java.util.Random` does it.
    pub(in super::super) fn next_gaussian(&mut self) -> f64 {
        if let Some(second) = self.gaussian.take() {
            return second;
        }
        loop {
            let (x, y) = (2.0 * self.next_double() - 1.0, 2.0 * self.next_double() - 1.0);
            let square = x * x + y * y;
            if square < 1.0 && square != 0.0 {
                let factor = (-2.0 * square.ln() / square).sqrt();
                self.gaussian = Some(y * factor);
                return x * factor;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `rand(0)` and `randn(0)` of Spark give first.
    #[test]
    fn sequences_are_those_of_spark() {
        assert_eq!(XorShift::seeded(0).next_double(), 0.760_495_375_828_591_5);
        assert_eq!(XorShift::seeded(0).next_gaussian(), 1.603_499_160_927_843_3);
    }
}
