//! The node that counts the rows that an operator is about to leave out.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arrow::array::{Int64Array, RecordBatch, RecordBatchOptions};
use arrow::compute::min;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExprRef};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PhysicalExpr, PlanProperties,
    ReplaceChildrenOptions, SendableRecordBatchStream,
};
use futures::StreamExt;
use parking_lot::Mutex;

use super::origin::is_originating;
use super::{LateRows, Tallies, runs};
use crate::stateful::logical::Slide;
use crate::stateful::micros;
use crate::stateful::table::instants;

/// When the operator above leaves out a row.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    /// When the watermark has passed this time, or the end of this window.
    Passed(PhysicalExprRef),
    /// When the watermark has passed the ends of all windows that this instant is in.
    Windows(PhysicalExprRef, Slide),
}

impl Rule {
    fn expr(&self) -> &PhysicalExprRef {
        match self {
            Rule::Passed(expr) | Rule::Windows(expr, _) => expr,
        }
    }

    /// The instants (microseconds) below which rows are late, and below which they are late for some of their windows.
    fn bounds(&self, watermark_us: i64) -> (i64, i64) {
        match self {
            Rule::Passed(_) => (watermark_us.saturating_add(1), watermark_us.saturating_add(1)),
            Rule::Windows(_, slide) => {
                let closed = slide.last_closed(watermark_us);
                (slide.begin(closed.saturating_add(1)), slide.end(closed))
            }
        }
    }
}

/// What is counted at the input of one operator.
#[derive(Debug, Default)]
pub(crate) struct LateCounter {
    /// The operator's number.
    pub(crate) operator: usize,
    /// The sources below.
    pub(crate) sources: Vec<usize>,
    /// The names of the columns, as far as they are columns of a source.
    pub(crate) names: Vec<Option<String>>,
    pub(crate) tallies: Tallies,
    /// The watermark of the late filter, milliseconds.
    watermark_ms: AtomicI64,
    /// Where late rows go, if anywhere.
    rows: Mutex<Option<LateRows>>,
}

impl LateCounter {
    pub(crate) fn new(operator: usize, sources: Vec<usize>, names: Vec<Option<String>>) -> Self {
        LateCounter { operator, sources, names, ..LateCounter::default() }
    }

    /// Starts a batch whose late filter has this watermark.
    pub(crate) fn begin(&self, watermark_ms: i64) {
        self.tallies.begin();
        self.watermark_ms.store(watermark_ms, Ordering::Release);
    }

    /// Where late rows of the batch go.
    pub(crate) fn send_rows(&self, rows: Option<LateRows>) {
        *self.rows.lock() = rows;
    }

    fn count(&self, rows: &RecordBatch, rule: &Rule) -> DfResult<()> {
        let times = instants(&rule.expr().evaluate(rows)?.into_array(rows.num_rows())?)?;
        let watermark_ms = self.watermark_ms.load(Ordering::Acquire);
        let (late_below, partly_below) = rule.bounds(micros(watermark_ms));
        if min(&times).is_none_or(|earliest| earliest >= late_below.max(partly_below)) {
            return Ok(());
        }
        for (origin, range) in runs(rows) {
            let part = times.slice(range.start, range.len());
            let below = |bound: i64| part.iter().flatten().filter(|time| *time < bound).count() as u64;
            let (late, partly) = (below(late_below), below(partly_below));
            if late > 0 || partly > 0 {
                self.tallies.count(origin, |tally| {
                    tally.late += late;
                    tally.partly_late += partly.saturating_sub(late);
                });
            }
            if late > 0
                && let Some(to) = self.rows.lock().as_ref()
            {
                to.send(&rows.slice(range.start, range.len()), &part, late_below, origin, self, watermark_ms)?;
            }
        }
        Ok(())
    }
}

/// Passes rows on, without the numbers of their splits, and counts those that are late.
#[derive(Debug)]
pub(crate) struct LateRowsExec {
    input: Arc<dyn ExecutionPlan>,
    rule: Rule,
    counter: Arc<LateCounter>,
    properties: Arc<PlanProperties>,
}

impl LateRowsExec {
    /// A node over rows that may have the number of their split as a last column.
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, rule: Rule, counter: Arc<LateCounter>) -> Self {
        let properties = properties(&input);
        LateRowsExec { input, rule, counter, properties }
    }
}

fn properties(input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
    let schema = input.schema();
    let width = schema.fields().len() - usize::from(is_originating(input));
    let fields: Vec<_> = schema.fields().iter().take(width).cloned().collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let partitioning = input.output_partitioning().clone();
    Arc::new(PlanProperties::new(EquivalenceProperties::new(schema), partitioning, input.pipeline_behavior(), input.boundedness()))
}

fn without_origin(rows: &RecordBatch, schema: &SchemaRef) -> DfResult<RecordBatch> {
    let columns = rows.columns().iter().take(schema.fields().len()).cloned().collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(DataFusionError::from)
}

impl DisplayAs for LateRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = if is_originating(&self.input) { "split" } else { "source" };
        write!(f, "LateRowsExec: by {}, counted by {whose}", self.rule.expr())
    }
}

impl ExecutionPlan for LateRowsExec {
    fn name(&self) -> &'static str {
        "LateRowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        visit(self.rule.expr())
    }

    fn replace_children(
        self: Arc<Self>,
        mut inputs: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        match inputs.pop().filter(|_| inputs.is_empty()) {
            Some(input) => Ok(Arc::new(LateRowsExec::new(input, self.rule.clone(), self.counter.clone()))),
            None => Err(DataFusionError::Internal("LateRowsExec has one child".to_owned())),
        }
    }

    fn with_new_children(self: Arc<Self>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let (rule, counter, schema) = (self.rule.clone(), self.counter.clone(), self.schema());
        let rows = rows.map(move |rows| {
            let rows = rows?;
            counter.count(&rows, &rule)?;
            without_origin(&rows, &schema)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// Rows of which the time is below a bound.
pub(super) fn below(times: &Int64Array, bound: i64) -> arrow::array::BooleanArray {
    times.iter().map(|time| Some(time.is_some_and(|time| time < bound))).collect()
}
