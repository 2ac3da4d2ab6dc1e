//! `java.util.Random`.

const FACTOR: u64 = 0x5_DEEC_E66D;
const MASK: u64 = (1 << 48) - 1;

/// The linear congruential generator of Java.
#[derive(Clone, Debug)]
pub(in super::super) struct JavaRandom {
    state: u64,
}

impl JavaRandom {
    /// The generator of a seed.
    pub(in super::super) fn new(seed: i64) -> Self {
        JavaRandom { state: (seed as u64 ^ FACTOR) & MASK }
    }

    fn next(&mut self) -> i32 {
        self.state = self.state.wrapping_mul(FACTOR).wrapping_add(0xB) & MASK;
        (self.state >> 17) as i32
    }

    /// A number from 0 to `bound` − 1, which is positive.
    pub(in super::super) fn next_below(&mut self, bound: i32) -> i32 {
        let number = self.next();
        if bound & (bound - 1) == 0 {
            return ((i64::from(bound) * i64::from(number)) >> 31) as i32;
        }
        let (mut number, mut rest) = (number, number % bound);
        // Numbers of the last, incomplete round would come up more often than others.
        while number.wrapping_sub(rest).wrapping_add(bound - 1) < 0 {
            number = self.next();
            rest = number % bound;
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The well-known first numbers of `new Random(42)`.
    #[test]
    fn the_numbers_are_those_of_java() {
        let mut random = JavaRandom::new(42);
        let first: Vec<i32> = (0..5).map(|_| random.next_below(10)).collect();
        assert_eq!(first, [0, 3, 8, 4, 0]);
    }
}
