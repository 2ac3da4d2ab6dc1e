//! When batches run, as a client asks for it.

use std::time::Duration;

use millstream_core::{Error, Result, Trigger};
use spark_connect_proto::write_stream_operation_start::Trigger as Requested;

use crate::types::parse_fixed_ms;

/// The shortest batch of real-time mode (`spark.sql.streaming.realTimeMode.minBatchDuration`), milliseconds.
const MIN_REAL_TIME_MS: i64 = 5_000;

/// A trigger of Spark's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TriggerMode {
    /// Micro-batches.
    Batches(Trigger),
    /// Spark's experimental continuous mode.
    Continuous,
    /// Spark's real-time mode, with the length of its batches in milliseconds.
    RealTime(i64),
}

/// Reads the trigger of a request.
///
/// # Errors
/// `INVALID_INTERVAL_FORMAT.*`, `_LEGACY_ERROR_TEMP_3262` for months, `IllegalArgumentException` for a negative interval.
pub(super) fn requested(trigger: Option<&Requested>) -> Result<TriggerMode> {
    Ok(match trigger {
        None => TriggerMode::Batches(Trigger::Default),
        Some(Requested::ProcessingTimeInterval(text)) => {
            TriggerMode::Batches(Trigger::ProcessingTime(Duration::from_millis(interval_ms(text)?)))
        }
        Some(Requested::AvailableNow(_)) => TriggerMode::Batches(Trigger::AvailableNow),
        Some(Requested::Once(_)) => TriggerMode::Batches(Trigger::Once),
        Some(Requested::ContinuousCheckpointInterval(text)) => {
            interval_ms(text)?;
            TriggerMode::Continuous
        }
        Some(Requested::RealTimeBatchDuration(text)) => TriggerMode::RealTime(i64::try_from(interval_ms(text)?).unwrap_or(i64::MAX)),
    })
}

fn interval_ms(text: &str) -> Result<u64> {
    u64::try_from(parse_fixed_ms(text)?).map_err(|_| {
        Error::invalid(
            "IllegalArgumentException",
            format!("requirement failed: the interval of trigger should not be negative, '{text}' is"),
        )
    })
}

/// Refuses real-time mode, by the first rule of Spark's that a query breaks and else because there is none here.
pub(super) fn refuse_real_time(format: &str, is_update: bool, duration_ms: i64) -> Error {
    if !matches!(format, "console" | "kafka" | "foreach") {
        return Error::invalid(
            "STREAMING_REAL_TIME_MODE.OPERATOR_OR_SINK_NOT_IN_ALLOWLIST",
            format!("Streaming real-time mode does not take the sink '{format}': use processingTime or availableNow"),
        )
        .with_sqlstate("0A000");
    }
    if !is_update {
        return Error::invalid(
            "STREAMING_REAL_TIME_MODE.OUTPUT_MODE_NOT_SUPPORTED",
            "Streaming real-time mode takes output mode update only",
        )
        .with_sqlstate("0A000");
    }
    if duration_ms < MIN_REAL_TIME_MS {
        return Error::invalid(
            "INVALID_STREAMING_REAL_TIME_MODE_TRIGGER_INTERVAL",
            format!("The real-time trigger interval is set to {duration_ms} ms, less than the minimum of {MIN_REAL_TIME_MS} ms"),
        )
        .with_sqlstate("22023");
    }
    Error::invalid(
        "STREAMING_REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED",
        "Streaming real-time mode is not available for these sources: use processingTime('0 seconds'), whose batches take milliseconds",
    )
    .with_sqlstate("0A000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read_as_spark_reads_them() {
        let processing = |text: &str| requested(Some(&Requested::ProcessingTimeInterval(text.to_owned())));
        let every = |ms| TriggerMode::Batches(Trigger::ProcessingTime(Duration::from_millis(ms)));
        for (text, ms) in [("0 seconds", 0), ("interval 1 second", 1_000), ("1 MINUTE 1 second", 61_000)] {
            assert_eq!(processing(text).unwrap(), every(ms), "{text}");
        }
        for (text, code) in [
            ("often", "INVALID_INTERVAL_FORMAT.UNRECOGNIZED_NUMBER"),
            ("-1 seconds", "IllegalArgumentException"),
            ("1 month", "_LEGACY_ERROR_TEMP_3262"),
        ] {
            assert_eq!(processing(text).unwrap_err().code(), code, "{text}");
        }
    }

    #[test]
    fn real_time_is_refused_by_the_first_rule_it_breaks() {
        for (format, is_update, ms, code) in [
            ("memory", true, 1_000, "STREAMING_REAL_TIME_MODE.OPERATOR_OR_SINK_NOT_IN_ALLOWLIST"),
            ("console", false, 1_000, "STREAMING_REAL_TIME_MODE.OUTPUT_MODE_NOT_SUPPORTED"),
            ("console", true, 1_000, "INVALID_STREAMING_REAL_TIME_MODE_TRIGGER_INTERVAL"),
            ("console", true, 300_000, "STREAMING_REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED"),
        ] {
            assert_eq!(refuse_real_time(format, is_update, ms).code(), code, "{format} {is_update} {ms}");
        }
    }
}
