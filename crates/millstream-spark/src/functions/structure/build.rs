//! `struct` and `named_struct`.

use std::sync::Arc;

use arrow::array::{ArrayRef, StructArray};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::scalar::ScalarValue;
use millstream_core::Result;

use super::super::downcast::arrow_error;
use super::super::{Arguments, Call, Functions, Kernel, Typed, coercion, faults, nested, scalar};
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add("named_struct", named_struct);
    functions.add("struct", |call| {
        let fields = call.values_from(0)?.into_iter().enumerate().map(|(index, value)| (format!("col{}", index + 1), value));
        Ok(make_struct(fields.collect()))
    });
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct MakeStruct {
    fields: Fields,
}

impl Kernel for MakeStruct {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let columns = arguments.arrays()?;
        let columns = columns
            .iter()
            .zip(&self.fields)
            .map(|(column, field)| nested::relabel(column, field.data_type()))
            .collect::<Result<Vec<_>>>()?;
        let structs = StructArray::try_new_with_length(self.fields.clone(), columns, None, arguments.rows()).map_err(arrow_error)?;
        Ok(Arc::new(structs))
    }
}

/// A struct of fields with names, which is never null.
pub(super) fn make_struct(fields: Vec<(String, Typed)>) -> Typed {
    let of_type = |value: &Typed| {
        let mut metadata = value.metadata.clone();
        metadata.retain(|key, _| types::belongs_to_type(key));
        metadata
    };
    let declared =
        fields.iter().map(|(name, value)| Field::new(name, value.data_type.clone(), value.nullable).with_metadata(of_type(value)));
    let declared: Fields = declared.collect();
    let values = fields.into_iter().map(|(_, value)| value).collect();
    scalar("named_struct", MakeStruct { fields: declared.clone() }, values, DataType::Struct(declared), false)
}

fn named_struct(call: &Call<'_>) -> Result<Typed> {
    if !call.len().is_multiple_of(2) {
        return Err(faults::wrong_number(call.name, "2n (n > 0)", call.len()));
    }
    let mut fields = Vec::with_capacity(call.len() / 2);
    for index in (0..call.len()).step_by(2) {
        let name = match coercion::constant_of(call.value(index)?) {
            Some(ScalarValue::Utf8(Some(name)) | ScalarValue::LargeUtf8(Some(name)) | ScalarValue::Utf8View(Some(name))) => name,
            _ => {
                return Err(faults::mismatch(
                    "CREATE_NAMED_STRUCT_WITHOUT_FOLDABLE_STRING",
                    format!("argument {} of `named_struct` is the name of a field, a constant text", index + 1),
                ));
            }
        };
        fields.push((name, call.value(index + 1)?.clone()));
    }
    Ok(make_struct(fields))
}
