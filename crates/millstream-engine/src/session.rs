//! A session: names, functions and settings for planning, and the queries that it runs.

use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::execution::context::SessionContext;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SessionState, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use millstream_checkpoint::CheckpointOptions;
use millstream_checkpoint::reader::CheckpointReader;
use millstream_core::registry::{ReadRequest, Registry};
use millstream_core::sink::{Admission, BatchInfo, Committed, OutputMode, Sink};
use millstream_core::source::BatchStream;
use millstream_core::source_log::MemorySourceLog;
use millstream_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use url::Url;
use uuid::Uuid;

use crate::batch_time;
use crate::check;
use crate::expectation::Expectation;
use crate::from_datafusion;
use crate::memory::SharedMemory;
use crate::observe::Observed;
use crate::plan::{Preparation, PreparedPlan, is_streaming, prepare};
use crate::query::{CheckpointLocation, Launch, Launched, Ownership, QueryListener, QueryRequest, StreamingQuery, committed_in, launch};
use crate::relation::{Input, StreamRelation, TableRelation};
use crate::runner::{BatchRunner, LocalRunner};
use crate::stateful::{Placement, StatefulPlanner};

/// Settings of a session.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Tasks that a batch runs at once, and threads of the CPU pool. The number of cores by default.
    pub parallelism: usize,
    /// Rows per record batch.
    pub batch_size: usize,
    /// Memory for joins and sorts of one session, bytes; beyond it they spill or fail with `OUT_OF_MEMORY`.
    pub memory_limit: usize,
    /// Memory that the session shares with others, instead of having its own.
    pub shared_memory: Option<SharedMemory>,
    /// Who writes checkpoints, for messages: host and process.
    pub owner: String,
    /// Batches that a checkpoint keeps (`spark.sql.streaming.minBatchesToRetain`).
    pub min_batches_to_retain: u64,
    /// Whether to take a checkpoint from another process that holds it. That process is fenced: whatever it still does changes nothing.
    pub takeover: bool,
    /// Whether to accept a checkpoint that was copied or moved from somewhere else.
    pub adopt: bool,
    /// The running queries of all sessions that are to know of each other: a new run stops an older one on its checkpoint. Sessions made
    /// with clones of one value share it.
    pub queries: ActiveQueries,
}

/// Running queries, shared between sessions.
#[derive(Clone, Debug, Default)]
pub struct ActiveQueries(Arc<Mutex<Vec<StreamingQuery>>>);

impl ActiveQueries {
    fn add(&self, query: StreamingQuery) {
        let mut queries = self.0.lock();
        queries.retain(StreamingQuery::is_active);
        queries.push(query);
    }

    /// The running queries on a checkpoint.
    fn on(&self, checkpoint: &Url) -> Vec<StreamingQuery> {
        self.0.lock().iter().filter(|query| query.is_active() && query.checkpoint() == checkpoint).cloned().collect()
    }
}

impl Default for SessionOptions {
    fn default() -> Self {
        SessionOptions {
            parallelism: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            batch_size: 8_192,
            memory_limit: 1 << 30,
            shared_memory: None,
            owner: format!("process {}", std::process::id()),
            min_batches_to_retain: 100,
            takeover: false,
            adopt: false,
            queries: ActiveQueries::default(),
        }
    }
}

/// A place to plan and run queries. Cloning is cheap and shares everything.
#[derive(Clone)]
pub struct Session {
    context: SessionContext,
    registry: Arc<Registry>,
    runner: Arc<dyn BatchRunner>,
    options: Arc<SessionOptions>,
    active: Arc<Mutex<Vec<StreamingQuery>>>,
    listeners: Arc<Mutex<Vec<Arc<dyn QueryListener>>>>,
    planning: Arc<OnceLock<Planning>>,
}

/// The context as plans see it. Copying it for each plan would cost more than planning and running a small query.
struct Planning {
    state: SessionState,
    tasks: Arc<TaskContext>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Session {
    /// A session over the connectors of `registry`, running on this machine.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` when the system gives no threads.
    pub fn new(registry: Registry, options: SessionOptions) -> Result<Self> {
        let runner = Arc::new(LocalRunner::new(options.parallelism)?);
        Self::with_runner(registry, options, runner)
    }

    /// A session whose batches run on `runner`.
    ///
    /// # Errors
    /// Those of DataFusion's set-up.
    pub fn with_runner(registry: Registry, options: SessionOptions, runner: Arc<dyn BatchRunner>) -> Result<Self> {
        let mut config = SessionConfig::new()
            .with_target_partitions(options.parallelism.max(1))
            .with_batch_size(options.batch_size)
            .with_information_schema(true);
        let settings = config.options_mut();
        // A plan is reset and run again for each batch, which dynamic filters would not survive.
        settings.optimizer.enable_dynamic_filter_pushdown = false;
        settings.sql_parser.map_string_types_to_utf8view = false;
        settings.sql_parser.enable_ident_normalization = true;
        let memory = options.shared_memory.clone().unwrap_or_else(|| SharedMemory::new(options.memory_limit));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(memory.pool()).build_arc().map_err(from_datafusion)?;
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(runtime)
            .with_default_features()
            .with_query_planner(Arc::new(StatefulPlanner))
            .build();
        let context = SessionContext::new_with_state(state);
        batch_time::register(&mut *context.state_ref().write())?;
        Ok(Session {
            context,
            registry: Arc::new(registry),
            runner,
            options: Arc::new(options),
            active: Arc::default(),
            listeners: Arc::default(),
            planning: Arc::default(),
        })
    }

    /// DataFusion's context: register tables here, and functions and rules before the first plan is made.
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// The context's functions, rules and settings, as they were when the first plan was made.
    pub fn state(&self) -> &SessionState {
        &self.planning().state
    }

    fn planning(&self) -> &Planning {
        self.planning.get_or_init(|| Planning { state: self.context.state(), tasks: self.context.task_ctx() })
    }

    /// The connectors.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Adds a listener for the events of queries started from now on.
    pub fn add_listener(&self, listener: Arc<dyn QueryListener>) {
        self.listeners.lock().push(listener);
    }

    /// An unbounded relation over a source of that format.
    ///
    /// # Errors
    /// `DATA_SOURCE_NOT_FOUND`, and those of the source's schema.
    pub async fn stream_relation(&self, format: &str, mut request: ReadRequest) -> Result<StreamRelation> {
        let provider = self.registry.source(format)?.clone();
        let schema = provider.schema(&request, true).await?;
        request.schema = Some(schema.clone());
        Ok(StreamRelation { provider, request, schema, name: None })
    }

    /// A bounded relation over the same formats.
    ///
    /// # Errors
    /// `DATA_SOURCE_NOT_FOUND`, and those of the source.
    pub async fn table_relation(&self, format: &str, mut request: ReadRequest) -> Result<TableRelation> {
        let provider = self.registry.source(format)?.clone();
        request.schema = Some(provider.schema(&request, false).await?);
        let table = provider.table(&request).await?;
        let size_bytes = table.scan().await?.iter().map(|split| split.size_bytes()).sum();
        let label = request.paths.first().cloned().or_else(|| request.options.get("path").map(str::to_owned));
        Ok(TableRelation { table, label: label.unwrap_or_else(|| format.to_owned()), size_bytes })
    }

    /// Starts a streaming query and waits until it is ready to run its first batch. A query on the same checkpoint is stopped first, as in
    /// Spark.
    ///
    /// # Errors
    /// `WRITE_STREAM_NOT_ALLOWED` for a plan without a stream, the conditions of [`check::check`], and those of the checkpoint, the sources
    /// and the sink.
    pub async fn start(&self, request: QueryRequest) -> Result<StreamingQuery> {
        let query = self.launch(request).await?.begin().await?;
        self.running(&query);
        Ok(query)
    }

    /// Starts a streaming query as Spark does: it is returned as soon as its checkpoint is open, and what goes wrong after that (options of
    /// sources, the logs, planning) ends it.
    ///
    /// # Errors
    /// `WRITE_STREAM_NOT_ALLOWED` for a plan without a stream, the conditions of [`check::check`], and those of the checkpoint.
    pub async fn start_detached(&self, request: QueryRequest) -> Result<StreamingQuery> {
        let query = self.launch(request).await?.detach();
        self.running(&query);
        Ok(query)
    }

    fn running(&self, query: &StreamingQuery) {
        self.options.queries.add(query.clone());
        let mut active = self.active.lock();
        active.retain(StreamingQuery::is_active);
        active.push(query.clone());
    }

    /// Refuses to make a target anew whose rows are committed in a checkpoint.
    ///
    /// # Errors
    /// `SINK_TABLE_LOST`, and those of the checkpoint's store.
    pub async fn refuse_lost_target(&self, target: &str, checkpoint: &CheckpointLocation, ownership: &Ownership) -> Result<()> {
        let CheckpointLocation { store, root, url } = checkpoint.clone();
        let reader = CheckpointReader::new(store, root, url, self.registry.clock.clone());
        match reader.last_commit().await? {
            Some(batch) => Err(ownership.target_lost(target, &committed_in(&checkpoint.url, batch))),
            None => Ok(()),
        }
    }

    async fn launch(&self, request: QueryRequest) -> Result<Launched> {
        if !is_streaming(&request.plan)? {
            return Err(Error::invalid(
                "WRITE_STREAM_NOT_ALLOWED",
                "`writeStream` can be called only on a streaming Dataset/DataFrame: read with STREAM or readStream",
            )
            .with_sqlstate("42601"));
        }
        if request.settings.check_operations {
            check::check_with(&request.plan, request.mode, request.settings.check_correctness)?;
        }
        if !request.sink.supports(request.mode) {
            return Err(Error::invalid(
                "STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE",
                format!("{} does not take output mode '{}'", request.sink.description(), request.mode),
            )
            .with_sqlstate("42KDE"));
        }
        for query in self.options.queries.on(&request.checkpoint.url) {
            if !request.settings.stop_active_run {
                return Err(Error::new(
                    ErrorKind::Fenced,
                    "IllegalStateException",
                    format!(
                        "Cannot start query with id {} as another query with same id is already active. Perhaps you are attempting to \
                         restart a query from checkpoint that is already active. You may stop the old query by setting the SQL \
                         configuration: spark.conf.set(\"spark.sql.streaming.stopActiveRunOnRestart\", true) and retry.",
                        query.id()
                    ),
                ));
            }
            tracing::warn!(checkpoint = %request.checkpoint.url, "another run of this query is active here: it is stopped");
            query.stop().await;
        }
        let listeners = self.listeners.lock().clone();
        let new_id = request.settings.ownership.as_ref().map(|ownership| ownership.query_id);
        let min_batches_to_retain = request.settings.min_batches_to_retain.unwrap_or(self.options.min_batches_to_retain);
        launch(Launch {
            request,
            state: self.state().clone(),
            context: self.planning().tasks.clone(),
            runner: self.runner.clone(),
            clock: self.registry.clock.clone(),
            ids: self.registry.ids.clone(),
            listeners,
            checkpoint: CheckpointOptions {
                min_batches_to_retain,
                takeover: self.options.takeover,
                adopt: self.options.adopt,
                new_id,
                ..CheckpointOptions::new(self.registry.clock.clone(), self.registry.ids.clone(), self.options.owner.clone())
            },
        })
        .await
    }

    /// The queries that run now.
    pub fn active(&self) -> Vec<StreamingQuery> {
        let mut active = self.active.lock();
        active.retain(StreamingQuery::is_active);
        active.clone()
    }

    /// Runs a bounded plan once and writes its result as one batch of `sink`: the refresh of a materialized view.
    ///
    /// # Errors
    /// Those of the plan and the sink. `None` when the sink has this batch already.
    pub async fn write_batch(
        &self,
        plan: LogicalPlan,
        sink: Arc<dyn Sink>,
        mode: OutputMode,
        expectations: &[Expectation],
        query_id: Uuid,
        batch_id: u64,
    ) -> Result<Option<BatchWritten>> {
        let prepared = self.prepare_bounded(plan, expectations, mode).await?;
        let timestamp_ms = self.registry.clock.now_ms();
        sink.prepare(&prepared.schema, mode).await?;
        let batch = Arc::new(BatchInfo { query_id, batch_id, mode, schema: prepared.schema.clone(), timestamp_ms });
        if sink.admit(&batch).await? == Admission::AlreadyCommitted {
            return Ok(None);
        }
        let plan = fill(&prepared, timestamp_ms).await?;
        let parts = self.runner.run(plan, self.planning().tasks.clone(), sink.clone(), batch.clone(), CancellationToken::new()).await?;
        let input_rows = prepared.inputs.iter().map(|input| input.feed.rows()).sum();
        let committed = sink.commit(&batch, parts).await?;
        Ok(Some(BatchWritten { committed, input_rows, expectations: prepared.checks.counts() }))
    }

    /// Runs a bounded plan and hands over its rows as they come. Rows keep their order unless the plan exchanges them between tasks. What
    /// is not taken holds the tasks back; dropping the stream stops them.
    ///
    /// # Errors
    /// Those of planning; those of running come in the stream.
    pub async fn rows(&self, plan: LogicalPlan) -> Result<Rows> {
        let prepared = self.prepare_bounded(plan, &[], OutputMode::Append).await?;
        let plan = fill(&prepared, self.registry.clock.now_ms()).await?;
        let batches = self.runner.rows(plan, self.planning().tasks.clone());
        Ok(Rows { schema: prepared.schema.clone(), batches, prepared })
    }

    /// The physical plan of a plan as indented text. Streams in it are opened and not read.
    ///
    /// # Errors
    /// Those of planning.
    pub async fn explain(&self, plan: LogicalPlan) -> Result<String> {
        Ok(self.prepare(plan, &[], OutputMode::Append).await?.explain())
    }

    async fn prepare_bounded(&self, plan: LogicalPlan, expectations: &[Expectation], mode: OutputMode) -> Result<PreparedPlan> {
        if is_streaming(&plan)? {
            return Err(Error::invalid(
                "_LEGACY_ERROR_TEMP_3102",
                "Queries with streaming sources must be executed with writeStream.start(), or from a streaming table or flow definition \
                 within a Spark Declarative Pipeline.",
            ));
        }
        self.prepare(plan, expectations, mode).await
    }

    async fn prepare(&self, plan: LogicalPlan, expectations: &[Expectation], mode: OutputMode) -> Result<PreparedPlan> {
        let preparation = Preparation {
            state: self.state(),
            clock: self.registry.clock.clone(),
            expectations,
            output: None,
            mode,
            propagate: true,
            placement: Placement::alone(),
            log: &|_| Arc::new(MemorySourceLog::default()),
        };
        prepare(plan, preparation).await
    }

    /// Runs a bounded plan and returns its rows: for showing tables, not for data.
    ///
    /// # Errors
    /// Those of the plan.
    pub async fn collect(&self, plan: LogicalPlan) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        let schema = crate::plan::result_schema(&plan);
        let time = batch_time::BatchTime::default();
        time.set(self.registry.clock.now_ms());
        let plan = batch_time::bind(plan, &time)?;
        let frame = self.context.execute_logical_plan(plan).await.map_err(from_datafusion)?;
        let rows = frame.collect().await.map_err(from_datafusion)?;
        Ok((schema, rows))
    }

    /// Plans SQL text without running it.
    ///
    /// # Errors
    /// Those of DataFusion's parser and analyzer.
    pub async fn plan_sql(&self, sql: &str) -> Result<LogicalPlan> {
        self.context.state().create_logical_plan(sql).await.map_err(from_datafusion)
    }
}

/// The rows of a plan that runs.
pub struct Rows {
    /// Their columns.
    pub schema: SchemaRef,
    /// The rows, as they come.
    pub batches: BatchStream,
    prepared: PreparedPlan,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Rows {
    /// What the plan observed, once all rows were taken.
    ///
    /// # Errors
    /// Those of the metrics.
    pub fn observed(&self) -> Result<Vec<Observed>> {
        self.prepared.observed()
    }
}

/// Feeds a bounded plan with its tables as they are now. Gives the plan, ready to run.
async fn fill(prepared: &PreparedPlan, timestamp_ms: i64) -> Result<Arc<dyn ExecutionPlan>> {
    for input in &prepared.inputs {
        if let Input::Table(table) = &input.input {
            input.feed.fill(table.scan().await?, 0);
        }
    }
    prepared.time.set(timestamp_ms);
    prepared.reset()
}

/// What [`Session::write_batch`] did.
#[derive(Debug)]
pub struct BatchWritten {
    /// What the sink made visible.
    pub committed: Committed,
    /// Rows read from tables.
    pub input_rows: u64,
    /// Expectations by name.
    pub expectations: std::collections::BTreeMap<String, millstream_core::progress::ExpectationProgress>,
}
