//! Deduplication: the keys seen so far.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, BooleanBufferBuilder, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, FieldRef, SchemaRef, TimeUnit};
use datafusion::common::HashSet;
use datafusion::error::Result as DfResult;
use millstream_core::watermark::Watermarks;

use super::logical::event_time_delay;
use super::operator::{Core, Counts, Description};
use super::table::{Expiry, PerKey, StateTable, TableSchema, Tables, instants, normalize};
use super::{Late, micros};

/// Spark's name of a deduplication.
pub(crate) const DEDUPE: &str = "dedupe";

/// What a deduplication compares.
#[derive(Clone, Debug)]
pub(crate) struct Deduplication {
    pub(crate) schema: SchemaRef,
    /// The columns of the key.
    pub(crate) keys: Vec<usize>,
    /// The names of the key's columns that people know.
    pub(crate) names: Vec<String>,
    /// Whether a key is remembered for the watermark's delay only.
    pub(crate) within_watermark: bool,
}

impl Deduplication {
    /// The column that says when a row is late, and the delay of its watermark.
    fn event_time(&self) -> Option<(usize, i64)> {
        self.schema.fields().iter().enumerate().find_map(|(index, field)| event_time_delay(field).map(|delay| (index, delay)))
    }

    fn table(&self) -> TableSchema {
        let key = self.keys.iter().zip(&self.names).filter_map(|(index, name)| {
            let field = self.schema.fields().get(*index)?.as_ref().clone();
            Some(Arc::new(field.with_name(name)) as FieldRef)
        });
        let key: Vec<FieldRef> = key.collect();
        if self.within_watermark {
            let value = vec![Arc::new(Field::new("expiresAtMicros", DataType::Timestamp(TimeUnit::Microsecond, None), false))];
            return TableSchema { name: "default".into(), key, value, expiry: Expiry::Value(0), per_key: PerKey::One, grouped_by: None };
        }
        let expiry = key.iter().position(|field| event_time_delay(field).is_some()).map_or(Expiry::Never, Expiry::Key);
        TableSchema { name: "default".into(), key, value: Vec::new(), expiry, per_key: PerKey::One, grouped_by: None }
    }

    pub(crate) fn description(&self) -> Description {
        let name = if self.within_watermark { "dedupeWithinWatermark" } else { DEDUPE };
        Description { name, tables: vec![self.table()], variant: String::new(), stores: 1 }
    }
}

/// Lets the first row of each key through.
#[derive(Debug)]
pub(crate) struct DeduplicateCore {
    deduplication: Deduplication,
    event_time: Option<(usize, i64)>,
    table: StateTable,
    running: Counts,
    done: Counts,
}

impl DeduplicateCore {
    pub(crate) fn new(deduplication: Deduplication, tables: &Tables) -> DfResult<Self> {
        let table = tables.open(deduplication.table())?;
        let event_time = deduplication.event_time();
        Ok(DeduplicateCore { deduplication, event_time, table, running: Counts::default(), done: Counts::default() })
    }

    /// The values to remember for these rows.
    fn values(&self, times: Option<&Int64Array>, rows: usize) -> Vec<ArrayRef> {
        if !self.deduplication.within_watermark {
            return Vec::new();
        }
        let delay = micros(self.event_time.map_or(0, |(_, delay)| delay));
        // A row without event time counts as one of 1970, as in Spark.
        let expires = (0..rows).map(|row| match times {
            Some(times) if times.is_valid(row) => times.value(row).saturating_add(delay),
            _ => delay,
        });
        vec![Arc::new(TimestampMicrosecondArray::from_iter_values(expires))]
    }
}

impl Core for DeduplicateCore {
    fn push(&mut self, _: usize, rows: &RecordBatch, time: Watermarks, emit: &mut dyn FnMut(RecordBatch)) -> DfResult<()> {
        let column = self.event_time.and_then(|(index, _)| rows.columns().get(index));
        let mut times = column.map(instants).transpose()?;
        let mut rows = rows.clone();
        if let Some(late) = times.as_ref().and_then(|times| Late::among(times, time)) {
            self.running.late += late.count as u64;
            rows = filter_record_batch(&rows, &late.kept)?;
            times = self.event_time.and_then(|(index, _)| rows.columns().get(index)).map(instants).transpose()?;
        }
        let keys = self.deduplication.keys.iter().filter_map(|index| rows.columns().get(*index));
        let keys = keys.map(normalize).collect::<DfResult<Vec<_>>>()?;
        let values = self.values(times.as_ref(), rows.num_rows());
        let expiries = self.table.expiries(&keys, &values)?;
        let (keys, values) = (self.table.encode_keys(&keys, rows.num_rows())?, self.table.encode_values(&values, rows.num_rows())?);
        // The first row of each key in this batch, then those of them whose keys state does not have.
        let mut seen: HashSet<&[u8]> = HashSet::with_capacity(rows.num_rows());
        let candidates: Vec<(usize, &[u8])> = keys.iter().enumerate().filter(|(_, key)| seen.insert(key)).collect();
        let mut known = vec![false; candidates.len()];
        self.table.get_many(candidates.iter().map(|(_, key)| *key), &mut |index, _, _| {
            if let Some(known) = known.get_mut(index) {
                *known = true;
            }
        })?;
        let mut first = BooleanBufferBuilder::new(rows.num_rows());
        first.append_n(rows.num_rows(), false);
        for ((row, key), _) in candidates.into_iter().zip(known).filter(|(_, known)| !known) {
            let expiry = expiries.as_ref().filter(|expiries| expiries.is_valid(row)).map(|expiries| expiries.value(row));
            self.table.put(key, 0, values.row(row), expiry)?;
            self.running.updated += 1;
            first.set_bit(row, true);
        }
        let first = BooleanArray::new(first.finish(), None);
        if first.has_true() {
            emit(filter_record_batch(&rows, &first)?);
        }
        Ok(())
    }

    fn finish(&mut self, time: Watermarks, _: &mut dyn FnMut(RecordBatch)) -> DfResult<()> {
        self.running.removed = self.table.expire(micros(time.evict_ms))?.len() as u64;
        self.done = std::mem::take(&mut self.running);
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.done
    }

    fn tables(&mut self) -> Vec<&mut StateTable> {
        vec![&mut self.table]
    }
}
