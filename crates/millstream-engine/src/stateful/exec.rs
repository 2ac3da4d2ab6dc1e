//! The node of a physical plan that runs a stateful operator.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExprRef};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, Partitioning, PhysicalExpr,
    PlanProperties, ReplaceChildrenOptions, SendableRecordBatchStream,
};
use futures::{StreamExt, stream};

use super::fingerprint::Aspects;
use super::operator::Operator;
use super::session::Sessions;
use super::table::Placement;

/// Makes an operator with empty state.
pub(crate) type NewOperator = dyn Fn(&Placement) -> DfResult<Arc<Operator>> + Send + Sync;

/// The expressions over each input that say to which task a row goes.
pub(crate) type TaskKeys = Vec<Vec<PhysicalExprRef>>;

/// Where the operator of an execution comes from.
#[derive(Clone)]
pub(crate) enum Binding {
    /// The operator of a streaming query: its state goes on from batch to batch.
    Query(Arc<Operator>),
    /// A new one for each execution, which sees all there is at once.
    Once(Arc<NewOperator>),
}

/// Runs an operator over its inputs, one after the other; each partition is a task of it.
pub(crate) struct StatefulExec {
    label: String,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    binding: Binding,
    /// How rows are split among tasks, `None` where one task must see them all.
    keys: Option<TaskKeys>,
    properties: Arc<PlanProperties>,
    /// What it computes, where that depends on the output mode of a query.
    sessions: Option<Sessions>,
    /// What it is made of, for telling whether a query has changed.
    aspects: Aspects,
}

impl fmt::Debug for StatefulExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatefulExec").field("label", &self.label).field("inputs", &self.inputs).finish_non_exhaustive()
    }
}

impl StatefulExec {
    /// A node over `inputs` whose rows have this schema.
    pub(crate) fn new(label: String, inputs: Vec<Arc<dyn ExecutionPlan>>, binding: Binding, schema: SchemaRef) -> Self {
        let tasks = match &binding {
            Binding::Query(operator) => operator.tasks(),
            Binding::Once(_) => 1,
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(tasks),
            EmissionType::Both,
            Boundedness::Bounded,
        );
        StatefulExec { label, inputs, binding, keys: None, properties: Arc::new(properties), sessions: None, aspects: Aspects::new() }
    }

    /// The same node, whose rows can be split among tasks by the values of these expressions over each input. Rows with equal values are of
    /// one task; there must be at least one expression.
    pub(crate) fn with_keys(self, keys: TaskKeys) -> Self {
        let splits = keys.len() == self.inputs.len() && keys.iter().all(|keys| !keys.is_empty());
        StatefulExec { keys: splits.then_some(keys), ..self }
    }

    /// How its rows can be split among tasks.
    pub(crate) fn keys(&self) -> Option<&TaskKeys> {
        self.keys.as_ref()
    }

    /// The same node, known to aggregate by session.
    pub(crate) fn with_sessions(self, sessions: Sessions) -> Self {
        StatefulExec { sessions: Some(sessions), ..self }
    }

    /// The same node, made of these aspects.
    pub(crate) fn with_aspects(self, aspects: Aspects) -> Self {
        StatefulExec { aspects, ..self }
    }

    /// What it is made of, for telling whether a query has changed.
    pub(crate) fn aspects(&self) -> &Aspects {
        &self.aspects
    }

    /// The aggregation by session that it is, if it is one.
    pub(crate) fn sessions(&self) -> Option<&Sessions> {
        self.sessions.as_ref()
    }

    /// Whether it runs an operator of a query.
    pub(crate) fn is_bound(&self) -> bool {
        matches!(self.binding, Binding::Query(_))
    }

    /// Its operator: the query's, or a new one.
    ///
    /// # Errors
    /// Those of the operator's tables.
    pub(crate) fn operator(&self, placement: &Placement) -> DfResult<Arc<Operator>> {
        match &self.binding {
            Binding::Query(operator) => Ok(operator.clone()),
            Binding::Once(new) => new(placement),
        }
    }

    /// The same node running an operator of a query, over other inputs: as many partitions as the operator has tasks.
    pub(crate) fn bound(&self, operator: Arc<Operator>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Self {
        let node = StatefulExec::new(self.label.clone(), inputs, Binding::Query(operator), self.schema());
        StatefulExec { keys: self.keys.clone(), sessions: self.sessions.clone(), aspects: self.aspects.clone(), ..node }
    }

    /// How many tasks run it.
    fn tasks(&self) -> usize {
        self.properties.output_partitioning().partition_count()
    }
}

impl DisplayAs for StatefulExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

impl ExecutionPlan for StatefulExec {
    fn name(&self) -> &'static str {
        "StatefulExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        // Several tasks have an exchange below them, which gives each its rows.
        let one = if self.tasks() == 1 { Distribution::SinglePartition } else { Distribution::UnspecifiedDistribution };
        InputDistributionRequirements::new(vec![one; self.inputs.len()])
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.inputs.len()]
    }

    fn apply_expressions(&self, _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        inputs: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        if inputs.len() != self.inputs.len() {
            return Err(DataFusionError::Internal(format!("StatefulExec has {} children", self.inputs.len())));
        }
        Ok(Arc::new(StatefulExec {
            label: self.label.clone(),
            inputs,
            binding: self.binding.clone(),
            keys: self.keys.clone(),
            properties: self.properties.clone(),
            sessions: self.sessions.clone(),
            aspects: self.aspects.clone(),
        }))
    }

    fn with_new_children(self: Arc<Self>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let (operator, lasts) = (self.operator(&Placement::alone())?, self.is_bound());
        if !lasts {
            operator.begin(super::BEGINNING, 0);
        }
        let needed = self.inputs.iter().enumerate().filter(|(index, _)| operator.reads(*index));
        let inputs = needed.map(|(index, input)| Ok((index, input.execute(partition, context.clone())?))).collect::<DfResult<_>>()?;
        let work = Work { operator, task: partition, inputs };
        let run = Run { work: Some(work), ready: VecDeque::new(), lasts };
        let rows = stream::try_unfold(run, |mut run| async move { Ok(run.next().await?.map(|rows| (rows, run))) });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// What a task still has to do in one execution.
struct Work {
    operator: Arc<Operator>,
    task: usize,
    /// What was not read to its end yet.
    inputs: VecDeque<(usize, SendableRecordBatchStream)>,
}

impl Work {
    /// Does the next piece. The second part says whether it was the last.
    async fn step(&mut self) -> DfResult<(Vec<RecordBatch>, bool)> {
        let mut out = Vec::new();
        let Some((index, input)) = self.inputs.front_mut() else {
            self.operator.finish(self.task, &mut out).await?;
            return Ok((out, true));
        };
        match input.next().await.transpose()? {
            Some(rows) if rows.num_rows() == 0 => {}
            Some(rows) => self.operator.push(self.task, *index, &rows, &mut out)?,
            None => drop(self.inputs.pop_front()),
        }
        Ok((out, false))
    }

    async fn run_to_end(mut self) -> DfResult<()> {
        while !self.step().await?.1 {}
        Ok(())
    }
}

/// One execution of a task.
struct Run {
    /// `None` once it is done, or has failed.
    work: Option<Work>,
    ready: VecDeque<RecordBatch>,
    /// Whether the operator's state outlives the execution.
    lasts: bool,
}

impl Run {
    async fn next(&mut self) -> DfResult<Option<RecordBatch>> {
        loop {
            if let Some(rows) = self.ready.pop_front() {
                return Ok(Some(rows));
            }
            let Some(work) = &mut self.work else { return Ok(None) };
            match work.step().await {
                Ok((rows, last)) => {
                    self.ready.extend(rows);
                    if last {
                        self.work = None;
                    }
                }
                Err(error) => {
                    self.work = None;
                    return Err(error);
                }
            }
        }
    }
}

/// A plan above may stop taking rows (a limit, a join that has nothing to join with): state must see the rest of them all the same.
impl Drop for Run {
    fn drop(&mut self) {
        if let Some(work) = self.work.take().filter(|_| self.lasts) {
            let operator = work.operator.clone();
            operator.abandon(work.run_to_end());
        }
    }
}

/// A plan as a node that runs an operator.
pub(crate) fn as_stateful(plan: &Arc<dyn ExecutionPlan>) -> Option<&StatefulExec> {
    (plan.as_ref() as &dyn Any).downcast_ref::<StatefulExec>()
}
