//! Removing what nothing needs any more.

use std::sync::Arc;

use millstream_core::{Result, crash};

use crate::checkpoint::Shared;
use crate::codec::{boundary, commits};
use crate::epoch;
use crate::layout::{Entry, Log};
use crate::source_log::CheckpointSourceLog;
use crate::state::{StateFile, StateManifest};

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
        // Read while the record that says it is still there.
        let state = oldest_state(shared, batch).await?;
        for log in Log::ALL {
            remove_below(shared, log, batch).await?;
        }
        if let Some(state) = state {
            remove_state_below(shared, state).await?;
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

/// The first batch whose files of state are needed by any record that stays, the oldest of which is about `batch`.
async fn oldest_state(shared: &Shared, batch: u64) -> Result<Option<u64>> {
    let record = shared.record(&shared.layout.record(Log::Commits, batch), |bytes| commits::decode(bytes)).await?;
    let manifest = record.map(|record| StateManifest::of(&record)).transpose()?.flatten();
    Ok(manifest.map(|manifest| manifest.oldest_file(batch)))
}

async fn remove_state_below(shared: &Shared, batch: u64) -> Result<()> {
    let objects = shared.objects.list(&shared.layout.state()).await?;
    let old = objects
        .into_iter()
        .map(|object| object.location)
        .filter(|path| path.filename().and_then(StateFile::batch_of).is_some_and(|about| about < batch));
    shared.objects.delete_all(old.collect()).await
}

async fn remove_below(shared: &Shared, log: Log, batch: u64) -> Result<()> {
    let objects = shared.objects.list(&shared.layout.log(log)).await?;
    let old = objects.into_iter().filter(|object| match Entry::parse(object.location.filename().unwrap_or_default()) {
        Entry::Record(id) | Entry::HadoopChecksum(id) | Entry::Temporary(id) => id < batch,
        Entry::Compact(_) | Entry::Other => false,
    });
    shared.objects.delete_all(old.map(|object| object.location).collect()).await
}
