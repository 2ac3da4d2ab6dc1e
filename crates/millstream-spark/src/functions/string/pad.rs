//! Text and bytes made longer.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::scalar::ScalarValue;
use millstream_core::Result;

use super::super::rows::{Rows, check_room};
use super::super::{Arguments, Call, Functions, Kernel, Typed};
use super::slice::{byte_at, characters};
use super::strict;

pub(super) fn register(functions: &mut Functions) {
    functions.add("lpad", |call| pad(call, "lpad", true));
    functions.add("rpad", |call| pad(call, "rpad", false));
    functions.add("repeat", |call| {
        call.arity(2..=2)?;
        Ok(strict("repeat", Repeat, vec![call.string(0)?, call.int(1)?], DataType::Utf8))
    });
    functions.add("space", |call| {
        call.arity(1..=1)?;
        Ok(strict("space", Repeat, vec![Typed::text(" "), call.int(0)?], DataType::Utf8))
    });
}

/// Bytes are padded with bytes, by default zeros; text with text, by default spaces.
fn pad(call: &Call<'_>, name: &'static str, left: bool) -> Result<Typed> {
    call.arity(2..=3)?;
    let binary = |index: usize| Ok::<_, millstream_core::Error>(call.value(index)?.data_type == DataType::Binary);
    let length = call.int(1)?;
    if call.len() == 2 && binary(0)? {
        let zero = Typed::literal(ScalarValue::Binary(Some(vec![0])));
        return Ok(strict(name, Pad { left }, vec![call.binary(0)?, length, zero], DataType::Binary));
    }
    if call.len() == 3 && binary(0)? && binary(2)? {
        return Ok(strict(name, Pad { left }, vec![call.binary(0)?, length, call.binary(2)?], DataType::Binary));
    }
    let padding = if call.len() == 3 { call.string(2)? } else { Typed::text(" ") };
    Ok(strict(name, Pad { left }, vec![call.string(0)?, length, padding], DataType::Utf8))
}

/// Makes a value of an exact length, cutting off its end or adding repetitions of the padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Pad {
    left: bool,
}

impl Kernel for Pad {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let rows = Rows::of(arguments)?;
        if rows.len() > 0 && rows.row(0).is_binary(0) {
            return rows.bytes(|row, out| {
                let (value, length, padding) = (row.bytes(0), usize::try_from(row.int(1)).unwrap_or(0), row.bytes(2));
                let kept = value.get(..length.min(value.len())).unwrap_or_default();
                let missing = length - kept.len();
                check_room(out.len(), length)?;
                let fill = padding.iter().copied().cycle().take(missing);
                if self.left {
                    out.extend(fill);
                    out.extend_from_slice(kept);
                } else {
                    out.extend_from_slice(kept);
                    out.extend(fill);
                }
                Ok(true)
            });
        }
        rows.texts(|row, out| {
            let (value, length, padding) = (row.text(0), usize::try_from(row.int(1)).unwrap_or(0), row.text(2));
            let have = characters(value);
            if have >= length || padding.is_empty() {
                out.push_str(value.get(..byte_at(value, length)).unwrap_or_default());
                return Ok(true);
            }
            check_room(out.len(), value.len() + (length - have).saturating_mul(padding.chars().map(char::len_utf8).max().unwrap_or(1)))?;
            let fill = padding.chars().cycle().take(length - have);
            if self.left {
                out.extend(fill);
                out.push_str(value);
            } else {
                out.push_str(value);
                out.extend(fill);
            }
            Ok(true)
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Repeat;

impl Kernel for Repeat {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Rows::of(arguments)?.texts(|row, out| {
            let (text, times) = (row.text(0), usize::try_from(row.int(1)).unwrap_or(0));
            check_room(out.len(), text.len().saturating_mul(times))?;
            if !text.is_empty() {
                // At once: growing by doubling would take half as much again.
                out.reserve_exact(text.len() * times);
                (0..times).for_each(|_| out.push_str(text));
            }
            Ok(true)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Settings;
    use super::super::super::testing::outcome;

    #[test]
    fn values_beyond_a_gigabyte_are_refused_before_they_are_made() {
        for (name, arguments) in [
            ("repeat", "'a';2147483600"),
            ("repeat", "'abcd';1000000000"),
            ("space", "2147483600"),
            ("lpad", "'a';2147483600;'xy'"),
            ("rpad", "'a';2147483600"),
            ("array_repeat", "1;2147483600"),
            ("array_repeat", "'a text of some length';200000000"),
            ("sequence", "1;2000000000"),
            ("sequence", "2000000000000;1;-1000"),
        ] {
            let found = outcome(name, arguments, &Settings::default());
            assert_eq!(found, "COLLECTION_SIZE_LIMIT_EXCEEDED.FUNCTION", "{name}({arguments})");
        }
        assert_eq!(outcome("repeat", "'ab';2", &Settings::default()), "string abab");
    }
}
