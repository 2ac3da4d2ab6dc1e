//! Programs of the system that the build and the tests need, installed where the system's package manager allows.

use std::process::Command;

use crate::process::{Outcome, run};

/// The compiler of protocol buffers, which the messages of Spark Connect are built with.
pub fn protoc() -> Outcome {
    ensure("protoc", "--version", "protobuf-compiler", "Building Spark Connect needs protoc: install the protocol buffer compiler")
}

/// A Java for real Spark.
pub fn java() -> Outcome {
    ensure("java", "-version", "openjdk-17-jre-headless", "Real Spark needs Java 17: install it")
}

fn ensure(program: &str, probe: &str, package: &str, need: &str) -> Outcome {
    if Command::new(program).arg(probe).output().is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    let install = || -> Outcome {
        run(Command::new("apt-get").arg("update"))?;
        run(Command::new("apt-get").args(["install", "--yes", "--no-install-recommends", package]))
    };
    install().map_err(|error| format!("{error}\n{need} and run this again"))
}
