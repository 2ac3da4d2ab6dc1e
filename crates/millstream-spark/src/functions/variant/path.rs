//! Paths into variants: `$.a[0]['b']`.

use millstream_core::variant::{Value, Variant};
use millstream_core::{Error, Result};

#[derive(Debug)]
pub(super) struct Path {
    steps: Vec<Step>,
}

#[derive(Debug, PartialEq)]
enum Step {
    Field(String),
    Element(usize),
}

impl Path {
    /// Reads a path.
    ///
    /// # Errors
    /// `INVALID_VARIANT_GET_PATH`.
    pub(super) fn parse(text: &str, function: &str) -> Result<Path> {
        read(text).map(|steps| Path { steps }).ok_or_else(|| {
            let message =
                format!("the path '{text}' of `{function}` is invalid: it begins with '$', fields are '.name' and elements '[0]'");
            Error::invalid("INVALID_VARIANT_GET_PATH", message).with_sqlstate("22023")
        })
    }

    /// What the path leads to.
    pub(super) fn find<'a>(&self, variant: Variant<'a>) -> Option<Variant<'a>> {
        self.steps.iter().try_fold(variant, |variant, step| match (step, variant.value()?) {
            (Step::Field(name), Value::Object(object)) => object.get(name),
            (Step::Element(index), Value::Array(array)) => array.get(*index),
            _ => None,
        })
    }
}

/// The steps of a path. White space may stand between its parts.
fn read(text: &str) -> Option<Vec<Step>> {
    let mut rest = text.trim_start().strip_prefix('$')?.trim_start();
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let (step, behind) = step(rest)?;
        steps.push(step);
        rest = behind.trim_start();
    }
    Some(steps)
}

fn step(text: &str) -> Option<(Step, &str)> {
    let field = |name: &str| (!name.is_empty()).then(|| Step::Field(name.to_owned()));
    if let Some(rest) = text.strip_prefix('.') {
        let rest = rest.trim_start();
        let (name, rest) = rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()));
        return Some((field(name)?, rest));
    }
    for (open, quote, close) in [("['", '\'', "']"), ("[\"", '"', "\"]")] {
        if let Some(rest) = text.strip_prefix(open) {
            let rest = rest.trim_start();
            let (name, rest) = rest.split_at(rest.find([quote, '?'])?);
            return Some((field(name)?, rest.strip_prefix(close)?));
        }
    }
    let rest = text.strip_prefix('[')?.trim_start();
    let (digits, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
    Some((Step::Element(digits.parse().ok()?), rest.trim_start().strip_prefix(']')?))
}
