//! `df.checkpoint()` and `df.localCheckpoint()`: the rows of a frame, computed once.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema};
use datafusion::common::Column;
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use futures::StreamExt;
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::{CachedRemoteRelation, CheckpointCommand, CheckpointCommandResult};

use super::Session;
use crate::analyzer::{Analyzed, Attribute};
use crate::connect::analyze::refuse_streaming;
use crate::connect::errors::incomplete;
use crate::connect::execute::visible_plan;

/// The most that one checkpoint keeps in memory, bytes.
const MOST_BYTES: usize = 512 << 20;

/// Computes a frame and keeps its rows in the session; without `eager` only its plan is kept.
///
/// # Errors
/// Those of the frame; `CHECKPOINT_TOO_LARGE`.
pub(super) async fn run(session: &Session, command: CheckpointCommand) -> Result<CheckpointCommandResult> {
    let relation = command.relation.as_ref().ok_or_else(|| incomplete("CheckpointCommand.relation"))?;
    let analyzed = session.analyze(relation).await?;
    refuse_streaming(&analyzed.plan, "checkpoint")?;
    let kept = if command.eager { computed(session, analyzed).await? } else { analyzed };
    Ok(CheckpointCommandResult { relation: Some(CachedRemoteRelation { relation_id: session.remember(kept) }) })
}

async fn computed(session: &Session, analyzed: Analyzed) -> Result<Analyzed> {
    let columns: Vec<Attribute> = analyzed.columns.iter().filter(|column| !column.hidden).cloned().collect();
    let mut rows = session.engine.rows(visible_plan(analyzed)?).await?;
    let mut batches: Vec<RecordBatch> = Vec::new();
    let mut bytes = 0_usize;
    while let Some(batch) = rows.batches.next().await {
        let batch = batch?;
        bytes = bytes.saturating_add(batch.get_array_memory_size());
        if bytes > MOST_BYTES {
            let message = format!("the rows of this checkpoint are more than {MOST_BYTES} bytes: write them to a table and read that");
            return Err(Error::invalid("CHECKPOINT_TOO_LARGE", message));
        }
        batches.push(batch);
    }
    let fields: Vec<Field> = rows.schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let batches = batches.into_iter().map(|batch| batch.with_schema(schema.clone())).collect::<Result<Vec<_>, _>>();
    let batches = batches.map_err(|error| Error::internal("rows do not have the columns of their plan").caused_by(error))?;
    let table = MemTable::try_new(schema, vec![batches]).map_err(from_datafusion)?;
    let names = columns.iter().map(|column| Expr::Column(Column::new(Some("checkpoint"), &column.internal)).alias(&column.internal));
    let plan = LogicalPlanBuilder::scan("checkpoint", provider_as_source(Arc::new(table)), None)
        .and_then(|scan| scan.project(names.collect::<Vec<_>>()))
        .and_then(LogicalPlanBuilder::build)
        .map_err(from_datafusion)?;
    Ok(Analyzed { plan, columns })
}
