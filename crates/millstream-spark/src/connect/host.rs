//! What the service needs from the process that it runs in.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use millstream_core::{Clock, Ids, Result};
use millstream_engine::Session;
use millstream_engine::query::CheckpointLocation;

use crate::python::PythonOptions;

/// Connectors, stores, time and identifiers of a process that serves Spark Connect. The binary implements it.
#[async_trait]
pub trait Host: Debug + Send + Sync {
    /// A new engine session: its own context and its own memory tables over the connectors and threads that all sessions share.
    ///
    /// # Errors
    /// Those of the engine's set-up.
    fn session(&self) -> Result<Session>;

    /// The clock.
    fn clock(&self) -> Arc<dyn Clock>;

    /// New identifiers.
    fn ids(&self) -> Arc<dyn Ids>;

    /// Opens the place (path or URL) of a streaming query's checkpoint.
    ///
    /// # Errors
    /// `INVALID_LOCATION`, and errors of preparing what an earlier process left there.
    async fn checkpoint(&self, place: &str) -> Result<CheckpointLocation>;

    /// Opens a place (path or URL) of data: its store, its path in there, and its normalised URL.
    ///
    /// # Errors
    /// `INVALID_LOCATION`.
    fn open(&self, place: &str) -> Result<CheckpointLocation>;

    /// A new empty directory on local disk, for a query without `checkpointLocation` or for files of a session. `purpose` becomes part of
    /// its name.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the disk does not take it.
    fn temporary_directory(&self, purpose: &str) -> Result<Box<dyn TemporaryDirectory>>;

    /// The root of tables (`spark.sql.warehouse.dir`) as a URL without a slash at the end.
    fn warehouse(&self) -> String;

    /// Whether and with what functions of clients in Python are run.
    fn python(&self) -> PythonOptions {
        PythonOptions::default()
    }

    /// The time zone of the process (`Europe/Paris`), with which sessions begin.
    fn time_zone(&self) -> String {
        "UTC".to_owned()
    }

    /// The address at which clients reach this service (`sc://127.0.0.1:15002`), for Python workers that connect back; `None` until it
    /// listens.
    fn address(&self) -> Option<String>;
}

/// A directory that is removed when this is dropped.
pub trait TemporaryDirectory: Debug + Send + Sync {
    /// Where it is.
    fn path(&self) -> &Path;

    /// Leaves the directory on disk, as Spark leaves the temporary checkpoint of a query that failed.
    fn keep(self: Box<Self>);
}
