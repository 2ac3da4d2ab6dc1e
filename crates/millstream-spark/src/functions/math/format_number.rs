//! `format_number`: numbers with separators, as Java's `DecimalFormat` of the United States writes them.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type};
use millstream_core::{Error, Result};

use crate::functions::cast::push_decimal;
use crate::functions::coercion::is_numeric;
use crate::functions::{Arguments, Call, Functions, Kernel, Typed, cast, faults, kernel};

pub(super) fn register(functions: &mut Functions) {
    functions.add("format_number", format_number);
}

fn format_number(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    let value = call.value(0)?.clone();
    let value = match &value.data_type {
        data_type if is_numeric(data_type) => value,
        DataType::Utf8 if call.settings.ansi => return Err(faults::unexpected_type(call.name, 0, "\"NUMERIC\"", &DataType::Utf8)),
        DataType::Utf8 | DataType::Null => cast::implicit(value, &DataType::Float64, call.settings)?,
        other => return Err(faults::unexpected_type(call.name, 0, "\"NUMERIC\"", other)),
    };
    let pattern = match call.value(1)?.data_type {
        DataType::Utf8 => call.value(1)?.clone(),
        _ => call.int(1)?,
    };
    Ok(kernel::scalar("format_number", FormatNumber, vec![value, pattern], DataType::Utf8, true))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FormatNumber;

impl Kernel for FormatNumber {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (values, patterns) = (arguments.array(0)?, arguments.array(1)?);
        let (digits, texts) = (patterns.as_primitive_opt::<Int32Type>(), patterns.as_string_opt::<i32>());
        let mut builder = arrow::array::StringBuilder::new();
        for row in 0..values.len() {
            if values.is_null(row) || patterns.is_null(row) {
                builder.append_null();
                continue;
            }
            let pattern = match (digits, texts) {
                (Some(digits), _) => match usize::try_from(digits.value(row)) {
                    Ok(digits) => Pattern::with_digits(digits),
                    Err(_) => {
                        builder.append_null();
                        continue;
                    }
                },
                (_, Some(texts)) if texts.value(row).is_empty() => Pattern::with_digits(0),
                (_, Some(texts)) => Pattern::parse(texts.value(row))?,
                _ => return Err(Error::internal("a number of digits or a pattern is due")),
            };
            builder.append_value(pattern.format(&Number::at(&values, row)?));
        }
        Ok(std::sync::Arc::new(builder.finish()))
    }
}

/// A number to be written.
enum Number {
    Double(f64),
    /// Unscaled, and how many digits are behind the point.
    Exact(i128, i8),
}

impl Number {
    fn at(values: &ArrayRef, row: usize) -> Result<Number> {
        if let Some(values) = values.as_primitive_opt::<Float64Type>() {
            return Ok(Number::Double(values.value(row)));
        }
        if let Some(values) = values.as_primitive_opt::<Float32Type>() {
            return Ok(Number::Double(values.value(row).into()));
        }
        if let (Some(decimals), DataType::Decimal128(_, scale)) = (values.as_primitive_opt::<Decimal128Type>(), values.data_type()) {
            return Ok(Number::Exact(decimals.value(row), *scale));
        }
        let wide = arrow::compute::cast(&values.slice(row, 1), &DataType::Int64)
            .map_err(|error| Error::internal("a whole number is due").caused_by(error))?;
        let whole = wide.as_primitive_opt::<Int64Type>().map_or(0, |values| values.value(0));
        Ok(Number::Exact(whole.into(), 0))
    }

    /// The magnitude with at most that many digits behind the point, half to even.
    fn magnitude(&self, percent: bool, digits: usize) -> String {
        match self {
            // The digits of the double itself decide, not those that it is usually written with.
            Number::Double(value) => format!("{:.digits$}", (if percent { value * 100.0 } else { *value }).abs()),
            Number::Exact(unscaled, scale) => {
                let scale = i32::from(*scale) - if percent { 2 } else { 0 };
                let cut = u32::try_from(scale - i32::try_from(digits).unwrap_or(i32::MAX)).unwrap_or(0);
                let magnitude = unscaled.unsigned_abs();
                let power = 10_u128.checked_pow(cut).unwrap_or(u128::MAX);
                let (mut kept, rest) = (magnitude / power, magnitude % power);
                if rest > power - rest || rest == power - rest && rest != 0 && kept % 2 == 1 {
                    kept += 1;
                }
                let left = scale - i32::try_from(cut).unwrap_or(0);
                let mut text = String::new();
                push_decimal(&mut text, i128::try_from(kept).unwrap_or(i128::MAX), i8::try_from(left).unwrap_or(0), true);
                text
            }
        }
    }

    fn is_negative(&self) -> bool {
        match self {
            Number::Double(value) => value.is_sign_negative(),
            Number::Exact(unscaled, _) => *unscaled < 0,
        }
    }
}

/// How numbers are written: what is around them, how many digits, and how large groups of digits are.
#[derive(Debug, PartialEq, Eq)]
struct Pattern {
    prefix: String,
    suffix: String,
    whole: usize,
    least: usize,
    most: usize,
    group: usize,
    percent: bool,
}

impl Pattern {
    /// Groups of three and that many digits behind the point.
    fn with_digits(digits: usize) -> Pattern {
        Pattern { prefix: String::new(), suffix: String::new(), whole: 1, least: digits, most: digits, group: 3, percent: false }
    }

    /// Reads `#,##0.00` with any text around it.
    fn parse(text: &str) -> Result<Pattern> {
        let is_number = |c: char| matches!(c, '#' | '0' | ',' | '.');
        let start = text.find(is_number).unwrap_or(text.len());
        let (prefix, rest) = text.split_at_checked(start).unwrap_or((text, ""));
        let end = rest.find(|c| !is_number(c)).unwrap_or(rest.len());
        let (number, suffix) = rest.split_at_checked(end).unwrap_or((rest, ""));
        // What follows a semicolon is for negative numbers, and only its signs would count.
        let suffix = suffix.split(';').next().unwrap_or("");
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let zero_then_hash = |text: &str| text.trim_start_matches(['#', ',']).contains('#');
        if fraction.contains([',', '.']) || fraction.trim_start_matches('0').contains('0') || zero_then_hash(whole) {
            return Err(faults::row(
                "INVALID_PARAMETER_VALUE.PATTERN",
                "22023",
                format!("'{text}' is not a number format: write one like '#,##0.00'"),
            ));
        }
        let zeros = |text: &str| text.bytes().filter(|byte| *byte == b'0').count();
        Ok(Pattern {
            prefix: prefix.replace('\'', ""),
            suffix: suffix.replace('\'', ""),
            whole: zeros(whole),
            least: zeros(fraction),
            most: fraction.len(),
            group: whole.rsplit_once(',').map_or(0, |(_, last)| last.len()),
            percent: suffix.contains('%') || prefix.contains('%'),
        })
    }

    fn format(&self, number: &Number) -> String {
        if let Number::Double(value) = number {
            if value.is_nan() {
                return "NaN".to_owned();
            }
            if value.is_infinite() {
                return format!("{}{}∞{}", if *value < 0.0 { "-" } else { "" }, self.prefix, self.suffix);
            }
        }
        let magnitude = number.magnitude(self.percent, self.most);
        let (whole, fraction) = magnitude.split_once('.').unwrap_or((&magnitude, ""));
        let whole = format!("{:0>width$}", whole.trim_start_matches('0'), width = self.whole);
        let mut fraction = fraction.trim_end_matches('0').to_owned();
        while fraction.len() < self.least {
            fraction.push('0');
        }
        let mut text = String::new();
        if number.is_negative() {
            text.push('-');
        }
        text.push_str(&self.prefix);
        if whole.is_empty() && fraction.is_empty() {
            text.push('0');
        }
        for (place, digit) in whole.chars().enumerate() {
            let left = whole.len() - place;
            if place > 0 && self.group > 0 && left % self.group == 0 {
                text.push(',');
            }
            text.push(digit);
        }
        if !fraction.is_empty() {
            text.push('.');
            text.push_str(&fraction);
        }
        text.push_str(&self.suffix);
        text
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::math::tests::check;

    #[test]
    fn formats_as_recorded() {
        check(&[
            ("format_number", "12332.123456; 4", "string 12,332.1235"),
            ("format_number", "12332.123456; '##################.###'", "string 12332.123"),
            ("format_number", "5; 0", "string 5"),
            ("format_number", "-0.5; 0", "string -0"),
            ("format_number", "2.5; 0", "string 2"),
            ("format_number", "3.5; 0", "string 4"),
            ("format_number", "1234567; 2", "string 1,234,567.00"),
            ("format_number", "decimal(10,2)'1234.5'; 3", "string 1,234.500"),
            ("format_number", "decimal(10,3)'0.125'; 2", "string 0.12"),
            ("format_number", "0.005; 2", "string 0.01"),
            ("format_number", "double'1e20'; 1", "string 100,000,000,000,000,000,000.0"),
            ("format_number", "1; -1", "string null"),
            ("format_number", "null; 2", "string null"),
            ("format_number", "double'NaN'; 2", "string NaN"),
            ("format_number", "0.256; '0.0%'", "string 25.6%"),
        ]);
    }
}
