//! A stream of bytes to the elements that are rows, in memory for one of them at a time.
//!
//! A file is one document, as in Spark: what is around the rows is stepped over (other elements, comments, `CDATA`, declarations), but where
//! its tags do not match, or something stands beside its only root, nothing more can be read.

use memchr::memmem;

use super::element::{is_blank, name_of};

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A row: where it is in the buffer, and where it begins in the stream.
    Row { start: usize, end: usize, position: u64 },
    /// The document is broken at a position of the stream; nothing behind it can be read.
    Broken { position: u64, what: &'static str },
    /// A row that is longer than the limit; it is gone.
    TooLarge { position: u64, length: u64 },
    /// More bytes are needed.
    Incomplete,
    /// There is nothing more.
    End,
}

/// Finds rows.
#[derive(Debug)]
pub(super) struct Splitter {
    buffer: Vec<u8>,
    /// From where to go on in the buffer.
    at: usize,
    /// The names of the tags that are open.
    open: Vec<Vec<u8>>,
    /// Where the row begins in the buffer, and how many tags were open there.
    row: Option<(usize, usize)>,
    /// The root has ended.
    closed: bool,
    /// Where the buffer begins in the stream.
    origin: u64,
    row_tag: String,
    ignore_namespace: bool,
    limit: usize,
    /// Where the oversized row began that is being skipped.
    skipping: Option<u64>,
    ended: bool,
    done: bool,
}

/// A piece of markup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Markup {
    Start,
    Empty,
    End,
    /// A comment, an instruction or a declaration.
    Aside,
    /// `CDATA`.
    Text,
    /// A tag that is none.
    Bad,
}

impl Splitter {
    /// A splitter for rows of at most `limit` bytes.
    pub(super) fn new(row_tag: &str, ignore_namespace: bool, limit: usize) -> Self {
        Splitter {
            buffer: Vec::new(),
            at: 0,
            open: Vec::new(),
            row: None,
            closed: false,
            origin: 0,
            row_tag: row_tag.to_owned(),
            ignore_namespace,
            limit,
            skipping: None,
            ended: false,
            done: false,
        }
    }

    /// Where to append the next bytes of the stream. What was found before is gone.
    pub(super) fn space(&mut self) -> &mut Vec<u8> {
        let keep = match &mut self.row {
            Some((start, _)) if self.skipping.is_none() => std::mem::take(start),
            _ => self.at,
        };
        self.buffer.drain(..keep);
        self.origin += keep as u64;
        self.at -= keep;
        &mut self.buffer
    }

    /// The stream has ended.
    pub(super) fn finish(&mut self) {
        self.ended = true;
    }

    /// Nothing more is wanted.
    pub(super) fn stop(&mut self) {
        self.done = true;
    }

    /// The bytes of the row that was found last.
    pub(super) fn bytes(&self, start: usize, end: usize) -> &[u8] {
        self.buffer.get(start..end).unwrap_or_default()
    }

    /// The next row.
    pub(super) fn find(&mut self) -> Found {
        while !self.done {
            let rest = self.buffer.get(self.at..).unwrap_or_default();
            if !self.ended && !rest.is_empty() && BYTE_ORDER_MARK.starts_with(rest) {
                return Found::Incomplete;
            }
            let text = memchr::memchr(b'<', rest).unwrap_or(rest.len());
            if self.open.is_empty() && !is_outside(rest.get(..text).unwrap_or_default()) {
                return self.broken("there is text beside the document's root");
            }
            let at = self.at + text;
            self.at = at;
            let Some((markup, length)) = markup(self.buffer.get(at..).unwrap_or_default()) else { return self.starved() };
            let end = at + length;
            self.at = end;
            if let Some(found) = self.step(markup, at, end) {
                return found;
            }
        }
        Found::End
    }

    /// Goes over a piece of markup.
    fn step(&mut self, markup: Markup, at: usize, end: usize) -> Option<Found> {
        let beside = self.open.is_empty() && (self.closed || matches!(markup, Markup::End | Markup::Text));
        match markup {
            Markup::Aside => return None,
            Markup::Bad => return Some(self.broken("there is a '<' inside a tag")),
            _ if beside => return Some(self.broken("there is something beside the document's root")),
            Markup::Text => return None,
            _ => {}
        }
        let name = tag_name(self.buffer.get(at..end).unwrap_or_default()).to_vec();
        if markup == Markup::End {
            if self.open.pop().as_ref() != Some(&name) {
                return Some(self.broken("an element ends that is not the last that began"));
            }
            self.closed = self.open.is_empty();
            let (start, depth) = self.row?;
            return (depth == self.open.len()).then(|| self.found(start, end));
        }
        let begins = self.row.is_none() && name_of(&String::from_utf8_lossy(&name), self.ignore_namespace) == self.row_tag;
        if markup == Markup::Empty {
            self.closed = self.open.is_empty();
            return begins.then(|| self.found(at, end));
        }
        if begins {
            self.row = Some((at, self.open.len()));
        }
        self.open.push(name);
        None
    }

    fn found(&mut self, start: usize, end: usize) -> Found {
        self.row = None;
        if let Some(position) = self.skipping.take() {
            return Found::TooLarge { position, length: self.origin + end as u64 - position };
        }
        let position = self.origin + start as u64;
        if end - start > self.limit {
            return Found::TooLarge { position, length: (end - start) as u64 };
        }
        Found::Row { start, end, position }
    }

    fn broken(&mut self, what: &'static str) -> Found {
        self.done = true;
        Found::Broken { position: self.origin + self.at as u64, what }
    }

    /// The buffer has no more markup that is whole.
    fn starved(&mut self) -> Found {
        if self.ended {
            if !self.open.is_empty() || self.at < self.buffer.len() || !self.closed {
                return self.broken("the document ends before its root does");
            }
            self.done = true;
            return Found::End;
        }
        if let Some((start, _)) = &mut self.row
            && (self.skipping.is_some() || self.buffer.len() - *start > self.limit)
        {
            self.skipping.get_or_insert(self.origin + *start as u64);
            *start = 0;
        }
        Found::Incomplete
    }
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Whether text may stand outside of the root: white space, or a byte-order mark.
fn is_outside(text: &[u8]) -> bool {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    std::str::from_utf8(text).is_ok_and(is_blank)
}

/// The markup at the beginning of `bytes` and its length, if all of it is there.
fn markup(bytes: &[u8]) -> Option<(Markup, usize)> {
    let until = |markup: Markup, from: usize, mark: &[u8]| {
        let found = memmem::find(bytes.get(from..)?, mark)?;
        Some((markup, from + found + mark.len()))
    };
    match bytes.get(1)? {
        b'!' if bytes.starts_with(b"<!--") => until(Markup::Aside, 4, b"-->"),
        b'!' if bytes.starts_with(b"<![CDATA[") => until(Markup::Text, 9, b"]]>"),
        // What begins like one of the two may still become it.
        b'!' if b"<!--".starts_with(bytes) || b"<![CDATA[".starts_with(bytes) => None,
        b'!' => {
            let mut depth = 0_usize;
            let end = bytes.iter().position(|byte| {
                match byte {
                    b'[' => depth += 1,
                    b']' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                *byte == b'>' && depth == 0
            })?;
            Some((Markup::Aside, end + 1))
        }
        b'?' => until(Markup::Aside, 2, b"?>"),
        b'/' => Some((Markup::End, memchr::memchr(b'>', bytes)? + 1)),
        _ => {
            // Not even an attribute may have it.
            let next = bytes.get(1..)?.iter().position(|byte| *byte == b'<').map(|at| at + 1);
            let mut quote = None;
            let end = bytes.iter().position(|byte| match quote {
                Some(mark) => {
                    if *byte == mark {
                        quote = None;
                    }
                    false
                }
                None => {
                    if matches!(byte, b'"' | b'\'') {
                        quote = Some(*byte);
                    }
                    *byte == b'>'
                }
            });
            if next.is_some_and(|next| end.is_none_or(|end| next < end)) {
                return Some((Markup::Bad, 1));
            }
            let end = end?;
            let empty = end > 0 && bytes.get(end - 1) == Some(&b'/');
            Some((if empty { Markup::Empty } else { Markup::Start }, end + 1))
        }
    }
}

/// The name in a tag.
fn tag_name(tag: &[u8]) -> &[u8] {
    let name = tag.strip_prefix(b"</").or_else(|| tag.strip_prefix(b"<")).unwrap_or(tag);
    let end = name.iter().position(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'/' | b'>')).unwrap_or(name.len());
    name.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found when the text comes in pieces of `size` bytes.
    fn split(text: &str, size: usize, limit: usize) -> Vec<String> {
        let mut splitter = Splitter::new("r", false, limit);
        let mut pieces = text.as_bytes().chunks(size);
        let mut found = Vec::new();
        loop {
            match splitter.find() {
                Found::Row { start, end, position } => {
                    let row = String::from_utf8_lossy(splitter.bytes(start, end)).into_owned();
                    assert!(text[usize::try_from(position).unwrap()..].starts_with(&row));
                    found.push(row);
                }
                Found::Broken { .. } => found.push("broken".to_owned()),
                Found::TooLarge { position, length } => found.push(format!("too large: {position} {length}")),
                Found::Incomplete => match pieces.next() {
                    Some(piece) => splitter.space().extend_from_slice(piece),
                    None => splitter.finish(),
                },
                Found::End => return found,
            }
        }
    }

    #[test]
    fn rows_are_found_in_any_pieces() {
        let cases: &[(&str, &[&str])] = &[
            ("<all><r a='1'><k>x</k></r> <r/>\n<rr/><r b=\"/>\">t</r ></all>", &["<r a='1'><k>x</k></r>", "<r/>", "<r b=\"/>\">t</r >"]),
            ("\u{feff}<?xml version='1.0'?><!-- <r/> --><!DOCTYPE a [<!ELEMENT r ANY>]><a><![CDATA[<r/>]]><r>1</r></a>\n", &["<r>1</r>"]),
            ("<r><r><k/></r></r>", &["<r><r><k/></r></r>"]),
            ("<r><![CDATA[</r>]]><!-- </r> --></r>", &["<r><![CDATA[</r>]]><!-- </r> --></r>"]),
            ("<all/>", &[]),
            ("<a><r>1</r><r><k>1</r><r>2</r></a>", &["<r>1</r>", "broken"]),
            ("<a><r>1</r><r><k>", &["<r>1</r>", "broken"]),
            ("<r>1</r><r>2</r>", &["<r>1</r>", "broken"]),
            ("<r>1</r> text", &["<r>1</r>", "broken"]),
            ("text <r>1</r>", &["broken"]),
            ("<r>1</r><!-- end -->", &["<r>1</r>"]),
            ("<a><r/><b c='<r>'/></a>", &["<r/>", "broken"]),
            ("<r", &["broken"]),
            ("", &["broken"]),
        ];
        for (text, rows) in cases {
            for size in [1, 2, 3, 7, 1000] {
                assert_eq!(split(text, size, 1000), *rows, "{text} in pieces of {size}");
            }
        }
    }

    #[test]
    fn long_rows_are_skipped_in_bounded_memory() {
        let text = format!("<a><r>1</r><r>{}</r><r>3</r></a>", "x".repeat(5_000));
        for size in [10, 64, 10_000] {
            assert_eq!(split(&text, size, 100), ["<r>1</r>", "too large: 11 5007", "<r>3</r>"], "in pieces of {size}");
        }
    }
}
