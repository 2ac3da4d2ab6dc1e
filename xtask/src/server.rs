//! A Millstream server of the binary that was built, for clients that test it.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use crate::process::{Outcome, fail, target_dir};

/// A server that ends with this value.
pub struct Server {
    process: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// Starts the binary on a free port. Its log and its tables are below the target directory, in a folder of this name.
    pub fn start(python: &Path, name: &str) -> Outcome<Server> {
        let dir = target_dir().join(name);
        std::fs::create_dir_all(&dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.map_err(|error| format!("there is no free port: {error}"))?.port();
        let log = std::fs::File::create(dir.join("server.log")).map_err(|error| format!("cannot write the server's log: {error}"))?;
        let process = Command::new(target_dir().join("debug/millstream"))
            .args(["serve", "--bind", &format!("127.0.0.1:{port}"), "--warehouse"])
            .arg(dir.join("warehouse"))
            .env("PYSPARK_PYTHON", python)
            .stderr(log)
            .spawn()
            .map_err(|error| format!("cannot start the server: {error}"))?;
        let mut server = Server { process, port };
        for _ in 0..100 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(server);
            }
            if let Ok(Some(status)) = server.process.try_wait() {
                return fail(format!("the server ended at its start: {status}; see {}", dir.join("server.log").display()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        fail("the server does not listen after five seconds")
    }

    /// Where clients connect to.
    pub fn remote(&self) -> String {
        format!("sc://127.0.0.1:{}", self.port)
    }
}
