//! Restarts: nothing lost, nothing doubled, and the same time in a batch that runs again.

use arrow::array::AsArray;
use arrow::datatypes::TimestampMicrosecondType;

use super::*;

/// Runs until the query ends by itself, restarting after each failure.
async fn run_to_the_end(world: &World, sql: &str, numbers: &Numbers, rows: &Rows) -> u32 {
    let mut failures = 0;
    let mut world = world.restarted();
    loop {
        let query = world.start(sql, numbers, rows, Trigger::AvailableNow).await.unwrap();
        match query.await_termination().await {
            Ok(()) => return failures,
            Err(error) => {
                assert_eq!(error.code(), "SINK_DOWN");
                failures += 1;
            }
        }
        world = world.restarted();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wherever_the_sink_fails_every_row_arrives_once() {
    for fault in [Fault::Write, Fault::Commit, Fault::AfterCommit] {
        let world = World::new();
        let (numbers, rows) = (Numbers::new(10).per_batch(3), Rows::default());
        rows.fail_once(fault);
        assert_eq!(run_to_the_end(&world, "SELECT value FROM numbers", &numbers, &rows).await, 1, "{fault:?}");
        assert_eq!(values(&rows.all()), (0..10).collect::<Vec<_>>(), "{fault:?}");
        assert_eq!(world.log("commits").await, ["0", "1", "2", "3"], "{fault:?}");
        assert!(rows.stopped());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_runs_again_has_the_same_rows_and_the_same_time() {
    let world = World::new();
    let (numbers, rows) = (Numbers::new(3), Rows::default());
    let sql = "SELECT value, current_timestamp() AS now FROM numbers";
    rows.fail_once(Fault::Commit);
    let query = world.start(sql, &numbers, &rows, Trigger::AvailableNow).await.unwrap();
    query.await_termination().await.unwrap_err();
    let logged: serde_json::Value = serde_json::from_str(world.text("offsets/0").await.lines().nth(1).unwrap()).unwrap();
    // What arrives in between belongs to the next batch.
    numbers.grow(5);
    run_to_the_end(&world, sql, &numbers, &rows).await;
    let all = rows.all();
    let times: Vec<i64> = all.iter().flat_map(|rows| rows.column(1).as_primitive::<TimestampMicrosecondType>().values().to_vec()).collect();
    assert_eq!(values(&all), [0, 1, 2, 3, 4]);
    assert_eq!(times[..3], [logged["batchTimestampMs"].as_i64().unwrap() * 1_000; 3]);
    assert!(times[3] > times[2], "the next batch has its own time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_commit_record_neither_repeats_nor_skips_a_batch() {
    let world = World::new();
    let (numbers, rows) = (Numbers::new(6).per_batch(3), Rows::default());
    run_to_the_end(&world, "SELECT value FROM numbers", &numbers, &rows).await;
    world.remove("commits/1").await;
    numbers.grow(9);
    run_to_the_end(&world, "SELECT value FROM numbers", &numbers, &rows).await;
    assert_eq!(values(&rows.all()), (0..9).collect::<Vec<_>>());
    assert_eq!(rows.batches(), [0, 1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_number_of_sources_is_refused_and_the_checkpoint_stays_usable() {
    let world = World::new();
    let (numbers, rows) = (Numbers::new(3), Rows::default());
    run_to_the_end(&world, "SELECT value FROM numbers", &numbers, &rows).await;
    let twice = world.restarted();
    let other = Numbers::new(3);
    let relation = crate::relation::StreamRelation {
        provider: Arc::new(other),
        request: millstream_core::registry::ReadRequest::default(),
        schema: doubles::numbers_schema(),
        name: None,
    };
    twice.session.context().register_table("more", Arc::new(relation)).unwrap();
    let union = "SELECT value FROM numbers UNION ALL SELECT value FROM more";
    let error = twice.start(union, &numbers, &rows, Trigger::AvailableNow).await.unwrap_err();
    assert_eq!(error.code(), "CHECKPOINT_SOURCES_CHANGED");
    numbers.grow(4);
    run_to_the_end(&twice, "SELECT value FROM numbers", &numbers, &rows).await;
    assert_eq!(values(&rows.all()), [0, 1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sources_hear_of_a_commit_only_after_its_record_is_there() {
    let world = World::new();
    let (numbers, rows) = (Numbers::new(6).per_batch(3), Rows::default());
    rows.fail_once(Fault::Commit);
    let query = world.start("SELECT value FROM numbers", &numbers, &rows, Trigger::AvailableNow).await.unwrap();
    query.await_termination().await.unwrap_err();
    assert!(numbers.committed().is_empty());
    run_to_the_end(&world, "SELECT value FROM numbers", &numbers, &rows).await;
    assert_eq!(numbers.committed(), ["3", "6"]);
}
