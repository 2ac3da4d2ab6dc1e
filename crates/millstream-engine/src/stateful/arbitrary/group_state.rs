//! Groups with state: a function that is called with the rows of a key and one state of the key, and again when the key times out. Spark's
//! `applyInPandasWithState` and `flatMapGroupsWithState`.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StructArray, TimestampMicrosecondArray};
use arrow::buffer::NullBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, SchemaRef};
use async_trait::async_trait;
use datafusion::error::Result as DfResult;
use futures::future::{BoxFuture, FutureExt};
use millstream_core::sink::OutputMode;
use millstream_core::watermark::Watermarks;
use millstream_core::{Error, Result};

use super::super::logical::event_time_delay;
use super::super::operator::{Core, Counts, Description};
use super::super::table::{Expiry, PerKey, StateTable, TableSchema, Tables, instants};
use super::super::{Late, micros};
use super::batch::Emit;
use super::groups::Grouped;
use super::output::Output;
use super::state::GroupKey;
use super::variable::instant;
use crate::batch_time::BatchTime;
use crate::{from_datafusion, to_datafusion};

/// What ends the wait for rows of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupTimeout {
    /// Nothing.
    #[default]
    None,
    /// The time of a batch has passed the timeout.
    ProcessingTime,
    /// The watermark has passed the timeout.
    EventTime,
}

impl GroupTimeout {
    /// Reads Spark's names.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "NoTimeout" => Some(GroupTimeout::None),
            "ProcessingTimeTimeout" => Some(GroupTimeout::ProcessingTime),
            "EventTimeTimeout" => Some(GroupTimeout::EventTime),
            _ => None,
        }
    }
}

impl fmt::Display for GroupTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GroupTimeout::None => "NoTimeout",
            GroupTimeout::ProcessingTime => "ProcessingTimeTimeout",
            GroupTimeout::EventTime => "EventTimeTimeout",
        })
    }
}

/// Groups that a function is called with.
#[derive(Debug)]
pub struct GroupBatch {
    /// The rows, key by key; none when the groups have timed out.
    pub rows: RecordBatch,
    /// Which of the rows belong to each group.
    pub groups: Vec<Range<usize>>,
    /// The grouping columns, one row for each group.
    pub keys: Vec<ArrayRef>,
    /// The state of each group, null where it has none.
    pub states: StructArray,
    /// Whether the groups are called because they timed out.
    pub timed_out: bool,
    /// The time of the batch, milliseconds since the epoch.
    pub processing_time_ms: i64,
    /// The watermark of the batch, milliseconds since the epoch.
    pub watermark_ms: i64,
    /// Whether the rows have event time.
    pub has_watermark: bool,
    /// What ends the wait for rows.
    pub timeout: GroupTimeout,
}

/// What becomes of the state of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupChange {
    /// State and timeout stay as they are.
    Kept,
    /// Both are forgotten.
    Removed,
    /// The group gets the state given for it, and this timeout (milliseconds since the epoch).
    Written(Option<i64>),
}

/// What a call did to the states of its groups.
#[derive(Debug)]
pub struct GroupChanges {
    /// For each group in the order of the call.
    pub changes: Vec<GroupChange>,
    /// The state of each group, null where it has none; looked at only where it is written.
    pub states: StructArray,
}

/// Calls a function for groups, wherever its code is.
#[async_trait]
pub trait GroupFunction: Debug + Send + Sync {
    /// The operator's name in progress reports.
    fn operator_name(&self) -> &'static str;

    /// Calls the function for every group.
    ///
    /// # Errors
    /// Those of the function.
    async fn call(&self, batch: GroupBatch, emit: &mut Emit<'_>) -> Result<GroupChanges>;
}

/// A function over planned input.
#[derive(Clone, Debug)]
pub(crate) struct Grouping {
    pub(crate) function: Arc<dyn GroupFunction>,
    pub(crate) timeout: GroupTimeout,
    pub(crate) output_mode: OutputMode,
    pub(crate) input: SchemaRef,
    pub(crate) keys: Vec<usize>,
    pub(crate) state: Fields,
    pub(crate) output: SchemaRef,
    /// The time of the batch.
    pub(crate) time: BatchTime,
}

impl Grouping {
    fn table(&self) -> TableSchema {
        let nullable = |field: &FieldRef| Arc::new(field.as_ref().clone().with_nullable(true));
        let marks = [Arc::new(Field::new("defined", DataType::Boolean, false)), Arc::new(instant("timeoutTimestamp"))];
        let value: Vec<FieldRef> = self.state.iter().map(nullable).chain(marks).collect();
        let expiry = Expiry::Value(value.len() - 1);
        let key = self.keys.iter().filter_map(|key| self.input.fields().get(*key)).cloned().collect();
        TableSchema { name: "default".into(), key, value, expiry, per_key: PerKey::One, grouped_by: None }
    }

    pub(crate) fn description(&self) -> Description {
        let variant = format!("{} {}", self.timeout, self.output_mode);
        Description { name: self.function.operator_name(), tables: vec![self.table()], variant, stores: 1 }
    }
}

/// Collects the rows of a batch and calls the function for them, and then for the keys that timed out.
#[derive(Debug)]
pub(crate) struct GroupStateCore {
    grouping: Grouping,
    event_time: Option<usize>,
    table: StateTable,
    rows: Vec<RecordBatch>,
    late: u64,
    done: Counts,
}

impl GroupStateCore {
    pub(crate) fn new(grouping: Grouping, tables: &Tables) -> DfResult<Self> {
        let event_time = grouping.input.fields().iter().position(|field| event_time_delay(field).is_some());
        let table = tables.open(grouping.table())?;
        Ok(GroupStateCore { grouping, event_time, table, rows: Vec::new(), late: 0, done: Counts::default() })
    }

    /// The states of keys, null for those without.
    fn states(&mut self, keys: &[&GroupKey]) -> DfResult<StructArray> {
        let mut found: BTreeMap<usize, Box<[u8]>> = BTreeMap::new();
        self.table.get_many(keys.iter().map(|key| key.0.as_ref()), &mut |key, _, value| drop(found.insert(key, value.into())))?;
        let known = self.table.decode_values(super::super::slices(&found.values().collect::<Vec<_>>()))?;
        let width = self.grouping.state.len();
        let defined = known.get(width).and_then(|defined| defined.as_boolean_opt());
        let mut place: Vec<Option<u32>> = vec![None; keys.len()];
        for (row, key) in found.keys().enumerate() {
            if defined.is_some_and(|defined| defined.value(row))
                && let Some(slot) = place.get_mut(*key)
            {
                *slot = u32::try_from(row).ok();
            }
        }
        let nulls = NullBuffer::from_iter(place.iter().map(Option::is_some));
        let place = arrow::array::UInt32Array::from(place);
        let columns = known.iter().take(width).map(|column| arrow::compute::take(column, &place, None)).collect::<Result<Vec<_>, _>>()?;
        Ok(StructArray::try_new_with_length(nullable(&self.grouping.state), columns, Some(nulls), keys.len())?)
    }

    /// Writes what a call did.
    fn apply(&mut self, keys: &[&GroupKey], outcome: &GroupChanges) -> DfResult<()> {
        let count = keys.len();
        if outcome.changes.len() != count || outcome.states.len() != count {
            let told = outcome.changes.len();
            return Err(to_datafusion(Error::internal(format!("a function over {count} groups told of {told}"))));
        }
        let timeout = |change: &GroupChange| match change {
            GroupChange::Written(timeout_ms) => timeout_ms.map(micros),
            _ => None,
        };
        let timeouts: TimestampMicrosecondArray = outcome.changes.iter().map(timeout).collect();
        let defined: BooleanArray = (0..count).map(|group| Some(outcome.states.is_valid(group))).collect();
        let marks: [ArrayRef; 2] = [Arc::new(defined), Arc::new(timeouts)];
        // A state that is null has no fields, whatever is below.
        let masked = outcome.states.columns().iter().map(|column| {
            let nulls = NullBuffer::union(column.nulls(), outcome.states.nulls());
            Ok(arrow::array::make_array(column.to_data().into_builder().nulls(nulls).build()?))
        });
        let columns: Vec<ArrayRef> = masked.collect::<DfResult<Vec<_>>>()?.into_iter().chain(marks).collect();
        let encoded = self.table.encode_values(&columns, count)?;
        for (group, (key, change)) in keys.iter().zip(&outcome.changes).enumerate() {
            match change {
                GroupChange::Kept => {}
                GroupChange::Removed => {
                    self.table.remove(&key.0, 0)?;
                    self.done.removed += 1;
                }
                GroupChange::Written(_) => {
                    self.table.put(&key.0, 0, encoded.row(group), timeout(change))?;
                    self.done.updated += 1;
                }
            }
        }
        Ok(())
    }

    async fn call(&mut self, grouped: Grouped, timed_out: bool, time: Watermarks, now_ms: i64, emit: &mut Emit<'_>) -> Result<()> {
        if grouped.groups.is_empty() {
            return Ok(());
        }
        let keys: Vec<&GroupKey> = grouped.groups.iter().map(|(key, _)| key).collect();
        let states = self.states(&keys).map_err(from_datafusion)?;
        let batch = GroupBatch {
            rows: grouped.rows,
            groups: grouped.groups.iter().map(|(_, range)| range.clone()).collect(),
            keys: self.table.decode_keys(keys.iter().map(|key| key.0.as_ref())).map_err(from_datafusion)?,
            states,
            timed_out,
            processing_time_ms: now_ms,
            watermark_ms: time.evict_ms.max(0),
            has_watermark: self.event_time.is_some(),
            timeout: self.grouping.timeout,
        };
        let outcome = self.grouping.function.clone().call(batch, emit).await?;
        self.apply(&keys, &outcome).map_err(from_datafusion)
    }

    /// The keys that timed out; they stay in the table.
    fn timed_out(&mut self, time: Watermarks, now_ms: i64) -> DfResult<Grouped> {
        let threshold_ms = match self.grouping.timeout {
            GroupTimeout::None => None,
            GroupTimeout::ProcessingTime => Some(now_ms),
            GroupTimeout::EventTime => Some(time.evict_ms.max(0)),
        };
        let mut groups = Vec::new();
        if let Some(threshold_ms) = threshold_ms {
            for (key, sub, value) in self.table.expire(micros(threshold_ms) - 1)? {
                let columns = self.table.decode_values([value.as_ref()])?;
                let expiry = self.table.expiries(&[], &columns)?.filter(|expiry| expiry.is_valid(0)).map(|expiry| expiry.value(0));
                self.table.put(&key, sub, &value, expiry)?;
                groups.push((GroupKey(key), 0..0));
            }
        }
        Ok(Grouped { rows: RecordBatch::new_empty(self.grouping.input.clone()), groups })
    }

    async fn run(&mut self, time: Watermarks, emit: &mut (dyn FnMut(RecordBatch) + Send)) -> Result<()> {
        let now_ms = self.grouping.time.get();
        self.done = Counts { late: std::mem::take(&mut self.late), ..Counts::default() };
        let output = Output::new(&self.grouping.output, time);
        let mut emit = move |rows: RecordBatch| output.checked(&rows).map(&mut *emit);
        let Grouping { input, keys, .. } = &self.grouping;
        let grouped = Grouped::new(&std::mem::take(&mut self.rows), input, keys, &self.table).map_err(from_datafusion)?;
        self.call(grouped, false, time, now_ms, &mut emit).await?;
        let timed_out = self.timed_out(time, now_ms).map_err(from_datafusion)?;
        self.call(timed_out, true, time, now_ms, &mut emit).await
    }
}

fn nullable(fields: &Fields) -> Fields {
    fields.iter().map(|field| Arc::new(field.as_ref().clone().with_nullable(true))).collect()
}

impl Core for GroupStateCore {
    fn push(&mut self, _: usize, rows: &RecordBatch, time: Watermarks, _: &mut dyn FnMut(RecordBatch)) -> DfResult<()> {
        let column = self.event_time.filter(|_| self.grouping.timeout == GroupTimeout::EventTime);
        let times = column.and_then(|column| rows.columns().get(column)).map(instants).transpose()?;
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
        Err(to_datafusion(Error::internal("a function over groups was not waited for")))
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

    fn tables(&mut self) -> Vec<&mut StateTable> {
        vec![&mut self.table]
    }

    /// What a function gives out is not bound to the watermark.
    fn output_watermark(&self, _: i64) -> Option<i64> {
        None
    }

    fn wants_time_to_pass(&self) -> bool {
        self.grouping.timeout == GroupTimeout::EventTime
    }

    fn due_ms(&self) -> Option<i64> {
        let first = self.table.first_expiry().filter(|_| self.grouping.timeout == GroupTimeout::ProcessingTime);
        first.map(|first| first.div_euclid(1_000) + 1)
    }
}
