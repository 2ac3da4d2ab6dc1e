//! Parts of intervals: `extract(HOUR FROM interval)`.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{
    DataType, Decimal128Type, DurationMicrosecondType, Int8Type, Int32Type, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType,
};
use millstream_core::Result;

use super::super::cast::interval::{Unit, Units};
use super::super::datetime::civil::{MICROS_PER_DAY, MICROS_PER_HOUR, MICROS_PER_MINUTE};
use super::super::datetime::parts::no_such_field;
use super::super::downcast;
use super::super::{Arguments, Kernel, Typed, scalar};
use super::Calendar;

/// The type of seconds with their fraction.
const SECONDS: DataType = DataType::Decimal128(8, 6);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PartOfInterval {
    unit: Unit,
}

impl PartOfInterval {
    fn of(self, interval: Calendar) -> i64 {
        let micros = interval.micros;
        match self.unit {
            Unit::Year => i64::from(interval.months / 12),
            Unit::Month => i64::from(interval.months % 12),
            Unit::Day => i64::from(interval.days) + micros / MICROS_PER_DAY,
            Unit::Hour => micros % MICROS_PER_DAY / MICROS_PER_HOUR,
            Unit::Minute => micros % MICROS_PER_HOUR / MICROS_PER_MINUTE,
            Unit::Second => micros % MICROS_PER_MINUTE,
        }
    }

    /// The type of the part.
    fn data_type(self) -> DataType {
        match self.unit {
            Unit::Year | Unit::Day => DataType::Int32,
            Unit::Month | Unit::Hour | Unit::Minute => DataType::Int8,
            Unit::Second => SECONDS,
        }
    }

    fn column<I: arrow::array::ArrowPrimitiveType>(self, intervals: &ArrayRef, calendar: fn(I::Native) -> Calendar) -> Result<ArrayRef> {
        let part = |interval| self.of(calendar(interval));
        Ok(match self.data_type() {
            DataType::Int8 => Arc::new(downcast::map::<I, Int8Type>(intervals, |interval| Ok(i8::try_from(part(interval)).ok()))?),
            DataType::Int32 => Arc::new(downcast::map::<I, Int32Type>(intervals, |interval| Ok(i32::try_from(part(interval)).ok()))?),
            _ => {
                let seconds = downcast::map::<I, Decimal128Type>(intervals, |interval| Ok(Some(i128::from(part(interval)))))?;
                Arc::new(seconds.with_data_type(SECONDS))
            }
        })
    }
}

impl Kernel for PartOfInterval {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let intervals = arguments.array(0)?;
        match intervals.data_type() {
            DataType::Duration(_) => {
                self.column::<DurationMicrosecondType>(&intervals, |micros| Calendar { micros, ..Calendar::default() })
            }
            DataType::Interval(IntervalUnit::YearMonth) => {
                self.column::<IntervalYearMonthType>(&intervals, |months| Calendar { months, ..Calendar::default() })
            }
            _ => self.column::<IntervalMonthDayNanoType>(&intervals, Calendar::of),
        }
    }
}

/// A part of an interval by its name in upper case.
///
/// # Errors
/// `INVALID_EXTRACT_FIELD` when intervals of that kind have no such part.
pub(crate) fn extract(field: &str, source: Typed) -> Result<Typed> {
    let unit = match field {
        "YEAR" | "Y" | "YEARS" | "YR" | "YRS" => Some(Unit::Year),
        "MONTH" | "MON" | "MONS" | "MONTHS" => Some(Unit::Month),
        "DAY" | "D" | "DAYS" => Some(Unit::Day),
        "HOUR" | "H" | "HOURS" | "HR" | "HRS" => Some(Unit::Hour),
        "MINUTE" | "M" | "MIN" | "MINS" | "MINUTES" => Some(Unit::Minute),
        "SECOND" | "S" | "SEC" | "SECONDS" | "SECS" => Some(Unit::Second),
        _ => None,
    };
    let has = |unit: &Unit| match source.data_type {
        DataType::Interval(IntervalUnit::MonthDayNano) => true,
        _ => {
            let units = Units::of(&source.data_type, &source.metadata);
            (units.start..=units.end).contains(unit)
        }
    };
    let unit = unit.filter(has).ok_or_else(|| no_such_field(field, &source.data_type))?;
    let kernel = PartOfInterval { unit };
    let nullable = source.nullable;
    Ok(scalar("extract_interval", kernel, vec![source], kernel.data_type(), nullable))
}
