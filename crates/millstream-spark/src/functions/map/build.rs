//! Maps from values, arrays, entries and other maps.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, FieldRef};
use millstream_core::{Error, ErrorKind, Result};

use super::super::{Arguments, Call, Functions, Kernel, Typed, cast, coercion, downcast, faults, keys, nested, scalar};
use super::{Duplicates, MapBuilder};
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add("map", make_map);
    functions.add("map_concat", map_concat);
    functions.add("map_from_arrays", map_from_arrays);
    functions.add("map_from_entries", map_from_entries);
}

/// Checks the type of a map's keys.
///
/// # Errors
/// `DATATYPE_MISMATCH.INVALID_MAP_KEY_TYPE` for keys that contain maps.
pub(in crate::functions) fn check_key_type(data_type: &DataType) -> Result<()> {
    fn has_map(data_type: &DataType) -> bool {
        match data_type {
            DataType::Map(..) => true,
            DataType::List(field) => has_map(field.data_type()),
            DataType::Struct(fields) => fields.iter().any(|field| has_map(field.data_type())),
            _ => false,
        }
    }
    if has_map(data_type) {
        return Err(faults::mismatch("INVALID_MAP_KEY_TYPE", "a key of a map cannot be or contain a map"));
    }
    Ok(())
}

/// A map of keys and values that follow each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct MakeMap {
    data_type: DataType,
    duplicates: Duplicates,
}

impl Kernel for MakeMap {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let columns = arguments.arrays()?;
        let sources: Vec<&ArrayRef> = columns.iter().step_by(2).collect();
        let values: Vec<&ArrayRef> = columns.iter().skip(1).step_by(2).collect();
        let compared = keys::of_columns(&sources)?;
        let mut builder = MapBuilder::new(self.data_type.clone(), self.duplicates, &sources, &values, &compared)?;
        for row in 0..arguments.rows() {
            for source in 0..sources.len() {
                builder.push((source, row), (source, row))?;
            }
            builder.end(true)?;
        }
        builder.finish()
    }
}

fn make_map(call: &Call<'_>) -> Result<Typed> {
    if !call.len().is_multiple_of(2) {
        return Err(faults::wrong_number(call.name, "2n (n > 0)", call.len()));
    }
    let arguments = call.values_from(0)?;
    let (mut map_keys, mut values) = (Vec::new(), Vec::new());
    for (index, argument) in arguments.into_iter().enumerate() {
        if index % 2 == 0 { map_keys.push(argument) } else { values.push(argument) }
    }
    let (key_type, map_keys) = common(call, map_keys, "CREATE_MAP_KEY_DIFF_TYPES")?;
    let (value_type, values) = common(call, values, "CREATE_MAP_VALUE_DIFF_TYPES")?;
    check_key_type(&key_type)?;
    let value_contains_null = values.iter().any(|value| value.nullable);
    let data_type = types::map(key_type, value_type, value_contains_null);
    let arguments = map_keys.into_iter().zip(values).flat_map(|(key, value)| [key, value]).collect();
    Ok(scalar("map", MakeMap { data_type: data_type.clone(), duplicates: Duplicates::of(call.settings) }, arguments, data_type, false))
}

fn common(call: &Call<'_>, values: Vec<Typed>, condition: &str) -> Result<(DataType, Vec<Typed>)> {
    coercion::to_common_type(call.name, values, call.settings).map_err(|error| {
        if error.code() == "DATATYPE_MISMATCH.DATA_DIFF_TYPES" { faults::mismatch(condition, error.message().to_owned()) } else { error }
    })
}

/// The entries of several maps; null where one of them is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ConcatMaps {
    data_type: DataType,
    duplicates: Duplicates,
}

impl Kernel for ConcatMaps {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let columns = arguments.arrays()?;
        let maps = columns.iter().map(downcast::maps).collect::<Result<Vec<_>>>()?;
        let sources: Vec<&ArrayRef> = maps.iter().map(|maps| maps.keys()).collect();
        let values: Vec<&ArrayRef> = maps.iter().map(|maps| maps.values()).collect();
        let compared = keys::of_columns(&sources)?;
        let mut builder = MapBuilder::new(self.data_type.clone(), self.duplicates, &sources, &values, &compared)?;
        for row in 0..arguments.rows() {
            let ranges: Option<Vec<_>> = maps.iter().map(|maps| nested::entries_range(maps, row)).collect();
            let valid = ranges.is_some();
            for (source, range) in ranges.unwrap_or_default().into_iter().enumerate() {
                for index in range {
                    builder.push((source, index), (source, index))?;
                }
            }
            builder.end(valid)?;
        }
        builder.finish()
    }
}

fn map_concat(call: &Call<'_>) -> Result<Typed> {
    let maps = call.values_from(0)?;
    let shown = |maps: &[Typed]| maps.iter().map(|map| types::ddl_type(&map.data_type)).collect::<Vec<_>>().join(", ");
    if maps.iter().any(|map| !matches!(map.data_type, DataType::Map(..))) {
        return Err(faults::mismatch("MAP_CONCAT_DIFF_TYPES", format!("`map_concat` takes maps and not {}", shown(&maps))));
    }
    let mut common: Option<(DataType, DataType, bool)> = None;
    for map in &maps {
        let (key, value) = nested::entry_fields(&map.data_type)?;
        common = Some(match common {
            None => (key.data_type().clone(), value.data_type().clone(), value.is_nullable()),
            Some((keys, values, nullable)) => {
                let keys = coercion::common_type(&keys, key.data_type(), call.settings)
                    .filter(|_| !call.settings.ansi || is_text(&keys) == is_text(key.data_type()));
                let values = coercion::common_type(&values, value.data_type(), call.settings);
                match (keys, values) {
                    (Some(keys), Some(values)) => (keys, values, nullable || value.is_nullable()),
                    _ => {
                        let message = format!("the maps of `map_concat` must be of one type but are {}", shown(&maps));
                        return Err(faults::mismatch("DATA_DIFF_TYPES", message));
                    }
                }
            }
        });
    }
    let (key, value, nullable_values) = common.unwrap_or((DataType::Utf8, DataType::Utf8, true));
    let data_type = types::map(key.clone(), value.clone(), nullable_values);
    let nullable = maps.iter().any(|map| map.nullable);
    let maps = maps
        .into_iter()
        .map(|map| {
            let contains_null = nested::entry_fields(&map.data_type)?.1.is_nullable();
            cast::implicit(map, &types::map(key.clone(), value.clone(), contains_null), call.settings)
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(scalar(
        "map_concat",
        ConcatMaps { data_type: data_type.clone(), duplicates: Duplicates::of(call.settings) },
        maps,
        data_type,
        nullable,
    ))
}

fn is_text(data_type: &DataType) -> bool {
    *data_type == DataType::Utf8
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct MapFromArrays {
    data_type: DataType,
    duplicates: Duplicates,
}

impl Kernel for MapFromArrays {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (map_keys, values) = (arguments.array(0)?, arguments.array(1)?);
        let (map_keys, values) = (downcast::lists(&map_keys)?, downcast::lists(&values)?);
        let compared = keys::of_columns(&[map_keys.values()])?;
        let mut builder = MapBuilder::new(self.data_type.clone(), self.duplicates, &[map_keys.values()], &[values.values()], &compared)?;
        for row in 0..map_keys.len() {
            match (nested::range(map_keys, row), nested::range(values, row)) {
                (Some(keys), Some(values)) if keys.len() != values.len() => {
                    return Err(Error::new(
                        ErrorKind::BadRecord,
                        "_LEGACY_ERROR_TEMP_2128",
                        format!("a map has as many keys as values, and there are {} keys and {} values", keys.len(), values.len()),
                    ));
                }
                (Some(keys), Some(values)) => {
                    for (key, value) in keys.zip(values) {
                        builder.push((0, key), (0, value))?;
                    }
                    builder.end(true)?;
                }
                _ => builder.end(false)?,
            }
        }
        builder.finish()
    }
}

fn map_from_arrays(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    let array = |index: usize| -> Result<(Typed, FieldRef)> {
        let value = call.value(index)?.clone();
        let value = if value.data_type == DataType::Null { Typed::null(&types::array(DataType::Null, true)) } else { value };
        match &value.data_type {
            DataType::List(element) => {
                let element = element.clone();
                Ok((value, element))
            }
            other => Err(faults::unexpected_type(call.name, index, "\"ARRAY\"", other)),
        }
    };
    let ((map_keys, key), (values, value)) = (array(0)?, array(1)?);
    check_key_type(key.data_type())?;
    let data_type = types::map(key.data_type().clone(), value.data_type().clone(), value.is_nullable());
    let nullable = map_keys.nullable || values.nullable;
    Ok(scalar(
        "map_from_arrays",
        MapFromArrays { data_type: data_type.clone(), duplicates: Duplicates::of(call.settings) },
        vec![map_keys, values],
        data_type,
        nullable,
    ))
}

/// A map of structs of a key and a value; null where one of the structs is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct MapFromEntries {
    data_type: DataType,
    duplicates: Duplicates,
}

impl Kernel for MapFromEntries {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let arrays = arguments.array(0)?;
        let lists = downcast::lists(&arrays)?;
        let entries = downcast::structs(lists.values())?;
        let [map_keys, values] = entries.columns() else { return Err(Error::internal("an entry has a key and a value")) };
        let compared = keys::of_columns(&[map_keys])?;
        let mut builder = MapBuilder::new(self.data_type.clone(), self.duplicates, &[map_keys], &[values], &compared)?;
        for row in 0..lists.len() {
            match nested::range(lists, row).filter(|range| range.clone().all(|index| entries.is_valid(index))) {
                Some(range) => {
                    for index in range {
                        builder.push((0, index), (0, index))?;
                    }
                    builder.end(true)?;
                }
                None => builder.end(false)?,
            }
        }
        builder.finish()
    }
}

fn map_from_entries(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=1)?;
    let array = call.value(0)?.clone();
    if let DataType::List(element) = &array.data_type
        && let DataType::Struct(fields) = element.data_type()
        && let [key, value] = fields.as_ref()
    {
        check_key_type(key.data_type())?;
        let data_type = types::map(key.data_type().clone(), value.data_type().clone(), value.is_nullable());
        let nullable = array.nullable || element.is_nullable();
        return Ok(scalar(
            "map_from_entries",
            MapFromEntries { data_type: data_type.clone(), duplicates: Duplicates::of(call.settings) },
            vec![array],
            data_type,
            nullable,
        ));
    }
    Err(faults::unexpected_type(call.name, 0, "\"ARRAY\" of pair \"STRUCT\"", &array.data_type))
}
