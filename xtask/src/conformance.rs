//! `cargo xtask conformance`: the recorded behaviour of Spark, run over Spark Connect against the real server.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use crate::process::{Outcome, cargo, fail, root, run, target_dir};
use crate::python;

/// A server that ends with this value.
struct Server {
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
    fn start(python: &Path) -> Outcome<Server> {
        let dir = target_dir().join("conformance");
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
}

/// Runs the cases whose name contains `-k TEXT`; without it, all of them, and writes `docs/conformance.md`.
pub fn conformance(arguments: &[String]) -> Outcome {
    run(cargo().args(["build", "--workspace", "--locked", "--quiet"]))?;
    let python = python::environment("spark", python::SPARK)?;
    let server = Server::start(&python)?;
    let report = target_dir().join("conformance/report.json");
    let mut command = Command::new(&python);
    command.arg(root().join("tests/conformance/run.py")).args(["--timeout", "60", "--json"]).arg(&report);
    command.args(["--remote", &format!("sc://127.0.0.1:{}", server.port)]).args(arguments);
    let outcome = run(&mut command);
    drop(server);
    if arguments.is_empty() { written(&report, &root().join("docs/conformance.md")) } else { outcome }
}

/// Writes the table of results, and fails when a case that passed at the last writing does not pass any more.
fn written(report: &Path, document: &PathBuf) -> Outcome {
    let text = std::fs::read_to_string(report).map_err(|error| format!("cannot read {}: {error}", report.display()))?;
    let verdicts = verdicts(&text);
    if verdicts.is_empty() {
        return fail("no case was run");
    }
    let known = std::fs::read_to_string(document).unwrap_or_default();
    let listed = |name: &str| known.contains(&format!("`{name}`"));
    let lost: Vec<&str> =
        verdicts.iter().filter(|(name, passed)| !passed && !known.is_empty() && !listed(name)).map(|(name, _)| name.as_str()).collect();
    if !lost.is_empty() {
        return fail(format!(
            "{} cases passed at the last writing of {} and fail now: {}",
            lost.len(),
            document.display(),
            lost.join(", ")
        ));
    }
    std::fs::write(document, table(&verdicts)).map_err(|error| format!("cannot write {}: {error}", document.display()))
}

/// Every case and whether it passed, from the runner's report.
fn verdicts(report: &str) -> Vec<(String, bool)> {
    // The report is flat: a name, then its verdict.
    let mut verdicts = Vec::new();
    let mut name = None;
    for line in report.lines().map(str::trim) {
        if let Some(found) =
            line.strip_suffix(": {").and_then(|quoted| quoted.trim_matches('"').split_once('.').map(|_| quoted.trim_matches('"')))
        {
            name = Some(found.to_owned());
        } else if let Some(verdict) = line.strip_prefix("\"verdict\": \"")
            && let Some(name) = name.take()
        {
            verdicts.push((name, verdict.starts_with("ok")));
        }
    }
    verdicts
}

fn table(verdicts: &[(String, bool)]) -> String {
    let mut areas: BTreeMap<&str, (usize, Vec<&str>)> = BTreeMap::new();
    for (name, passed) in verdicts {
        let (area, _) = name.split_once('.').unwrap_or((name, ""));
        let (count, failing) = areas.entry(area).or_default();
        *count += 1;
        if !passed {
            failing.push(name);
        }
    }
    let mut out = String::from(
        "# Conformance with Spark 4.2\n\nWritten by `cargo xtask conformance`: the recorded cases of `tests/conformance`, compared strictly.\n\n\
         | area | cases | pass |\n|---|---|---|\n",
    );
    for (area, (count, failing)) in &areas {
        let _ = writeln!(out, "| {area} | {count} | {} |", count - failing.len());
    }
    out.push_str("\n## Cases that fail\n\n");
    for name in areas.values().flat_map(|(_, failing)| failing) {
        let _ = writeln!(out, "- `{name}`");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_counts_by_area_and_names_what_fails() {
        let report = "{\n \"joins.a\": {\n  \"verdict\": \"ok\",\n  \"problem\": null\n },\n \"joins.b\": {\n  \"verdict\": \"FAILED\",\n  \"problem\": \"x\"\n }\n}";
        let verdicts = verdicts(report);
        assert_eq!(verdicts, [("joins.a".to_owned(), true), ("joins.b".to_owned(), false)]);
        let table = table(&verdicts);
        assert!(table.contains("| joins | 2 | 1 |") && table.contains("- `joins.b`") && !table.contains("- `joins.a`"));
    }
}
