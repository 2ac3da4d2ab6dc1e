//! Kernels of arithmetic: numbers, decimals, intervals.

mod decimals;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Datum, PrimitiveArray};
use arrow::compute::kernels::numeric;
use arrow::datatypes::{
    ArrowNativeTypeOp, DataType, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType,
};
use arrow::error::ArrowError;
use millstream_core::{Error, Result};

use crate::functions::{Arguments, Kernel, faults};

pub(super) use decimals::{DecimalArithmetic, result_decimal};

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    /// The remainder that is not negative for a positive divisor.
    PositiveRemainder,
}

impl Operation {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Operation::Add => "+",
            Operation::Subtract => "-",
            Operation::Multiply => "*",
            Operation::Divide => "/",
            Operation::Remainder => "%",
            Operation::PositiveRemainder => "pmod",
        }
    }
}

/// What becomes of a result that there is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Overflow {
    /// An error, under ANSI rules.
    Fail,
    /// Without ANSI rules: whole numbers wrap, anything else is null.
    Wrap,
    /// Null, in `try_` functions.
    Null,
}

impl Overflow {
    /// Null, or the fault.
    pub(super) fn or<T>(self, fault: impl FnOnce() -> Error) -> Result<Option<T>> {
        if self == Overflow::Fail { Err(fault()) } else { Ok(None) }
    }
}

/// Arithmetic of two numbers of one type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Arithmetic {
    pub(super) operation: Operation,
    pub(super) overflow: Overflow,
}

impl Kernel for Arithmetic {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        use Operation::{Add, Multiply, Subtract};
        if matches!(self.operation, Add | Subtract | Multiply) && self.overflow != Overflow::Null {
            return self.by_engine(arguments);
        }
        let (left, right) = (arguments.array(0)?, arguments.array(1)?);
        match left.data_type() {
            DataType::Int8 => self.integers::<Int8Type>(&left, &right),
            DataType::Int16 => self.integers::<Int16Type>(&left, &right),
            DataType::Int32 => self.integers::<Int32Type>(&left, &right),
            DataType::Int64 => self.integers::<Int64Type>(&left, &right),
            DataType::Float32 => self.floats::<Float32Type>(&left, &right),
            DataType::Float64 => self.floats::<Float64Type>(&left, &right),
            other => Err(Error::internal(format!("there is no arithmetic of {other}"))),
        }
    }
}

impl Arithmetic {
    fn by_engine(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (left, right) = (datum(arguments, 0)?, datum(arguments, 1)?);
        let (left, right) = (left.as_ref(), right.as_ref());
        let wrap = self.overflow == Overflow::Wrap;
        let result = match self.operation {
            Operation::Add if wrap => numeric::add_wrapping(left, right),
            Operation::Subtract if wrap => numeric::sub_wrapping(left, right),
            Operation::Multiply if wrap => numeric::mul_wrapping(left, right),
            Operation::Add => numeric::add(left, right),
            Operation::Subtract => numeric::sub(left, right),
            _ => numeric::mul(left, right),
        };
        result.map_err(|error| match error {
            ArrowError::ArithmeticOverflow(what) => match left.get().0.data_type() {
                DataType::Int8 | DataType::Int16 => faults::row("BINARY_ARITHMETIC_OVERFLOW", "22003", format!("{what}: use a wider type")),
                _ => faults::overflow(what),
            },
            other => Error::internal("numbers cannot be computed with").caused_by(other),
        })
    }

    fn integers<T: ArrowPrimitiveType>(&self, left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef> {
        let zero = T::Native::ZERO;
        each_pair::<T, T, T>(left, right, |left, right| match self.operation {
            Operation::Add => Ok(left.add_checked(right).ok()),
            Operation::Subtract => Ok(left.sub_checked(right).ok()),
            Operation::Multiply => Ok(left.mul_checked(right).ok()),
            _ if right.is_eq(zero) => self.overflow.or(faults::remainder_by_zero),
            Operation::PositiveRemainder => {
                let remainder = left.mod_wrapping(right);
                Ok(Some(if remainder.is_lt(zero) { remainder.add_wrapping(right).mod_wrapping(right) } else { remainder }))
            }
            _ => Ok(Some(left.mod_wrapping(right))),
        })
    }

    fn floats<T: ArrowPrimitiveType>(&self, left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef> {
        let zero = T::Native::ZERO;
        // Arrow's comparison tells the two zeros apart.
        let is_zero = |value: T::Native| value.is_eq(zero) || value.is_eq(zero.neg_wrapping());
        each_pair::<T, T, T>(left, right, |left, right| match self.operation {
            Operation::Add => Ok(Some(left.add_wrapping(right))),
            Operation::Subtract => Ok(Some(left.sub_wrapping(right))),
            Operation::Multiply => Ok(Some(left.mul_wrapping(right))),
            Operation::Divide if is_zero(right) => self.overflow.or(faults::divide_by_zero),
            Operation::Divide => Ok(Some(left.div_wrapping(right))),
            _ if is_zero(right) => self.overflow.or(faults::remainder_by_zero),
            Operation::PositiveRemainder => {
                let remainder = left.mod_wrapping(right);
                let negative = remainder.is_lt(zero) && !is_zero(remainder);
                Ok(Some(if negative { remainder.add_wrapping(right).mod_wrapping(right) } else { remainder }))
            }
            _ => Ok(Some(left.mod_wrapping(right))),
        })
    }
}

/// `div` of 64-bit integers, decimals or intervals, as a 64-bit integer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct IntegralDivision {
    pub(super) overflow: Overflow,
}

impl Kernel for IntegralDivision {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (left, right) = (arguments.array(0)?, arguments.array(1)?);
        match (left.data_type(), right.data_type()) {
            (DataType::Int64, _) => each_pair::<Int64Type, Int64Type, Int64Type>(&left, &right, |left, right| self.divide(left, right)),
            (DataType::Duration(_), _) => {
                each_pair::<DurationMicrosecondType, DurationMicrosecondType, Int64Type>(&left, &right, |left, right| {
                    self.divide(left, right)
                })
            }
            (DataType::Interval(_), _) => {
                each_pair::<IntervalYearMonthType, IntervalYearMonthType, Int64Type>(&left, &right, |left, right| {
                    self.divide(left.into(), right.into())
                })
            }
            (DataType::Decimal128(_, s1), DataType::Decimal128(_, s2)) => {
                let (s1, s2) = (*s1, *s2);
                each_pair::<Decimal128Type, Decimal128Type, Int64Type>(&left, &right, |left, right| {
                    if right == 0 {
                        return self.overflow.or(faults::divide_by_zero);
                    }
                    let quotient = decimals::whole_quotient(left, s1, right, s2);
                    Ok(quotient.map(|quotient| quotient as i64))
                })
            }
            (other, _) => Err(Error::internal(format!("there is no integral division of {other}"))),
        }
    }
}

impl IntegralDivision {
    fn divide(&self, left: i64, right: i64) -> Result<Option<i64>> {
        if right == 0 {
            return self.overflow.or(faults::divide_by_zero);
        }
        match left.checked_div(right) {
            Some(quotient) => Ok(Some(quotient)),
            None if self.overflow == Overflow::Wrap => Ok(Some(left)),
            None => self.overflow.or(|| faults::overflow(format!("{left} div {right} leaves the range of 64 bits"))),
        }
    }
}

/// Sums and differences of intervals of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct IntervalArithmetic {
    pub(super) operation: Operation,
    pub(super) overflow: Overflow,
}

impl Kernel for IntervalArithmetic {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (left, right) = (arguments.array(0)?, arguments.array(1)?);
        // Intervals do not wrap.
        let overflow = if self.overflow == Overflow::Null { Overflow::Null } else { Overflow::Fail };
        let checked = |value: Option<i64>| match value {
            Some(value) => Ok(Some(value)),
            None => overflow.or(interval_overflow),
        };
        let add = self.operation == Operation::Add;
        match left.data_type() {
            DataType::Duration(_) => {
                each_pair::<DurationMicrosecondType, DurationMicrosecondType, DurationMicrosecondType>(&left, &right, |left, right| {
                    checked(if add { left.checked_add(right) } else { left.checked_sub(right) })
                })
            }
            DataType::Interval(IntervalUnit::YearMonth) => {
                each_pair::<IntervalYearMonthType, IntervalYearMonthType, IntervalYearMonthType>(&left, &right, |left, right| {
                    let months = if add { left.checked_add(right) } else { left.checked_sub(right) };
                    match months {
                        Some(months) => Ok(Some(months)),
                        None => overflow.or(interval_overflow),
                    }
                })
            }
            _ => each_pair::<IntervalMonthDayNanoType, IntervalMonthDayNanoType, IntervalMonthDayNanoType>(&left, &right, |left, right| {
                match calendar(left, right, add) {
                    Some(interval) => Ok(Some(interval)),
                    None => self.overflow.or(interval_overflow),
                }
            }),
        }
    }
}

fn calendar(left: IntervalMonthDayNano, right: IntervalMonthDayNano, add: bool) -> Option<IntervalMonthDayNano> {
    let small = |left: i32, right: i32| if add { left.checked_add(right) } else { left.checked_sub(right) };
    let nanos = if add { left.nanoseconds.checked_add(right.nanoseconds) } else { left.nanoseconds.checked_sub(right.nanoseconds) };
    Some(IntervalMonthDayNano::new(small(left.months, right.months)?, small(left.days, right.days)?, nanos?))
}

/// An interval left its range.
pub(super) fn interval_overflow() -> Error {
    faults::row(
        "INTERVAL_ARITHMETIC_OVERFLOW.WITH_SUGGESTION",
        "22015",
        "the interval is too long: use the `try_` variant of the function to get NULL",
    )
}

/// Computes with the values of two columns where neither is null.
pub(super) fn each_pair<A, B, T>(
    left: &ArrayRef,
    right: &ArrayRef,
    compute: impl Fn(A::Native, B::Native) -> Result<Option<T::Native>>,
) -> Result<ArrayRef>
where
    A: ArrowPrimitiveType,
    B: ArrowPrimitiveType,
    T: ArrowPrimitiveType,
{
    let (Some(left), Some(right)) = (left.as_primitive_opt::<A>(), right.as_primitive_opt::<B>()) else {
        return Err(Error::internal(format!("numbers of {} and {} do not fit their kernel", left.data_type(), right.data_type())));
    };
    let mut builder = PrimitiveArray::<T>::builder(left.len());
    for (left, right) in left.iter().zip(right.iter()) {
        match (left, right) {
            (Some(left), Some(right)) => builder.append_option(compute(left, right)?),
            _ => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// An argument for Arrow's kernels, which need not expand constants.
fn datum(arguments: &Arguments<'_>, index: usize) -> Result<Box<dyn Datum>> {
    match arguments.scalar(index) {
        Some(value) => Ok(Box::new(value.to_scalar().map_err(millstream_engine::from_datafusion)?)),
        None => Ok(Box::new(arguments.array(index)?)),
    }
}
