//! Lambdas over the elements of arrays.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanBuilder, UInt32Array, new_null_array};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Field, FieldRef};
use millstream_core::Result;

use super::super::downcast::{self, arrow_error};
use super::super::nested::ListBuilder;
use super::super::{Call, Functions, Typed, array, nested};
use super::evaluation::LambdaKernel;
use super::{Body, Elements, Evaluation, HigherOrder, parameter};

pub(super) fn register(functions: &mut Functions) {
    functions.add("transform", transform);
    functions.add("filter", filter);
    functions.add("exists", |call| quantified(call, Quantifier::Some));
    functions.add("forall", |call| quantified(call, Quantifier::All));
    functions.add("zip_with", zip_with);
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Transform {
    element: FieldRef,
}

/// The elements and their places.
fn element_parameters(element: &Field) -> Vec<Field> {
    vec![parameter("x", element), Field::new("i", DataType::Int32, false)]
}

/// The elements of an array with their places, for a lambda.
fn element_values(elements: &Elements, values: &ArrayRef) -> Result<[ArrayRef; 2]> {
    Ok([elements.take(values)?, Arc::new(elements.places.clone())])
}

impl LambdaKernel for Transform {
    fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<ArrayRef> {
        let arrays = evaluation.value(0)?;
        let elements = Elements::of(arrays)?;
        let parameters = element_values(&elements, downcast::lists(arrays)?.values())?;
        let values = evaluation.call(0, &parameters, &elements.rows)?;
        nested::list(self.element.clone(), elements.offsets, values, elements.valid)
    }
}

fn transform(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    let (array, element) = array::array(call, 0)?;
    let lambda = Body::resolve(call, 1, element_parameters(&element), 1..=2)?;
    let element = lambda.field("element");
    let nullable = array.nullable;
    let kernel = Transform { element: element.clone() };
    Ok(HigherOrder::call("transform", kernel, vec![array], vec![lambda], DataType::List(element), nullable))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Filter {
    element: FieldRef,
}

impl LambdaKernel for Filter {
    fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<ArrayRef> {
        let arrays = evaluation.value(0)?;
        let elements = Elements::of(arrays)?;
        let parameters = element_values(&elements, downcast::lists(arrays)?.values())?;
        let kept = evaluation.call(0, &parameters, &elements.rows)?;
        let kept = downcast::booleans(&kept)?;
        let mut builder = ListBuilder::new(self.element.clone(), &[&parameters[0]])?;
        for range in elements.ranges() {
            match range {
                Some(range) => {
                    range.filter(|index| kept.is_valid(*index) && kept.value(*index)).for_each(|index| builder.push(0, index));
                    builder.end()?;
                }
                None => builder.end_null()?,
            }
        }
        builder.finish()
    }
}

fn filter(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    let (array, element) = array::array(call, 0)?;
    let lambda = Body::resolve(call, 1, element_parameters(&element), 1..=2)?.predicate(call, 1)?;
    let (data_type, nullable) = (array.data_type.clone(), array.nullable);
    Ok(HigherOrder::call("filter", Filter { element }, vec![array], vec![lambda], data_type, nullable))
}

/// Whether a predicate holds for some or for all elements; null where that depends on elements for which it is null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Quantifier {
    Some,
    All,
}

impl LambdaKernel for Quantifier {
    fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<ArrayRef> {
        let arrays = evaluation.value(0)?;
        let elements = Elements::of(arrays)?;
        let [values, _] = element_values(&elements, downcast::lists(arrays)?.values())?;
        let holds = evaluation.call(0, &[values], &elements.rows)?;
        let holds = downcast::booleans(&holds)?;
        let deciding = *self == Quantifier::Some;
        let mut result = BooleanBuilder::with_capacity(evaluation.rows());
        for range in elements.ranges() {
            result.append_option(range.and_then(|mut range| {
                if range.clone().any(|index| holds.is_valid(index) && holds.value(index) == deciding) {
                    Some(deciding)
                } else if range.any(|index| holds.is_null(index)) {
                    None
                } else {
                    Some(!deciding)
                }
            }));
        }
        Ok(Arc::new(result.finish()))
    }
}

fn quantified(call: &Call<'_>, quantifier: Quantifier) -> Result<Typed> {
    call.arity(2..=2)?;
    let (array, element) = array::array(call, 0)?;
    let lambda = Body::resolve(call, 1, vec![parameter("x", &element)], 1..=1)?.predicate(call, 1)?;
    let nullable = array.nullable || lambda.body.nullable;
    let name = if quantifier == Quantifier::Some { "exists" } else { "forall" };
    Ok(HigherOrder::call(name, quantifier, vec![array], vec![lambda], DataType::Boolean, nullable))
}

/// A lambda over the elements at the same places of two arrays; null where one is shorter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ZipWith {
    element: FieldRef,
}

impl LambdaKernel for ZipWith {
    fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<ArrayRef> {
        let (left, right) = (downcast::lists(evaluation.value(0)?)?, downcast::lists(evaluation.value(1)?)?);
        let (mut rows, mut first, mut second) = (Vec::new(), Vec::new(), Vec::new());
        let (mut offsets, mut valid) = (vec![0], Vec::new());
        for row in 0..evaluation.rows() {
            let ranges = nested::range(left, row).zip(nested::range(right, row));
            valid.push(ranges.is_some());
            if let Some((left, right)) = ranges {
                for place in 0..left.len().max(right.len()) {
                    rows.push(row as u32);
                    let pick = |range: &std::ops::Range<usize>| if place < range.len() { (0, range.start + place) } else { (1, 0) };
                    first.push(pick(&left));
                    second.push(pick(&right));
                }
            }
            offsets.push(nested::offset(rows.len())?);
        }
        let gather = |values: &ArrayRef, picks: &[(usize, usize)]| -> Result<ArrayRef> {
            let null = new_null_array(values.data_type(), 1);
            interleave(&[values.as_ref(), null.as_ref()], picks).map_err(arrow_error)
        };
        let rows = UInt32Array::from(rows);
        let values = evaluation.call(0, &[gather(left.values(), &first)?, gather(right.values(), &second)?], &rows)?;
        nested::list(self.element.clone(), offsets, values, valid)
    }
}

fn zip_with(call: &Call<'_>) -> Result<Typed> {
    call.arity(3..=3)?;
    let ((left, first), (right, second)) = (array::array(call, 0)?, array::array(call, 1)?);
    let parameters = vec![parameter("x", &first).with_nullable(true), parameter("y", &second).with_nullable(true)];
    let lambda = Body::resolve(call, 2, parameters, 2..=2)?;
    let element = lambda.field("element");
    let nullable = left.nullable || right.nullable;
    let kernel = ZipWith { element: element.clone() };
    Ok(HigherOrder::call("zip_with", kernel, vec![left, right], vec![lambda], DataType::List(element), nullable))
}
