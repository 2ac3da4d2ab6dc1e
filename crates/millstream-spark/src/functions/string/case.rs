//! Upper and lower case.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use millstream_core::Result;

use super::super::rows::Rows;
use super::super::{Arguments, Call, Functions, Kernel, Typed};

pub(super) fn register(functions: &mut Functions) {
    functions.add_all(&["upper", "ucase"], |call| build(call, "upper", Case::Upper));
    functions.add_all(&["lower", "lcase"], |call| build(call, "lower", Case::Lower));
    functions.add("initcap", |call| build(call, "initcap", Case::Title));
}

fn build(call: &Call<'_>, name: &'static str, case: Case) -> Result<Typed> {
    call.arity(1..=1)?;
    Ok(super::strict(name, case, super::texts(call, 1)?, DataType::Utf8))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Case {
    Upper,
    Lower,
    /// The first letter of each word is upper case, the others are lower case; words are what spaces separate.
    Title,
}

impl Kernel for Case {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Rows::of(arguments)?.texts(|row, out| {
            let text = row.text(0);
            match self {
                Case::Upper if text.is_ascii() => out.extend(text.chars().map(|c| c.to_ascii_uppercase())),
                Case::Upper => out.push_str(&text.to_uppercase()),
                Case::Lower if text.is_ascii() => out.extend(text.chars().map(|c| c.to_ascii_lowercase())),
                Case::Lower => out.push_str(&text.to_lowercase()),
                Case::Title => title(text, out),
            }
            Ok(true)
        })
    }
}

fn title(text: &str, out: &mut String) {
    for word in text.split_inclusive(' ') {
        let Some(first) = word.chars().next() else { continue };
        // The end of a word decides about the form of its last letter, so it is lowered as a whole.
        let lower = word.to_lowercase();
        let kept: usize = first.to_lowercase().map(char::len_utf8).sum();
        title_char(first, out);
        out.push_str(lower.get(kept..).unwrap_or_default());
    }
}

/// The title case of a character: its upper case, with only the first letter of ligatures and digraphs capital.
fn title_char(c: char, out: &mut String) {
    let digraph = match c {
        'ǆ' | 'Ǆ' => 'ǅ',
        'ǉ' | 'Ǉ' => 'ǈ',
        'ǌ' | 'Ǌ' => 'ǋ',
        'ǳ' | 'Ǳ' => 'ǲ',
        _ => {
            let mut upper = c.to_uppercase();
            out.extend(upper.next());
            out.extend(upper.flat_map(char::to_lowercase));
            return;
        }
    };
    out.push(digraph);
}
