//! `aggregate`: the elements of an array brought together one after the other.

use arrow::array::{Array, ArrayRef, UInt32Array, UInt64Array};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field};
use millstream_core::Result;

use super::super::downcast::{self, arrow_error};
use super::super::{Call, Functions, Typed, array, faults, nested};
use super::evaluation::LambdaKernel;
use super::{Body, Evaluation, HigherOrder, parameter};
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add_all(&["aggregate", "reduce"], aggregate);
}

/// Calls the first lambda for the first elements of all arrays, then for the second ones, and so on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Aggregate {
    accumulator: DataType,
}

impl LambdaKernel for Aggregate {
    fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<ArrayRef> {
        let (arrays, zeros) = (downcast::lists(evaluation.value(0)?)?, evaluation.value(1)?);
        let mut order: Vec<(usize, std::ops::Range<usize>)> =
            (0..evaluation.rows()).filter_map(|row| nested::range(arrays, row).map(|range| (row, range))).collect();
        // The longest arrays first, so that those that have an element at a place are the first ones.
        order.sort_by_key(|(_, range)| std::cmp::Reverse(range.len()));
        let rows: UInt32Array = order.iter().map(|(row, _)| *row as u32).collect();
        let mut current = nested::relabel(&take(zeros, &rows, None).map_err(arrow_error)?, &self.accumulator)?;
        let mut finished: Vec<ArrayRef> = Vec::new();
        let longest = order.first().map_or(0, |(_, range)| range.len());
        for place in 0..longest {
            let active = order.partition_point(|(_, range)| range.len() > place);
            if active < current.len() {
                finished.push(current.slice(active, current.len() - active));
                current = current.slice(0, active);
            }
            let indices: UInt64Array = order.iter().take(active).map(|(_, range)| (range.start + place) as u64).collect();
            let elements = take(arrays.values(), &indices, None).map_err(arrow_error)?;
            let merged = evaluation.call(0, &[current, elements], &rows.slice(0, active))?;
            current = nested::relabel(&merged, &self.accumulator)?;
        }
        finished.push(current);
        let parts: Vec<&dyn Array> = finished.iter().rev().map(AsRef::as_ref).collect();
        let mut results = concat(&parts).map_err(arrow_error)?;
        if evaluation.lambdas() > 1 {
            results = evaluation.call(1, &[results], &rows)?;
        }
        let mut places: Vec<Option<u32>> = vec![None; evaluation.rows()];
        for (place, (row, _)) in order.iter().enumerate() {
            if let Some(slot) = places.get_mut(*row) {
                *slot = Some(place as u32);
            }
        }
        take(&results, &UInt32Array::from(places), None).map_err(arrow_error)
    }
}

fn aggregate(call: &Call<'_>) -> Result<Typed> {
    call.arity(3..=4)?;
    let (array, element) = array::array(call, 0)?;
    let zero = call.value(1)?.clone();
    let accumulator = nested::all_nullable(&zero.data_type);
    let mut metadata = zero.metadata.clone();
    metadata.retain(|key, _| types::belongs_to_type(key));
    let field = Field::new("acc", accumulator.clone(), true).with_metadata(metadata);
    let merge = Body::resolve(call, 2, vec![field.clone(), parameter("x", &element)], 2..=2)?;
    if !nested::same_structure(&accumulator, &merge.body.data_type) {
        let expected = format!("\"{}\"", types::ddl_type(&zero.data_type));
        return Err(faults::unexpected_type(call.name, 2, expected, &merge.body.data_type));
    }
    let kernel = Aggregate { accumulator: accumulator.clone() };
    let mut lambdas = vec![merge];
    let mut result = field.clone();
    if call.len() == 4 {
        let finish = Body::resolve(call, 3, vec![field], 1..=1)?;
        result = finish.field("result").as_ref().clone();
        lambdas.push(finish);
    }
    let typed = HigherOrder::call("aggregate", kernel, vec![array, zero], lambdas, result.data_type().clone(), true);
    Ok(typed.with_metadata(result.metadata().clone()))
}
