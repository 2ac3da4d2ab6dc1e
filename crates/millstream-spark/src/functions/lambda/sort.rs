//! `array_sort`, also by a comparator.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, UInt32Array, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, FieldRef, Int32Type};
use millstream_core::{Error, ErrorKind, Result};

use super::super::downcast::{self, arrow_error};
use super::super::nested::ListBuilder;
use super::super::{Call, Functions, Typed, array, faults};
use super::evaluation::LambdaKernel;
use super::{Body, Elements, Evaluation, HigherOrder, parameter};
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add("array_sort", array_sort);
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ArraySort {
    element: FieldRef,
}

/// Two sorted runs of one row that become one.
struct Merge {
    row: u32,
    left: std::ops::Range<usize>,
    right: std::ops::Range<usize>,
    /// Where the next element goes.
    next: usize,
}

impl LambdaKernel for ArraySort {
    /// A merge sort of all rows at once: in each round every two runs that become one compare their next elements, in one call of the
    /// lambda.
    fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<ArrayRef> {
        let arrays = evaluation.value(0)?;
        let elements = Elements::of(arrays)?;
        let values = elements.take(downcast::lists(arrays)?.values())?;
        let ranges: Vec<_> = elements.ranges().collect();
        let longest = ranges.iter().flatten().map(ExactSizeIterator::len).max().unwrap_or(0);
        let mut order: Vec<usize> = (0..values.len()).collect();
        let mut width = 1;
        while width < longest {
            let mut merges = Vec::new();
            for (row, range) in ranges.iter().enumerate() {
                let Some(range) = range else { continue };
                for start in range.clone().step_by(2 * width) {
                    let middle = (start + width).min(range.end);
                    let end = (start + 2 * width).min(range.end);
                    merges.push(Merge { row: row as u32, left: start..middle, right: middle..end, next: start });
                }
            }
            order = merged(merges, order, &values, evaluation)?;
            width *= 2;
        }
        let mut builder = ListBuilder::new(self.element.clone(), &[&values])?;
        for range in ranges {
            match range {
                Some(range) => {
                    order.get(range).into_iter().flatten().for_each(|index| builder.push(0, *index));
                    builder.end()?;
                }
                None => builder.end_null()?,
            }
        }
        builder.finish()
    }
}

/// The order after merging the runs of `order`.
fn merged(mut merges: Vec<Merge>, order: Vec<usize>, values: &ArrayRef, evaluation: &Evaluation<'_>) -> Result<Vec<usize>> {
    let mut result = order.clone();
    let at = |place: usize| order.get(place).copied().unwrap_or_default();
    loop {
        // A run that is used up leaves the rest of the other one.
        merges.retain_mut(|merge| {
            if !merge.left.is_empty() && !merge.right.is_empty() {
                return true;
            }
            for place in merge.left.by_ref().chain(merge.right.by_ref()) {
                if let Some(slot) = result.get_mut(merge.next) {
                    *slot = at(place);
                }
                merge.next += 1;
            }
            false
        });
        if merges.is_empty() {
            return Ok(result);
        }
        let rows: UInt32Array = merges.iter().map(|merge| merge.row).collect::<Vec<_>>().into();
        let next = |run: fn(&Merge) -> usize| -> Result<ArrayRef> {
            let indices: UInt64Array = merges.iter().map(|merge| at(run(merge)) as u64).collect::<Vec<_>>().into();
            take(values, &indices, None).map_err(arrow_error)
        };
        let orders = evaluation.call(0, &[next(|merge| merge.left.start)?, next(|merge| merge.right.start)?], &rows)?;
        let orders = downcast::primitive::<Int32Type>(&orders)?;
        for (merge, order) in merges.iter_mut().zip(orders) {
            let of_null = || [&merge.left, &merge.right].into_iter().any(|run| values.is_null(at(run.start)));
            let order = order.ok_or_else(|| comparator_gave_null(of_null()))?;
            let run = if order.cmp(&0) == Ordering::Greater { &mut merge.right } else { &mut merge.left };
            if let (Some(place), Some(slot)) = (run.next(), result.get_mut(merge.next)) {
                *slot = at(place);
            }
            merge.next += 1;
        }
    }
}

/// Spark itself fails where it wants to show a null that was compared.
fn comparator_gave_null(of_null: bool) -> Error {
    let message = "the comparator of `array_sort` returned NULL: it must return a negative number, 0 or a positive number";
    if of_null {
        return Error::new(ErrorKind::BadRecord, "INTERNAL_ERROR", message).with_sqlstate("XX000");
    }
    faults::row("COMPARATOR_RETURNS_NULL", "22004", message)
}

fn array_sort(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=2)?;
    if call.len() == 1 {
        return array::natural_array_sort(call);
    }
    let (array, element) = array::array(call, 0)?;
    let lambda = Body::resolve(call, 1, vec![parameter("left", &element), parameter("right", &element)], 2..=2)?;
    if lambda.body.data_type != DataType::Int32 {
        let message = format!("the comparator of `array_sort` returns \"INT\" and not \"{}\"", types::ddl_type(&lambda.body.data_type));
        return Err(faults::mismatch("UNEXPECTED_RETURN_TYPE", message));
    }
    let (data_type, nullable) = (array.data_type.clone(), array.nullable);
    Ok(HigherOrder::call("array_sort", ArraySort { element }, vec![array], vec![lambda], data_type, nullable))
}
