//! `cargo xtask bench`: measures Millstream, and Spark beside it, and prints a table. It judges nothing: timing never fails a build.

use std::process::Command;

use crate::process::{Outcome, cargo, root, run, target_dir};
use crate::{packages, python};

/// Our crates that do the work which is measured. They are built as a release would build them; what they stand on always is.
const MEASURED: [&str; 5] = ["millstream-checkpoint", "millstream-core", "millstream-connectors", "millstream-engine", "millstream-spark"];

/// Builds the benchmark and runs it. `--no-spark` leaves Spark out; everything else goes to the benchmark: `--quick`,
/// `--only micro-batch,ingest,startup`. With `state`, `nexmark` or `connect` as its first
/// word it runs the programs of that name in `bench/python`.
pub fn bench(args: &[String]) -> Outcome {
    let mut build = cargo();
    build.args(["build", "--workspace", "--locked", "--quiet"]);
    for package in MEASURED {
        build.arg("--config").arg(format!("profile.dev.package.{package}.opt-level=3"));
    }
    run(&mut build)?;
    match args.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        Some(("state", rest)) => return programs("stateful.py", rest),
        Some(("nexmark", rest)) => return nexmark(rest),
        Some(("connect", rest)) => return programs("connect.py", rest),
        _ => {}
    }
    let mut command = Command::new(target_dir().join("debug/millstream-bench"));
    command.arg("--work").arg(target_dir().join("bench")).arg("--results").arg(root().join("bench/results"));
    command.arg("--command").arg(target_dir().join("debug/millstream")).arg("--scripts").arg(root().join("bench/python"));
    if !args.iter().any(|arg| arg == "--no-spark") {
        packages::java()?;
        command.arg("--python").arg(python::environment("spark", python::SPARK)?);
    }
    run(command.args(args.iter().filter(|arg| *arg != "--no-spark")))
}

/// Nexmark, whose events are made by the benchmark's own program. Flink has a Python of its own, installed when it is asked for.
fn nexmark(args: &[String]) -> Outcome {
    let mut all = vec!["--generator".to_owned(), target_dir().join("debug/millstream-bench").display().to_string()];
    if args.iter().any(|arg| arg.split(',').any(|engine| engine == "flink")) {
        packages::java()?;
        all.push("--flink-python".to_owned());
        all.push(python::environment("flink", python::FLINK)?.display().to_string());
    }
    all.extend(args.iter().cloned());
    programs("nexmark.py", &all)
}

/// A benchmark that is a PySpark program, run on both engines.
fn programs(script: &str, args: &[String]) -> Outcome {
    if !args.iter().any(|arg| arg == "--no-spark") {
        packages::java()?;
    }
    let mut command = Command::new(python::environment("spark", python::SPARK)?);
    command.arg(root().join("bench/python").join(script)).arg("--command").arg(target_dir().join("debug/millstream"));
    command.arg("--work").arg(target_dir().join("bench")).arg("--results").arg(root().join("bench/results"));
    run(command.args(args))
}
