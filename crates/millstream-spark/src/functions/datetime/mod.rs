//! Dates and times: parts, arithmetic, parsing, formatting, time zones.

pub(crate) mod arithmetic;
mod bucket;
pub(crate) mod civil;
mod construct;
mod epoch;
pub(crate) mod format;
mod now;
pub(crate) mod parse;
pub(crate) mod parts;
pub(crate) mod pattern;
pub(crate) mod shift;
mod text;
pub(crate) mod time_of_day;
mod truncate;
mod words;
mod zones;

use arrow::datatypes::{DataType, TimeUnit};
use millstream_core::Result;

use super::{Call, Functions, Typed};

pub(crate) use now::named_moment;

pub(super) fn register(functions: &mut Functions) {
    parts::register(functions);
    arithmetic::register(functions);
    bucket::register(functions);
    construct::register(functions);
    epoch::register(functions);
    now::register(functions);
    text::register(functions);
    time_of_day::register(functions);
    truncate::register(functions);
    zones::register(functions);
}

/// An argument that is an instant or a wall clock; anything else is cast to an instant.
///
/// # Errors
/// As [`Call::timestamp`].
fn any_timestamp(call: &Call<'_>, index: usize) -> Result<Typed> {
    let value = call.value(index)?;
    match value.data_type {
        DataType::Timestamp(TimeUnit::Microsecond, None) => Ok(value.clone()),
        _ => call.timestamp(index),
    }
}
