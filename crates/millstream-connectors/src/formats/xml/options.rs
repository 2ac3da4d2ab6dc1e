//! The options of the format `xml`.

use millstream_core::options::OptionKind;
use millstream_core::quarantine::ParseMode;
use millstream_core::{Error, ErrorKind, OptionSpec, Options, Result};

use super::super::input::{self, Encoding, InputOptions};
use super::super::lines::{MAX_RECORD, MAX_RECORD_BYTES, max_record_bytes};
use super::super::rescue::{RESCUED_DATA_COLUMN, rescued_data_column};
use super::super::values::DateTimeFormats;

/// The options, checked.
#[derive(Clone, Debug)]
pub(super) struct XmlOptions {
    /// The name of the elements that are rows.
    pub(super) row_tag: String,
    /// How elements become values.
    pub(super) values: ValueOptions,
    /// What happens to malformed records.
    pub(super) mode: ParseMode,
    /// The column that takes the text of malformed records.
    pub(super) corrupt_record: String,
    /// The column that takes what does not fit the schema.
    pub(super) rescued_data: Option<String>,
    /// The only column, which takes whole records as variants.
    pub(super) single_variant: Option<String>,
    /// The longest record in bytes.
    pub(super) limit: usize,
    /// Compression and character encoding.
    pub(super) input: InputOptions,
    /// Inference: everything without parts is not a string.
    pub(super) infer_schema: bool,
    /// Inference: numbers with a fraction are decimals where they fit.
    pub(super) prefers_decimal: bool,
    /// Inference: the pattern of dates.
    pub(super) date_format: Option<String>,
    /// Inference: the share of records that is looked at.
    pub(super) sampling_ratio: f64,
}

/// How elements become values.
#[derive(Clone, Debug)]
pub(super) struct ValueOptions {
    /// Dates and timestamps.
    pub(super) formats: DateTimeFormats,
    /// What the names of fields for attributes begin with.
    pub(super) attribute_prefix: String,
    /// The field for the text of elements that also have attributes or elements.
    pub(super) value_tag: String,
    /// Attributes are left out.
    pub(super) exclude_attributes: bool,
    /// The text that is null.
    pub(super) null: Option<String>,
    /// White space around values is left out.
    pub(super) trim: bool,
    /// Names count without their prefix.
    pub(super) ignore_namespace: bool,
    /// The column for elements that have none of their own.
    pub(super) wildcard: String,
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
        text("rowTag", None, "The name of the elements that are rows. Required."),
        text("attributePrefix", Some("_"), "What the names of columns for attributes begin with."),
        text("valueTag", Some("_VALUE"), "The column for the text of elements that also have attributes or elements."),
        switch("excludeAttribute", "false", "Leave out attributes."),
        text("nullValue", None, "The text that is null."),
        switch("treatEmptyValuesAsNulls", "false", "Empty strings are null; the same as an empty nullValue."),
        switch("ignoreSurroundingSpaces", "true", "Leave out white space around values."),
        switch("ignoreNamespace", "false", "Names count without their prefix."),
        text("wildcardColName", Some("xs_any"), "The column for elements that have none of their own, as text."),
        text("rowValidationXSDPath", None, "An XML schema that rows must satisfy. Not supported."),
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
        MAX_RECORD,
        text("timeZone", Some("UTC"), "The time zone of timestamps that name none."),
        text("dateFormat", None, "The pattern of dates. Without it the forms of CAST are read."),
        text("timestampFormat", None, "The pattern of timestamps. Without it the forms of CAST are read."),
        text("timestampNTZFormat", None, "The pattern of timestamps without time zone. Without it the forms of CAST are read."),
        text("locale", Some("en-US"), "Accepted and without effect: numbers, dates and names are read as in English."),
        switch("multiLine", "true", "Accepted and without effect: records may span lines."),
        switch("inferSchema", "true", "Inference: find the types of values; without it all are strings."),
        switch("prefersDecimal", "false", "Inference: numbers with a fraction are decimals where they fit."),
        switch("preferDate", "true", "Accepted and, as in Spark, without effect: dates are always dates."),
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

impl XmlOptions {
    /// Checks and reads the options.
    ///
    /// # Errors
    /// Those of [`row_tag`], `UNSUPPORTED_OPTION`, `INVALID_OPTION_VALUE`, and those of modes, codecs, dates and zones.
    pub(super) fn from_options(options: &Options) -> Result<Self> {
        let row_tag = row_tag(options)?;
        if options.get("rowValidationXSDPath").is_some() {
            return Err(Error::invalid(
                "UNSUPPORTED_OPTION",
                "option 'rowValidationXSDPath' is not supported: validate the files beforehand",
            ));
        }
        let input = InputOptions::from_options(options).map_err(|error| match options.get("encoding").map(Encoding::named) {
            // Spark only finds out when it opens a file.
            Some(Err(unknown)) => Error::new(ErrorKind::Invalid, "FAILED_READ_FILE.NO_HINT", unknown.message()).with_sqlstate("KD001"),
            _ => error,
        })?;
        options.check(&specs())?;
        let attribute_prefix = options.get("attributePrefix").unwrap_or("_").to_owned();
        let value_tag = options.get("valueTag").unwrap_or("_VALUE").to_owned();
        let empty_is_null = options.bool("treatEmptyValuesAsNulls", false)?;
        Ok(XmlOptions {
            row_tag,
            values: ValueOptions {
                formats: DateTimeFormats::from_options(options)?,
                attribute_prefix,
                value_tag,
                exclude_attributes: options.bool("excludeAttribute", false)?,
                null: options.get("nullValue").map(str::to_owned).or_else(|| empty_is_null.then(String::new)),
                trim: options.bool("ignoreSurroundingSpaces", true)?,
                ignore_namespace: options.bool("ignoreNamespace", false)?,
                wildcard: options.get("wildcardColName").unwrap_or("xs_any").to_owned(),
            },
            mode: options.get("mode").map_or(Ok(ParseMode::Permissive), ParseMode::parse)?,
            corrupt_record: options.get("columnNameOfCorruptRecord").unwrap_or("_corrupt_record").to_owned(),
            rescued_data: rescued_data_column(options).map(str::to_owned),
            single_variant: options.get("singleVariantColumn").map(str::to_owned),
            limit: max_record_bytes(options, MAX_RECORD_BYTES)?,
            input,
            infer_schema: options.bool("inferSchema", true)?,
            prefers_decimal: options.bool("prefersDecimal", false)?,
            date_format: options.get("dateFormat").map(str::to_owned),
            sampling_ratio: options.get("samplingRatio").and_then(|ratio| ratio.trim().parse().ok()).unwrap_or(1.0),
        })
    }
}

/// The option `rowTag`.
///
/// # Errors
/// `XML_ROW_TAG_MISSING` without it; for a name that no element can have Spark's exception has no condition.
pub(crate) fn row_tag(options: &Options) -> Result<String> {
    let Some(tag) = options.get("rowTag") else {
        let what = "the format xml needs the option 'rowTag': the name of the elements that are rows";
        return Err(Error::invalid("XML_ROW_TAG_MISSING", what).with_sqlstate("42KDF"));
    };
    if tag.trim().is_empty() || tag.contains(['<', '>']) {
        let what = format!("option 'rowTag' is '{tag}': give the name of an element, without angle brackets");
        return Err(Error::invalid("IllegalArgumentException", what));
    }
    Ok(tag.trim().to_owned())
}
