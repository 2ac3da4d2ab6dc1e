//! `value[key]` and `value.field`: a field of a struct, of all structs of an array, an element of an array, or a value of a map.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray};
use arrow::compute::nullif;
use arrow::datatypes::{DataType, FieldRef, Fields};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};

use super::super::downcast::{self, arrow_error};
use super::super::{Arguments, Call, Functions, Kernel, Typed, cast, coercion, faults, nested, scalar};
use super::access::{self, Indexing};
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add("extract_value", extract_value);
}

fn extract_value(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    let (value, key) = (call.value(0)?.clone(), call.value(1)?.clone());
    match &value.data_type {
        DataType::Struct(fields) => {
            let index = field_index(call, fields, &key)?;
            let field = fields.get(index).cloned().ok_or_else(|| Error::internal("the field was found"))?;
            Ok(field_of(value, index, &field))
        }
        DataType::List(element) => match (element.data_type(), text_of(&key)) {
            (DataType::Struct(fields), Some(_)) => {
                let index = field_index(call, fields, &key)?;
                let field = fields.get(index).cloned().ok_or_else(|| Error::internal("the field was found"))?;
                Ok(field_of_each(value.clone(), index, &field, element.is_nullable()))
            }
            _ if access::is_index(&key.data_type) => {
                let index = cast::implicit(key, &DataType::Int32, call.settings)?;
                access::element("get_array_item", value, index, Indexing::FromZero { fails: call.settings.ansi })
            }
            _ => Err(faults::unexpected_type(call.name, 1, "\"INTEGRAL\"", &key.data_type)),
        },
        DataType::Map(..) => {
            let key_type = nested::entry_fields(&value.data_type)?.0.data_type().clone();
            let key = call.coerced(1, &key_type)?;
            super::orderable(call.name, &key_type)?;
            access::map_value(value.clone(), key)
        }
        other => Err(Error::invalid(
            "INVALID_EXTRACT_BASE_FIELD_TYPE",
            format!("a value of type \"{}\" has no parts: only structs, arrays and maps do", types::ddl_type(other)),
        )
        .with_sqlstate("42000")),
    }
}

fn text_of(key: &Typed) -> Option<String> {
    match coercion::constant_of(key) {
        Some(ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text)) => text,
        _ => None,
    }
}

/// The place of the field that a constant names.
fn field_index(call: &Call<'_>, fields: &Fields, key: &Typed) -> Result<usize> {
    let Some(name) = text_of(key) else {
        return Err(Error::invalid(
            "INVALID_EXTRACT_FIELD_TYPE",
            format!("the name of a field is a text that is not null, and this is of type \"{}\"", types::ddl_type(&key.data_type)),
        )
        .with_sqlstate("42000"));
    };
    find_field(fields, &name, call.settings.case_sensitive)
}

/// The place of the field of a name.
///
/// # Errors
/// `FIELD_NOT_FOUND`, `AMBIGUOUS_REFERENCE_TO_FIELDS`.
pub(in crate::functions) fn find_field(fields: &Fields, name: &str, case_sensitive: bool) -> Result<usize> {
    let same = |field: &FieldRef| field.name() == name || !case_sensitive && field.name().to_lowercase() == name.to_lowercase();
    let mut found = fields.iter().enumerate().filter(|(_, field)| same(field)).map(|(index, _)| index);
    match (found.next(), found.count()) {
        (Some(index), 0) => Ok(index),
        (Some(_), more) => Err(Error::invalid(
            "AMBIGUOUS_REFERENCE_TO_FIELDS",
            format!("the field `{name}` is there {} times: rename the others", more + 1),
        )
        .with_sqlstate("42000")),
        (None, _) => {
            let names: Vec<String> = fields.iter().map(|field| format!("`{}`", field.name())).collect();
            Err(Error::invalid("FIELD_NOT_FOUND", format!("there is no field `{name}` in {}", names.join(", "))).with_sqlstate("42704"))
        }
    }
}

/// A field of a struct, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct GetField {
    index: usize,
}

/// The values of a field, null where the struct is.
fn field_values(structs: &ArrayRef, index: usize) -> Result<ArrayRef> {
    let structs = downcast::structs(structs)?;
    let column = structs.columns().get(index).ok_or_else(|| Error::internal(format!("a struct has no field {index}")))?;
    if structs.null_count() == 0 {
        return Ok(column.clone());
    }
    let missing = arrow::compute::is_null(structs).map_err(arrow_error)?;
    nullif(column, &missing).map_err(arrow_error)
}

impl Kernel for GetField {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        field_values(&arguments.array(0)?, self.index)
    }
}

/// A field of a struct.
pub(in crate::functions) fn field_of(value: Typed, index: usize, field: &FieldRef) -> Typed {
    let nullable = value.nullable || field.is_nullable();
    scalar("get_field", GetField { index }, vec![value], field.data_type().clone(), nullable).with_metadata(field.metadata().clone())
}

/// A field of each struct of an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct GetFieldOfEach {
    index: usize,
    element: FieldRef,
}

impl Kernel for GetFieldOfEach {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let arrays = arguments.array(0)?;
        let lists = downcast::lists(&arrays)?;
        let values = nested::relabel(&field_values(lists.values(), self.index)?, self.element.data_type())?;
        let lists =
            ListArray::try_new(self.element.clone(), lists.offsets().clone(), values, lists.nulls().cloned()).map_err(arrow_error)?;
        Ok(Arc::new(lists))
    }
}

fn field_of_each(value: Typed, index: usize, field: &FieldRef, nullable_elements: bool) -> Typed {
    let element = arrow::datatypes::Field::new("element", field.data_type().clone(), nullable_elements || field.is_nullable())
        .with_metadata(field.metadata().clone());
    let element = Arc::new(element);
    let (data_type, nullable) = (DataType::List(element.clone()), value.nullable);
    scalar("get_field_of_each", GetFieldOfEach { index, element }, vec![value], data_type, nullable)
}
