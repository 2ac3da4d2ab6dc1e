//! From booleans, numbers and bytes.

use std::fmt::Display;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, PrimitiveArray,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Decimal128Type, DurationMicrosecondType, Field, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    IntervalUnit, IntervalYearMonthType, TimestampMicrosecondType,
};
use millstream_core::{Error, Result};

use super::interval::Units;
use super::{CastMode, Conversion, decimal};
use crate::functions::faults;

pub(super) fn convert(conversion: &Conversion, values: &ArrayRef, from: &Field, to: &Field) -> Result<Option<ArrayRef>> {
    let numbers = match from.data_type() {
        DataType::Boolean | DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
            if let (DataType::Binary, DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64) =
                (to.data_type(), from.data_type())
            {
                return Ok(Some(Arc::new(bytes(values)?)));
            }
            if let (DataType::Boolean, DataType::Timestamp(_, zone)) = (from.data_type(), to.data_type()) {
                // True is one microsecond after the epoch.
                let array = widened::<Int64Type>(values)?.reinterpret_cast::<TimestampMicrosecondType>();
                return Ok(Some(Arc::new(array.with_timezone_opt(zone.clone()))));
            }
            Numbers::Integers(widened(values)?)
        }
        DataType::Float32 | DataType::Float64 => Numbers::Doubles(widened(values)?),
        DataType::Decimal128(_, scale) => match values.as_primitive_opt::<Decimal128Type>() {
            Some(array) => Numbers::Decimals(array.clone(), *scale),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    let target = Target { mode: conversion.mode, from: from.data_type(), to: to.data_type() };
    numbers.convert(&target, Units::of_field(to))
}

/// Numbers of any width.
pub(super) enum Numbers {
    Integers(Int64Array),
    Doubles(Float64Array),
    Decimals(Decimal128Array, i8),
}

/// What numbers are converted to, and what from, for messages.
pub(super) struct Target<'a> {
    pub(super) mode: CastMode,
    pub(super) from: &'a DataType,
    pub(super) to: &'a DataType,
}

impl Target<'_> {
    /// Each value converted; where that cannot be, null or a fault.
    pub(super) fn each<S: ArrowPrimitiveType, T: ArrowPrimitiveType>(
        &self,
        values: &PrimitiveArray<S>,
        convert: impl Fn(S::Native) -> Option<T::Native>,
        fault: impl Fn(S::Native) -> Error,
    ) -> Result<PrimitiveArray<T>> {
        if self.mode == CastMode::Ansi {
            values.try_unary(|value| convert(value).ok_or_else(|| fault(value)))
        } else {
            Ok(values.unary_opt(convert))
        }
    }

    fn overflow(&self, value: impl Display) -> Error {
        faults::cast_overflow(value, self.from, self.to)
    }
}

impl Numbers {
    pub(super) fn convert(&self, target: &Target<'_>, units: Units) -> Result<Option<ArrayRef>> {
        let array: ArrayRef = match target.to {
            DataType::Boolean => Arc::new(self.booleans()),
            DataType::Int8 => Arc::new(self.integers::<Int8Type>(target, i8::MIN, i8::MAX, |value| value as i8)?),
            DataType::Int16 => Arc::new(self.integers::<Int16Type>(target, i16::MIN, i16::MAX, |value| value as i16)?),
            DataType::Int32 => Arc::new(self.integers::<Int32Type>(target, i32::MIN, i32::MAX, |value| value as i32)?),
            DataType::Int64 => Arc::new(self.integers::<Int64Type>(target, i64::MIN, i64::MAX, |value| value)?),
            DataType::Float32 => Arc::new(match self {
                Numbers::Integers(values) => values.unary::<_, Float32Type>(|value| value as f32),
                Numbers::Doubles(values) => values.unary::<_, Float32Type>(|value| value as f32),
                Numbers::Decimals(values, scale) => values.unary::<_, Float32Type>(|value| decimal::to_f32(value, *scale)),
            }),
            DataType::Float64 => Arc::new(match self {
                Numbers::Integers(values) => values.unary::<_, Float64Type>(|value| value as f64),
                Numbers::Doubles(values) => values.clone(),
                Numbers::Decimals(values, scale) => values.unary::<_, Float64Type>(|value| decimal::to_f64(value, *scale)),
            }),
            DataType::Decimal128(precision, scale) => {
                Arc::new(self.decimals(target, *precision, *scale)?.with_data_type(target.to.clone()))
            }
            DataType::Timestamp(_, zone) => Arc::new(self.timestamps(target)?.with_timezone_opt(zone.clone())),
            DataType::Duration(_) => Arc::new(self.multiplied::<DurationMicrosecondType>(target, units.end.size(), Some)?),
            DataType::Interval(IntervalUnit::YearMonth) => {
                Arc::new(self.multiplied::<IntervalYearMonthType>(target, units.end.size(), |months| i32::try_from(months).ok())?)
            }
            _ => return Ok(None),
        };
        Ok(Some(array))
    }

    fn booleans(&self) -> BooleanArray {
        match self {
            Numbers::Integers(values) => BooleanArray::from_unary(values, |value| value != 0),
            Numbers::Doubles(values) => BooleanArray::from_unary(values, |value| value != 0.0),
            Numbers::Decimals(values, _) => BooleanArray::from_unary(values, |value| value != 0),
        }
    }

    fn integers<T: ArrowPrimitiveType>(
        &self,
        target: &Target<'_>,
        least: T::Native,
        most: T::Native,
        wrap: impl Fn(i64) -> T::Native,
    ) -> Result<PrimitiveArray<T>>
    where
        T::Native: Into<i64>,
    {
        let (least, most): (i64, i64) = (least.into(), most.into());
        let wide = most > i64::from(i32::MAX);
        let legacy = target.mode == CastMode::Legacy;
        match self {
            Numbers::Integers(values) => target.each(
                values,
                |value| (legacy || (least..=most).contains(&value)).then(|| wrap(value)),
                |value| target.overflow(value),
            ),
            Numbers::Doubles(values) => target.each(
                values,
                |value| {
                    if legacy {
                        // Java converts to the small types by way of int.
                        return Some(wrap(if wide || most == i64::from(i32::MAX) {
                            (value as i64).clamp(least, most)
                        } else {
                            i64::from(value as i32)
                        }));
                    }
                    // As doubles, the bounds of 64 bits are rounded; so they are in Spark.
                    (value.floor() <= most as f64 && value.ceil() >= least as f64).then(|| wrap(value as i64))
                },
                |value| target.overflow(value),
            ),
            Numbers::Decimals(values, scale) => target.each(
                values,
                |value| {
                    let whole = decimal::truncate(value, *scale);
                    match i64::try_from(whole) {
                        Ok(whole) if (least..=most).contains(&whole) => Some(wrap(whole)),
                        _ => legacy.then(|| wrap(whole as i64)),
                    }
                },
                |value| target.overflow(decimal_text(value, *scale)),
            ),
        }
    }

    pub(super) fn decimals(&self, target: &Target<'_>, precision: u8, scale: i8) -> Result<Decimal128Array> {
        match self {
            Numbers::Integers(values) => target.each(
                values,
                |value| decimal::rescale(i128::from(value), 0, scale, precision),
                |value| faults::out_of_range(value, precision, scale),
            ),
            Numbers::Doubles(values) => {
                // What is not a number at all is null in every mode.
                let finite: Float64Array = values.unary_opt(|value| value.is_finite().then_some(value));
                target.each(
                    &finite,
                    |value| decimal::from_f64(value, precision, scale),
                    |value| faults::out_of_range(value, precision, scale),
                )
            }
            Numbers::Decimals(values, from) => target.each(
                values,
                |value| decimal::rescale(value, *from, scale, precision),
                |value| faults::out_of_range(decimal_text(value, *from), precision, scale),
            ),
        }
    }

    fn timestamps(&self, target: &Target<'_>) -> Result<PrimitiveArray<TimestampMicrosecondType>> {
        match self {
            Numbers::Integers(values) => Ok(values.unary(|value| value.saturating_mul(1_000_000))),
            Numbers::Doubles(values) => target.each(
                values,
                |value| {
                    let micros = value * 1e6;
                    let fits = micros.floor() <= i64::MAX as f64 && micros.ceil() >= i64::MIN as f64;
                    (fits || target.mode == CastMode::Legacy && value.is_finite()).then_some(micros as i64)
                },
                |value| {
                    if value.is_finite() { target.overflow(value) } else { faults::bad_cast(value, target.from, target.to) }
                },
            ),
            Numbers::Decimals(values, scale) => target.each(
                values,
                |value| i64::try_from(decimal::truncate(value.checked_mul(1_000_000)?, *scale)).ok(),
                |value| target.overflow(decimal_text(value, *scale)),
            ),
        }
    }

    /// Numbers of a unit of an interval.
    fn multiplied<T: ArrowPrimitiveType>(
        &self,
        target: &Target<'_>,
        size: i64,
        narrow: impl Fn(i64) -> Option<T::Native>,
    ) -> Result<PrimitiveArray<T>> {
        // Intervals do not wrap.
        let target = &Target { mode: if target.mode == CastMode::Try { CastMode::Try } else { CastMode::Ansi }, ..*target };
        match self {
            Numbers::Integers(values) => target.each(values, |value| narrow(value.checked_mul(size)?), |value| target.overflow(value)),
            Numbers::Decimals(values, scale) => target.each(
                values,
                |value| narrow(i64::try_from(decimal::rescale(value.checked_mul(i128::from(size))?, *scale, 0, 38)?).ok()?),
                |value| target.overflow(decimal_text(value, *scale)),
            ),
            Numbers::Doubles(_) => Err(Error::internal("there is no cast from doubles to intervals")),
        }
    }
}

fn decimal_text(unscaled: i128, scale: i8) -> String {
    let mut text = String::new();
    super::push_decimal(&mut text, unscaled, scale, true);
    text
}

/// Integers, booleans or floats in the widest type of their kind.
fn widened<T: ArrowPrimitiveType>(values: &ArrayRef) -> Result<PrimitiveArray<T>> {
    let wide = cast(values, &T::DATA_TYPE).map_err(|error| Error::internal("a number cannot be widened").caused_by(error))?;
    wide.as_primitive_opt::<T>().cloned().ok_or_else(|| Error::internal("a number has no wide form"))
}

/// The bytes of integers, the most significant first.
fn bytes(values: &ArrayRef) -> Result<BinaryArray> {
    let width = values.data_type().primitive_width().unwrap_or(8);
    let wide = widened::<Int64Type>(values)?;
    Ok(wide.iter().map(|value| value.and_then(|value| value.to_be_bytes().get(8 - width..).map(<[u8]>::to_vec))).collect())
}
