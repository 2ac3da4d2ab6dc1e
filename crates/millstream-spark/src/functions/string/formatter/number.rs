//! Numbers in a format.

use super::Flags;

/// How a floating-point number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Float {
    /// `1.234500e+04`
    Scientific,
    /// `12345.000000`
    Plain,
    /// One of the two, by the size of the number.
    General,
}

/// A whole number of so many bits: decimal, or its bits as octal or hexadecimal digits.
pub(super) fn integer(number: i64, bits: u32, conversion: char, flags: &Flags, width: Option<usize>) -> String {
    if conversion == 'd' {
        let digits = number.unsigned_abs().to_string();
        let digits = if flags.group { grouped(&digits) } else { digits };
        return signed(number < 0, digits, flags, width);
    }
    let unsigned = if bits < 64 { number as u64 & ((1 << bits) - 1) } else { number as u64 };
    let mut text = if conversion == 'x' { format!("{unsigned:x}") } else { format!("{unsigned:o}") };
    let prefix = match (flags.alternate, conversion) {
        (false, _) => "",
        (true, 'x') => "0x",
        (true, _) => "0",
    };
    if flags.zero {
        fill_zeros(&mut text, width, prefix.len());
    }
    format!("{prefix}{text}")
}

/// A floating-point number, rounded half up in its shortest decimal form.
pub(super) fn float(number: f64, form: Float, precision: Option<usize>, flags: &Flags, width: Option<usize>) -> String {
    if !number.is_finite() {
        let text = if number.is_nan() { "NaN" } else { "Infinity" };
        let unfilled = Flags { zero: false, ..*flags };
        return if number.is_nan() { text.to_owned() } else { signed(number < 0.0, text.to_owned(), &unfilled, width) };
    }
    let digits = Digits::of(number.abs());
    let precision = precision.unwrap_or(6);
    let text = match form {
        Float::Scientific => digits.scientific(precision, flags.alternate),
        Float::Plain => digits.plain(precision, flags.group, flags.alternate),
        Float::General => {
            let precision = precision.max(1);
            let rounded = digits.rounded(precision);
            // The number is 0.d1d2… × 10^point.
            match i64::from(rounded.point) {
                _ if rounded.digits.is_empty() => digits.plain(precision - 1, flags.group, false),
                point if point > -4 && point <= precision as i64 => {
                    digits.plain(usize::try_from(precision as i64 - point).unwrap_or(0), flags.group, false)
                }
                _ => digits.scientific(precision - 1, false),
            }
        }
    };
    signed(number.is_sign_negative(), text, flags, width)
}

/// `0x1.8p0`, as `Double.toHexString` writes it.
pub(super) fn hexadecimal(number: f64) -> String {
    if !number.is_finite() {
        return if number.is_nan() { "NaN".to_owned() } else { format!("{}Infinity", if number < 0.0 { "-" } else { "" }) };
    }
    let bits = number.to_bits();
    let sign = if number.is_sign_negative() { "-" } else { "" };
    let (exponent, fraction) = ((bits >> 52) & 0x7ff, bits & ((1 << 52) - 1));
    let digits = format!("{fraction:013x}");
    let digits = match digits.trim_end_matches('0') {
        "" => "0",
        digits => digits,
    };
    match (exponent, fraction) {
        (0, 0) => format!("{sign}0x0.0p0"),
        (0, _) => format!("{sign}0x0.{digits}p-1022"),
        _ => format!("{sign}0x1.{digits}p{}", exponent as i64 - 1023),
    }
}

/// With its sign, and zeros up to the width.
fn signed(negative: bool, mut digits: String, flags: &Flags, width: Option<usize>) -> String {
    let (before, behind) = match negative {
        true if flags.parentheses => ("(", ")"),
        true => ("-", ""),
        false if flags.plus => ("+", ""),
        false if flags.space => (" ", ""),
        false => ("", ""),
    };
    if flags.zero {
        fill_zeros(&mut digits, width, before.len() + behind.len());
    }
    format!("{before}{digits}{behind}")
}

fn fill_zeros(digits: &mut String, width: Option<usize>, taken: usize) {
    let missing = width.unwrap_or(0).saturating_sub(digits.len() + taken);
    digits.insert_str(0, &"0".repeat(missing));
}

/// With a comma before every three digits.
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The shortest decimal digits of a number that is not negative: 0.d1d2… × 10^point, none for zero.
struct Digits {
    digits: Vec<u8>,
    point: i32,
}

impl Digits {
    fn of(number: f64) -> Digits {
        if number == 0.0 {
            return Digits { digits: Vec::new(), point: 1 };
        }
        let text = format!("{number:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let digits = mantissa.bytes().filter(u8::is_ascii_digit).map(|digit| digit - b'0').collect();
        Digits { digits, point: exponent.parse::<i32>().unwrap_or(0) + 1 }
    }

    /// With at most so many digits.
    fn rounded(&self, count: usize) -> Digits {
        let up = self.digits.get(count).is_some_and(|digit| *digit >= 5);
        let mut digits: Vec<u8> = self.digits.iter().copied().take(count).collect();
        let mut point = self.point;
        if up {
            let mut carries = true;
            for digit in digits.iter_mut().rev() {
                if *digit < 9 {
                    *digit += 1;
                    carries = false;
                    break;
                }
                *digit = 0;
            }
            if carries {
                digits.insert(0, 1);
                point += 1;
            }
        }
        Digits { digits, point }
    }

    /// The digit of 10^place.
    fn at(&self, place: i64) -> char {
        let index = usize::try_from(i64::from(self.point) - 1 - place).ok();
        index.and_then(|index| self.digits.get(index)).map_or('0', |digit| char::from(b'0' + digit))
    }

    fn plain(&self, precision: usize, group: bool, point_always: bool) -> String {
        let places = precision as i64;
        let kept = usize::try_from(i64::from(self.point) + places);
        // Less than half of the last place is zero.
        let rounded = kept.map_or(Digits { digits: Vec::new(), point: 1 }, |kept| self.rounded(kept));
        let whole: String = (0..i64::from(rounded.point).max(1)).rev().map(|place| rounded.at(place)).collect();
        let mut text = if group { grouped(&whole) } else { whole };
        if places > 0 || point_always {
            text.push('.');
        }
        text.extend((1..=places).map(|place| rounded.at(-place)));
        text
    }

    fn scientific(&self, precision: usize, point_always: bool) -> String {
        let rounded = self.rounded(precision + 1);
        let exponent = if rounded.digits.is_empty() { 0 } else { i64::from(rounded.point) - 1 };
        let mut text = String::from(rounded.at(exponent));
        if precision > 0 || point_always {
            text.push('.');
        }
        text.extend((1..=precision as i64).map(|place| rounded.at(exponent - place)));
        let sign = if exponent < 0 { '-' } else { '+' };
        text.push_str(&format!("e{sign}{:02}", exponent.unsigned_abs()));
        text
    }
}
