//! `json_tuple`: fields of an object as columns.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringBuilder, StructArray};
use arrow::datatypes::{DataType, Field, Fields};
use millstream_core::Result;
use millstream_core::json::{Cursor, Fault, unescape};

use super::super::rows::{Row, Rows, internal};
use super::super::{Arguments, Call, Kernel, Typed, scalar};
use super::LENIENT;
use super::path::copy;

/// What `json_tuple(json, name, …)` generates for each row: a struct of strings `c0`, `c1`, … that is never null, its fields being null
/// where the text has no such field or is no object.
///
/// # Errors
/// `WRONG_NUM_ARGS`, `DATATYPE_MISMATCH`.
pub fn json_tuple_values(call: &Call<'_>) -> Result<Typed> {
    if call.len() < 2 {
        return Err(super::super::faults::wrong_number("json_tuple", "> 1", call.len()));
    }
    let arguments = call.values_from(0)?;
    if arguments.iter().any(|argument| argument.data_type != DataType::Utf8) {
        return Err(super::super::faults::mismatch("NON_STRING_TYPE", "the arguments of `json_tuple` must be strings"));
    }
    let fields: Fields = (0..call.len() - 1).map(|index| Field::new(format!("c{index}"), DataType::Utf8, true)).collect();
    Ok(scalar("json_tuple", JsonTuple { fields: fields.clone() }, arguments, DataType::Struct(fields), false))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct JsonTuple {
    fields: Fields,
}

impl Kernel for JsonTuple {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let rows = Rows::of(arguments)?;
        let mut builders: Vec<StringBuilder> = self.fields.iter().map(|_| StringBuilder::new()).collect();
        let mut values: Vec<Option<Vec<u8>>> = vec![None; self.fields.len()];
        for at in 0..rows.len() {
            values.fill(None);
            let row = rows.row(at);
            if row.is_null(0) || read(row, &mut values).is_err() {
                values.fill(None);
            }
            for (builder, value) in builders.iter_mut().zip(&values) {
                builder.append_option(value.as_deref().map(String::from_utf8_lossy));
            }
        }
        let columns = builders.iter_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef).collect();
        Ok(Arc::new(StructArray::try_new_with_length(self.fields.clone(), columns, None, rows.len()).map_err(internal)?))
    }
}

/// Reads the fields that the row asks for; the last of several counts.
fn read(row: Row<'_>, values: &mut [Option<Vec<u8>>]) -> Result<(), Fault> {
    let mut cursor = Cursor::new(row.bytes(0), &LENIENT);
    if cursor.next_token()? != Some(b'{') {
        return Err(cursor.fault("the record is no object"));
    }
    cursor.enter()?;
    let mut first = true;
    while cursor.next_member(first)? {
        first = false;
        let name = super::name_of(&mut cursor)?;
        cursor.colon()?;
        let wanted = |index: &usize| row.text_opt(index + 1) == Some(name.as_str());
        if cursor.token()? == b'n' || !(0..values.len()).any(|index| wanted(&index)) {
            cursor.skip()?;
            continue;
        }
        let mut value = Vec::new();
        match cursor.token()? {
            mark @ (b'"' | b'\'') => unescape(cursor.string(mark)?, &mut value),
            _ => copy(&mut cursor, &mut value)?,
        }
        for (_, slot) in values.iter_mut().enumerate().filter(|(index, _)| wanted(index)) {
            *slot = Some(value.clone());
        }
    }
    Ok(())
}
