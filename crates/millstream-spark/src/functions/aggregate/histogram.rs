//! `histogram_numeric`: the streaming histogram of Ben-Haim and Tom-Tov, "A streaming parallel decision tree algorithm" (2010).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, ListArray, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Float64Type, IntervalUnit};
use datafusion::common::DataFusionError;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::Accumulator;
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};

use super::function::{Aggregation, aggregate};
use super::percentiles::one_list;
use super::{Aggregates, Clauses, quantiles};
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
    let value = if call.value(0)?.data_type == DataType::Utf8 { call.double(0)? } else { call.value(0)?.clone() };
    let x = match &value.data_type {
        DataType::Null => DataType::Float64,
        data_type
            if is_numeric(data_type)
                || matches!(data_type, DataType::Date32 | DataType::Timestamp(..) | DataType::Duration(_))
                || *data_type == DataType::Interval(IntervalUnit::YearMonth) =>
        {
            data_type.clone()
        }
        other => {
            return Err(faults::unexpected_type(call.name, 0, "\"NUMERIC\", \"DATE\", \"TIMESTAMP\" or \"ANSI INTERVAL\"", other));
        }
    };
    let bins = match cast::implicit(Typed::literal(call.constant(1)?), &DataType::Int32, call.settings)?.as_literal() {
        Some(ScalarValue::Int32(Some(bins))) => *bins,
        _ => return Err(faults::mismatch("UNEXPECTED_NULL", "the number of bins of `histogram_numeric` must not be null")),
    };
    let Some(bins) = usize::try_from(bins).ok().filter(|bins| *bins >= 2) else {
        return Err(faults::mismatch("VALUE_OUT_OF_RANGE", "the number of bins of `histogram_numeric` must be at least 2"));
    };
    let value = if value.data_type == DataType::Null { Typed::null(&DataType::Float64) } else { quantiles::as_double(value) };
    let result = aggregate("histogram_numeric", Histogram { bins }, vec![value], clauses, bins_type(DataType::Float64), true);
    if x == DataType::Float64 {
        return Ok(result);
    }
    let data_type = bins_type(x.clone());
    Ok(kernel::scalar("histogram_of", Retyped { x }, vec![result], data_type, true))
}

/// Gives the centres of bins the type of the values again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Retyped {
    x: DataType,
}

impl Kernel for Retyped {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let values = arguments.array(0)?;
        let broken = |error| Error::internal("bins cannot be put together").caused_by(error);
        let (Some(lists), DataType::List(field)) = (values.as_list_opt::<i32>(), bins_type(self.x.clone())) else {
            return Err(Error::internal("lists of bins are due"));
        };
        let (Some(bins), DataType::Struct(fields)) = (lists.values().as_struct_opt(), field.data_type()) else {
            return Err(Error::internal("bins are due"));
        };
        let [x, y] = bins.columns() else { return Err(Error::internal("bins have a centre and a height")) };
        let columns = vec![quantiles::of_double(x, &self.x)?, y.clone()];
        let bins = StructArray::try_new(fields.clone(), columns, bins.nulls().cloned()).map_err(broken)?;
        let lists = ListArray::try_new(field.clone(), lists.offsets().clone(), Arc::new(bins), lists.nulls().cloned());
        Ok(Arc::new(lists.map_err(broken)?))
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
        let random = JavaRandom::seeded(31_183);
        Ok(Box::new(HistogramAccumulator { bins: self.bins, result: result.clone(), x: Vec::new(), y: Vec::new(), random }))
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
    /// Chooses between gaps of the same width.
    random: JavaRandom,
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
        let (mut closest, mut smallest, mut ties) = (0, f64::INFINITY, 1.0);
        for (place, (left, right)) in self.x.iter().zip(self.x.iter().skip(1)).enumerate() {
            let gap = right - left;
            if place == 0 || gap < smallest {
                (closest, smallest, ties) = (place, gap, 1.0);
            } else if gap == smallest {
                ties += 1.0;
                if self.random.next_double() <= 1.0 / ties {
                    closest = place;
                }
            }
        }
        let (x2, y2) = (self.x.remove(closest + 1), self.y.remove(closest + 1));
        if let (Some(x), Some(y)) = (self.x.get_mut(closest), self.y.get_mut(closest)) {
            let total = *y + y2;
            *x = *x * (*y / total) + x2 / total * y2;
            *y = total;
        }
    }
}

/// The generator of `java.util.Random`.
#[derive(Debug)]
struct JavaRandom(u64);

impl JavaRandom {
    const MASK: u64 = (1 << 48) - 1;
    const FACTOR: u64 = 0x5_DEEC_E66D;

    fn seeded(seed: u64) -> Self {
        JavaRandom((seed ^ Self::FACTOR) & Self::MASK)
    }

    fn next(&mut self, bits: u32) -> u64 {
        self.0 = self.0.wrapping_mul(Self::FACTOR).wrapping_add(11) & Self::MASK;
        self.0 >> (48 - bits)
    }

    fn next_double(&mut self) -> f64 {
        let high = self.next(26) << 27;
        (high + self.next(27)) as f64 / (1_u64 << 53) as f64
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
