//! `cargo xtask demo`: the main job on real data, from raw files to gold tables.

use std::process::Command;

use crate::process::{Outcome, cargo, output, root, run, target_dir};
use crate::python;

/// Builds everything, runs the flights pipeline from nothing, and prints its gold table.
pub fn demo() -> Outcome {
    run(cargo().args(["build", "--workspace", "--locked"]))?;
    let lake = target_dir().join("demo/lake");
    if lake.exists() {
        std::fs::remove_dir_all(&lake).map_err(|error| format!("cannot clear {}: {error}", lake.display()))?;
    }
    let binary = target_dir().join("debug/millstream");
    run(Command::new(&binary).args(["run", "examples/flights", "--once", "--var", "data=examples/flights/data", "--storage"]).arg(&lake))?;
    run(Command::new(&binary)
        .args(["table", "show", "gold_cancellations_by_day", "--order-by", "day", "--limit", "31", "--storage"])
        .arg(&lake))
}

/// Runs the demo and has another implementation of Delta read every table.
pub fn verified() -> Outcome {
    demo()?;
    let python = python::environment("delta", python::DELTA)?;
    let script = root().join("xtask/python/verify_demo.py");
    let verdict = output(Command::new(python).arg(script).arg(target_dir().join("demo/lake")))?;
    eprintln!("demo: {}", verdict.trim());
    Ok(())
}
