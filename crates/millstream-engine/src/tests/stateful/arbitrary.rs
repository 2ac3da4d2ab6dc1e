//! Programs that keep state: variables, timers, time to live, initial state, restarts, timeouts.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, StructArray};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, Fields, Int64Type, Schema, SchemaRef, TimeUnit, TimestampMicrosecondType};
use async_trait::async_trait;
use datafusion::common::Column;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::scalar::ScalarValue;
use millstream_core::sink::OutputMode;
use millstream_core::{Error, Result, Trigger};

use super::*;
use crate::stateful::Arbitrary;
use crate::stateful::arbitrary::{
    Emit, GroupBatch, GroupChange, GroupChanges, GroupFunction, GroupTimeout, KeyContext, StateVariable, StatefulProcessor, TimeMode,
    in_process,
};

fn long(name: &str) -> Fields {
    Fields::from(vec![Field::new(name, DataType::Int64, true)])
}

fn number(value: i64) -> ScalarValue {
    ScalarValue::Int64(Some(value))
}

/// Key and text.
fn texts() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("k", DataType::Utf8, true), Field::new("text", DataType::Utf8, true)]))
}

fn say(context: &mut KeyContext<'_>, text: &str) -> Result<()> {
    let key = context.key()?.remove(0).to_string();
    let columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from(vec![key])), Arc::new(StringArray::from(vec![text]))];
    context.emit(RecordBatch::try_new(texts(), columns).unwrap())
}

fn values(rows: &RecordBatch) -> Vec<i64> {
    rows.column(2).as_primitive::<Int64Type>().values().to_vec()
}

/// What a handler of rows does.
type Handle = fn(&mut KeyContext<'_>, &[i64]) -> Result<String>;

/// A processor made of functions.
#[derive(Clone)]
struct Script {
    variables: Vec<StateVariable>,
    rows: Handle,
    timer: Handle,
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Script")
    }
}

impl Script {
    fn new(variables: Vec<StateVariable>, rows: Handle) -> Self {
        Script { variables, rows, timer: |_, _| Ok(String::new()) }
    }
}

impl StatefulProcessor for Script {
    fn variables(&self) -> Vec<StateVariable> {
        self.variables.clone()
    }

    fn handle_rows(&self, context: &mut KeyContext<'_>, rows: &RecordBatch) -> Result<()> {
        let text = (self.rows)(context, &values(rows))?;
        say(context, &text)
    }

    fn handle_timer(&self, context: &mut KeyContext<'_>, at_ms: i64) -> Result<()> {
        let text = (self.timer)(context, &[at_ms])?;
        say(context, &text)
    }

    fn handle_initial_state(&self, context: &mut KeyContext<'_>, rows: &RecordBatch) -> Result<()> {
        let seed = rows.column(1).as_primitive::<Int64Type>().value(0);
        context.value("count")?.set(&[number(seed)])
    }
}

fn node(input: LogicalPlan, script: Script, time_mode: TimeMode, output: OutputMode) -> Arbitrary {
    let schema = texts().as_ref().clone();
    Arbitrary::processor(input, [Column::from_name("k")], in_process(script), (time_mode, output), schema).unwrap()
}

fn plan(input: LogicalPlan, script: Script, time_mode: TimeMode) -> LogicalPlan {
    node(input, script, time_mode, Update).into_plan()
}

fn counter() -> Script {
    Script::new(vec![StateVariable::value("count", long("n"))], |context, rows| {
        let before = context.value("count")?.get()?.map_or(0, |row| i64::try_from(row[0].clone()).unwrap());
        let now = before + rows.len() as i64;
        context.value("count")?.set(&[number(now)])?;
        Ok(now.to_string())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_is_kept_by_key() {
    let events = Events::new("");
    let files: [&[Event]; 3] =
        [&[at("a", 1.0, 1), at("b", 2.0, 2), at("a", 3.0, 3)], &[at("-", 4.0, 4)], &[at("-", 5.0, 5), at("a", 1.0, 1)]];
    let steps = play(&events, plan(events.plan(), counter(), TimeMode::None), Update, &files).await;
    steps[0].is(&["a|2", "b|1"], "none", &[[2, 2, 0, 0]]);
    steps[1].is(&["NULL|1"], "none", &[[3, 1, 0, 0]]);
    steps[2].is(&["NULL|2", "a|3"], "none", &[[3, 2, 0, 0]]);
}

/// v > 0 appends, v = 0 clears, v < 0 puts −v and its successor.
fn lister(ttl_ms: Option<i64>) -> Script {
    let seen = StateVariable::list("seen", long("v"));
    Script::new(vec![StateVariable { ttl_ms, ..seen }], |context, rows| {
        for v in rows {
            match *v {
                0 => context.list("seen")?.clear()?,
                v if v < 0 => context.list("seen")?.set(&[vec![number(-v)], vec![number(1 - v)]])?,
                v => context.list("seen")?.append(&[number(v)])?,
            }
        }
        let rows = context.list("seen")?.get()?;
        Ok(rows.iter().map(|row| row[0].to_string()).collect::<Vec<_>>().join(","))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_keeps_its_order_and_counts_as_one_row() {
    let events = Events::new("");
    let files: [&[Event]; 5] = [
        &[at("a", 1.0, 1), at("a", 1.0, 2)],
        &[at("a", 1.0, 3), at("b", 1.0, 9)],
        &[at("a", 1.0, -7)],
        &[at("a", 1.0, 5)],
        &[at("a", 1.0, 0)],
    ];
    let steps = play(&events, plan(events.plan(), lister(None), TimeMode::None), Update, &files).await;
    steps[0].is(&["a|1,2"], "none", &[[1, 2, 0, 0]]);
    steps[1].is(&["a|1,2,3", "b|9"], "none", &[[2, 2, 0, 0]]);
    steps[2].is(&["a|7,8"], "none", &[[2, 2, 0, 0]]);
    steps[3].is(&["a|7,8,5"], "none", &[[2, 1, 0, 0]]);
    steps[4].is(&["a|"], "none", &[[1, 0, 1, 0]]);
}

/// v > 0 counts v, v < 0 removes −v, v = 0 clears.
fn mapper(ttl_ms: Option<i64>) -> Script {
    let per = StateVariable::map("per", long("v"), long("n"));
    Script::new(vec![StateVariable { ttl_ms, ..per }], |context, rows| {
        for v in rows {
            let mut map = context.map("per")?;
            match *v {
                0 => map.clear()?,
                v if v < 0 => map.remove(&[number(-v)])?,
                v => {
                    let before = map.get(&[number(v)])?.map_or(0, |row| i64::try_from(row[0].clone()).unwrap());
                    map.set(&[number(v)], &[number(before + 1)])?;
                }
            }
        }
        let mut entries: Vec<String> = context.map("per")?.entries()?.iter().map(|(key, row)| format!("{}:{}", key[0], row[0])).collect();
        entries.sort();
        Ok(entries.join(","))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_map_has_rows_by_a_key_of_its_own() {
    let events = Events::new("");
    let files: [&[Event]; 4] = [
        &[at("a", 1.0, 1), at("a", 1.0, 2), at("a", 1.0, 2)],
        &[at("a", 1.0, 1), at("b", 1.0, 9)],
        &[at("a", 1.0, -1)],
        &[at("a", 1.0, 3), at("a", 1.0, 0)],
    ];
    let steps = play(&events, plan(events.plan(), mapper(None), TimeMode::None), Update, &files).await;
    steps[0].is(&["a|1:1,2:2"], "none", &[[2, 3, 0, 0]]);
    steps[1].is(&["a|1:2,2:2", "b|9:1"], "none", &[[3, 2, 0, 0]]);
    steps[2].is(&["a|2:2"], "none", &[[2, 0, 1, 0]]);
    steps[3].is(&["a|"], "none", &[[1, 1, 2, 0]]);
}

/// Registers a timer at v seconds for v > 0, deletes that at −v for v < 0, and lists them.
fn alarms() -> Script {
    let rows: Handle = |context, rows| {
        for v in rows {
            match *v {
                0 => {}
                v if v < 0 => context.delete_timer(-v * 1_000)?,
                v => context.register_timer(v * 1_000)?,
            }
        }
        let pending: Vec<String> = context.timers()?.iter().map(|at| (at / 1_000).to_string()).collect();
        Ok(format!("at {} pending {}", context.watermark_ms() / 1_000, pending.join(",")))
    };
    let timer: Handle = |context, at| Ok(format!("at {} fired {}", context.watermark_ms() / 1_000, at[0] / 1_000));
    Script { timer, ..Script::new(Vec::new(), rows) }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_timer_fires_when_the_watermark_has_reached_it() {
    let events = Events::new("");
    let files: [&[Event]; 6] = [
        &[at("a", 1010.0, 1020), at("a", 1010.0, 1030), at("b", 1010.0, 1020)],
        &[at("x", 1019.0, 0)],
        &[at("x", 1020.0, 0)],
        &[at("a", 1021.0, -1030), at("a", 1021.0, 1025)],
        &[at("x", 1040.0, 1001)],
        &[at("late", 1005.0, 1)],
    ];
    let steps = play(&events, plan(events.watermarked(0), alarms(), TimeMode::EventTime), Update, &files).await;
    steps[0].is(&["a|at 0 pending 1020,1030", "b|at 0 pending 1020"], "00:16:50.000", &[[0, 0, 0, 0]]);
    steps[1].is(&["x|at 1010 pending "], "00:16:59.000", &[[0, 0, 0, 0]]);
    steps[2].is(&["a|at 1020 fired 1020", "b|at 1020 fired 1020", "x|at 1019 pending "], "00:17:00.000", &[[0, 0, 0, 0]]);
    steps[3].is(&["a|at 1020 pending 1025"], "00:17:01.000", &[[0, 0, 0, 0]]);
    // A timer in the past fires in its own batch, after the rows.
    let fired = ["a|at 1040 fired 1025", "x|at 1021 fired 1001", "x|at 1021 pending 1001"];
    steps[4].is(&fired, "00:17:20.000", &[[0, 0, 0, 0]]);
    steps[5].is(&[], "00:17:20.000", &[[0, 0, 0, 1]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_of_the_clock_fires_without_data() {
    let rows: Handle = |context, _| {
        context.register_timer(context.processing_time_ms() + 5)?;
        Ok("set".to_owned())
    };
    let timer: Handle = |context, at| Ok(format!("late by {}", context.processing_time_ms() < at[0]));
    let lab = Lab::new();
    let events = Events::new("");
    let script = Script { timer, ..Script::new(Vec::new(), rows) };
    let query = lab.start(plan(events.plan(), script.clone(), TimeMode::ProcessingTime), Update).await.unwrap();
    events.add(&[at("a", 1.0, 1)]);
    let mut added = lab.step(&query).await.added;
    // The test's clock goes on whenever it is read.
    while added.len() < 2 {
        added.extend(lab.step(&query).await.added);
    }
    added.sort();
    assert_eq!(added, ["a|late by false", "a|set"]);
    query.stop().await;
    // A query that ends with its data does not wait for the clock.
    events.add(&[at("b", 1.0, 1)]);
    let lab = lab.restarted();
    let query = lab.start_by(plan(events.plan(), script, TimeMode::ProcessingTime), Update, Trigger::AvailableNow).await.unwrap();
    query.await_termination().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_outlived_its_time_is_not_seen_and_leaves() {
    for (script, left) in [(lister(Some(1)), "4"), (mapper(Some(1)), "4:1")] {
        let lab = Lab::new();
        let events = Events::new("");
        let query = lab.start(plan(events.plan(), script, TimeMode::ProcessingTime), Update).await.unwrap();
        events.add(&[at("a", 1.0, 1), at("b", 1.0, 3)]);
        assert_eq!(lab.step(&query).await.state[0].1[0], 2);
        events.add(&[at("a", 1.0, 4)]);
        let step = lab.step(&query).await;
        assert_eq!((step.added.as_slice(), step.state[0].1[0]), ([format!("a|{left}")].as_slice(), 1));
        query.stop().await;
    }
}

fn seeds(rows: &[(&str, i64)]) -> LogicalPlan {
    let rows = rows.iter().map(|(k, n)| vec![lit(*k), lit(*n)]).collect();
    let plan = LogicalPlanBuilder::values(rows).unwrap().build().unwrap();
    let columns = plan.schema().columns();
    let named = columns.into_iter().zip(["seed_k", "n"]).map(|(column, name)| datafusion::prelude::col(column).alias(name));
    LogicalPlanBuilder::from(plan).project(named).and_then(LogicalPlanBuilder::build).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_initial_state_is_taken_once() {
    let mut lab = Lab::new();
    let events = Events::new("");
    let mut added = Vec::new();
    for _ in 0..2 {
        let seeded = node(events.plan(), counter(), TimeMode::None, Append)
            .with_initial_state(seeds(&[("a", 10), ("z", 5)]), [Column::from_name("seed_k")])
            .unwrap();
        events.add(&[at("a", 1.0, 1), at("b", 1.0, 1)]);
        events.add(&[at("z", 1.0, 1)]);
        let query = lab.start(seeded.into_plan(), Append).await.unwrap();
        added.push(lab.step(&query).await.added);
        query.stop().await;
        lab = lab.restarted();
    }
    assert_eq!(added, [vec!["a|11", "b|1", "z|6"], vec!["a|12", "b|2", "z|7"]]);
    let other = node(events.plan(), counter(), TimeMode::None, Append).with_initial_state(seeds(&[("a", 1)]), [Column::from_name("n")]);
    assert_eq!(other.unwrap_err().code(), "STATEFUL_PROCESSOR_INITIAL_STATE_KEY_MISMATCH");
}

/// Two variables, of which a run may leave one out.
fn counting(variables: &[StateVariable]) -> Script {
    Script::new(variables.to_vec(), |context, rows| {
        let mut text = Vec::new();
        for name in ["count", "more"] {
            let Ok(mut value) = context.value(name) else { continue };
            let before = value.get()?.map_or(0, |row| i64::try_from(row[0].clone()).unwrap_or(-1));
            value.set(&[number(before + rows.len() as i64)])?;
            text.push(format!("{name}={}", before + rows.len() as i64));
        }
        Ok(text.join(" "))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_variable_that_is_left_out_is_kept_for_later() {
    let (count, more) = (StateVariable::value("count", long("n")), StateVariable::value("more", long("n")));
    let mut lab = Lab::new();
    lab.settings.min_batches_to_retain = Some(2);
    let events = Events::new("");
    let mut added = Vec::new();
    for variables in [vec![count.clone()], vec![count.clone(), more.clone()], vec![count.clone()], vec![more.clone(), count.clone()]] {
        let query = lab.start(plan(events.plan(), counting(&variables), TimeMode::None), Update).await.unwrap();
        // So many that there is a snapshot in between.
        for _ in 0..15 {
            events.add(&[at("a", 1.0, 1)]);
            added.extend(lab.step(&query).await.added.pop());
        }
        query.stop().await;
        lab = lab.restarted();
    }
    let ends: Vec<&str> = added.iter().skip(14).step_by(15).map(String::as_str).collect();
    assert_eq!(ends, ["a|count=15", "a|count=30 more=15", "a|count=45", "a|count=60 more=30"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn state_of_another_shape_is_refused() {
    let text = Fields::from(vec![Field::new("n", DataType::Utf8, true)]);
    let count = || vec![StateVariable::value("count", long("n"))];
    let cases: [(&str, Vec<StateVariable>, TimeMode, OutputMode, Option<&str>); 6] = [
        ("the same", count(), TimeMode::None, Update, None),
        ("another field name", vec![StateVariable::value("count", long("m"))], TimeMode::None, Update, None),
        (
            "another type",
            vec![StateVariable::value("count", text)],
            TimeMode::None,
            Update,
            Some("STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"),
        ),
        (
            "another kind",
            vec![StateVariable::list("count", long("n"))],
            TimeMode::None,
            Update,
            Some("STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE"),
        ),
        ("another time mode", count(), TimeMode::ProcessingTime, Update, Some("STATE_STORE_INVALID_CONFIG_AFTER_RESTART")),
        ("another output mode", count(), TimeMode::None, Append, Some("STATE_STORE_INVALID_CONFIG_AFTER_RESTART")),
    ];
    for (what, variables, time_mode, output, refused) in cases {
        let lab = Lab::new();
        let events = Events::new("");
        events.add(&[at("a", 1.0, 1)]);
        let query = lab.start(plan(events.plan(), counting(&count()), TimeMode::None), Update).await.unwrap();
        lab.step(&query).await;
        query.stop().await;
        let changed = node(events.plan(), counting(&variables), time_mode, output).into_plan();
        let started = lab.restarted().start(changed, output).await;
        assert_eq!(started.err().map(|error| error.code().to_owned()).as_deref(), refused, "{what}");
    }
}

/// Gives out each row's key and its time, moved by v seconds.
#[derive(Debug)]
struct Echo;

fn timed() -> Schema {
    let instant = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    Schema::new(vec![Field::new("k", DataType::Utf8, true), Field::new("ts", instant, true)])
}

impl StatefulProcessor for Echo {
    fn variables(&self) -> Vec<StateVariable> {
        Vec::new()
    }

    fn handle_rows(&self, context: &mut KeyContext<'_>, rows: &RecordBatch) -> Result<()> {
        let by = values(rows);
        let moved = by.iter().zip(rows.column(1).as_primitive::<TimestampMicrosecondType>().values()).map(|(v, ts)| ts + v * 1_000_000);
        let times = arrow::array::TimestampMicrosecondArray::from_iter_values(moved).with_timezone("UTC");
        context.emit(RecordBatch::try_new(Arc::new(timed()), vec![rows.column(0).clone(), Arc::new(times)]).unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn event_time_goes_on_through_a_processor() {
    let events = Events::new("");
    let echo =
        Arbitrary::processor(events.watermarked(0), [Column::from_name("k")], in_process(Echo), (TimeMode::EventTime, Append), timed())
            .unwrap();
    let echo = echo.with_event_time("ts").unwrap().into_plan();
    let windows = LogicalPlanBuilder::from(echo)
        .project(vec![window("ts", 10, Some(0), "w"), datafusion::prelude::col("k")])
        .and_then(|plan| {
            plan.aggregate(vec![datafusion::prelude::col("w")], vec![datafusion::functions_aggregate::expr_fn::count(lit(1)).alias("n")])
        })
        .and_then(LogicalPlanBuilder::build)
        .unwrap();
    let lab = Lab::new();
    let query = lab.start(windows, Append).await.unwrap();
    events.add(&[at("a", 1001.0, 0), at("b", 1002.0, 0)]);
    lab.step(&query).await.is(&[], "00:16:42.000", &[[1, 0, 0, 0], [0, 0, 0, 0]]);
    events.add(&[at("a", 1020.0, 0)]);
    lab.step(&query).await.is(&["1000|1010|2"], "00:17:00.000", &[[1, 0, 1, 0], [0, 0, 0, 0]]);
    events.add(&[at("a", 1040.0, -30)]);
    assert_eq!(query.await_termination().await.unwrap_err().code(), "EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED");

    let without =
        Arbitrary::processor(events.plan(), [Column::from_name("k")], in_process(Echo), (TimeMode::None, Append), timed()).unwrap();
    assert_eq!(without.with_event_time("ts").unwrap_err().code(), "CANNOT_ASSIGN_EVENT_TIME_COLUMN_WITHOUT_WATERMARK");
}

/// Counts rows in its state and sets its timeout v seconds after 1000; v = 0 sets none, v < 0 removes the state. A group that timed out is
/// removed unless it counts more than two.
#[derive(Debug)]
struct Timeouts;

#[async_trait]
impl GroupFunction for Timeouts {
    fn operator_name(&self) -> &'static str {
        "flatMapGroupsWithState"
    }

    async fn call(&self, batch: GroupBatch, emit: &mut Emit<'_>) -> Result<GroupChanges> {
        let before =
            |group: usize| if batch.states.is_valid(group) { batch.states.column(0).as_primitive::<Int64Type>().value(group) } else { 0 };
        let (mut changes, mut counts, mut said) = (Vec::new(), Vec::new(), Vec::new());
        for (group, rows) in batch.groups.iter().enumerate() {
            let count = before(group) + rows.len() as i64;
            let last = if batch.timed_out { 0 } else { values(&batch.rows)[rows.end - 1] };
            let gone = if batch.timed_out { count < 3 } else { last < 0 };
            changes.push(match (gone, batch.timed_out) {
                (true, _) => GroupChange::Removed,
                (false, true) => GroupChange::Kept,
                (false, false) => GroupChange::Written((last > 0).then_some((1000 + last) * 1_000)),
            });
            counts.push((!gone).then_some(count));
            said.push(format!("{}{count}", if batch.timed_out { "timed out " } else { "" }));
        }
        let keys = batch.keys[0].clone();
        emit(RecordBatch::try_new(texts(), vec![keys, Arc::new(StringArray::from(said))]).unwrap())?;
        let nulls = arrow::buffer::NullBuffer::from_iter(counts.iter().map(Option::is_some));
        let states = StructArray::new(long("n"), vec![Arc::new(Int64Array::from(counts))], Some(nulls));
        Ok(GroupChanges { changes, states })
    }
}

fn timeouts(input: LogicalPlan, timeout: GroupTimeout) -> LogicalPlan {
    let schema = texts().as_ref().clone();
    let node = Arbitrary::group_state(input, [Column::from_name("k")], Arc::new(Timeouts), (timeout, Update), (long("n"), schema));
    node.unwrap().into_plan()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_times_out_behind_the_watermark() {
    let lab = Lab::new();
    let events = Events::new("");
    let query = lab.start(timeouts(events.watermarked(0), GroupTimeout::EventTime), Update).await.unwrap();
    let files: [(&[Event], &[&str], &str, [u64; 4]); 6] = [
        (&[at("a", 1005.0, 20), at("b", 1005.0, 0)], &["a|1", "b|1"], "00:16:45.000", [2, 0, 0, 0]),
        (&[at("b", 1020.0, -1)], &["b|2"], "00:17:00.000", [1, 0, 0, 0]),
        (&[at("c", 1021.0, 22), at("c", 1021.0, 22), at("c", 1021.0, 22)], &["a|timed out 1", "c|3"], "00:17:01.000", [1, 0, 1, 0]),
        // Kept as it is, so that it times out again.
        (&[at("d", 1023.0, 0)], &["c|timed out 3", "d|1"], "00:17:03.000", [2, 0, 0, 0]),
        (&[at("c", 1024.0, -1)], &["c|4"], "00:17:04.000", [1, 0, 0, 0]),
        (&[at("e", 1001.0, 1)], &[], "00:17:04.000", [1, 0, 0, 1]),
    ];
    for (file, added, watermark, state) in files {
        events.add(file);
        lab.step(&query).await.is(added, watermark, &[state]);
    }
    query.stop().await;
    let lab = lab.restarted();
    let query = lab.start(timeouts(events.watermarked(0), GroupTimeout::EventTime), Update).await.unwrap();
    events.add(&[at("d", 1025.0, 0)]);
    assert_eq!(lab.step(&query).await.added, ["d|2"]);
    query.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_spark_refuses_of_groups_with_state_is_refused() {
    let events = Events::new("");
    let group = |input: LogicalPlan, timeout, mode| {
        let schema = texts().as_ref().clone();
        let node = Arbitrary::group_state(input, [Column::from_name("k")], Arc::new(Timeouts), (timeout, mode), (long("n"), schema));
        node.unwrap().into_plan()
    };
    let texts_again = |plan: LogicalPlan| distinct(plan, &["k"], false);
    let none = GroupTimeout::None;
    let cases = [
        ("update in append", group(events.plan(), none, Update), Append, Some("_LEGACY_ERROR_TEMP_3102")),
        ("append in update", group(events.plan(), none, Append), Update, Some("_LEGACY_ERROR_TEMP_3102")),
        ("append in append", group(events.plan(), none, Append), Append, None),
        ("complete", group(events.plan(), none, Append), Complete, Some("STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION")),
        ("no watermark", group(events.plan(), GroupTimeout::EventTime, Update), Update, Some("_LEGACY_ERROR_TEMP_3102")),
        (
            "then another operator",
            texts_again(group(events.watermarked(0), GroupTimeout::EventTime, Append)),
            Append,
            Some("_LEGACY_ERROR_TEMP_3102"),
        ),
        ("then another operator, no timeout", texts_again(group(events.plan(), none, Append)), Append, None),
        (
            "a processor, complete",
            plan(events.plan(), counter(), TimeMode::None),
            Complete,
            Some("STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"),
        ),
        ("a processor in another mode", plan(events.plan(), counter(), TimeMode::None), Append, None),
    ];
    for (what, plan, mode, refused) in cases {
        let checked = crate::check::check(&plan, mode);
        assert_eq!(checked.err().map(|error: Error| error.code().to_owned()).as_deref(), refused, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_query_runs_a_processor_too() {
    let lab = Lab::new();
    let rows = seeds(&[("a", 1), ("a", 2), ("b", 3)]);
    let columns = vec![
        datafusion::prelude::col("seed_k").alias("k"),
        lit(ScalarValue::TimestampMicrosecond(Some(0), Some("UTC".into()))).alias("ts"),
        datafusion::prelude::col("n").alias("v"),
    ];
    let rows = LogicalPlanBuilder::from(rows).project(columns).and_then(LogicalPlanBuilder::build).unwrap();
    let (_, found) = lab.session.collect(plan(rows, lister(None), TimeMode::None)).await.unwrap();
    let column: Vec<ArrayRef> = found.iter().map(|rows| rows.column(1).clone()).collect();
    let all = concat(&column.iter().map(AsRef::as_ref).collect::<Vec<_>>()).unwrap();
    let mut texts: Vec<&str> = all.as_string::<i32>().iter().flatten().collect();
    texts.sort_unstable();
    assert_eq!(texts, ["1,2", "3"]);
}
