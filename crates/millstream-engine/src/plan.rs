//! From a logical plan with streams in it to a physical plan that can run batch after batch.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, col};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use millstream_core::quarantine::Discard;
use millstream_core::registry::SourceContext;
use millstream_core::sink::OutputMode;
use millstream_core::source::FilterColumns;
use millstream_core::source_log::SourceLog;
use millstream_core::{Clock, Error, Result};

use crate::batch_time::{self, BatchTime};
use crate::expectation::{Checks, Expectation, ExpectationExec};
use crate::observe::{self, Observed};
use crate::relation::{BoundRelation, BoundSource, Input, StreamRelation, TableRelation};
use crate::scan::{QuarantineSlot, SplitFeed, Volume};
use crate::stateful::{Bind, Placement, TimeFlow, Watermark, allowed, rewrite};
use crate::{from_datafusion, to_datafusion};

/// A query's plan, built once, with the handles through which each batch is fed into it.
#[derive(Debug)]
pub(crate) struct PreparedPlan {
    physical: Arc<dyn ExecutionPlan>,
    /// The sources, in plan order.
    pub(crate) sources: Vec<BoundSource>,
    /// Every scan: where its splits come from, its feed, and where its malformed records go.
    pub(crate) inputs: Vec<PlanInput>,
    /// The batch's time.
    pub(crate) time: BatchTime,
    /// The expectations on the result.
    pub(crate) checks: Checks,
    /// The schema of the result.
    pub(crate) schema: SchemaRef,
    /// Its event time and its stateful operators.
    pub(crate) flow: TimeFlow,
}

/// One scan of a plan.
#[derive(Debug)]
pub(crate) struct PlanInput {
    pub(crate) input: Input,
    pub(crate) feed: Arc<SplitFeed>,
    pub(crate) quarantine: QuarantineSlot,
}

impl PreparedPlan {
    /// The plan, ready to run once more.
    ///
    /// # Errors
    /// Those of DataFusion.
    pub(crate) fn reset(&self) -> Result<Arc<dyn ExecutionPlan>> {
        observe::reset(&self.physical)?;
        reset_plan_states(self.physical.clone()).map_err(from_datafusion)
    }

    /// What the last run of the plan observed.
    ///
    /// # Errors
    /// Those of DataFusion.
    pub(crate) fn observed(&self) -> Result<Vec<Observed>> {
        observe::observed(&self.physical)
    }

    /// The physical plan as indented text.
    pub(crate) fn explain(&self) -> String {
        datafusion::physical_plan::displayable(self.physical.as_ref()).indent(false).to_string()
    }
}

/// What preparing a plan needs besides the plan.
pub(crate) struct Preparation<'a> {
    pub(crate) state: &'a SessionState,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) expectations: &'a [Expectation],
    /// Names and metadata of the result's columns, by position; the plan's own without it.
    pub(crate) output: Option<&'a SchemaRef>,
    pub(crate) mode: OutputMode,
    /// Whether stateful operators have watermarks of their own.
    pub(crate) propagate: bool,
    /// Where stateful operators are.
    pub(crate) placement: Placement,
    /// The log of the source at an index, or of a named source.
    pub(crate) log: &'a (dyn Fn(&str) -> Arc<dyn SourceLog> + Sync),
}

/// Binds every stream of `plan` to a source and builds the physical plan.
///
/// # Errors
/// Those of the sources, and of DataFusion's planning.
pub(crate) async fn prepare(plan: LogicalPlan, preparation: Preparation<'_>) -> Result<PreparedPlan> {
    let time = BatchTime::default();
    let plan = batch_time::bind(plan, &time)?;
    let plan = normalise(plan)?;
    let streaming = is_streaming(&plan)?;
    let plan = if streaming { rewrite(plan, preparation.mode, preparation.state)? } else { plan };

    let mut sources: Vec<BoundSource> = Vec::new();
    let mut bound: BTreeMap<usize, usize> = BTreeMap::new();
    for (identity, relation) in streams(&plan)? {
        let index = sources.len();
        let name = relation.name.clone().unwrap_or_else(|| index.to_string());
        let context = SourceContext { log: (preparation.log)(&name), clock: preparation.clock.clone() };
        let source = relation.provider.source(&relation.request, context).await?;
        sources.push(BoundSource { source });
        bound.insert(identity, index);
    }

    let mut inputs = Vec::new();
    let plan = plan
        .transform_up_with_subqueries(|node| {
            let LogicalPlan::TableScan(mut scan) = node else { return Ok(Transformed::no(node)) };
            let Ok(provider) = source_as_provider(&scan.source) else { return Ok(Transformed::no(LogicalPlan::TableScan(scan))) };
            let any = provider.as_ref() as &dyn Any;
            let (input, label, volume) = if let Some(stream) = any.downcast_ref::<StreamRelation>() {
                let index = *bound
                    .get(&identity(&provider))
                    .ok_or_else(|| to_datafusion(Error::internal("a stream was not bound to its source")))?;
                let label = stream.provider.names().first().copied().unwrap_or("stream").to_owned();
                (Input::Source(index), label, Volume::Unbounded(index))
            } else if let Some(table) = any.downcast_ref::<TableRelation>() {
                (Input::Table(table.table.clone()), table.label.clone(), Volume::Bytes(table.size_bytes))
            } else {
                return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
            };
            let feed = Arc::new(SplitFeed::default());
            let quarantine = QuarantineSlot::new(Arc::new(Discard));
            let filters = match &input {
                Input::Source(index) => sources.get(*index).map(|bound| bound.source.filters()).unwrap_or_default(),
                Input::Table(_) => FilterColumns::default(),
            };
            let schema = provider.schema();
            let relation = BoundRelation { label, schema, feed: feed.clone(), quarantine: quarantine.clone(), volume, filters };
            inputs.push(PlanInput { input, feed, quarantine });
            scan.source = provider_as_source(Arc::new(relation));
            Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
        })
        .map_err(from_datafusion)?
        .data;

    let checks = Checks::compile(preparation.expectations, plan.schema(), preparation.state)?;
    let bind = Arc::new(Bind::new(preparation.mode, preparation.propagate, preparation.placement));
    let bound = streaming.then(|| over_streams(preparation.state, bind.clone()));
    let state = bound.as_ref().unwrap_or(preparation.state);
    let optimized = state.optimize(&plan).map_err(from_datafusion)?;
    let mut physical = state.query_planner().create_physical_plan(&optimized, state).await.map_err(from_datafusion)?;
    if !checks.is_empty() {
        physical = Arc::new(ExpectationExec::new(physical, checks.clone()));
    }
    let schema = match preparation.output {
        Some(output) => labelled(&physical.schema(), output)?,
        None => physical.schema(),
    };
    Ok(PreparedPlan { physical, sources, inputs, time, checks, schema, flow: bind.take() })
}

/// The session's rules for a plan over streams, which `bind` gives its operators.
fn over_streams(state: &SessionState, bind: Arc<Bind>) -> SessionState {
    let rules = state.optimizer().rules.iter().filter(|rule| allowed(rule.name())).cloned().collect();
    let physical = std::iter::once(bind as Arc<dyn PhysicalOptimizerRule + Send + Sync>);
    let physical = physical.chain(state.physical_optimizers().iter().cloned()).collect();
    SessionStateBuilder::new_from_existing(state.clone()).with_optimizer_rules(rules).with_physical_optimizer_rules(physical).build()
}

/// The streams of a plan in plan order, each once and with its identity: the same relation used twice is one source, as in Spark.
///
/// # Errors
/// Those of walking the plan.
fn streams(plan: &LogicalPlan) -> Result<Vec<(usize, StreamRelation)>> {
    let mut found: Vec<(usize, StreamRelation)> = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(relation) = (provider.as_ref() as &dyn Any).downcast_ref::<StreamRelation>()
            && !found.iter().any(|(known, _)| *known == identity(&provider))
        {
            found.push((identity(&provider), relation.clone()));
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(from_datafusion)?;
    Ok(found)
}

fn identity(provider: &Arc<dyn TableProvider>) -> usize {
    Arc::as_ptr(provider).cast::<()>() as usize
}

/// Whether a plan reads a stream.
///
/// # Errors
/// Those of walking the plan.
pub fn is_streaming(plan: &LogicalPlan) -> Result<bool> {
    streams(plan).map(|streams| !streams.is_empty())
}

/// Whether a plan watches the event time of a stream.
///
/// # Errors
/// Those of walking the plan.
pub fn watches_event_time(plan: &LogicalPlan) -> Result<bool> {
    let watermark = |node: &LogicalPlan| match node {
        LogicalPlan::Extension(extension) => Ok(extension.node.as_any().is::<Watermark>()),
        _ => Ok(false),
    };
    plan.exists(watermark).map_err(from_datafusion)
}

/// The formats of the streams that a plan reads, each as often as there are streams of it.
///
/// # Errors
/// Those of walking the plan.
pub fn stream_formats(plan: &LogicalPlan) -> Result<Vec<&'static str>> {
    let format = |relation: &StreamRelation| relation.provider.names().first().copied().unwrap_or("stream");
    Ok(streams(plan)?.iter().map(|(_, relation)| format(relation)).collect())
}

/// The names that users gave to the streams of a plan, each as often as there are streams of it.
///
/// # Errors
/// Those of walking the plan.
pub fn stream_names(plan: &LogicalPlan) -> Result<Vec<String>> {
    Ok(streams(plan)?.into_iter().filter_map(|(_, relation)| relation.name).collect())
}

/// Casts result columns to the types that sinks know: what DataFusion uses inside (views, dictionaries, nanoseconds) stays inside.
fn normalise(plan: LogicalPlan) -> Result<LogicalPlan> {
    let schema = plan.schema().clone();
    if schema.fields().iter().all(|field| canonical(field.data_type()) == *field.data_type()) {
        return Ok(plan);
    }
    let columns: Vec<Expr> = schema
        .columns()
        .into_iter()
        .zip(schema.fields())
        .map(|(column, field)| {
            let target = canonical(field.data_type());
            let name = column.name.clone();
            if target == *field.data_type() { col(column) } else { cast(col(column), target).alias(name) }
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(columns).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)
}

/// The type under which a value leaves the engine.
fn canonical(data_type: &DataType) -> DataType {
    let field = |field: &Arc<Field>| Arc::new(field.as_ref().clone().with_data_type(canonical(field.data_type())));
    match data_type {
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary | DataType::FixedSizeBinary(_) => DataType::Binary,
        DataType::Dictionary(_, value) => canonical(value),
        DataType::RunEndEncoded(_, values) => canonical(values.data_type()),
        DataType::Timestamp(_, Some(_)) => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Timestamp(_, None) => DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Date64 => DataType::Date32,
        DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Float16 => DataType::Float32,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => DataType::List(field(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        DataType::Map(entries, sorted) => DataType::Map(field(entries), *sorted),
        other => other.clone(),
    }
}

/// The columns of `schema` under the names and with the metadata of `output`.
fn labelled(schema: &Schema, output: &Schema) -> Result<SchemaRef> {
    if schema.fields().len() != output.fields().len() {
        return Err(Error::internal(format!("a plan has {} columns and {} names for them", schema.fields().len(), output.fields().len())));
    }
    let fields = schema.fields().iter().zip(output.fields()).map(|(field, label)| {
        Field::new(label.name(), field.data_type().clone(), field.is_nullable() || label.is_nullable())
            .with_metadata(label.metadata().clone())
    });
    Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

/// The schema that the result of a plan has at the sink.
pub fn result_schema(plan: &LogicalPlan) -> SchemaRef {
    let fields: Vec<Field> = plan
        .schema()
        .fields()
        .iter()
        .map(|field| Field::new(field.name(), canonical(field.data_type()), field.is_nullable()).with_metadata(field.metadata().clone()))
        .collect();
    Arc::new(Schema::new(fields))
}
