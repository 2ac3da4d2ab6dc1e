//! `array_join`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringBuilder};
use arrow::datatypes::DataType;
use millstream_core::{Error, Result};

use super::super::downcast;
use super::super::{Arguments, Call, Functions, Kernel, Typed, cast, faults, nested, scalar};
use super::array_or_null;
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add("array_join", array_join);
}

/// The elements with a text between them; nulls are left out or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Join;

impl Kernel for Join {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let columns = arguments.arrays()?;
        let [arrays, delimiters, replacements @ ..] = columns.as_slice() else {
            return Err(Error::internal("there is an array and a delimiter"));
        };
        let (lists, delimiters) = (downcast::lists(arrays)?, downcast::strings(delimiters)?);
        let elements = downcast::strings(lists.values())?;
        let replacements = replacements.first().map(downcast::strings).transpose()?;
        let mut result = StringBuilder::new();
        for row in 0..lists.len() {
            let replacement = replacements.map(|replacements| downcast::text(replacements, row));
            let (Some(range), Some(delimiter)) = (nested::range(lists, row), downcast::text(delimiters, row)) else {
                result.append_null();
                continue;
            };
            if replacement == Some(None) {
                result.append_null();
                continue;
            }
            let texts = range.filter_map(|index| downcast::text(elements, index).or(replacement.flatten()));
            result.append_value(texts.collect::<Vec<_>>().join(delimiter));
        }
        Ok(Arc::new(result.finish()))
    }
}

fn array_join(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=3)?;
    let (array, element) = array_or_null(call, 0)?;
    if matches!(element.data_type(), DataType::List(_) | DataType::Map(..) | DataType::Struct(_)) {
        return Err(faults::unexpected_type(call.name, 0, "\"ARRAY<STRING>\"", &array.data_type));
    }
    let array = cast::implicit(array, &types::array(DataType::Utf8, element.is_nullable()), call.settings)?;
    let mut arguments = vec![array, call.string(1)?];
    if call.len() == 3 {
        arguments.push(call.string(2)?);
    }
    let nullable = arguments.iter().any(|argument| argument.nullable);
    Ok(scalar("array_join", Join, arguments, DataType::Utf8, nullable))
}
