//! From logical nodes of event time and state to nodes of a physical plan.
//!
//! What comes out here runs a batch query as it is. A streaming query binds it to operators that last ([`super::Bind`]).

use std::any::Any;
use std::sync::Arc;

use arrow::datatypes::Schema;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::error::Result as DfResult;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_expr::aggregate::LoweredAggregateBuilder;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use millstream_core::Error;
use millstream_core::sink::OutputMode;

use super::accumulate::Functions;
use super::arbitrary::{GroupStateCore, Grouping, Processing, ProcessorCore, declared};
use super::bind::reads_stream;
use super::deduplicate::{DeduplicateCore, Deduplication};
use super::event_time::EventTimeExec;
use super::exec::{Binding, NewOperator, StatefulExec};
use super::fingerprint::{self, Aspects};
use super::limit::{self, LimitCore};
use super::lineage;
use super::logical::{Arbitrary, Deduplicate, Program, SessionWindow, SlidingWindow, StreamLimit, Watermark, event_time_delay};
use super::operator::{Operator, making};
use super::session::{SessionCore, Sessions};
use super::sliding::SlidingExec;
use super::table::Placement;
use crate::custom::Custom;
use crate::observe::{self, Observe};
use crate::to_datafusion;

/// DataFusion's planner, which also knows event time and state.
#[derive(Debug)]
pub(crate) struct StatefulPlanner;

#[async_trait]
impl QueryPlanner for StatefulPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> DfResult<Arc<dyn ExecutionPlan>> {
        DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(Nodes)]).create_physical_plan(plan, session).await
    }
}

struct Nodes;

#[async_trait]
impl ExtensionPlanner for Nodes {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
        let node = node.as_any();
        if let Some(custom) = node.downcast_ref::<Custom>() {
            let schema = custom.input_schema()?;
            let exprs = custom.exprs().iter().map(|expr| planner.create_physical_expr(expr, schema, session, context));
            return custom.lower(inputs, exprs.collect::<DfResult<_>>()?).map(Some);
        }
        if let Some(arbitrary) = node.downcast_ref::<Arbitrary>() {
            return program(arbitrary, inputs).await.map(|plan| Some(Arc::new(plan) as Arc<dyn ExecutionPlan>));
        }
        let [input] = inputs else { return Ok(None) };
        let plan: Arc<dyn ExecutionPlan> = if let Some(watermark) = node.downcast_ref::<Watermark>() {
            Arc::new(EventTimeExec::new(input.clone(), watermark.column_index()?, watermark.delay_ms))
        } else if let Some(deduplicate) = node.downcast_ref::<Deduplicate>() {
            Arc::new(deduplication(deduplicate, input)?)
        } else if let Some(limit) = node.downcast_ref::<StreamLimit>() {
            Arc::new(first_rows(limit, input))
        } else if let Some(sliding) = node.downcast_ref::<SlidingWindow>() {
            let time = planner.create_physical_expr(&sliding.time.clone().unalias(), sliding.input.schema(), session, context)?;
            let schema = Arc::new(sliding.schema_ref().as_arrow().clone());
            Arc::new(SlidingExec::new(input.clone(), time, sliding.slide, schema))
        } else if let Some(session_window) = node.downcast_ref::<SessionWindow>() {
            let lowering = Lowering { planner, session, context, schema: session_window.input.schema() };
            Arc::new(lowering.sessions(session_window, input)?)
        } else if let Some(observe) = node.downcast_ref::<Observe>() {
            observe::plan(observe, input, session.execution_props(), context)?
        } else {
            return Ok(None);
        };
        Ok(Some(plan))
    }
}

fn deduplication(node: &Deduplicate, input: &Arc<dyn ExecutionPlan>) -> DfResult<StatefulExec> {
    let keys = node.key_indices()?;
    let names = keys.iter().map(|key| lineage::name(input, *key).unwrap_or_else(|| lineage::column(input, *key))).collect();
    let deduplication = Deduplication { schema: input.schema(), keys, names, within_watermark: node.within_watermark };
    let label = format!("{}: keys={:?}", deduplication.description().name, deduplication.keys);
    let keys = vec![columns_at(&deduplication.schema, &deduplication.keys)];
    let new = move |placement: &Placement| {
        let for_core = deduplication.clone();
        Operator::new(deduplication.description(), making(move |tables| DeduplicateCore::new(for_core.clone(), tables)), placement)
    };
    let aspects = fingerprint::by_keys(input, &node.key_indices()?);
    let exec = StatefulExec::new(label, vec![input.clone()], Binding::Once(Arc::new(new)), input.schema());
    Ok(exec.with_keys(keys).with_aspects(aspects))
}

fn first_rows(node: &StreamLimit, input: &Arc<dyn ExecutionPlan>) -> StatefulExec {
    let count = node.limit;
    let new =
        move |placement: &Placement| Operator::new(limit::description(), making(move |tables| LimitCore::new(count, tables)), placement);
    let aspects = Aspects::from([("limit".to_owned(), count.to_string())]);
    let label = format!("globalLimit: {count}");
    StatefulExec::new(label, vec![input.clone()], Binding::Once(Arc::new(new)), input.schema()).with_aspects(aspects)
}

/// A program that keeps state, over the rows and the initial state.
async fn program(node: &Arbitrary, inputs: &[Arc<dyn ExecutionPlan>]) -> DfResult<StatefulExec> {
    let ([input, ..], [keys, ..]) = (inputs, node.keys.as_slice()) else {
        return Err(to_datafusion(Error::internal("a program that keeps state has no input")));
    };
    let output = Arc::new(node.output().as_arrow().clone());
    let label = format!("{}: keys={keys:?}", node.program.name());
    let aspects = fingerprint::by_keys(input, keys);
    let (input, keys, output_mode, time) = (input.schema(), keys.clone(), node.output_mode, node.time.clone());
    let new: Arc<NewOperator> = match &node.program {
        Program::Processor(runtime, time_mode) => {
            // A batch query finds out what there is to remember while it runs.
            let streams = inputs.iter().any(reads_stream);
            let variables = if streams { declared(runtime.as_ref(), *time_mode).await.map_err(to_datafusion)? } else { Vec::new() };
            let initial = inputs.get(1).zip(node.keys.get(1)).map(|(initial, keys)| (initial.schema(), keys.clone()));
            let (runtime, time_mode, output) = (runtime.clone(), *time_mode, output.clone());
            let processing = Processing { runtime, time_mode, output_mode, input, keys, initial, output, variables, time };
            Arc::new(move |placement| {
                let for_core = processing.clone();
                Operator::new(processing.description(), making(move |tables| ProcessorCore::new(for_core.clone(), tables)), placement)
            })
        }
        Program::GroupState { function, timeout, state } => {
            let (function, timeout, state, output) = (function.clone(), *timeout, state.clone(), output.clone());
            let grouping = Grouping { function, timeout, output_mode, input, keys, state, output, time };
            Arc::new(move |placement| {
                let for_core = grouping.clone();
                Operator::new(grouping.description(), making(move |tables| GroupStateCore::new(for_core.clone(), tables)), placement)
            })
        }
    };
    let task_keys = inputs.iter().zip(&node.keys).map(|(input, keys)| columns_at(&input.schema(), keys)).collect();
    Ok(StatefulExec::new(label, inputs.to_vec(), Binding::Once(new), output).with_keys(task_keys).with_aspects(aspects))
}

/// Lowers the expressions of one node.
struct Lowering<'a> {
    planner: &'a dyn PhysicalPlanner,
    session: &'a dyn Session,
    context: &'a PhysicalPlanningContext,
    schema: &'a DFSchema,
}

impl Lowering<'_> {
    fn expr(&self, expr: &Expr) -> DfResult<Arc<dyn PhysicalExpr>> {
        self.planner.create_physical_expr(expr, self.schema, self.session, self.context)
    }

    /// Partial aggregation by the keys and each row's own session, and the operator that merges sessions.
    fn sessions(&self, node: &SessionWindow, input: &Arc<dyn ExecutionPlan>) -> DfResult<StatefulExec> {
        let output = node.schema_ref();
        let mut groups: Vec<(Arc<dyn PhysicalExpr>, String)> = Vec::new();
        for (key, field) in node.keys.iter().zip(output.fields()) {
            groups.push((self.expr(&key.clone().unalias())?, field.name().clone()));
        }
        groups.push((self.expr(&node.start.clone().unalias())?, format!("{}.start", node.window)));
        groups.push((self.expr(&node.end.clone().unalias())?, format!("{}.end", node.window)));
        let physical = input.schema();
        let (mut functions, mut filters) = (Vec::new(), Vec::new());
        for aggregate in &node.aggregates {
            let lowered =
                LoweredAggregateBuilder::new(aggregate, self.schema, &physical, self.session.execution_props(), self.context).build()?;
            functions.push(lowered.aggregate);
            filters.push(lowered.filter);
        }
        let partial = AggregateExec::try_new(
            AggregateMode::Partial,
            PhysicalGroupBy::new_single(groups),
            functions,
            filters,
            input.clone(),
            physical,
        )?;
        let width = node.keys.len();
        let rows = partial.schema();
        let keys = rows.fields().iter().take(width).cloned().collect();
        let window = output.field(width);
        let sessions = Sessions {
            keys,
            time: rows.field(width).data_type().clone(),
            event_time: event_time_delay(window).is_some(),
            keyed: !node.keys.iter().all(|key| matches!(key.clone().unalias(), Expr::Literal(..))),
            functions: Functions::new(partial.aggr_expr())?,
            output: Arc::new(output.as_arrow().clone()),
            mode: OutputMode::Complete,
            batch_size: self.session.config().batch_size(),
        };
        let schema = sessions.output.clone();
        let label = format!("session window: {}", node.window);
        let new = new_sessions(Sessions { keyed: true, ..sessions.clone() });
        let partial: Arc<dyn ExecutionPlan> = Arc::new(partial);
        let (aspects, keys) = (fingerprint::sessions(&partial), vec![first_columns(&rows, width)]);
        let exec = StatefulExec::new(label, vec![partial], Binding::Once(new), schema);
        Ok(exec.with_keys(keys).with_sessions(sessions).with_aspects(aspects))
    }
}

/// The first columns of an input.
pub(crate) fn first_columns(schema: &Schema, width: usize) -> Vec<Arc<dyn PhysicalExpr>> {
    columns_at(schema, &(0..width.min(schema.fields().len())).collect::<Vec<_>>())
}

/// Columns of an input.
fn columns_at(schema: &Schema, indices: &[usize]) -> Vec<Arc<dyn PhysicalExpr>> {
    let column = |index: &usize| Some(Arc::new(Column::new(schema.fields().get(*index)?.name(), *index)) as Arc<dyn PhysicalExpr>);
    indices.iter().filter_map(column).collect()
}

/// Makes operators of these sessions.
pub(crate) fn new_sessions(sessions: Sessions) -> Arc<super::exec::NewOperator> {
    Arc::new(move |placement| {
        let for_core = sessions.clone();
        Operator::new(sessions.description(), making(move |tables| SessionCore::new(for_core.clone(), tables)), placement)
    })
}

/// A plan as a node of DataFusion.
pub(crate) fn as_node<T: 'static>(plan: &Arc<dyn ExecutionPlan>) -> Option<&T> {
    (plan.as_ref() as &dyn Any).downcast_ref::<T>()
}
