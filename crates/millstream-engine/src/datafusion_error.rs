//! Our errors through DataFusion and back, without losing kind and code.

use datafusion::error::DataFusionError;
use millstream_core::{Error, ErrorKind};

/// Wraps an error so that it can pass through DataFusion.
pub fn to_datafusion(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// An error that DataFusion returned: our own again if it is one, otherwise a wrong request, a bad record or a fault of ours.
pub fn from_datafusion(error: DataFusionError) -> Error {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(other) => match other.downcast::<DataFusionError>() {
                Ok(nested) => from_datafusion(*nested),
                Err(other) => Error::internal("a foreign error reached the query").caused_by(other),
            },
        },
        DataFusionError::ArrowError(inner, backtrace) => match *inner {
            arrow::error::ArrowError::ExternalError(external) => from_datafusion(DataFusionError::External(external)),
            arrow::error::ArrowError::DivideByZero => {
                Error::new(ErrorKind::BadRecord, "DIVIDE_BY_ZERO", "division by zero").with_sqlstate("22012")
            }
            arrow::error::ArrowError::ArithmeticOverflow(what) => {
                Error::new(ErrorKind::BadRecord, "ARITHMETIC_OVERFLOW", what).with_sqlstate("22003")
            }
            arrow::error::ArrowError::CastError(what) | arrow::error::ArrowError::ParseError(what) => {
                Error::new(ErrorKind::BadRecord, "CAST_INVALID_INPUT", what).with_sqlstate("22018")
            }
            other => {
                drop(backtrace);
                Error::new(ErrorKind::BadRecord, "EXPRESSION_FAILED", other.to_string())
            }
        },
        DataFusionError::Context(context, inner) => from_datafusion(*inner).within(context),
        DataFusionError::Shared(inner) => shared(&inner),
        DataFusionError::Diagnostic(_, inner) => from_datafusion(*inner),
        DataFusionError::Collection(mut errors) if !errors.is_empty() => from_datafusion(errors.swap_remove(0)),
        DataFusionError::SQL(error, _) => Error::invalid("PARSE_SYNTAX_ERROR", error.to_string()).with_sqlstate("42601"),
        DataFusionError::SchemaError(error, _) => Error::invalid("UNRESOLVED_COLUMN", error.to_string()).with_sqlstate("42703"),
        DataFusionError::Plan(message) => Error::invalid("INVALID_PLAN", message).with_sqlstate("42000"),
        DataFusionError::NotImplemented(message) => Error::invalid("UNSUPPORTED_FEATURE", message).with_sqlstate("0A000"),
        DataFusionError::ResourcesExhausted(message) => Error::new(
            ErrorKind::Internal,
            "OUT_OF_MEMORY",
            format!("{message}: raise the memory limit or lower maxFilesPerTrigger / maxBytesPerTrigger"),
        ),
        DataFusionError::Execution(message) => Error::new(ErrorKind::BadRecord, "EXPRESSION_FAILED", message),
        other => Error::internal(other.to_string()),
    }
}

/// A failure that several tasks share can only be looked at, so its facts are copied.
fn shared(error: &DataFusionError) -> Error {
    match error {
        DataFusionError::External(inner) => match inner.downcast_ref::<Error>() {
            Some(ours) => {
                let copy = Error::new(ours.kind(), ours.code().to_owned(), ours.message());
                match ours.sqlstate() {
                    Some(sqlstate) => copy.with_sqlstate(sqlstate.to_owned()),
                    None => copy,
                }
            }
            None => Error::internal(error.to_string()),
        },
        DataFusionError::Shared(inner) => shared(inner),
        DataFusionError::Context(context, inner) => shared(inner).within(context),
        other => Error::new(ErrorKind::BadRecord, "EXPRESSION_FAILED", other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn kind_and_code_survive_the_way_through_datafusion() {
        let wrap = || to_datafusion(Error::new(ErrorKind::DataLost, "GONE", "the log is gone").with_sqlstate("12345"));
        for error in [
            wrap(),
            DataFusionError::Context("scan".into(), Box::new(wrap())),
            DataFusionError::Shared(Arc::new(wrap())),
            DataFusionError::ArrowError(Box::new(arrow::error::ArrowError::ExternalError(Box::new(wrap()))), None),
        ] {
            let back = from_datafusion(error);
            assert_eq!((back.kind(), back.code(), back.sqlstate()), (ErrorKind::DataLost, "GONE", Some("12345")));
        }
    }
}
