//! Values of any type as `CAST … AS STRING` and `show` give them.

use arrow::array::ArrayRef;
use millstream_core::{Error, Result};

use super::canonical::{canonical, canonical_column, sql_type};
use super::column::{Column, inner};
use super::datetime::DateTimeText;
use super::scalar::{DecimalText, Scalar};

/// How values are shown.
#[derive(Clone, Debug)]
pub(crate) struct Style {
    times: DateTimeText,
    null: &'static str,
    hex: bool,
}

impl Style {
    /// As `show` does: `NULL` inside of values, bytes as `[61 62]`.
    pub(crate) fn show(times: DateTimeText) -> Self {
        Style { times, null: "NULL", hex: true }
    }

    /// As `CAST … AS STRING` does: `null` inside of values, bytes as the text that they are.
    pub(crate) fn cast(times: DateTimeText) -> Self {
        Style { times, null: "null", hex: false }
    }
}

/// The text of one column's values.
#[derive(Debug)]
pub(crate) struct TextOf<'a> {
    column: Column,
    style: &'a Style,
}

impl<'a> TextOf<'a> {
    /// The text of the values of `column`.
    ///
    /// # Errors
    /// `UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE` for a type that Spark does not have.
    pub(crate) fn new(column: &ArrayRef, style: &'a Style) -> Result<Self> {
        let data_type = canonical(column.data_type()).ok_or_else(|| {
            let what = format!("a column of the type {} cannot be shown as text: cast it", sql_type(column.data_type()));
            Error::invalid("UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE", what).with_sqlstate("0A000")
        })?;
        Ok(TextOf { column: Column::of(&canonical_column(column, &data_type)?)?, style })
    }

    /// The text of a value, `None` for null.
    pub(crate) fn text(&self, row: usize) -> Option<String> {
        if self.column.is_null(row) {
            return None;
        }
        let mut out = String::new();
        write(&self.column, row, self.style, &mut out);
        Some(out)
    }
}

/// Appends the text of a value.
pub(super) fn write(column: &Column, row: usize, style: &Style, out: &mut String) {
    if column.is_null(row) {
        out.push_str(style.null);
        return;
    }
    match column {
        Column::Scalar(Scalar::Binary(values)) if !style.hex => out.push_str(&String::from_utf8_lossy(values.value(row))),
        Column::Scalar(values) => {
            // Only patterns can fail, and this style has none.
            let _ = values.write(row, &style.times, DecimalText::Plain, out);
        }
        Column::List(lists, elements) => {
            separated('[', ']', inner(lists.value_offsets(), row), out, |element, out| write(elements, element, style, out));
        }
        Column::Struct(_, parts) => {
            separated('{', '}', parts.iter(), out, |(_, part), out| write(part, row, style, out));
        }
        Column::Map(maps, keys, values) => separated('{', '}', inner(maps.value_offsets(), row), out, |entry, out| {
            write(keys, entry, style, out);
            out.push_str(" -> ");
            write(values, entry, style, out);
        }),
    }
}

fn separated<T>(open: char, close: char, items: impl Iterator<Item = T>, out: &mut String, mut each: impl FnMut(T, &mut String)) {
    out.push(open);
    for (number, item) in items.enumerate() {
        if number > 0 {
            out.push_str(", ");
        }
        each(item, out);
    }
    out.push(close);
}
