//! Windows that overlap: kept as slices, they give what windows kept whole would give, and count the same.

use datafusion::functions_aggregate::expr_fn::{avg, count, max, min, sum};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::prelude::{col, get_field};
use millstream_core::Trigger;
use millstream_core::sink::OutputMode;
use proptest::prelude::*;

use super::*;
use crate::stateful::{Slide, SlidingWindow};

fn slide(width: i64, slide: i64, start: i64) -> Slide {
    Slide { width: width * 1_000_000, slide: slide * 1_000_000, start: start * 1_000_000 }
}

fn windows(input: LogicalPlan, slide: Slide) -> LogicalPlanBuilder {
    LogicalPlanBuilder::from(SlidingWindow::try_new(input, col("ts"), slide, "w").unwrap().into_plan())
}

/// Sums, counts and more by window and key.
fn by_slices(input: LogicalPlan, slide: Slide) -> LogicalPlan {
    let functions = vec![sum(col("v")).alias("s"), count(col("v")).alias("n"), min(col("v")).alias("a"), avg(col("v")).alias("m")];
    windows(input, slide).aggregate(vec![col("w"), col("k")], functions).and_then(LogicalPlanBuilder::build).unwrap()
}

/// The same with a function that looks at the window, so that windows are kept whole; its result is left out.
fn by_windows(input: LogicalPlan, slide: Slide) -> LogicalPlan {
    let start = get_field(col("w"), "start");
    let functions = vec![
        sum(col("v")).alias("s"),
        count(col("v")).alias("n"),
        min(col("v")).alias("a"),
        avg(col("v")).alias("m"),
        max(start).alias("b"),
    ];
    let plan = windows(input, slide).aggregate(vec![col("w"), col("k")], functions).unwrap();
    // A filter that all rows pass keeps the function from being left out of the plan.
    let plan = plan.filter(col("b").is_not_null()).unwrap();
    plan.project(["w", "k", "s", "n", "a", "m"].map(col)).and_then(LogicalPlanBuilder::build).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_keep_slices_where_nothing_looks_at_the_window() {
    let events = Events::new("");
    for (plan, expected) in
        [(by_slices(events.watermarked(0), slide(10, 5, 0)), "slices"), (by_windows(events.watermarked(0), slide(10, 5, 0)), "windows")]
    {
        let lab = Lab::new();
        let query = lab.start(plan, Append).await.unwrap();
        lab.step(&query).await;
        let explained = query.explain().unwrap();
        assert!(explained.contains(&format!("SlidingExec: {expected},")), "{explained}");
        query.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_closes_after_another_and_shares_their_rows() {
    let events = Events::new("");
    let plan = windows(events.watermarked(0), slide(10, 5, 0))
        .aggregate(vec![col("w")], vec![sum(col("v")).alias("s")])
        .and_then(LogicalPlanBuilder::build)
        .unwrap();
    let files: [&[Event]; 5] =
        [&[at("a", 1001.0, 1)], &[at("a", 1006.0, 2)], &[at("a", 1010.0, 4)], &[at("a", 1004.0, 8)], &[at("a", 1100.0, 16)]];
    let steps = play(&events, plan, Append, &files).await;
    steps[0].is(&[], "00:16:41.000", &[[2, 0, 0, 0]]);
    steps[1].is(&["995|1005|1"], "00:16:46.000", &[[2, 0, 1, 0]]);
    steps[2].is(&["1000|1010|3"], "00:16:50.000", &[[2, 0, 1, 0]]);
    // Both windows of the row at 1004 have closed.
    steps[3].is(&[], "00:16:50.000", &[[2, 0, 0, 2]]);
    steps[4].is(&["1005|1015|6", "1010|1020|4"], "00:18:20.000", &[[2, 0, 2, 0]]);
}

/// Many windows of many slices close at once, so that they are put together from longer stretches.
#[tokio::test(flavor = "multi_thread")]
async fn windows_of_many_slices_close_at_once() {
    let files: Vec<Vec<Event>> = vec![
        (0..2_000).filter(|second| second % 7 != 3).map(|second| at(["a", "b"][second % 2], second as f64, second as i64)).collect(),
        vec![at("z", 10_000.0, 1)],
    ];
    let files: Vec<&[Event]> = files.iter().map(Vec::as_slice).collect();
    for (width, step) in [(60, 1), (50, 3), (37, 37)] {
        let mut shown = Vec::new();
        for plan in [by_slices, by_windows] {
            let events = Events::new("");
            shown.push(play(&events, plan(events.watermarked(0), slide(width, step, 0)), Append, &files).await);
        }
        assert_eq!(shown[0], shown[1], "{width}/{step}");
        assert!(shown[0][0].added.len() + shown[0][1].added.len() >= 2 * 2_000 / step as usize);
    }
}

type File = Vec<(usize, i64, i64)>;

fn files() -> impl Strategy<Value = Vec<File>> {
    prop::collection::vec(prop::collection::vec((0usize..3, 0i64..120, 1i64..10), 0..6), 1..7)
}

/// What every step showed, the query being started anew before the steps in `restarts`.
fn shown(files: &[File], plan: impl Fn(LogicalPlan) -> LogicalPlan, delay: i64, mode: OutputMode, restarts: &[usize]) -> Vec<Step> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut lab, events) = (Lab::new(), Events::new(""));
        let start = async |lab: &Lab| lab.start(plan(events.watermarked(delay * 1_000)), mode).await.unwrap();
        let mut query = start(&lab).await;
        let mut steps = Vec::new();
        for (step, file) in files.iter().enumerate() {
            if restarts.contains(&step) {
                query.stop().await;
                lab = lab.restarted();
                query = start(&lab).await;
            }
            events.add(&file.iter().map(|(k, second, v)| at(["a", "b", "c"][*k], *second as f64, *v)).collect::<Vec<_>>());
            steps.push(lab.step(&query).await);
        }
        query.stop().await;
        steps
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn slices_give_what_windows_give(
        files in files(),
        delay in 0i64..30,
        kind in 0usize..4,
        mode in prop::sample::select(vec![Append, Update, Complete]),
        restarts in prop::collection::vec(0usize..7, 0..3),
    ) {
        let slide = [slide(10, 5, 0), slide(10, 4, 1), slide(12, 3, -2), slide(9, 7, 0)][kind];
        let expected = shown(&files, |input| by_windows(input, slide), delay, mode, &restarts);
        let actual = shown(&files, |input| by_slices(input, slide), delay, mode, &restarts);
        prop_assert_eq!(actual, expected);
    }
}

/// Spark accepts that a restarted query has another mode or other windows: windows that are in state stay as they are.
#[tokio::test(flavor = "multi_thread")]
async fn windows_made_under_other_rules_stay_as_they_are() {
    type Rules = (OutputMode, Slide);
    let (append, complete) = ((Append, slide(10, 5, 0)), (Complete, slide(10, 5, 0)));
    let cases: [(&str, Rules, Rules, &[&str], &[&str]); 5] = [
        (
            "complete, then append",
            complete,
            append,
            &["1000|1010|a|1|1|1|1.0", "995|1005|a|1|1|1|1.0"],
            &["1000|1010|a|3|2|1|1.5", "1005|1015|a|2|1|2|2.0", "995|1005|a|1|1|1|1.0"],
        ),
        (
            "append, then complete",
            append,
            complete,
            &[],
            &["1000|1010|a|3|2|1|1.5", "1005|1015|a|2|1|2|2.0", "1100|1110|b|4|1|4|4.0", "1095|1105|b|4|1|4|4.0", "995|1005|a|1|1|1|1.0"],
        ),
        (
            "wider windows",
            append,
            (Append, slide(20, 5, 0)),
            &[],
            &[
                "1000|1010|a|1|1|1|1.0",
                "1000|1020|a|2|1|2|2.0",
                "1005|1025|a|2|1|2|2.0",
                "990|1010|a|2|1|2|2.0",
                "995|1005|a|1|1|1|1.0",
                "995|1015|a|2|1|2|2.0",
            ],
        ),
        ("windows that did not overlap", (Append, slide(10, 10, 0)), append, &[], &["1000|1010|a|3|2|1|1.5", "1005|1015|a|2|1|2|2.0"]),
        ("the same", append, append, &[], &["1000|1010|a|3|2|1|1.5", "1005|1015|a|2|1|2|2.0", "995|1005|a|1|1|1|1.0"]),
    ];
    for (what, before, after, first, second) in cases {
        let (lab, events) = (Lab::new(), Events::new(""));
        let run = async |lab: &Lab, (mode, slide): Rules| {
            let plan = by_slices(events.watermarked(10_000), slide);
            lab.start_by(plan, mode, Trigger::AvailableNow).await.unwrap().await_termination().await.unwrap();
        };
        events.add(&[at("a", 1001.0, 1)]);
        run(&lab, before).await;
        let sorted = |lines: &[&str]| {
            let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            lines.sort();
            lines
        };
        assert_eq!(lab.results.since(0), sorted(first), "{what}");
        let seen = lab.results.batches();
        let lab = lab.restarted();
        events.add(&[at("a", 1006.0, 2), at("b", 1100.0, 4)]);
        run(&lab, after).await;
        assert_eq!(lab.results.since(seen), sorted(second), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slices_cannot_become_windows_that_do_not_overlap() {
    let (lab, events) = (Lab::new(), Events::new(""));
    events.add(&[at("a", 1001.0, 1)]);
    let query = lab.start_by(by_slices(events.watermarked(0), slide(10, 5, 0)), Append, Trigger::AvailableNow).await.unwrap();
    query.await_termination().await.unwrap();
    let error = lab.restarted().start(by_slices(events.watermarked(0), slide(10, 10, 0)), Append).await.unwrap_err();
    assert_eq!(error.code(), "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE");
}
