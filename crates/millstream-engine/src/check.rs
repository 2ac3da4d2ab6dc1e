//! Which plans can run on a stream, decided before anything starts.
//!
//! Rules and conditions: `reference/spark-semantics.md` §1.5, measured on Spark 4.2.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Distinct, JoinType, LogicalPlan};
use millstream_core::sink::OutputMode;
use millstream_core::{Error, Result};

use crate::from_datafusion;
use crate::plan::is_streaming;

/// Spark's condition for most refusals of its checker; they share it and have no SQLSTATE.
const UNSUPPORTED: &str = "_LEGACY_ERROR_TEMP_3102";

/// Checks that a streaming plan can run in this output mode.
///
/// # Errors
/// Kind `Invalid`, with Spark's condition: `STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION`, `NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING`,
/// `_LEGACY_ERROR_TEMP_3102` with Spark's wording for the rest.
pub fn check(plan: &LogicalPlan, mode: OutputMode) -> Result<()> {
    if mode == OutputMode::Complete && !has_streaming_aggregation(plan)? {
        return Err(output_mode(mode, "no streaming aggregations"));
    }
    plan_allowed(plan, mode)
}

fn plan_allowed(plan: &LogicalPlan, mode: OutputMode) -> Result<()> {
    if !is_streaming(plan)? {
        return Ok(());
    }
    match plan {
        LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(Distinct::On(_)) if mode == OutputMode::Append => {
            return Err(output_mode(mode, "streaming aggregations without a watermark"));
        }
        LogicalPlan::Aggregate(_) => return Err(not_yet("aggregation")),
        LogicalPlan::Distinct(_) => return Err(not_yet("deduplication")),
        LogicalPlan::Sort(_) => {
            return Err(unsupported(
                "Sorting is not supported on streaming DataFrames/Datasets, unless it is on aggregated DataFrame/Dataset in Complete output mode",
            ));
        }
        LogicalPlan::Limit(limit) => {
            let skip = matches!(limit.get_skip_type(), Ok(datafusion::logical_expr::SkipType::Literal(0)));
            return Err(if !skip {
                unsupported("Offset is not supported on streaming DataFrames/Datasets")
            } else if mode == OutputMode::Update {
                unsupported("Limits are not supported on streaming DataFrames/Datasets in Update output mode")
            } else {
                not_yet("limit")
            });
        }
        LogicalPlan::Window(_) => {
            return Err(Error::invalid(
                "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING",
                "window functions over rows are not supported on a stream: group by window(time, width) instead, or use a materialized view",
            )
            .with_sqlstate("42KDE"));
        }
        LogicalPlan::Union(union) => {
            for input in &union.inputs {
                if !is_streaming(input)? {
                    return Err(unsupported("Union between streaming and batch DataFrames/Datasets is not supported"));
                }
            }
        }
        LogicalPlan::Join(join) => join_allowed(is_streaming(&join.left)?, is_streaming(&join.right)?, join.join_type)?,
        LogicalPlan::RecursiveQuery(_) => return Err(unsupported("recursive queries are not supported on streaming DataFrames/Datasets")),
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::TableScan(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::Subquery(_) => {}
        other => {
            return Err(Error::invalid(
                "UNSUPPORTED_STREAMING_OPERATOR",
                format!("the operator '{}' cannot run on a stream", other.display()),
            ));
        }
    }
    for input in plan.inputs() {
        plan_allowed(input, mode)?;
    }
    Ok(())
}

fn join_allowed(left: bool, right: bool, kind: JoinType) -> Result<()> {
    if left && right {
        return Err(not_yet("stream-stream join"));
    }
    let allowed = match kind {
        JoinType::Inner => true,
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => left,
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => right,
        JoinType::Full => false,
    };
    if allowed {
        return Ok(());
    }
    let side = if left { "left" } else { "right" };
    Err(unsupported(&format!(
        "{kind} joins with a streaming DataFrame/Dataset on the {side} and a static one on the other side are not supported"
    )))
}

fn has_streaming_aggregation(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    let mut failed = None;
    plan.apply(|node| {
        if let LogicalPlan::Aggregate(aggregate) = node {
            match is_streaming(&aggregate.input) {
                Ok(streaming) => found |= streaming,
                Err(error) => failed = Some(error),
            }
        }
        Ok(if found || failed.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })
    .map_err(from_datafusion)?;
    failed.map_or(Ok(found), Err)
}

fn unsupported(what: &str) -> Error {
    Error::invalid(UNSUPPORTED, what)
}

fn output_mode(mode: OutputMode, operation: &str) -> Error {
    Error::invalid(
        "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION",
        format!("output mode '{mode}' cannot be used with {operation} on streaming DataFrames/Datasets"),
    )
    .with_sqlstate("42KDE")
}

/// Spark runs these; Millstream does not keep state yet.
fn not_yet(operation: &str) -> Error {
    Error::invalid(
        "UNSUPPORTED_STREAMING_OPERATOR",
        format!("{operation} on a stream needs state, which this version of Millstream does not keep: use a materialized view"),
    )
    .with_sqlstate("0A000")
}
