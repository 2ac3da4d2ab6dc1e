//! The names of Spark's error conditions. A code that is none of them is ours, or names a Java exception that Spark throws without a
//! condition; clients are not shown it as one.

/// The conditions of Spark 4.2 without their sub-conditions, in order, one a line. Delta's own begin with `DELTA_`.
const NAMES: &str = include_str!("conditions.txt");

/// Whether a code such as `CAST_INVALID_INPUT` or `DATATYPE_MISMATCH.INVALID_ORDERING_TYPE` is a condition that messages begin with in
/// brackets. Spark's numbered ones (`_LEGACY_ERROR_TEMP_…`) are conditions without that.
pub fn is_named(code: &str) -> bool {
    let name = code.split('.').next().unwrap_or_default();
    name.starts_with("DELTA_") || NAMES.lines().any(|known| known == name)
}

/// Whether a code is a condition that clients can ask for.
pub fn is_condition(code: &str) -> bool {
    code.starts_with("_LEGACY_ERROR_TEMP_") || is_of_kafka(code) || is_named(code)
}

/// Whether a code is a condition of Spark's Kafka connector, whose messages do not begin with it.
fn is_of_kafka(code: &str) -> bool {
    let own = ["RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET", "UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET"];
    code.starts_with("KAFKA_") || own.contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_told_from_our_codes_and_from_java() {
        for code in ["DIVIDE_BY_ZERO", "STREAMING_OUTPUT_MODE.INVALID", "DELTA_LOG_CORRUPT"] {
            assert!(is_named(code) && is_condition(code), "{code}");
        }
        for code in ["IllegalArgumentException", "CHECKPOINT_SOURCES_CHANGED", "INVALID_OPTION_VALUE", ""] {
            assert!(!is_condition(code), "{code}");
        }
        for code in
            ["_LEGACY_ERROR_TEMP_3102", "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE", "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET"]
        {
            assert!(is_condition(code) && !is_named(code), "{code}");
        }
    }
}
