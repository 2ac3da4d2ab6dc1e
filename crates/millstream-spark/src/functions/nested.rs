//! Columns of arrays, maps and structs: reading their rows, building new ones, and agreeing on nullability.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, MapArray, StructArray, new_null_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Field, FieldRef};
use millstream_core::{Error, Result};

use super::downcast::{self, arrow_error};

/// The places of the elements of a row of a list in its values; `None` where the list is null.
pub(super) fn range(lists: &ListArray, row: usize) -> Option<Range<usize>> {
    lists.is_valid(row).then(|| span(lists.value_offsets(), row))
}

/// The places of the entries of a row of a map in its keys and values; `None` where the map is null.
pub(super) fn entries_range(maps: &MapArray, row: usize) -> Option<Range<usize>> {
    maps.is_valid(row).then(|| span(maps.value_offsets(), row))
}

fn span(offsets: &[i32], row: usize) -> Range<usize> {
    let at = |index: usize| offsets.get(index).and_then(|offset| usize::try_from(*offset).ok()).unwrap_or_default();
    at(row)..at(row + 1)
}

/// The field of an array's elements.
///
/// # Errors
/// `INTERNAL_ERROR` for another type.
pub(super) fn element_field(data_type: &DataType) -> Result<&FieldRef> {
    match data_type {
        DataType::List(field) => Ok(field),
        other => Err(Error::internal(format!("{other} is no array"))),
    }
}

/// The fields of a map's keys and values.
///
/// # Errors
/// `INTERNAL_ERROR` for another type.
pub(super) fn entry_fields(data_type: &DataType) -> Result<(&FieldRef, &FieldRef)> {
    if let DataType::Map(entries, _) = data_type
        && let DataType::Struct(fields) = entries.data_type()
        && let [key, value] = fields.as_ref()
    {
        return Ok((key, value));
    }
    Err(Error::internal(format!("{data_type} is no map")))
}

/// Builds lists of elements picked from other arrays.
#[derive(Debug)]
pub(super) struct ListBuilder {
    sources: Vec<ArrayRef>,
    element: FieldRef,
    picks: Vec<(usize, usize)>,
    offsets: Vec<i32>,
    valid: Vec<bool>,
}

impl ListBuilder {
    /// Lists of `element`s from `sources`, which are brought to the element's type. One null is added as the last source.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` when a source is of another type.
    pub(super) fn new(element: FieldRef, sources: &[&ArrayRef]) -> Result<Self> {
        let mut sources = sources.iter().map(|source| relabel(source, element.data_type())).collect::<Result<Vec<_>>>()?;
        sources.push(new_null_array(element.data_type(), 1));
        Ok(ListBuilder { sources, element, picks: Vec::new(), offsets: vec![0], valid: Vec::new() })
    }

    /// Adds an element to the list under construction.
    pub(super) fn push(&mut self, source: usize, index: usize) {
        self.picks.push((source, index));
    }

    /// Adds elements to the list under construction.
    pub(super) fn extend(&mut self, source: usize, indices: Range<usize>) {
        self.picks.extend(indices.map(|index| (source, index)));
    }

    /// Adds a null to the list under construction.
    pub(super) fn push_null(&mut self) {
        self.picks.push((self.sources.len() - 1, 0));
    }

    /// Ends a list.
    ///
    /// # Errors
    /// `COLLECTION_SIZE_LIMIT_EXCEEDED.PARAMETER` when a column of arrays gets too long.
    pub(super) fn end(&mut self) -> Result<()> {
        self.offsets.push(offset(self.picks.len())?);
        self.valid.push(true);
        Ok(())
    }

    /// Adds a null instead of a list.
    ///
    /// # Errors
    /// As [`ListBuilder::end`].
    pub(super) fn end_null(&mut self) -> Result<()> {
        self.offsets.push(offset(self.picks.len())?);
        self.valid.push(false);
        Ok(())
    }

    /// The lists.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` when a null was picked for elements that cannot be null.
    pub(super) fn finish(self) -> Result<ArrayRef> {
        let sources: Vec<&dyn Array> = self.sources.iter().map(AsRef::as_ref).collect();
        let values = interleave(&sources, &self.picks).map_err(arrow_error)?;
        list(self.element, self.offsets, values, self.valid)
    }
}

/// A place in the elements of a column of arrays.
///
/// # Errors
/// `COLLECTION_SIZE_LIMIT_EXCEEDED.PARAMETER` when there are more than fit.
pub(super) fn offset(length: usize) -> Result<i32> {
    i32::try_from(length).map_err(|_| too_many(length))
}

/// An array would have too many elements.
pub(super) fn too_many(elements: impl std::fmt::Display) -> Error {
    super::faults::row(
        "COLLECTION_SIZE_LIMIT_EXCEEDED.PARAMETER",
        "54000",
        format!("cannot create an array of {elements} elements: a column of arrays holds at most 2147483632 of them"),
    )
}

/// Lists from their parts.
///
/// # Errors
/// `INTERNAL_ERROR` when they do not fit together.
pub(super) fn list(element: FieldRef, offsets: Vec<i32>, values: ArrayRef, valid: Vec<bool>) -> Result<ArrayRef> {
    let nulls = NullBuffer::from(valid);
    let nulls = (nulls.null_count() > 0).then_some(nulls);
    let lists = ListArray::try_new(element, OffsetBuffer::new(offsets.into()), values, nulls).map_err(arrow_error)?;
    Ok(Arc::new(lists))
}

/// Maps from their parts.
///
/// # Errors
/// `INTERNAL_ERROR` when they do not fit together.
pub(super) fn map(data_type: &DataType, offsets: Vec<i32>, keys: ArrayRef, values: ArrayRef, valid: Vec<bool>) -> Result<ArrayRef> {
    let DataType::Map(entries_field, sorted) = data_type else {
        return Err(Error::internal(format!("{data_type} is no map")));
    };
    let (key, value) = entry_fields(data_type)?;
    let columns = vec![relabel(&keys, key.data_type())?, relabel(&values, value.data_type())?];
    let entries = StructArray::try_new(vec![key.clone(), value.clone()].into(), columns, None).map_err(arrow_error)?;
    let nulls = NullBuffer::from(valid);
    let nulls = (nulls.null_count() > 0).then_some(nulls);
    let maps = MapArray::try_new(entries_field.clone(), OffsetBuffer::new(offsets.into()), entries, nulls, *sorted).map_err(arrow_error)?;
    Ok(Arc::new(maps))
}

/// The same values under a type that differs from theirs only in what can be null, in names and in metadata.
///
/// # Errors
/// `INTERNAL_ERROR` when it differs in more.
pub(super) fn relabel(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(array.clone());
    }
    match (array.data_type(), to) {
        (DataType::Null, _) => Ok(new_null_array(to, array.len())),
        (DataType::List(_), DataType::List(field)) => {
            let lists = downcast::lists(array)?;
            let values = relabel(lists.values(), field.data_type())?;
            let lists = ListArray::try_new(field.clone(), lists.offsets().clone(), values, lists.nulls().cloned()).map_err(arrow_error)?;
            Ok(Arc::new(lists))
        }
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let structs = downcast::structs(array)?;
            if structs.num_columns() != fields.len() {
                return Err(cannot_relabel(array, to));
            }
            let columns = structs
                .columns()
                .iter()
                .zip(fields)
                .map(|(column, field)| relabel(column, field.data_type()))
                .collect::<Result<Vec<_>>>()?;
            let structs =
                StructArray::try_new_with_length(fields.clone(), columns, structs.nulls().cloned(), structs.len()).map_err(arrow_error)?;
            Ok(Arc::new(structs))
        }
        (DataType::Map(..), DataType::Map(field, sorted)) => {
            let maps = downcast::maps(array)?;
            let entries: ArrayRef = Arc::new(maps.entries().clone());
            let entries = relabel(&entries, field.data_type())?;
            let entries = downcast::structs(&entries)?.clone();
            let maps =
                MapArray::try_new(field.clone(), maps.offsets().clone(), entries, maps.nulls().cloned(), *sorted).map_err(arrow_error)?;
            Ok(Arc::new(maps))
        }
        _ => Err(cannot_relabel(array, to)),
    }
}

fn cannot_relabel(array: &ArrayRef, to: &DataType) -> Error {
    Error::internal(format!("{} is not {to}", array.data_type()))
}

/// Whether two types differ at most in what can be null, in metadata, and (of structs) in names of fields.
pub(super) fn same_structure(left: &DataType, right: &DataType) -> bool {
    match (left, right) {
        (DataType::List(left), DataType::List(right)) => same_structure(left.data_type(), right.data_type()),
        (DataType::Map(left, _), DataType::Map(right, _)) => same_structure(left.data_type(), right.data_type()),
        (DataType::Struct(left), DataType::Struct(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same_structure(left.data_type(), right.data_type()))
        }
        _ => left == right,
    }
}

/// The type in which everything inside of it can be null.
pub(super) fn all_nullable(data_type: &DataType) -> DataType {
    let loose = |field: &FieldRef| -> FieldRef {
        Arc::new(Field::new(field.name(), all_nullable(field.data_type()), true).with_metadata(field.metadata().clone()))
    };
    match data_type {
        DataType::List(field) => DataType::List(loose(field)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(loose).collect()),
        DataType::Map(entries, sorted) => match entries.data_type() {
            DataType::Struct(pair) => {
                let pair = pair.iter().enumerate().map(|(index, field)| {
                    let field = loose(field);
                    if index == 0 { Arc::new(field.as_ref().clone().with_nullable(false)) } else { field }
                });
                let entries = entries.as_ref().clone().with_data_type(DataType::Struct(pair.collect()));
                DataType::Map(Arc::new(entries), *sorted)
            }
            _ => data_type.clone(),
        },
        other => other.clone(),
    }
}
