//! A query that was changed and is started again: what Spark refuses is refused, and what Spark mixes silently is told, or refused on demand.

use datafusion::functions_aggregate::expr_fn::{max, min, sum};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::prelude::col;
use millstream_core::Trigger;
use millstream_core::sink::OutputMode;

use super::*;
use crate::stateful::{ChangePolicy, Slide, SlidingWindow};

fn windowed(input: LogicalPlan, seconds: i64, start: i64, keys: &[&str], functions: Vec<Expr>) -> LogicalPlan {
    let slide = Slide { width: seconds * 1_000_000, slide: seconds * 1_000_000, start: start * 1_000_000 };
    let windows = SlidingWindow::try_new(input, col("ts"), slide, "w").unwrap().into_plan();
    let keys = std::iter::once("w").chain(keys.iter().copied()).map(col).collect::<Vec<_>>();
    LogicalPlanBuilder::from(windows).aggregate(keys, functions).and_then(LogicalPlanBuilder::build).unwrap()
}

fn by(events: &Events, key: Expr) -> LogicalPlan {
    LogicalPlanBuilder::from(events.plan()).aggregate(vec![key], vec![sum(col("v"))]).and_then(LogicalPlanBuilder::build).unwrap()
}

type Plan = fn(&Events) -> LogicalPlan;

/// What the second run says: the error, or the changes that its first report tells.
async fn restarted(before: (Plan, OutputMode), after: (Plan, OutputMode), policy: ChangePolicy) -> Result<Vec<String>, String> {
    let (lab, events) = (Lab::new(), Events::new(""));
    events.add(&[at("a", 1001.0, 1)]);
    let query = lab.start_by(before.0(&events), before.1, Trigger::AvailableNow).await.unwrap();
    query.await_termination().await.unwrap();
    assert!(query.recent_progress()[0].millstream.query_changes.is_empty());
    let offsets = lab.names("offsets").await;
    let mut lab = lab.restarted();
    lab.settings.changes = policy;
    events.add(&[at("a", 1002.0, 2)]);
    match lab.start_by(after.0(&events), after.1, Trigger::AvailableNow).await {
        Ok(query) => {
            query.await_termination().await.unwrap();
            Ok(query.recent_progress().iter().flat_map(|progress| progress.millstream.query_changes.clone()).collect())
        }
        Err(error) => {
            assert_eq!(lab.names("offsets").await, offsets, "a refused query touches nothing");
            Err(format!("{} {}", error.code(), error.message()))
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn table_of_changes_that_spark_accepts() {
    let one: Plan = |events| windowed(events.watermarked(10_000), 10, 0, &["k"], vec![max(col("v"))]);
    let append = OutputMode::Append;
    let cases: [(&str, (Plan, OutputMode), (Plan, OutputMode), Option<&str>, &str); 12] = [
        ("the same", (one, append), (one, append), None, ""),
        (
            "a wider window",
            (one, append),
            (|events| windowed(events.watermarked(10_000), 20, 0, &["k"], vec![max(col("v"))]), append),
            Some("window"),
            "window(ts, 10000000 µs, 10000000 µs, 0 µs)",
        ),
        (
            "another start",
            (one, append),
            (|events| windowed(events.watermarked(10_000), 10, 3, &["k"], vec![max(col("v"))]), append),
            Some("window"),
            "3000000 µs",
        ),
        (
            "min for max",
            (one, append),
            (|events| windowed(events.watermarked(10_000), 10, 0, &["k"], vec![min(col("v"))]), append),
            Some("aggregates"),
            "was max(v) and is min(v)",
        ),
        (
            "another argument",
            (one, append),
            (|events| windowed(events.watermarked(10_000), 10, 0, &["k"], vec![max(col("v") * lit(2_i64))]), append),
            Some("aggregates"),
            "max((v * 2))",
        ),
        ("another output mode", (one, append), (one, OutputMode::Update), Some("output-mode"), "was append and is update"),
        (
            "another delay",
            (one, append),
            (|events| windowed(events.watermarked(20_000), 10, 0, &["k"], vec![max(col("v"))]), append),
            None,
            "delay of watermark 0 was 10000 ms and is 20000 ms (compatible)",
        ),
        (
            "a filter",
            (one, append),
            (
                |events| {
                    let some =
                        LogicalPlanBuilder::from(events.watermarked(10_000)).filter(col("v").gt(lit(0_i64))).unwrap().build().unwrap();
                    windowed(some, 10, 0, &["k"], vec![max(col("v"))])
                },
                append,
            ),
            None,
            "filters of the query was nothing and is (v > 0) (compatible)",
        ),
        (
            "two functions in another order",
            (|events| windowed(events.watermarked(0), 10, 0, &[], vec![min(col("v")), max(col("v"))]), append),
            (|events| windowed(events.watermarked(0), 10, 0, &[], vec![max(col("v")), min(col("v"))]), append),
            Some("aggregates"),
            "was min(v), max(v) and is max(v), min(v)",
        ),
        (
            "another gap",
            (|events| sessions(events.watermarked(0), 5), append),
            (|events| sessions(events.watermarked(0), 9), append),
            Some("session"),
            "session of operator 0",
        ),
        (
            "another key of the same type",
            (|events| by(events, col("v")), OutputMode::Update),
            (|events| by(events, col("v") + lit(1_i64)), OutputMode::Update),
            Some("keys"),
            "keys of operator 0",
        ),
        (
            "a name",
            (|events| by(events, col("k")), OutputMode::Update),
            (|events| by(events, col("k").alias("other")), OutputMode::Update),
            None,
            "",
        ),
    ];
    for (what, before, after, meaning, text) in cases {
        let told = restarted(before, after, ChangePolicy::default()).await.unwrap();
        assert_eq!(told.len(), usize::from(!text.is_empty()), "{what}: {told:?}");
        assert!(told.iter().all(|told| told.contains(text)), "{what}: {told:?}");
        let refuse = ChangePolicy { refuse: true, ..ChangePolicy::default() };
        let strict = restarted(before, after, refuse.clone()).await;
        let Some(name) = meaning else {
            assert_eq!(strict, Ok(told), "{what}");
            continue;
        };
        let refused = strict.unwrap_err();
        assert!(refused.starts_with("STREAMING_QUERY_CHANGED") && refused.ends_with(&format!("by name: {name}")), "{what}: {refused}");
        let accepted = ChangePolicy { accepted: [name.to_owned()].into(), ..refuse };
        assert_eq!(restarted(before, after, accepted).await, Ok(told), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_was_accepted_is_told_once() {
    let (mut lab, events) = (Lab::new(), Events::new(""));
    let mut told = Vec::new();
    for seconds in [10, 20, 20] {
        events.add(&[at("a", 1001.0, 1)]);
        let plan = windowed(events.watermarked(0), seconds, 0, &["k"], vec![max(col("v"))]);
        let query = lab.start_by(plan, Append, Trigger::AvailableNow).await.unwrap();
        query.await_termination().await.unwrap();
        told.push(query.recent_progress().iter().map(|progress| progress.millstream.query_changes.len()).collect::<Vec<_>>());
        lab = lab.restarted();
    }
    assert_eq!(told.iter().map(|told| told.iter().sum::<usize>()).collect::<Vec<_>>(), [0, 1, 0]);
}
