//! The options of CSV.

use millstream_core::{Error, Options, Result};

use super::super::Settings;
use super::super::datetime::pattern::{Pattern, Use};
use super::super::formats::{DateTimeFormats, DateTimeText, Mode, corrupt_record};
use super::dialect::{Dialect, UnescapedQuotes};

/// The options of reading CSV, checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CsvOptions {
    /// How a record falls into values.
    pub(super) dialect: Dialect,
    /// What happens to malformed records.
    pub(super) mode: Mode,
    /// The field that takes the text of malformed records.
    pub(super) corrupt_record: String,
    /// How text becomes values.
    pub(super) values: ValueOptions,
    /// Inference takes a date for a date and not for a timestamp.
    pub(super) prefer_date: bool,
    /// The dates of inference.
    pub(super) inferred_date: Pattern,
}

/// How text becomes values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ValueOptions {
    /// Dates and timestamps.
    pub(super) formats: DateTimeFormats,
    /// The text that is null.
    pub(super) null: Vec<u8>,
    /// What an empty value in quotes is read as.
    pub(super) empty: Vec<u8>,
    /// The text of the number that is none.
    pub(super) nan: Vec<u8>,
    /// The text of infinity.
    pub(super) positive_infinity: Vec<u8>,
    /// The text of minus infinity.
    pub(super) negative_infinity: Vec<u8>,
}

impl CsvOptions {
    /// Reads the options.
    ///
    /// # Errors
    /// `INVALID_OPTION_VALUE`, `OPTION_VALUE_EXCEEDS_ONE_CHARACTER`, `INVALID_DELIMITER_VALUE` with a subclass, those of dates and zones.
    pub(super) fn of(options: &Options, settings: &Settings) -> Result<Self> {
        let byte = |name: &str, default: Option<char>| -> Result<Option<u8>> {
            let Some(character) = character(options, name, default)? else { return Ok(None) };
            let message = || format!("option '{name}' is '{character}' but takes an ASCII character");
            u8::try_from(character).ok().filter(u8::is_ascii).map(Some).ok_or_else(|| Error::invalid("INVALID_OPTION_VALUE", message()))
        };
        let (escape, quote) = (byte("escape", Some('\\'))?, byte("quote", Some('"'))?);
        let count = |name: &str, min: i64| Ok::<_, Error>(options.integer(name, min)?.and_then(|count| usize::try_from(count).ok()));
        let bytes = |name: &str, default: &str| options.get(name).unwrap_or(default).as_bytes().to_vec();
        Ok(CsvOptions {
            dialect: Dialect {
                separator: separator(options)?.into_bytes(),
                quote,
                escape,
                escape_escape: match options.get("charToEscapeQuoteEscaping") {
                    Some(_) => byte("charToEscapeQuoteEscaping", None)?,
                    None => escape.filter(|escape| Some(*escape) != quote),
                },
                trim_leading: options.bool("ignoreLeadingWhiteSpace", false)?,
                trim_trailing: options.bool("ignoreTrailingWhiteSpace", false)?,
                unescaped: match options.get("unescapedQuoteHandling").map(str::to_ascii_uppercase).as_deref() {
                    Some("STOP_AT_CLOSING_QUOTE") => UnescapedQuotes::StopAtClosingQuote,
                    Some("BACK_TO_DELIMITER") => UnescapedQuotes::BackToDelimiter,
                    Some("SKIP_VALUE") => UnescapedQuotes::SkipValue,
                    Some("RAISE_ERROR") => UnescapedQuotes::RaiseError,
                    _ => UnescapedQuotes::StopAtDelimiter,
                },
                max_columns: count("maxColumns", 1)?.unwrap_or(20_480),
                max_bytes: count("maxCharsPerColumn", -1)?.filter(|count| *count > 0),
            },
            mode: Mode::of(options),
            corrupt_record: corrupt_record(options),
            values: ValueOptions {
                formats: DateTimeFormats::of(options, settings)?,
                null: bytes("nullValue", ""),
                empty: bytes("emptyValue", ""),
                nan: bytes("nanValue", "NaN"),
                positive_infinity: bytes("positiveInf", "Inf"),
                negative_infinity: bytes("negativeInf", "-Inf"),
            },
            prefer_date: options.bool("preferDate", true)?,
            inferred_date: Pattern::compile(options.get("dateFormat").unwrap_or("yyyy-MM-dd"), Use::Parsing)?,
        })
    }
}

/// How rows become lines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Form {
    separator: String,
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
    /// Dates and timestamps.
    pub(super) times: DateTimeText,
}

impl Form {
    /// # Errors
    /// As [`CsvOptions::of`].
    pub(super) fn of(options: &Options, settings: &Settings) -> Result<Form> {
        // U+0000 stands for no character.
        let character = |name: &str, default: char| Ok::<_, Error>(character(options, name, Some(default))?.unwrap_or('\0'));
        let (quote, escape) = (character("quote", '"')?, character("escape", '\\')?);
        // An escape that differs from the quote is escaped by itself unless the option says otherwise.
        let escape_escape = match options.get("charToEscapeQuoteEscaping") {
            Some(_) => Some(character("charToEscapeQuoteEscaping", '\0')?),
            None => (escape != quote && escape != '\0').then_some(escape),
        };
        Ok(Form {
            separator: separator(options)?,
            quote,
            escape,
            escape_escape,
            comment: character("comment", '#')?,
            quote_all: options.bool("quoteAll", false)?,
            escape_quotes: options.bool("escapeQuotes", true)?,
            null: options.get("nullValue").unwrap_or("").to_owned(),
            empty: options.get("emptyValue").map(str::to_owned),
            trim_start: options.bool("ignoreLeadingWhiteSpace", true)?,
            trim_end: options.bool("ignoreTrailingWhiteSpace", true)?,
            times: DateTimeText::of(options, settings)?,
        })
    }

    /// Appends a row.
    pub(super) fn row<'a>(&self, values: impl Iterator<Item = Option<&'a str>>, out: &mut String) {
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
        if quoting { self.quoted(trimmed, out) } else { out.push_str(trimmed) }
    }

    fn quoted(&self, value: &str, out: &mut String) {
        out.push(self.quote);
        for c in value.chars() {
            if c == self.quote {
                out.push(self.escape);
            } else if c == self.escape {
                out.extend(self.escape_escape);
            }
            out.push(c);
        }
        out.push(self.quote);
    }
}

/// An option of one character; empty or NUL is none.
fn character(options: &Options, name: &str, default: Option<char>) -> Result<Option<char>> {
    let Some(value) = options.get(name) else { return Ok(default) };
    let mut characters = value.chars();
    match (characters.next(), characters.next()) {
        (None | Some('\0'), None) => Ok(None),
        (character, None) => Ok(character),
        _ => {
            let message = format!("option '{name}' is '{value}' but takes one character");
            Err(Error::invalid("OPTION_VALUE_EXCEEDS_ONE_CHARACTER", message).with_sqlstate("22023"))
        }
    }
}

/// The separator of values, with Spark's escape sequences.
fn separator(options: &Options) -> Result<String> {
    let text = options.get("sep").or_else(|| options.get("delimiter")).unwrap_or(",");
    let wrong = |subclass: &str, what: String| {
        Err(Error::invalid(format!("INVALID_DELIMITER_VALUE.{subclass}"), format!("option 'sep' {what}")).with_sqlstate("42602"))
    };
    let mut separator = String::new();
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            separator.push(character);
            continue;
        }
        separator.push(match rest.next() {
            Some('t') => '\t',
            Some('r') => '\r',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some(itself @ ('"' | '\'' | '\\')) => itself,
            Some('u') if rest.as_str().starts_with("0000") => {
                rest = rest.as_str().get(4..).unwrap_or_default().chars();
                '\0'
            }
            Some(other) => return wrong("UNSUPPORTED_SPECIAL_CHARACTER", format!("has the unknown special character '\\{other}'")),
            None => return wrong("SINGLE_BACKSLASH", "ends with a single backslash: write two for one".to_owned()),
        });
    }
    if separator.is_empty() { wrong("EMPTY_STRING", "is empty but takes at least one character".to_owned()) } else { Ok(separator) }
}
