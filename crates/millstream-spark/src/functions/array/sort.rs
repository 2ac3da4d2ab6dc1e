//! Arrays in order, and their least and greatest elements.

use arrow::array::{Array, ArrayRef, UInt64Builder};
use arrow::compute::take;
use arrow::datatypes::{DataType, FieldRef};
use millstream_core::Result;

use super::super::downcast::{self, arrow_error};
use super::super::nested::ListBuilder;
use super::super::{Arguments, Call, Functions, Kernel, Typed, faults, keys, nested, scalar};
use super::{array, array_or_null, orderable};

pub(super) fn register(functions: &mut Functions) {
    functions.add("sort_array", sort_array);
    functions.add("array_max", |call| extreme(call, Extreme::Greatest));
    functions.add("array_min", |call| extreme(call, Extreme::Least));
}

/// Where nulls go and which way the others are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Order {
    /// By the second argument: ascending with nulls first, or descending with nulls last.
    Asked,
    /// Ascending with nulls last.
    NullsLast,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sort {
    order: Order,
    element: FieldRef,
}

impl Kernel for Sort {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let arrays = arguments.array(0)?;
        let lists = downcast::lists(&arrays)?;
        let elements = keys::of(lists.values())?;
        let ascending = if self.order == Order::Asked { Some(arguments.array(1)?) } else { None };
        let ascending = ascending.as_ref().map(downcast::booleans).transpose()?;
        let mut builder = ListBuilder::new(self.element.clone(), &[lists.values()])?;
        for row in 0..lists.len() {
            let ascends = ascending.map_or(Some(true), |ascending| ascending.is_valid(row).then(|| ascending.value(row)));
            let (Some(range), Some(ascends)) = (nested::range(lists, row), ascends) else {
                builder.end_null()?;
                continue;
            };
            let mut places: Vec<usize> = range.collect();
            // Nulls have the least keys.
            places.sort_by(|left, right| {
                let order = elements.row(*left).cmp(&elements.row(*right));
                if ascends { order } else { order.reverse() }
            });
            if self.order == Order::NullsLast {
                let nulls = places.iter().take_while(|place| lists.values().is_null(**place)).count();
                places.rotate_left(nulls);
            }
            places.into_iter().for_each(|place| builder.push(0, place));
            builder.end()?;
        }
        builder.finish()
    }
}

fn sort_array(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=2)?;
    let (array, element) = array_or_null(call, 0)?;
    orderable(call.name, element.data_type())?;
    let ascending = match call.len() {
        1 => Typed::literal(datafusion::scalar::ScalarValue::Boolean(Some(true))),
        _ => match call.value(1)?.data_type {
            DataType::Boolean | DataType::Null => call.boolean(1)?,
            ref other => return Err(faults::unexpected_type(call.name, 1, "\"BOOLEAN\"", other)),
        },
    };
    let (data_type, nullable) = (array.data_type.clone(), array.nullable || ascending.nullable);
    Ok(scalar("sort_array", Sort { order: Order::Asked, element }, vec![array, ascending], data_type, nullable))
}

/// `array_sort` without a comparator: ascending, nulls last.
///
/// # Errors
/// `DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE`, `DATATYPE_MISMATCH.INVALID_ORDERING_TYPE`.
pub(in crate::functions) fn natural_array_sort(call: &Call<'_>) -> Result<Typed> {
    let (array, element) = array(call, 0)?;
    orderable(call.name, element.data_type())?;
    let (data_type, nullable) = (array.data_type.clone(), array.nullable);
    Ok(scalar("array_sort", Sort { order: Order::NullsLast, element }, vec![array], data_type, nullable))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Extreme {
    Least,
    Greatest,
}

impl Kernel for Extreme {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let arrays = arguments.array(0)?;
        let lists = downcast::lists(&arrays)?;
        let elements = keys::of(lists.values())?;
        let mut places = UInt64Builder::with_capacity(lists.len());
        for row in 0..lists.len() {
            let valid = nested::range(lists, row).into_iter().flatten().filter(|index| lists.values().is_valid(*index));
            let found = valid.reduce(|best, index| {
                let better = match self {
                    Extreme::Least => elements.row(index) < elements.row(best),
                    Extreme::Greatest => elements.row(index) > elements.row(best),
                };
                if better { index } else { best }
            });
            places.append_option(found.map(|place| place as u64));
        }
        take(lists.values(), &places.finish(), None).map_err(arrow_error)
    }
}

fn extreme(call: &Call<'_>, extreme: Extreme) -> Result<Typed> {
    call.arity(1..=1)?;
    let (array, element) = array_or_null(call, 0)?;
    orderable(call.name, element.data_type())?;
    let name = if extreme == Extreme::Least { "array_min" } else { "array_max" };
    Ok(scalar(name, extreme, vec![array], element.data_type().clone(), true).with_metadata(element.metadata().clone()))
}
