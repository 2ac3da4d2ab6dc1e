//! Checkpoints of the table's log, made in the background so that no commit waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_core::options::parse_duration;
use millstream_core::{Clock, Result};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::actions::Metadata;
use super::log::TableLog;

/// How long commits are kept when the table does not say, in milliseconds: 30 days.
const LOG_RETENTION_MS: i64 = 30 * 24 * 3600 * 1000;

/// Commits between checkpoints when neither the query nor the table says.
const INTERVAL: u64 = 100;

/// Makes checkpoints, one at a time.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    running: Arc<AtomicBool>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Checkpoints {
    /// Begins a checkpoint at `version` if one is due: every so many commits, as `interval`, the table or the default says.
    pub(super) fn start_if_due(&self, log: &TableLog, version: u64, metadata: &Metadata, interval: Option<u64>, clock: &Arc<dyn Clock>) {
        let table = metadata.number("delta.checkpointInterval").and_then(|interval| u64::try_from(interval).ok());
        let interval = interval.or(table).unwrap_or(INTERVAL).max(1);
        if version > 0 && version.is_multiple_of(interval) {
            self.start(log, version, metadata, clock);
        }
    }

    /// Begins a checkpoint at `version` unless one is being made. A failure is logged: the table is complete without it.
    fn start(&self, log: &TableLog, version: u64, metadata: &Metadata, clock: &Arc<dyn Clock>) {
        if self.running.swap(true, Ordering::AcqRel) {
            return;
        }
        let (log, running) = (log.clone(), self.running.clone());
        let cutoff_ms = metadata.flag("delta.enableExpiredLogCleanup").then(|| clock.now_ms() - retention_ms(metadata));
        let task = tokio::spawn(async move {
            if let Err(error) = make(&log, version, cutoff_ms).await {
                tracing::warn!(table = %log.url(), version, %error, "no checkpoint of the Delta log was made");
            }
            running.store(false, Ordering::Release);
        });
        *self.task.lock() = Some(task);
    }

    /// Waits for the checkpoint that is being made.
    pub(super) async fn wait(&self) {
        let task = self.task.lock().take();
        if let Some(task) = task
            && let Err(error) = task.await
        {
            tracing::warn!(%error, "making a checkpoint of the Delta log was interrupted");
            self.running.store(false, Ordering::Release);
        }
    }
}

async fn make(log: &TableLog, version: u64, cutoff_ms: Option<i64>) -> Result<()> {
    let Some(snapshot) = log.snapshot(Some(version)).await? else { return Ok(()) };
    snapshot.write_checkpoint().await?;
    if let Some(cutoff_ms) = cutoff_ms {
        let store = log.log_store();
        let removed = deltalake::checkpoints::cleanup_expired_logs_for(version, store.as_ref(), cutoff_ms, None).await;
        if let Err(error) = removed {
            tracing::warn!(table = %log.url(), %error, "expired commits of the Delta log were not removed");
        }
    }
    Ok(())
}

fn retention_ms(metadata: &Metadata) -> i64 {
    let property = "delta.logRetentionDuration";
    metadata
        .configuration
        .get(property)
        .and_then(|text| parse_duration(property, text).ok())
        .and_then(|duration| i64::try_from(duration.as_millis()).ok())
        .unwrap_or(LOG_RETENTION_MS)
}
