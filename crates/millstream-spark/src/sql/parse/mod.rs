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

/// Parses a query with its parameters.
///
/// # Errors
/// `PARSE_SYNTAX_ERROR`.
pub(crate) fn relation(
    text: &str,
    _named: &std::collections::HashMap<String, Expression>,
    _positional: &[Expression],
) -> Result<spark_connect_proto::Relation> {
    Err(Error::invalid("PARSE_SYNTAX_ERROR", format!("cannot read '{text}'")).with_sqlstate("42601"))
}
