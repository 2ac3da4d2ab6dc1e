//! `to_json`: values to text, as Spark's Jackson generator writes them.

use std::fmt::Write;
use std::rc::Rc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Field, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, IntervalYearMonthType, TimestampMicrosecondType,
};
use millstream_core::{Error, Options, Result};

use super::super::cast::{TextStyle, push_decimal, push_double, push_float, text_of};
use super::super::formats::DateTimeText;
use super::super::string::base64;
use super::super::{Settings, variant};

/// How JSON is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct JsonStyle {
    /// Dates and timestamps.
    times: DateTimeText,
    /// Fields that are null are left out.
    ignore_nulls: bool,
    /// Characters beyond ASCII are escaped.
    ascii: bool,
    /// With line breaks.
    pretty: bool,
    /// Fields and keys are in the order of their names.
    sort_keys: bool,
}

impl JsonStyle {
    /// # Errors
    /// `INVALID_OPTION_VALUE`, `INVALID_TIMEZONE`, those of patterns.
    pub(crate) fn of(options: &Options, settings: &Settings) -> Result<Self> {
        Ok(JsonStyle {
            times: DateTimeText::of(options, settings)?,
            ignore_nulls: options.bool("ignoreNullFields", true)?,
            ascii: options.bool("writeNonAsciiCharacterAsCodePoint", false)?,
            pretty: options.bool("pretty", false)?,
            sort_keys: options.bool("sortKeys", false)?,
        })
    }
}

/// Writes the values of an array.
pub(crate) struct JsonWriter {
    value: Value,
    pretty: bool,
}

impl JsonWriter {
    /// A writer of the values of a field.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` for types that Spark does not have.
    pub(crate) fn new(array: &ArrayRef, field: &Field, style: &JsonStyle) -> Result<Self> {
        Ok(JsonWriter { value: Value::of(array, field, &Rc::new(style.clone()))?, pretty: style.pretty })
    }

    /// Whether a value is null.
    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.value.is_null(row)
    }

    /// Appends a value.
    ///
    /// # Errors
    /// Those of formatting dates and times.
    pub(crate) fn write(&self, row: usize, out: &mut String) -> Result<()> {
        if !self.pretty {
            return self.value.write(row, out);
        }
        let mut compact = String::new();
        self.value.write(row, &mut compact)?;
        pretty(&compact, out);
        Ok(())
    }
}

type WriteRow = Box<dyn Fn(usize, &mut String) -> Result<()>>;

struct Value {
    nulls: Option<NullBuffer>,
    all_null: bool,
    write: WriteRow,
}

impl Value {
    fn is_null(&self, row: usize) -> bool {
        self.all_null || self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    fn write(&self, row: usize, out: &mut String) -> Result<()> {
        if self.is_null(row) {
            out.push_str("null");
            return Ok(());
        }
        (self.write)(row, out)
    }

    fn of(array: &ArrayRef, field: &Field, style: &Rc<JsonStyle>) -> Result<Value> {
        let unknown = || Error::internal(format!("values of {} cannot be written as JSON", array.data_type()));
        let ascii = style.ascii;
        let write: WriteRow = match array.data_type() {
            DataType::Null => Box::new(|_, _| Ok(())),
            DataType::Boolean => {
                let values = array.as_boolean_opt().ok_or_else(unknown)?.clone();
                Box::new(move |row, out| {
                    out.push_str(if values.value(row) { "true" } else { "false" });
                    Ok(())
                })
            }
            DataType::Int8 => integers::<Int8Type>(array).ok_or_else(unknown)?,
            DataType::Int16 => integers::<Int16Type>(array).ok_or_else(unknown)?,
            DataType::Int32 => integers::<Int32Type>(array).ok_or_else(unknown)?,
            DataType::Int64 => integers::<Int64Type>(array).ok_or_else(unknown)?,
            DataType::Float32 => {
                let values = array.as_primitive_opt::<Float32Type>().ok_or_else(unknown)?.clone();
                Box::new(move |row, out| {
                    let value = values.value(row);
                    number(value.is_finite(), out, |out| push_float(out, value));
                    Ok(())
                })
            }
            DataType::Float64 => {
                let values = array.as_primitive_opt::<Float64Type>().ok_or_else(unknown)?.clone();
                Box::new(move |row, out| {
                    let value = values.value(row);
                    number(value.is_finite(), out, |out| push_double(out, value));
                    Ok(())
                })
            }
            DataType::Decimal128(_, scale) => {
                let (values, scale) = (array.as_primitive_opt::<Decimal128Type>().ok_or_else(unknown)?.clone(), *scale);
                Box::new(move |row, out| {
                    push_decimal(out, values.value(row), scale, false);
                    Ok(())
                })
            }
            DataType::Date32 => {
                let (values, style) = (array.as_primitive_opt::<Date32Type>().ok_or_else(unknown)?.clone(), style.clone());
                Box::new(move |row, out| {
                    quoted(&style.times.date(values.value(row))?, ascii, out);
                    Ok(())
                })
            }
            DataType::Timestamp(_, zone) => {
                let values = array.as_primitive_opt::<TimestampMicrosecondType>().ok_or_else(unknown)?.clone();
                let (instant, style) = (zone.is_some(), style.clone());
                Box::new(move |row, out| {
                    let micros = values.value(row);
                    let text = if instant { style.times.timestamp(micros) } else { style.times.timestamp_ntz(micros) };
                    quoted(&text?, ascii, out);
                    Ok(())
                })
            }
            DataType::Utf8 => {
                let values = array.as_string_opt::<i32>().ok_or_else(unknown)?.clone();
                Box::new(move |row, out| {
                    quoted(values.value(row), ascii, out);
                    Ok(())
                })
            }
            DataType::Binary => {
                let values = array.as_binary_opt::<i32>().ok_or_else(unknown)?.clone();
                Box::new(move |row, out| {
                    out.push('"');
                    base64(values.value(row), out);
                    out.push('"');
                    Ok(())
                })
            }
            DataType::List(element) => {
                let lists = array.as_list_opt::<i32>().ok_or_else(unknown)?.clone();
                let elements = Value::of(lists.values(), element, style)?;
                Box::new(move |row, out| {
                    let offset = |at: usize| lists.offsets().get(at).map_or(0, |offset| *offset as usize);
                    out.push('[');
                    for (number, at) in (offset(row)..offset(row + 1)).enumerate() {
                        if number > 0 {
                            out.push(',');
                        }
                        elements.write(at, out)?;
                    }
                    out.push(']');
                    Ok(())
                })
            }
            DataType::Struct(_) if variant::is_variant(field) => {
                let (structs, zone) = (array.clone(), style.times.zone());
                Box::new(move |row, out| variant::write_json(&structs, row, zone, out))
            }
            DataType::Struct(fields) => {
                let structs = array.as_struct_opt().ok_or_else(unknown)?;
                let mut sorted: Vec<_> = fields.iter().zip(structs.columns()).collect();
                if style.sort_keys {
                    sorted.sort_by_key(|(field, _)| field.name());
                }
                let columns = sorted.into_iter().map(|(field, column)| {
                    let mut label = String::new();
                    quoted(field.name(), ascii, &mut label);
                    label.push(':');
                    Ok((label, Value::of(column, field, style)?))
                });
                let (columns, ignore_nulls) = (columns.collect::<Result<Vec<_>>>()?, style.ignore_nulls);
                Box::new(move |row, out| {
                    out.push('{');
                    let mut first = true;
                    for (label, value) in columns.iter().filter(|(_, value)| !ignore_nulls || !value.is_null(row)) {
                        if !std::mem::take(&mut first) {
                            out.push(',');
                        }
                        out.push_str(label);
                        value.write(row, out)?;
                    }
                    out.push('}');
                    Ok(())
                })
            }
            DataType::Map(entries, _) => {
                let maps = array.as_map_opt().ok_or_else(unknown)?.clone();
                let DataType::Struct(pair) = entries.data_type() else { return Err(unknown()) };
                let [key, value] = pair.as_ref() else { return Err(unknown()) };
                let keys = texts_of_keys(maps.keys(), key, style)?;
                let (values, sort_keys) = (Value::of(maps.values(), value, style)?, style.sort_keys);
                Box::new(move |row, out| {
                    let offset = |at: usize| maps.offsets().get(at).map_or(0, |offset| *offset as usize);
                    out.push('{');
                    let mut entries: Vec<usize> = (offset(row)..offset(row + 1)).collect();
                    if sort_keys {
                        entries.sort_by_key(|at| keys.value(*at));
                    }
                    for (number, at) in entries.into_iter().enumerate() {
                        if number > 0 {
                            out.push(',');
                        }
                        quoted(keys.value(at), ascii, out);
                        out.push(':');
                        values.write(at, out)?;
                    }
                    out.push('}');
                    Ok(())
                })
            }
            _ => {
                let texts = text_of(array, field, &TextStyle::cast(style.times.zone()))?;
                Box::new(move |row, out| {
                    quoted(texts.value(row), ascii, out);
                    Ok(())
                })
            }
        };
        Ok(Value { nulls: array.logical_nulls(), all_null: array.data_type() == &DataType::Null, write })
    }
}

fn integers<T: ArrowPrimitiveType>(array: &ArrayRef) -> Option<WriteRow>
where
    T::Native: std::fmt::Display,
{
    let values = array.as_primitive_opt::<T>()?.clone();
    Some(Box::new(move |row, out| {
        // Writing to a string does not fail.
        let _ = write!(out, "{}", values.value(row));
        Ok(())
    }))
}

/// A number; those that are none are in quotes.
fn number(finite: bool, out: &mut String, push: impl FnOnce(&mut String)) {
    if finite {
        push(out);
    } else {
        out.push('"');
        push(out);
        out.push('"');
    }
}

/// The keys of maps as text. Dates and times are their numbers, as in Spark, which shows the values that it computes with.
fn texts_of_keys(keys: &ArrayRef, field: &Field, style: &JsonStyle) -> Result<arrow::array::StringArray> {
    fn numbers<T: ArrowPrimitiveType>(keys: &ArrayRef) -> Option<arrow::array::StringArray>
    where
        T::Native: std::fmt::Display,
    {
        Some(keys.as_primitive_opt::<T>()?.iter().map(|key| key.map(|key| key.to_string())).collect())
    }
    let numbers = match keys.data_type() {
        DataType::Date32 => numbers::<Date32Type>(keys),
        DataType::Timestamp(..) => numbers::<TimestampMicrosecondType>(keys),
        DataType::Duration(_) => numbers::<DurationMicrosecondType>(keys),
        DataType::Interval(_) => numbers::<IntervalYearMonthType>(keys),
        _ => None,
    };
    let text_style = TextStyle { plain_decimals: false, ..TextStyle::cast(style.times.zone()) };
    numbers.map_or_else(|| text_of(keys, field, &text_style), Ok)
}

/// A string in quotes with Jackson's escapes.
pub(crate) fn quoted(text: &str, ascii: bool, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' || (ascii && !c.is_ascii()) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a string does not fail.
                    let _ = write!(out, "\\u{unit:04X}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Appends JSON with line breaks within objects and blanks within arrays, as Jackson's printer lays it out.
fn pretty(compact: &str, out: &mut String) {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut open: Vec<char> = Vec::new();
    let line = |depth: usize, out: &mut String| {
        out.push('\n');
        (0..depth).for_each(|_| out.push_str("  "));
    };
    let mut characters = compact.chars().peekable();
    while let Some(c) = characters.next() {
        if in_string {
            out.push(c);
            in_string = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            continue;
        }
        match c {
            '"' => {
                in_string = true;
                out.push(c);
            }
            '{' | '[' => {
                out.push(c);
                let closing = if c == '{' { '}' } else { ']' };
                if characters.next_if_eq(&closing).is_some() {
                    out.push(' ');
                    out.push(closing);
                    continue;
                }
                open.push(c);
                if c == '{' {
                    depth += 1;
                    line(depth, out);
                } else {
                    out.push(' ');
                }
            }
            '}' => {
                open.pop();
                depth = depth.saturating_sub(1);
                line(depth, out);
                out.push(c);
            }
            ']' => {
                open.pop();
                out.push(' ');
                out.push(c);
            }
            ',' if open.last() == Some(&'{') => {
                out.push(c);
                line(depth, out);
            }
            ',' => out.push_str(", "),
            ':' => out.push_str(" : "),
            other => out.push(other),
        }
    }
}
