//! The records of one file: without the lines that Spark leaves out.

use memchr::memmem;
use millstream_core::Result;

use super::super::FileRef;
use super::super::input::Input;
use super::super::lines::{Line, Lines, Separator};
use super::dialect::is_blank_line;
use super::options::CsvOptions;
use super::records::Records;

/// An open file.
pub(super) struct RecordSource {
    input: Input,
    splitter: Splitter,
    skip_rows: u64,
    comment: Option<u8>,
    /// What ends the file's lines becomes a line feed inside of quotes, too, unless the option `lineSep` says what it is.
    normalize: bool,
    normalized: Vec<u8>,
}

enum Splitter {
    Lines(Lines),
    Records(Records),
}

/// A record of a file.
pub(super) enum Record<'a> {
    /// Its text.
    Text {
        /// The bytes, without the line end.
        bytes: &'a [u8],
        /// Where it begins in the decompressed file.
        position: u64,
        /// Whether the bytes are known to be UTF-8.
        utf8: bool,
    },
    /// A record that is longer than the limit.
    TooLarge {
        /// Where it began in the decompressed file.
        position: u64,
        /// How long it was in bytes.
        length: u64,
    },
}

/// Why [`RecordSource::drain`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drained {
    /// The callback wanted no more.
    Stopped,
    /// [`RecordSource::fill`] must bring more bytes.
    Empty,
    /// The file has no more records.
    End,
}

impl RecordSource {
    /// Opens a file.
    ///
    /// # Errors
    /// Those of [`Input::open`].
    pub(super) async fn open(file: &FileRef, options: &CsvOptions) -> Result<Self> {
        let splitter = if options.multi_line {
            Splitter::Records(Records::new(options.dialect.clone(), &options.separator, options.comment, options.limit))
        } else {
            Splitter::Lines(Lines::new(options.separator.clone(), options.limit, true))
        };
        Ok(RecordSource {
            input: Input::open(file, &options.input).await?,
            splitter,
            skip_rows: options.skip_rows,
            comment: options.comment.filter(|_| !options.multi_line),
            normalize: options.multi_line && options.separator == Separator::LineEnd,
            normalized: Vec::new(),
        })
    }

    /// Hands the records at hand to `each` while that returns `true`.
    ///
    /// # Errors
    /// Those of `each`.
    pub(super) fn drain(&mut self, mut each: impl FnMut(Record<'_>) -> Result<bool>) -> Result<Drained> {
        loop {
            let (line, line_end) = match &mut self.splitter {
                Splitter::Lines(lines) => (lines.next_record(), None),
                Splitter::Records(records) => {
                    let line_end = records.line_end();
                    (records.next(), line_end)
                }
            };
            let go_on = match line {
                Line::Record { .. } | Line::TooLarge { .. } if self.skip_rows > 0 => {
                    self.skip_rows -= 1;
                    true
                }
                Line::Record { bytes, position, utf8 } => {
                    let left_out = is_blank_line(bytes) || self.comment.is_some() && bytes.first().copied() == self.comment;
                    if let Some(line_end) = line_end.filter(|_| self.normalize) {
                        let bytes = normalized(bytes, line_end, &mut self.normalized);
                        each(Record::Text { bytes, position, utf8 })?
                    } else {
                        left_out || each(Record::Text { bytes, position, utf8 })?
                    }
                }
                Line::TooLarge { position, length } => each(Record::TooLarge { position, length })?,
                Line::Incomplete => return Ok(Drained::Empty),
                Line::End => return Ok(Drained::End),
            };
            if !go_on {
                return Ok(Drained::Stopped);
            }
        }
    }

    /// Reads on; returns how many bytes there were.
    ///
    /// # Errors
    /// Those of [`Input::read`].
    pub(super) async fn fill(&mut self) -> Result<usize> {
        let count = match &mut self.splitter {
            Splitter::Lines(lines) => self.input.read(lines.space()).await?,
            Splitter::Records(records) => self.input.read(records.space()).await?,
        };
        match (&mut self.splitter, count) {
            (Splitter::Lines(lines), 0) => lines.finish(),
            (Splitter::Lines(lines), _) => lines.filled(),
            (Splitter::Records(records), 0) => records.finish(),
            (Splitter::Records(_), _) => {}
        }
        Ok(count)
    }
}

/// The record with line feeds for what ends the lines of its file.
fn normalized<'a>(record: &'a [u8], line_end: &[u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    if line_end == b"\n" || memmem::find(record, line_end).is_none() {
        return record;
    }
    scratch.clear();
    let mut rest = record;
    while let Some(found) = memmem::find(rest, line_end) {
        scratch.extend_from_slice(rest.get(..found).unwrap_or_default());
        scratch.push(b'\n');
        rest = rest.get(found + line_end.len()..).unwrap_or_default();
    }
    scratch.extend_from_slice(rest);
    scratch
}
