//! Finding text in text.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Int32Type};
use millstream_core::Result;

use super::super::rows::{Row, Rows};
use super::super::{Arguments, Call, Functions, Kernel, Typed, scalar};
use super::slice::{byte_at, characters};
use super::{same_text_or_bytes, strict, texts};

pub(super) fn register(functions: &mut Functions) {
    functions.add("contains", |call| test(call, "contains", Test::Contains));
    functions.add("startswith", |call| test(call, "startswith", Test::StartsWith));
    functions.add("endswith", |call| test(call, "endswith", Test::EndsWith));
    functions.add("instr", |call| {
        call.arity(2..=2)?;
        Ok(strict("instr", Find::Instr, texts(call, 2)?, DataType::Int32))
    });
    functions.add_all(&["locate", "position"], |call| {
        call.arity(2..=3)?;
        let mut arguments = texts(call, 2)?;
        let nullable = arguments.iter().any(|argument| argument.nullable);
        if call.len() == 3 {
            arguments.push(call.int(2)?);
        }
        Ok(scalar("locate", Find::Locate, arguments, DataType::Int32, nullable))
    });
    functions.add("find_in_set", |call| {
        call.arity(2..=2)?;
        Ok(strict("find_in_set", Find::InSet, texts(call, 2)?, DataType::Int32))
    });
}

fn test(call: &Call<'_>, name: &'static str, test: Test) -> Result<Typed> {
    call.arity(2..=2)?;
    let (within, sought) = same_text_or_bytes(call, 0, 1)?;
    let nullable = within.data_type == DataType::Binary || within.nullable || sought.nullable;
    Ok(scalar(name, test, vec![within, sought], DataType::Boolean, nullable))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Test {
    Contains,
    StartsWith,
    EndsWith,
}

impl Kernel for Test {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Rows::of(arguments)?.booleans(|row| {
            let (within, sought) = (row.bytes(0), row.bytes(1));
            Ok(Some(match self {
                Test::Contains if row.is_binary(0) => sought.is_empty() || within.windows(sought.len()).any(|window| window == sought),
                Test::Contains => row.text(0).contains(row.text(1)),
                Test::StartsWith => within.starts_with(sought),
                Test::EndsWith => within.ends_with(sought),
            }))
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Find {
    /// Where in the first argument the second is.
    Instr,
    /// Where in the second argument the first is, from a position on.
    Locate,
    /// Which element of a comma-separated list the first argument is.
    InSet,
}

impl Kernel for Find {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let rows = Rows::of(arguments)?;
        match self {
            Find::Instr => rows.numbers::<Int32Type>(|row| Ok(Some(position(row.text(0), row.text(1), 1)))),
            Find::InSet => rows.numbers::<Int32Type>(|row| Ok(Some(in_set(row.text(0), row.text(1))))),
            Find::Locate => {
                let numbers = (0..rows.len()).map(|at| locate(rows.row(at))).collect::<arrow::array::Int32Array>();
                Ok(std::sync::Arc::new(numbers))
            }
        }
    }
}

/// No position is no place, whatever the texts are.
fn locate(row: Row<'_>) -> Option<i32> {
    let start = match row.len() {
        2 => 1,
        _ if row.is_null(2) => return Some(0),
        _ => row.int(2),
    };
    row.is_complete().then(|| if start < 1 { 0 } else { position(row.text(1), row.text(0), start) })
}

/// The position of a text in another from the character at `start` on; 0 when it is not there.
fn position(within: &str, sought: &str, start: i32) -> i32 {
    if sought.is_empty() {
        return 1;
    }
    let from = byte_at(within, usize::try_from(start - 1).unwrap_or(0));
    let found = within.get(from..).and_then(|rest| rest.find(sought));
    let before = found.and_then(|at| within.get(..from + at));
    before.and_then(|before| i32::try_from(characters(before) + 1).ok()).unwrap_or(0)
}

fn in_set(sought: &str, list: &str) -> i32 {
    if sought.contains(',') {
        return 0;
    }
    let place = list.split(',').position(|element| element == sought);
    place.and_then(|place| i32::try_from(place + 1).ok()).unwrap_or(0)
}
