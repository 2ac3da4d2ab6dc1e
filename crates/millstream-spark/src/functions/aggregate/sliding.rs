//! Aggregate functions over windows that move on.

use std::collections::VecDeque;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::DataFusionError;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::Accumulator;
use datafusion::scalar::ScalarValue;

use super::function::Aggregation;

/// Computes every result from the rows of its window alone, as Spark does: what a sum of doubles loses in rounding, or a maximum forgets,
/// cannot be taken out again.
#[derive(Debug)]
pub(super) struct Sliding<A> {
    aggregation: A,
    inputs: Vec<FieldRef>,
    result: DataType,
    /// The rows of the window, oldest first.
    rows: VecDeque<Vec<ArrayRef>>,
}

impl<A: Aggregation> Sliding<A> {
    pub(super) fn new(aggregation: A, inputs: &[FieldRef], result: &DataType) -> Self {
        Sliding { aggregation, inputs: inputs.to_vec(), result: result.clone(), rows: VecDeque::new() }
    }

    fn whole(&self) -> DfResult<Box<dyn Accumulator>> {
        let mut accumulator = self.aggregation.accumulator(&self.inputs, &self.result)?;
        for rows in &self.rows {
            accumulator.update_batch(rows)?;
        }
        Ok(accumulator)
    }
}

fn count(rows: &[ArrayRef]) -> usize {
    rows.first().map_or(0, |column| column.len())
}

impl<A: Aggregation> Accumulator for Sliding<A> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        if count(values) > 0 {
            self.rows.push_back(values.to_vec());
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let mut gone = count(values);
        while let Some(oldest) = self.rows.front_mut().filter(|_| gone > 0) {
            let there = count(oldest);
            if there > gone {
                oldest.iter_mut().for_each(|column| *column = column.slice(gone, there - gone));
                break;
            }
            self.rows.pop_front();
            gone -= there;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> DfResult<()> {
        Err(DataFusionError::Internal("windows are computed from rows".into()))
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        self.whole()?.state()
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        self.whole()?.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.rows.iter().flatten().map(|column| column.get_array_memory_size()).sum::<usize>()
    }
}
