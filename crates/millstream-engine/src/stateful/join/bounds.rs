//! When rows of one side of a join can match nothing any more: what its condition says about the two event times.
//!
//! A predicate such as `left_time <= right_time + 5 seconds`, solved for the time of one side, bounds it by the watermark of the other. How
//! the distance is written does not matter (intervals, functions, casts): the two sides of the predicate are evaluated at a few instants, and
//! it counts if their difference is that of the two times plus a constant. So does Spark with predicates over other numbers, which it takes
//! for times: a left-only `amount > 5` keeps the left side for ever, in Spark and here.

use std::any::Any;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, TimestampMicrosecondArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, TimeUnit};
use datafusion::common::JoinSide;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::PhysicalExpr;

use crate::stateful::logical::event_time_delay;

/// A column of a join's condition: which side it is of, where it is there.
pub(crate) type Origin = (JoinSide, usize);

/// Whether a condition over the columns of the left side and then of the right one bounds the time of rows of `side`.
pub(crate) fn join_is_bounded(condition: &Arc<dyn PhysicalExpr>, schema: &Schema, left: usize, side: JoinSide) -> bool {
    let origin = |index: usize| if index < left { (JoinSide::Left, index) } else { (JoinSide::Right, index - left) };
    let origins: Vec<Origin> = (0..schema.fields().len()).map(origin).collect();
    let other = schema.fields().iter().zip(&origins).find(|(field, (at, _))| *at != side && event_time_delay(field).is_some());
    !derive(condition, schema, &origins, side, other.map(|(_, (_, index))| *index)).is_empty()
}

/// What one predicate says: rows of a side whose event time is at or before this match nothing any more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bound {
    /// Added to the watermark, or to zero; microseconds.
    offset_us: f64,
    /// Whether the other side's watermark moves it.
    moves: bool,
    /// Whether a row exactly at the bound can still match.
    inclusive: bool,
}

impl Bound {
    fn at(self, watermark_ms: i64) -> i64 {
        let base = if self.moves { watermark_ms as f64 * 1_000.0 } else { 0.0 };
        let bound = ((base + self.offset_us) / 1_000.0) as i64;
        if self.inclusive { bound.saturating_sub(1) } else { bound }
    }
}

/// The state watermark of a side (milliseconds) at a watermark: rows at or before it can leave.
pub(crate) fn state_watermark(bounds: &[Bound], watermark_ms: i64) -> Option<i64> {
    bounds.iter().map(|bound| bound.at(watermark_ms)).min()
}

/// What the predicates of `condition` say about the event time of `side`. `origins` tells where the condition's columns are from, `other_time`
/// is the event-time column of the other side, without which nothing moves.
pub(crate) fn derive(
    condition: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
    origins: &[Origin],
    side: JoinSide,
    other_time: Option<usize>,
) -> Vec<Bound> {
    let Some(other_time) = other_time else { return Vec::new() };
    split_conjunction(condition)
        .into_iter()
        .filter_map(|predicate| {
            let predicate = (predicate.as_ref() as &dyn Any).downcast_ref::<BinaryExpr>()?;
            let (less, greater, inclusive) = match predicate.op() {
                Operator::Lt => (predicate.left(), predicate.right(), false),
                Operator::LtEq => (predicate.left(), predicate.right(), true),
                Operator::Gt => (predicate.right(), predicate.left(), false),
                Operator::GtEq => (predicate.right(), predicate.left(), true),
                _ => return None,
            };
            solve(less, greater, schema, origins, side, other_time).map(|(offset_us, moves)| Bound { offset_us, moves, inclusive })
        })
        .collect()
}

/// `less - greater` as `constant + (time of the other side) - (column of this side)`: the constant, and whether there is such a time.
fn solve(
    less: &Arc<dyn PhysicalExpr>,
    greater: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
    origins: &[Origin],
    side: JoinSide,
    other_time: usize,
) -> Option<(f64, bool)> {
    let mut own = Vec::new();
    let mut other = Vec::new();
    for column in collect_columns(less).into_iter().chain(collect_columns(greater)) {
        let (at, index) = *origins.get(column.index())?;
        let columns = if at == side { &mut own } else { &mut other };
        if !columns.contains(&column) {
            if at != side && index != other_time {
                return None;
            }
            columns.push(column);
        }
    }
    let [own] = own.as_slice() else { return None };
    let moves = match other.as_slice() {
        [] => false,
        [_] => true,
        _ => return None,
    };
    let probe = Probe::new(schema, own, other.first())?;
    let difference = probe.difference(less, greater)?;
    let expected = |index: usize, constant: f64| {
        let time = if moves { probe.other.get(index).copied().unwrap_or(0.0) } else { 0.0 };
        constant + time - probe.own.get(index).copied().unwrap_or(0.0)
    };
    let constant = *difference.first()? - expected(0, 0.0);
    let linear = difference.iter().enumerate().all(|(index, value)| (value - expected(index, constant)).abs() < 0.5);
    linear.then_some((constant, moves))
}

/// Instants at which a predicate is looked at.
struct Probe {
    rows: RecordBatch,
    own: Vec<f64>,
    other: Vec<f64>,
}

/// Odd instants far apart, so that nothing that truncates, or counts months, looks linear.
const INSTANTS_US: [i64; 5] = [0, 1_234_567_891, 86_400_000_007 * 400, 1_709_164_800_123_457, 7_777_777];
const NUMBERS: [i64; 5] = [0, 3, 11, 101, 1];
/// Spark counts numbers as seconds.
const SECOND_US: f64 = 1e6;

impl Probe {
    fn new(schema: &Schema, own: &Column, other: Option<&Column>) -> Option<Probe> {
        let (own_column, own_values) = probes(schema.fields().get(own.index())?.data_type(), 0)?;
        let (other_column, other_values) = match other {
            Some(other) => probes(schema.fields().get(other.index())?.data_type(), 2)?,
            None => (new_null_array(&DataType::Null, INSTANTS_US.len()), Vec::new()),
        };
        let columns: Vec<ArrayRef> = schema
            .fields()
            .iter()
            .enumerate()
            .map(|(index, field)| match index {
                index if index == own.index() => own_column.clone(),
                index if other.is_some_and(|other| other.index() == index) => other_column.clone(),
                _ => new_null_array(field.data_type(), INSTANTS_US.len()),
            })
            .collect();
        let fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).ok()?;
        Some(Probe { rows, own: own_values, other: other_values })
    }

    /// `less - greater` at each instant, in microseconds.
    fn difference(&self, less: &Arc<dyn PhysicalExpr>, greater: &Arc<dyn PhysicalExpr>) -> Option<Vec<f64>> {
        let value = |expr: &Arc<dyn PhysicalExpr>| {
            let array = expr.evaluate(&self.rows).and_then(|value| value.into_array(self.rows.num_rows())).ok()?;
            measured(&array)
        };
        let (less, greater) = (value(less)?, value(greater)?);
        Some(less.iter().zip(&greater).map(|(less, greater)| less - greater).collect())
    }
}

/// Values for a column, rotated so that two columns differ, and what they are in microseconds.
fn probes(data_type: &DataType, rotate: usize) -> Option<(ArrayRef, Vec<f64>)> {
    let rotated = |values: [i64; 5]| -> Vec<i64> { values.iter().cycle().skip(rotate).take(values.len()).copied().collect() };
    let (array, values): (ArrayRef, Vec<f64>) = match data_type {
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let instants = rotated(INSTANTS_US);
            let values = instants.iter().map(|instant| *instant as f64).collect();
            (Arc::new(TimestampMicrosecondArray::from(instants).with_timezone_opt(zone.clone())), values)
        }
        other if other.is_numeric() => {
            let numbers = rotated(NUMBERS);
            let values = numbers.iter().map(|number| *number as f64 * SECOND_US).collect();
            (cast(&(Arc::new(Int64Array::from(numbers)) as ArrayRef), other).ok()?, values)
        }
        _ => return None,
    };
    (array.null_count() == 0).then_some((array, values))
}

/// Times as they are and numbers as seconds, in microseconds; nothing else, and no nulls.
fn measured(array: &ArrayRef) -> Option<Vec<f64>> {
    if array.null_count() > 0 {
        return None;
    }
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let instants = cast(array, &DataType::Int64).ok()?;
            Some(instants.as_primitive_opt::<Int64Type>()?.values().iter().map(|instant| *instant as f64).collect())
        }
        other if other.is_numeric() => {
            let numbers = cast(array, &DataType::Float64).ok()?;
            let numbers: &Float64Array = numbers.as_primitive_opt::<Float64Type>()?;
            Some(numbers.values().iter().map(|number| number * SECOND_US).collect())
        }
        _ => None,
    }
}
