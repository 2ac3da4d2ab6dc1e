//! Numbers as they are written in JSON.

/// A number whose syntax was checked.
#[derive(Clone, Copy, Debug)]
pub struct Number<'a> {
    /// The bytes as written.
    pub raw: &'a [u8],
    /// Whether there is neither a fraction nor an exponent.
    pub integral: bool,
    negative: bool,
    /// The digits as one whole number, if there are at most 19 behind leading zeros.
    mantissa: Option<u64>,
    /// The power of ten that the mantissa is multiplied by.
    exponent: i32,
}

const POWERS: [f64; 23] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22];

impl<'a> Number<'a> {
    /// Reads the number at the beginning of `bytes`; the error is a place and what is wrong there.
    #[inline]
    pub fn scan(bytes: &'a [u8], leading_zeros: bool) -> Result<Self, (usize, &'static str)> {
        let negative = bytes.first() == Some(&b'-');
        let start = usize::from(negative);
        let (mut mantissa, mut at) = digits(bytes, start, 0);
        if at == start {
            return Err((at, "a digit is missing"));
        }
        let mut zeros = 0;
        if bytes.get(start) == Some(&b'0') && at > start + 1 {
            if !leading_zeros {
                return Err((start, "a number must not begin with a zero"));
            }
            zeros = bytes.get(start..at).unwrap_or_default().iter().take_while(|byte| **byte == b'0').count();
        }
        let mut significant = at - start - zeros;
        let (mut integral, mut exponent) = (true, 0_i32);
        if bytes.get(at) == Some(&b'.') {
            integral = false;
            let (more, end) = digits(bytes, at + 1, mantissa);
            if end == at + 1 {
                return Err((end, "a digit is missing behind the decimal point"));
            }
            mantissa = more;
            let places = end - at - 1;
            significant += places;
            exponent = i32::try_from(places).map_or(i32::MIN, |places| -places);
            at = end;
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            integral = false;
            let minus = bytes.get(at + 1) == Some(&b'-');
            let first = at + 1 + usize::from(minus || bytes.get(at + 1) == Some(&b'+'));
            let (power, end) = digits(bytes, first, 0);
            if end == first {
                return Err((end, "a digit is missing in the exponent"));
            }
            // Beyond this every number is zero or infinite.
            let power = if end - first > 6 { 999_999 } else { i32::try_from(power).unwrap_or(999_999) };
            exponent = exponent.saturating_add(if minus { -power } else { power });
            at = end;
        }
        let raw = bytes.get(..at).unwrap_or_default();
        Ok(Number { raw, integral, negative, mantissa: (significant <= 19).then_some(mantissa), exponent })
    }

    /// The whole number, if it is written as one and fits.
    #[inline]
    pub fn long(&self) -> Option<i64> {
        match self.mantissa {
            Some(mantissa) if self.integral => {
                if self.negative {
                    0_i64.checked_sub_unsigned(mantissa)
                } else {
                    i64::try_from(mantissa).ok()
                }
            }
            _ => None,
        }
    }

    /// The nearest 64-bit number.
    #[inline]
    pub fn double(&self) -> f64 {
        if let Some(mantissa) = self.mantissa.filter(|mantissa| *mantissa <= 1 << 53) {
            // Both operands are exact, so the one rounding of the operation is the right one.
            let power = POWERS.get(self.exponent.unsigned_abs() as usize);
            if let Some(power) = power {
                let value = if self.exponent < 0 { mantissa as f64 / power } else { mantissa as f64 * power };
                return if self.negative { -value } else { value };
            }
        }
        std::str::from_utf8(self.raw).ok().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
    }

    /// The nearest 32-bit number.
    pub fn float(&self) -> f32 {
        std::str::from_utf8(self.raw).ok().and_then(|text| text.parse().ok()).unwrap_or(f32::NAN)
    }

    /// Appends the number as Jackson writes it again: whole numbers without needless zeros, others as they were.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let zeros = match self.raw {
            [b'-', digits @ ..] | digits if self.integral && digits.first() == Some(&b'0') => digits
                .iter()
                .take_while(|byte| **byte == b'0')
                .count()
                .min(digits.len() - usize::from(digits.iter().all(|byte| *byte == b'0'))),
            _ => return out.extend_from_slice(self.raw),
        };
        let digits = self.raw.get(usize::from(self.negative) + zeros..).unwrap_or_default();
        if self.negative && digits != b"0" {
            out.push(b'-');
        }
        out.extend_from_slice(digits);
    }
}

/// The number that `value` continued by the digits from `at` on makes, wrapping around, and where they end.
#[inline(always)]
fn digits(bytes: &[u8], mut at: usize, mut value: u64) -> (u64, usize) {
    while let Some(byte) = bytes.get(at) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        at += 1;
    }
    (value, at)
}
