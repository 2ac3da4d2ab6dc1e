//! Numbers and counts of rows.

use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, SortExpr, WindowFrame, WindowFunctionDefinition, lit};
use millstream_core::Result;
use millstream_engine::from_datafusion;

/// The number of a row among those of its partition, from 1 on.
pub(super) fn number(partition_by: Vec<Expr>, order_by: Vec<SortExpr>) -> Expr {
    over(WindowFunctionDefinition::WindowUDF(row_number_udwf()), Vec::new(), partition_by, order_by)
}

/// How many rows there are.
pub(super) fn count() -> Expr {
    over(WindowFunctionDefinition::AggregateUDF(count_udaf()), vec![lit(1_i64)], Vec::new(), Vec::new())
}

fn over(fun: WindowFunctionDefinition, args: Vec<Expr>, partition_by: Vec<Expr>, order_by: Vec<SortExpr>) -> Expr {
    let window_frame = WindowFrame::new((!order_by.is_empty()).then_some(true));
    let params = WindowFunctionParams { args, partition_by, order_by, window_frame, filter: None, null_treatment: None, distinct: false };
    Expr::WindowFunction(Box::new(WindowFunction { fun, params }))
}

/// The plan with functions over windows beside its columns, each under its name.
pub(super) fn with_window(plan: LogicalPlan, functions: Vec<Expr>) -> Result<LogicalPlan> {
    LogicalPlanBuilder::from(plan).window(functions).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)
}
