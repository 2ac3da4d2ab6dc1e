//! The node of the physical plan: each partition aggregates what passes, and adds it to the whole when its rows are through.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result as DfResult;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Accumulator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, RecordBatchStream, SendableRecordBatchStream};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;

/// What is aggregated: a function, and the condition of its `FILTER` clause.
#[derive(Clone, Debug)]
pub(crate) struct Aggregated {
    pub(crate) function: Arc<AggregateFunctionExpr>,
    pub(crate) filter: Option<Arc<dyn PhysicalExpr>>,
}

/// The functions of an observation and what they saw in all partitions since it was last asked.
#[derive(Debug)]
pub(crate) struct Observation {
    pub(crate) name: String,
    pub(crate) aggregates: Vec<Aggregated>,
    /// The metrics over the results of the functions.
    pub(crate) metrics: Vec<(String, Arc<dyn PhysicalExpr>)>,
    /// The columns that the functions give.
    pub(crate) aggregated: SchemaRef,
    whole: Mutex<Option<Vec<Box<dyn Accumulator>>>>,
}

impl Observation {
    pub(crate) fn new(
        name: String,
        aggregates: Vec<Aggregated>,
        metrics: Vec<(String, Arc<dyn PhysicalExpr>)>,
        aggregated: SchemaRef,
    ) -> Self {
        Observation { name, aggregates, metrics, aggregated, whole: Mutex::new(None) }
    }

    fn empty(&self) -> DfResult<Vec<Box<dyn Accumulator>>> {
        self.aggregates.iter().map(|aggregate| aggregate.function.create_accumulator()).collect()
    }

    /// What was seen, which is then forgotten.
    pub(crate) fn take(&self) -> DfResult<Vec<Box<dyn Accumulator>>> {
        match self.whole.lock().take() {
            Some(whole) => Ok(whole),
            None => self.empty(),
        }
    }

    fn update(&self, accumulators: &mut [Box<dyn Accumulator>], batch: &RecordBatch) -> DfResult<()> {
        for (aggregate, accumulator) in self.aggregates.iter().zip(accumulators) {
            let filtered = match &aggregate.filter {
                Some(filter) => {
                    let kept = filter.evaluate(batch)?.into_array(batch.num_rows())?;
                    let kept = kept.as_boolean_opt().ok_or_else(|| DataFusionError::Internal("a filter is a condition".to_owned()))?;
                    filter_record_batch(batch, kept)?
                }
                None => batch.clone(),
            };
            let rows = filtered.num_rows();
            let arguments = aggregate.function.expressions();
            let values = arguments.iter().map(|argument| argument.evaluate(&filtered)?.into_array(rows)).collect::<DfResult<Vec<_>>>()?;
            accumulator.update_batch(&values)?;
        }
        Ok(())
    }

    fn add(&self, part: Vec<Box<dyn Accumulator>>) -> DfResult<()> {
        let mut whole = self.whole.lock();
        let Some(whole) = whole.as_mut() else {
            *whole = Some(part);
            return Ok(());
        };
        for (whole, mut part) in whole.iter_mut().zip(part) {
            let state = part.state()?.into_iter().map(|value| value.to_array()).collect::<DfResult<Vec<_>>>()?;
            whole.merge_batch(&state)?;
        }
        Ok(())
    }
}

/// Lets the rows of its input pass, and observes them.
#[derive(Debug)]
pub(crate) struct ObserveExec {
    input: Arc<dyn ExecutionPlan>,
    pub(crate) observation: Arc<Observation>,
}

impl ObserveExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, observation: Arc<Observation>) -> Self {
        ObserveExec { input, observation }
    }
}

impl DisplayAs for ObserveExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObserveExec: {}", self.observation.name)
    }
}

impl ExecutionPlan for ObserveExec {
    fn name(&self) -> &'static str {
        "ObserveExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        for aggregate in &self.observation.aggregates {
            for expr in aggregate.function.expressions().iter().chain(&aggregate.filter) {
                if visit(expr)? == TreeNodeRecursion::Stop {
                    return Ok(TreeNodeRecursion::Stop);
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) if children.is_empty() => Ok(Arc::new(ObserveExec { input, observation: self.observation.clone() })),
            _ => Err(DataFusionError::Internal("ObserveExec has one child".to_owned())),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let part = self.observation.empty()?;
        Ok(Box::pin(Observing { rows, observation: self.observation.clone(), part: Some(part) }))
    }
}

/// The rows of a partition as they pass.
struct Observing {
    rows: SendableRecordBatchStream,
    observation: Arc<Observation>,
    /// `None` once added to the whole.
    part: Option<Vec<Box<dyn Accumulator>>>,
}

impl Observing {
    fn finish(&mut self) -> DfResult<()> {
        self.part.take().map_or(Ok(()), |part| self.observation.add(part))
    }
}

impl Stream for Observing {
    type Item = DfResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.rows.poll_next_unpin(context);
        let this = &mut *self;
        match next {
            Poll::Ready(Some(Ok(batch))) => {
                let seen = this.part.as_mut().map_or(Ok(()), |part| this.observation.update(part, &batch));
                Poll::Ready(Some(seen.map(|()| batch)))
            }
            Poll::Ready(None) => match this.finish() {
                Ok(()) => Poll::Ready(None),
                Err(error) => Poll::Ready(Some(Err(error))),
            },
            other => other,
        }
    }
}

/// A limit above may stop reading early; what passed until then was seen.
impl Drop for Observing {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            tracing::warn!(observation = self.observation.name, %error, "what was observed last is lost");
        }
    }
}

impl RecordBatchStream for Observing {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}
