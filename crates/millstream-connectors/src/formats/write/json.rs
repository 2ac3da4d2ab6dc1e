//! JSON lines, as Spark's Jackson generator writes them.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ListArray, MapArray, RecordBatch, StructArray};
use arrow::datatypes::{Schema, SchemaRef};
use millstream_core::options::OptionKind;
use millstream_core::{OptionSpec, Options, Result, raw_text, variant};

use super::super::input::check_charset;
use super::canonical::{canonical_batch, canonical_schema};
use super::column::{Column, inner};
use super::compression::{Codec, Compressor};
use super::datetime::DateTimeText;
use super::scalar::{DecimalText, Scalar};
use super::{FileEncoder, FileWriteFormat, FileWriter, check_encoding, datetime_options, option, spark_text};

/// The format `json`.
#[derive(Debug)]
pub(super) struct Json;

impl FileWriteFormat for Json {
    fn names(&self) -> &'static [&'static str] {
        &["json"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        let mut options = vec![
            option("compression", OptionKind::Text, Some("none"), "none, gzip, bzip2, deflate, snappy or lz4."),
            option("ignoreNullFields", OptionKind::Bool, Some("true"), "Whether fields that are null are left out."),
            option("lineSep", OptionKind::Text, Some("\\n"), "What ends each line."),
            option("encoding", OptionKind::Text, Some("UTF-8"), "Only UTF-8 is written."),
            option("writeNonAsciiCharacterAsCodePoint", OptionKind::Bool, Some("false"), "Whether characters beyond ASCII are escaped."),
        ];
        options.extend(datetime_options());
        options
    }

    fn writer(&self, schema: &Schema, options: &Options) -> Result<Arc<dyn FileWriter>> {
        check_charset(options)?;
        check_encoding(options)?;
        let codec = Codec::from_options(options)?;
        let style = Style {
            times: DateTimeText::from_options(options)?,
            ignore_nulls: options.bool("ignoreNullFields", true)?,
            ascii: options.bool("writeNonAsciiCharacterAsCodePoint", false)?,
            line_end: options.get("lineSep").unwrap_or("\n").to_owned(),
        };
        Ok(Arc::new(JsonWriter {
            schema: canonical_schema("JSON", schema)?,
            codec,
            style: Arc::new(style),
            extension: format!(".json{}", codec.extension()),
        }))
    }
}

#[derive(Debug)]
struct Style {
    times: DateTimeText,
    ignore_nulls: bool,
    ascii: bool,
    line_end: String,
}

#[derive(Debug)]
struct JsonWriter {
    schema: SchemaRef,
    codec: Codec,
    style: Arc<Style>,
    extension: String,
}

impl FileWriter for JsonWriter {
    fn extension(&self) -> &str {
        &self.extension
    }

    fn start(&self) -> Result<Box<dyn FileEncoder>> {
        Ok(Box::new(JsonEncoder { schema: self.schema.clone(), style: self.style.clone(), out: self.codec.start() }))
    }
}

struct JsonEncoder {
    schema: SchemaRef,
    style: Arc<Style>,
    out: Compressor,
}

impl FileEncoder for JsonEncoder {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let rows = canonical_batch(rows, &self.schema)?;
        let columns = rows.columns().iter().map(Column::of).collect::<Result<Vec<_>>>()?;
        let fields = self.schema.fields().iter().zip(columns).map(|(field, column)| (field.name().clone(), column));
        let fields: Vec<Field> = fields.map(|(name, column)| Field::new(&name, column, self.style.ascii)).collect();
        let mut lines = String::new();
        for row in 0..rows.num_rows() {
            self.style.object(&fields, row, &mut lines)?;
            lines.push_str(&self.style.line_end);
        }
        self.out.write(lines.as_bytes())
    }

    fn take(&mut self) -> Vec<u8> {
        self.out.take()
    }

    fn finish(self: Box<Self>) -> Result<Vec<u8>> {
        self.out.finish()
    }
}

/// A field with its name ready to write.
struct Field {
    /// `"name":`
    label: String,
    value: Value,
}

/// A column whose structs have their names ready to write.
enum Value {
    Scalar(Scalar),
    List(ListArray, Box<Value>),
    Object(StructArray, Vec<Field>),
    Map(MapArray, Box<Column>, Box<Value>),
    Variant(StructArray),
}

impl Field {
    fn new(name: &str, column: Column, ascii: bool) -> Field {
        let mut label = String::new();
        quote(name, ascii, &mut label);
        label.push(':');
        Field { label, value: Value::new(column, ascii) }
    }
}

impl Value {
    fn new(column: Column, ascii: bool) -> Value {
        match column {
            Column::Scalar(values) => Value::Scalar(values),
            Column::List(lists, elements) => Value::List(lists, Box::new(Value::new(*elements, ascii))),
            Column::Struct(structs, _) if *structs.data_type() == variant::data_type() => Value::Variant(structs),
            Column::Struct(structs, parts) => {
                Value::Object(structs, parts.into_iter().map(|(name, part)| Field::new(&name, part, ascii)).collect())
            }
            Column::Map(maps, keys, values) => Value::Map(maps, keys, Box::new(Value::new(*values, ascii))),
        }
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Value::Scalar(values) => values.is_null(row),
            Value::List(lists, _) => lists.is_null(row),
            Value::Object(structs, _) | Value::Variant(structs) => structs.is_null(row),
            Value::Map(maps, _, _) => maps.is_null(row),
        }
    }
}

impl Style {
    /// One object. Nulls are left out here, but never inside of arrays and maps.
    fn object(&self, fields: &[Field], row: usize, out: &mut String) -> Result<()> {
        out.push('{');
        let mut first = true;
        for field in fields {
            if self.ignore_nulls && field.value.is_null(row) {
                continue;
            }
            if !std::mem::take(&mut first) {
                out.push(',');
            }
            out.push_str(&field.label);
            self.value(&field.value, row, out)?;
        }
        out.push('}');
        Ok(())
    }

    fn value(&self, value: &Value, row: usize, out: &mut String) -> Result<()> {
        if value.is_null(row) {
            out.push_str("null");
            return Ok(());
        }
        match value {
            Value::Scalar(values) => self.scalar(values, row, out),
            Value::Object(_, fields) => self.object(fields, row, out),
            Value::Variant(variants) => super::variant::write_row(variants, row, &self.times, self.ascii, out),
            Value::List(lists, elements) => {
                out.push('[');
                for (number, element) in inner(lists.value_offsets(), row).enumerate() {
                    if number > 0 {
                        out.push(',');
                    }
                    self.value(elements, element, out)?;
                }
                out.push(']');
                Ok(())
            }
            Value::Map(maps, keys, values) => self.map(inner(maps.value_offsets(), row), keys, values, out),
        }
    }

    fn map(&self, entries: Range<usize>, keys: &Column, values: &Value, out: &mut String) -> Result<()> {
        out.push('{');
        for (number, entry) in entries.enumerate() {
            if number > 0 {
                out.push(',');
            }
            quote(&key(keys, entry)?, self.ascii, out);
            out.push(':');
            self.value(values, entry, out)?;
        }
        out.push('}');
        Ok(())
    }

    fn scalar(&self, values: &Scalar, row: usize, out: &mut String) -> Result<()> {
        match values {
            Scalar::String(values) => {
                quote(&raw_text::shown(values.value(row)), self.ascii, out);
                Ok(())
            }
            Scalar::Binary(values) => {
                out.push('"');
                base64(values.value(row), out);
                out.push('"');
                Ok(())
            }
            Scalar::Float32(numbers) if !numbers.value(row).is_finite() => self.quoted(values, row, out),
            Scalar::Float64(numbers) if !numbers.value(row).is_finite() => self.quoted(values, row, out),
            // The text of a time may have any character that its pattern has.
            Scalar::Date(_) | Scalar::Timestamp(_) | Scalar::TimestampNtz(_) | Scalar::DayTime(_) | Scalar::YearMonth(_) => {
                self.quoted(values, row, out)
            }
            _ => values.write(row, &self.times, DecimalText::Scientific, out),
        }
    }

    fn quoted(&self, values: &Scalar, row: usize, out: &mut String) -> Result<()> {
        let mut text = String::new();
        values.write(row, &self.times, DecimalText::Scientific, &mut text)?;
        quote(&text, self.ascii, out);
        Ok(())
    }
}

/// A key of a map as text. Dates and times are their numbers, as in Spark, which shows the values that it computes with.
fn key(keys: &Column, row: usize) -> Result<String> {
    let times = DateTimeText::cast_in_utc();
    let mut text = String::new();
    match keys {
        Column::Scalar(Scalar::Date(values)) => text = values.value(row).to_string(),
        Column::Scalar(Scalar::Timestamp(values) | Scalar::TimestampNtz(values)) => text = values.value(row).to_string(),
        Column::Scalar(Scalar::DayTime(values)) => text = values.value(row).to_string(),
        Column::Scalar(Scalar::YearMonth(values)) => text = values.value(row).to_string(),
        Column::Scalar(keys) => keys.write(row, &times, DecimalText::Scientific, &mut text)?,
        keys => spark_text::write(keys, row, &spark_text::Style::cast(times), &mut text),
    }
    Ok(text)
}

/// A string in quotes with Jackson's escapes.
pub(super) fn quote(text: &str, ascii: bool, out: &mut String) {
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

/// Base64 with padding and without line breaks.
pub(super) fn base64(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let number = chunk.iter().chain([&0, &0]).take(3).fold(0_usize, |number, byte| number << 8 | usize::from(*byte));
        for digit in 0..4 {
            let at = number >> (18 - 6 * digit) & 63;
            out.push(if digit <= chunk.len() { DIGITS.get(at).map_or('=', |byte| char::from(*byte)) } else { '=' });
        }
    }
}
