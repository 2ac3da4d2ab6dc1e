//! Running other programs, with errors that say which and where.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

/// The result of a chore; the error is a message for people.
pub type Outcome<T = ()> = Result<T, String>;

/// A failed chore.
pub fn fail<T>(message: impl Into<String>) -> Outcome<T> {
    Err(message.into())
}

/// The root of the workspace that cargo runs this chore for. Clones may share a target directory, and with it one binary of this program.
pub fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().unwrap_or(&manifest).to_owned()
}

/// Cargo's target directory, as cargo itself decides it.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Runs a program in the workspace and fails unless it succeeds.
pub fn run(command: &mut Command) -> Outcome {
    let shown = show(command);
    eprintln!("$ {shown}");
    let status = command.current_dir(root()).status().map_err(|error| format!("cannot run `{shown}`: {error}"))?;
    if status.success() { Ok(()) } else { fail(format!("`{shown}` failed: {status}")) }
}

/// Runs a program and returns what it printed on standard output.
pub fn output(command: &mut Command) -> Outcome<String> {
    let shown = show(command);
    let output = command.current_dir(root()).output().map_err(|error| format!("cannot run `{shown}`: {error}"))?;
    if !output.status.success() {
        return fail(format!("`{shown}` failed: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("`{shown}` printed something that is not UTF-8"))
}

/// A cargo command of the toolchain that runs this chore. It is not told about this chore's own package: some build scripts (ring's, below
/// DataFusion) run again when those variables change, so that each checkout would compile everything above them again.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let own = |name: &OsStr| name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| own(name)) {
        command.env_remove(name);
    }
    command
}

fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
