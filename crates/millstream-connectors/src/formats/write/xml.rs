//! XML, as Spark's generator writes it: rows are elements under one root, with an indentation for every level.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};
use millstream_core::options::OptionKind;
use millstream_core::{Error, ErrorKind, OptionSpec, Options, Result};

use super::super::xml::row_tag;
use super::canonical::{canonical_batch, canonical_schema};
use super::column::{Column, inner};
use super::compression::{Codec, Compressor};
use super::datetime::DateTimeText;
use super::scalar::DecimalText;
use super::{FileEncoder, FileWriteFormat, FileWriter, check_encoding, datetime_options, option};

/// The format `xml`.
#[derive(Debug)]
pub(super) struct Xml;

impl FileWriteFormat for Xml {
    fn names(&self) -> &'static [&'static str] {
        &["xml"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        let mut options = vec![
            option("rowTag", OptionKind::Text, None, "The name of the elements that are rows. Required."),
            option("rootTag", OptionKind::Text, Some("ROWS"), "The name of the element around all rows, and attributes after it."),
            option(
                "declaration",
                OptionKind::Text,
                Some("version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\""),
                "What the first line of a file declares; empty for no such line.",
            ),
            option("arrayElementName", OptionKind::Text, Some("item"), "The name of the elements of arrays inside of arrays."),
            option("attributePrefix", OptionKind::Text, Some("_"), "Columns whose names begin with this are attributes."),
            option("valueTag", OptionKind::Text, Some("_VALUE"), "The column that is the text of its element."),
            option("nullValue", OptionKind::Text, None, "The text of null; without it nulls are left out."),
            option("indent", OptionKind::Text, Some("    "), "What every level is indented by; empty for everything in one line."),
            option("compression", OptionKind::Text, Some("none"), "none, gzip, bzip2, deflate, snappy or lz4."),
            option("encoding", OptionKind::Text, Some("UTF-8"), "Only UTF-8 is written."),
        ];
        options.extend(datetime_options());
        options
    }

    fn writer(&self, schema: &Schema, options: &Options) -> Result<Arc<dyn FileWriter>> {
        check_encoding(options)?;
        let row_tag = row_tag(options)?;
        let codec = Codec::from_options(options)?;
        let text = |name: &str, default: &str| options.get(name).unwrap_or(default).to_owned();
        let style = Style {
            times: DateTimeText::from_options(options)?,
            row_tag,
            root: root(options.get("rootTag").unwrap_or("ROWS"))?,
            declaration: text("declaration", "version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\""),
            item: text("arrayElementName", "item"),
            attribute_prefix: text("attributePrefix", "_"),
            value_tag: text("valueTag", "_VALUE"),
            null: options.get("nullValue").map(str::to_owned),
            indent: text("indent", "    "),
        };
        Ok(Arc::new(XmlWriter {
            schema: canonical_schema("XML", schema)?,
            codec,
            style: Arc::new(style),
            extension: format!(".xml{}", codec.extension()),
        }))
    }
}

/// The root element's name, and its attributes as they are written.
fn root(tag: &str) -> Result<(String, String)> {
    let mut parts = tag.split_whitespace();
    let name = parts.next().unwrap_or_default().to_owned();
    check_name(&name)?;
    let mut attributes = String::new();
    for part in parts {
        let Some((key, value)) = part.split_once('=') else {
            let message = format!("option 'rootTag' is '{tag}': write attributes as name='value', without spaces in them");
            return Err(Error::invalid("INVALID_OPTION_VALUE", message));
        };
        let value = value.trim_matches(['\'', '"']);
        attribute(key, value, &mut attributes);
    }
    Ok((name, attributes))
}

#[derive(Debug)]
struct Style {
    times: DateTimeText,
    row_tag: String,
    root: (String, String),
    declaration: String,
    item: String,
    attribute_prefix: String,
    value_tag: String,
    null: Option<String>,
    indent: String,
}

#[derive(Debug)]
struct XmlWriter {
    schema: SchemaRef,
    codec: Codec,
    style: Arc<Style>,
    extension: String,
}

impl FileWriter for XmlWriter {
    fn extension(&self) -> &str {
        &self.extension
    }

    fn start(&self) -> Result<Box<dyn FileEncoder>> {
        Ok(Box::new(XmlEncoder { schema: self.schema.clone(), style: self.style.clone(), out: self.codec.start(), begun: false }))
    }
}

struct XmlEncoder {
    schema: SchemaRef,
    style: Arc<Style>,
    out: Compressor,
    begun: bool,
}

impl XmlEncoder {
    fn begin(&mut self, out: &mut String) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let style = &self.style;
        if !style.declaration.is_empty() {
            // Writing to a string does not fail.
            let _ = writeln!(out, "<?xml {}?>", style.declaration);
        }
        let (name, attributes) = &style.root;
        let _ = write!(out, "<{name}{attributes}>");
    }
}

impl FileEncoder for XmlEncoder {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let rows = canonical_batch(rows, &self.schema)?;
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let columns = rows.columns().iter().map(Column::of).collect::<Result<Vec<_>>>()?;
        let names = self.schema.fields().iter().map(|field| field.name().clone());
        let fields: Vec<(String, Column)> = names.zip(columns).collect();
        let mut text = String::new();
        self.begin(&mut text);
        for row in 0..rows.num_rows() {
            self.style.element(&self.style.row_tag, 1, &mut text, |element| self.style.fields(&fields, row, element))?;
        }
        self.out.write(text.as_bytes())
    }

    fn take(&mut self) -> Vec<u8> {
        self.out.take()
    }

    fn finish(mut self: Box<Self>) -> Result<Vec<u8>> {
        let mut text = String::new();
        if self.begun {
            self.style.line(0, &mut text);
            let _ = write!(text, "</{}>", self.style.root.0);
            self.out.write(text.as_bytes())?;
        }
        self.out.finish()
    }
}

/// The inside of an element under construction.
struct Inside {
    depth: usize,
    attributes: String,
    body: String,
    /// Whether there are elements in it, which go on lines of their own.
    elements: bool,
}

impl Style {
    /// A new line of a depth.
    fn line(&self, depth: usize, out: &mut String) {
        if self.indent.is_empty() {
            return;
        }
        out.push('\n');
        (0..depth).for_each(|_| out.push_str(&self.indent));
    }

    /// An element at a depth with what `fill` puts into it.
    fn element(&self, name: &str, depth: usize, out: &mut String, fill: impl FnOnce(&mut Inside) -> Result<()>) -> Result<()> {
        check_name(name)?;
        let mut inside = Inside { depth: depth + 1, attributes: String::new(), body: String::new(), elements: false };
        fill(&mut inside)?;
        self.line(depth, out);
        let _ = write!(out, "<{name}{}", inside.attributes);
        if inside.body.is_empty() {
            out.push_str("/>");
            return Ok(());
        }
        out.push('>');
        out.push_str(&inside.body);
        if inside.elements {
            self.line(depth, out);
        }
        let _ = write!(out, "</{name}>");
        Ok(())
    }

    fn fields(&self, fields: &[(String, Column)], row: usize, inside: &mut Inside) -> Result<()> {
        for (name, column) in fields {
            self.child(name, column, row, inside)?;
        }
        Ok(())
    }

    /// A field of a struct: an attribute, the text, or elements.
    fn child(&self, name: &str, column: &Column, row: usize, inside: &mut Inside) -> Result<()> {
        if name == self.value_tag {
            return self.content(column, row, inside);
        }
        if let Some(name) = name.strip_prefix(&self.attribute_prefix) {
            let text = match column.is_null(row) {
                true => self.null.clone(),
                false => Some(self.text(column, row)?),
            };
            if let Some(text) = text {
                check_name(name)?;
                attribute(name, &text, &mut inside.attributes);
            }
            return Ok(());
        }
        match column {
            Column::List(lists, elements) if !lists.is_null(row) => {
                inner(lists.value_offsets(), row).try_for_each(|element| self.named(name, elements, element, inside))
            }
            _ => self.named(name, column, row, inside),
        }
    }

    /// An element of a name with a value.
    fn named(&self, name: &str, column: &Column, row: usize, inside: &mut Inside) -> Result<()> {
        if column.is_null(row) && self.null.is_none() {
            return Ok(());
        }
        if name == self.value_tag {
            return self.content(column, row, inside);
        }
        inside.elements = true;
        let depth = inside.depth;
        self.element(name, depth, &mut inside.body, |element| self.content(column, row, element))
    }

    /// What is between the tags of an element with a value.
    fn content(&self, column: &Column, row: usize, inside: &mut Inside) -> Result<()> {
        if column.is_null(row) {
            inside.body.push_str(&escape(self.null.as_deref().unwrap_or_default()));
            return Ok(());
        }
        match column {
            Column::Struct(_, parts) => self.fields(parts, row, inside),
            Column::List(lists, elements) => {
                inner(lists.value_offsets(), row).try_for_each(|element| self.child(&self.item, elements, element, inside))
            }
            Column::Map(maps, keys, values) => {
                for entry in inner(maps.value_offsets(), row) {
                    let key = self.text(keys, entry)?;
                    self.child(&key, values, entry, inside)?;
                }
                Ok(())
            }
            Column::Scalar(_) => {
                inside.body.push_str(&escape(&self.text(column, row)?));
                Ok(())
            }
        }
    }

    fn text(&self, column: &Column, row: usize) -> Result<String> {
        let mut text = String::new();
        match column {
            Column::Scalar(values) => values.write(row, &self.times, DecimalText::Scientific, &mut text)?,
            other => super::spark_text::write(other, row, &super::spark_text::Style::cast(DateTimeText::cast_in_utc()), &mut text),
        }
        Ok(text)
    }
}

fn attribute(name: &str, value: &str, out: &mut String) {
    let _ = write!(out, " {name}=\"{}\"", escape(value).replace('"', "&quot;"));
}

/// Text with the characters that are markup replaced.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            c => out.push(c),
        }
    }
    out
}

/// # Errors
/// `TASK_WRITE_FAILED` for a name that no element can have.
fn check_name(name: &str) -> Result<()> {
    let starts = name.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | ':'));
    if starts && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '-' | '.')) {
        return Ok(());
    }
    let message = format!("no element of XML can be named '{name}': rename the column, or give the option rootTag or rowTag another name");
    Err(Error::new(ErrorKind::Invalid, "TASK_WRITE_FAILED", message).with_sqlstate("58030"))
}
