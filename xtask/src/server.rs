//! A Millstream server for a chore, which ends with it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::process::{Outcome, fail, target_dir};

/// A running server; it ends with this value.
#[derive(Debug)]
pub struct Server {
    process: Child,
    remote: String,
    // Kept open: a server that prints into a closed pipe fails.
    _said: BufReader<ChildStdout>,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// Starts the binary that was built on a free port of this machine, with its warehouse and its log in `target/NAME`. `python` runs
    /// functions of clients.
    pub fn start(name: &str, python: Option<&Path>) -> Outcome<Server> {
        let dir = target_dir().join(name);
        std::fs::create_dir_all(&dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
        let log = std::fs::File::create(dir.join("server.log")).map_err(|error| format!("cannot write the server's log: {error}"))?;
        let mut command = Command::new(target_dir().join("debug/millstream"));
        command.args(["serve", "--bind", "127.0.0.1:0", "--warehouse"]).arg(dir.join("warehouse"));
        if let Some(python) = python {
            command.env("PYSPARK_PYTHON", python);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut process = command.spawn().map_err(|error| format!("cannot start the server: {error}"))?;
        let Some(said) = process.stdout.take() else { return fail("the server has no standard output") };
        let mut said = BufReader::new(said);
        let mut line = String::new();
        let read = said.read_line(&mut line);
        let remote = line.trim().strip_prefix("listening on ").unwrap_or_default().to_owned();
        let server = Server { process, remote, _said: said };
        match read {
            Ok(_) if !server.remote.is_empty() => Ok(server),
            _ => fail(format!("the server ended at its start; see {}", dir.join("server.log").display())),
        }
    }

    /// Its address, as clients take it: `sc://127.0.0.1:15002`.
    pub fn remote(&self) -> &str {
        &self.remote
    }
}
