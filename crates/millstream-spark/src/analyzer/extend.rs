//! Columns that are not in a relation but below it: filters and sorts find them, and the plan is made to give them.
//!
//! `SELECT a FROM t ORDER BY b` sorts by a column that the projection leaves out, and `… GROUP BY a HAVING max(b) > 1` filters by an
//! aggregate that nobody selected. Deduplications, aliases and set operations close what is below them.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Aggregate, Expr, Extension, LogicalPlan, Projection};
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::Expression;

use super::Attribute;
use super::aggregate::Key;
use super::columns::{column, fresh, project};
use super::project::contains_aggregate;
use super::relation::Node;

/// An aggregation that may be asked for more aggregates.
#[derive(Clone, Debug)]
pub(super) struct Grouped {
    /// The columns of its input.
    pub(super) input: Vec<Attribute>,
    /// Its keys.
    pub(super) keys: Vec<Key>,
    /// Its keys as the user wrote them, by their place in `keys`.
    pub(super) written: Vec<(Expression, usize)>,
}

/// The columns of a relation that stay below a projection to `columns`.
pub(super) fn below(input: &Node, columns: &[Attribute]) -> Vec<Attribute> {
    let mut below: Vec<Attribute> = Vec::new();
    for candidate in input.columns.iter().chain(&input.below) {
        let known = |column: &Attribute| column.internal == candidate.internal;
        let shadowed = |column: &Attribute| column.name == candidate.name && column.qualifier == candidate.qualifier;
        if !columns.iter().any(known) && !below.iter().any(|column| known(column) || shadowed(column)) {
            below.push(candidate.clone().hidden());
        }
    }
    below
}

/// Replaces keys and aggregates of an aggregation by columns of its output.
pub(super) struct Extraction<'a> {
    pub(super) keys: &'a [Key],
    /// The aggregates found, each with the name of its column.
    pub(super) aggregates: Vec<(Expr, String)>,
}

impl Extraction<'_> {
    /// The expression over the output of the aggregation.
    pub(super) fn replace(&mut self, expr: Expr) -> Result<Expr> {
        let replaced = expr.transform_down(|part| {
            if let Some(key) = self.keys.iter().find(|key| key.expr == part) {
                return Ok(Transformed::new(key.column.column(), true, TreeNodeRecursion::Jump));
            }
            if !matches!(part, Expr::AggregateFunction(_)) {
                return Ok(Transformed::no(part));
            }
            let name = match self.aggregates.iter().find(|(known, _)| *known == part) {
                Some((_, name)) => name.clone(),
                None => {
                    let name = fresh();
                    self.aggregates.push((part, name.clone()));
                    name
                }
            };
            Ok(Transformed::new(column(&name), true, TreeNodeRecursion::Jump))
        });
        replaced.map(|replaced| replaced.data).map_err(from_datafusion)
    }
}

/// The relation with the columns below it that `expressions` refer to, and with the aggregates in them; both get columns of the plan that
/// are not among `node.columns`. Aggregates are replaced in the expressions.
pub(super) fn extend(node: &Node, expressions: Vec<Expr>) -> Result<(LogicalPlan, Vec<Expr>)> {
    let mut aggregates = Vec::new();
    let mut replaced = Vec::with_capacity(expressions.len());
    for expr in expressions {
        let Some(grouped) = node.grouped.as_deref().filter(|_| contains_aggregate(&expr) || refers_below(node, &expr)) else {
            replaced.push(expr);
            continue;
        };
        let mut extraction = Extraction { keys: &grouped.keys, aggregates };
        let expr = extraction.replace(expr)?;
        aggregates = extraction.aggregates;
        let of_input = |name: &str| grouped.input.iter().find(|column| column.internal == name);
        let given = |name: &str| node.columns.iter().chain(&node.below).any(|column| column.internal == name);
        let is_key = |name: &str| grouped.keys.iter().any(|key| key.column.internal == name);
        if let Some(lost) =
            expr.column_refs().iter().find_map(|column| of_input(&column.name).filter(|_| !given(&column.name) && !is_key(&column.name)))
        {
            return Err(Error::invalid(
                "UNRESOLVED_COLUMN.WITH_SUGGESTION",
                format!("there is no column `{}` after the aggregation: group by it, or use it in an aggregate function", lost.name),
            )
            .with_sqlstate("42703"));
        }
        replaced.push(expr);
    }
    let mut wanted: Vec<String> = aggregates.iter().map(|(_, name)| name.clone()).collect();
    for expr in &replaced {
        for (name, is_own) in columns_of(expr)? {
            // A subquery may also refer to what is around this relation.
            let is_known = || node.columns.iter().chain(&node.below).any(|column| column.internal == name);
            if !wanted.contains(&name) && (is_own || is_known()) {
                wanted.push(name);
            }
        }
    }
    let aggregates: Vec<Expr> = aggregates.into_iter().map(|(expr, name)| expr.alias(name)).collect();
    let plan = reach(node.plan.clone(), &aggregates, &wanted)?;
    Ok((plan, replaced))
}

/// The columns that an expression refers to: its own, and those that its subqueries take from around them.
fn columns_of(expr: &Expr) -> Result<Vec<(String, bool)>> {
    let mut names: Vec<(String, bool)> = Vec::new();
    expr.apply(|part| {
        let subquery = match part {
            Expr::Column(column) if column.relation.is_none() => {
                names.push((column.name.clone(), true));
                None
            }
            Expr::ScalarSubquery(subquery) => Some(subquery),
            Expr::Exists(exists) => Some(&exists.subquery),
            Expr::InSubquery(contained) => Some(&contained.subquery),
            _ => None,
        };
        for column in subquery.into_iter().flat_map(|subquery| &subquery.outer_ref_columns) {
            if let Expr::OuterReferenceColumn(_, column) = column {
                names.push((column.name.clone(), false));
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(from_datafusion)?;
    Ok(names)
}

fn refers_below(node: &Node, expr: &Expr) -> bool {
    expr.column_refs().iter().any(|column| !node.columns.iter().any(|known| known.internal == column.name))
}

/// The plan with more aggregates in its topmost aggregation and with more columns in its projections.
fn reach(plan: LogicalPlan, aggregates: &[Expr], wanted: &[String]) -> Result<LogicalPlan> {
    let missing: Vec<&String> = wanted.iter().filter(|name| plan.schema().index_of_column_by_name(None, name).is_none()).collect();
    if missing.is_empty() {
        return Ok(plan);
    }
    match plan {
        LogicalPlan::Aggregate(aggregate) => {
            let all = aggregate.aggr_expr.iter().chain(aggregates).cloned().collect();
            Aggregate::try_new(aggregate.input, aggregate.group_expr, all).map(LogicalPlan::Aggregate).map_err(from_datafusion)
        }
        LogicalPlan::Projection(projection) => {
            let items = projection.expr.into_iter().chain(missing.iter().map(|name| column(name))).collect();
            let input = reach(Arc::unwrap_or_clone(projection.input), aggregates, wanted)?;
            Projection::try_new(items, Arc::new(input)).map(LogicalPlan::Projection).map_err(from_datafusion)
        }
        LogicalPlan::Extension(Extension { node }) if node.name() == "SessionWindow" => {
            let exprs = node.expressions().into_iter().chain(aggregates.iter().cloned()).collect();
            let inputs = node.inputs().into_iter().cloned().collect();
            let node = node.with_exprs_and_inputs(exprs, inputs).map_err(from_datafusion)?;
            Ok(LogicalPlan::Extension(Extension { node }))
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::Extension(_) => match plan.inputs().as_slice() {
            [input] => {
                let input = reach((*input).clone(), aggregates, wanted)?;
                plan.with_new_exprs(plan.expressions(), vec![input]).map_err(from_datafusion)
            }
            _ => Err(unreachable_below(&missing)),
        },
        _ => Err(unreachable_below(&missing)),
    }
}

fn unreachable_below(missing: &[&String]) -> Error {
    Error::internal(format!("the columns {missing:?} cannot be reached below a relation"))
}

/// A plan over the extended plan, projected back to the columns of the relation.
pub(super) fn restored(plan: LogicalPlan, columns: &[Attribute]) -> Result<LogicalPlan> {
    let fields = plan.schema().fields();
    let same = fields.len() == columns.len() && fields.iter().zip(columns).all(|(field, column)| *field.name() == column.internal);
    if same { Ok(plan) } else { project(plan, columns.iter().map(Attribute::column).collect()) }
}
