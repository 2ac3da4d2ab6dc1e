//! `from_json`: text to values of a schema.

mod column;
mod convert;
mod object;

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanBufferBuilder, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Fields};
use millstream_core::json::{Cursor, Fault};
use millstream_core::{Error, ErrorKind, Result};

use super::super::formats::{Mode, malformed};
use super::super::rows::internal;
use super::super::variant::is_variant;
use super::options::JsonOptions;
use column::Column;
use convert::{Conversion, Outcome};
use object::Members;

/// Turns texts into values of one type, as Spark's parser does.
pub(super) struct Decoder<'o> {
    options: &'o JsonOptions,
    data_type: &'o DataType,
    conversion: Conversion<'o>,
    root: Root,
}

enum Root {
    /// An object for each text; the text itself goes into a field of its own when it is malformed.
    Object { members: Members, valid: BooleanBufferBuilder, rows: usize, corrupt_record: Option<(usize, Column)> },
    /// An array, a map or a variant for each text.
    Value(Column),
}

impl<'o> Decoder<'o> {
    /// A decoder for values of a field.
    ///
    /// # Errors
    /// `INVALID_CORRUPT_RECORD_TYPE` when the field for malformed records is no string.
    pub(super) fn new(field: &'o Field, options: &'o JsonOptions) -> Result<Self> {
        let root = match field.data_type() {
            DataType::Struct(fields) if !is_variant(field) => {
                let corrupt = fields.iter().position(|field| *field.name() == options.corrupt_record);
                let data = fields.iter().enumerate().filter(|(index, _)| Some(*index) != corrupt).map(|(_, field)| field.as_ref());
                let text = Field::new("text", DataType::Utf8, true);
                Root::Object {
                    members: Members::new(data),
                    valid: BooleanBufferBuilder::new(0),
                    rows: 0,
                    corrupt_record: corrupt.map(|index| (index, Column::new(&text))),
                }
            }
            _ => Root::Value(Column::new(field)),
        };
        let conversion = Conversion { options, problem: None, scratch: Vec::new() };
        Ok(Decoder { options, data_type: field.data_type(), conversion, root })
    }

    /// Adds a null.
    pub(super) fn null(&mut self) {
        match &mut self.root {
            Root::Object { members, valid, rows, corrupt_record } => {
                members.complete(*rows);
                if let Some((_, column)) = corrupt_record {
                    column.push_null();
                }
                valid.append(false);
                *rows += 1;
            }
            Root::Value(column) => column.push_null(),
        }
    }

    /// Adds the value of a text.
    ///
    /// # Errors
    /// `MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION` in the mode `FAILFAST`.
    pub(super) fn text(&mut self, text: &str) -> Result<()> {
        self.conversion.problem = None;
        let mut cursor = Cursor::new(text.as_bytes(), &self.options.syntax);
        let first = match cursor.next_token() {
            // Blank text is no record.
            Ok(None) => {
                self.null();
                return Ok(());
            }
            Ok(Some(first)) => Ok(first),
            Err(fault) => Err(fault),
        };
        let read = first.and_then(|first| match &mut self.root {
            Root::Object { members, rows, .. } if first == b'{' => object(members, *rows, &mut cursor, &mut self.conversion),
            Root::Object { .. } => Err(cursor.fault("the record is no object")),
            Root::Value(column) => value(column, first, &mut cursor, &mut self.conversion),
        });
        if let (Ok(()), Some((start, end, kind @ ("float" | "double"))), Mode::FailFast) =
            (&read, self.conversion.problem, self.options.mode)
            && let Some(shown) = text.get(start..end).filter(|shown| shown.starts_with('"'))
        {
            let shown: String = shown.chars().take(60).collect();
            let message = format!("{shown} at byte {start} is no {kind} and the mode is FAILFAST: PERMISSIVE gives nulls");
            let condition = "MALFORMED_RECORD_IN_PARSING.CANNOT_PARSE_STRING_AS_DATATYPE";
            return Err(Error::new(ErrorKind::BadRecord, condition, message).with_sqlstate("22023"));
        }
        let fault = match (read, self.conversion.problem) {
            (Ok(()), None) => None,
            (Ok(()), Some((start, end, kind))) => {
                let shown = text.get(start..end).unwrap_or_default();
                Some(format!("{} at byte {start} is no {kind}", shown.chars().take(60).collect::<String>()))
            }
            (Err(Fault::Syntax { at, what }), _) => Some(format!("{what} at byte {at}")),
            (Err(Fault::TooDeep), _) => Some("it is nested too deeply".to_owned()),
        };
        if let Some(what) = &fault
            && self.options.mode == Mode::FailFast
        {
            return Err(malformed(text, what));
        }
        match &mut self.root {
            Root::Object { members, valid, rows, corrupt_record } => {
                if read.is_err() {
                    members.truncate(*rows);
                }
                members.complete(*rows);
                valid.append(true);
                *rows += 1;
                if let Some((_, column)) = corrupt_record {
                    if fault.is_some() { column.push_text(text.as_bytes()) } else { column.push_null() }
                }
            }
            Root::Value(column) => {
                if read.is_err() {
                    column.discard();
                    column.push_null();
                }
            }
        }
        Ok(())
    }

    /// The values as an array.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` when they do not fit together.
    pub(super) fn finish(self) -> Result<ArrayRef> {
        match self.root {
            Root::Value(mut column) => column.finish(self.data_type).map_err(internal),
            Root::Object { mut members, mut valid, rows, mut corrupt_record } => {
                let DataType::Struct(fields) = self.data_type else { return Err(Error::internal("the schema is no struct")) };
                let mut columns = members.columns.iter_mut();
                let arrays = fields.iter().enumerate().map(|(index, field)| match &mut corrupt_record {
                    Some((at, column)) if *at == index => column.finish(field.data_type()).map_err(internal),
                    _ => match columns.next() {
                        Some(column) => column.finish(field.data_type()).map_err(internal),
                        None => Err(Error::internal("a column was not read")),
                    },
                });
                let arrays = arrays.collect::<Result<Vec<_>>>()?;
                let fields: Fields = fields.clone();
                let nulls = NullBuffer::new(valid.finish());
                Ok(Arc::new(StructArray::try_new_with_length(fields, arrays, Some(nulls), rows).map_err(internal)?))
            }
        }
    }
}

/// Reads the object at the cursor as a row.
fn object(members: &mut Members, row: usize, cursor: &mut Cursor<'_>, with: &mut Conversion<'_>) -> Result<(), Fault> {
    cursor.enter()?;
    let (mut place, mut first) = (0, true);
    while cursor.next_member(first)? {
        first = false;
        let index = members.name(place, cursor)?;
        place += 1;
        match index {
            Some(index) => drop(members.read(index, row, cursor, with)?),
            None => cursor.skip()?,
        }
    }
    Ok(())
}

/// Reads the value at the cursor; an object alone is an array of one where objects are due.
fn value(column: &mut Column, first: u8, cursor: &mut Cursor<'_>, with: &mut Conversion<'_>) -> Result<(), Fault> {
    let row = column.len();
    let outcome = if first == b'{' && column.is_list_of_objects() {
        column.read_single(cursor, with)?
    } else if first == b'n' && !column.is_variant() {
        return Err(cursor.fault("the record is null"));
    } else {
        column.read(cursor, with)?
    };
    if outcome == Outcome::Bad {
        column.truncate(row);
        return Err(cursor.fault("the record is of another type"));
    }
    Ok(())
}
