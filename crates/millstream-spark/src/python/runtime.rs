//! What plans need in order to call functions of users.

use std::fmt;
use std::sync::Arc;

use millstream_core::{Ids, Result};

use super::command::PythonCommand;
use super::daemon::Workers;
use super::task::Task;
use super::worker::Worker;

/// The workers of a session, and what its settings say to them. It becomes part of the plans that call functions.
#[derive(Clone)]
pub(crate) struct PythonRuntime(Arc<Inner>);

struct Inner {
    workers: Arc<Workers>,
    python: PythonCommand,
    ids: Arc<dyn Ids>,
    settings: Vec<(&'static str, String)>,
}

/// Settings of a session that workers ask for.
pub(crate) const SETTINGS: [&str; 10] = [
    "spark.sql.session.timeZone",
    "spark.sql.execution.arrow.maxRecordsPerBatch",
    "spark.sql.execution.arrow.useLargeVarTypes",
    "spark.sql.execution.pandas.convertToArrowArraySafely",
    "spark.sql.execution.pyspark.binaryAsBytes",
    "spark.sql.execution.pythonUDF.arrow.concurrency.level",
    "spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled",
    "spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype",
    "spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName",
    "spark.sql.legacy.execution.pythonUDF.pandas.conversion.enabled",
];

impl PythonRuntime {
    /// A runtime over these workers. `settings` are those of [`SETTINGS`] that are set.
    pub(crate) fn new(workers: Arc<Workers>, python: PythonCommand, ids: Arc<dyn Ids>, settings: Vec<(&'static str, String)>) -> Self {
        PythonRuntime(Arc::new(Inner { workers, python, ids, settings }))
    }

    /// A worker that waits for a task.
    ///
    /// # Errors
    /// `PYTHON_WORKER_UNAVAILABLE`.
    pub(super) async fn take(&self) -> Result<Worker> {
        self.0.workers.take(&self.0.python, self.0.ids.as_ref()).await
    }

    /// Gives a worker back after its task.
    pub(super) fn give_back(&self, worker: Worker) {
        self.0.workers.give_back(&self.0.python, worker);
    }

    /// A task with the session's settings.
    pub(super) fn task(&self, python_version: &str, eval_type: i32, functions: super::protocol::Message) -> Task {
        Task { python_version: python_version.to_owned(), eval_type, settings: self.0.settings.clone(), described: Vec::new(), functions }
    }
}

impl fmt::Debug for PythonRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PythonRuntime").field(&self.0.python).finish()
    }
}

impl PartialEq for PythonRuntime {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for PythonRuntime {}
