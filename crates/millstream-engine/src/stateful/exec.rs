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
use datafusion::physical_expr::{Distribution, EquivalenceProperties};
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

/// Makes the operator of an execution that has no past and no future: of a batch query.
pub(crate) type NewOperator = dyn Fn() -> DfResult<Arc<Operator>> + Send + Sync;

/// Where the operator of an execution comes from.
#[derive(Clone)]
pub(crate) enum Binding {
    /// The operator of a streaming query: its state goes on from batch to batch.
    Query(Arc<Operator>),
    /// A new one for each execution, which sees all there is at once.
    Once(Arc<NewOperator>),
}

/// Runs an operator over its inputs, one after the other.
pub(crate) struct StatefulExec {
    label: String,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    binding: Binding,
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
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Both,
            Boundedness::Bounded,
        );
        StatefulExec { label, inputs, binding, properties: Arc::new(properties), sessions: None, aspects: Aspects::new() }
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

    /// A new operator, where executions have one of their own.
    pub(crate) fn unbound(&self) -> Option<DfResult<Arc<Operator>>> {
        match &self.binding {
            Binding::Query(_) => None,
            Binding::Once(new) => Some(new()),
        }
    }

    /// The same node running an operator of a query, over other inputs.
    pub(crate) fn bound(&self, operator: Arc<Operator>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Self {
        StatefulExec {
            label: self.label.clone(),
            inputs,
            binding: Binding::Query(operator),
            properties: self.properties.clone(),
            sessions: self.sessions.clone(),
            aspects: self.aspects.clone(),
        }
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
        InputDistributionRequirements::new(vec![Distribution::SinglePartition; self.inputs.len()])
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
            properties: self.properties.clone(),
            sessions: self.sessions.clone(),
            aspects: self.aspects.clone(),
        }))
    }

    fn with_new_children(self: Arc<Self>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        if partition != 0 {
            return Err(DataFusionError::Internal("StatefulExec has one partition".to_owned()));
        }
        let operator = match &self.binding {
            Binding::Query(operator) => operator.clone(),
            Binding::Once(new) => {
                let operator = new()?;
                operator.begin(super::BEGINNING, 0);
                operator
            }
        };
        let needed = self.inputs.iter().enumerate().filter(|(index, _)| operator.reads(*index));
        let inputs = needed.map(|(index, input)| Ok((index, input.execute(0, context.clone())?))).collect::<DfResult<_>>()?;
        let run = Run { operator, inputs, ready: VecDeque::new(), finished: false };
        let rows = stream::try_unfold(run, |mut run| async move { Ok(run.next().await?.map(|rows| (rows, run))) });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// One execution.
struct Run {
    operator: Arc<Operator>,
    inputs: VecDeque<(usize, SendableRecordBatchStream)>,
    ready: VecDeque<RecordBatch>,
    finished: bool,
}

impl Run {
    async fn next(&mut self) -> DfResult<Option<RecordBatch>> {
        loop {
            if let Some(rows) = self.ready.pop_front() {
                return Ok(Some(rows));
            }
            let mut out = Vec::new();
            if let Some((index, input)) = self.inputs.front_mut() {
                match input.next().await.transpose()? {
                    Some(rows) if rows.num_rows() == 0 => {}
                    Some(rows) => self.operator.push(*index, &rows, &mut out)?,
                    None => drop(self.inputs.pop_front()),
                }
            } else if self.finished {
                return Ok(None);
            } else {
                self.operator.finish(&mut out).await?;
                self.finished = true;
            }
            self.ready.extend(out);
        }
    }
}

/// A plan as a node that runs an operator.
pub(crate) fn as_stateful(plan: &Arc<dyn ExecutionPlan>) -> Option<&StatefulExec> {
    (plan.as_ref() as &dyn Any).downcast_ref::<StatefulExec>()
}
