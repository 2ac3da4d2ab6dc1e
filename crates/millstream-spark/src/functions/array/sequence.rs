//! `sequence`: numbers, dates and times from one to another.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, DurationMicrosecondType, Field, Int8Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, TimeUnit, TimestampMicrosecondType,
};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, ErrorKind, Result};

use super::super::datetime::civil::{self, MICROS_PER_DAY};
use super::super::datetime::shift;
use super::super::interval::Calendar;
use super::super::rows::check_value;
use super::super::{Arguments, Call, Functions, Kernel, TimeZone, Typed, cast, coercion, downcast, faults, nested, scalar};
use crate::types;

/// The most elements of one sequence.
const MAX_ELEMENTS: i128 = i32::MAX as i128 - 15;

pub(super) fn register(functions: &mut Functions) {
    functions.add("sequence", sequence);
}

/// A sequence of numbers or of times; the step is one, forth or back, where there is no third argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sequence {
    zone: TimeZone,
}

fn illegal(start: impl std::fmt::Display, stop: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::BadRecord,
        "IllegalArgumentException",
        format!("no sequence goes from {start} to {stop} with such a step: its sign must lead there"),
    )
}

/// How many numbers there are from `start` to `stop` with a step.
fn count(start: i128, stop: i128, step: i128) -> Result<i128> {
    let leads = step > 0 && start <= stop || step < 0 && start >= stop || step == 0 && start == stop;
    if !leads {
        return Err(illegal(start, stop));
    }
    let count = if step == 0 { 1 } else { (stop - start) / step + 1 };
    if count > MAX_ELEMENTS {
        return Err(nested::too_many(count));
    }
    // Times are made of 64 bits.
    check_value(usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(size_of::<i64>()))?;
    Ok(count)
}

/// The bounds and steps of rows as 64-bit numbers.
fn numbers<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &ArrayRef, row: usize) -> Result<Option<i64>> {
    Ok(downcast::value(downcast::primitive::<T>(array)?, row).map(Into::into))
}

fn integers<T: ArrowPrimitiveType<Native: Into<i64> + TryFrom<i64>>>(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let columns = arguments.arrays()?;
    let [starts, stops, steps @ ..] = columns.as_slice() else { return Err(Error::internal("a sequence has two ends")) };
    let mut values: Vec<T::Native> = Vec::new();
    let (mut offsets, mut valid) = (vec![0], Vec::new());
    for row in 0..arguments.rows() {
        let bounds = (numbers::<T>(starts, row)?, numbers::<T>(stops, row)?);
        let step = match (steps.first(), bounds) {
            (Some(steps), _) => numbers::<T>(steps, row)?,
            (None, (Some(start), Some(stop))) => Some(if start <= stop { 1 } else { -1 }),
            _ => None,
        };
        let whole = match (bounds, step) {
            ((Some(start), Some(stop)), Some(step)) => Some((start, step, count(start.into(), stop.into(), step.into())?)),
            _ => None,
        };
        if let Some((start, step, count)) = whole {
            values.reserve(usize::try_from(count).unwrap_or(0));
            for index in 0..count {
                let value = i128::from(start) + index * i128::from(step);
                let value = i64::try_from(value).ok().and_then(|value| T::Native::try_from(value).ok());
                values.push(value.ok_or_else(|| Error::internal("a sequence stays between its ends"))?);
            }
        }
        offsets.push(nested::offset(values.len())?);
        valid.push(whole.is_some());
    }
    nested::list(
        Arc::new(Field::new("element", T::DATA_TYPE, false)),
        offsets,
        Arc::new(PrimitiveArray::<T>::new(values.into(), None)),
        valid,
    )
}

impl Sequence {
    /// The step of a row, in months, days and microseconds.
    fn step(&self, steps: &ArrayRef, row: usize, dates: bool) -> Result<Option<Calendar>> {
        if steps.is_null(row) {
            return Ok(None);
        }
        let step = match steps.data_type() {
            DataType::Duration(_) => {
                let micros = downcast::primitive::<DurationMicrosecondType>(steps)?.value(row);
                let days = i32::try_from(micros / MICROS_PER_DAY).map_err(|_| faults::overflow("the step is too long"))?;
                Calendar { months: 0, days, micros: micros % MICROS_PER_DAY }
            }
            DataType::Interval(IntervalUnit::YearMonth) => {
                Calendar { months: downcast::primitive::<IntervalYearMonthType>(steps)?.value(row), ..Calendar::default() }
            }
            _ => Calendar::of(downcast::primitive::<IntervalMonthDayNanoType>(steps)?.value(row)),
        };
        if dates && (step.micros != 0 || step.months == 0 && step.days == 0) {
            return Err(Error::new(
                ErrorKind::BadRecord,
                "_LEGACY_ERROR_TEMP_3242",
                "the step of a sequence of dates is an interval of whole days, and not zero",
            ));
        }
        Ok(Some(step))
    }

    /// The times of a row, microseconds since the epoch.
    fn times(&self, start: i64, stop: i64, step: Calendar, zone: TimeZone) -> Result<Vec<i64>> {
        let length = i128::from(step.months) * 28 * i128::from(MICROS_PER_DAY)
            + i128::from(step.days) * i128::from(MICROS_PER_DAY)
            + i128::from(step.micros);
        let forth = length > 0;
        if length == 0 && start != stop || forth && start > stop || !forth && length != 0 && start < stop {
            return Err(illegal(start, stop));
        }
        count(start.into(), stop.into(), length)?;
        let mut times = Vec::new();
        for index in 0_i64.. {
            let (months, days) = (i64::from(step.months) * index, i64::from(step.days) * index);
            let Some(micros) = step.micros.checked_mul(index) else { break };
            match shift::instant(start, months, days, micros, zone) {
                Some(time) if (forth && time <= stop) || (!forth && time >= stop) => times.push(time),
                _ => break,
            }
            if length == 0 {
                break;
            }
        }
        Ok(times)
    }
}

impl Kernel for Sequence {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let columns = arguments.arrays()?;
        let [starts, stops, steps @ ..] = columns.as_slice() else { return Err(Error::internal("a sequence has two ends")) };
        let dates = match starts.data_type() {
            DataType::Int8 => return integers::<Int8Type>(arguments),
            DataType::Int16 => return integers::<Int16Type>(arguments),
            DataType::Int32 => return integers::<Int32Type>(arguments),
            DataType::Int64 => return integers::<Int64Type>(arguments),
            DataType::Date32 => true,
            _ => false,
        };
        // Dates are counted as the midnights of UTC.
        let zone = if dates { TimeZone::Offset(0) } else { self.zone };
        let bound = |column: &ArrayRef, row: usize| -> Result<Option<i64>> {
            Ok(if dates {
                downcast::value(downcast::primitive::<Date32Type>(column)?, row).map(|days| i64::from(days) * MICROS_PER_DAY)
            } else {
                downcast::value(downcast::primitive::<TimestampMicrosecondType>(column)?, row)
            })
        };
        let mut values: Vec<i64> = Vec::new();
        let (mut offsets, mut valid) = (vec![0], Vec::new());
        for row in 0..arguments.rows() {
            let bounds = (bound(starts, row)?, bound(stops, row)?);
            let step = match (steps.first(), bounds) {
                (Some(steps), (Some(_), Some(_))) => self.step(steps, row, dates)?,
                (None, (Some(start), Some(stop))) => Some(Calendar { days: if start <= stop { 1 } else { -1 }, ..Calendar::default() }),
                _ => None,
            };
            let times = match (bounds, step) {
                ((Some(start), Some(stop)), Some(step)) => Some(self.times(start, stop, step, zone)?),
                _ => None,
            };
            valid.push(times.is_some());
            values.extend(times.unwrap_or_default());
            offsets.push(nested::offset(values.len())?);
        }
        let element = Arc::new(Field::new("element", starts.data_type().clone(), false));
        let values: ArrayRef = if dates {
            let days = values.into_iter().map(|micros| i32::try_from(civil::days_of(micros)).ok());
            Arc::new(days.collect::<arrow::array::Date32Array>())
        } else {
            let times = arrow::array::TimestampMicrosecondArray::from(values).with_data_type(starts.data_type().clone());
            Arc::new(times)
        };
        nested::list(element, offsets, values, valid)
    }
}

fn sequence(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=3)?;
    let wrong = || {
        let types: Vec<String> = call
            .arguments
            .iter()
            .enumerate()
            .filter_map(|(index, _)| call.value(index).ok())
            .map(|value| types::ddl_type(&value.data_type))
            .collect();
        faults::mismatch(
            "SEQUENCE_WRONG_INPUT_TYPES",
            format!(
                "`sequence` goes from a whole number to a whole number by one, or from a date or timestamp to another by an interval, and \
                 does not take {}",
                types.join(", ")
            ),
        )
    };
    let integral = |data_type: &DataType| matches!(data_type, DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64);
    let (start, stop) = (call.value(0)?.clone(), call.value(1)?.clone());
    let step = if call.len() == 3 { Some(call.value(2)?.clone()) } else { None };
    let common = coercion::common_type(&start.data_type, &stop.data_type, call.settings).ok_or_else(wrong)?;
    let mut arguments = vec![start, stop];
    let common = match &common {
        DataType::Null => DataType::Int32,
        data_type if integral(data_type) => match &step {
            Some(step) if integral(&step.data_type) || step.data_type == DataType::Null => {
                coercion::common_type(data_type, &step.data_type, call.settings).ok_or_else(wrong)?
            }
            Some(_) => return Err(wrong()),
            None => common,
        },
        DataType::Date32 | DataType::Timestamp(TimeUnit::Microsecond, _) => common,
        _ => return Err(wrong()),
    };
    for argument in &mut arguments {
        *argument = cast::implicit(argument.clone(), &common, call.settings)?;
    }
    match step {
        Some(step) if integral(&common) => arguments.push(cast::implicit(step, &common, call.settings)?),
        Some(step) => match &step.data_type {
            DataType::Duration(_) | DataType::Interval(IntervalUnit::YearMonth | IntervalUnit::MonthDayNano) => arguments.push(step),
            DataType::Null => {
                let null = ScalarValue::try_from(&DataType::Duration(TimeUnit::Microsecond)).unwrap_or(ScalarValue::Null);
                arguments.push(Typed::literal(null));
            }
            _ => return Err(wrong()),
        },
        None => {}
    }
    let nullable = arguments.iter().any(|argument| argument.nullable);
    let zone = if matches!(common, DataType::Timestamp(_, None)) { TimeZone::Offset(0) } else { call.settings.time_zone };
    Ok(scalar("sequence", Sequence { zone }, arguments, types::array(common, false), nullable))
}
