//! Stream-stream joins: every row is kept until nothing of the other side can match it any more.

pub(crate) mod bounds;
mod pairs;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use datafusion::common::{JoinSide, JoinType};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::joins::utils::JoinFilter;
use millstream_core::watermark::Watermarks;

use self::bounds::{Bound, state_watermark};
use self::pairs::Pairs;
use super::operator::{Core, Counts, Description};
use super::table::{EncodedKeys, Expiry, PerKey, StateTable, TableSchema, Tables, instants, normalize};
use super::{Late, micros};

/// How many rows look for their partners together.
const TOGETHER: usize = 1_024;

/// How rows of one side leave.
#[derive(Clone, Debug)]
pub(crate) enum Eviction {
    /// Never.
    Never,
    /// When the watermark passes the event time at this position of the keys.
    Key(usize),
    /// When the state watermark passes the event time in this column.
    Value(usize, Vec<Bound>),
}

/// One side of a join.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) schema: SchemaRef,
    pub(crate) keys: Vec<PhysicalExprRef>,
    /// The names of its columns that people know.
    pub(crate) names: Vec<String>,
    /// The column that says when a row is late.
    pub(crate) event_time: Option<usize>,
    pub(crate) eviction: Eviction,
    /// A predicate on rows of this side only, without which a row matches nothing.
    pub(crate) only: Option<PhysicalExprRef>,
    /// Whether rows without a match appear in the result.
    pub(crate) outer: bool,
}

impl Side {
    fn table(&self, name: &'static str) -> DfResult<TableSchema> {
        let key = self.keys.iter().enumerate().map(|(number, key)| {
            let field = key.return_field(&self.schema)?.as_ref().clone();
            Ok(Arc::new(field.with_name(format!("field{number}"))) as FieldRef)
        });
        let key = key.collect::<DfResult<Vec<FieldRef>>>()?;
        let matched = Arc::new(Field::new("matched", DataType::Boolean, false));
        let expiry = match &self.eviction {
            Eviction::Never => Expiry::Never,
            Eviction::Key(index) => Expiry::Key(*index),
            Eviction::Value(index, _) => Expiry::Value(*index),
        };
        let fields = self.schema.fields().iter().zip(&self.names);
        let fields = fields.map(|(field, name)| Arc::new(field.as_ref().clone().with_name(name)) as FieldRef);
        let value = fields.chain([matched]).collect();
        Ok(TableSchema { name: name.into(), key, value, expiry, per_key: PerKey::Many, grouped_by: None })
    }

    /// The instant (microseconds) up to which rows leave at this watermark.
    fn leaves(&self, watermark_ms: i64) -> Option<i64> {
        match &self.eviction {
            Eviction::Never => None,
            Eviction::Key(_) => Some(micros(watermark_ms)),
            Eviction::Value(_, bounds) => state_watermark(bounds, watermark_ms).map(micros),
        }
    }
}

/// What a join does.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    /// `Inner`, `Left`, `Right`, `Full` or `LeftSemi`.
    pub(crate) kind: JoinType,
    pub(crate) left: Side,
    pub(crate) right: Side,
    /// What pairs with equal keys have to satisfy.
    pub(crate) filter: Option<JoinFilter>,
    /// Whether keys with nulls are equal to each other.
    pub(crate) nulls_match: bool,
    pub(crate) output: SchemaRef,
}

impl Join {
    pub(crate) fn description(&self) -> DfResult<Description> {
        Ok(Description {
            name: "symmetricHashJoin",
            tables: vec![self.left.table("left")?, self.right.table("right")?],
            variant: self.kind.to_string(),
            stores: 4,
        })
    }
}

/// The state of one side.
#[derive(Debug)]
struct Half {
    side: Side,
    table: StateTable,
}

/// Joins.
#[derive(Debug)]
pub(crate) struct JoinCore {
    kind: JoinType,
    filter: Option<JoinFilter>,
    nulls_match: bool,
    output: SchemaRef,
    left: Half,
    right: Half,
    running: Counts,
    done: Counts,
}

impl JoinCore {
    pub(crate) fn new(join: Join, tables: &Tables) -> DfResult<Self> {
        let half = |side: Side, name| -> DfResult<Half> { Ok(Half { table: tables.open(side.table(name)?)?, side }) };
        Ok(JoinCore {
            kind: join.kind,
            filter: join.filter,
            nulls_match: join.nulls_match,
            output: join.output,
            left: half(join.left, "left")?,
            right: half(join.right, "right")?,
            running: Counts::default(),
            done: Counts::default(),
        })
    }

    fn halves(&mut self, side: JoinSide) -> (&mut Half, &mut Half) {
        if side == JoinSide::Left { (&mut self.left, &mut self.right) } else { (&mut self.right, &mut self.left) }
    }

    /// Rows of `side` beside nulls.
    fn unmatched(&self, side: JoinSide, rows: &RecordBatch) -> DfResult<RecordBatch> {
        let other = if side == JoinSide::Left { &self.right.side.schema } else { &self.left.side.schema };
        let nulls = other.fields().iter().map(|field| new_null_array(field.data_type(), rows.num_rows()));
        let columns: Vec<ArrayRef> = match side {
            JoinSide::Left => rows.columns().iter().cloned().chain(nulls).collect(),
            _ => nulls.chain(rows.columns().iter().cloned()).collect(),
        };
        self.rows(columns, rows.num_rows())
    }

    fn rows(&self, columns: Vec<ArrayRef>, rows: usize) -> DfResult<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.output.clone(), columns, &options).map_err(DataFusionError::from)
    }

    /// The rows that satisfy the predicates of their side; those that do not leave at once or not at all.
    fn filtered(&mut self, side: JoinSide, rows: RecordBatch, emit: &mut dyn FnMut(RecordBatch)) -> DfResult<RecordBatch> {
        let half = self.halves(side).0;
        let Some(only) = &half.side.only else { return Ok(rows) };
        let outer = half.side.outer;
        let passed = only.evaluate(&rows)?.into_array(rows.num_rows())?;
        let passed = truth(&passed)?;
        if outer && passed.has_false() {
            let failed = arrow::compute::not(&passed)?;
            let failed = filter_record_batch(&rows, &failed)?;
            emit(self.unmatched(side, &failed)?);
        }
        filter_record_batch(&rows, &passed).map_err(DataFusionError::from)
    }

    /// Keeps rows for what may still come. A row of the right side that time has passed already has met everything that it can meet, and is
    /// kept only where it may have to leave unmatched; rows of the left side have yet to meet the right side's rows of this batch.
    fn keep(&mut self, side: JoinSide, rows: &RecordBatch, keys: &Keys, matched: &[bool], time: Watermarks) -> DfResult<()> {
        let semi = self.kind == JoinType::LeftSemi && side == JoinSide::Left;
        let must_stay = side == JoinSide::Left || matches!(self.kind, JoinType::Right | JoinType::Full);
        let half = self.halves(side).0;
        let outer = half.side.outer;
        let leaves = half.side.leaves(time.evict_ms);
        let mut values = rows.columns().to_vec();
        values.push(Arc::new(BooleanArray::from(matched.to_vec())));
        let expiries: Option<Int64Array> = half.table.expiries(&keys.columns, &values)?;
        let values = half.table.encode_values(&values, rows.num_rows())?;
        let mut kept = 0;
        for (row, key) in keys.encoded.iter().enumerate() {
            let expiry = expiries.as_ref().filter(|expiries| expiries.is_valid(row)).map(|expiries| expiries.value(row));
            let gone = !must_stay && matches!((expiry, leaves), (Some(expiry), Some(leaves)) if expiry <= leaves);
            let hopeless = !outer && keys.never_match(row);
            if gone || hopeless || (semi && matched.get(row) == Some(&true)) {
                continue;
            }
            half.table.append(key, values.row(row), expiry)?;
            kept += 1;
        }
        self.running.updated += kept;
        Ok(())
    }
}

/// The keys of rows that arrived.
struct Keys {
    columns: Vec<ArrayRef>,
    encoded: EncodedKeys,
    /// Whether a null in a key keeps a row from matching anything.
    nulls_match: bool,
}

impl Keys {
    fn never_match(&self, row: usize) -> bool {
        !self.nulls_match && self.columns.iter().any(|column| column.is_null(row))
    }
}

/// A boolean column with nulls as false.
fn truth(column: &ArrayRef) -> DfResult<BooleanArray> {
    let column = arrow::array::as_boolean_array(column);
    Ok(match column.nulls() {
        Some(nulls) => BooleanArray::new(column.values() & nulls.inner(), None),
        None => column.clone(),
    })
}

impl Core for JoinCore {
    fn push(&mut self, input: usize, rows: &RecordBatch, time: Watermarks, emit: &mut dyn FnMut(RecordBatch)) -> DfResult<()> {
        let side = if input == 0 { JoinSide::Left } else { JoinSide::Right };
        let mut rows = rows.clone();
        let half = self.halves(side).0;
        if let Some(times) = half.side.event_time.and_then(|index| rows.columns().get(index))
            && let Some(late) = Late::among(&instants(times)?, time)
        {
            rows = filter_record_batch(&rows, &late.kept)?;
            self.running.late += late.count as u64;
        }
        let rows = self.filtered(side, rows, emit)?;
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let nulls_match = self.nulls_match;
        let half = self.halves(side).0;
        let columns = half.side.keys.iter().map(|key| normalize(&key.evaluate(&rows)?.into_array(rows.num_rows())?));
        let columns = columns.collect::<DfResult<Vec<_>>>()?;
        let keys = Keys { encoded: half.table.encode_keys(&columns, rows.num_rows())?, columns, nulls_match };
        let mut pairs = Pairs::new(side, rows.clone());
        let asking: Vec<(usize, &[u8])> = keys.encoded.iter().enumerate().filter(|(row, _)| !keys.never_match(*row)).collect();
        for asking in asking.chunks(TOGETHER) {
            pairs.find(asking, &mut self.halves(side).1.table)?;
            if pairs.is_full() {
                self.matched(&mut pairs, emit)?;
            }
        }
        self.matched(&mut pairs, emit)?;
        self.keep(side, &rows, &keys, pairs.matched(), time)
    }

    fn finish(&mut self, time: Watermarks, emit: &mut dyn FnMut(RecordBatch)) -> DfResult<()> {
        for side in [JoinSide::Left, JoinSide::Right] {
            let half = self.halves(side).0;
            let Some(leaves) = half.side.leaves(time.evict_ms) else { continue };
            let gone = half.table.expire(leaves)?;
            if !half.side.outer {
                // Spark counts what leaves the sides that it does not read again.
                self.running.removed += gone.len() as u64;
                continue;
            }
            let mut values = half.table.select(&gone)?.values;
            let Some(matched) = values.pop() else { continue };
            let options = RecordBatchOptions::new().with_row_count(Some(gone.len()));
            let rows = RecordBatch::try_new_with_options(half.side.schema.clone(), values, &options)?;
            let alone = arrow::compute::not(&truth(&matched)?)?;
            let rows = filter_record_batch(&rows, &alone)?;
            if rows.num_rows() > 0 {
                emit(self.unmatched(side, &rows)?);
            }
        }
        self.done = std::mem::take(&mut self.running);
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.done
    }

    fn tables(&mut self) -> Vec<&mut StateTable> {
        vec![&mut self.left.table, &mut self.right.table]
    }

    fn output_watermark(&self, input_ms: i64) -> Option<i64> {
        let sides = [&self.left, &self.right].into_iter().filter_map(|half| match &half.side.eviction {
            Eviction::Never => None,
            Eviction::Key(_) => Some(input_ms),
            Eviction::Value(_, bounds) => state_watermark(bounds, input_ms),
        });
        Some(sides.min().unwrap_or(input_ms).min(input_ms))
    }

    fn wants_time_to_pass(&self) -> bool {
        [&self.left, &self.right].iter().any(|half| !matches!(half.side.eviction, Eviction::Never))
    }
}
