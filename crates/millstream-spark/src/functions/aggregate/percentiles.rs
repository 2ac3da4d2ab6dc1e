//! Exact percentiles: `percentile`, `median`, `percentile_cont`, `percentile_disc`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type, IntervalUnit};
use datafusion::common::DataFusionError;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::Accumulator;
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};
use millstream_engine::to_datafusion;

use super::function::{Aggregation, aggregate};
use super::{Aggregates, Clauses, quantiles};
use crate::functions::coercion::{self, is_numeric};
use crate::functions::{Call, Typed, cast, faults};
use crate::types;

pub(super) fn register(aggregates: &mut Aggregates) {
    aggregates.add("percentile", |call, clauses| {
        call.arity(2..=3)?;
        let frequency = if call.len() == 3 { call.long(2)? } else { one() };
        percentile("percentile", call.value(0)?, frequency, fractions(call, 1)?, Shape::default(), call, clauses)
    });
    aggregates.add("median", |call, clauses| {
        call.arity(1..=1)?;
        percentile("median", call.value(0)?, one(), Fractions::one(0.5), Shape::default(), call, clauses)
    });
    aggregates.add("percentile_cont", |call, clauses| within_group("percentile_cont", false, call, clauses));
    aggregates.add("percentile_disc", |call, clauses| within_group("percentile_disc", true, call, clauses));
}

fn one() -> Typed {
    Typed::literal(ScalarValue::Int64(Some(1)))
}

/// The fractions that are asked for: one, or an array.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fractions {
    pub(super) values: Vec<f64>,
    pub(super) array: bool,
}

impl Fractions {
    fn one(value: f64) -> Self {
        Fractions { values: vec![value], array: false }
    }
}

/// A constant argument with fractions between 0 and 1.
///
/// # Errors
/// `DATATYPE_MISMATCH.NON_FOLDABLE_INPUT`, `UNEXPECTED_NULL`, `VALUE_OUT_OF_RANGE`, `UNEXPECTED_INPUT_TYPE`.
pub(super) fn fractions(call: &Call<'_>, index: usize) -> Result<Fractions> {
    let value = call.value(index)?;
    let array = matches!(value.data_type, DataType::List(_));
    let to = if array { types::array(DataType::Float64, true) } else { DataType::Float64 };
    if !coercion::implicitly_castable(&value.data_type, &to, call.settings) {
        return Err(faults::unexpected_type(call.name, index, "\"DOUBLE\" or \"ARRAY<DOUBLE>\"", &value.data_type));
    }
    let value = cast::implicit(value.clone(), &to, call.settings)?;
    let constant = call.folded(index, &value)?;
    let values: Option<Vec<f64>> = match &constant {
        ScalarValue::Float64(value) => value.map(|value| vec![value]),
        ScalarValue::List(list) if list.is_valid(0) => {
            list.values().as_primitive_opt::<Float64Type>().and_then(|values| values.iter().collect())
        }
        _ => None,
    };
    let Some(values) = values else {
        return Err(faults::mismatch("UNEXPECTED_NULL", format!("the percentage of `{}` must not be null", call.name)));
    };
    if values.iter().any(|value| !(0.0..=1.0).contains(value)) {
        return Err(faults::mismatch("VALUE_OUT_OF_RANGE", format!("the percentage of `{}` must be between 0.0 and 1.0", call.name)));
    }
    Ok(Fractions { values, array })
}

/// `percentile_cont(0.5) WITHIN GROUP (ORDER BY v DESC)`.
fn within_group(name: &'static str, discrete: bool, call: &Call<'_>, clauses: &Clauses) -> Result<Typed> {
    call.arity(1..=1)?;
    let fault = |condition: &str, what: &str| {
        let message = format!("`{name}` needs WITHIN GROUP (ORDER BY …) with one value, and it has {what}");
        Error::invalid(format!("INVALID_WITHIN_GROUP_EXPRESSION.{condition}"), message).with_sqlstate("42K0K")
    };
    match (clauses.order_by.as_slice(), clauses.ordered.as_slice()) {
        ([order], [value]) => {
            let shape = Shape { reverse: !order.asc, discrete };
            percentile(name, value, one(), fractions(call, 0)?, shape, call, clauses)
        }
        ([], _) => Err(fault("WITHIN_GROUP_MISSING", "none")),
        _ => Err(fault("WRONG_NUM_ORDERINGS", "several")),
    }
}

/// What differs between the functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Shape {
    /// From the largest value down.
    reverse: bool,
    /// The first value that reaches the fraction, instead of one between two.
    discrete: bool,
}

fn percentile(
    name: &'static str,
    value: &Typed,
    frequency: Typed,
    fractions: Fractions,
    shape: Shape,
    call: &Call<'_>,
    clauses: &Clauses,
) -> Result<Typed> {
    let (value, kind) = match &value.data_type {
        data_type if is_numeric(data_type) || matches!(data_type, DataType::Utf8 | DataType::Null) => {
            (cast::implicit(value.clone(), &DataType::Float64, call.settings)?, DataType::Float64)
        }
        data_type @ (DataType::Duration(_) | DataType::Interval(IntervalUnit::YearMonth)) => {
            (quantiles::as_double(value.clone()), data_type.clone())
        }
        other => return Err(faults::unexpected_type(name, 0, "\"NUMERIC\" or \"ANSI INTERVAL\"", other)),
    };
    let data_type = if fractions.array { types::array(DataType::Float64, false) } else { DataType::Float64 };
    let function = Percentile { fractions: fractions.values.iter().map(|value| value.to_bits()).collect(), array: fractions.array, shape };
    let result = aggregate(name, function, vec![value, frequency], clauses, data_type, true);
    Ok(quantiles::of_doubles(result, kind))
}

/// Percentiles from counted values. The state is the values in order and their counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Percentile {
    /// The bits of the fractions.
    fractions: Vec<u64>,
    array: bool,
    shape: Shape,
}

impl Aggregation for Percentile {
    fn state(&self, _: &[FieldRef], _: &DataType) -> Vec<Field> {
        vec![
            Field::new("values", types::array(DataType::Float64, true), true),
            Field::new("counts", types::array(DataType::Int64, true), true),
        ]
    }

    fn commutes(&self) -> bool {
        true
    }

    fn accumulator(&self, _: &[FieldRef], result: &DataType) -> DfResult<Box<dyn Accumulator>> {
        Ok(Box::new(PercentileAccumulator { percentile: self.clone(), result: result.clone(), counts: BTreeMap::new() }))
    }
}

#[derive(Debug)]
struct PercentileAccumulator {
    percentile: Percentile,
    result: DataType,
    /// Counts by the order key of the value.
    counts: BTreeMap<i64, i64>,
}

/// Doubles as whole numbers in the same order, NaN last.
fn key_of(value: f64) -> i64 {
    let value = if value.is_nan() { f64::NAN } else { value + 0.0 };
    let bits = value.to_bits() as i64;
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

fn value_of(key: i64) -> f64 {
    f64::from_bits(if key < 0 { key ^ i64::MAX } else { key } as u64)
}

impl PercentileAccumulator {
    fn add(&mut self, value: f64, count: i64) -> DfResult<()> {
        if count < 0 {
            let message = format!("the frequency {count} of a percentile is negative: it must be positive");
            return Err(to_datafusion(faults::row("NEGATIVE_VALUES_IN_FREQUENCY_EXPRESSION", "22003", message)));
        }
        if count > 0 {
            *self.counts.entry(key_of(value)).or_insert(0) += count;
        }
        Ok(())
    }

    fn at(&self, ordered: &[(f64, i64)], total: i64, fraction: f64) -> Option<f64> {
        // The counts up to and including each value.
        let rank = |position: i64| {
            let mut seen = 0;
            ordered.iter().find(|(_, count)| {
                seen += count;
                seen > position
            })
        };
        if self.percentile.shape.discrete {
            let position = (total as f64 * fraction).ceil() as i64 - 1;
            return rank(position.max(0)).map(|(value, _)| *value);
        }
        let position = (total - 1) as f64 * fraction;
        let (lower, higher) = (position.floor(), position.ceil());
        let (low, _) = rank(lower as i64)?;
        let (high, _) = rank(higher as i64)?;
        if lower == higher || low == high {
            return Some(*low);
        }
        Some((higher - position) * low + (position - lower) * high)
    }
}

impl Accumulator for PercentileAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let [values, counts, ..] = values else { return Err(wrong_columns()) };
        let (Some(values), Some(counts)) = (values.as_primitive_opt::<Float64Type>(), counts.as_primitive_opt::<Int64Type>()) else {
            return Err(wrong_columns());
        };
        for (value, count) in values.iter().zip(counts) {
            if let (Some(value), Some(count)) = (value, count) {
                self.add(value, count)?;
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let [values, counts, ..] = states else { return Err(wrong_columns()) };
        let (Some(values), Some(counts)) = (values.as_list_opt::<i32>(), counts.as_list_opt::<i32>()) else { return Err(wrong_columns()) };
        for (values, counts) in values.iter().zip(counts.iter()) {
            if let (Some(values), Some(counts)) = (values, counts) {
                self.update_batch(&[values, counts])?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let values: Float64Array = self.counts.keys().map(|key| Some(value_of(*key))).collect();
        let counts: Int64Array = self.counts.values().copied().map(Some).collect();
        Ok(vec![one_list(Arc::new(values), true)?, one_list(Arc::new(counts), true)?])
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let total: i64 = self.counts.values().sum();
        if total == 0 {
            return ScalarValue::try_new_null(&self.result);
        }
        let mut ordered: Vec<(f64, i64)> = self.counts.iter().map(|(key, count)| (value_of(*key), *count)).collect();
        if self.percentile.shape.reverse {
            ordered.reverse();
        }
        let fractions = self.percentile.fractions.iter().map(|bits| f64::from_bits(*bits));
        let results: Vec<Option<f64>> = fractions.map(|fraction| self.at(&ordered, total, fraction)).collect();
        if self.percentile.array {
            return one_list(Arc::new(Float64Array::from(results)), false);
        }
        Ok(ScalarValue::Float64(results.first().copied().flatten()))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.counts.len() * 32
    }
}

fn wrong_columns() -> DataFusionError {
    DataFusionError::Internal("the columns of an aggregate function are of other types".into())
}

/// A list value of these elements.
pub(super) fn one_list(values: ArrayRef, nullable: bool) -> DfResult<ScalarValue> {
    let field = Arc::new(Field::new("element", values.data_type().clone(), nullable));
    let list = ListArray::try_new(field, OffsetBuffer::from_lengths([values.len()]), values, None)?;
    Ok(ScalarValue::List(Arc::new(list)))
}
