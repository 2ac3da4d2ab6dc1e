//! `cargo xtask bench`: measures Millstream, and Spark beside it, and prints a table. It judges nothing: timing never fails a build.

use std::process::Command;

use crate::process::{Outcome, cargo, root, run, target_dir};
use crate::{packages, python};

/// Builds the benchmark and runs it. `--no-spark` leaves Spark out; everything else goes to the benchmark: `--quick`,
/// `--only micro-batch,ingest,startup`.
pub fn bench(args: &[String]) -> Outcome {
    run(cargo().args(["build", "--workspace", "--locked", "--quiet"]))?;
    let mut command = Command::new(target_dir().join("debug/millstream-bench"));
    command.arg("--work").arg(target_dir().join("bench")).arg("--results").arg(root().join("bench/results"));
    command.arg("--command").arg(target_dir().join("debug/millstream")).arg("--scripts").arg(root().join("bench/python"));
    if !args.iter().any(|arg| arg == "--no-spark") {
        packages::java()?;
        command.arg("--python").arg(python::environment("spark", python::SPARK)?);
    }
    run(command.args(args.iter().filter(|arg| *arg != "--no-spark")))
}
