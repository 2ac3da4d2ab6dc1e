//! One scene of a drill: a folder with a pipeline, its input, its tables, and runs of the real binary on it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::feed::Written;
use crate::process::{Outcome, cargo, fail, output, root, run, target_dir};
use crate::python;

/// How a run ended.
pub(super) enum Ended {
    /// By SIGKILL, at its crash point.
    Killed,
    /// It was still alive in the end, and was killed then.
    Timeout,
    /// By itself, with this exit code and log.
    Failed(i32, String),
}

/// Builds the binary and returns its path.
pub fn build() -> Outcome<PathBuf> {
    run(cargo().args(["build", "--workspace", "--locked", "--quiet"]))?;
    Ok(target_dir().join("debug/millstream"))
}

/// The crash points that the product names, in the order of its own list.
pub(super) fn crash_points() -> Outcome<Vec<String>> {
    let path = root().join("crates/millstream-core/src/crash.rs");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let list = text.split_once("POINTS: &[&str] = &[").and_then(|(_, rest)| rest.split_once("];")).map_or("", |(list, _)| list);
    let points: Vec<String> = list.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    if points.is_empty() { fail(format!("no crash points in {}", path.display())) } else { Ok(points) }
}

/// A folder in which a drill plays.
pub(super) struct Scene {
    dir: PathBuf,
    binary: PathBuf,
}

impl Scene {
    pub(super) fn new(name: &str, binary: &Path) -> Outcome<Self> {
        let dir = target_dir().join("drill").join(name);
        if dir.exists() {
            std::fs::remove_dir_all(&dir).map_err(|error| format!("cannot clear {}: {error}", dir.display()))?;
        }
        std::fs::create_dir_all(&dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
        let sql = format!(
            "CREATE STREAMING TABLE events PARTITIONED BY (part) AS\n\
             SELECT id, amount, part FROM STREAM read_files('{}', format => 'json',\n  \
             schema => 'id BIGINT, part STRING, amount INT', mode => 'DROPMALFORMED', maxFilesPerTrigger => 4);\n",
            dir.join("in").display()
        );
        std::fs::write(dir.join("pipeline.sql"), sql).map_err(|error| format!("cannot write the pipeline: {error}"))?;
        Ok(Scene { dir, binary: binary.to_owned() })
    }

    pub(super) fn input(&self) -> PathBuf {
        self.dir.join("in")
    }

    /// What the runs of this scene logged.
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    fn command(&self, extra: &[&str]) -> Outcome<Command> {
        let log = File::options().create(true).append(true).open(self.dir.join("log")).map_err(|error| format!("log: {error}"))?;
        let out = log.try_clone().map_err(|error| format!("log: {error}"))?;
        let mut command = Command::new(&self.binary);
        command.arg("run").arg(self.dir.join("pipeline.sql")).arg("--storage").arg(self.dir.join("lake")).arg("--json").args(extra);
        command.stdin(Stdio::null()).stdout(out).stderr(log);
        Ok(command)
    }

    /// Starts a continuous run.
    pub(super) fn start(&self, extra: &[&str]) -> Outcome<Child> {
        self.command(extra)?.spawn().map_err(|error| format!("cannot start {}: {error}", self.binary.display()))
    }

    /// Runs until the process dies at its crash point, or kills it after `limit`.
    pub(super) fn run_until_dead(&self, crash_at: Option<&str>, limit: Duration) -> Outcome<Ended> {
        let mut command = self.command(&[])?;
        if let Some(point) = crash_at {
            command.env("MILL_CRASH_AT", point);
        }
        let mut child = command.spawn().map_err(|error| format!("cannot start {}: {error}", self.binary.display()))?;
        match wait(&mut child, limit)? {
            None => {
                signal(&child, "KILL")?;
                wait(&mut child, Duration::from_secs(10))?;
                Ok(Ended::Timeout)
            }
            Some(KILLED) => Ok(Ended::Killed),
            Some(code) => Ok(Ended::Failed(code, self.log())),
        }
    }

    /// Runs until everything is in the table.
    pub(super) fn run_once(&self) -> Outcome {
        let status = self.command(&["--once"])?.status().map_err(|error| format!("cannot start {}: {error}", self.binary.display()))?;
        if status.success() { Ok(()) } else { fail(format!("the last run failed: {status}\n{}", self.log())) }
    }

    /// Asks a run to stop gracefully.
    pub(super) fn interrupt(&self, mut child: Child) -> Outcome {
        signal(&child, "INT")?;
        match wait(&mut child, Duration::from_secs(30))? {
            Some(0) => Ok(()),
            other => fail(format!("a run that was interrupted ended with {other:?}\n{}", self.log())),
        }
    }

    /// Counts the ids in the table and in its history with another implementation of Delta.
    pub(super) fn verify(&self, written: Written) -> Outcome<String> {
        let python = python::environment("delta", python::DELTA)?;
        let tables = self.dir.join("lake/tables");
        let script = root().join("xtask/python/verify_ids.py");
        let mut verify = Command::new(python);
        verify.arg(script).arg(tables.join("events")).arg(written.ids.to_string());
        verify.arg(tables.join("_quarantine_events")).arg(written.malformed.to_string());
        output(&mut verify).map(|verdict| verdict.trim().to_owned())
    }
}

/// What [`wait`] returns for a process that died by SIGKILL.
const KILLED: i32 = -9;

/// Waits for a process to end, and returns its exit code; `None` when it is still alive after `limit`.
pub(super) fn wait(child: &mut Child, limit: Duration) -> Outcome<Option<i32>> {
    use std::os::unix::process::ExitStatusExt;
    let until = Instant::now() + limit;
    loop {
        let status = child.try_wait().map_err(|error| format!("cannot wait: {error}"))?;
        if let Some(status) = status {
            return Ok(Some(status.code().unwrap_or_else(|| -status.signal().unwrap_or(0))));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal by name.
pub(super) fn signal(child: &Child, name: &str) -> Outcome {
    let status = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        other => fail(format!("cannot send SIG{name} to {}: {other:?}", child.id())),
    }
}
