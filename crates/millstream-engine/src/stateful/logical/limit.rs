//! `LIMIT` over a stream.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use datafusion::common::DFSchemaRef;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};

use super::watermark::take;

/// The first rows of a stream over all its batches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) struct StreamLimit {
    pub(crate) input: LogicalPlan,
    pub(crate) limit: u64,
}

impl StreamLimit {
    /// The node as a plan.
    pub(crate) fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }
}

impl UserDefinedLogicalNodeCore for StreamLimit {
    fn name(&self) -> &'static str {
        "StreamLimit"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "StreamLimit: {}", self.limit)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> DfResult<Self> {
        let [input] = take(inputs)?;
        Ok(StreamLimit { input, limit: self.limit })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output_columns.to_vec()])
    }
}
