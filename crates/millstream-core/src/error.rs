//! The one error type. Its kind says what the operator does next; its code is stable and can be matched by programs.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

/// The result of everything that can fail in Millstream.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the operator does next. Each kind has a playbook page and an exit code of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is wrong: correct the program, the option or the command.
    Invalid,
    /// A source cannot be reached or read: check it; the query resumes when restarted.
    SourceUnavailable,
    /// A sink cannot be reached or written: check it; nothing is lost.
    SinkUnavailable,
    /// The checkpoint store cannot be reached or written: check the store before restarting.
    StoreUnavailable,
    /// Data and declared schema disagree: evolve the schema or fix the data.
    SchemaMismatch,
    /// A record cannot be read and the mode is to fail: fix or quarantine it.
    BadRecord,
    /// The program does not fit its checkpoint: revert the change or start a new checkpoint.
    CheckpointIncompatible,
    /// Input that was promised is gone: decide about the loss before going on.
    DataLost,
    /// Another writer owns the checkpoint: make sure only one runs.
    Fenced,
    /// The query was asked to stop.
    Cancelled,
    /// A fault of Millstream: report it.
    Internal,
}

impl ErrorKind {
    /// Every kind, for documentation and tables.
    pub const ALL: &[ErrorKind] = &[
        ErrorKind::Invalid,
        ErrorKind::SourceUnavailable,
        ErrorKind::SinkUnavailable,
        ErrorKind::StoreUnavailable,
        ErrorKind::SchemaMismatch,
        ErrorKind::BadRecord,
        ErrorKind::CheckpointIncompatible,
        ErrorKind::DataLost,
        ErrorKind::Fenced,
        ErrorKind::Cancelled,
        ErrorKind::Internal,
    ];

    /// Exit code of the command line for this kind. 0 is success and 2 is kept for usage errors found by the argument parser.
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorKind::Internal => 1,
            ErrorKind::Invalid => 3,
            ErrorKind::SourceUnavailable => 10,
            ErrorKind::SinkUnavailable => 11,
            ErrorKind::StoreUnavailable => 12,
            ErrorKind::SchemaMismatch => 13,
            ErrorKind::BadRecord => 14,
            ErrorKind::CheckpointIncompatible => 15,
            ErrorKind::DataLost => 16,
            ErrorKind::Fenced => 17,
            ErrorKind::Cancelled => 18,
        }
    }

    /// Whether trying the same thing again, unchanged, can succeed.
    pub fn is_transient(self) -> bool {
        matches!(self, ErrorKind::SourceUnavailable | ErrorKind::SinkUnavailable | ErrorKind::StoreUnavailable)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// An error: a kind, a stable code, a message that names the thing and the fix, and the cause if there is one.
///
/// Codes are Spark's error conditions where Spark has one (`CONCURRENT_QUERY`), otherwise ours in the same style.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    code: Cow<'static, str>,
    message: String,
    sqlstate: Option<Cow<'static, str>>,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind` with a stable `code` and a message for people.
    pub fn new(kind: ErrorKind, code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, code: code.into(), message: message.into(), sqlstate: None, cause: None }))
    }

    /// A wrong request ([`ErrorKind::Invalid`]).
    pub fn invalid(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, code, message)
    }

    /// A broken assumption of ours ([`ErrorKind::Internal`], code `INTERNAL_ERROR`).
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, "INTERNAL_ERROR", message)
    }

    /// The query was asked to stop ([`ErrorKind::Cancelled`], code `CANCELLED`).
    pub fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled, "CANCELLED", "the query was stopped")
    }

    /// The same error with the error that led to it.
    pub fn caused_by(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    /// The same error with an SQLSTATE of five characters.
    pub fn with_sqlstate(mut self, sqlstate: impl Into<Cow<'static, str>>) -> Self {
        self.0.sqlstate = Some(sqlstate.into());
        self
    }

    /// The same error with `context` before its message, as in `context: message`.
    pub fn within(mut self, context: impl fmt::Display) -> Self {
        self.0.message = format!("{context}: {}", self.0.message);
        self
    }

    /// What the operator does next.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The stable code, for programs.
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// The message, for people. Not stable.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The SQLSTATE, where the condition has one.
    pub fn sqlstate(&self) -> Option<&str> {
        self.0.sqlstate.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.0.code, self.0.message)?;
        let mut told = self.0.message.clone();
        let mut cause = StdError::source(self);
        while let Some(error) = cause {
            let text = error.to_string();
            // Many errors say their cause themselves.
            if !told.contains(&text) {
                write!(f, ": {text}")?;
                told = text;
            }
            cause = error.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.cause.as_deref().map(|cause| cause as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_distinct_and_leave_success_and_usage_alone() {
        let mut codes: Vec<u8> = ErrorKind::ALL.iter().map(|kind| kind.exit_code()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), ErrorKind::ALL.len());
        assert!(!codes.contains(&0) && !codes.contains(&2));
    }

    #[test]
    fn a_cause_that_was_told_is_not_told_again() {
        let io = std::io::Error::other("disk on fire");
        let inner = Error::new(ErrorKind::StoreUnavailable, "INNER", "cannot write").caused_by(io);
        let outer = Error::new(ErrorKind::SinkUnavailable, "OUTER", "no commit").caused_by(inner);
        assert_eq!(outer.to_string(), "[OUTER] no commit: [INNER] cannot write: disk on fire");
    }

    #[test]
    fn display_shows_code_context_and_every_cause() {
        let io = std::io::Error::other("disk on fire");
        let error = Error::new(ErrorKind::StoreUnavailable, "STORE_WRITE_FAILED", "cannot write offsets/3").caused_by(io).within("query q");
        assert_eq!(error.to_string(), "[STORE_WRITE_FAILED] query q: cannot write offsets/3: disk on fire");
    }
}
