//! Waiting for the next commit of a table.

use std::sync::Arc;
use std::time::Duration;

use millstream_core::Clock;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::log::TableLog;

/// The first pause between two looks; each later one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// The longest pause between two looks.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Waits for commits: on a local disk by the file system's events, elsewhere and in addition by looking from time to time.
pub(super) struct CommitWatch {
    log: TableLog,
    clock: Arc<dyn Clock>,
    woken: Arc<Notify>,
    watcher: Mutex<Option<RecommendedWatcher>>,
}

impl CommitWatch {
    pub(super) fn new(log: TableLog, clock: Arc<dyn Clock>) -> Self {
        CommitWatch { log, clock, woken: Arc::default(), watcher: Mutex::default() }
    }

    /// Completes when commit `version` exists.
    pub(super) async fn wait_for(&self, version: u64) {
        self.watch();
        let mut pause = FIRST_PAUSE;
        loop {
            match self.log.commit_time(version).await {
                Ok(Some(_)) => return,
                Ok(None) => {}
                Err(error) => tracing::debug!(table = %self.log.url(), %error, "cannot look for new commits"),
            }
            // An event that comes between the look and here is kept, and ends the wait at once.
            tokio::select! {
                () = self.woken.notified() => pause = FIRST_PAUSE,
                () = self.clock.sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
            }
        }
    }

    fn watch(&self) {
        let mut watcher = self.watcher.lock();
        if watcher.is_some() {
            return;
        }
        let Some(folder) = self.log.local_folder().filter(|folder| folder.is_dir()) else { return };
        let woken = self.woken.clone();
        let created = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let commit =
                |event: notify::Event| event.paths.iter().any(|path| path.extension().is_some_and(|extension| extension == "json"));
            if event.is_ok_and(commit) {
                woken.notify_one();
            }
        });
        let started = created.and_then(|mut watcher| watcher.watch(&folder, RecursiveMode::NonRecursive).map(|()| watcher));
        match started {
            Ok(started) => *watcher = Some(started),
            Err(error) => tracing::debug!(folder = %folder.display(), %error, "no file events; looking for commits from time to time"),
        }
    }

    /// Stops watching.
    pub(super) fn stop(&self) {
        self.watcher.lock().take();
    }
}

impl std::fmt::Debug for CommitWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CommitWatch")
    }
}
