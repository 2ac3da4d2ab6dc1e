//! `cargo xtask conformance`: the recorded behaviour of Spark, run over Spark Connect against the real server.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::process::{Outcome, cargo, fail, root, run, target_dir};
use crate::python;
use crate::server::Server;
use crate::verdicts;

/// Runs the cases whose name contains `-k TEXT`; without it, all of them, against the table in `docs/conformance.md`: fails when a case
/// that the table does not list as failing fails. `--write` writes the table anew.
pub fn conformance(arguments: &[String]) -> Outcome {
    run(cargo().args(["build", "--workspace", "--locked", "--quiet"]))?;
    let python = python::environment("spark", python::SPARK)?;
    let write = arguments.iter().any(|argument| argument == "--write");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).filter(|argument| *argument != "--write").collect();
    if !arguments.is_empty() {
        let server = Server::start("conformance", Some(&python))?;
        return run(&mut runner(&python, &server, &arguments, &target_dir().join("conformance/report.json")));
    }
    let verdicts = all(&python)?;
    let document = root().join("docs/conformance.md");
    if write {
        return std::fs::write(&document, table(&verdicts)).map_err(|error| format!("cannot write {}: {error}", document.display()));
    }
    let known = std::fs::read_to_string(&document).map_err(|error| format!("cannot read {}: {error}", document.display()))?;
    let lost = |verdicts: &[(String, bool)]| -> Vec<String> {
        let failed = verdicts.iter().filter(|(name, passed)| !passed && !known.contains(&format!("`{name}`")));
        failed.map(|(name, _)| name.clone()).collect()
    };
    let mut failing = Vec::new();
    // A case that a busy machine made too slow may try again, alone.
    for name in lost(&verdicts) {
        let report = target_dir().join("conformance/again.json");
        let server = Server::start("conformance", Some(&python))?;
        let _ = run(&mut runner(&python, &server, &["-k", &name], &report));
        failing.extend(lost(&verdicts::read(&report)?));
    }
    if failing.is_empty() {
        eprintln!("conformance: {} of {} cases pass", verdicts.iter().filter(|(_, passed)| *passed).count(), verdicts.len());
        return Ok(());
    }
    fail(format!("{} cases fail that {} does not list: {}", failing.len(), document.display(), failing.join(", ")))
}

/// Runs every area with a server of its own.
fn all(python: &Path) -> Outcome<Vec<(String, bool)>> {
    let cases = root().join("tests/conformance/cases");
    let listed = std::fs::read_dir(&cases).map_err(|error| format!("cannot list {}: {error}", cases.display()))?;
    let mut areas: Vec<String> =
        listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".py").map(str::to_owned)).collect();
    areas.sort();
    let mut found = Vec::new();
    for area in areas {
        let report = target_dir().join(format!("conformance/{area}.json"));
        let _ = std::fs::remove_file(&report);
        let server = Server::start("conformance", Some(python))?;
        // The runner fails when a case does; which ones may is decided with the table.
        let _ = run(&mut runner(python, &server, &["-k", &format!("{area}.")], &report));
        found.extend(verdicts::read(&report)?);
    }
    if found.is_empty() { fail("no case was run") } else { Ok(found) }
}

fn runner(python: &Path, server: &Server, arguments: &[&str], report: &Path) -> Command {
    let mut command = Command::new(python);
    command.arg(root().join("tests/conformance/run.py")).args(["--timeout", "60", "--json"]).arg(report);
    command.args(["--remote", server.remote()]).args(arguments);
    command
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
        let verdicts = verdicts::of(report);
        assert_eq!(verdicts, [("joins.a".to_owned(), true), ("joins.b".to_owned(), false)]);
        let table = table(&verdicts);
        assert!(table.contains("| joins | 2 | 1 |") && table.contains("- `joins.b`") && !table.contains("- `joins.a`"));
    }
}
