//! The one place where connectors, stores, clock and engine meet. A new connector is one line in [`registry`].

use std::io::Write;
use std::sync::Arc;

use millstream_checkpoint::store::{self, Privacy, StoreOptions};
use millstream_connectors::console::{ConsoleOutput, ConsoleProvider};
use millstream_connectors::delta::{DeltaSinkProvider, DeltaSourceProvider};
use millstream_connectors::files::FilesProvider;
use millstream_connectors::files::sink::FileSinkProvider;
use millstream_connectors::memory::{MemoryProvider, MemoryTables};
use millstream_connectors::noop::NoopProvider;
use millstream_connectors::rate::RateProvider;
use millstream_connectors::rate_micro_batch::RateMicroBatchProvider;
use millstream_connectors::socket::SocketProvider;
use millstream_connectors::storage::{Location, Storage};
use millstream_core::registry::Registry;
use millstream_core::{Clock, Ids, Result};
use millstream_engine::query::CheckpointLocation;
use millstream_engine::{Session, SessionOptions};

use crate::system::{RandomIds, SystemClock};

/// What a process shares between its sessions.
#[derive(Clone, Debug)]
pub struct Wiring {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// New identifiers.
    pub ids: Arc<dyn Ids>,
    /// Stores of checkpoints and tables, and what they spent on durability.
    pub stores: StoreOptions,
    /// Tables of the memory sink.
    pub memory: MemoryTables,
}

impl Wiring {
    /// The real clock, random identifiers, durable stores.
    pub fn system() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let ids: Arc<dyn Ids> = Arc::new(RandomIds);
        Wiring { stores: StoreOptions::new(clock.clone(), ids.clone()), clock, ids, memory: MemoryTables::new() }
    }

    /// Stores for data: readable by whoever the umask says.
    pub fn storage(&self) -> Storage {
        let stores = self.stores.clone();
        Storage::new(move |place| {
            let (store, path, url) = store::open(place, Privacy::Shared, &stores)?;
            Ok(Location { url, store, path })
        })
    }

    /// Opens the place of a checkpoint, which only the owner of this process may read.
    ///
    /// # Errors
    /// `INVALID_LOCATION`, and errors of preparing what an earlier process left there.
    pub async fn checkpoint(&self, place: &str) -> Result<CheckpointLocation> {
        store::settle(place, Privacy::Private, &self.stores).await?;
        let (store, root, url) = store::open(place, Privacy::Private, &self.stores)?;
        Ok(CheckpointLocation { store, root, url })
    }

    /// Opens the root of a pipeline's tables and checkpoints.
    ///
    /// # Errors
    /// `INVALID_LOCATION`, and errors of preparing what an earlier process left in its checkpoints.
    pub async fn pipeline_root(&self, place: &str) -> Result<CheckpointLocation> {
        let checkpoints = format!("{}/_checkpoints", place.trim_end_matches('/'));
        store::settle(&checkpoints, Privacy::Private, &self.stores).await?;
        let (store, root, url) = store::open(place, Privacy::Private, &self.stores)?;
        Ok(CheckpointLocation { store, root, url })
    }

    /// Every connector of this build. The console sink writes to `console`.
    pub fn registry(&self, console: impl Write + Send + 'static) -> Registry {
        let storage = self.storage();
        let (clock, ids) = (&self.clock, &self.ids);
        let mut registry = Registry::new(clock.clone(), ids.clone());
        for files in FilesProvider::all(&storage) {
            registry.add_source(files);
        }
        registry.add_source(Arc::new(DeltaSourceProvider::new(storage.clone())));
        registry.add_source(Arc::new(RateProvider::new()));
        registry.add_source(Arc::new(RateMicroBatchProvider::new()));
        registry.add_source(Arc::new(SocketProvider::new()));
        registry.add_source(Arc::new(MemoryProvider::new(self.memory.clone())));
        for files in FileSinkProvider::all(&storage, clock, ids) {
            registry.add_sink(files);
        }
        registry.add_sink(Arc::new(DeltaSinkProvider::new(storage, clock.clone(), ids.clone())));
        registry.add_sink(Arc::new(MemoryProvider::new(self.memory.clone())));
        registry.add_sink(Arc::new(ConsoleProvider::new(ConsoleOutput::new(console))));
        registry.add_sink(Arc::new(NoopProvider));
        registry
    }
}

/// A session with every connector of this build, on all cores of this machine.
///
/// # Errors
/// `INTERNAL_ERROR` when the system gives no threads.
pub fn session() -> Result<Session> {
    Session::new(Wiring::system().registry(std::io::stdout()), SessionOptions { owner: owner(), ..SessionOptions::default() })
}

/// This process, for messages to whoever finds a checkpoint in use: `pid 4711 on web-1`.
pub fn owner() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::fs::read_to_string("/etc/hostname"));
    let host = host.map_or_else(|_| "this host".to_owned(), |name| name.trim().to_owned());
    format!("pid {} on {host}", std::process::id())
}
