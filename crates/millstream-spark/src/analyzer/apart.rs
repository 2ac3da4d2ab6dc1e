//! Pieces of an analysis for statements that build their plans themselves, such as `MERGE`: scans, joins, and expressions over the columns
//! of relations that were analyzed before.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::JoinType;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use millstream_core::{Error, Result};
use spark_connect_proto::expression::ExprType;
use spark_connect_proto::{Expression, Relation};

use super::columns::{column, item, project};
use super::expression::Scope;
use super::gather::Gathered;
use super::project::contains_aggregate;
use super::relation::{Analyzer, Node};
use super::{Analyzed, Attribute, Leaves, join, read, visit};
use crate::functions::{Settings, Typed};

/// A relation that the engine reads, whose columns can be called by a name.
///
/// # Errors
/// Those of the planner.
pub(crate) fn scan(provider: Arc<dyn TableProvider>, qualifier: &[String]) -> Result<Analyzed> {
    let mut node = read::scan(provider, qualifier)?;
    for column in &mut node.columns {
        column.qualifier = qualifier.to_vec();
    }
    Ok(node.into())
}

/// Two relations joined. Their columns have no internal name in common.
///
/// # Errors
/// Those of the planner.
pub(crate) fn joined(left: Analyzed, right: Analyzed, kind: JoinType, condition: Expr) -> Result<Analyzed> {
    join::joined(Node::from(left), Node::from(right), kind, Some(condition)).map(Analyzed::from)
}

/// What expressions over columns compute.
///
/// # Errors
/// Spark's conditions of names, types and functions.
pub(crate) fn resolved(
    expression: &Expression,
    columns: &[Attribute],
    leaves: &dyn Leaves,
    settings: &Settings,
    state: &SessionState,
) -> Result<Typed> {
    let gathered = Gathered { root: Relation::default(), sources: Vec::new() };
    let analyzer = Analyzer::new(&gathered, leaves, settings, state, &[]);
    analyzer.value(expression, &Scope { columns, ..Scope::default() })
}

/// A condition over columns, as a truth value of each row; `what` is what has it.
///
/// # Errors
/// As [`resolved`], `DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN`, and `INVALID_WHERE_CONDITION` for aggregates.
pub(crate) fn condition(
    expression: &Expression,
    columns: &[Attribute],
    what: &str,
    leaves: &dyn Leaves,
    settings: &Settings,
    state: &SessionState,
) -> Result<Expr> {
    let gathered = Gathered { root: Relation::default(), sources: Vec::new() };
    let analyzer = Analyzer::new(&gathered, leaves, settings, state, &[]);
    let condition = analyzer.condition(expression, &Scope { columns, ..Scope::default() }, what)?;
    if is_aggregate(&condition) {
        let message = format!("the condition of {what} has an aggregate: it is about one row at a time");
        return Err(Error::invalid("INVALID_WHERE_CONDITION", message).with_sqlstate("42903"));
    }
    Ok(condition.expr)
}

/// A relation with other columns: each is an attribute, under whose internal name it is found, and what computes it.
///
/// # Errors
/// Those of the planner.
pub(crate) fn computed(input: LogicalPlan, columns: Vec<(Attribute, Typed)>) -> Result<Analyzed> {
    let items = columns.iter().map(|(attribute, value)| item(value, &attribute.internal, &input)).collect::<Result<Vec<_>>>()?;
    Ok(Analyzed { plan: project(input, items)?, columns: columns.into_iter().map(|(attribute, _)| attribute).collect() })
}

/// A new column for a value.
pub(crate) fn attribute(name: &str, value: &Typed) -> Attribute {
    Attribute::of(name, value)
}

/// A column as a value.
pub(crate) fn value_of(attribute: &Attribute) -> Typed {
    let expr = column(&attribute.internal);
    Typed::new(expr, attribute.data_type.clone(), attribute.nullable).with_metadata(attribute.metadata.clone())
}

/// Whether an expression has a subquery.
pub(crate) fn has_subquery(expression: &Expression) -> bool {
    if matches!(expression.expr_type, Some(ExprType::SubqueryExpression(_))) {
        return true;
    }
    if let Some(ExprType::ExpressionString(text)) = &expression.expr_type {
        return crate::sql::parse::expression_with_subqueries(&text.expression).is_ok_and(|(_, subqueries)| !subqueries.is_empty());
    }
    let mut copy = expression.clone();
    visit::parts(&mut copy).into_iter().any(|part| has_subquery(part))
}

/// Whether a value is an aggregate, and not one of a row.
pub(crate) fn is_aggregate(value: &Typed) -> bool {
    contains_aggregate(&value.expr)
}
