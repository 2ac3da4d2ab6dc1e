//! What a plan over streams becomes before it is optimised.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{Field, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result as DfResult;
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Distinct, Expr, FetchType, Join, JoinType, Limit, LogicalPlan, LogicalPlanBuilder, Operator, SkipType};
use millstream_core::Result;
use millstream_core::sink::OutputMode;

use super::logical::{ExceptAllRows, StreamLimit};
use crate::check::set_operation;
use crate::plan::is_streaming;
use crate::{from_datafusion, to_datafusion};

/// Rules of DataFusion that must not see a stream. Three would take it out of a plan that can give no rows, although its time still passes and
/// its state still grows. Two move parts of structs below a watermark, and with them filters on event time.
const NOT_ON_STREAMS: [&str; 5] =
    ["eliminate_filter", "eliminate_join", "propagate_empty_relation", "extract_leaf_expressions", "push_down_leaf_projections"];

/// Whether an optimizer rule may work on a plan over streams.
pub(crate) fn allowed(rule: &str) -> bool {
    !NOT_ON_STREAMS.contains(&rule)
}

/// Limits over streams become nodes that remember, what `EXCEPT ALL` counts becomes a union, and rows whose null keys can match nothing are left out before joins, as Spark does.
///
/// # Errors
/// Those of rewriting.
pub(crate) fn rewrite(plan: LogicalPlan, mode: OutputMode, state: &SessionState) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up(|node| match node {
        LogicalPlan::Limit(limit) if mode == OutputMode::Append && streams(&limit.input)? => limited(limit),
        LogicalPlan::Join(join) if is_except(&join) && streams(&join.left)? => except(join),
        LogicalPlan::Join(join) if streams(&join.left)? || streams(&join.right)? => without_nulls(in_parts(join)?, state),
        LogicalPlan::Extension(extension) => Ok(match extension.node.as_any().downcast_ref::<ExceptAllRows>() {
            Some(rows) => Transformed::yes(LogicalPlan::Union(rows.union.clone())),
            None => Transformed::no(LogicalPlan::Extension(extension)),
        }),
        other => Ok(Transformed::no(other)),
    });
    rewritten.map(|plan| plan.data).map_err(from_datafusion)
}

fn streams(plan: &LogicalPlan) -> DfResult<bool> {
    is_streaming(plan).map_err(to_datafusion)
}

fn limited(limit: Limit) -> DfResult<Transformed<LogicalPlan>> {
    match (limit.get_skip_type()?, limit.get_fetch_type()?) {
        (SkipType::Literal(0), FetchType::Literal(Some(count))) => {
            let node = StreamLimit { input: Arc::unwrap_or_clone(limit.input), limit: count as u64 };
            Ok(Transformed::yes(node.into_plan()))
        }
        _ => Ok(Transformed::no(LogicalPlan::Limit(limit))),
    }
}

fn is_except(join: &Join) -> bool {
    let distinct = matches!(join.left.as_ref(), LogicalPlan::Distinct(Distinct::All(_)));
    distinct && join.join_type == JoinType::LeftAnti && set_operation(&LogicalPlan::Join(join.clone()))
}

/// `EXCEPT` with its `DISTINCT` above, as Spark has it, so that only what is left is remembered.
fn except(mut join: Join) -> DfResult<Transformed<LogicalPlan>> {
    if let LogicalPlan::Distinct(Distinct::All(input)) = join.left.as_ref() {
        join.left = input.clone();
    }
    Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::All(Arc::new(LogicalPlan::Join(join))))))
}

/// The conditions that all have to hold for `condition` to hold.
///
/// Where computing the right side of an `AND` can fail, the analyzer writes `CASE WHEN NOT a THEN false ELSE a AND b END`, through numbers so that
/// nothing turns it back. A join has to know the parts, as it has in Spark.
pub(crate) fn parts(condition: &Expr) -> Vec<Expr> {
    conjuncts(condition).into_iter().map(plain_equality).collect()
}

/// The equality of two columns as DataFusion writes it, whose planner knows no other: for structs the analyzer has a function of its own.
fn plain_equality(expr: &Expr) -> Expr {
    if let Expr::ScalarFunction(function) = expr
        && function.name() == "="
        && let [left @ Expr::Column(_), right @ Expr::Column(_)] = function.args.as_slice()
    {
        return left.clone().eq(right.clone());
    }
    expr.clone()
}

fn conjuncts(condition: &Expr) -> Vec<&Expr> {
    let both = match condition {
        Expr::BinaryExpr(both) => Some(both),
        Expr::Cast(cast) => guarded(&cast.expr),
        other => guarded(other),
    };
    match both {
        Some(BinaryExpr { left, op: Operator::And, right }) => [conjuncts(left), conjuncts(right)].concat(),
        _ => vec![condition],
    }
}

/// `a AND b` of `CASE WHEN NOT a THEN … ELSE a AND b END`.
fn guarded(expr: &Expr) -> Option<&BinaryExpr> {
    let Expr::Case(case) = expr else { return None };
    let ([(decided, _)], Some(otherwise)) = (case.when_then_expr.as_slice(), &case.else_expr) else { return None };
    let otherwise = match otherwise.as_ref() {
        Expr::Cast(cast) => cast.expr.as_ref(),
        other => other,
    };
    match (decided.as_ref(), otherwise) {
        (Expr::Not(first), Expr::BinaryExpr(both)) if both.op == Operator::And && both.left == *first => Some(both),
        _ => None,
    }
}

/// The same join with its condition in parts. Parts without columns hold for all pairs or for none; where the left side's rows can be lost, Spark
/// makes them a filter of the left side, which leaves the join its keys.
fn in_parts(mut join: Join) -> DfResult<Join> {
    let Some(filter) = &join.filter else { return Ok(join) };
    let left = matches!(join.join_type, JoinType::Inner | JoinType::LeftSemi | JoinType::Right);
    let (constant, rest): (Vec<Expr>, Vec<Expr>) = parts(filter).into_iter().partition(|part| left && part.column_refs().is_empty());
    if let Some(filter) = conjunction(constant) {
        join.left = Arc::new(LogicalPlanBuilder::from(join.left.as_ref().clone()).filter(filter)?.build()?);
    }
    join.filter = conjunction(rest);
    Ok(join)
}

/// Filters below a join, on the sides where a row with a null in the condition can only be lost.
fn without_nulls(mut join: Join, state: &SessionState) -> DfResult<Transformed<LogicalPlan>> {
    let (left, right) = match join.join_type {
        JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => (true, true),
        JoinType::Left | JoinType::LeftAnti => (false, true),
        JoinType::Right | JoinType::RightAnti => (true, false),
        _ => (false, false),
    };
    let (left, right) = (left && streams(&join.left)?, right && streams(&join.right)?);
    if !left && !right {
        return Ok(Transformed::yes(LogicalPlan::Join(join)));
    }
    let equal_nulls = join.null_equality == datafusion::common::NullEquality::NullEqualsNull;
    let keys = join.on.iter().filter(|_| !equal_nulls).flat_map(|(left, right)| [left, right]);
    let compared = join.filter.iter().flat_map(conjuncts).filter_map(compared).flatten();
    let operands: Vec<Expr> = keys.chain(compared).cloned().collect();
    for (wanted, side) in [(left, &mut join.left), (right, &mut join.right)] {
        let columns = if wanted { never_null(&operands, side.schema(), state)? } else { BTreeSet::new() };
        if let Some(filter) = conjunction(columns.into_iter().map(|column| Expr::Column(column).is_not_null())) {
            *side = Arc::new(LogicalPlanBuilder::from(side.as_ref().clone()).filter(filter)?.build()?);
        }
    }
    Ok(Transformed::yes(LogicalPlan::Join(join)))
}

/// The operands of a comparison that is null where one of them is.
fn compared(predicate: &Expr) -> Option<[&Expr; 2]> {
    match predicate {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let comparison = matches!(op, Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq);
            comparison.then_some([left.as_ref(), right.as_ref()])
        }
        _ => None,
    }
}

/// The columns of a side without which an operand is null: those of operands of one column that are null where it is.
fn never_null(operands: &[Expr], schema: &DFSchema, state: &SessionState) -> DfResult<BTreeSet<Column>> {
    let mut columns = BTreeSet::new();
    for operand in operands {
        let mut only = operand.column_refs().into_iter();
        let (Some(column), None) = (only.next(), only.next()) else { continue };
        let Some(index) = schema.maybe_index_of_column(column) else { continue };
        if schema.field(index).is_nullable() && is_null_of_null(operand, schema, state) {
            columns.insert(column.clone());
        }
    }
    Ok(columns)
}

fn is_null_of_null(operand: &Expr, schema: &DFSchema, state: &SessionState) -> bool {
    let evaluate = || {
        let fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
        let columns: Vec<ArrayRef> = fields.iter().map(|field| new_null_array(field.data_type(), 1)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?;
        state.create_physical_expr(operand.clone(), schema)?.evaluate(&row)?.into_array(1)
    };
    evaluate().is_ok_and(|value| value.logical_null_count() == 1)
}
