//! Unresolved expressions that the analyzer itself needs.

use spark_connect_proto::Expression;
use spark_connect_proto::expression::cast::{CastToType, EvalMode};
use spark_connect_proto::expression::{Alias, Cast, ExprType, Literal, UnresolvedAttribute, UnresolvedFunction, literal::LiteralType};

/// A call of a function.
pub(super) fn function(name: &str, arguments: Vec<Expression>) -> Expression {
    of(ExprType::UnresolvedFunction(UnresolvedFunction { function_name: name.to_owned(), arguments, ..Default::default() }))
}

/// A column by its whole name, which may have dots.
pub(super) fn attribute(name: &str) -> Expression {
    let unparsed_identifier = format!("`{}`", name.replace('`', "``"));
    of(ExprType::UnresolvedAttribute(UnresolvedAttribute { unparsed_identifier, ..Default::default() }))
}

/// A column by the parts of its name.
pub(super) fn attribute_of(parts: &[String]) -> Expression {
    let unparsed_identifier = parts.iter().map(|part| crate::types::quote(part)).collect::<Vec<_>>().join(".");
    of(ExprType::UnresolvedAttribute(UnresolvedAttribute { unparsed_identifier, ..Default::default() }))
}

/// An expression under a name.
pub(super) fn aliased(expression: Expression, name: &str) -> Expression {
    of(ExprType::Alias(Box::new(Alias { expr: Some(Box::new(expression)), name: vec![name.to_owned()], metadata: None })))
}

/// A value under another type, null where it cannot be.
pub(super) fn try_cast(expression: Expression, to: &str) -> Expression {
    let cast_to_type = Some(CastToType::TypeStr(to.to_owned()));
    of(ExprType::Cast(Box::new(Cast { expr: Some(Box::new(expression)), cast_to_type, eval_mode: EvalMode::Try.into() })))
}

/// A constant.
pub(super) fn literal(value: LiteralType) -> Expression {
    of(ExprType::Literal(Literal { literal_type: Some(value), ..Default::default() }))
}

/// A text constant.
pub(super) fn text(value: &str) -> Expression {
    literal(LiteralType::String(value.to_owned()))
}

fn of(kind: ExprType) -> Expression {
    Expression { common: None, expr_type: Some(kind) }
}
