//! Megabytes per second and core: the same rows in three formats, every column read, into the noop sink.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use millstream::wiring::Wiring;
use millstream::{QueryEvent, QueryRequest, QuerySettings, Session, SessionOptions, Trigger};
use millstream_core::Options;
use millstream_core::registry::{ReadRequest, WriteRequest};
use millstream_core::sink::OutputMode;
use millstream_spark::types::parse_schema;
use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::data::{self, DataSet, FORMATS, SCHEMA};
use crate::machine::{self, load_average};
use crate::outcome::{Outcome, at, say};
use crate::spark::Spark;
use crate::statistics::spread;

/// Measures every format, both engines taking turns; the first turn warms up and does not count.
pub fn measure(arguments: &Arguments, mut spark: Option<&mut Spark>) -> Outcome<Value> {
    let turns = if arguments.quick { 2 } else { 6 };
    let checkpoints = std::path::absolute(arguments.work.join("ingest-checkpoints")).map_err(at(&arguments.work))?;
    let mut cases = Vec::new();
    for format in FORMATS {
        let data = data::prepare(&arguments.work, format, arguments.quick)?;
        let input = std::path::absolute(&data.dir).map_err(at(&data.dir))?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let load = load_average();
        for turn in 0..turns {
            let run = millstream(format, &input, &checkpoints.join("millstream"), data.rows)?;
            if turn > 0 {
                ours.push(run);
            }
            let Some(spark) = spark.as_deref_mut() else { continue };
            let run = spark.run(&json!({
                "task": "ingest", "format": format, "input": input, "checkpoint": checkpoints.join("spark"), "schema": SCHEMA,
            }))?;
            if run["rows"].as_u64() != Some(data.rows) {
                return Err(format!("Spark read {} rows of {format} instead of {}", run["rows"], data.rows));
            }
            if turn > 0 {
                theirs.push(run);
            }
        }
        for (engine, runs) in [("millstream", ours), ("spark", theirs)] {
            if !runs.is_empty() {
                cases.push(case(engine, format, &data, &runs, load));
            }
        }
    }
    Ok(json!({"cases": cases}))
}

/// One run of Millstream in a process of its own.
fn millstream(format: &str, input: &Path, checkpoint: &Path, rows: u64) -> Outcome<Value> {
    if checkpoint.exists() {
        std::fs::remove_dir_all(checkpoint).map_err(at(checkpoint))?;
    }
    let this = std::env::current_exe().map_err(say)?;
    let output = Command::new(this).arg("ingest").arg(format).arg(input).arg(checkpoint).output().map_err(say)?;
    if !output.status.success() {
        return Err(format!("ingest of {format}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let run: Value = serde_json::from_slice(&output.stdout).map_err(say)?;
    if run["rows"].as_u64() != Some(rows) {
        return Err(format!("Millstream read {} rows of {format} instead of {rows}", run["rows"]));
    }
    Ok(run)
}

fn case(engine: &str, format: &str, data: &DataSet, runs: &[Value], load: f64) -> Value {
    let megabytes = data.bytes as f64 / 1e6;
    let over =
        |amount: f64, key: &str| spread(&runs.iter().filter_map(|run| run[key].as_f64()).map(|time| amount / time).collect::<Vec<_>>());
    json!({
        "engine": engine, "format": format, "rows": data.rows, "megabytes": megabytes, "runs": runs.len(), "load_average": load,
        "mb_per_cpu_second": over(megabytes, "cpu_s"),
        "mb_per_second": over(megabytes, "wall_s"),
        "rows_per_cpu_second": over(data.rows as f64, "cpu_s"),
        "peak_rss_mib": spread(&runs.iter().filter_map(|run| run["rss_mib"].as_f64()).collect::<Vec<_>>()),
    })
}

/// The process of one run: reads everything that is there, and prints what it took.
///
/// Processor time is that of the whole process, its start included; wall time is that of the query.
pub fn child(format: &str, input: &str, checkpoint: &str) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(say)?;
    let (wall_s, rows) = runtime.block_on(read(format, input, checkpoint))?;
    let this = std::process::id();
    println!(
        "{}",
        json!({"wall_s": wall_s, "cpu_s": machine::cpu_seconds(this), "rows": rows, "rss_mib": machine::memory_mib(this, "VmHWM")})
    );
    Ok(())
}

async fn read(format: &str, input: &str, checkpoint: &str) -> Outcome<(f64, u64)> {
    let wiring = Wiring::system();
    let started = wiring.clock.monotonic_ns();
    let session = Session::new(wiring.registry(std::io::sink()), SessionOptions::default()).map_err(say)?;
    let rows = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = rows.clone();
    session.add_listener(Arc::new(move |event: &QueryEvent| {
        if let QueryEvent::Progress(progress) = event {
            counted.fetch_add(progress.num_input_rows, std::sync::atomic::Ordering::Relaxed);
        }
    }));
    let read =
        ReadRequest { schema: Some(Arc::new(parse_schema(SCHEMA).map_err(say)?)), paths: vec![input.to_owned()], options: Options::new() };
    let stream = session.stream_relation(format, read).await.map_err(say)?;
    session.context().register_table("input", Arc::new(stream)).map_err(say)?;
    let request = QueryRequest {
        name: None,
        plan: session.plan_sql("SELECT * FROM input").await.map_err(say)?,
        sink: session.registry().sink("noop").map_err(say)?.sink(&WriteRequest::default()).await.map_err(say)?,
        mode: OutputMode::Append,
        trigger: Trigger::AvailableNow,
        checkpoint: wiring.checkpoint(checkpoint).await.map_err(say)?,
        quarantine: None,
        expectations: vec![],
        output: None,
        settings: QuerySettings::default(),
    };
    let query = session.start(request).await.map_err(say)?;
    query.await_termination().await.map_err(say)?;
    let wall_s = wiring.clock.monotonic_ns().saturating_sub(started) as f64 / 1e9;
    Ok((wall_s, rows.load(std::sync::atomic::Ordering::Relaxed)))
}

/// Prints the cases as a table.
pub fn print(section: &Value) {
    println!("\nIngest, every column into the noop sink, median (least - greatest)");
    println!("{:<11} {:<8} {:>7} {:>26} {:>26} {:>16} {:>9}", "engine", "format", "MB", "MB/s per core", "MB/s", "rows/CPU-s", "RSS MiB");
    for case in section["cases"].as_array().into_iter().flatten() {
        let number = |key: &str, which: &str| case[key][which].as_f64().unwrap_or(0.0);
        let range = |key: &str| format!("{:.1} ({:.1} - {:.1})", number(key, "median"), number(key, "min"), number(key, "max"));
        println!(
            "{:<11} {:<8} {:>7.1} {:>26} {:>26} {:>16.0} {:>9.0}",
            case["engine"].as_str().unwrap_or_default(),
            case["format"].as_str().unwrap_or_default(),
            case["megabytes"].as_f64().unwrap_or(0.0),
            range("mb_per_cpu_second"),
            range("mb_per_second"),
            number("rows_per_cpu_second", "median"),
            number("peak_rss_mib", "median"),
        );
    }
}
