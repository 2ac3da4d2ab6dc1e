//! Aggregation by `session_window`.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::utils::exprlist_to_fields;
use datafusion::logical_expr::{Expr, ExprSchemable, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use millstream_core::Result;

use super::WATERMARK_DELAY;
use super::watermark::take;
use crate::from_datafusion;

/// Groups rows by keys and sessions: each row opens `[start, end)`, and the rows of a key whose sessions overlap or touch are one group.
/// Rows whose start or end is null, or whose end is not after their start, belong to none.
///
/// The columns are those of the keys, then the session as a struct `{start, end}`, then the aggregates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionWindow {
    pub(crate) input: LogicalPlan,
    pub(crate) keys: Vec<Expr>,
    /// The event time of a row.
    pub(crate) start: Expr,
    /// The event time plus the gap.
    pub(crate) end: Expr,
    /// The name of the session's column.
    pub(crate) window: String,
    pub(crate) aggregates: Vec<Expr>,
    schema: DFSchemaRef,
}

impl SessionWindow {
    /// Groups `input` by `keys` and sessions.
    ///
    /// `start` is the row's event time and `end` the same plus its gap, both timestamps of one type; `window` names the session's column.
    /// Keys and aggregates may be aliased.
    ///
    /// # Errors
    /// Those of resolving the expressions against the input.
    pub fn try_new(
        input: LogicalPlan,
        keys: Vec<Expr>,
        start: Expr,
        end: Expr,
        window: impl Into<String>,
        aggregates: Vec<Expr>,
    ) -> Result<SessionWindow> {
        Self::over(input, keys, start, end, window.into(), aggregates).map_err(from_datafusion)
    }

    /// The node as a plan.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    pub(crate) fn schema_ref(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn over(input: LogicalPlan, keys: Vec<Expr>, start: Expr, end: Expr, window: String, aggregates: Vec<Expr>) -> DfResult<SessionWindow> {
        let time = start.to_field(input.schema())?.1;
        let mut fields = exprlist_to_fields(&keys, &input)?;
        fields.push((None, Arc::new(session_field(&window, &time))));
        fields.extend(exprlist_to_fields(&aggregates, &input)?);
        let schema = Arc::new(DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?);
        Ok(SessionWindow { input, keys, start, end, window, aggregates, schema })
    }
}

/// The column of a session over event time of this field.
fn session_field(name: &str, time: &Field) -> Field {
    let bound = |name: &str| Field::new(name, time.data_type().clone(), true);
    let delay = time.metadata().get_key_value(WATERMARK_DELAY).map(|(key, delay)| (key.clone(), delay.clone()));
    let metadata: HashMap<String, String> = delay.into_iter().chain([("spark.sessionWindow".to_owned(), "true".to_owned())]).collect();
    Field::new(name, DataType::Struct(Fields::from(vec![bound("start"), bound("end")])), false).with_metadata(metadata)
}

impl PartialOrd for SessionWindow {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.input.partial_cmp(&other.input) {
            Some(Ordering::Equal) => self.expressions().partial_cmp(&other.expressions()),
            order => order,
        }
    }
}

impl UserDefinedLogicalNodeCore for SessionWindow {
    fn name(&self) -> &'static str {
        "SessionWindow"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let bounds = [self.start.clone(), self.end.clone()];
        bounds.into_iter().chain(self.keys.iter().cloned()).chain(self.aggregates.iter().cloned()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let list = |exprs: &[Expr]| exprs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        write!(
            f,
            "SessionWindow: keys=[{}], session=[{}, {}) AS {}, aggr=[{}]",
            list(&self.keys),
            self.start,
            self.end,
            self.window,
            list(&self.aggregates)
        )
    }

    fn with_exprs_and_inputs(&self, mut exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> DfResult<Self> {
        let [input] = take(inputs)?;
        let aggregates = exprs.split_off((2 + self.keys.len()).min(exprs.len()));
        let keys = exprs.split_off(2.min(exprs.len()));
        let [start, end] = take(exprs)?;
        Self::over(input, keys, start, end, self.window.clone(), aggregates)
    }

    fn necessary_children_exprs(&self, _: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![vec![]])
    }
}
