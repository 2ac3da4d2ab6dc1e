//! `applyInPandasWithState`: each state travels beside the rows of its group, and comes back.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, BooleanBuilder, Int32Builder, RecordBatch, StringBuilder, StructArray, new_null_array,
};
use arrow::datatypes::{DataType, Field, Fields, Int32Type, Int64Type, Schema, SchemaRef};
use async_trait::async_trait;
use futures::{StreamExt, stream};
use millstream_core::{Error, Result};
use millstream_engine::stateful::arbitrary::{Emit, GroupBatch, GroupChange, GroupChanges, GroupFunction};
use serde_json::json;

use super::described_schema;
use super::processor::Frame;
use super::rows::{pickled, unpickled};
use crate::python::arrow::{Encoder, adopted, sent_schema};
use crate::python::function::{described, together};
use crate::python::task::TaskContext;
use crate::python::{Input, PythonFunction, PythonRuntime, Reply, converse};

/// No timeout.
const NO_TIMESTAMP: i64 = -1;

/// A function in Python over groups with state.
#[derive(Debug)]
pub(crate) struct PythonGroupFunction {
    runtime: PythonRuntime,
    function: PythonFunction,
    rows: Frame,
    state: Fields,
    /// The columns that the function gives.
    result: Fields,
    output: SchemaRef,
}

impl PythonGroupFunction {
    /// A function over `rows` whose states have the fields `state`; it gives `result`, which leaves under the names of `output`.
    pub(crate) fn new(
        runtime: PythonRuntime,
        function: PythonFunction,
        rows: Frame,
        state: Fields,
        result: Fields,
        output: SchemaRef,
    ) -> Self {
        PythonGroupFunction { runtime, function, rows, state, result, output }
    }

    fn sent(&self) -> SchemaRef {
        let columns = sent_schema(&self.rows.given, self.runtime.time_zone());
        let state = Arc::new(Field::new("!__state__!", DataType::Struct(state_fields()), true));
        Arc::new(Schema::new(columns.fields().iter().cloned().chain([state]).collect::<Vec<_>>()))
    }

    /// The groups as an Arrow stream, in pieces.
    fn input(&self, batch: &GroupBatch) -> Result<Input> {
        let most = self.runtime.rows_per_batch().max(1);
        let mut encoder = Encoder::new(&self.sent())?;
        let mut pieces = Vec::new();
        let mut piece = Piece::default();
        for (group, rows) in batch.groups.iter().enumerate() {
            // A group that timed out has one row, of its key and nulls.
            let rows = if batch.timed_out { group..group + 1 } else { rows.clone() };
            let mut from = rows.start;
            while from < rows.end {
                let to = rows.end.min(from + (most - piece.rows.len()));
                piece.chunks.push(Chunk { group, offset: piece.rows.len(), count: to - from, last: to == rows.end });
                piece.rows = if piece.rows.is_empty() { from..to } else { piece.rows.start..to };
                from = to;
                if piece.rows.len() >= most {
                    pieces.push(self.encoded(&mut encoder, batch, std::mem::take(&mut piece))?);
                }
            }
        }
        if !piece.rows.is_empty() {
            pieces.push(self.encoded(&mut encoder, batch, piece)?);
        }
        pieces.push(encoder.end()?);
        Ok(stream::iter(pieces.into_iter().map(Ok)).boxed())
    }

    fn encoded(&self, encoder: &mut Encoder, batch: &GroupBatch, piece: Piece) -> Result<Vec<u8>> {
        let count = piece.rows.len();
        let mut columns: Vec<ArrayRef> = if batch.timed_out {
            let sent = self.sent();
            let of_key = |place: usize| self.rows.keys.iter().position(|key| *key == place).and_then(|key| batch.keys.get(key));
            (0..self.rows.given.len())
                .map(|place| match of_key(place) {
                    Some(key) => key.slice(piece.rows.start, count),
                    None => new_null_array(sent.field(place).data_type(), count),
                })
                .collect()
        } else {
            let rows = batch.rows.slice(piece.rows.start, count);
            rows.columns().iter().take(self.rows.given.len()).cloned().collect()
        };
        columns.push(Arc::new(self.states(batch, &piece.chunks, count)?));
        encoder.rows(&columns, count)
    }

    /// The column that tells which rows belong to which state: as long as the rows, the chunks first.
    fn states(&self, batch: &GroupBatch, chunks: &[Chunk], rows: usize) -> Result<StructArray> {
        let (mut properties, mut keys, mut objects) = (StringBuilder::new(), BinaryBuilder::new(), BinaryBuilder::new());
        let (mut offsets, mut counts, mut lasts) = (Int32Builder::new(), Int32Builder::new(), BooleanBuilder::new());
        for chunk in chunks {
            let defined = batch.states.is_valid(chunk.group);
            let properties_of_group = json!({
                "batchProcessingTimeMs": batch.processing_time_ms,
                "eventTimeWatermarkMs": batch.watermark_ms,
                "timeoutConf": batch.timeout.to_string(),
                "hasTimedOut": batch.timed_out,
                "watermarkPresent": batch.has_watermark,
                "defined": defined,
                "updated": false,
                "removed": false,
                "timeoutTimestamp": NO_TIMESTAMP,
            });
            properties.append_value(properties_of_group.to_string());
            keys.append_value((chunk.group as u64).to_le_bytes());
            objects.append_option(defined.then(|| pickled(&self.state, batch.states.columns(), chunk.group)).transpose()?);
            offsets.append_value(i32::try_from(chunk.offset).unwrap_or(i32::MAX));
            counts.append_value(i32::try_from(chunk.count).unwrap_or(i32::MAX));
            lasts.append_value(chunk.last);
        }
        for _ in chunks.len()..rows {
            properties.append_null();
            keys.append_null();
            objects.append_null();
            offsets.append_null();
            counts.append_null();
            lasts.append_null();
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(properties.finish()),
            Arc::new(keys.finish()),
            Arc::new(objects.finish()),
            Arc::new(offsets.finish()),
            Arc::new(counts.finish()),
            Arc::new(lasts.finish()),
        ];
        let there = arrow::buffer::NullBuffer::from_iter((0..rows).map(|row| row < chunks.len()));
        StructArray::try_new(state_fields(), columns, Some(there)).map_err(|error| Error::internal("states do not encode").caused_by(error))
    }

    /// Takes an answer apart: rows of the function, and states.
    fn taken(&self, answer: &RecordBatch, told: &mut Told) -> Result<RecordBatch> {
        let [counts, data, states] = answer.columns() else { return Err(broken("not three columns")) };
        let (counts, data, states) = (structure(counts)?, structure(data)?, structure(states)?);
        let count = |index: usize| {
            let column = counts.columns().get(index).and_then(|column| column.as_primitive_opt::<Int32Type>());
            let count = column.filter(|column| !column.is_empty()).and_then(|column| usize::try_from(column.value(0)).ok());
            count.filter(|count| *count <= answer.num_rows()).ok_or_else(|| broken("no counts"))
        };
        let (rows, groups) = (count(0)?, count(1)?);
        told.add(&states.slice(0, groups))?;
        let columns = adopted(data.slice(0, rows).columns(), &self.result, "applyInPandasWithState()")?;
        crate::python::plan::batch(&self.output, columns, rows)
    }

    /// What the function did to the states, in the order of the groups.
    fn changes(&self, told: Told, groups: usize) -> Result<GroupChanges> {
        let mut changes = vec![None; groups];
        let mut place: Vec<Option<u32>> = vec![None; groups];
        let mut objects: Vec<Vec<u8>> = Vec::new();
        for (group, change, object) in told.states {
            let slot = changes.get_mut(group).zip(place.get_mut(group)).ok_or_else(|| broken("a group that was not sent"))?;
            *slot.0 = Some(change);
            if let Some(object) = object {
                *slot.1 = u32::try_from(objects.len()).ok();
                objects.push(object);
            }
        }
        let changes: Option<Vec<GroupChange>> = changes.into_iter().collect();
        let changes = changes.ok_or_else(|| broken("fewer states than groups"))?;
        let fields: Fields = self.state.iter().map(|field| Arc::new(field.as_ref().clone().with_nullable(true))).collect();
        let misfit = |error| Error::internal("states do not fit together").caused_by(error);
        let there = arrow::buffer::NullBuffer::from_iter(place.iter().map(Option::is_some));
        let place = arrow::array::UInt32Array::from(place);
        let known = unpickled(&self.state, &objects)?.columns;
        let columns =
            known.iter().map(|column| arrow::compute::take(column, &place, None)).collect::<Result<Vec<_>, _>>().map_err(misfit)?;
        let states = StructArray::try_new_with_length(fields, columns, Some(there), groups).map_err(misfit)?;
        Ok(GroupChanges { changes, states })
    }
}

/// Rows that are sent at once.
#[derive(Default)]
struct Piece {
    rows: Range<usize>,
    chunks: Vec<Chunk>,
}

/// Rows of one group in a piece.
struct Chunk {
    group: usize,
    offset: usize,
    count: usize,
    /// Whether no more rows of the group follow.
    last: bool,
}

fn state_fields() -> Fields {
    let field = |name: &str, data_type: DataType| Field::new(name, data_type, true);
    Fields::from(vec![
        field("properties", DataType::Utf8),
        field("keyRowAsUnsafe", DataType::Binary),
        field("object", DataType::Binary),
        field("startOffset", DataType::Int32),
        field("numRows", DataType::Int32),
        field("isLastChunk", DataType::Boolean),
    ])
}

fn structure(column: &ArrayRef) -> Result<&StructArray> {
    column.as_struct_opt().ok_or_else(|| broken("no structures"))
}

fn broken(what: &str) -> Error {
    Error::internal(format!("a function over groups answers with {what}"))
}

/// The states that came back: of which group, what happens to it, its pickle.
#[derive(Default)]
struct Told {
    states: VecDeque<(usize, GroupChange, Option<Vec<u8>>)>,
}

impl Told {
    fn add(&mut self, states: &StructArray) -> Result<()> {
        let text = |column: Option<&ArrayRef>| column.map(|column| arrow::compute::cast(column, &DataType::Utf8));
        let bytes = |column: Option<&ArrayRef>| column.map(|column| arrow::compute::cast(column, &DataType::Binary));
        let columns = states.columns();
        let (Some(Ok(properties)), Some(Ok(keys)), Some(Ok(objects)), Some(before)) =
            (text(columns.first()), bytes(columns.get(1)), bytes(columns.get(2)), columns.get(3))
        else {
            return Err(broken("no states"));
        };
        let before = before.as_primitive_opt::<Int64Type>().ok_or_else(|| broken("no timeouts"))?;
        for row in 0..states.len() {
            let key = keys.as_binary::<i32>().value(row).try_into().map(u64::from_le_bytes);
            let group = key.ok().and_then(|key| usize::try_from(key).ok()).ok_or_else(|| broken("a group without a key"))?;
            let properties: serde_json::Value = serde_json::from_str(properties.as_string::<i32>().value(row))
                .map_err(|error| broken("properties that cannot be read").caused_by(error))?;
            let is = |name: &str| properties.get(name).and_then(serde_json::Value::as_bool).unwrap_or(false);
            // A timeout that was given as an instant may come as a fraction.
            let timeout =
                properties.get("timeoutTimestamp").and_then(|value| value.as_i64().or_else(|| value.as_f64().map(|ms| ms as i64)));
            let timeout = timeout.unwrap_or(NO_TIMESTAMP);
            let timeout_ms = (timeout != NO_TIMESTAMP).then_some(timeout);
            let change = if is("removed") && timeout_ms.is_none() {
                GroupChange::Removed
            } else if is("updated") || is("removed") || timeout != before.value(row) {
                GroupChange::Written(timeout_ms)
            } else {
                GroupChange::Kept
            };
            let objects = objects.as_binary::<i32>();
            let object = (is("defined") && objects.is_valid(row)).then(|| objects.value(row).to_vec());
            self.states.push_back((group, change, object));
        }
        Ok(())
    }
}

#[async_trait]
impl GroupFunction for PythonGroupFunction {
    fn operator_name(&self) -> &'static str {
        "applyInPandasWithState"
    }

    async fn call(&self, batch: GroupBatch, emit: &mut Emit<'_>) -> Result<GroupChanges> {
        let places: Vec<(usize, Option<&str>)> = self.rows.places.iter().map(|place| (*place, None)).collect();
        let functions = together([described(&places, &[&self.function])].into_iter());
        let mut task = self.runtime.task(&self.function.version, self.function.kind, functions);
        task.described.push(("state_value_schema", described_schema(self.state.iter().map(AsRef::as_ref))));
        let mut replies = converse(self.runtime.clone(), Arc::new(task), TaskContext::of_partition(0), self.input(&batch)?);
        let mut told = Told::default();
        while let Some(reply) = replies.next().await {
            let Reply::Rows(answer) = reply? else { return Err(broken("pickles")) };
            let rows = self.taken(&answer, &mut told)?;
            if rows.num_rows() > 0 {
                emit(rows)?;
            }
        }
        self.changes(told, batch.groups.len())
    }
}
