//! Waiting for new files: notification by the file system where there is one, and a listing now and then where it fails or is not heard.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use millstream_core::Clock;
use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RenameMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::listing::is_hidden;

/// The pause before the first look after something was found.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

/// How long it must be quiet after a change before the source looks: files mostly come in company, and one batch is cheaper than many.
pub(crate) const QUIET: Duration = Duration::from_millis(5);

/// How many changes in a row are waited out at most.
pub(crate) const MOST_CHANGES: usize = 4;

/// The pause after many looks in vain.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Waits for changes below a directory.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The directory, if it is on this machine.
    directory: Option<PathBuf>,
    signal: Arc<Notify>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    watcher: Option<Watching>,
    pause: Duration,
    /// The file system was asked and does not notify.
    refused: bool,
}

#[derive(Debug)]
struct Watching {
    _watcher: RecommendedWatcher,
    /// Which directory it is: one made anew under the same name has to be watched anew.
    identity: Identity,
}

type Identity = (u64, u64);

impl Watch {
    pub(crate) fn new(directory: Option<PathBuf>) -> Self {
        Watch {
            directory,
            signal: Arc::new(Notify::new()),
            state: Mutex::new(State { watcher: None, pause: SHORTEST_PAUSE, refused: false }),
        }
    }

    /// Something was found: look again soon.
    pub(crate) fn found(&self) {
        self.state.lock().pause = SHORTEST_PAUSE;
    }

    /// Completes when it is worth listing again: at a change, or with `settle` when it was quiet after it.
    pub(crate) async fn changed(&self, clock: &dyn Clock, settle: bool) {
        if self.start_watching().await {
            // What happened before the watch began was not heard.
            return;
        }
        let pause = self.state.lock().pause;
        tokio::select! {
            () = self.signal.notified() => {}
            () = clock.sleep(pause) => {
                let mut state = self.state.lock();
                state.pause = (state.pause * 2).min(LONGEST_PAUSE);
                return;
            }
        }
        for _ in 0..if settle { MOST_CHANGES } else { 0 } {
            tokio::select! {
                () = self.signal.notified() => {}
                () = clock.sleep(QUIET) => return,
            }
        }
    }

    /// Stops listening to the file system.
    pub(crate) fn stop(&self) {
        self.state.lock().watcher = None;
    }

    /// Watches the directory that is there now. Whether that began at this moment.
    async fn start_watching(&self) -> bool {
        let Some(directory) = &self.directory else { return false };
        let there = identity(directory);
        {
            let mut state = self.state.lock();
            if state.refused || state.watcher.as_ref().map(|watching| watching.identity) == there {
                return false;
            }
            state.watcher = None;
        }
        let Some(identity) = there else { return false };
        let (directory, signal) = (directory.clone(), self.signal.clone());
        let started = tokio::task::spawn_blocking(move || watch(&directory, signal)).await;
        let mut state = self.state.lock();
        match started {
            Ok(Ok(watcher)) => {
                state.watcher = Some(Watching { _watcher: watcher, identity });
                true
            }
            Ok(Err(error)) => {
                tracing::warn!(directory = ?self.directory, %error, "the file system does not notify: listing now and then");
                state.refused = true;
                false
            }
            Err(_) => false,
        }
    }
}

fn watch(directory: &Path, signal: Arc<Notify>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        // An error may mean that events were lost.
        if event.as_ref().map_or(true, matters) {
            signal.notify_one();
        }
    })?;
    watcher.watch(directory, RecursiveMode::Recursive)?;
    Ok(watcher)
}

/// Whether an event may have brought a file that is ready to be read. A file that is being written is not: it counts when it is closed
/// or renamed.
fn matters(event: &Event) -> bool {
    let kind = matches!(
        event.kind,
        EventKind::Any
            | EventKind::Other
            | EventKind::Create(CreateKind::Folder | CreateKind::Any)
            | EventKind::Access(AccessKind::Close(AccessMode::Write))
            | EventKind::Modify(ModifyKind::Name(RenameMode::To | RenameMode::Both | RenameMode::Any))
    );
    let visible = |path: &PathBuf| path.file_name().is_some_and(|name| !is_hidden(name.as_encoded_bytes()));
    kind && (event.paths.is_empty() || event.paths.iter().any(visible))
}

#[cfg(unix)]
fn identity(directory: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(directory).ok().filter(|metadata| metadata.is_dir()).map(|metadata| (metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(directory: &Path) -> Option<Identity> {
    std::fs::metadata(directory).ok().filter(|metadata| metadata.is_dir()).map(|_| (0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind, path: &str) -> Event {
        Event::new(kind).add_path(path.into())
    }

    #[test]
    fn only_what_may_be_a_finished_file_matters() {
        let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
        let renamed = EventKind::Modify(ModifyKind::Name(RenameMode::To));
        assert!(matters(&event(closed, "/in/a.json")));
        assert!(matters(&event(renamed, "/in/a.json")));
        assert!(matters(&event(EventKind::Create(CreateKind::Folder), "/in/p=1")));
        assert!(!matters(&event(closed, "/in/.a.json.tmp")));
        assert!(!matters(&event(EventKind::Create(CreateKind::File), "/in/a.json")));
        assert!(!matters(&event(EventKind::Access(AccessKind::Open(AccessMode::Any)), "/in/a.json")), "reading must not wake the reader");
    }
}
