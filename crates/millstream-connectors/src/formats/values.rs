//! Text to values, by the rules that Spark's JSON and CSV readers share.
//!
//! Every function takes the text of one value and returns `None` where Spark would call the value malformed. Nothing here reads a clock:
//! a text that is only a time of day has no date and is malformed (Spark would take today's date, which is not repeatable).

mod datetime;
mod pattern;
mod zone;

pub use datetime::{DateTimeFormats, days_of, parse_date, parse_timestamp, parse_timestamp_ntz};
pub use pattern::DateTimePattern;
pub use zone::Zone;

/// The largest value of each decimal precision plus one: `POWERS_OF_TEN[p]` is 10^p.
pub const POWERS_OF_TEN: [i128; 39] = powers_of_ten();

const fn powers_of_ten() -> [i128; 39] {
    let mut powers = [1_i128; 39];
    let mut at = 1;
    while at < 39 {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
}

/// A whole number in decimal digits with an optional sign, as Java's `Long.parseLong` takes it. `None` also beyond 64 bits.
pub fn parse_long(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value: i64 = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // Counting downwards, because the smallest number has no positive counterpart.
        value = value.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

/// A floating-point number as Java's `Double.parseDouble` takes it: surrounding spaces, a trailing `d` or `f`, `NaN` and `Infinity` are
/// allowed; hexadecimal forms are not supported.
pub fn parse_double(text: &str) -> Option<f64> {
    let (negative, digits) = java_float(text)?;
    let value: f64 = match digits {
        "NaN" => f64::NAN,
        "Infinity" => f64::INFINITY,
        _ => digits.parse().ok()?,
    };
    Some(if negative { -value } else { value })
}

/// As [`parse_double`], rounding to the nearest 32-bit number.
pub fn parse_float(text: &str) -> Option<f32> {
    let (negative, digits) = java_float(text)?;
    let value: f32 = match digits {
        "NaN" => f32::NAN,
        "Infinity" => f32::INFINITY,
        _ => digits.parse().ok()?,
    };
    Some(if negative { -value } else { value })
}

/// Takes sign and Java's type suffix off a number and leaves only forms that Rust reads the same way.
fn java_float(text: &str) -> Option<(bool, &str)> {
    let text = text.trim_matches(|c: char| c <= ' ');
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    if digits == "NaN" || digits == "Infinity" {
        return Some((negative, digits));
    }
    let digits = digits.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(digits);
    let first = *digits.as_bytes().first()?;
    (first.is_ascii_digit() || first == b'.').then_some((negative, digits))
}

/// A decimal number (`-12.50`, `1.5e3`) at a precision and scale, rounding halves away from zero: `1.005` at scale 2 is `1.01`.
///
/// Returns the unscaled value, or `None` for other text and for numbers with more than `precision` digits.
pub fn parse_decimal(text: &[u8], precision: u8, scale: i8) -> Option<i128> {
    let parts = DecimalParts::split(text)?;
    let significant = parts.significant();
    if significant == 0 {
        return Some(0);
    }
    // The number is 0.d1d2d3… × 10^magnitude; its unscaled value has `kept` digits.
    let kept = parts.magnitude().checked_add(i64::from(scale))?;
    if kept > i64::from(precision) || kept > 38 {
        return None;
    }
    if kept < 0 {
        return Some(0);
    }
    let kept = usize::try_from(kept).ok()?;
    let mut value: i128 = 0;
    for at in 0..kept {
        value = value.checked_mul(10)?.checked_add(i128::from(parts.digit(at)))?;
    }
    if parts.digit(kept) >= 5 {
        value = value.checked_add(1)?;
    }
    if value >= *POWERS_OF_TEN.get(usize::from(precision))? {
        return None;
    }
    Some(if parts.negative { -value } else { value })
}

/// The precision and scale that a decimal number is written with, as Java's `BigDecimal` counts them (`1e5` has scale -5).
pub fn decimal_shape(text: &[u8]) -> Option<(i64, i64)> {
    let parts = DecimalParts::split(text)?;
    let precision = i64::try_from(parts.significant().max(1)).ok()?;
    let fraction = i64::try_from(parts.fraction.len()).ok()?;
    Some((precision, fraction.checked_sub(parts.exponent)?))
}

/// The pieces of a decimal number: leading zeros are cut off `whole`, and off `fraction` as far as `skipped` says.
struct DecimalParts<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    skipped: usize,
    exponent: i64,
}

impl<'a> DecimalParts<'a> {
    fn split(text: &'a [u8]) -> Option<Self> {
        let (negative, text) = match text.split_first()? {
            (b'-', rest) => (true, rest),
            (b'+', rest) => (false, rest),
            _ => (false, text),
        };
        let (mantissa, exponent) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
            Some(at) => (text.get(..at)?, parse_long(text.get(at + 1..)?).filter(|exponent| i32::try_from(*exponent).is_ok())?),
            None => (text, 0),
        };
        let (whole, fraction) = match mantissa.iter().position(|byte| *byte == b'.') {
            Some(at) => (mantissa.get(..at)?, mantissa.get(at + 1..)?),
            None => (mantissa, &[][..]),
        };
        if whole.is_empty() && fraction.is_empty() || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
            return None;
        }
        let zeros = whole.iter().take_while(|byte| **byte == b'0').count();
        let whole = whole.get(zeros..)?;
        let skipped = if whole.is_empty() { fraction.iter().take_while(|byte| **byte == b'0').count() } else { 0 };
        Some(DecimalParts { negative, whole, fraction, skipped, exponent })
    }

    /// How many digits there are from the first that is not zero.
    fn significant(&self) -> usize {
        self.whole.len() + self.fraction.len() - self.skipped
    }

    /// The power of ten of the place before the first significant digit.
    fn magnitude(&self) -> i64 {
        let places = if self.whole.is_empty() { -(self.skipped as i64) } else { self.whole.len() as i64 };
        places + self.exponent
    }

    /// The significant digit at a place; zero behind the last.
    fn digit(&self, at: usize) -> u8 {
        let byte = match at.checked_sub(self.whole.len()) {
            None => self.whole.get(at),
            Some(behind) => self.fraction.get(behind + self.skipped),
        };
        byte.map_or(0, |byte| byte - b'0')
    }
}

#[cfg(test)]
mod tests;
