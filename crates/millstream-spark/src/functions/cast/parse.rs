//! Text to booleans and numbers.

use std::ops::RangeInclusive;

use super::decimal::Digits;

/// Without the spaces and control characters around it.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c <= ' ' || c == '\u{7f}')
}

/// `t`, `true`, `y`, `yes`, `1` and their opposites, in any case.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    let text = trim(text);
    let is = |words: [&str; 5]| words.iter().any(|word| word.eq_ignore_ascii_case(text));
    if is(["t", "true", "y", "yes", "1"]) {
        Some(true)
    } else if is(["f", "false", "n", "no", "0"]) {
        Some(false)
    } else {
        None
    }
}

/// A whole number within `range`; with `fraction`, digits behind a point are cut off.
pub(crate) fn integer(text: &str, range: RangeInclusive<i64>, fraction: bool) -> Option<i64> {
    let text = trim(text);
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => ("-", text.get(1..)?),
        b'+' => ("", text.get(1..)?),
        _ => ("", text),
    };
    let (whole, cut) = match digits.split_once('.') {
        Some(parts) if fraction => parts,
        _ => (digits, ""),
    };
    let numeric = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if digits.is_empty() || !numeric(whole) || !numeric(cut) {
        return None;
    }
    if whole.is_empty() {
        // `.5` is zero; a lone point is not a number but Spark takes it for one.
        return Some(0);
    }
    let value = if sign.is_empty() { whole.parse::<i64>() } else { format!("-{whole}").parse::<i64>() };
    value.ok().filter(|value| range.contains(value))
}

/// A floating-point number as `java.lang.Double.parseDouble` reads it, and `inf`, `infinity`, `nan` in any case.
pub(crate) fn double(text: &str) -> Option<f64> {
    floating(text, str::parse)
}

/// The same with the precision of a float.
pub(crate) fn float(text: &str) -> Option<f32> {
    floating(text, str::parse)
}

fn floating<T: From<f32>, E>(text: &str, parse: impl Fn(&str) -> Result<T, E>) -> Option<T> {
    let text = text.trim_matches(|c: char| c <= ' ');
    let unsuffixed = text.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(text);
    // Rust also takes words for numbers.
    if unsuffixed.ends_with(|c: char| c.is_ascii_digit() || c == '.') && !unsuffixed.contains(['n', 'N', 'i', 'I']) {
        return parse(unsuffixed).ok();
    }
    match text.to_ascii_lowercase().as_str() {
        "inf" | "+inf" | "infinity" | "+infinity" => Some(T::from(f32::INFINITY)),
        "-inf" | "-infinity" => Some(T::from(f32::NEG_INFINITY)),
        "nan" => Some(T::from(f32::NAN)),
        _ => (text == "+NaN" || text == "-NaN").then(|| T::from(f32::NAN)),
    }
}

/// The digits of a decimal as `java.math.BigDecimal` reads them.
pub(crate) fn digits(text: &str) -> Option<Digits> {
    Digits::parse(text.trim_matches(|c: char| c <= ' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        for (text, strict, lenient) in [
            ("1", Some(1), Some(1)),
            (" 12 ", Some(12), Some(12)),
            ("\t-7\n", Some(-7), Some(-7)),
            ("+3", Some(3), Some(3)),
            ("1.9", None, Some(1)),
            ("-1.9", None, Some(-1)),
            (".5", None, Some(0)),
            ("1e2", None, None),
            ("", None, None),
            ("-", None, None),
            ("1 2", None, None),
            ("0x1F", None, None),
            ("1_000", None, None),
            ("2147483647", Some(2_147_483_647), Some(2_147_483_647)),
            ("2147483648", None, None),
            ("-2147483648", Some(-2_147_483_648), Some(-2_147_483_648)),
        ] {
            let range = || i64::from(i32::MIN)..=i64::from(i32::MAX);
            assert_eq!((integer(text, range(), false), integer(text, range(), true)), (strict, lenient), "{text}");
        }
        assert_eq!(integer("-9223372036854775808", i64::MIN..=i64::MAX, false), Some(i64::MIN));
        assert_eq!(integer("9223372036854775808", i64::MIN..=i64::MAX, false), None);
    }

    #[test]
    fn floating_point_numbers() {
        for (text, expected) in [
            ("1e2", Some(100.0)),
            (" 2.5 ", Some(2.5)),
            ("5.", Some(5.0)),
            (".5", Some(0.5)),
            ("1d", Some(1.0)),
            ("1.5F", Some(1.5)),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("+INF", Some(f64::INFINITY)),
            ("1e400", Some(f64::INFINITY)),
            ("", None),
            (".", None),
            ("abc", None),
            ("0x1F", None),
            ("1,000", None),
            ("infin", None),
        ] {
            assert_eq!(double(text), expected, "{text}");
        }
        assert!(double("NaN").is_some_and(f64::is_nan) && double(" nan ").is_some_and(f64::is_nan));
    }

    #[test]
    fn booleans() {
        for (text, expected) in [("T", Some(true)), (" yes ", Some(true)), ("0", Some(false)), ("N", Some(false)), ("2", None), ("", None)]
        {
            assert_eq!(boolean(text), expected, "{text}");
        }
    }
}
