//! Floating-point numbers in the digits of `Double.toString` and `Float.toString` of Java up to 18.
//!
//! Those are not always the fewest that read back as the same number: Java stops at the first digits that do, as it develops them from
//! fractions of big integers (Steele and White, "How to print floating-point numbers accurately", 1990), with bounds of its own for whole
//! numbers and powers of two.

use std::cmp::Ordering;

/// Bits of a double's fraction.
const FRACTION: u32 = 52;

/// The decimal digits of a positive finite double, and how many of them are before the point.
pub(super) fn digits_of_f64(value: f64) -> (Vec<u8>, i32) {
    let bits = value.to_bits();
    let (fraction, exponent) = (bits & ((1 << FRACTION) - 1), (bits >> FRACTION & 0x7ff) as i32);
    if exponent == 0 {
        let shift = fraction.leading_zeros() - (63 - FRACTION);
        develop(fraction << shift, 1 - shift as i32 - 1023, 64 - fraction.leading_zeros() as i32)
    } else {
        develop(fraction | 1 << FRACTION, exponent - 1023, FRACTION as i32 + 1)
    }
}

/// The same for a float.
pub(super) fn digits_of_f32(value: f32) -> (Vec<u8>, i32) {
    const FRACTION_OF_FLOAT: u32 = 23;
    let bits = value.to_bits();
    let (fraction, exponent) = (bits & ((1 << FRACTION_OF_FLOAT) - 1), (bits >> FRACTION_OF_FLOAT & 0xff) as i32);
    let wide = |fraction: u32| u64::from(fraction) << (FRACTION - FRACTION_OF_FLOAT);
    if exponent == 0 {
        let shift = fraction.leading_zeros() - (31 - FRACTION_OF_FLOAT);
        develop(wide(fraction << shift), 1 - shift as i32 - 127, 32 - fraction.leading_zeros() as i32)
    } else {
        develop(wide(fraction | 1 << FRACTION_OF_FLOAT), exponent - 127, FRACTION_OF_FLOAT as i32 + 1)
    }
}

/// The digits of `fraction` · 2^(`exponent` − 52), of whose bits `significant` count.
fn develop(fraction: u64, exponent: i32, significant: i32) -> (Vec<u8>, i32) {
    let trailing = fraction.trailing_zeros() as i32;
    let used = FRACTION as i32 + 1 - trailing;
    let behind = (used - exponent - 1).max(0);
    if behind == 0 && exponent <= 62 {
        return whole(fraction, exponent, significant);
    }
    let mut decimal = estimate(fraction, exponent);
    // value = b / s · 10^decimal, and half of the distance to the next number is m / s, all of them 5^… · 2^….
    let (b5, s5) = ((-decimal).max(0), decimal.max(0));
    let (mut b2, mut s2) = (b5 + behind + exponent, s5 + behind);
    let mut m2 = b2 - significant;
    b2 -= used - 1;
    let common = b2.min(s2);
    b2 -= common;
    s2 -= common;
    m2 -= common;
    if used == 1 {
        // Below a power of two the next number is only half as far away.
        m2 -= 1;
    }
    if m2 < 0 {
        b2 -= m2;
        s2 -= m2;
        m2 = 0;
    }
    let fraction = fraction >> trailing;
    let bits_of_five = |power: i32| if power < 27 { power * 2323 / 1000 + i32::from(power > 0) } else { power * 3 };
    let wide = used + b2 + bits_of_five(b5) >= 64 || s2 + 1 + bits_of_five(s5 + 1) >= 64;
    let room = used + b2 + b5 * 3 + 8 < 128 && s2 + s5 * 3 + 8 < 128 && m2 + b5 * 3 + 8 < 128;
    let (digits, round_up) = if room {
        let five = |power: i32| 5_u128.pow(power.unsigned_abs());
        digits((u128::from(fraction) * five(b5)) << b2, five(s5) << s2, five(b5) << m2, wide, &mut decimal)
    } else {
        let of = |factor: u64, power: i32, shift: i32| Big::from(factor).times_five(power).shifted(shift);
        digits(of(fraction, b5, b2), of(1, s5, s2), of(1, b5, m2), wide, &mut decimal)
    };
    rounded(digits, decimal + 1, round_up)
}

/// A whole number: its digits, of which those that the number does not determine are rounded away.
fn whole(fraction: u64, exponent: i32, significant: i32) -> (Vec<u8>, i32) {
    let value =
        if exponent >= FRACTION as i32 { fraction << (exponent - FRACTION as i32) } else { fraction >> (FRACTION as i32 - exponent) };
    // Digits of the power of two that is the distance between numbers here.
    let power = exponent - significant - 1;
    let insignificant = if power > 1 { (power * 30_103 / 100_000).unsigned_abs() } else { 0 };
    let unit = 10_u64.pow(insignificant);
    let kept = value / unit + u64::from(value % unit >= unit / 2 && insignificant > 0);
    let text = kept.to_string();
    let before = i32::try_from(text.len()).unwrap_or(0) + insignificant as i32;
    let digits = text.trim_end_matches('0').bytes().map(|digit| digit - b'0').collect();
    (digits, before)
}

/// The decimal exponent, perhaps one too large.
fn estimate(fraction: u64, exponent: i32) -> i32 {
    let mantissa = f64::from_bits(1023 << FRACTION | fraction & ((1 << FRACTION) - 1));
    ((mantissa - 1.5) * 0.289_529_654 + 0.176_091_259 + f64::from(exponent) * std::f64::consts::LOG10_2).floor() as i32
}

/// Non-negative integers that are large enough.
trait Integer: Sized {
    /// How often `divisor` goes into it, at most nine times; leaves ten times the remainder.
    fn next_digit(&mut self, divisor: &Self) -> u8;
    fn times_ten(&mut self);
    fn compare(&self, other: &Self) -> Ordering;
    /// Compares the sum of two with ten times a third.
    fn compare_sum(left: &Self, right: &Self, tenth: &Self) -> Ordering;
}

/// Digits of `b` / `s` until they tell the number from its neighbours at a distance of `m`, and whether the last is to be rounded up.
fn digits<I: Integer>(mut b: I, s: I, mut m: I, wide: bool, decimal: &mut i32) -> (Vec<u8>, bool) {
    let mut digits = Vec::with_capacity(18);
    let step = |b: &mut I, m: &mut I| {
        let digit = b.next_digit(&s);
        m.times_ten();
        let high = match I::compare_sum(b, m, &s) {
            Ordering::Greater => true,
            // Java compares differently where numbers are too long for it.
            Ordering::Equal => wide,
            Ordering::Less => false,
        };
        (digit, b.compare(m) == Ordering::Less, high)
    };
    let (digit, mut low, mut high) = step(&mut b, &mut m);
    if digit == 0 && !high {
        *decimal -= 1;
    } else {
        digits.push(digit);
    }
    if *decimal < -3 || *decimal >= 8 {
        // With an exponent there are two digits at least.
        (low, high) = (false, false);
    }
    while !low && !high {
        let digit;
        (digit, low, high) = step(&mut b, &mut m);
        digits.push(digit);
    }
    let round_up = high
        && (!low
            || match I::compare_sum(&b, &b, &s) {
                Ordering::Less => false,
                Ordering::Equal => digits.last().is_some_and(|digit| digit % 2 == 1),
                Ordering::Greater => true,
            });
    (digits, round_up)
}

fn rounded(mut digits: Vec<u8>, mut before: i32, round_up: bool) -> (Vec<u8>, i32) {
    if round_up {
        let nines = digits.iter().rev().take_while(|digit| **digit == 9).count();
        let length = digits.len();
        digits.iter_mut().rev().take(nines).for_each(|digit| *digit = 0);
        if nines == length {
            before += 1;
            if let Some(first) = digits.first_mut() {
                *first = 1;
            }
        } else if let Some(digit) = digits.iter_mut().rev().nth(nines) {
            *digit += 1;
        }
    }
    (digits, before)
}

impl Integer for u128 {
    fn next_digit(&mut self, divisor: &Self) -> u8 {
        let digit = *self / divisor;
        *self = *self % divisor * 10;
        digit as u8
    }

    fn times_ten(&mut self) {
        *self = self.saturating_mul(10);
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }

    fn compare_sum(left: &Self, right: &Self, tenth: &Self) -> Ordering {
        left.saturating_add(*right).cmp(&(tenth * 10))
    }
}

/// An integer of any length, in 32-bit parts, the lowest first, without zeros at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Big(Vec<u32>);

impl From<u64> for Big {
    fn from(value: u64) -> Self {
        Big(vec![value as u32, (value >> 32) as u32]).trimmed()
    }
}

impl Big {
    fn trimmed(mut self) -> Self {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }

    fn multiply(&mut self, factor: u32) {
        let mut carry = 0_u64;
        for part in &mut self.0 {
            carry += u64::from(*part) * u64::from(factor);
            *part = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn times_five(mut self, power: i32) -> Self {
        const LARGEST: i32 = 13;
        let mut left = power;
        while left > 0 {
            let step = left.min(LARGEST);
            self.multiply(5_u32.pow(step.unsigned_abs()));
            left -= step;
        }
        self
    }

    fn shifted(mut self, bits: i32) -> Self {
        let (parts, bits) = ((bits / 32).unsigned_abs() as usize, (bits % 32).unsigned_abs());
        self.multiply(1 << bits);
        self.0.splice(0..0, std::iter::repeat_n(0, parts));
        self.trimmed()
    }

    fn subtract(&mut self, other: &Big) {
        let mut borrow = 0_i64;
        for (index, part) in self.0.iter_mut().enumerate() {
            let difference = i64::from(*part) - i64::from(other.0.get(index).copied().unwrap_or(0)) + borrow;
            *part = difference as u32;
            borrow = difference >> 32;
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn sum(&self, other: &Big) -> Big {
        let mut carry = 0_u64;
        let mut parts = Vec::with_capacity(self.0.len().max(other.0.len()) + 1);
        for index in 0..self.0.len().max(other.0.len()) {
            let part = |big: &Big| u64::from(big.0.get(index).copied().unwrap_or(0));
            carry += part(self) + part(other);
            parts.push(carry as u32);
            carry >>= 32;
        }
        parts.push(carry as u32);
        Big(parts).trimmed()
    }
}

impl Integer for Big {
    fn next_digit(&mut self, divisor: &Self) -> u8 {
        let mut digit = 0;
        while self.compare(divisor) != Ordering::Less {
            self.subtract(divisor);
            digit += 1;
        }
        self.multiply(10);
        digit
    }

    fn times_ten(&mut self) {
        self.multiply(10);
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    fn compare_sum(left: &Self, right: &Self, tenth: &Self) -> Ordering {
        let mut ten = tenth.clone();
        ten.multiply(10);
        left.sum(right).compare(&ten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_integers_agree() {
        for value in [0.1, 1.0 / 3.0, 123_456.789, 5e-5, 0.3, 2.5e-7, 7.0e-3, 1e15 + 0.3] {
            let bits = f64::to_bits(value);
            let (fraction, exponent) = (bits & ((1 << FRACTION) - 1) | 1 << FRACTION, (bits >> FRACTION & 0x7ff) as i32 - 1023);
            let decimal = estimate(fraction, exponent);
            let shift = FRACTION as i32 - exponent;
            let (b5, s5) = ((-decimal).max(0), decimal.max(0));
            let small = digits(
                (u128::from(fraction) * 5_u128.pow(b5 as u32)) << b5 << 1,
                (5_u128.pow(s5 as u32) << s5 << shift) << 1,
                5_u128.pow(b5 as u32) << b5,
                true,
                &mut decimal.clone(),
            );
            let large = digits(
                Big::from(fraction).times_five(b5).shifted(b5 + 1),
                Big::from(1).times_five(s5).shifted(s5 + shift + 1),
                Big::from(1).times_five(b5).shifted(b5),
                true,
                &mut decimal.clone(),
            );
            assert_eq!(small, large, "{value}");
        }
    }
}
