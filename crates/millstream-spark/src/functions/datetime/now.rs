//! The current time, which stands still for a batch and is the same when the batch runs again.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::scalar::ScalarValue;
use millstream_core::Result;

use super::super::{Argument, Call, Functions, Settings, Typed, cast, udf};
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

/// The date or the timestamp that a constant text names when it is cast: `epoch`, `now`, `today`, `yesterday`, `tomorrow`.
pub(crate) fn named_moment(text: &ScalarValue, to: &DataType, settings: &Settings) -> Option<Typed> {
    if !matches!(to, DataType::Date32 | DataType::Timestamp(..)) {
        return None;
    }
    let name = text.try_as_str().flatten()?.trim().to_ascii_lowercase();
    let is_date = *to == DataType::Date32;
    let days = match name.as_str() {
        "epoch" => {
            let epoch = match to {
                DataType::Timestamp(_, zone) => ScalarValue::TimestampMicrosecond(Some(0), zone.clone()),
                _ => ScalarValue::Date32(Some(0)),
            };
            return Some(Typed::literal(epoch));
        }
        "now" if !is_date => return moment(current_timestamp(), to, settings),
        "now" | "today" => 0,
        "yesterday" => -1,
        "tomorrow" => 1,
        _ => return None,
    };
    let today = cast::implicit(current_timestamp(), &DataType::Date32, settings).ok()?;
    let arguments = vec![Argument::Value(today), Argument::Value(Typed::literal(ScalarValue::Int32(Some(days))))];
    let day = Functions::all().build(&Call { name: "date_add", arguments, settings }).ok()?;
    moment(day, to, settings)
}

fn moment(value: Typed, to: &DataType, settings: &Settings) -> Option<Typed> {
    Some(Typed { nullable: false, ..cast::implicit(value, to, settings).ok()? })
}
