//! Streaming aggregation: groups with partial states that every batch goes on from.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch};
use arrow::compute::filter;
use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::{HashMap, HashSet};
use datafusion::error::Result as DfResult;
use millstream_core::sink::OutputMode;
use millstream_core::watermark::Watermarks;

use super::accumulate::{Accumulating, Functions};
use super::logical::event_time_delay;
use super::operator::{Core, Counts, Description, refused};
use super::table::{Expiry, PerKey, StateTable, TableSchema, Tables, normalize};
use super::{Late, micros, slices};

/// What an aggregation computes.
#[derive(Clone, Debug)]
pub(crate) struct Aggregation {
    /// The columns of the input that are keys: the first ones. The rest are partial states.
    pub(crate) keys: Vec<FieldRef>,
    pub(crate) functions: Functions,
    /// Keys and results.
    pub(crate) output: SchemaRef,
    pub(crate) mode: OutputMode,
    /// Rows per record batch of the output.
    pub(crate) batch_size: usize,
}

impl Aggregation {
    /// The key whose event time closes a group.
    pub(crate) fn event_time(&self) -> Option<usize> {
        self.keys.iter().position(|key| event_time_delay(key).is_some())
    }

    /// Whether the watermark closes groups.
    pub(crate) fn closes(&self) -> bool {
        self.event_time().is_some() && self.mode != OutputMode::Complete
    }

    /// Its table: groups and their partial states.
    pub(crate) fn table(&self) -> TableSchema {
        // What complete mode keeps never leaves, whatever its watermark.
        let expiry = self.event_time().filter(|_| self.mode != OutputMode::Complete).map_or(Expiry::Never, Expiry::Key);
        TableSchema {
            name: "default".into(),
            key: self.keys.clone(),
            value: self.functions.state_fields().to_vec(),
            expiry,
            per_key: PerKey::One,
            grouped_by: None,
        }
    }

    /// What its state means.
    pub(crate) fn description(&self) -> Description {
        Description { name: "stateStoreSave", tables: vec![self.table()], variant: self.functions.text(), stores: 1 }
    }

    /// Refuses to emit groups when they close where they never do.
    ///
    /// # Errors
    /// `UNSUPPORTED_STREAMING_OPERATOR_WITHOUT_WATERMARK`.
    pub(crate) fn refuse_endless(&self) -> DfResult<()> {
        if self.mode != OutputMode::Append || self.event_time().is_some() {
            return Ok(());
        }
        Err(refused(
            "UNSUPPORTED_STREAMING_OPERATOR_WITHOUT_WATERMARK",
            "append output mode is not supported for aggregate on streaming DataFrames/Datasets without watermark: add withWatermark and \
             group by the event time or a window of it",
        ))
    }

    /// Keys and the results of complete states as rows of the output.
    pub(crate) fn emit(&self, keys: Vec<ArrayRef>, states: &[ArrayRef], rows: usize, emit: &mut dyn FnMut(RecordBatch)) -> DfResult<()> {
        self.emit_results(keys, self.functions.evaluate(states, rows)?, rows, emit)
    }

    /// Keys and results as rows of the output.
    pub(crate) fn emit_results(
        &self,
        keys: Vec<ArrayRef>,
        results: Vec<ArrayRef>,
        rows: usize,
        emit: &mut dyn FnMut(RecordBatch),
    ) -> DfResult<()> {
        let columns = keys.into_iter().chain(results).collect();
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
        let all = RecordBatch::try_new_with_options(self.output.clone(), columns, &options)?;
        let mut from = 0;
        while from < rows {
            let length = self.batch_size.max(1).min(rows - from);
            emit(all.slice(from, length));
            from += length;
        }
        Ok(())
    }
}

/// The groups that the running batch touched.
#[derive(Debug)]
struct Touched {
    /// The position of each group by its encoded key.
    groups: HashMap<Arc<[u8]>, usize>,
    keys: Vec<Arc<[u8]>>,
    expiries: Vec<Option<i64>>,
    accumulating: Accumulating,
}

/// Aggregates.
#[derive(Debug)]
pub(crate) struct AggregateCore {
    aggregation: Aggregation,
    table: StateTable,
    touched: Touched,
    late: HashSet<Box<[u8]>>,
    counts: Counts,
}

impl AggregateCore {
    pub(crate) fn new(aggregation: Aggregation, tables: &Tables) -> DfResult<Self> {
        let table = tables.open(aggregation.table())?;
        let touched = Self::untouched(&aggregation)?;
        Ok(AggregateCore { aggregation, table, touched, late: HashSet::new(), counts: Counts::default() })
    }

    fn untouched(aggregation: &Aggregation) -> DfResult<Touched> {
        let accumulating = aggregation.functions.start()?;
        Ok(Touched { groups: HashMap::new(), keys: Vec::new(), expiries: Vec::new(), accumulating })
    }

    /// Finds the group of each row, and merges what state already has of those that are new in this batch.
    fn group(&mut self, keys: &[ArrayRef], rows: usize, expiries: Option<&Int64Array>) -> DfResult<Vec<usize>> {
        let encoded = self.table.encode_keys(keys, rows)?;
        let known = self.touched.keys.len();
        let mut groups = Vec::with_capacity(rows);
        for (row, key) in encoded.iter().enumerate() {
            let group = match self.touched.groups.get(key) {
                Some(group) => *group,
                None => {
                    let (group, key): (usize, Arc<[u8]>) = (self.touched.keys.len(), key.into());
                    self.touched.groups.insert(key.clone(), group);
                    self.touched.keys.push(key);
                    self.touched.expiries.push(expiries.filter(|expiries| expiries.is_valid(row)).map(|expiries| expiries.value(row)));
                    group
                }
            };
            groups.push(group);
        }
        let (mut found, mut states): (Vec<usize>, Vec<Box<[u8]>>) = (Vec::new(), Vec::new());
        self.table.get_many(slices(self.touched.keys.get(known..).unwrap_or_default()), &mut |index, _, state| {
            found.push(known + index);
            states.push(state.into());
        })?;
        if !found.is_empty() {
            let states = self.table.decode_values(slices(&states))?;
            self.touched.accumulating.merge(&states, &found, self.touched.keys.len())?;
        }
        Ok(groups)
    }
}

impl Core for AggregateCore {
    fn push(&mut self, _: usize, rows: &RecordBatch, time: Watermarks, _: &mut dyn FnMut(RecordBatch)) -> DfResult<()> {
        let width = self.aggregation.keys.len();
        let mut keys = rows.columns().iter().take(width).map(normalize).collect::<DfResult<Vec<_>>>()?;
        let mut states: Vec<ArrayRef> = rows.columns().iter().skip(width).cloned().collect();
        let mut count = rows.num_rows();
        let mut expiries = self.table.expiries(&keys, &[])?;
        if let Some(times) = &expiries
            && let Some(late) = Late::among(times, time)
        {
            let encoded = self.table.encode_keys(&keys, count)?;
            self.late.extend(encoded.iter().enumerate().filter(|(row, _)| late.is(*row)).map(|(_, key)| Box::from(key)));
            let keep = |columns: &[ArrayRef]| columns.iter().map(|column| filter(column, &late.kept)).collect::<Result<Vec<_>, _>>();
            (keys, states) = (keep(&keys)?, keep(&states)?);
            count -= late.count;
            expiries = self.table.expiries(&keys, &[])?;
        }
        if count == 0 {
            return Ok(());
        }
        let groups = self.group(&keys, count, expiries.as_ref())?;
        self.touched.accumulating.merge(&states, &groups, self.touched.keys.len())
    }

    fn finish(&mut self, time: Watermarks, emit: &mut dyn FnMut(RecordBatch)) -> DfResult<()> {
        let mode = self.aggregation.mode;
        self.aggregation.refuse_endless()?;
        let fresh = Self::untouched(&self.aggregation)?;
        let mut touched = std::mem::replace(&mut self.touched, fresh);
        let groups = touched.keys.len();
        // Without groups, accumulators do not even know how many columns their states have.
        let states = if groups > 0 { touched.accumulating.states()? } else { Vec::new() };
        if groups > 0 {
            let encoded = self.table.encode_values(&states, groups)?;
            for ((key, expiry), state) in touched.keys.iter().zip(&touched.expiries).zip(encoded.iter()) {
                self.table.put(key, 0, state, *expiry)?;
            }
        }
        let late = std::mem::take(&mut self.late).len() as u64;
        self.counts = Counts { updated: groups as u64, removed: 0, late };
        if mode == OutputMode::Update && groups > 0 {
            let keys = self.table.decode_keys(slices(&touched.keys))?;
            self.aggregation.emit(keys, &states, groups, emit)?;
        }
        let gone = self.table.expire(micros(time.evict_ms))?;
        self.counts.removed = gone.len() as u64;
        match mode {
            OutputMode::Append if !gone.is_empty() => {
                let rows = self.table.select(&gone)?;
                self.aggregation.emit(rows.keys, &rows.values, gone.len(), emit)
            }
            OutputMode::Complete => self.table.scan(self.aggregation.batch_size.max(1), &mut |rows| {
                let count = rows.subs.len();
                self.aggregation.emit(rows.keys, &rows.values, count, emit)
            }),
            _ => Ok(()),
        }
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn tables(&mut self) -> Vec<&mut StateTable> {
        vec![&mut self.table]
    }

    fn wants_time_to_pass(&self) -> bool {
        self.aggregation.mode != OutputMode::Complete
    }
}
