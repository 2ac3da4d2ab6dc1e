use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::common::Column;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, lit, table_scan};
use datafusion::prelude::{col, ident};

use super::*;

fn events() -> LogicalPlan {
    let schema = Schema::new(vec![
        Field::new("k", DataType::Utf8, true),
        Field::new("ts", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
        Field::new("v", DataType::Int64, true),
        Field::new("unused", DataType::Int64, true),
    ]);
    table_scan(Option::<&str>::None, &schema, None).unwrap().build().unwrap()
}

fn watermarked() -> LogicalPlan {
    Watermark::try_new(events(), Column::from_name("ts"), 10_000).unwrap().into_plan()
}

fn optimized(plan: &LogicalPlan) -> String {
    SessionContext::new().state().optimize(plan).unwrap().display_indent().to_string()
}

#[test]
fn delays_count_months_as_31_days_and_cut_microseconds_off() {
    for (months, days, micros, expected) in [
        (0, 0, 1_999, Some(1)),
        (1, 0, 0, Some(31 * 86_400_000)),
        (12, 0, 0, Some(372 * 86_400_000)),
        (0, 1, -1_000, Some(86_399_999)),
        (0, 0, -1, None),
        (i32::MAX, i32::MAX, i64::MAX, Some(5_775_000_000_000_000_000)),
    ] {
        let delay = delay_ms(months, days, micros);
        match expected {
            Some(expected) if expected < 1 << 60 => assert_eq!(delay.unwrap(), expected),
            Some(_) => assert!(delay.is_ok()),
            None => assert_eq!(delay.unwrap_err().code(), "IllegalArgumentException"),
        }
    }
}

#[test]
fn the_mark_follows_columns_and_aliases_and_a_new_watermark_moves_it() {
    let delay = |plan: &LogicalPlan, name: &str| event_time_delay(plan.schema().field_with_unqualified_name(name).unwrap());
    let plan = LogicalPlanBuilder::from(watermarked())
        .project(vec![ident("ts").alias("at"), ident("ts"), ident("v")])
        .and_then(LogicalPlanBuilder::build)
        .unwrap();
    assert_eq!((delay(&plan, "at"), delay(&plan, "ts"), delay(&plan, "v")), (Some(10_000), Some(10_000), None));
    let again = Watermark::try_new(plan, Column::from_name("at"), 1).unwrap().into_plan();
    assert_eq!((delay(&again, "at"), delay(&again, "ts")), (Some(1), None));
}

#[test]
fn only_timestamps_and_windows_are_event_time() {
    let error = Watermark::try_new(events(), Column::from_name("v"), 0).unwrap_err();
    assert_eq!((error.code(), error.sqlstate()), ("EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE", Some("42K09")));
}

#[test]
fn a_filter_on_event_time_stays_above_the_watermark_and_others_move_below() {
    let micros = |us| lit(datafusion::scalar::ScalarValue::TimestampMicrosecond(Some(us), Some("UTC".into())));
    let plan = LogicalPlanBuilder::from(watermarked())
        .filter(col("v").gt(lit(3_i64)).and(col("ts").gt(micros(7))))
        .and_then(|plan| plan.project(vec![col("k"), col("ts")]))
        .and_then(LogicalPlanBuilder::build)
        .unwrap();
    let shown = optimized(&plan);
    let at = |what: &str| shown.find(what).unwrap_or_else(|| panic!("{what} is not in\n{shown}"));
    assert!(at("ts > Timestamp") < at("Watermark:") && at("Watermark:") < at("v > Int64(3)"), "{shown}");
    assert!(!shown.contains("unused"), "{shown}");
}

#[test]
fn no_filter_crosses_a_deduplication_and_only_needed_columns_reach_it() {
    let dedup = Deduplicate::try_new(watermarked(), [Column::from_name("k")], false).unwrap().into_plan();
    let plan = LogicalPlanBuilder::from(dedup)
        .filter(col("v").gt(lit(3_i64)))
        .and_then(|plan| plan.project(vec![col("v")]))
        .and_then(LogicalPlanBuilder::build)
        .unwrap();
    let shown = optimized(&plan);
    assert!(shown.find("v > Int64(3)").unwrap() < shown.find("Deduplicate:").unwrap(), "{shown}");
    assert!(shown.contains("projection=[k, ts, v]"), "{shown}");
}

#[test]
fn a_session_has_its_keys_its_struct_and_its_aggregates() {
    let count = datafusion::functions_aggregate::count::count(lit(1_i64)).alias("n");
    let node = SessionWindow::try_new(watermarked(), vec![col("k")], col("ts"), col("ts"), "session", vec![count]).unwrap();
    let plan = node.into_plan();
    let fields = plan.schema().fields();
    assert_eq!(fields.iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["k", "session", "n"]);
    assert_eq!(event_time_delay(&fields[1]), Some(10_000));
    let shown = optimized(&plan);
    assert!(shown.contains("projection=[k, ts]"), "{shown}");
    let _: Arc<LogicalPlan> = Arc::new(plan);
}
