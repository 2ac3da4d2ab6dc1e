//! `df.checkpoint()` and `df.localCheckpoint()`: the rows of a frame, computed once.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::{CachedRemoteRelation, CheckpointCommand, CheckpointCommandResult};

use super::Session;
use crate::analyzer::{Analyzed, Attribute};
use crate::connect::analyze::refuse_streaming;
use crate::connect::errors::incomplete;
use crate::connect::execute::visible_plan;
use crate::connect::persisted::{schema_of, table_of};

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
    let plan = visible_plan(analyzed)?;
    let table = table_of(session, plan.clone(), &schema_of(&plan), MOST_BYTES).await?.ok_or_else(|| {
        let message = format!("the rows of this checkpoint are more than {MOST_BYTES} bytes: write them to a table and read that");
        Error::invalid("CHECKPOINT_TOO_LARGE", message)
    })?;
    let names = columns.iter().map(|column| Expr::Column(Column::new(Some("checkpoint"), &column.internal)).alias(&column.internal));
    let plan = LogicalPlanBuilder::scan("checkpoint", provider_as_source(Arc::new(table)), None)
        .and_then(|scan| scan.project(names.collect::<Vec<_>>()))
        .and_then(LogicalPlanBuilder::build)
        .map_err(from_datafusion)?;
    Ok(Analyzed { plan, columns })
}
