//! Base64 as Java reads and writes it.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends bytes as base64 with padding and without line breaks.
pub(in super::super::super) fn base64(bytes: &[u8], out: &mut String) {
    for chunk in bytes.chunks(3) {
        let number = chunk.iter().chain([&0, &0]).take(3).fold(0_usize, |number, byte| number << 8 | usize::from(*byte));
        for place in 0..4 {
            let digit = DIGITS.get(number >> (18 - 6 * place) & 63).map_or('=', |byte| char::from(*byte));
            out.push(if place <= chunk.len() { digit } else { '=' });
        }
    }
}

/// Appends bytes as base64 in lines of 76 characters: Java's MIME encoder.
pub(super) fn base64_lines(bytes: &[u8], out: &mut String) {
    const BYTES_OF_A_LINE: usize = 57;
    for (number, line) in bytes.chunks(BYTES_OF_A_LINE).enumerate() {
        if number > 0 {
            out.push_str("\r\n");
        }
        base64(line, out);
    }
}

fn value(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

/// Appends what base64 stands for. Bytes that are no digits are skipped, padding may be missing: Java's MIME decoder.
pub(super) fn mime_base64(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (mut bits, mut digits, mut at) = (0_u32, 0, 0);
    while let Some(byte) = text.get(at) {
        at += 1;
        if *byte == b'=' {
            match digits {
                // Nothing to pad, or the second of two signs is missing.
                0 => return None,
                2 if text.get(at) != Some(&b'=') => return None,
                2 => at += 1,
                _ => {}
            }
            break;
        }
        let Some(value) = value(*byte) else { continue };
        bits = bits << 6 | value;
        digits += 1;
        if digits == 4 {
            out.extend_from_slice(bits.to_be_bytes().get(1..)?);
            (bits, digits) = (0, 0);
        }
    }
    match digits {
        1 => return None,
        2 => out.extend_from_slice((bits << 12).to_be_bytes().get(1..2)?),
        3 => out.extend_from_slice((bits << 6).to_be_bytes().get(1..3)?),
        _ => {}
    }
    // Behind the padding only bytes that are no digits may follow.
    text.get(at..)?.iter().all(|byte| value(*byte).is_none()).then_some(())
}

/// As [`mime_base64`], but only white space may stand between the digits, and the padding must be right.
pub(in super::super::super) fn strict_base64(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let packed: Vec<u8> = text.iter().copied().filter(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n')).collect();
    let digits = packed.iter().take_while(|byte| value(**byte).is_some()).count();
    let padding = packed.len() - digits;
    let padded = packed.get(digits..)?.iter().all(|byte| *byte == b'=');
    if !padded || padding > 2 || (padding > 0 && !packed.len().is_multiple_of(4)) || digits % 4 == 1 {
        return None;
    }
    mime_base64(&packed, out)
}
