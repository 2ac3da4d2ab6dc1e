//! `cargo xtask kafka`: our Kafka source and sink against a real broker, beside a real Spark, and through kills of everything.
//!
//! The broker is Apache Kafka itself, from its jars; they are copied into the cache on first use and compared with the checksums that are
//! kept in the source tree. It listens on loopback only.

use std::path::PathBuf;
use std::process::Command;

use crate::process::{Outcome, cargo, fail, output, root, run, target_dir};
use crate::{packages, python};

const USAGE: &str = "kafka takes --kills N, --seed N, --binary PATH, and --only with names of parts separated by commas: compare, loss, sink, latency, torture";

/// The parts, in the order in which they run.
const PARTS: [&str; 5] = ["compare", "loss", "sink", "latency", "torture"];

/// What is part of every test: what needs no Spark, does not judge by time, and takes a minute.
pub const TESTED: [&str; 4] = ["--only", "loss,sink", "--kills", "6"];

/// Runs every part, or those that `args` name.
pub fn kafka(args: &[String]) -> Outcome {
    let (mut kills, mut seed, mut binary, mut only) = ("20".to_owned(), "20130208".to_owned(), None, PARTS.join(","));
    for pair in args.chunks(2) {
        let [name, value] = pair else { return fail(USAGE) };
        match name.as_str() {
            "--kills" => kills.clone_from(value),
            "--seed" => seed.clone_from(value),
            "--binary" => binary = Some(PathBuf::from(value)),
            "--only" => only.clone_from(value),
            _ => return fail(USAGE),
        }
    }
    if only.split(',').any(|part| !PARTS.contains(&part)) {
        return fail(USAGE);
    }
    packages::java()?;
    packages::maven()?;
    let binary = match binary {
        Some(binary) => binary,
        None => {
            run(cargo().args(["build", "--workspace", "--locked", "--quiet"]))?;
            target_dir().join("debug/millstream")
        }
    };
    let broker = jars("broker")?;
    let interpreter = python::environment("kafka", python::KAFKA)?;
    for part in only.split(',') {
        let mut command = Command::new(&interpreter);
        command.arg(root().join(format!("xtask/python/kafka_{part}.py")));
        command.arg("--broker").arg(&broker).arg("--binary").arg(&binary).arg("--folder").arg(target_dir().join("kafka").join(part));
        match part {
            "compare" => {
                command.arg("--spark-python").arg(python::environment("spark", python::SPARK)?).arg("--spark-jars").arg(jars("spark")?);
            }
            "torture" => {
                command.args(["--kills", &kills, "--seed", &seed]);
            }
            _ => {}
        }
        run(&mut command)?;
    }
    Ok(())
}

/// The jars that `xtask/kafka/NAME/pom.xml` asks for, in a folder of the cache.
fn jars(name: &str) -> Outcome<PathBuf> {
    let source = root().join("xtask/kafka").join(name);
    let folder = target_dir().join("jars").join(name);
    let done = folder.join("verified");
    let sums = source.join("jars.sha256");
    let wanted = std::fs::read_to_string(&sums).map_err(|error| format!("cannot read {}: {error}", sums.display()))?;
    if std::fs::read_to_string(&done).is_ok_and(|verified| verified == wanted) {
        return Ok(folder);
    }
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| format!("cannot clear {}: {error}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let mut copy = Command::new("mvn");
    copy.args(["--quiet", "--batch-mode", "--file"]).arg(source.join("pom.xml")).arg("dependency:copy-dependencies");
    copy.arg("-DincludeScope=runtime").arg(format!("-DoutputDirectory={}", folder.display()));
    run(&mut copy)?;
    let mut check = Command::new("sh");
    check.args(["-c", "cd \"$1\" && sha256sum --check --strict --quiet \"$2\"", "sh"]).arg(&folder).arg(&sums);
    output(&mut check).map_err(|error| format!("the jars of {name} are not those that were checked: {error}"))?;
    std::fs::write(&done, wanted).map_err(|error| format!("cannot write {}: {error}", done.display()))?;
    Ok(folder)
}
