//! Approximate percentiles: `approx_percentile`, `percentile_approx`.
//!
//! A summary after Greenwald and Khanna ("Space-efficient online computation of quantile summaries", 2001), with Spark's buffer sizes, so
//! that the same values are chosen.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, ListArray};
use arrow::compute::cast as arrow_cast;
use arrow::datatypes::{
    DataType, Date32Type, DurationMicrosecondType, Field, FieldRef, Float64Type, Int64Type, IntervalUnit, IntervalYearMonthType,
    TimestampMicrosecondType,
};
use datafusion::common::DataFusionError;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::Accumulator;
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};

use super::function::{Aggregation, aggregate};
use super::percentiles::{fractions, one_list};
use super::{Aggregates, Clauses};
use crate::functions::cast::decimal;
use crate::functions::coercion::is_numeric;
use crate::functions::{Arguments, Call, Kernel, Typed, cast, faults, kernel};
use crate::types;

pub(super) fn register(aggregates: &mut Aggregates) {
    aggregates.add_all(&["approx_percentile", "percentile_approx"], approx_percentile);
}

fn approx_percentile(call: &Call<'_>, clauses: &Clauses) -> Result<Typed> {
    call.arity(2..=3)?;
    let value = call.value(0)?.clone();
    let metadata = value.metadata.clone();
    let (value, data_type) = match &value.data_type {
        DataType::Utf8 | DataType::Null => (cast::implicit(value, &DataType::Float64, call.settings)?, DataType::Float64),
        data_type
            if is_numeric(data_type)
                || matches!(data_type, DataType::Date32 | DataType::Timestamp(..) | DataType::Duration(_))
                || *data_type == DataType::Interval(IntervalUnit::YearMonth) =>
        {
            let data_type = data_type.clone();
            (as_double(value), data_type)
        }
        other => {
            return Err(faults::unexpected_type(call.name, 0, "\"NUMERIC\", \"DATE\", \"TIMESTAMP\" or \"ANSI INTERVAL\"", other));
        }
    };
    let fractions = fractions(call, 1)?;
    let accuracy = if call.len() == 3 {
        match cast::implicit(Typed::literal(call.constant(2)?), &DataType::Int64, call.settings)?.as_literal() {
            Some(ScalarValue::Int64(Some(accuracy))) => *accuracy,
            _ => return Err(faults::mismatch("UNEXPECTED_NULL", format!("the accuracy of `{}` must not be null", call.name))),
        }
    } else {
        10_000
    };
    if accuracy <= 0 || accuracy > i64::from(i32::MAX) {
        let message = format!("the accuracy of `{}` must be between 1 and {}", call.name, i32::MAX);
        return Err(faults::mismatch("VALUE_OUT_OF_RANGE", message));
    }
    let doubles = if fractions.array { types::array(DataType::Float64, false) } else { DataType::Float64 };
    let function =
        Quantiles { fractions: fractions.values.iter().map(|value| value.to_bits()).collect(), array: fractions.array, accuracy };
    let result = aggregate("approx_percentile", function, vec![value], clauses, doubles, true);
    Ok(of_doubles(result, data_type).with_metadata(metadata))
}

/// A double, or an array of doubles, as the type that [`as_double`] took them from.
pub(super) fn of_doubles(value: Typed, data_type: DataType) -> Typed {
    if data_type == DataType::Float64 {
        return value;
    }
    let to = if matches!(value.data_type, DataType::List(_)) { types::array(data_type, false) } else { data_type };
    let nullable = value.nullable;
    kernel::scalar("of_double", OfDouble { to: to.clone() }, vec![value], to, nullable)
}

/// A value of any type with numbers behind it as a double.
pub(in crate::functions) fn as_double(value: Typed) -> Typed {
    if value.data_type == DataType::Float64 {
        return value;
    }
    let nullable = value.nullable;
    kernel::scalar("as_double", AsDouble, vec![value], DataType::Float64, nullable)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct AsDouble;

impl Kernel for AsDouble {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let values = arguments.array(0)?;
        let counts: Option<ArrayRef> = match values.data_type() {
            DataType::Timestamp(..) => {
                values.as_primitive_opt::<TimestampMicrosecondType>().map(|array| Arc::new(array.reinterpret_cast::<Int64Type>()) as _)
            }
            DataType::Duration(_) => {
                values.as_primitive_opt::<DurationMicrosecondType>().map(|array| Arc::new(array.reinterpret_cast::<Int64Type>()) as _)
            }
            DataType::Interval(_) => values
                .as_primitive_opt::<IntervalYearMonthType>()
                .map(|array| Arc::new(array.reinterpret_cast::<arrow::datatypes::Int32Type>()) as _),
            DataType::Date32 => {
                values.as_primitive_opt::<Date32Type>().map(|array| Arc::new(array.reinterpret_cast::<arrow::datatypes::Int32Type>()) as _)
            }
            DataType::Decimal128(_, scale) => {
                let scale = *scale;
                return values
                    .as_primitive_opt::<arrow::datatypes::Decimal128Type>()
                    .map(|array| Arc::new(array.unary::<_, Float64Type>(|value| decimal::to_f64(value, scale))) as ArrayRef)
                    .ok_or_else(|| Error::internal("decimals are due"));
            }
            _ => Some(values.clone()),
        };
        let counts = counts.ok_or_else(|| Error::internal("a column contradicts its type"))?;
        arrow_cast(&counts, &DataType::Float64).map_err(|error| Error::internal("a value has no number").caused_by(error))
    }
}

/// Doubles that came from values of a type as that type again, alone or in lists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OfDouble {
    to: DataType,
}

impl Kernel for OfDouble {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let values = arguments.array(0)?;
        let broken = |error| Error::internal("a list cannot be put together").caused_by(error);
        match (&self.to, values.as_list_opt::<i32>()) {
            (DataType::List(field), Some(list)) => {
                let elements = of_double(list.values(), field.data_type())?;
                let list = ListArray::try_new(field.clone(), list.offsets().clone(), elements, list.nulls().cloned()).map_err(broken)?;
                Ok(Arc::new(list))
            }
            (to, _) => of_double(&values, to),
        }
    }
}

/// Doubles as values of the type that they came from.
///
/// # Errors
/// `INTERNAL_ERROR` for a type without numbers behind it.
pub(super) fn of_double(values: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let doubles = values.as_primitive_opt::<Float64Type>().ok_or_else(|| Error::internal("doubles are due"))?;
    let whole: Int64Array = doubles.unary(|value| value as i64);
    let array: ArrayRef = match to {
        DataType::Timestamp(_, zone) => Arc::new(whole.reinterpret_cast::<TimestampMicrosecondType>().with_timezone_opt(zone.clone())),
        DataType::Duration(_) => Arc::new(whole.reinterpret_cast::<DurationMicrosecondType>()),
        DataType::Interval(_) => Arc::new(whole.unary::<_, IntervalYearMonthType>(|value| value as i32)),
        DataType::Date32 => Arc::new(whole.unary::<_, Date32Type>(|value| value as i32)),
        DataType::Decimal128(precision, scale) => {
            let array = doubles.unary_opt::<_, arrow::datatypes::Decimal128Type>(|value| decimal::from_f64(value, *precision, *scale));
            Arc::new(array.with_data_type(to.clone()))
        }
        DataType::Float32 => Arc::new(doubles.unary::<_, arrow::datatypes::Float32Type>(|value| value as f32)),
        other => arrow_cast(&whole, other).map_err(|error| Error::internal("a double is not of its type").caused_by(error))?,
    };
    Ok(array)
}

/// Approximate quantiles. The state is a compressed summary: values, the ranks that each covers, their uncertainty, and the count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Quantiles {
    /// The bits of the fractions.
    fractions: Vec<u64>,
    array: bool,
    accuracy: i64,
}

impl Aggregation for Quantiles {
    fn state(&self, _: &[FieldRef], _: &DataType) -> Vec<Field> {
        vec![
            Field::new("values", types::array(DataType::Float64, true), true),
            Field::new("ranks", types::array(DataType::Int64, true), true),
            Field::new("deltas", types::array(DataType::Int64, true), true),
            Field::new("count", DataType::Int64, true),
        ]
    }

    fn accumulator(&self, _: &[FieldRef], result: &DataType) -> DfResult<Box<dyn Accumulator>> {
        let summary = Summary { error: 1.0 / self.accuracy as f64, ..Summary::default() };
        Ok(Box::new(QuantilesAccumulator { quantiles: self.clone(), result: result.clone(), summary }))
    }
}

#[derive(Debug)]
struct QuantilesAccumulator {
    quantiles: Quantiles,
    result: DataType,
    summary: Summary,
}

impl Accumulator for QuantilesAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let values = values.first().and_then(|values| values.as_primitive_opt::<Float64Type>()).ok_or_else(wrong_columns)?;
        values.iter().flatten().for_each(|value| self.summary.insert(value));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let [values, ranks, deltas, counts] = states else { return Err(wrong_columns()) };
        let (Some(values), Some(ranks), Some(deltas), Some(counts)) =
            (values.as_list_opt::<i32>(), ranks.as_list_opt::<i32>(), deltas.as_list_opt::<i32>(), counts.as_primitive_opt::<Int64Type>())
        else {
            return Err(wrong_columns());
        };
        for row in (0..counts.len()).filter(|row| counts.is_valid(*row) && counts.value(*row) > 0) {
            let (values, ranks, deltas) = (values.value(row), ranks.value(row), deltas.value(row));
            let (Some(values), Some(ranks), Some(deltas)) =
                (values.as_primitive_opt::<Float64Type>(), ranks.as_primitive_opt::<Int64Type>(), deltas.as_primitive_opt::<Int64Type>())
            else {
                return Err(wrong_columns());
            };
            let samples = values.values().iter().zip(ranks.values()).zip(deltas.values());
            let samples = samples.map(|((value, rank), delta)| Sample { value: *value, rank: *rank, delta: *delta }).collect();
            self.summary.merge(Summary { error: self.summary.error, samples, count: counts.value(row), buffer: Vec::new() });
        }
        Ok(())
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        self.summary.compress();
        let samples = &self.summary.samples;
        let values: Float64Array = samples.iter().map(|sample| Some(sample.value)).collect();
        let ranks: Int64Array = samples.iter().map(|sample| Some(sample.rank)).collect();
        let deltas: Int64Array = samples.iter().map(|sample| Some(sample.delta)).collect();
        Ok(vec![
            one_list(Arc::new(values), true)?,
            one_list(Arc::new(ranks), true)?,
            one_list(Arc::new(deltas), true)?,
            ScalarValue::Int64(Some(self.summary.count)),
        ])
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        self.summary.compress();
        if self.summary.count == 0 {
            return ScalarValue::try_new_null(&self.result);
        }
        let fractions = self.quantiles.fractions.iter().map(|bits| f64::from_bits(*bits));
        let results: Vec<Option<f64>> = fractions.map(|fraction| self.summary.query(fraction)).collect();
        if self.quantiles.array {
            return one_list(Arc::new(Float64Array::from(results)), false);
        }
        Ok(ScalarValue::Float64(results.first().copied().flatten()))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.summary.samples.capacity() * size_of::<Sample>() + self.summary.buffer.capacity() * 8
    }
}

fn wrong_columns() -> DataFusionError {
    DataFusionError::Internal("the columns of an aggregate function are of other types".into())
}

/// A value of the summary.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    value: f64,
    /// How many more ranks it covers than the sample before.
    rank: i64,
    /// By how much its rank is uncertain.
    delta: i64,
}

#[derive(Debug, Default)]
struct Summary {
    /// The share of the ranks by which an answer may be off.
    error: f64,
    samples: Vec<Sample>,
    count: i64,
    buffer: Vec<f64>,
}

/// Values that are collected before they are sorted in.
const BUFFER: usize = 50_000;
/// Samples from which on the summary is compressed.
const COMPRESS: usize = 10_000;

impl Summary {
    fn insert(&mut self, value: f64) {
        self.buffer.push(value);
        if self.buffer.len() >= BUFFER {
            self.sort_in();
            if self.samples.len() >= COMPRESS {
                self.shrink();
            }
        }
    }

    fn compress(&mut self) {
        self.sort_in();
        self.shrink();
    }

    fn sort_in(&mut self) {
        let mut sorted = std::mem::take(&mut self.buffer);
        if sorted.is_empty() {
            return;
        }
        sorted.sort_by(f64::total_cmp);
        let mut merged = Vec::with_capacity(self.samples.len() + sorted.len());
        let mut old = std::mem::take(&mut self.samples).into_iter().peekable();
        let last = sorted.len() - 1;
        for (index, value) in sorted.into_iter().enumerate() {
            while let Some(sample) = old.next_if(|sample| sample.value <= value) {
                merged.push(sample);
            }
            self.count += 1;
            let at_end = merged.is_empty() || old.peek().is_none() && index == last;
            let delta = if at_end { 0 } else { (2.0 * self.error * self.count as f64).floor() as i64 };
            merged.push(Sample { value, rank: 1, delta });
        }
        merged.extend(old);
        self.samples = merged;
    }

    fn shrink(&mut self) {
        let threshold = 2.0 * self.error * self.count as f64;
        let Some((last, rest)) = self.samples.split_last() else { return };
        let Some(first) = self.samples.first().copied() else { return };
        let mut kept = Vec::new();
        let mut head = *last;
        // The first sample is kept as it is.
        for sample in rest.iter().skip(1).rev() {
            if ((sample.rank + head.rank + head.delta) as f64) < threshold {
                head.rank += sample.rank;
            } else {
                kept.push(head);
                head = *sample;
            }
        }
        kept.push(head);
        if first.value <= head.value && self.samples.len() > 1 {
            kept.push(first);
        }
        kept.reverse();
        self.samples = kept;
    }

    fn merge(&mut self, other: Summary) {
        self.compress();
        if self.count == 0 {
            *self = other;
            return;
        }
        // A sample's rank is uncertain by what the other summary can hide around it.
        let mine = (2.0 * other.error * other.count as f64).floor() as i64;
        let theirs = (2.0 * self.error * self.count as f64).floor() as i64;
        let mut merged = Vec::with_capacity(self.samples.len() + other.samples.len());
        let mut left = std::mem::take(&mut self.samples).into_iter().peekable();
        let mut right = other.samples.into_iter().peekable();
        let (mut left_seen, mut right_seen) = (false, false);
        while let (Some(one), Some(two)) = (left.peek().copied(), right.peek().copied()) {
            if one.value < two.value {
                left.next();
                left_seen = true;
                merged.push(Sample { delta: one.delta + if right_seen { mine } else { 0 }, ..one });
            } else {
                right.next();
                right_seen = true;
                merged.push(Sample { delta: two.delta + if left_seen { theirs } else { 0 }, ..two });
            }
        }
        merged.extend(left);
        merged.extend(right);
        self.samples = merged;
        self.count += other.count;
        self.shrink();
    }

    fn query(&self, fraction: f64) -> Option<f64> {
        let (first, last) = (self.samples.first()?, self.samples.last()?);
        if fraction <= self.error || self.samples.len() == 1 {
            return Some(first.value);
        }
        if fraction >= 1.0 - self.error {
            return Some(last.value);
        }
        let rank = (fraction * self.count as f64).ceil();
        let widest = self.samples.iter().map(|sample| sample.rank + sample.delta).max().unwrap_or(0);
        let allowed = widest as f64 / 2.0;
        let mut least = 0;
        for sample in self.samples.split_last()?.1 {
            least += sample.rank;
            let most = least + sample.delta;
            if most as f64 - allowed <= rank && rank <= least as f64 + allowed {
                return Some(sample.value);
            }
        }
        Some(last.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(values: impl IntoIterator<Item = f64>, accuracy: f64) -> Summary {
        let mut summary = Summary { error: 1.0 / accuracy, ..Summary::default() };
        values.into_iter().for_each(|value| summary.insert(value));
        summary.compress();
        summary
    }

    #[test]
    fn few_values_are_exact() {
        let two = summary([10.0, 1.0], 10_000.0);
        assert_eq!((two.query(0.5), two.query(0.75)), (Some(1.0), Some(10.0)));
        let four = summary([1.0, 10.0, 3.0, 4.0], 10_000.0);
        assert_eq!([0.25, 0.5, 0.75, 1.0].map(|fraction| four.query(fraction)), [Some(1.0), Some(3.0), Some(4.0), Some(10.0)]);
    }

    #[test]
    fn merged_summaries_answer_within_their_error() {
        let mut merged = summary((0..30_000).map(f64::from), 100.0);
        merged.merge(summary((30_000..100_000).map(f64::from), 100.0));
        assert!(merged.samples.len() < 2_000, "{} samples", merged.samples.len());
        for percent in [5.0, 25.0, 50.0, 75.0, 95.0] {
            let answer = merged.query(percent / 100.0).unwrap();
            assert!((answer - percent * 1_000.0).abs() <= 3_000.0, "{percent} % is {answer}");
        }
    }
}
