//! XML as variants: attributes, children and texts become the fields of objects.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use millstream_core::{Error, Result};

use super::super::cast::decimal::Digits;
use super::super::downcast::arrow_error;
use millstream_core::variant::{Builder, Fault};

use super::super::variant::fault;
use super::decode::own_text;
use super::options::XmlOptions;
use super::tree::{Document, NodeId};

/// Variants under construction.
pub(super) struct Variants<'o> {
    options: &'o XmlOptions,
    values: Vec<Vec<u8>>,
    metadata: Vec<Vec<u8>>,
    valid: Vec<bool>,
}

impl<'o> Variants<'o> {
    pub(super) fn new(options: &'o XmlOptions) -> Self {
        Variants { options, values: Vec::new(), metadata: Vec::new(), valid: Vec::new() }
    }

    /// Adds a null.
    pub(super) fn null(&mut self) {
        self.values.push(Vec::new());
        self.metadata.push(Vec::new());
        self.valid.push(false);
    }

    /// Adds the variant of a text.
    ///
    /// # Errors
    /// Those of variants.
    pub(super) fn text(&mut self, text: &str) -> Result<()> {
        self.add(|options, builder| scalar(options, text, builder))
    }

    /// Adds the variant of an element.
    ///
    /// # Errors
    /// Those of variants.
    pub(super) fn element(&mut self, document: &Document, element: NodeId) -> Result<()> {
        self.add(|options, builder| write(options, document, element, builder))
    }

    fn add(&mut self, write: impl FnOnce(&XmlOptions, &mut Builder) -> Result<(), Fault>) -> Result<()> {
        let mut builder = Builder::default();
        let (mut value, mut metadata) = (Vec::new(), Vec::new());
        write(self.options, &mut builder).and_then(|()| builder.finish(&mut value, &mut metadata)).map_err(fault)?;
        self.values.push(value);
        self.metadata.push(metadata);
        self.valid.push(true);
        Ok(())
    }

    /// The column.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` when the type is none of variants.
    pub(super) fn finish(self, data_type: &DataType) -> Result<ArrayRef> {
        let DataType::Struct(fields) = data_type else { return Err(Error::internal("a variant is a struct")) };
        let bytes = |parts: &[Vec<u8>]| -> ArrayRef { Arc::new(BinaryArray::from_iter_values(parts)) };
        let columns = vec![bytes(&self.values), bytes(&self.metadata)];
        let variants = StructArray::try_new(fields.clone(), columns, Some(NullBuffer::from(self.valid))).map_err(arrow_error)?;
        Ok(Arc::new(variants))
    }
}

/// Writes an element: without attributes and children it is its text.
fn write(options: &XmlOptions, document: &Document, element: NodeId, builder: &mut Builder) -> Result<(), Fault> {
    let attributes: Vec<(&str, &str)> = if options.exclude_attributes { Vec::new() } else { document.attributes(element).collect() };
    let children: Vec<NodeId> = document.elements(element).collect();
    let text = own_text(document, element).and_then(|text| options.text(text)).filter(|text| !text.is_empty());
    if attributes.is_empty() && children.is_empty() {
        return scalar(options, text.unwrap_or(""), builder);
    }
    let start = builder.position();
    let mut members = Vec::new();
    for (name, value) in attributes {
        members.push(builder.member(&options.attribute(name), start));
        scalar(options, value, builder)?;
    }
    let mut names: Vec<&str> = Vec::new();
    for child in &children {
        let name = document.name(*child);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for name in names {
        let same: Vec<NodeId> = children.iter().copied().filter(|child| document.name(*child) == name).collect();
        members.push(builder.member(name, start));
        match same.as_slice() {
            [only] => write(options, document, *only, builder)?,
            several => {
                let (start, mut offsets) = (builder.position(), Vec::with_capacity(several.len()));
                for element in several {
                    offsets.push(builder.position() - start);
                    write(options, document, *element, builder)?;
                }
                builder.array(start, &offsets)?;
            }
        }
    }
    if let Some(text) = text {
        members.push(builder.member(&options.names.value_tag, start));
        scalar(options, text, builder)?;
    }
    builder.object(start, members)
}

/// Writes a text as the narrowest value that it stands for.
fn scalar(options: &XmlOptions, text: &str, builder: &mut Builder) -> Result<(), Fault> {
    let Some(text) = options.text(text).filter(|text| !text.is_empty()) else {
        builder.null();
        return Ok(());
    };
    if let Ok(number) = text.parse::<i64>() {
        builder.long(number);
        return Ok(());
    }
    if let Some(value) = ["true", "false"].iter().position(|word| text.eq_ignore_ascii_case(word)) {
        builder.boolean(value == 0);
        return Ok(());
    }
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.".contains(&byte));
    let scale = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    if plain
        && let (Some(digits), Ok(scale)) = (Digits::parse(text), i8::try_from(scale))
        && let Some(unscaled) = digits.to_decimal(38, scale)
    {
        builder.decimal(unscaled, scale.unsigned_abs());
        return Ok(());
    }
    builder.string(text)
}
