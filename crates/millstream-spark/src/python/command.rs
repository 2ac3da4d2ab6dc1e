//! Which Python runs the functions of users.

use millstream_core::{Error, ErrorKind, Result};
use tokio::process::Command;

/// What the process around a server says about Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PythonOptions {
    /// Whether functions of clients are run at all. Whoever may connect may run any program while this is true.
    pub enabled: bool,
    /// The interpreter, a path or a name on `PATH`; `PYSPARK_PYTHON`, else `python3` when it is not given.
    pub executable: Option<String>,
    /// The most workers that a session keeps busy at once. A plan needs one for each of its tasks and each of its calls that wait for one
    /// another.
    pub workers: usize,
}

impl Default for PythonOptions {
    fn default() -> Self {
        PythonOptions { enabled: true, executable: None, workers: 64 }
    }
}

/// The interpreter that a session uses, and how many processes of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PythonCommand {
    executable: String,
    workers: usize,
}

impl PythonCommand {
    /// The interpreter for a session whose `spark.sql.execution.pyspark.python` is `setting`.
    ///
    /// # Errors
    /// `PYTHON_FUNCTIONS_DISABLED` where functions of clients are not run.
    pub(crate) fn choose(options: &PythonOptions, setting: Option<String>) -> Result<Self> {
        if !options.enabled {
            return Err(Error::invalid(
                "PYTHON_FUNCTIONS_DISABLED",
                "this server does not run Python functions of clients: start it without --no-python, or use SQL functions",
            ));
        }
        let executable = setting.filter(|path| !path.trim().is_empty()).or_else(|| options.executable.clone());
        let executable = executable.or_else(|| std::env::var("PYSPARK_PYTHON").ok().filter(|path| !path.is_empty()));
        Ok(PythonCommand { executable: executable.unwrap_or_else(|| "python3".to_owned()), workers: options.workers.max(1) })
    }

    /// The most workers that may be busy at once.
    pub(super) fn workers(&self) -> usize {
        self.workers
    }

    /// A process of a module of PySpark's, which dies with its handle.
    pub(super) fn module(&self, module: &str) -> Command {
        let mut command = Command::new(&self.executable);
        command.args(["-m", module]).env("PYTHONUNBUFFERED", "YES").env("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER");
        command.env("SPARK_SIMPLIFIED_TRACEBACK", "1").kill_on_drop(true);
        command
    }

    /// The error for an interpreter that does not start, or that lacks PySpark.
    pub(super) fn unusable(&self, what: &str) -> Error {
        Error::new(
            ErrorKind::Invalid,
            "PYTHON_WORKER_UNAVAILABLE",
            format!(
                "the Python '{}' cannot run PySpark's workers: {what}. Start the server with --python naming one in which the clients' \
                 pyspark is installed.",
                self.executable
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_goes_before_the_server() {
        let options = PythonOptions { executable: Some("/server/python".to_owned()), ..PythonOptions::default() };
        let chosen = |setting: Option<&str>| PythonCommand::choose(&options, setting.map(str::to_owned)).unwrap().executable;
        assert_eq!(chosen(Some("/session/python")), "/session/python");
        assert_eq!(chosen(Some(" ")), "/server/python");
        let off = PythonOptions { enabled: false, ..options };
        assert_eq!(PythonCommand::choose(&off, None).unwrap_err().code(), "PYTHON_FUNCTIONS_DISABLED");
    }
}
