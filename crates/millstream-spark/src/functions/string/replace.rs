//! Text with parts exchanged, in another order, or in quotes.

use std::collections::HashMap;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use millstream_core::Result;

use super::super::rows::{Memo, Rows};
use super::super::{Arguments, Call, Functions, Kernel, Typed, scalar};
use super::{strict, text_or_bytes, texts};

pub(super) fn register(functions: &mut Functions) {
    functions.add("replace", |call| {
        call.arity(2..=3)?;
        let mut arguments = texts(call, call.len())?;
        if call.len() == 2 {
            arguments.push(Typed::text(""));
        }
        Ok(strict("replace", Replace::Text, arguments, DataType::Utf8))
    });
    functions.add("translate", |call| {
        call.arity(3..=3)?;
        Ok(strict("translate", Replace::Characters, texts(call, 3)?, DataType::Utf8))
    });
    functions.add("quote", |call| {
        call.arity(1..=1)?;
        Ok(scalar("quote", Replace::Quote, texts(call, 1)?, DataType::Utf8, true))
    });
    functions.add("reverse", reverse);
}

fn reverse(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=1)?;
    let value = call.value(0)?;
    if matches!(value.data_type, DataType::List(_)) {
        let (value, data_type) = (value.clone(), value.data_type.clone());
        return Ok(strict("reverse", super::join::ReverseArrays, vec![value], data_type));
    }
    let value = text_or_bytes(call, 0)?;
    let data_type = value.data_type.clone();
    Ok(strict("reverse", Replace::Reverse, vec![value], data_type))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Replace {
    /// The third argument in place of the second.
    Text,
    /// Each character of the second argument becomes the one at its place in the third, or nothing.
    Characters,
    /// The characters, or the bytes, from the last to the first.
    Reverse,
    /// In single quotes, those inside with a backslash.
    Quote,
}

impl Kernel for Replace {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (mut table, mut key) = (Memo::new(), String::new());
        let rows = Rows::of(arguments)?;
        if *self == Replace::Reverse && rows.len() > 0 && rows.row(0).is_binary(0) {
            return rows.bytes(|row, out| {
                out.extend(row.bytes(0).iter().rev());
                Ok(true)
            });
        }
        rows.texts(|row, out| {
            let text = row.text(0);
            match self {
                Replace::Text if row.text(1).is_empty() => out.push_str(text),
                Replace::Text => {
                    for (number, part) in text.split(row.text(1)).enumerate() {
                        if number > 0 {
                            out.push_str(row.text(2));
                        }
                        out.push_str(part);
                    }
                }
                Replace::Characters => {
                    let (from, to) = (row.text(1), row.text(2));
                    key.clear();
                    key.extend([from, "\0\0", to]);
                    let table: &HashMap<char, Option<char>> = table.get(&key, |_| Ok(translation(from, to)))?;
                    out.extend(text.chars().filter_map(|c| table.get(&c).copied().unwrap_or(Some(c))));
                }
                Replace::Reverse => out.extend(text.chars().rev()),
                Replace::Quote => {
                    out.push('\'');
                    out.push_str(&text.replace('\'', "\\'"));
                    out.push('\'');
                }
            }
            Ok(true)
        })
    }
}

/// What becomes of characters; the first of several equal ones counts.
fn translation(from: &str, to: &str) -> HashMap<char, Option<char>> {
    let (mut table, mut to) = (HashMap::new(), to.chars());
    for character in from.chars() {
        let by = to.next().filter(|by| *by != '\0');
        table.entry(character).or_insert(by);
    }
    table
}
