//! `persist()` and `cache()`: frames whose rows are computed once, when a plan first reads them, and are read from there afterwards.
//!
//! A frame is known by its plan as the client sent it. Where that occurs inside of another plan, the kept rows stand in its place.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Weak};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session as CatalogSession, TableProvider};
use datafusion::common::Column;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::{MemTable, provider_as_source, source_as_provider};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableType};
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use millstream_core::{Error, Result};
use millstream_engine::plan::is_streaming;
use millstream_engine::relation::TableRelation;
use millstream_engine::{from_datafusion, to_datafusion};
use parking_lot::Mutex;
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{CachedRemoteRelation, Relation, StorageLevel};
use tokio::sync::OnceCell;

use super::analyze::fingerprint;
use super::execute::visible_plan;
use super::session::ConnectSession;
use crate::analyzer::{Analyzed, Attribute, inputs};

/// What `persist()` without an argument asks for.
pub(super) const MEMORY_AND_DISK: StorageLevel =
    StorageLevel { use_disk: true, use_memory: true, use_off_heap: false, deserialized: true, replication: 1 };

/// The level of what is not persisted.
const NONE: StorageLevel = StorageLevel { use_disk: false, use_memory: false, use_off_heap: false, deserialized: false, replication: 1 };

/// The most bytes that are kept of one frame. A larger one is computed every time that it is read.
const MOST_BYTES: usize = 512 << 20;

/// The frames that a session keeps.
#[derive(Debug, Default)]
pub(super) struct Persisted(Mutex<Vec<Entry>>);

#[derive(Debug)]
struct Entry {
    /// The frame as the client sent it.
    relation: Relation,
    /// What plans of the same meaning share.
    meaning: String,
    level: StorageLevel,
    /// The session's name for the kept rows.
    relation_id: String,
    rows: Arc<Kept>,
}

/// Keeps a frame, which is known already under any plan of the same meaning.
///
/// # Errors
/// Those of its analysis; `_LEGACY_ERROR_TEMP_3102` for a stream.
pub(super) async fn persist(session: &Arc<ConnectSession>, relation: &Relation, level: StorageLevel) -> Result<()> {
    let analyzed = session.analyze_as_written(relation).await?;
    if is_streaming(&analyzed.plan)? {
        let message = "Queries with streaming sources must be executed with writeStream.start(), or from a streaming table or flow \
                       definition within a Spark Declarative Pipeline.";
        return Err(Error::invalid("_LEGACY_ERROR_TEMP_3102", message));
    }
    let meaning = fingerprint(&analyzed);
    let persisted = session.part::<Persisted>();
    if persisted.0.lock().iter().any(|entry| entry.meaning == meaning) {
        return Ok(());
    }
    let (rows, kept) = Kept::of(session, analyzed)?;
    let relation_id = session.remember(kept);
    persisted.0.lock().push(Entry { relation: relation.clone(), meaning, level, relation_id, rows });
    Ok(())
}

/// Forgets the rows of a frame.
///
/// # Errors
/// Those of its analysis.
pub(super) async fn unpersist(session: &Arc<ConnectSession>, relation: &Relation) -> Result<()> {
    let meaning = fingerprint(&session.analyze_as_written(relation).await?);
    let mut entries = Vec::new();
    session.part::<Persisted>().0.lock().retain_mut(|entry| {
        let gone = entry.meaning == meaning;
        if gone {
            entries.push(std::mem::take(&mut entry.relation_id));
        }
        !gone
    });
    for relation_id in entries {
        session.forget(&relation_id);
    }
    Ok(())
}

/// How a frame is kept.
///
/// # Errors
/// Those of its analysis.
pub(super) async fn level(session: &Arc<ConnectSession>, relation: &Relation) -> Result<StorageLevel> {
    let meaning = fingerprint(&session.analyze_as_written(relation).await?);
    let persisted = session.part::<Persisted>();
    let entries = persisted.0.lock();
    Ok(entries.iter().find(|entry| entry.meaning == meaning).map_or(NONE, |entry| entry.level))
}

impl Persisted {
    /// The plan with kept rows in the place of the frames that are kept.
    pub(super) fn used_in<'a>(&self, relation: &'a Relation) -> Cow<'a, Relation> {
        let entries = self.0.lock();
        if entries.is_empty() {
            return Cow::Borrowed(relation);
        }
        let mut changed = relation.clone();
        replace(&entries, &mut changed);
        Cow::Owned(changed)
    }

    /// Lets go of rows that were read from storage, which something has written to.
    pub(super) fn refresh(&self) {
        for entry in self.0.lock().iter().filter(|entry| entry.rows.reads_storage) {
            *entry.rows.table.lock() = Arc::default();
        }
    }
}

fn replace(entries: &[Entry], relation: &mut Relation) {
    if let Some(entry) = entries.iter().find(|entry| entry.relation == *relation) {
        let cached = CachedRemoteRelation { relation_id: entry.relation_id.clone() };
        relation.rel_type = Some(RelType::CachedRemoteRelation(cached));
        return;
    }
    stacker::maybe_grow(64 * 1024, 4 * 1024 * 1024, || inputs(relation).into_iter().for_each(|input| replace(entries, input)));
}

/// The rows of a plan in memory, or nothing where they are too many.
type Rows = Option<Arc<MemTable>>;

/// The rows of a frame.
struct Kept {
    session: Weak<ConnectSession>,
    plan: LogicalPlan,
    schema: SchemaRef,
    reads_storage: bool,
    table: Mutex<Arc<OnceCell<Rows>>>,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Kept {
    /// The rows of a frame, and the frame as one that reads them.
    fn of(session: &Arc<ConnectSession>, analyzed: Analyzed) -> Result<(Arc<Kept>, Analyzed)> {
        let columns: Vec<Attribute> = analyzed.columns.iter().filter(|column| !column.hidden).cloned().collect();
        let plan = visible_plan(analyzed)?;
        let kept = Arc::new(Kept {
            session: Arc::downgrade(session),
            schema: schema_of(&plan),
            reads_storage: reads_storage(&plan)?,
            plan,
            table: Mutex::default(),
        });
        let names = columns.iter().map(|column| Expr::Column(Column::new(Some("persisted"), &column.internal)).alias(&column.internal));
        let plan = LogicalPlanBuilder::scan("persisted", provider_as_source(kept.clone()), None)
            .and_then(|scan| scan.project(names.collect::<Vec<_>>()))
            .and_then(LogicalPlanBuilder::build)
            .map_err(from_datafusion)?;
        Ok((kept, Analyzed { plan, columns }))
    }

    async fn computed(&self) -> Result<Rows> {
        let session = self.session.upgrade().ok_or_else(|| Error::internal("the session of persisted rows is gone"))?;
        Ok(table_of(&session, self.plan.clone(), &self.schema, MOST_BYTES).await?.map(Arc::new))
    }
}

#[async_trait]
impl TableProvider for Kept {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        state: &dyn CatalogSession,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let cell = self.table.lock().clone();
        if let Some(table) = cell.get_or_try_init(|| self.computed()).await.map_err(to_datafusion)? {
            return table.scan(state, projection, filters, limit).await;
        }
        let columns = self.schema.fields().iter().map(|field| Expr::Column(Column::new_unqualified(field.name())));
        let columns: Vec<Expr> = match projection {
            Some(wanted) => {
                let columns: Vec<Expr> = columns.collect();
                wanted.iter().filter_map(|index| columns.get(*index).cloned()).collect()
            }
            None => columns.collect(),
        };
        state.create_physical_plan(&LogicalPlanBuilder::from(self.plan.clone()).project(columns)?.build()?).await
    }
}

/// The rows of a plan as a table in memory; `None` when they are more than `most` bytes.
///
/// # Errors
/// Those of the plan.
pub(super) async fn table_of(session: &ConnectSession, plan: LogicalPlan, schema: &SchemaRef, most: usize) -> Result<Option<MemTable>> {
    let mut rows = session.engine.rows(plan).await?;
    let mut batches: Vec<RecordBatch> = Vec::new();
    let mut bytes = 0_usize;
    while let Some(batch) = rows.batches.next().await {
        let batch = batch?;
        bytes = bytes.saturating_add(batch.get_array_memory_size());
        if bytes > most {
            return Ok(None);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &options);
        batches.push(batch.map_err(|error| Error::internal("rows do not have the columns of their plan").caused_by(error))?);
    }
    MemTable::try_new(schema.clone(), vec![batches]).map(Some).map_err(from_datafusion)
}

/// The schema of the rows of a plan as they are kept: everything can be null.
pub(super) fn schema_of(plan: &LogicalPlan) -> SchemaRef {
    let fields = plan.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<Field>>()))
}

/// Whether rows of a plan come from files or tables.
fn reads_storage(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    let walked = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let provider = provider.as_ref() as &dyn Any
            && (provider.is::<TableRelation>() || provider.downcast_ref::<Kept>().is_some_and(|kept| kept.reads_storage))
        {
            found = true;
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_err(from_datafusion)?;
    Ok(found)
}
