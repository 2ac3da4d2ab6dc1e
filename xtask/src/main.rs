//! The project's own chores: `cargo xtask <task>`.

mod check;
mod process;
mod python;
mod tidy;

use std::process::ExitCode;

use process::{Outcome, fail};

const USAGE: &str = "\
cargo xtask <task>

  check     formatting, lints and tidy rules; passes before each commit
  tidy      the tidy rules alone: crate edges, file length, names, one version of shared dependencies
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (task, rest) = match args.split_first() {
        Some((task, rest)) => (task.as_str(), rest),
        None => ("help", [].as_slice()),
    };
    let outcome = match task {
        "check" => check::check(),
        "tidy" => tidy::tidy(),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            Ok(())
        }
        other => fail(format!("there is no task '{other}'\n\n{USAGE}")),
    };
    let _ = rest;
    report(outcome)
}

fn report(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
