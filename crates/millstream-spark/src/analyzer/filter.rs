//! Filters and sorts.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, Filter as FilterPlan, LogicalPlan, Sort as SortPlan, SortExpr};
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::expression::literal::LiteralType;
use spark_connect_proto::expression::{ExprType, SortOrder};
use spark_connect_proto::{Expression, Filter, Sort};

use super::expression::{Resolver, Scope};
use super::extend::{extend, restored};
use super::gather::incomplete;
use super::project::{contains_aggregate, with_windows};
use super::relation::{Analyzer, Node};
use super::time_window::windows_first;
use super::{Attribute, visit};
use crate::functions::aggregate::Aggregates;
use crate::python::PythonFunction;

impl Analyzer<'_> {
    pub(super) fn filter(&self, filter: &Filter, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(filter.input.as_deref(), outer)?;
        let condition = filter.condition.as_ref().ok_or_else(|| incomplete("the condition of a filter"))?;
        self.filter_by(input, condition, outer)
    }

    /// Keeps the rows for which a condition holds. It may name columns and aggregates that the relation does not give.
    pub(super) fn filter_by(&self, input: Node, condition: &Expression, outer: Option<&Scope<'_>>) -> Result<Node> {
        let before = input.columns.len();
        let (input, computed) = self.with_time_windows(input, &[condition], outer)?;
        let columns = windows_first(before, &input.columns);
        let view = self.view(&input, computed, &[condition], outer)?;
        let scope = Scope { columns: &view.columns, outer, computed: &view.computed };
        let resolved = view.inlined(self.condition(condition, &scope, "a filter").map_err(outside_select)?.expr)?;
        if input.grouped.is_none() && contains_aggregate(&resolved) {
            return Err(Error::invalid(
                "INVALID_WHERE_CONDITION",
                "a condition cannot have aggregate functions unless it follows an aggregation: use HAVING",
            )
            .with_sqlstate("42903"));
        }
        let (plan, conditions) = extend(&input, vec![resolved])?;
        let (mut plan, conditions) = with_windows(plan, conditions)?;
        for condition in conditions {
            plan = filtered(plan, condition)?;
        }
        Ok(Node { plan: restored(plan, &columns)?, columns, ..input })
    }

    pub(super) fn sort(&self, sort: &Sort, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(sort.input.as_deref(), outer)?;
        self.sort_by(input, &sort.order, outer)
    }

    /// Sorts by keys, which may name columns and aggregates that the relation does not give.
    pub(super) fn sort_by(&self, input: Node, order: &[SortOrder], outer: Option<&Scope<'_>>) -> Result<Node> {
        let before = input.columns.len();
        let children: Vec<&Expression> = order.iter().filter_map(|order| order.child.as_deref()).collect();
        let (input, computed) = self.with_time_windows(input, &children, outer)?;
        let columns = windows_first(before, &input.columns);
        let view = self.view(&input, computed, &children, outer)?;
        let scope = Scope { columns: &view.columns, outer, computed: &view.computed };
        let mut keys: Vec<SortExpr> = Vec::with_capacity(order.len());
        for order in order {
            let child = order.child.as_deref().ok_or_else(|| incomplete("the child of a sort order"))?;
            let found = match ordinal(child) {
                Some(position) => {
                    let index = nth(&columns, position).ok_or_else(|| out_of_range(position, &columns))?;
                    let computed = [(child.clone(), index)];
                    Resolver::new(self.settings, &Scope { columns: &columns, outer: None, computed: &computed }, self).sort_keys(order)
                }
                None => Resolver::new(self.settings, &scope, self).sort_keys(order),
            };
            for key in found.map_err(outside_select)? {
                let expr = view.inlined(key.expr.clone())?;
                keys.push(key.with_expr(expr));
            }
        }
        let (plan, exprs) = extend(&input, keys.iter().map(|key| key.expr.clone()).collect())?;
        let (plan, exprs) = with_windows(plan, exprs)?;
        let expr: Vec<SortExpr> = keys.iter().zip(exprs).map(|(key, expr)| key.with_expr(expr)).collect();
        let plan = LogicalPlan::Sort(SortPlan { expr, input: Arc::new(plan), fetch: None });
        Ok(Node { plan: restored(plan, &columns)?, columns, ..input })
    }

    /// What expressions over a relation see.
    fn view(
        &self,
        input: &Node,
        computed: Vec<(Expression, usize)>,
        expressions: &[&Expression],
        outer: Option<&Scope<'_>>,
    ) -> Result<View> {
        let mut view = View { columns: input.columns.clone(), computed, aggregates: Vec::new() };
        view.columns.extend(input.below.iter().cloned());
        let Some(grouped) = &input.grouped else { return Ok(view) };
        for (written, place) in &grouped.written {
            if let Some(key) = grouped.keys.get(*place) {
                view.add(written.clone(), key.column.clone().hidden());
            }
        }
        // The arguments of an aggregate are columns of the aggregation's input, whatever its output has under their names.
        let scope = Scope { columns: &grouped.input, outer, computed: &[] };
        let mut calls: Vec<Expression> = Vec::new();
        for expression in expressions {
            aggregate_calls(&mut (*expression).clone(), &mut calls);
        }
        for call in calls {
            if let Ok(value) = self.value(&call, &scope) {
                let attribute = Attribute::of(super::naming::name_of(&call), &value).hidden();
                view.aggregates.push((attribute.internal.clone(), value.expr));
                view.add(call, attribute);
            }
        }
        for column in &grouped.input {
            if !view.columns.iter().any(|known| known.internal == column.internal) {
                view.columns.push(column.clone().hidden());
            }
        }
        Ok(view)
    }
}

/// The columns that expressions over a relation see: its own, what is below it, and aggregates of the aggregation below it.
struct View {
    columns: Vec<Attribute>,
    computed: Vec<(Expression, usize)>,
    /// Columns that stand for aggregates over the input of the aggregation.
    aggregates: Vec<(String, Expr)>,
}

impl View {
    fn add(&mut self, written: Expression, attribute: Attribute) {
        let index = match self.columns.iter().position(|known| known.internal == attribute.internal) {
            Some(index) => index,
            None => {
                self.columns.push(attribute);
                self.columns.len() - 1
            }
        };
        self.computed.push((written, index));
    }

    /// The expression with the aggregates themselves in place of the columns that stand for them.
    fn inlined(&self, expr: Expr) -> Result<Expr> {
        if self.aggregates.is_empty() {
            return Ok(expr);
        }
        let inlined = expr.transform_up(|part| match &part {
            Expr::Column(column) => match self.aggregates.iter().find(|(internal, _)| *internal == column.name) {
                Some((_, aggregate)) => Ok(Transformed::yes(aggregate.clone())),
                None => Ok(Transformed::no(part)),
            },
            _ => Ok(Transformed::no(part)),
        });
        inlined.map(|inlined| inlined.data).map_err(from_datafusion)
    }
}

/// Finds the outermost calls of aggregate functions with their clauses (`__filter` and its like), those over windows apart.
pub(super) fn aggregate_calls(expression: &mut Expression, calls: &mut Vec<Expression>) {
    let name = match &expression.expr_type {
        Some(ExprType::UnresolvedFunction(function)) => Some(&function.function_name),
        Some(ExprType::CallFunction(function)) => Some(&function.function_name),
        _ => None,
    };
    let is_aggregate = |name: &String| name.starts_with("__") || Aggregates::all().contains(&name.to_lowercase());
    let of_user = match &expression.expr_type {
        Some(ExprType::CommonInlineUserDefinedFunction(call)) => PythonFunction::of(call).is_ok_and(|function| function.is_aggregate()),
        _ => false,
    };
    if of_user || name.is_some_and(is_aggregate) {
        calls.push(expression.clone());
        return;
    }
    let parts = match &mut expression.expr_type {
        Some(ExprType::Window(window)) => {
            // The function over the window is none itself, but its arguments may have some.
            let function = window.window_function.as_deref_mut().map(visit::parts).unwrap_or_default();
            let keys = window.order_spec.iter_mut().filter_map(|order| order.child.as_deref_mut());
            function.into_iter().chain(&mut window.partition_spec).chain(keys).collect()
        }
        _ => visit::parts(expression),
    };
    for part in parts {
        aggregate_calls(part, calls);
    }
}

/// A filter.
pub(super) fn filtered(input: LogicalPlan, condition: Expr) -> Result<LogicalPlan> {
    FilterPlan::try_new(condition, Arc::new(input)).map(LogicalPlan::Filter).map_err(from_datafusion)
}

/// A generator is out of place in a whole operator, not only in an expression of its own.
fn outside_select(error: Error) -> Error {
    if error.code() == "UNSUPPORTED_GENERATOR.NESTED_IN_EXPRESSIONS" {
        return Error::invalid("UNSUPPORTED_GENERATOR.OUTSIDE_SELECT", error.message()).with_sqlstate("42K0E");
    }
    error
}

/// The position that an integer stands for in `GROUP BY` and `ORDER BY`.
pub(super) fn ordinal(expression: &Expression) -> Option<i64> {
    match &expression.expr_type {
        Some(ExprType::Literal(literal)) => match literal.literal_type {
            Some(LiteralType::Integer(position)) => Some(i64::from(position)),
            _ => None,
        },
        _ => None,
    }
}

/// The place of the visible column at a position, which counts from one.
fn nth(columns: &[Attribute], position: i64) -> Option<usize> {
    let index = position.checked_sub(1).and_then(|index| usize::try_from(index).ok())?;
    columns.iter().enumerate().filter(|(_, column)| !column.hidden).nth(index).map(|(place, _)| place)
}

fn out_of_range(position: i64, columns: &[Attribute]) -> Error {
    let count = columns.iter().filter(|column| !column.hidden).count();
    Error::invalid("ORDER_BY_POS_OUT_OF_RANGE", format!("ORDER BY position {position} is not in the select list of {count} columns"))
        .with_sqlstate("42805")
}
