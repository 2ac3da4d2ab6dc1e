//! The operator that runs a processor.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::error::Result as DfResult;
use futures::future::{BoxFuture, FutureExt};
use millstream_core::sink::OutputMode;
use millstream_core::watermark::Watermarks;
use millstream_core::{Error, Result};

use super::super::Late;
use super::super::logical::event_time_delay;
use super::super::operator::{Core, Counts, Description};
use super::super::table::{StateTable, TableSchema, Tables, instants};
use super::batch::{ProcessorBatch, ProcessorGroup, ProcessorRuntime};
use super::compatibility::Properties;
use super::groups::Grouped;
use super::output::Output;
use super::state::ProcessorState;
use super::variable::{StateVariable, TimeMode};
use crate::batch_time::BatchTime;
use crate::{from_datafusion, to_datafusion};

/// A processor over planned inputs.
#[derive(Clone, Debug)]
pub(crate) struct Processing {
    pub(crate) runtime: Arc<dyn ProcessorRuntime>,
    pub(crate) time_mode: TimeMode,
    pub(crate) output_mode: OutputMode,
    /// The rows, and the columns of their grouping key.
    pub(crate) input: SchemaRef,
    pub(crate) keys: Vec<usize>,
    /// The rows of the initial state, and the columns of their grouping key.
    pub(crate) initial: Option<(SchemaRef, Vec<usize>)>,
    pub(crate) output: SchemaRef,
    pub(crate) variables: Vec<StateVariable>,
    /// The time of the batch.
    pub(crate) time: BatchTime,
}

impl Processing {
    fn key_fields(&self) -> Vec<FieldRef> {
        self.keys.iter().filter_map(|key| self.input.fields().get(*key)).cloned().collect()
    }

    pub(crate) fn description(&self) -> Description {
        Description {
            name: self.runtime.operator_name(),
            tables: ProcessorState::schemas(&self.key_fields(), &self.variables),
            variant: Properties::of(self).to_text(),
            stores: 1,
        }
    }

    /// The column by which rows are late.
    fn event_time(&self) -> Option<usize> {
        let timed = |field: &FieldRef| event_time_delay(field).is_some();
        (self.time_mode == TimeMode::EventTime).then(|| self.input.fields().iter().position(timed)).flatten()
    }
}

/// Collects the rows of a batch and runs the processor over them.
#[derive(Debug)]
pub(crate) struct ProcessorCore {
    processing: Processing,
    event_time: Option<usize>,
    state: ProcessorState,
    batch: u64,
    rows: Vec<RecordBatch>,
    initial: Vec<RecordBatch>,
    late: u64,
    done: Counts,
}

impl ProcessorCore {
    pub(crate) fn new(processing: Processing, tables: &Tables) -> DfResult<Self> {
        let state = ProcessorState::over(tables.clone(), processing.key_fields(), processing.time_mode, &processing.variables)?;
        Ok(ProcessorCore {
            event_time: processing.event_time(),
            processing,
            state,
            batch: 0,
            rows: Vec::new(),
            initial: Vec::new(),
            late: 0,
            done: Counts::default(),
        })
    }

    fn gather(&mut self) -> DfResult<ProcessorBatch> {
        let Processing { input, keys, initial, .. } = &self.processing;
        let keyed = &self.state.timers.table;
        let rows = Grouped::new(&std::mem::take(&mut self.rows), input, keys, keyed)?;
        let (schema, keys) = initial.as_ref().map_or((input, keys), |(schema, keys)| (schema, keys));
        let initial = Grouped::new(&std::mem::take(&mut self.initial), schema, keys, keyed)?;
        let mut groups = BTreeMap::new();
        let empty = |key| ProcessorGroup { key, rows: 0..0, initial: 0..0 };
        for (key, range) in initial.groups {
            groups.entry(key.clone()).or_insert_with(|| empty(key)).initial = range;
        }
        for (key, range) in rows.groups {
            groups.entry(key.clone()).or_insert_with(|| empty(key)).rows = range;
        }
        Ok(ProcessorBatch { id: self.batch, rows: rows.rows, initial: initial.rows, groups: groups.into_values().collect() })
    }

    async fn run(&mut self, time: Watermarks, emit: &mut (dyn FnMut(RecordBatch) + Send)) -> Result<()> {
        let now_ms = self.processing.time.get();
        self.state.begin(now_ms, time.evict_ms.max(0));
        let batch = self.gather().map_err(from_datafusion)?;
        if !batch.groups.is_empty() || self.state.any_due() {
            let output = Output::new(&self.processing.output, time);
            let runtime = self.processing.runtime.clone();
            runtime.run(batch, &mut self.state, &mut |rows| output.checked(&rows).map(&mut *emit)).await?;
        }
        self.state.expire().map_err(from_datafusion)?;
        self.done = Counts { late: std::mem::take(&mut self.late), ..self.state.counts() };
        Ok(())
    }
}

impl Core for ProcessorCore {
    fn begin(&mut self, batch: u64) {
        self.batch = batch;
    }

    fn reads(&self, input: usize) -> bool {
        input == 0 || self.batch == 0
    }

    fn push(&mut self, input: usize, rows: &RecordBatch, time: Watermarks, _: &mut dyn FnMut(RecordBatch)) -> DfResult<()> {
        if input > 0 {
            self.initial.push(rows.clone());
            return Ok(());
        }
        let times = self.event_time.and_then(|column| rows.columns().get(column)).map(instants).transpose()?;
        match times.and_then(|times| Late::among(&times, time)) {
            Some(late) => {
                self.late += late.count as u64;
                self.rows.push(filter_record_batch(rows, &late.kept)?);
            }
            None => self.rows.push(rows.clone()),
        }
        Ok(())
    }

    fn finish(&mut self, _: Watermarks, _: &mut dyn FnMut(RecordBatch)) -> DfResult<()> {
        Err(to_datafusion(Error::internal("a processor was not waited for")))
    }

    fn waits(&self) -> bool {
        true
    }

    fn finish_waiting<'a>(&'a mut self, time: Watermarks, emit: &'a mut (dyn FnMut(RecordBatch) + Send)) -> BoxFuture<'a, DfResult<()>> {
        async move { self.run(time, emit).await.map_err(to_datafusion) }.boxed()
    }

    fn counts(&self) -> Counts {
        self.done
    }

    fn rows(&mut self) -> u64 {
        self.state.rows()
    }

    fn metrics(&mut self) -> BTreeMap<String, i64> {
        self.state.metrics()
    }

    fn tables(&mut self) -> Vec<&mut StateTable> {
        self.state.tables()
    }

    fn keep(&mut self, table: TableSchema) -> DfResult<bool> {
        self.state.keep(table).map(|()| true)
    }

    fn output_watermark(&self, input_ms: i64) -> Option<i64> {
        (self.processing.time_mode != TimeMode::ProcessingTime).then_some(input_ms)
    }

    fn wants_time_to_pass(&self) -> bool {
        self.processing.time_mode != TimeMode::ProcessingTime && self.processing.output_mode != OutputMode::Complete
    }

    fn due_ms(&self) -> Option<i64> {
        if self.processing.time_mode == TimeMode::ProcessingTime { self.state.timers.first_ms() } else { None }
    }
}
