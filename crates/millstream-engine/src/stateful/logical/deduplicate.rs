//! `dropDuplicates`, `distinct` of a frame, and `dropDuplicatesWithinWatermark`.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use datafusion::common::{Column, DFSchemaRef};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use millstream_core::{Error, Result};

use super::watermark::take;
use crate::from_datafusion;

/// Keeps the first row of each key. The schema is that of the input.
///
/// On a stream the keys are remembered: for ever, or until the watermark passes the event time among them; `within_watermark` instead
/// remembers a key until the watermark passes the event time of its first row plus the watermark's delay.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Deduplicate {
    pub(crate) input: LogicalPlan,
    pub(crate) keys: Vec<Expr>,
    pub(crate) within_watermark: bool,
}

impl Deduplicate {
    /// A deduplication of `input` by the columns `keys`.
    ///
    /// # Errors
    /// `UNRESOLVED_COLUMN` when a key is not a column of the input.
    pub fn try_new(input: LogicalPlan, keys: impl IntoIterator<Item = Column>, within_watermark: bool) -> Result<Deduplicate> {
        let keys: Vec<Column> = keys.into_iter().collect();
        for key in &keys {
            input.schema().index_of_column(key).map_err(from_datafusion)?;
        }
        Ok(Deduplicate { input, keys: keys.into_iter().map(Expr::Column).collect(), within_watermark })
    }

    /// The node as a plan.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    /// The positions of the keys in the schema.
    pub(crate) fn key_indices(&self) -> DfResult<Vec<usize>> {
        let index = |key: &Expr| match key {
            Expr::Column(column) => self.input.schema().index_of_column(column),
            other => Err(crate::to_datafusion(Error::internal(format!("the key {other} of a deduplication is not a column")))),
        };
        self.keys.iter().map(index).collect()
    }
}

impl PartialOrd for Deduplicate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.input.partial_cmp(&other.input) {
            Some(Ordering::Equal) => (&self.keys, self.within_watermark).partial_cmp(&(&other.keys, other.within_watermark)),
            order => order,
        }
    }
}

impl UserDefinedLogicalNodeCore for Deduplicate {
    fn name(&self) -> &'static str {
        "Deduplicate"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        self.keys.clone()
    }

    /// A filter above decides what is shown and one below what is remembered: none moves across.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(ToString::to_string).collect();
        write!(f, "Deduplicate: keys=[{}]{}", keys.join(", "), if self.within_watermark { " within watermark" } else { "" })
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> DfResult<Self> {
        let [input] = take(inputs)?;
        Ok(Deduplicate { input, keys: exprs, within_watermark: self.within_watermark })
    }

    /// Besides what the parent reads and the keys, event time is needed to tell which rows are late.
    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let event_time = self.schema().fields().iter().enumerate().filter(|(_, field)| super::event_time_delay(field).is_some());
        let mut needed: Vec<usize> = output_columns.iter().copied().chain(event_time.map(|(index, _)| index)).collect();
        needed.sort_unstable();
        needed.dedup();
        Some(vec![needed])
    }
}
