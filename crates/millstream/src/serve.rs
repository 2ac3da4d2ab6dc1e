//! What the Spark Connect server needs from this process: connectors, stores, threads, the clock, directories.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use millstream_checkpoint::store::{self, Privacy};
use millstream_connectors::memory::MemoryTables;
use millstream_core::{Clock, Error, ErrorKind, Ids, Result};
use millstream_engine::memory::SharedMemory;
use millstream_engine::query::CheckpointLocation;
use millstream_engine::runner::LocalRunner;
use millstream_engine::{ActiveQueries, Session, SessionOptions};
use millstream_spark::connect::{Host, TemporaryDirectory};
use millstream_spark::python::PythonOptions;

use crate::wiring::{Wiring, owner};

/// This process as a host of sessions, which share its connectors and threads.
#[derive(Debug)]
pub struct ServeHost {
    wiring: Wiring,
    runner: Arc<LocalRunner>,
    queries: ActiveQueries,
    warehouse: String,
    python: PythonOptions,
    memory: SharedMemory,
    address: OnceLock<String>,
}

impl ServeHost {
    /// A host whose tables are under `warehouse`, a folder or a URL, in a process that may have `memory` bytes, 0 for no limit. Half of them
    /// are for joins, sorts and aggregations of all sessions.
    ///
    /// # Errors
    /// `INVALID_LOCATION`; `INTERNAL_ERROR` when the system gives no threads.
    pub fn new(wiring: Wiring, warehouse: &str, python: PythonOptions, memory: u64) -> Result<Self> {
        let memory = if memory == 0 { usize::MAX } else { usize::try_from(memory / 2).unwrap_or(usize::MAX) };
        let (_, _, url) = store::open(warehouse, Privacy::Shared, &wiring.stores)?;
        Ok(ServeHost {
            runner: Arc::new(LocalRunner::new(SessionOptions::default().parallelism)?),
            wiring,
            queries: ActiveQueries::default(),
            warehouse: url.as_str().trim_end_matches('/').to_owned(),
            python,
            memory: SharedMemory::new(memory),
            address: OnceLock::new(),
        })
    }

    /// Tells where the server listens: `sc://127.0.0.1:15002`. Only the first call counts.
    pub fn set_address(&self, address: String) {
        self.address.get_or_init(|| address);
    }
}

#[async_trait]
impl Host for ServeHost {
    fn session(&self) -> Result<Session> {
        let wiring = self.wiring.clone().with_memory(MemoryTables::new());
        let options = SessionOptions {
            owner: owner(),
            queries: self.queries.clone(),
            shared_memory: Some(self.memory.clone()),
            ..SessionOptions::default()
        };
        Session::with_runner(wiring.registry(std::io::stdout()), options, self.runner.clone())
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.wiring.clock.clone()
    }

    fn ids(&self) -> Arc<dyn Ids> {
        self.wiring.ids.clone()
    }

    async fn checkpoint(&self, place: &str) -> Result<CheckpointLocation> {
        self.wiring.checkpoint(place).await
    }

    fn open(&self, place: &str) -> Result<CheckpointLocation> {
        let location = self.wiring.storage().open(place)?;
        Ok(CheckpointLocation { store: location.store, root: location.path, url: location.url })
    }

    fn temporary_directory(&self, purpose: &str) -> Result<Box<dyn TemporaryDirectory>> {
        let path = std::env::temp_dir().join(format!("millstream-{purpose}-{}", self.wiring.ids.next()));
        DirBuilder::new().mode(0o700).create(&path).map_err(|error| {
            let message = format!("cannot make the directory {}: check TMPDIR", path.display());
            Error::new(ErrorKind::StoreUnavailable, "STORE_UNAVAILABLE", message).caused_by(error)
        })?;
        Ok(Box::new(OwnDirectory { path, kept: false }))
    }

    fn warehouse(&self) -> String {
        self.warehouse.clone()
    }

    fn python(&self) -> PythonOptions {
        self.python.clone()
    }

    fn time_zone(&self) -> String {
        std::env::var("TZ").ok().filter(|zone| !zone.is_empty()).or_else(system_zone).unwrap_or_else(|| "UTC".to_owned())
    }

    fn address(&self) -> Option<String> {
        self.address.get().cloned()
    }
}

/// The zone that `/etc/localtime` links to.
fn system_zone() -> Option<String> {
    let target = std::fs::canonicalize("/etc/localtime").ok()?;
    let zone = target.to_str()?.split_once("/zoneinfo/")?.1;
    Some(zone.to_owned())
}

#[derive(Debug)]
struct OwnDirectory {
    path: PathBuf,
    kept: bool,
}

impl TemporaryDirectory for OwnDirectory {
    fn path(&self) -> &Path {
        &self.path
    }

    fn keep(mut self: Box<Self>) {
        self.kept = true;
    }
}

impl Drop for OwnDirectory {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            tracing::debug!(path = %self.path.display(), %error, "a temporary directory was not removed");
        }
    }
}
