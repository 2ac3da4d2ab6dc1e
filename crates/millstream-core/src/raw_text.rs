//! Text that may hold bytes that are no UTF-8, in strings that must be UTF-8.
//!
//! Spark's strings are bytes, and a text file goes through it unharmed whatever its encoding. Strings here are Unicode, so a byte that is no
//! part of a character is kept as a character of its own at the very end of the last private plane, U+10FF80 to U+10FFFF, and becomes the
//! byte again wherever bytes are asked for. Those 128 characters, should a text have them, are kept as the four bytes that they are made of:
//! what comes out is always what went in.

use std::borrow::Cow;

/// What the characters that stand for bytes begin at, for the byte 0.
const BASE: u32 = 0x10_ff00;

/// Text for bytes of which some may be no UTF-8.
pub fn from_bytes(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes)
        && !has_raw_bytes(text.as_bytes())
    {
        return text.into();
    }
    let mut text = String::with_capacity(bytes.len() * 2);
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if u32::from(character) >= BASE + 0x80 {
                character.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| text.push(stand_in(byte)));
            } else {
                text.push(character);
            }
        }
        chunk.invalid().iter().for_each(|byte| text.push(stand_in(*byte)));
    }
    text.into()
}

/// The bytes that a text was made of.
pub fn to_bytes(text: &str) -> Cow<'_, [u8]> {
    if !has_raw_bytes(text.as_bytes()) {
        return text.as_bytes().into();
    }
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        match u32::from(character).checked_sub(BASE).and_then(|byte| u8::try_from(byte).ok()).filter(|byte| *byte >= 0x80) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes.into()
}

/// A text as it is shown: with U+FFFD in place of bytes that are no UTF-8.
pub fn shown(text: &str) -> Cow<'_, str> {
    match to_bytes(text) {
        Cow::Borrowed(_) => text.into(),
        Cow::Owned(bytes) => String::from_utf8_lossy(&bytes).into_owned().into(),
    }
}

/// Whether UTF-8 may have characters that stand for bytes; any number of texts can be asked about at once.
pub fn has_raw_bytes(utf8: &[u8]) -> bool {
    const LEAD: u8 = 0xf4;
    if !utf8.chunks(256).any(|chunk| chunk.iter().fold(0, |most, byte| most.max(*byte)) >= LEAD) {
        return false;
    }
    // U+10FF80 is F4 8F BE 80, and U+10FFFF is F4 8F BF BF.
    let mut rest = utf8;
    while let Some(found) = rest.iter().position(|byte| *byte == LEAD) {
        rest = rest.get(found + 1..).unwrap_or_default();
        if rest.starts_with(&[0x8f, 0xbe]) || rest.starts_with(&[0x8f, 0xbf]) {
            return true;
        }
    }
    false
}

/// How many characters Spark counts in bytes: the first byte of each says how many bytes it has, whatever follows.
pub fn count_characters(bytes: &[u8]) -> usize {
    let (mut at, mut count) = (0, 0);
    while let Some(byte) = bytes.get(at) {
        at += match byte {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        count += 1;
    }
    count
}

fn stand_in(byte: u8) -> char {
    char::from_u32(BASE + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        for bytes in [
            &b"plain"[..],
            b"\xff\xfe",
            b"a\xc3",
            "žluť😀".as_bytes(),
            "\u{10ff80}\u{10ffff}\u{10ff7f}".as_bytes(),
            b"\xf4\x8f\xbe",
            b"\xed\xa0\x80",
        ] {
            let text = from_bytes(bytes);
            assert_eq!(to_bytes(&text), bytes, "{bytes:x?}");
        }
        assert!(matches!(from_bytes("ok\u{10ff00}".as_bytes()), Cow::Borrowed(_)));
        assert_eq!(from_bytes(b"\xff\xfe").chars().count(), 2);
    }

    #[test]
    fn characters_are_counted_by_their_first_bytes() {
        for (bytes, count) in [(&b"\xff\xfe"[..], 2), (b"\xc3", 1), (b"\xe2\x82", 1), ("žluť😀".as_bytes(), 5), (b"a\xffb", 3), (b"", 0)]
        {
            assert_eq!(count_characters(bytes), count, "{bytes:x?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_come_back(bytes: Vec<u8>) {
            let text = from_bytes(&bytes).into_owned();
            proptest::prop_assert_eq!(to_bytes(&text).into_owned(), bytes);
        }
    }
}
