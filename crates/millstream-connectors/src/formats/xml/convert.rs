//! Elements to values of a schema, by the rules of Spark's parser.

use std::collections::HashMap;

use arrow::datatypes::{DataType, Field, Fields};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use millstream_core::variant;

use super::super::values::{parse_decimal, parse_double, parse_float, parse_long};
use super::element::{Element, Node, is_blank, name_of};
use super::options::ValueOptions;
use super::value::Value;
use super::variants;

/// A value that does not fit, for people.
pub(super) type Misfit = String;

/// The fields of an object by their names, whatever their case.
#[derive(Clone, Debug)]
pub(super) struct Names(HashMap<String, usize>);

impl Names {
    /// The fields of a struct in their order.
    pub(super) fn new<'f>(fields: impl Iterator<Item = &'f str>) -> Self {
        Names(fields.enumerate().map(|(index, name)| (name.to_lowercase(), index)).collect())
    }

    /// Where a field is.
    pub(super) fn get(&self, name: &str) -> Option<usize> {
        self.0.get(&name.to_lowercase()).copied()
    }
}

/// Whether values of this type can be read.
pub(super) fn is_supported(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().all(|field| is_supported(field.data_type())),
        DataType::List(element) | DataType::LargeList(element) => is_supported(element.data_type()),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => match fields.as_ref() {
                [key, value] => is_text(key.data_type()) && is_supported(value.data_type()),
                _ => false,
            },
            _ => false,
        },
        other => {
            is_text(other)
                || matches!(
                    other,
                    DataType::Null
                        | DataType::Boolean
                        | DataType::Int8
                        | DataType::Int16
                        | DataType::Int32
                        | DataType::Int64
                        | DataType::Float32
                        | DataType::Float64
                        | DataType::Decimal128(..)
                        | DataType::Date32
                        | DataType::Timestamp(..)
                        | DataType::Binary
                        | DataType::LargeBinary
                        | DataType::BinaryView
                )
        }
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// An object that was read, and the first of its parts that did not fit.
pub(super) struct Object {
    /// Its fields in the order of the schema.
    pub(super) fields: Vec<Value>,
    /// What is wrong with it.
    pub(super) misfit: Option<Misfit>,
    /// Which of the element's own elements have no field.
    pub(super) strays: Vec<usize>,
}

/// Turns elements into values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Converter<'o> {
    /// The options.
    pub(super) options: &'o ValueOptions,
}

impl Converter<'_> {
    /// The fields of an element.
    ///
    /// # Errors
    /// When an attribute does not fit: then nothing of the element is left.
    pub(super) fn object(self, element: &Element, fields: &Fields, names: &Names, attributes: bool) -> Result<Object, Misfit> {
        let mut values = vec![Value::Null; fields.len()];
        if attributes {
            self.attributes(element, fields, names, &mut values)?;
        }
        let wildcard = names.get(&self.options.wildcard);
        let mut object = Object { fields: values, misfit: None, strays: Vec::new() };
        for (at, child) in element.children.iter().enumerate() {
            let outcome = match child {
                Node::Element(child) => match names.get(&name_of(&child.name, self.options.ignore_namespace)) {
                    Some(index) => self.field(child, fields.get(index), object.fields.get_mut(index)),
                    None => match wildcard {
                        Some(index) => self.wild(child, fields.get(index), object.fields.get_mut(index)),
                        None => {
                            object.strays.push(at);
                            Ok(())
                        }
                    },
                },
                Node::Text(text) if is_blank(text) => Ok(()),
                Node::Text(text) => match names.get(&self.options.value_tag) {
                    Some(index) => self.own_text(text, fields.get(index), object.fields.get_mut(index)),
                    None => Ok(()),
                },
            };
            if let Err(misfit) = outcome {
                object.misfit.get_or_insert(misfit);
            }
        }
        Ok(object)
    }

    fn attributes(self, element: &Element, fields: &Fields, names: &Names, values: &mut [Value]) -> Result<(), Misfit> {
        if self.options.exclude_attributes {
            return Ok(());
        }
        for (name, text) in &element.attributes {
            let name = format!("{}{}", self.options.attribute_prefix, name_of(name, self.options.ignore_namespace));
            let found = names.get(&name).and_then(|index| Some((fields.get(index)?, values.get_mut(index)?)));
            if let Some((field, value)) = found {
                *value = self.plain(text, field.data_type())?;
            }
        }
        Ok(())
    }

    /// An element into its field: elements of the same name make an array.
    fn field(self, element: &Element, field: Option<&std::sync::Arc<Field>>, to: Option<&mut Value>) -> Result<(), Misfit> {
        let (Some(field), Some(to)) = (field, to) else { return Ok(()) };
        match field.data_type() {
            DataType::List(inner) | DataType::LargeList(inner) => {
                let value = match inner.data_type() {
                    DataType::Struct(_) if !variant::is_variant(inner) => self.structure(element, inner.data_type())?,
                    other => self.value(element, other)?,
                };
                push(to, value);
            }
            DataType::Struct(_) if !variant::is_variant(field) => *to = self.structure(element, field.data_type())?,
            other => *to = self.value(element, other)?,
        }
        Ok(())
    }

    /// An element without a field of its own.
    fn wild(self, element: &Element, field: Option<&std::sync::Arc<Field>>, to: Option<&mut Value>) -> Result<(), Misfit> {
        let (Some(field), Some(to)) = (field, to) else { return Ok(()) };
        let value = self.value(element, &DataType::Utf8)?;
        match field.data_type() {
            DataType::List(_) | DataType::LargeList(_) => push(to, value),
            _ => *to = value,
        }
        Ok(())
    }

    /// Text of an element that also has other things.
    fn own_text(self, text: &str, field: Option<&std::sync::Arc<Field>>, to: Option<&mut Value>) -> Result<(), Misfit> {
        let (Some(field), Some(to)) = (field, to) else { return Ok(()) };
        match field.data_type() {
            DataType::List(inner) | DataType::LargeList(inner) => push(to, self.plain(text, inner.data_type())?),
            other => *to = self.plain(text, other)?,
        }
        Ok(())
    }

    /// An element as a struct with its attributes.
    fn structure(self, element: &Element, data_type: &DataType) -> Result<Value, Misfit> {
        let DataType::Struct(fields) = data_type else { return Ok(Value::Null) };
        let names = self.names(fields);
        let object = self.object(element, fields, &names, true)?;
        if let Some(misfit) = object.misfit {
            return Err(misfit);
        }
        let is_empty = element.children.iter().all(Node::is_blank);
        let attributed = object.fields.iter().any(|value| *value != Value::Null);
        if is_empty && !attributed && names.get(&self.options.value_tag).is_none() {
            return Ok(Value::Null);
        }
        Ok(Value::Struct(object.fields))
    }

    /// How names of a struct's fields are found.
    pub(super) fn names(self, fields: &Fields) -> Names {
        Names::new(fields.iter().map(|field| field.name().as_str()))
    }

    /// The inside of an element as a value.
    pub(super) fn value(self, element: &Element, data_type: &DataType) -> Result<Value, Misfit> {
        if *data_type == variant::data_type() {
            return variants::of_element(element, self.options);
        }
        let text = match element.children.as_slice() {
            [] => {
                let empty = self.options.null.as_deref() == Some("");
                return Ok(if is_text(data_type) && !empty { Value::Text(String::new()) } else { Value::Null });
            }
            [Node::Text(text)] => Some(text),
            _ => None,
        };
        match data_type {
            other if is_text(other) => match text {
                Some(text) => self.plain(text, other),
                None => self.plain(&element.inner_text(), other),
            },
            DataType::Struct(fields) => {
                let names = self.names(fields);
                let object = self.object(element, fields, &names, false)?;
                object.misfit.map_or(Ok(Value::Struct(object.fields)), Err)
            }
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) => match fields.as_ref() {
                    [_, value] => self.map(element, value.data_type()),
                    _ => Ok(Value::Null),
                },
                _ => Ok(Value::Null),
            },
            DataType::List(inner) | DataType::LargeList(inner) => self.value(element, inner.data_type()),
            other => {
                let first = element.children.iter().find(|child| !child.is_blank());
                match first {
                    None => Ok(Value::Null),
                    Some(Node::Text(text)) if element.elements().next().is_none() => self.plain(text, other),
                    _ => Err(format!("the element '{}' has elements inside but is due to be a {other}", element.name)),
                }
            }
        }
    }

    fn map(self, element: &Element, value_type: &DataType) -> Result<Value, Misfit> {
        let mut pairs: Vec<(String, Value)> = Vec::new();
        let mut put = |key: String, value: Value| match pairs.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => *known = value,
            None => pairs.push((key, value)),
        };
        if !self.options.exclude_attributes {
            for (name, text) in &element.attributes {
                let name = name_of(name, self.options.ignore_namespace);
                put(format!("{}{name}", self.options.attribute_prefix), self.plain(text, value_type)?);
            }
        }
        for child in &element.children {
            match child {
                Node::Element(child) => {
                    put(name_of(&child.name, self.options.ignore_namespace).into_owned(), self.value(child, value_type)?);
                }
                Node::Text(text) if is_blank(text) => {}
                Node::Text(text) => put(self.options.value_tag.clone(), self.plain(text, value_type)?),
            }
        }
        Ok(Value::Map(pairs))
    }

    /// A text as a value without parts.
    pub(super) fn plain(self, text: &str, data_type: &DataType) -> Result<Value, Misfit> {
        let text = if self.options.trim { text.trim_matches(|c: char| c <= ' ') } else { text };
        if self.options.null.as_deref() == Some(text) {
            return Ok(Value::Null);
        }
        let whole = |low: i64, high: i64| parse_long(text.as_bytes()).filter(|value| (low..=high).contains(value)).map(Value::Long);
        let formats = &self.options.formats;
        let value = match data_type {
            other if is_text(other) => Some(Value::Text(text.to_owned())),
            DataType::Null => Some(Value::Null),
            DataType::Boolean => match text.to_ascii_lowercase().as_str() {
                "true" | "1" => Some(Value::Boolean(true)),
                "false" | "0" => Some(Value::Boolean(false)),
                _ => None,
            },
            DataType::Int8 => whole(i8::MIN.into(), i8::MAX.into()),
            DataType::Int16 => whole(i16::MIN.into(), i16::MAX.into()),
            DataType::Int32 => whole(i32::MIN.into(), i32::MAX.into()),
            DataType::Int64 => whole(i64::MIN, i64::MAX),
            DataType::Float32 => parse_float(text).map(Value::Float),
            DataType::Float64 => parse_double(text).map(Value::Double),
            DataType::Decimal128(precision, scale) => {
                parse_decimal(text.replace(',', "").as_bytes(), *precision, *scale).map(Value::Decimal)
            }
            DataType::Date32 => formats.date(text).map(|days| Value::Long(days.into())),
            DataType::Timestamp(_, Some(_)) => formats.timestamp(text).map(Value::Long),
            DataType::Timestamp(_, None) => formats.timestamp_ntz(text).map(Value::Long),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => STANDARD.decode(text).ok().map(Value::Binary),
            _ => None,
        };
        value.ok_or_else(|| format!("'{text}' is no {data_type}"))
    }
}

fn push(to: &mut Value, value: Value) {
    match to {
        Value::List(values) => values.push(value),
        other => *other = Value::List(vec![value]),
    }
}
