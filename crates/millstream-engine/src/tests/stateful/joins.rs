//! Two streams: what matches, what waits, what leaves. Expectations are those recorded from Spark.

use datafusion::common::JoinType;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::prelude::col;
use datafusion::scalar::ScalarValue;

use super::*;

fn seconds(seconds: i64) -> Expr {
    lit(ScalarValue::new_interval_mdn(0, 0, seconds * 1_000_000_000))
}

/// The right time is within five seconds after the left one.
fn within_5() -> Expr {
    col("rts").gt_eq(col("lts")).and(col("rts").lt_eq(col("lts") + seconds(5)))
}

fn around_5() -> Expr {
    col("rts").gt_eq(col("lts") - seconds(5)).and(col("rts").lt_eq(col("lts") + seconds(5)))
}

fn joined(left: LogicalPlan, right: LogicalPlan, kind: JoinType, on: Expr) -> LogicalPlan {
    LogicalPlanBuilder::from(left).join_on(right, kind, vec![col("lk").eq(col("rk")).and(on)]).and_then(LogicalPlanBuilder::build).unwrap()
}

enum Move {
    L(Event),
    R(Event),
}
use Move::{L, R};

async fn meet(kind: JoinType, on: Expr, moves: &[Move]) -> Vec<Step> {
    let (left, right) = (Events::new("l"), Events::new("r"));
    let plan = joined(left.watermarked(10_000), right.watermarked(10_000), kind, on);
    let lab = Lab::new();
    let query = lab.start(plan, Append).await.unwrap();
    let mut steps = Vec::new();
    for event in moves {
        match event {
            L(event) => left.add(&[*event]),
            R(event) => right.add(&[*event]),
        }
        steps.push(lab.step(&query).await);
    }
    query.stop().await;
    steps
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_range_evicts_both_sides_of_an_inner_join() {
    let moves = [L(at("a", 1010.0, 1)), R(at("a", 1012.0, 10)), R(at("x", 1040.0, 11)), L(at("y", 1040.0, 2)), R(at("y", 1043.0, 12))];
    let steps = meet(JoinType::Inner, within_5(), &moves).await;
    steps[0].is(&[], "00:00:00.000", &[[1, 1, 0, 0]]);
    steps[1].is(&["a|1010|1|a|1012|10"], "00:16:40.000", &[[2, 0, 0, 0]]);
    steps[2].is(&[], "00:16:40.000", &[[3, 1, 0, 0]]);
    steps[3].is(&[], "00:17:10.000", &[[2, 0, 2, 0]]);
    steps[4].is(&["y|1040|2|y|1043|12"], "00:17:10.000", &[[3, 1, 0, 0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn equality_alone_never_evicts() {
    let moves = [L(at("a", 1001.0, 1)), R(at("z", 1100.0, 9)), L(at("z", 1100.0, 8)), R(at("a", 1101.0, 10))];
    let steps = meet(JoinType::Inner, lit(true), &moves).await;
    steps[2].is(&["z|1100|8|z|1100|9"], "00:16:31.000", &[[3, 1, 0, 0]]);
    steps[3].is(&["a|1001|1|a|1101|10"], "00:18:10.000", &[[4, 1, 0, 0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_left_outer_row_comes_out_alone_when_nothing_can_match_it_any_more() {
    let moves = [L(at("a", 1010.0, 1)), L(at("b", 1010.0, 2)), R(at("a", 1012.0, 10)), L(at("x", 1040.0, 3)), R(at("x", 1040.0, 11))];
    let steps = meet(JoinType::Left, within_5(), &moves).await;
    steps[2].is(&["a|1010|1|a|1012|10"], "00:16:40.000", &[[3, 0, 0, 0]]);
    steps[3].is(&[], "00:16:42.000", &[[4, 0, 0, 0]]);
    steps[4].is(&["b|1010|2|null|null|null", "x|1040|3|x|1040|11"], "00:17:10.000", &[[2, 0, 1, 0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_edge_of_a_range_decides_the_millisecond_at_which_a_row_leaves() {
    for (on, at_15, at_16) in [
        (within_5(), &[][..], &["a|1010|1|null|null|null"][..]),
        (col("rts").gt_eq(col("lts")).and(col("rts").lt(col("lts") + seconds(5))), &["a|1010|1|null|null|null"][..], &[][..]),
    ] {
        let moves = [L(at("a", 1010.0, 1)), R(at("q", 1025.0, 0)), L(at("p", 1025.0, 0)), R(at("s", 1026.0, 0)), L(at("t", 1026.0, 0))];
        let steps = meet(JoinType::Left, on, &moves).await;
        steps[2].is(at_15, "00:16:55.000", &steps[2].state.iter().map(|(_, counts)| *counts).collect::<Vec<_>>());
        steps[4].is(at_16, "00:16:56.000", &steps[4].state.iter().map(|(_, counts)| *counts).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn null_keys_match_in_full_outer_joins_only() {
    let moves = [L(at("-", 1010.0, 1)), R(at("-", 1011.0, 10)), L(at("x", 1060.0, 2)), R(at("x", 1060.0, 11))];
    let steps = meet(JoinType::Left, around_5(), &moves).await;
    steps[0].is(&[], "00:00:00.000", &[[1, 1, 0, 0]]);
    steps[1].is(&[], "00:00:00.000", &[[1, 0, 0, 0]]);
    steps[3].is(&["null|1010|1|null|null|null", "x|1060|2|x|1060|11"], "00:17:30.000", &[[2, 0, 0, 0]]);
    let steps = meet(JoinType::Full, around_5(), &moves).await;
    steps[1].is(&["null|1010|1|null|1011|10"], "00:16:40.000", &[[2, 0, 0, 0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_outer_join_gives_the_lonely_of_both_sides() {
    let moves = [L(at("a", 1010.0, 1)), R(at("c", 1012.0, 10)), L(at("x", 1060.0, 3)), R(at("x", 1060.0, 12))];
    let steps = meet(JoinType::Full, around_5(), &moves).await;
    let expected = ["a|1010|1|null|null|null", "null|null|null|c|1012|10", "x|1060|3|x|1060|12"];
    steps[3].is(&expected, "00:17:30.000", &[[2, 0, 0, 0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_semi_join_gives_each_left_row_once_and_forgets_it() {
    let moves = [L(at("a", 1010.0, 1)), L(at("b", 1010.0, 2)), R(at("a", 1012.0, 10)), R(at("a", 1013.0, 11)), L(at("a", 1011.0, 3))];
    let steps = meet(JoinType::LeftSemi, within_5(), &moves).await;
    steps[1].is(&[], "00:00:00.000", &[[2, 1, 0, 0]]);
    steps[2].is(&["a|1010|1"], "00:16:40.000", &[[2, 0, 0, 0]]);
    steps[3].is(&[], "00:16:40.000", &[[3, 1, 0, 0]]);
    steps[4].is(&["a|1011|3"], "00:16:41.000", &[[3, 0, 0, 0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_predicate_on_the_outer_side_decides_at_once() {
    let moves = [L(at("a", 1010.0, 5)), L(at("a", 1010.0, 6)), R(at("a", 1011.0, 10)), L(at("x", 1060.0, 9)), R(at("x", 1060.0, 11))];
    let steps = meet(JoinType::Left, within_5().and(col("lv").gt(lit(5_i64))), &moves).await;
    steps[0].is(&["a|1010|5|null|null|null"], "00:00:00.000", &[[0, 0, 0, 0]]);
    steps[2].is(&["a|1010|6|a|1011|10"], "00:16:40.000", &[[2, 0, 0, 0]]);
    // Spark takes the predicate for a bound on time, and so never evicts the left side.
    steps[4].is(&["x|1060|9|x|1060|11"], "00:17:30.000", &[[3, 0, 1, 0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rest_of_the_condition_decides_which_pairs_match() {
    let moves = [L(at("a", 1010.0, 7)), L(at("a", 1010.0, 1)), R(at("a", 1011.0, 5)), L(at("x", 1060.0, 9)), R(at("x", 1060.0, 11))];
    let steps = meet(JoinType::Left, within_5().and(col("lv").lt(col("rv"))), &moves).await;
    steps[2].is(&["a|1010|1|a|1011|5"], "00:16:40.000", &[[3, 0, 0, 0]]);
    steps[4].is(&["a|1010|7|null|null|null", "x|1060|9|x|1060|11"], "00:17:30.000", &[[2, 0, 1, 0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn late_rows_are_dropped_and_counted() {
    let moves = [L(at("a", 1060.0, 1)), R(at("a", 1060.0, 10)), L(at("b", 1049.0, 2)), L(at("b", 1051.0, 4))];
    let steps = meet(JoinType::Left, within_5(), &moves).await;
    steps[2].is(&[], "00:17:30.000", &[[2, 0, 0, 1]]);
    steps[3].is(&[], "00:17:30.000", &[[3, 1, 0, 0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_without_equality_dies_with_its_first_batch() {
    let (left, right) = (Events::new("l"), Events::new("r"));
    let plan = LogicalPlanBuilder::from(left.plan())
        .join_on(right.plan(), JoinType::Inner, vec![col("lts").lt_eq(col("rts"))])
        .and_then(LogicalPlanBuilder::build)
        .unwrap();
    let lab = Lab::new();
    let query = lab.start(plan, Append).await.unwrap();
    left.add(&[at("a", 1.0, 1)]);
    assert_eq!(query.await_termination().await.unwrap_err().code(), "_LEGACY_ERROR_TEMP_1181");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_table_on_the_other_side_does_not_stop_time() {
    let lab = Lab::new();
    let table = lab.session.plan_sql("SELECT k AS tk FROM (VALUES ('a')) AS t(k) WHERE k = 'nobody'").await.unwrap();
    let events = Events::new("");
    let plan = LogicalPlanBuilder::from(events.watermarked(0))
        .join_on(table, JoinType::Inner, vec![col("k").eq(col("tk"))])
        .and_then(|plan| plan.project(vec![col("k"), col("ts"), col("v")]))
        .and_then(LogicalPlanBuilder::build)
        .unwrap();
    let query = lab.start(sums(plan, 5, Some(0)), Append).await.unwrap();
    events.add(&[at("a", 1001.0, 1)]);
    lab.step(&query).await.is(&[], "00:16:41.000", &[[0, 0, 0, 0]]);
    assert!(query.recent_progress().iter().any(|progress| progress.num_input_rows == 1));
    query.stop().await;
}
