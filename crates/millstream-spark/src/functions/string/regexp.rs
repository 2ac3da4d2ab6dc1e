//! The functions of regular expressions.

mod replacement;

use std::sync::Arc;

use arrow::array::{ArrayRef, ListBuilder, StringBuilder};
use arrow::datatypes::{DataType, Field, Int32Type};
use millstream_core::{Error, ErrorKind, Result};

use super::super::rows::{Memo, Row, Rows};
use super::super::{Arguments, Call, Functions, Kernel, Typed, coercion, faults, scalar};
use super::regex::{Groups, Matches, Regex};
use super::{strict, texts};
use crate::types;
use replacement::Replacement;

pub(super) fn register(functions: &mut Functions) {
    functions.add_all(&["rlike", "regexp", "regexp_like"], |call| {
        call.arity(2..=2)?;
        Ok(strict("rlike", Regexp::Like, texts(call, 2)?, DataType::Boolean))
    });
    functions.add("regexp_count", |call| {
        call.arity(2..=2)?;
        Ok(strict("regexp_count", Regexp::Count, texts(call, 2)?, DataType::Int32))
    });
    functions.add("regexp_substr", |call| {
        call.arity(2..=2)?;
        Ok(scalar("regexp_substr", Regexp::Substring, texts(call, 2)?, DataType::Utf8, true))
    });
    functions.add("regexp_instr", |call| Ok(strict("regexp_instr", Regexp::Position, with_index(call, 0)?, DataType::Int32)));
    functions.add("regexp_extract", |call| Ok(strict("regexp_extract", Regexp::Extract, with_index(call, 1)?, DataType::Utf8)));
    functions.add("regexp_extract_all", |call| {
        let data_type = types::array(DataType::Utf8, true);
        Ok(strict("regexp_extract_all", Regexp::ExtractAll, with_index(call, 1)?, data_type))
    });
    functions.add("regexp_replace", replace);
    functions.add("split", |call| {
        call.arity(2..=3)?;
        let mut arguments = texts(call, 2)?;
        arguments.push(if call.len() == 3 { call.int(2)? } else { Typed::literal((-1_i32).into()) });
        Ok(strict("split", Regexp::Split, arguments, types::array(DataType::Utf8, false)))
    });
}

/// Text, pattern and the number of a group.
fn with_index(call: &Call<'_>, default: i32) -> Result<Vec<Typed>> {
    call.arity(2..=3)?;
    let mut arguments = texts(call, 2)?;
    arguments.push(if call.len() == 3 { call.int(2)? } else { Typed::literal(default.into()) });
    Ok(arguments)
}

fn replace(call: &Call<'_>) -> Result<Typed> {
    call.arity(3..=4)?;
    let mut arguments = texts(call, 3)?;
    let position = if call.len() == 4 { call.int(3)? } else { Typed::literal(1_i32.into()) };
    match coercion::constant_of(&position) {
        None => return Err(faults::not_foldable(call.name, 3)),
        Some(datafusion::scalar::ScalarValue::Int32(Some(position))) if position <= 0 => {
            let message = format!("the position of `regexp_replace` is {position} but counts from 1");
            return Err(faults::mismatch("VALUE_OUT_OF_RANGE", message));
        }
        Some(_) => {}
    }
    arguments.push(position);
    Ok(strict("regexp_replace", Regexp::Replace, arguments, DataType::Utf8))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Regexp {
    Like,
    Count,
    /// The first match, null if there is none.
    Substring,
    /// Where the first match begins, in UTF-16 units from 1.
    Position,
    /// A group of the first match.
    Extract,
    /// A group of every match.
    ExtractAll,
    Replace,
    Split,
}

impl Kernel for Regexp {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let rows = Rows::of(arguments)?;
        let mut patterns = Memo::new();
        let mut groups = Groups::default();
        let compile = |pattern: &str| Regex::compile(pattern).map_err(|what| invalid(pattern, self.name(), &what));
        match self {
            Regexp::Like => rows.booleans(|row| patterns.get(row.text(1), compile)?.is_match(row.text(0)).map(Some)),
            Regexp::Count => rows.numbers::<Int32Type>(|row| {
                let mut matches = Matches::new(patterns.get(row.text(1), compile)?, row.text(0), 0);
                let mut count = 0;
                while matches.next()?.is_some() {
                    count += 1;
                }
                Ok(Some(count))
            }),
            Regexp::Position => rows.numbers::<Int32Type>(|row| {
                let text = row.text(0);
                if !patterns.get(row.text(1), compile)?.find_at(text, 0, &mut groups)? {
                    return Ok(Some(0));
                }
                let before = text.get(..groups.whole().0).unwrap_or_default();
                Ok(i32::try_from(before.encode_utf16().count() + 1).ok())
            }),
            Regexp::Substring => rows.texts(|row, out| {
                let text = row.text(0);
                let found = patterns.get(row.text(1), compile)?.find_at(text, 0, &mut groups)?;
                let (start, end) = groups.whole();
                out.push_str(text.get(start..end).filter(|_| found).unwrap_or_default());
                Ok(found && end > start)
            }),
            Regexp::Extract => rows.texts(|row, out| {
                let (text, regex) = (row.text(0), patterns.get(row.text(1), compile)?);
                if regex.find_at(text, 0, &mut groups)? {
                    let group = group_index(row, regex, "regexp_extract")?;
                    out.push_str(groups.get(group).and_then(|(start, end)| text.get(start..end)).unwrap_or_default());
                }
                Ok(true)
            }),
            Regexp::ExtractAll => lists(&rows, true, |row, out| {
                let (text, regex) = (row.text(0), patterns.get(row.text(1), compile)?);
                let mut matches = Matches::new(regex, text, 0);
                while let Some(groups) = matches.next()? {
                    let group = group_index(row, regex, "regexp_extract_all")?;
                    out.append_value(groups.get(group).and_then(|(start, end)| text.get(start..end)).unwrap_or_default());
                }
                Ok(())
            }),
            Regexp::Split => lists(&rows, false, |row, out| {
                let (text, pattern) = (row.text(0), row.text(1));
                let limit = usize::try_from(row.int(2)).unwrap_or(0);
                if pattern.is_empty() && !text.is_empty() {
                    // Every character is a part, the last part also what the limit leaves.
                    let mut parts = text.char_indices().enumerate().map(|(place, (at, character))| {
                        let end = if place + 1 == limit { text.len() } else { at + character.len_utf8() };
                        text.get(at..end).unwrap_or_default()
                    });
                    let limit = if limit == 0 { usize::MAX } else { limit };
                    parts.by_ref().take(limit).for_each(|part| out.append_value(part));
                    return Ok(());
                }
                split(patterns.get(pattern, compile)?, text, limit, |part| out.append_value(part))
            }),
            Regexp::Replace => {
                let mut replacements = Memo::new();
                rows.texts(|row, out| {
                    let (text, regex) = (row.text(0), patterns.get(row.text(1), compile)?);
                    let replacement: &Replacement = replacements.get(row.text(2), |text| Ok(Replacement::parse(text)))?;
                    // The pattern sees nothing before the position.
                    let skipped = unit(text, usize::try_from(row.int(3) - 1).unwrap_or(0));
                    let (before, text) = text.split_at(skipped);
                    out.push_str(before);
                    let (mut matches, mut done) = (Matches::new(regex, text, 0), 0);
                    if skipped > 0 && text.is_empty() {
                        return Ok(true);
                    }
                    while let Some(groups) = matches.next()? {
                        let (start, end) = groups.whole();
                        out.push_str(text.get(done..start).unwrap_or_default());
                        replacement.write(regex, groups, text, out)?;
                        done = end;
                    }
                    out.push_str(text.get(done..).unwrap_or_default());
                    Ok(true)
                })
            }
        }
    }
}

impl Regexp {
    fn name(self) -> &'static str {
        match self {
            Regexp::Like => "rlike",
            Regexp::Count => "regexp_count",
            Regexp::Substring => "regexp_substr",
            Regexp::Position => "regexp_instr",
            Regexp::Extract => "regexp_extract",
            Regexp::ExtractAll => "regexp_extract_all",
            Regexp::Replace => "regexp_replace",
            Regexp::Split => "split",
        }
    }
}

/// The group that the third argument asks for.
fn group_index(row: Row<'_>, regex: &Regex, function: &str) -> Result<usize> {
    match usize::try_from(row.int(2)) {
        Ok(group) if group <= regex.groups() => Ok(group),
        _ => {
            let message = format!("`{function}` is asked for group {}, but the pattern has {} groups", row.int(2), regex.groups());
            Err(faults::row("INVALID_PARAMETER_VALUE.REGEX_GROUP_INDEX", "22023", message))
        }
    }
}

fn invalid(pattern: &str, function: &str, what: &str) -> Error {
    let message = format!("the regular expression '{pattern}' of `{function}` is invalid: {what}");
    if function == "split" {
        // Java's exception as it is.
        return Error::new(ErrorKind::BadRecord, "IllegalArgumentException", message);
    }
    faults::row("INVALID_PARAMETER_VALUE.PATTERN", "22023", message)
}

/// Hands over the parts of a text between matches, at most `limit` if it is not 0.
fn split<'a>(regex: &Regex, text: &'a str, limit: usize, mut part: impl FnMut(&'a str)) -> Result<()> {
    let (mut matches, mut done, mut count) = (Matches::new(regex, text, 0), 0, 1);
    while limit == 0 || count < limit {
        let Some(groups) = matches.next()? else { break };
        let (start, end) = groups.whole();
        // Nothing before the text is no part.
        if end == 0 {
            continue;
        }
        part(text.get(done..start).unwrap_or_default());
        (done, count) = (end, count + 1);
    }
    part(text.get(done..).unwrap_or_default());
    Ok(())
}

/// Where in its bytes a text's UTF-16 unit at a place begins.
fn unit(text: &str, place: usize) -> usize {
    let mut units = 0;
    for (at, character) in text.char_indices() {
        if units >= place {
            return at;
        }
        units += character.len_utf16();
    }
    text.len()
}

/// An array of texts for each row.
pub(super) fn lists(rows: &Rows, contains_null: bool, mut row: impl FnMut(Row<'_>, &mut StringBuilder) -> Result<()>) -> Result<ArrayRef> {
    let field = Arc::new(Field::new("element", DataType::Utf8, contains_null));
    let mut builder = ListBuilder::new(StringBuilder::new()).with_field(field);
    for at in 0..rows.len() {
        let values = rows.row(at);
        if values.is_complete() {
            row(values, builder.values())?;
        }
        builder.append(values.is_complete());
    }
    Ok(Arc::new(builder.finish()))
}
