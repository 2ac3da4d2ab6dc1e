//! The batch loop against sources and sinks that misbehave on demand.

mod doubles;
mod planning;
mod prune;
mod recovery;
mod stateful;

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use doubles::{Fault, Numbers, Rows, World};
use millstream_core::sink::OutputMode;
use millstream_core::{ErrorKind, Trigger};

use crate::expectation::{Expectation, OnViolation};

/// The values of the first column, in order.
fn values(rows: &[arrow::array::RecordBatch]) -> Vec<i64> {
    let mut values: Vec<i64> = rows.iter().flat_map(|rows| rows.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
    values.sort_unstable();
    values
}

#[tokio::test(flavor = "multi_thread")]
async fn available_now_reads_what_was_there_in_limited_batches() {
    let world = World::new();
    let numbers = Numbers::new(10).per_batch(4);
    let rows = Rows::default();
    let query = world.start("SELECT value FROM numbers", &numbers, &rows, Trigger::AvailableNow).await.unwrap();
    query.await_termination().await.unwrap();
    assert_eq!(values(&rows.all()), (0..10).collect::<Vec<_>>());
    assert_eq!(rows.batches(), [0, 1, 2]);
    let progress = query.recent_progress();
    assert_eq!(progress.iter().map(|progress| progress.num_input_rows).collect::<Vec<_>>(), [4, 4, 2]);
    assert_eq!(progress[1].sources[0].start_offset.as_ref().unwrap().as_json(), "4");
}

#[tokio::test(flavor = "multi_thread")]
async fn once_ignores_the_limit_and_runs_one_batch() {
    let world = World::new();
    let numbers = Numbers::new(10).per_batch(4);
    let rows = Rows::default();
    let query = world.start("SELECT value FROM numbers", &numbers, &rows, Trigger::Once).await.unwrap();
    query.await_termination().await.unwrap();
    assert_eq!((values(&rows.all()).len(), rows.batches()), (10, vec![0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_new_writes_nothing() {
    let world = World::new();
    let (numbers, rows) = (Numbers::new(3), Rows::default());
    for _ in 0..3 {
        let query = world.start("SELECT value FROM numbers", &numbers, &rows, Trigger::AvailableNow).await.unwrap();
        query.await_termination().await.unwrap();
    }
    assert_eq!(world.log("offsets").await, ["0"]);
    assert_eq!(world.log("commits").await, ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_continuous_query_wakes_up_for_new_data_and_stops_when_asked() {
    let world = World::new();
    let (numbers, rows) = (Numbers::new(3), Rows::default());
    let query = world.start("SELECT value FROM numbers", &numbers, &rows, Trigger::Default).await.unwrap();
    query.process_all_available().await.unwrap();
    assert_eq!(values(&rows.all()).len(), 3);
    numbers.grow(5);
    query.process_all_available().await.unwrap();
    assert_eq!(values(&rows.all()).len(), 5);
    query.stop().await;
    assert!(!query.is_active());
    assert!(query.error().is_none());
    query.process_all_available().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn expectations_count_drop_and_fail() {
    let expectation = |name: &str, predicate: datafusion::logical_expr::Expr, on_violation| Expectation {
        name: name.to_owned(),
        predicate,
        on_violation,
    };
    let value = || datafusion::prelude::col("value");
    let lit = datafusion::prelude::lit::<i64>;
    let world = World::new();
    let (numbers, rows) = (Numbers::new(10), Rows::default());
    let expectations = vec![
        expectation("small", value().lt(lit(8)), OnViolation::DropRow),
        expectation("positive", value().gt(lit(0)), OnViolation::Keep),
    ];
    let query = world.start_with("SELECT value FROM numbers", &numbers, &rows, Trigger::AvailableNow, expectations, None).await.unwrap();
    query.await_termination().await.unwrap();
    assert_eq!(values(&rows.all()), (0..8).collect::<Vec<_>>());
    let counts = &query.last_progress().unwrap().millstream.expectations;
    assert_eq!((counts["small"].passed, counts["small"].failed), (8, 2));
    assert_eq!((counts["positive"].passed, counts["positive"].failed), (9, 1));

    let world = World::new();
    let (numbers, rows) = (Numbers::new(10), Rows::default());
    let fail = vec![expectation("small", value().lt(lit(8)), OnViolation::FailUpdate)];
    let query = world.start_with("SELECT value FROM numbers", &numbers, &rows, Trigger::AvailableNow, fail, None).await.unwrap();
    let error = query.await_termination().await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("EXPECTATION_VIOLATED", ErrorKind::BadRecord));
    assert!(rows.all().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_records_reach_the_quarantine_once_and_are_counted() {
    let world = World::new();
    let numbers = Numbers::new(3_000).malformed_every(2);
    let (rows, quarantine) = (Rows::default(), Rows::default());
    rows.fail_once(Fault::Commit);
    let start = || {
        world.start_with("SELECT value FROM numbers", &numbers, &rows, Trigger::AvailableNow, vec![], Some(Arc::new(quarantine.clone())))
    };
    let query = start().await.unwrap();
    assert_eq!(query.await_termination().await.unwrap_err().kind(), ErrorKind::SinkUnavailable);
    let query = start().await.unwrap();
    query.await_termination().await.unwrap();
    assert_eq!(rows.all().iter().map(|rows| rows.num_rows()).sum::<usize>(), 1_500);
    assert_eq!(quarantine.all().iter().map(|rows| rows.num_rows()).sum::<usize>(), 1_500);
    assert_eq!(query.last_progress().unwrap().millstream.quarantined_by_reason["ODD"], 1_500);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_run_stops_the_older_on_the_same_checkpoint() {
    let world = World::new();
    let (numbers, rows) = (Numbers::new(3), Rows::default());
    let older = world.start("SELECT value FROM numbers", &numbers, &rows, Trigger::Default).await.unwrap();
    older.process_all_available().await.unwrap();
    let newer = world.start("SELECT value FROM numbers", &numbers, &rows, Trigger::Default).await.unwrap();
    assert!(!older.is_active() && newer.is_active());
    assert_eq!(older.id(), newer.id());
    assert_ne!(older.run_id(), newer.run_id());
    newer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_task_ends_the_query_and_not_the_process() {
    let world = World::new();
    let numbers = Numbers::new(3).panicking();
    let rows = Rows::default();
    let query = world.start("SELECT value FROM numbers", &numbers, &rows, Trigger::AvailableNow).await.unwrap();
    let error = query.await_termination().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.message().contains("seven"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_that_does_not_take_the_mode_is_refused_before_anything_is_written() {
    let world = World::new();
    let (numbers, rows) = (Numbers::new(3), Rows::default());
    let error = world.start_in("SELECT value FROM numbers", &numbers, &rows, OutputMode::Update).await.unwrap_err();
    assert_eq!(error.code(), "STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE");
    assert!(world.log("offsets").await.is_empty());
}
