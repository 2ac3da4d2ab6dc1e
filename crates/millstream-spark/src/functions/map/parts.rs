//! Keys, values and entries of maps.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanBuilder, ListArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use millstream_core::{Error, Result};

use super::super::array::map_and_key;
use super::super::downcast::{self, arrow_error};
use super::super::{Arguments, Call, Functions, Kernel, Typed, faults, keys, nested, scalar};
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add("map_keys", |call| part(call, Part::Keys));
    functions.add("map_values", |call| part(call, Part::Values));
    functions.add("map_entries", |call| part(call, Part::Entries));
    functions.add("map_contains_key", map_contains_key);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    Keys,
    Values,
    Entries,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PartOfMap {
    part: Part,
    element: FieldRef,
}

impl Kernel for PartOfMap {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let maps = arguments.array(0)?;
        let maps = downcast::maps(&maps)?;
        let values: ArrayRef = match self.part {
            Part::Keys => maps.keys().clone(),
            Part::Values => maps.values().clone(),
            Part::Entries => Arc::new(maps.entries().clone()),
        };
        let values = nested::relabel(&values, self.element.data_type())?;
        let lists = ListArray::try_new(self.element.clone(), maps.offsets().clone(), values, maps.nulls().cloned()).map_err(arrow_error)?;
        Ok(Arc::new(lists))
    }
}

fn part(call: &Call<'_>, part: Part) -> Result<Typed> {
    call.arity(1..=1)?;
    let map = call.value(0)?.clone();
    let map = match &map.data_type {
        DataType::Map(..) => map,
        DataType::Null => Typed::null(&types::map(DataType::Null, DataType::Null, true)),
        other => return Err(faults::unexpected_type(call.name, 0, "\"MAP\"", other)),
    };
    let (key, value) = nested::entry_fields(&map.data_type)?;
    let named = |field: &FieldRef, name: &str, nullable: bool| {
        Field::new(name, field.data_type().clone(), nullable).with_metadata(field.metadata().clone())
    };
    let (name, element) = match part {
        Part::Keys => ("map_keys", named(key, "element", true)),
        Part::Values => ("map_values", named(value, "element", true)),
        Part::Entries => {
            let entry = DataType::Struct(vec![named(key, "key", false), named(value, "value", value.is_nullable())].into());
            ("map_entries", Field::new("element", entry, false))
        }
    };
    let element: FieldRef = Arc::new(element);
    let nullable = map.nullable;
    Ok(scalar(name, PartOfMap { part, element: element.clone() }, vec![map], DataType::List(element), nullable))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ContainsKey;

impl Kernel for ContainsKey {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (maps, wanted) = (arguments.array(0)?, arguments.array(1)?);
        let maps = downcast::maps(&maps)?;
        let compared = keys::of_columns(&[maps.keys(), &wanted])?;
        let [known, sought] = compared.as_slice() else { return Err(Error::internal("two columns have two sets of keys")) };
        let mut result = BooleanBuilder::with_capacity(maps.len());
        for row in 0..maps.len() {
            result.append_option(match nested::entries_range(maps, row) {
                Some(mut range) if wanted.is_valid(row) => Some(range.any(|index| known.row(index) == sought.row(row))),
                _ => None,
            });
        }
        Ok(Arc::new(result.finish()))
    }
}

fn map_contains_key(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    let (map, key) = map_and_key(call)?;
    // Spark looks into the array of keys and says that the answer can be null.
    Ok(scalar("map_contains_key", ContainsKey, vec![map, key], DataType::Boolean, true))
}
