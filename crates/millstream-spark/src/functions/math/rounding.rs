//! `round`, `bround`, `ceil`, `floor`, `rint`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};

use super::arithmetic::Overflow;
use super::operators::overflow;
use crate::functions::cast::decimal;
use crate::functions::coercion::{decimal_for, is_integral, is_numeric};
use crate::functions::{Arguments, Call, Functions, Kernel, Typed, cast, faults, kernel};

pub(super) fn register(functions: &mut Functions) {
    functions.add("round", |call| round(call, Mode::HalfUp));
    functions.add("bround", |call| round(call, Mode::HalfEven));
    functions.add_all(&["ceil", "ceiling"], |call| whole(call, Mode::Ceiling));
    functions.add("floor", |call| whole(call, Mode::Floor));
}

/// Which way a number is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mode {
    HalfUp,
    HalfEven,
    Ceiling,
    Floor,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::HalfUp => "round",
            Mode::HalfEven => "bround",
            Mode::Ceiling => "ceil",
            Mode::Floor => "floor",
        }
    }

    /// Whether the magnitude grows by one, given its last kept digit and how what is cut off compares with a half.
    fn grows(self, negative: bool, odd: bool, cut: Cut) -> bool {
        match self {
            Mode::HalfUp => matches!(cut, Cut::Half | Cut::More),
            Mode::HalfEven => cut == Cut::More || cut == Cut::Half && odd,
            Mode::Ceiling => cut != Cut::Nothing && !negative,
            Mode::Floor => cut != Cut::Nothing && negative,
        }
    }
}

/// What is cut off, compared with half of the last kept digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Nothing,
    Less,
    Half,
    More,
}

/// The number of digits to keep, a constant; `None` when it is null.
fn scale_of(call: &Call<'_>) -> Result<Option<i32>> {
    if call.len() < 2 {
        return Ok(Some(0));
    }
    let scale = call.folded(1, &call.int(1)?)?;
    Ok(match scale {
        ScalarValue::Int32(scale) => scale,
        _ => None,
    })
}

/// A number; text and null become doubles.
fn number(call: &Call<'_>) -> Result<Typed> {
    let value = call.value(0)?.clone();
    match &value.data_type {
        data_type if is_numeric(data_type) => Ok(value),
        DataType::Utf8 | DataType::Null => cast::implicit(value, &DataType::Float64, call.settings),
        other => Err(faults::unexpected_type(call.name, 0, "\"NUMERIC\"", other)),
    }
}

fn round(call: &Call<'_>, mode: Mode) -> Result<Typed> {
    call.arity(1..=2)?;
    let value = number(call)?;
    let Some(scale) = scale_of(call)? else { return Ok(Typed::null(&value.data_type)) };
    let data_type = match value.data_type {
        DataType::Decimal128(precision, own) => rounded_decimal(precision, own, scale),
        ref other => other.clone(),
    };
    if is_integral(&data_type) && scale >= 0 {
        return Ok(Typed { nullable: true, ..value });
    }
    let rounding = Rounding { mode, scale, to: data_type.clone(), overflow: overflow(call) };
    Ok(kernel::scalar(mode.name(), rounding, vec![value], data_type, true))
}

/// The type of a decimal rounded to `scale` digits behind the point; one more digit before it may be needed.
fn rounded_decimal(precision: u8, own: i8, scale: i32) -> DataType {
    let whole = i32::from(precision) - i32::from(own) + 1;
    let (precision, scale) = if scale < 0 {
        (whole.max(scale.saturating_neg().saturating_add(1)), 0)
    } else {
        let scale = scale.min(i32::from(own));
        (whole + scale, scale)
    };
    DataType::Decimal128(u8::try_from(precision.min(38)).unwrap_or(38), i8::try_from(scale).unwrap_or(0))
}

fn whole(call: &Call<'_>, mode: Mode) -> Result<Typed> {
    call.arity(1..=2)?;
    let value = number(call)?;
    if call.len() == 2 {
        let scale = scale_of(call).ok().flatten();
        let scale = scale.ok_or_else(|| faults::not_foldable_argument(call.name, "scale", "INT"))?;
        // With a scale it is a matter of decimals.
        let (precision, own) = decimal_for(&value.data_type).unwrap_or((30, 15));
        let value = cast::implicit(value, &DataType::Decimal128(precision, own), call.settings)?;
        let data_type = rounded_decimal(precision, own, scale);
        let rounding = Rounding { mode, scale, to: data_type.clone(), overflow: overflow(call) };
        return Ok(kernel::scalar(mode.name(), rounding, vec![value], data_type, true));
    }
    let data_type = match value.data_type {
        DataType::Decimal128(precision, own) => {
            let precision = i32::from(precision) - i32::from(own) + 1;
            DataType::Decimal128(u8::try_from(precision.clamp(1, 38)).unwrap_or(38), 0)
        }
        ref other if is_integral(other) => {
            let value = cast::implicit(value, &DataType::Int64, call.settings)?;
            return Ok(Typed { nullable: true, ..value });
        }
        _ => DataType::Int64,
    };
    let rounding = Rounding { mode, scale: 0, to: data_type.clone(), overflow: overflow(call) };
    Ok(kernel::scalar(mode.name(), rounding, vec![value], data_type, true))
}

/// Rounds numbers to a number of digits behind the point, which may be negative.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Rounding {
    mode: Mode,
    scale: i32,
    to: DataType,
    overflow: Overflow,
}

impl Kernel for Rounding {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let values = arguments.array(0)?;
        match values.data_type() {
            DataType::Int8 => self.integers::<Int8Type>(&values, |value| i8::try_from(value).ok(), |value| value as i8),
            DataType::Int16 => self.integers::<Int16Type>(&values, |value| i16::try_from(value).ok(), |value| value as i16),
            DataType::Int32 => self.integers::<Int32Type>(&values, |value| i32::try_from(value).ok(), |value| value as i32),
            DataType::Int64 => self.integers::<Int64Type>(&values, |value| i64::try_from(value).ok(), |value| value as i64),
            DataType::Float64 => {
                let values = primitive::<Float64Type>(&values)?;
                Ok(match (self.mode, &self.to) {
                    (Mode::Ceiling, DataType::Int64) => Arc::new(values.unary::<_, Int64Type>(|value| value.ceil() as i64)),
                    (Mode::Floor, DataType::Int64) => Arc::new(values.unary::<_, Int64Type>(|value| value.floor() as i64)),
                    _ => Arc::new(values.unary::<_, Float64Type>(|value| round_double(value, self.scale, self.mode))),
                })
            }
            DataType::Float32 => {
                let values = primitive::<Float32Type>(&values)?;
                Ok(match (self.mode, &self.to) {
                    (Mode::Ceiling, DataType::Int64) => Arc::new(values.unary::<_, Int64Type>(|value| value.ceil() as i64)),
                    (Mode::Floor, DataType::Int64) => Arc::new(values.unary::<_, Int64Type>(|value| value.floor() as i64)),
                    _ => Arc::new(values.unary::<_, Float32Type>(|value| round_double(value.into(), self.scale, self.mode) as f32)),
                })
            }
            DataType::Decimal128(_, own) => self.decimals(&values, *own),
            other => Err(Error::internal(format!("{other} cannot be rounded"))),
        }
    }
}

fn primitive<T: ArrowPrimitiveType>(values: &ArrayRef) -> Result<&PrimitiveArray<T>> {
    values.as_primitive_opt::<T>().ok_or_else(|| Error::internal(format!("{} do not fit their kernel", values.data_type())))
}

impl Rounding {
    fn integers<T: ArrowPrimitiveType>(
        &self,
        values: &ArrayRef,
        narrow: impl Fn(i128) -> Option<T::Native>,
        wrap: impl Fn(i128) -> T::Native,
    ) -> Result<ArrayRef>
    where
        T::Native: Into<i64>,
    {
        let mut builder = PrimitiveArray::<T>::builder(values.len());
        for value in primitive::<T>(values)? {
            let Some(value) = value else {
                builder.append_null();
                continue;
            };
            let value: i64 = value.into();
            let rounded = round_unscaled(value.into(), self.scale.saturating_neg(), self.mode);
            match rounded.and_then(&narrow) {
                Some(rounded) => builder.append_value(rounded),
                None if self.overflow == Overflow::Wrap => builder.append_value(wrap(rounded.unwrap_or(0))),
                None => return Err(faults::overflow(format!("{} of {value} leaves the range of its type", self.mode.name()))),
            }
        }
        Ok(Arc::new(builder.finish()))
    }

    fn decimals(&self, values: &ArrayRef, own: i8) -> Result<ArrayRef> {
        let DataType::Decimal128(precision, scale) = self.to else { return Err(Error::internal("a decimal is due")) };
        let cut = i32::from(own).saturating_sub(self.scale);
        let mut builder = PrimitiveArray::<Decimal128Type>::builder(values.len());
        for value in primitive::<Decimal128Type>(values)? {
            let Some(value) = value else {
                builder.append_null();
                continue;
            };
            // The result keeps the decimal's own scale until it is brought to that of its type.
            let rounded = round_unscaled(value, cut, self.mode).and_then(|rounded| decimal::rescale(rounded, own, scale, precision));
            match rounded {
                Some(rounded) => builder.append_value(rounded),
                None if self.overflow == Overflow::Wrap => builder.append_null(),
                None => return Err(faults::out_of_range(value, precision, scale)),
            }
        }
        Ok(Arc::new(builder.finish().with_data_type(self.to.clone())))
    }
}

/// A whole number with its last `digits` digits rounded away, which become zeros.
fn round_unscaled(value: i128, digits: i32, mode: Mode) -> Option<i128> {
    let Some(digits) = u32::try_from(digits).ok().filter(|digits| *digits > 0) else { return Some(value) };
    let Some(power) = decimal::power(digits) else {
        // More digits than there are.
        let cut = if value == 0 { Cut::Nothing } else { Cut::Less };
        return if mode.grows(value < 0, false, cut) { None } else { Some(0) };
    };
    let (quotient, rest) = (value / power, (value % power).abs());
    let cut = match rest.cmp(&(power - rest)) {
        _ if rest == 0 => Cut::Nothing,
        std::cmp::Ordering::Less => Cut::Less,
        std::cmp::Ordering::Equal => Cut::Half,
        std::cmp::Ordering::Greater => Cut::More,
    };
    let step = if mode.grows(value < 0, quotient % 2 != 0, cut) { value.signum() } else { 0 };
    (quotient + step).checked_mul(power)
}

/// A double rounded as the decimal number that it is written as.
fn round_double(value: f64, scale: i32, mode: Mode) -> f64 {
    if !value.is_finite() || value == 0.0 {
        return value;
    }
    let text = format!("{:e}", value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).map(|digit| digit - b'0').collect();
    // How many of the digits stay.
    let kept = exponent + 1 + i64::from(scale);
    let length = digits.len() as i64;
    if kept >= length {
        return value;
    }
    let Ok(kept) = usize::try_from(kept) else { return 0.0 };
    let (head, tail) = digits.split_at_checked(kept).unwrap_or((&digits, &[]));
    let cut = match tail.split_first() {
        Some((5, rest)) if rest.iter().all(|digit| *digit == 0) => Cut::Half,
        Some((5.., _)) => Cut::More,
        Some((0, rest)) if rest.iter().all(|digit| *digit == 0) => Cut::Nothing,
        Some(_) => Cut::Less,
        None => Cut::Nothing,
    };
    let odd = head.last().is_some_and(|digit| digit % 2 == 1);
    // At most 17 digits.
    let mut number = head.iter().fold(0_u64, |number, digit| number * 10 + u64::from(*digit));
    number += u64::from(mode.grows(value < 0.0, odd, cut));
    if number == 0 {
        return 0.0;
    }
    let rounded: f64 = format!("{number}e{}", -i64::from(scale)).parse().unwrap_or(value);
    if value < 0.0 { -rounded } else { rounded }
}

#[cfg(test)]
mod tests {
    use crate::functions::Settings;
    use crate::functions::math::tests::{check, check_with};

    #[test]
    fn rounding_as_recorded() {
        check(&[
            ("round", "2.5", "double 3.0"),
            ("round", "-2.5", "double -3.0"),
            ("round", "1.005; 2", "double 1.01"),
            ("round", "1234.5678; -2", "double 1200.0"),
            ("round", "double'NaN'; 1", "double NaN"),
            ("round", "-0.4", "double 0.0"),
            ("round", "125; -1", "int 130"),
            ("round", "25; 2", "int 25"),
            ("round", "2147483647; -1", "ARITHMETIC_OVERFLOW"),
            ("round", "decimal(10,4)'1234.5678'; 2", "decimal(9,2) 1234.57"),
            ("round", "decimal(6,3)'123.456'; -1", "decimal(4,0) 120"),
            ("round", "decimal(3,2)'9.99'; 1", "decimal(3,1) 10.0"),
            ("round", "'2.5'", "double 3.0"),
            ("bround", "2.5", "double 2.0"),
            ("bround", "3.5", "double 4.0"),
            ("bround", "125; -1", "int 120"),
            ("bround", "decimal(10,4)'2.5'; 0", "decimal(7,0) 2"),
            ("ceil", "-2.1", "bigint -2"),
            ("ceil", "2.1", "bigint 3"),
            ("floor", "-2.1", "bigint -3"),
            ("ceil", "decimal(10,4)'2.1'", "decimal(7,0) 3"),
            ("ceil", "2.45; 1", "decimal(17,1) 2.5"),
            ("floor", "1234.5; -1", "decimal(16,0) 1230"),
            ("ceil", "double'1e20'", "bigint 9223372036854775807"),
            ("round", "true", "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE"),
        ]);
        let settings = Settings { ansi: false, ..Settings::default() };
        check_with(&[("round", "2147483647; -1", "int -2147483646")], &settings);
    }
}
