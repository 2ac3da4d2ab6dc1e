//! `cargo xtask torture`: inputs that are many, huge, or broken in every way, read by the real binary in bounded time and memory.
//!
//! The quick variant is part of `cargo xtask test`; `--full` adds a file of 2 GB.

mod broken;
mod scene;
mod volume;

use std::path::PathBuf;
use std::time::Instant;

use crate::process::{Outcome, fail, target_dir};
use crate::{drill, python};
use scene::Stage;

/// The most memory that a run may have, in MiB, unless its input says why it needs more.
const MEMORY_MIB: u64 = 300;
/// The schema of every file.
const SCHEMA: &str = "id BIGINT, part STRING, amount INT";

/// Runs every scene. `--full` takes bigger inputs, `--binary PATH` another build than the one it makes.
pub fn torture(args: &[String]) -> Outcome {
    let (mut full, mut binary) = (false, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match (arg.as_str(), args.as_slice().first()) {
            ("--full", _) => full = true,
            ("--binary", Some(path)) => {
                binary = Some(PathBuf::from(path));
                args.next();
            }
            _ => return fail("torture takes --full and --binary PATH"),
        }
    }
    let binary = binary.map_or_else(drill::build, Ok)?;
    let stage = Stage { dir: target_dir().join("torture"), binary, python: python::environment("delta", python::DELTA)? };
    let started = Instant::now();
    volume::many_small_files(&stage)?;
    volume::one_big_file(&stage, if full { 2_000_000_000 } else { 200_000_000 })?;
    broken::json(&stage)?;
    broken::lines(&stage)?;
    broken::locked_file(&stage)?;
    broken::whole_document(&stage)?;
    for format in ["parquet", "orc", "avro", "csv"] {
        broken::format(&stage, format)?;
    }
    std::fs::remove_dir_all(&stage.dir).map_err(|error| format!("cannot clear {}: {error}", stage.dir.display()))?;
    eprintln!("torture: all held ({:.0} s)", started.elapsed().as_secs_f64());
    Ok(())
}
