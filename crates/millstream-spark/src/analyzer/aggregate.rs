//! Aggregations: `groupBy(…).agg(…)`, `GROUP BY`, and projections with aggregate functions.

use std::rc::Rc;
use std::sync::Arc;

use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::{Aggregate as AggregatePlan, Expr, LogicalPlan, lit};
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use millstream_engine::plan::is_streaming;
use millstream_engine::stateful::SessionWindow;
use spark_connect_proto::aggregate::GroupType;
use spark_connect_proto::expression::ExprType;
use spark_connect_proto::{Aggregate, Expression};

use super::columns::{fresh, item, project};
use super::expression::{Output, Resolver, Scope, name_parts};
use super::extend::{Extraction, Grouped};
use super::filter::ordinal;
use super::grouping_sets::Sets;
use super::normalize::normalized;
use super::project::{Selected, Wanted, contains_aggregate, give};
use super::relation::{Analyzer, Node};
use super::time_window::is_session;
use super::{Attribute, visit};
use crate::functions::Typed;
use crate::python::plan;

/// What rows are grouped by.
#[derive(Clone, Debug)]
pub(super) struct Key {
    /// The expression over the input.
    pub(super) expr: Expr,
    /// The column of the groups.
    pub(super) column: Attribute,
}

impl Analyzer<'_> {
    pub(super) fn aggregate(&self, aggregate: &Aggregate, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(aggregate.input.as_deref(), outer)?;
        if let Some(pivot) = &aggregate.pivot {
            return self.pivot(input, aggregate, pivot, outer);
        }
        // The parser asks for exactly what it lists; a frame also gives its keys.
        let exactly = aggregate.group_type() == GroupType::Unspecified;
        let keys = aggregate.grouping_expressions.iter().filter(|_| !exactly);
        let wanted: Vec<&Expression> = keys.chain(&aggregate.aggregate_expressions).collect();
        let keys = self.keys(&input, &aggregate.grouping_expressions, &wanted)?;
        let sets = match aggregate.group_type() {
            GroupType::Rollup => Some(Sets::rollup(keys.len())?),
            GroupType::Cube => Some(Sets::cube(keys.len())?),
            kind if kind == GroupType::GroupingSets || !aggregate.grouping_sets.is_empty() => {
                let sets = aggregate.grouping_sets.iter().map(|set| self.keys(&input, &set.grouping_set, &wanted));
                let sets = sets.collect::<Result<Vec<_>>>()?;
                return self.grouping_sets(input, keys, &sets, &wanted, outer);
            }
            _ => None,
        };
        self.group(input, &keys, sets, &wanted, outer)
    }

    /// Grouping expressions, with positions and aliases of the select list replaced by what they stand for.
    fn keys(&self, input: &Node, written: &[Expression], wanted: &[&Expression]) -> Result<Vec<Expression>> {
        let scope = Scope { columns: &input.columns, ..Scope::default() };
        let resolver = Resolver::new(self.settings, &scope, self);
        let mut keys: Vec<Expression> = Vec::with_capacity(written.len());
        for key in written {
            if let Some(position) = ordinal(key) {
                keys.push(nth(wanted, position)?);
                continue;
            }
            let Some(name) = plain_name(key)?.filter(|_| resolver.value(key).is_err()) else {
                keys.push(key.clone());
                continue;
            };
            let is_alias = |expression: &&&Expression| match &expression.expr_type {
                Some(ExprType::Alias(alias)) => matches!(alias.name.as_slice(), [alias] if self.same(alias, &name)),
                _ => false,
            };
            match wanted.iter().find(is_alias) {
                Some(aliased) => keys.push(unaliased(aliased).clone()),
                // `GROUP BY ALL`: by everything that is no aggregate.
                None if name.eq_ignore_ascii_case("all") && written.len() == 1 => {
                    for expression in wanted {
                        let mut calls = Vec::new();
                        super::filter::aggregate_calls(&mut (*expression).clone(), &mut calls);
                        if calls.is_empty() {
                            keys.push(unaliased(expression).clone());
                        }
                    }
                }
                None => keys.push(key.clone()),
            }
        }
        Ok(keys)
    }

    /// Groups rows by keys, or by each set of keys.
    pub(super) fn group(
        &self,
        input: Node,
        keys: &[Expression],
        sets: Option<Sets>,
        wanted: &[&Expression],
        outer: Option<&Scope<'_>>,
    ) -> Result<Node> {
        let all: Vec<&Expression> = keys.iter().chain(wanted.iter().copied()).collect();
        let (input, mut computed) = self.with_time_windows(input, &all, outer)?;
        let scope = Scope { columns: &input.columns, outer, computed: &computed };
        let mut resolved: Vec<Key> = Vec::with_capacity(keys.len());
        let mut written: Vec<(Expression, usize)> = Vec::new();
        let mut below: Vec<(Typed, Attribute)> = Vec::new();
        let mut session: Option<(Expr, Attribute)> = None;
        let resolver = Resolver::new(self.settings, &scope, self);
        for key in keys {
            let outputs = resolver.named(key)?;
            let is_one = outputs.len() == 1;
            for output in outputs {
                let Output::Column { name, value, .. } = output else {
                    return Err(Error::invalid("UNSUPPORTED_GENERATOR.OUTSIDE_SELECT", "rows cannot be grouped by a generator")
                        .with_sqlstate("42K0E"));
                };
                if contains_aggregate(&value.expr) {
                    return Err(Error::invalid("GROUP_BY_AGGREGATE", "rows cannot be grouped by an aggregate: group by its arguments")
                        .with_sqlstate("42903"));
                }
                let known = resolved.iter().position(|known| known.expr == value.expr);
                if is_one {
                    written.push((unaliased(key).clone(), known.unwrap_or(resolved.len())));
                }
                if known.is_some() {
                    continue;
                }
                let passing = input.columns.iter().find(|column| column.column() == value.expr);
                let column = match (passing, normalized(&value)) {
                    (Some(column), _) if is_session(column) => {
                        let group = Attribute { internal: fresh(), hidden: false, ..column.clone() };
                        session = Some((value.expr.clone(), group.clone()));
                        group
                    }
                    (Some(column), None) => column.clone(),
                    (passing, normal) => {
                        let column = match passing {
                            Some(column) => Attribute { internal: fresh(), ..column.clone() },
                            None => Attribute::of(name, &value),
                        };
                        below.push((normal.unwrap_or_else(|| value.clone()), column.clone()));
                        column
                    }
                };
                resolved.push(Key { expr: value.expr, column });
            }
        }
        let mut input = with_columns_below(input, below)?;
        let mut more: Vec<Key> = Vec::new();
        match sets {
            Some(sets) => (input, more) = self.expand(input, &mut resolved, &sets, &mut computed, wanted)?,
            None => super::grouping_sets::refuse_grouping(wanted)?,
        }
        let wanted: Vec<Wanted<'_>> = wanted.iter().map(|expression| Wanted::Expression(expression)).collect();
        let selected = self.selected_over(input, &computed, &wanted, outer)?;
        resolved.extend(more);
        self.grouped(selected, resolved, written, session)
    }

    /// An aggregation of all rows.
    pub(super) fn aggregate_all(&self, selected: Selected) -> Result<Node> {
        self.grouped(selected, Vec::new(), Vec::new(), None)
    }

    fn grouped(
        &self,
        selected: Selected,
        keys: Vec<Key>,
        written: Vec<(Expression, usize)>,
        session: Option<(Expr, Attribute)>,
    ) -> Result<Node> {
        let Selected { input, outputs } = selected;
        let mut extraction = Extraction { keys: &keys, aggregates: Vec::new() };
        let mut given: Vec<(Attribute, Typed)> = Vec::with_capacity(outputs.len());
        for (mut attribute, mut value) in outputs {
            value.expr = extraction.replace(value.expr)?;
            let of_input = input.columns.iter().any(|column| column.internal == attribute.internal);
            if of_input && value.expr != attribute.column() {
                attribute.internal = fresh();
            }
            if let Some(key) = keys.iter().find(|key| key.column.column() == value.expr) {
                attribute.nullable = key.column.nullable;
                value.nullable = key.column.nullable;
            }
            given.push((attribute, value));
        }
        if extraction.aggregates.iter().any(|(expr, _)| is_nested(expr)) {
            return Err(Error::invalid(
                "NESTED_AGGREGATE_FUNCTION",
                "an aggregate function cannot be an argument of another: compute the inner one in a subquery",
            )
            .with_sqlstate("42607"));
        }
        if extraction.aggregates.iter().any(|(expr, _)| plan::is_random(expr)) {
            return Err(Error::invalid(
                "AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION",
                "a function that is not deterministic cannot be an argument of an aggregate: compute it in a subquery",
            )
            .with_sqlstate("42845"));
        }
        let streaming = extraction.aggregates.iter().any(|(expr, _)| plan::has_aggregate(expr)) && is_streaming(&input.plan)?;
        let aggregates = extraction.aggregates.into_iter();
        let aggregates: Vec<Expr> =
            aggregates.map(|(expr, name)| if streaming { plan::over_stream(expr) } else { expr }.alias(name)).collect();
        missing(&input, &keys, &given)?;
        let columns = input.columns.clone();
        let plan = match session {
            Some((window, column)) => session_plan(input.plan, &keys, &window, &column, aggregates)?,
            None => plain_plan(input.plan, &keys, aggregates)?,
        };
        let shown: Vec<Attribute> = given.iter().map(|(attribute, _)| attribute.clone()).collect();
        let below: Vec<Attribute> = keys
            .iter()
            .map(|key| &key.column)
            .filter(|column| !shown.iter().any(|known| known.internal == column.internal))
            .map(|column| column.clone().hidden())
            .collect();
        let grouped = Grouped { input: columns, keys, written };
        Ok(Node { plan: give(plan, given)?, columns: shown, below, grouped: Some(Rc::new(grouped)) })
    }
}

/// The relation with more columns, which are hidden.
pub(super) fn with_columns_below(input: Node, more: Vec<(Typed, Attribute)>) -> Result<Node> {
    if more.is_empty() {
        return Ok(input);
    }
    let mut items: Vec<Expr> = input.columns.iter().map(Attribute::column).collect();
    let mut columns = input.columns;
    for (value, column) in more {
        items.push(item(&value, &column.internal, &input.plan)?);
        columns.push(column.hidden());
    }
    Ok(Node { plan: project(input.plan, items)?, columns, below: input.below, grouped: input.grouped })
}

/// The name that an expression is, in one part.
fn plain_name(expression: &Expression) -> Result<Option<String>> {
    match &expression.expr_type {
        Some(ExprType::UnresolvedAttribute(attribute)) if attribute.plan_id.is_none() => {
            let mut parts = name_parts(&attribute.unparsed_identifier)?.into_iter();
            Ok(parts.next().filter(|_| parts.next().is_none()))
        }
        _ => Ok(None),
    }
}

/// The expression that an alias names.
pub(super) fn unaliased(expression: &Expression) -> &Expression {
    match &expression.expr_type {
        Some(ExprType::Alias(alias)) => alias.expr.as_deref().map_or(expression, unaliased),
        _ => expression,
    }
}

/// `GROUP BY 2`.
fn nth(wanted: &[&Expression], position: i64) -> Result<Expression> {
    let found = position.checked_sub(1).and_then(|index| usize::try_from(index).ok()).and_then(|index| wanted.get(index));
    let Some(found) = found else {
        return Err(Error::invalid(
            "GROUP_BY_POS_OUT_OF_RANGE",
            format!("GROUP BY position {position} is not in the select list of {} columns", wanted.len()),
        )
        .with_sqlstate("42805"));
    };
    let mut calls = Vec::new();
    super::filter::aggregate_calls(&mut (*found).clone(), &mut calls);
    if !calls.is_empty() {
        return Err(
            Error::invalid("GROUP_BY_POS_AGGREGATE", format!("GROUP BY position {position} is an aggregate")).with_sqlstate("42903")
        );
    }
    Ok(unaliased(found).clone())
}

fn plain_plan(input: LogicalPlan, keys: &[Key], mut aggregates: Vec<Expr>) -> Result<LogicalPlan> {
    if keys.is_empty() && aggregates.is_empty() {
        let count = Expr::AggregateFunction(datafusion::logical_expr::expr::AggregateFunction::new_udf(
            count_udaf(),
            vec![lit(1_i64)],
            false,
            None,
            Vec::new(),
            None,
        ));
        aggregates.push(count.alias(fresh()));
    }
    let keys = keys.iter().map(|key| key.column.column()).collect();
    AggregatePlan::try_new(Arc::new(input), keys, aggregates).map(LogicalPlan::Aggregate).map_err(from_datafusion)
}

fn session_plan(input: LogicalPlan, keys: &[Key], window: &Expr, column: &Attribute, aggregates: Vec<Expr>) -> Result<LogicalPlan> {
    let bound = |name: &str| datafusion::functions::core::expr_fn::get_field(window.clone(), name);
    let keys = keys.iter().filter(|key| key.column.internal != column.internal).map(|key| key.column.column()).collect();
    let start = super::time_window::marked(bound("start"), column);
    SessionWindow::try_new(input, keys, start, bound("end"), column.internal.clone(), aggregates).map(SessionWindow::into_plan)
}

fn is_nested(aggregate: &Expr) -> bool {
    match aggregate {
        Expr::AggregateFunction(function) => {
            function.params.args.iter().chain(function.params.filter.as_deref()).any(contains_aggregate)
                || function.params.order_by.iter().any(|key| contains_aggregate(&key.expr))
        }
        _ => false,
    }
}

/// Columns outside of aggregates must be keys.
fn missing(input: &Node, keys: &[Key], outputs: &[(Attribute, Typed)]) -> Result<()> {
    for (output, value) in outputs {
        for column in value.expr.column_refs() {
            let is_key = keys.iter().any(|key| key.column.internal == column.name);
            let Some(lost) = input.columns.iter().find(|known| known.internal == column.name).filter(|_| !is_key) else { continue };
            return Err(if keys.is_empty() {
                Error::invalid(
                    "MISSING_GROUP_BY",
                    format!("`{}` is neither aggregated nor grouped by: there is no GROUP BY, so add one or use any_value", lost.name),
                )
            } else {
                Error::invalid(
                    "MISSING_AGGREGATION",
                    format!(
                        "`{}` is based on `{}`, which is not in the GROUP BY: add it there or use any_value(`{}`)",
                        output.name, lost.name, lost.name
                    ),
                )
            }
            .with_sqlstate("42803"));
        }
    }
    Ok(())
}

/// The calls of functions of certain names inside of expressions.
pub(super) fn calls_of(expressions: &[&Expression], names: &[&str]) -> Vec<Expression> {
    fn walk(expression: &mut Expression, names: &[&str], found: &mut Vec<Expression>) {
        let name = match &expression.expr_type {
            Some(ExprType::UnresolvedFunction(function)) => Some(function.function_name.to_lowercase()),
            Some(ExprType::CallFunction(function)) => Some(function.function_name.to_lowercase()),
            Some(ExprType::UnresolvedAttribute(attribute)) => {
                Some(attribute.unparsed_identifier.to_lowercase()).filter(|name| name == "grouping__id")
            }
            _ => None,
        };
        if name.is_some_and(|name| names.contains(&name.as_str())) {
            if !found.iter().any(|known| known.expr_type == expression.expr_type) {
                found.push(expression.clone());
            }
            return;
        }
        visit::parts(expression).into_iter().for_each(|part| walk(part, names, found));
    }
    let mut found = Vec::new();
    for expression in expressions {
        walk(&mut (*expression).clone(), names, &mut found);
    }
    found
}
