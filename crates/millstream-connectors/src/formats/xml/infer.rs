//! The schema of XML files, by Spark's rules: elements of one name inside another are an array, attributes are fields, and what disagrees
//! is a string.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use millstream_core::quarantine::ParseMode;
use millstream_core::{Error, ErrorKind, Result, variant};

use super::super::FileRef;
use super::super::values::{DateTimePattern, decimal_shape, parse_decimal, parse_double, parse_long};
use super::element::{Element, Node, is_blank, name_of};
use super::options::XmlOptions;
use super::stream::{Content, Records};

/// What a text is when nothing is asked of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Plain {
    Boolean(bool),
    Long(i64),
    /// Unscaled value and scale.
    Decimal(i128, u8),
    Double(f64),
    Text,
}

/// A text as a variant holds it.
pub(super) fn plain(text: &str) -> Plain {
    if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
        return Plain::Boolean(text.eq_ignore_ascii_case("true"));
    }
    if let Some(value) = parse_long(text.as_bytes()) {
        return Plain::Long(value);
    }
    let decimal = decimal_shape(text.as_bytes()).and_then(|(precision, scale)| {
        let scale = u8::try_from(scale).ok().filter(|scale| *scale <= 38 && precision <= 38)?;
        Some((parse_decimal(text.as_bytes(), 38, i8::try_from(scale).ok()?)?, scale))
    });
    match decimal {
        Some((unscaled, scale)) => Plain::Decimal(unscaled, scale),
        None => is_double(text).then(|| parse_double(text)).flatten().map_or(Plain::Text, Plain::Double),
    }
}

/// Whether a text is a floating-point number: words and Java's suffixes are not taken for one.
fn is_double(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') && !text.ends_with(['d', 'D', 'f', 'F']) && parse_double(text).is_some()
}

/// The schema of all records of the files.
///
/// # Errors
/// Those of reading the files, and `MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION` for a malformed record in the mode `FAILFAST`.
pub(super) async fn infer(files: &[FileRef], options: &XmlOptions) -> Result<SchemaRef> {
    if let Some(name) = &options.single_variant {
        return Ok(Arc::new(Schema::new(vec![variant::field(name)])));
    }
    let inference = Inference { options, date: DateTimePattern::compile(options.date_format.as_deref().unwrap_or("yyyy-MM-dd"))? };
    let mut root = DataType::Null;
    let mut sample = 0.0;
    for file in files {
        let mut records = Records::open(file.clone(), options);
        while let Some(record) = records.next().await? {
            // Evenly spaced records, so that the same files always give the same schema.
            sample += options.sampling_ratio;
            if sample < 1.0 || matches!(record.content, Content::TooLarge(_)) {
                continue;
            }
            sample -= sample.floor();
            let parsed = match &record.content {
                Content::Row(bytes) => Element::parse(&String::from_utf8_lossy(bytes)).ok(),
                _ => None,
            };
            if parsed.is_none() {
                records.stop();
            }
            let kind = match parsed {
                Some(element) => inference.row(&element),
                None => match options.mode {
                    ParseMode::Permissive => struct_of([(options.corrupt_record.clone(), DataType::Utf8)].into()),
                    ParseMode::DropMalformed => continue,
                    ParseMode::FailFast => {
                        let what =
                            format!("a record of {} is malformed and the option mode is FAILFAST: the schema cannot be inferred", file.url);
                        return Err(
                            Error::new(ErrorKind::BadRecord, "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION", what).with_sqlstate("22023")
                        );
                    }
                },
            };
            root = inference.merge(root, kind);
        }
    }
    Ok(Arc::new(match canonical(root) {
        DataType::Struct(fields) => Schema::new(fields),
        _ => Schema::empty(),
    }))
}

struct Inference<'o> {
    options: &'o XmlOptions,
    date: DateTimePattern,
}

impl Inference<'_> {
    /// The kind of a record.
    fn row(&self, element: &Element) -> DataType {
        let kind = self.object(element, true);
        if matches!(kind, DataType::Struct(_)) { kind } else { struct_of(BTreeMap::new()) }
    }

    /// What is inside an element, with its attributes if they belong to it.
    fn object(&self, element: &Element, attributes: bool) -> DataType {
        let values = &self.options.values;
        let mut kinds: BTreeMap<String, Vec<DataType>> = BTreeMap::new();
        if attributes {
            for (name, kind) in self.attributes(element) {
                kinds.entry(name).or_default().push(kind);
            }
        }
        for child in &element.children {
            match child {
                Node::Element(child) => {
                    kinds.entry(name_of(&child.name, values.ignore_namespace).into_owned()).or_default().push(self.field(child));
                }
                Node::Text(text) if is_blank(text) => {}
                Node::Text(text) => kinds.entry(values.value_tag.clone()).or_default().push(self.text(text)),
            }
        }
        let fields = kinds.into_iter().map(|(name, mut kinds)| {
            let kind = if kinds.len() > 1 {
                list_of(kinds.drain(..).reduce(|one, other| self.merge(one, other)).unwrap_or(DataType::Null))
            } else {
                kinds.pop().unwrap_or(DataType::Null)
            };
            (name, kind)
        });
        struct_of(fields.collect())
    }

    fn attributes(&self, element: &Element) -> Vec<(String, DataType)> {
        let values = &self.options.values;
        if values.exclude_attributes {
            return Vec::new();
        }
        let named = |name: &str| format!("{}{}", values.attribute_prefix, name_of(name, values.ignore_namespace));
        element.attributes.iter().map(|(name, text)| (named(name), self.text(text))).collect()
    }

    /// The kind of an element as a field.
    fn field(&self, element: &Element) -> DataType {
        let attributes = self.attributes(element);
        let inside = match element.children.iter().filter(|child| !child.is_blank()).collect::<Vec<_>>().as_slice() {
            [] => DataType::Null,
            [Node::Text(text)] => self.text(text),
            _ => self.object(element, false),
        };
        if attributes.is_empty() {
            return inside;
        }
        let mut fields: BTreeMap<String, DataType> = match inside {
            DataType::Struct(fields) => fields.iter().map(|field| (field.name().clone(), field.data_type().clone())).collect(),
            other => [(self.options.values.value_tag.clone(), other)].into(),
        };
        fields.extend(attributes);
        struct_of(fields)
    }

    /// The kind of a text.
    fn text(&self, text: &str) -> DataType {
        let options = self.options;
        let text = if options.values.trim { text.trim_matches(|c: char| c <= ' ') } else { text };
        if !options.infer_schema {
            return DataType::Utf8;
        }
        if text.is_empty() || options.values.null.as_deref() == Some(text) {
            return DataType::Null;
        }
        if parse_long(text.as_bytes()).is_some() {
            return DataType::Int64;
        }
        let decimal = || {
            let (precision, scale) = decimal_shape(text.replace(',', "").as_bytes())?;
            let precision = u8::try_from(precision.max(scale)).ok().filter(|precision| *precision <= 38)?;
            Some(DataType::Decimal128(precision, i8::try_from(scale).ok().filter(|scale| *scale >= 0)?))
        };
        if options.prefers_decimal
            && let Some(decimal) = decimal()
        {
            return decimal;
        }
        if is_double(text) {
            return DataType::Float64;
        }
        if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
            return DataType::Boolean;
        }
        let formats = &options.values.formats;
        if self.date.date(text).is_some() {
            return DataType::Date32;
        }
        if formats.timestamp(text).is_some() {
            return DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        }
        DataType::Utf8
    }

    /// The narrowest kind for values of both.
    fn merge(&self, one: DataType, other: DataType) -> DataType {
        match (one, other) {
            (DataType::Null, kind) | (kind, DataType::Null) => kind,
            (one, other) if one == other => one,
            (DataType::Struct(fields), DataType::Struct(others)) => {
                let mut merged: BTreeMap<String, DataType> =
                    fields.iter().map(|field| (field.name().clone(), field.data_type().clone())).collect();
                for field in &others {
                    let kind = match merged.remove(field.name()) {
                        Some(known) => self.merge(known, field.data_type().clone()),
                        None => field.data_type().clone(),
                    };
                    merged.insert(field.name().clone(), kind);
                }
                struct_of(merged)
            }
            (DataType::List(one), DataType::List(other)) => list_of(self.merge(one.data_type().clone(), other.data_type().clone())),
            (DataType::List(list), kind) | (kind, DataType::List(list)) => list_of(self.merge(list.data_type().clone(), kind)),
            (DataType::Struct(fields), kind) | (kind, DataType::Struct(fields))
                if fields.iter().any(|field| *field.name() == self.options.values.value_tag) =>
            {
                let merged = fields.iter().map(|field| {
                    let known = field.data_type().clone();
                    let kind = if *field.name() == self.options.values.value_tag { self.merge(known, kind.clone()) } else { known };
                    (field.name().clone(), kind)
                });
                struct_of(merged.collect())
            }
            (DataType::Float64, DataType::Int64 | DataType::Decimal128(..))
            | (DataType::Int64 | DataType::Decimal128(..), DataType::Float64) => DataType::Float64,
            // A bigint has up to 20 digits.
            (DataType::Int64, DataType::Decimal128(precision, scale)) | (DataType::Decimal128(precision, scale), DataType::Int64) => {
                wider((20, 0), (precision.into(), scale.into()))
            }
            (DataType::Decimal128(precision, scale), DataType::Decimal128(other_precision, other_scale)) => {
                wider((precision.into(), scale.into()), (other_precision.into(), other_scale.into()))
            }
            (DataType::Date32, zoned @ DataType::Timestamp(..)) | (zoned @ DataType::Timestamp(..), DataType::Date32) => zoned,
            _ => DataType::Utf8,
        }
    }
}

/// The decimal with the digits of both before and behind the point, or double where that is too many.
fn wider(one: (i64, i64), other: (i64, i64)) -> DataType {
    let scale = one.1.max(other.1);
    let precision = (one.0 - one.1).max(other.0 - other.1) + scale;
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(precision), Ok(scale)) if precision <= 38 => DataType::Decimal128(precision, scale),
        _ => DataType::Float64,
    }
}

fn struct_of(fields: BTreeMap<String, DataType>) -> DataType {
    DataType::Struct(fields.into_iter().map(|(name, kind)| Field::new(name, kind, true)).collect::<Fields>())
}

fn list_of(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("element", element, true)))
}

/// The type without what is not known: what was always empty is a string.
fn canonical(kind: DataType) -> DataType {
    match kind {
        DataType::Null => DataType::Utf8,
        DataType::List(element) => list_of(canonical(element.data_type().clone())),
        DataType::Struct(fields) => {
            struct_of(fields.iter().map(|field| (field.name().clone(), canonical(field.data_type().clone()))).collect())
        }
        other => other,
    }
}
