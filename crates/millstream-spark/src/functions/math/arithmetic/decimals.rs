//! Arithmetic of decimals. Results are exact, then rounded half up to the type that Spark gives the operation.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::datatypes::{DataType, Decimal128Type, i256};
use millstream_core::{Error, Result};

use super::{Operation, Overflow};
use crate::functions::cast::decimal::{self, MAX_PRECISION};
use crate::functions::cast::push_decimal;
use crate::functions::{Arguments, Kernel, faults};

/// The precision and scale of a result. Where it would need more than 38 digits, those behind the point go first, down to six.
pub(in crate::functions::math) fn result_decimal(operation: Operation, left: (u8, i8), right: (u8, i8)) -> (u8, i8) {
    let (p1, s1, p2, s2) = (i32::from(left.0), i32::from(left.1), i32::from(right.0), i32::from(right.1));
    let scale = s1.max(s2);
    let (precision, scale) = match operation {
        Operation::Add | Operation::Subtract => ((p1 - s1).max(p2 - s2) + scale + 1, scale),
        Operation::Multiply => (p1 + p2 + 1, s1 + s2),
        Operation::Divide => {
            let scale = 6.max(s1 + p2 + 1);
            (p1 - s1 + s2 + scale, scale)
        }
        Operation::Remainder | Operation::PositiveRemainder => ((p1 - s1).min(p2 - s2) + scale, scale),
    };
    adjusted(precision, scale)
}

fn adjusted(precision: i32, scale: i32) -> (u8, i8) {
    let most = i32::from(MAX_PRECISION);
    let (precision, scale) = if precision <= most {
        (precision, scale)
    } else {
        let whole = precision - scale;
        (most, (most - whole).max(scale.min(6)))
    };
    (u8::try_from(precision.max(1)).unwrap_or(MAX_PRECISION), i8::try_from(scale).unwrap_or(0))
}

/// Arithmetic of two decimals, which may have different scales.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::functions::math) struct DecimalArithmetic {
    pub(in crate::functions::math) operation: Operation,
    pub(in crate::functions::math) overflow: Overflow,
    pub(in crate::functions::math) precision: u8,
    pub(in crate::functions::math) scale: i8,
}

impl Kernel for DecimalArithmetic {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (left, right) = (arguments.array(0)?, arguments.array(1)?);
        let (DataType::Decimal128(_, s1), DataType::Decimal128(_, s2)) = (left.data_type().clone(), right.data_type().clone()) else {
            return Err(Error::internal("decimals are due"));
        };
        let (Some(left), Some(right)) = (left.as_primitive_opt::<Decimal128Type>(), right.as_primitive_opt::<Decimal128Type>()) else {
            return Err(Error::internal("decimals are due"));
        };
        let mut builder = Decimal128Array::builder(left.len());
        for (left, right) in left.iter().zip(right.iter()) {
            builder.append_option(match (left, right) {
                (Some(left), Some(right)) => self.compute((left, s1), (right, s2))?,
                _ => None,
            });
        }
        let array = builder.finish().with_precision_and_scale(self.precision, self.scale);
        array.map(|array| Arc::new(array) as ArrayRef).map_err(|error| Error::internal("a decimal is out of its range").caused_by(error))
    }
}

impl DecimalArithmetic {
    fn compute(&self, left: (i128, i8), right: (i128, i8)) -> Result<Option<i128>> {
        let result = match self.operation {
            Operation::Add => self.sum(left, right),
            Operation::Subtract => self.sum(left, (-right.0, right.1)),
            Operation::Multiply => self.product(left, right),
            Operation::Divide if right.0 == 0 => return self.overflow.or(faults::divide_by_zero),
            Operation::Divide => self.quotient(left, right),
            _ if right.0 == 0 => return self.overflow.or(faults::remainder_by_zero),
            Operation::Remainder => self.remainder(left, right, false),
            Operation::PositiveRemainder => self.remainder(left, right, true),
        };
        match result {
            Some(result) => Ok(Some(result)),
            None => self.overflow.or(|| {
                let text = |(unscaled, scale): (i128, i8)| {
                    let mut text = String::new();
                    push_decimal(&mut text, unscaled, scale, true);
                    text
                };
                let what = format!("{} {} {}", text(left), self.operation.symbol(), text(right));
                faults::out_of_range(what, self.precision, self.scale)
            }),
        }
    }

    fn sum(&self, left: (i128, i8), right: (i128, i8)) -> Option<i128> {
        let scale = left.1.max(right.1);
        let up = |(value, from): (i128, i8)| value.checked_mul(decimal::power(u32::try_from(scale - from).ok()?)?);
        let short = up(left).zip(up(right)).and_then(|(left, right)| left.checked_add(right));
        if let Some(sum) = short {
            return decimal::rescale(sum, scale, self.scale, self.precision);
        }
        let sum = wide_at(left, scale)?.checked_add(wide_at(right, scale)?)?;
        decimal::rescale_wide(sum, scale.into(), self.scale, self.precision)
    }

    fn product(&self, left: (i128, i8), right: (i128, i8)) -> Option<i128> {
        let scale = left.1 + right.1;
        match left.0.checked_mul(right.0) {
            Some(product) => decimal::rescale(product, scale, self.scale, self.precision),
            None => {
                let product = i256::from_i128(left.0).checked_mul(i256::from_i128(right.0))?;
                decimal::rescale_wide(product, scale.into(), self.scale, self.precision)
            }
        }
    }

    fn quotient(&self, left: (i128, i8), right: (i128, i8)) -> Option<i128> {
        let shift = i32::from(self.scale) - i32::from(left.1) + i32::from(right.1);
        if shift < 0 {
            let divisor = i256::from_i128(right.0).checked_mul(i256::from_i128(decimal::power(shift.unsigned_abs())?))?;
            return decimal::fit_wide(decimal::divide_half_up_wide(i256::from_i128(left.0), divisor)?, self.precision);
        }
        let short = decimal::power(shift.unsigned_abs()).and_then(|power| left.0.checked_mul(power));
        if let Some(numerator) = short {
            return decimal::fit(decimal::divide_half_up(numerator, right.0)?, self.precision);
        }
        let power = i256::from_i128(10).checked_pow(shift.unsigned_abs());
        match power.and_then(|power| i256::from_i128(left.0).checked_mul(power)) {
            Some(numerator) => decimal::fit_wide(decimal::divide_half_up_wide(numerator, i256::from_i128(right.0))?, self.precision),
            None => long_division(left.0, right.0, shift.unsigned_abs(), self.precision),
        }
    }

    fn remainder(&self, left: (i128, i8), right: (i128, i8), positive: bool) -> Option<i128> {
        let scale = left.1.max(right.1);
        let (left, right) = (wide_at(left, scale)?, wide_at(right, scale)?);
        let mut remainder = left.checked_rem(right)?;
        if positive && remainder.is_negative() {
            remainder = remainder.checked_add(right)?.checked_rem(right)?;
        }
        decimal::rescale_wide(remainder, scale.into(), self.scale, self.precision)
    }
}

fn wide_at((value, from): (i128, i8), scale: i8) -> Option<i256> {
    i256::from_i128(value).checked_mul(i256::from_i128(decimal::power(u32::try_from(scale - from).ok()?)?))
}

/// `left` · 10^`digits` / `right`, digit by digit, for what is too long to be multiplied first.
fn long_division(left: i128, right: i128, digits: u32, precision: u8) -> Option<i128> {
    let negative = (left < 0) != (right < 0);
    let divisor = i256::from_i128(right).checked_abs()?;
    let ten = i256::from_i128(10);
    let left = i256::from_i128(left).checked_abs()?;
    let (mut quotient, mut remainder) = (left.checked_div(divisor)?, left.checked_rem(divisor)?);
    for _ in 0..digits {
        let next = remainder.checked_mul(ten)?;
        quotient = quotient.checked_mul(ten)?.checked_add(next.checked_div(divisor)?)?;
        remainder = next.checked_rem(divisor)?;
    }
    if remainder >= divisor.checked_sub(remainder)? {
        quotient = quotient.checked_add(i256::ONE)?;
    }
    decimal::fit_wide(if negative { quotient.checked_neg()? } else { quotient }, precision)
}

/// How often one decimal goes into another, cut off towards zero.
pub(super) fn whole_quotient(left: i128, s1: i8, right: i128, s2: i8) -> Option<i128> {
    let scale = s1.max(s2);
    let quotient = wide_at((left, s1), scale)?.checked_div(wide_at((right, s2), scale)?)?;
    Some(quotient.as_i128())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_results_as_recorded() {
        for (operation, left, right, expected) in [
            (Operation::Add, (5, 2), (5, 2), (6, 2)),
            (Operation::Add, (5, 2), (38, 18), (38, 17)),
            (Operation::Multiply, (3, 0), (5, 2), (9, 2)),
            (Operation::Multiply, (3, 0), (38, 18), (38, 14)),
            (Operation::Divide, (3, 0), (5, 2), (11, 6)),
            (Operation::Divide, (3, 0), (38, 18), (38, 17)),
            (Operation::Divide, (38, 18), (38, 18), (38, 6)),
            (Operation::Divide, (5, 2), (5, 2), (13, 8)),
            (Operation::Remainder, (3, 0), (5, 2), (5, 2)),
            (Operation::Remainder, (1, 0), (38, 18), (19, 18)),
        ] {
            assert_eq!(result_decimal(operation, left, right), expected, "{operation:?} {left:?} {right:?}");
        }
    }

    #[test]
    fn long_results_are_rounded_once() {
        let divide = |scale, left, right| {
            DecimalArithmetic { operation: Operation::Divide, overflow: Overflow::Null, precision: 38, scale }.quotient(left, right)
        };
        assert_eq!(divide(6, (2, 0), (3, 0)), Some(666_667));
        assert_eq!(divide(6, (-1, 0), (3, 0)), Some(-333_333));
        let nines = 10_i128.pow(38) - 1;
        assert_eq!(divide(6, (nines, 0), (nines, 38)), None);
        assert_eq!(divide(6, (1, 0), (nines, 38)), Some(1_000_000));
        assert_eq!(long_division(2, 3, 6, 38), Some(666_667));
        let times = DecimalArithmetic { operation: Operation::Multiply, overflow: Overflow::Null, precision: 38, scale: 6 };
        assert_eq!(times.product((nines, 38), (nines, 38)), Some(1_000_000));
        let plus = DecimalArithmetic { operation: Operation::Add, overflow: Overflow::Null, precision: 38, scale: 17 };
        assert_eq!(plus.sum((nines, 18), (nines, 18)), Some(20_000_000_000_000_000_000_000_000_000_000_000_000));
    }
}
