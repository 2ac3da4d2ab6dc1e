//! Records that may span lines: a stream of bytes split where a line ends outside of quotes.

use memchr::{memchr2, memmem};

use super::super::lines::{Line, Separator};
use super::dialect::{Dialect, UnescapedQuotes};

/// Where the scan stands inside of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At the first byte of a record.
    RecordStart,
    /// Inside of a comment.
    Comment,
    /// Where a value begins.
    ValueStart,
    /// Inside of a value that is not quoted.
    Plain,
    /// Inside of quotes.
    Quoted,
    /// Behind an escape inside of quotes.
    Escaped,
    /// Behind the character before an escape inside of quotes.
    EscapeEscaped,
    /// Behind a quote that may have closed the value.
    QuoteSeen,
    /// Behind blanks behind such a quote.
    BlanksAfterQuote,
}

/// Splits a stream into records. Bytes are appended to [`Records::space`]; [`Records::finish`] must follow the last.
#[derive(Debug)]
pub(super) struct Records {
    dialect: Dialect,
    comment: Option<u8>,
    /// What ends a line; found out from the first line unless it was given.
    line_end: Option<Vec<u8>>,
    buffer: Vec<u8>,
    /// Where the next record begins in the buffer.
    start: usize,
    /// Up to where the buffer was scanned.
    scanned: usize,
    state: State,
    /// Where the buffer begins in the stream.
    origin: u64,
    limit: usize,
    ended: bool,
    at_start: bool,
    /// Where the oversized record began that is being skipped.
    skipping: Option<u64>,
}

enum Step {
    /// The record ends here; the next begins there.
    End(usize, usize),
    /// Go on from here.
    Go(usize, State),
    /// More bytes are needed to tell.
    Wait,
}

impl Records {
    /// A splitter for records of at most `limit` bytes.
    pub(super) fn new(dialect: Dialect, separator: &Separator, comment: Option<u8>, limit: usize) -> Self {
        let line_end = if let Separator::Text(text) = separator { Some(text.clone()) } else { None };
        Records {
            dialect,
            comment,
            line_end,
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            state: State::RecordStart,
            origin: 0,
            limit,
            ended: false,
            at_start: true,
            skipping: None,
        }
    }

    /// Where to append the next bytes of the stream. What is already in there must be left alone.
    pub(super) fn space(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.origin += self.start as u64;
            self.scanned = self.scanned.saturating_sub(self.start);
            self.start = 0;
        }
        &mut self.buffer
    }

    /// The stream has ended.
    pub(super) fn finish(&mut self) {
        self.ended = true;
    }

    /// The next record that is neither empty nor a comment.
    pub(super) fn next(&mut self) -> Line<'_> {
        if self.at_start {
            if self.buffer.len() < 3 && !self.ended {
                return Line::Incomplete;
            }
            self.at_start = false;
            if self.buffer.starts_with(b"\xef\xbb\xbf") {
                (self.start, self.scanned) = (3, 3);
            }
        }
        if self.line_end.is_none() && !self.find_line_end() {
            return Line::Incomplete;
        }
        loop {
            let Some((end, next)) = self.scan() else {
                if self.skipping.is_some() || self.buffer.len() - self.start > self.limit {
                    self.skipping.get_or_insert(self.origin + self.start as u64);
                    self.start = self.scanned;
                }
                return Line::Incomplete;
            };
            let (start, comment) = (self.start, self.state == State::Comment);
            let at_end = end == next && start == end;
            (self.start, self.scanned, self.state) = (next, next, State::RecordStart);
            let position = self.origin + start as u64;
            match self.skipping.take() {
                Some(position) if !comment => return Line::TooLarge { position, length: self.origin + end as u64 - position },
                None if at_end => return Line::End,
                None if start < end && !comment => {}
                _ => continue,
            }
            if end - start > self.limit {
                return Line::TooLarge { position, length: (end - start) as u64 };
            }
            return Line::Record { bytes: self.buffer.get(start..end).unwrap_or_default(), position, utf8: false };
        }
    }

    /// What ends lines where the file says it, once that is known.
    pub(super) fn line_end(&mut self) -> Option<&'static [u8]> {
        if self.line_end.is_none() && !self.find_line_end() {
            return None;
        }
        match self.line_end.as_deref()? {
            b"\r\n" => Some(b"\r\n"),
            b"\r" => Some(b"\r"),
            _ => Some(b"\n"),
        }
    }

    /// Finds out what ends lines: whatever ends the first. Returns whether it is known.
    fn find_line_end(&mut self) -> bool {
        let bytes = self.buffer.get(self.start..).unwrap_or_default();
        let found = match memchr2(b'\n', b'\r', bytes) {
            Some(at) if bytes.get(at) == Some(&b'\n') => b"\n".as_slice(),
            Some(at) => match bytes.get(at + 1) {
                Some(b'\n') => b"\r\n".as_slice(),
                Some(_) => b"\r",
                None if self.ended => b"\r",
                None => return false,
            },
            // A record without a line end in sight may still outgrow the limit.
            None if self.ended || bytes.len() > self.limit => b"\n",
            None => return false,
        };
        self.line_end = Some(found.to_vec());
        true
    }

    /// Where the next record ends and the one after it begins; `None` when that is not in the buffer yet.
    fn scan(&mut self) -> Option<(usize, usize)> {
        while self.scanned < self.buffer.len() {
            match self.step() {
                Step::End(end, next) => return Some((end, next)),
                Step::Go(at, state) => (self.scanned, self.state) = (at, state),
                Step::Wait => return None,
            }
        }
        self.ended.then_some((self.buffer.len(), self.buffer.len()))
    }

    fn step(&self) -> Step {
        let at = self.scanned;
        let byte = self.buffer.get(at).copied();
        let is = |wanted: Option<u8>| wanted.is_some() && byte == wanted;
        match self.state {
            State::RecordStart if is(self.comment) => Step::Go(at, State::Comment),
            State::RecordStart => Step::Go(at, State::ValueStart),
            State::Comment => self.find(at, false),
            State::Plain => self.find(at, true),
            State::ValueStart => match self.end_or_separator(at) {
                Some(step) => step,
                None if is(self.dialect.quote) => Step::Go(at + 1, State::Quoted),
                None if self.dialect.trim_leading && byte.is_some_and(|byte| byte <= b' ') => Step::Go(at + 1, State::ValueStart),
                None => Step::Go(at, State::Plain),
            },
            State::Quoted => {
                let rest = self.buffer.get(at..).unwrap_or_default();
                let special = |byte: u8| {
                    Some(byte) == self.dialect.quote || Some(byte) == self.dialect.escape || Some(byte) == self.dialect.escape_escape
                };
                let found = match (self.dialect.quote, self.dialect.escape) {
                    (Some(quote), Some(escape)) if self.dialect.escape_escape.is_none_or(|byte| byte == escape) => {
                        memchr2(quote, escape, rest)
                    }
                    _ => rest.iter().position(|byte| special(*byte)),
                };
                match found.and_then(|found| Some((at + found + 1, rest.get(found).copied()?))) {
                    None => Step::Go(self.buffer.len(), State::Quoted),
                    Some((next, byte)) if Some(byte) == self.dialect.quote => Step::Go(next, State::QuoteSeen),
                    Some((next, byte)) if Some(byte) == self.dialect.escape => Step::Go(next, State::Escaped),
                    Some((next, _)) => Step::Go(next, State::EscapeEscaped),
                }
            }
            State::Escaped
                if is(self.dialect.quote) || is(self.dialect.escape_escape) && self.dialect.escape_escape == self.dialect.escape =>
            {
                Step::Go(at + 1, State::Quoted)
            }
            State::EscapeEscaped if is(self.dialect.escape) => Step::Go(at + 1, State::Quoted),
            State::Escaped | State::EscapeEscaped => Step::Go(at, State::Quoted),
            State::QuoteSeen if is(self.dialect.quote) => {
                Step::Go(at + 1, if self.dialect.escape == self.dialect.quote { State::Quoted } else { State::QuoteSeen })
            }
            State::QuoteSeen | State::BlanksAfterQuote => match self.end_or_separator(at) {
                Some(step) => step,
                None if byte.is_some_and(|byte| byte <= b' ') => Step::Go(at + 1, State::BlanksAfterQuote),
                None => match self.dialect.unescaped {
                    UnescapedQuotes::StopAtClosingQuote => Step::Go(at, State::Quoted),
                    UnescapedQuotes::BackToDelimiter if self.state == State::QuoteSeen => Step::Go(at, State::Quoted),
                    _ => Step::Go(at, State::Plain),
                },
            },
        }
    }

    /// A line end or, where it matters, a separator at `at`.
    fn end_or_separator(&self, at: usize) -> Option<Step> {
        let rest = self.buffer.get(at..).unwrap_or_default();
        let line_end = self.line_end.as_deref().unwrap_or(b"\n");
        let separator = self.dialect.separator.as_slice();
        if rest.starts_with(line_end) {
            return Some(Step::End(at, at + line_end.len()));
        }
        if rest.starts_with(separator) {
            return Some(Step::Go(at + separator.len(), State::ValueStart));
        }
        let may_become = |text: &[u8]| rest.len() < text.len() && text.starts_with(rest);
        (!self.ended && (may_become(line_end) || may_become(separator))).then_some(Step::Wait)
    }

    /// The next line end or, if `separators` matter, separator from `at` on.
    fn find(&self, at: usize, separators: bool) -> Step {
        let rest = self.buffer.get(at..).unwrap_or_default();
        let line_end = self.line_end.as_deref().unwrap_or(b"\n");
        if !separators {
            return match memmem::find(rest, line_end) {
                Some(found) => Step::End(at + found, at + found + line_end.len()),
                None => self.behind(at, rest, line_end.len(), State::Comment),
            };
        }
        let (Some(end_byte), Some(separator_byte)) = (line_end.first(), self.dialect.separator.first()) else { return Step::Wait };
        let mut from = 0;
        while let Some(found) = memchr2(*end_byte, *separator_byte, rest.get(from..).unwrap_or_default()) {
            if let Some(step) = self.end_or_separator(at + from + found) {
                return match step {
                    // What was passed need not be looked at again.
                    Step::Wait if from + found > 0 => Step::Go(at + from + found, State::Plain),
                    step => step,
                };
            }
            from += found + 1;
        }
        Step::Go(self.buffer.len(), State::Plain)
    }

    /// Goes on behind what was searched in vain, but for the bytes in which `length` searched ones may have begun.
    fn behind(&self, at: usize, rest: &[u8], length: usize, state: State) -> Step {
        let passed = (rest.len() + 1).saturating_sub(length);
        if self.ended {
            Step::Go(self.buffer.len(), state)
        } else if passed == 0 {
            Step::Wait
        } else {
            Step::Go(at + passed, state)
        }
    }
}
