//! `from_xml`: documents to values of a schema, a column at a time.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, Decimal128Array, ListArray, MapArray, PrimitiveArray, StringArray,
    StructArray, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    DataType, Date32Type, FieldRef, Fields, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use millstream_core::{Error, Result};

use super::super::cast::decimal::Digits;
use super::super::cast::parse;
use super::super::downcast::arrow_error;
use super::super::variant::is_variant;
use super::options::XmlOptions;
use super::tree::{Document, Kind, NodeId};
use super::variant::Variants;

/// Reads columns of documents, noting which rows do not fit the schema.
pub(super) struct Decoder<'o> {
    options: &'o XmlOptions,
    /// For each row what does not fit, if anything.
    faults: Vec<Option<String>>,
}

/// A value of a row before it is read.
#[derive(Clone)]
struct Item<'d> {
    row: usize,
    value: Value<'d>,
}

#[derive(Clone)]
enum Value<'d> {
    Null,
    Text(Cow<'d, str>),
    Element(&'d Document, NodeId),
}

impl<'o> Decoder<'o> {
    /// For so many rows.
    pub(super) fn new(options: &'o XmlOptions, rows: usize) -> Self {
        Decoder { options, faults: vec![None; rows] }
    }

    /// The struct of each document; rows without one have all fields null.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` when the columns do not fit together.
    pub(super) fn documents(&mut self, fields: &Fields, documents: &[Option<Document>]) -> Result<Vec<ArrayRef>> {
        let items: Vec<Item<'_>> =
            documents.iter().enumerate().map(|(row, document)| Item { row, value: root(document.as_ref()) }).collect();
        fields.iter().map(|field| self.member(field, &items)).collect()
    }

    /// The variant of each document.
    ///
    /// # Errors
    /// Those of variants.
    pub(super) fn variants(&self, data_type: &DataType, documents: &[Option<Document>]) -> Result<ArrayRef> {
        let mut variants = Variants::new(self.options);
        for document in documents {
            match document.as_ref().and_then(|document| Some((document, document.root_element()?))) {
                Some((document, element)) => variants.element(document, element)?,
                None => variants.null(),
            }
        }
        variants.finish(data_type)
    }

    /// What does not fit the schema, by row.
    pub(super) fn faults(self) -> Vec<Option<String>> {
        self.faults
    }

    fn fault(&mut self, row: usize, what: String) {
        if let Some(fault) = self.faults.get_mut(row) {
            fault.get_or_insert(what);
        }
    }

    /// The column of a field of structs.
    fn member(&mut self, field: &FieldRef, structs: &[Item<'_>]) -> Result<ArrayRef> {
        if let DataType::List(element) = field.data_type() {
            return self.list(element, field, structs);
        }
        let items: Vec<Item<'_>> =
            structs.iter().map(|item| Item { row: item.row, value: self.named(&item.value, field.name()).last() }).collect();
        self.column(field, &items)
    }

    /// What an element has under a name: an attribute, its own text, or children.
    fn named<'d>(&self, value: &Value<'d>, name: &str) -> Found<'d> {
        let Value::Element(document, element) = value else {
            return match value {
                Value::Text(text) if *name == self.options.names.value_tag => Found::One(Value::Text(text.clone())),
                _ => Found::None,
            };
        };
        if !self.options.exclude_attributes
            && let Some(wanted) = name.strip_prefix(&self.options.names.attribute_prefix)
            && let Some((_, value)) = document.attributes(*element).find(|(name, _)| *name == wanted)
        {
            return Found::One(Value::Text(Cow::Borrowed(value)));
        }
        if *name == self.options.names.value_tag
            && let Some(text) = own_text(document, *element)
        {
            return Found::One(Value::Text(Cow::Borrowed(text)));
        }
        Found::Elements(document, document.elements(*element).filter(|child| document.name(*child) == name).collect())
    }

    fn list(&mut self, element: &FieldRef, field: &FieldRef, structs: &[Item<'_>]) -> Result<ArrayRef> {
        let (mut items, mut lengths, mut valid) = (Vec::new(), Vec::with_capacity(structs.len()), Vec::with_capacity(structs.len()));
        for item in structs {
            let values = self.named(&item.value, field.name()).all();
            valid.push(!values.is_empty());
            lengths.push(values.len());
            items.extend(values.into_iter().map(|value| Item { row: item.row, value }));
        }
        let values = self.column(element, &items)?;
        let lists = ListArray::try_new(element.clone(), OffsetBuffer::from_lengths(lengths), values, Some(NullBuffer::from(valid)));
        Ok(Arc::new(lists.map_err(arrow_error)?))
    }

    fn column(&mut self, field: &FieldRef, items: &[Item<'_>]) -> Result<ArrayRef> {
        let options = self.options;
        match field.data_type() {
            DataType::Struct(_) if is_variant(field) => {
                let mut variants = Variants::new(options);
                for item in items {
                    match &item.value {
                        Value::Null => variants.null(),
                        Value::Text(text) => variants.text(text)?,
                        Value::Element(document, element) => variants.element(document, *element)?,
                    }
                }
                variants.finish(field.data_type())
            }
            DataType::Struct(fields) => {
                let valid: Vec<bool> = items.iter().map(|item| self.is_struct(fields, &item.value)).collect();
                let columns = fields.iter().map(|field| self.member(field, items)).collect::<Result<Vec<_>>>()?;
                let nulls = Some(NullBuffer::from(valid));
                let structs = StructArray::try_new_with_length(fields.clone(), columns, nulls, items.len()).map_err(arrow_error)?;
                Ok(Arc::new(structs))
            }
            DataType::List(element) => {
                // An array in an array: what is there is its only element.
                let present = |item: &Item<'_>| !matches!(item.value, Value::Null);
                let valid: Vec<bool> = items.iter().map(present).collect();
                let inside: Vec<Item<'_>> = items.iter().filter(|item| present(item)).cloned().collect();
                let values = self.column(element, &inside)?;
                let offsets = OffsetBuffer::from_lengths(valid.iter().map(|valid| usize::from(*valid)));
                let lists = ListArray::try_new(element.clone(), offsets, values, Some(NullBuffer::from(valid))).map_err(arrow_error)?;
                Ok(Arc::new(lists))
            }
            DataType::Map(entries, sorted) => self.map(entries, *sorted, items),
            DataType::Utf8 => {
                let texts = items.iter().map(|item| self.string(item));
                Ok(Arc::new(texts.collect::<StringArray>()))
            }
            DataType::Binary => {
                let texts: Vec<Option<String>> = items.iter().map(|item| self.string(item)).collect();
                Ok(Arc::new(texts.iter().map(|text| text.as_ref().map(String::as_bytes)).collect::<BinaryArray>()))
            }
            DataType::Boolean => {
                let values = items.iter().map(|item| self.scalar(item, "boolean", boolean));
                Ok(Arc::new(values.collect::<BooleanArray>()))
            }
            DataType::Int8 => Ok(self.numbers::<Int8Type>(items, "tinyint", |text| whole(text)?.try_into().ok())),
            DataType::Int16 => Ok(self.numbers::<Int16Type>(items, "smallint", |text| whole(text)?.try_into().ok())),
            DataType::Int32 => Ok(self.numbers::<Int32Type>(items, "int", |text| whole(text)?.try_into().ok())),
            DataType::Int64 => Ok(self.numbers::<Int64Type>(items, "bigint", whole)),
            DataType::Float32 => Ok(self.numbers::<Float32Type>(items, "float", parse::float)),
            DataType::Float64 => Ok(self.numbers::<Float64Type>(items, "double", parse::double)),
            DataType::Date32 => Ok(self.numbers::<Date32Type>(items, "date", |text| options.formats.date(text))),
            DataType::Timestamp(_, zone) => {
                let zoned = zone.is_some();
                let read = |text: &str| if zoned { options.formats.timestamp(text) } else { options.formats.timestamp_ntz(text) };
                let values = items.iter().map(|item| self.scalar(item, "timestamp", read));
                let values = values.collect::<PrimitiveArray<TimestampMicrosecondType>>();
                Ok(Arc::new(values.with_timezone_opt(zone.clone())))
            }
            DataType::Decimal128(precision, scale) => {
                let read = |text: &str| Digits::parse(text)?.to_decimal(*precision, *scale);
                let values = items.iter().map(|item| self.scalar(item, "decimal", read)).collect::<Decimal128Array>();
                Ok(Arc::new(values.with_precision_and_scale(*precision, *scale).map_err(arrow_error)?))
            }
            other => {
                for item in items {
                    if !matches!(item.value, Value::Null) {
                        self.fault(item.row, format!("values of the type {other} are not read from XML"));
                    }
                }
                Ok(new_null_array(other, items.len()))
            }
        }
    }

    /// Whether there is a struct: an element with attributes of the schema, with children, or with a text that has a field.
    fn is_struct(&self, fields: &Fields, value: &Value<'_>) -> bool {
        let has = |name: &str| fields.iter().any(|field| field.name() == name);
        match value {
            Value::Null => false,
            Value::Text(_) => has(&self.options.names.value_tag),
            Value::Element(document, element) => {
                let with_attributes =
                    !self.options.exclude_attributes && document.attributes(*element).any(|(name, _)| has(&self.options.attribute(name)));
                with_attributes
                    || document.elements(*element).next().is_some()
                    || has(&self.options.names.value_tag) && own_text(document, *element).is_some()
            }
        }
    }

    fn map(&mut self, entries: &FieldRef, sorted: bool, items: &[Item<'_>]) -> Result<ArrayRef> {
        let DataType::Struct(pair) = entries.data_type() else { return Err(Error::internal("a map needs entries")) };
        let [key, value] = pair.as_ref() else { return Err(Error::internal("a map needs keys and values")) };
        let (mut keys, mut values, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for item in items {
            let mut found: Vec<(String, Value<'_>)> = Vec::new();
            let mut add = |name: String, value| match found.iter_mut().find(|(known, _)| *known == name) {
                Some((_, before)) => *before = value,
                None => found.push((name, value)),
            };
            if let Value::Element(document, element) = &item.value {
                if !self.options.exclude_attributes {
                    for (name, value) in document.attributes(*element) {
                        add(self.options.attribute(name), Value::Text(Cow::Borrowed(value)));
                    }
                }
                for child in document.elements(*element) {
                    add(document.name(child).to_owned(), Value::Element(document, child));
                }
                if let Some(text) = own_text(document, *element) {
                    add(self.options.names.value_tag.clone(), Value::Text(Cow::Borrowed(text)));
                }
            }
            valid.push(!matches!(item.value, Value::Null));
            lengths.push(found.len());
            for (name, value) in found {
                keys.push(name);
                values.push(Item { row: item.row, value });
            }
        }
        let keys: ArrayRef = Arc::new(StringArray::from(keys));
        let keys = arrow::compute::cast(&keys, key.data_type()).map_err(arrow_error)?;
        let values = self.column(value, &values)?;
        let pairs = StructArray::try_new(pair.clone(), vec![keys, values], None).map_err(arrow_error)?;
        let nulls = Some(NullBuffer::from(valid));
        let maps = MapArray::try_new(entries.clone(), OffsetBuffer::from_lengths(lengths), pairs, nulls, sorted).map_err(arrow_error)?;
        Ok(Arc::new(maps))
    }

    fn numbers<T: ArrowPrimitiveType>(&mut self, items: &[Item<'_>], kind: &str, read: impl Fn(&str) -> Option<T::Native>) -> ArrayRef {
        Arc::new(items.iter().map(|item| self.scalar(item, kind, &read)).collect::<PrimitiveArray<T>>())
    }

    /// A value that is read from text.
    fn scalar<V>(&mut self, item: &Item<'_>, kind: &str, read: impl Fn(&str) -> Option<V>) -> Option<V> {
        let text = match &item.value {
            Value::Null => return None,
            Value::Text(text) => text.clone(),
            Value::Element(document, element) => {
                if document.elements(*element).next().is_some() {
                    self.fault(item.row, format!("the element '{}' has children and is no {kind}", document.name(*element)));
                    return None;
                }
                Cow::Borrowed(own_text(document, *element)?)
            }
        };
        let text = self.options.text(&text)?;
        let value = read(text);
        if value.is_none() {
            self.fault(item.row, format!("'{}' is no {kind}", text.chars().take(60).collect::<String>()));
        }
        value
    }

    /// A text; of an element with children what is written in it.
    fn string(&self, item: &Item<'_>) -> Option<String> {
        let text = match &item.value {
            Value::Null => return None,
            Value::Text(text) => text.clone(),
            Value::Element(document, element) if document.elements(*element).next().is_some() => {
                let mut inside = String::new();
                document.children(*element).iter().for_each(|child| write(document, *child, &mut inside));
                Cow::Owned(inside)
            }
            Value::Element(document, element) => Cow::Borrowed(own_text(document, *element).unwrap_or("")),
        };
        self.options.text(&text).map(str::to_owned)
    }
}

/// What a name of a struct leads to.
enum Found<'d> {
    None,
    One(Value<'d>),
    Elements(&'d Document, Vec<NodeId>),
}

impl<'d> Found<'d> {
    /// The last one counts.
    fn last(self) -> Value<'d> {
        match self {
            Found::None => Value::Null,
            Found::One(value) => value,
            Found::Elements(document, elements) => elements.last().map_or(Value::Null, |last| Value::Element(document, *last)),
        }
    }

    fn all(self) -> Vec<Value<'d>> {
        match self {
            Found::None => Vec::new(),
            Found::One(value) => vec![value],
            Found::Elements(document, elements) => elements.into_iter().map(|element| Value::Element(document, element)).collect(),
        }
    }
}

fn root(document: Option<&Document>) -> Value<'_> {
    match document.and_then(|document| Some((document, document.root_element()?))) {
        Some((document, element)) => Value::Element(document, element),
        None => Value::Null,
    }
}

/// The first text directly in an element that is more than white space.
pub(super) fn own_text(document: &Document, element: NodeId) -> Option<&str> {
    document.children(element).iter().find_map(|child| match &document.get(*child)?.kind {
        Kind::Text(text) if !text.trim().is_empty() => Some(text.as_str()),
        _ => None,
    })
}

/// Writes a node as it stands in the document.
fn write(document: &Document, id: NodeId, out: &mut String) {
    let Some(node) = document.get(id) else { return };
    match &node.kind {
        Kind::Text(text) => super::write::escape(text, out),
        Kind::Element(name) => {
            out.push('<');
            out.push_str(name);
            for (name, value) in document.attributes(id) {
                out.push(' ');
                out.push_str(name);
                out.push_str("=\"");
                super::write::escape(value, out);
                out.push('"');
            }
            out.push('>');
            node.children.iter().for_each(|child| write(document, *child, out));
            out.push_str("</");
            out.push_str(name);
            out.push('>');
        }
        _ => {}
    }
}

/// A whole number, perhaps with a sign.
fn whole(text: &str) -> Option<i64> {
    text.parse().ok()
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}
