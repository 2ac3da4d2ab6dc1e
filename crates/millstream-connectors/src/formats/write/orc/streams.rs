//! Streams of one column of one stripe: run-length encodings and compression.

use std::io::Write;

use flate2::write::DeflateEncoder;
use millstream_core::Result;

use super::message::{varint, zigzag};
use crate::formats::write::encoding_failed;

/// Bytes that are compressed at once.
pub(super) const BLOCK: usize = 256 * 1024;

/// The longest run: the length has seven bits and counts from three.
const MAX_RUN: usize = 130;
const MIN_RUN: usize = 3;

/// The most values that stand one by one.
const MAX_LITERALS: usize = 128;

/// What a stream holds.
pub(super) mod kind {
    pub(crate) const PRESENT: u64 = 0;
    pub(crate) const DATA: u64 = 1;
    pub(crate) const LENGTH: u64 = 2;
    pub(crate) const SECONDARY: u64 = 5;
}

/// A stream that is ready.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) kind: u64,
    pub(super) column: u64,
    pub(super) bytes: Vec<u8>,
}

/// Integers in run-length encoding version 1: runs with a fixed step, and values one by one.
pub(super) fn integers(values: &[i64], signed: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(values.len());
    let put = |value: i64, out: &mut Vec<u8>| {
        let coded = if signed { zigzag(i128::from(value)) } else { u128::from(value.cast_unsigned()) };
        varint(coded, out);
    };
    runs(
        values,
        |first, second| i8::try_from(second.wrapping_sub(first)).ok().filter(|_| second.checked_sub(first).is_some()),
        |part| match part {
            Part::Run { first, step, length } => {
                out.push((length - MIN_RUN) as u8);
                out.push(step.cast_unsigned());
                put(*first, &mut out);
            }
            Part::Literals(values) => {
                out.push((values.len() as u8).wrapping_neg());
                values.iter().for_each(|value| put(*value, &mut out));
            }
        },
    );
    out
}

/// Bytes in run-length encoding: runs of equal bytes, and bytes one by one.
pub(super) fn byte_runs(values: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(values.len() / 8 + 2);
    runs(
        values,
        |first, second| (first == second).then_some(0),
        |part| match part {
            Part::Run { first, length, .. } => out.extend([(length - MIN_RUN) as u8, *first]),
            Part::Literals(values) => {
                out.push((values.len() as u8).wrapping_neg());
                out.extend_from_slice(values);
            }
        },
    );
    out
}

/// Truth values, eight a byte with the first in the highest bit, in run-length encoding.
pub(super) fn bits(values: &[bool]) -> Vec<u8> {
    let pack = |eight: &[bool]| eight.iter().zip((0..8).rev()).fold(0_u8, |byte, (bit, at)| byte | u8::from(*bit) << at);
    byte_runs(&values.chunks(8).map(pack).collect::<Vec<_>>())
}

enum Part<'a, T> {
    Run { first: &'a T, step: i8, length: usize },
    Literals(&'a [T]),
}

/// Cuts values into runs, in which every step is the same, and stretches without.
fn runs<T: Copy + PartialEq>(values: &[T], step: impl Fn(T, T) -> Option<i8>, mut emit: impl FnMut(Part<'_, T>)) {
    let mut rest = values;
    let mut literals = 0;
    while let Some(tail) = rest.get(literals..).filter(|tail| !tail.is_empty()) {
        let run = run_length(tail, &step);
        if let (Some(length), [first, second, ..]) = (run, tail) {
            literal_parts(rest.get(..literals).unwrap_or_default(), &mut emit);
            emit(Part::Run { first, step: step(*first, *second).unwrap_or(0), length });
            rest = tail.get(length..).unwrap_or_default();
            literals = 0;
        } else {
            literals += 1;
        }
    }
    literal_parts(rest, &mut emit);
}

fn literal_parts<'a, T>(values: &'a [T], emit: &mut impl FnMut(Part<'a, T>)) {
    values.chunks(MAX_LITERALS).for_each(|chunk| emit(Part::Literals(chunk)));
}

/// The length of the run at the beginning, if it is long enough to be one.
fn run_length<T: Copy>(values: &[T], step: &impl Fn(T, T) -> Option<i8>) -> Option<usize> {
    let [first, second, ..] = values else { return None };
    let by = step(*first, *second)?;
    let steps = values.windows(2).take(MAX_RUN - 1).take_while(|pair| matches!(pair, [a, b] if step(*a, *b) == Some(by))).count();
    Some(steps + 1).filter(|length| *length >= MIN_RUN)
}

/// A codec of ORC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Zlib,
    Snappy,
    Lz4,
    Zstd,
}

impl Compression {
    /// Its number in the postscript.
    pub(super) fn number(self) -> u64 {
        match self {
            Compression::None => 0,
            Compression::Zlib => 1,
            Compression::Snappy => 2,
            Compression::Lz4 => 4,
            Compression::Zstd => 5,
        }
    }

    /// What file names have before `.orc`.
    pub(super) fn extension(self) -> &'static str {
        match self {
            Compression::None => "",
            Compression::Zlib => ".zlib",
            Compression::Snappy => ".snappy",
            Compression::Lz4 => ".lz4",
            Compression::Zstd => ".zstd",
        }
    }

    /// The bytes in blocks, each behind its length times two, plus one where compression did not make it shorter.
    ///
    /// # Errors
    /// `FILE_ENCODING_FAILED`.
    pub(super) fn compress(self, bytes: &[u8]) -> Result<Vec<u8>> {
        if self == Compression::None {
            return Ok(bytes.to_vec());
        }
        let mut out = Vec::new();
        for block in bytes.chunks(BLOCK) {
            let compressed = self.block(block).map_err(encoding_failed("ORC"))?;
            let (stored, original) = if compressed.len() < block.len() { (compressed.as_slice(), 0) } else { (block, 1) };
            let header = (stored.len() << 1 | original).to_le_bytes();
            out.extend_from_slice(header.get(..3).unwrap_or_default());
            out.extend_from_slice(stored);
        }
        Ok(out)
    }

    fn block(self, block: &[u8]) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(match self {
            Compression::None => block.to_vec(),
            Compression::Zlib => {
                let mut encoder = DeflateEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(block)?;
                encoder.finish()?
            }
            Compression::Snappy => snap::raw::Encoder::new().compress_vec(block)?,
            Compression::Lz4 => lz4_flex::block::compress(block),
            Compression::Zstd => zstd::bulk::compress(block, 3)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the ORC specification.
    #[test]
    fn run_length_encodings_are_those_of_the_specification() {
        assert_eq!(integers(&[7; 100], false), [0x61, 0x00, 0x07]);
        assert_eq!(integers(&(1..=100).rev().collect::<Vec<_>>(), false), [0x61, 0xFF, 0x64]);
        assert_eq!(integers(&[2, 3, 6, 7, 11], false), [0xFB, 0x02, 0x03, 0x06, 0x07, 0x0B]);
        assert_eq!(byte_runs(&[0; 100]), [0x61, 0x00]);
        assert_eq!(byte_runs(&[0x44, 0x45]), [0xFE, 0x44, 0x45]);
        assert_eq!(bits(&[true, false, false, false, false, false, false, false]), [0xFF, 0x80]);
    }

    #[test]
    fn runs_and_stretches_are_cut_at_their_limits() {
        assert_eq!(byte_runs(&[9; 131]), [127, 9, 0xFF, 9]);
        let mixed: Vec<u8> = (0..129).map(|i| if i % 2 == 0 { 1 } else { 2 }).collect();
        let coded = byte_runs(&mixed);
        assert_eq!((coded[0], coded[129], coded.len()), (0x80, 0xFF, 131));
        assert_eq!(integers(&[i64::MAX, i64::MIN, 0], true).len(), 1 + 10 + 10 + 1);
    }
}
