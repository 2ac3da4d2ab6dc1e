//! The options of XML.

use millstream_core::{Options, Result};

use super::super::Settings;
use super::super::formats::{DateTimeFormats, Mode, corrupt_record};

/// What names and texts mean.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Names {
    /// What the names of fields for attributes begin with.
    pub(super) attribute_prefix: String,
    /// The field for the text of elements that have attributes or children.
    pub(super) value_tag: String,
}

impl Names {
    fn of(options: &Options) -> Self {
        Names {
            attribute_prefix: options.get("attributePrefix").unwrap_or("_").to_owned(),
            value_tag: options.get("valueTag").unwrap_or("_VALUE").to_owned(),
        }
    }
}

/// The options of reading XML, checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct XmlOptions {
    pub(super) names: Names,
    /// Attributes are left out.
    pub(super) exclude_attributes: bool,
    /// Texts lose the white space around them.
    pub(super) trim: bool,
    /// The text that stands for null.
    pub(super) null: Option<String>,
    /// Inference: values have types of their own.
    pub(super) infer_types: bool,
    /// Inference: numbers with a fraction are decimals.
    pub(super) prefers_decimal: bool,
    /// Dates and timestamps.
    pub(super) formats: DateTimeFormats,
    /// What happens to malformed records.
    pub(super) mode: Mode,
    /// The field that takes the text of malformed records.
    pub(super) corrupt_record: String,
}

impl XmlOptions {
    /// Checks and reads the options.
    ///
    /// # Errors
    /// `INVALID_OPTION_VALUE`, `INVALID_TIMEZONE`, those of patterns.
    pub(super) fn of(options: &Options, settings: &Settings) -> Result<Self> {
        Ok(XmlOptions {
            names: Names::of(options),
            exclude_attributes: options.bool("excludeAttribute", false)?,
            trim: options.bool("ignoreSurroundingSpaces", true)?,
            null: options.get("nullValue").map(str::to_owned),
            infer_types: options.bool("inferSchema", true)?,
            prefers_decimal: options.bool("prefersDecimal", false)?,
            formats: DateTimeFormats::of(options, settings)?,
            mode: Mode::of(options),
            corrupt_record: corrupt_record(options),
        })
    }

    /// A text as it counts; `None` where it stands for null.
    pub(super) fn text<'t>(&self, text: &'t str) -> Option<&'t str> {
        let text = if self.trim { text.trim() } else { text };
        (self.null.as_deref() != Some(text)).then_some(text)
    }

    /// The name of the field for an attribute.
    pub(super) fn attribute(&self, name: &str) -> String {
        format!("{}{name}", self.names.attribute_prefix)
    }
}

/// The options of writing XML, checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct XmlStyle {
    pub(super) names: Names,
    /// The name of the element around everything.
    pub(super) row_tag: String,
    /// The name of the elements of arrays in arrays.
    pub(super) item_tag: String,
    /// What is written for null; without it nothing is.
    pub(super) null: Option<String>,
    /// What one level is indented by; nothing writes all on one line.
    pub(super) indent: String,
    pub(super) times: super::super::formats::DateTimeText,
}

impl XmlStyle {
    /// Checks and reads the options.
    ///
    /// # Errors
    /// `INVALID_TIMEZONE` and those of patterns.
    pub(super) fn of(options: &Options, settings: &Settings) -> Result<Self> {
        Ok(XmlStyle {
            names: Names::of(options),
            row_tag: options.get("rowTag").unwrap_or("ROW").to_owned(),
            item_tag: options.get("arrayElementName").unwrap_or("item").to_owned(),
            null: options.get("nullValue").map(str::to_owned),
            indent: options.get("indent").unwrap_or("    ").to_owned(),
            times: super::super::formats::DateTimeText::of(options, settings)?,
        })
    }
}
