//! A million events in eight files that are read out of time order: all are counted, or told to be late, whatever the parallelism.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{AsArray, Int64Array, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use datafusion::functions_aggregate::expr_fn::{count, max};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::prelude::col;
use millstream_core::Trigger;

use super::*;
use crate::stateful::{Slide, SlidingWindow};

const EVENTS: i64 = 1_000_000;
const FILES: i64 = 8;
const KEYS: i64 = 100;

/// A thousand events a second, up to two seconds out of order, cut into files in the given order.
fn events(order: &[i64]) -> Events {
    let events = Events::new("");
    for file in order {
        let numbers = || file * EVENTS / FILES..(file + 1) * EVENTS / FILES;
        let keys: StringArray = numbers().map(|number| Some(format!("a{}", number * 7 % KEYS))).collect();
        let times: TimestampMicrosecondArray =
            numbers().map(|number| Some(1_700_000_000_000_000 + number * 1_000 - number * 7_919 % 2_000 * 1_000)).collect();
        let values: Int64Array = numbers().map(|number| Some(number % 1_000)).collect();
        events.add_columns(vec![Arc::new(keys), Arc::new(times.with_timezone("UTC")), Arc::new(values)]);
    }
    events
}

fn windowed(input: LogicalPlan, slide_seconds: i64) -> LogicalPlan {
    let slide = Slide { width: 10_000_000, slide: slide_seconds * 1_000_000, start: 0 };
    let windows = SlidingWindow::try_new(input, col("ts"), slide, "w").unwrap().into_plan();
    let functions = vec![count(col("v")).alias("n"), max(col("v")).alias("m")];
    LogicalPlanBuilder::from(windows).aggregate(vec![col("w"), col("k")], functions).and_then(LogicalPlanBuilder::build).unwrap()
}

/// What the last values of all windows count, and how many rows were left out as late.
async fn counted(events: &Events, slide_seconds: i64, tasks: usize) -> (i64, u64) {
    let lab = Lab::parallel(tasks);
    let query = lab.start_by(windowed(events.watermarked(5_000), slide_seconds), Update, Trigger::AvailableNow).await.unwrap();
    query.await_termination().await.unwrap();
    let mut last: BTreeMap<(i64, String), i64> = BTreeMap::new();
    for rows in lab.results.all() {
        let windows = rows.column(0).as_struct();
        let starts = windows.column(0).as_primitive::<TimestampMicrosecondType>();
        let (keys, counts) = (rows.column(1).as_string::<i32>(), rows.column(2).as_primitive::<Int64Type>());
        for row in 0..rows.num_rows() {
            last.insert((starts.value(row), keys.value(row).to_owned()), counts.value(row));
        }
    }
    let late = query.recent_progress().iter().map(|progress| progress.millstream.late_rows).sum();
    (last.values().sum(), late)
}

/// The order in which Flink was seen to read eight files of such events, losing five rows of eight without a word.
const ORDER: [i64; 8] = [3, 7, 0, 1, 2, 4, 5, 6];

#[tokio::test(flavor = "multi_thread")]
async fn every_event_counts_at_every_parallelism() {
    let events = events(&ORDER);
    events.take_all_at_once();
    for tasks in [1, 2, 3, 8] {
        assert_eq!(counted(&events, 10, tasks).await, (EVENTS, 0), "{tasks} tasks");
    }
    // Each event is in two windows that overlap.
    assert_eq!(counted(&events, 5, 2).await, (2 * EVENTS, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn file_by_file_every_event_counts_or_is_told_to_be_late() {
    let in_order: Vec<i64> = (0..FILES).collect();
    assert_eq!(counted(&events(&in_order), 10, 2).await, (EVENTS, 0));
    let out_of_order = events(&ORDER);
    let mut all = Vec::new();
    for tasks in [1, 4] {
        let (count, late) = counted(&out_of_order, 10, tasks).await;
        assert!(late > 0);
        assert_eq!(count + i64::try_from(late).unwrap(), EVENTS, "{tasks} tasks");
        all.push((count, late));
    }
    assert_eq!(all[0], all[1]);
}
