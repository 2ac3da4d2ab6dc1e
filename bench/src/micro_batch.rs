//! Batches of one row: how long a trigger takes, and how much of that is not waiting for the disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use millstream::wiring::Wiring;
use millstream::{QueryEvent, QueryRequest, QuerySettings, Session, SessionOptions, StreamingQuery, Trigger};
use millstream_checkpoint::store::DurableCounts;
use millstream_core::registry::{ReadRequest, WriteRequest};
use millstream_core::sink::OutputMode;
use millstream_core::{Options, QueryProgress};
use millstream_spark::types::parse_schema;
use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::machine::load_average;
use crate::outcome::{Outcome, at, say};
use crate::spark::Spark;
use crate::statistics::p50_p99;

const SCHEMA: &str = "id BIGINT, name STRING, at TIMESTAMP, price DOUBLE";
/// Own time per batch that the design allows, milliseconds.
const BUDGET_MS: f64 = 2.0;
/// The pause between batches, in which the last commit record becomes durable.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a batch may take before the benchmark gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// What one batch of one row took, milliseconds.
#[derive(Debug, Default)]
struct Samples {
    /// From the start of the trigger to its report.
    trigger: Vec<f64>,
    /// In fsync, from the arrival of the file to the report, added up over threads.
    fsync: Vec<f64>,
    /// The trigger without its fsyncs.
    own: Vec<f64>,
    /// The trigger without waiting for `offsets/N` before the sink's commit.
    beyond_barrier: Vec<f64>,
    /// From the arrival of the file under its name to the report, which follows visibility.
    latency: Vec<f64>,
    /// Calls of fsync.
    syncs: Vec<f64>,
}

/// A report, when it came, and what the disk had cost by then.
type Report = (Arc<QueryProgress>, u64, DurableCounts);

/// Measures every sink with the checkpoint on the disk and in memory, and Spark beside it.
pub fn measure(arguments: &Arguments, mut spark: Option<&mut Spark>) -> Outcome<Value> {
    let (batches, warm_up) = if arguments.quick { (60, 20) } else { (400, 100) };
    let memory = PathBuf::from("/dev/shm/millstream-bench");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(say)?;
    let mut cases = Vec::new();
    for sink in ["memory", "noop", "delta"] {
        for (place, dir) in [("disk", arguments.work.join("micro-batch")), ("/dev/shm", memory.clone())] {
            let load = load_average();
            let samples = runtime.block_on(run(&dir, sink, batches, warm_up))?;
            cases.push(json!({
                "engine": "millstream", "sink": sink, "place": place, "batches": samples.trigger.len(), "load_average": load,
                "trigger_ms": p50_p99(&samples.trigger),
                "fsync_ms": p50_p99(&samples.fsync),
                "own_ms": p50_p99(&samples.own),
                "trigger_less_barrier_ms": p50_p99(&samples.beyond_barrier),
                "rename_to_visible_ms": p50_p99(&samples.latency),
                "fsyncs": p50_p99(&samples.syncs),
            }));
        }
        let Some(spark) = spark.as_deref_mut() else { continue };
        let (batches, warm_up) = if arguments.quick { (15, 5) } else { (100, 30) };
        // Spark has no Delta of its own: its Parquet sink stands for a sink that writes files.
        let sink = if sink == "delta" { "parquet" } else { sink };
        for (place, dir) in [("disk", arguments.work.join("micro-batch-spark")), ("/dev/shm", memory.join("spark"))] {
            let load = load_average();
            let task = json!({"task": "micro_batch", "sink": sink, "dir": absolute(&dir)?, "batches": batches, "schema": SCHEMA});
            let answer = spark.run(&task)?;
            let triggers: Vec<f64> =
                answer["trigger_ms"].as_array().into_iter().flatten().filter_map(Value::as_f64).skip(warm_up).collect();
            cases.push(json!({
                "engine": "spark", "sink": sink, "place": place, "batches": triggers.len(), "load_average": load,
                "trigger_ms": p50_p99(&triggers),
            }));
        }
    }
    // What is in memory would otherwise stay there.
    let _ = std::fs::remove_dir_all(&memory);
    Ok(json!({"budget_own_ms_p50": BUDGET_MS, "cases": cases}))
}

fn absolute(dir: &Path) -> Outcome<PathBuf> {
    std::path::absolute(dir).map_err(at(dir))
}

/// Drops one file at a time and waits for its batch.
async fn run(dir: &Path, sink: &str, batches: u64, warm_up: u64) -> Outcome<Samples> {
    if dir.exists() {
        std::fs::remove_dir_all(dir).map_err(at(dir))?;
    }
    let input = absolute(&dir.join("in"))?;
    std::fs::create_dir_all(&input).map_err(at(&input))?;
    let wiring = Wiring::system();
    let (query, reports) = start(&wiring, dir, &input, sink).await?;
    let mut samples = Samples::default();
    for batch in 0..batches {
        wiring.clock.sleep(PAUSE).await;
        let hidden = input.join(format!(".{batch}"));
        let row = format!("{{\"id\":{batch},\"name\":\"n\",\"at\":\"2024-01-01T00:00:00Z\",\"price\":1.5}}\n");
        std::fs::write(&hidden, row).map_err(at(&hidden))?;
        let before = wiring.stores.stats().counts();
        let arrived = wiring.clock.monotonic_ns();
        std::fs::rename(&hidden, input.join(format!("{batch:06}.json"))).map_err(at(&hidden))?;
        let report = tokio::task::block_in_place(|| reports.recv_timeout(PATIENCE));
        let (progress, seen, counts) = report.map_err(|_| match query.error() {
            Some(error) => error.to_string(),
            None => format!("batch {batch} into {sink} did not come within {} s", PATIENCE.as_secs()),
        })?;
        if progress.num_input_rows != 1 {
            return Err(format!("batch {batch} into {sink} had {} rows", progress.num_input_rows));
        }
        if batch < warm_up {
            continue;
        }
        let spent = counts.since(&before);
        let (own_us, wait_us) = (progress.millstream.own_time_us as f64, progress.millstream.durable_wait_us as f64);
        let (trigger, fsync) = ((own_us + wait_us) / 1e3, spent.sync_ns as f64 / 1e6);
        samples.trigger.push(trigger);
        samples.fsync.push(fsync);
        samples.own.push(trigger - fsync);
        samples.beyond_barrier.push(own_us / 1e3);
        samples.latency.push(seen.saturating_sub(arrived) as f64 / 1e6);
        samples.syncs.push((spent.file_syncs + spent.dir_syncs) as f64);
    }
    query.stop().await;
    Ok(samples)
}

async fn start(wiring: &Wiring, dir: &Path, input: &Path, sink: &str) -> Outcome<(StreamingQuery, Receiver<Report>)> {
    let session = Session::new(wiring.registry(std::io::sink()), SessionOptions::default()).map_err(say)?;
    let (sender, reports) = sync_channel(16);
    let (clock, stats) = (wiring.clock.clone(), wiring.stores.stats().clone());
    session.add_listener(Arc::new(move |event: &QueryEvent| {
        if let QueryEvent::Progress(progress) = event {
            // A receiver that is gone has seen enough.
            let _ = sender.try_send((progress.clone(), clock.monotonic_ns(), stats.counts()));
        }
    }));
    let read = ReadRequest {
        schema: Some(Arc::new(parse_schema(SCHEMA).map_err(say)?)),
        paths: vec![input.display().to_string()],
        options: Options::new(),
    };
    let stream = session.stream_relation("json", read).await.map_err(say)?;
    session.context().register_table("input", Arc::new(stream)).map_err(say)?;
    let write = WriteRequest {
        path: (sink == "delta").then(|| absolute(&dir.join("out")).map(|path| path.display().to_string())).transpose()?,
        query_name: Some("rows".to_owned()),
        ..WriteRequest::default()
    };
    let request = QueryRequest {
        name: Some("rows".to_owned()),
        plan: session.plan_sql("SELECT * FROM input").await.map_err(say)?,
        sink: session.registry().sink(sink).map_err(say)?.sink(&write).await.map_err(say)?,
        mode: OutputMode::Append,
        trigger: Trigger::Default,
        checkpoint: wiring.checkpoint(&absolute(&dir.join("checkpoint"))?.display().to_string()).await.map_err(say)?,
        quarantine: None,
        expectations: vec![],
        output: None,
        settings: QuerySettings::default(),
    };
    Ok((session.start(request).await.map_err(say)?, reports))
}

/// Prints the cases as a table, with the ratio to Spark where Spark ran.
pub fn print(section: &Value) {
    println!("\nMicro-batch of one row, JSON file to sink, milliseconds p50 / p99 (budget: own time {BUDGET_MS} at p50)");
    println!(
        "{:<11} {:<8} {:<9} {:>15} {:>15} {:>15} {:>18} {:>7}",
        "engine", "sink", "place", "trigger", "fsync", "own", "rename to visible", "fsyncs"
    );
    for case in section["cases"].as_array().into_iter().flatten() {
        let pair = |key: &str| match (case[key]["p50"].as_f64(), case[key]["p99"].as_f64()) {
            (Some(p50), Some(p99)) => format!("{p50:.2} / {p99:.2}"),
            _ => String::new(),
        };
        println!(
            "{:<11} {:<8} {:<9} {:>15} {:>15} {:>15} {:>18} {:>7}",
            case["engine"].as_str().unwrap_or_default(),
            case["sink"].as_str().unwrap_or_default(),
            case["place"].as_str().unwrap_or_default(),
            pair("trigger_ms"),
            pair("fsync_ms"),
            pair("own_ms"),
            pair("rename_to_visible_ms"),
            case["fsyncs"]["p50"].as_f64().map(|syncs| syncs.to_string()).unwrap_or_default(),
        );
    }
}
