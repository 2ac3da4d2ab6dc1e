//! The log, restarts and replays.

use millstream_core::conformance;
use millstream_core::conformance::source::SourceFactory;

use super::*;

#[tokio::test]
async fn the_log_has_the_lines_of_spark() {
    let world = World::new();
    world.put("žluť a", "x", 0);
    world.put("b", "y", 1);
    let mut query = Query::new(world.source(&[("maxFilesPerTrigger", "1")]).await);
    query.batches().await;
    let line = |name: &str, ms: u64, batch: u64| {
        format!(r#"{{"path":"{}","timestamp":{ms},"batchId":{batch}}}"#, world.url(&format!("in/{name}")))
    };
    assert_eq!(world.log.get(0).await.unwrap().unwrap(), [line("žluť%20a", 1_700_000_000_000, 0)]);
    assert_eq!(world.log.get(1).await.unwrap().unwrap(), [line("b", 1_700_000_001_000, 1)]);
}

#[tokio::test]
async fn a_restart_reads_what_is_new_and_nothing_twice() {
    let world = World::new();
    world.put("a", "a", 0);
    let mut query = Query::new(world.source(&[]).await);
    query.batches().await;
    world.put("b", "b", 1);
    let source = world.source(&[]).await;
    source.restore(query.at.as_ref()).await.unwrap();
    let mut restarted = Query { source, ..query };
    assert_eq!(restarted.batches().await, [["b"]]);
    assert_eq!(Query::new(world.anew(&[]).await).batches().await, [["a", "b"]], "a new checkpoint reads everything");
}

#[tokio::test]
async fn files_logged_by_a_run_that_died_come_first() {
    let world = World::new();
    world.put("a", "a", 0);
    let mut query = Query::new(world.source(&[("maxFilesPerTrigger", "1")]).await);
    query.batches().await;
    world.put("b", "b", 1);
    // The log is written, the offset is not.
    query.source.latest_offset(query.at.as_ref(), &ReadLimit::MaxFiles(1)).await.unwrap();
    world.put("c", "c", 2);

    let limited = world.source(&[("maxFilesPerTrigger", "1")]).await;
    limited.restore(query.at.as_ref()).await.unwrap();
    let next = limited.latest_offset(query.at.as_ref(), &ReadLimit::MaxFiles(1)).await.unwrap().unwrap();
    assert_eq!(next.as_json(), r#"{"logOffset":1}"#);
    let mut query = Query { source: limited, ..query };
    assert_eq!(query.batches().await, [["b"], ["c"]]);

    world.put("d", "d", 3);
    query.source.latest_offset(query.at.as_ref(), &ReadLimit::MaxFiles(1)).await.unwrap();
    world.put("e", "e", 4);
    let mut once = Query { source: world.source(&[]).await, ..query };
    assert_eq!(once.batches().await, [["d", "e"]], "without a limit everything is one batch");
}

#[tokio::test]
async fn a_planned_file_that_is_gone_is_skipped_and_reported() {
    let world = World::new();
    let lost = world.put("0", "0", 0);
    world.put("1", "1", 1);
    let mut query = Query::new(world.source(&[]).await);
    query.batches().await;
    std::fs::remove_file(lost).unwrap();
    world.put("2", "2", 2);

    let source = world.source(&[]).await;
    source.restore(query.at.as_ref()).await.unwrap();
    let splits = source.plan(None, query.at.as_ref().unwrap()).await.unwrap();
    assert_eq!(rows_of(&splits, &source.schema(), &["value"], &query.quarantine).await.unwrap(), ["1"]);
    assert_eq!(query.quarantine.reasons(), [("MISSING_FILE".to_owned(), "0".to_owned())]);
    let mut query = Query { source, ..query };
    assert_eq!(query.batches().await, [["2"]]);
}

#[tokio::test]
async fn another_path_on_the_same_checkpoint_is_refused() {
    let world = World::new();
    world.put("a", "a", 0);
    let mut query = Query::new(world.source(&[]).await);
    query.batches().await;
    std::fs::create_dir(world.path("elsewhere")).unwrap();
    let moved = world.open(world.request("elsewhere", &[])).await.unwrap();
    let error = moved.restore(query.at.as_ref()).await.unwrap_err();
    assert_eq!(error.code(), "SOURCE_PATH_CHANGED");
    assert_eq!(moved.plan(None, query.at.as_ref().unwrap()).await.unwrap_err().code(), "SOURCE_PATH_CHANGED");
}

#[tokio::test]
async fn a_log_that_is_behind_the_offsets_is_data_lost() {
    let world = World::new();
    let source = world.source(&[]).await;
    let offset = Offset::from_json(r#"{"logOffset":3}"#).unwrap();
    for error in [source.restore(Some(&offset)).await.unwrap_err(), source.plan(None, &offset).await.unwrap_err()] {
        assert_eq!((error.code(), error.kind()), ("BATCH_METADATA_NOT_FOUND", millstream_core::ErrorKind::DataLost));
    }
}

#[tokio::test]
async fn a_log_written_by_spark_is_read() {
    let world = World::new();
    world.put("old file", "old", 0);
    world.put("new", "new", 1);
    let path = format!("file:{}/in/old%20file", world.dir.path().display());
    world.log.add(0, &[format!(r#"{{"path":"{path}","timestamp":1700000000000,"batchId":0}}"#)]).await.unwrap();
    let at = Offset::from_json(r#"{"logOffset":0}"#).unwrap();
    let source = world.source(&[]).await;
    source.restore(Some(&at)).await.unwrap();
    let mut query = Query { at: Some(at), ..Query::new(source) };
    assert_eq!(query.batches().await, [["new"]]);
}

#[tokio::test]
async fn two_queries_cannot_share_a_log() {
    let world = World::new();
    let (first, second) = (world.source(&[]).await, world.source(&[]).await);
    world.put("a", "a", 0);
    first.latest_offset(None, &all()).await.unwrap();
    world.put("b", "b", 1);
    assert_eq!(second.latest_offset(None, &all()).await.unwrap_err().code(), "CONCURRENT_STREAM_LOG_UPDATE");
}

/// One feed is one file.
struct Fed {
    world: World,
    count: std::sync::atomic::AtomicU64,
    /// Whether every source is the first of its checkpoint.
    anew: bool,
}

#[async_trait]
impl SourceFactory for Fed {
    async fn open(&self) -> Result<Arc<dyn Source>> {
        let log = if self.anew { new_log() } else { self.world.log.clone() };
        self.world.open_with(self.world.request("in", &[]), log).await
    }

    async fn feed(&self) -> Result<()> {
        let at = self.count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.world.put(&format!("file {at}"), &format!("row {at}\nrow {at}b"), at);
        Ok(())
    }

    fn small_limit(&self) -> Option<ReadLimit> {
        Some(ReadLimit::MaxFiles(1))
    }
}

fn fed(anew: bool) -> Fed {
    Fed { world: World::new(), count: 0.into(), anew }
}

#[tokio::test]
async fn the_source_meets_the_conformance_suite() {
    // What one process logged as one batch stays one batch, so limits are tried with a log of their own.
    let failures = conformance::source::all(|| fed(false)).await.err().map(|failures| failures.names()).unwrap_or_default();
    assert!(failures.is_empty() || failures == ["limits_hold_and_admit_something"], "{failures:?}");
    conformance::source::limits_hold_and_admit_something(&fed(true)).await.unwrap();
}

#[tokio::test]
async fn files_that_are_too_old_are_counted() {
    let world = World::new();
    world.put("first", "1", 1_000);
    let mut query = Query::new(world.source(&[("maxFileAge", "10 seconds")]).await);
    assert_eq!(query.batches().await, [["1"]]);
    let count = |source: &Arc<dyn Source>| source.metrics().get("numFilesTooOld").cloned();
    assert_eq!(count(&query.source), None);
    world.put("late", "2", 989);
    world.put("in time", "3", 990);
    assert_eq!(query.batches().await, [["3"]]);
    assert_eq!(count(&query.source).as_deref(), Some("1"));
    // What was read and is too old by now is no loss.
    world.put("new", "4", 2_000);
    assert_eq!(query.batches().await, [["4"]]);
    query.source.latest_offset(query.at.as_ref(), &ReadLimit::AllAvailable).await.unwrap();
    assert_eq!(count(&query.source).as_deref(), Some("1"));
    let restarted = world.source(&[("maxFileAge", "10 seconds")]).await;
    restarted.restore(query.at.as_ref()).await.unwrap();
    restarted.latest_offset(query.at.as_ref(), &ReadLimit::AllAvailable).await.unwrap();
    assert_eq!(count(&restarted).as_deref(), Some("1"));
}
