//! `DataStreamWriter.start()`: from a request to a running query. The order of the checks is Spark's.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use millstream_core::registry::ReadRequest;
use millstream_core::sink::{OutputMode, Sink};
use millstream_core::{Error, Options, Result, Trigger};
use millstream_engine::plan::is_streaming;
use millstream_engine::{QueryRequest, QuerySettings};
use spark_connect_proto::streaming_foreach_function::Function;
use spark_connect_proto::write_stream_operation_start::SinkDestination;
use spark_connect_proto::{
    PythonUdf, StreamingForeachFunction, StreamingQueryInstanceId, WriteStreamOperationStart, WriteStreamOperationStartResult,
};

use super::destination::{self, Wanted};
use super::foreach::ForeachSink;
use super::foreach_batch::ForeachBatchSink;
use super::listeners::Untold;
use super::queries::Queries;
use super::trigger::{self, TriggerMode};
use super::{extensions, listeners, location, progress, reader, state_settings, table};
use crate::analyzer::{Analyzed, Leaf};
use crate::connect::session::ConnectSession;

/// Settings of a session that a new checkpoint pins.
const PINNED: [&str; 7] = [
    "spark.sql.shuffle.partitions",
    "spark.sql.streaming.aggregation.stateFormatVersion",
    "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion",
    "spark.sql.streaming.join.stateFormatVersion",
    "spark.sql.streaming.multipleWatermarkPolicy",
    "spark.sql.streaming.stateStore.providerClass",
    "spark.sql.streaming.statefulOperator.useStrictDistribution",
];

/// Starts a query. Listeners hear nothing of it until the second part of the result is dropped.
///
/// # Errors
/// Spark's refusals, by the rule that comes first in Spark.
pub(in crate::connect) async fn start(
    session: &Arc<ConnectSession>,
    start: WriteStreamOperationStart,
) -> Result<(WriteStreamOperationStartResult, Untold)> {
    let input = start.input.as_ref().ok_or_else(|| Error::invalid("INVALID_PLAN_INPUT", "a query to start has no input"))?;
    let analyzed = session.analyze(input).await?.stored();
    if !is_streaming(&analyzed.plan)? {
        return Err(Error::invalid(
            "WRITE_STREAM_NOT_ALLOWED",
            "`writeStream` can be called only on a streaming Dataset/DataFrame: read its input with readStream",
        )
        .with_sqlstate("42601"));
    }
    reader::check_distinct(&millstream_engine::plan::stream_names(&analyzed.plan)?)?;
    if !start.partitioning_column_names.is_empty() && !start.clustering_column_names.is_empty() {
        return Err(Error::invalid(
            "SPECIFY_CLUSTER_BY_WITH_PARTITIONED_BY_IS_NOT_ALLOWED",
            "Cannot specify both CLUSTER BY and PARTITIONED BY",
        )
        .with_sqlstate("42908"));
    }
    let trigger = trigger::requested(start.trigger.as_ref())?;
    let mode = if start.output_mode.is_empty() { OutputMode::Append } else { OutputMode::parse(&start.output_mode)? };
    // As in Spark, the function's worker is there before anything else is looked at.
    let foreach_batch = match python_function(start.foreach_batch.as_ref())? {
        Some(function) => Some(ForeachBatchSink::start(session, function).await?),
        None => None,
    };
    let foreach = python_function(start.foreach_writer.as_ref())?.map(|function| ForeachSink::new(session, function)).transpose()?;

    let written_as_text = start.format.eq_ignore_ascii_case("csv") || start.format.eq_ignore_ascii_case("json");
    let analyzed = if written_as_text { analyzed.with_intervals_as_text(&session.settings())? } else { analyzed };
    let schema: SchemaRef = Arc::new(analyzed.schema());
    let mut wanted = wanted(session, &start, mode, &schema, foreach_batch.is_some(), foreach.is_some()).await?;
    let mut settings = settings(session)?;
    extensions::apply(session, &mut wanted.options, &mut settings).await?;
    let queries = session.part::<Queries>();
    if wanted.format == "memory" {
        check_memory(&wanted)?;
    }
    let trigger = match trigger {
        TriggerMode::Batches(trigger) => trigger,
        TriggerMode::RealTime(ms) => return Err(trigger::refuse_real_time(&wanted.format, mode == OutputMode::Update, ms)),
        TriggerMode::Continuous => continuous(&analyzed)?,
    };
    let reserved = queries.reserve(wanted.name.as_deref())?;
    let one_time = wanted.is_one_time() || foreach_batch.is_some() || foreach.is_some();
    let sink: Arc<dyn Sink> = match (foreach_batch, foreach) {
        (Some(sink), _) => {
            destination::refuse_partitions("foreachBatch", &wanted.partition_by)?;
            Arc::new(sink)
        }
        (None, Some(sink)) => {
            destination::refuse_partitions("foreach", &wanted.partition_by)?;
            Arc::new(sink)
        }
        (None, None) => destination::open(session, &wanted, &schema).await?,
    };
    let place = location::checkpoint(session, &wanted.options, wanted.name.as_deref(), one_time).await?;
    let view = match wanted.format.as_str() {
        "memory" => Some(memory_view(session, &sink, &schema, &wanted).await?),
        _ => None,
    };
    queries.listen(&session.engine);
    let request = QueryRequest {
        name: wanted.name.clone(),
        plan: visible(analyzed)?,
        output: Some(schema),
        sink,
        mode,
        trigger,
        checkpoint: place.location,
        quarantine: None,
        expectations: Vec::new(),
        settings,
    };
    let query = session.engine.start_detached(request).await?;
    let untold = Untold { bus: queries.bus().clone(), run_id: query.run_id() };
    queries.add(query.clone(), place.temporary, session.host.clock());
    drop(reserved);
    if let (Some(view), Some(name)) = (view, &wanted.name) {
        session.set_view(name, view);
    }
    let started = WriteStreamOperationStartResult {
        query_id: Some(StreamingQueryInstanceId { id: query.id().to_string(), run_id: query.run_id().to_string() }),
        name: query.name().unwrap_or_default().to_owned(),
        query_started_event_json: queries.bus().is_heard().then(|| listeners::started_json(&query)),
    };
    Ok((started, untold))
}

fn python_function(function: Option<&StreamingForeachFunction>) -> Result<Option<&PythonUdf>> {
    match function.and_then(|function| function.function.as_ref()) {
        None => Ok(None),
        Some(Function::PythonFunction(function)) => Ok(Some(function)),
        Some(Function::ScalaFunction(_)) => Err(Error::invalid(
            "UNSUPPORTED_FEATURE.SCALA_FUNCTION",
            "functions of the JVM cannot run here: use foreach and foreachBatch from Python",
        )
        .with_sqlstate("0A000")),
    }
}

/// Puts together what was asked for: format, options and destination.
async fn wanted(
    session: &Arc<ConnectSession>,
    start: &WriteStreamOperationStart,
    mode: OutputMode,
    schema: &SchemaRef,
    foreach_batch: bool,
    foreach: bool,
) -> Result<Wanted> {
    let name = Some(start.query_name.clone()).filter(|name| !name.is_empty());
    let mut options: Options = start.options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let format = match start.format.as_str() {
        _ if foreach_batch => "foreachbatch".to_owned(),
        _ if foreach => "foreach".to_owned(),
        "" => session.confs.default_source(),
        format => format.to_lowercase(),
    };
    match &start.sink_destination {
        Some(SinkDestination::Path(path)) => {
            if options.get("path").is_some() && !session.confs.is_true("spark.sql.legacy.pathOptionBehavior.enabled") {
                return Err(Error::invalid(
                    "_LEGACY_ERROR_TEMP_1188",
                    "There is a 'path' option set and start() is called with a path parameter. Either remove the path option, or call \
                     start() without the parameter.",
                ));
            }
            options.set("path", path.as_str());
        }
        Some(SinkDestination::TableName(_)) | None => {}
    }
    let mut wanted = Wanted { format, options, partition_by: start.partitioning_column_names.clone(), name, mode };
    if let Some(SinkDestination::TableName(name)) = &start.sink_destination {
        table::direct(session, name, !start.format.is_empty(), schema, &mut wanted).await?;
    }
    Ok(wanted)
}

/// The name of a memory sink's query names a view.
fn check_memory(wanted: &Wanted) -> Result<()> {
    destination::refuse_partitions("memory", &wanted.partition_by)?;
    let name =
        wanted.name.as_deref().ok_or_else(|| Error::invalid("_LEGACY_ERROR_TEMP_1194", "queryName must be specified for memory sink"))?;
    if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Ok(());
    }
    let parts = name.split('.').count();
    if parts > 1 && name.split('.').all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')) {
        return Err(Error::invalid(
            "TEMP_VIEW_NAME_TOO_MANY_NAME_PARTS",
            format!("the rows of query '{name}' become a temporary view, whose name has only one part"),
        )
        .with_sqlstate("428EK"));
    }
    Err(Error::invalid("_LEGACY_ERROR_TEMP_1321", format!("Invalid view name: {name}.")))
}

/// The rows of a memory sink as a view.
async fn memory_view(session: &ConnectSession, sink: &Arc<dyn Sink>, schema: &SchemaRef, wanted: &Wanted) -> Result<Leaf> {
    // The view has its columns before the query has planned anything.
    sink.prepare(schema, wanted.mode).await?;
    let request = ReadRequest { paths: wanted.name.iter().cloned().collect(), ..ReadRequest::default() };
    Ok(Leaf::Table(Arc::new(session.engine.table_relation("memory", request).await?)))
}

/// Spark's continuous mode runs here as micro-batches without pause, for the sources that it takes.
fn continuous(analyzed: &Analyzed) -> Result<Trigger> {
    let sources = millstream_engine::plan::stream_formats(&analyzed.plan)?;
    match sources.iter().find(|format| !matches!(**format, "rate" | "kafka")) {
        Some(format) => {
            Err(Error::invalid("_LEGACY_ERROR_TEMP_3102", format!("Data source {format} does not support continuous processing.")))
        }
        None => {
            tracing::info!("a continuous trigger was asked for: the query runs in micro-batches without pause");
            Ok(Trigger::Default)
        }
    }
}

/// The plan without columns that the user does not see.
pub(super) fn visible(analyzed: Analyzed) -> Result<LogicalPlan> {
    if analyzed.columns.iter().all(|column| !column.hidden) {
        return Ok(analyzed.plan);
    }
    let columns = analyzed.columns.iter().filter(|column| !column.hidden);
    let columns: Vec<Expr> = columns.map(|column| Expr::Column(Column::new_unqualified(&column.internal))).collect();
    LogicalPlanBuilder::from(analyzed.plan).project(columns).and_then(LogicalPlanBuilder::build).map_err(millstream_engine::from_datafusion)
}

pub(super) fn settings(session: &ConnectSession) -> Result<QuerySettings> {
    let number = |key: &str| session.confs.get(key).and_then(|value| value.trim().parse::<u64>().ok());
    let unless_false = |key: &str| session.confs.get(key).is_none_or(|value| !value.trim().eq_ignore_ascii_case("false"));
    let pinned: BTreeMap<String, String> =
        PINNED.iter().filter_map(|key| session.confs.get(key).map(|value| ((*key).to_owned(), value))).collect();
    let defaults = QuerySettings::default();
    Ok(QuerySettings {
        pinned,
        min_batches_to_retain: number("spark.sql.streaming.minBatchesToRetain"),
        no_data_progress_interval_ms: number("spark.sql.streaming.noDataProgressEventInterval")
            .and_then(|ms| i64::try_from(ms).ok())
            .unwrap_or(defaults.no_data_progress_interval_ms),
        recent_progress: number("spark.sql.streaming.numRecentProgressUpdates")
            .and_then(|number| usize::try_from(number).ok())
            .unwrap_or(defaults.recent_progress),
        stop_active_run: unless_false("spark.sql.streaming.stopActiveRunOnRestart"),
        check_operations: unless_false("spark.sql.streaming.unsupportedOperationCheck"),
        check_correctness: unless_false("spark.sql.streaming.statefulOperator.checkCorrectness.enabled"),
        no_data_batches: unless_false("spark.sql.streaming.noDataMicroBatches.enabled"),
        state: state_settings::of(session)?,
        multiple_stateful_operators: unless_false("spark.sql.streaming.statefulOperator.allowMultiple"),
        observation_json: progress::observation_json,
        ..defaults
    })
}
