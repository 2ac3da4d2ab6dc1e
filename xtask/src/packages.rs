//! Programs of the system that the build and the tests need, installed where the system's package manager allows.

use std::process::Command;

use crate::process::{Outcome, run, target_dir};

/// The compiler of protocol buffers with the messages that everybody has, which the messages of Spark Connect are built with.
pub fn protoc() -> Outcome {
    let dir = target_dir().join("tmp");
    let probe = dir.join("probe.proto");
    std::fs::create_dir_all(&dir)
        .and_then(|()| std::fs::write(&probe, "syntax = \"proto3\";\nimport \"google/protobuf/any.proto\";\n"))
        .map_err(|error| format!("cannot write {}: {error}", probe.display()))?;
    let works = || {
        let mut protoc = Command::new("protoc");
        protoc.arg("--proto_path").arg(&dir).arg("--descriptor_set_out").arg(dir.join("probe.bin")).arg(&probe);
        protoc.output().is_ok_and(|output| output.status.success())
    };
    ensure(works, &["protobuf-compiler", "libprotobuf-dev"], "Spark Connect is built with protoc: install the protocol buffer compiler")
}

/// A Java for real Spark.
pub fn java() -> Outcome {
    let works = || Command::new("java").arg("-version").output().is_ok_and(|output| output.status.success());
    ensure(works, &["openjdk-17-jre-headless"], "Real Spark needs Java 17: install it")
}

fn ensure(works: impl Fn() -> bool, packages: &[&str], need: &str) -> Outcome {
    if works() {
        return Ok(());
    }
    let install = || -> Outcome {
        run(Command::new("apt-get").arg("update"))?;
        run(Command::new("apt-get").args(["install", "--yes", "--no-install-recommends"]).args(packages))
    };
    install().map_err(|error| format!("{error}\n{need} and run this again"))
}
