//! Python functions of users: the processes that run them and what is said to those.
//!
//! The processes are PySpark's own workers, started from the Python that the server is told to use; a client's functions arrive pickled and
//! are never looked into here.

mod command;
mod daemon;
mod pickle;
mod protocol;
mod task;
mod worker;

pub(crate) use command::PythonCommand;
pub use command::PythonOptions;
pub(crate) use daemon::Workers;
pub(crate) use pickle::pickle_rows;
pub(crate) use protocol::Message;
pub(crate) use task::{Answer, Task, TaskContext};
pub(crate) use worker::Worker;
