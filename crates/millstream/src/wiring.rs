//! The one place where connectors, stores, clock and engine meet. A new connector is one line in [`registry`].

use std::fmt;
use std::io::Write;
use std::sync::Arc;

use async_trait::async_trait;
use millstream_checkpoint::reader::CheckpointReader;
use millstream_checkpoint::store::{self, FileOps, Privacy, StoreOptions};
use millstream_connectors::console::{ConsoleOutput, ConsoleProvider};
use millstream_connectors::delta::{DeltaSinkProvider, DeltaSourceProvider, DeltaTables};
use millstream_connectors::files::FilesProvider;
use millstream_connectors::files::sink::FileSinkProvider;
use millstream_connectors::kafka::{KafkaSinkProvider, KafkaSourceProvider};
use millstream_connectors::memory::{MemoryProvider, MemoryTables};
use millstream_connectors::noop::NoopProvider;
use millstream_connectors::rate::RateProvider;
use millstream_connectors::rate_micro_batch::RateMicroBatchProvider;
use millstream_connectors::socket::SocketProvider;
use millstream_connectors::storage::{Location, Storage};
use millstream_core::options::OptionSpec;
use millstream_core::registry::{Registry, SinkProvider, WriteRequest};
use millstream_core::sink::Sink;
use millstream_core::{Clock, Error, ErrorKind, Ids, Result};
use millstream_engine::query::CheckpointLocation;
use millstream_engine::state_source::{OpenReader, StateMetadataProvider, StateStoreProvider};
use millstream_engine::{Session, SessionOptions};
use object_store::ObjectStore;

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
    decorator: StoreDecorator,
}

/// Puts something around a store.
type Decorate = dyn Fn(Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> + Send + Sync;

/// What is put around every store that a process opens.
#[derive(Clone)]
struct StoreDecorator(Arc<Decorate>);

impl fmt::Debug for StoreDecorator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreDecorator")
    }
}

impl Wiring {
    /// The real clock, random identifiers, durable stores.
    pub fn system() -> Self {
        Self::new(Arc::new(SystemClock::default()), Arc::new(RandomIds))
    }

    /// Durable stores under another clock and other identifiers.
    pub fn new(clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        let stores = StoreOptions::new(clock.clone(), ids.clone());
        Wiring { clock, ids, stores, memory: MemoryTables::new(), decorator: StoreDecorator(Arc::new(|store| store)) }
    }

    /// The same with other tables of the memory sink, so that sessions do not see each other's.
    pub fn with_memory(self, memory: MemoryTables) -> Self {
        Wiring { memory, ..self }
    }

    /// The same with another way to change local files, such as a recorder of what a power cut could undo.
    pub fn with_file_ops(self, files: Arc<dyn FileOps>) -> Self {
        Wiring { stores: self.stores.with_file_ops(files), ..self }
    }

    /// The same with `decorate` around every store of checkpoints and tables, such as one that injects failures.
    pub fn with_store_decorator(self, decorate: impl Fn(Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> + Send + Sync + 'static) -> Self {
        Wiring { decorator: StoreDecorator(Arc::new(decorate)), ..self }
    }

    /// Stores for data: readable by whoever the umask says.
    pub fn storage(&self) -> Storage {
        let (stores, decorator) = (self.stores.clone(), self.decorator.clone());
        Storage::new(move |place| {
            let (store, path, url) = store::open(place, Privacy::Shared, &stores)?;
            Ok(Location { url, store: (decorator.0)(store), path })
        })
    }

    /// Opens the place of a checkpoint, which only the owner of this process may read.
    ///
    /// # Errors
    /// `INVALID_LOCATION`, and errors of preparing what an earlier process left there.
    pub async fn checkpoint(&self, place: &str) -> Result<CheckpointLocation> {
        store::settle(place, Privacy::Private, &self.stores).await?;
        let (store, root, url) = store::open(place, Privacy::Private, &self.stores)?;
        Ok(CheckpointLocation { store: (self.decorator.0)(store), root, url })
    }

    /// Opens a checkpoint for looking at it only.
    ///
    /// # Errors
    /// `INVALID_LOCATION`.
    pub fn checkpoint_reader(&self, place: &str) -> Result<CheckpointReader> {
        let (store, root, url) = store::open(place, Privacy::Private, &self.stores)?;
        Ok(CheckpointReader::new((self.decorator.0)(store), root, url, self.clock.clone()))
    }

    /// Opens the root of a pipeline's tables and checkpoints.
    ///
    /// # Errors
    /// `INVALID_LOCATION`, and errors of preparing what an earlier process left in its checkpoints.
    pub async fn pipeline_root(&self, place: &str) -> Result<CheckpointLocation> {
        let checkpoints = format!("{}/_checkpoints", place.trim_end_matches('/'));
        store::settle(&checkpoints, Privacy::Private, &self.stores).await?;
        let (store, root, url) = store::open(place, Privacy::Private, &self.stores)?;
        Ok(CheckpointLocation { store: (self.decorator.0)(store), root, url })
    }

    /// Makes the folder of a local place, so that one that cannot be made is refused before anything runs; `option` is what named it.
    ///
    /// # Errors
    /// `INVALID_LOCATION`; `STORE_UNAVAILABLE` when it cannot be made.
    pub fn make_folder(&self, place: &str, option: &str) -> Result<()> {
        let (_, _, url) = store::open(place, Privacy::Shared, &self.stores)?;
        let Some(folder) = (url.scheme() == "file").then(|| url.to_file_path().ok()).flatten() else { return Ok(()) };
        std::fs::create_dir_all(&folder).map_err(|error| {
            let message = format!("cannot make the folder {}: check {option} and the permissions there", folder.display());
            Error::new(ErrorKind::StoreUnavailable, "STORE_UNAVAILABLE", message).caused_by(error)
        })
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
        registry.add_source(Arc::new(KafkaSourceProvider::new(clock.clone(), ids.clone())));
        registry.add_source(Arc::new(RateProvider::new()));
        registry.add_source(Arc::new(RateMicroBatchProvider::new()));
        registry.add_source(Arc::new(SocketProvider::new()));
        registry.add_source(Arc::new(MemoryProvider::new(self.memory.clone())));
        let wiring = self.clone();
        let reader: Arc<OpenReader> = Arc::new(move |place| wiring.checkpoint_reader(place));
        registry.add_source(Arc::new(StateStoreProvider::new(reader.clone())));
        registry.add_source(Arc::new(StateMetadataProvider::new(reader)));
        let settled = |provider: Arc<dyn SinkProvider>, log: &'static str| Arc::new(Settled { provider, log, stores: self.stores.clone() });
        for files in FileSinkProvider::all(&storage, clock, ids) {
            registry.add_sink(settled(files, "_spark_metadata"));
        }
        registry.add_versioned(Arc::new(DeltaTables::new(storage.clone(), clock.clone(), ids.clone())));
        registry.add_sink(settled(Arc::new(DeltaSinkProvider::new(storage, clock.clone(), ids.clone())), "_delta_log"));
        registry.add_sink(Arc::new(KafkaSinkProvider));
        registry.add_sink(Arc::new(MemoryProvider::new(self.memory.clone())));
        registry.add_sink(Arc::new(ConsoleProvider::new(ConsoleOutput::new(console))));
        registry.add_sink(Arc::new(NoopProvider));
        registry
    }
}

/// Sinks that find out from a log in their table what is committed. A process that is killed may leave a commit there that is not on disk
/// yet; who takes it for done, and says so in the checkpoint, would lose the batch in the next power cut. So the log is made durable before
/// a sink reads it.
#[derive(Debug)]
struct Settled {
    provider: Arc<dyn SinkProvider>,
    /// The folder of the log in the table.
    log: &'static str,
    stores: StoreOptions,
}

#[async_trait]
impl SinkProvider for Settled {
    fn names(&self) -> &'static [&'static str] {
        self.provider.names()
    }

    fn options(&self) -> Vec<OptionSpec> {
        self.provider.options()
    }

    async fn sink(&self, request: &WriteRequest) -> Result<Arc<dyn Sink>> {
        if let Some(place) = request.path.as_deref().or_else(|| request.options.get("path")) {
            let log = format!("{}/{}", place.trim_end_matches('/'), self.log);
            store::settle(&log, Privacy::Shared, &self.stores).await.map_err(of_sink)?;
        }
        self.provider.sink(request).await
    }
}

/// An unreachable table is a matter of the sink, not of the checkpoint.
fn of_sink(error: Error) -> Error {
    match error.kind() {
        ErrorKind::StoreUnavailable => {
            let message = "the log of the table cannot be made durable; check that the table can be read and written";
            Error::new(ErrorKind::SinkUnavailable, error.code().to_owned(), message).caused_by(error)
        }
        _ => error,
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
