//! `to_xml`: values as elements.

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, Date32Type, Field, TimestampMicrosecondType};
use millstream_core::Result;

use super::super::cast::{TextStyle, text_of};
use super::super::{downcast, nested};
use super::options::XmlStyle;

/// A column of values to be written.
pub(super) struct Writer<'s> {
    style: &'s XmlStyle,
    column: Column,
}

enum Column {
    Struct(ArrayRef, Vec<(String, Column)>),
    List(ArrayRef, Box<Column>),
    Map(ArrayRef, StringArray, Box<Column>),
    Text(StringArray),
}

impl<'s> Writer<'s> {
    /// A writer of the values of a field.
    ///
    /// # Errors
    /// Those of formatting.
    pub(super) fn new(values: &ArrayRef, field: &Field, style: &'s XmlStyle) -> Result<Self> {
        Ok(Writer { style, column: Column::of(values, field, style)? })
    }

    /// Whether a row is null.
    pub(super) fn is_null(&self, row: usize) -> bool {
        self.column.is_null(row)
    }

    /// Writes a row as an element.
    pub(super) fn write(&self, row: usize, out: &mut String) {
        self.element(&self.style.row_tag, &self.column, row, 0, out);
    }

    fn indent(&self, depth: usize, out: &mut String) {
        if !out.is_empty() && !self.style.indent.is_empty() {
            out.push('\n');
        }
        (0..depth).for_each(|_| out.push_str(&self.style.indent));
    }

    /// One element, or one for each value of an array.
    fn element(&self, name: &str, column: &Column, row: usize, depth: usize, out: &mut String) {
        if column.is_null(row) {
            if let Some(null) = &self.style.null {
                self.indent(depth, out);
                tagged(name, out, |out| escape(null, out));
            }
            return;
        }
        match column {
            Column::List(lists, values) => {
                let range = downcast::lists(lists).ok().and_then(|lists| nested::range(lists, row)).unwrap_or_default();
                for place in range {
                    match values.as_ref() {
                        // Arrays in arrays get elements of their own.
                        inner @ Column::List(..) => {
                            self.indent(depth, out);
                            open(name, out);
                            self.element(&self.style.item_tag, inner, place, depth + 1, out);
                            self.indent(depth, out);
                            close(name, out);
                        }
                        value => self.element(name, value, place, depth, out),
                    }
                }
            }
            Column::Text(texts) => {
                self.indent(depth, out);
                tagged(name, out, |out| escape(texts.value(row), out));
            }
            Column::Map(maps, keys, values) => {
                let range = downcast::maps(maps).ok().and_then(|maps| nested::entries_range(maps, row)).unwrap_or_default();
                let members = range.map(|place| (keys.value(place), values.as_ref(), place)).collect();
                self.members(name, members, depth, out);
            }
            Column::Struct(_, fields) => {
                let members = fields.iter().map(|(name, column)| (name.as_str(), column, row)).collect();
                self.members(name, members, depth, out);
            }
        }
    }

    /// An element of attributes, children, and perhaps a text of its own.
    fn members(&self, name: &str, members: Vec<(&str, &Column, usize)>, depth: usize, out: &mut String) {
        self.indent(depth, out);
        let names = &self.style.names;
        let attribute =
            |name: &str| name.len() > names.attribute_prefix.len() && name.starts_with(&names.attribute_prefix) && name != names.value_tag;
        out.push('<');
        out.push_str(name);
        for (name, column, row) in members.iter().filter(|(name, _, _)| attribute(name)) {
            if let Some(text) = column.text(*row).or(self.style.null.as_deref()) {
                out.push(' ');
                out.push_str(name.strip_prefix(&names.attribute_prefix).unwrap_or(name));
                out.push_str("=\"");
                escape(text, out);
                out.push('"');
            }
        }
        let start = out.len();
        out.push('>');
        let (mut inside, mut text) = (String::new(), String::new());
        // The elements inside begin on lines of their own.
        let mut line = "\n".to_owned();
        for (name, column, row) in members.iter().filter(|(name, _, _)| !attribute(name)) {
            if **name == names.value_tag {
                if let Some(value) = column.text(*row) {
                    escape(value, &mut text);
                }
                continue;
            }
            self.element(name, column, *row, depth + 1, &mut line);
        }
        if line.len() > 1 {
            inside.push_str(line.strip_prefix('\n').unwrap_or(&line));
        }
        if inside.is_empty() && text.is_empty() {
            out.truncate(start);
            out.push_str("/>");
            return;
        }
        out.push_str(&text);
        out.push_str(&inside);
        if !inside.is_empty() {
            self.indent(depth, out);
        }
        close(name, out);
    }
}

impl Column {
    fn of(values: &ArrayRef, field: &Field, style: &XmlStyle) -> Result<Column> {
        Ok(match field.data_type() {
            DataType::Struct(fields) => {
                let structs = downcast::structs(values)?;
                let columns = structs.columns().iter().zip(fields);
                let columns = columns.map(|(values, field)| Ok((field.name().clone(), Column::of(values, field, style)?)));
                Column::Struct(values.clone(), columns.collect::<Result<_>>()?)
            }
            DataType::List(element) => {
                Column::List(values.clone(), Box::new(Column::of(downcast::lists(values)?.values(), element, style)?))
            }
            DataType::Map(..) => {
                let maps = downcast::maps(values)?;
                let (key, value) = nested::entry_fields(field.data_type())?;
                Column::Map(values.clone(), texts(maps.keys(), key, style)?, Box::new(Column::of(maps.values(), value, style)?))
            }
            _ => Column::Text(texts(values, field, style)?),
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Column::Struct(values, _) | Column::List(values, _) | Column::Map(values, _, _) => values.is_null(row),
            Column::Text(texts) => texts.is_null(row),
        }
    }

    fn text(&self, row: usize) -> Option<&str> {
        match self {
            Column::Text(texts) => texts.is_valid(row).then(|| texts.value(row)),
            _ => None,
        }
    }
}

fn texts(values: &ArrayRef, field: &Field, style: &XmlStyle) -> Result<StringArray> {
    match field.data_type() {
        DataType::Date32 => {
            let days = values.as_primitive::<Date32Type>();
            days.iter().map(|days| days.map(|days| style.times.date(days)).transpose()).collect()
        }
        DataType::Timestamp(_, zone) => {
            let micros = values.as_primitive::<TimestampMicrosecondType>();
            let text = |micros| if zone.is_some() { style.times.timestamp(micros) } else { style.times.timestamp_ntz(micros) };
            micros.iter().map(|micros| micros.map(text).transpose()).collect()
        }
        _ => text_of(values, field, &TextStyle::cast(style.times.zone())),
    }
}

fn tagged(name: &str, out: &mut String, write: impl FnOnce(&mut String)) {
    open(name, out);
    write(out);
    close(name, out);
}

fn open(name: &str, out: &mut String) {
    out.push('<');
    out.push_str(name);
    out.push('>');
}

fn close(name: &str, out: &mut String) {
    out.push_str("</");
    out.push_str(name);
    out.push('>');
}

/// Writes text so that it reads back as itself.
pub(super) fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\r' => out.push_str("&#xd;"),
            other => out.push(other),
        }
    }
}
