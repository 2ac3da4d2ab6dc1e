//! What every source must do.
//!
//! Each check takes a factory over an outside system that nobody has read yet.

use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use futures::StreamExt;

use super::{Failures, during, ensure, rows};
use crate::error::{ErrorKind, Result as CoreResult};
use crate::limit::ReadLimit;
use crate::offset::Offset;
use crate::quarantine::Discard;
use crate::source::{ReadContext, Source};

type Check = Result<(), String>;

/// One outside system with one checkpoint, and the way to open a source over them.
#[async_trait]
pub trait SourceFactory: Send + Sync {
    /// Opens the source as a new process would: the same outside system, options and source log, nothing remembered.
    async fn open(&self) -> CoreResult<Arc<dyn Source>>;

    /// Makes more input available, at least one unit of what the source's limits count. Called several times.
    async fn feed(&self) -> CoreResult<()>;

    /// Whether a range can be read again by another process. Without it such a range must fail with [`ErrorKind::DataLost`].
    fn replayable(&self) -> bool {
        true
    }

    /// Whether the rows of two adjoining ranges are those of the range that covers both. Not so where rows carry the start of their range.
    fn ranges_add_up(&self) -> bool {
        true
    }

    /// A limit that admits less than two feeds at once, if the source has one.
    fn small_limit(&self) -> Option<ReadLimit> {
        None
    }
}

/// Runs every check, each over a new factory.
///
/// # Errors
/// The checks that failed.
pub async fn all<F: SourceFactory>(new: impl Fn() -> F) -> Result<(), Failures> {
    let mut failures = Failures::default();
    failures.note("replays_the_same_rows", replays_the_same_rows(&new()).await);
    failures.note("offsets_are_contiguous", offsets_are_contiguous(&new()).await);
    failures.note("plans_the_same_range_in_a_new_process", plans_the_same_range_in_a_new_process(&new()).await);
    failures.note("goes_on_in_a_new_process", goes_on_in_a_new_process(&new()).await);
    failures.note("an_empty_range_has_no_rows", an_empty_range_has_no_rows(&new()).await);
    failures.note("limits_hold_and_admit_something", limits_hold_and_admit_something(&new()).await);
    failures.note("available_now_freezes_the_end", available_now_freezes_the_end(&new()).await);
    failures.note("batches_have_the_projected_schema", batches_have_the_projected_schema(&new()).await);
    failures.into_result()
}

/// Reading one range twice gives the same rows.
///
/// # Errors
/// What went wrong.
pub async fn replays_the_same_rows(factory: &dyn SourceFactory) -> Check {
    let source = open(factory).await?;
    let end = next(factory, source.as_ref(), None).await?;
    let first = read(source.as_ref(), None, &end).await?;
    let second = read(source.as_ref(), None, &end).await?;
    ensure(!first.is_empty(), || format!("the range up to {end} has no rows although there is input"))?;
    ensure(first == second, || format!("the range up to {end} gave {first:?} and then {second:?}"))
}

/// Offsets move on with new input and stay without; the rows of two adjoining ranges are those of the range that covers both.
///
/// # Errors
/// What went wrong.
pub async fn offsets_are_contiguous(factory: &dyn SourceFactory) -> Check {
    let source = open(factory).await?;
    let first = next(factory, source.as_ref(), None).await?;
    let again = latest(source.as_ref(), Some(&first), &ReadLimit::AllAvailable).await?;
    // A source driven by time may have moved on by itself; it must not have gone back.
    let settled = again.ok_or_else(|| format!("the latest offset after {first} is none"))?;
    let second = next(factory, source.as_ref(), Some(&settled)).await?;
    ensure(second != settled, || format!("the offset stays at {settled} although there is new input"))?;
    if !factory.ranges_add_up() {
        return Ok(());
    }
    let mut parts = read(source.as_ref(), None, &settled).await?;
    parts.extend(read(source.as_ref(), Some(&settled), &second).await?);
    parts.sort_unstable();
    let whole = read(source.as_ref(), None, &second).await?;
    ensure(parts == whole, || format!("two ranges gave {parts:?}, the range that covers them {whole:?}"))
}

/// A source that was opened again plans a known range to the same rows, or says that the data is lost.
///
/// # Errors
/// What went wrong.
pub async fn plans_the_same_range_in_a_new_process(factory: &dyn SourceFactory) -> Check {
    let source = open(factory).await?;
    let start = next(factory, source.as_ref(), None).await?;
    let end = next(factory, source.as_ref(), Some(&start)).await?;
    let before = read(source.as_ref(), Some(&start), &end).await?;
    source.stop().await;
    let source = open(factory).await?;
    source.restore(Some(&end)).await.map_err(during("restore"))?;
    match read(source.as_ref(), Some(&start), &end).await {
        Ok(after) if factory.replayable() => {
            ensure(before == after, || format!("the range gave {before:?} and, after a restart, {after:?}"))
        }
        Ok(after) => Err(format!("a range that cannot be read again gave {after:?}")),
        Err(what) if factory.replayable() => Err(what),
        Err(_) => match source.plan(Some(&start), &end).await {
            Err(error) => {
                ensure(error.kind() == ErrorKind::DataLost, || format!("the lost range fails with kind {}: {error}", error.kind()))
            }
            Ok(_) => Ok(()),
        },
    }
}

/// A source that was opened again and told where the checkpoint stands goes on from there: nothing twice, nothing left out.
///
/// # Errors
/// What went wrong.
pub async fn goes_on_in_a_new_process(factory: &dyn SourceFactory) -> Check {
    let source = open(factory).await?;
    let committed = next(factory, source.as_ref(), None).await?;
    let before = read(source.as_ref(), None, &committed).await?;
    source.commit(&committed).await.map_err(during("commit"))?;
    source.stop().await;
    let source = open(factory).await?;
    source.restore(Some(&committed)).await.map_err(during("restore"))?;
    let end = next(factory, source.as_ref(), Some(&committed)).await?;
    ensure(end != committed, || format!("the offset stays at {committed} after a restart although there is new input"))?;
    let after = read(source.as_ref(), Some(&committed), &end).await?;
    ensure(!after.is_empty(), || format!("the range from {committed} to {end} has no rows after a restart"))?;
    if factory.replayable() && factory.ranges_add_up() {
        let mut parts = [before, after].concat();
        parts.sort_unstable();
        let whole = read(source.as_ref(), None, &end).await;
        // Data before a committed offset may be gone (clean-up is a right of the source); if it is there it must agree.
        if let Ok(whole) = whole {
            ensure(parts == whole, || format!("before and after a restart {parts:?}, in one range {whole:?}"))?;
        }
    }
    Ok(())
}

/// A range that ends where it starts has no rows.
///
/// # Errors
/// What went wrong.
pub async fn an_empty_range_has_no_rows(factory: &dyn SourceFactory) -> Check {
    let source = open(factory).await?;
    let end = next(factory, source.as_ref(), None).await?;
    let nothing = read(source.as_ref(), Some(&end), &end).await?;
    ensure(nothing.is_empty(), || format!("the range from {end} to itself gave {nothing:?}"))
}

/// A small limit admits something, and less than everything; batch after batch it reaches the end.
///
/// # Errors
/// What went wrong.
pub async fn limits_hold_and_admit_something(factory: &dyn SourceFactory) -> Check {
    let Some(limit) = factory.small_limit() else { return Ok(()) };
    let source = open(factory).await?;
    for _ in 0..3 {
        factory.feed().await.map_err(during("feed"))?;
    }
    let all = latest(source.as_ref(), None, &ReadLimit::AllAvailable).await?.ok_or("there is input but no offset")?;
    let everything = read(source.as_ref(), None, &all).await?;

    let source = open(factory).await?;
    let mut start: Option<Offset> = None;
    let mut seen = Vec::new();
    for batch in 0.. {
        let end = latest(source.as_ref(), start.as_ref(), &limit).await?;
        let Some(end) = end.filter(|end| start.as_ref() != Some(end)) else { break };
        let part = read(source.as_ref(), start.as_ref(), &end).await?;
        ensure(!part.is_empty(), || format!("a batch under {limit:?} has no rows although there is input"))?;
        ensure(part.len() < everything.len(), || format!("one batch under {limit:?} has all {} rows", part.len()))?;
        ensure(batch <= everything.len(), || format!("more batches than rows under {limit:?}"))?;
        seen.extend(part);
        start = Some(end);
    }
    seen.sort_unstable();
    ensure(seen == everything, || format!("limited batches gave {seen:?} of {everything:?}"))
}

/// After [`Source::prepare_available_now`] new input is not seen, and what was there is.
///
/// # Errors
/// What went wrong.
pub async fn available_now_freezes_the_end(factory: &dyn SourceFactory) -> Check {
    let source = open(factory).await?;
    if !source.supports_available_now() {
        return Ok(());
    }
    factory.feed().await.map_err(during("feed"))?;
    source.prepare_available_now().await.map_err(during("prepare_available_now"))?;
    factory.feed().await.map_err(during("feed"))?;
    let mut start: Option<Offset> = None;
    let mut batches = 0;
    let limit = factory.small_limit().unwrap_or(ReadLimit::AllAvailable);
    while let Some(end) = latest(source.as_ref(), start.as_ref(), &limit).await?.filter(|end| start.as_ref() != Some(end)) {
        start = Some(end);
        batches += 1;
        ensure(batches < 10_000, || "the end keeps moving".to_owned())?;
    }
    let end = start.ok_or("nothing is available although there is input")?;
    let frozen = read(source.as_ref(), None, &end).await?;
    ensure(!frozen.is_empty(), || "nothing is available although there is input".to_owned())?;
    factory.feed().await.map_err(during("feed"))?;
    let later = latest(source.as_ref(), Some(&end), &ReadLimit::AllAvailable).await?;
    ensure(later.as_ref() == Some(&end), || format!("the end was frozen at {end} and moved to {later:?}"))
}

/// Batches have the fields that were asked for, in the order asked for, and as many rows when no column is asked for.
///
/// # Errors
/// What went wrong.
pub async fn batches_have_the_projected_schema(factory: &dyn SourceFactory) -> Check {
    let source = open(factory).await?;
    let end = next(factory, source.as_ref(), None).await?;
    let schema = source.schema();
    let every: Vec<usize> = (0..schema.fields().len()).collect();
    let reversed: Vec<usize> = every.iter().rev().copied().collect();
    let expected = count(&collect(source.as_ref(), None, &end, every.clone()).await?);
    for projection in [every, reversed, vec![0], vec![]] {
        let batches = collect(source.as_ref(), None, &end, projection.clone()).await?;
        let wanted = schema.project(&projection).map_err(|error| format!("projection {projection:?}: {error}"))?;
        for batch in &batches {
            ensure(batch.schema().fields() == wanted.fields(), || {
                format!("projection {projection:?} gave {:?}, not {:?}", batch.schema().fields(), wanted.fields())
            })?;
        }
        ensure(count(&batches) == expected, || format!("projection {projection:?} has {} rows, not {expected}", count(&batches)))?;
    }
    Ok(())
}

async fn open(factory: &dyn SourceFactory) -> Result<Arc<dyn Source>, String> {
    factory.open().await.map_err(during("open"))
}

async fn latest(source: &dyn Source, start: Option<&Offset>, limit: &ReadLimit) -> Result<Option<Offset>, String> {
    source.latest_offset(start, limit).await.map_err(during("latest_offset"))
}

/// Feeds until there is an offset after `start` whose range has rows. Some sources begin with an offset before any row.
async fn next(factory: &dyn SourceFactory, source: &dyn Source, start: Option<&Offset>) -> Result<Offset, String> {
    for _ in 0..3 {
        factory.feed().await.map_err(during("feed"))?;
        if let Some(end) = latest(source, start, &ReadLimit::AllAvailable).await?.filter(|end| start != Some(end))
            && !read(source, start, &end).await?.is_empty()
        {
            return Ok(end);
        }
    }
    Err(format!("no rows after {start:?} although there is new input"))
}

async fn collect(source: &dyn Source, start: Option<&Offset>, end: &Offset, projection: Vec<usize>) -> Result<Vec<RecordBatch>, String> {
    let mut batches = Vec::new();
    for split in source.plan(start, end).await.map_err(during("plan"))? {
        let mut stream = split.read(ReadContext { projection: projection.clone(), batch_size: 7, quarantine: Arc::new(Discard) });
        while let Some(batch) = stream.next().await {
            batches.push(batch.map_err(during("read"))?);
        }
    }
    Ok(batches)
}

async fn read(source: &dyn Source, start: Option<&Offset>, end: &Offset) -> Result<Vec<String>, String> {
    rows(&collect(source, start, end, (0..source.schema().fields().len()).collect()).await?)
}

fn count(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}
