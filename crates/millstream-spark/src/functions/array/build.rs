//! Arrays from values and from arrays: `array`, `array_repeat`, `arrays_zip`, `flatten`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StructArray, UInt32Array, new_null_array};
use arrow::compute::{interleave, take};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Int32Type};
use millstream_core::{Error, Result};

use super::super::downcast::{self, arrow_error};
use super::super::nested::ListBuilder;
use super::super::rows::{check_value, check_values};
use super::super::{Arguments, Call, Functions, Kernel, Typed, faults, nested, scalar};
use super::{array, exact_int};
use crate::types;

/// The most elements of one array.
const MAX_ELEMENTS: i32 = i32::MAX - 15;

pub(super) fn register(functions: &mut Functions) {
    functions.add("array", make_array);
    functions.add("array_repeat", array_repeat);
    functions.add("arrays_zip", |call| arrays_zip(call, call.values_from(0)?, (0..call.len()).map(|index| index.to_string()).collect()));
    functions.add("named_arrays_zip", named_arrays_zip);
    functions.add("flatten", flatten);
}

/// An array of the values of a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct MakeArray {
    element: FieldRef,
}

impl Kernel for MakeArray {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let columns = arguments.arrays()?;
        let mut builder = ListBuilder::new(self.element.clone(), &columns.iter().collect::<Vec<_>>())?;
        for row in 0..arguments.rows() {
            (0..columns.len()).for_each(|column| builder.push(column, row));
            builder.end()?;
        }
        builder.finish()
    }
}

fn make_array(call: &Call<'_>) -> Result<Typed> {
    let (data_type, values) = call.common(0)?;
    let nullable = data_type == DataType::Null && !values.is_empty() || values.iter().any(|value| value.nullable);
    let metadata = values.first().map(|value| value.metadata.clone()).unwrap_or_default();
    let element: FieldRef = Arc::new(Field::new("element", data_type, nullable).with_metadata(interval_units(metadata)));
    Ok(scalar("array", MakeArray { element: element.clone() }, values, DataType::List(element), false))
}

/// Of a value's metadata, what belongs to its type.
fn interval_units(mut metadata: std::collections::HashMap<String, String>) -> std::collections::HashMap<String, String> {
    metadata.retain(|key, _| types::belongs_to_type(key));
    metadata
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Repeat {
    element: FieldRef,
}

impl Kernel for Repeat {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (values, counts) = (arguments.array(0)?, arguments.array(1)?);
        let counts = downcast::primitive::<Int32Type>(&counts)?;
        let (data, fixed) = (values.to_data(), values.data_type().primitive_width());
        let (mut picks, mut offsets, mut valid) = (Vec::new(), vec![0], Vec::new());
        let mut bytes = 0_usize;
        for row in 0..values.len() {
            let count = downcast::value(counts, row);
            if let Some(count) = count {
                if count > MAX_ELEMENTS {
                    return Err(nested::too_many(count));
                }
                let count = usize::try_from(count).unwrap_or(0);
                let width = fixed.unwrap_or_else(|| data.slice(row, 1).get_slice_memory_size().unwrap_or(0)).max(size_of::<u32>());
                let more = width.saturating_mul(count);
                check_value(more)?;
                bytes = bytes.saturating_add(more);
                let place = u32::try_from(row).map_err(|_| Error::internal("a batch has too many rows"))?;
                picks.extend(std::iter::repeat_n(place, count));
            }
            offsets.push(nested::offset(picks.len())?);
            valid.push(count.is_some());
        }
        check_values(bytes)?;
        let repeated = take(&nested::relabel(&values, self.element.data_type())?, &UInt32Array::from(picks), None).map_err(arrow_error)?;
        nested::list(self.element.clone(), offsets, repeated, valid)
    }
}

fn array_repeat(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    let (value, count) = (call.value(0)?.clone(), exact_int(call, 1, true)?);
    let element: FieldRef =
        Arc::new(Field::new("element", value.data_type.clone(), value.nullable).with_metadata(interval_units(value.metadata.clone())));
    let nullable = count.nullable;
    Ok(scalar("array_repeat", Repeat { element: element.clone() }, vec![value, count], DataType::List(element), nullable))
}

/// Structs of the elements at the same places of arrays; null where an array is shorter than the longest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Zip {
    fields: Fields,
}

impl Kernel for Zip {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let columns = arguments.arrays()?;
        let lists = columns.iter().map(downcast::lists).collect::<Result<Vec<_>>>()?;
        let mut picks: Vec<Vec<(usize, usize)>> = vec![Vec::new(); lists.len()];
        let (mut offsets, mut valid, mut total) = (vec![0], Vec::new(), 0);
        for row in 0..arguments.rows() {
            let ranges: Option<Vec<_>> = lists.iter().map(|lists| nested::range(lists, row)).collect();
            if let Some(ranges) = &ranges {
                let longest = ranges.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
                for (picks, range) in picks.iter_mut().zip(ranges) {
                    picks.extend((0..longest).map(|place| if place < range.len() { (0, range.start + place) } else { (1, 0) }));
                }
                total += longest;
            }
            offsets.push(nested::offset(total)?);
            valid.push(ranges.is_some());
        }
        let mut values = Vec::with_capacity(lists.len());
        for ((lists, picks), field) in lists.iter().zip(&picks).zip(&self.fields) {
            let elements = nested::relabel(lists.values(), field.data_type())?;
            let null = new_null_array(field.data_type(), 1);
            values.push(interleave(&[elements.as_ref(), null.as_ref()], picks).map_err(arrow_error)?);
        }
        let structs = StructArray::try_new_with_length(self.fields.clone(), values, None, total).map_err(arrow_error)?;
        let element = Arc::new(Field::new("element", DataType::Struct(self.fields.clone()), false));
        nested::list(element, offsets, Arc::new(structs), valid)
    }
}

fn arrays_zip(call: &Call<'_>, values: Vec<Typed>, names: Vec<String>) -> Result<Typed> {
    let mut arrays = Vec::with_capacity(values.len());
    for (index, value) in values.into_iter().enumerate() {
        arrays.push(match value.data_type {
            DataType::List(_) => value,
            DataType::Null => Typed::null(&types::array(DataType::Null, true)),
            ref other => return Err(faults::unexpected_type(call.name, index, "\"ARRAY\"", other)),
        });
    }
    let field = |(array, name): (&Typed, String)| -> Result<Field> {
        let element = nested::element_field(&array.data_type)?;
        Ok(Field::new(name, element.data_type().clone(), true).with_metadata(element.metadata().clone()))
    };
    let fields: Fields = arrays.iter().zip(names).map(field).collect::<Result<Vec<_>>>()?.into();
    let nullable = arrays.iter().any(|array| array.nullable);
    let data_type = types::array(DataType::Struct(fields.clone()), false);
    Ok(scalar("arrays_zip", Zip { fields }, arrays, data_type, nullable))
}

/// `arrays_zip` with the names of the fields: `name, array, name, array …`.
fn named_arrays_zip(call: &Call<'_>) -> Result<Typed> {
    let (mut names, mut arrays) = (Vec::new(), Vec::new());
    for index in 0..call.len() {
        if index % 2 == 0 {
            names.push(call.constant_text(index)?.unwrap_or_default());
        } else {
            arrays.push(call.value(index)?.clone());
        }
    }
    arrays_zip(call, arrays, names)
}

/// The elements of the arrays in an array; null where one of them is null.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Flatten {
    element: FieldRef,
}

impl Kernel for Flatten {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let arrays = arguments.array(0)?;
        let outer = downcast::lists(&arrays)?;
        let inner = downcast::lists(outer.values())?;
        let mut builder = ListBuilder::new(self.element.clone(), &[inner.values()])?;
        for row in 0..outer.len() {
            match nested::range(outer, row).and_then(|mut range| {
                range.try_fold(Vec::new(), |mut ranges, index| {
                    ranges.push(nested::range(inner, index)?);
                    Some(ranges)
                })
            }) {
                Some(ranges) => {
                    ranges.into_iter().for_each(|range| builder.extend(0, range));
                    builder.end()?;
                }
                None => builder.end_null()?,
            }
        }
        builder.finish()
    }
}

fn flatten(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=1)?;
    let (arrays, inner) = array(call, 0)?;
    let DataType::List(element) = inner.data_type() else {
        return Err(faults::unexpected_type(call.name, 0, "\"ARRAY\" of \"ARRAY\"", &arrays.data_type));
    };
    let element = element.clone();
    let nullable = arrays.nullable || inner.is_nullable();
    Ok(scalar("flatten", Flatten { element: element.clone() }, vec![arrays], DataType::List(element), nullable))
}
