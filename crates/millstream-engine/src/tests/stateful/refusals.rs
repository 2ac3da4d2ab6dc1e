//! What may run in which mode: the matrix of `spark-semantics.md` §1.5.

use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::{count_distinct, sum};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::prelude::col;
use datafusion::scalar::ScalarValue;

use super::*;
use crate::check::check;
use crate::stateful::ExceptAllRows;

const OM: &str = "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION";
const X: &str = "_LEGACY_ERROR_TEMP_3102";

#[track_caller]
fn verdicts(what: &str, plan: &LogicalPlan, expected: [&str; 3]) {
    let verdicts =
        [Append, Update, Complete].map(|mode| check(plan, mode).map_or_else(|error| error.code().to_owned(), |()| "ok".to_owned()));
    assert_eq!(verdicts, expected, "{what}");
}

fn built(builder: datafusion::error::Result<LogicalPlanBuilder>) -> LogicalPlan {
    builder.and_then(LogicalPlanBuilder::build).unwrap()
}

#[test]
fn single_streams() {
    let events = Events::new("");
    let stream = || LogicalPlanBuilder::from(events.plan());
    let windowed = || sums(events.watermarked(10_000), 5, Some(10_000));
    let twice = built(LogicalPlanBuilder::from(windowed()).aggregate(vec![col("w")], vec![sum(col("s"))]));
    let table = || LogicalPlanBuilder::values(vec![vec![lit("a")]]).unwrap().build().unwrap();
    let counted = |side: LogicalPlan, key: &str, count: i64| {
        built(LogicalPlanBuilder::from(side).project(vec![col(key).alias("k"), lit(count).alias("counts_of_except_all")]))
    };
    let (left, right) = (|| counted(events.plan(), "k", 1), || counted(table(), "column1", -1));
    let excepted = || ExceptAllRows::try_new(left(), right()).unwrap().into_plan();
    let unioned = || built(LogicalPlanBuilder::from(left()).union(right()));
    let added_up =
        |rows: LogicalPlan| built(LogicalPlanBuilder::from(rows).aggregate(vec![col("k")], vec![sum(col("counts_of_except_all"))]));
    for (what, plan, expected) in [
        ("rows", events.plan(), ["ok", "ok", OM]),
        ("by key", by_key(events.plan()), [OM, "ok", "ok"]),
        ("by key, watermark", by_key(events.watermarked(0)), [OM, "ok", "ok"]),
        ("by window", windowed(), ["ok", "ok", "ok"]),
        (
            "by event time",
            built(LogicalPlanBuilder::from(events.watermarked(0)).aggregate(vec![col("ts")], vec![sum(col("v"))])),
            ["ok"; 3],
        ),
        ("by window without watermark", sums(events.plan(), 5, None), [OM, "ok", "ok"]),
        ("all", built(stream().aggregate(Vec::<Expr>::new(), vec![sum(col("v"))])), [OM, "ok", "ok"]),
        ("count distinct", built(stream().aggregate(vec![col("k")], vec![count_distinct(col("v"))])), [OM, X, X]),
        ("sessions", sessions(events.watermarked(0), 5), ["ok", OM, "ok"]),
        ("sessions without watermark", sessions(events.plan(), 5), [OM, OM, "ok"]),
        ("deduplication", distinct(events.plan(), &["k"], false), ["ok", "ok", OM]),
        ("within watermark", distinct(events.watermarked(0), &["k"], true), ["ok", "ok", OM]),
        ("within no watermark", distinct(events.plan(), &["k"], true), [X, X, OM]),
        ("limit", built(stream().limit(0, Some(1))), ["ok", X, OM]),
        ("limit of groups", built(LogicalPlanBuilder::from(by_key(events.plan())).limit(0, Some(1))), [OM, X, "ok"]),
        ("offset", built(stream().limit(1, None)), [X, X, OM]),
        ("sort", built(stream().sort(vec![col("v").sort(true, true)])), [X, X, OM]),
        ("sorted groups", built(LogicalPlanBuilder::from(by_key(events.plan())).sort(vec![col("s").sort(true, true)])), [OM, X, "ok"]),
        ("groups of sorted", by_key(built(stream().sort(vec![col("v").sort(true, true)]))), [OM, X, X]),
        ("groups of groups", twice, ["ok", X, X]),
        ("groups of deduplicated", by_key(distinct(events.plan(), &["k"], false)), [OM, "ok", "ok"]),
        ("deduplicated groups", distinct(windowed(), &["w"], false), ["ok", X, X]),
        ("union with a table", built(stream().project(vec![col("k")]).unwrap().union(table())), [X, X, OM]),
        ("except all of a table", added_up(excepted()), ["ok", "ok", OM]),
        ("a column of any name added up over a union with a table", added_up(unioned()), [OM, X, X]),
    ] {
        verdicts(what, &plan, expected);
    }
}

#[test]
fn joins() {
    let (left, right) = (Events::new("l"), Events::new("r"));
    let five = lit(ScalarValue::new_interval_mdn(0, 0, 5_000_000_000));
    let key = col("lk").eq(col("rk"));
    let range = key.clone().and(col("rts").gt_eq(col("lts") - five.clone())).and(col("rts").lt_eq(col("lts") + five));
    let same_time = key.clone().and(col("lts").eq(col("rts")));
    let (l, r) = (left.watermarked(10_000), right.watermarked(10_000));
    let ways = [
        (l.clone(), r.clone(), range.clone()),
        (left.plan(), right.plan(), key.clone()),
        (l.clone(), right.plan(), range.clone()),
        (left.plan(), r.clone(), range),
        (l.clone(), r.clone(), key),
        (l, r, same_time),
    ];
    for (kind, append, update) in [
        (JoinType::Inner, ["ok"; 6], ["ok"; 6]),
        (JoinType::LeftSemi, ["ok", X, X, "ok", X, "ok"], ["ok", X, X, "ok", X, "ok"]),
        (JoinType::Left, ["ok", X, X, "ok", X, "ok"], [X; 6]),
        (JoinType::Right, ["ok", X, "ok", X, X, "ok"], [X; 6]),
        (JoinType::Full, ["ok", X, "ok", "ok", X, "ok"], [X; 6]),
        (JoinType::LeftAnti, [X; 6], [X; 6]),
    ] {
        for (index, (l, r, on)) in ways.iter().enumerate() {
            let plan = built(LogicalPlanBuilder::from(l.clone()).join_on(r.clone(), kind, vec![on.clone()]));
            verdicts(&format!("{kind} {index}"), &plan, [append[index], update[index], OM]);
        }
    }
    let (l, r, on) = &ways[0];
    let counted = built(
        LogicalPlanBuilder::from(l.clone())
            .join_on(r.clone(), JoinType::Inner, vec![on.clone()])
            .and_then(|plan| plan.project(vec![window("lts", 5, Some(10_000), "w")])?.aggregate(vec![col("w")], vec![sum(lit(1_i64))])),
    );
    verdicts("join, then groups", &counted, ["ok", "ok", X]);
}

#[test]
fn a_table_beside_a_stream() {
    let events = Events::new("");
    let table =
        || LogicalPlanBuilder::values(vec![vec![lit("a")]]).unwrap().project(vec![col("column1").alias("tk")]).unwrap().build().unwrap();
    for (kind, stream_first, table_first) in [
        (JoinType::Inner, "ok", "ok"),
        (JoinType::Left, "ok", X),
        (JoinType::LeftSemi, "ok", X),
        (JoinType::LeftAnti, "ok", X),
        (JoinType::Right, X, "ok"),
        (JoinType::Full, X, X),
    ] {
        let on = vec![col("k").eq(col("tk"))];
        let plan = built(LogicalPlanBuilder::from(events.plan()).join_on(table(), kind, on.clone()));
        verdicts(&format!("stream {kind} table"), &plan, [stream_first, stream_first, OM]);
        let plan = built(LogicalPlanBuilder::from(table()).join_on(events.plan(), kind, on));
        verdicts(&format!("table {kind} stream"), &plan, [table_first, table_first, OM]);
    }
}
