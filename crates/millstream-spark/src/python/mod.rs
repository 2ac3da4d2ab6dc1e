//! Python functions of users: the processes that run them, what is said to those, and their calls in plans ([`plan`]).
//!
//! The processes are PySpark's own workers, started from the Python that the server is told to use; a client's functions arrive pickled and
//! are never looked into here.

mod arrow;
mod command;
mod conversation;
mod daemon;
mod data_source;
mod function;
mod pickle;
pub(crate) mod plan;
mod protocol;
mod runtime;
pub(crate) mod state;
mod table_function;
mod task;
mod unpickle;
mod worker;

pub(crate) use command::PythonCommand;
pub use command::PythonOptions;
pub(crate) use conversation::{Input, Reply, converse};
pub(crate) use daemon::Workers;
pub(crate) use data_source::{DataSourceClass, PythonProvider, PythonSink};
pub(crate) use function::{PythonFunction, kind};
pub(crate) use pickle::{pickle_rows, pickle_value};
pub(crate) use protocol::Message;
pub(crate) use runtime::PythonFiles;
pub use runtime::PythonRuntime;
pub(crate) use table_function::{Analysis, AnalyzedArgument, TableFunction, analyze};
pub(crate) use task::{Answer, Task, TaskContext};
pub(crate) use worker::Worker;
