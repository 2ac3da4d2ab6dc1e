//! Keys seen before, and when they are forgotten.

use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::prelude::col;
use millstream_core::Trigger;
use millstream_core::sink::OutputMode;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn without_event_time_keys_are_remembered_for_ever() {
    let events = Events::new("");
    let plan = distinct(events.plan(), &["k"], false);
    let steps =
        play(&events, plan, Append, &[&[at("a", 1.0, 1), at("-", 1.0, 2), at("a", 2.0, 3)], &[at("-", 9.0, 4), at("b", 1.0, 5)]]).await;
    steps[0].is(&["a|1|1", "null|1|2"], "none", &[[2, 2, 0, 0]]);
    steps[1].is(&["b|1|5"], "none", &[[3, 1, 0, 0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn event_time_among_the_keys_evicts_at_the_watermark() {
    let events = Events::new("");
    let plan = distinct(events.watermarked(10_000), &["k", "ts"], false);
    let files: [&[Event]; 4] =
        [&[at("a", 1010.0, 1), at("a", 1011.0, 2)], &[at("x", 1020.0, 3)], &[at("x", 1021.0, 4)], &[("a", None, 5), at("a", 1005.0, 6)]];
    let steps = play(&events, plan, Append, &files).await;
    steps[0].is(&["a|1010|1", "a|1011|2"], "00:16:41.000", &[[2, 0, 0, 0]]);
    steps[1].is(&["x|1020|3"], "00:16:50.000", &[[2, 0, 1, 0]]);
    steps[2].is(&["x|1021|4"], "00:16:51.000", &[[2, 0, 1, 0]]);
    steps[3].is(&["a|null|5"], "00:16:51.000", &[[3, 1, 0, 1]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watermark_beside_the_keys_drops_late_rows_and_evicts_nothing() {
    let events = Events::new("");
    let plan = distinct(events.watermarked(10_000), &["k"], false);
    let files: [&[Event]; 2] = [&[at("x", 1100.0, 1)], &[at("late", 1090.0, 2), at("later", 1.0, 3), at("fine", 1091.0, 4)]];
    let steps = play(&events, plan, Append, &files).await;
    steps[0].is(&["x|1100|1"], "00:18:10.000", &[[1, 0, 0, 0]]);
    steps[1].is(&["fine|1091|4"], "00:18:10.000", &[[2, 1, 0, 2]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn within_the_watermark_a_key_expires_with_its_first_row() {
    let events = Events::new("");
    let plan = distinct(events.watermarked(10_000), &["k"], true);
    let files: [&[Event]; 5] =
        [&[at("a", 1005.0, 1)], &[at("x", 1024.0, 2)], &[at("a", 1015.0, 3)], &[at("x", 1025.0, 4)], &[at("a", 1022.0, 5)]];
    let steps = play(&events, plan, Append, &files).await;
    steps[0].is(&["a|1005|1"], "00:16:35.000", &[[1, 0, 0, 0]]);
    steps[1].is(&["x|1024|2"], "00:16:54.000", &[[2, 0, 0, 0]]);
    steps[2].is(&[], "00:16:54.000", &[[2, 0, 0, 0]]);
    steps[3].is(&[], "00:16:55.000", &[[1, 0, 1, 0]]);
    steps[4].is(&["a|1022|5"], "00:16:55.000", &[[2, 1, 0, 0]]);
    assert_eq!(steps[0].state[0].0, "dedupeWithinWatermark");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_above_does_not_decide_what_is_remembered() {
    let events = Events::new("");
    let plan = LogicalPlanBuilder::from(distinct(events.plan(), &["k"], false)).filter(col("v").gt(lit(5_i64))).unwrap().build().unwrap();
    let steps = play(&events, plan, Append, &[&[at("a", 1.0, 1)], &[at("a", 1.0, 6), at("b", 1.0, 7)]]).await;
    steps[0].is(&[], "none", &[[1, 1, 0, 0]]);
    steps[1].is(&["b|1|7"], "none", &[[2, 1, 0, 0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_lets_the_first_rows_of_all_batches_through() {
    let events = Events::new("");
    let plan = LogicalPlanBuilder::from(events.plan()).limit(0, Some(3)).unwrap().build().unwrap();
    let files: [&[Event]; 3] = [&[at("a", 1.0, 1), at("a", 2.0, 2)], &[at("a", 3.0, 3), at("a", 4.0, 4)], &[at("a", 5.0, 5)]];
    let steps = play(&events, plan, Append, &files).await;
    steps[0].is(&["a|1|1", "a|2|2"], "none", &[[1, 1, 0, 0]]);
    steps[1].is(&["a|3|3"], "none", &[[1, 1, 0, 0]]);
    steps[2].is(&[], "none", &[[1, 0, 0, 0]]);
    assert_eq!(steps[0].state[0].0, "globalLimit");
}

/// What the first report of a query tells its user.
#[tokio::test(flavor = "multi_thread")]
async fn table_of_advice() {
    type Plan = fn(&Events) -> LogicalPlan;
    let (endless, undelayed) = ("remembers every key for ever", "has a delay of zero");
    let cases: [(&str, Plan, &[&str]); 8] = [
        ("a deduplication without event time", |events| distinct(events.plan(), &["k"], false), &[endless]),
        ("with a watermark beside its keys", |events| distinct(events.watermarked(10_000), &["k"], false), &[endless]),
        ("with event time among its keys", |events| distinct(events.watermarked(10_000), &["k", "ts"], false), &[]),
        ("within the watermark", |events| distinct(events.watermarked(10_000), &["k"], true), &[]),
        ("a delay of zero", |events| sums(events.watermarked(0), 5, Some(0)), &[undelayed]),
        ("a delay of a second", |events| sums(events.watermarked(1_000), 5, Some(1_000)), &[]),
        ("a delay of zero and no state", |events| events.watermarked(0), &[]),
        ("both", |events| distinct(events.watermarked(0), &["k"], false), &[undelayed, endless]),
    ];
    for (what, plan, expected) in cases {
        let (lab, events) = (Lab::new(), Events::new(""));
        events.add(&[at("a", 1001.0, 1)]);
        events.add(&[at("a", 1002.0, 1)]);
        let query = lab.start_by(plan(&events), Append, Trigger::AvailableNow).await.unwrap();
        query.await_termination().await.unwrap();
        let told: Vec<Vec<String>> = query.recent_progress().iter().map(|progress| progress.millstream.advice.clone()).collect();
        assert!(
            told[0].len() == expected.len() && told[0].iter().zip(expected).all(|(told, part)| told.contains(part)),
            "{what}: {told:?}"
        );
        assert!(told[1..].iter().all(Vec::is_empty), "{what} is told once: {told:?}");
    }
}

/// A batch without rows still has all of its operators, and the next one goes on from its state.
#[tokio::test(flavor = "multi_thread")]
async fn operators_that_begin_with_an_empty_batch() {
    type Plan = fn(&Events) -> LogicalPlan;
    let cases: [(&str, Plan, OutputMode, &[&str]); 4] = [
        (
            "a limit",
            |events| LogicalPlanBuilder::from(events.plan()).limit(0, Some(2)).unwrap().build().unwrap(),
            Append,
            &["a|1001|1", "b|1002|2"],
        ),
        ("a deduplication", |events| distinct(events.plan(), &["k"], false), Append, &["a|1001|1", "b|1002|2"]),
        ("an aggregation", |events| by_key(events.plan()), Update, &["a|1", "b|2"]),
        ("a chain", |events| distinct(sums(events.watermarked(1_000), 5, Some(1_000)), &["w"], false), Append, &[]),
    ];
    for (what, plan, mode, expected) in cases {
        let (lab, events) = (Lab::new(), Events::new(""));
        let query = lab.start(plan(&events), mode).await.unwrap();
        let mut names: Option<Vec<String>> = None;
        for file in [&[][..], &[], &[at("a", 1001.0, 1), at("b", 1002.0, 2)], &[]] {
            events.add(file);
            let now: Vec<String> = lab.step(&query).await.state.into_iter().map(|(name, _)| name).collect();
            assert!(!now.is_empty(), "{what} has no operator in an empty batch");
            assert_eq!(names.get_or_insert_with(|| now.clone()), &now, "{what}");
        }
        assert_eq!(lab.results.since(0), expected, "{what}");
        query.stop().await;
    }
}
