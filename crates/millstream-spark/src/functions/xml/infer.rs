//! `schema_of_xml`: the type of a document.

use std::collections::BTreeMap;

use arrow::datatypes::{DataType, Field, Fields};

use super::super::json::decimal_shape;
use super::decode::own_text;
use super::options::XmlOptions;
use super::tree::{Document, NodeId};
use crate::types;

/// The type of the element at the top.
pub(super) fn infer(document: &Document, options: &XmlOptions) -> DataType {
    let root = document.root_element().unwrap_or(0);
    match element(document, root, options) {
        DataType::Struct(fields) => DataType::Struct(fields),
        DataType::Null => DataType::Struct(Fields::empty()),
        scalar => DataType::Struct(vec![Field::new(&options.names.value_tag, scalar, true)].into()),
    }
}

/// The type with strings where nothing is known.
pub(super) fn canonical(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Null => DataType::Utf8,
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|field| Field::new(field.name(), canonical(field.data_type()), true)).collect())
        }
        DataType::List(element) => types::array(canonical(element.data_type()), true),
        other => other.clone(),
    }
}

fn element(document: &Document, id: NodeId, options: &XmlOptions) -> DataType {
    let mut fields: BTreeMap<String, DataType> = BTreeMap::new();
    if !options.exclude_attributes {
        for (name, value) in document.attributes(id) {
            fields.insert(options.attribute(name), scalar(value, options));
        }
    }
    let text = own_text(document, id).map_or(DataType::Null, |text| scalar(text, options));
    let children: Vec<NodeId> = document.elements(id).collect();
    if fields.is_empty() && children.is_empty() {
        return text;
    }
    if text != DataType::Null {
        fields.insert(options.names.value_tag.clone(), text);
    }
    let mut found: BTreeMap<String, Vec<DataType>> = BTreeMap::new();
    for child in children {
        found.entry(document.name(child).to_owned()).or_default().push(element(document, child, options));
    }
    for (name, kinds) in found {
        let several = kinds.len() > 1;
        let kind = kinds.into_iter().reduce(merged).unwrap_or(DataType::Null);
        fields.insert(name, if several { types::array(kind, true) } else { kind });
    }
    DataType::Struct(fields.into_iter().map(|(name, kind)| Field::new(name, kind, true)).collect())
}

/// The type of a text.
fn scalar(text: &str, options: &XmlOptions) -> DataType {
    let Some(text) = options.text(text).filter(|text| !text.is_empty()) else { return DataType::Null };
    if !options.infer_types {
        return DataType::Utf8;
    }
    if text.parse::<i64>().is_ok() {
        return DataType::Int64;
    }
    if let Some((precision, scale)) = decimal_shape(text.as_bytes()) {
        let decimal = (u8::try_from(precision.max(scale)), i8::try_from(scale));
        return match decimal {
            (Ok(precision), Ok(scale)) if options.prefers_decimal && precision <= 38 && scale >= 0 => {
                DataType::Decimal128(precision, scale)
            }
            _ => DataType::Float64,
        };
    }
    if ["true", "false"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return DataType::Boolean;
    }
    if options.formats.date(text).is_some() && text.len() <= 10 {
        return DataType::Date32;
    }
    if options.formats.timestamp(text).is_some() {
        return types::timestamp();
    }
    DataType::Utf8
}

/// The narrowest type that takes values of both.
fn merged(one: DataType, other: DataType) -> DataType {
    use DataType::{Date32, Decimal128, Float64, Int64, List, Null, Struct, Timestamp, Utf8};
    match (one, other) {
        (one, other) if one == other => one,
        (Null, other) | (other, Null) => other,
        (Int64 | Decimal128(..), Float64) | (Float64, Int64 | Decimal128(..)) => Float64,
        (Int64, Decimal128(precision, scale)) | (Decimal128(precision, scale), Int64) => wider((20, 0), (precision, scale)),
        (Decimal128(precision, scale), Decimal128(others, other_scale)) => wider((precision, scale), (others, other_scale)),
        (Date32, Timestamp(..)) | (Timestamp(..), Date32) => types::timestamp(),
        (Struct(fields), Struct(others)) => {
            let mut all: BTreeMap<String, DataType> =
                fields.iter().map(|field| (field.name().clone(), field.data_type().clone())).collect();
            for field in &others {
                let kind = match all.remove(field.name()) {
                    Some(before) => merged(before, field.data_type().clone()),
                    None => field.data_type().clone(),
                };
                all.insert(field.name().clone(), kind);
            }
            Struct(all.into_iter().map(|(name, kind)| Field::new(name, kind, true)).collect())
        }
        (List(element), List(other)) => types::array(merged(element.data_type().clone(), other.data_type().clone()), true),
        (List(element), other) | (other, List(element)) => types::array(merged(element.data_type().clone(), other), true),
        (Struct(fields), scalar) | (scalar, Struct(fields)) => {
            let value = Field::new("_VALUE", scalar, true);
            merged(Struct(fields), Struct(vec![value].into()))
        }
        _ => Utf8,
    }
}

fn wider((precision, scale): (u8, i8), (others, other_scale): (u8, i8)) -> DataType {
    let most = scale.max(other_scale);
    let whole = (i16::from(precision) - i16::from(scale)).max(i16::from(others) - i16::from(other_scale));
    match u8::try_from(whole + i16::from(most)) {
        Ok(precision) if precision <= 38 => DataType::Decimal128(precision, most),
        _ => DataType::Float64,
    }
}
