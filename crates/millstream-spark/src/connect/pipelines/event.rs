//! What a client is told of a run, in Spark's words.

use std::error::Error as StdError;
use std::fmt;

use millstream_core::Error;

use crate::connect::errors::text;

/// What becomes of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowStatus {
    Queued,
    Excluded,
    Planning,
    Starting,
    Running,
    Completed,
    Failed,
}

impl fmt::Display for FlowStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FlowStatus::Queued => "is QUEUED",
            FlowStatus::Excluded => "is EXCLUDED",
            FlowStatus::Planning => "is PLANNING",
            FlowStatus::Starting => "is STARTING",
            FlowStatus::Running => "is RUNNING",
            FlowStatus::Completed => "has COMPLETED",
            FlowStatus::Failed => "has FAILED",
        })
    }
}

/// The message of an event with the error that it is about, and what that was caused by.
pub(super) fn with_error(message: &str, error: &Error) -> String {
    format!("{message}\nError: {}", text(error))
}

/// The same error once more: one that is kept, to be raised.
pub(super) fn again(error: &Error) -> Error {
    let mut message = error.message().to_owned();
    let mut cause = error.source();
    while let Some(inner) = cause {
        message.push_str(": ");
        match inner.downcast_ref::<Error>() {
            Some(ours) => message.push_str(ours.message()),
            None => message.push_str(&inner.to_string()),
        }
        cause = inner.source();
    }
    let copy = Error::new(error.kind(), error.code().to_owned(), message);
    match error.sqlstate() {
        Some(sqlstate) => copy.with_sqlstate(sqlstate.to_owned()),
        None => copy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_raised_again_as_it_was() {
        let error = Error::invalid("DIVIDE_BY_ZERO", "no").with_sqlstate("22012").caused_by(Error::internal("why"));
        let copy = again(&error);
        assert_eq!((copy.code(), copy.message(), copy.sqlstate()), ("DIVIDE_BY_ZERO", "no: why", Some("22012")));
        assert_eq!(with_error("Flow 'f' has FAILED.", &copy), "Flow 'f' has FAILED.\nError: [DIVIDE_BY_ZERO] no: why SQLSTATE: 22012");
    }
}
