//! What plans need in order to call functions of users.

use std::fmt;
use std::sync::Arc;

use millstream_core::{Ids, Result};

use super::command::PythonCommand;
use super::daemon::Workers;
use super::protocol::Message;
use super::task::Task;
use super::worker::Worker;

/// The workers of a session and what its settings say to them. It becomes part of the plans that call functions, which keep the settings
/// that they were made with.
#[derive(Clone)]
pub struct PythonRuntime(Arc<Inner>);

struct Inner {
    workers: Arc<Workers>,
    python: PythonCommand,
    ids: Arc<dyn Ids>,
    files: PythonFiles,
    settings: Vec<(&'static str, String)>,
}

/// Files of a session that its functions import and open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PythonFiles {
    /// Where they are; empty when there are none.
    pub(crate) directory: String,
    /// The modules and packages among them.
    pub(crate) modules: Vec<String>,
}

impl PythonFiles {
    /// Where they are, as workers are told.
    pub(super) fn describe(&self, message: &mut Message) {
        message.text(&self.directory).int(i32::try_from(self.modules.len()).unwrap_or(0));
        for module in &self.modules {
            message.text(module);
        }
    }
}

/// The session's time zone, under which workers see instants.
const TIME_ZONE: &str = "spark.sql.session.timeZone";

/// The most rows of a record batch that a worker is sent.
const RECORDS_PER_BATCH: &str = "spark.sql.execution.arrow.maxRecordsPerBatch";

/// The most rows of state that a worker is sent at once.
const STATE_RECORDS_PER_BATCH: &str = "spark.sql.execution.arrow.transformWithStateInPySpark.maxStateRecordsPerBatch";

/// Settings of a session that workers ask for.
const SETTINGS: [&str; 12] = [
    TIME_ZONE,
    RECORDS_PER_BATCH,
    "spark.sql.execution.arrow.useLargeVarTypes",
    "spark.sql.execution.pandas.convertToArrowArraySafely",
    "spark.sql.execution.pyspark.binaryAsBytes",
    "spark.sql.execution.pythonUDF.arrow.concurrency.level",
    "spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled",
    "spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype",
    "spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName",
    "spark.sql.legacy.execution.pythonUDF.pandas.conversion.enabled",
    "spark.sql.legacy.execution.pythonUDTF.pandas.conversion.enabled",
    STATE_RECORDS_PER_BATCH,
];

impl PythonRuntime {
    /// A runtime over these workers, with files that functions need and the settings that `setting` gives by name.
    pub(crate) fn new(
        workers: Arc<Workers>,
        python: PythonCommand,
        ids: Arc<dyn Ids>,
        files: PythonFiles,
        setting: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let settings = SETTINGS.iter().filter_map(|name| Some((*name, setting(name)?))).collect();
        PythonRuntime(Arc::new(Inner { workers, python, ids, files, settings }))
    }

    /// No runtime, as where functions of clients are not run.
    ///
    /// # Errors
    /// `PYTHON_FUNCTIONS_DISABLED`.
    #[cfg(test)]
    pub(crate) fn disabled() -> Result<Self> {
        let options = super::PythonOptions { enabled: false, ..super::PythonOptions::default() };
        Err(PythonCommand::choose(&options, None).unwrap_err())
    }

    /// A worker that waits for a task.
    ///
    /// # Errors
    /// `PYTHON_WORKER_UNAVAILABLE`.
    pub(crate) async fn take(&self) -> Result<Worker> {
        self.0.workers.take(&self.0.python, self.0.ids.as_ref()).await
    }

    /// Gives a worker back after its task.
    pub(crate) fn give_back(&self, worker: Worker) {
        self.0.workers.give_back(&self.0.python, worker);
    }

    /// A worker of a module of its own, such as those that analyze table functions, with further environment variables; it is not used
    /// again.
    ///
    /// # Errors
    /// `PYTHON_WORKER_UNAVAILABLE`.
    pub(crate) async fn start(&self, module: &str, environment: &[(&str, String)]) -> Result<Worker> {
        let mut environment = environment.to_vec();
        let files = &self.0.files;
        if !files.directory.is_empty() {
            let inherited = std::env::var("PYTHONPATH").ok().filter(|path| !path.is_empty());
            let packed = files.modules.iter().map(|module| format!("{}/{module}", files.directory));
            let path: Vec<String> = std::iter::once(files.directory.clone()).chain(packed).chain(inherited).collect();
            environment.push(("PYTHONPATH", path.join(":")));
        }
        Worker::start(&self.0.python, module, &environment, self.0.ids.as_ref()).await
    }

    /// A task with the session's settings.
    pub(crate) fn task(&self, python_version: &str, eval_type: i32, functions: Message) -> Task {
        Task {
            python_version: python_version.to_owned(),
            eval_type,
            files: self.0.files.clone(),
            settings: self.0.settings.clone(),
            described: Vec::new(),
            functions,
        }
    }

    /// The task of a pickled function over an iterator, with its serializers in the pickle.
    pub(crate) fn over_iterator(&self, python_version: &str, command: &[u8]) -> Task {
        let mut functions = Message::default();
        functions.bytes(command);
        self.task(python_version, 0, functions)
    }

    /// The time zone under which workers see instants.
    pub(crate) fn time_zone(&self) -> &str {
        self.setting(TIME_ZONE).unwrap_or("UTC")
    }

    /// What processes that are no workers of tasks are told first: the client's version, and where files are.
    pub(crate) fn preface(&self, python_version: &str) -> Message {
        let mut message = Message::default();
        message.text(python_version);
        self.0.files.describe(&mut message);
        message
    }

    /// The most rows of a record batch that a worker is sent.
    pub(crate) fn rows_per_batch(&self) -> usize {
        match self.setting(RECORDS_PER_BATCH).and_then(|rows| rows.trim().parse::<i64>().ok()) {
            Some(rows) if rows > 0 => usize::try_from(rows).unwrap_or(usize::MAX),
            Some(_) => usize::MAX,
            None => 10_000,
        }
    }

    /// The most rows of state that a worker is sent at once.
    pub(crate) fn state_rows(&self) -> usize {
        self.setting(STATE_RECORDS_PER_BATCH).and_then(|rows| rows.trim().parse().ok()).filter(|rows| *rows > 0).unwrap_or(10_000)
    }

    fn setting(&self, name: &str) -> Option<&str> {
        self.0.settings.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }
}

impl fmt::Debug for PythonRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PythonRuntime").field(&self.0.python).finish()
    }
}

impl PartialEq for PythonRuntime {
    fn eq(&self, other: &Self) -> bool {
        self.0.python == other.0.python && self.0.settings == other.0.settings && Arc::ptr_eq(&self.0.workers, &other.0.workers)
    }
}

impl Eq for PythonRuntime {}
