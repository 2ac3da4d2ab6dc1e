//! The current time, which stands still for a batch and is the same when the batch runs again.

use arrow::datatypes::{DataType, TimeUnit};
use millstream_core::Result;

use super::super::{Call, Functions, Typed, cast, udf};
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add_all(&["current_timestamp", "now"], |call| {
        call.arity(0..=0)?;
        Ok(current_timestamp())
    });
    functions.add_all(&["current_date", "curdate"], |call| local(call, &DataType::Date32));
    functions.add("localtimestamp", |call| local(call, &DataType::Timestamp(TimeUnit::Microsecond, None)));
}

/// The time of the batch.
pub(super) fn current_timestamp() -> Typed {
    udf(millstream_engine::batch_time::current_timestamp(), Vec::new(), types::timestamp(), false)
}

/// What the calendar and the clock of the session's zone show.
fn local(call: &Call<'_>, data_type: &DataType) -> Result<Typed> {
    call.arity(0..=0)?;
    let mut value = cast::implicit(current_timestamp(), data_type, call.settings)?;
    value.nullable = false;
    Ok(value)
}
