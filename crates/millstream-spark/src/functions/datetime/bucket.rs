//! `time_bucket`: timestamps aligned to a grid of intervals.

use std::sync::Arc;

use arrow::array::{ArrayRef, PrimitiveBuilder};
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit, TimestampMicrosecondType};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};

use super::super::downcast;
use super::super::{Arguments, Call, Functions, Kernel, TimeZone, Typed, coercion, faults, scalar};
use super::civil::{Civil, MICROS_PER_DAY};
use super::shift;
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add("time_bucket", build);
}

/// `time_bucket(size, time[, origin])`
fn build(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=3)?;
    let wall_clock = DataType::Timestamp(TimeUnit::Microsecond, None);
    let time = call.exactly(1, &[types::timestamp(), wall_clock])?;
    let size = size(call)?;
    let zone = if time.data_type == types::timestamp() { call.settings.time_zone } else { TimeZone::Offset(0) };
    let origin = match call.len() {
        3 => origin(call, &time.data_type)?,
        _ => Some(zone.local_to_instant(0)),
    };
    let (data_type, nullable) = (time.data_type.clone(), time.nullable);
    let (Some(size), Some(origin)) = (size, origin) else { return Ok(Typed::null(&data_type)) };
    Ok(scalar("time_bucket", Bucket { size, origin, zone }, vec![time], data_type, nullable))
}

/// The constant size of the buckets; `None` when it is null.
fn size(call: &Call<'_>) -> Result<Option<Size>> {
    let argument = call.value(0)?;
    if !matches!(argument.data_type, DataType::Duration(_) | DataType::Interval(IntervalUnit::YearMonth) | DataType::Null) {
        let expected = "(\"INTERVAL DAY TO SECOND\" or \"INTERVAL YEAR TO MONTH\")";
        return Err(faults::unexpected_type(call.name, 0, expected, &argument.data_type));
    }
    let size = match coercion::constant_of(argument) {
        Some(ScalarValue::DurationMicrosecond(Some(micros))) => Size::Micros(micros),
        Some(ScalarValue::IntervalYearMonth(Some(months))) => Size::Months(months),
        Some(_) => return Ok(None),
        None => return Err(faults::not_foldable(call.name, 0)),
    };
    match size {
        Size::Micros(1..) | Size::Months(1..) => Ok(Some(size)),
        _ => Err(faults::mismatch("VALUE_OUT_OF_RANGE", "the size of the buckets of `time_bucket` must be positive")),
    }
}

/// The constant point that the grid goes through; `None` when it is null.
fn origin(call: &Call<'_>, data_type: &DataType) -> Result<Option<i64>> {
    match coercion::constant_of(&call.exactly(2, std::slice::from_ref(data_type))?) {
        Some(ScalarValue::TimestampMicrosecond(origin, _)) => Ok(origin),
        Some(_) => Ok(None),
        None => Err(faults::not_foldable(call.name, 2)),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Size {
    Micros(i64),
    Months(i32),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Bucket {
    size: Size,
    origin: i64,
    zone: TimeZone,
}

impl Bucket {
    /// The start of the bucket that a time is in; `None` when it leaves the range.
    fn start(&self, time: i64) -> Option<i64> {
        let number = match self.size {
            Size::Micros(size) => time.checked_sub(self.origin)?.div_euclid(size),
            Size::Months(months) => {
                let month = |micros: i64| {
                    let date = Civil::from_micros(self.zone.instant_to_local(micros));
                    date.year * 12 + i64::from(date.month)
                };
                (month(time) - month(self.origin)).div_euclid(i64::from(months))
            }
        };
        let start = self.nth(number)?;
        // Days of a wall clock are not all of the same length, and months begin when the origin does.
        if start > time {
            return self.nth(number - 1);
        }
        match self.size {
            Size::Micros(size) if size >= MICROS_PER_DAY => self.nth(number + 1).filter(|next| *next <= time).or(Some(start)),
            _ => Some(start),
        }
    }

    fn nth(&self, number: i64) -> Option<i64> {
        match self.size {
            Size::Micros(size) if size < MICROS_PER_DAY => self.origin.checked_add(number.checked_mul(size)?),
            Size::Micros(size) => shift::instant_by_duration(self.origin, number.checked_mul(size)?, self.zone),
            Size::Months(months) => shift::instant(self.origin, number.checked_mul(i64::from(months))?, 0, 0, self.zone),
        }
    }
}

impl Kernel for Bucket {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let times = arguments.array(0)?;
        let values = downcast::primitive::<TimestampMicrosecondType>(&times)?;
        let mut starts =
            PrimitiveBuilder::<TimestampMicrosecondType>::with_capacity(values.len()).with_data_type(times.data_type().clone());
        for time in values {
            let start = time.map(|time| self.start(time).ok_or_else(overflow)).transpose()?;
            starts.append_option(start);
        }
        Ok(Arc::new(starts.finish()))
    }
}

fn overflow() -> Error {
    faults::row("DATETIME_OVERFLOW", "22008", "the start of the bucket is out of the range of timestamps")
}
