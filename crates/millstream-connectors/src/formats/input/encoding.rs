//! Character encodings other than UTF-8, turned into UTF-8 piece by piece.

use encoding_rs::{CoderResult, Decoder, UTF_16BE, UTF_16LE, WINDOWS_1252};
use millstream_core::{Error, Options, Result};

/// A character encoding that is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// An encoding of the web's standard; UTF-16 follows its byte-order mark and is big-endian without one.
    Standard(&'static encoding_rs::Encoding),
    /// UTF-32; the byte order is little-endian, big-endian, or by the byte-order mark.
    Utf32 {
        /// The byte order, `None` when a byte-order mark tells it (big-endian without one).
        little_endian: Option<bool>,
    },
    /// ISO 8859-1: every byte is the character of that number.
    Latin1,
}

/// The encodings that Spark takes in formats of lines.
const OF_LINES: [&str; 7] = ["iso-8859-1", "us-ascii", "utf-16", "utf-16be", "utf-16le", "utf-32", "utf-8"];

/// Checks the encoding of files of lines.
///
/// # Errors
/// `INVALID_PARAMETER_VALUE.CHARSET`.
pub fn check_charset(options: &Options) -> Result<()> {
    let Some(name) = options.get("encoding").or_else(|| options.get("charset")) else { return Ok(()) };
    if OF_LINES.iter().any(|known| name.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    let message = format!("the option 'encoding' is '{name}' but must be one of {}", OF_LINES.join(", "));
    Err(Error::invalid("INVALID_PARAMETER_VALUE.CHARSET", message).with_sqlstate("22023"))
}

impl Encoding {
    /// The encoding of a name, without regard to case; `None` is UTF-8.
    ///
    /// # Errors
    /// `INVALID_OPTION_VALUE` for names that are not known.
    pub fn named(name: &str) -> Result<Option<Encoding>> {
        Ok(Some(match name.trim().to_ascii_uppercase().as_str() {
            "UTF-8" | "UTF8" | "US-ASCII" | "ASCII" => return Ok(None),
            "ISO-8859-1" | "ISO8859_1" | "LATIN1" => Encoding::Latin1,
            "UTF-16" | "UTF-16BE" => Encoding::Standard(UTF_16BE),
            "UTF-16LE" => Encoding::Standard(UTF_16LE),
            "CP1252" => Encoding::Standard(WINDOWS_1252),
            "UTF-32" => Encoding::Utf32 { little_endian: None },
            "UTF-32BE" => Encoding::Utf32 { little_endian: Some(false) },
            "UTF-32LE" => Encoding::Utf32 { little_endian: Some(true) },
            other => Encoding::Standard(encoding_rs::Encoding::for_label(other.as_bytes()).ok_or_else(|| {
                Error::invalid(
                    "INVALID_OPTION_VALUE",
                    format!("option 'encoding' is '{name}' but takes an encoding such as UTF-8, UTF-16LE, UTF-32 or ISO-8859-1"),
                )
            })?),
        }))
    }
}

/// Decodes one stream.
pub(super) enum Transcoder {
    Standard(Box<Decoder>),
    Utf32 { little_endian: Option<bool>, started: bool, held: Vec<u8> },
    Latin1,
}

impl Transcoder {
    pub(super) fn new(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Standard(standard) => Transcoder::Standard(Box::new(standard.new_decoder())),
            Encoding::Utf32 { little_endian } => Transcoder::Utf32 { little_endian, started: false, held: Vec::new() },
            Encoding::Latin1 => Transcoder::Latin1,
        }
    }

    /// Appends `bytes` as UTF-8. Bytes that are no character become U+FFFD; a character cut by the end of `bytes` waits for the next call.
    pub(super) fn decode(&mut self, bytes: &[u8], buffer: &mut Vec<u8>, last: bool) {
        match self {
            Transcoder::Standard(decoder) => {
                let mut rest = bytes;
                loop {
                    let before = buffer.len();
                    let room = decoder.max_utf8_buffer_length(rest.len()).unwrap_or(rest.len().saturating_mul(3)).saturating_add(16);
                    buffer.resize(before + room, 0);
                    let (result, read, written, _) = decoder.decode_to_utf8(rest, buffer.get_mut(before..).unwrap_or_default(), last);
                    buffer.truncate(before + written);
                    rest = rest.get(read..).unwrap_or_default();
                    if result == CoderResult::InputEmpty {
                        return;
                    }
                }
            }
            Transcoder::Utf32 { little_endian, started, held } => {
                held.extend_from_slice(bytes);
                let mut units = held.chunks_exact(4);
                for unit in &mut units {
                    let unit = unit.first_chunk::<4>().copied().unwrap_or_default();
                    if !*started {
                        *started = true;
                        match unit {
                            [0xff, 0xfe, 0, 0] if little_endian.is_none_or(|little| little) => {
                                *little_endian = Some(true);
                                continue;
                            }
                            [0, 0, 0xfe, 0xff] if little_endian.is_none_or(|little| !little) => continue,
                            _ => {}
                        }
                    }
                    let code = if *little_endian == Some(true) { u32::from_le_bytes(unit) } else { u32::from_be_bytes(unit) };
                    push(buffer, char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                let rest = units.remainder().to_vec();
                *held = rest;
                if last && !held.is_empty() {
                    held.clear();
                    push(buffer, char::REPLACEMENT_CHARACTER);
                }
            }
            Transcoder::Latin1 => {
                for byte in bytes {
                    push(buffer, char::from(*byte));
                }
            }
        }
    }
}

fn push(buffer: &mut Vec<u8>, character: char) {
    buffer.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}
