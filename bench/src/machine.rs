//! Facts about the machine and its processes, from `/proc`.

use std::process::Command;

use millstream_core::Clock;
use millstream_core::progress::utc_text;
use serde_json::{Value, json};

/// Ticks per second of the times in `/proc/<pid>/stat`: 100 on every architecture of Linux.
const TICKS: f64 = 100.0;

/// Where and when a benchmark ran.
pub fn facts(clock: &dyn Clock) -> Value {
    json!({
        "at": utc_text(clock.now_ms()),
        "commit": said(Command::new("git").args(["describe", "--always", "--dirty"])),
        "machine": {
            "cores": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
            "cpu": line("/proc/cpuinfo", "model name"),
            "memory": line("/proc/meminfo", "MemTotal"),
            "kernel": read("/proc/sys/kernel/osrelease"),
            "rustc": said(Command::new("rustc").arg("--version")),
            "profile": if cfg!(debug_assertions) { "dev (dependencies, engine and connectors at opt-level 2)" } else { "release" },
        },
        "load_average_at_start": load_average(),
    })
}

/// The load of the last minute.
pub fn load_average() -> f64 {
    read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

/// Processor seconds that a process has used, its ended children left out.
pub fn cpu_seconds(pid: u32) -> f64 {
    let stat = read(&format!("/proc/{pid}/stat"));
    // The command's name may contain spaces; what follows its parenthesis does not.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |field: usize| fields.get(field).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / TICKS
}

/// A size of a process in MiB, such as `VmRSS` or `VmHWM`.
pub fn memory_mib(pid: u32, field: &str) -> f64 {
    let size = line(&format!("/proc/{pid}/status"), field);
    size.split(' ').next().and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) / 1_024.0
}

fn line(path: &str, key: &str) -> String {
    let text = read(path);
    let line = text.lines().find_map(|line| line.split_once(':').filter(|(name, _)| name.trim() == key));
    line.map_or_else(String::new, |(_, value)| value.trim().to_owned())
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn said(command: &mut Command) -> String {
    command.output().map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
