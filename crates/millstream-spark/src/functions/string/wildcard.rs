//! `LIKE` and `ILIKE`.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use millstream_core::{Error, Result};

use super::super::rows::{Memo, Rows};
use super::super::{Arguments, Call, Functions, Kernel, Typed};
use super::{strict, texts};

pub(super) fn register(functions: &mut Functions) {
    functions.add("like", |call| build(call, "like", false));
    functions.add("ilike", |call| build(call, "ilike", true));
}

fn build(call: &Call<'_>, name: &'static str, any_case: bool) -> Result<Typed> {
    call.arity(2..=3)?;
    let escape = match call.len() {
        2 => '\\',
        _ => {
            let text = call.constant_text(2)?.unwrap_or_default();
            let mut characters = text.chars();
            match (characters.next(), characters.next()) {
                (Some(escape), None) => escape,
                _ => {
                    let message = format!("the escape of `{name}` is '{text}' but must be one character");
                    return Err(Error::invalid("INVALID_ESCAPE_CHAR", message).with_sqlstate("42604"));
                }
            }
        }
    };
    Ok(strict(name, Like { escape, any_case }, texts(call, 2)?, DataType::Boolean))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Like {
    escape: char,
    any_case: bool,
}

impl Kernel for Like {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let mut patterns = Memo::new();
        Rows::of(arguments)?.booleans(|row| {
            let pattern = patterns.get(row.text(1), |text| {
                if self.any_case { Pattern::compile(&text.to_lowercase(), self.escape) } else { Pattern::compile(text, self.escape) }
            })?;
            Ok(Some(if self.any_case { pattern.matches(&row.text(0).to_lowercase()) } else { pattern.matches(row.text(0)) }))
        })
    }
}

/// A pattern: the pieces between its `%`.
#[derive(Debug)]
struct Pattern {
    pieces: Vec<Piece>,
}

/// Characters in a row; `None` stands for any.
#[derive(Debug, Default)]
struct Piece {
    characters: Vec<Option<char>>,
    /// The characters, if none stands for any.
    literal: Option<String>,
}

impl Pattern {
    fn compile(text: &str, escape: char) -> Result<Pattern> {
        let mut pieces = vec![Piece::default()];
        let mut add = |character: Option<Option<char>>| match character {
            Some(character) => pieces.iter_mut().last().into_iter().for_each(|piece| piece.characters.push(character)),
            None => pieces.push(Piece::default()),
        };
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            match character {
                _ if character == escape => match characters.next() {
                    Some(next) if next == escape || next == '_' || next == '%' => add(Some(Some(next))),
                    Some(next) => return Err(invalid("ESC_IN_THE_MIDDLE", text, &format!("the escape must not stand before '{next}'"))),
                    None => return Err(invalid("ESC_AT_THE_END", text, "the escape must not stand at its end")),
                },
                '%' => add(None),
                '_' => add(Some(None)),
                other => add(Some(Some(other))),
            }
        }
        for piece in &mut pieces {
            piece.literal = piece.characters.iter().copied().collect();
        }
        Ok(Pattern { pieces })
    }

    fn matches(&self, text: &str) -> bool {
        let [first, middle @ .., last] = self.pieces.as_slice() else {
            // No `%`: all of the text is the one piece.
            return self.pieces.first().is_some_and(|piece| piece.prefix_of(text) == Some(text.len()));
        };
        let Some(mut rest) = first.prefix_of(text).and_then(|end| text.get(end..)) else { return false };
        for piece in middle {
            match piece.find_in(rest).and_then(|end| rest.get(end..)) {
                Some(behind) => rest = behind,
                None => return false,
            }
        }
        last.is_suffix_of(rest)
    }
}

impl Piece {
    /// Where the piece ends if the text begins with it.
    fn prefix_of(&self, text: &str) -> Option<usize> {
        if let Some(literal) = &self.literal {
            return text.starts_with(literal.as_str()).then_some(literal.len());
        }
        let mut found = text.chars();
        for expected in &self.characters {
            let character = found.next()?;
            if expected.is_some_and(|expected| expected != character) {
                return None;
            }
        }
        Some(text.len() - found.as_str().len())
    }

    /// Where the first occurrence ends.
    fn find_in(&self, text: &str) -> Option<usize> {
        if let Some(literal) = &self.literal {
            return text.find(literal.as_str()).map(|at| at + literal.len());
        }
        let starts = text.char_indices().map(|(at, _)| at);
        starts.filter_map(|at| Some(at + self.prefix_of(text.get(at..)?)?)).next()
    }

    fn is_suffix_of(&self, text: &str) -> bool {
        if let Some(literal) = &self.literal {
            return text.ends_with(literal.as_str());
        }
        let mut found = text.chars().rev();
        self.characters.iter().rev().all(|expected| found.next().is_some_and(|character| expected.is_none_or(|e| e == character)))
    }
}

fn invalid(subclass: &str, pattern: &str, what: &str) -> Error {
    Error::invalid(format!("INVALID_FORMAT.{subclass}"), format!("the pattern '{pattern}' is invalid: {what}")).with_sqlstate("42601")
}
