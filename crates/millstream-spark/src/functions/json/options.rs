//! The options of JSON.

use millstream_core::json::Syntax;
use millstream_core::{Options, Result};

use super::super::Settings;
use super::super::formats::{DateTimeFormats, Mode, corrupt_record};

/// The options of reading JSON, checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct JsonOptions {
    /// What is allowed beyond standard JSON.
    pub(super) syntax: Syntax,
    /// Dates and timestamps.
    pub(super) formats: DateTimeFormats,
    /// What happens to malformed records.
    pub(super) mode: Mode,
    /// The field that takes the text of malformed records.
    pub(super) corrupt_record: String,
    /// Inference: every value is a string.
    pub(super) primitives_as_string: bool,
    /// Inference: numbers with a fraction are decimals.
    pub(super) prefers_decimal: bool,
    /// Inference: strings that look like timestamps are timestamps.
    pub(super) infer_timestamp: bool,
    /// Inference: fields that are always null or empty are left out.
    pub(super) drop_field_if_all_null: bool,
}

impl JsonOptions {
    /// Checks and reads the options.
    ///
    /// # Errors
    /// `INVALID_OPTION_VALUE`, `INVALID_TIMEZONE`, those of patterns.
    pub(super) fn of(options: &Options, settings: &Settings) -> Result<Self> {
        let standard = Syntax::default();
        let depth = options.integer("maxNestingDepth", 1)?.and_then(|depth| u32::try_from(depth).ok());
        Ok(JsonOptions {
            syntax: Syntax {
                comments: options.bool("allowComments", standard.comments)?,
                unquoted_names: options.bool("allowUnquotedFieldNames", standard.unquoted_names)?,
                single_quotes: options.bool("allowSingleQuotes", standard.single_quotes)?,
                leading_zeros: options.bool("allowNumericLeadingZeros", standard.leading_zeros)?,
                non_numeric: options.bool("allowNonNumericNumbers", standard.non_numeric)?,
                any_escape: options.bool("allowBackslashEscapingAnyCharacter", standard.any_escape)?,
                control_chars: options.bool("allowUnquotedControlChars", standard.control_chars)?,
                max_depth: depth.map_or(standard.max_depth, |depth| depth.min(standard.max_depth)),
            },
            formats: DateTimeFormats::of(options, settings)?,
            mode: Mode::of(options),
            corrupt_record: corrupt_record(options),
            primitives_as_string: options.bool("primitivesAsString", false)?,
            prefers_decimal: options.bool("prefersDecimal", false)?,
            infer_timestamp: options.bool("inferTimestamp", false)?,
            drop_field_if_all_null: options.bool("dropFieldIfAllNull", false)?,
        })
    }
}
