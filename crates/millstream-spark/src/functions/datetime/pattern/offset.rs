//! Offsets from UTC as numbers: `+08`, `+0830`, `+08:30:15`, `Z`.

use std::fmt::Write;

/// Which parts of an offset are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    Never,
    /// Unless it is zero.
    Needed,
    Always,
}

/// A way to write offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct OffsetStyle {
    minutes: Part,
    seconds: Part,
    colon: bool,
    /// What stands for an offset of zero.
    zero: &'static str,
}

impl OffsetStyle {
    /// `X` to `XXXXX` (with `Z` for zero) and `x` to `xxxxx`.
    pub(super) fn iso(letters: usize, with_z: bool) -> Option<OffsetStyle> {
        let (minutes, seconds, colon) = match letters {
            1 => (Part::Needed, Part::Never, false),
            2 => (Part::Always, Part::Never, false),
            3 => (Part::Always, Part::Never, true),
            4 => (Part::Always, Part::Needed, false),
            5 => (Part::Always, Part::Needed, true),
            _ => return None,
        };
        let zero = match (with_z, letters) {
            (true, _) => "Z",
            (false, 1) => "+00",
            (false, 2 | 4) => "+0000",
            (false, _) => "+00:00",
        };
        Some(OffsetStyle { minutes, seconds, colon, zero })
    }

    /// `Z` to `ZZZ`: `+0000`.
    pub(super) const RFC: OffsetStyle = OffsetStyle { minutes: Part::Always, seconds: Part::Never, colon: false, zero: "+0000" };

    /// `ZZZZZ` and zone identifiers: `+08:30`, `Z`.
    pub(super) const ID: OffsetStyle = OffsetStyle { minutes: Part::Always, seconds: Part::Needed, colon: true, zero: "Z" };

    pub(super) fn write(self, seconds: i32, out: &mut String) {
        let total = seconds.unsigned_abs();
        let (hours, minutes, rest) = (total / 3600, total / 60 % 60, total % 60);
        let shows_minutes = self.minutes == Part::Always || self.minutes == Part::Needed && minutes != 0;
        let shows_seconds = shows_minutes && (self.seconds == Part::Always || self.seconds == Part::Needed && rest != 0);
        if hours == 0 && !(shows_minutes && minutes != 0) && !(shows_seconds && rest != 0) {
            out.push_str(self.zero);
            return;
        }
        let colon = if self.colon { ":" } else { "" };
        let _ = write!(out, "{}{hours:02}", if seconds < 0 { '-' } else { '+' });
        if shows_minutes {
            let _ = write!(out, "{colon}{minutes:02}");
        }
        if shows_seconds {
            let _ = write!(out, "{colon}{rest:02}");
        }
    }

    /// The seconds of an offset at the start of a text, and its length.
    pub(super) fn read(self, text: &str) -> Option<(i64, usize)> {
        if text.get(..self.zero.len()).is_some_and(|start| start.eq_ignore_ascii_case(self.zero)) {
            return Some((0, self.zero.len()));
        }
        let bytes = text.as_bytes();
        let sign = match bytes.first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        let hours = two_digits(bytes, 1)?;
        let (mut total, mut at) = (hours * 3600, 3);
        for (part, size) in [(self.minutes, 60), (self.seconds, 1)] {
            if part == Part::Never {
                break;
            }
            let start = if !self.colon {
                Some(at)
            } else if bytes.get(at) == Some(&b':') {
                Some(at + 1)
            } else {
                None
            };
            match start.and_then(|start| Some((start, two_digits(bytes, start)?))) {
                Some((start, value)) => {
                    total += value * size;
                    at = start + 2;
                }
                None if part == Part::Always => return None,
                None => break,
            }
        }
        (hours <= 23).then_some((sign * total, at))
    }
}

/// `GMT+8:30`, in full `GMT+08:30`.
pub(super) fn write_localized(seconds: i32, full: bool, out: &mut String) {
    out.push_str("GMT");
    if seconds == 0 {
        return;
    }
    let total = seconds.unsigned_abs();
    let (hours, minutes, rest) = (total / 3600, total / 60 % 60, total % 60);
    out.push(if seconds < 0 { '-' } else { '+' });
    let _ = if full { write!(out, "{hours:02}:{minutes:02}") } else { write!(out, "{hours}") };
    if !full && (minutes != 0 || rest != 0) {
        let _ = write!(out, ":{minutes:02}");
    }
    if rest != 0 {
        let _ = write!(out, ":{rest:02}");
    }
}

/// The seconds of a localized offset at the start of a text, and its length.
pub(super) fn read_localized(text: &str, full: bool) -> Option<(i64, usize)> {
    if !text.get(..3)?.eq_ignore_ascii_case("GMT") {
        return None;
    }
    let bytes = text.as_bytes();
    let sign = match bytes.get(3) {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return Some((0, 3)),
    };
    let digit = |at: usize| bytes.get(at).filter(|byte| byte.is_ascii_digit()).map(|byte| i64::from(byte - b'0'));
    let (mut total, mut at) = match (digit(4), digit(5)) {
        (Some(tens), Some(ones)) => ((tens * 10 + ones) * 3600, 6),
        (Some(ones), None) if !full => (ones * 3600, 5),
        _ => return None,
    };
    for (index, size) in [60, 1].into_iter().enumerate() {
        match (bytes.get(at), digit(at + 1), digit(at + 2)) {
            (Some(b':'), Some(tens), Some(ones)) => {
                total += (tens * 10 + ones) * size;
                at += 3;
            }
            _ if full && index == 0 => return None,
            _ => break,
        }
    }
    Some((sign * total, at))
}

/// A number of two digits up to 59.
fn two_digits(bytes: &[u8], at: usize) -> Option<i64> {
    let pair = bytes.get(at..at + 2)?;
    let [tens, ones] = pair else { return None };
    if !tens.is_ascii_digit() || !ones.is_ascii_digit() {
        return None;
    }
    let value = i64::from(tens - b'0') * 10 + i64::from(ones - b'0');
    (value <= 59).then_some(value)
}
