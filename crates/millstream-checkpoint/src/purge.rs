//! Removing what nothing needs any more.

use std::sync::Arc;

use millstream_core::{Result, crash};

use crate::checkpoint::Shared;
use crate::codec::boundary;
use crate::epoch;
use crate::layout::{Entry, Log};
use crate::source_log::CheckpointSourceLog;

pub(crate) async fn run(shared: &Shared, committed: u64, logs: &[Arc<CheckpointSourceLog>]) -> Result<()> {
    let mut boundary = shared.boundary.lock().clone();
    let batches = keep_from(shared, committed).filter(|batch| *batch >= boundary.batch + step(shared.options.min_batches_to_retain));
    let mut sources = Vec::new();
    for log in logs {
        if let Some(covered) = log.removable().await? {
            sources.push((log, covered));
        }
    }
    if batches.is_none() && sources.is_empty() {
        return Ok(());
    }
    shared.ensure_owner().await?;
    crash::point("purge.before");
    boundary.epoch = shared.claim.epoch;
    boundary.batch = batches.unwrap_or(boundary.batch);
    for (log, covered) in &sources {
        boundary.sources.insert(log.name().to_owned(), *covered);
    }
    shared.objects.replace(&shared.layout.boundary(), &boundary::encode(&boundary)?).await?;
    *shared.boundary.lock() = boundary;
    if let Some(batch) = batches {
        for log in Log::ALL {
            remove_below(shared, log, batch).await?;
        }
        epoch::forget(&shared.objects, &shared.layout, &shared.claim, shared.options.clock.now_ms()).await?;
    }
    for (log, covered) in sources {
        log.remove_below(covered).await?;
    }
    crash::point("purge.after");
    Ok(())
}

/// The first batch whose records stay.
fn keep_from(shared: &Shared, committed: u64) -> Option<u64> {
    let position = *shared.position.lock();
    let committed = committed.min(position.committed?);
    // Recovery reads the newest batch and the end of the one before.
    let keep_from = committed.saturating_sub(shared.options.min_batches_to_retain.max(1));
    Some(position.state_base.map_or(keep_from, |base| keep_from.min(base)))
}

/// How many batches are removed at a time, so that most calls cost nothing.
fn step(min_batches_to_retain: u64) -> u64 {
    (min_batches_to_retain / 4).clamp(1, 25)
}

async fn remove_below(shared: &Shared, log: Log, batch: u64) -> Result<()> {
    let objects = shared.objects.list(&shared.layout.log(log)).await?;
    let old = objects.into_iter().filter(|object| match Entry::parse(object.location.filename().unwrap_or_default()) {
        Entry::Record(id) | Entry::HadoopChecksum(id) | Entry::Temporary(id) => id < batch,
        Entry::Compact(_) | Entry::Other => false,
    });
    shared.objects.delete_all(old.map(|object| object.location).collect()).await
}
