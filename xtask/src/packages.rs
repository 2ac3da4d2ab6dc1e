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

/// What the C and C++ libraries (librdkafka, RocksDB) are built with: make, a C++ compiler, OpenSSL's headers, and libclang for their bindings.
pub fn native() -> Outcome {
    let runs = |program: &str| Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    let openssl = || Command::new("pkg-config").args(["--exists", "openssl"]).status().is_ok_and(|status| status.success());
    let libclang = || {
        let roots = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(std::path::Path::new);
        let named = |dir: &std::path::Path| {
            let library = |name: &str| {
                name.starts_with("libclang.so")
                    || (name.starts_with("libclang-") && !name.starts_with("libclang-cpp") && name.contains(".so"))
            };
            std::fs::read_dir(dir).is_ok_and(|found| found.flatten().any(|entry| library(&entry.file_name().to_string_lossy())))
        };
        let inside = |root: &std::path::Path| -> Vec<std::path::PathBuf> {
            let subdirs = std::fs::read_dir(root).into_iter().flatten().flatten();
            subdirs.flat_map(|entry| [entry.path(), entry.path().join("lib")]).collect()
        };
        std::env::var_os("LIBCLANG_PATH").is_some() || roots.iter().any(|root| named(root) || inside(root).iter().any(|dir| named(dir)))
    };
    ensure(
        || runs("make") && runs("c++") && openssl() && libclang(),
        &["make", "g++", "libssl-dev", "libclang-dev", "pkg-config"],
        "RocksDB and librdkafka are built with make, a C++ compiler, OpenSSL's headers and libclang: install them",
    )
}

/// The program that makes certificates for tests.
pub fn openssl() -> Outcome {
    let works = || Command::new("openssl").arg("version").output().is_ok_and(|output| output.status.success());
    ensure(works, &["openssl"], "Certificates are made with openssl: install it")
}

/// A Java for real Spark.
pub fn java() -> Outcome {
    let works = || Command::new("java").arg("-version").output().is_ok_and(|output| output.status.success());
    ensure(works, &["openjdk-17-jre-headless"], "Real Spark needs Java 17: install it")
}

/// What brings the jars of other systems.
pub fn maven() -> Outcome {
    let works = || Command::new("mvn").arg("--version").output().is_ok_and(|output| output.status.success());
    ensure(works, &["maven"], "Jars are copied by Maven: install it")
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
