//! Why a query failed, in the words of Spark's `StreamingQueryException`.

use std::error::Error as StdError;
use std::fmt::Write;

use millstream_core::Error;
use millstream_engine::StreamingQuery;

use crate::conditions;
use crate::connect::errors::hierarchy;

/// An error as Spark shows it: its condition in brackets if it has a named one, its message, its causes, its SQLSTATE.
pub(super) fn text_of(error: &Error) -> String {
    let mut text = if conditions::is_named(error.code()) { format!("[{}] ", error.code()) } else { String::new() };
    text.push_str(error.message());
    let mut cause = error.source();
    while let Some(inner) = cause {
        // Writing to a string does not fail.
        let _ = match inner.downcast_ref::<Error>() {
            Some(ours) => write!(text, ": {}", ours.message()),
            None => write!(text, ": {inner}"),
        };
        cause = inner.source();
    }
    if let (Some(state), true) = (error.sqlstate(), conditions::is_named(error.code())) {
        let _ = write!(text, " SQLSTATE: {state}");
    }
    text
}

/// The error of everyone who waits for a query that failed: `STREAM_FAILED`.
pub(super) fn stream_failed(query: &StreamingQuery, cause: &Error) -> Error {
    let (id, run_id) = (query.id(), query.run_id());
    let message = format!("Query [id = {id}, runId = {run_id}] terminated with exception: {}", text_of(cause));
    Error::new(cause.kind(), "STREAM_FAILED", message).with_sqlstate("XXKST")
}

/// What `StreamingQuery.exception()` shows: the Java class, the cause, and what the query was.
pub(super) fn exception_message(query: &StreamingQuery, cause: &Error) -> String {
    let name = query.name().map(|name| format!("{name} ")).unwrap_or_default();
    let offsets = |of: &dyn Fn(&millstream_engine::query::SourcePosition) -> Option<String>| {
        let each: Vec<String> = query
            .positions()
            .iter()
            .filter_map(|position| of(position).map(|offset| format!("{}: {offset}", position.description)))
            .collect();
        format!("{{{}}}", each.join(", "))
    };
    format!(
        "{CLASS}: {}\n=== Streaming Query ===\nIdentifier: {name}[id = {}, runId = {}]\nCurrent Committed Offsets: {}\nCurrent Available \
         Offsets: {}\n\nCurrent State: {}\nThread State: RUNNABLE\n",
        text_of(cause),
        query.id(),
        query.run_id(),
        offsets(&|position| position.committed.as_ref().map(ToString::to_string)),
        offsets(&|position| position.available.as_ref().map(ToString::to_string)),
        if query.explain().is_some() { "ACTIVE" } else { "INITIALIZING" },
    )
}

/// What a listener is told when a query failed: the Java class of the cause, and the cause.
pub(super) fn termination_text(cause: &Error) -> String {
    let class = hierarchy(cause).first().copied().unwrap_or("org.apache.spark.SparkException");
    format!("{class}: {}", text_of(cause))
}

/// The condition that a listener is told.
pub(super) fn condition_of(cause: &Error) -> Option<&str> {
    Some(cause.code()).filter(|code| conditions::is_condition(code))
}

/// The class of the exception that ends a query.
pub(super) const CLASS: &str = "org.apache.spark.sql.streaming.StreamingQueryException";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_conditions_stand_in_brackets() {
        let cases = [
            (
                Error::invalid("DIVIDE_BY_ZERO", "Division by zero").with_sqlstate("22012"),
                "[DIVIDE_BY_ZERO] Division by zero SQLSTATE: 22012",
            ),
            (Error::invalid("_LEGACY_ERROR_TEMP_3102", "not supported"), "not supported"),
            (Error::invalid("IllegalArgumentException", "no"), "no"),
            (Error::internal("x").caused_by(Error::invalid("OUR_CODE", "inner")), "[INTERNAL_ERROR] x: inner"),
        ];
        for (error, expected) in cases {
            assert_eq!(text_of(&error), expected);
        }
    }

    #[test]
    fn what_is_no_condition_is_told_as_a_class() {
        assert_eq!(termination_text(&Error::invalid("NumberFormatException", "x")), "java.lang.NumberFormatException: x");
        assert_eq!(condition_of(&Error::invalid("IllegalArgumentException", "")), None);
    }
}
