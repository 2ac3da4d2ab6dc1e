//! Sums and averages that watch for overflow: `sum`, `try_sum`, `avg`, `try_avg`.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Int64Array, PrimitiveArray};
use arrow::datatypes::{
    ArrowNativeTypeOp, DataType, Decimal128Type, DurationMicrosecondType, Field, FieldRef, Int64Type, IntervalUnit, IntervalYearMonthType,
};
use datafusion::common::DataFusionError;
use datafusion::error::Result as DfResult;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use millstream_core::Result;
use millstream_engine::to_datafusion;

use super::function::{Aggregation, Groups, aggregate, call};
use super::{Aggregates, Clauses};
use crate::functions::cast::decimal;
use crate::functions::coercion::{is_integral, is_numeric};
use crate::functions::{Call, Typed, cast, faults};

pub(super) fn register(aggregates: &mut Aggregates) {
    aggregates.add("sum", |call, clauses| sum(call, clauses, false));
    aggregates.add("try_sum", |call, clauses| sum(call, clauses, true));
    aggregates.add_all(&["avg", "mean"], |call, clauses| average(call, clauses, false));
    aggregates.add("try_avg", |call, clauses| average(call, clauses, true));
}

/// The argument: a number or an interval; text and null become doubles.
fn operand(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=1)?;
    let value = call.value(0)?.clone();
    match &value.data_type {
        DataType::Decimal128(..) | DataType::Duration(_) | DataType::Interval(IntervalUnit::YearMonth) => Ok(value),
        data_type if is_integral(data_type) => Ok(value),
        data_type if is_numeric(data_type) || matches!(data_type, DataType::Utf8 | DataType::Null) => {
            cast::implicit(value, &DataType::Float64, call.settings)
        }
        other => Err(faults::unexpected_type(call.name, 0, "\"NUMERIC\" or \"ANSI INTERVAL\"", other)),
    }
}

fn sum(call: &Call<'_>, clauses: &Clauses, attempt: bool) -> Result<Typed> {
    let value = operand(call)?;
    let sticky = attempt || !call.settings.ansi;
    let metadata = value.metadata.clone();
    let (value, data_type) = match value.data_type {
        DataType::Decimal128(precision, scale) => (value, bounded(precision, scale, 10, 0)),
        DataType::Duration(_) | DataType::Interval(_) => {
            let data_type = value.data_type.clone();
            let totals = Totals { mean: false, sticky: attempt };
            return Ok(aggregate("sum", totals, vec![value], clauses, data_type, true).with_metadata(metadata));
        }
        DataType::Float64 => return Ok(super::function::call(sum_udaf(), vec![value], clauses, DataType::Float64, true)),
        _ => (cast::implicit(value, &DataType::Int64, call.settings)?, DataType::Int64),
    };
    if data_type == DataType::Int64 && sticky && !attempt {
        // Without ANSI rules sums of whole numbers wrap, as the engine's do.
        return Ok(super::function::call(sum_udaf(), vec![value], clauses, data_type, true));
    }
    Ok(aggregate("sum", Totals { mean: false, sticky }, vec![value], clauses, data_type, true))
}

fn average(call: &Call<'_>, clauses: &Clauses, attempt: bool) -> Result<Typed> {
    let value = operand(call)?;
    let totals = Totals { mean: true, sticky: attempt || !call.settings.ansi };
    let data_type = match value.data_type {
        DataType::Decimal128(precision, scale) => bounded(precision, scale, 4, 4),
        DataType::Duration(_) | DataType::Interval(_) => value.data_type.clone(),
        _ => {
            let value = cast::implicit(value, &DataType::Float64, call.settings)?;
            return Ok(self::call(avg_udaf(), vec![value], clauses, DataType::Float64, true));
        }
    };
    Ok(aggregate("avg", totals, vec![value], clauses, data_type, true))
}

fn bounded(precision: u8, scale: i8, more_precision: u8, more_scale: i8) -> DataType {
    let most = decimal::MAX_PRECISION;
    DataType::Decimal128((precision + more_precision).min(most), (scale + more_scale).min(38))
}

/// A sum, or a mean, of whole numbers, decimals or intervals.
///
/// The state of a sum that fails on overflow is the sum, of one that becomes null the sum and whether there was no value (Spark's
/// `isEmpty`): null and not empty is an overflow, which stays. The state of a mean is the sum and the count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Totals {
    mean: bool,
    /// Overflow makes the result null instead of failing.
    sticky: bool,
}

impl Aggregation for Totals {
    fn state(&self, inputs: &[FieldRef], result: &DataType) -> Vec<Field> {
        let sum = Field::new("sum", sum_type(inputs, result), true);
        match (self.mean, self.sticky) {
            (true, _) => vec![sum, Field::new("count", DataType::Int64, true)],
            (false, true) => vec![sum, Field::new("is_empty", DataType::Boolean, true)],
            (false, false) => vec![sum],
        }
    }

    fn commutes(&self) -> bool {
        true
    }

    fn groups(&self, inputs: &[FieldRef], result: &DataType) -> Option<Box<dyn Groups>> {
        let sum = sum_type(inputs, result);
        Some(match sum {
            DataType::Int64 => Box::new(TotalsOfGroups::<Int64Type>::new(self, sum, result)),
            DataType::Decimal128(..) => Box::new(TotalsOfGroups::<Decimal128Type>::new(self, sum, result)),
            DataType::Duration(_) => Box::new(TotalsOfGroups::<DurationMicrosecondType>::new(self, sum, result)),
            DataType::Interval(_) => Box::new(TotalsOfGroups::<IntervalYearMonthType>::new(self, sum, result)),
            _ => return None,
        })
    }
}

/// The type of the sum, which is wider than the mean's for decimals.
fn sum_type(inputs: &[FieldRef], result: &DataType) -> DataType {
    match inputs.first().map(|field| field.data_type()) {
        Some(DataType::Decimal128(precision, scale)) => bounded(*precision, *scale, 10, 0),
        _ => result.clone(),
    }
}

/// What differs between the types of sums.
trait Total: ArrowPrimitiveType {
    /// Whether a sum is within its type.
    fn fits(_: Self::Native, _: &DataType) -> bool {
        true
    }

    /// The mean, in the type of the result.
    fn mean(sum: Self::Native, count: i64, from: &DataType, to: &DataType) -> Option<Self::Native>;
}

impl Total for Int64Type {
    fn mean(sum: i64, count: i64, _: &DataType, _: &DataType) -> Option<i64> {
        i64::try_from(decimal::divide_half_up(sum.into(), count.into())?).ok()
    }
}

impl Total for DurationMicrosecondType {
    fn mean(sum: i64, count: i64, from: &DataType, to: &DataType) -> Option<i64> {
        Int64Type::mean(sum, count, from, to)
    }
}

impl Total for IntervalYearMonthType {
    fn mean(sum: i32, count: i64, _: &DataType, _: &DataType) -> Option<i32> {
        i32::try_from(decimal::divide_half_up(sum.into(), count.into())?).ok()
    }
}

impl Total for Decimal128Type {
    fn fits(sum: i128, data_type: &DataType) -> bool {
        match data_type {
            DataType::Decimal128(precision, _) => decimal::fit(sum, *precision).is_some(),
            _ => true,
        }
    }

    fn mean(sum: i128, count: i64, from: &DataType, to: &DataType) -> Option<i128> {
        let (DataType::Decimal128(_, from), DataType::Decimal128(precision, to)) = (from, to) else { return None };
        let power = decimal::power(u32::try_from(to - from).ok()?)?;
        let mean = match sum.checked_mul(power) {
            Some(scaled) => decimal::divide_half_up(scaled, count.into())?,
            None => {
                use arrow::datatypes::i256;
                let scaled = i256::from_i128(sum).checked_mul(i256::from_i128(power))?;
                decimal::divide_half_up_wide(scaled, i256::from_i128(count.into()))?.to_i128()?
            }
        };
        decimal::fit(mean, *precision)
    }
}

/// The sums of many groups.
struct TotalsOfGroups<T: Total> {
    totals: Totals,
    sum_type: DataType,
    result: DataType,
    sums: Vec<T::Native>,
    /// Values that are not null; after merging, at least 1 if there were any.
    counts: Vec<i64>,
    overflowed: Vec<bool>,
}

impl<T: Total> Debug for TotalsOfGroups<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TotalsOfGroups of {} {} groups", self.sums.len(), self.sum_type)
    }
}

impl<T: Total> TotalsOfGroups<T> {
    fn new(totals: &Totals, sum_type: DataType, result: &DataType) -> Self {
        TotalsOfGroups {
            totals: totals.clone(),
            sum_type,
            result: result.clone(),
            sums: Vec::new(),
            counts: Vec::new(),
            overflowed: Vec::new(),
        }
    }

    fn add(&mut self, group: usize, value: T::Native, count: i64) -> DfResult<()> {
        let (Some(sum), Some(total), Some(overflowed)) =
            (self.sums.get_mut(group), self.counts.get_mut(group), self.overflowed.get_mut(group))
        else {
            return Err(no_such_group(group));
        };
        *total += count;
        match sum.add_checked(value) {
            Ok(next) if T::fits(next, &self.sum_type) => *sum = next,
            _ if self.totals.sticky => *overflowed = true,
            _ => return Err(to_datafusion(faults::overflow("the sum leaves the range of its type"))),
        }
        Ok(())
    }

    fn overflow(&mut self, group: usize, count: i64) -> DfResult<()> {
        match (self.counts.get_mut(group), self.overflowed.get_mut(group)) {
            (Some(total), Some(overflowed)) => {
                *total += count;
                *overflowed = true;
                Ok(())
            }
            _ => Err(no_such_group(group)),
        }
    }

    /// The sum, null where there is none or where it overflowed.
    fn sum_array(sums: Vec<T::Native>, counts: &[i64], overflowed: &[bool], data_type: &DataType) -> ArrayRef {
        let valid = counts.iter().zip(overflowed).map(|(count, overflowed)| *count > 0 && !overflowed);
        let array = PrimitiveArray::<T>::new(sums.into(), Some(valid.collect()));
        Arc::new(array.with_data_type(data_type.clone()))
    }
}

fn no_such_group(group: usize) -> DataFusionError {
    DataFusionError::Internal(format!("there is no group {group}"))
}

fn column<T: ArrowPrimitiveType>(values: &[ArrayRef], index: usize) -> DfResult<&PrimitiveArray<T>> {
    let column = values.get(index).and_then(|column| column.as_primitive_opt::<T>());
    column.ok_or_else(|| DataFusionError::Internal("a column of an aggregate function is of another type".into()))
}

impl<T: Total> GroupsAccumulator for TotalsOfGroups<T> {
    fn update_batch(&mut self, values: &[ArrayRef], groups: &[usize], filter: Option<&BooleanArray>, total: usize) -> DfResult<()> {
        self.resize(total);
        let values = column::<T>(values, 0)?;
        if values.null_count() == 0 && filter.is_none() {
            for (value, group) in values.values().iter().zip(groups) {
                self.add(*group, *value, 1)?;
            }
            return Ok(());
        }
        for (row, group) in groups.iter().enumerate() {
            let chosen = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if chosen && values.is_valid(row) {
                self.add(*group, values.value(row), 1)?;
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> DfResult<()> {
        self.resize(total);
        let sums = column::<T>(values, 0)?;
        let counts = if self.totals.mean { Some(column::<Int64Type>(values, 1)?) } else { None };
        let empty = if self.totals.mean { None } else { values.get(1).and_then(|column| column.as_boolean_opt()) };
        for (row, group) in groups.iter().enumerate() {
            let count = match (counts, empty) {
                (Some(counts), _) => {
                    if counts.is_valid(row) {
                        counts.value(row)
                    } else {
                        0
                    }
                }
                (_, Some(empty)) => i64::from(empty.is_valid(row) && !empty.value(row)),
                _ => i64::from(sums.is_valid(row)),
            };
            if sums.is_valid(row) {
                self.add(*group, sums.value(row), count)?;
            } else if count > 0 {
                self.overflow(*group, count)?;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> DfResult<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.sums);
        let counts = emit_to.take_needed(&mut self.counts);
        let overflowed = emit_to.take_needed(&mut self.overflowed);
        if !self.totals.mean {
            return Ok(Self::sum_array(sums, &counts, &overflowed, &self.result));
        }
        let mut builder = PrimitiveArray::<T>::builder(sums.len());
        for ((sum, count), overflowed) in sums.into_iter().zip(counts).zip(overflowed) {
            if count == 0 || overflowed {
                builder.append_null();
                continue;
            }
            match T::mean(sum, count, &self.sum_type, &self.result) {
                Some(mean) => builder.append_value(mean),
                None if self.totals.sticky => builder.append_null(),
                None => return Err(to_datafusion(faults::overflow("the average leaves the range of its type"))),
            }
        }
        Ok(Arc::new(builder.finish().with_data_type(self.result.clone())))
    }

    fn state(&mut self, emit_to: EmitTo) -> DfResult<Vec<ArrayRef>> {
        let sums = emit_to.take_needed(&mut self.sums);
        let counts = emit_to.take_needed(&mut self.counts);
        let overflowed = emit_to.take_needed(&mut self.overflowed);
        let sum = Self::sum_array(sums, &counts, &overflowed, &self.sum_type);
        Ok(match (self.totals.mean, self.totals.sticky) {
            (true, _) => vec![sum, Arc::new(Int64Array::from(counts))],
            (false, true) => vec![sum, Arc::new(counts.iter().map(|count| Some(*count == 0)).collect::<BooleanArray>())],
            (false, false) => vec![sum],
        })
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> DfResult<Vec<ArrayRef>> {
        let mut each = TotalsOfGroups::<T>::new(&self.totals, self.sum_type.clone(), &self.result);
        let rows = values.first().map_or(0, |values| values.len());
        let groups: Vec<usize> = (0..rows).collect();
        each.update_batch(values, &groups, filter, rows)?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<T::Native>() + self.counts.capacity() * 8 + self.overflowed.capacity()
    }
}

impl<T: Total> Groups for TotalsOfGroups<T> {
    fn resize(&mut self, groups: usize) {
        if self.sums.len() < groups {
            self.sums.resize(groups, T::Native::ZERO);
            self.counts.resize(groups, 0);
            self.overflowed.resize(groups, false);
        }
    }
}
