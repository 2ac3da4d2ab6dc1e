//! Wall clocks of one zone as those of another: `from_utc_timestamp`, `to_utc_timestamp`, `convert_timezone`.

use std::sync::Arc;

use arrow::array::{ArrayRef, PrimitiveBuilder};
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use millstream_core::Result;

use super::super::downcast;
use super::super::{Arguments, Call, Functions, Kernel, TimeZone, Typed, scalar};
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add("from_utc_timestamp", |call| shifted(call, Direction::FromUtc));
    functions.add("to_utc_timestamp", |call| shifted(call, Direction::ToUtc));
    functions.add("convert_timezone", convert_timezone);
    functions.add("current_timezone", current_timezone);
}

/// The zone of the last name, so that a column of one name is read once.
#[derive(Debug, Default)]
pub(super) struct Zones {
    last: Option<(String, TimeZone)>,
}

impl Zones {
    /// The zone of a name.
    ///
    /// # Errors
    /// `INVALID_TIMEZONE`.
    pub(super) fn get(&mut self, name: &str) -> Result<TimeZone> {
        match &self.last {
            Some((last, zone)) if last == name => Ok(*zone),
            _ => {
                let zone = TimeZone::parse(name)?;
                self.last = Some((name.to_owned(), zone));
                Ok(zone)
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Direction {
    FromUtc,
    ToUtc,
}

impl Kernel for Direction {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (times, names) = (arguments.array(0)?, arguments.array(1)?);
        let (times, names) = (downcast::primitive::<TimestampMicrosecondType>(&times)?, downcast::strings(&names)?);
        let mut zones = Zones::default();
        let mut result = PrimitiveBuilder::<TimestampMicrosecondType>::with_capacity(times.len()).with_data_type(types::timestamp());
        for (micros, name) in times.iter().zip(names) {
            result.append_option(match (micros, name) {
                (Some(micros), Some(name)) => {
                    let zone = zones.get(name)?;
                    Some(match self {
                        Direction::FromUtc => zone.instant_to_local(micros),
                        Direction::ToUtc => zone.local_to_instant(micros),
                    })
                }
                _ => None,
            });
        }
        Ok(Arc::new(result.finish()))
    }
}

fn shifted(call: &Call<'_>, direction: Direction) -> Result<Typed> {
    call.arity(2..=2)?;
    let (time, zone) = (call.timestamp(0)?, call.string(1)?);
    let nullable = time.nullable || zone.nullable;
    let name = if direction == Direction::FromUtc { "from_utc_timestamp" } else { "to_utc_timestamp" };
    Ok(scalar(name, direction, vec![time, zone], types::timestamp(), nullable))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ConvertTimezone;

impl Kernel for ConvertTimezone {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (sources, targets, times) = (arguments.array(0)?, arguments.array(1)?, arguments.array(2)?);
        let (sources, targets) = (downcast::strings(&sources)?, downcast::strings(&targets)?);
        let times = downcast::primitive::<TimestampMicrosecondType>(&times)?;
        let (mut from, mut to) = (Zones::default(), Zones::default());
        let mut result = PrimitiveBuilder::<TimestampMicrosecondType>::with_capacity(times.len());
        for row in 0..times.len() {
            let zones = (downcast::text(sources, row), downcast::text(targets, row));
            result.append_option(match (zones, downcast::value(times, row)) {
                ((Some(source), Some(target)), Some(local)) => {
                    Some(to.get(target)?.instant_to_local(from.get(source)?.local_to_instant(local)))
                }
                _ => None,
            });
        }
        Ok(Arc::new(result.finish()))
    }
}

fn convert_timezone(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=3)?;
    let mut arguments = if call.len() == 3 { vec![call.string(0)?] } else { vec![Typed::text(call.settings.time_zone.to_string())] };
    arguments.push(call.string(call.len() - 2)?);
    let wall_clock = DataType::Timestamp(TimeUnit::Microsecond, None);
    arguments.push(call.coerced(call.len() - 1, &wall_clock)?);
    let nullable = arguments.iter().any(|argument| argument.nullable);
    Ok(scalar("convert_timezone", ConvertTimezone, arguments, wall_clock, nullable))
}

fn current_timezone(call: &Call<'_>) -> Result<Typed> {
    call.arity(0..=0)?;
    Ok(Typed::text(call.settings.running_time_zone.unwrap_or(call.settings.time_zone).to_string()))
}
