//! `xpath` and the functions that give its result as a value of one type.

use std::sync::Arc;

use arrow::array::{ArrayRef, ListBuilder, StringBuilder};
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type};
use millstream_core::{Error, ErrorKind, Result};

use super::super::rows::{Memo, Row, Rows};
use super::super::{Arguments, Call, Functions, Kernel, Typed, coercion, faults, scalar};
use super::tree::{Document, Kind};
use super::xpath::{Value, XPath};
use crate::types;

const FUNCTIONS: [(&str, Want); 9] = [
    ("xpath", Want::List),
    ("xpath_boolean", Want::Boolean),
    ("xpath_short", Want::Short),
    ("xpath_int", Want::Int),
    ("xpath_long", Want::Long),
    ("xpath_float", Want::Float),
    ("xpath_double", Want::Double),
    ("xpath_number", Want::Double),
    ("xpath_string", Want::Text),
];

pub(super) fn register(functions: &mut Functions) {
    for (name, _) in FUNCTIONS {
        functions.add(name, build);
    }
}

/// What the result becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Want {
    List,
    Boolean,
    Short,
    Int,
    Long,
    Float,
    Double,
    Text,
}

fn build(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=2)?;
    let Some((name, want)) = FUNCTIONS.into_iter().find(|(name, _)| *name == call.name) else {
        return Err(faults::unresolved_routine(call.name));
    };
    let (xml, path) = (call.exactly(0, &[DataType::Utf8])?, call.exactly(1, &[DataType::Utf8])?);
    if coercion::constant_of(&path).is_none() {
        return Err(faults::not_foldable(name, 1));
    }
    let data_type = match want {
        Want::List => types::array(DataType::Utf8, true),
        Want::Boolean => DataType::Boolean,
        Want::Short => DataType::Int16,
        Want::Int => DataType::Int32,
        Want::Long => DataType::Int64,
        Want::Float => DataType::Float32,
        Want::Double => DataType::Float64,
        Want::Text => DataType::Utf8,
    };
    Ok(scalar(name, Find { name, want }, vec![xml, path], data_type, true))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Find {
    name: &'static str,
    want: Want,
}

/// What a path leads to in the document of a row; `None` where there is no text or no path.
struct Finder {
    name: &'static str,
    paths: Memo<XPath>,
}

impl Finder {
    fn find(&mut self, row: Row<'_>) -> Result<Option<(Document, Value)>> {
        let (xml, path) = (row.text(0), row.text(1));
        if xml.is_empty() || path.is_empty() {
            return Ok(None);
        }
        let name = self.name;
        let compiled = self.paths.get(path, |path| XPath::compile(path).map_err(|fault| bad_path(name, path, &fault.0)))?;
        let document = Document::parse(xml).map_err(|fault| bad_document(name, &fault.0))?;
        let value = compiled.evaluate(&document).map_err(|fault| bad_path(name, path, &fault.0))?;
        Ok(Some((document, value)))
    }

    /// As a number; a path that leads nowhere gives none that is asked for.
    fn number(&mut self, row: Row<'_>) -> Result<Option<f64>> {
        Ok(self.find(row)?.map(|(document, value)| value.number(&document)))
    }
}

fn bad_path(name: &str, path: &str, what: &str) -> Error {
    Error::new(ErrorKind::BadRecord, "RuntimeException", format!("`{name}` cannot read the path '{path}': {what}"))
}

fn bad_document(name: &str, what: &str) -> Error {
    Error::new(ErrorKind::BadRecord, "RuntimeException", format!("`{name}` cannot read the XML: {what}"))
}

impl Kernel for Find {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let rows = Rows::of(arguments)?;
        let mut finder = Finder { name: self.name, paths: Memo::new() };
        match self.want {
            Want::Boolean => rows.booleans(|row| Ok(finder.find(row)?.map(|(_, value)| value.boolean()))),
            Want::Short => rows.numbers::<Int16Type>(|row| Ok(finder.number(row)?.map(|number| number as i32 as i16))),
            Want::Int => rows.numbers::<Int32Type>(|row| Ok(finder.number(row)?.map(|number| number as i32))),
            Want::Long => rows.numbers::<Int64Type>(|row| Ok(finder.number(row)?.map(|number| number as i64))),
            Want::Float => rows.numbers::<Float32Type>(|row| Ok(finder.number(row)?.map(|number| number as f32))),
            Want::Double => rows.numbers::<Float64Type>(|row| finder.number(row)),
            Want::Text => rows.texts(|row, out| {
                let found = finder.find(row)?;
                let there = found.is_some();
                if let Some((document, value)) = found {
                    out.push_str(&value.text(&document));
                }
                Ok(there)
            }),
            Want::List => {
                let element = Arc::new(Field::new("element", DataType::Utf8, true));
                let mut lists = ListBuilder::new(StringBuilder::new()).with_field(element);
                for at in 0..rows.len() {
                    let row = rows.row(at);
                    let found = if row.is_complete() { finder.find(row)? } else { None };
                    let Some((document, value)) = found else {
                        lists.append(false);
                        continue;
                    };
                    let Value::Nodes(nodes) = value else { return Err(bad_path(self.name, row.text(1), "it does not lead to nodes")) };
                    for node in nodes {
                        // An element itself has no value.
                        match document.get(node).map(|node| &node.kind) {
                            Some(Kind::Element(_) | Kind::Root) | None => lists.values().append_null(),
                            Some(_) => lists.values().append_value(document.text_of(node)),
                        }
                    }
                    lists.append(true);
                }
                Ok(Arc::new(lists.finish()))
            }
        }
    }
}
