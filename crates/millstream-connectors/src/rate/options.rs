//! Options, with the conditions that Spark gives: where it throws a plain Java exception, the exception's name stands in.

use millstream_core::options::parse_duration;
use millstream_core::{Error, Options, Result};

/// What a rate source was asked for.
#[derive(Clone, Debug)]
pub(super) struct RateOptions {
    pub(super) rows_per_second: i64,
    pub(super) ramp_up_seconds: i64,
    pub(super) partitions: usize,
    /// `numPartitions` as given, for the description.
    pub(super) partitions_text: String,
}

impl RateOptions {
    pub(super) fn from(options: &Options, parallelism: usize) -> Result<Self> {
        let rows_per_second = count(options, "rowsPerSecond", 1)?.unwrap_or(1);
        let ramp_up_seconds = options.get("rampUpTime").map_or(Ok(0), ramp_up)?;
        let max_seconds = i64::MAX / rows_per_second;
        if ramp_up_seconds > max_seconds {
            let what = format!(
                "Max offset with {rows_per_second} rowsPerSecond is {max_seconds}, but 'rampUpTimeSeconds' is {ramp_up_seconds}: \
                 lower one of them"
            );
            return Err(Error::invalid("INCORRECT_RAMP_UP_RATE", what).with_sqlstate("22003"));
        }
        let partitions = count(options, "numPartitions", 1)?;
        Ok(RateOptions {
            rows_per_second,
            ramp_up_seconds,
            partitions: partitions.and_then(|partitions| usize::try_from(partitions).ok()).unwrap_or(parallelism),
            partitions_text: options.get("numPartitions").unwrap_or("default").to_owned(),
        })
    }
}

/// An option that is a whole number from `min` on.
///
/// # Errors
/// `NumberFormatException`, `IllegalArgumentException`.
pub(crate) fn count(options: &Options, name: &str, min: i64) -> Result<Option<i64>> {
    let Some(text) = options.get(name) else { return Ok(None) };
    let number: i64 = text.trim().parse().map_err(|error| {
        Error::invalid("NumberFormatException", format!("option '{name}' is '{text}' but takes a whole number of at least {min}"))
            .caused_by(error)
    })?;
    if number < min {
        return Err(illegal_argument(format!("option '{name}' is '{text}' but takes a whole number of at least {min}")));
    }
    Ok(Some(number))
}

/// A wrong option for which Spark has no condition.
pub(crate) fn illegal_argument(what: impl Into<String>) -> Error {
    Error::invalid("IllegalArgumentException", what)
}

/// The error for a schema given to a source that has its own.
pub(crate) fn no_user_schema(source: &str) -> Error {
    Error::invalid("_LEGACY_ERROR_TEMP_2242", format!("{source} source does not support user-specified schema: leave the schema out"))
}

/// The error for a batch read of a source that only streams.
pub(crate) fn no_batch_side(source: &str) -> Error {
    Error::invalid("_LEGACY_ERROR_TEMP_1135", format!("{source} is not a valid Spark SQL Data Source: read it as a stream"))
}

fn ramp_up(text: &str) -> Result<i64> {
    if let Ok(seconds) = text.trim().parse::<i64>() {
        return if seconds >= 0 {
            Ok(seconds)
        } else {
            Err(illegal_argument(format!("option 'rampUpTime' is '{text}' but cannot be negative")))
        };
    }
    if text.trim().starts_with('-') {
        return Err(illegal_argument(format!("option 'rampUpTime' is '{text}' but cannot be negative")));
    }
    let span = parse_duration("rampUpTime", text).map_err(|error| Error::invalid("NumberFormatException", error.message().to_owned()))?;
    Ok(i64::try_from(span.as_secs()).unwrap_or(i64::MAX))
}
