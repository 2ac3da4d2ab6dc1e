//! `approx_count_distinct`: HyperLogLog++ over Spark's 64-bit hash, so that the same values give the same estimate.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Int64Array};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::DataFusionError;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Case, EmitTo, Expr, GroupsAccumulator};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};

use super::function::{Aggregation, Groups, aggregate};
use super::{Aggregates, Clauses};
use crate::functions::{Argument, Call, Functions, Typed, cast, faults, normalized};

pub(super) fn register(aggregates: &mut Aggregates) {
    aggregates.add("approx_count_distinct", approx_count_distinct);
}

fn approx_count_distinct(call: &Call<'_>, clauses: &Clauses) -> Result<Typed> {
    call.arity(1..=2)?;
    let value = normalized(call.value(0)?.clone());
    let deviation = if call.len() == 2 {
        match cast::implicit(Typed::literal(call.constant(1)?), &DataType::Float64, call.settings)?.as_literal() {
            Some(ScalarValue::Float64(Some(deviation))) => *deviation,
            _ => return Err(faults::mismatch("UNEXPECTED_NULL", "the relative deviation of `approx_count_distinct` must not be null")),
        }
    } else {
        0.05
    };
    let precision = (2.0 * (1.106 / deviation).log2()).ceil();
    if !(4.0..=24.0).contains(&precision) {
        let message = format!("the relative deviation {deviation} of `approx_count_distinct` must be between 0.0003 and 0.39");
        return Err(Error::invalid("FAILED_FUNCTION_CALL", message).with_sqlstate("38000"));
    }
    let arguments = vec![Argument::Value(value.clone())];
    let hash = Functions::all().build(&Call { name: "xxhash64", arguments, settings: call.settings })?;
    // The hash of null is a hash, too, but null does not count.
    let present = Expr::IsNotNull(Box::new(value.expr));
    let case = Expr::Case(Case { expr: None, when_then_expr: vec![(Box::new(present), Box::new(hash.expr))], else_expr: None });
    let hash = Typed::new(case, DataType::Int64, true);
    Ok(aggregate("approx_count_distinct", Cardinality { precision: precision as u32 }, vec![hash], clauses, DataType::Int64, false))
}

/// The state is one byte per register, 2^precision of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Cardinality {
    precision: u32,
}

impl Aggregation for Cardinality {
    fn state(&self, _: &[FieldRef], _: &DataType) -> Vec<Field> {
        vec![Field::new("registers", DataType::Binary, true)]
    }

    fn commutes(&self) -> bool {
        true
    }

    fn groups(&self, _: &[FieldRef], _: &DataType) -> Option<Box<dyn Groups>> {
        Some(Box::new(Registers { precision: self.precision, groups: Vec::new() }))
    }

    fn empty(&self, _: &DataType) -> DfResult<ScalarValue> {
        Ok(ScalarValue::Int64(Some(0)))
    }
}

/// The registers of many groups; none for a group without values.
#[derive(Debug)]
struct Registers {
    precision: u32,
    groups: Vec<Vec<u8>>,
}

impl Registers {
    fn of(&mut self, group: usize) -> Option<&mut Vec<u8>> {
        let registers = self.groups.get_mut(group)?;
        if registers.is_empty() {
            registers.resize(1 << self.precision, 0);
        }
        Some(registers)
    }

    fn add(&mut self, group: usize, hash: i64) {
        let precision = self.precision;
        let hash = hash as u64;
        let register = (hash >> (64 - precision)) as usize;
        // The padding bounds the number of leading zeros.
        let zeros = ((hash << precision) | (1 << (precision - 1))).leading_zeros() + 1;
        if let Some(place) = self.of(group).and_then(|registers| registers.get_mut(register)) {
            *place = (*place).max(u8::try_from(zeros).unwrap_or(u8::MAX));
        }
    }
}

/// How many distinct values filled these registers.
fn estimate(registers: &[u8], precision: u32) -> i64 {
    if registers.is_empty() {
        return 0;
    }
    let m = registers.len() as f64;
    let (mut inverse, mut zeros) = (0.0, 0.0);
    for register in registers {
        inverse += (-f64::from(*register)).exp2();
        zeros += f64::from(u8::from(*register == 0));
    }
    let alpha = match precision {
        4 => 0.673,
        5 => 0.697,
        6 => 0.709,
        _ => 0.7213 / (1.0 + 1.079 / m),
    };
    let raw = alpha * m * m / inverse;
    if zeros > 0.0 {
        let linear = m * (m / zeros).ln();
        if linear <= linear_counting_limit(precision) || raw <= 2.5 * m {
            return linear.round() as i64;
        }
    }
    if raw > 5.0 * m { raw.round() as i64 } else { values_of_raw_estimate(raw, alpha, m).round() as i64 }
}

/// The number of values for which the raw estimate is to be expected. Small numbers are overestimated; by how much follows from the
/// distribution of the registers, which are filled independently (Poisson) with the same rate.
pub(in crate::functions) fn values_of_raw_estimate(raw: f64, alpha: f64, m: f64) -> f64 {
    let expected = |values: f64| {
        let rate = values / m;
        let at_most = |rank: i32| (-rate * f64::from(-rank).exp2()).exp();
        let mean: f64 = (1..=64).map(|rank| f64::from(-rank).exp2() * (at_most(rank) - at_most(rank - 1))).sum();
        alpha * m / (at_most(0) + mean)
    };
    let (mut low, mut high) = (0.0, raw);
    for _ in 0..64 {
        let middle = (low + high) / 2.0;
        if expected(middle) < raw { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Up to here counting the empty registers is better (Heule, Nunkesser, Hall: HyperLogLog in Practice, 2013, appendix).
fn linear_counting_limit(precision: u32) -> f64 {
    const LIMITS: [f64; 15] =
        [10.0, 20.0, 40.0, 80.0, 220.0, 400.0, 900.0, 1800.0, 3100.0, 6500.0, 11500.0, 20000.0, 50000.0, 120000.0, 350000.0];
    precision.checked_sub(4).and_then(|index| LIMITS.get(index as usize)).copied().unwrap_or(350000.0 * f64::from(precision))
}

impl GroupsAccumulator for Registers {
    fn update_batch(&mut self, values: &[ArrayRef], groups: &[usize], filter: Option<&BooleanArray>, total: usize) -> DfResult<()> {
        self.resize(total);
        let hashes = values.first().and_then(|values| values.as_primitive_opt::<Int64Type>()).ok_or_else(wrong_columns)?;
        for (row, group) in groups.iter().enumerate() {
            let chosen = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if chosen && hashes.is_valid(row) {
                self.add(*group, hashes.value(row));
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> DfResult<()> {
        self.resize(total);
        let states = values.first().and_then(|values| values.as_binary_opt::<i32>()).ok_or_else(wrong_columns)?;
        for (row, group) in groups.iter().enumerate() {
            if states.is_null(row) || states.value(row).is_empty() {
                continue;
            }
            if let Some(registers) = self.of(*group) {
                for (mine, theirs) in registers.iter_mut().zip(states.value(row)) {
                    *mine = (*mine).max(*theirs);
                }
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> DfResult<ArrayRef> {
        let groups = emit_to.take_needed(&mut self.groups);
        Ok(Arc::new(groups.iter().map(|registers| Some(estimate(registers, self.precision))).collect::<Int64Array>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> DfResult<Vec<ArrayRef>> {
        let groups = emit_to.take_needed(&mut self.groups);
        Ok(vec![Arc::new(BinaryArray::from_iter_values(groups))])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> DfResult<Vec<ArrayRef>> {
        let mut each = Registers { precision: self.precision, groups: Vec::new() };
        let rows = values.first().map_or(0, |values| values.len());
        each.update_batch(values, &(0..rows).collect::<Vec<_>>(), filter, rows)?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.groups.iter().map(|registers| registers.capacity() + size_of::<Vec<u8>>()).sum()
    }
}

impl Groups for Registers {
    fn resize(&mut self, groups: usize) {
        if self.groups.len() < groups {
            self.groups.resize(groups, Vec::new());
        }
    }
}

fn wrong_columns() -> DataFusionError {
    DataFusionError::Internal("the columns of an aggregate function are of other types".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Estimates of distinct hashes stay within three standard deviations.
    #[test]
    fn estimates_are_close_at_every_size() {
        for (precision, deviation) in [(9, 0.046), (12, 0.0163)] {
            let mut registers = Registers { precision, groups: Vec::new() };
            registers.resize(1);
            assert_eq!(estimate(&registers.groups[0], precision), 0);
            let mut hash = 1_u64;
            for count in 1..=60_000_i64 {
                // SplitMix64.
                hash = hash.wrapping_add(0x9E37_79B9_7F4A_7C15);
                let mixed = (hash ^ hash >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
                registers.add(0, (mixed ^ mixed >> 31) as i64);
                if [3, 30, 300, 700, 2_000, 5_000, 60_000].contains(&count) {
                    let error = (estimate(&registers.groups[0], precision) - count).abs() as f64 / count as f64;
                    assert!(error < 3.0 * deviation, "{count} values with precision {precision}: off by {error}");
                }
            }
        }
    }
}
