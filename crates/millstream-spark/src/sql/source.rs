//! A file of SQL text: where its statements end, `${…}` put in place, and tokens that know where they were written.

use std::ops::Range;
use std::sync::Arc;

use datafusion::sql::sqlparser::tokenizer::{Location, Span};

use super::diagnostic::{Diagnostic, Position};
use super::fragment::Tokens;
use super::parse::lex;
use super::variables::Variables;

/// A named text.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The name in messages, as the user wrote it.
    pub name: Arc<str>,
    /// The text.
    pub text: Arc<str>,
}

/// What a stretch of text is to the lexer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Code,
    Quoted,
    Comment,
    Semicolon,
}

impl SourceFile {
    /// A text with its name.
    pub fn new(name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        SourceFile { name: name.into(), text: text.into() }
    }

    /// The place of a span of a token of this file.
    pub(crate) fn position(&self, location: Location) -> Position {
        Position { file: self.name.clone(), line: location.line, column: location.column }
    }

    /// The stretches of text between semicolons that contain more than blanks and comments.
    pub(crate) fn statements(&self) -> Vec<Range<usize>> {
        let mut statements = Vec::new();
        let (mut start, mut empty) = (0, true);
        for (piece, range) in pieces(&self.text) {
            match piece {
                Piece::Semicolon => {
                    if !empty {
                        statements.push(start..range.start);
                    }
                    (start, empty) = (range.end, true);
                }
                Piece::Comment => {}
                Piece::Code | Piece::Quoted => {
                    empty &= self.text.get(range).is_none_or(|text| text.trim().is_empty());
                }
            }
        }
        if !empty {
            statements.push(start..self.text.len());
        }
        statements
    }

    /// The tokens of a stretch of text, `${…}` replaced.
    pub(crate) fn tokens(&self, range: Range<usize>, variables: &Variables) -> Result<Tokens, Diagnostic> {
        let substituted = self.substitute(range, variables)?;
        let mut place = Places::new(&substituted, &self.text);
        let lexed = lex(self, &substituted.text).map_err(|fault| {
            let at = Location::new(fault.position.line, fault.position.column);
            Diagnostic { position: self.position(place.of(at)), ..fault }
        });
        let mut lexed = lexed?;
        for token in &mut lexed.tokens {
            token.span = Span::new(place.of(token.span.start), place.of(token.span.end));
        }
        Ok(Tokens { tokens: lexed.tokens, ranges: lexed.ranges, text: substituted.text })
    }

    fn substitute(&self, range: Range<usize>, variables: &Variables) -> Result<Substituted, Diagnostic> {
        let text = self.text.get(range.clone()).unwrap_or_default();
        let mut out = Substituted::default();
        for (piece, piece_range) in pieces(text) {
            let at = range.start + piece_range.start;
            let piece_text = text.get(piece_range).unwrap_or_default();
            match piece {
                // A comment may show an example of a variable that nobody sets.
                Piece::Comment | Piece::Semicolon => out.verbatim(piece_text, at),
                Piece::Code | Piece::Quoted => self.expand(piece_text, at, variables, &mut out)?,
            }
        }
        Ok(out)
    }

    fn expand(&self, mut text: &str, mut at: usize, variables: &Variables, out: &mut Substituted) -> Result<(), Diagnostic> {
        while let Some(start) = text.find("${") {
            let position = || self.position(location_of(&self.text, at + start));
            let Some(end) = text[start..].find('}').map(|end| start + end) else {
                return Err(Diagnostic::syntax(position(), "'${' without a closing '}'"));
            };
            out.verbatim(&text[..start], at);
            let value = variables
                .expand(&text[start + 2..end])
                .map_err(|(message, hint)| Diagnostic::new("UNDEFINED_VARIABLE", "42704", position(), message).with_hint(hint))?;
            out.replacement(&value, at + start);
            at += end + 1;
            text = &text[end + 1..];
        }
        out.verbatim(text, at);
        Ok(())
    }
}

/// Text with replacements, and where each stretch of it came from.
#[derive(Debug, Default)]
struct Substituted {
    text: String,
    stretches: Vec<Stretch>,
}

#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// Where it begins in the new text.
    output: usize,
    /// Where it began in the file.
    input: usize,
    /// Copied, so that the distance from the beginning is the same on both sides.
    verbatim: bool,
}

impl Substituted {
    fn verbatim(&mut self, text: &str, input: usize) {
        self.push(text, input, true);
    }

    fn replacement(&mut self, text: &str, input: usize) {
        self.push(text, input, false);
    }

    fn push(&mut self, text: &str, input: usize, verbatim: bool) {
        self.stretches.push(Stretch { output: self.text.len(), input, verbatim });
        self.text.push_str(text);
    }
}

/// Turns locations of the substituted text into locations of the file. Asked in the order of the text, it walks both texts once.
struct Places<'a> {
    substituted: &'a Substituted,
    output: Walk<'a>,
    file: Walk<'a>,
    stretch: usize,
}

impl<'a> Places<'a> {
    fn new(substituted: &'a Substituted, file: &'a str) -> Self {
        Places { substituted, output: Walk::new(&substituted.text), file: Walk::new(file), stretch: 0 }
    }

    fn of(&mut self, location: Location) -> Location {
        self.output.move_to_location(location);
        let stretches = &self.substituted.stretches;
        while stretches.get(self.stretch + 1).is_some_and(|next| next.output <= self.output.offset) {
            self.stretch += 1;
        }
        let offset = match stretches.get(self.stretch) {
            Some(stretch) if stretch.verbatim => stretch.input + self.output.offset.saturating_sub(stretch.output),
            Some(stretch) => stretch.input,
            None => 0,
        };
        self.file.move_to_offset(offset);
        Location::new(self.file.line, self.file.column)
    }
}

/// A place that moves forward through a text.
struct Walk<'a> {
    text: &'a str,
    offset: usize,
    line: u64,
    column: u64,
}

impl<'a> Walk<'a> {
    fn new(text: &'a str) -> Self {
        Walk { text, offset: 0, line: 1, column: 1 }
    }

    fn step(&mut self) -> bool {
        let Some(next) = self.text[self.offset..].chars().next() else { return false };
        self.offset += next.len_utf8();
        if next == '\n' {
            (self.line, self.column) = (self.line + 1, 1);
        } else {
            self.column += 1;
        }
        true
    }

    fn move_to_offset(&mut self, offset: usize) {
        while self.offset < offset && self.step() {}
    }

    fn move_to_location(&mut self, location: Location) {
        while (self.line, self.column) < (location.line, location.column) && self.step() {}
    }
}

fn location_of(text: &str, offset: usize) -> Location {
    let mut walk = Walk::new(text);
    walk.move_to_offset(offset);
    Location::new(walk.line, walk.column)
}

/// Cuts a text into pieces by Spark's lexical rules. What is not closed reaches to the end; the tokenizer reports it.
fn pieces(text: &str) -> Vec<(Piece, Range<usize>)> {
    let bytes = text.as_bytes();
    let at = |i: usize| bytes.get(i).copied().unwrap_or(0);
    let mut pieces = Vec::new();
    let (mut start, mut i) = (0, 0);
    while i < bytes.len() {
        let word_before = i > 0 && (at(i - 1).is_ascii_alphanumeric() || at(i - 1) == b'_');
        let (piece, end) = match at(i) {
            b'-' if at(i + 1) == b'-' => (Piece::Comment, bytes[i..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |n| i + n)),
            b'/' if at(i + 1) == b'*' => (Piece::Comment, comment_end(bytes, i)),
            b';' => (Piece::Semicolon, i + 1),
            b'`' => (Piece::Quoted, bytes[i + 1..].iter().position(|byte| *byte == b'`').map_or(bytes.len(), |n| i + n + 2)),
            quote @ (b'\'' | b'"') => (Piece::Quoted, string_end(bytes, i, quote)),
            b'r' | b'R' if !word_before && matches!(at(i + 1), b'\'' | b'"') => {
                let quote = at(i + 1);
                (Piece::Quoted, bytes[i + 2..].iter().position(|byte| *byte == quote).map_or(bytes.len(), |n| i + n + 3))
            }
            _ => {
                i += 1;
                continue;
            }
        };
        if start < i {
            pieces.push((Piece::Code, start..i));
        }
        pieces.push((piece, i..end));
        (start, i) = (end, end);
    }
    if start < bytes.len() {
        pieces.push((Piece::Code, start..bytes.len()));
    }
    pieces
}

fn string_end(bytes: &[u8], start: usize, quote: u8) -> usize {
    let mut i = start + 1;
    while let Some(byte) = bytes.get(i) {
        match *byte {
            b'\\' => i += 2,
            byte if byte == quote => return i + 1,
            _ => i += 1,
        }
    }
    bytes.len()
}

/// Bracketed comments nest.
fn comment_end(bytes: &[u8], start: usize) -> usize {
    let (mut i, mut depth) = (start, 0_usize);
    while i < bytes.len() {
        match (bytes[i], bytes.get(i + 1)) {
            (b'/', Some(b'*')) => (i, depth) = (i + 2, depth + 1),
            (b'*', Some(b'/')) => {
                (i, depth) = (i + 2, depth - 1);
                if depth == 0 {
                    return i;
                }
            }
            _ => i += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::tokenizer::Token;

    use super::*;

    fn texts(text: &str) -> Vec<String> {
        let file = SourceFile::new("f.sql", text);
        file.statements().into_iter().map(|range| file.text[range].trim().to_owned()).collect()
    }

    #[test]
    fn statements_end_at_semicolons_outside_of_strings_names_and_comments() {
        for (text, expected) in [
            ("", vec![]),
            ("-- nothing; yet", vec![]),
            (";; /* a; /* b; */ c */ ;", vec![]),
            ("A 'x;y' ; B", vec!["A 'x;y'", "B"]),
            (r#"A 'x\';y' "p;q\"" ; B"#, vec![r#"A 'x\';y' "p;q\"""#, "B"]),
            (r"A r'\';B", vec![r"A r'\'", "B"]),
            ("A `n;m` -- c;\n; B /* ; */", vec!["A `n;m` -- c;", "B /* ; */"]),
            ("A 'open; B", vec!["A 'open; B"]),
        ] {
            assert_eq!(texts(text), expected, "{text}");
        }
    }

    fn tokens(text: &str, variables: &Variables) -> Result<Vec<(String, u64, u64)>, Diagnostic> {
        let file = SourceFile::new("f.sql", text);
        let tokens = file.tokens(0..text.len(), variables)?.tokens;
        Ok(tokens.into_iter().map(|token| (token.token.to_string(), token.span.start.line, token.span.start.column)).collect())
    }

    #[test]
    fn tokens_keep_their_place_through_replacements() {
        let variables: Variables = [("t", "long\nname + x"), ("v", "it")].into_iter().collect();
        let found = tokens("-- ${unset}\nA ${t} 'é${v}' B\nC", &variables).unwrap();
        let expected = [("A", 2, 1), ("long", 2, 3), ("name", 2, 3), ("+", 2, 3), ("x", 2, 3), ("'éit'", 2, 8), ("B", 2, 16), ("C", 3, 1)];
        assert_eq!(found, expected.map(|(token, line, column)| (token.to_owned(), line, column)));
    }

    #[test]
    fn raw_strings_keep_their_backslashes() {
        let file = SourceFile::new("f.sql", r"x RLIKE r'\d+\.' y");
        let tokens = file.tokens(0..file.text.len(), &Variables::new()).unwrap().tokens;
        assert_eq!(tokens[2].token, Token::SingleQuotedString(r"\d+\.".to_owned()));
        assert_eq!(tokens[3].span.start.column, 18);
    }

    #[test]
    fn faults_name_their_place() {
        for (text, expected) in [
            (
                "A\n  ${none}",
                "f.sql:2:3: variable 'none' has no value (pass --var none=… or write SET none = …; before (Spark would put nothing in its place))",
            ),
            ("A ${none", "f.sql:1:3: '${' without a closing '}'"),
            ("A\n 'open", "f.sql:2:2: the string that begins here has no closing '"),
            ("A `open", "f.sql:1:3: the name that begins here has no closing `"),
        ] {
            assert_eq!(tokens(text, &Variables::new()).unwrap_err().to_string(), expected);
        }
    }
}
