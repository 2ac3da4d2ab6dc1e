//! Rows outside of the engine: what clients and Python workers are sent, and what they send back.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StringArray, StructArray, TimestampMicrosecondArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Fields, TimeUnit};
use millstream_core::{Error, Result, raw_text};

use super::{Shape, VARIANT};

/// A field as it is sent: instants in a time zone, nested fields under Spark's names.
pub(crate) fn wire_field(field: &Field, time_zone: &str) -> Field {
    let mut data_type = wire_type(field.data_type(), time_zone);
    if field.metadata().contains_key(VARIANT)
        && let DataType::Struct(parts) = &data_type
    {
        // Clients tell a variant from a structure by this mark.
        let marked = parts.iter().map(|part| match part.name().as_str() {
            "metadata" => Arc::new(part.as_ref().clone().with_metadata([("variant".to_owned(), "true".to_owned())].into())),
            _ => part.clone(),
        });
        data_type = DataType::Struct(marked.collect());
    }
    if let Some(shape) = Shape::of(field.metadata())
        && let DataType::Struct(parts) = &data_type
    {
        let srid = field.metadata().get(shape.key()).filter(|srid| *srid != "ANY").map_or("-1", String::as_str);
        let mark = [(shape.name().to_owned(), "true".to_owned()), ("srid".to_owned(), srid.to_owned())];
        let marked = parts.iter().map(|part| match part.name().as_str() {
            "wkb" => Arc::new(part.as_ref().clone().with_metadata(mark.clone().into())),
            _ => part.clone(),
        });
        data_type = DataType::Struct(marked.collect());
    }
    Field::new(field.name(), data_type, field.is_nullable())
}

fn wire_type(data_type: &DataType, time_zone: &str) -> DataType {
    let wire = |field: &Field, name: &str| Arc::new(wire_field(field, time_zone).with_name(name));
    match data_type {
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => DataType::Timestamp(TimeUnit::Microsecond, Some(time_zone.into())),
        DataType::List(element) => DataType::List(wire(element, "element")),
        DataType::Struct(fields) => {
            let told_apart = |(index, field): (usize, &Arc<Field>)| wire_field(field, time_zone).with_name(distinct_name(fields, index));
            DataType::Struct(fields.iter().enumerate().map(told_apart).collect())
        }
        DataType::Map(entries, sorted) => match entries.data_type() {
            DataType::Struct(pair) => {
                let names = ["key", "value"];
                let pair: Fields = pair.iter().zip(names).map(|(field, name)| wire(field, name)).collect();
                DataType::Map(Arc::new(Field::new("entries", DataType::Struct(pair), false)), *sorted)
            }
            _ => data_type.clone(),
        },
        other => other.clone(),
    }
}

/// The name of a part of a structure, with a number where several have it: clients look parts up by their names.
fn distinct_name(fields: &Fields, index: usize) -> String {
    let Some(name) = fields.get(index).map(|field| field.name()) else { return String::new() };
    let earlier = fields.iter().take(index).filter(|field| field.name() == name).count();
    let later = fields.iter().skip(index + 1).any(|field| field.name() == name);
    if earlier > 0 || later { format!("{name}_{earlier}") } else { name.clone() }
}

/// Texts as they are shown: what Arrow takes for text has no bytes that are no UTF-8.
fn shown(array: &ArrayRef) -> ArrayRef {
    match array.as_string_opt::<i32>() {
        Some(texts) if raw_text::has_raw_bytes(texts.values()) => {
            Arc::new(texts.iter().map(|text| text.map(raw_text::shown)).collect::<StringArray>())
        }
        _ => array.clone(),
    }
}

/// The same values under a type that differs in names, nullability and time zones.
///
/// # Errors
/// `INTERNAL_ERROR` when the values are of another type.
pub(crate) fn retype(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(shown(array));
    }
    match (array.data_type(), to) {
        (DataType::Timestamp(TimeUnit::Microsecond, _), DataType::Timestamp(TimeUnit::Microsecond, zone)) => {
            let instants = array.as_any().downcast_ref::<TimestampMicrosecondArray>().cloned();
            instants.map(|instants| Arc::new(instants.with_timezone_opt(zone.clone())) as ArrayRef)
        }
        (DataType::List(_), DataType::List(element)) => match array.as_any().downcast_ref::<ListArray>() {
            Some(list) => {
                let values = retype(list.values(), element.data_type())?;
                let element = relaxed(element, &values, None);
                Some(Arc::new(ListArray::try_new(element, list.offsets().clone(), values, list.nulls().cloned()).map_err(misfit)?)
                    as ArrayRef)
            }
            None => None,
        },
        (DataType::Struct(_), DataType::Struct(fields)) => match array.as_any().downcast_ref::<StructArray>() {
            Some(parts) if parts.num_columns() == fields.len() => Some(Arc::new(structure(parts, fields)?) as ArrayRef),
            _ => None,
        },
        (DataType::Map(..), DataType::Map(entries, sorted)) => match (array.as_any().downcast_ref::<MapArray>(), entries.data_type()) {
            (Some(map), DataType::Struct(fields)) => {
                let pairs = structure(map.entries(), fields)?;
                let entries = Arc::new(entries.as_ref().clone().with_data_type(pairs.data_type().clone()));
                let map = MapArray::try_new(entries, map.offsets().clone(), pairs, map.nulls().cloned(), *sorted).map_err(misfit)?;
                Some(Arc::new(map) as ArrayRef)
            }
            _ => None,
        },
        _ => None,
    }
    .map_or_else(|| arrow::compute::cast(array, to).map_err(misfit), Ok)
}

fn structure(parts: &StructArray, fields: &Fields) -> Result<StructArray> {
    let columns: Vec<ArrayRef> =
        parts.columns().iter().zip(fields).map(|(column, field)| retype(column, field.data_type())).collect::<Result<_>>()?;
    if columns.is_empty() {
        return Ok(StructArray::new_empty_fields(parts.len(), parts.nulls().cloned()));
    }
    let fields: Fields = fields.iter().zip(&columns).map(|(field, column)| relaxed(field, column, parts.nulls())).collect();
    StructArray::try_new(fields, columns, parts.nulls().cloned()).map_err(misfit)
}

/// The field with the type of its values, nullable when there are nulls other than those of what is around them.
fn relaxed(field: &Arc<Field>, values: &ArrayRef, around: Option<&NullBuffer>) -> Arc<Field> {
    let field = if field.data_type() == values.data_type() {
        field.clone()
    } else {
        Arc::new(field.as_ref().clone().with_data_type(values.data_type().clone()))
    };
    let hidden = || values.nulls().is_none_or(|nulls| nulls.null_count() == 0 || around.is_some_and(|around| around.contains(nulls)));
    match field.is_nullable() || hidden() {
        true => field,
        false => Arc::new(field.as_ref().clone().with_nullable(true)),
    }
}

fn misfit(error: arrow::error::ArrowError) -> Error {
    Error::internal("a result does not have the types of its plan").caused_by(error)
}

#[cfg(test)]
mod tests {
    use arrow::array::{BinaryArray, Int32Array};

    use super::*;

    #[test]
    fn parts_of_one_name_are_told_apart() {
        let part = |name: &str| Field::new(name, DataType::Int32, true);
        let structure = Field::new("s", DataType::Struct(vec![part("a"), part("b"), part("a")].into()), true);
        let DataType::Struct(parts) = wire_field(&structure, "UTC").data_type().clone() else { panic!("a structure is due") };
        assert_eq!(parts.iter().map(|part| part.name().as_str()).collect::<Vec<_>>(), ["a_0", "b", "a_1"]);
    }

    #[test]
    fn parts_are_null_only_where_the_whole_is_not() {
        let bytes = || Arc::new(BinaryArray::from_opt_vec(vec![Some(&b"x"[..]), None])) as ArrayRef;
        let fields = |nullable| Fields::from(vec![Field::new("value", DataType::Binary, nullable)]);
        let whole = |nulls: Vec<bool>| Arc::new(StructArray::new(fields(true), vec![bytes()], Some(nulls.into()))) as ArrayRef;
        let to = DataType::Struct(fields(false));
        assert_eq!(*retype(&whole(vec![true, false]), &to).unwrap().data_type(), to);
        assert_eq!(*retype(&whole(vec![true, true]), &to).unwrap().data_type(), DataType::Struct(fields(true)));
        assert!(retype(&(Arc::new(Int32Array::from(vec![1])) as ArrayRef), &to).is_err());
    }
}
