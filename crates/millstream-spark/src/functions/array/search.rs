//! Looking for values: `array_contains`, `array_position`, `arrays_overlap`.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanBuilder, Int64Builder};
use arrow::datatypes::DataType;
use millstream_core::{Error, Result};

use super::super::downcast;
use super::super::{Arguments, Call, Functions, Kernel, Typed, faults, keys, nested, scalar};
use super::{Width, WithValue, orderable, pair};

pub(super) fn register(functions: &mut Functions) {
    functions.add("array_contains", array_contains);
    functions.add("array_position", array_position);
    functions.add("arrays_overlap", arrays_overlap);
}

/// Looks for a value in an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Find {
    /// Whether it is there; null when it is not but an element is null.
    Whether,
    /// Where it is, from 1; 0 when it is not there.
    Where,
}

impl Kernel for Find {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (arrays, values) = (arguments.array(0)?, arguments.array(1)?);
        let lists = downcast::lists(&arrays)?;
        let compared = keys::of_columns(&[lists.values(), &values])?;
        let [elements, sought] = compared.as_slice() else { return Err(Error::internal("two columns have two sets of keys")) };
        let (mut found, mut places) = (BooleanBuilder::new(), Int64Builder::new());
        for row in 0..lists.len() {
            let range = nested::range(lists, row).filter(|_| values.is_valid(row));
            let place = range.clone().and_then(|mut range| range.position(|index| elements.row(index) == sought.row(row)));
            let has_null = || range.clone().is_some_and(|mut range| range.any(|index| lists.values().is_null(index)));
            match self {
                Find::Whether if range.is_none() || place.is_none() && has_null() => found.append_null(),
                Find::Whether => found.append_value(place.is_some()),
                Find::Where if range.is_none() => places.append_null(),
                Find::Where => places.append_value(place.map_or(0, |place| place as i64 + 1)),
            }
        }
        Ok(match self {
            Find::Whether => Arc::new(found.finish()),
            Find::Where => Arc::new(places.finish()),
        })
    }
}

fn array_contains(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    if call.value(1)?.data_type == DataType::Null || call.value(0)?.data_type == DataType::Null {
        return Err(faults::mismatch("NULL_TYPE", format!("`{}` does not take a null without a type", call.name)));
    }
    let WithValue { array, element, value } = WithValue::of(call, 0, 1, Width::Wide)?;
    orderable(call.name, element.data_type())?;
    let nullable = array.nullable || value.nullable || element.is_nullable();
    Ok(scalar("array_contains", Find::Whether, vec![array, value], DataType::Boolean, nullable))
}

fn array_position(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    if call.value(0)?.data_type == DataType::Null {
        return Err(faults::mismatch("NULL_TYPE", format!("`{}` does not take a null without a type", call.name)));
    }
    let WithValue { array, element, value } = WithValue::of(call, 0, 1, Width::Wide)?;
    orderable(call.name, element.data_type())?;
    let nullable = array.nullable || value.nullable;
    Ok(scalar("array_position", Find::Where, vec![array, value], DataType::Int64, nullable))
}

/// Whether two arrays share an element that is not null; null when they share none, neither is empty and one has a null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Overlap;

impl Kernel for Overlap {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (left, right) = (arguments.array(0)?, arguments.array(1)?);
        let (left, right) = (downcast::lists(&left)?, downcast::lists(&right)?);
        let compared = keys::of_columns(&[left.values(), right.values()])?;
        let [left_keys, right_keys] = compared.as_slice() else { return Err(Error::internal("two columns have two sets of keys")) };
        let mut result = BooleanBuilder::with_capacity(left.len());
        for row in 0..left.len() {
            let (Some(first), Some(second)) = (nested::range(left, row), nested::range(right, row)) else {
                result.append_null();
                continue;
            };
            let known: HashSet<_> =
                first.clone().filter(|index| left.values().is_valid(*index)).map(|index| left_keys.row(index)).collect();
            let mut valid = second.clone().filter(|index| right.values().is_valid(*index));
            if valid.any(|index| known.contains(&right_keys.row(index))) {
                result.append_value(true);
            } else {
                let null_in = |values: &ArrayRef, mut range: std::ops::Range<usize>| range.any(|index| values.is_null(index));
                let unknown = !first.is_empty() && !second.is_empty() && (null_in(left.values(), first) || null_in(right.values(), second));
                result.append_option((!unknown).then_some(false));
            }
        }
        Ok(Arc::new(result.finish()))
    }
}

fn arrays_overlap(call: &Call<'_>) -> Result<Typed> {
    let (left, right) = pair(call)?;
    let may_contain_null = nested::element_field(&left.data_type)?.is_nullable() || nested::element_field(&right.data_type)?.is_nullable();
    let nullable = left.nullable || right.nullable || may_contain_null;
    Ok(scalar("arrays_overlap", Overlap, vec![left, right], DataType::Boolean, nullable))
}
