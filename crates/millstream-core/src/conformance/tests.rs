//! The suites must pass a right connector and catch a wrong one.

use std::sync::{Arc, Mutex};

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use bytes::Bytes;
use futures::executor::block_on;
use futures::{StreamExt, stream};

use super::sink::{SinkFactory, all as check_sink};
use super::source::{SourceFactory, all as check_source};
use crate::error::Result;
use crate::limit::ReadLimit;
use crate::offset::Offset;
use crate::sink::{Admission, BatchInfo, Committed, Guarantee, OutputMode, Part, PartWriter, Sink};
use crate::source::{BatchStream, ReadContext, Source, Split};

/// How a source of numbers goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SourceFault {
    None,
    /// Ignores where a range starts.
    StartsAnew,
    /// Ignores limits.
    NoLimit,
    /// Admits nothing under a limit.
    NothingUnderLimit,
    /// Sees input that came after the end was fixed.
    NotFrozen,
    /// Gives every column whatever was asked for.
    NoProjection,
    /// Counts from what there is when it is opened.
    CountsAnew,
}

#[derive(Debug)]
struct Numbers {
    fault: SourceFault,
    there: Arc<Mutex<i64>>,
    frozen: Mutex<Option<i64>>,
    opened_at: i64,
}

fn number_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true), Field::new("twice", DataType::Int64, true)]))
}

#[derive(Debug)]
struct NumberSplit(Vec<i64>, SourceFault);

impl Split for NumberSplit {
    fn label(&self) -> &str {
        "numbers"
    }

    fn read(&self, context: ReadContext) -> BatchStream {
        let columns = vec![
            Arc::new(Int64Array::from(self.0.clone())) as _,
            Arc::new(Int64Array::from(self.0.iter().map(|n| 2 * n).collect::<Vec<_>>())) as _,
        ];
        let batch = RecordBatch::try_new(number_schema(), columns).unwrap();
        let batch = if self.1 == SourceFault::NoProjection { batch } else { batch.project(&context.projection).unwrap() };
        stream::iter([Ok(batch)]).boxed()
    }
}

fn position(offset: Option<&Offset>) -> Result<i64> {
    offset.map_or(Ok(0), Offset::read)
}

#[async_trait]
impl Source for Numbers {
    fn description(&self) -> String {
        "Numbers".to_owned()
    }

    fn schema(&self) -> SchemaRef {
        number_schema()
    }

    fn supports_available_now(&self) -> bool {
        true
    }

    async fn prepare_available_now(&self) -> Result<()> {
        *self.frozen.lock().unwrap() = Some(*self.there.lock().unwrap());
        Ok(())
    }

    async fn latest_offset(&self, start: Option<&Offset>, limit: &ReadLimit) -> Result<Option<Offset>> {
        let there = *self.there.lock().unwrap();
        let frozen = self.frozen.lock().unwrap().filter(|_| self.fault != SourceFault::NotFrozen);
        let start = position(start)?;
        let mut end = frozen.unwrap_or(there).max(start);
        if let Some(rows) = limit.max_rows() {
            end = match self.fault {
                SourceFault::NoLimit => end,
                SourceFault::NothingUnderLimit => start,
                _ => end.min(start + i64::try_from(rows).unwrap()),
            };
        }
        Offset::of(&end).map(Some)
    }

    async fn plan(&self, start: Option<&Offset>, end: &Offset) -> Result<Vec<Arc<dyn Split>>> {
        let start = if self.fault == SourceFault::StartsAnew { 0 } else { position(start)? };
        let first = if self.fault == SourceFault::CountsAnew { self.opened_at } else { 0 };
        let numbers: Vec<i64> = (start..position(Some(end))?).map(|number| first + number).collect();
        Ok(numbers.chunks(3).map(|chunk| Arc::new(NumberSplit(chunk.to_vec(), self.fault)) as Arc<dyn Split>).collect())
    }

    async fn changed(&self) {}
}

struct NumberFactory(SourceFault, Arc<Mutex<i64>>);

#[async_trait]
impl SourceFactory for NumberFactory {
    async fn open(&self) -> Result<Arc<dyn Source>> {
        let opened_at = *self.1.lock().unwrap();
        Ok(Arc::new(Numbers { fault: self.0, there: self.1.clone(), frozen: Mutex::default(), opened_at }))
    }

    async fn feed(&self) -> Result<()> {
        *self.1.lock().unwrap() += 2;
        Ok(())
    }

    fn small_limit(&self) -> Option<ReadLimit> {
        Some(ReadLimit::MaxRows(1))
    }
}

fn source_failures(fault: SourceFault) -> Vec<&'static str> {
    block_on(check_source(|| NumberFactory(fault, Arc::default()))).err().map(|failures| failures.names()).unwrap_or_default()
}

#[test]
fn a_right_source_passes() {
    assert_eq!(source_failures(SourceFault::None), Vec::<&str>::new());
}

#[test]
fn wrong_sources_are_caught() {
    for (fault, check) in [
        (SourceFault::StartsAnew, "an_empty_range_has_no_rows"),
        (SourceFault::StartsAnew, "offsets_are_contiguous"),
        (SourceFault::NoLimit, "limits_hold_and_admit_something"),
        (SourceFault::NothingUnderLimit, "limits_hold_and_admit_something"),
        (SourceFault::NotFrozen, "available_now_freezes_the_end"),
        (SourceFault::NoProjection, "batches_have_the_projected_schema"),
        (SourceFault::CountsAnew, "plans_the_same_range_in_a_new_process"),
        (SourceFault::CountsAnew, "goes_on_in_a_new_process"),
    ] {
        let failures = source_failures(fault);
        assert!(failures.contains(&check), "{fault:?} fails {failures:?}");
    }
}

/// How a sink goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SinkFault {
    None,
    /// Shows rows as they are written.
    ShowsEarly,
    /// Takes a batch again.
    TakesTwice,
    /// Forgets what it committed when it is opened again.
    ForgetsBatch,
    /// Knows only the newest batch.
    KnowsOne,
    /// Commits the first part only.
    LosesParts,
    /// Aborting leaves the rows.
    KeepsAborted,
}

#[derive(Debug, Default)]
struct World {
    rows: Vec<RecordBatch>,
    newest: Option<u64>,
    staged: Vec<RecordBatch>,
}

#[derive(Debug)]
struct Shelf(SinkFault, Arc<Mutex<World>>);

struct ShelfWriter {
    fault: SinkFault,
    world: Arc<Mutex<World>>,
    rows: Vec<RecordBatch>,
}

#[async_trait]
impl PartWriter for ShelfWriter {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        if matches!(self.fault, SinkFault::ShowsEarly | SinkFault::KeepsAborted) {
            self.world.lock().unwrap().rows.push(rows.clone());
        }
        self.rows.push(rows);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<Part> {
        if self.fault == SinkFault::KeepsAborted {
            let mut world = self.world.lock().unwrap();
            let kept = world.rows.len() - self.rows.len();
            world.rows.truncate(kept);
        }
        let rows = self.rows.iter().map(|rows| rows.num_rows() as u64).sum();
        let mut world = self.world.lock().unwrap();
        let from = world.staged.len();
        world.staged.extend(self.rows);
        Ok(Part { rows, bytes: 0, staged: Bytes::from(format!("{from} {}", world.staged.len())) })
    }
}

#[async_trait]
impl Sink for Shelf {
    fn description(&self) -> String {
        "Shelf".to_owned()
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::ExactlyOnce
    }

    fn supports(&self, _mode: OutputMode) -> bool {
        true
    }

    async fn admit(&self, batch: &BatchInfo) -> Result<Admission> {
        let newest = self.1.lock().unwrap().newest;
        let known = match self.0 {
            SinkFault::TakesTwice => false,
            SinkFault::KnowsOne => newest == Some(batch.batch_id),
            _ => newest.is_some_and(|newest| newest >= batch.batch_id),
        };
        Ok(if known { Admission::AlreadyCommitted } else { Admission::Write })
    }

    async fn writer(&self, _batch: &BatchInfo, _partition: usize) -> Result<Box<dyn PartWriter>> {
        Ok(Box::new(ShelfWriter { fault: self.0, world: self.1.clone(), rows: Vec::new() }))
    }

    async fn commit(&self, batch: &BatchInfo, parts: Vec<Part>) -> Result<Committed> {
        let known = self.admit(batch).await? == Admission::AlreadyCommitted;
        let rows = parts.iter().map(|part| part.rows).sum();
        let mut world = self.1.lock().unwrap();
        if !known && self.0 != SinkFault::ShowsEarly {
            for part in parts.iter().take(if self.0 == SinkFault::LosesParts { 1 } else { usize::MAX }) {
                let range = std::str::from_utf8(&part.staged).unwrap().split_once(' ').unwrap();
                let staged = world.staged[range.0.parse().unwrap()..range.1.parse().unwrap()].to_vec();
                world.rows.extend(staged);
            }
        }
        world.newest = Some(batch.batch_id);
        Ok(Committed { rows, ..Committed::default() })
    }
}

struct ShelfFactory(SinkFault, Arc<Mutex<World>>);

#[async_trait]
impl SinkFactory for ShelfFactory {
    async fn open(&self) -> Result<Arc<dyn Sink>> {
        if self.0 == SinkFault::ForgetsBatch {
            self.1.lock().unwrap().newest = None;
        }
        Ok(Arc::new(Shelf(self.0, self.1.clone())))
    }

    async fn visible(&self) -> Result<Vec<RecordBatch>> {
        Ok(self.1.lock().unwrap().rows.clone())
    }
}

fn sink_failures(fault: SinkFault) -> Vec<&'static str> {
    block_on(check_sink(|| ShelfFactory(fault, Arc::default()))).err().map(|failures| failures.names()).unwrap_or_default()
}

#[test]
fn a_right_sink_passes() {
    assert_eq!(sink_failures(SinkFault::None), Vec::<&str>::new());
}

#[test]
fn wrong_sinks_are_caught() {
    for (fault, check) in [
        (SinkFault::ShowsEarly, "parts_appear_together"),
        (SinkFault::ShowsEarly, "an_abandoned_attempt_is_invisible"),
        (SinkFault::TakesTwice, "a_second_attempt_changes_nothing"),
        (SinkFault::ForgetsBatch, "a_new_process_goes_on"),
        (SinkFault::KnowsOne, "batch_ids_may_have_gaps"),
        (SinkFault::LosesParts, "parts_appear_together"),
        (SinkFault::KeepsAborted, "an_aborted_attempt_is_invisible"),
    ] {
        let failures = sink_failures(fault);
        assert!(failures.contains(&check), "{fault:?} fails {failures:?}");
    }
}
