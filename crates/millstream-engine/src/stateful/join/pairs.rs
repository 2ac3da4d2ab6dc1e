//! Rows with equal keys, two by two, on their way through the rest of the condition.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{filter, filter_record_batch, take};
use datafusion::common::{HashSet, JoinSide, JoinType};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::physical_expr::split_conjunction;
use millstream_core::Error;

use super::{JoinCore, truth};
use crate::stateful::slices;
use crate::stateful::table::StateTable;
use crate::to_datafusion;

/// How many pairs are looked at together.
const AT_ONCE: usize = 32_768;

/// Pairs of rows that arrived and rows that are kept.
pub(super) struct Pairs {
    side: JoinSide,
    rows: RecordBatch,
    /// The row of each pair that arrived.
    arrived: Vec<u32>,
    /// The key, number and value of each pair's row that is kept.
    keys: Vec<Box<[u8]>>,
    subs: Vec<i64>,
    values: Vec<Box<[u8]>>,
    /// Which rows that arrived are in a pair that satisfies the condition.
    matched: Vec<bool>,
}

impl Pairs {
    pub(super) fn new(side: JoinSide, rows: RecordBatch) -> Self {
        let matched = vec![false; rows.num_rows()];
        Pairs { side, rows, arrived: Vec::new(), keys: Vec::new(), subs: Vec::new(), values: Vec::new(), matched }
    }

    /// Adds a pair for every row of the other side with the key of one of these rows.
    pub(super) fn find(&mut self, rows: &[(usize, &[u8])], other: &mut StateTable) -> DfResult<()> {
        let numbers = rows.iter().map(|(row, _)| u32::try_from(*row)).collect::<Result<Vec<_>, _>>();
        let numbers = numbers.map_err(|error| DataFusionError::External(Box::new(error)))?;
        other.get_many(rows.iter().map(|(_, key)| *key), &mut |index, sub, value| {
            if let (Some(number), Some((_, key))) = (numbers.get(index), rows.get(index)) {
                self.arrived.push(*number);
                self.keys.push((*key).into());
                self.subs.push(sub);
                self.values.push(value.into());
            }
        })
    }

    pub(super) fn is_full(&self) -> bool {
        self.arrived.len() >= AT_ONCE
    }

    /// Whether each row that arrived has matched.
    pub(super) fn matched(&self) -> &[bool] {
        &self.matched
    }
}

impl JoinCore {
    /// Looks at the pairs: emits those that satisfy the condition, and remembers on both sides that they matched.
    pub(super) fn matched(&mut self, pairs: &mut Pairs, emit: &mut dyn FnMut(RecordBatch)) -> DfResult<()> {
        if pairs.arrived.is_empty() {
            return Ok(());
        }
        let arrived = UInt32Array::from(std::mem::take(&mut pairs.arrived));
        let (keys, subs) = (std::mem::take(&mut pairs.keys), std::mem::take(&mut pairs.subs));
        let values = std::mem::take(&mut pairs.values);
        let (_, other) = self.halves(pairs.side);
        let mut kept = other.table.decode_values(slices(&values))?;
        let flags = kept.pop().ok_or_else(|| to_datafusion(Error::internal("a row of a join has no columns")))?;
        let own = pairs.rows.columns().iter().map(|column| take(column, &arrived, None)).collect::<Result<Vec<_>, _>>()?;
        let satisfied = self.satisfied(pairs.side, &own, &kept, arrived.len())?;

        if self.kind == JoinType::LeftSemi {
            self.semi(pairs, &arrived, &satisfied, (&keys, &subs), (&own, &kept), emit)?;
        } else if satisfied.has_true() {
            self.flag(pairs.side, &satisfied, (&keys, &subs), &kept, &flags)?;
            let (left, right) = if pairs.side == JoinSide::Left { (own, kept) } else { (kept, own) };
            let columns = left.iter().chain(&right).map(|column| filter(column, &satisfied)).collect::<Result<Vec<_>, _>>()?;
            emit(self.rows(columns, satisfied.true_count())?);
        }
        for (pair, row) in arrived.values().iter().enumerate() {
            if satisfied.value(pair)
                && let Some(matched) = pairs.matched.get_mut(*row as usize)
            {
                *matched = true;
            }
        }
        Ok(())
    }

    /// Which pairs satisfy the rest of the condition.
    fn satisfied(&self, side: JoinSide, own: &[ArrayRef], kept: &[ArrayRef], pairs: usize) -> DfResult<BooleanArray> {
        let Some(condition) = &self.filter else {
            return Ok(BooleanArray::new(arrow::buffer::BooleanBuffer::new_set(pairs), None));
        };
        let columns = condition.column_indices().iter().map(|column| {
            let columns = if column.side == side { own } else { kept };
            columns.get(column.index).cloned().ok_or_else(|| to_datafusion(Error::internal("a join's condition names no column")))
        });
        let options = RecordBatchOptions::new().with_row_count(Some(pairs));
        let mut rows = RecordBatch::try_new_with_options(condition.schema().clone(), columns.collect::<DfResult<Vec<_>>>()?, &options)?;
        let mut alive: Vec<usize> = (0..pairs).collect();
        // A later part may fail for pairs that an earlier one refuses.
        for part in split_conjunction(condition.expression()) {
            let holds = truth(&part.evaluate(&rows)?.into_array(rows.num_rows())?)?;
            if holds.has_false() {
                rows = filter_record_batch(&rows, &holds)?;
                alive = alive.into_iter().zip(holds.values()).filter(|(_, holds)| *holds).map(|(pair, _)| pair).collect();
            }
            if alive.is_empty() {
                break;
            }
        }
        let mut satisfied = BooleanBufferBuilder::new(pairs);
        satisfied.append_n(pairs, false);
        for pair in alive {
            satisfied.set_bit(pair, true);
        }
        Ok(BooleanArray::new(satisfied.finish(), None))
    }

    /// Remembers that rows of the other side have matched, where it matters later.
    fn flag(
        &mut self,
        side: JoinSide,
        satisfied: &BooleanArray,
        (keys, subs): (&[Box<[u8]>], &[i64]),
        kept: &[ArrayRef],
        flags: &ArrayRef,
    ) -> DfResult<()> {
        let (_, other) = self.halves(side);
        if !other.side.outer {
            return Ok(());
        }
        let flags = flags.as_boolean();
        let mut seen: HashSet<(&[u8], i64)> = HashSet::new();
        let mut pairs: Vec<u32> = Vec::new();
        for (pair, (key, sub)) in keys.iter().zip(subs).enumerate() {
            if satisfied.value(pair) && !flags.value(pair) && seen.insert((key.as_ref(), *sub)) {
                pairs.push(u32::try_from(pair).map_err(|error| DataFusionError::External(Box::new(error)))?);
            }
        }
        if pairs.is_empty() {
            return Ok(());
        }
        let indices = UInt32Array::from(pairs.clone());
        let mut values = kept.iter().map(|column| take(column, &indices, None)).collect::<Result<Vec<_>, _>>()?;
        values.push(std::sync::Arc::new(BooleanArray::from(vec![true; pairs.len()])));
        let keys_of = pairs.iter().filter_map(|pair| keys.get(*pair as usize));
        let key_columns = other.table.decode_keys(keys_of.clone().map(AsRef::as_ref))?;
        let expiries = other.table.expiries(&key_columns, &values)?;
        let encoded = other.table.encode_values(&values, pairs.len())?;
        for (row, pair) in pairs.iter().enumerate() {
            let expiry = expiries.as_ref().filter(|expiries| expiries.is_valid(row)).map(|expiries| expiries.value(row));
            if let (Some(key), Some(sub)) = (keys.get(*pair as usize), subs.get(*pair as usize)) {
                other.table.put(key, *sub, encoded.row(row), expiry)?;
            }
        }
        Ok(())
    }

    /// Left rows leave with their first match, and are not kept then.
    fn semi(
        &mut self,
        pairs: &Pairs,
        arrived: &UInt32Array,
        satisfied: &BooleanArray,
        (keys, subs): (&[Box<[u8]>], &[i64]),
        (own, kept): (&[ArrayRef], &[ArrayRef]),
        emit: &mut dyn FnMut(RecordBatch),
    ) -> DfResult<()> {
        let side = pairs.side;
        let mut first: Vec<u32> = Vec::new();
        let mut rows: HashSet<u32> = HashSet::new();
        let mut seen: HashSet<(&[u8], i64)> = HashSet::new();
        for (pair, (key, sub)) in keys.iter().zip(subs).enumerate() {
            if !satisfied.value(pair) {
                continue;
            }
            let new = match side {
                JoinSide::Left => {
                    let row = arrived.value(pair);
                    pairs.matched.get(row as usize) == Some(&false) && rows.insert(row)
                }
                _ => seen.insert((key.as_ref(), *sub)),
            };
            if new {
                first.push(u32::try_from(pair).map_err(|error| DataFusionError::External(Box::new(error)))?);
            }
        }
        if first.is_empty() {
            return Ok(());
        }
        if side == JoinSide::Right {
            for (key, sub) in seen {
                self.left.table.remove(key, sub)?;
                self.running.removed += 1;
            }
        }
        let indices = UInt32Array::from(first);
        let left = if side == JoinSide::Left { own } else { kept };
        let columns = left.iter().map(|column| take(column, &indices, None)).collect::<Result<Vec<_>, _>>()?;
        emit(self.rows(columns, indices.len())?);
        Ok(())
    }
}
