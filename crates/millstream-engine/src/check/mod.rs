//! Which plans can run on a stream, decided before anything starts.
//!
//! Rules and conditions: `reference/spark-semantics.md` §1.5, measured on Spark 4.2.

mod arbitrary;
mod join;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, JoinType, NullEquality};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Distinct, Expr, ExprSchemable, LogicalPlan, SkipType};
use millstream_core::sink::OutputMode;
use millstream_core::{Error, Result};

use crate::plan::is_streaming;
use crate::stateful::{Arbitrary, Deduplicate, ExceptAllRows, SessionWindow, event_time_delay};
use crate::{from_datafusion, to_datafusion};

/// Spark's condition for most refusals of its checker; they share it and have no SQLSTATE.
const UNSUPPORTED: &str = "_LEGACY_ERROR_TEMP_3102";

/// Checks that a streaming plan can run in this output mode.
///
/// # Errors
/// Kind `Invalid`, with Spark's condition: `STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION`, `NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING`,
/// `INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY`, `_LEGACY_ERROR_TEMP_3102` with Spark's wording for the rest.
pub fn check(plan: &LogicalPlan, mode: OutputMode) -> Result<()> {
    check_with(plan, mode, true)
}

/// The same; `correctness` says whether to refuse plans in which rows of one stateful operator reach another too late.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_with(plan: &LogicalPlan, mode: OutputMode, correctness: bool) -> Result<()> {
    visit(plan, &mut subqueries)?;
    let aggregations = aggregations(plan)?;
    output_mode(&aggregations, mode)?;
    arbitrary::together(plan, mode)?;
    let mut node = |node: &LogicalPlan| {
        arbitrary::allowed(node, mode, &aggregations)?;
        node_allowed(node, mode)
    };
    visit_up(plan, &mut node)?;
    if correctness {
        visit(plan, &mut |node| {
            if is_stateful(node)? && emits_late_rows_below(node, mode)? {
                return Err(unsupported(
                    "Detected pattern of possible 'correctness' issue due to global watermark. The query contains stateful operation which can \
                     emit rows older than the current watermark plus allowed late record delay, which are \"late rows\" in downstream stateful \
                     operations and these rows can be discarded. Several stateful operators in a row need the append output mode",
                ));
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Calls `look` on every node, from the top down.
fn visit(plan: &LogicalPlan, look: &mut dyn FnMut(&LogicalPlan) -> Result<()>) -> Result<()> {
    plan.apply(|node| look(node).map(|()| TreeNodeRecursion::Continue).map_err(to_datafusion)).map(drop).map_err(from_datafusion)
}

/// Calls `look` on every node that reads a stream, inputs first.
fn visit_up(plan: &LogicalPlan, look: &mut dyn FnMut(&LogicalPlan) -> Result<()>) -> Result<()> {
    if !is_streaming(plan)? {
        return Ok(());
    }
    for input in plan.inputs() {
        visit_up(input, look)?;
    }
    look(plan)
}

/// Streams inside of expressions are refused.
fn subqueries(node: &LogicalPlan) -> Result<()> {
    let mut found = false;
    node.apply_subqueries(|subquery| {
        found |= is_streaming(subquery).map_err(to_datafusion)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })
    .map_err(from_datafusion)?;
    if !found {
        return Ok(());
    }
    Err(Error::invalid(
        "INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY",
        "Invalid subquery: streaming query is not allowed in subquery expression.",
    )
    .with_sqlstate("42823"))
}

/// A streaming aggregation.
struct Aggregation {
    /// Whether event time is among its keys.
    timed: bool,
    session: bool,
}

/// The streaming aggregations of a plan, from the top down.
fn aggregations(plan: &LogicalPlan) -> Result<Vec<Aggregation>> {
    let mut found = Vec::new();
    let mut excepted: Option<*const LogicalPlan> = None;
    visit(plan, &mut |node| {
        if let Some(distinct) = distinct_of_except(node) {
            // EXCEPT is one operator in Spark, and its aggregation a matter of the optimizer.
            excepted = Some(std::ptr::from_ref(distinct));
        }
        let counts = matches!(node, LogicalPlan::Aggregate(aggregate) if counted_by_except_all(&aggregate.input));
        if counts || excepted == Some(std::ptr::from_ref(node)) {
            return Ok(());
        }
        if let Some(aggregation) = aggregation(node)? {
            found.push(aggregation);
        }
        Ok(())
    })?;
    Ok(found)
}

/// Whether a relation is what `EXCEPT ALL` counts.
fn counted_by_except_all(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Extension(extension) if extension.node.as_any().is::<ExceptAllRows>())
}

fn aggregation(node: &LogicalPlan) -> Result<Option<Aggregation>> {
    let timed = |keys: &[Expr], schema: &DFSchema| {
        let timed = |key: &Expr| match key.clone().unalias() {
            Expr::Column(column) => Expr::Column(column).to_field(schema).is_ok_and(|(_, field)| event_time_delay(&field).is_some()),
            Expr::GroupingSet(sets) => sets.distinct_expr().into_iter().any(|key| {
                matches!(key, Expr::Column(_)) && key.to_field(schema).is_ok_and(|(_, field)| event_time_delay(&field).is_some())
            }),
            _ => false,
        };
        keys.iter().any(timed)
    };
    Ok(match node {
        LogicalPlan::Aggregate(aggregate) if is_streaming(&aggregate.input)? => {
            Some(Aggregation { timed: timed(&aggregate.group_expr, aggregate.input.schema()), session: false })
        }
        LogicalPlan::Distinct(distinct) if is_streaming(distinct.input())? => {
            let timed = distinct.input().schema().fields().iter().any(|field| event_time_delay(field).is_some());
            Some(Aggregation { timed, session: false })
        }
        LogicalPlan::Extension(extension) => match extension.node.as_any().downcast_ref::<SessionWindow>() {
            Some(window) if is_streaming(&window.input)? => {
                let fields = window.schema_ref().fields();
                Some(Aggregation { timed: fields.iter().any(|field| event_time_delay(field).is_some()), session: true })
            }
            _ => None,
        },
        _ => None,
    })
}

/// The `DISTINCT` that is half of an `EXCEPT`: over or under an anti join by all columns, nulls equal.
fn distinct_of_except(node: &LogicalPlan) -> Option<&LogicalPlan> {
    let except =
        |plan: &LogicalPlan| matches!(plan, LogicalPlan::Join(join) if join.join_type == JoinType::LeftAnti) && set_operation(plan);
    match node {
        LogicalPlan::Distinct(Distinct::All(input)) if except(input) => Some(node),
        LogicalPlan::Join(join) if except(node) => Some(join.left.as_ref()).filter(|left| matches!(left, LogicalPlan::Distinct(_))),
        _ => None,
    }
}

/// Whether a join is `EXCEPT` or `INTERSECT`.
pub(crate) fn set_operation(node: &LogicalPlan) -> bool {
    let LogicalPlan::Join(join) = node else { return false };
    join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && join.on.len() == join.left.schema().fields().len()
        && join.on.len() == join.right.schema().fields().len()
}

fn output_mode(aggregations: &[Aggregation], mode: OutputMode) -> Result<()> {
    let refused = match (mode, aggregations.first()) {
        (OutputMode::Append, Some(top)) if !top.timed => {
            "streaming aggregations without a watermark: add withWatermark and group by the event time or a window of it"
        }
        (OutputMode::Update, Some(top)) if top.session => "session windows",
        (OutputMode::Complete, None) => "no streaming aggregations",
        _ => return Ok(()),
    };
    Err(Error::invalid(
        "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION",
        format!("Invalid streaming output mode: {mode}. This output mode is not supported for {refused} on streaming DataFrames/Datasets"),
    )
    .with_sqlstate("42KDE"))
}

fn node_allowed(node: &LogicalPlan, mode: OutputMode) -> Result<()> {
    let refused = match node {
        LogicalPlan::Aggregate(aggregate) if is_streaming(&aggregate.input)? && any_distinct(&aggregate.aggr_expr)? => {
            "Distinct aggregations are not supported on streaming DataFrames/Datasets. Consider using approx_count_distinct() instead."
        }
        LogicalPlan::Distinct(Distinct::On(_)) => "DISTINCT ON is not supported on streaming DataFrames/Datasets",
        LogicalPlan::Sort(sort) if !complete(&sort.input, mode)? => {
            "Sorting is not supported on streaming DataFrames/Datasets, unless it is on aggregated DataFrame/Dataset in Complete output mode"
        }
        LogicalPlan::Limit(limit) if !matches!(limit.get_skip_type(), Ok(SkipType::Literal(0))) => {
            "Offset is not supported on streaming DataFrames/Datasets"
        }
        LogicalPlan::Limit(_) if mode == OutputMode::Update => {
            "Limits are not supported on streaming DataFrames/Datasets in Update output mode"
        }
        LogicalPlan::Window(_) => {
            return Err(Error::invalid(
                "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING",
                "window functions over rows are not supported on a stream: group by window(time, width) instead, or use a materialized view",
            )
            .with_sqlstate("42KDE"));
        }
        LogicalPlan::Union(union) => {
            let mut streams = union.inputs.iter().map(|input| is_streaming(input));
            if streams.all(|stream| !matches!(stream, Ok(false))) {
                return expressions_allowed(node);
            }
            "Union between streaming and batch DataFrames/Datasets is not supported"
        }
        LogicalPlan::Join(join) if set_operation(node) && join.join_type == JoinType::LeftSemi => {
            "Intersect of streaming DataFrames/Datasets is not supported"
        }
        LogicalPlan::Join(join) => {
            join::allowed(join, mode)?;
            return expressions_allowed(node);
        }
        LogicalPlan::RecursiveQuery(_) => "recursive queries are not supported on streaming DataFrames/Datasets",
        LogicalPlan::Ddl(_) | LogicalPlan::Dml(_) | LogicalPlan::Copy(_) | LogicalPlan::Statement(_) => {
            "Commands like CreateTable*, AlterTable*, Show* are not supported with streaming DataFrames/Datasets"
        }
        LogicalPlan::Extension(extension) => {
            let dedup = extension.node.as_any().downcast_ref::<Deduplicate>();
            let timed = |dedup: &Deduplicate| dedup.input.schema().fields().iter().any(|field| event_time_delay(field).is_some());
            if dedup.is_some_and(|dedup| dedup.within_watermark && !timed(dedup)) {
                "dropDuplicatesWithinWatermark is not supported on streaming DataFrames/DataSets without watermark"
            } else if extension.node.name() == "Sample" {
                "Sampling is not supported on streaming DataFrames/Datasets"
            } else {
                return expressions_allowed(node);
            }
        }
        _ => return expressions_allowed(node),
    };
    Err(unsupported(refused))
}

/// Whether what is below gives all of the result in every batch.
fn complete(plan: &LogicalPlan, mode: OutputMode) -> Result<bool> {
    Ok(!is_streaming(plan)? || (mode == OutputMode::Complete && !aggregations(plan)?.is_empty()))
}

fn any_distinct(aggregates: &[Expr]) -> Result<bool> {
    exists(aggregates, |expr| matches!(expr, Expr::AggregateFunction(aggregate) if aggregate.params.distinct))
}

/// Numbering rows needs them all.
fn expressions_allowed(node: &LogicalPlan) -> Result<()> {
    let numbering = |expr: &Expr| matches!(expr, Expr::ScalarFunction(function) if function.name() == "monotonically_increasing_id");
    if exists(&node.expressions(), numbering)? {
        return Err(unsupported("Expression(s): monotonically_increasing_id() is not supported with streaming DataFrames/Datasets"));
    }
    Ok(())
}

fn exists(exprs: &[Expr], wanted: impl Fn(&Expr) -> bool) -> Result<bool> {
    let any: DfResult<Vec<bool>> = exprs.iter().map(|expr| expr.exists(|expr| Ok(wanted(expr)))).collect();
    any.map(|any| any.contains(&true)).map_err(from_datafusion)
}

fn is_stateful(node: &LogicalPlan) -> Result<bool> {
    Ok(match node {
        LogicalPlan::Join(join) => is_streaming(&join.left)? && is_streaming(&join.right)?,
        LogicalPlan::Extension(extension) => {
            let any = extension.node.as_any();
            (any.is::<Deduplicate>() || any.is::<SessionWindow>() || any.is::<Arbitrary>()) && is_streaming(node)?
        }
        _ => aggregation(node)?.is_some(),
    })
}

/// Whether an operator below gives rows that change later, or that can be older than the watermark.
fn emits_late_rows_below(node: &LogicalPlan, mode: OutputMode) -> Result<bool> {
    for input in node.inputs() {
        if (mode != OutputMode::Append && !aggregations(input)?.is_empty()) || arbitrary::times_out_by_event_time(input)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn unsupported(what: &str) -> Error {
    Error::invalid(UNSUPPORTED, what)
}
