//! Numbers as Spark types them: the narrowest of `INT`, `BIGINT` and `DECIMAL` without a suffix, `DOUBLE` with an exponent.

use spark_connect_proto::expression::literal::{Decimal, LiteralType};

/// Why a number is none: a condition with its SQLSTATE and a message.
pub(super) type Refusal = (&'static str, &'static str, String);

/// The widest decimal.
const MAX_PRECISION: usize = 38;

/// Reads a number as the lexer cuts it, `1`, `1.5`, `1e3`, `1L`, `1.5BD`.
pub(super) fn number(text: &str, negative: bool) -> Result<LiteralType, Refusal> {
    let upper = text.to_ascii_uppercase();
    let (digits, suffix) = ["BD", "L", "S", "Y", "F", "D"]
        .iter()
        .find_map(|suffix| Some((upper.strip_suffix(suffix)?, *suffix)))
        .unwrap_or((upper.as_str(), ""));
    let signed = if negative { format!("-{digits}") } else { digits.to_owned() };
    match suffix {
        "L" => whole(&signed, "BIGINT", i64::MIN, i64::MAX).map(LiteralType::Long),
        "S" => small(&signed, "SMALLINT", i16::MIN.into(), i16::MAX.into()).map(LiteralType::Short),
        "Y" => small(&signed, "TINYINT", i8::MIN.into(), i8::MAX.into()).map(LiteralType::Byte),
        "F" => match signed.parse::<f32>() {
            Ok(number) if number.is_finite() => Ok(LiteralType::Float(number)),
            _ => Err(out_of_range(&signed, "FLOAT")),
        },
        "D" => double(&signed),
        "BD" => decimal(&signed),
        _ if digits.contains('E') => double(&signed),
        _ if digits.contains('.') => decimal(&signed),
        _ => match signed.parse::<i64>() {
            Ok(number) => Ok(i32::try_from(number).map_or(LiteralType::Long(number), LiteralType::Integer)),
            Err(_) => decimal(&signed),
        },
    }
}

fn out_of_range(text: &str, name: &str) -> Refusal {
    ("INVALID_NUMERIC_LITERAL_RANGE", "22003", format!("the number {text} is outside of the range of {name}"))
}

fn whole(text: &str, name: &str, low: i64, high: i64) -> Result<i64, Refusal> {
    text.parse().ok().filter(|number| (low..=high).contains(number)).ok_or_else(|| out_of_range(text, name))
}

fn small(text: &str, name: &str, low: i64, high: i64) -> Result<i32, Refusal> {
    whole(text, name, low, high).and_then(|number| i32::try_from(number).map_err(|_| out_of_range(text, name)))
}

fn double(text: &str) -> Result<LiteralType, Refusal> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(LiteralType::Double(number)),
        _ => Err(out_of_range(text, "DOUBLE")),
    }
}

/// A decimal of as many digits as are written.
fn decimal(text: &str) -> Result<LiteralType, Refusal> {
    let too_wide = || {
        let message = format!("the decimal {text} has more than {MAX_PRECISION} digits");
        ("DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION", "22003", message)
    };
    let (sign, unsigned) = text.strip_prefix('-').map_or(("", text), |unsigned| ("-", unsigned));
    let (mantissa, exponent) = match unsigned.split_once('E') {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().map_err(|_| too_wide())?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = format!("{whole}{fraction}");
    let scale = i64::try_from(fraction.len()).map_err(|_| too_wide())?.saturating_sub(exponent);
    if scale < 0 {
        let zeros = usize::try_from(-scale).ok().filter(|zeros| *zeros <= MAX_PRECISION).ok_or_else(too_wide)?;
        digits.extend(std::iter::repeat_n('0', zeros));
    }
    let scale = usize::try_from(scale.max(0)).ok().filter(|scale| *scale <= MAX_PRECISION).ok_or_else(too_wide)?;
    let significant = digits.trim_start_matches('0');
    let precision = significant.len().max(1).max(scale);
    if precision > MAX_PRECISION {
        return Err(too_wide());
    }
    let padded = format!("{significant:0>width$}", width = scale + 1);
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    let zero = significant.is_empty();
    let value = format!("{}{whole}{}{fraction}", if zero { "" } else { sign }, if scale > 0 { "." } else { "" });
    Ok(LiteralType::Decimal(Decimal { value, precision: i32::try_from(precision).ok(), scale: i32::try_from(scale).ok() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dec(value: &str, precision: i32, scale: i32) -> LiteralType {
        LiteralType::Decimal(Decimal { value: value.to_owned(), precision: Some(precision), scale: Some(scale) })
    }

    #[test]
    fn a_numbers_text_tells_its_type() {
        for (text, negative, expected) in [
            ("1", false, LiteralType::Integer(1)),
            ("2147483648", false, LiteralType::Long(2_147_483_648)),
            ("2147483648", true, LiteralType::Integer(i32::MIN)),
            ("9223372036854775808", false, dec("9223372036854775808", 19, 0)),
            ("9223372036854775808", true, LiteralType::Long(i64::MIN)),
            ("9223372036854775808L", true, LiteralType::Long(i64::MIN)),
            ("1l", false, LiteralType::Long(1)),
            ("1S", false, LiteralType::Short(1)),
            ("128Y", true, LiteralType::Byte(-128)),
            ("1e3", false, LiteralType::Double(1000.0)),
            ("1.5F", true, LiteralType::Float(-1.5)),
            ("1.50", false, dec("1.50", 3, 2)),
            (".5", false, dec("0.5", 1, 1)),
            ("5.", false, dec("5", 1, 0)),
            ("0.00", true, dec("0.00", 2, 2)),
            ("1BD", false, dec("1", 1, 0)),
            ("1.5e3BD", false, dec("1500", 4, 0)),
            ("15e-3bd", true, dec("-0.015", 3, 3)),
        ] {
            assert_eq!(number(text, negative), Ok(expected), "{text}");
        }
    }

    #[test]
    fn numbers_outside_of_their_type_are_refused() {
        for (text, code) in [
            ("128Y", "INVALID_NUMERIC_LITERAL_RANGE"),
            ("99999S", "INVALID_NUMERIC_LITERAL_RANGE"),
            ("1e400", "INVALID_NUMERIC_LITERAL_RANGE"),
            ("1e40F", "INVALID_NUMERIC_LITERAL_RANGE"),
            ("12345678901234567890123456789012345678901", "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION"),
            ("1e99999999999BD", "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION"),
        ] {
            assert_eq!(number(text, false).map_err(|refusal| refusal.0), Err(code), "{text}");
        }
    }
}
