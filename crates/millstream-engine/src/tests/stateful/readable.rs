//! State as tables, and reports about checkpoints.

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::{avg, count, sum};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::prelude::col;
use futures::TryStreamExt;
use millstream_checkpoint::reader::Severity;
use millstream_core::registry::{ReadRequest, SourceProvider};
use millstream_core::sink::OutputMode;
use millstream_core::source::ReadContext;
use millstream_core::{Options, Trigger};

use super::*;
use crate::inspect;
use crate::state_source::{StateMetadataProvider, StateStoreProvider};
use crate::stateful::{Slide, SlidingWindow};

async fn run(lab: &Lab, plan: LogicalPlan, mode: OutputMode) {
    lab.start_by(plan, mode, Trigger::AvailableNow).await.unwrap().await_termination().await.unwrap();
}

/// Two files of a query, one batch each, in output mode update or append.
async fn played(plan: fn(&Events) -> LogicalPlan, mode: OutputMode) -> Lab {
    let (mut lab, events) = (Lab::new(), Events::new(""));
    lab.settings.no_data_batches = false;
    events.add(&[at("a", 1003.0, 5), at("c", 1009.0, 4)]);
    events.add(&[at("a", 1001.0, 1), at("b", 1007.0, 2)]);
    run(&lab, plan(&events), mode).await;
    lab
}

fn provider(lab: &Lab) -> (StateStoreProvider, StateMetadataProvider) {
    let store = lab.store.clone();
    let open = Arc::new(move |_: &str| Ok(Lab::reader_of(store.clone())));
    (StateStoreProvider::new(open.clone()), StateMetadataProvider::new(open))
}

/// The rows that a read gives, as text, sorted; the first line is the columns.
async fn read(provider: &dyn SourceProvider, options: &[(&str, &str)]) -> Result<Vec<String>, String> {
    let options: Options = options.iter().copied().collect();
    let mut request = ReadRequest { schema: None, paths: vec!["ck".to_owned()], options };
    let coded = |error: millstream_core::Error| error.code().to_owned();
    let schema = provider.schema(&request, false).await.map_err(coded)?;
    request.schema = Some(schema.clone());
    let table = provider.table(&request).await.map_err(coded)?;
    let projection: Vec<usize> = (0..schema.fields().len()).collect();
    let mut rows: Vec<RecordBatch> = Vec::new();
    for split in table.scan().await.map_err(coded)? {
        let quarantine = Arc::new(millstream_core::quarantine::Discard);
        let context = ReadContext { projection: projection.clone(), batch_size: 100, quarantine };
        rows.extend(split.read(context).try_collect::<Vec<_>>().await.map_err(coded)?);
    }
    let mut lines: Vec<String> = rows.iter().flat_map(lines_of).collect();
    lines.sort();
    let columns: Vec<String> = schema
        .fields()
        .iter()
        .map(|field| match field.data_type() {
            arrow::datatypes::DataType::Struct(parts) => {
                format!("{}({})", field.name(), parts.iter().map(|part| part.name().as_str()).collect::<Vec<_>>().join(","))
            }
            _ => field.name().clone(),
        })
        .collect();
    lines.insert(0, columns.join(" "));
    Ok(lines)
}

/// The values of each row with spaces between them, those of structs in brackets.
fn lines_of(rows: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let text = |column: &arrow::array::ArrayRef, row: usize| -> String {
        match column.as_struct_opt() {
            Some(parts) if column.is_valid(row) => {
                let parts = parts.columns().iter().map(|part| match part.as_struct_opt() {
                    Some(window) => {
                        let bound = |at: usize| micros_text(window.column(at), row);
                        format!("{}-{}", bound(0), bound(1))
                    }
                    None => micros_text(part, row),
                });
                format!("({})", parts.collect::<Vec<_>>().join(","))
            }
            Some(_) => "null".to_owned(),
            None => ArrayFormatter::try_new(column, &options).unwrap().value(row).to_string(),
        }
    };
    (0..rows.num_rows()).map(|row| rows.columns().iter().map(|column| text(column, row)).collect::<Vec<_>>().join(" ")).collect()
}

/// A value, instants as seconds.
fn micros_text(column: &arrow::array::ArrayRef, row: usize) -> String {
    match column.as_primitive_opt::<arrow::datatypes::TimestampMicrosecondType>() {
        Some(instants) if column.is_valid(row) => (instants.value(row) / 1_000_000).to_string(),
        _ => ArrayFormatter::try_new(column, &FormatOptions::default().with_null("null")).unwrap().value(row).to_string(),
    }
}

fn windowed(input: LogicalPlan, width: i64, slide: i64) -> LogicalPlan {
    let slide = Slide { width: width * 1_000_000, slide: slide * 1_000_000, start: 0 };
    let windows = SlidingWindow::try_new(input, col("ts"), slide, "w").unwrap().into_plan();
    LogicalPlanBuilder::from(windows)
        .aggregate(vec![col("w"), col("k"), col("v") % lit(2_i64)], vec![sum(col("v")), count(col("v")), avg(col("v"))])
        .and_then(LogicalPlanBuilder::build)
        .unwrap()
}

/// Columns and rows as Spark 4.2 gives them for the same queries and files.
#[tokio::test(flavor = "multi_thread")]
async fn table_of_operators() {
    type Plan = fn(&Events) -> LogicalPlan;
    let cases: [(&str, Plan, OutputMode, &[&str]); 6] = [
        (
            "an aggregation",
            |events| windowed(events.watermarked(10_000), 5, 5),
            Update,
            &[
                "key(window,k,_groupingexpression) value(sum,count,count,sum) partition_id",
                "(1000-1005,a,1) (6,2,2,6.0) 0",
                "(1005-1010,b,0) (2,1,1,2.0) 0",
                "(1005-1010,c,0) (4,1,1,4.0) 0",
            ],
        ),
        (
            "a deduplication",
            |events| distinct(events.watermarked(10_000), &["k"], false),
            Append,
            &["key(k) value(__dummy__) partition_id", "(a) (null) 0", "(b) (null) 0", "(c) (null) 0"],
        ),
        (
            "a deduplication within the watermark",
            |events| distinct(events.watermarked(10_000), &["k"], true),
            Append,
            &["key(k) value(expiresAtMicros) partition_id", "(a) (1013000000) 0", "(b) (1017000000) 0", "(c) (1019000000) 0"],
        ),
        (
            "a limit",
            |events| LogicalPlanBuilder::from(events.plan()).limit(0, Some(3)).and_then(LogicalPlanBuilder::build).unwrap(),
            Append,
            &["key(key) value(value) partition_id", "(null) (3) 0"],
        ),
        (
            "sessions",
            |events| sessions(events.watermarked(10_000), 5),
            Append,
            &[
                "key(k,sessionStartTime) value(session_window,k,sum) partition_id",
                "(a,1001) (1001-1008,a,6) 0",
                "(b,1007) (1007-1012,b,2) 0",
                "(c,1009) (1009-1014,c,4) 0",
            ],
        ),
        (
            "slices of windows that overlap",
            |events| windowed(events.watermarked(10_000), 10, 5),
            Update,
            &[
                "key(k,_groupingexpression,slice) value(end,sum,count,count,sum) partition_id",
                "(a,1,1000) (1010,6,2,2,6.0) 0",
                "(b,0,1005) (1015,2,1,1,2.0) 0",
                "(c,0,1005) (1015,4,1,1,4.0) 0",
            ],
        ),
    ];
    for (what, plan, mode, expected) in cases {
        let lab = played(plan, mode).await;
        assert_eq!(read(&provider(&lab).0, &[]).await.unwrap(), expected, "{what}");
    }
}

async fn joined() -> Lab {
    let (left, right) = (Events::new("l"), Events::new("r"));
    let plan = LogicalPlanBuilder::from(left.watermarked(10_000))
        .join_on(right.watermarked(10_000), JoinType::Left, vec![col("lk").eq(col("rk")), col("rts").gt_eq(col("lts"))])
        .and_then(LogicalPlanBuilder::build);
    let mut lab = Lab::new();
    (lab.settings.check_operations, lab.settings.no_data_batches) = (false, false);
    for events in [&left, &right] {
        events.add(&[at("a", 1003.0, 5), at("a", 1009.0, 4)]);
    }
    run(&lab, plan.unwrap(), Append).await;
    lab
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_has_sides_and_stores() {
    let lab = joined().await;
    let (rows, metadata) = provider(&lab);
    let side = ["key(field0) value(lk,lts,lv) partition_id", "(a) (a,1003,5) 0", "(a) (a,1009,4) 0"];
    assert_eq!(read(&rows, &[("joinSide", "left")]).await.unwrap(), side);
    let counts = ["key(field0) value(value) partition_id", "(a) (2) 0"];
    assert_eq!(read(&rows, &[("storeName", "left-keyToNumValues")]).await.unwrap(), counts);
    let numbered = read(&rows, &[("storeName", "right-keyWithIndexToValue")]).await.unwrap();
    assert_eq!(numbered[0], "key(field0,index) value(rk,rts,rv,matched) partition_id");
    let stores: Vec<String> = read(&metadata, &[]).await.unwrap();
    let expected = [
        "operatorId operatorName stateStoreName numPartitions minBatchId maxBatchId operatorProperties _numColsPrefixKey",
        "0 symmetricHashJoin left-keyToNumValues 200 0 0 null 0",
        "0 symmetricHashJoin left-keyWithIndexToValue 200 0 0 null 0",
        "0 symmetricHashJoin right-keyToNumValues 200 0 0 null 0",
        "0 symmetricHashJoin right-keyWithIndexToValue 200 0 0 null 0",
    ];
    assert_eq!(stores, expected);
    for (options, code) in [
        (&[][..], "STDS_FAILED_TO_READ_STATE_SCHEMA"),
        (&[("joinSide", "left"), ("storeName", "left-keyToNumValues")], "STDS_CONFLICT_OPTIONS"),
        (&[("joinSide", "middle")], "STDS_INVALID_OPTION_VALUE.WITH_MESSAGE"),
        (&[("joinSide", "left"), ("readChangeFeed", "true"), ("changeStartBatchId", "0")], "STDS_CONFLICT_OPTIONS"),
    ] {
        assert_eq!(read(&rows, options).await.unwrap_err(), code, "{options:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_changes_and_wrong_options() {
    let lab = played(|events| by_key(events.plan()), Update).await;
    let rows = provider(&lab).0;
    let columns = "key(k) value(sum) partition_id";
    assert_eq!(read(&rows, &[("batchId", "0")]).await.unwrap(), [columns, "(a) (5) 0", "(c) (4) 0"]);
    assert_eq!(read(&rows, &[]).await.unwrap(), [columns, "(a) (6) 0", "(b) (2) 0", "(c) (4) 0"]);
    let feed = [("readChangeFeed", "true"), ("changeStartBatchId", "0")];
    let changes = [
        "batch_id change_type key(k) value(sum) partition_id",
        "0 update (a) (5) 0",
        "0 update (c) (4) 0",
        "1 update (a) (6) 0",
        "1 update (b) (2) 0",
    ];
    assert_eq!(read(&rows, &feed).await.unwrap(), changes);
    let cases: [(&[(&str, &str)], &str); 14] = [
        (&[("batchId", "-1")], "STDS_INVALID_OPTION_VALUE.IS_NEGATIVE"),
        (&[("batchId", "9")], "STDS_COMMITTED_BATCH_UNAVAILABLE"),
        (&[("operatorId", "1")], "STDS_FAILED_TO_READ_STATE_SCHEMA"),
        (&[("operatorId", "-1")], "STDS_INVALID_OPTION_VALUE.IS_NEGATIVE"),
        (&[("operatorId", "x")], "NumberFormatException"),
        (&[("storeName", "other")], "STDS_INVALID_OPTION_VALUE.WITH_MESSAGE"),
        (&[("storeName", "")], "STDS_INVALID_OPTION_VALUE.IS_EMPTY"),
        (&[("joinSide", "left")], "STDS_FAILED_TO_READ_STATE_SCHEMA"),
        (&[("stateVarName", "x")], "STDS_INVALID_OPTION_VALUE.WITH_MESSAGE"),
        (&[("readChangeFeed", "true")], "STDS_REQUIRED_OPTION_UNSPECIFIED"),
        (&[("changeStartBatchId", "0")], "STDS_INVALID_OPTION_VALUE.WITH_MESSAGE"),
        (&[("readChangeFeed", "true"), ("changeStartBatchId", "1"), ("changeEndBatchId", "0")], "STDS_INVALID_OPTION_VALUE.WITH_MESSAGE"),
        (&[("readChangeFeed", "true"), ("changeStartBatchId", "0"), ("batchId", "0")], "STDS_CONFLICT_OPTIONS"),
        (&[("snapshotStartBatchId", "0")], "STDS_REQUIRED_OPTION_UNSPECIFIED"),
    ];
    for (options, code) in cases {
        assert_eq!(read(&rows, options).await.unwrap_err(), code, "{options:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_says_how_far_it_is_and_what_changed() {
    let lab = played(|events| windowed(events.watermarked(10_000), 5, 5), Update).await;
    let reader = lab.reader();
    let report = inspect::describe(&reader, 1).await.unwrap();
    assert_eq!((report.known_batches, report.last_committed, report.batches.len()), (2, Some(1), 1));
    assert_eq!(report.batches[0].watermark_ms, Some(999_000));
    assert_eq!(report.operators[0].name, "stateStoreSave");
    assert_eq!(report.operators[0].tables[0].key[0].0, "window");
    assert!(report.query.unwrap().to_string().contains("window(ts, 5000000"));
    assert_eq!(inspect::verify(&reader).await.unwrap(), []);
    let difference = inspect::difference(&reader, 0, 1).await.unwrap();
    assert_eq!(difference.watermark_ms, (0, 999_000));
    let table = &difference.tables[0];
    assert_eq!((table.put, table.removed), (2, 0));
    assert_eq!(inspect::difference(&reader, 1, 7).await.unwrap_err().code(), "CHECKPOINT_LOG_HOLE");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_checkpoint_is_found() {
    for (what, expected) in [("offsets/0", "offsets"), ("commits/0", "state"), ("state", "state/"), ("metadata", "metadata")] {
        let lab = played(|events| by_key(events.plan()), Update).await;
        let damaged = match what {
            "state" => {
                let first = lab.names("state").await.into_iter().min().unwrap();
                format!("state/{first}")
            }
            other => other.to_owned(),
        };
        lab.remove(&damaged).await;
        let findings = inspect::verify(&lab.reader()).await.unwrap();
        let faults: Vec<_> = findings.iter().filter(|finding| finding.severity == Severity::Fault).collect();
        assert!(faults.iter().any(|fault| fault.place.starts_with(expected)), "{what}: {findings:?}");
    }
    assert_eq!(inspect::verify(&Lab::new().reader()).await.unwrap_err().code(), "CHECKPOINT_NOT_FOUND");
}
