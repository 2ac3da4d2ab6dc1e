//! `negative`, `positive`, `abs`, `sign`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowNativeTypeOp, DataType, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType,
};
use millstream_core::{Error, Result};

use super::arithmetic::{Overflow, interval_overflow};
use super::operators::overflow;
use crate::functions::coercion::is_numeric;
use crate::functions::{Arguments, Call, Functions, Kernel, Typed, cast, faults, kernel};

pub(super) fn register(functions: &mut Functions) {
    functions.add("negative", negative);
    functions.add("positive", |call| {
        call.arity(1..=1)?;
        operand(call, true)
    });
    functions.add("abs", |call| {
        call.arity(1..=1)?;
        let value = operand(call, false)?;
        Ok(signed("abs", value, Sign { absolute: true, overflow: overflow(call) }))
    });
}

pub(super) fn negative(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=1)?;
    negated(operand(call, true)?, overflow(call))
}

/// `-value`.
pub(super) fn negated(value: Typed, overflow: Overflow) -> Result<Typed> {
    Ok(signed("negative", value, Sign { absolute: false, overflow }))
}

fn signed(name: &'static str, value: Typed, sign: Sign) -> Typed {
    let (data_type, nullable, metadata) = (value.data_type.clone(), value.nullable, value.metadata.clone());
    let metadata = if is_numeric(&data_type) { Default::default() } else { metadata };
    let nullable = nullable || sign.overflow == Overflow::Null;
    kernel::scalar(name, sign, vec![value], data_type, nullable).with_metadata(metadata)
}

/// A number or an interval; text and null become doubles.
fn operand(call: &Call<'_>, calendar: bool) -> Result<Typed> {
    let value = call.value(0)?.clone();
    match &value.data_type {
        data_type if is_numeric(data_type) => Ok(value),
        DataType::Duration(_) | DataType::Interval(IntervalUnit::YearMonth) => Ok(value),
        DataType::Interval(_) if calendar => Ok(value),
        DataType::Utf8 | DataType::Null => cast::implicit(value, &DataType::Float64, call.settings),
        other => Err(faults::unexpected_type(call.name, 0, "\"NUMERIC\" or \"INTERVAL\"", other)),
    }
}

/// Changes the sign of values, or takes it off.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sign {
    absolute: bool,
    overflow: Overflow,
}

impl Kernel for Sign {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let values = arguments.array(0)?;
        match values.data_type() {
            DataType::Int8 => self.integers::<Int8Type>(&values),
            DataType::Int16 => self.integers::<Int16Type>(&values),
            DataType::Int32 => self.integers::<Int32Type>(&values),
            DataType::Int64 => self.integers::<Int64Type>(&values),
            DataType::Float32 => each::<Float32Type>(&values, |value| Ok(Some(if self.absolute { value.abs() } else { -value }))),
            DataType::Float64 => each::<Float64Type>(&values, |value| Ok(Some(if self.absolute { value.abs() } else { -value }))),
            DataType::Decimal128(precision, scale) => {
                let array = values.as_primitive_opt::<Decimal128Type>().ok_or_else(|| Error::internal("decimals are due"))?;
                let array = array.unary::<_, Decimal128Type>(|value| if self.absolute { value.abs() } else { -value });
                let array = array.with_precision_and_scale(*precision, *scale);
                array
                    .map(|array| Arc::new(array) as ArrayRef)
                    .map_err(|error| Error::internal("a decimal is out of range").caused_by(error))
            }
            DataType::Duration(_) => self.intervals::<DurationMicrosecondType>(&values),
            DataType::Interval(IntervalUnit::YearMonth) => self.intervals::<IntervalYearMonthType>(&values),
            DataType::Interval(_) => each::<IntervalMonthDayNanoType>(&values, |value| {
                let negated = |value: IntervalMonthDayNano| {
                    Some(IntervalMonthDayNano::new(
                        value.months.checked_neg()?,
                        value.days.checked_neg()?,
                        value.nanoseconds.checked_neg()?,
                    ))
                };
                match negated(value) {
                    Some(value) => Ok(Some(value)),
                    None => self.overflow.or(interval_overflow),
                }
            }),
            other => Err(Error::internal(format!("{other} has no sign"))),
        }
    }
}

impl Sign {
    fn integers<T: ArrowPrimitiveType>(&self, values: &ArrayRef) -> Result<ArrayRef> {
        each::<T>(values, |value| {
            if self.absolute && value.is_ge(T::Native::ZERO) {
                return Ok(Some(value));
            }
            match value.neg_checked() {
                Ok(value) => Ok(Some(value)),
                Err(_) if self.overflow == Overflow::Wrap => Ok(Some(value.neg_wrapping())),
                Err(error) => self.overflow.or(|| faults::overflow(error)),
            }
        })
    }

    fn intervals<T: ArrowPrimitiveType>(&self, values: &ArrayRef) -> Result<ArrayRef> {
        each::<T>(values, |value| {
            if self.absolute && value.is_ge(T::Native::ZERO) {
                return Ok(Some(value));
            }
            match value.neg_checked() {
                Ok(value) => Ok(Some(value)),
                // Intervals do not wrap.
                Err(_) if self.overflow == Overflow::Null => Ok(None),
                Err(_) => Err(interval_overflow()),
            }
        })
    }
}

fn each<T: ArrowPrimitiveType>(values: &ArrayRef, compute: impl Fn(T::Native) -> Result<Option<T::Native>>) -> Result<ArrayRef> {
    let array = values.as_primitive_opt::<T>().ok_or_else(|| Error::internal(format!("{} do not fit their kernel", values.data_type())))?;
    let mut builder = PrimitiveArray::<T>::builder(array.len());
    for value in array {
        builder.append_option(match value {
            Some(value) => compute(value)?,
            None => None,
        });
    }
    Ok(Arc::new(builder.finish()))
}
