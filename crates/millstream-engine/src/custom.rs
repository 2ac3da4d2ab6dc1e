//! Logical nodes of other crates: each says itself how it runs.

use std::cmp::Ordering;
use std::fmt::{self, Debug};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::DFSchemaRef;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};

/// How a node of a plan runs.
pub trait Lower: Debug + Send + Sync {
    /// What `EXPLAIN` shows.
    fn label(&self) -> String;

    /// The plan over planned inputs, given the node's expressions over the first of them.
    ///
    /// # Errors
    /// Those of DataFusion.
    fn lower(&self, inputs: Vec<Arc<dyn ExecutionPlan>>, exprs: Vec<Arc<dyn PhysicalExpr>>) -> DfResult<Arc<dyn ExecutionPlan>>;
}

/// A node whose rows come from code outside of the engine, such as functions of users. All columns of its inputs are needed, and nothing is
/// moved through it.
#[derive(Clone, Debug)]
pub struct Custom {
    inputs: Vec<LogicalPlan>,
    exprs: Vec<Expr>,
    schema: DFSchemaRef,
    lower: Arc<dyn Lower>,
}

impl Custom {
    /// A node over `inputs` with columns of `schema`; `exprs` are over the first input.
    pub fn new(inputs: Vec<LogicalPlan>, exprs: Vec<Expr>, schema: DFSchemaRef, lower: Arc<dyn Lower>) -> Custom {
        Custom { inputs, exprs, schema, lower }
    }

    /// The node as a plan.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    pub(crate) fn lower(&self, inputs: &[Arc<dyn ExecutionPlan>], exprs: Vec<Arc<dyn PhysicalExpr>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.lower.lower(inputs.to_vec(), exprs)
    }

    pub(crate) fn exprs(&self) -> &[Expr] {
        &self.exprs
    }

    /// The first input's schema, over which the expressions are.
    pub(crate) fn input_schema(&self) -> DfResult<&DFSchemaRef> {
        self.inputs.first().map(LogicalPlan::schema).ok_or_else(|| DataFusionError::Internal("a custom node has no input".to_owned()))
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.lower, &other.lower) && self.exprs == other.exprs && self.inputs == other.inputs
    }
}

impl Eq for Custom {}

impl Hash for Custom {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (Arc::as_ptr(&self.lower).cast::<()>() as usize, &self.exprs, &self.inputs).hash(state);
    }
}

impl PartialOrd for Custom {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.inputs.partial_cmp(&other.inputs) {
            Some(Ordering::Equal) => self.exprs.partial_cmp(&other.exprs),
            order => order,
        }
    }
}

impl UserDefinedLogicalNodeCore for Custom {
    fn name(&self) -> &'static str {
        "Custom"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        self.inputs.iter().collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.exprs.clone()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.lower.label())
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> DfResult<Self> {
        Ok(Custom { inputs, exprs, ..self.clone() })
    }
}
