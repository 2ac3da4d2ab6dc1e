//! What `EXCEPT ALL` of a stream counts.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use datafusion::common::DFSchemaRef;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, Union, UserDefinedLogicalNodeCore};
use millstream_core::Result;

use super::watermark::take;
use crate::from_datafusion;

/// The rows of both sides of an `EXCEPT ALL`, those of the left before those of the right, on their way to the aggregation that adds them up.
///
/// To whoever checks plans this node and the aggregation right above it are one operator, which may have a table on its right. It is a union
/// in all else, and becomes one before it is optimised.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExceptAllRows {
    pub(crate) union: Union,
}

impl ExceptAllRows {
    /// The rows of two sides that have the same columns.
    ///
    /// # Errors
    /// When their columns differ.
    pub fn try_new(left: LogicalPlan, right: LogicalPlan) -> Result<ExceptAllRows> {
        Ok(ExceptAllRows { union: Union::try_new(vec![Arc::new(left), Arc::new(right)]).map_err(from_datafusion)? })
    }

    /// The node as a plan.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }
}

impl PartialOrd for ExceptAllRows {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.union.inputs.partial_cmp(&other.union.inputs)
    }
}

impl UserDefinedLogicalNodeCore for ExceptAllRows {
    fn name(&self) -> &'static str {
        "ExceptAllRows"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        self.union.inputs.iter().map(AsRef::as_ref).collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.union.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("ExceptAllRows")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> DfResult<Self> {
        let inputs: [LogicalPlan; 2] = take(inputs)?;
        Ok(ExceptAllRows { union: Union::try_new(inputs.into_iter().map(Arc::new).collect())? })
    }
}
