//! `mode`: the most frequent value.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Int64Type};
use arrow::row::{RowConverter, SortField};
use datafusion::common::DataFusionError;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::Accumulator;
use datafusion::scalar::ScalarValue;
use millstream_core::Result;

use super::function::{Aggregation, aggregate};
use super::percentiles::one_list;
use super::{Aggregates, Clauses, top};
use crate::functions::{Typed, faults, normalized};
use crate::types;

pub(super) fn register(aggregates: &mut Aggregates) {
    aggregates.add("approx_top_k", top::approx_top_k);
    aggregates.add("mode", |call, clauses| {
        call.arity(0..=2)?;
        // Of several most frequent values it gives the smallest when that is asked for; otherwise any will do, so the largest.
        let (value, choice) = if call.is_empty() {
            let value = clauses.ordered.first().cloned();
            let Some(value) = value else {
                return Err(faults::wrong_number(call.name, "1", 0));
            };
            let ascending = clauses.order_by.first().is_none_or(|order| order.asc);
            (value, if ascending { Choice::Smallest } else { Choice::Largest })
        } else if call.len() == 2 {
            let smallest = call.constant(1)? == ScalarValue::Boolean(Some(true));
            (call.value(0)?.clone(), if smallest { Choice::Smallest } else { Choice::First })
        } else {
            (call.value(0)?.clone(), Choice::First)
        };
        let (data_type, metadata) = (value.data_type.clone(), value.metadata.clone());
        Ok(aggregate("mode", Mode { choice, top: None }, vec![normalized(value)], clauses, data_type, true).with_metadata(metadata))
    });
}

/// The `count` most frequent values with their counts, null among them, the most frequent first.
pub(super) fn most_frequent(value: Typed, count: usize, clauses: &Clauses) -> Result<Typed> {
    let item = Field::new("item", value.data_type.clone(), true).with_metadata(value.metadata.clone());
    let fields: Fields = vec![item, Field::new("count", DataType::Int64, false)].into();
    let data_type = types::array(DataType::Struct(fields), false);
    let mode = Mode { choice: Choice::First, top: Some(count) };
    Ok(aggregate("approx_top_k", mode, vec![value], clauses, data_type, false))
}

/// Which of the most frequent values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Choice {
    /// The one that was seen first.
    First,
    Smallest,
    Largest,
}

/// The state is the values, in the order in which they were seen, and their counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Mode {
    choice: Choice,
    /// So many values with their counts instead of one.
    top: Option<usize>,
}

impl Aggregation for Mode {
    fn state(&self, inputs: &[FieldRef], _: &DataType) -> Vec<Field> {
        let element = inputs.first().map_or(DataType::Null, |field| field.data_type().clone());
        vec![Field::new("values", types::array(element, true), true), Field::new("counts", types::array(DataType::Int64, true), true)]
    }

    fn accumulator(&self, inputs: &[FieldRef], result: &DataType) -> DfResult<Box<dyn Accumulator>> {
        let element = inputs.first().map_or(DataType::Null, |field| field.data_type().clone());
        let converter = RowConverter::new(vec![SortField::new(element)])?;
        Ok(Box::new(ModeAccumulator { mode: self.clone(), result: result.clone(), converter, counts: HashMap::new() }))
    }
}

struct ModeAccumulator {
    mode: Mode,
    result: DataType,
    converter: RowConverter,
    /// The place and the count of every value.
    counts: HashMap<Box<[u8]>, (usize, i64)>,
}

impl Debug for ModeAccumulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModeAccumulator").field("mode", &self.mode).field("values", &self.counts.len()).finish()
    }
}

impl ModeAccumulator {
    fn add(&mut self, values: &ArrayRef, counts: impl Fn(usize) -> i64) -> DfResult<()> {
        let nulls = values.logical_nulls();
        for (number, row) in self.converter.convert_columns(std::slice::from_ref(values))?.iter().enumerate() {
            if self.mode.top.is_none() && nulls.as_ref().is_some_and(|nulls| nulls.is_null(number)) {
                continue;
            }
            let place = self.counts.len();
            match self.counts.get_mut(row.as_ref()) {
                Some((_, count)) => *count += counts(number),
                None => {
                    self.counts.insert(row.as_ref().into(), (place, counts(number)));
                }
            }
        }
        Ok(())
    }

    fn most_frequent(&self, top: usize) -> DfResult<ScalarValue> {
        let mut entries: Vec<_> = self.counts.iter().collect();
        entries.sort_unstable_by_key(|(_, (place, count))| (std::cmp::Reverse(*count), *place));
        entries.truncate(top);
        let rows: Vec<&[u8]> = entries.iter().map(|(row, _)| row.as_ref()).collect();
        let counts: Int64Array = entries.iter().map(|(_, (_, count))| Some(*count)).collect();
        let DataType::List(field) = &self.result else { return ScalarValue::try_new_null(&self.result) };
        let DataType::Struct(fields) = field.data_type() else { return ScalarValue::try_new_null(&self.result) };
        let items = StructArray::try_new(fields.clone(), vec![self.values(&rows)?, Arc::new(counts)], None)?;
        one_list(Arc::new(items), false)
    }

    fn values(&self, rows: &[&[u8]]) -> DfResult<ArrayRef> {
        let parser = self.converter.parser();
        let columns = self.converter.convert_rows(rows.iter().map(|row| parser.parse(row)))?;
        columns.into_iter().next().ok_or_else(|| DataFusionError::Internal("a column is missing".into()))
    }
}

impl Accumulator for ModeAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        match values.first() {
            Some(values) => self.add(values, |_| 1),
            None => Ok(()),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let [values, counts, ..] = states else { return Ok(()) };
        let (Some(values), Some(counts)) = (values.as_list_opt::<i32>(), counts.as_list_opt::<i32>()) else { return Ok(()) };
        for (values, counts) in values.iter().zip(counts.iter()) {
            if let (Some(values), Some(counts)) = (values, counts) {
                let counts = counts.as_primitive_opt::<Int64Type>().cloned().unwrap_or_else(|| Int64Array::from(Vec::<i64>::new()));
                self.add(&values, |row| counts.values().get(row).copied().unwrap_or(0))?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let mut entries: Vec<_> = self.counts.iter().collect();
        entries.sort_unstable_by_key(|(_, (place, _))| *place);
        let rows: Vec<&[u8]> = entries.iter().map(|(row, _)| row.as_ref()).collect();
        let values = self.values(&rows)?;
        let counts: Int64Array = entries.iter().map(|(_, (_, count))| Some(*count)).collect();
        let field = Arc::new(Field::new("element", values.data_type().clone(), true));
        let values = ListArray::try_new(field, OffsetBuffer::from_lengths([values.len()]), values, None)?;
        Ok(vec![ScalarValue::List(Arc::new(values)), one_list(Arc::new(counts), true)?])
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        if let Some(top) = self.mode.top {
            return self.most_frequent(top);
        }
        let Some(most) = self.counts.values().map(|(_, count)| *count).max() else {
            return ScalarValue::try_new_null(&self.result);
        };
        // Rows compare as bytes in the order of their values.
        let candidates = self.counts.iter().filter(|(_, (_, count))| *count == most);
        let chosen = match self.mode.choice {
            Choice::First => candidates.min_by_key(|(_, (place, _))| *place),
            Choice::Smallest => candidates.min_by_key(|(row, _)| *row),
            Choice::Largest => candidates.max_by_key(|(row, _)| *row),
        };
        match chosen {
            Some((row, _)) => ScalarValue::try_from_array(&self.values(&[row.as_ref()])?, 0),
            None => ScalarValue::try_new_null(&self.result),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.counts.keys().map(|row| row.len() + 32).sum::<usize>()
    }
}
