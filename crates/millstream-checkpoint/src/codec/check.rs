//! The checksum that a record carries inside its own text.
//!
//! Spark's log files have no place for a checksum, but Spark ignores JSON fields that it does not know. A record of ours therefore has, as
//! the last thing in its first JSON line, `"millstream":{…,"check":"CCCCCCCC-LLLLLLLL"}}`: the CRC32C of the whole file with the 17
//! characters of the value replaced by zeros, and the length of the whole file, both in hexadecimal. The length tells a write that was cut
//! off from bytes that changed later.
//!
//! An entry of a source's log has exactly Spark's fields, so that whoever reads the log sees what Spark would have written. There the same two
//! numbers are white space before the brace that closes the first entry: 64 characters, one for each bit, a tab for 1 and a space for 0.

use std::ops::Range;

use bytes::Bytes;

const KEY: &[u8] = b"\"check\":\"";
const BLANK: &str = "00000000-00000000";
const CLOSE: &[u8] = b"\"}}";

/// The last field of a record's `millstream` object, its value still to be filled in by [`seal`].
pub(crate) fn blank_field() -> String {
    format!("\"check\":\"{BLANK}\"}}}}")
}

/// Fills in the checksum of a record that consists of `head`, which ends with [`blank_field`], and `rest`.
pub(crate) fn seal(head: &mut String, rest: &[Bytes]) {
    let value = head.len() - CLOSE.len() - BLANK.len();
    let length = head.len() + rest.iter().map(Bytes::len).sum::<usize>();
    let crc = rest.iter().fold(crc32c::crc32c(head.as_bytes()), |crc, part| crc32c::crc32c_append(crc, part));
    head.replace_range(value..value + BLANK.len(), &format!("{crc:08x}-{length:08x}"));
}

/// The characters that hold a checksum without being seen.
const BLANKS: usize = 64;

/// Makes a record's first part of `open`, a JSON object without its closing brace, so that the checksum of it and `rest` is the white space
/// before the brace.
pub(crate) fn seal_with_blanks(open: &str, rest: &[Bytes]) -> String {
    let plain = format!("{open}{:BLANKS$}}}", "");
    let length = plain.len() + rest.iter().map(Bytes::len).sum::<usize>();
    let crc = rest.iter().fold(crc32c::crc32c(plain.as_bytes()), |crc, part| crc32c::crc32c_append(crc, part));
    let value = u64::from(crc) << 32 | length as u64 & u64::from(u32::MAX);
    let bits: String = (0..BLANKS).rev().map(|bit| if value >> bit & 1 == 1 { '\t' } else { ' ' }).collect();
    format!("{open}{bits}}}")
}

/// Reads the checksum in the white space before the brace at `line_end`, and compares.
pub(crate) fn verify_blanks(record: &[u8], line_end: usize) -> Seal {
    let Some(area) = blanks(record, line_end) else { return Seal::Absent };
    let (before, rest) = record.split_at(area.start);
    let (stated, after) = rest.split_at(BLANKS);
    let mut value = 0_u64;
    for blank in stated {
        value = value << 1
            | match blank {
                b' ' => 0,
                b'\t' => 1,
                _ => return Seal::Changed,
            };
    }
    let actual = crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(before), &[b' '; BLANKS]), after);
    Seal::of(u64::from(actual) == value >> 32, value & u64::from(u32::MAX), record.len() as u64 & u64::from(u32::MAX))
}

/// Where the checksum is that [`seal_with_blanks`] put into the line that ends at `line_end`.
pub(crate) fn blanks(record: &[u8], line_end: usize) -> Option<Range<usize>> {
    let open = record.get(..line_end)?.strip_suffix(b"}")?;
    let blank = open.iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r')).count();
    (blank >= BLANKS).then(|| open.len() - BLANKS..open.len())
}

/// What the checksum says about a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seal {
    /// The record has none: another program wrote it, or its place is destroyed.
    Absent,
    /// The record is what was written.
    Intact,
    /// The record is shorter than what was written.
    CutOff,
    /// The record has other bytes than what was written.
    Changed,
}

impl Seal {
    fn of(same: bool, stated_length: u64, length: u64) -> Self {
        match (same, stated_length == length) {
            (true, true) => Seal::Intact,
            (false, false) if stated_length > length => Seal::CutOff,
            _ => Seal::Changed,
        }
    }
}

/// Reads the checksum that ends at `line_end` in `record`, and compares.
pub(crate) fn verify(record: &[u8], line_end: usize) -> Seal {
    let Some(value) = value_start(record.get(..line_end).unwrap_or_default()) else { return Seal::Absent };
    let stated = &record[value..value + BLANK.len()];
    let Some((crc, length)) = parse(stated) else { return Seal::Changed };
    let actual =
        crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(&record[..value]), BLANK.as_bytes()), &record[value + BLANK.len()..]);
    Seal::of(actual == crc, length, record.len() as u64)
}

/// Length of [`blank_field`] and of every filled-in one.
pub(crate) const FIELD_LENGTH: usize = KEY.len() + BLANK.len() + CLOSE.len();

fn value_start(line: &[u8]) -> Option<usize> {
    let field = line.len().checked_sub(FIELD_LENGTH)?;
    (line[field..].starts_with(KEY) && line.ends_with(CLOSE)).then_some(field + KEY.len())
}

fn parse(value: &[u8]) -> Option<(u32, u64)> {
    let (crc, length) = std::str::from_utf8(value).ok()?.split_once('-')?;
    Some((u32::from_str_radix(crc, 16).ok()?, u64::from_str_radix(length, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(rest: &'static str) -> Vec<u8> {
        let mut head = format!("v1\n{{\"a\":1,\"millstream\":{{{}", blank_field());
        seal(&mut head, &[Bytes::from_static(rest.as_bytes())]);
        [head.as_bytes(), rest.as_bytes()].concat()
    }

    fn line_end(record: &[u8]) -> usize {
        record.iter().skip(3).position(|byte| *byte == b'\n').map_or(record.len(), |end| end + 3)
    }

    #[test]
    fn what_was_sealed_is_intact_and_its_text_is_fixed() {
        let record = sealed("\n{\"logOffset\":3}");
        assert_eq!(verify(&record, line_end(&record)), Seal::Intact);
        let text = String::from_utf8(record).unwrap();
        assert_eq!(text, "v1\n{\"a\":1,\"millstream\":{\"check\":\"f4d571cc-00000045\"}}\n{\"logOffset\":3}");
    }

    #[test]
    fn a_cut_is_told_from_a_change() {
        let record = sealed("\n{\"logOffset\":3}");
        let end = line_end(&record);
        for length in end..record.len() {
            assert_eq!(verify(&record[..length], end), Seal::CutOff, "cut to {length}");
        }
        for position in 0..record.len() {
            let mut changed = record.clone();
            changed[position] ^= 1;
            assert!(!matches!(verify(&changed, end), Seal::Intact | Seal::CutOff), "changed at {position}");
        }
    }

    #[test]
    fn blanks_hold_the_same_checksum_and_json_stays_json() {
        let rest = "\n{\"b\":2}";
        let head = seal_with_blanks("v1\n{\"a\":1", &[Bytes::from_static(rest.as_bytes())]);
        let record = [head.as_bytes(), rest.as_bytes()].concat();
        let end = line_end(&record);
        assert_eq!(head.replace([' ', '\t'], ""), "v1\n{\"a\":1}");
        assert_eq!(head.len(), "v1\n{\"a\":1}".len() + BLANKS);
        assert_eq!(verify_blanks(&record, end), Seal::Intact);
        for length in end..record.len() {
            assert_eq!(verify_blanks(&record[..length], end), Seal::CutOff, "cut to {length}");
        }
        for position in 0..record.len() {
            for byte in *b" \t\rx" {
                let mut changed = record.clone();
                changed[position] = byte;
                assert_eq!(verify_blanks(&changed, end) == Seal::Intact, changed == record, "changed at {position}");
            }
        }
        assert_eq!(verify_blanks(b"v1\n{\"a\":1  }", 12), Seal::Absent);
    }

    #[test]
    fn a_record_of_another_program_has_none() {
        assert_eq!(verify(b"v1\n{\"nextBatchWatermarkMs\":0}", 30), Seal::Absent);
        assert_eq!(verify(b"", 0), Seal::Absent);
        assert_eq!(verify(b"v1", 900), Seal::Absent);
    }
}
