//! State, watermark and position after a restart, a crash at the worst moments, and a change of the query.

use datafusion::functions_aggregate::expr_fn::{max, min, sum};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::prelude::col;
use millstream_core::Trigger;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn open_windows_and_the_watermark_survive() {
    let lab = Lab::new();
    let events = Events::new("");
    let query = lab.start(sums(events.watermarked(10_000), 5, Some(10_000)), Append).await.unwrap();
    events.add(&[at("a", 1001.0, 1)]);
    lab.step(&query).await;
    query.stop().await;
    let lab = lab.restarted();
    events.add(&[at("a", 1002.0, 2)]);
    events.add(&[at("b", 1060.0, 4)]);
    let query = lab.start(sums(events.watermarked(10_000), 5, Some(10_000)), Append).await.unwrap();
    lab.step(&query).await.is(&["1000|1005|a|3"], "00:17:30.000", &[[1, 0, 1, 0]]);
    query.stop().await;
    let lab = lab.restarted();
    events.add(&[at("b", 1001.0, 8)]);
    let query = lab.start(sums(events.watermarked(10_000), 5, Some(10_000)), Append).await.unwrap();
    lab.step(&query).await.is(&[], "00:17:30.000", &[[1, 0, 0, 1]]);
    query.stop().await;
}

/// Every row of every batch arrives once, whatever the sink did in between.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_failed_or_was_not_answered_changes_no_result() {
    let mut expected = None;
    for failure in [None, Some(false), Some(true)] {
        let mut lab = Lab::new();
        let events = Events::new("");
        let mut rows = Vec::new();
        for (step, file) in [at("a", 1001.0, 1), at("a", 1002.0, 2), at("a", 1003.0, 4)].into_iter().enumerate() {
            events.add(&[file]);
            if let (1, Some(after)) = (step, failure) {
                lab.results.fail(after);
                let query = lab.start_by(by_key(events.plan()), Update, Trigger::AvailableNow).await.unwrap();
                assert_eq!(query.await_termination().await.unwrap_err().code(), "SINK_DOWN");
                lab = lab.restarted();
            }
            let query = lab.start_by(by_key(events.plan()), Update, Trigger::AvailableNow).await.unwrap();
            query.await_termination().await.unwrap();
            lab = lab.restarted();
        }
        rows.extend(lab.results.since(0));
        assert_eq!(rows, ["a|1", "a|3", "a|7"], "{failure:?}");
        expected.get_or_insert(rows);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_takes_the_place_of_old_changes_and_old_files_go() {
    let mut lab = Lab::new();
    lab.settings.min_batches_to_retain = Some(2);
    let events = Events::new("");
    let query = lab.start(by_key(events.plan()), Update).await.unwrap();
    for batch in 0..60 {
        events.add(&[at(["a", "b", "c"][batch % 3], 1.0, 1)]);
        lab.step(&query).await;
    }
    query.stop().await;
    let files = lab.names("state").await;
    assert!(files.iter().any(|name| name.ends_with(".snapshot")), "{files:?}");
    assert!(files.len() < 40, "{files:?}");
    let lab = lab.restarted();
    events.add(&[at("a", 1.0, 1)]);
    let query = lab.start(by_key(events.plan()), Complete).await.unwrap();
    lab.step(&query).await.is(&["a|21", "b|20", "c|20"], "none", &[[3, 1, 0, 0]]);
    query.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_and_sessions_go_on_where_they_were() {
    let lab = Lab::new();
    let events = Events::new("");
    let query = lab.start(sessions(events.watermarked(10_000), 5), Append).await.unwrap();
    events.add(&[at("a", 1000.0, 1), at("b", 1000.0, 2)]);
    lab.step(&query).await;
    query.stop().await;
    let lab = lab.restarted();
    let query = lab.start(sessions(events.watermarked(10_000), 5), Append).await.unwrap();
    events.add(&[at("a", 1003.0, 4)]);
    lab.step(&query).await.is(&[], "00:16:33.000", &[[2, 0, 0, 0]]);
    events.add(&[at("z", 1100.0, 0)]);
    lab.step(&query).await.is(&["a|1000|1008|5", "b|1000|1005|2"], "00:18:10.000", &[[1, 0, 2, 0]]);
    query.stop().await;
}

fn aggregate(events: &Events, keys: &[&str], functions: Vec<datafusion::logical_expr::Expr>) -> LogicalPlan {
    let keys: Vec<_> = keys.iter().map(|key| col(*key)).collect();
    LogicalPlanBuilder::from(events.plan()).aggregate(keys, functions).and_then(LogicalPlanBuilder::build).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn table_of_changed_queries() {
    type Plan = fn(&Events) -> LogicalPlan;
    let one: Plan = |events| aggregate(events, &["k"], vec![sum(col("v"))]);
    let cases: [(&str, Plan, Plan, &str); 9] = [
        ("the same", one, one, "ok"),
        (
            "another function over the same type",
            |events| aggregate(events, &["k"], vec![min(col("v"))]),
            |events| aggregate(events, &["k"], vec![max(col("v"))]),
            "ok",
        ),
        (
            "one more function",
            one,
            |events| aggregate(events, &["k"], vec![sum(col("v")), max(col("v"))]),
            "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
        ),
        ("another key", one, |events| aggregate(events, &["v"], vec![sum(col("v"))]), "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"),
        ("one more key", one, |events| aggregate(events, &["k", "v"], vec![sum(col("v"))]), "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"),
        (
            "deduplication in its place",
            one,
            |events| distinct(events.plan(), &["k"], false),
            "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
        ),
        ("without state", one, |events| events.plan(), "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"),
        (
            "with state",
            |events| events.plan(),
            |events| distinct(events.plan(), &["k"], false),
            "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
        ),
        (
            "within the watermark",
            |events| distinct(events.watermarked(0), &["k"], false),
            |events| distinct(events.watermarked(0), &["k"], true),
            "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
        ),
    ];
    for (what, before, after, expected) in cases {
        let lab = Lab::new();
        let events = Events::new("");
        events.add(&[at("a", 1001.0, 1)]);
        let query = lab.start_by(before(&events), Update, Trigger::AvailableNow).await.unwrap();
        query.await_termination().await.unwrap();
        let lab = lab.restarted();
        events.add(&[at("a", 1002.0, 2)]);
        let outcome = match lab.start_by(after(&events), Update, Trigger::AvailableNow).await {
            Ok(query) => query.await_termination().await.map_or_else(|error| error.code().to_owned(), |()| "ok".to_owned()),
            Err(error) => error.code().to_owned(),
        };
        assert_eq!(outcome, expected, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn state_that_is_gone_is_missed() {
    for everything in [true, false] {
        let lab = Lab::new();
        let events = Events::new("");
        for _ in 0..2 {
            events.add(&[at("a", 1001.0, 1)]);
        }
        let query = lab.start_by(by_key(events.plan()), Update, Trigger::AvailableNow).await.unwrap();
        query.await_termination().await.unwrap();
        let files = lab.names("state").await;
        assert_eq!(files.len(), 2);
        for file in files.iter().take(if everything { 2 } else { 1 }) {
            lab.remove(&format!("state/{file}")).await;
        }
        let error = lab.restarted().start(by_key(events.plan()), Update).await.unwrap_err();
        let expected = if everything {
            "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
        } else {
            "CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS"
        };
        assert_eq!(error.code(), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn once_never_runs_the_batch_that_would_close_windows() {
    let mut lab = Lab::new();
    let events = Events::new("");
    let plan = || sums(events.watermarked(0), 5, Some(0));
    for (file, expected) in [
        (Some([at("a", 1001.0, 1), at("a", 1060.0, 2)]), &[][..]),
        (None, &[]),
        (Some([at("a", 1002.0, 4), at("a", 1061.0, 8)]), &["1000|1005|a|5"]),
    ] {
        if let Some(file) = file {
            events.add(&file);
        }
        let before = lab.results.batches();
        lab.start_by(plan(), Append, Trigger::Once).await.unwrap().await_termination().await.unwrap();
        assert_eq!(lab.results.since(before), expected);
        lab = lab.restarted();
    }
    let before = lab.results.batches();
    events.add(&[at("a", 1090.0, 16)]);
    lab.start_by(plan(), Append, Trigger::AvailableNow).await.unwrap().await_termination().await.unwrap();
    assert_eq!(lab.results.since(before), ["1060|1065|a|10"]);
}

/// One byte of the newest snapshot is wrong: the query goes on with the right state, and says what it did.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_snapshot_is_made_up_for_by_an_older_one_and_the_changes() {
    let mut lab = Lab::new();
    lab.settings.state.min_deltas_for_snapshot = 2;
    let events = Events::new("");
    let query = lab.start(by_key(events.plan()), Update).await.unwrap();
    let (mut batches, mut used) = (0, Vec::new());
    while used.len() < 2 {
        batches += 1;
        assert!(batches < 200, "only these snapshots were used: {used:?}");
        events.add(&[at(["a", "b", "c"][batches % 3], 1.0, 1)]);
        lab.step(&query).await;
        used.extend(lab.snapshot().await.filter(|name| !used.contains(name)));
    }
    query.stop().await;
    let total = |key: usize| (1..=batches).filter(|batch| batch % 3 == key).count() + 1;
    lab.damage(&lab.snapshot().await.unwrap()).await;

    let lab = lab.restarted();
    for key in ["a", "b", "c"] {
        events.add(&[at(key, 1.0, 1)]);
    }
    let query = lab.start(by_key(events.plan()), Update).await.unwrap();
    let step = lab.step(&query).await;
    assert_eq!(step.added, [format!("a|{}", total(0)), format!("b|{}", total(1)), format!("c|{}", total(2))]);
    let reports = query.recent_progress();
    assert!(reports[0].millstream.advice[0].starts_with("a snapshot of state cannot be read"), "{:?}", reports[0].millstream.advice);
    assert!(reports[1..].iter().all(|report| report.millstream.advice.is_empty()), "it is told once");
    query.stop().await;
}

/// Several watermarks after a restart: each goes on where it was, if that is asked for. In Spark they begin again at 1970.
#[tokio::test(flavor = "multi_thread")]
async fn three_streams_of_which_two_have_rows_in_each_run() {
    for (restore, expected) in [(true, "00:17:40.000"), (false, "00:00:00.000")] {
        let streams = ["", "", ""].map(Events::new);
        let plan = || {
            let [a, b, c] = streams.each_ref().map(|events| events.watermarked(0));
            let all = LogicalPlanBuilder::from(a).union(b).and_then(|plan| plan.union(c)).and_then(LogicalPlanBuilder::build).unwrap();
            sums(all, 5, Some(0))
        };
        let mut lab = Lab::new();
        lab.settings.restore_watermarks = restore;
        let mut watermark = None;
        for seconds in [[Some(1060.0), Some(1050.0), None], [None, Some(1070.0), Some(1080.0)]] {
            for (events, second) in streams.iter().zip(seconds) {
                if let Some(second) = second {
                    events.add(&[at("a", second, 1)]);
                }
            }
            let query = lab.start_by(plan(), Append, Trigger::AvailableNow).await.unwrap();
            query.await_termination().await.unwrap();
            watermark = query.last_progress().unwrap().event_time.get("watermark").cloned();
            lab = lab.restarted();
        }
        let watermark = watermark.unwrap_or_default();
        assert!(watermark.ends_with(&format!("T{expected}Z")), "{restore}: {watermark}");
    }
}
