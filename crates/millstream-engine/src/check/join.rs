//! Which joins can run on a stream.

use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Operator, build_join_schema};
use datafusion::physical_expr::create_physical_expr;
use millstream_core::Result;
use millstream_core::sink::OutputMode;

use super::unsupported;
use crate::plan::is_streaming;
use crate::stateful::{event_time_delay, join_is_bounded, parts};

pub(super) fn allowed(join: &Join, mode: OutputMode) -> Result<()> {
    let (left, right) = (is_streaming(&join.left)?, is_streaming(&join.right)?);
    if left && right {
        return both(join, mode);
    }
    let allowed = match join.join_type {
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
        "{} join with a streaming DataFrame/Dataset on the {side} and a static DataFrame/Dataset on the other side is not supported",
        join.join_type
    )))
}

fn both(join: &Join, mode: OutputMode) -> Result<()> {
    let kind = join.join_type;
    if mode == OutputMode::Complete {
        return Err(unsupported(
            "Join between two streaming DataFrames/Datasets is not supported in Complete output mode, only in Append and Update output mode",
        ));
    }
    match kind {
        JoinType::Inner => return Ok(()),
        JoinType::Left | JoinType::Right | JoinType::Full if mode == OutputMode::Update => {
            return Err(unsupported(&format!(
                "{kind} join between two streaming DataFrames/Datasets is not supported in Update output mode, only in Append output mode"
            )));
        }
        JoinType::Left | JoinType::Right | JoinType::Full | JoinType::LeftSemi => {}
        _ => return Err(unsupported(&format!("{kind} joins with a streaming DataFrame/Dataset on the right are not supported"))),
    }
    if time_in_keys(join) {
        return Ok(());
    }
    let bounded = match kind {
        JoinType::Right => bounded(join, JoinSide::Right),
        JoinType::Full => bounded(join, JoinSide::Left) || bounded(join, JoinSide::Right),
        _ => bounded(join, JoinSide::Left),
    };
    if bounded {
        return Ok(());
    }
    Err(unsupported(&format!(
        "Stream-stream {kind} join between two streaming DataFrame/Datasets is not supported without a watermark in the join keys, or a \
         watermark on the nullable side and an appropriate range condition"
    )))
}

fn is_time(expr: &Expr, plan: &LogicalPlan) -> bool {
    match expr {
        Expr::Column(column) => {
            let index = plan.schema().maybe_index_of_column(column);
            index.is_some_and(|index| event_time_delay(plan.schema().field(index)).is_some())
        }
        _ => false,
    }
}

/// Whether event time is among the keys.
fn time_in_keys(join: &Join) -> bool {
    let equal = |left: &Expr, right: &Expr| is_time(left, &join.left) || is_time(right, &join.right);
    let of = |expr: &Expr, plan: &LogicalPlan| {
        let columns = expr.column_refs();
        !columns.is_empty() && columns.into_iter().all(|column| plan.schema().maybe_index_of_column(column).is_some())
    };
    let in_filter = join.filter.iter().flat_map(parts).any(|predicate| match &predicate {
        Expr::BinaryExpr(binary) if binary.op == Operator::Eq => {
            let (a, b) = (binary.left.as_ref(), binary.right.as_ref());
            (of(a, &join.left) && of(b, &join.right) && equal(a, b)) || (of(b, &join.left) && of(a, &join.right) && equal(b, a))
        }
        _ => false,
    });
    in_filter || join.on.iter().any(|(left, right)| equal(left, right))
}

/// Whether the condition bounds the time of rows of `side` by that of the other side.
fn bounded(join: &Join, side: JoinSide) -> bool {
    let Some(filter) = conjunction(join.filter.iter().flat_map(parts)) else { return false };
    let schema = build_join_schema(join.left.schema(), join.right.schema(), &JoinType::Inner).map(Arc::new);
    let Ok(schema) = schema else { return false };
    let condition = create_physical_expr(&filter, &schema, &ExecutionProps::new(), &PhysicalPlanningContext::default());
    condition.is_ok_and(|condition| join_is_bounded(&condition, schema.as_arrow(), join.left.schema().fields().len(), side))
}
