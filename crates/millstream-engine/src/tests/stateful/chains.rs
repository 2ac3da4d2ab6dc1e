//! Operators above operators, several watermarks, and what time is to each.

use crate::stateful::Watermark;
use datafusion::common::{Column, JoinType};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::prelude::col;

use super::*;

/// Ten-second windows over five-second windows.
fn windows_of_windows(events: &Events) -> LogicalPlan {
    let inner = LogicalPlanBuilder::from(sums(events.watermarked(0), 5, Some(0)))
        .project(vec![get_field(col("w"), "start").alias("ts"), col("s").alias("v")])
        .and_then(|plan| plan.project(vec![window("ts", 10, Some(0), "w10"), col("v")]))
        .and_then(|plan| plan.aggregate(vec![col("w10")], vec![sum(col("v")).alias("s")]));
    inner.and_then(LogicalPlanBuilder::build).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_aggregation_gets_what_the_first_one_closed_in_the_same_batch() {
    let events = Events::new("");
    let files: [&[Event]; 3] = [&[at("a", 1001.0, 1)], &[at("a", 1006.0, 2)], &[at("a", 1060.0, 4)]];
    let steps = play(&events, windows_of_windows(&events), Append, &files).await;
    steps[0].is(&[], "00:16:41.000", &[[0, 0, 0, 0], [1, 0, 0, 0]]);
    steps[1].is(&[], "00:16:46.000", &[[1, 1, 0, 0], [1, 0, 1, 0]]);
    steps[2].is(&["1000|1010|3"], "00:17:40.000", &[[0, 1, 1, 0], [1, 0, 1, 0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_one_watermark_for_all_the_second_aggregation_loses_rows_as_in_old_spark() {
    let mut lab = Lab::new();
    lab.settings.multiple_stateful_operators = false;
    let events = Events::new("");
    let query = lab.start(windows_of_windows(&events), Append).await.unwrap();
    let mut steps = Vec::new();
    for file in [[at("a", 1001.0, 1)], [at("a", 1006.0, 2)], [at("a", 1060.0, 4)]] {
        events.add(&file);
        steps.push(lab.step(&query).await);
    }
    steps[1].is(&[], "00:16:46.000", &[[1, 1, 0, 0], [1, 0, 1, 0]]);
    steps[2].is(&["1000|1010|1"], "00:17:40.000", &[[0, 0, 1, 1], [1, 0, 1, 0]]);
    query.stop().await;
}

/// Which of several duplicates is kept depends on the order of rows, which must not depend on which task is faster.
#[tokio::test(flavor = "multi_thread")]
async fn a_deduplication_sees_what_an_aggregation_gives_in_the_order_of_its_tasks() {
    let events = Events::new("");
    let lab = Lab::parallel(2);
    let kept = distinct(sums(events.watermarked(0), 5, Some(0)), &["w", "s"], false);
    let query = lab.start(kept, Append).await.unwrap();
    events.add(&[at("a", 1001.0, 1)]);
    lab.step(&query).await;
    let plan = query.explain().unwrap();
    let exchanges: Vec<bool> =
        plan.lines().filter(|line| line.contains("ExchangeExec")).map(|line| line.trim_end().ends_with("in order")).collect();
    assert_eq!(exchanges, [true, false], "{plan}");
    query.stop().await;
}

fn union(left: &Events, right: &Events, delays: [i64; 2]) -> LogicalPlan {
    LogicalPlanBuilder::from(left.watermarked(delays[0])).union(right.watermarked(delays[1])).and_then(LogicalPlanBuilder::build).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_watermarks_the_slower_counts_unless_told_otherwise() {
    for (policy, expected) in [("min", "00:00:00.000"), ("max", "00:17:40.000")] {
        let mut lab = Lab::new();
        lab.settings.pinned.insert("spark.sql.streaming.multipleWatermarkPolicy".to_owned(), policy.to_owned());
        let (left, right) = (Events::new(""), Events::new(""));
        let query = lab.start(sums(union(&left, &right, [0, 0]), 5, Some(0)), Append).await.unwrap();
        left.add(&[at("a", 1060.0, 1)]);
        assert_eq!(lab.step(&query).await.watermark.as_deref(), Some(expected), "{policy}");
        query.stop().await;
        // The checkpoint's policy goes on.
        let again = lab.restarted();
        let query = again.start(sums(union(&left, &right, [0, 0]), 5, Some(0)), Append).await.unwrap();
        right.add(&[at("b", 1012.0, 2)]);
        // What the other source had seen is not kept, as in Spark: until it has rows again it holds time back.
        let expected = if policy == "min" { "00:00:00.000" } else { "00:17:40.000" };
        assert_eq!(again.step(&query).await.watermark.as_deref(), Some(expected), "{policy}");
        query.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recorded_policy_wins_over_the_session_which_is_told() {
    const POLICY: &str = "spark.sql.streaming.multipleWatermarkPolicy";
    let mut lab = Lab::new();
    lab.settings.pinned.insert(POLICY.to_owned(), "min".to_owned());
    let (left, right) = (Events::new(""), Events::new(""));
    let query = lab.start(sums(union(&left, &right, [1_000, 1_000]), 5, Some(1_000)), Append).await.unwrap();
    left.add(&[at("a", 1060.0, 1)]);
    assert_eq!(lab.step(&query).await.watermark.as_deref(), Some("00:00:00.000"));
    query.stop().await;
    assert!(query.recent_progress().iter().all(|progress| progress.millstream.advice.is_empty()));

    let mut again = lab.restarted();
    again.settings.pinned.insert(POLICY.to_owned(), "max".to_owned());
    let query = again.start(sums(union(&left, &right, [1_000, 1_000]), 5, Some(1_000)), Append).await.unwrap();
    left.add(&[at("a", 1070.0, 1)]);
    assert_eq!(again.step(&query).await.watermark.as_deref(), Some("00:00:00.000"), "the fastest stream alone does not move time");
    right.add(&[at("b", 1051.0, 2)]);
    assert_eq!(again.step(&query).await.watermark.as_deref(), Some("00:17:30.000"));
    query.stop().await;
    let advice: Vec<String> = query.recent_progress().iter().flat_map(|progress| progress.millstream.advice.clone()).collect();
    assert_eq!(advice.len(), 1, "{advice:?}");
    assert!(advice[0].starts_with(&format!("{POLICY} is max in the session and min in the checkpoint")), "{advice:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watermark_above_another_ends_the_query_once_time_passes() {
    let events = Events::new("");
    let again = Watermark::try_new(events.watermarked(0), Column::from_name("ts"), 20_000).unwrap().into_plan();
    let lab = Lab::new();
    let query = lab.start(sums(again, 5, Some(20_000)), Append).await.unwrap();
    events.add(&[at("a", 1060.0, 1)]);
    assert_eq!(query.await_termination().await.unwrap_err().code(), "_LEGACY_ERROR_TEMP_3076");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watermark_above_an_operator_without_one_counts() {
    let events = Events::new("");
    let first = distinct(events.plan(), &["k"], false);
    let above = Watermark::try_new(first, Column::from_name("ts"), 20_000).unwrap().into_plan();
    let files: [&[Event]; 2] = [&[at("a", 1060.0, 1)], &[at("a", 1070.0, 2), at("b", 1080.0, 4)]];
    let steps = play(&events, sums(above, 5, Some(20_000)), Append, &files).await;
    assert_eq!(steps[0].watermark.as_deref(), Some("00:17:20.000"));
    assert_eq!(steps[1].watermark.as_deref(), Some("00:17:40.000"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_hands_on_time_with_the_delay_of_its_range() {
    let (left, right) = (Events::new("l"), Events::new("r"));
    let five = datafusion::logical_expr::lit(datafusion::scalar::ScalarValue::new_interval_mdn(0, 0, 5_000_000_000));
    let on = col("lk").eq(col("rk")).and(col("rts").gt_eq(col("lts"))).and(col("rts").lt_eq(col("lts") + five));
    let plan = LogicalPlanBuilder::from(left.watermarked(10_000))
        .join_on(right.watermarked(10_000), JoinType::Inner, vec![on])
        .and_then(|plan| plan.project(vec![window("lts", 10, Some(10_000), "w"), col("lk"), col("rv")]))
        .and_then(|plan| plan.aggregate(vec![col("w"), col("lk")], vec![sum(col("rv")).alias("s")]))
        .and_then(LogicalPlanBuilder::build)
        .unwrap();
    let lab = Lab::new();
    let query = lab.start(plan, Append).await.unwrap();
    let mut steps = Vec::new();
    for (l, event) in [
        (true, at("a", 1011.0, 1)),
        (false, at("a", 1012.0, 10)),
        (false, at("a", 1013.0, 11)),
        (true, at("x", 1060.0, 2)),
        (false, at("x", 1060.0, 12)),
    ] {
        if l {
            left.add(&[event])
        } else {
            right.add(&[event])
        }
        steps.push(lab.step(&query).await);
    }
    steps[1].is(&[], "00:16:41.000", &[[1, 0, 0, 0], [2, 0, 0, 0]]);
    steps[3].is(&[], "00:16:43.000", &[[1, 0, 0, 0], [4, 0, 0, 0]]);
    steps[4].is(&["1010|1020|a|21"], "00:17:30.000", &[[1, 0, 1, 0], [2, 0, 3, 0]]);
    query.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_columns_of_event_time_end_the_query_with_its_first_batch() {
    let (left, right) = (Events::new("l"), Events::new("r"));
    let joined = LogicalPlanBuilder::from(left.watermarked(0))
        .join_on(right.watermarked(0), JoinType::Inner, vec![col("lk").eq(col("rk"))])
        .and_then(LogicalPlanBuilder::build)
        .unwrap();
    let lab = Lab::new();
    let query = lab.start(distinct(joined, &["lk"], false), Append).await.unwrap();
    left.add(&[at("a", 1.0, 1)]);
    assert_eq!(query.await_termination().await.unwrap_err().code(), "_LEGACY_ERROR_TEMP_3077");
}
