//! From the start of a process to its first batch committed, and the memory it then needs to wait for more.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use millstream_core::Clock;
use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::machine::{load_average, memory_mib};
use crate::outcome::{Outcome, at, say};
use crate::statistics::spread;

const SCHEMA: &str = "id BIGINT, name STRING, at TIMESTAMP, price DOUBLE";
/// How long an engine may take for its first batch, milliseconds.
const PATIENCE_MS: u64 = 120_000;
/// How long an engine has been idle when its memory is measured.
const IDLE: Duration = Duration::from_secs(3);

/// Measures both engines; the first run of each warms the page cache and does not count.
pub fn measure(arguments: &Arguments, clock: &dyn Clock) -> Outcome<Value> {
    let dir = std::path::absolute(arguments.work.join("startup")).map_err(at(&arguments.work))?;
    let mut cases = Vec::new();
    let load = load_average();
    let mut runs = Vec::new();
    for turn in 0..if arguments.quick { 3 } else { 8 } {
        prepare(&dir)?;
        let mut command = Command::new(&arguments.command);
        let data = format!("data={}", dir.join("in").display());
        command.arg("run").arg(dir.join("pipeline")).args(["--json", "--var", &data, "--storage"]).arg(dir.join("lake"));
        let run = time(&mut command, &dir.join("lake"), clock, Child::id)?;
        if turn > 0 {
            runs.push(run);
        }
    }
    cases.push(case("millstream", "JSON to Delta, millstream run", &runs, load));
    if let Some(python) = &arguments.python {
        let mut runs = Vec::new();
        for turn in 0..if arguments.quick { 2 } else { 4 } {
            prepare(&dir)?;
            let mut command = Command::new(python);
            command.arg(arguments.scripts.join("spark_worker.py")).arg("first-batch");
            command.arg(dir.join("in")).arg(dir.join("lake")).arg(SCHEMA);
            let run = time(&mut command, &dir.join("lake"), clock, |child| child_of(child.id()).unwrap_or(0))?;
            if turn > 0 {
                runs.push(run);
            }
        }
        cases.push(case("spark", "JSON to noop, PySpark, memory of the JVM alone", &runs, load));
    }
    Ok(json!({"budget_first_batch_ms": 100, "budget_idle_rss_mib": 60, "cases": cases}))
}

/// One start of an engine.
#[derive(Debug)]
struct Run {
    /// Until the first batch was committed, milliseconds.
    first_batch: f64,
    /// Memory when idle, MiB: all that is resident, and what of it is not pages of files such as the program itself.
    resident: f64,
    anonymous: f64,
}

fn case(engine: &str, job: &str, runs: &[Run], load: f64) -> Value {
    let of = |value: fn(&Run) -> f64| spread(&runs.iter().map(value).collect::<Vec<_>>());
    json!({
        "engine": engine, "job": job, "runs": runs.len(), "load_average": load,
        "first_batch_ms": of(|run| run.first_batch),
        "idle_rss_mib": of(|run| run.resident),
        "idle_anonymous_mib": of(|run| run.anonymous),
    })
}

/// One input file, the pipeline, and no trace of an earlier run.
fn prepare(dir: &Path) -> Outcome {
    if dir.exists() {
        std::fs::remove_dir_all(dir).map_err(at(dir))?;
    }
    let write = |path: PathBuf, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap_or(dir)).map_err(at(&path))?;
        std::fs::write(&path, text).map_err(at(&path))
    };
    write(dir.join("in/0.json"), "{\"id\":1,\"name\":\"n\",\"at\":\"2024-01-01T00:00:00Z\",\"price\":1.5}\n")?;
    let sql = format!(
        "CREATE OR REFRESH STREAMING TABLE landed AS SELECT * FROM STREAM read_files('${{data}}', format => 'json', schema => '{SCHEMA}');\n"
    );
    write(dir.join("pipeline/landed.sql"), &sql)
}

/// Starts an engine, waits for the commit record of its first batch, lets it be idle, and ends it. Memory is that of the process that
/// `engine` names.
fn time(command: &mut Command, checkpoints: &Path, clock: &dyn Clock, engine: impl Fn(&Child) -> u32) -> Outcome<Run> {
    let started = clock.monotonic_ns();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(say)?;
    let elapsed_ms = || clock.monotonic_ns().saturating_sub(started) as f64 / 1e6;
    while !committed(checkpoints) {
        if let Some(status) = child.try_wait().map_err(say)? {
            return Err(format!("{command:?} ended before its first batch: {status}"));
        }
        if elapsed_ms() > PATIENCE_MS as f64 {
            end(&mut child, &engine);
            return Err(format!("{command:?} committed no batch within {PATIENCE_MS} ms"));
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    let first_batch = elapsed_ms();
    std::thread::sleep(IDLE);
    let idle = engine(&child);
    let run = Run { first_batch, resident: memory_mib(idle, "VmRSS"), anonymous: memory_mib(idle, "RssAnon") };
    end(&mut child, &engine);
    Ok(run)
}

/// Ends a process and the one that is its engine.
fn end(child: &mut Child, engine: &impl Fn(&Child) -> u32) {
    let engine = engine(child);
    if engine != 0 && engine != child.id() {
        let _ = Command::new("kill").arg("-9").arg(engine.to_string()).status();
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// The first child of a process.
fn child_of(pid: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

/// Whether the record of a batch is below `dir`.
fn committed(dir: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(dir) else { return false };
    entries.flatten().any(|entry| {
        let path = entry.path();
        path.ends_with("commits/0") || (path.is_dir() && committed(&path))
    })
}

/// Prints the cases as a table.
pub fn print(section: &Value) {
    println!("\nStart of the process to the first batch committed (budget 100 ms), and idle memory after it (budget 60 MiB)");
    println!("{:<11} {:<48} {:>22} {:>19} {:>19}", "engine", "job", "first batch ms", "idle RSS MiB", "of it anonymous");
    for case in section["cases"].as_array().into_iter().flatten() {
        let number = |key: &str, which: &str| case[key][which].as_f64().unwrap_or(0.0);
        let range = |key: &str| format!("{:.0} ({:.0} - {:.0})", number(key, "median"), number(key, "min"), number(key, "max"));
        println!(
            "{:<11} {:<48} {:>22} {:>19} {:>19}",
            case["engine"].as_str().unwrap_or_default(),
            case["job"].as_str().unwrap_or_default(),
            range("first_batch_ms"),
            range("idle_rss_mib"),
            range("idle_anonymous_mib"),
        );
    }
}
