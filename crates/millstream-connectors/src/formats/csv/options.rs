//! The options of the format `csv`.

use millstream_core::options::OptionKind;
use millstream_core::quarantine::ParseMode;
use millstream_core::{Error, OptionSpec, Options, Result};

use super::super::input::{self, InputOptions, check_charset};
use super::super::lines::{LINE_SEP, MAX_RECORD, MAX_RECORD_BYTES, Separator, max_record_bytes};
use super::super::rescue::{RESCUED_DATA_COLUMN, rescued_data_column};
use super::super::values::DateTimeFormats;
use super::dialect::{Dialect, UnescapedQuotes};

const UNESCAPED_QUOTES: &[&str] = &["STOP_AT_DELIMITER", "STOP_AT_CLOSING_QUOTE", "BACK_TO_DELIMITER", "SKIP_VALUE", "RAISE_ERROR"];

/// The options, checked.
#[derive(Clone, Debug)]
pub(super) struct CsvOptions {
    /// How a record falls into values.
    pub(super) dialect: Dialect,
    /// Records that begin with this byte are comments.
    pub(super) comment: Option<u8>,
    /// The first record of a file is its header.
    pub(super) header: bool,
    /// The columns go by position whatever the header says.
    pub(super) enforce_schema: bool,
    /// How many lines to leave out at the beginning of a file.
    pub(super) skip_rows: u64,
    /// Quoted values may hold line ends.
    pub(super) multi_line: bool,
    /// What separates records.
    pub(super) separator: Separator,
    /// The longest record in bytes.
    pub(super) limit: usize,
    /// Only the columns that are read decide whether a record is malformed.
    pub(super) column_pruning: bool,
    /// What happens to malformed records.
    pub(super) mode: ParseMode,
    /// The column that takes the text of malformed records.
    pub(super) corrupt_record: String,
    /// The column that takes what does not fit the schema.
    pub(super) rescued_data: Option<String>,
    /// How text becomes values.
    pub(super) values: ValueOptions,
    /// Compression and character encoding.
    pub(super) input: InputOptions,
    /// Infer the types of the columns, not only their names.
    pub(super) infer_schema: bool,
    /// Inference takes a date for a date and not for a timestamp.
    pub(super) prefer_date: bool,
    /// Inference: dates and timestamps in one column are timestamps.
    pub(super) dates_are_timestamps: bool,
}

/// How text becomes values.
#[derive(Clone, Debug)]
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

const fn switch(name: &'static str, default: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec { name, kind: OptionKind::Bool, default: Some(default), doc }
}

const fn text(name: &'static str, default: Option<&'static str>, doc: &'static str) -> OptionSpec {
    OptionSpec { name, kind: OptionKind::Text, default, doc }
}

/// Every option.
pub(super) fn specs() -> Vec<OptionSpec> {
    let mut specs = vec![
        text("sep", Some(","), "What separates values: one or more characters; \\t is a tab."),
        text("delimiter", None, "Another name of the option sep."),
        text("quote", Some("\""), "The character around values that contain separators; empty for none."),
        text("escape", Some("\\"), "The character before a quote that belongs to a quoted value; empty for none."),
        text(
            "charToEscapeQuoteEscaping",
            None,
            "The character before an escape that belongs to a quoted value; by default the escape itself.",
        ),
        text("comment", None, "Lines that begin with this character are left out."),
        switch("header", "false", "The first line of every file names its columns."),
        switch("enforceSchema", "true", "Columns go by position whatever the header says; otherwise a header that differs is an error."),
        OptionSpec {
            name: "skipRows",
            kind: OptionKind::Integer { min: 0 },
            default: Some("0"),
            doc: "How many lines to leave out at the beginning of every file, before its header.",
        },
        switch("multiLine", "false", "Quoted values may contain line ends."),
        LINE_SEP,
        MAX_RECORD,
        switch("ignoreLeadingWhiteSpace", "false", "Leave out blanks before values."),
        switch("ignoreTrailingWhiteSpace", "false", "Leave out blanks after values that are not quoted."),
        text("nullValue", Some(""), "The text that is null."),
        text("emptyValue", Some(""), "What an empty value in quotes is read as."),
        text("nanValue", Some("NaN"), "The text of the floating-point number that is none."),
        text("positiveInf", Some("Inf"), "The text of positive infinity."),
        text("negativeInf", Some("-Inf"), "The text of negative infinity."),
        text("timeZone", Some("UTC"), "The time zone of timestamps that name none."),
        text("dateFormat", None, "The pattern of dates. Without it the forms of CAST are read."),
        text("timestampFormat", None, "The pattern of timestamps. Without it the forms of CAST are read."),
        text("timestampNTZFormat", None, "The pattern of timestamps without time zone. Without it the forms of CAST are read."),
        OptionSpec {
            name: "enableDateTimeParsingFallback",
            kind: OptionKind::Bool,
            default: None,
            doc: "Try the forms of CAST on dates and timestamps that the pattern refuses; by default only without a pattern.",
        },
        OptionSpec {
            name: "maxColumns",
            kind: OptionKind::Integer { min: 1 },
            default: Some("20480"),
            doc: "Records with more values are refused.",
        },
        OptionSpec {
            name: "maxCharsPerColumn",
            kind: OptionKind::Integer { min: -1 },
            default: Some("-1"),
            doc: "Records with a value of more bytes are refused; -1 for no limit.",
        },
        OptionSpec {
            name: "unescapedQuoteHandling",
            kind: OptionKind::OneOf(UNESCAPED_QUOTES),
            default: Some("STOP_AT_DELIMITER"),
            doc: "What to make of a quote inside of a quoted value that is neither escaped nor its end.",
        },
        OptionSpec {
            name: "mode",
            kind: OptionKind::OneOf(&["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]),
            default: Some("PERMISSIVE"),
            doc: "What happens to malformed records: keep them with nulls, leave them out, or fail.",
        },
        text(
            "columnNameOfCorruptRecord",
            Some("_corrupt_record"),
            "The column that takes the text of malformed records, if the schema has it.",
        ),
        RESCUED_DATA_COLUMN,
        OptionSpec {
            name: "columnPruning",
            kind: OptionKind::Bool,
            default: None,
            doc: "Only the columns that are read decide whether a record is malformed; by default unless multiLine is set.",
        },
        text("locale", Some("en-US"), "Accepted and without effect: numbers, dates and names are read as in English."),
        switch("inferSchema", "false", "Infer the types of columns; without it all are strings."),
        switch("preferDate", "true", "Infer the type date for dates; otherwise they are timestamps."),
        OptionSpec {
            name: "samplingRatio",
            kind: OptionKind::Number { min: 0.0, max: 1.0 },
            default: Some("1.0"),
            doc: "Accepted and without effect: inference reads the whole sample of files.",
        },
    ];
    specs.extend_from_slice(input::OPTIONS);
    specs
}

impl CsvOptions {
    /// Reads the options.
    ///
    /// # Errors
    /// `INVALID_OPTION_VALUE`, `OPTION_VALUE_EXCEEDS_ONE_CHARACTER`, `INVALID_DELIMITER_VALUE` with a subclass, those of dates and zones.
    pub(super) fn from_options(options: &Options) -> Result<Self> {
        check_charset(options)?;
        let input = InputOptions::from_options(options)?;
        options.check(&specs())?;
        let escape = character(options, "escape", Some(b'\\'))?;
        let quote = character(options, "quote", Some(b'"'))?;
        let multi_line = options.bool("multiLine", false)?;
        let count = |name: &str, min: i64| Ok::<_, Error>(options.integer(name, min)?.and_then(|count| usize::try_from(count).ok()));
        let bytes = |name: &str, default: &str| options.get(name).unwrap_or(default).as_bytes().to_vec();
        let date_format = options.get("dateFormat");
        Ok(CsvOptions {
            dialect: Dialect {
                separator: separator(options.get("sep").or_else(|| options.get("delimiter")).unwrap_or(","))?,
                quote,
                escape,
                escape_escape: character(options, "charToEscapeQuoteEscaping", escape.filter(|escape| Some(*escape) != quote))?,
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
            comment: character(options, "comment", None)?,
            header: options.bool("header", false)?,
            enforce_schema: options.bool("enforceSchema", true)?,
            skip_rows: options.integer("skipRows", 0)?.and_then(|rows| u64::try_from(rows).ok()).unwrap_or(0),
            multi_line,
            separator: Separator::from_options(options)?,
            limit: max_record_bytes(options, MAX_RECORD_BYTES)?,
            column_pruning: options.bool("columnPruning", !multi_line)?,
            mode: options.get("mode").map_or(Ok(ParseMode::Permissive), ParseMode::parse)?,
            corrupt_record: options.get("columnNameOfCorruptRecord").unwrap_or("_corrupt_record").to_owned(),
            rescued_data: rescued_data_column(options).map(str::to_owned),
            values: ValueOptions {
                formats: DateTimeFormats::from_options(options)?,
                null: bytes("nullValue", ""),
                empty: bytes("emptyValue", ""),
                nan: bytes("nanValue", "NaN"),
                positive_infinity: bytes("positiveInf", "Inf"),
                negative_infinity: bytes("negativeInf", "-Inf"),
            },
            input,
            infer_schema: options.bool("inferSchema", false)?,
            prefer_date: options.bool("preferDate", true)?,
            dates_are_timestamps: options.get("timestampFormat").is_none() && date_format.is_none_or(|format| format == "yyyy-MM-dd"),
        })
    }
}

/// An option of one character; empty or NUL is none.
fn character(options: &Options, name: &str, default: Option<u8>) -> Result<Option<u8>> {
    let Some(value) = options.get(name) else { return Ok(default) };
    match value.as_bytes() {
        [] | [0] => Ok(None),
        [byte] => Ok(Some(*byte)),
        _ if value.chars().count() > 1 => {
            let message = format!("option '{name}' is '{value}' but takes one character");
            Err(Error::invalid("OPTION_VALUE_EXCEEDS_ONE_CHARACTER", message).with_sqlstate("22023"))
        }
        _ => Err(Error::invalid("INVALID_OPTION_VALUE", format!("option '{name}' is '{value}' but takes an ASCII character"))),
    }
}

/// The separator of values, with Spark's escape sequences.
fn separator(text: &str) -> Result<Vec<u8>> {
    let wrong = |subclass: &str, what: String| {
        Err(Error::invalid(format!("INVALID_DELIMITER_VALUE.{subclass}"), format!("option 'sep' {what}")).with_sqlstate("42602"))
    };
    let mut separator = Vec::new();
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            let mut buffer = [0; 4];
            separator.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
            continue;
        }
        separator.push(match rest.next() {
            Some('t') => b'\t',
            Some('r') => b'\r',
            Some('b') => 0x08,
            Some('f') => 0x0c,
            Some('"') => b'"',
            Some('\'') => b'\'',
            Some('\\') => b'\\',
            Some('u') if rest.as_str().starts_with("0000") => {
                rest = rest.as_str().get(4..).unwrap_or_default().chars();
                0
            }
            Some(other) => return wrong("UNSUPPORTED_SPECIAL_CHARACTER", format!("has the unknown special character '\\{other}'")),
            None => return wrong("SINGLE_BACKSLASH", "ends with a single backslash: write two for one".to_owned()),
        });
    }
    if separator.is_empty() { wrong("EMPTY_STRING", "is empty but takes at least one character".to_owned()) } else { Ok(separator) }
}
