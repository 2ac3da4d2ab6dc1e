//! Following a table.

use millstream_core::registry::SourceContext;
use millstream_core::source::Source;
use millstream_core::source_log::MemorySourceLog;
use millstream_core::{ErrorKind, Offset, ReadLimit};
use object_store::ObjectStoreExt as _;

use super::super::actions::{Add, Commit, CommitInfo};
use super::super::log::TableLog;
use super::*;

async fn open(bench: &Bench, options: &[(&str, &str)]) -> Arc<dyn Source> {
    try_open(bench, options).await.unwrap()
}

async fn try_open(bench: &Bench, options: &[(&str, &str)]) -> Result<Arc<dyn Source>> {
    let provider = bench.sources();
    let mut request = request(options);
    request.schema = Some(provider.schema(&request, true).await?);
    let context = SourceContext { log: Arc::new(MemorySourceLog::default()), clock: bench.clock.clone() };
    provider.source(&request, context).await
}

/// The ids of a range, in the order in which they are read.
async fn range(source: &dyn Source, start: Option<&Offset>, end: &Offset) -> Result<Vec<i64>> {
    let splits = source.plan(start, end).await?;
    if splits.is_empty() {
        return Ok(Vec::new());
    }
    Ok(ids_of(&rows_of(splits, &source.schema()).await?))
}

/// Runs batches until nothing is new, and returns the ids of each.
async fn drain(source: &dyn Source, start: &mut Option<Offset>) -> Result<Vec<Vec<i64>>> {
    let mut batches = Vec::new();
    loop {
        let end = source.latest_offset(start.as_ref(), &source.read_limit()).await?;
        let Some(end) = end.filter(|end| Some(end) != start.as_ref()) else { return Ok(batches) };
        batches.push(range(source, start.as_ref(), &end).await?);
        source.commit(&end).await?;
        *start = Some(end);
    }
}

async fn table_of(bench: &Bench, commits: u64) -> Arc<dyn Sink> {
    let sink = bench.sink(&[]).await;
    for id in 0..commits {
        append(sink.as_ref(), id, [id as i64]).await.unwrap();
    }
    sink
}

async fn table_id(bench: &Bench) -> String {
    super::super::table_info(&bench.storage, TABLE, None).await.unwrap().unwrap().id
}

async fn raw_commit(bench: &Bench, version: u64, commit: Commit) {
    let log = TableLog::open(&bench.storage, TABLE, ErrorKind::SourceUnavailable).unwrap();
    let commit = Commit { info: Some(CommitInfo::new()), ..commit };
    log.put_commit(version, commit.to_bytes().unwrap()).await.unwrap();
}

async fn files(bench: &Bench) -> Vec<Add> {
    let log = TableLog::open(&bench.storage, TABLE, ErrorKind::SourceUnavailable).unwrap();
    let mut files = log.snapshot(None).await.unwrap().unwrap().files().await.unwrap();
    files.sort_by_key(|file| file.modification_time);
    files
}

async fn delete_log(bench: &Bench, versions: std::ops::Range<u64>) {
    for version in versions {
        bench.store.delete(&Path::from(format!("t/_delta_log/{version:020}.json"))).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_first_then_its_changes() {
    let bench = Bench::new();
    let sink = table_of(&bench, 3).await;
    let source = open(&bench, &[("maxFilesPerTrigger", "2")]).await;
    assert_eq!(source.description(), "DeltaSource[memory:///t]");
    assert_eq!(source.read_limit(), ReadLimit::MaxFiles(2));
    let id = table_id(&bench).await;
    let text = |version: u64, index: i64, initial: bool| {
        format!(r#"{{"sourceVersion":1,"reservoirId":"{id}","reservoirVersion":{version},"index":{index},"isStartingVersion":{initial}}}"#)
    };
    let first = source.latest_offset(None, &source.read_limit()).await.unwrap().unwrap();
    assert_eq!(first.as_json(), text(2, 1, true));
    assert_eq!(source.metrics()["numFilesOutstanding"], "1");
    assert_eq!(range(source.as_ref(), None, &first).await.unwrap(), [0, 1]);
    // The end of the table is the beginning of what comes next, even when that is there already.
    append(sink.as_ref(), 3, [3]).await.unwrap();
    let second = source.latest_offset(Some(&first), &source.read_limit()).await.unwrap().unwrap();
    assert_eq!(second.as_json(), text(3, -1, false));
    assert_eq!(range(source.as_ref(), Some(&first), &second).await.unwrap(), [2]);
    let third = source.latest_offset(Some(&second), &source.read_limit()).await.unwrap().unwrap();
    assert_eq!(third.as_json(), text(4, -1, false));
    assert_eq!(range(source.as_ref(), Some(&second), &third).await.unwrap(), [3]);
    assert_eq!(source.latest_offset(Some(&third), &source.read_limit()).await.unwrap(), Some(third.clone()));
    // Another process gives the same rows for the same ranges.
    let restarted = open(&bench, &[("maxFilesPerTrigger", "1")]).await;
    restarted.restore(Some(&third)).await.unwrap();
    assert_eq!(range(restarted.as_ref(), None, &first).await.unwrap(), [0, 1]);
    assert_eq!(range(restarted.as_ref(), Some(&first), &second).await.unwrap(), [2]);
    assert_eq!(range(restarted.as_ref(), Some(&second), &third).await.unwrap(), [3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_table_in_one_batch_can_be_planned_again_from_its_end() {
    let bench = Bench::new();
    let sink = table_of(&bench, 3).await;
    let source = open(&bench, &[]).await;
    let end = source.latest_offset(None, &ReadLimit::AllAvailable).await.unwrap().unwrap();
    append(sink.as_ref(), 3, [3]).await.unwrap();
    for source in [source, open(&bench, &[]).await] {
        assert_eq!(range(source.as_ref(), None, &end).await.unwrap(), [0, 1, 2]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_cut_inside_commits() {
    let bench = Bench::new();
    let sink = bench.sink(&[]).await;
    let batch = info(0, OutputMode::Append, schema());
    append(sink.as_ref(), 0, [0]).await.unwrap();
    let mut start = None;
    let source = open(&bench, &[("maxFilesPerTrigger", "2")]).await;
    assert_eq!(drain(source.as_ref(), &mut start).await.unwrap(), [[0]]);
    let mut parts = Vec::new();
    for task in 1..6 {
        let mut writer = sink.writer(&batch, task).await.unwrap();
        writer.write(rows([task as i64])).await.unwrap();
        parts.push(writer.finish().await.unwrap());
    }
    sink.commit(&info(1, OutputMode::Append, schema()), parts).await.unwrap();
    assert_eq!(drain(source.as_ref(), &mut start).await.unwrap(), [vec![1, 2], vec![3, 4], vec![5]]);
    // A limit in bytes admits the file that crosses it, and always one.
    let bytes = files(&bench).await[0].size;
    for (limit, sizes) in [(1, vec![1, 1, 1, 1, 1, 1]), (bytes + 1, vec![2, 2, 2])] {
        let source = open(&bench, &[("maxBytesPerTrigger", &limit.to_string())]).await;
        let batches = drain(source.as_ref(), &mut None).await.unwrap();
        assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), sizes);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_table_is_waited_for() {
    let bench = Bench::new();
    let sink = bench.sink(&[]).await;
    append(sink.as_ref(), 0, []).await.unwrap();
    let source = open(&bench, &[]).await;
    let mut start = None;
    assert!(drain(source.as_ref(), &mut start).await.unwrap().is_empty() && start.is_none());
    append(sink.as_ref(), 1, [1]).await.unwrap();
    tokio::time::timeout(Duration::from_secs(20), source.changed()).await.unwrap();
    assert_eq!(drain(source.as_ref(), &mut start).await.unwrap(), [[1]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starting_positions() {
    let bench = Bench::new();
    let sink = table_of(&bench, 3).await;
    let from_one = open(&bench, &[("startingVersion", "1")]).await;
    assert_eq!(drain(from_one.as_ref(), &mut None).await.unwrap(), [[1, 2]]);
    // 'latest' is written down before anything follows, so that a crash cannot move it.
    let latest = open(&bench, &[("startingVersion", "latest")]).await;
    let pinned = latest.latest_offset(None, &ReadLimit::AllAvailable).await.unwrap().unwrap();
    append(sink.as_ref(), 3, [3]).await.unwrap();
    let restarted = open(&bench, &[("startingVersion", "latest")]).await;
    assert!(range(restarted.as_ref(), None, &pinned).await.unwrap().is_empty());
    assert_eq!(drain(restarted.as_ref(), &mut Some(pinned)).await.unwrap(), [[3]]);

    let log = TableLog::open(&bench.storage, TABLE, ErrorKind::SourceUnavailable).unwrap();
    tokio::time::sleep(Duration::from_millis(15)).await;
    append(sink.as_ref(), 4, [4]).await.unwrap();
    let time = log.commit_time(4).await.unwrap().unwrap();
    let at = |ms: i64| chrono::DateTime::from_timestamp_millis(ms).unwrap().to_rfc3339();
    let source = open(&bench, &[("startingTimestamp", &at(time))]).await;
    let mut start = None;
    assert_eq!(drain(source.as_ref(), &mut start).await.unwrap(), [[4]]);
    assert_eq!(range(source.as_ref(), None, &start.unwrap()).await.unwrap(), [4]);
    let early = open(&bench, &[("startingTimestamp", "2000-01-01")]).await;
    assert_eq!(drain(early.as_ref(), &mut None).await.unwrap(), [[0, 1, 2, 3, 4]]);

    let beyond = open(&bench, &[("startingVersion", "9")]).await;
    assert_eq!(beyond.latest_offset(None, &ReadLimit::AllAvailable).await.unwrap_err().code(), "DELTA_VERSION_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_do_more_than_append_stop_the_stream_unless_allowed() {
    let bench = Bench::new();
    let sink = table_of(&bench, 1).await;
    let mut start = None;
    drain(open(&bench, &[]).await.as_ref(), &mut start).await.unwrap();
    run(sink.as_ref(), 1, OutputMode::Complete, rows([10, 11])).await.unwrap();
    append(sink.as_ref(), 2, [12]).await.unwrap();

    let error = drain(open(&bench, &[]).await.as_ref(), &mut start.clone()).await.unwrap_err();
    assert_eq!((error.code(), error.sqlstate()), ("DELTA_SOURCE_TABLE_IGNORE_CHANGES", Some("0A000")));
    assert!(error.message().contains("at version 1") && error.message().contains("skipChangeCommits"), "{error}");
    assert!(drain(open(&bench, &[("ignoreDeletes", "true")]).await.as_ref(), &mut start.clone()).await.is_err());
    let ignoring = open(&bench, &[("ignoreChanges", "true")]).await;
    assert_eq!(drain(ignoring.as_ref(), &mut start.clone()).await.unwrap(), [[10, 11, 12]]);
    let skipping = open(&bench, &[("skipChangeCommits", "true")]).await;
    let mut skipped = start.clone();
    assert_eq!(drain(skipping.as_ref(), &mut skipped).await.unwrap(), [[12]]);

    run(sink.as_ref(), 3, OutputMode::Complete, rows([])).await.unwrap();
    let error = drain(open(&bench, &[]).await.as_ref(), &mut skipped.clone()).await.unwrap_err();
    assert_eq!(error.code(), "DELTA_SOURCE_IGNORE_DELETE");
    append(sink.as_ref(), 4, [13]).await.unwrap();
    let ignoring = open(&bench, &[("ignoreDeletes", "true")]).await;
    assert_eq!(drain(ignoring.as_ref(), &mut skipped).await.unwrap(), [[13]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rearranged_files_are_not_news() {
    let bench = Bench::new();
    let sink = table_of(&bench, 2).await;
    let source = open(&bench, &[]).await;
    let mut start = None;
    drain(source.as_ref(), &mut start).await.unwrap();
    let moved = files(&bench).await.remove(0);
    let removed = super::super::actions::Remove { data_change: false, ..moved.removal(1) };
    raw_commit(&bench, 2, Commit { removes: vec![removed], adds: vec![Add { data_change: false, ..moved }], ..Commit::default() }).await;
    let before = start.clone();
    assert!(drain(source.as_ref(), &mut start).await.unwrap().is_empty());
    assert_eq!(start, before, "nothing is planned for it");
    append(sink.as_ref(), 2, [2]).await.unwrap();
    assert_eq!(drain(source.as_ref(), &mut start).await.unwrap(), [[2]]);
    // So many of them move the position on, or the log's retention would overtake it.
    for version in 4..104 {
        raw_commit(&bench, version, Commit::default()).await;
    }
    assert_eq!(drain(source.as_ref(), &mut start).await.unwrap(), [Vec::<i64>::new()]);
    assert!(start.unwrap().as_json().contains(r#""reservoirVersion":104"#));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_can_be_excluded() {
    let bench = Bench::new();
    table_of(&bench, 3).await;
    let excluded = files(&bench).await[1].path.clone();
    let source = open(&bench, &[("excludeRegex", &excluded)]).await;
    assert_eq!(drain(source.as_ref(), &mut None).await.unwrap(), [[0, 2]]);
    let tail = open(&bench, &[("excludeRegex", &excluded), ("startingVersion", "0"), ("maxFilesPerTrigger", "1")]).await;
    assert_eq!(drain(tail.as_ref(), &mut None).await.unwrap(), [[0], [2]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_was_cleaned_up_beyond_the_position_is_data_loss() {
    let bench = Bench::new();
    let sink = bench.sink(&[("checkpointInterval", "4")]).await;
    append(sink.as_ref(), 0, [0]).await.unwrap();
    let mut start = None;
    drain(open(&bench, &[]).await.as_ref(), &mut start).await.unwrap();
    for id in 1..7 {
        append(sink.as_ref(), id, [id as i64]).await.unwrap();
    }
    sink.stop().await;
    let whole = open(&bench, &[]).await.latest_offset(start.as_ref(), &ReadLimit::AllAvailable).await.unwrap().unwrap();
    delete_log(&bench, 0..4).await;

    let source = open(&bench, &[]).await;
    let error = drain(source.as_ref(), &mut start.clone()).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("DELTA_MISSING_FILES_UNEXPECTED_VERSION", ErrorKind::DataLost));
    assert!(error.message().contains("version 1") && error.message().contains("is 4"), "{error}");
    assert_eq!(range(source.as_ref(), start.as_ref(), &whole).await.unwrap_err().kind(), ErrorKind::DataLost);
    let lenient = open(&bench, &[("failOnDataLoss", "false")]).await;
    assert_eq!(range(lenient.as_ref(), start.as_ref(), &whole).await.unwrap(), [4, 5, 6]);
    assert_eq!(drain(lenient.as_ref(), &mut start.clone()).await.unwrap(), [[4, 5, 6]]);

    // All commits up to a checkpoint may be gone, with none after it.
    delete_log(&bench, 4..7).await;
    let error = drain(open(&bench, &[]).await.as_ref(), &mut start).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataLost);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clean_up_while_a_stream_runs_is_noticed() {
    let bench = Bench::new();
    let sink = bench.sink(&[("checkpointInterval", "4")]).await;
    append(sink.as_ref(), 0, [0]).await.unwrap();
    let source = open(&bench, &[]).await;
    let mut start = None;
    drain(source.as_ref(), &mut start).await.unwrap();
    for id in 1..6 {
        append(sink.as_ref(), id, [id as i64]).await.unwrap();
    }
    sink.stop().await;
    delete_log(&bench, 0..4).await;
    bench.clock.0.fetch_add(120_000, Ordering::Relaxed);
    assert_eq!(drain(source.as_ref(), &mut start).await.unwrap_err().kind(), ErrorKind::DataLost);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_up_in_the_middle_of_the_first_table_is_data_loss() {
    for (with_checkpoint, lost) in [(false, true), (true, false)] {
        let bench = Bench::new();
        let sink = bench.sink(&[("checkpointInterval", "2")]).await;
        for id in 0..3 {
            append(sink.as_ref(), id, [id as i64]).await.unwrap();
            sink.stop().await;
        }
        let source = open(&bench, &[("maxFilesPerTrigger", "1")]).await;
        let first = source.latest_offset(None, &source.read_limit()).await.unwrap().unwrap();
        for id in 3..5 {
            append(sink.as_ref(), id, [id as i64]).await.unwrap();
            sink.stop().await;
        }
        delete_log(&bench, 0..3).await;
        if !with_checkpoint {
            bench.store.delete(&Path::from("t/_delta_log/00000000000000000002.checkpoint.parquet")).await.unwrap();
        }
        let restarted = open(&bench, &[("maxFilesPerTrigger", "1")]).await;
        let outcome = drain(restarted.as_ref(), &mut Some(first.clone())).await;
        if lost {
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::DataLost);
            let lenient = open(&bench, &[("failOnDataLoss", "false")]).await;
            assert_eq!(drain(lenient.as_ref(), &mut Some(first)).await.unwrap(), [vec![], vec![3, 4]]);
        } else {
            assert_eq!(outcome.unwrap(), [[1], [2], [3], [4]]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_file_that_is_gone_is_data_loss() {
    let bench = Bench::new();
    table_of(&bench, 1).await;
    let source = open(&bench, &[]).await;
    let end = source.latest_offset(None, &ReadLimit::AllAvailable).await.unwrap().unwrap();
    bench.store.delete(&Path::from(format!("t/{}", files(&bench).await[0].path))).await.unwrap();
    let error = range(source.as_ref(), None, &end).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("DELTA_FILE_NOT_FOUND_DETAILED", ErrorKind::DataLost));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_schema_stops_the_stream_and_a_restart_goes_on() {
    let bench = Bench::new();
    table_of(&bench, 1).await;
    let source = open(&bench, &[]).await;
    let mut start = None;
    drain(source.as_ref(), &mut start).await.unwrap();
    let sink = bench.sink(&[("mergeSchema", "true")]).await;
    for id in 1..3_i64 {
        let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![id])), Arc::new(StringArray::from(vec!["x"]))];
        let fields = vec![Field::new("id", DataType::Int64, true), Field::new(format!("extra{id}"), DataType::Utf8, true)];
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
        run(sink.as_ref(), id as u64, OutputMode::Append, batch).await.unwrap();
    }
    let error = drain(source.as_ref(), &mut start.clone()).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("DELTA_SCHEMA_CHANGED_WITH_VERSION", ErrorKind::SchemaMismatch));
    assert!(error.message().contains("restart") && error.message().contains("extra1"), "{error}");
    let restarted = open(&bench, &[]).await;
    assert_eq!(restarted.schema().fields().len(), 4);
    assert_eq!(drain(restarted.as_ref(), &mut start.clone()).await.unwrap(), [[1, 2]]);

    // A replacement that cannot be read as the new schema stops even the restarted query.
    let sink = bench.sink(&[("overwriteSchema", "true"), ("txnAppId", "other")]).await;
    let text = one_column("id", Arc::new(StringArray::from(vec!["x"])));
    run(sink.as_ref(), 0, OutputMode::Complete, text).await.unwrap();
    let restarted = open(&bench, &[("skipChangeCommits", "true")]).await;
    assert_eq!(drain(restarted.as_ref(), &mut start).await.unwrap_err().kind(), ErrorKind::SchemaMismatch);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_table_at_the_same_place_is_refused() {
    let bench = Bench::new();
    table_of(&bench, 1).await;
    let mut start = None;
    drain(open(&bench, &[]).await.as_ref(), &mut start).await.unwrap();
    let all: Vec<_> = bench.store.list(None).try_collect().await.unwrap();
    for object in all {
        bench.store.delete(&object.location).await.unwrap();
    }
    table_of(&bench, 1).await;
    let source = open(&bench, &[]).await;
    let error = source.restore(start.as_ref()).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE", ErrorKind::CheckpointIncompatible));
    assert!(drain(source.as_ref(), &mut start).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn available_now_ends_where_the_table_ended() {
    let bench = Bench::new();
    let sink = table_of(&bench, 2).await;
    let source = open(&bench, &[("maxFilesPerTrigger", "1")]).await;
    assert!(source.supports_available_now());
    let mut start = None;
    drain(source.as_ref(), &mut start).await.unwrap();
    append(sink.as_ref(), 2, [2]).await.unwrap();
    append(sink.as_ref(), 3, [3]).await.unwrap();
    let now = open(&bench, &[("maxFilesPerTrigger", "1")]).await;
    now.restore(start.as_ref()).await.unwrap();
    now.prepare_available_now().await.unwrap();
    append(sink.as_ref(), 4, [4]).await.unwrap();
    assert_eq!(drain(now.as_ref(), &mut start).await.unwrap(), [[2], [3]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_commit_wakes_the_stream() {
    // In memory there are no file events; on disk there are.
    let folder = tempfile::tempdir().unwrap();
    let local: Arc<dyn ObjectStore> = Arc::new(object_store::local::LocalFileSystem::new());
    let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    for (store, path) in [(memory, TABLE.to_owned()), (local, folder.path().join("t x").to_str().unwrap().to_owned())] {
        let (storage, clock) = (storage_over(store), TestClock::start());
        let sinks = DeltaSinkProvider::new(storage.clone(), clock.clone(), Arc::new(TestIds));
        let sink = sinks.sink(&WriteRequest { path: Some(path.clone()), ..WriteRequest::default() }).await.unwrap();
        append(sink.as_ref(), 0, [0]).await.unwrap();
        let provider = DeltaSourceProvider::new(storage);
        let request = ReadRequest { paths: vec![path.clone()], ..ReadRequest::default() };
        let context = SourceContext { log: Arc::new(MemorySourceLog::default()), clock };
        let source = provider.source(&request, context).await.unwrap();
        let mut start = None;
        source.changed().await;
        drain(source.as_ref(), &mut start).await.unwrap();
        let waiting = tokio::spawn({
            let source = source.clone();
            async move { source.changed().await }
        });
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert!(!waiting.is_finished(), "nothing is new yet in {path}");
        append(sink.as_ref(), 1, [1]).await.unwrap();
        tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap().unwrap();
        assert_eq!(drain(source.as_ref(), &mut start).await.unwrap(), [[1]]);
        source.stop().await;
    }
}
