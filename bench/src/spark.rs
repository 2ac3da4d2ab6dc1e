//! Spark beside us: one warm JVM that takes its tasks as JSON lines, so that both engines take turns in one run.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::outcome::{Outcome, say};

/// A running Spark.
#[derive(Debug)]
pub struct Spark {
    process: Child,
    tasks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Spark {
    /// Starts Python with PySpark and waits until Spark is up.
    pub fn start(python: &Path, scripts: &Path) -> Outcome<Self> {
        let mut process = Command::new(python)
            .arg(scripts.join("spark_worker.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", python.display()))?;
        let (Some(tasks), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("Spark has no pipes".to_owned());
        };
        let mut spark = Spark { process, tasks, answers: BufReader::new(answers) };
        spark.answer()?;
        Ok(spark)
    }

    /// Gives a task and waits for its result.
    pub fn run(&mut self, task: &Value) -> Outcome<Value> {
        writeln!(self.tasks, "{task}").map_err(say)?;
        self.tasks.flush().map_err(say)?;
        self.answer()
    }

    /// The next answer; what Spark prints besides is skipped.
    fn answer(&mut self) -> Outcome<Value> {
        let mut line = String::new();
        while self.answers.read_line(&mut line).map_err(say)? > 0 {
            if let Ok(answer @ Value::Object(_)) = serde_json::from_str::<Value>(&line) {
                return match answer["error"].as_str() {
                    Some(error) => Err(format!("Spark: {error}")),
                    None => Ok(answer),
                };
            }
            line.clear();
        }
        Err("Spark ended".to_owned())
    }
}

impl Drop for Spark {
    fn drop(&mut self) {
        // Closing its tasks ends it; if it does not end, nothing of the results depends on it.
        let _ = writeln!(self.tasks, "{{\"task\":\"stop\"}}");
        let _ = self.process.wait();
    }
}
