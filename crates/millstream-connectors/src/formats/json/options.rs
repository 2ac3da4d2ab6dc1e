//! The options of the format `json`.

use millstream_core::json::Syntax;
use millstream_core::options::OptionKind;
use millstream_core::quarantine::ParseMode;
use millstream_core::{Error, OptionSpec, Options, Result};

use super::super::input::{self, InputOptions, check_charset};
use super::super::lines::{LINE_SEP, MAX_RECORD, MAX_RECORD_BYTES, Separator, max_record_bytes};
use super::super::rescue::{RESCUED_DATA_COLUMN, rescued_data_column};
use super::super::values::DateTimeFormats;

/// The limit of a file that is one record.
const MAX_FILE_BYTES: usize = 128 * 1024 * 1024;
/// The deepest nesting that the option may allow; Jackson's own limit.
const DEEPEST: i64 = 1000;

/// The options, checked.
#[derive(Clone, Debug)]
pub struct JsonOptions {
    /// What is allowed beyond standard JSON.
    pub syntax: Syntax,
    /// Dates and timestamps.
    pub formats: DateTimeFormats,
    /// What happens to malformed records.
    pub mode: ParseMode,
    /// The column that takes the text of malformed records.
    pub corrupt_record: String,
    /// The column that takes what does not fit the schema.
    pub rescued_data: Option<String>,
    /// The only column, which takes whole records as variants.
    pub single_variant: Option<String>,
    /// A file is one record.
    pub multi_line: bool,
    /// What separates records.
    pub separator: Separator,
    /// The longest record.
    pub limit: usize,
    /// Compression and character encoding.
    pub input: InputOptions,
    /// Inference: every value is a string.
    pub primitives_as_string: bool,
    /// Inference: numbers with a fraction are decimals.
    pub prefers_decimal: bool,
    /// Inference: strings that look like timestamps are timestamps.
    pub infer_timestamp: bool,
    /// Inference: fields that are always null or empty are left out.
    pub drop_field_if_all_null: bool,
    /// Inference: the share of records that is looked at.
    pub sampling_ratio: f64,
}

const fn switch(name: &'static str, default: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec { name, kind: OptionKind::Bool, default: Some(default), doc }
}

const fn text(name: &'static str, default: Option<&'static str>, doc: &'static str) -> OptionSpec {
    OptionSpec { name, kind: OptionKind::Text, default, doc }
}

/// Every option.
pub fn specs() -> Vec<OptionSpec> {
    let mut specs = vec![
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
        text("singleVariantColumn", None, "The name of a single column that takes every record as a variant."),
        switch("multiLine", "false", "A file is one JSON value, not one in every line."),
        LINE_SEP,
        MAX_RECORD,
        OptionSpec {
            name: "maxNestingDepth",
            kind: OptionKind::Integer { min: 1 },
            default: Some("128"),
            doc: "How deep objects and arrays may be nested, up to 1000; deeper records are malformed.",
        },
        text("timeZone", Some("UTC"), "The time zone of timestamps that name none."),
        text("dateFormat", None, "The pattern of dates. Without it the forms of CAST are read."),
        text("timestampFormat", None, "The pattern of timestamps. Without it the forms of CAST are read."),
        text("timestampNTZFormat", None, "The pattern of timestamps without time zone. Without it the forms of CAST are read."),
        text(
            "enableDateTimeParsingFallback",
            None,
            "Whether dates and timestamps that the pattern refuses are tried in the forms of CAST.",
        ),
        text("locale", Some("en-US"), "Accepted and ignored: names of months are English."),
        switch("allowComments", "false", "Allows comments as in Java and C++."),
        switch("allowUnquotedFieldNames", "false", "Allows field names without quotes."),
        switch("allowSingleQuotes", "true", "Allows strings in single quotes."),
        switch("allowNumericLeadingZeros", "false", "Allows numbers to begin with zeros."),
        switch("allowNonNumericNumbers", "true", "Allows NaN, Infinity, -INF and the like as numbers."),
        switch("allowBackslashEscapingAnyCharacter", "false", "Allows a backslash before any character."),
        switch("allowUnquotedControlChars", "false", "Allows control characters inside strings."),
        switch("primitivesAsString", "false", "Inference: numbers and truth values are strings."),
        switch("prefersDecimal", "false", "Inference: numbers with a fraction are decimals where they fit."),
        switch("inferTimestamp", "false", "Inference: strings that can be read as timestamps are timestamps."),
        switch("dropFieldIfAllNull", "false", "Inference: fields that are always null or empty are left out."),
        OptionSpec {
            name: "samplingRatio",
            kind: OptionKind::Number { min: 0.0, max: 1.0 },
            default: Some("1.0"),
            doc: "Inference: the share of records that is looked at.",
        },
    ];
    specs.extend_from_slice(input::OPTIONS);
    specs
}

impl JsonOptions {
    /// Checks and reads the options.
    ///
    /// # Errors
    /// `INVALID_OPTION_VALUE`, `INVALID_TIMEZONE`, `INVALID_DATETIME_PATTERN` and its subclasses.
    pub fn from_options(options: &Options) -> Result<Self> {
        check_charset(options)?;
        let input = InputOptions::from_options(options)?;
        options.check(&specs())?;
        let multi_line = options.bool("multiLine", false)?;
        let depth = options.integer("maxNestingDepth", 1)?.unwrap_or(128);
        let max_depth = u32::try_from(depth).ok().filter(|_| depth <= DEEPEST).ok_or_else(|| {
            Error::invalid("INVALID_OPTION_VALUE", format!("option 'maxNestingDepth' is {depth} but takes at most {DEEPEST}"))
        })?;
        Ok(JsonOptions {
            syntax: Syntax {
                comments: options.bool("allowComments", false)?,
                unquoted_names: options.bool("allowUnquotedFieldNames", false)?,
                single_quotes: options.bool("allowSingleQuotes", true)?,
                leading_zeros: options.bool("allowNumericLeadingZeros", false)?,
                non_numeric: options.bool("allowNonNumericNumbers", true)?,
                any_escape: options.bool("allowBackslashEscapingAnyCharacter", false)?,
                control_chars: options.bool("allowUnquotedControlChars", false)?,
                max_depth,
            },
            formats: DateTimeFormats::from_options(options)?,
            mode: options.get("mode").map_or(Ok(ParseMode::Permissive), ParseMode::parse)?,
            corrupt_record: options.get("columnNameOfCorruptRecord").unwrap_or("_corrupt_record").to_owned(),
            rescued_data: rescued_data_column(options).map(str::to_owned),
            single_variant: options.get("singleVariantColumn").map(str::to_owned),
            separator: if multi_line { Separator::Never } else { Separator::from_options(options)? },
            limit: max_record_bytes(options, if multi_line { MAX_FILE_BYTES } else { MAX_RECORD_BYTES })?,
            multi_line,
            input,
            primitives_as_string: options.bool("primitivesAsString", false)?,
            prefers_decimal: options.bool("prefersDecimal", false)?,
            infer_timestamp: options.bool("inferTimestamp", false)?,
            drop_field_if_all_null: options.bool("dropFieldIfAllNull", false)?,
            sampling_ratio: options.get("samplingRatio").and_then(|ratio| ratio.trim().parse().ok()).unwrap_or(1.0),
        })
    }
}
