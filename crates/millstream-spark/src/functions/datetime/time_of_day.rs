//! Functions of the type `TIME`, which Spark has but leaves switched off.

use millstream_core::Error;

use super::super::Functions;

const NAMES: &[&str] = &[
    "current_time",
    "make_time",
    "time_diff",
    "time_from_micros",
    "time_from_millis",
    "time_from_seconds",
    "time_to_micros",
    "time_to_millis",
    "time_to_seconds",
    "time_trunc",
    "to_time",
    "try_to_time",
];

pub(super) fn register(functions: &mut Functions) {
    functions
        .add_all(NAMES, |_| Err(Error::invalid("UNSUPPORTED_TIME_TYPE", "the data type TIME is not supported").with_sqlstate("0A000")));
}
