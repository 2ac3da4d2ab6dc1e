//! Elements as variants.

use std::collections::BTreeMap;

use millstream_core::variant::{Builder, Fault};

use super::convert::Misfit;
use super::element::{Element, Node, is_blank, name_of};
use super::infer::{Plain, plain};
use super::options::ValueOptions;
use super::value::Value;

/// An element as a variant: an object of its attributes, elements and text, or the value of its text where that is all.
///
/// # Errors
/// When it is too large.
pub(super) fn of_element(element: &Element, options: &ValueOptions) -> Result<Value, Misfit> {
    let mut builder = Builder::default();
    append(element, options, &mut builder).map_err(too_large)?;
    let (mut value, mut names) = (Vec::new(), Vec::new());
    builder.finish(&mut value, &mut names).map_err(too_large)?;
    Ok(Value::Variant(value, names))
}

fn too_large(fault: Fault) -> Misfit {
    match fault {
        Fault::DuplicateKey(name) => format!("the name '{name}' is there twice"),
        Fault::TooLarge => "it is too large for a variant".to_owned(),
    }
}

/// What belongs to one name.
#[derive(Clone, Copy)]
enum Part<'e> {
    Element(&'e Element),
    Text(&'e str),
}

fn append(element: &Element, options: &ValueOptions, builder: &mut Builder) -> Result<(), Fault> {
    let mut parts: BTreeMap<String, Vec<Part<'_>>> = BTreeMap::new();
    if !options.exclude_attributes {
        for (name, text) in &element.attributes {
            let name = format!("{}{}", options.attribute_prefix, name_of(name, options.ignore_namespace));
            parts.entry(name).or_default().push(Part::Text(text));
        }
    }
    for child in &element.children {
        match child {
            Node::Element(child) => {
                parts.entry(name_of(&child.name, options.ignore_namespace).into_owned()).or_default().push(Part::Element(child));
            }
            Node::Text(text) if is_blank(text) => {}
            Node::Text(text) => parts.entry(options.value_tag.clone()).or_default().push(Part::Text(text)),
        }
    }
    if parts.is_empty() {
        builder.null();
        return Ok(());
    }
    if parts.len() == 1
        && let Some([Part::Text(text)]) = parts.get(&options.value_tag).map(Vec::as_slice)
    {
        return append_text(text, options, builder);
    }
    let (start, mut members) = (builder.position(), Vec::new());
    for (name, values) in &parts {
        members.push(builder.member(name, start));
        match values.as_slice() {
            [one] => append_part(*one, options, builder)?,
            several => {
                let (from, mut offsets) = (builder.position(), Vec::new());
                for part in several {
                    offsets.push(builder.position() - from);
                    append_part(*part, options, builder)?;
                }
                builder.array(from, &offsets)?;
            }
        }
    }
    builder.object(start, members)
}

fn append_part(part: Part<'_>, options: &ValueOptions, builder: &mut Builder) -> Result<(), Fault> {
    match part {
        Part::Element(element) => append(element, options, builder),
        Part::Text(text) => append_text(text, options, builder),
    }
}

fn append_text(text: &str, options: &ValueOptions, builder: &mut Builder) -> Result<(), Fault> {
    let text = if options.trim { text.trim_matches(|c: char| c <= ' ') } else { text };
    if options.null.as_deref() == Some(text) {
        builder.null();
        return Ok(());
    }
    match plain(text) {
        Plain::Boolean(value) => builder.boolean(value),
        Plain::Long(value) => builder.long(value),
        Plain::Decimal(unscaled, scale) => builder.decimal(unscaled, scale),
        Plain::Double(value) => builder.double(value),
        Plain::Text => return builder.string(text),
    }
    Ok(())
}
