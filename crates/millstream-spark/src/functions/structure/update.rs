//! `Column.withField` and `Column.dropFields`: a struct with fields set or left out.

use arrow::array::{Array, ArrayRef};
use arrow::compute::nullif;
use arrow::datatypes::{DataType, FieldRef, Fields};
use millstream_core::{Error, Result};

use super::super::array::{field_of, find_field};
use super::super::downcast::arrow_error;
use super::super::{Arguments, Call, Functions, Kernel, Typed, faults, scalar};
use super::build::make_struct;
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add_all(&["update_fields", "with_field", "drop_field"], update_fields);
}

/// With a third argument a field is set, without it is left out. The name may lead into structs inside:
/// `a.b`, with backticks around names that contain points.
fn update_fields(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=3)?;
    let value = call.value(0)?.clone();
    let path = split(&call.constant_text(1)?.unwrap_or_default());
    let change = if call.len() == 3 { Some(call.value(2)?.clone()) } else { None };
    updated(value, &path, change, call.settings.case_sensitive)
}

fn updated(value: Typed, path: &[String], change: Option<Typed>, case_sensitive: bool) -> Result<Typed> {
    let DataType::Struct(fields) = value.data_type.clone() else {
        let message = format!("fields are set in structs, and this is of type \"{}\"", types::ddl_type(&value.data_type));
        return Err(faults::mismatch("UNEXPECTED_INPUT_TYPE", message));
    };
    let Some((name, inner)) = path.split_first() else { return Err(Error::internal("a field has a name")) };
    let same = |field: &FieldRef| field.name() == name || !case_sensitive && field.name().to_lowercase() == name.to_lowercase();
    let all = |fields: &Fields| -> Vec<(String, Typed)> {
        fields.iter().enumerate().map(|(index, field)| (field.name().clone(), of_valid(&value, index, field))).collect()
    };
    let mut kept = all(&fields);
    match (change, inner.is_empty()) {
        (Some(change), true) => {
            let mut found = false;
            for (slot, _) in kept.iter_mut().zip(&fields).filter(|(_, field)| same(field)) {
                *slot = (name.clone(), change.clone());
                found = true;
            }
            if !found {
                kept.push((name.clone(), change));
            }
        }
        (None, true) => {
            let mut remaining = fields.iter();
            kept.retain(|_| remaining.next().is_some_and(|field| !same(field)));
            if kept.is_empty() {
                return Err(faults::mismatch("CANNOT_DROP_ALL_FIELDS", "a struct keeps at least one field"));
            }
        }
        (change, false) => {
            let index = match find_field(&fields, name, case_sensitive) {
                Ok(index) => index,
                Err(error) if change.is_some() || error.code() != "FIELD_NOT_FOUND" => return Err(error),
                // What is not there need not be left out.
                Err(_) => return Ok(value),
            };
            if let Some((_, slot)) = kept.get_mut(index) {
                *slot = updated(slot.clone(), inner, change, case_sensitive)?;
            }
        }
    }
    let nullable = value.nullable;
    let rebuilt = make_struct(kept);
    if !nullable {
        return Ok(rebuilt);
    }
    let data_type = rebuilt.data_type.clone();
    Ok(scalar("update_fields", WhereValid, vec![rebuilt, value], data_type, true))
}

/// A field of a struct, as it is declared: null structs are put back afterwards.
fn of_valid(value: &Typed, index: usize, field: &FieldRef) -> Typed {
    let mut result = field_of(value.clone(), index, field);
    result.nullable = value.nullable || field.is_nullable();
    result
}

/// The first argument, null where the second is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct WhereValid;

impl Kernel for WhereValid {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (values, original) = (arguments.array(0)?, arguments.array(1)?);
        if original.null_count() == 0 {
            return Ok(values);
        }
        let missing = arrow::compute::is_null(&original).map_err(arrow_error)?;
        nullif(&values, &missing).map_err(arrow_error)
    }
}

/// The parts of a name with points between them.
fn split(path: &str) -> Vec<String> {
    let (mut parts, mut part, mut quoted) = (Vec::new(), String::new(), false);
    for character in path.chars() {
        match character {
            '`' => quoted = !quoted,
            '.' if !quoted => parts.push(std::mem::take(&mut part)),
            _ => part.push(character),
        }
    }
    parts.push(part);
    parts
}
