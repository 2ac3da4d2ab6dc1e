//! What every sink must do.
//!
//! Each check takes a factory over an outside system that nobody has written yet. Rows have the schema of [`schema`].

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use uuid::Uuid;

use super::{Failures, during, ensure, rows};
use crate::error::Result as CoreResult;
use crate::sink::{Admission, BatchInfo, OutputMode, Part, Sink};

type Check = Result<(), String>;

/// One outside system, and the way to open a sink over it.
#[async_trait]
pub trait SinkFactory: Send + Sync {
    /// Opens the sink as a new process would: the same outside system and options, nothing remembered.
    async fn open(&self) -> CoreResult<Arc<dyn Sink>>;

    /// The rows that a reader of the outside system sees now, with the columns of [`schema`].
    async fn visible(&self) -> CoreResult<Vec<RecordBatch>>;

    /// Whether what was committed is still there for a sink that is opened again.
    fn survives_restart(&self) -> bool {
        true
    }
}

/// The schema of the rows that the checks write: `k string, v long`.
pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("k", DataType::Utf8, true), Field::new("v", DataType::Int64, true)]))
}

/// Runs every check, each over a new factory.
///
/// # Errors
/// The checks that failed.
pub async fn all<F: SinkFactory>(new: impl Fn() -> F) -> Result<(), Failures> {
    let mut failures = Failures::default();
    failures.note("a_committed_batch_is_visible_exactly_once", a_committed_batch_is_visible_exactly_once(&new()).await);
    failures.note("a_second_attempt_changes_nothing", a_second_attempt_changes_nothing(&new()).await);
    failures.note("an_aborted_attempt_is_invisible", an_aborted_attempt_is_invisible(&new()).await);
    failures.note("an_abandoned_attempt_is_invisible", an_abandoned_attempt_is_invisible(&new()).await);
    failures.note("parts_appear_together", parts_appear_together(&new()).await);
    failures.note("batch_ids_may_have_gaps", batch_ids_may_have_gaps(&new()).await);
    failures.note("a_batch_may_be_empty", a_batch_may_be_empty(&new()).await);
    failures.note("a_new_process_goes_on", a_new_process_goes_on(&new()).await);
    failures.into_result()
}

/// What is written is invisible before the commit and visible once after it; further batches add to it.
///
/// # Errors
/// What went wrong.
pub async fn a_committed_batch_is_visible_exactly_once(factory: &dyn SinkFactory) -> Check {
    let sink = open(factory).await?;
    let batch = info(0);
    admits(sink.as_ref(), &batch, Admission::Write).await?;
    let part = write(sink.as_ref(), &batch, 0, &[("a", 1), ("b", 2)]).await?;
    sees(factory, &[], "before the commit").await?;
    let committed = sink.commit(&batch, vec![part]).await.map_err(during("commit"))?;
    ensure(committed.rows == 2, || format!("the commit says {} rows, not 2", committed.rows))?;
    sees(factory, &["a|1", "b|2"], "after the commit").await?;
    commit(sink.as_ref(), 1, &[("a", 1)]).await?;
    sees(factory, &["a|1", "a|1", "b|2"], "after the next batch").await
}

/// A batch that is committed is not admitted again, and an attempt that goes on nevertheless changes nothing.
///
/// # Errors
/// What went wrong.
pub async fn a_second_attempt_changes_nothing(factory: &dyn SinkFactory) -> Check {
    let sink = open(factory).await?;
    let batch = info(0);
    let part = write(sink.as_ref(), &batch, 0, &[("a", 1)]).await?;
    sink.commit(&batch, vec![part.clone()]).await.map_err(during("commit"))?;
    admits(sink.as_ref(), &batch, Admission::AlreadyCommitted).await?;
    // An error is a fair answer to both of these; a change is not.
    drop(sink.commit(&batch, vec![part]).await);
    sees(factory, &["a|1"], "after the same commit again").await?;
    if let Ok(other) = write(sink.as_ref(), &batch, 0, &[("z", 9)]).await {
        drop(sink.commit(&batch, vec![other]).await);
    }
    sees(factory, &["a|1"], "after another attempt").await
}

/// What was aborted is never seen, and the batch can be written again.
///
/// # Errors
/// What went wrong.
pub async fn an_aborted_attempt_is_invisible(factory: &dyn SinkFactory) -> Check {
    let sink = open(factory).await?;
    let batch = info(0);
    let mut writer = sink.writer(&batch, 0).await.map_err(during("writer"))?;
    writer.write(batch_of(&[("x", 1)])).await.map_err(during("write"))?;
    writer.abort().await;
    let part = write(sink.as_ref(), &batch, 0, &[("y", 1)]).await?;
    sink.abort(&batch, vec![part]).await;
    sees(factory, &[], "after aborts").await?;
    admits(sink.as_ref(), &batch, Admission::Write).await?;
    commit(sink.as_ref(), 0, &[("a", 1)]).await?;
    sees(factory, &["a|1"], "after the attempt that was committed").await
}

/// What a dead process staged and never committed is not seen with the attempt that follows.
///
/// # Errors
/// What went wrong.
pub async fn an_abandoned_attempt_is_invisible(factory: &dyn SinkFactory) -> Check {
    let sink = open(factory).await?;
    write(sink.as_ref(), &info(0), 0, &[("dead", 1)]).await?;
    drop(sink);
    let sink = open(factory).await?;
    admits(sink.as_ref(), &info(0), Admission::Write).await?;
    commit(sink.as_ref(), 0, &[("a", 1)]).await?;
    sees(factory, &["a|1"], "after a restart").await
}

/// Parts written by several tasks become visible at one moment.
///
/// # Errors
/// What went wrong.
pub async fn parts_appear_together(factory: &dyn SinkFactory) -> Check {
    let sink = open(factory).await?;
    let batch = info(0);
    let first = write(sink.as_ref(), &batch, 0, &[("a", 1)]).await?;
    sees(factory, &[], "after one part").await?;
    let second = write(sink.as_ref(), &batch, 1, &[("b", 2), ("c", 3)]).await?;
    sees(factory, &[], "after two parts").await?;
    let committed = sink.commit(&batch, vec![first, second]).await.map_err(during("commit"))?;
    ensure(committed.rows == 3, || format!("the commit says {} rows, not 3", committed.rows))?;
    sees(factory, &["a|1", "b|2", "c|3"], "after the commit").await
}

/// Batches that never reach the sink do not matter, and an older batch than the last is not admitted.
///
/// # Errors
/// What went wrong.
pub async fn batch_ids_may_have_gaps(factory: &dyn SinkFactory) -> Check {
    let sink = open(factory).await?;
    for (id, key) in [(3, "a"), (4, "b"), (17, "c"), (42, "d")] {
        admits(sink.as_ref(), &info(id), Admission::Write).await?;
        commit(sink.as_ref(), id, &[(key, 1)]).await?;
    }
    for id in [42, 17, 5] {
        admits(sink.as_ref(), &info(id), Admission::AlreadyCommitted).await?;
    }
    sees(factory, &["a|1", "b|1", "c|1", "d|1"], "after batches with gaps").await
}

/// A batch without parts, or whose parts have no rows, commits and is done.
///
/// # Errors
/// What went wrong.
pub async fn a_batch_may_be_empty(factory: &dyn SinkFactory) -> Check {
    let sink = open(factory).await?;
    let committed = sink.commit(&info(0), vec![]).await.map_err(during("commit of no parts"))?;
    ensure(committed.rows == 0, || format!("a batch without parts has {} rows", committed.rows))?;
    commit(sink.as_ref(), 1, &[]).await?;
    admits(sink.as_ref(), &info(1), Admission::AlreadyCommitted).await?;
    sees(factory, &[], "after empty batches").await?;
    commit(sink.as_ref(), 2, &[("a", 1)]).await?;
    sees(factory, &["a|1"], "after a batch with rows").await
}

/// A sink that was opened again knows what is committed and goes on; through the ten-batch mark of logs that compact.
///
/// # Errors
/// What went wrong.
pub async fn a_new_process_goes_on(factory: &dyn SinkFactory) -> Check {
    if !factory.survives_restart() {
        return Ok(());
    }
    let mut expected = Vec::new();
    for id in 0..25 {
        let sink = open(factory).await?;
        if id > 0 {
            admits(sink.as_ref(), &info(id - 1), Admission::AlreadyCommitted).await?;
        }
        admits(sink.as_ref(), &info(id), Admission::Write).await?;
        commit(sink.as_ref(), id, &[("a", i64::try_from(id).unwrap_or(0))]).await?;
        expected.push(format!("a|{id}"));
    }
    expected.sort_unstable();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    sees(factory, &expected, "after 25 restarts").await
}

fn info(batch_id: u64) -> BatchInfo {
    BatchInfo { query_id: Uuid::from_u128(7), batch_id, mode: OutputMode::Append, schema: schema(), timestamp_ms: 1_704_067_200_000 }
}

fn batch_of(rows: &[(&str, i64)]) -> RecordBatch {
    let keys = Arc::new(rows.iter().map(|(key, _)| Some(*key)).collect::<StringArray>());
    let values = Arc::new(rows.iter().map(|(_, value)| Some(*value)).collect::<Int64Array>());
    RecordBatch::try_new(schema(), vec![keys, values]).unwrap_or_else(|_| RecordBatch::new_empty(schema()))
}

async fn open(factory: &dyn SinkFactory) -> Result<Arc<dyn Sink>, String> {
    let sink = factory.open().await.map_err(during("open"))?;
    sink.prepare(&schema(), OutputMode::Append).await.map_err(during("prepare"))?;
    Ok(sink)
}

async fn admits(sink: &dyn Sink, batch: &BatchInfo, expected: Admission) -> Check {
    let admission = sink.admit(batch).await.map_err(during("admit"))?;
    ensure(admission == expected, || format!("batch {} is answered with {admission:?}, not {expected:?}", batch.batch_id))
}

async fn write(sink: &dyn Sink, batch: &BatchInfo, partition: usize, rows: &[(&str, i64)]) -> Result<Part, String> {
    let mut writer = sink.writer(batch, partition).await.map_err(during("writer"))?;
    if !rows.is_empty() {
        writer.write(batch_of(rows)).await.map_err(during("write"))?;
    }
    let part = writer.finish().await.map_err(during("finish"))?;
    ensure(part.rows == rows.len() as u64, || format!("a part says {} rows, not {}", part.rows, rows.len()))?;
    Ok(part)
}

async fn commit(sink: &dyn Sink, batch_id: u64, rows: &[(&str, i64)]) -> Check {
    let batch = info(batch_id);
    let part = write(sink, &batch, 0, rows).await?;
    sink.commit(&batch, vec![part]).await.map(drop).map_err(during("commit"))
}

async fn sees(factory: &dyn SinkFactory, expected: &[&str], when: &str) -> Check {
    let seen = rows(&factory.visible().await.map_err(during("visible"))?)?;
    ensure(seen == expected, || format!("{when} a reader sees {seen:?}, not {expected:?}"))
}
