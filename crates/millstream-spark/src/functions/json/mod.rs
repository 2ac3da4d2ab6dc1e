//! JSON text.

mod build;
mod decode;
mod infer;
mod options;
mod path;
mod tuple;
mod write;

use std::sync::Arc;

use arrow::array::{ArrayRef, ListBuilder, StringBuilder};
use arrow::datatypes::{DataType, Field, Int32Type};
use millstream_core::Result;
use millstream_core::json::{Cursor, Fault, Syntax, unescape};

use super::rows::{Memo, Rows};
use super::{Arguments, Call, Functions, Kernel, Typed, scalar};
use crate::types;
use path::Path;

pub(super) use build::check_corrupt_record;
pub(super) use infer::decimal_shape;
pub use tuple::json_tuple_values;
pub(crate) use write::{JsonStyle, JsonWriter, quoted};

pub(super) fn register(functions: &mut Functions) {
    build::register(functions);
    functions.add("get_json_object", |call| {
        call.arity(2..=2)?;
        Ok(scalar(
            "get_json_object",
            Query::Object,
            vec![call.exactly(0, &[DataType::Utf8])?, call.exactly(1, &[DataType::Utf8])?],
            DataType::Utf8,
            true,
        ))
    });
    functions.add("json_array_length", |call| query(call, "json_array_length", Query::ArrayLength, DataType::Int32));
    functions.add("json_object_keys", |call| query(call, "json_object_keys", Query::ObjectKeys, types::array(DataType::Utf8, true)));
}

fn query(call: &Call<'_>, name: &'static str, query: Query, data_type: DataType) -> Result<Typed> {
    call.arity(1..=1)?;
    Ok(scalar(name, query, vec![call.exactly(0, &[DataType::Utf8])?], data_type, true))
}

/// What Spark's functions that look into JSON allow.
const LENIENT: Syntax = Syntax {
    comments: false,
    unquoted_names: false,
    single_quotes: true,
    leading_zeros: false,
    non_numeric: false,
    any_escape: false,
    control_chars: true,
    max_depth: 1000,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Query {
    /// What a path leads to.
    Object,
    /// How many elements an array has.
    ArrayLength,
    /// The names of an object's fields.
    ObjectKeys,
}

impl Kernel for Query {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let rows = Rows::of(arguments)?;
        match self {
            Query::Object => {
                let mut paths = Memo::new();
                rows.texts(|row, out| match paths.get(row.text(1), |text| Ok(Path::parse(text)))? {
                    Some(path) => Ok(path.find(row.text(0), out)),
                    None => Ok(false),
                })
            }
            Query::ArrayLength => rows.numbers::<Int32Type>(|row| Ok(array_length(row.text(0)).ok().flatten())),
            Query::ObjectKeys => {
                let field = Arc::new(Field::new("element", DataType::Utf8, true));
                let mut builder = ListBuilder::new(StringBuilder::new()).with_field(field);
                for at in 0..rows.len() {
                    let row = rows.row(at);
                    let keys = if row.is_complete() { object_keys(row.text(0)).ok().flatten() } else { None };
                    keys.iter().flatten().for_each(|key| builder.values().append_value(key));
                    builder.append(keys.is_some());
                }
                Ok(Arc::new(builder.finish()))
            }
        }
    }
}

fn array_length(text: &str) -> Result<Option<i32>, Fault> {
    let mut cursor = Cursor::new(text.as_bytes(), &LENIENT);
    if cursor.next_token()? != Some(b'[') {
        return Ok(None);
    }
    cursor.enter()?;
    let mut length = 0;
    while cursor.next_element(length == 0)? {
        cursor.skip()?;
        length += 1;
    }
    Ok(Some(length))
}

fn object_keys(text: &str) -> Result<Option<Vec<String>>, Fault> {
    let mut cursor = Cursor::new(text.as_bytes(), &LENIENT);
    if cursor.next_token()? != Some(b'{') {
        return Ok(None);
    }
    cursor.enter()?;
    let mut keys = Vec::new();
    while cursor.next_member(keys.is_empty())? {
        keys.push(name_of(&mut cursor)?);
        cursor.colon()?;
        cursor.skip()?;
    }
    Ok(Some(keys))
}

/// Reads the name at the cursor.
fn name_of(cursor: &mut Cursor<'_>) -> Result<String, Fault> {
    let mut name = Vec::new();
    unescape(cursor.name()?, &mut name);
    Ok(String::from_utf8_lossy(&name).into_owned())
}
