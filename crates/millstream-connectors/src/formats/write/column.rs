//! A column of any canonical type, taken apart so that its values can be walked.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray};
use arrow::datatypes::DataType;
use millstream_core::{Error, Result};

use super::canonical::sql_type;
use super::scalar::Scalar;

/// A column and the columns inside it.
#[derive(Clone, Debug)]
pub(crate) enum Column {
    /// A column without parts.
    Scalar(Scalar),
    /// Lists and the column of all their elements.
    List(ListArray, Box<Column>),
    /// Structs, with names and columns of their fields.
    Struct(StructArray, Vec<(String, Column)>),
    /// Maps, with the columns of all keys and all values.
    Map(MapArray, Box<Column>, Box<Column>),
}

impl Column {
    /// Takes a column of a canonical type apart.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` for a type that is not canonical.
    pub(crate) fn of(column: &ArrayRef) -> Result<Column> {
        match column.data_type() {
            DataType::List(_) => {
                let lists = column.as_list::<i32>().clone();
                let elements = Column::of(lists.values())?;
                Ok(Column::List(lists, Box::new(elements)))
            }
            DataType::Struct(fields) => {
                let structs = column.as_struct().clone();
                let parts = fields.iter().zip(structs.columns()).map(|(field, part)| Ok((field.name().clone(), Column::of(part)?)));
                let parts = parts.collect::<Result<Vec<_>>>()?;
                Ok(Column::Struct(structs, parts))
            }
            DataType::Map(_, _) => {
                let maps = column.as_map().clone();
                let (keys, values) = (Column::of(maps.keys())?, Column::of(maps.values())?);
                Ok(Column::Map(maps, Box::new(keys), Box::new(values)))
            }
            other => Scalar::of(column)
                .map(Column::Scalar)
                .ok_or_else(|| Error::internal(format!("a writer was given a column of the type {}", sql_type(other)))),
        }
    }

    pub(crate) fn is_null(&self, row: usize) -> bool {
        match self {
            Column::Scalar(values) => values.is_null(row),
            Column::List(lists, _) => lists.is_null(row),
            Column::Struct(structs, _) => structs.is_null(row),
            Column::Map(maps, _, _) => maps.is_null(row),
        }
    }
}

/// The rows, in the inner columns, of the list or map at `row`.
pub(crate) fn inner(offsets: &[i32], row: usize) -> Range<usize> {
    let at = |row: usize| offsets.get(row).and_then(|offset| usize::try_from(*offset).ok()).unwrap_or(0);
    at(row)..at(row + 1)
}
