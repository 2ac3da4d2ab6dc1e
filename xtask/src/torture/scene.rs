//! One scene: a pipeline, its storage, runs of the real binary on it, and what each run took.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::{Outcome, fail, output, root};

/// How often a run is asked for its memory.
const POLL: Duration = Duration::from_millis(2);
/// No run may take longer.
const LIMIT: Duration = Duration::from_secs(300);

/// What all scenes share.
pub(super) struct Stage {
    /// Where the scenes have their folders.
    pub(super) dir: PathBuf,
    /// The binary under test.
    pub(super) binary: PathBuf,
    /// An interpreter with the packages that make and check files.
    pub(super) python: PathBuf,
}

impl Stage {
    /// Runs a script of `xtask/python` and returns what it printed.
    pub(super) fn script(&self, name: &str, args: &[&str]) -> Outcome<String> {
        let script = root().join("xtask/python").join(name);
        output(Command::new(&self.python).arg(script).args(args)).map(|printed| printed.trim().to_owned())
    }

    /// An empty folder of that name.
    pub(super) fn folder(&self, name: &str) -> Outcome<PathBuf> {
        let dir = self.dir.join(name);
        if dir.exists() {
            std::fs::remove_dir_all(&dir).map_err(|error| format!("cannot clear {}: {error}", dir.display()))?;
        }
        std::fs::create_dir_all(&dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
        Ok(dir)
    }

    /// A scene that reads `input` with these options of `read_files` into the table `events` with these columns.
    pub(super) fn scene(&self, name: &str, input: &Path, columns: &str, schema: &str, options: &str) -> Outcome<Scene<'_>> {
        let dir = self.folder(&format!("run-{name}"))?;
        let sql = format!(
            "CREATE STREAMING TABLE events AS\nSELECT {columns}\nFROM STREAM read_files('{}', schema => '{schema}', {options});\n",
            input.display()
        );
        std::fs::write(dir.join("pipeline.sql"), sql).map_err(|error| format!("cannot write the pipeline: {error}"))?;
        Ok(Scene { stage: self, name: name.to_owned(), dir })
    }
}

/// A pipeline and its storage.
pub(super) struct Scene<'a> {
    stage: &'a Stage,
    name: String,
    dir: PathBuf,
}

/// What a run did and took.
pub(super) struct Run {
    name: String,
    /// From start to end of the process.
    pub(super) seconds: f64,
    /// The most memory that it had.
    pub(super) peak_mib: u64,
    /// What the summary counts of the flow.
    pub(super) batches: u64,
    /// Rows written.
    pub(super) rows: u64,
    /// Records and files put into the quarantine.
    pub(super) quarantined: u64,
    status: ExitStatus,
    log: String,
}

impl Scene<'_> {
    /// Where the tables are.
    pub(super) fn tables(&self) -> PathBuf {
        self.dir.join("lake/tables")
    }

    /// Runs the pipeline until everything is in the table.
    pub(super) fn run(&self) -> Outcome<Run> {
        let log = self.dir.join("log");
        let out = self.dir.join("out");
        let file = |path: &Path| File::create(path).map_err(|error| format!("cannot write {}: {error}", path.display()));
        let mut command = Command::new(&self.stage.binary);
        command.arg("run").arg(self.dir.join("pipeline.sql")).arg("--storage").arg(self.dir.join("lake")).args(["--once", "--json"]);
        command.stdin(Stdio::null()).stdout(file(&out)?).stderr(file(&log)?);
        let started = Instant::now();
        let mut child = command.spawn().map_err(|error| format!("cannot start {}: {error}", self.stage.binary.display()))?;
        let (status, peak_kib) = watch(&mut child, &self.name)?;
        let seconds = started.elapsed().as_secs_f64();
        let lines = std::fs::read_to_string(&out).unwrap_or_default();
        let summary: Value = lines.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
        let count = |name: &str| summary["flows"][0]["counts"][name].as_u64().unwrap_or(0);
        Ok(Run {
            name: self.name.clone(),
            seconds,
            peak_mib: peak_kib / 1024,
            batches: count("batches"),
            rows: count("output_rows"),
            quarantined: count("quarantined"),
            status,
            log: String::from_utf8_lossy(&std::fs::read(&log).unwrap_or_default()).into_owned(),
        })
    }
}

impl Run {
    /// Fails unless the run ended with this exit code, without a panic, and never had more than `mib` of memory.
    pub(super) fn ended(self, code: i32, mib: u64) -> Outcome<Self> {
        if self.status.code() != Some(code) {
            return fail(format!("{}: ended with {} instead of {code}\n{}", self.name, self.status, tail(&self.log)));
        }
        if self.log.contains("panicked at") {
            return fail(format!("{}: something panicked\n{}", self.name, tail(&self.log)));
        }
        if self.peak_mib > mib {
            return fail(format!("{}: {} MiB of memory, more than {mib} MiB", self.name, self.peak_mib));
        }
        Ok(self)
    }

    /// Fails unless the run's log has this text.
    pub(super) fn says(self, text: &str) -> Outcome<Self> {
        if self.log.contains(text) { Ok(self) } else { fail(format!("{}: the log does not say '{text}'\n{}", self.name, tail(&self.log))) }
    }

    /// Fails unless the table got this many rows.
    pub(super) fn wrote(self, rows: u64) -> Outcome<Self> {
        if self.rows == rows { Ok(self) } else { fail(format!("{}: {} rows instead of {rows}", self.name, self.rows)) }
    }

    /// Prints what the run took; `bytes` is the size of its input where a rate says something.
    pub(super) fn report(&self, bytes: Option<u64>) {
        let rate = bytes.map_or(String::new(), |bytes| format!(", {:.0} MB/s", bytes as f64 / 1e6 / self.seconds));
        eprintln!(
            "torture: {:<22} {:>6.2} s{rate}, peak {} MiB, {} batches, {} rows, {} quarantined",
            self.name, self.seconds, self.peak_mib, self.batches, self.rows, self.quarantined
        );
    }
}

/// Waits for a process to end and returns its status and the most memory it had, in KiB.
fn watch(child: &mut Child, name: &str) -> Outcome<(ExitStatus, u64)> {
    let until = Instant::now() + LIMIT;
    let path = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        if let Some(status) = child.try_wait().map_err(|error| format!("cannot wait for {name}: {error}"))? {
            return Ok((status, peak));
        }
        // The kernel keeps the maximum, so that the last answer before the end has it all.
        peak = std::fs::read_to_string(&path).ok().and_then(|status| high_water(&status)).unwrap_or(peak);
        if Instant::now() >= until {
            child.kill().map_err(|error| format!("cannot end {name}: {error}"))?;
            child.wait().map_err(|error| format!("cannot wait for {name}: {error}"))?;
            return fail(format!("{name}: not done after {} s", LIMIT.as_secs()));
        }
        std::thread::sleep(POLL);
    }
}

fn high_water(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn tail(log: &str) -> &str {
    let start = log.len().saturating_sub(3_000);
    log.get(log.ceil_char_boundary(start)..).unwrap_or(log)
}
