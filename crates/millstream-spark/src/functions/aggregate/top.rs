//! Several rows or values in order: `max_by(x, y, k)`, `min_by(x, y, k)`, `approx_top_k`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StructArray, UInt64Array};
use arrow::compute::{SortOptions, concat, take};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::DataFusionError;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::Accumulator;
use datafusion::scalar::ScalarValue;
use millstream_core::Result;

use super::function::{Aggregation, aggregate};
use super::percentiles::one_list;
use super::{Clauses, mode};
use crate::functions::conditional::require_orderable;
use crate::functions::{Call, Typed, cast, faults, normalized};
use crate::types;

/// `max_by(x, y, k)`: the values of the `k` rows where the key is greatest, from the greatest down.
pub(super) fn extremes_by(call: &Call<'_>, clauses: &Clauses, greatest: bool) -> Result<Typed> {
    let (value, key) = (call.value(0)?.clone(), call.value(1)?.clone());
    require_orderable(call.name, &key.data_type)?;
    let count = positive(call, 2, 100_000)?;
    let element = Field::new("element", value.data_type.clone(), true).with_metadata(value.metadata.clone());
    let data_type = DataType::List(Arc::new(element));
    let name = if greatest { "max_by" } else { "min_by" };
    Ok(aggregate(name, Extremes { greatest, count }, vec![value, normalized(key)], clauses, data_type, true))
}

/// `approx_top_k(value [, k [, tracked]])`: the `k` most frequent values with their counts.
pub(super) fn approx_top_k(call: &Call<'_>, clauses: &Clauses) -> Result<Typed> {
    call.arity(1..=3)?;
    let count = if call.len() > 1 { positive(call, 1, 10_000)? } else { 5 };
    if call.len() > 2 {
        positive(call, 2, 1_000_000)?;
    }
    mode::most_frequent(normalized(call.value(0)?.clone()), count, clauses)
}

/// A constant argument that is a positive number, at most `most`.
fn positive(call: &Call<'_>, index: usize, most: i32) -> Result<usize> {
    match cast::implicit(Typed::literal(call.constant(index)?), &DataType::Int32, call.settings)?.as_literal() {
        Some(ScalarValue::Int32(Some(count))) if (1..=most).contains(count) => Ok(usize::try_from(*count).unwrap_or(1)),
        Some(ScalarValue::Int32(Some(_))) => {
            let message = format!("parameter {} of `{}` must be between 1 and {most}", index + 1, call.name);
            Err(faults::mismatch("VALUE_OUT_OF_RANGE", message))
        }
        _ => Err(faults::mismatch("UNEXPECTED_NULL", format!("parameter {} of `{}` must not be null", index + 1, call.name))),
    }
}

/// The state is a list of rows: values and keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Extremes {
    greatest: bool,
    count: usize,
}

fn row_fields(inputs: &[FieldRef]) -> Fields {
    inputs.iter().enumerate().map(|(number, field)| Field::new(format!("c{number}"), field.data_type().clone(), true)).collect()
}

impl Aggregation for Extremes {
    fn state(&self, inputs: &[FieldRef], _: &DataType) -> Vec<Field> {
        vec![Field::new("rows", types::array(DataType::Struct(row_fields(inputs)), true), true)]
    }

    fn accumulator(&self, inputs: &[FieldRef], result: &DataType) -> DfResult<Box<dyn Accumulator>> {
        let fields = row_fields(inputs);
        let rows = StructArray::new_null(fields.clone(), 0);
        Ok(Box::new(ExtremesAccumulator { extremes: self.clone(), result: result.clone(), fields, rows }))
    }
}

impl Extremes {
    /// Keys in an order where the better one is the greater one.
    fn encode(&self, keys: &ArrayRef) -> DfResult<Rows> {
        let options = SortOptions { descending: !self.greatest, nulls_first: false };
        let converter = RowConverter::new(vec![SortField::new_with_options(keys.data_type().clone(), options)])?;
        Ok(converter.convert_columns(std::slice::from_ref(keys))?)
    }
}

/// The best of keys in a binary heap with the worst of them at its root. Which of equal ones is there depends on how they came, as in Spark.
struct Best<K> {
    count: usize,
    heap: Vec<(K, usize)>,
}

impl<K: Ord> Best<K> {
    /// Takes a key where there is room, or where it is better than the worst one.
    fn offer(&mut self, key: K, row: usize) {
        if self.heap.len() < self.count {
            self.heap.push((key, row));
            self.rise();
        } else if let Some(worst) = self.heap.first_mut()
            && worst.0 < key
        {
            *worst = (key, row);
            self.sink();
        }
    }

    fn is_worse(&self, one: usize, other: usize) -> bool {
        matches!((self.heap.get(one), self.heap.get(other)), (Some(one), Some(other)) if one.0 < other.0)
    }

    fn rise(&mut self) {
        let mut at = self.heap.len().saturating_sub(1);
        while at > 0 && self.is_worse(at, (at - 1) / 2) {
            self.heap.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn sink(&mut self) {
        let mut at = 0;
        loop {
            let mut worst = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if self.is_worse(child, worst) {
                    worst = child;
                }
            }
            if worst == at {
                return;
            }
            self.heap.swap(at, worst);
            at = worst;
        }
    }
}

#[derive(Debug)]
struct ExtremesAccumulator {
    extremes: Extremes,
    result: DataType,
    fields: Fields,
    /// The rows that count so far, as they lie in their heap.
    rows: StructArray,
}

impl ExtremesAccumulator {
    fn add(&mut self, columns: &[ArrayRef]) -> DfResult<()> {
        let new = StructArray::try_new(self.fields.clone(), columns.to_vec(), None)?;
        let all = concat(&[&self.rows, &new])?;
        let Some(rows) = all.as_struct_opt() else { return Err(DataFusionError::Internal("rows are due".into())) };
        let [_, keys] = rows.columns() else { return Err(DataFusionError::Internal("values and keys are due".into())) };
        let encoded = self.extremes.encode(keys)?;
        let nulls = keys.logical_nulls();
        let mut best = Best { count: self.extremes.count, heap: Vec::new() };
        for (row, key) in encoded.iter().enumerate().filter(|(row, _)| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row))) {
            best.offer(key, row);
        }
        let chosen: Vec<u64> = best.heap.into_iter().filter_map(|(_, row)| u64::try_from(row).ok()).collect();
        let chosen = take(rows, &UInt64Array::from(chosen), None)?;
        if let Some(chosen) = chosen.as_struct_opt() {
            self.rows = chosen.clone();
        }
        Ok(())
    }
}

impl Accumulator for ExtremesAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        self.add(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let lists = states.first().and_then(|state| state.as_list_opt::<i32>());
        for rows in lists.into_iter().flat_map(|lists| lists.iter()).flatten() {
            if let Some(rows) = rows.as_struct_opt() {
                self.add(rows.columns())?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Ok(vec![one_list(Arc::new(self.rows.clone()), true)?])
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        match (self.rows.columns(), &self.result) {
            ([values, keys], DataType::List(field)) if !values.is_empty() => {
                let encoded = self.extremes.encode(keys)?;
                let mut order: Vec<_> = encoded.iter().zip(0_u64..).collect();
                order.sort_by(|(one, _), (other, _)| other.cmp(one));
                let order: UInt64Array = order.into_iter().map(|(_, row)| row).collect();
                let values = take(values, &order, None)?;
                let offsets = arrow::buffer::OffsetBuffer::from_lengths([values.len()]);
                let list = arrow::array::ListArray::try_new(field.clone(), offsets, values, None)?;
                Ok(ScalarValue::List(Arc::new(list)))
            }
            _ => ScalarValue::try_new_null(&self.result),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.rows.get_array_memory_size()
    }
}
