//! Measures Millstream, and Spark beside it in the same run, on this machine. `cargo xtask bench` builds and starts it.

mod arguments;
mod data;
mod ingest;
mod machine;
mod micro_batch;
mod nexmark;
mod outcome;
mod spark;
mod startup;
mod statistics;

use std::process::ExitCode;

use arguments::{Arguments, Part};
use millstream::wiring::Wiring;
use outcome::{Outcome, at};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["ingest", format, input, checkpoint] => ingest::child(format, input, checkpoint),
        ["nexmark-data", words @ ..] => nexmark::child(words),
        _ => Arguments::parse(&words).and_then(|arguments| measure(&arguments)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs every wanted part, prints its table, and writes all results to one file.
fn measure(arguments: &Arguments) -> Outcome {
    let wiring = Wiring::system();
    let clock = wiring.clock.as_ref();
    let mut results = machine::facts(clock);
    results["quick"] = json!(arguments.quick);
    let mut spark = arguments.python.as_deref().map(|python| spark::Spark::start(python, &arguments.scripts)).transpose()?;
    if arguments.wants(Part::MicroBatch) {
        let section = micro_batch::measure(arguments, spark.as_mut())?;
        micro_batch::print(&section);
        results["micro_batch"] = section;
    }
    if arguments.wants(Part::Ingest) {
        let section = ingest::measure(arguments, spark.as_mut())?;
        ingest::print(&section);
        results["ingest"] = section;
    }
    drop(spark);
    if arguments.wants(Part::Startup) {
        let section = startup::measure(arguments, clock)?;
        startup::print(&section);
        results["startup"] = section;
    }
    results["load_average_at_end"] = json!(machine::load_average());
    write(arguments, &results)
}

fn write(arguments: &Arguments, results: &Value) -> Outcome {
    let stamp = results["at"].as_str().unwrap_or("undated");
    let name = format!("{}.json", stamp.chars().take(19).map(|c| if c == ':' { '-' } else { c }).collect::<String>());
    std::fs::create_dir_all(&arguments.results).map_err(at(&arguments.results))?;
    let path = arguments.results.join(name);
    std::fs::write(&path, format!("{results:#}\n")).map_err(at(&path))?;
    println!("\nwritten to {}", path.display());
    Ok(())
}
