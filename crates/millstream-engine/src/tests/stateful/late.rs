//! Late rows: counted exactly and by origin, kept in a table, remembered by the checkpoint.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::prelude::col;
use millstream_core::progress::QueryProgress;

use super::*;
use crate::stateful::{Slide, SlidingWindow};

fn windowed(input: LogicalPlan, width: i64, slide: i64) -> LogicalPlan {
    let slide = Slide { width: width * 1_000_000, slide: slide * 1_000_000, start: 0 };
    let windows = SlidingWindow::try_new(input, col("ts"), slide, "w").unwrap().into_plan();
    LogicalPlanBuilder::from(windows)
        .aggregate(vec![col("w")], vec![datafusion::functions_aggregate::expr_fn::sum(col("v")).alias("s")])
        .and_then(LogicalPlanBuilder::build)
        .unwrap()
}

/// Late rows, rows late for some windows, and where they came from, as the reports of all batches have them.
fn late(progress: &[std::sync::Arc<QueryProgress>]) -> (u64, u64, Vec<(Option<usize>, Option<String>, u64)>) {
    let extras = progress.iter().map(|progress| &progress.millstream);
    let origins = extras.clone().flat_map(|extras| extras.late_origins.clone());
    (
        extras.clone().map(|extras| extras.late_rows).sum(),
        extras.map(|extras| extras.partly_late_rows).sum(),
        origins.map(|origin| (origin.source, origin.partition, origin.late_rows)).collect(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn table_of_operators() {
    type Plan = fn(&Events) -> LogicalPlan;
    // Time is at 1100 when the last file comes, which has three rows of one late group, one of another, and one in time.
    let files: [&[Event]; 3] = [
        &[at("a", 1001.0, 1)],
        &[at("a", 1100.0, 2)],
        &[at("a", 1001.0, 4), at("a", 1002.0, 8), at("a", 1003.0, 16), at("b", 1021.0, 32), at("b", 1200.0, 64)],
    ];
    let cases: [(&str, Plan, u64, u64); 8] = [
        ("tumbling windows", |events| windowed(events.watermarked(0), 10, 10), 4, 2),
        ("windows that overlap", |events| windowed(events.watermarked(0), 10, 5), 4, 4),
        ("a window as an expression", |events| sums(events.watermarked(0), 10, Some(0)), 4, 2),
        ("groups by event time", |events| group_by(events.watermarked(0), "ts"), 4, 4),
        ("deduplication", |events| distinct(events.watermarked(0), &["k", "ts"], false), 4, 4),
        ("sessions", |events| sessions(events.watermarked(0), 5), 4, 4),
        ("a filter below", |events| windowed(filtered(events.watermarked(0)), 10, 10), 3, 1),
        ("groups without event time", |events| by_key(events.watermarked(0)), 0, 0),
    ];
    for (what, plan, expected, groups) in cases {
        let events = Events::new("");
        let lab = Lab::new();
        let mode = if expected == 0 { Update } else { Append };
        let query = lab.start(plan(&events), mode).await.unwrap();
        for file in files {
            events.add(file);
            lab.step(&query).await;
        }
        let progress = query.recent_progress();
        let (rows, partly, origins) = late(&progress);
        assert_eq!((rows, partly), (expected, 0), "{what}");
        let by_origin: Vec<_> = if expected == 0 { vec![] } else { vec![(Some(0), Some("file 2".to_owned()), expected)] };
        assert_eq!(origins, by_origin, "{what}");
        // Spark's own number counts groups.
        let dropped: u64 = progress.iter().map(|progress| progress.state_operators[0].num_rows_dropped_by_watermark).sum();
        assert_eq!(dropped, groups, "{what}");
        query.stop().await;
    }
}

fn group_by(input: LogicalPlan, key: &str) -> LogicalPlan {
    let count = datafusion::functions_aggregate::expr_fn::count(lit(1_i64));
    LogicalPlanBuilder::from(input).aggregate(vec![col(key)], vec![count]).and_then(LogicalPlanBuilder::build).unwrap()
}

/// Without the row whose value is 32.
fn filtered(input: LogicalPlan) -> LogicalPlan {
    LogicalPlanBuilder::from(input).filter(col("v").not_eq(lit(32_i64))).and_then(LogicalPlanBuilder::build).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_can_be_late_for_some_of_its_windows() {
    let events = Events::new("");
    let lab = Lab::new();
    let query = lab.start(windowed(events.watermarked(0), 10, 5), Append).await.unwrap();
    // Windows that end at or before 1012 are closed: 1006 is still in [1005, 1015), 1001 in none.
    for file in [&[at("a", 1012.0, 1)][..], &[at("a", 1006.0, 2), at("a", 1001.0, 4)]] {
        events.add(file);
        lab.step(&query).await;
    }
    let (rows, partly, _) = late(&query.recent_progress());
    assert_eq!((rows, partly), (1, 1));
    query.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_of_a_join_and_both_branches_of_a_union_are_told_apart() {
    use datafusion::common::JoinType;
    let (left, right) = (Events::new("l"), Events::new("r"));
    let joined = LogicalPlanBuilder::from(left.watermarked(0))
        .join_on(right.watermarked(0), JoinType::Inner, vec![col("lk").eq(col("rk"))])
        .and_then(LogicalPlanBuilder::build)
        .unwrap();
    let lab = Lab::new();
    let query = lab.start(joined, Append).await.unwrap();
    // Without state that leaves there are no batches without data, and the late filter follows two batches behind.
    for second in [1000.0, 1100.0, 1101.0] {
        left.add(&[at("a", second, 1)]);
        right.add(&[at("a", second, 1)]);
        lab.step(&query).await;
    }
    left.add(&[at("a", 1001.0, 1), at("b", 1002.0, 1)]);
    right.add(&[at("a", 1003.0, 1), at("b", 1200.0, 1)]);
    lab.step(&query).await;
    let (rows, _, mut origins) = late(&query.recent_progress());
    origins.sort();
    let expected = [(Some(0), Some("file 3".to_owned()), 2), (Some(1), Some("file 3".to_owned()), 1)];
    assert_eq!((rows, origins), (3, expected.to_vec()));
    query.stop().await;
}

/// A row of the table of late rows as text: batch, source, partition, how far behind the watermark, the row.
fn table(rows: &RecordBatch) -> Vec<String> {
    let text = |column: &str, row: usize| rows.column_by_name(column).unwrap().as_string::<i32>().value(row).to_owned();
    let number = |column: &str, row: usize| rows.column_by_name(column).unwrap().as_primitive::<Int64Type>().value(row);
    (0..rows.num_rows())
        .map(|row| {
            let (batch, behind) = (number("batch_id", row), number("behind_ms", row));
            format!("{batch}|{}|{}|{behind}|{}", text("source", row), text("partition", row), text("row", row))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn late_rows_reach_their_table_once_even_if_a_commit_fails() {
    for failure in [None, Some(false), Some(true)] {
        let (mut lab, rows) = (Lab::new(), Results::default());
        lab.settings.late_rows = Some(std::sync::Arc::new(rows.clone()));
        let events = Events::new("");
        let plan = || windowed(filtered(events.watermarked(0)), 10, 10);
        let run =
            async |lab: &Lab| lab.start_by(plan(), Append, millstream_core::Trigger::AvailableNow).await.unwrap().await_termination().await;
        events.add(&[at("a", 1100.0, 1)]);
        events.add(&[at("a", 1101.0, 2)]);
        run(&lab).await.unwrap();
        lab = lab.restarted();
        events.add(&[at("b", 1001.0, 4), ("c", None, 8), at("-", 1002.5, 16), at("d", 1103.0, 32), at("e", 1104.0, 64)]);
        if let Some(after) = failure {
            lab.results.fail(after);
            run(&lab).await.unwrap_err();
            lab = lab.restarted();
        }
        run(&lab).await.unwrap();
        let mut lines: Vec<String> = rows.all().iter().flat_map(table).collect();
        lines.sort();
        let expected = [
            r#"3|Events|file 2|100000|{"ts":"1970-01-01T00:16:41Z","v":4}"#,
            r#"3|Events|file 2|98500|{"ts":"1970-01-01T00:16:42.500Z","v":16}"#,
        ];
        assert_eq!(lines, expected, "{failure:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_checkpoint_remembers_how_late_rows_were() {
    let (mut lab, events) = (Lab::new(), Events::new(""));
    for file in [&[at("a", 1000.0, 1)][..], &[at("a", 1100.0, 1)], &[at("a", 1099.0, 1), at("a", 1000.0, 1)], &[at("a", 1101.0, 1)]] {
        events.add(file);
        let query =
            lab.start_by(windowed(events.watermarked(50_000), 10, 10), Append, millstream_core::Trigger::AvailableNow).await.unwrap();
        query.await_termination().await.unwrap();
        lab = lab.restarted();
    }
    let last = lab.names("commits").await.iter().filter_map(|name| name.parse::<u64>().ok()).max().unwrap();
    let reader = lab.reader();
    let report = crate::inspect::describe(&reader, 100).await.unwrap();
    assert_eq!(report.last_committed, Some(last));
    let source = &report.lateness.0[0];
    assert_eq!((source.total.rows, source.total.late, source.total.max_behind_ms), (5, 1, 100_000));
    assert_eq!(source.partitions["file 2"].late, 1);
    assert_eq!(source.total.behind.late_with(50_000), (1, 1));
    assert_eq!(report.watermarks_ms, [1_051_000]);
}
