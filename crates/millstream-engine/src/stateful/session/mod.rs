//! Session windows: groups of rows of one key that follow each other within a gap.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, StructArray, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat, filter_record_batch, take};
use arrow::datatypes::{DataType, FieldRef, Fields, SchemaRef, TimestampMicrosecondType};
use datafusion::common::HashMap;
use datafusion::error::{DataFusionError, Result as DfResult};
use millstream_core::Error;
use millstream_core::sink::OutputMode;
use millstream_core::watermark::Watermarks;

use super::accumulate::Functions;
use super::operator::{Core, Counts, Description, refused};
use super::table::{Expiry, PerKey, Selection, StateTable, TableSchema, Tables, normalize};
use super::{Late, micros, slices};
use crate::to_datafusion;

/// What an aggregation by session computes. Its input has the keys, the start and the end of each row's own session, and partial states.
#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    pub(crate) keys: Vec<FieldRef>,
    /// The type of start and end.
    pub(crate) time: DataType,
    /// Whether the session's column is event time, so that the watermark closes sessions.
    pub(crate) event_time: bool,
    /// Whether there is anything but literals among the keys.
    pub(crate) keyed: bool,
    pub(crate) functions: Functions,
    /// Keys, session, results.
    pub(crate) output: SchemaRef,
    pub(crate) mode: OutputMode,
    /// Rows per record batch of the output.
    pub(crate) batch_size: usize,
}

impl Sessions {
    /// Whether the watermark closes sessions.
    pub(crate) fn closes(&self) -> bool {
        self.event_time && self.mode != OutputMode::Complete
    }

    fn table(&self) -> TableSchema {
        let end = Arc::new(arrow::datatypes::Field::new("end", self.time.clone(), false));
        TableSchema {
            name: "default".into(),
            key: self.keys.clone(),
            value: [end].into_iter().chain(self.functions.state_fields().iter().cloned()).collect(),
            expiry: if self.closes() { Expiry::Value(0) } else { Expiry::Never },
            per_key: PerKey::Many,
            grouped_by: None,
        }
    }

    /// What its state means.
    pub(crate) fn description(&self) -> Description {
        Description { name: "sessionWindowStateStoreSaveExec", tables: vec![self.table()], variant: self.functions.text(), stores: 1 }
    }
}

/// Aggregates by session.
#[derive(Debug)]
pub(crate) struct SessionCore {
    sessions: Sessions,
    table: StateTable,
    /// The rows of the batch: each a session of its own so far.
    rows: Vec<RecordBatch>,
    late: u64,
    done: Counts,
}

/// A session on its way to being merged.
struct Piece {
    key: usize,
    start: i64,
    end: i64,
    /// Whether it was in state before.
    old: bool,
}

impl SessionCore {
    pub(crate) fn new(sessions: Sessions, tables: &Tables) -> DfResult<Self> {
        let table = tables.open(sessions.table())?;
        Ok(SessionCore { sessions, table, rows: Vec::new(), late: 0, done: Counts::default() })
    }

    /// Start and end of the rows, in microseconds.
    fn bounds(&self, rows: &RecordBatch) -> DfResult<(Int64Array, Int64Array)> {
        let width = self.sessions.keys.len();
        let bound = |index: usize| {
            let column = rows.columns().get(index).and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>());
            column
                .map(|column| column.reinterpret_cast::<arrow::datatypes::Int64Type>())
                .ok_or_else(|| to_datafusion(Error::internal("the bounds of sessions are not timestamps in microseconds")))
        };
        Ok((bound(width)?, bound(width + 1)?))
    }

    /// Puts the sessions of the batch together with those of the same keys in state.
    fn merge(&mut self) -> DfResult<(u64, u64)> {
        let batches = std::mem::take(&mut self.rows);
        let Some(first) = batches.first() else { return Ok((0, 0)) };
        let rows = arrow::compute::concat_batches(&first.schema(), &batches)?;
        let width = self.sessions.keys.len();
        let keys = rows.columns().iter().take(width).map(normalize).collect::<DfResult<Vec<_>>>()?;
        let encoded = self.table.encode_keys(&keys, rows.num_rows())?;
        let (starts, ends) = self.bounds(&rows)?;

        let mut numbers: HashMap<&[u8], usize> = HashMap::new();
        let mut distinct: Vec<&[u8]> = Vec::new();
        let mut new: Vec<Piece> = Vec::with_capacity(rows.num_rows());
        for (row, key) in encoded.iter().enumerate() {
            let key = *numbers.entry(key).or_insert_with(|| {
                distinct.push(key);
                distinct.len() - 1
            });
            new.push(Piece { key, start: starts.value(row), end: ends.value(row), old: false });
        }

        let (mut pieces, mut known): (Vec<Piece>, Vec<Box<[u8]>>) = (Vec::new(), Vec::new());
        self.table.get_many(distinct.iter().copied(), &mut |key, start, value| {
            pieces.push(Piece { key, start, end: 0, old: true });
            known.push(value.into());
        })?;
        let known = self.table.decode_values(slices(&known))?;
        if let Some(ends) = known.first().and_then(|ends| ends.as_primitive_opt::<TimestampMicrosecondType>()) {
            for (piece, end) in pieces.iter_mut().zip(ends.values()) {
                piece.end = *end;
            }
        }
        let old = pieces.len();
        pieces.extend(new);

        // What was there first stays first among pieces that start together.
        let mut order: Vec<usize> = (0..pieces.len()).collect();
        order.sort_by_key(|index| pieces.get(*index).map(|piece| (piece.key, piece.start, *index)));
        let mut merged: Vec<Piece> = Vec::new();
        let mut groups = Vec::with_capacity(order.len());
        for index in &order {
            let Some(piece) = pieces.get(*index) else { continue };
            match merged.last_mut().filter(|last| last.key == piece.key && piece.start <= last.end) {
                Some(last) => last.end = last.end.max(piece.end),
                None => merged.push(Piece { key: piece.key, start: piece.start, end: piece.end, old: false }),
            }
            groups.push(merged.len() - 1);
        }

        let states = self.states(&known, old, &rows, &order)?;
        let mut accumulating = self.sessions.functions.start()?;
        accumulating.merge(&states, &groups, merged.len())?;
        let ends: ArrayRef = Arc::new(
            Int64Array::from_iter_values(merged.iter().map(|session| session.end))
                .reinterpret_cast::<TimestampMicrosecondType>()
                .with_data_type(self.sessions.time.clone()),
        );
        let mut values = vec![ends];
        values.extend(accumulating.states()?);
        let values = self.table.encode_values(&values, merged.len())?;

        let mut removed = 0;
        for piece in pieces.iter().filter(|piece| piece.old) {
            let stays = merged.binary_search_by_key(&(piece.key, piece.start), |session| (session.key, session.start)).is_ok();
            if !stays && let Some(key) = distinct.get(piece.key) {
                self.table.remove(key, piece.start)?;
                removed += 1;
            }
        }
        let closes = self.sessions.closes();
        for (session, value) in merged.iter().zip(values.iter()) {
            if let Some(key) = distinct.get(session.key) {
                self.table.put(key, session.start, value, closes.then_some(session.end))?;
            }
        }
        Ok((merged.len() as u64, removed))
    }

    /// The partial states of pieces in `order`: `old` of them are in state, the others in `rows`.
    fn states(&self, known: &[ArrayRef], old: usize, rows: &RecordBatch, order: &[usize]) -> DfResult<Vec<ArrayRef>> {
        let width = self.sessions.keys.len();
        let order = order.iter().map(|index| u32::try_from(*index)).collect::<Result<Vec<_>, _>>();
        let order = UInt32Array::from(order.map_err(|error| DataFusionError::External(Box::new(error)))?);
        let new = rows.columns().iter().skip(width + 2);
        let columns = new.enumerate().map(|(index, new)| {
            let all = match known.get(index + 1).filter(|_| old > 0) {
                Some(known) => concat(&[known.as_ref(), new.as_ref()])?,
                None => new.clone(),
            };
            take(&all, &order, None)
        });
        columns.collect::<Result<Vec<_>, _>>().map_err(DataFusionError::from)
    }

    fn emit(&self, rows: Selection, emit: &mut dyn FnMut(RecordBatch)) -> DfResult<()> {
        let count = rows.subs.len();
        let starts: ArrayRef =
            Arc::new(Int64Array::from(rows.subs).reinterpret_cast::<TimestampMicrosecondType>().with_data_type(self.sessions.time.clone()));
        let Some((ends, states)) = rows.values.split_first() else { return Ok(()) };
        let field = self.sessions.output.field(self.sessions.keys.len());
        let DataType::Struct(bounds) = field.data_type() else {
            return Err(to_datafusion(Error::internal("the column of a session is not a struct")));
        };
        let bounds: Fields = bounds.clone();
        let mut columns = rows.keys;
        columns.push(Arc::new(StructArray::try_new(bounds, vec![starts, ends.clone()], None)?));
        columns.extend(self.sessions.functions.evaluate(states, count)?);
        let all = RecordBatch::try_new(self.sessions.output.clone(), columns)?;
        let mut from = 0;
        while from < count {
            let length = self.sessions.batch_size.max(1).min(count - from);
            emit(all.slice(from, length));
            from += length;
        }
        Ok(())
    }
}

impl Core for SessionCore {
    fn push(&mut self, _: usize, rows: &RecordBatch, time: Watermarks, _: &mut dyn FnMut(RecordBatch)) -> DfResult<()> {
        let (starts, ends) = self.bounds(rows)?;
        let valid = BooleanBuffer::collect_bool(rows.num_rows(), |row| {
            starts.is_valid(row) && ends.is_valid(row) && ends.value(row) > starts.value(row)
        });
        let mut rows = filter_record_batch(rows, &BooleanArray::new(valid, None))?;
        if self.sessions.closes() {
            let (_, ends) = self.bounds(&rows)?;
            if let Some(late) = Late::among(&ends, time) {
                self.late += late.count as u64;
                rows = filter_record_batch(&rows, &late.kept)?;
            }
        }
        if rows.num_rows() > 0 {
            self.rows.push(rows);
        }
        Ok(())
    }

    fn finish(&mut self, time: Watermarks, emit: &mut dyn FnMut(RecordBatch)) -> DfResult<()> {
        if !self.sessions.keyed {
            return Err(refused(
                "_LEGACY_ERROR_TEMP_3068",
                "Global aggregation with session window in streaming query is not supported: group by another column as well",
            ));
        }
        let (updated, removed) = self.merge()?;
        let gone = self.table.expire(micros(time.evict_ms))?;
        self.done = Counts { updated, removed: removed + gone.len() as u64, late: std::mem::take(&mut self.late) };
        match self.sessions.mode {
            OutputMode::Append if !gone.is_empty() => self.emit(self.table.select(&gone)?, emit),
            OutputMode::Complete => self.table.scan(self.sessions.batch_size.max(1), &mut |rows| self.emit(rows, emit)),
            _ => Ok(()),
        }
    }

    fn counts(&self) -> Counts {
        self.done
    }

    fn tables(&mut self) -> Vec<&mut StateTable> {
        vec![&mut self.table]
    }

    fn wants_time_to_pass(&self) -> bool {
        self.sessions.mode != OutputMode::Complete
    }
}
