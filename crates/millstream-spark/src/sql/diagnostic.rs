//! What is wrong with a text, and where.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use millstream_core::{Error, ErrorKind};

/// A place in a file. Lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The file as the user named it.
    pub file: Arc<str>,
    /// The line.
    pub line: u64,
    /// The column.
    pub column: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One fault of a text: where it is, what it is, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What the operator does next.
    pub kind: ErrorKind,
    /// Spark's error condition where there is one, otherwise ours in the same style.
    pub code: Cow<'static, str>,
    /// The SQLSTATE of the condition, where it has one.
    pub sqlstate: Option<Cow<'static, str>>,
    /// Where.
    pub position: Position,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Diagnostic {
    pub(crate) fn new(code: &'static str, sqlstate: &'static str, position: Position, message: impl Into<String>) -> Self {
        Diagnostic {
            kind: ErrorKind::Invalid,
            code: code.into(),
            sqlstate: Some(sqlstate.into()),
            position,
            message: message.into(),
            hint: None,
        }
    }

    /// A text that the grammar does not allow (`PARSE_SYNTAX_ERROR`).
    pub(crate) fn syntax(position: Position, message: impl Into<String>) -> Self {
        Self::new("PARSE_SYNTAX_ERROR", "42601", position, message)
    }

    /// Something that the grammar allows and that is not built (`UNSUPPORTED_FEATURE`).
    pub(crate) fn unsupported(position: Position, message: impl Into<String>) -> Self {
        Self::new("UNSUPPORTED_FEATURE", "0A000", position, message)
    }

    /// An error of something that a place of the text asked for.
    pub(crate) fn of(position: &Position, error: &Error) -> Self {
        let text = error.to_string();
        let message = text.strip_prefix(&format!("[{}] ", error.code())).unwrap_or(&text).to_owned();
        Diagnostic {
            kind: error.kind(),
            code: error.code().to_owned().into(),
            sqlstate: error.sqlstate().map(|sqlstate| sqlstate.to_owned().into()),
            position: position.clone(),
            message,
            hint: None,
        }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.position, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl From<Diagnostic> for Error {
    fn from(diagnostic: Diagnostic) -> Self {
        let message = diagnostic.to_string();
        error(&diagnostic, message)
    }
}

fn error(first: &Diagnostic, message: String) -> Error {
    let error = Error::new(first.kind, first.code.clone(), message);
    match &first.sqlstate {
        Some(sqlstate) => error.with_sqlstate(sqlstate.clone()),
        None => error,
    }
}

/// Everything that is wrong with a pipeline, in the order of the text. Never empty where it is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, diagnostic) in self.0.iter().enumerate() {
            write!(f, "{}{diagnostic}", if i == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Diagnostics(vec![diagnostic])
    }
}

impl From<Diagnostics> for Error {
    /// The first fault gives the code; the message names all of them.
    fn from(diagnostics: Diagnostics) -> Self {
        match diagnostics.0.first() {
            Some(first) => error(first, diagnostics.to_string()),
            None => Error::internal("a text was refused without a reason"),
        }
    }
}
