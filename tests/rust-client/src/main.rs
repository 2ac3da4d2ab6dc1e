//! Spark's official Rust client against a running server: rows, a streaming query that is started, watched and stopped, and an error.
//!
//! `millstream-rust-client sc://127.0.0.1:15002 FOLDER`, where the folder is empty and both processes can reach it.

use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use spark_connect::streaming::{QUERY_PROGRESS_EVENT, QUERY_TERMINATED_EVENT, StreamingQueryListener, StreamingQueryListenerEvent};
use spark_connect::{SparkSession, Trigger, col, lit};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// How long an event of a listener may take.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.as_slice() {
        [remote, folder] => check(remote, Path::new(folder)),
        _ => Err("usage: millstream-rust-client sc://HOST:PORT FOLDER".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rust client: {error}");
            ExitCode::FAILURE
        }
    }
}

fn check(remote: &str, folder: &Path) -> Outcome {
    let spark = SparkSession::builder().remote(remote).get_or_create()?;
    let version = spark.version()?;
    expect("the version", version.starts_with("4."), &version)?;
    rows(&spark)?;
    query(&spark, folder)?;
    refusal(&spark)?;
    spark.stop()?;
    println!("rust client: rows, a streaming query with its progress and events, and an error; the server says Spark {version}");
    Ok(())
}

/// Rows of SQL text and of a frame.
fn rows(spark: &SparkSession) -> Outcome {
    let rows = spark.sql("SELECT 1 AS n, 'one' AS name")?.collect()?;
    let [row] = rows.as_slice() else { return Err(format!("one row was expected, not {}", rows.len()).into()) };
    expect("n", row.get_by_name("n").and_then(|value| value.as_i64()) == Some(1), row)?;
    expect("name", row.get_by_name("name").and_then(|value| value.as_str()) == Some("one"), row)?;
    let even = spark.range(1_000)?.filter((col("id") % lit(2)).eq(lit(0))).count()?;
    expect("the even numbers", even == 500, even)
}

/// A query over files, from its start to its end.
fn query(spark: &SparkSession, folder: &Path) -> Outcome {
    let input = folder.join("in");
    std::fs::create_dir_all(&input)?;

    let (events, heard) = mpsc::channel();
    let streams = spark.streams();
    let listener = streams.add_listener(Arc::new(Told(Mutex::new(events))))?;
    let query = spark
        .read_stream()
        .schema("id BIGINT")
        .json(&input.to_string_lossy())
        // A filter that a reader could apply by itself would hide rows from the count of what was read.
        .filter((col("id") % lit(2)).eq(lit(0)))
        .write_stream()
        .format("memory")
        .query_name("rust_client")
        .output_mode("append")
        .option("checkpointLocation", &folder.join("checkpoint").to_string_lossy())
        .trigger(Trigger::ProcessingTime("0 seconds".to_owned()))
        .start("")?;
    expect("an active query", query.is_active()?, query.status()?)?;
    expect("the query among the active ones", streams.active()?.iter().any(|active| active.id() == query.id()), query.id())?;

    // The client begins to listen in the background: batches are run until one is heard of.
    let mut batches = 0;
    let mut kinds: Vec<i32> = Vec::new();
    while !kinds.contains(&QUERY_PROGRESS_EVENT) {
        expect("an event after 60 batches", batches < 60, &kinds)?;
        std::fs::write(input.join(format!("{batches}.json")), "{\"id\":1}\n{\"id\":2}\n")?;
        batches += 1;
        query.process_all_available()?;
        kinds.extend(heard.recv_timeout(Duration::from_secs(1)).ok());
    }
    let progress = query.last_progress()?.ok_or("the query reports no progress")?;
    let rows = number_of_input_rows(&serde_json::from_str(&progress)?);
    expect("2 input rows", rows == Some(2), &progress)?;
    let kept = spark.sql("SELECT id FROM rust_client")?.collect()?;
    expect("one row of each batch in the sink", kept.len() == batches, kept.len())?;
    expect("a plan", query.explain(false)?.contains("Physical Plan"), query.explain(false)?)?;

    query.stop()?;
    expect("a stopped query", !query.is_active()?, query.status()?)?;
    expect("no failure", query.exception()?.is_none(), query.status()?)?;
    while !kinds.contains(&QUERY_TERMINATED_EVENT) {
        kinds.push(heard.recv_timeout(PATIENCE).map_err(|_| format!("the listener heard only {kinds:?}"))?);
    }
    streams.remove_listener(&listener)?;
    Ok(())
}

/// Sends the kinds of events to the program's own thread.
struct Told(Mutex<mpsc::Sender<i32>>);

impl StreamingQueryListener for Told {
    fn on_event(&self, event: &StreamingQueryListenerEvent) {
        if let Ok(events) = self.0.lock() {
            // The program may have stopped listening.
            let _ = events.send(event.event_type);
        }
    }
}

fn number_of_input_rows(progress: &Value) -> Option<u64> {
    let sources = progress["sources"].as_array()?;
    sources.iter().map(|source| source["numInputRows"].as_u64()).sum()
}

/// What is wrong with a query is said under Spark's condition.
fn refusal(spark: &SparkSession) -> Outcome {
    let refused = spark.sql("SELECT no_such_column FROM range(1)").and_then(|frame| frame.collect());
    let error = refused.err().ok_or("a column that is not there was found")?.to_string();
    expect("the condition", error.contains("UNRESOLVED_COLUMN"), error)
}

fn expect(what: &str, holds: bool, found: impl std::fmt::Debug) -> Outcome {
    if holds { Ok(()) } else { Err(format!("{what} was expected, found {found:?}").into()) }
}
