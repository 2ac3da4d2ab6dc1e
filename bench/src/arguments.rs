//! What to measure, and where.

use std::path::PathBuf;

use crate::outcome::Outcome;

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Batches of one row.
    MicroBatch,
    /// Megabytes per second.
    Ingest,
    /// From nothing to the first batch.
    Startup,
}

/// The command line, as `cargo xtask bench` gives it.
#[derive(Debug)]
pub struct Arguments {
    /// Where data and checkpoints go, on a real disk.
    pub work: PathBuf,
    /// Where results go.
    pub results: PathBuf,
    /// The `millstream` command.
    pub command: PathBuf,
    /// The Python files of the benchmark.
    pub scripts: PathBuf,
    /// A Python that has PySpark; none leaves Spark out.
    pub python: Option<PathBuf>,
    /// Fewer batches, less data: to see that it runs, not to quote.
    pub quick: bool,
    only: Vec<Part>,
}

impl Arguments {
    /// Reads the command line.
    pub fn parse(words: &[String]) -> Outcome<Self> {
        let mut arguments = Arguments {
            work: "target/bench".into(),
            results: "bench/results".into(),
            command: "target/debug/millstream".into(),
            scripts: "bench/python".into(),
            python: None,
            quick: false,
            only: Vec::new(),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--work" => arguments.work = value()?.into(),
                "--results" => arguments.results = value()?.into(),
                "--command" => arguments.command = value()?.into(),
                "--scripts" => arguments.scripts = value()?.into(),
                "--python" => arguments.python = Some(value()?.into()),
                "--quick" => arguments.quick = true,
                "--only" => {
                    for name in value()?.split(',') {
                        arguments.only.push(match name {
                            "micro-batch" => Part::MicroBatch,
                            "ingest" => Part::Ingest,
                            "startup" => Part::Startup,
                            other => return Err(format!("there is no part '{other}': micro-batch, ingest, startup")),
                        });
                    }
                }
                other => return Err(format!("unknown argument '{other}'")),
            }
        }
        Ok(arguments)
    }

    /// Whether a part is to be measured.
    pub fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}
