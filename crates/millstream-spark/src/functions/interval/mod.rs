//! Intervals: making them, their parts, and arithmetic with dates and times.

mod arithmetic;
mod extract;
mod make;
mod scale;

use super::Functions;

pub(crate) use extract::extract;

/// An interval of months, days and microseconds, each with its own sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Calendar {
    pub months: i32,
    pub days: i32,
    pub micros: i64,
}

impl Calendar {
    /// Whole microseconds of Arrow's interval.
    pub(crate) fn of(interval: arrow::datatypes::IntervalMonthDayNano) -> Self {
        Calendar { months: interval.months, days: interval.days, micros: interval.nanoseconds / 1_000 }
    }

    /// As Arrow's interval; `None` when there are more microseconds than it holds as nanoseconds.
    pub(crate) fn to_arrow(self) -> Option<arrow::datatypes::IntervalMonthDayNano> {
        Some(arrow::datatypes::IntervalMonthDayNano::new(self.months, self.days, self.micros.checked_mul(1_000)?))
    }
}

pub(super) fn register(functions: &mut Functions) {
    make::register(functions);
    arithmetic::register(functions);
    scale::register(functions);
}
