//! `cargo xtask examples`: the PySpark programs of `examples/pyspark`, on Millstream and on Spark, and the tables that they leave.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Outcome, cargo, fail, root, run, target_dir};
use crate::server::Server;
use crate::{packages, python};

/// Where a program runs.
#[derive(Clone, Copy)]
enum Engine<'a> {
    Millstream(&'a Server),
    Spark,
}

/// Runs the programs on a Millstream server and compares their tables with those that Spark wrote. `--with-spark` runs them on Spark
/// first and compares those tables too; `--record` (with Spark) writes the expectation anew.
pub fn examples(arguments: &[String]) -> Outcome {
    let flag = |name: &str| arguments.iter().any(|argument| argument == name);
    if let Some(unknown) = arguments.iter().find(|argument| !["--with-spark", "--record"].contains(&argument.as_str())) {
        return fail(format!("examples knows --with-spark and --record, and not {unknown}"));
    }
    run(cargo().args(["build", "--workspace", "--locked", "--quiet"]))?;
    let python = python::environment("spark", python::SPARK)?;
    if flag("--with-spark") || flag("--record") {
        packages::java()?;
        let out = programs(&python, Engine::Spark)?;
        verify(&out, if flag("--record") { "record" } else { "compare" })?;
    }
    let server = Server::start("examples/server", Some(&python))?;
    let out = programs(&python, Engine::Millstream(&server))?;
    verify(&out, "compare")
}

/// Runs every program. Gives the folder of their tables.
fn programs(python: &Path, engine: Engine<'_>) -> Outcome<PathBuf> {
    let name = match engine {
        Engine::Millstream(_) => "millstream",
        Engine::Spark => "spark",
    };
    let out = target_dir().join("examples").join(name);
    if out.exists() {
        std::fs::remove_dir_all(&out).map_err(|error| format!("cannot clear {}: {error}", out.display()))?;
    }
    let folder = root().join("examples/pyspark");
    let listed = std::fs::read_dir(&folder).map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    let mut programs: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).filter(|path| is_program(path)).collect();
    programs.sort();
    for program in programs {
        let mut command = Command::new(python);
        command.arg("-B").arg(&program).arg("--out").arg(&out).env("PYSPARK_PYTHON", python);
        if let Engine::Millstream(server) = engine {
            command.args(["--remote", server.remote()]);
        }
        run(&mut command)?;
    }
    Ok(out)
}

/// Programs begin with their number.
fn is_program(path: &Path) -> bool {
    let numbered = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(|first: char| first.is_ascii_digit()));
    numbered && path.extension().is_some_and(|extension| extension == "py")
}

/// Compares the tables, read by another implementation, with the expectation, or writes it.
fn verify(out: &Path, what: &str) -> Outcome {
    let python = python::environment("delta", python::DELTA)?;
    let script = root().join("xtask/python/verify_examples.py");
    run(Command::new(python).arg(script).arg(what).arg(out).arg(root().join("examples/pyspark/expected")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_from_what_they_share() {
        assert!(is_program(Path::new("/x/04_upsert_with_merge.py")));
        assert!(!is_program(Path::new("/x/session.py")) && !is_program(Path::new("/x/04_notes.md")));
    }
}
