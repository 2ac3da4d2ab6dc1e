//! Decimals as Spark computes with them: unscaled integers of at most 38 digits, rounded half up.

use arrow::datatypes::i256;

/// The most digits of a decimal.
pub(crate) const MAX_PRECISION: u8 = 38;

/// 10^n for n of 0 to 38.
const POWERS: [i128; 39] = {
    let mut powers = [1_i128; 39];
    let mut n = 1;
    while n < 39 {
        powers[n] = powers[n - 1] * 10;
        n += 1;
    }
    powers
};

/// 10^`n`, if that is a decimal.
pub(crate) fn power(n: u32) -> Option<i128> {
    POWERS.get(n as usize).copied()
}

/// The value, if it has at most `precision` digits.
pub(crate) fn fit(unscaled: i128, precision: u8) -> Option<i128> {
    let limit = power(u32::from(precision))?.unsigned_abs();
    (unscaled.unsigned_abs() < limit).then_some(unscaled)
}

/// The same, for the result of a computation that may be longer than any decimal.
pub(crate) fn fit_wide(unscaled: i256, precision: u8) -> Option<i128> {
    fit(unscaled.to_i128()?, precision)
}

/// `numerator` / `denominator`, rounded half up (away from zero). `None` for a denominator of zero.
pub(crate) fn divide_half_up(numerator: i128, denominator: i128) -> Option<i128> {
    let quotient = numerator.checked_div(denominator)?;
    let remainder = numerator.checked_rem(denominator)?;
    // |remainder| < |denominator|, so the difference cannot overflow where twice the remainder could.
    if remainder.unsigned_abs() >= denominator.unsigned_abs() - remainder.unsigned_abs() && remainder != 0 {
        quotient.checked_add(if (numerator < 0) == (denominator < 0) { 1 } else { -1 })
    } else {
        Some(quotient)
    }
}

/// The same for wide integers.
pub(crate) fn divide_half_up_wide(numerator: i256, denominator: i256) -> Option<i256> {
    let quotient = numerator.checked_div(denominator)?;
    let remainder = numerator.checked_rem(denominator)?.checked_abs()?;
    if remainder != i256::ZERO && remainder >= denominator.checked_abs()?.checked_sub(remainder)? {
        let one = if numerator.is_negative() == denominator.is_negative() { i256::ONE } else { i256::MINUS_ONE };
        quotient.checked_add(one)
    } else {
        Some(quotient)
    }
}

/// The value at another scale, rounded half up, if it then has at most `precision` digits.
pub(crate) fn rescale(unscaled: i128, from: i8, to: i8, precision: u8) -> Option<i128> {
    let shift = i32::from(to) - i32::from(from);
    let value = if shift >= 0 {
        if unscaled == 0 { 0 } else { unscaled.checked_mul(power(shift.unsigned_abs())?)? }
    } else {
        match power(shift.unsigned_abs()) {
            Some(divisor) => divide_half_up(unscaled, divisor)?,
            None => 0,
        }
    };
    fit(value, precision)
}

/// The same, from a wide integer.
pub(crate) fn rescale_wide(unscaled: i256, from: i32, to: i8, precision: u8) -> Option<i128> {
    let shift = i32::from(to) - from;
    let power = i256::from_i128(10).checked_pow(shift.unsigned_abs());
    let value = match (shift >= 0, power) {
        (true, Some(power)) => unscaled.checked_mul(power)?,
        (false, Some(power)) => divide_half_up_wide(unscaled, power)?,
        (true, None) => return None,
        (false, None) => i256::ZERO,
    };
    fit_wide(value, precision)
}

/// The number as a whole number, cut off towards zero.
pub(crate) fn truncate(unscaled: i128, scale: i8) -> i128 {
    match u32::try_from(scale) {
        Ok(scale) => power(scale).map_or(0, |divisor| unscaled / divisor),
        Err(_) => power(scale.unsigned_abs().into()).and_then(|power| unscaled.checked_mul(power)).unwrap_or(unscaled),
    }
}

/// The nearest double.
pub(crate) fn to_f64(unscaled: i128, scale: i8) -> f64 {
    // Both are exact up to here, so the quotient is rounded once.
    const EXACT: u128 = 1 << 53;
    if let (true, Ok(digits @ 0..=22)) = (unscaled.unsigned_abs() <= EXACT, u32::try_from(scale)) {
        return unscaled as f64 / power(digits).unwrap_or(1) as f64;
    }
    format!("{unscaled}e{}", -i32::from(scale)).parse().unwrap_or(f64::NAN)
}

/// The nearest float.
pub(crate) fn to_f32(unscaled: i128, scale: i8) -> f32 {
    format!("{unscaled}e{}", -i32::from(scale)).parse().unwrap_or(f32::NAN)
}

/// A decimal of the shortest digits that read as this double, as `java.math.BigDecimal` takes it. `None` when it has none or too many
/// digits.
pub(crate) fn from_f64(value: f64, precision: u8, scale: i8) -> Option<i128> {
    if !value.is_finite() {
        return None;
    }
    Digits::parse(&format!("{value:e}"))?.to_decimal(precision, scale)
}

/// A number in decimal digits, however many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Digits {
    negative: bool,
    /// Without leading zeros; empty for zero.
    digits: String,
    /// How many of them are behind the point; negative when zeros are missing before it.
    scale: i64,
}

impl Digits {
    /// Reads `[+-]digits[.digits][e[+-]digits]`, with at least one digit before the exponent.
    pub(crate) fn parse(text: &str) -> Option<Digits> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, text.get(1..)?),
            b'+' => (false, text.get(1..)?),
            _ => (false, text),
        };
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !is_number(whole) || !is_number(fraction) {
            return None;
        }
        let all = format!("{whole}{fraction}");
        let scale = i64::try_from(fraction.len()).ok()? - exponent;
        Some(Digits { negative, digits: all.trim_start_matches('0').to_owned(), scale })
    }

    /// Digits before the point.
    pub(crate) fn integral_digits(&self) -> i64 {
        i64::try_from(self.digits.len()).unwrap_or(i64::MAX).saturating_sub(self.scale)
    }

    /// As a decimal, rounded half up. `None` when it has more digits than that.
    pub(crate) fn to_decimal(&self, precision: u8, scale: i8) -> Option<i128> {
        if self.digits.is_empty() {
            return Some(0);
        }
        let shift = i64::from(scale).checked_sub(self.scale)?;
        let magnitude = if shift >= 0 {
            let value: i128 = if self.digits.len() <= 38 { self.digits.parse().ok()? } else { return None };
            value.checked_mul(power(u32::try_from(shift).ok()?)?)?
        } else {
            let kept = i64::try_from(self.digits.len()).ok()?.checked_add(shift)?;
            match usize::try_from(kept) {
                Err(_) => 0,
                Ok(kept) => {
                    let (kept, dropped) = self.digits.split_at_checked(kept)?;
                    let value: i128 = match kept.len() {
                        0 => 0,
                        1..=38 => kept.parse().ok()?,
                        _ => return None,
                    };
                    value + i128::from(dropped.as_bytes().first().is_some_and(|digit| *digit >= b'5'))
                }
            }
        };
        fit(if self.negative { -magnitude } else { magnitude }, precision)
    }
}

fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || digits.len() > 10 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value: i64 = digits.parse().ok()?;
    Some(if text.starts_with('-') { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rescaling_rounds_half_up_and_checks_the_length() {
        for (unscaled, from, to, precision, expected) in [
            (125, 2, 1, 10, Some(13)),
            (-125, 2, 1, 10, Some(-13)),
            (124, 2, 1, 10, Some(12)),
            (99_95, 2, 1, 3, None),
            (1, 0, 38, 38, None),
            (0, 0, 38, 38, Some(0)),
            (7, 38, -2, 38, Some(0)),
            (i128::MAX, 0, 0, 38, None),
        ] {
            assert_eq!(rescale(unscaled, from, to, precision), expected, "{unscaled} {from} {to}");
            let wide = rescale_wide(i256::from_i128(unscaled), i32::from(from), to, precision);
            assert_eq!(wide, expected, "wide {unscaled} {from} {to}");
        }
        assert_eq!(divide_half_up(i128::MAX, i128::MAX), Some(1));
        assert_eq!(divide_half_up(1, 0), None);
        assert_eq!(divide_half_up(-7, 2), Some(-4));
    }

    #[test]
    fn digits_of_any_length() {
        for (text, precision, scale, expected) in [
            ("1e2", 5, 1, Some(1000)),
            ("+.5", 5, 0, Some(1)),
            ("5.", 5, 1, Some(50)),
            ("-0.05", 5, 1, Some(-1)),
            ("0.049999999999999999999999999999999999999999999999", 5, 1, Some(0)),
            ("9.99", 2, 1, None),
            ("123456789012345678901234567890123456789012345e-40", 10, 2, Some(1_234_568)),
            ("1e9999999", 38, 0, None),
            ("1e-9999999", 38, 10, Some(0)),
            ("0e999", 5, 2, Some(0)),
        ] {
            assert_eq!(Digits::parse(text).unwrap().to_decimal(precision, scale), expected, "{text}");
        }
        for text in ["", ".", "+", "1e", "1_0", "0x1", "1e1.5", "--1", "inf", "1 "] {
            assert_eq!(Digits::parse(text), None, "{text}");
        }
    }

    #[test]
    fn doubles_are_the_nearest() {
        for (unscaled, scale, expected) in
            [(15, 1, 1.5), (1, 1, 0.1), (12_345_678_901_234_567_890_i128, 19, 1.234_567_890_123_456_8), (3, -2, 300.0)]
        {
            assert_eq!(to_f64(unscaled, scale), expected);
        }
        assert_eq!(from_f64(1.005, 10, 2), Some(101));
        assert_eq!(from_f64(-2.675, 10, 2), Some(-268));
        assert_eq!(from_f64(f64::NAN, 10, 2), None);
        assert_eq!(from_f64(1e20, 10, 2), None);
    }
}
