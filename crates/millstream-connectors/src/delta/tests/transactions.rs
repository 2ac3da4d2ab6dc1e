//! Tables changed row by row: what is in them afterwards, what readers of their changes see, and what happens when writers meet.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int8Array, Int64Array, RecordBatch, StringArray, StructArray};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema};
use millstream_core::sink::{OutputMode, Sink};
use millstream_core::versioned::{
    Alteration, AsOf, BEFORE, CHANGE, Change, FILE, NewTable, Operation, ROW, Reads, Removes, RowChange, Rows, VersionedTable,
    VersionedTables,
};
use millstream_core::{Error, Options};

use super::{Bench, TABLE, TestIds, append, info, rows, rows_of, schema, stage};
use crate::delta::DeltaTables;

fn tables(bench: &Bench) -> DeltaTables {
    DeltaTables::new(bench.storage.clone(), bench.clock.clone(), Arc::new(TestIds))
}

async fn open(bench: &Bench) -> Arc<dyn VersionedTable> {
    tables(bench).open(TABLE, &AsOf::Newest).await.unwrap().unwrap()
}

async fn commit(sink: &dyn Sink, rows: RecordBatch) -> Result<i64, Error> {
    let batch = info(0, OutputMode::Append, rows.schema());
    sink.prepare(&rows.schema(), OutputMode::Append).await?;
    let part = stage(sink, &batch, rows).await?;
    let committed = sink.commit(&batch, vec![part]).await?;
    Ok(committed.metrics.get("deltaVersion").map_or(-1, |version| version.parse().unwrap()))
}

/// Rows with what becomes of each, and the names that they had.
fn tagged(ids: &[i64], changes: &[RowChange], before: bool) -> RecordBatch {
    let plain = rows(ids.iter().copied());
    let mut fields: Vec<Field> = plain.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
    let mut columns: Vec<ArrayRef> = plain.columns().to_vec();
    fields.push(Field::new(CHANGE, DataType::Int8, false));
    columns.push(Arc::new(Int8Array::from(changes.iter().map(|change| change.code()).collect::<Vec<_>>())));
    if before {
        let names: Vec<String> = ids.iter().map(|id| format!("old {id}")).collect();
        let old: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(ids.to_vec())), Arc::new(StringArray::from(names))];
        let old = StructArray::new(schema().fields().clone(), old, None);
        fields.push(Field::new(BEFORE, old.data_type().clone(), false));
        columns.push(Arc::new(old));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

fn changing(operation: &str, files: Vec<usize>, rows: Rows) -> Change {
    Change { operation: Operation::new(operation), removes: Removes::Files(files), reads: Reads::Table, rows, ..Change::default() }
}

async fn create(bench: &Bench, properties: &[(&str, &str)]) {
    let new = NewTable {
        schema: r#"{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},{"name":"name","type":"string","nullable":true,"metadata":{}}]}"#.into(),
        properties: properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        operation: Operation::new("CREATE TABLE"),
        ..NewTable::default()
    };
    let sink = tables(bench).create(TABLE, new, &Options::new()).await.unwrap();
    assert_eq!(commit(sink.as_ref(), rows([])).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_rewritten_in_one_commit() {
    let bench = Bench::new();
    append(bench.sink(&[]).await.as_ref(), 0, [1, 2, 3]).await.unwrap();
    append(bench.sink(&[]).await.as_ref(), 1, [4]).await.unwrap();
    let table = open(&bench).await;
    assert_eq!(table.files().iter().map(|file| file.rows).collect::<Vec<_>>(), [Some(3), Some(1)]);
    let found = table.read(&[0, 1]);
    let read = rows_of(found.scan().await.unwrap(), &found.schema()).await.unwrap();
    let file = read.column_by_name(FILE).unwrap().as_primitive::<Int32Type>().values().to_vec();
    let row = read.column_by_name(ROW).unwrap().as_primitive::<Int64Type>().values().to_vec();
    assert_eq!((file, row), (vec![0, 0, 0, 1], vec![0, 1, 2, 0]));

    let sink = table.change(changing("UPDATE", vec![0], Rows::Tagged)).await.unwrap();
    let changes = [RowChange::Copied, RowChange::Updated, RowChange::Deleted];
    assert_eq!(commit(sink.as_ref(), tagged(&[1, 2, 3], &changes, false)).await.unwrap(), 2);
    assert_eq!(bench.ids().await, [1, 2, 4]);
    assert_eq!(bench.ids_by_delta_rs().await, [1, 2, 4]);
    let newest = table.history(1).await.unwrap().remove(0);
    assert_eq!(newest.operation.as_deref(), Some("UPDATE"));
    assert_eq!((newest.metrics["numUpdatedRows"].as_str(), newest.metrics["numCopiedRows"].as_str()), ("1", "1"));
    // An older version is still there, and can be had back.
    let old = tables(&bench).open(TABLE, &AsOf::Version(1)).await.unwrap().unwrap();
    assert_eq!(old.files().len(), 2);
    open(&bench).await.restore(&AsOf::Version(0)).await.unwrap();
    assert_eq!(bench.ids_by_delta_rs().await, [1, 2, 3]);
    let error = open(&bench).await.restore(&AsOf::Version(99)).await.unwrap_err();
    assert_eq!(error.code(), "DELTA_CANNOT_RESTORE_TABLE_VERSION");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_changes_see_what_happened_to_each_row() {
    let bench = Bench::new();
    create(&bench, &[("delta.enableChangeDataFeed", "true")]).await;
    append(bench.sink(&[]).await.as_ref(), 0, [1, 2, 3]).await.unwrap();
    let table = open(&bench).await;
    assert!(table.facts().records_changes);
    let sink = table.change(changing("MERGE", vec![0], Rows::Tagged)).await.unwrap();
    let changes = [RowChange::Copied, RowChange::Updated, RowChange::Deleted, RowChange::Inserted];
    commit(sink.as_ref(), tagged(&[1, 2, 3, 9], &changes, true)).await.unwrap();
    let everything = Change { removes: Removes::Everything, operation: Operation::new("DELETE"), ..Change::default() };
    let sink = open(&bench).await.change(everything).await.unwrap();
    commit(sink.as_ref(), rows([])).await.unwrap();

    let feed = bench.read(&[("readChangeFeed", "true"), ("startingVersion", "0")]).await.unwrap();
    let ids = feed.column(0).as_primitive::<Int64Type>();
    let (names, kinds) = (feed.column(1).as_string::<i32>(), feed.column(2).as_string::<i32>());
    let versions = feed.column(3).as_primitive::<Int64Type>();
    let mut seen: Vec<String> = (0..feed.num_rows())
        .map(|row| format!("{} {} {} {}", versions.value(row), kinds.value(row), ids.value(row), names.value(row)))
        .collect();
    seen.sort();
    assert_eq!(
        seen,
        [
            "1 insert 1 name 1",
            "1 insert 2 name 2",
            "1 insert 3 name 3",
            "2 delete 3 old 3",
            "2 insert 9 name 9",
            "2 update_postimage 2 name 2",
            "2 update_preimage 2 old 2",
            "3 delete 1 name 1",
            "3 delete 2 name 2",
            "3 delete 9 name 9",
        ]
    );
    let one = bench.read(&[("readChangeFeed", "true"), ("startingVersion", "3"), ("endingVersion", "3")]).await.unwrap();
    assert_eq!(one.num_rows(), 3);
    for (options, code) in [
        (&[("readChangeFeed", "true")][..], "DELTA_NO_START_FOR_CDC_READ"),
        (&[("readChangeFeed", "true"), ("startingVersion", "9")], "DELTA_CDC_START_VERSION_AFTER_LATEST"),
        (&[("readChangeFeed", "true"), ("startingVersion", "2"), ("endingVersion", "1")], "DELTA_INVALID_CDC_RANGE"),
    ] {
        assert_eq!(bench.read(options).await.unwrap_err().code(), code);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_fails_where_another_writer_moved_its_ground() {
    let bench = Bench::new();
    append(bench.sink(&[]).await.as_ref(), 0, [1, 2]).await.unwrap();
    let first = open(&bench).await.change(changing("DELETE", vec![0], Rows::Tagged)).await.unwrap();
    let second = open(&bench).await.change(changing("UPDATE", vec![0], Rows::Tagged)).await.unwrap();
    let blind = open(&bench).await.change(Change { operation: Operation::new("WRITE"), ..Change::default() }).await.unwrap();
    commit(first.as_ref(), tagged(&[1, 2], &[RowChange::Deleted, RowChange::Copied], false)).await.unwrap();
    let lost = commit(second.as_ref(), tagged(&[1, 2], &[RowChange::Copied, RowChange::Updated], false)).await.unwrap_err();
    assert_eq!((lost.code(), lost.sqlstate()), ("DELTA_CONCURRENT_DELETE_DELETE.WITHOUT_HINT", Some("2D521")));
    // Who has read nothing goes behind.
    assert_eq!(commit(blind.as_ref(), rows([5])).await.unwrap(), 2);
    assert_eq!(bench.ids_by_delta_rs().await, [2, 5]);
}

/// Two writers that replace rows of one condition, as `replaceWhere` does, from the same version: the second is told, and takes nothing away
/// that the first has put there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_replaces_what_another_writer_has_replaced_is_told() {
    for (what, replaced, code) in [
        ("the same file", vec![0], "DELTA_CONCURRENT_DELETE_DELETE.WITHOUT_HINT"),
        ("rows that were not there before", vec![], "DELTA_CONCURRENT_APPEND.WITHOUT_HINT"),
    ] {
        let bench = Bench::new();
        append(bench.sink(&[]).await.as_ref(), 0, [1, 2]).await.unwrap();
        append(bench.sink(&[]).await.as_ref(), 1, [9]).await.unwrap();
        let (first, second) = (open(&bench).await, open(&bench).await);
        let first = first.change(changing("WRITE", replaced.clone(), Rows::default())).await.unwrap();
        let second = second.change(changing("WRITE", replaced.clone(), Rows::default())).await.unwrap();
        assert_eq!(commit(first.as_ref(), rows([3])).await.unwrap(), 2, "{what}");
        let mut after = bench.ids().await;
        after.sort_unstable();
        assert!(after.contains(&3) && after.contains(&9), "{what}: {after:?}");
        assert_eq!(commit(second.as_ref(), rows([4])).await.unwrap_err().code(), code, "{what}");
        assert_eq!(bench.ids_by_delta_rs().await, after, "{what}");
    }
}

/// Whole partitions, and whole tables, are replaced as they are when the commit comes: the same as if one writer had begun after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_replaces_whole_partitions_comes_after_whoever_was_first() {
    let bench = Bench::new();
    append(bench.sink(&[("partitionBy", "name")]).await.as_ref(), 0, [1, 2]).await.unwrap();
    let named = |id: i64| {
        let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![id])), Arc::new(StringArray::from(vec!["name 2"]))];
        RecordBatch::try_new(schema(), columns).unwrap()
    };
    let change = || Change { operation: Operation::new("WRITE"), removes: Removes::WrittenPartitions, ..Change::default() };
    let (first, second) = (open(&bench).await.change(change()).await.unwrap(), open(&bench).await.change(change()).await.unwrap());
    commit(first.as_ref(), named(20)).await.unwrap();
    commit(second.as_ref(), named(21)).await.unwrap();
    assert_eq!(bench.ids_by_delta_rs().await, [1, 21]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_altered_and_constraints_bind_who_does_not_check_them() {
    let bench = Bench::new();
    create(&bench, &[]).await;
    let table = open(&bench).await;
    let mut properties = table.facts().properties.clone();
    properties.insert("delta.constraints.positive".into(), "id > 0".into());
    let operation = Operation::new("ADD CONSTRAINT");
    let version = table.alter(Alteration { operation, properties: Some(properties), ..Alteration::default() }).await.unwrap();
    assert_eq!(version, 1);
    let table = open(&bench).await;
    assert_eq!(table.facts().protocol, (1, 3));
    let write = |checked: Vec<String>| Change { operation: Operation::new("WRITE"), checked, ..Change::default() };
    let refused = table.change(write(Vec::new())).await.unwrap();
    let error = commit(refused.as_ref(), rows([1])).await.unwrap_err();
    assert_eq!(error.code(), "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE");
    let taken = table.change(write(vec!["checkConstraints".into()])).await.unwrap();
    assert_eq!(commit(taken.as_ref(), rows([1])).await.unwrap(), 2);
    // Another writer's alteration in between is told.
    let late = Alteration { operation: Operation::new("SET TBLPROPERTIES"), description: Some(Some("x".into())), ..Alteration::default() };
    open(&bench).await.alter(late.clone()).await.unwrap();
    assert_eq!(table.alter(late).await.unwrap_err().code(), "DELTA_METADATA_CHANGED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_that_get_rows_are_replaced() {
    let bench = Bench::new();
    append(bench.sink(&[("partitionBy", "name")]).await.as_ref(), 0, [1, 2, 3]).await.unwrap();
    let change = Change { operation: Operation::new("WRITE"), removes: Removes::WrittenPartitions, ..Change::default() };
    let sink = open(&bench).await.change(change).await.unwrap();
    let new = RecordBatch::try_new(
        schema(),
        vec![Arc::new(Int64Array::from(vec![20, 21])), Arc::new(StringArray::from(vec!["name 2", "name 2"]))],
    );
    commit(sink.as_ref(), new.unwrap()).await.unwrap();
    assert_eq!(bench.ids_by_delta_rs().await, [1, 3, 20, 21]);
    let table = open(&bench).await;
    let bounds = table.bounds("name").unwrap();
    assert_eq!(bounds.min.len(), table.files().len());
}
