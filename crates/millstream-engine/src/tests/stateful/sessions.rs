//! Sessions that grow, touch and close.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn touching_sessions_merge_within_a_batch_and_across_batches() {
    let events = Events::new("");
    let plan = sessions(events.watermarked(10_000), 5);
    let files: [&[Event]; 4] = [
        &[at("a", 1000.0, 1), at("a", 1008.0, 2), at("b", 1000.0, 16), at("b", 1005.000001, 32)],
        &[at("a", 1004.0, 4)],
        &[at("z", 1100.0, 0)],
        &[at("a", 1001.0, 8)],
    ];
    let steps = play(&events, plan, Append, &files).await;
    steps[0].is(&[], "00:16:38.000", &[[4, 0, 0, 0]]);
    steps[1].is(&[], "00:16:38.000", &[[3, 1, 1, 0]]);
    steps[2].is(&["a|1000|1013|7", "b|1000|1005|16", "b|1005.000001|1010.000001|32"], "00:18:10.000", &[[1, 0, 3, 0]]);
    steps[3].is(&[], "00:18:10.000", &[[1, 0, 0, 1]]);
    assert_eq!(steps[0].state[0].0, "sessionWindowStateStoreSaveExec");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_begins_earlier_replaces_the_one_that_it_joins() {
    let events = Events::new("");
    let steps = play(&events, sessions(events.watermarked(10_000), 5), Append, &[&[at("a", 1008.0, 1)], &[at("a", 1004.0, 2)]]).await;
    steps[1].is(&[], "00:16:38.000", &[[1, 1, 1, 0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn complete_mode_shows_every_session_and_writes_those_of_touched_keys() {
    let events = Events::new("");
    let plan = sessions(events.watermarked(10_000), 5);
    let files: [&[Event]; 3] = [&[at("a", 1000.0, 1), at("b", 1000.0, 2)], &[at("a", 1003.0, 4)], &[at("a", 1100.0, 8)]];
    let steps = play(&events, plan, Complete, &files).await;
    steps[0].is(&["a|1000|1005|1", "b|1000|1005|2"], "00:00:00.000", &[[2, 2, 0, 0]]);
    steps[1].is(&["a|1000|1008|5", "b|1000|1005|2"], "00:16:30.000", &[[2, 1, 0, 0]]);
    steps[2].is(&["a|1000|1008|5", "a|1100|1105|8", "b|1000|1005|2"], "00:16:33.000", &[[3, 2, 0, 0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_whose_session_does_not_end_after_it_begins_belong_to_none() {
    let events = Events::new("");
    let plan = sessions(events.watermarked(0), -1);
    let steps = play(&events, plan, Append, &[&[at("a", 1000.0, 1)], &[at("z", 1100.0, 1), ("z", None, 2)]]).await;
    steps[0].is(&[], "00:16:40.000", &[[0, 0, 0, 0]]);
    steps[1].is(&[], "00:18:20.000", &[[0, 0, 0, 0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_a_table_are_all_there_at_once() {
    let lab = Lab::new();
    let sql = "SELECT k, arrow_cast(ts, 'Timestamp(Microsecond, Some(\"UTC\"))') AS ts, v \
               FROM (VALUES ('a', TIMESTAMP '1970-01-01T00:00:01', 1), ('a', TIMESTAMP '1970-01-01T00:00:06', 2)) AS t(k, ts, v)";
    let plan = sessions(lab.session.plan_sql(sql).await.unwrap(), 5);
    let (_, rows) = lab.session.collect(plan).await.unwrap();
    assert_eq!(rows.iter().flat_map(world::lines).collect::<Vec<_>>(), ["a|1|11|3"]);
}
