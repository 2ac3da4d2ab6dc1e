//! What the columns of a physical plan are, in words of the columns of its sources.
//!
//! The names inside of plans differ from run to run. What a column is computed from does not: by that, a query that is started again is
//! compared with the one before, and rows and state are shown to people.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExprRef, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;

use super::exec::as_stateful;
use super::planner::as_node;
use super::sliding::SlidingExec;
use crate::scan::SplitScanExec;

/// Where a column of a plan comes from.
enum Source<'a> {
    /// A column of a relation: its name, and how to call the relation if it is not the first stream.
    Relation(String, Option<String>),
    /// The column of an input at this index.
    Column(&'a Arc<dyn ExecutionPlan>, usize),
    /// An expression over an input.
    Expression(&'a Arc<dyn ExecutionPlan>, &'a PhysicalExprRef),
    /// The windows of a time.
    Windows(&'a SlidingExec),
    /// The result of an operator with state.
    Result(usize),
    Unknown,
}

/// What the column at this index is.
pub(crate) fn column(plan: &Arc<dyn ExecutionPlan>, index: usize) -> String {
    match source(plan, index) {
        Source::Relation(name, None) => name,
        Source::Relation(name, Some(relation)) => format!("{relation}.{name}"),
        Source::Column(input, index) => column(input, index),
        Source::Expression(input, expr) => text(expr, input),
        Source::Windows(sliding) => windows(sliding),
        Source::Result(index) => format!("result {index}"),
        Source::Unknown => format!("column {index}"),
    }
}

/// The name of the column at this index in its relation, `window` for windows; `None` where it is computed.
pub(crate) fn name(plan: &Arc<dyn ExecutionPlan>, index: usize) -> Option<String> {
    match source(plan, index) {
        Source::Relation(name, _) => Some(name),
        Source::Column(input, index) => name(input, index),
        Source::Expression(input, expr) => as_column(expr).and_then(|column| name(input, column.index())),
        Source::Windows(_) => Some("window".to_owned()),
        Source::Result(_) | Source::Unknown => None,
    }
}

/// The fields of the first columns of a plan under the names that people know: those of their relations, and Spark's for what is computed.
pub(crate) fn named(plan: &Arc<dyn ExecutionPlan>, columns: usize) -> Vec<FieldRef> {
    let known = |(index, field): (usize, &FieldRef)| -> FieldRef {
        let name = name(plan, index).unwrap_or_else(|| COMPUTED.to_owned());
        Arc::new(field.as_ref().clone().with_name(name))
    };
    plan.schema().fields().iter().take(columns).enumerate().map(known).collect()
}

/// Spark's name of a key that is computed.
const COMPUTED: &str = "_groupingexpression";

/// The windows that the column at this index is, if it is one of windows.
pub(crate) fn windows_of(plan: &Arc<dyn ExecutionPlan>, index: usize) -> Option<String> {
    match source(plan, index) {
        Source::Windows(sliding) => Some(windows(sliding)),
        Source::Column(input, index) => windows_of(input, index),
        Source::Expression(input, expr) => as_column(expr).and_then(|column| windows_of(input, column.index())),
        _ => None,
    }
}

/// What an expression over a plan computes.
pub(crate) fn text(expr: &PhysicalExprRef, plan: &Arc<dyn ExecutionPlan>) -> String {
    render(expr, &|index| column(plan, index))
}

/// What an expression computes, over columns that are called what `name` says of their index.
pub(crate) fn render(expr: &PhysicalExprRef, name: &dyn Fn(usize) -> String) -> String {
    let any = expr.as_ref() as &dyn std::any::Any;
    if let Some(of) = any.downcast_ref::<Column>() {
        return name(of.index());
    }
    if let Some(literal) = any.downcast_ref::<Literal>() {
        return literal.value().to_string();
    }
    if let Some(binary) = any.downcast_ref::<BinaryExpr>() {
        return format!("({} {} {})", render(binary.left(), name), binary.op(), render(binary.right(), name));
    }
    if let Some(cast) = any.downcast_ref::<CastExpr>() {
        return format!("cast({} as {})", render(cast.expr(), name), cast.cast_type());
    }
    if let Some(function) = any.downcast_ref::<ScalarFunctionExpr>() {
        let arguments: Vec<String> = function.args().iter().map(|argument| render(argument, name)).collect();
        return format!("{}({})", function.name(), arguments.join(", "));
    }
    let traced = expr.clone().transform(|inner| {
        let traced = as_column(&inner).map(|of| Arc::new(Column::new(&name(of.index()), 0)) as PhysicalExprRef);
        Ok(traced.map_or_else(|| Transformed::no(inner), Transformed::yes))
    });
    traced.map_or_else(|_| expr.to_string(), |traced| traced.data.to_string().replace("@0", ""))
}

/// The windows that a node gives.
pub(crate) fn windows(sliding: &SlidingExec) -> String {
    let slide = sliding.slide();
    let time = match (sliding.time(), sliding.input()) {
        (Some(time), input) => text(time, input),
        (None, _) => "time".to_owned(),
    };
    format!("window({time}, {} µs, {} µs, {} µs)", slide.width, slide.slide, slide.start)
}

fn source(plan: &Arc<dyn ExecutionPlan>, index: usize) -> Source<'_> {
    if let Some(scan) = as_node::<SplitScanExec>(plan) {
        let Some(name) = plan.schema().fields().get(index).map(|field| field.name().clone()) else { return Source::Unknown };
        return match scan.source() {
            Some(0) => Source::Relation(name, None),
            Some(number) => Source::Relation(name, Some(format!("source {number}"))),
            None => Source::Relation(name, Some(scan.label().to_owned())),
        };
    }
    if let Some(projection) = as_node::<ProjectionExec>(plan) {
        return projection.expr().get(index).map_or(Source::Unknown, |expr| Source::Expression(projection.input(), &expr.expr));
    }
    if let Some(filter) = as_node::<FilterExec>(plan) {
        let index = match filter.projection() {
            Some(projection) => projection.get(index).copied(),
            None => Some(index),
        };
        return index.map_or(Source::Unknown, |index| Source::Column(filter.input(), index));
    }
    if let Some(sliding) = as_node::<SlidingExec>(plan) {
        return match sliding.windows_at() {
            Some(at) if at == index => Source::Windows(sliding),
            _ => Source::Column(sliding.input(), index),
        };
    }
    if let Some(aggregate) = as_node::<AggregateExec>(plan) {
        return match aggregate.group_expr().expr().get(index) {
            Some((key, _)) => Source::Expression(aggregate.input(), key),
            None => Source::Result(index),
        };
    }
    if let Some(join) = as_node::<HashJoinExec>(plan) {
        return joined(join, index);
    }
    if as_node::<UnionExec>(plan).is_some() {
        return plan.children().first().map_or(Source::Unknown, |input| Source::Column(input, index));
    }
    let name = |plan: &Arc<dyn ExecutionPlan>| plan.schema().fields().get(index).map(|field| field.name().clone());
    match plan.children().as_slice() {
        // What passes a column on leaves it in its place and under its name.
        [input] if name(plan).is_some() && name(plan) == name(input) => Source::Column(input, index),
        _ if as_stateful(plan).is_some() => Source::Result(index),
        _ => Source::Unknown,
    }
}

fn joined(join: &HashJoinExec, index: usize) -> Source<'_> {
    let index = match &join.projection {
        Some(projection) => projection.get(index).copied(),
        None => Some(index),
    };
    let Some(index) = index else { return Source::Unknown };
    let side = match join.join_type() {
        JoinType::RightSemi | JoinType::RightAnti => JoinSide::Right,
        _ => JoinSide::Left,
    };
    let first = if side == JoinSide::Left { join.left() } else { join.right() };
    match index.checked_sub(first.schema().fields().len()) {
        None => Source::Column(first, index),
        Some(index) if side == JoinSide::Left => Source::Column(join.right(), index),
        Some(_) => Source::Unknown,
    }
}

fn as_column(expr: &PhysicalExprRef) -> Option<&Column> {
    (expr.as_ref() as &dyn std::any::Any).downcast_ref::<Column>()
}
