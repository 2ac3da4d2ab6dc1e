//! CSV, with the quoting of the library that Spark writes it by.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use millstream_core::options::OptionKind;
use millstream_core::{Error, OptionSpec, Options, Result};

use super::super::input::check_charset;
use super::canonical::{canonical_batch, canonical_schema, unsupported};
use super::compression::{Codec, Compressor};
use super::datetime::DateTimeText;
use super::scalar::{DecimalText, Scalar};
use super::{FileEncoder, FileWriteFormat, FileWriter, check_encoding, datetime_options, option};

/// The format `csv`.
#[derive(Debug)]
pub(super) struct Csv;

impl FileWriteFormat for Csv {
    fn names(&self) -> &'static [&'static str] {
        &["csv"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        let mut options = vec![
            option("compression", OptionKind::Text, Some("none"), "none, gzip, bzip2, deflate, snappy or lz4."),
            option("sep", OptionKind::Text, Some(","), "What stands between values; also called delimiter."),
            option("header", OptionKind::Bool, Some("false"), "Whether each file begins with the names of the columns."),
            option("quote", OptionKind::Text, Some("\""), "The character around values that need quoting."),
            option("escape", OptionKind::Text, Some("\\"), "The character before a quote inside of a quoted value."),
            option("charToEscapeQuoteEscaping", OptionKind::Text, None, "The character before an escape inside of a quoted value."),
            option("comment", OptionKind::Text, Some("#"), "A row that would begin with this character is quoted."),
            option("quoteAll", OptionKind::Bool, Some("false"), "Whether every value is quoted."),
            option("escapeQuotes", OptionKind::Bool, Some("true"), "Whether a value with a quote in it is quoted."),
            option("nullValue", OptionKind::Text, Some(""), "What stands for null."),
            option("emptyValue", OptionKind::Text, Some("\"\""), "What stands for an empty string."),
            option("ignoreLeadingWhiteSpace", OptionKind::Bool, Some("true"), "Whether white space before a value is cut off."),
            option("ignoreTrailingWhiteSpace", OptionKind::Bool, Some("true"), "Whether white space behind a value is cut off."),
            option("lineSep", OptionKind::Text, Some("\\n"), "What ends each line."),
            option("encoding", OptionKind::Text, Some("UTF-8"), "Only UTF-8 is written."),
        ];
        options.extend(datetime_options());
        options
    }

    fn writer(&self, schema: &Schema, options: &Options) -> Result<Arc<dyn FileWriter>> {
        let schema = canonical_schema("CSV", schema)?;
        let nested =
            |data_type: &DataType| matches!(data_type, DataType::List(_) | DataType::Struct(_) | DataType::Map(_, _) | DataType::Null);
        if let Some(field) = schema.fields().iter().find(|field| nested(field.data_type())) {
            return Err(unsupported("CSV", field));
        }
        check_charset(options)?;
        check_encoding(options)?;
        let codec = Codec::from_options(options)?;
        let form = Arc::new(Form::from_options(options)?);
        Ok(Arc::new(CsvWriter { schema, codec, form, extension: format!(".csv{}", codec.extension()) }))
    }
}

/// How rows become lines.
#[derive(Debug)]
struct Form {
    separator: String,
    header: bool,
    quote: char,
    escape: char,
    /// Before an escape inside of quotes.
    escape_escape: Option<char>,
    comment: char,
    quote_all: bool,
    escape_quotes: bool,
    null: String,
    empty: Option<String>,
    trim_start: bool,
    trim_end: bool,
    line_end: String,
    times: DateTimeText,
}

impl Form {
    fn from_options(options: &Options) -> Result<Form> {
        let quote = character(options, "quote", '"')?;
        let escape = character(options, "escape", '\\')?;
        // An escape that differs from the quote is escaped by itself unless the option says otherwise.
        let escape_escape = match options.get("charToEscapeQuoteEscaping") {
            Some(_) => Some(character(options, "charToEscapeQuoteEscaping", '\0')?),
            None if escape != quote && escape != '\0' => Some(escape),
            None => None,
        };
        Ok(Form {
            separator: separator(options.get("sep").or_else(|| options.get("delimiter")).unwrap_or(","))?,
            header: options.bool("header", false)?,
            quote,
            escape,
            escape_escape,
            comment: character(options, "comment", '#')?,
            quote_all: options.bool("quoteAll", false)?,
            escape_quotes: options.bool("escapeQuotes", true)?,
            null: options.get("nullValue").unwrap_or("").to_owned(),
            empty: options.get("emptyValue").map(str::to_owned),
            trim_start: options.bool("ignoreLeadingWhiteSpace", true)?,
            trim_end: options.bool("ignoreTrailingWhiteSpace", true)?,
            line_end: options.get("lineSep").unwrap_or("\n").to_owned(),
            times: DateTimeText::from_options(options)?,
        })
    }

    /// Appends a row. A row without any text, which is one column that is null, leaves no line.
    fn row<'a>(&self, values: impl Iterator<Item = Option<&'a str>>, out: &mut String) {
        let start = out.len();
        for (number, value) in values.enumerate() {
            if number > 0 {
                out.push_str(&self.separator);
            }
            match value {
                None if self.quote_all => self.quoted(&self.null, out),
                None => out.push_str(&self.null),
                Some(value) => self.value(value, number == 0, out),
            }
        }
        if out.len() > start {
            out.push_str(&self.line_end);
        }
    }

    fn value(&self, value: &str, first: bool, out: &mut String) {
        // Blank is every character up to the space.
        let blank = |c: char| c <= ' ';
        let trimmed = if self.trim_start { value.trim_start_matches(blank) } else { value };
        let trimmed = if self.trim_end { trimmed.trim_end_matches(blank) } else { trimmed };
        if trimmed.is_empty() {
            match &self.empty {
                Some(empty) if self.quote_all => self.quoted(empty, out),
                Some(empty) => out.push_str(empty),
                None => out.push_str("\"\""),
            }
            return;
        }
        let quoting = self.quote_all
            || value.contains(&self.separator)
            || value.contains(['\n', '\r'])
            || trimmed.starts_with(self.quote)
            || (self.escape_quotes && value.contains(self.quote))
            || (first && trimmed.starts_with(self.comment));
        if quoting {
            self.quoted(trimmed, out);
        } else {
            out.push_str(trimmed);
        }
    }

    fn quoted(&self, value: &str, out: &mut String) {
        out.push(self.quote);
        for c in value.chars() {
            if c == self.quote {
                out.push(self.escape);
                out.push(c);
            } else if c == self.escape {
                out.extend(self.escape_escape);
                out.push(c);
            } else if c == '\n' {
                out.push_str(&self.line_end);
            } else {
                out.push(c);
            }
        }
        out.push(self.quote);
    }
}

/// An option that is one character; empty means none, for which U+0000 stands.
fn character(options: &Options, name: &'static str, default: char) -> Result<char> {
    let Some(text) = options.get(name) else { return Ok(default) };
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (None, _) => Ok('\0'),
        (Some(c), None) => Ok(c),
        _ => Err(Error::invalid("INVALID_OPTION_VALUE", format!("option '{name}' is '{text}' but takes one character"))),
    }
}

/// A separator with its escapes (`\t`) resolved.
fn separator(text: &str) -> Result<String> {
    if text.is_empty() {
        return Err(Error::invalid("INVALID_DELIMITER_VALUE.EMPTY_STRING", "option 'sep' is empty but takes at least one character"));
    }
    let mut resolved = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        resolved.push(match c {
            '\\' => match chars.next() {
                Some('t') => '\t',
                Some('r') => '\r',
                Some('n') => '\n',
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some(other @ ('\\' | '"' | '\'')) => other,
                _ => {
                    let what = format!("option 'sep' is '{text}', whose backslash has no meaning: write \\t for a tab");
                    return Err(Error::invalid("INVALID_DELIMITER_VALUE.UNSUPPORTED_SPECIAL_CHARACTER", what));
                }
            },
            c => c,
        });
    }
    Ok(resolved)
}

#[derive(Debug)]
struct CsvWriter {
    schema: SchemaRef,
    codec: Codec,
    form: Arc<Form>,
    extension: String,
}

impl FileWriter for CsvWriter {
    fn extension(&self) -> &str {
        &self.extension
    }

    fn start(&self) -> Result<Box<dyn FileEncoder>> {
        let mut out = self.codec.start();
        if self.form.header {
            let mut line = String::new();
            self.form.row(self.schema.fields().iter().map(|field| Some(field.name().as_str())), &mut line);
            out.write(line.as_bytes())?;
        }
        Ok(Box::new(CsvEncoder { schema: self.schema.clone(), form: self.form.clone(), out }))
    }
}

struct CsvEncoder {
    schema: SchemaRef,
    form: Arc<Form>,
    out: Compressor,
}

impl FileEncoder for CsvEncoder {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let rows = canonical_batch(rows, &self.schema)?;
        let columns: Vec<Scalar> = rows.columns().iter().filter_map(Scalar::of).collect();
        let mut texts = vec![String::new(); columns.len()];
        let mut lines = String::new();
        for row in 0..rows.num_rows() {
            for (column, text) in columns.iter().zip(&mut texts) {
                text.clear();
                if !column.is_null(row) {
                    column.write(row, &self.form.times, DecimalText::Scientific, text)?;
                }
            }
            let values = columns.iter().zip(&texts).map(|(column, text)| (!column.is_null(row)).then_some(text.as_str()));
            self.form.row(values, &mut lines);
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
