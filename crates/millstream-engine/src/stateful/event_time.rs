//! The node that watches event time go by, and what it saw.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arrow::array::{Array, Int64Array, RecordBatch};
use arrow::compute::{max, min};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PhysicalExpr, PlanProperties,
    ReplaceChildrenOptions, SendableRecordBatchStream,
};
use futures::StreamExt;
use parking_lot::Mutex;

use super::lateness::{Tallies, tally};
use super::logical::marked;
use super::table::instants;

/// The event times that one watermark node saw in a batch, milliseconds since the epoch. Rows without event time count as 1970, as in
/// Spark.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) rows: u64,
    pub(crate) min_ms: i64,
    pub(crate) max_ms: i64,
    sum_ms: i128,
}

impl Seen {
    /// The average, cut off.
    pub(crate) fn avg_ms(&self) -> i64 {
        if self.rows == 0 { 0 } else { i64::try_from(self.sum_ms / i128::from(self.rows)).unwrap_or(0) }
    }

    fn add(&mut self, micros: &Int64Array) {
        let (Some(rows), nulls) = (u64::try_from(micros.len()).ok().filter(|rows| *rows > 0), micros.null_count()) else { return };
        let epoch = (nulls > 0).then_some(0);
        let least = min(micros).map(to_ms).into_iter().chain(epoch).min().unwrap_or(0);
        let most = max(micros).map(to_ms).into_iter().chain(epoch).max().unwrap_or(0);
        let sum: i128 = match nulls {
            0 => micros.values().iter().map(|instant| i128::from(to_ms(*instant))).sum(),
            _ => micros.iter().flatten().map(|instant| i128::from(to_ms(instant))).sum(),
        };
        if self.rows == 0 {
            (self.min_ms, self.max_ms) = (least, most);
        } else {
            (self.min_ms, self.max_ms) = (self.min_ms.min(least), self.max_ms.max(most));
        }
        self.rows += rows;
        self.sum_ms += sum;
    }

    fn merge(&mut self, other: Seen) {
        if other.rows == 0 {
            return;
        }
        if self.rows == 0 {
            *self = other;
            return;
        }
        self.rows += other.rows;
        self.min_ms = self.min_ms.min(other.min_ms);
        self.max_ms = self.max_ms.max(other.max_ms);
        self.sum_ms += other.sum_ms;
    }
}

fn to_ms(micros: i64) -> i64 {
    micros.div_euclid(1_000)
}

/// What a watermark node is to its query.
#[derive(Debug, Default)]
pub(crate) struct EventTime {
    pub(crate) delay_ms: i64,
    /// What the column is.
    pub(crate) column: String,
    /// The sources below.
    pub(crate) sources: Vec<usize>,
    /// How far behind rows were, by split.
    pub(crate) behind: Tallies,
    /// The newest event time that the late filter knows, milliseconds.
    newest_ms: AtomicI64,
    seen: Mutex<Seen>,
}

impl EventTime {
    pub(crate) fn new(delay_ms: i64, column: String, sources: Vec<usize>) -> Self {
        EventTime { delay_ms, column, sources, ..EventTime::default() }
    }

    /// Starts a batch whose late filter has this watermark, milliseconds.
    pub(crate) fn begin(&self, late_ms: i64) {
        *self.seen.lock() = Seen::default();
        self.behind.begin();
        // Before time has passed for the first time, nothing is behind.
        let newest_ms = if late_ms > 0 { late_ms.saturating_add(self.delay_ms) } else { i64::MIN };
        self.newest_ms.store(newest_ms, Ordering::Release);
    }

    /// What the batch saw so far.
    pub(crate) fn seen(&self) -> Seen {
        *self.seen.lock()
    }
}

/// Passes rows on and looks at their event time.
#[derive(Debug)]
pub(crate) struct EventTimeExec {
    input: Arc<dyn ExecutionPlan>,
    column: usize,
    delay_ms: i64,
    /// `None` in a batch query, where time does not pass.
    watched: Option<Arc<EventTime>>,
    properties: Arc<PlanProperties>,
}

impl EventTimeExec {
    /// A node that watches the column at this index.
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, column: usize, delay_ms: i64) -> Self {
        let properties = Self::properties_over(&input, column, delay_ms);
        EventTimeExec { input, column, delay_ms, watched: None, properties }
    }

    fn properties_over(input: &Arc<dyn ExecutionPlan>, column: usize, delay_ms: i64) -> Arc<PlanProperties> {
        let schema = marked_schema(&input.schema(), column, delay_ms);
        Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        ))
    }

    /// The same node over another input, telling a query what it sees.
    pub(crate) fn bound(&self, input: Arc<dyn ExecutionPlan>, watched: Arc<EventTime>) -> Self {
        let properties = Self::properties_over(&input, self.column, self.delay_ms);
        EventTimeExec { input, watched: Some(watched), properties, column: self.column, delay_ms: self.delay_ms }
    }

    pub(crate) fn delay_ms(&self) -> i64 {
        self.delay_ms
    }

    /// The column that it watches.
    pub(crate) fn column(&self) -> usize {
        self.column
    }
}

/// The schema with the delay on one column and on no other.
fn marked_schema(schema: &Schema, column: usize, delay_ms: i64) -> SchemaRef {
    let fields = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(index, field)| if index == column { Arc::new(marked(field, Some(delay_ms))) } else { Arc::new(marked(field, None)) });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

impl DisplayAs for EventTimeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.schema().fields().get(self.column).map(|field| field.name().clone()).unwrap_or_default();
        write!(f, "EventTimeExec: {name} delay={} ms", self.delay_ms)
    }
}

impl ExecutionPlan for EventTimeExec {
    fn name(&self) -> &'static str {
        "EventTimeExec"
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

    fn apply_expressions(&self, _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut inputs: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let Some(input) = inputs.pop().filter(|_| inputs.is_empty()) else {
            return Err(DataFusionError::Internal("EventTimeExec has one child".to_owned()));
        };
        let properties = Self::properties_over(&input, self.column, self.delay_ms);
        Ok(Arc::new(EventTimeExec { input, properties, column: self.column, delay_ms: self.delay_ms, watched: self.watched.clone() }))
    }

    fn with_new_children(self: Arc<Self>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let (column, watched, schema) = (self.column, self.watched.clone(), self.schema());
        let rows = rows.map(move |rows| {
            let rows = rows?;
            if let (Some(watched), Some(times)) = (&watched, rows.columns().get(column)) {
                let (mut seen, times) = (Seen::default(), instants(times)?);
                seen.add(&times);
                watched.seen.lock().merge(seen);
                tally(&rows, &times, watched.newest_ms.load(Ordering::Acquire), &watched.behind);
            }
            let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
            RecordBatch::try_new_with_options(schema.clone(), rows.columns().to_vec(), &options).map_err(DataFusionError::from)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// A plan as a node that watches event time.
pub(crate) fn as_event_time(plan: &Arc<dyn ExecutionPlan>) -> Option<&EventTimeExec> {
    (plan.as_ref() as &dyn Any).downcast_ref::<EventTimeExec>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_event_time_count_as_1970() {
        for (batches, expected) in [
            (vec![vec![Some(5_999)]], (1, 5, 5, 5)),
            (vec![vec![Some(5_000), None], vec![Some(10_000)]], (3, 0, 10, 5)),
            (vec![vec![None]], (1, 0, 0, 0)),
            (vec![vec![Some(-1)], vec![]], (1, -1, -1, -1)),
        ] {
            let mut seen = Seen::default();
            for batch in batches {
                let mut part = Seen::default();
                part.add(&Int64Array::from(batch));
                seen.merge(part);
            }
            assert_eq!((seen.rows, seen.min_ms, seen.max_ms, seen.avg_ms()), expected);
        }
    }
}
