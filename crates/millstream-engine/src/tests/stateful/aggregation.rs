//! Windows and keys: what is emitted when, what is late, what is counted. Expectations are those recorded from Spark.

use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::{LogicalPlanBuilder, lit};
use datafusion::prelude::col;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn append_emits_a_window_once_the_watermark_has_passed_its_end() {
    let events = Events::new("");
    let plan = sums(events.watermarked(10_000), 5, Some(10_000));
    let files: [&[Event]; 4] = [&[at("b", 1018.0, 1)], &[at("a", 1006.0, 2)], &[at("b", 1060.0, 4)], &[at("a", 1002.0, 8)]];
    let steps = play(&events, plan, Append, &files).await;
    steps[0].is(&[], "00:16:48.000", &[[1, 0, 0, 0]]);
    steps[1].is(&[], "00:16:48.000", &[[2, 1, 0, 0]]);
    steps[2].is(&["1005|1010|a|2", "1015|1020|b|1"], "00:17:30.000", &[[1, 0, 2, 0]]);
    steps[3].is(&[], "00:17:30.000", &[[1, 0, 0, 1]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_ending_exactly_at_the_watermark_is_closed_and_late() {
    let events = Events::new("");
    let plan = sums(events.watermarked(10_000), 5, Some(10_000));
    let files: [&[Event]; 4] = [&[at("b", 1015.0, 2)], &[at("a", 1004.999999, 1)], &[at("a", 1005.0, 4)], &[at("b", 1060.0, 8)]];
    let steps = play(&events, plan, Append, &files).await;
    steps[0].is(&[], "00:16:45.000", &[[1, 0, 0, 0]]);
    steps[1].is(&[], "00:16:45.000", &[[1, 0, 0, 1]]);
    steps[2].is(&[], "00:16:45.000", &[[2, 1, 0, 0]]);
    steps[3].is(&["1005|1010|a|4", "1015|1020|b|2"], "00:17:30.000", &[[1, 0, 2, 0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn update_emits_what_changed_and_evicts_silently() {
    let events = Events::new("");
    let plan = sums(events.watermarked(10_000), 5, Some(10_000));
    let files: [&[Event]; 3] =
        [&[at("a", 1001.0, 1), at("b", 1002.0, 2)], &[at("a", 1060.0, 4)], &[at("a", 1002.0, 8), at("a", 1062.0, 16)]];
    let steps = play(&events, plan, Update, &files).await;
    steps[0].is(&["1000|1005|a|1", "1000|1005|b|2"], "00:16:32.000", &[[2, 0, 0, 0]]);
    steps[1].is(&["1060|1065|a|4"], "00:17:30.000", &[[1, 0, 2, 0]]);
    steps[2].is(&["1060|1065|a|20"], "00:17:32.000", &[[1, 0, 0, 0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn complete_keeps_late_rows_and_runs_no_batch_without_data() {
    let events = Events::new("");
    let plan = sums(events.watermarked(0), 5, Some(0));
    let files: [&[Event]; 3] = [&[at("a", 1001.0, 1)], &[at("a", 1060.0, 2)], &[at("a", 1002.0, 4)]];
    let steps = play(&events, plan, Complete, &files).await;
    steps[0].is(&["1000|1005|a|1"], "00:00:00.000", &[[1, 1, 0, 0]]);
    steps[1].is(&["1000|1005|a|1", "1060|1065|a|2"], "00:16:41.000", &[[2, 1, 0, 0]]);
    steps[2].is(&["1000|1005|a|5", "1060|1065|a|2"], "00:17:40.000", &[[2, 1, 0, 0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_batches_of_their_own_windows_close_with_the_next_data_and_late_rows_still_count() {
    let mut lab = Lab::new();
    lab.settings.no_data_batches = false;
    let events = Events::new("");
    let query = lab.start(sums(events.watermarked(0), 5, Some(0)), Append).await.unwrap();
    let mut steps = Vec::new();
    for file in [[at("a", 1001.0, 1)], [at("a", 1060.0, 2)], [at("a", 1002.0, 4)], [at("a", 1003.0, 8)]] {
        events.add(&file);
        steps.push(lab.step(&query).await);
    }
    steps[1].is(&[], "00:16:41.000", &[[2, 1, 0, 0]]);
    steps[2].is(&["1000|1005|a|5"], "00:17:40.000", &[[1, 1, 1, 0]]);
    steps[3].is(&[], "00:17:40.000", &[[1, 0, 0, 1]]);
    query.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_without_event_time_count_as_1970_in_the_report_and_are_in_no_window() {
    let events = Events::new("");
    let plan =
        LogicalPlanBuilder::from(events.watermarked(10_000)).filter(col("ts").is_not_null()).and_then(LogicalPlanBuilder::build).unwrap();
    let lab = Lab::new();
    let query = lab.start(sums(plan, 5, Some(10_000)), Append).await.unwrap();
    events.add(&[("a", None, 1)]);
    lab.step(&query).await.is(&[], "00:00:00.000", &[[0, 0, 0, 0]]);
    events.add(&[at("a", 1060.0, 2), ("a", None, 4)]);
    query.process_all_available().await.unwrap();
    let with_data = query.recent_progress().into_iter().rfind(|progress| progress.num_input_rows == 2).unwrap();
    let times: Vec<String> = ["min", "avg", "max"].iter().map(|name| with_data.event_time[*name][11..].to_owned()).collect();
    assert_eq!(times, ["00:00:00.000Z", "00:08:50.000Z", "00:17:40.000Z"]);
    query.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_on_another_column_keeps_rows_from_moving_time() {
    let events = Events::new("");
    let plan = LogicalPlanBuilder::from(events.watermarked(0)).filter(col("v").lt(lit(100_i64))).unwrap().build().unwrap();
    let steps =
        play(&events, sums(plan, 5, Some(0)), Append, &[&[at("a", 1001.0, 1)], &[at("a", 1060.0, 200)], &[at("a", 1003.0, 4)]]).await;
    steps[1].is(&[], "00:16:41.000", &[[1, 0, 0, 0]]);
    steps[2].is(&[], "00:16:43.000", &[[1, 0, 0, 0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_without_event_time_stay_for_ever() {
    let events = Events::new("");
    let steps = play(&events, by_key(events.plan()), Update, &[&[at("a", 1.0, 1), at("-", 1.0, 2)], &[at("a", 1.0, 4)]]).await;
    steps[0].is(&["a|1", "null|2"], "none", &[[2, 2, 0, 0]]);
    steps[1].is(&["a|5"], "none", &[[2, 1, 0, 0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aggregation_without_keys_always_has_a_row() {
    let events = Events::new("");
    let plan = LogicalPlanBuilder::from(events.plan())
        .aggregate(Vec::<datafusion::logical_expr::Expr>::new(), vec![count(lit(1_i64)).alias("n")])
        .and_then(LogicalPlanBuilder::build)
        .unwrap();
    let steps = play(&events, plan, Update, &[&[], &[at("a", 1.0, 1)], &[]]).await;
    steps[0].is(&["0"], "none", &[[1, 1, 0, 0]]);
    steps[1].is(&["1"], "none", &[[1, 1, 0, 0]]);
    steps[2].is(&["1"], "none", &[[1, 1, 0, 0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn complete_results_can_be_sorted_and_limited() {
    let events = Events::new("");
    let plan = LogicalPlanBuilder::from(by_key(events.plan()))
        .sort(vec![col("s").sort(false, false)])
        .and_then(|plan| plan.limit(0, Some(1)))
        .and_then(LogicalPlanBuilder::build)
        .unwrap();
    let steps = play(&events, plan, Complete, &[&[at("a", 1.0, 1), at("b", 1.0, 2)], &[at("a", 1.0, 4)]]).await;
    steps[0].is(&["b|2"], "none", &[[2, 2, 0, 0]]);
    steps[1].is(&["a|5"], "none", &[[2, 1, 0, 0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn select_distinct_is_an_aggregation() {
    let events = Events::new("");
    let plan =
        LogicalPlanBuilder::from(events.plan()).project(vec![col("k")]).and_then(LogicalPlanBuilder::distinct).unwrap().build().unwrap();
    let steps = play(&events, plan, Complete, &[&[at("a", 1.0, 1), at("a", 2.0, 2)], &[at("b", 1.0, 4)]]).await;
    steps[0].is(&["a"], "none", &[[1, 1, 0, 0]]);
    steps[1].is(&["a", "b"], "none", &[[2, 1, 0, 0]]);
    assert_eq!(steps[0].state[0].0, "stateStoreSave");
}
