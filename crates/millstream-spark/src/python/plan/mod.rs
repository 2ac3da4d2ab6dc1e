//! Functions of users in plans.
//!
//! While a plan is analyzed, calls stand inside of expressions ([`call`]). After the optimizer has moved filters and columns, they are taken
//! out ([`extract`]): nodes below compute them, all calls of one kind in one conversation with a worker, and the expressions use the columns
//! of their results. Functions from frames to frames are such nodes from the beginning.
//!
//! A node is a [`Program`]: what runs in each task of the plan, from the rows of its inputs to its own. Programs talk to workers in tasks of
//! their own and hold no thread while they wait.

mod aggregate;
mod call;
mod chunks;
mod cogroup;
mod evaluate;
mod extract;
mod frames;
mod groups;
mod replies;
mod sorted;
mod table;
mod window;

use std::fmt::{self, Debug};
use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::OptimizerRule;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements,
    Partitioning, PhysicalExpr, PlanProperties, ReplaceChildrenOptions, SendableRecordBatchStream,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use millstream_core::Result;
use millstream_engine::custom::{Custom, Lower};
use millstream_engine::{from_datafusion, to_datafusion};

pub(crate) use call::{call, is_call};
pub(crate) use cogroup::{CoGroup, cogroup};
pub(crate) use frames::map;
pub(crate) use groups::{Group, group};
pub(crate) use replies::batch;
pub(crate) use table::{Spread, TableCall, table};

/// The rule that takes calls out of expressions. It comes after the rules that move filters and columns.
pub(crate) fn extract() -> Arc<dyn OptimizerRule + Send + Sync> {
    Arc::new(extract::ExtractPython)
}

/// The rows of a task.
type Rows = BoxStream<'static, Result<arrow::array::RecordBatch>>;

/// What runs in each task of a node.
trait Program: Debug + Send + Sync + 'static {
    /// What `EXPLAIN` shows.
    fn label(&self) -> String;

    /// How the rows of its inputs come to its tasks.
    fn layout(&self) -> Layout;

    /// The schema of its rows, which are those of the plan.
    fn schema(&self) -> &SchemaRef;

    /// Begins a task over the rows of each input.
    fn run(self: Arc<Self>, inputs: Vec<SendableRecordBatchStream>, place: Place) -> Rows;
}

/// A task of a node.
struct Place {
    partition: usize,
    context: Arc<TaskContext>,
}

/// How rows come to the tasks of a node.
#[derive(Clone, Debug)]
enum Layout {
    /// As they are in its only input, whose columns its own begin with if `keeps_columns`.
    AsTheyAre {
        /// Whether the columns of the input come first in its own, so that what is known of them still holds.
        keeps_columns: bool,
    },
    /// All rows of one group in one task, one group after the other; for each input its columns.
    Grouped(Vec<Grouping>),
}

/// By what the rows of an input are grouped, by names of columns.
#[derive(Clone, Debug, Default)]
struct Grouping {
    /// Columns that are the same in a group, in order and nulls first.
    keys: Vec<String>,
    /// The order within a group.
    order: Vec<(String, SortOptions)>,
}

/// The order of the keys of groups.
const BY_KEY: SortOptions = SortOptions { descending: false, nulls_first: true };

/// A plan that runs a program over inputs; its columns are those of the program.
fn node(inputs: Vec<LogicalPlan>, schema: DFSchemaRef, program: Arc<dyn Program>) -> LogicalPlan {
    Custom::new(inputs, Vec::new(), schema, Arc::new(Planned(program))).into_plan()
}

/// The same where the columns have no qualifiers.
fn plain_node(inputs: Vec<LogicalPlan>, program: Arc<dyn Program>) -> Result<LogicalPlan> {
    let schema = DFSchema::try_from(program.schema().as_ref().clone()).map_err(from_datafusion)?;
    Ok(node(inputs, Arc::new(schema), program))
}

#[derive(Debug)]
struct Planned(Arc<dyn Program>);

impl Lower for Planned {
    fn label(&self) -> String {
        self.0.label()
    }

    fn lower(&self, inputs: Vec<Arc<dyn ExecutionPlan>>, _: Vec<Arc<dyn PhysicalExpr>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(PythonExec::try_new(self.0.clone(), inputs)?))
    }
}

/// The node of a physical plan that runs a program.
struct PythonExec {
    program: Arc<dyn Program>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    distribution: InputDistributionRequirements,
    ordering: Vec<Option<OrderingRequirements>>,
    keeps_order: bool,
    properties: Arc<PlanProperties>,
}

impl Debug for PythonExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PythonExec").field("program", &self.program).field("inputs", &self.inputs).finish_non_exhaustive()
    }
}

impl PythonExec {
    fn try_new(program: Arc<dyn Program>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Self> {
        let schema = program.schema().clone();
        let mut equivalence = EquivalenceProperties::new(schema);
        let (distribution, ordering, partitioning, keeps_order) = match program.layout() {
            Layout::AsTheyAre { keeps_columns } => {
                let input = inputs.first().ok_or_else(|| DataFusionError::Internal("a Python function has no input".to_owned()))?;
                let mut partitioning = Partitioning::UnknownPartitioning(input.output_partitioning().partition_count());
                if keeps_columns {
                    partitioning = input.output_partitioning().clone();
                    equivalence.add_orderings(input.output_ordering().cloned());
                }
                (InputDistributionRequirements::new(vec![Distribution::UnspecifiedDistribution]), vec![None], partitioning, true)
            }
            Layout::Grouped(groupings) => {
                let mut spread = Vec::new();
                let mut ordering = Vec::new();
                for (grouping, input) in groupings.iter().zip(&inputs) {
                    let (distribution, order) = grouping.required(&input.schema())?;
                    spread.push(distribution);
                    ordering.push(order.map(OrderingRequirements::from));
                }
                let partitions = match (spread.first(), inputs.first()) {
                    (Some(Distribution::KeyPartitioned(_)), Some(input)) => input.output_partitioning().partition_count(),
                    _ => 1,
                };
                let distribution = match spread.as_slice() {
                    [Distribution::KeyPartitioned(_), _, ..] => InputDistributionRequirements::co_partitioned(spread),
                    _ => InputDistributionRequirements::new(spread),
                };
                (distribution, ordering, Partitioning::UnknownPartitioning(partitions), false)
            }
        };
        let properties = PlanProperties::new(equivalence, partitioning, EmissionType::Incremental, Boundedness::Bounded);
        Ok(PythonExec { program, inputs, distribution, ordering, keeps_order, properties: Arc::new(properties) })
    }
}

impl Grouping {
    fn required(&self, schema: &Schema) -> DfResult<(Distribution, Option<LexOrdering>)> {
        let column = |name: &String| -> DfResult<Arc<dyn PhysicalExpr>> { Ok(Arc::new(Column::new(name, schema.index_of(name)?))) };
        let keys = self.keys.iter().map(column).collect::<DfResult<Vec<_>>>()?;
        let mut order: Vec<PhysicalSortExpr> = keys.iter().map(|key| PhysicalSortExpr::new(key.clone(), BY_KEY)).collect();
        for (name, options) in &self.order {
            order.push(PhysicalSortExpr::new(column(name)?, *options));
        }
        let distribution = if keys.is_empty() { Distribution::SinglePartition } else { Distribution::KeyPartitioned(keys) };
        Ok((distribution, LexOrdering::new(order)))
    }
}

impl DisplayAs for PythonExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.program.label())
    }
}

impl ExecutionPlan for PythonExec {
    fn name(&self) -> &'static str {
        "PythonExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.distribution.clone()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.ordering.clone()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.keeps_order; self.inputs.len()]
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
        Ok(Arc::new(PythonExec::try_new(self.program.clone(), inputs)?))
    }

    fn with_new_children(self: Arc<Self>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let inputs = self.inputs.iter().map(|input| input.execute(partition, context.clone())).collect::<DfResult<Vec<_>>>()?;
        let rows = self.program.clone().run(inputs, Place { partition, context }).map(|rows| rows.map_err(to_datafusion));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

#[cfg(test)]
mod tests;
