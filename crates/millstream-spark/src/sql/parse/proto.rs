//! Short ways to write Connect's messages.

use spark_connect_proto::expression::literal::LiteralType;
use spark_connect_proto::expression::sort_order::{NullOrdering, SortDirection};
use spark_connect_proto::expression::{
    Alias, Cast, ExprType, Literal, SortOrder, UnresolvedAttribute, UnresolvedExtractValue, UnresolvedFunction, UnresolvedStar, cast,
};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{DataType, Expression, Relation, SubqueryAlias, ToDf, data_type};

use crate::types::quote;

pub(super) fn expression(kind: ExprType) -> Expression {
    Expression { common: None, expr_type: Some(kind) }
}

pub(super) fn relation(kind: RelType) -> Relation {
    Relation { common: None, rel_type: Some(kind) }
}

/// A call of a function.
pub(super) fn call(name: impl Into<String>, arguments: Vec<Expression>) -> Expression {
    expression(ExprType::UnresolvedFunction(UnresolvedFunction {
        function_name: name.into(),
        arguments,
        is_distinct: false,
        is_user_defined_function: false,
        is_internal: None,
    }))
}

/// A call that stands for syntax: Spark names its column otherwise than that of the function.
pub(super) fn syntax_call(name: impl Into<String>, arguments: Vec<Expression>) -> Expression {
    let mut expression = call(name, arguments);
    if let Some(function) = function_mut(&mut expression) {
        function.is_internal = Some(true);
    }
    expression
}

pub(super) fn function(expression: &Expression) -> Option<&UnresolvedFunction> {
    match &expression.expr_type {
        Some(ExprType::UnresolvedFunction(function)) => Some(function),
        _ => None,
    }
}

pub(super) fn function_mut(expression: &mut Expression) -> Option<&mut UnresolvedFunction> {
    match &mut expression.expr_type {
        Some(ExprType::UnresolvedFunction(function)) => Some(function),
        _ => None,
    }
}

pub(super) fn literal(value: LiteralType) -> Expression {
    expression(ExprType::Literal(literal_of(value, None)))
}

pub(super) fn literal_of(value: LiteralType, kind: Option<data_type::Kind>) -> Literal {
    Literal { data_type: kind.map(|kind| DataType { kind: Some(kind) }), literal_type: Some(value) }
}

pub(super) fn typed_literal(value: LiteralType, kind: data_type::Kind) -> Expression {
    expression(ExprType::Literal(literal_of(value, Some(kind))))
}

pub(super) fn string(text: impl Into<String>) -> Expression {
    literal(LiteralType::String(text.into()))
}

pub(super) fn integer(number: i32) -> Expression {
    literal(LiteralType::Integer(number))
}

pub(super) fn boolean(value: bool) -> Expression {
    literal(LiteralType::Boolean(value))
}

pub(super) fn null() -> Expression {
    literal(LiteralType::Null(DataType { kind: Some(data_type::Kind::Null(data_type::Null::default())) }))
}

/// The names as one text, in backticks where they need them.
pub(super) fn dotted<S: AsRef<str>>(parts: &[S]) -> String {
    parts.iter().map(|part| quote(part.as_ref())).collect::<Vec<_>>().join(".")
}

pub(super) fn attribute<S: AsRef<str>>(parts: &[S]) -> Expression {
    expression(ExprType::UnresolvedAttribute(UnresolvedAttribute {
        unparsed_identifier: dotted(parts),
        plan_id: None,
        is_metadata_column: None,
    }))
}

/// `*`, or `target.*` where there are names.
pub(super) fn star<S: AsRef<str>>(target: &[S]) -> Expression {
    let unparsed_target = (!target.is_empty()).then(|| format!("{}.*", dotted(target)));
    expression(ExprType::UnresolvedStar(UnresolvedStar { unparsed_target, plan_id: None }))
}

pub(super) fn is_plain_star(expression: &Expression) -> bool {
    matches!(&expression.expr_type, Some(ExprType::UnresolvedStar(star)) if star.unparsed_target.is_none())
}

pub(super) fn extract(child: Expression, extraction: Expression) -> Expression {
    expression(ExprType::UnresolvedExtractValue(Box::new(UnresolvedExtractValue {
        child: Some(Box::new(child)),
        extraction: Some(Box::new(extraction)),
    })))
}

pub(super) fn alias(child: Expression, name: Vec<String>) -> Expression {
    expression(ExprType::Alias(Box::new(Alias { expr: Some(Box::new(child)), name, metadata: None })))
}

pub(super) fn cast(child: Expression, to: impl Into<String>, mode: cast::EvalMode) -> Expression {
    expression(ExprType::Cast(Box::new(Cast {
        expr: Some(Box::new(child)),
        eval_mode: mode.into(),
        cast_to_type: Some(cast::CastToType::TypeStr(to.into())),
    })))
}

pub(super) fn sort_order(child: Expression, direction: SortDirection, nulls: NullOrdering) -> SortOrder {
    SortOrder { child: Some(Box::new(child)), direction: direction.into(), null_ordering: nulls.into() }
}

/// A relation under a name.
pub(super) fn aliased(input: Relation, alias: impl Into<String>) -> Relation {
    relation(RelType::SubqueryAlias(Box::new(SubqueryAlias { input: Some(Box::new(input)), alias: alias.into(), qualifier: Vec::new() })))
}

/// A relation with its columns renamed in their order; as it is where there are no names.
pub(super) fn renamed(input: Relation, column_names: Vec<String>) -> Relation {
    if column_names.is_empty() {
        return input;
    }
    relation(RelType::ToDf(Box::new(ToDf { input: Some(Box::new(input)), column_names })))
}
