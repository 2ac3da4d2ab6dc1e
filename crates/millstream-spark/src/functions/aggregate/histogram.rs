//! `histogram_numeric`: the streaming histogram of Ben-Haim and Tom-Tov, "A streaming parallel decision tree algorithm" (2010).

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Float64Type};
use datafusion::common::DataFusionError;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::Accumulator;
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};

use super::function::{Aggregation, aggregate};
use super::percentiles::one_list;
use super::{Aggregates, Clauses};
use crate::functions::coercion::is_numeric;
use crate::functions::{Arguments, Call, Kernel, Typed, cast, faults, kernel};
use crate::types;

pub(super) fn register(aggregates: &mut Aggregates) {
    aggregates.add("histogram_numeric", histogram);
}

fn bins_type(x: DataType) -> DataType {
    let fields: Fields = vec![Field::new("x", x, true), Field::new("y", DataType::Float64, true)].into();
    types::array(DataType::Struct(fields), true)
}

fn histogram(call: &Call<'_>, clauses: &Clauses) -> Result<Typed> {
    call.arity(2..=2)?;
    let value = call.value(0)?.clone();
    if !(is_numeric(&value.data_type) || value.data_type == DataType::Null) {
        return Err(faults::unexpected_type(call.name, 0, "\"NUMERIC\"", &value.data_type));
    }
    let x = if value.data_type == DataType::Null { DataType::Float64 } else { value.data_type.clone() };
    let bins = match cast::implicit(Typed::literal(call.constant(1)?), &DataType::Int32, call.settings)?.as_literal() {
        Some(ScalarValue::Int32(Some(bins))) => *bins,
        _ => return Err(faults::mismatch("UNEXPECTED_NULL", "the number of bins of `histogram_numeric` must not be null")),
    };
    let Some(bins) = usize::try_from(bins).ok().filter(|bins| *bins >= 2) else {
        return Err(faults::mismatch("VALUE_OUT_OF_RANGE", "the number of bins of `histogram_numeric` must be at least 2"));
    };
    let value = cast::implicit(value, &DataType::Float64, call.settings)?;
    let result = aggregate("histogram_numeric", Histogram { bins }, vec![value], clauses, bins_type(DataType::Float64), true);
    if x == DataType::Float64 {
        return Ok(result);
    }
    let data_type = bins_type(x);
    Ok(kernel::scalar("histogram_of", Retyped { to: data_type.clone() }, vec![result], data_type, true))
}

/// Gives the bins the type of the values again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Retyped {
    to: DataType,
}

impl Kernel for Retyped {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let values = arguments.array(0)?;
        arrow::compute::cast(&values, &self.to).map_err(|error| Error::internal("bins cannot be cast").caused_by(error))
    }
}

/// The state is the bins: their centres and heights.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Histogram {
    bins: usize,
}

impl Aggregation for Histogram {
    fn state(&self, _: &[FieldRef], _: &DataType) -> Vec<Field> {
        vec![Field::new("x", types::array(DataType::Float64, true), true), Field::new("y", types::array(DataType::Float64, true), true)]
    }

    fn accumulator(&self, _: &[FieldRef], result: &DataType) -> DfResult<Box<dyn Accumulator>> {
        Ok(Box::new(HistogramAccumulator { bins: self.bins, result: result.clone(), x: Vec::new(), y: Vec::new() }))
    }
}

#[derive(Debug)]
struct HistogramAccumulator {
    bins: usize,
    result: DataType,
    /// Centres, ascending.
    x: Vec<f64>,
    /// Heights.
    y: Vec<f64>,
}

impl HistogramAccumulator {
    fn add(&mut self, x: f64, y: f64) {
        match self.x.binary_search_by(|centre| centre.total_cmp(&x)) {
            Ok(place) => {
                if let Some(height) = self.y.get_mut(place) {
                    *height += y;
                }
            }
            Err(place) => {
                self.x.insert(place, x);
                self.y.insert(place, y);
            }
        }
        while self.x.len() > self.bins {
            self.join_closest();
        }
    }

    fn join_closest(&mut self) {
        let gaps = self.x.windows(2).map(|pair| pair.last().copied().unwrap_or(0.0) - pair.first().copied().unwrap_or(0.0));
        let closest = gaps.enumerate().min_by(|(_, left), (_, right)| left.total_cmp(right)).map(|(place, _)| place);
        let Some(place) = closest else { return };
        let (x2, y2) = (self.x.remove(place + 1), self.y.remove(place + 1));
        if let (Some(x), Some(y)) = (self.x.get_mut(place), self.y.get_mut(place)) {
            let total = *y + y2;
            *x = (*x * *y + x2 * y2) / total;
            *y = total;
        }
    }
}

impl Accumulator for HistogramAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let values = values.first().and_then(|values| values.as_primitive_opt::<Float64Type>());
        let values = values.ok_or_else(|| DataFusionError::Internal("doubles are due".into()))?;
        values.iter().flatten().for_each(|value| self.add(value, 1.0));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let [x, y, ..] = states else { return Ok(()) };
        let (Some(x), Some(y)) = (x.as_list_opt::<i32>(), y.as_list_opt::<i32>()) else { return Ok(()) };
        for (x, y) in x.iter().zip(y.iter()) {
            if let (Some(x), Some(y)) = (x, y)
                && let (Some(x), Some(y)) = (x.as_primitive_opt::<Float64Type>(), y.as_primitive_opt::<Float64Type>())
            {
                x.values().iter().zip(y.values()).for_each(|(x, y)| self.add(*x, *y));
            }
        }
        Ok(())
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let list = |values: &[f64]| one_list(Arc::new(Float64Array::from(values.to_vec())), true);
        Ok(vec![list(&self.x)?, list(&self.y)?])
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        if self.x.is_empty() {
            return ScalarValue::try_new_null(&self.result);
        }
        let DataType::List(field) = &self.result else { return ScalarValue::try_new_null(&self.result) };
        let DataType::Struct(fields) = field.data_type() else { return ScalarValue::try_new_null(&self.result) };
        let columns: Vec<ArrayRef> = vec![Arc::new(Float64Array::from(self.x.clone())), Arc::new(Float64Array::from(self.y.clone()))];
        one_list(Arc::new(StructArray::try_new(fields.clone(), columns, None)?), true)
    }

    fn size(&self) -> usize {
        size_of_val(self) + (self.x.capacity() + self.y.capacity()) * 8
    }
}
