//! Arrays as sets: `array_distinct`, `array_union`, `array_intersect`, `array_except`.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, FieldRef};
use millstream_core::{Error, Result};

use super::super::downcast;
use super::super::nested::ListBuilder;
use super::super::{Arguments, Call, Functions, Kernel, Typed, keys, nested, scalar};
use super::{array_or_null, orderable, pair};

pub(super) fn register(functions: &mut Functions) {
    functions.add("array_distinct", array_distinct);
    functions.add("array_union", |call| combined(call, Operation::Union));
    functions.add("array_intersect", |call| combined(call, Operation::Intersect));
    functions.add("array_except", |call| combined(call, Operation::Except));
}

/// The elements of an array without repetitions, in the order of their first occurrence. The first of equal elements stays.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Distinct {
    element: FieldRef,
}

impl Kernel for Distinct {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let arrays = arguments.array(0)?;
        let lists = downcast::lists(&arrays)?;
        let elements = keys::of(lists.values())?;
        let mut builder = ListBuilder::new(self.element.clone(), &[lists.values()])?;
        for row in 0..lists.len() {
            let Some(range) = nested::range(lists, row) else {
                builder.end_null()?;
                continue;
            };
            let mut seen = HashSet::with_capacity(range.len());
            range.filter(|index| seen.insert(elements.row(*index))).for_each(|index| builder.push(0, index));
            builder.end()?;
        }
        builder.finish()
    }
}

fn array_distinct(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=1)?;
    let (array, element) = array_or_null(call, 0)?;
    orderable(call.name, element.data_type())?;
    let (data_type, nullable) = (array.data_type.clone(), array.nullable);
    Ok(scalar("array_distinct", Distinct { element }, vec![array], data_type, nullable))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operation {
    Union,
    Intersect,
    Except,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Combine {
    operation: Operation,
    element: FieldRef,
}

impl Kernel for Combine {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (left, right) = (arguments.array(0)?, arguments.array(1)?);
        let (left, right) = (downcast::lists(&left)?, downcast::lists(&right)?);
        let compared = keys::of_columns(&[left.values(), right.values()])?;
        let [left_keys, right_keys] = compared.as_slice() else { return Err(Error::internal("two columns have two sets of keys")) };
        let mut builder = ListBuilder::new(self.element.clone(), &[left.values(), right.values()])?;
        for row in 0..left.len() {
            let (Some(first), Some(second)) = (nested::range(left, row), nested::range(right, row)) else {
                builder.end_null()?;
                continue;
            };
            let mut seen = HashSet::with_capacity(first.len());
            let others: HashSet<_> = match self.operation {
                Operation::Union => HashSet::new(),
                _ => second.clone().map(|index| right_keys.row(index)).collect(),
            };
            for index in first {
                let key = left_keys.row(index);
                let wanted = match self.operation {
                    Operation::Union => true,
                    Operation::Intersect => others.contains(&key),
                    Operation::Except => !others.contains(&key),
                };
                if wanted && seen.insert(key) {
                    builder.push(0, index);
                }
            }
            if self.operation == Operation::Union {
                second.filter(|index| seen.insert(right_keys.row(*index))).for_each(|index| builder.push(1, index));
            }
            builder.end()?;
        }
        builder.finish()
    }
}

fn combined(call: &Call<'_>, operation: Operation) -> Result<Typed> {
    let (left, right) = pair(call)?;
    let (first, second) = (nested::element_field(&left.data_type)?.clone(), nested::element_field(&right.data_type)?.clone());
    let may_contain_null = match operation {
        Operation::Union => first.is_nullable() || second.is_nullable(),
        Operation::Intersect => first.is_nullable() && second.is_nullable(),
        Operation::Except => first.is_nullable(),
    };
    let element: FieldRef =
        Arc::new(Field::new("element", first.data_type().clone(), may_contain_null).with_metadata(first.metadata().clone()));
    let name = match operation {
        Operation::Union => "array_union",
        Operation::Intersect => "array_intersect",
        Operation::Except => "array_except",
    };
    let (data_type, nullable) = (DataType::List(element.clone()), left.nullable || right.nullable);
    Ok(scalar(name, Combine { operation, element }, vec![left, right], data_type, nullable))
}
