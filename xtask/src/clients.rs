//! `cargo xtask clients`: the server under real clients, of every version, and under what happens to them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Outcome, cargo, fail, root, run, target_dir};
use crate::server::Server;
use crate::{packages, python};

const USAGE: &str = "clients takes nothing, --full, or --only with names of parts separated by commas: pyspark, rust, secure, faults, load";

/// The parts, in the order in which they run.
const PARTS: [&str; 5] = ["pyspark", "rust", "secure", "faults", "load"];

/// Runs every client, or the parts that `args` name; `--full` does as much as the figures that are quoted.
pub fn clients(args: &[String]) -> Outcome {
    let mut full = false;
    let mut only: Vec<&str> = PARTS.to_vec();
    let mut words = args.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match (word, &mut words) {
            ("--full", _) => full = true,
            ("--only", words) => only = words.next().ok_or(USAGE)?.split(',').collect(),
            _ => return fail(USAGE),
        }
    }
    if only.iter().any(|part| !PARTS.contains(part)) {
        return fail(USAGE);
    }
    run(cargo().args(["build", "--workspace", "--locked", "--quiet"]))?;
    for part in only {
        match part {
            "pyspark" => pyspark()?,
            "rust" => rust()?,
            "secure" => {
                packages::openssl()?;
                script("connect_secure.py", false)?;
            }
            "faults" => script("connect_faults.py", full)?,
            _ => script("connect_load.py", full)?,
        }
    }
    Ok(())
}

/// A folder of a part's own, empty.
fn folder(name: &str) -> Outcome<PathBuf> {
    let folder = target_dir().join("clients").join(name);
    let made = if folder.exists() { std::fs::remove_dir_all(&folder) } else { Ok(()) }.and_then(|()| std::fs::create_dir_all(&folder));
    made.map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    std::path::absolute(&folder).map_err(|error| format!("cannot find {}: {error}", folder.display()))
}

/// Every version of PySpark, one after the other, against one server.
fn pyspark() -> Outcome {
    let server = Server::start("clients", None)?;
    for (version, packages) in python::CLIENTS {
        let interpreter = python::environment(&format!("pyspark-{version}"), packages)?;
        let folder = folder(&format!("pyspark-{version}"))?;
        run(Command::new(interpreter).arg(root().join("xtask/python/connect_client.py")).arg(server.remote()).arg(folder))?;
    }
    Ok(())
}

/// The official Rust client. It is a workspace of its own, because it needs another version of arrow than the server.
fn rust() -> Outcome {
    let target = target_dir().join("rust-client");
    let manifest = root().join("tests/rust-client/Cargo.toml");
    run(cargo().args(["build", "--locked", "--quiet", "--manifest-path"]).arg(manifest).env("CARGO_TARGET_DIR", &target))?;
    let server = Server::start("clients", None)?;
    run(Command::new(target.join("debug/millstream-rust-client")).arg(server.remote()).arg(folder("rust")?))
}

/// A script that starts its servers itself, under the newest client.
fn script(name: &str, full: bool) -> Outcome {
    let (version, packages) = python::CLIENT;
    let interpreter = python::environment(&format!("pyspark-{version}"), packages)?;
    let binary = std::path::absolute(target_dir().join("debug/millstream")).map_err(|error| error.to_string())?;
    let mut command = Command::new(interpreter);
    command
        .arg(root().join("xtask/python").join(name))
        .arg(binary)
        .arg(folder(Path::new(name).file_stem().and_then(|stem| stem.to_str()).unwrap_or(name))?);
    run(command.args(full.then_some("--full")))
}
