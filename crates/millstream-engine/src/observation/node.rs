//! The logical node.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use datafusion::common::{Column, DFSchema, DFSchemaRef, DataFusionError};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::utils::exprlist_to_fields;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use millstream_core::Result;

use crate::from_datafusion;

/// Lets rows pass and computes aggregates over them. The schema is that of the input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Observe {
    pub(crate) input: LogicalPlan,
    pub(crate) name: String,
    pub(crate) aggregates: Vec<Expr>,
    pub(crate) metrics: Vec<Expr>,
    /// The columns that the aggregates give.
    pub(crate) aggregated: DFSchemaRef,
}

impl Observe {
    /// An observation called `name`. `aggregates` are aliased aggregate functions over the input, `metrics` aliased expressions over the
    /// aliases.
    ///
    /// # Errors
    /// Those of resolving the aggregates against the input.
    pub fn try_new(input: LogicalPlan, name: impl Into<String>, aggregates: Vec<Expr>, metrics: Vec<Expr>) -> Result<Observe> {
        Self::over(input, name.into(), aggregates, metrics).map_err(from_datafusion)
    }

    /// The node as a plan.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    /// The name of the observation.
    pub fn observation(&self) -> &str {
        &self.name
    }

    fn over(input: LogicalPlan, name: String, aggregates: Vec<Expr>, metrics: Vec<Expr>) -> DfResult<Observe> {
        let fields = exprlist_to_fields(&aggregates, &input)?;
        let aggregated = Arc::new(DFSchema::new_with_metadata(fields, Default::default())?);
        Ok(Observe { input, name, aggregates, metrics, aggregated })
    }
}

impl PartialOrd for Observe {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let keys = |node: &Self| (node.name.clone(), node.aggregates.clone(), node.metrics.clone());
        match self.input.partial_cmp(&other.input) {
            Some(Ordering::Equal) => keys(self).partial_cmp(&keys(other)),
            order => order,
        }
    }
}

impl UserDefinedLogicalNodeCore for Observe {
    fn name(&self) -> &'static str {
        "Observe"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        self.aggregates.clone()
    }

    /// What is observed are the rows at this place: no filter moves across.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let aggregates: Vec<String> = self.aggregates.iter().map(ToString::to_string).collect();
        write!(f, "Observe: {} [{}]", self.name, aggregates.join(", "))
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> DfResult<Self> {
        match (inputs.pop(), inputs.is_empty()) {
            (Some(input), true) => Self::over(input, self.name.clone(), exprs, self.metrics.clone()),
            _ => Err(DataFusionError::Internal("an observation has one input".to_owned())),
        }
    }

    /// Besides what the parent reads, the columns of the aggregates.
    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let mut columns: HashSet<&Column> = HashSet::new();
        for aggregate in &self.aggregates {
            aggregate.add_column_refs(&mut columns);
        }
        let of_aggregates = columns.into_iter().filter_map(|column| self.schema().maybe_index_of_column(column));
        let mut needed: Vec<usize> = output_columns.iter().copied().chain(of_aggregates).collect();
        needed.sort_unstable();
        needed.dedup();
        Some(vec![needed])
    }
}
