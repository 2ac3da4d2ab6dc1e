//! Functions that give the value of one row: `first`, `last`, `any_value`, `min_by`, `max_by`.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, AsArray, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::DataFusionError;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::Accumulator;
use datafusion::scalar::ScalarValue;
use millstream_core::Result;

use super::function::{Aggregation, aggregate};
use super::{Aggregates, Clauses, top};
use crate::functions::conditional::require_orderable;
use crate::functions::{Call, Typed, faults, normalized};

pub(super) fn register(aggregates: &mut Aggregates) {
    aggregates.add_all(&["first", "first_value", "any_value"], |call, clauses| end(call, clauses, false));
    aggregates.add_all(&["last", "last_value"], |call, clauses| end(call, clauses, true));
    aggregates.add("max_by", |call, clauses| by(call, clauses, true));
    aggregates.add("min_by", |call, clauses| by(call, clauses, false));
}

fn end(call: &Call<'_>, clauses: &Clauses, last: bool) -> Result<Typed> {
    call.arity(1..=2)?;
    let value = call.value(0)?.clone();
    let ignore_nulls = if call.len() == 2 {
        match call.constant(1)? {
            ScalarValue::Boolean(Some(ignore)) => ignore,
            _ => return Err(faults::unexpected_type(call.name, 1, "\"BOOLEAN\"", &call.value(1)?.data_type)),
        }
    } else {
        clauses.ignore_nulls
    };
    let (data_type, metadata) = (value.data_type.clone(), value.metadata.clone());
    let function = End { last, ignore_nulls };
    Ok(aggregate(if last { "last" } else { "first" }, function, vec![value], clauses, data_type, true).with_metadata(metadata))
}

fn by(call: &Call<'_>, clauses: &Clauses, greatest: bool) -> Result<Typed> {
    call.arity(2..=3)?;
    if call.len() == 3 {
        return top::extremes_by(call, clauses, greatest);
    }
    require_orderable(call.name, &call.value(1)?.data_type)?;
    extreme_by(call.value(0)?.clone(), call.value(1)?.clone(), greatest, clauses)
}

/// An aggregate of values without a type, which are all null.
pub(super) fn nothing(value: Typed, clauses: &Clauses) -> Typed {
    aggregate("first", End { last: false, ignore_nulls: true }, vec![value], clauses, DataType::Null, true)
}

/// The value of the row where `key` is greatest or smallest; of several, the last.
pub(super) fn extreme_by(value: Typed, key: Typed, greatest: bool, clauses: &Clauses) -> Result<Typed> {
    let (data_type, metadata) = (value.data_type.clone(), value.metadata.clone());
    let name = if greatest { "max_by" } else { "min_by" };
    Ok(aggregate(name, ExtremeBy { greatest }, vec![value, normalized(key)], clauses, data_type, true).with_metadata(metadata))
}

fn input_type(inputs: &[FieldRef], index: usize) -> DataType {
    inputs.get(index).map_or(DataType::Null, |field| field.data_type().clone())
}

fn column(columns: &[ArrayRef], index: usize) -> DfResult<&ArrayRef> {
    columns.get(index).ok_or_else(|| DataFusionError::Internal("a column of an aggregate function is missing".into()))
}

/// The first or last value. The state is the value and whether there was one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct End {
    last: bool,
    ignore_nulls: bool,
}

impl Aggregation for End {
    fn state(&self, inputs: &[FieldRef], _: &DataType) -> Vec<Field> {
        vec![Field::new("value", input_type(inputs, 0), true), Field::new("is_set", DataType::Boolean, true)]
    }

    fn accumulator(&self, inputs: &[FieldRef], _: &DataType) -> DfResult<Box<dyn Accumulator>> {
        let value = ScalarValue::try_new_null(&input_type(inputs, 0))?;
        Ok(Box::new(EndAccumulator { end: self.clone(), value, is_set: false }))
    }
}

#[derive(Debug)]
struct EndAccumulator {
    end: End,
    value: ScalarValue,
    is_set: bool,
}

impl EndAccumulator {
    fn take(&mut self, values: &ArrayRef, counts: impl Fn(usize) -> bool) -> DfResult<()> {
        if self.is_set && !self.end.last {
            return Ok(());
        }
        let found =
            if self.end.last { (0..values.len()).rev().find(|row| counts(*row)) } else { (0..values.len()).find(|row| counts(*row)) };
        if let Some(row) = found {
            // A value of its own, so that the whole batch is not kept for it.
            self.value = ScalarValue::try_from_array(values, row)?;
            self.value.compact();
            self.is_set = true;
        }
        Ok(())
    }
}

impl Accumulator for EndAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let values = column(values, 0)?;
        let nulls = values.logical_nulls();
        let ignore = self.end.ignore_nulls;
        self.take(values, |row| !ignore || nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let set = column(states, 1)?.as_boolean_opt().cloned();
        self.take(column(states, 0)?, |row| set.as_ref().is_some_and(|set| set.is_valid(row) && set.value(row)))
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::Boolean(Some(self.is_set))])
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size()
    }
}

/// The value where a key is greatest or smallest. The state is both.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ExtremeBy {
    greatest: bool,
}

impl Aggregation for ExtremeBy {
    fn state(&self, inputs: &[FieldRef], _: &DataType) -> Vec<Field> {
        vec![Field::new("value", input_type(inputs, 0), true), Field::new("key", input_type(inputs, 1), true)]
    }

    fn accumulator(&self, inputs: &[FieldRef], _: &DataType) -> DfResult<Box<dyn Accumulator>> {
        let value = ScalarValue::try_new_null(&input_type(inputs, 0))?;
        let key = ScalarValue::try_new_null(&input_type(inputs, 1))?;
        Ok(Box::new(ExtremeByAccumulator { greatest: self.greatest, value, key }))
    }
}

#[derive(Debug)]
struct ExtremeByAccumulator {
    greatest: bool,
    value: ScalarValue,
    key: ScalarValue,
}

impl Accumulator for ExtremeByAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let keys = column(values, 1)?;
        let wanted = if self.greatest { Ordering::Less } else { Ordering::Greater };
        let order = make_comparator(keys, keys, SortOptions::default())?;
        let nulls = keys.logical_nulls();
        let mut best: Option<usize> = None;
        for row in 0..keys.len() {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                continue;
            }
            // Of equal keys the later one counts.
            if best.is_none_or(|best| order(best, row) == wanted || order(best, row) == Ordering::Equal) {
                best = Some(row);
            }
        }
        let Some(row) = best else { return Ok(()) };
        if !self.key.is_null() {
            let mine = self.key.to_array()?;
            let order = make_comparator(&mine, keys, SortOptions::default())?(0, row);
            if order != wanted && order != Ordering::Equal {
                return Ok(());
            }
        }
        self.value = ScalarValue::try_from_array(column(values, 0)?, row)?;
        self.value.compact();
        self.key = ScalarValue::try_from_array(keys, row)?;
        self.key.compact();
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), self.key.clone()])
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size() + self.key.size()
    }
}
