//! Numbers in other bases: `hex`, `unhex`, `bin`, `conv`; and `width_bucket`.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float64Type, Int64Type, IntervalUnit};
use millstream_core::{Error, Result};
use std::sync::Arc;

use crate::functions::coercion::{is_nested, is_numeric};
use crate::functions::rows::Rows;
use crate::functions::{Arguments, Functions, Kernel, Typed, faults, kernel};

pub(super) fn register(functions: &mut Functions) {
    functions.add("hex", |call| {
        call.arity(1..=1)?;
        let value = match &call.value(0)?.data_type {
            DataType::Binary | DataType::Utf8 => call.value(0)?.clone(),
            data_type if is_numeric(data_type) || *data_type == DataType::Null => call.long(0)?,
            other if is_nested(other) => {
                return Err(faults::unexpected_type(call.name, 0, "\"BIGINT\", \"BINARY\" or \"STRING\"", other));
            }
            _ => call.string(0)?,
        };
        let nullable = value.nullable;
        Ok(kernel::scalar("hex", Base::Hex, vec![value], DataType::Utf8, nullable))
    });
    functions.add("unhex", |call| {
        call.arity(1..=1)?;
        Ok(kernel::scalar("unhex", Base::Unhex, vec![call.string(0)?], DataType::Binary, true))
    });
    functions.add("bin", |call| {
        call.arity(1..=1)?;
        let value = call.long(0)?;
        let nullable = value.nullable;
        Ok(kernel::scalar("bin", Base::Bin, vec![value], DataType::Utf8, nullable))
    });
    functions.add("conv", |call| {
        call.arity(3..=3)?;
        let conv = Conv { ansi: call.settings.ansi };
        Ok(kernel::scalar("conv", conv, vec![call.string(0)?, call.int(1)?, call.int(2)?], DataType::Utf8, true))
    });
    functions.add("width_bucket", |call| {
        call.arity(4..=4)?;
        let bound = |index: usize| -> Result<Typed> {
            let value = call.value(index)?;
            match value.data_type {
                DataType::Duration(_) | DataType::Interval(IntervalUnit::YearMonth) => {
                    Ok(crate::functions::aggregate::interval_as_double(value.clone()))
                }
                _ => call.double(index),
            }
        };
        let arguments = vec![bound(0)?, bound(1)?, bound(2)?, call.long(3)?];
        Ok(kernel::scalar("width_bucket", WidthBucket, arguments, DataType::Int64, true))
    });
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Base {
    Hex,
    Unhex,
    Bin,
}

impl Kernel for Base {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let numbers = arguments.array(0)?;
        let numbers = numbers.as_primitive_opt::<Int64Type>();
        match (self, numbers) {
            (Base::Hex, Some(numbers)) => {
                Ok(Arc::new(numbers.iter().map(|number| number.map(|number| format!("{number:X}"))).collect::<arrow::array::StringArray>()))
            }
            (Base::Bin, Some(numbers)) => {
                Ok(Arc::new(numbers.iter().map(|number| number.map(|number| format!("{number:b}"))).collect::<arrow::array::StringArray>()))
            }
            (Base::Unhex, _) => Rows::of(arguments)?.bytes(|row, out| {
                let Some(bytes) = unhex(row.bytes(0)) else { return Ok(false) };
                out.extend_from_slice(&bytes);
                Ok(true)
            }),
            _ => Rows::of(arguments)?.texts(|row, out| {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                for byte in row.bytes(0) {
                    for half in [byte >> 4, byte & 15] {
                        out.push(DIGITS.get(usize::from(half)).copied().map_or('0', char::from));
                    }
                }
                Ok(true)
            }),
        }
    }
}

/// The bytes of hexadecimal digits; an odd one counts as the low half of the first byte.
fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (head, pairs) = text.split_at_checked(text.len() % 2)?;
    let mut bytes: Vec<u8> = head.iter().map(|byte| digit(*byte)).collect::<Option<_>>()?;
    for pair in pairs.chunks_exact(2) {
        let [high, low] = pair else { return None };
        bytes.push(digit(*high)? << 4 | digit(*low)?);
    }
    Some(bytes)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Conv {
    ansi: bool,
}

impl Kernel for Conv {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Rows::of(arguments)?.texts(|row, out| match conv(row.text(0), row.int(1), row.int(2)) {
            Some((_, true)) if self.ansi => Err(faults::overflow(format!("conv: '{}' is more than 64 bits", row.text(0)))),
            Some((text, _)) => {
                out.push_str(&text);
                Ok(true)
            }
            None => Ok(false),
        })
    }
}

/// A number of one base in another, and whether it was longer than 64 bits. A negative base makes the result signed. Digits that the base
/// does not have end the number.
fn conv(text: &str, from: i32, to: i32) -> Option<(String, bool)> {
    let range = 2..=36;
    if !range.contains(&from) || !range.contains(&to.checked_abs()?) {
        return None;
    }
    let text = text.trim_matches(' ');
    if text.is_empty() {
        return None;
    }
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let base = u64::try_from(from).ok()?;
    let (mut value, mut overflow) = (0_u64, false);
    for digit in digits.chars().map_while(|digit| digit.to_digit(from.unsigned_abs())) {
        match value.checked_mul(base).and_then(|value| value.checked_add(u64::from(digit))) {
            Some(next) => value = next,
            None => {
                overflow = true;
                value = u64::MAX;
                break;
            }
        }
    }
    let mut negative_result = negative;
    if negative && to > 0 {
        // An unsigned result shows the two's complement, of what fits a signed number.
        value = if (value as i64) < 0 { u64::MAX } else { (value as i64).wrapping_neg() as u64 };
        negative_result = false;
    }
    if to < 0 && (value as i64) < 0 {
        value = (value as i64).wrapping_neg() as u64;
        negative_result = true;
    }
    let base = u64::from(to.unsigned_abs());
    let mut reversed = Vec::new();
    loop {
        let digit = char::from_digit(u32::try_from(value % base).ok()?, 36)?;
        reversed.push(digit.to_ascii_uppercase());
        value /= base;
        if value == 0 {
            break;
        }
    }
    if negative_result {
        reversed.push('-');
    }
    Some((reversed.into_iter().rev().collect(), overflow))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct WidthBucket;

impl Kernel for WidthBucket {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let columns = arguments.arrays()?;
        let [values, lows, highs, buckets] = columns.as_slice() else { return Err(Error::internal("width_bucket takes four arguments")) };
        let doubles =
            |column: &ArrayRef| column.as_primitive_opt::<Float64Type>().cloned().ok_or_else(|| Error::internal("doubles are due"));
        let (values, lows, highs) = (doubles(values)?, doubles(lows)?, doubles(highs)?);
        let buckets = buckets.as_primitive_opt::<Int64Type>().ok_or_else(|| Error::internal("whole numbers are due"))?;
        let rows = values.iter().zip(&lows).zip(highs.iter().zip(buckets));
        let result = rows.map(|((value, low), (high, buckets))| width_bucket(value?, low?, high?, buckets?));
        Ok(Arc::new(result.collect::<arrow::array::Int64Array>()))
    }
}

fn width_bucket(value: f64, low: f64, high: f64, buckets: i64) -> Option<i64> {
    if buckets <= 0 || buckets == i64::MAX || value.is_nan() || low == high || !low.is_finite() || !high.is_finite() {
        return None;
    }
    // The bounds may be given from high to low; then the buckets are counted from the top.
    let (start, end, sign) = if low < high { (low, high, 1.0) } else { (-low, -high, -1.0) };
    let value = value * sign;
    if value < start {
        Some(0)
    } else if value >= end {
        Some(buckets + 1)
    } else {
        Some((buckets as f64 * (value - start) / (end - start)) as i64 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases() {
        for (text, from, to, expected) in [
            ("100", 2, 10, Some("4")),
            ("-10", 16, -10, Some("-16")),
            ("-10", 16, 10, Some("18446744073709551600")),
            ("ff", 16, 10, Some("255")),
            ("abc", 10, 16, Some("0")),
            ("", 10, 16, None),
            ("12", 1, 10, None),
            (" 12", 10, 16, Some("C")),
            ("zz", 36, 10, Some("1295")),
        ] {
            assert_eq!(conv(text, from, to).map(|(text, _)| text).as_deref(), expected, "{text} {from} {to}");
        }
        assert_eq!(conv("18446744073709551616", 10, 16), Some(("FFFFFFFFFFFFFFFF".to_owned(), true)));
        assert_eq!(unhex(b"537"), Some(vec![5, 0x37]));
        assert_eq!(unhex(b"zz"), None);
    }

    #[test]
    fn buckets() {
        for (value, low, high, buckets, expected) in [
            (5.3, 0.2, 10.6, 5, Some(3)),
            (-2.1, 1.3, 3.4, 3, Some(0)),
            (8.1, 0.0, 5.7, 4, Some(5)),
            (-0.9, 5.2, 0.5, 2, Some(3)),
            (1.0, 2.0, 2.0, 3, None),
            (1.0, 0.0, 2.0, 0, None),
            (f64::NAN, 0.0, 1.0, 3, None),
        ] {
            assert_eq!(width_bucket(value, low, high, buckets), expected, "{value} {low} {high} {buckets}");
        }
    }
}
