//! Unions of several types, which Spark has no type for: numbers become the wider one, anything else a struct `member0`, `member1`, … of
//! which one field is set.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatch, RecordBatchOptions, StructArray, UInt32Array, UnionArray};
use arrow::buffer::NullBuffer;
use arrow::compute::kernels::zip::zip;
use arrow::compute::{is_not_null, take};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, SchemaRef, UnionFields};
use arrow::error::ArrowError;

use super::super::resolve::cast;

/// The fields with every union replaced.
pub(super) fn without_unions(fields: &Fields) -> Fields {
    fields.iter().map(plain_field).collect()
}

fn plain_field(field: &FieldRef) -> FieldRef {
    if has_union(field.data_type()) { Arc::new(Field::new(field.name(), plain_type(field.data_type()), true)) } else { field.clone() }
}

fn has_union(kind: &DataType) -> bool {
    match kind {
        DataType::Union(..) => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_union(field.data_type())),
        DataType::List(field) | DataType::Map(field, _) => has_union(field.data_type()),
        _ => false,
    }
}

fn plain_type(kind: &DataType) -> DataType {
    match kind {
        DataType::Union(branches, _) => {
            let branches = values_of(branches);
            match wider_number(&branches) {
                Some(number) => number,
                None => match branches.as_slice() {
                    [] => DataType::Null,
                    [(_, only)] => plain_type(only.data_type()),
                    several => DataType::Struct(members(several)),
                },
            }
        }
        DataType::Struct(fields) => DataType::Struct(without_unions(fields)),
        DataType::List(field) => DataType::List(plain_field(field)),
        DataType::Map(field, ordered) => {
            DataType::Map(Arc::new(field.as_ref().clone().with_data_type(plain_type(field.data_type()))), *ordered)
        }
        other => other.clone(),
    }
}

/// The branches that are not `null`, with their type ids.
fn values_of(branches: &UnionFields) -> Vec<(i8, FieldRef)> {
    branches.iter().filter(|(_, field)| field.data_type() != &DataType::Null).map(|(id, field)| (id, field.clone())).collect()
}

fn wider_number(branches: &[(i8, FieldRef)]) -> Option<DataType> {
    match branches {
        [(_, a), (_, b)] => match (a.data_type(), b.data_type()) {
            (DataType::Int32, DataType::Int64) | (DataType::Int64, DataType::Int32) => Some(DataType::Int64),
            (DataType::Float32, DataType::Float64) | (DataType::Float64, DataType::Float32) => Some(DataType::Float64),
            _ => None,
        },
        _ => None,
    }
}

fn members(branches: &[(i8, FieldRef)]) -> Fields {
    branches.iter().enumerate().map(|(i, (_, field))| Field::new(format!("member{i}"), plain_type(field.data_type()), true)).collect()
}

/// The batch with every union replaced; `schema` has the fields of [`without_unions`].
pub(super) fn replace_unions(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().map(plain).collect::<Result<Vec<_>, _>>()?;
    RecordBatch::try_new_with_options(schema.clone(), columns, &RecordBatchOptions::new().with_row_count(Some(batch.num_rows())))
}

fn plain(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if !has_union(array.data_type()) {
        return Ok(array.clone());
    }
    let mismatch = || ArrowError::SchemaError("a column is not built as its type says".to_owned());
    match array.data_type() {
        DataType::Union(branches, _) => plain_union(array.as_union_opt().ok_or_else(mismatch)?, branches),
        DataType::Struct(fields) => {
            let array = array.as_struct_opt().ok_or_else(mismatch)?;
            let columns = array.columns().iter().map(plain).collect::<Result<Vec<_>, _>>()?;
            Ok(Arc::new(StructArray::try_new_with_length(without_unions(fields), columns, array.nulls().cloned(), array.len())?))
        }
        DataType::List(field) => {
            let array = array.as_list_opt::<i32>().ok_or_else(mismatch)?;
            Ok(Arc::new(ListArray::try_new(plain_field(field), array.offsets().clone(), plain(array.values())?, array.nulls().cloned())?))
        }
        DataType::Map(field, ordered) => {
            let array = array.as_map_opt().ok_or_else(mismatch)?;
            let entries = plain(&(Arc::new(array.entries().clone()) as ArrayRef))?;
            let field = Arc::new(field.as_ref().clone().with_data_type(plain_type(field.data_type())));
            let entries = entries.as_struct_opt().ok_or_else(mismatch)?.clone();
            Ok(Arc::new(MapArray::try_new(field, array.offsets().clone(), entries, array.nulls().cloned(), *ordered)?))
        }
        _ => Ok(array.clone()),
    }
}

fn plain_union(array: &UnionArray, branches: &UnionFields) -> Result<ArrayRef, ArrowError> {
    let branches = values_of(branches);
    let mut columns = branches.iter().map(|(id, _)| plain(&branch(array, *id)?)).collect::<Result<Vec<_>, ArrowError>>()?;
    if let (Some(number), [a, b]) = (wider_number(&branches), columns.as_slice()) {
        let (a, b) = (cast(a, &number)?, cast(b, &number)?);
        return zip(&is_not_null(&a)?, &a, &b);
    }
    if columns.len() == 1 {
        return Ok(columns.remove(0));
    }
    if columns.is_empty() {
        return Ok(arrow::array::new_null_array(&DataType::Null, array.len()));
    }
    let nulls = NullBuffer::from_iter(array.type_ids().iter().map(|id| branches.iter().any(|(branch, _)| branch == id)));
    Ok(Arc::new(StructArray::try_new(members(&branches), columns, Some(nulls))?))
}

/// The values of one branch in the rows that have it, null in the others.
fn branch(array: &UnionArray, id: i8) -> Result<ArrayRef, ArrowError> {
    let offsets = array.offsets();
    let rows: UInt32Array = array
        .type_ids()
        .iter()
        .enumerate()
        .map(|(row, of)| {
            let at = match offsets {
                Some(offsets) => offsets.get(row).and_then(|at| u32::try_from(*at).ok()),
                None => u32::try_from(row).ok(),
            };
            if *of == id { at } else { None }
        })
        .collect();
    take(array.child(id), &rows, None)
}
