//! `cargo xtask interop`: a stateless query is handed from Spark to Millstream and back, on one checkpoint, and every row arrives once.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Outcome, cargo, fail, output, root, run, target_dir};
use crate::{packages, python};

const SCHEMA: &str = "id BIGINT, name STRING, at TIMESTAMP, price DECIMAL(10,2), tags ARRAY<STRING>";
const RECORDS: u64 = 10;

/// Who runs the next part of the query.
#[derive(Clone, Copy, Debug)]
enum Engine {
    Spark,
    Millstream,
}

/// Hands the query over in both directions, cleanly and with the last commit record lost.
pub fn interop() -> Outcome {
    run(cargo().args(["build", "--workspace", "--examples", "--locked", "--quiet"]))?;
    packages::java()?;
    let python = python::environment("spark", python::SPARK)?;
    let relays: [(&str, [Engine; 3], bool); 3] = [
        ("spark-first", [Engine::Spark, Engine::Millstream, Engine::Spark], false),
        ("millstream-first", [Engine::Millstream, Engine::Spark, Engine::Millstream], false),
        ("lost-commit", [Engine::Spark, Engine::Millstream, Engine::Spark], true),
    ];
    for (name, engines, lose_commit) in relays {
        let dir = fresh(name)?;
        for (leg, engine) in engines.into_iter().enumerate() {
            for file in 0..3 {
                write(&dir, leg as u64 * 3 + file)?;
            }
            if lose_commit && leg > 0 {
                lose_last_commit(&dir)?;
            }
            advance(engine, &dir, &python)?;
        }
        let ids = engines.len() as u64 * 3 * RECORDS;
        let script = root().join("xtask/python/spark_json_to_parquet.py");
        let verdict = output(Command::new(&python).arg(script).arg("count").arg(dir.join("out")).arg(ids.to_string()))?;
        eprintln!("interop: {name}: {engines:?}: {}", verdict.trim());
    }
    Ok(())
}

fn fresh(name: &str) -> Outcome<PathBuf> {
    let dir = target_dir().join("interop").join(name);
    if dir.exists() {
        std::fs::remove_dir_all(&dir).map_err(|error| format!("cannot clear {}: {error}", dir.display()))?;
    }
    std::fs::create_dir_all(dir.join("in")).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
    Ok(dir)
}

fn write(dir: &Path, file: u64) -> Outcome {
    let mut text = String::new();
    for record in 0..RECORDS {
        let id = file * RECORDS + record;
        text.push_str(&format!(
            "{{\"id\":{id},\"name\":\"n{id}\",\"at\":\"2024-01-01T00:00:{:02}Z\",\"price\":{id}.25,\"tags\":[\"a\",\"b{id}\"]}}\n",
            id % 60
        ));
    }
    let path = dir.join("in").join(format!("{file:04}.json"));
    std::fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn advance(engine: Engine, dir: &Path, python: &Path) -> Outcome {
    let places = ["in", "out", "checkpoint"].map(|place| dir.join(place));
    match engine {
        Engine::Millstream => run(Command::new(target_dir().join("debug/examples/json_to_parquet")).args(places).arg(SCHEMA)),
        Engine::Spark => {
            let script = root().join("xtask/python/spark_json_to_parquet.py");
            run(Command::new(python).arg(script).arg("run").args(places).arg(SCHEMA))
        }
    }
}

/// Removes the newest commit record, as if the process had died before writing it.
fn lose_last_commit(dir: &Path) -> Outcome {
    let commits = dir.join("checkpoint/commits");
    let entries = std::fs::read_dir(&commits).map_err(|error| format!("cannot list {}: {error}", commits.display()))?;
    let newest = entries.flatten().filter_map(|entry| entry.file_name().to_string_lossy().parse::<u64>().ok()).max();
    let Some(newest) = newest else { return fail(format!("no commits in {}", commits.display())) };
    let path = commits.join(newest.to_string());
    std::fs::remove_file(&path).map_err(|error| format!("cannot remove {}: {error}", path.display()))
}
