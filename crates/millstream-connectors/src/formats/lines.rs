//! Records of a stream of bytes, separated by line ends or another text.

#[cfg(test)]
mod tests;

use memchr::memmem;
use millstream_core::options::OptionKind;
use millstream_core::{Error, OptionSpec, Options, Result};

/// The longest record that is read whole unless the option `maxRecordBytes` says otherwise.
pub const MAX_RECORD_BYTES: usize = 16 * 1024 * 1024;
/// The largest value of `maxRecordBytes`: escaping may make text seven times as long, and offsets inside a column have 31 bits.
const LARGEST_MAX_RECORD_BYTES: u64 = 1 << 28;

/// The option `lineSep`.
pub const LINE_SEP: OptionSpec = OptionSpec {
    name: "lineSep",
    kind: OptionKind::Text,
    default: None,
    doc: "What separates records. Without it a line feed, a carriage return, or both together.",
};

/// The option `maxRecordBytes`.
pub const MAX_RECORD: OptionSpec = OptionSpec {
    name: "maxRecordBytes",
    kind: OptionKind::Bytes,
    default: Some("16m"),
    doc: "The longest record that is read; longer ones are skipped and reported as RECORD_TOO_LARGE.",
};

/// The limit that `maxRecordBytes` sets, or `default`.
///
/// # Errors
/// `INVALID_OPTION_VALUE` when it is no size or above 256 MiB.
pub fn max_record_bytes(options: &Options, default: usize) -> Result<usize> {
    match options.bytes("maxRecordBytes")? {
        None => Ok(default),
        Some(bytes) if bytes <= LARGEST_MAX_RECORD_BYTES => Ok(usize::try_from(bytes).unwrap_or(default)),
        Some(_) => Err(Error::invalid("INVALID_OPTION_VALUE", "option 'maxRecordBytes' takes a size of at most 256m")),
    }
}

/// What separates records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Separator {
    /// `\n`, `\r\n` or `\r`.
    LineEnd,
    /// One text, which is not empty.
    Text(Vec<u8>),
    /// Nothing: the whole stream is one record.
    Never,
}

impl Separator {
    /// The separator that the option `lineSep` sets.
    ///
    /// # Errors
    /// `INVALID_OPTION_VALUE` when it is empty.
    pub fn from_options(options: &Options) -> Result<Self> {
        match options.get("lineSep") {
            None => Ok(Separator::LineEnd),
            Some("") => Err(Error::invalid("INVALID_OPTION_VALUE", "option 'lineSep' is empty but takes at least one character")),
            Some(text) => Ok(Separator::Text(text.as_bytes().to_vec())),
        }
    }
}

/// What comes next in the stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A record without its separator.
    Record {
        /// The bytes.
        bytes: &'a [u8],
        /// Where it begins in the stream.
        position: u64,
        /// Whether the bytes are known to be UTF-8.
        utf8: bool,
    },
    /// A record that is longer than the limit; it is gone.
    TooLarge {
        /// Where it began in the stream.
        position: u64,
        /// How long it was without its separator.
        length: u64,
    },
    /// More bytes are needed.
    Incomplete,
    /// There is nothing more.
    End,
}

/// Splits a stream into records. Bytes are appended to [`Lines::space`]; [`Lines::filled`] or [`Lines::finish`] must follow.
#[derive(Debug)]
pub struct Lines {
    buffer: Vec<u8>,
    /// Where the next record begins in the buffer.
    start: usize,
    /// From where to look for its end.
    scanned: usize,
    /// Up to where the buffer is known to be UTF-8, counted from some record's start.
    utf8_to: usize,
    /// Where the buffer begins in the stream.
    origin: u64,
    separator: Separator,
    limit: usize,
    ended: bool,
    /// The last record ended with a carriage return: a line feed that follows belongs to it.
    after_return: bool,
    /// Nothing has been looked at yet, so a byte-order mark may come.
    at_start: bool,
    /// Where the oversized record began that is being skipped.
    skipping: Option<u64>,
    check_utf8: bool,
}

impl Lines {
    /// A splitter for records of at most `limit` bytes. With `check_utf8` it says of each record whether it is UTF-8 for certain.
    pub fn new(separator: Separator, limit: usize, check_utf8: bool) -> Self {
        Lines {
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            utf8_to: 0,
            origin: 0,
            separator,
            limit,
            ended: false,
            after_return: false,
            at_start: true,
            skipping: None,
            check_utf8,
        }
    }

    /// Where to append the next bytes of the stream. What is already in there must be left alone.
    pub fn space(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.origin += self.start as u64;
            self.scanned -= self.start;
            self.utf8_to = self.utf8_to.saturating_sub(self.start);
            self.start = 0;
        }
        &mut self.buffer
    }

    /// Bytes have been appended.
    pub fn filled(&mut self) {
        if self.check_utf8 && self.skipping.is_none() {
            self.utf8_to = self.utf8_to.max(self.start);
            let fresh = self.buffer.get(self.utf8_to..).unwrap_or_default();
            self.utf8_to += match simdutf8::basic::from_utf8(fresh) {
                Ok(_) => fresh.len(),
                Err(_) => simdutf8::compat::from_utf8(fresh).err().map_or(0, |error| error.valid_up_to()),
            };
        }
    }

    /// The stream has ended.
    pub fn finish(&mut self) {
        self.filled();
        self.ended = true;
    }

    /// The next record.
    pub fn next_record(&mut self) -> Line<'_> {
        if self.at_start {
            if self.buffer.len() < 3 && !self.ended {
                return Line::Incomplete;
            }
            self.at_start = false;
            if self.buffer.starts_with(b"\xef\xbb\xbf") {
                (self.start, self.scanned) = (3, 3);
            }
        }
        if self.after_return && self.start < self.buffer.len() {
            self.after_return = false;
            if self.buffer.get(self.start) == Some(&b'\n') {
                self.start += 1;
                self.scanned = self.scanned.max(self.start);
            }
        }
        match self.find_end() {
            Some((end, next)) => self.record(end, next),
            None if !self.ended => {
                if self.skipping.is_some() || self.scanned - self.start > self.limit {
                    self.skip_ahead();
                }
                Line::Incomplete
            }
            None if self.start == self.buffer.len() && self.skipping.is_none() => Line::End,
            None => self.record(self.buffer.len(), self.buffer.len()),
        }
    }

    /// Where the next record ends and the one after it begins.
    fn find_end(&mut self) -> Option<(usize, usize)> {
        let rest = self.buffer.get(self.scanned..)?;
        match &self.separator {
            Separator::LineEnd => match memchr::memchr2(b'\n', b'\r', rest) {
                Some(found) => {
                    let end = self.scanned + found;
                    self.after_return = self.buffer.get(end) == Some(&b'\r');
                    Some((end, end + 1))
                }
                None => {
                    self.scanned = self.buffer.len();
                    None
                }
            },
            Separator::Text(text) => match memmem::find(rest, text) {
                Some(found) => Some((self.scanned + found, self.scanned + found + text.len())),
                None => {
                    // Its first bytes may already be there.
                    self.scanned = (self.buffer.len() + 1).saturating_sub(text.len()).max(self.scanned);
                    None
                }
            },
            Separator::Never => {
                self.scanned = self.buffer.len();
                None
            }
        }
    }

    /// Hands out the record up to `end`.
    fn record(&mut self, end: usize, next: usize) -> Line<'_> {
        let start = self.start;
        (self.start, self.scanned) = (next, next);
        let position = self.origin + start as u64;
        if let Some(position) = self.skipping.take() {
            return Line::TooLarge { position, length: self.origin + end as u64 - position };
        }
        if end - start > self.limit {
            return Line::TooLarge { position, length: (end - start) as u64 };
        }
        let utf8 = end <= self.utf8_to;
        Line::Record { bytes: self.buffer.get(start..end).unwrap_or_default(), position, utf8 }
    }

    /// Lets go of an oversized record's bytes, but for those that may begin its separator.
    fn skip_ahead(&mut self) {
        self.skipping.get_or_insert(self.origin + self.start as u64);
        self.start = self.scanned;
    }
}
