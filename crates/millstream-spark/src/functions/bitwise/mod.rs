//! Bits.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Int8Array, Int32Array, PrimitiveArray};
use arrow::datatypes::{DataType, Int8Type, Int16Type, Int32Type, Int64Type};
use datafusion::logical_expr::{Operator, binary_expr};
use millstream_core::{Error, Result};

use super::coercion::is_integral;
use super::math::operators::operands;
use super::{Arguments, Call, Functions, Kernel, Typed, cast, faults, kernel};

pub(super) fn register(functions: &mut Functions) {
    functions.add("&", |call| binary(call, Operator::BitwiseAnd));
    functions.add("|", |call| binary(call, Operator::BitwiseOr));
    functions.add("^", |call| binary(call, Operator::BitwiseXor));
    functions.add("~", |call| {
        call.arity(1..=1)?;
        let value = integral(call, 0)?;
        let (data_type, nullable) = (value.data_type.clone(), value.nullable);
        Ok(kernel::scalar("~", Not, vec![value], data_type, nullable))
    });
    functions.add_all(&["shiftleft", "<<"], |call| shift(call, Shift::Left));
    functions.add_all(&["shiftright", ">>"], |call| shift(call, Shift::Right));
    functions.add_all(&["shiftrightunsigned", ">>>"], |call| shift(call, Shift::RightUnsigned));
    functions.add("bit_count", |call| {
        call.arity(1..=1)?;
        let value = match call.value(0)?.data_type {
            DataType::Boolean => cast::implicit(call.value(0)?.clone(), &DataType::Int32, call.settings)?,
            _ => cast::implicit(integral(call, 0)?, &DataType::Int64, call.settings)?,
        };
        let nullable = value.nullable;
        Ok(kernel::scalar("bit_count", BitCount, vec![value], DataType::Int32, nullable))
    });
    functions.add_all(&["bit_get", "getbit"], |call| {
        call.arity(2..=2)?;
        let value = integral(call, 0)?;
        let bits = i32::try_from(value.data_type.primitive_width().unwrap_or(8) * 8).unwrap_or(64);
        let arguments = vec![cast::implicit(value, &DataType::Int64, call.settings)?, call.int(1)?];
        let nullable = arguments.iter().any(|argument| argument.nullable);
        Ok(kernel::scalar("bit_get", BitGet { bits }, arguments, DataType::Int8, nullable))
    });
}

/// An argument that is a whole number; null is an integer, text is not taken.
fn integral(call: &Call<'_>, index: usize) -> Result<Typed> {
    let value = call.value(index)?;
    match &value.data_type {
        data_type if is_integral(data_type) => Ok(value.clone()),
        DataType::Null => call.int(index),
        DataType::Utf8 => call.long(index),
        other => Err(faults::unexpected_type(call.name, index, "\"INTEGRAL\"", other)),
    }
}

fn binary(call: &Call<'_>, operator: Operator) -> Result<Typed> {
    call.arity(2..=2)?;
    let (left, right) = (call.value(0)?.clone(), call.value(1)?.clone());
    let (left, right) = operands(call.name, left, right, call.settings, is_integral, "whole numbers")?;
    let (data_type, nullable) = (left.data_type.clone(), left.nullable || right.nullable);
    Ok(Typed::new(binary_expr(left.expr, operator, right.expr), data_type, nullable))
}

fn shift(call: &Call<'_>, shift: Shift) -> Result<Typed> {
    call.arity(2..=2)?;
    // Only 32 and 64 bits are shifted.
    let value = match call.value(0)?.data_type {
        DataType::Int64 => call.value(0)?.clone(),
        _ => call.int(0)?,
    };
    let by = call.int(1)?;
    let (data_type, nullable) = (value.data_type.clone(), value.nullable || by.nullable);
    Ok(kernel::scalar(shift.name(), shift, vec![value, by], data_type, nullable))
}

fn primitive<T: ArrowPrimitiveType>(values: &ArrayRef) -> Result<&PrimitiveArray<T>> {
    values.as_primitive_opt::<T>().ok_or_else(|| Error::internal(format!("{} do not fit their kernel", values.data_type())))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Not;

impl Kernel for Not {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let values = arguments.array(0)?;
        Ok(match values.data_type() {
            DataType::Int8 => Arc::new(primitive::<Int8Type>(&values)?.unary::<_, Int8Type>(|value| !value)),
            DataType::Int16 => Arc::new(primitive::<Int16Type>(&values)?.unary::<_, Int16Type>(|value| !value)),
            DataType::Int32 => Arc::new(primitive::<Int32Type>(&values)?.unary::<_, Int32Type>(|value| !value)),
            _ => Arc::new(primitive::<Int64Type>(&values)?.unary::<_, Int64Type>(|value| !value)),
        })
    }
}

/// Shifts by the lowest bits of the distance, as Java does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Shift {
    Left,
    Right,
    RightUnsigned,
}

impl Shift {
    fn name(self) -> &'static str {
        match self {
            Shift::Left => "shiftleft",
            Shift::Right => "shiftright",
            Shift::RightUnsigned => "shiftrightunsigned",
        }
    }
}

impl Kernel for Shift {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (values, by) = (arguments.array(0)?, arguments.array(1)?);
        let by = primitive::<Int32Type>(&by)?;
        if let Some(values) = values.as_primitive_opt::<Int32Type>() {
            let shifted = values.iter().zip(by).map(|(value, by)| {
                let (value, by) = (value?, by? as u32);
                Some(match self {
                    Shift::Left => value.wrapping_shl(by),
                    Shift::Right => value.wrapping_shr(by),
                    Shift::RightUnsigned => (value as u32).wrapping_shr(by) as i32,
                })
            });
            return Ok(Arc::new(shifted.collect::<PrimitiveArray<Int32Type>>()));
        }
        let shifted = primitive::<Int64Type>(&values)?.iter().zip(by).map(|(value, by)| {
            let (value, by) = (value?, by? as u32);
            Some(match self {
                Shift::Left => value.wrapping_shl(by),
                Shift::Right => value.wrapping_shr(by),
                Shift::RightUnsigned => (value as u64).wrapping_shr(by) as i64,
            })
        });
        Ok(Arc::new(shifted.collect::<PrimitiveArray<Int64Type>>()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct BitCount;

impl Kernel for BitCount {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let values = arguments.array(0)?;
        let counts: Int32Array = match values.as_primitive_opt::<Int32Type>() {
            Some(values) => values.unary(|value| value.count_ones() as i32),
            None => primitive::<Int64Type>(&values)?.unary(|value| value.count_ones() as i32),
        };
        Ok(Arc::new(counts))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct BitGet {
    bits: i32,
}

impl Kernel for BitGet {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (values, places) = (arguments.array(0)?, arguments.array(1)?);
        let mut builder = Int8Array::builder(values.len());
        for (value, place) in primitive::<Int64Type>(&values)?.iter().zip(primitive::<Int32Type>(&places)?) {
            match (value, place) {
                (Some(value), Some(place)) if (0..self.bits).contains(&place) => builder.append_value((value >> place & 1) as i8),
                (Some(_), Some(place)) => {
                    let message = format!("there is no bit {place} in {} bits", self.bits);
                    return Err(faults::row("INVALID_PARAMETER_VALUE.BIT_POSITION_RANGE", "22023", message));
                }
                _ => builder.append_null(),
            }
        }
        Ok(Arc::new(builder.finish()))
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::Settings;
    use crate::functions::testing::outcome;

    #[test]
    fn bits_as_recorded() {
        for (name, arguments, expected) in [
            ("&", "6; 3", "int 2"),
            ("|", "6; bigint'3'", "bigint 7"),
            ("^", "5; 3", "int 6"),
            ("&", "tinyint'1'; 7", "int 1"),
            ("&", "'5'; 7", "bigint 5"),
            ("&", "1; true", "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES"),
            ("&", "1.5; 2.5", "DATATYPE_MISMATCH.BINARY_OP_WRONG_TYPE"),
            ("&", "null; null", "int null"),
            ("~", "5", "int -6"),
            ("~", "tinyint'5'", "tinyint -6"),
            ("shiftleft", "2; 1", "int 4"),
            ("shiftleft", "1; 33", "int 2"),
            ("shiftleft", "bigint'1'; 65", "bigint 2"),
            ("shiftright", "-4; 1", "int -2"),
            ("shiftrightunsigned", "-4; 1", "int 2147483646"),
            ("bit_count", "7", "int 3"),
            ("bit_count", "true", "int 1"),
            ("bit_count", "-1", "int 64"),
            ("bit_get", "11; 1", "tinyint 1"),
            ("bit_get", "11; 32", "INVALID_PARAMETER_VALUE.BIT_POSITION_RANGE"),
        ] {
            assert_eq!(outcome(name, arguments, &Settings::default()), expected, "{name}({arguments})");
        }
    }
}
