//! The Python environments of the tests: made on first use, kept beside cargo's target directory, and never in the source tree.

use std::path::PathBuf;
use std::process::Command;

use crate::process::{Outcome, run, target_dir};

/// An environment with these packages, named `name`. Returns its interpreter.
pub fn environment(name: &str, packages: &[&str]) -> Outcome<PathBuf> {
    let dir = target_dir().join("python").join(name);
    let python = dir.join("bin/python");
    let done = dir.join("installed");
    let wanted = packages.join("\n");
    if std::fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&dir))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages))?;
    std::fs::write(&done, wanted).map_err(|error| format!("cannot write {}: {error}", done.display()))?;
    Ok(python)
}

/// Reads Delta tables with another implementation than ours.
pub const DELTA: &[&str] = &["deltalake==1.1.4", "pyarrow==21.0.0"];

/// The whole of Spark.
pub const SPARK: &[&str] = &["pyspark[connect]==4.2.0", "pandas<3", "pyarrow==21.0.0"];

/// The command line `spark-pipelines`.
pub const PIPELINES: &[&str] = &["pyspark-client==4.2.0", "pandas<3", "pyarrow==21.0.0", "pyyaml==6.0.3"];

/// A client of the server, another client of Kafka than ours, and another implementation of Delta.
pub const KAFKA: &[&str] = &["pyspark-client==4.2.0", "pandas<3", "pyarrow==21.0.0", "confluent-kafka==2.16.1", "deltalake==1.1.4"];

/// Flink with its SQL engine.
pub const FLINK: &[&str] = &["apache-flink==2.3.0"];

/// A version of PySpark's Connect client, and the packages that are it.
pub type Client = (&'static str, &'static [&'static str]);

/// The client that scripts of ours are written for.
pub const CLIENT: Client = ("4.2.0", &["pyspark-client==4.2.0", "pandas<3", "pyarrow==21.0.0"]);

/// Every client that has to work. That of 4.3 comes only with all of Spark.
pub const CLIENTS: &[Client] = &[
    ("4.0.4", &["pyspark-client==4.0.4", "pandas<3", "pyarrow==21.0.0"]),
    ("4.1.3", &["pyspark-client==4.1.3", "pandas<3", "pyarrow==21.0.0"]),
    CLIENT,
    ("4.3.0", &["pyspark[connect]==4.3.0", "pandas<3", "pyarrow==21.0.0"]),
];
