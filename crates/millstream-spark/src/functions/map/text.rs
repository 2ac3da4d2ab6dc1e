//! `str_to_map`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringBuilder};
use arrow::datatypes::DataType;
use millstream_core::{Error, Result};
use regex::Regex;

use super::super::{Arguments, Call, Functions, Kernel, Typed, downcast, faults, keys, scalar};
use super::{Duplicates, MapBuilder};
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add("str_to_map", str_to_map);
}

/// A delimiter, which is a regular expression.
#[derive(Debug)]
enum Delimiter<'a> {
    /// Between any two characters.
    Nothing,
    Literal(&'a str),
    Pattern(Regex),
}

impl<'a> Delimiter<'a> {
    fn parse(text: &'a str) -> Result<Delimiter<'a>> {
        if text.is_empty() {
            return Ok(Delimiter::Nothing);
        }
        if !text.contains(|c: char| ".$|()[{^?*+\\".contains(c)) {
            return Ok(Delimiter::Literal(text));
        }
        let pattern = Regex::new(text).map_err(|error| {
            faults::row("INVALID_PARAMETER_VALUE.PATTERN", "22023", format!("'{text}' is no regular expression: {error}"))
        })?;
        Ok(Delimiter::Pattern(pattern))
    }

    /// The parts of a text, at most so many; the last one has the rest.
    fn split<'t>(&self, text: &'t str, limit: usize) -> Vec<&'t str> {
        match self {
            Delimiter::Nothing if text.is_empty() => vec![text],
            Delimiter::Nothing => {
                text.char_indices().take(limit).filter_map(|(at, character)| text.get(at..at + character.len_utf8())).collect()
            }
            Delimiter::Literal(delimiter) => text.splitn(limit, delimiter).collect(),
            Delimiter::Pattern(pattern) => {
                let mut parts = Vec::new();
                let mut start = 0;
                for found in pattern.find_iter(text) {
                    if parts.len() + 1 >= limit {
                        break;
                    }
                    // An empty match at the beginning splits nothing off.
                    if found.end() > 0 {
                        parts.extend(text.get(start..found.start()));
                        start = found.end();
                    }
                }
                parts.extend(text.get(start..));
                parts
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct StrToMap {
    data_type: DataType,
    duplicates: Duplicates,
}

impl Kernel for StrToMap {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let columns = arguments.arrays()?;
        let [texts, pairs, inner] = columns.as_slice() else { return Err(Error::internal("there are a text and two delimiters")) };
        let (texts, pairs, inner) = (downcast::strings(texts)?, downcast::strings(pairs)?, downcast::strings(inner)?);
        let (mut map_keys, mut values) = (StringBuilder::new(), StringBuilder::new());
        let mut counts: Vec<Option<usize>> = Vec::with_capacity(texts.len());
        for row in 0..texts.len() {
            let parts = (downcast::text(texts, row), downcast::text(pairs, row), downcast::text(inner, row));
            let (Some(text), Some(between_pairs), Some(inside)) = parts else {
                counts.push(None);
                continue;
            };
            let (between_pairs, inside) = (Delimiter::parse(between_pairs)?, Delimiter::parse(inside)?);
            let entries = between_pairs.split(text, usize::MAX);
            for entry in &entries {
                let parts = inside.split(entry, 2);
                map_keys.append_value(parts.first().copied().unwrap_or_default());
                values.append_option(parts.get(1));
            }
            counts.push(Some(entries.len()));
        }
        let (map_keys, values): (ArrayRef, ArrayRef) = (Arc::new(map_keys.finish()), Arc::new(values.finish()));
        let compared = keys::of_columns(&[&map_keys])?;
        let mut builder = MapBuilder::new(self.data_type.clone(), self.duplicates, &[&map_keys], &[&values], &compared)?;
        let mut next = 0;
        for count in counts {
            for index in next..next + count.unwrap_or(0) {
                builder.push((0, index), (0, index))?;
            }
            next += count.unwrap_or(0);
            builder.end(count.is_some())?;
        }
        builder.finish()
    }
}

fn str_to_map(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=3)?;
    let delimiter = |index: usize, default: &str| if index < call.len() { call.string(index) } else { Ok(Typed::text(default)) };
    let arguments = vec![call.exactly(0, &[DataType::Utf8])?, delimiter(1, ",")?, delimiter(2, ":")?];
    let nullable = arguments.iter().any(|argument| argument.nullable);
    let data_type = types::map(DataType::Utf8, DataType::Utf8, true);
    let kernel = StrToMap { data_type: data_type.clone(), duplicates: Duplicates::of(call.settings) };
    Ok(scalar("str_to_map", kernel, arguments, data_type, nullable))
}
