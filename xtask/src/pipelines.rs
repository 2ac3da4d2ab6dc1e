//! `cargo xtask pipelines`: declarative pipelines as Spark's own command line runs them, against the real server and what Spark did.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::process::{Outcome, cargo, fail, root, run, target_dir};
use crate::python;
use crate::server::Server;
use crate::verdicts;

/// Between these lines of the document is the table.
const BEGIN: &str = "<!-- written by `cargo xtask pipelines --write` -->\n";
const END: &str = "<!-- end -->\n";

/// Runs the cases whose name contains `-k TEXT`; without it, all of them, and fails when a case fails that `docs/pipelines.md` does not
/// name. `--write` writes the table in that document anew.
pub fn pipelines(arguments: &[String]) -> Outcome {
    run(cargo().args(["build", "--workspace", "--locked", "--quiet"]))?;
    let python = python::environment("pipelines", python::PIPELINES)?;
    let server = Server::start("pipelines", Some(&python))?;
    let report = target_dir().join("pipelines/report.json");
    let write = arguments.iter().any(|argument| argument == "--write");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).filter(|argument| *argument != "--write").collect();
    if !arguments.is_empty() {
        return run(&mut runner(&python, &server, &arguments, &report));
    }
    // The runner fails when a case does; which ones may is decided with the document.
    let _ = run(&mut runner(&python, &server, &[], &report));
    let verdicts = verdicts::read(&report)?;
    if verdicts.is_empty() {
        return fail("no case was run");
    }
    let document = root().join("docs/pipelines.md");
    let known = std::fs::read_to_string(&document).map_err(|error| format!("cannot read {}: {error}", document.display()))?;
    if write {
        let text = with_table(&known, &table(&verdicts)).ok_or("the document has no place for the table")?;
        return std::fs::write(&document, text).map_err(|error| format!("cannot write {}: {error}", document.display()));
    }
    let failing: Vec<&str> =
        verdicts.iter().filter(|(name, passed)| !passed && !known.contains(&format!("`{name}`"))).map(|(name, _)| name.as_str()).collect();
    if failing.is_empty() {
        eprintln!("pipelines: {} of {} cases pass", verdicts.iter().filter(|(_, passed)| *passed).count(), verdicts.len());
        return Ok(());
    }
    fail(format!("{} cases fail that {} does not name: {}", failing.len(), document.display(), failing.join(", ")))
}

fn runner(python: &Path, server: &Server, arguments: &[&str], report: &Path) -> Command {
    let mut command = Command::new(python);
    command.arg(root().join("tests/pipelines/run.py")).args(["--json"]).arg(report).args(["--remote", server.remote()]);
    // Delta tables do what Spark needs a catalog of its own for.
    command.args(["--features", "shelf", "--shelf-catalog", "spark_catalog"]).args(arguments);
    command
}

/// Cases by the first word of their names.
fn table(verdicts: &[(String, bool)]) -> String {
    let mut groups: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (name, passed) in verdicts {
        let group = name.split('_').next().unwrap_or(name);
        let (count, passing) = groups.entry(group).or_default();
        *count += 1;
        *passing += usize::from(*passed);
    }
    let mut out = String::from("| group | cases | pass |\n|---|---|---|\n");
    for (group, (count, passing)) in &groups {
        let _ = writeln!(out, "| {group} | {count} | {passing} |");
    }
    let (count, passing) = (verdicts.len(), verdicts.iter().filter(|(_, passed)| *passed).count());
    let _ = writeln!(out, "| all | {count} | {passing} |");
    out
}

fn with_table(document: &str, table: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_counts_by_the_first_word_and_has_its_place() {
        let verdicts = [("cdc_a", true), ("cdc_b", false), ("st_a", true)].map(|(name, passed)| (name.to_owned(), passed));
        let table = table(&verdicts);
        assert!(table.contains("| cdc | 2 | 1 |") && table.ends_with("| all | 3 | 2 |\n"));
        let document = format!("a\n{BEGIN}old\n{END}b\n");
        assert_eq!(with_table(&document, "new\n").unwrap(), format!("a\n{BEGIN}new\n{END}b\n"));
        assert_eq!(with_table("a", "new"), None);
    }
}
