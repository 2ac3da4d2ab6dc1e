//! Spark SQL text as unresolved plans.

use millstream_core::{Error, Result};
use spark_connect_proto::Expression;

/// Parses an expression.
///
/// # Errors
/// `PARSE_SYNTAX_ERROR`.
pub(crate) fn expression(text: &str) -> Result<Expression> {
    Err(Error::invalid("PARSE_SYNTAX_ERROR", format!("cannot read '{text}'")).with_sqlstate("42601"))
}
