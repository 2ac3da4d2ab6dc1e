//! Values without parts to text, in the forms that Java and Spark give them.

use std::fmt::Write;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DurationMicrosecondArray, Float32Array,
    Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, IntervalYearMonthArray, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    IntervalUnit, IntervalYearMonthType, TimeUnit, TimestampMicrosecondType,
};
use millstream_core::{Result, raw_text};

use super::datetime::DateTimeText;

/// A column of a canonical type without parts.
#[derive(Clone, Debug)]
pub(crate) enum Scalar {
    Null,
    Boolean(BooleanArray),
    Int8(Int8Array),
    Int16(Int16Array),
    Int32(Int32Array),
    Int64(Int64Array),
    Float32(Float32Array),
    Float64(Float64Array),
    Decimal(Decimal128Array, i8),
    Date(Date32Array),
    Timestamp(TimestampMicrosecondArray),
    TimestampNtz(TimestampMicrosecondArray),
    String(StringArray),
    Binary(BinaryArray),
    DayTime(DurationMicrosecondArray),
    YearMonth(IntervalYearMonthArray),
}

/// How decimals are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecimalText {
    /// `0E-8`, `1E-8`: Java's `BigDecimal.toString`.
    Scientific,
    /// `0.00000000`: Java's `BigDecimal.toPlainString`, what `CAST … AS STRING` gives.
    Plain,
}

impl Scalar {
    /// The column, or `None` for a type with parts or one that is not canonical.
    pub(crate) fn of(column: &ArrayRef) -> Option<Scalar> {
        Some(match column.data_type() {
            DataType::Null => Scalar::Null,
            DataType::Boolean => Scalar::Boolean(column.as_boolean_opt()?.clone()),
            DataType::Int8 => Scalar::Int8(column.as_primitive_opt::<Int8Type>()?.clone()),
            DataType::Int16 => Scalar::Int16(column.as_primitive_opt::<Int16Type>()?.clone()),
            DataType::Int32 => Scalar::Int32(column.as_primitive_opt::<Int32Type>()?.clone()),
            DataType::Int64 => Scalar::Int64(column.as_primitive_opt::<Int64Type>()?.clone()),
            DataType::Float32 => Scalar::Float32(column.as_primitive_opt::<Float32Type>()?.clone()),
            DataType::Float64 => Scalar::Float64(column.as_primitive_opt::<Float64Type>()?.clone()),
            DataType::Decimal128(_, scale) => Scalar::Decimal(column.as_primitive_opt::<Decimal128Type>()?.clone(), *scale),
            DataType::Date32 => Scalar::Date(column.as_primitive_opt::<Date32Type>()?.clone()),
            DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
                Scalar::Timestamp(column.as_primitive_opt::<TimestampMicrosecondType>()?.clone())
            }
            DataType::Timestamp(TimeUnit::Microsecond, None) => {
                Scalar::TimestampNtz(column.as_primitive_opt::<TimestampMicrosecondType>()?.clone())
            }
            DataType::Utf8 => Scalar::String(column.as_string_opt()?.clone()),
            DataType::Binary => Scalar::Binary(column.as_binary_opt()?.clone()),
            DataType::Duration(TimeUnit::Microsecond) => Scalar::DayTime(column.as_primitive_opt::<DurationMicrosecondType>()?.clone()),
            DataType::Interval(IntervalUnit::YearMonth) => Scalar::YearMonth(column.as_primitive_opt::<IntervalYearMonthType>()?.clone()),
            _ => return None,
        })
    }

    pub(crate) fn is_null(&self, row: usize) -> bool {
        match self {
            Scalar::Null => true,
            Scalar::Boolean(values) => values.is_null(row),
            Scalar::Int8(values) => values.is_null(row),
            Scalar::Int16(values) => values.is_null(row),
            Scalar::Int32(values) => values.is_null(row),
            Scalar::Int64(values) => values.is_null(row),
            Scalar::Float32(values) => values.is_null(row),
            Scalar::Float64(values) => values.is_null(row),
            Scalar::Decimal(values, _) => values.is_null(row),
            Scalar::Date(values) => values.is_null(row),
            Scalar::Timestamp(values) | Scalar::TimestampNtz(values) => values.is_null(row),
            Scalar::String(values) => values.is_null(row),
            Scalar::Binary(values) => values.is_null(row),
            Scalar::DayTime(values) => values.is_null(row),
            Scalar::YearMonth(values) => values.is_null(row),
        }
    }

    /// Appends the text of a value that is not null. Binary values become `[61 62]`.
    ///
    /// # Errors
    /// `UNSUPPORTED_DATETIME_FIELD` when a pattern does not fit the type.
    pub(crate) fn write(&self, row: usize, times: &DateTimeText, decimals: DecimalText, out: &mut String) -> Result<()> {
        // Writing to a string does not fail.
        let _ = match self {
            Scalar::Null => out.write_str("null"),
            Scalar::Boolean(values) => write!(out, "{}", values.value(row)),
            Scalar::Int8(values) => write!(out, "{}", values.value(row)),
            Scalar::Int16(values) => write!(out, "{}", values.value(row)),
            Scalar::Int32(values) => write!(out, "{}", values.value(row)),
            Scalar::Int64(values) => write!(out, "{}", values.value(row)),
            Scalar::Float32(values) => {
                let value = values.value(row);
                floating(f64::from(value), &format!("{value:e}"), out);
                Ok(())
            }
            Scalar::Float64(values) => {
                let value = values.value(row);
                floating(value, &format!("{value:e}"), out);
                Ok(())
            }
            Scalar::Decimal(values, scale) => {
                decimal(values.value(row), i32::from(*scale), decimals, out);
                Ok(())
            }
            Scalar::Date(values) => return times.date(values.value(row), out),
            Scalar::Timestamp(values) => return times.timestamp(values.value(row), out),
            Scalar::TimestampNtz(values) => return times.timestamp_ntz(values.value(row), out),
            Scalar::String(values) => out.write_str(&raw_text::shown(values.value(row))),
            Scalar::Binary(values) => {
                let bytes: Vec<String> = values.value(row).iter().map(|byte| format!("{byte:02X}")).collect();
                write!(out, "[{}]", bytes.join(" "))
            }
            Scalar::DayTime(values) => {
                day_time(values.value(row), out);
                Ok(())
            }
            Scalar::YearMonth(values) => {
                let months = values.value(row);
                let sign = if months < 0 { "-" } else { "" };
                let months = months.unsigned_abs();
                write!(out, "INTERVAL '{sign}{}-{}' YEAR TO MONTH", months / 12, months % 12)
            }
        };
        Ok(())
    }
}

/// A floating-point number as Java writes it: plain between 10⁻³ and 10⁷, otherwise with one digit before the point and an exponent.
/// `shortest` is the number in Rust's `{:e}` form, which has the fewest digits that read back as the same number.
pub(super) fn floating(value: f64, shortest: &str, out: &mut String) {
    if value.is_nan() {
        out.push_str("NaN");
        return;
    }
    if value.is_infinite() {
        out.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
        return;
    }
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    out.push_str(sign);
    if value == 0.0 {
        out.push_str("0.0");
    } else if (-3..7).contains(&exponent) {
        point(&digits, exponent + 1, out);
    } else {
        point(&digits, 1, out);
        // Writing to a string does not fail.
        let _ = write!(out, "E{exponent}");
    }
}

/// Digits with the decimal point behind the first `whole` of them; at least one digit on either side.
fn point(digits: &str, whole: i32, out: &mut String) {
    let Ok(whole) = usize::try_from(whole) else {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', whole.unsigned_abs() as usize));
        out.push_str(digits);
        return;
    };
    if whole == 0 {
        out.push_str("0.");
        out.push_str(digits);
    } else if digits.len() <= whole {
        out.push_str(digits);
        out.extend(std::iter::repeat_n('0', whole - digits.len()));
        out.push_str(".0");
    } else {
        let (before, after) = digits.split_at(whole);
        out.push_str(before);
        out.push('.');
        out.push_str(after);
    }
}

/// `unscaled` · 10^−`scale`.
pub(super) fn decimal(unscaled: i128, scale: i32, form: DecimalText, out: &mut String) {
    if unscaled < 0 {
        out.push('-');
    }
    let digits = unscaled.unsigned_abs().to_string();
    let length = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let exponent = length - 1 - scale;
    if scale == 0 {
        out.push_str(&digits);
    } else if form == DecimalText::Scientific && (scale < 0 || exponent < -6) {
        let (first, rest) = digits.split_at(1);
        out.push_str(first);
        if !rest.is_empty() {
            out.push('.');
            out.push_str(rest);
        }
        // Writing to a string does not fail.
        let _ = write!(out, "E{exponent:+}");
    } else if scale < 0 {
        out.push_str(&digits);
        if unscaled != 0 {
            out.extend(std::iter::repeat_n('0', scale.unsigned_abs() as usize));
        }
    } else if length > scale {
        let (before, after) = digits.split_at(digits.len() - scale.unsigned_abs() as usize);
        out.push_str(before);
        out.push('.');
        out.push_str(after);
    } else {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', (scale - length).unsigned_abs() as usize));
        out.push_str(&digits);
    }
}

/// `INTERVAL '1 02:03:04.5' DAY TO SECOND`.
fn day_time(micros: i64, out: &mut String) {
    let sign = if micros < 0 { "-" } else { "" };
    let micros = micros.unsigned_abs();
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let fraction = if fraction == 0 { String::new() } else { format!(".{fraction:06}").trim_end_matches('0').to_owned() };
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    // Writing to a string does not fail.
    let _ = write!(out, "INTERVAL '{sign}{days} {hours:02}:{minutes:02}:{:02}{fraction}' DAY TO SECOND", seconds % 60);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from Spark 4.2 on Java 17.
    #[test]
    fn floating_point_numbers_look_as_in_java() {
        for (value, expected) in [
            (1.0, "1.0"),
            (100.0, "100.0"),
            (0.1, "0.1"),
            (123_456.789, "123456.789"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (12_345_678.9, "1.23456789E7"),
            (1e-3, "0.001"),
            (9.999e-4, "9.999E-4"),
            (1e20, "1.0E20"),
            (1.1e300, "1.1E300"),
            (4.9e-324, "4.9E-324"),
            (f64::MAX, "1.7976931348623157E308"),
            (-0.0, "-0.0"),
            (-2.5, "-2.5"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            // Java writes the smallest number with two digits although one would do.
            let shortest = if value == 4.9e-324 { "4.9e-324".to_owned() } else { format!("{value:e}") };
            let mut out = String::new();
            floating(value, &shortest, &mut out);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn decimals_in_both_forms() {
        for (unscaled, scale, scientific, plain) in [
            (150, 2, "1.50", "1.50"),
            (0, 8, "0E-8", "0.00000000"),
            (1, 8, "1E-8", "0.00000001"),
            (-12_345_678, 14, "-1.2345678E-7", "-0.00000012345678"),
            (5, 0, "5", "5"),
            (-5, 3, "-0.005", "-0.005"),
            (12, -3, "1.2E+4", "12000"),
        ] {
            for (form, expected) in [(DecimalText::Scientific, scientific), (DecimalText::Plain, plain)] {
                let mut out = String::new();
                decimal(unscaled, scale, form, &mut out);
                assert_eq!(out, expected, "{unscaled} {scale}");
            }
        }
    }

    #[test]
    fn intervals() {
        let mut out = String::new();
        day_time(93_784_500_000, &mut out);
        day_time(-1, &mut out);
        assert_eq!(out, "INTERVAL '1 02:03:04.5' DAY TO SECONDINTERVAL '-0 00:00:00.000001' DAY TO SECOND");
    }
}
