//! `sentences`: text as sentences of words.

use std::sync::Arc;

use arrow::array::{ArrayRef, ListBuilder, StringBuilder};
use arrow::datatypes::{DataType, Field};
use millstream_core::Result;

use super::super::rows::Rows;
use super::super::{Arguments, Call, Functions, Kernel, Typed, scalar};
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add("sentences", build);
}

/// `sentences(text[, language[, country]])`: the rules of English hold whatever the language.
fn build(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=3)?;
    let text = super::texts(call, call.len())?.into_iter().next().unwrap_or_else(|| Typed::null(&DataType::Utf8));
    let data_type = types::array(types::array(DataType::Utf8, false), false);
    Ok(scalar("sentences", Sentences, vec![text], data_type, true))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Sentences;

impl Kernel for Sentences {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let rows = Rows::of(arguments)?;
        let words = Arc::new(Field::new("element", DataType::Utf8, false));
        let inner = Arc::new(Field::new("element", DataType::List(words.clone()), false));
        let mut builder = ListBuilder::new(ListBuilder::new(StringBuilder::new()).with_field(words)).with_field(inner);
        for at in 0..rows.len() {
            let row = rows.row(at);
            if row.is_complete() {
                for sentence in sentences(row.text(0)) {
                    let list = builder.values();
                    words_of(sentence).for_each(|word| list.values().append_value(word));
                    list.append(true);
                }
            }
            builder.append(row.is_complete());
        }
        Ok(Arc::new(builder.finish()))
    }
}

/// The sentences of a text: they end behind `!`, `?` or `.` and the blanks that follow, unless a small letter goes on after a `.`.
fn sentences(text: &str) -> Vec<&str> {
    let (mut sentences, mut start) = (Vec::new(), 0);
    let mut characters = text.char_indices().peekable();
    while let Some((_, character)) = characters.next() {
        if character == '\u{2029}' {
            let end = characters.peek().map_or(text.len(), |(at, _)| *at);
            sentences.extend(text.get(start..end));
            start = end;
            continue;
        }
        if !matches!(character, '.' | '!' | '?') {
            continue;
        }
        let mut firm = character != '.';
        while let Some((_, more)) =
            characters.next_if(|(_, next)| matches!(next, '.' | '!' | '?' | '"' | '\'' | ')' | ']' | '}' | '”' | '’'))
        {
            firm |= matches!(more, '!' | '?');
        }
        let mut blank = false;
        while characters.next_if(|(_, next)| next.is_whitespace()).is_some() {
            blank = true;
        }
        let end = characters.peek().map_or(text.len(), |(at, _)| *at);
        let goes_on = characters.peek().is_some_and(|(_, next)| next.is_lowercase());
        if firm || blank && !goes_on {
            sentences.extend(text.get(start..end));
            start = end;
        }
    }
    sentences.extend(text.get(start..).filter(|rest| !rest.is_empty()));
    sentences
}

/// The words: letters and digits, joined by single apostrophes, points, commas, hyphens and underscores between them. An amount of money
/// begins with its sign and is no word.
fn words_of(sentence: &str) -> impl Iterator<Item = &str> {
    let mut rest = sentence;
    std::iter::from_fn(move || {
        loop {
            let (skipped, word) = rest.split_at(rest.find(|c: char| c.is_alphanumeric() || c == '_')?);
            let (word, behind) = word.split_at(end_of_word(word));
            rest = behind;
            if !(skipped.ends_with(['$', '£', '€', '¥']) && word.starts_with(char::is_numeric)) {
                return Some(word);
            }
        }
    })
}

/// Where the word that a text begins with ends.
fn end_of_word(text: &str) -> usize {
    let mut before = ' ';
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let next = characters.peek().map_or(' ', |(_, next)| *next);
        let between_letters = before.is_alphabetic() && next.is_alphabetic();
        let between_digits = before.is_numeric() && next.is_numeric();
        let belongs = match character {
            '\'' | '’' | '-' => between_letters,
            '.' => between_letters || between_digits,
            ',' => between_digits,
            other => other.is_alphanumeric() || other == '_',
        };
        if !belongs {
            return at;
        }
        before = character;
    }
    text.len()
}
